"""CSV streams, and one call for any engine."""

import builtins
import gzip
import sys

import numpy as np
import pytest
from table_support import FEATURES, assert_same_moments, by_engine, in_memory, people

from fairpca.exceptions import DroppedRowsWarning, InvalidInputError
from fairpca.tables import moments_from_files


def write_csv(frame, folder, sizes=(120, 180), **options):
    folder.mkdir(exist_ok=True)
    start = 0
    for number, size in enumerate(sizes):
        frame.iloc[start : start + size].to_csv(folder / f"x{number}.csv", index=False, **options)
        start += size
    return folder


@pytest.mark.parametrize("mean", [0.0, 1e6])
def test_csv_equals_memory(tmp_path, mean, monkeypatch):
    monkeypatch.setattr("fairpca.tables._files.BLOCK_BYTES", 4096)
    frame = people(300, mean=mean)
    write_csv(frame, tmp_path / "t")
    found = moments_from_files(
        tmp_path / "t", ["sex", "race", "age"], FEATURES, control="city", weight="w"
    )
    assert_same_moments(found, in_memory(frame, ["sex", "race", "age"], ["city"], "w"))


def test_csv_packed_and_with_another_separator(tmp_path):
    frame = people(300)
    with gzip.open(tmp_path / "x.csv.gz", "wt") as file:
        frame.to_csv(file, index=False, sep=";")
    found = moments_from_files(tmp_path / "x.csv.gz", "sex", FEATURES, separator=";")
    assert_same_moments(found, in_memory(frame, ["sex"]))


def test_whole_numbers_at_the_start_do_not_decide_a_feature(tmp_path, monkeypatch):
    monkeypatch.setattr("fairpca.tables._files.BLOCK_BYTES", 2048)
    frame = people(300)
    frame.loc[:200, "a"] = 1.0
    columns = ["sex", *FEATURES]
    text = frame[columns].to_csv(index=False).replace(",1.0,", ",1,")
    assert text.splitlines()[200].split(",")[1] == "1"
    (tmp_path / "x.csv").write_text(text)
    found = moments_from_files(tmp_path / "x.csv", "sex", FEATURES)
    assert_same_moments(found, in_memory(frame, ["sex"]))


def test_csv_types_that_mislead_are_said(tmp_path, monkeypatch):
    monkeypatch.setattr("fairpca.tables._files.BLOCK_BYTES", 2048)
    frame = people(300)
    frame["zip"] = ["17"] * 299 + ["17a"]
    write_csv(frame, tmp_path, [300])
    with pytest.raises(InvalidInputError, match=r"x0\.csv: .*conversion error to int64.*types"):
        moments_from_files(tmp_path, "zip", FEATURES)
    found = moments_from_files(tmp_path, "zip", FEATURES, types={"zip": "string"})
    assert found.levels("zip") == ("17", "17a")


def test_csv_faults_name_the_file(tmp_path):
    frame = people(300)
    folder = write_csv(frame, tmp_path / "t", [150, 150])
    frame.iloc[:10].drop(columns="b").to_csv(folder / "x2.csv", index=False)
    with pytest.raises(InvalidInputError, match=r"x2\.csv: .*'b'"):
        moments_from_files(folder, "sex", FEATURES)
    (folder / "x2.csv").write_text("")
    with pytest.raises(InvalidInputError, match=r"x2\.csv: the file cannot be read"):
        moments_from_files(folder, "sex", FEATURES)
    (folder / "x2.csv").write_text(",".join(frame.columns) + "\n1,2\n")
    with pytest.raises(InvalidInputError, match=r"x2\.csv: "):
        moments_from_files(folder, "sex", FEATURES)


def test_csv_holes_are_counted_over_all_files(tmp_path):
    frame = people(300)
    frame.loc[[5, 200], "a"] = np.nan
    frame.loc[[6], "sex"] = None
    write_csv(frame, tmp_path)
    with pytest.raises(InvalidInputError, match=r"3 of 300 rows .*'a' 2, 'sex' 1"):
        moments_from_files(tmp_path, "sex", FEATURES)
    with pytest.warns(DroppedRowsWarning, match="3 of 300 rows"):
        found = moments_from_files(tmp_path, "sex", FEATURES, missing="drop-rows")
    assert_same_moments(found, in_memory(frame.dropna(), ["sex"]))


@pytest.mark.parametrize("engine", ["local", "dask"])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files_by_any_engine(tmp_path, engine, kind):
    if engine == "dask":
        pytest.importorskip("dask.dataframe", reason="dask is not installed")
    frame = people(300)
    if kind == "csv":
        write_csv(frame, tmp_path)
        source = [tmp_path / "x0.csv", tmp_path / "x1.csv"]
    else:
        frame.to_parquet(tmp_path / "x.parquet", row_group_size=50)
        source = tmp_path / "x.parquet"
    found = by_engine(engine, source, ["sex", "race"], FEATURES, control="city", weight="w")
    assert_same_moments(found, in_memory(frame, ["sex", "race"], ["city"], "w"))


def test_a_scheduler_address(tmp_path):
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    frame = people(200)
    frame.to_parquet(tmp_path / "x.parquet")
    with distributed.LocalCluster(
        n_workers=1, processes=False, protocol="tcp://", dashboard_address=":0"
    ) as cluster:
        address = cluster.scheduler_address
        found = by_engine("dask", tmp_path / "x.parquet", "sex", FEATURES, address=address)
    assert_same_moments(found, in_memory(frame, ["sex"]))


def test_files_of_two_kinds_and_tables_that_are_no_files(tmp_path):
    frame = people(100)
    frame.to_parquet(tmp_path / "x.parquet")
    write_csv(frame, tmp_path, [100])
    with pytest.raises(InvalidInputError, match="give files of one kind"):
        moments_from_files(tmp_path, "sex")
    with pytest.raises(InvalidInputError, match="reads files only"):
        by_engine("dask", frame, "sex", FEATURES)


@pytest.mark.parametrize(("engine", "module"), [("dask", "dask"), ("spark", "pyspark")])
def test_an_engine_that_is_not_installed_is_said(tmp_path, monkeypatch, engine, module):
    people(50).to_parquet(tmp_path / "x.parquet")
    real = builtins.__import__

    def absent(name, *args, **kwargs):
        if name.split(".")[0] == module:
            raise ImportError(name)
        return real(name, *args, **kwargs)

    for name in [name for name in sys.modules if name.split(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(InvalidInputError, match=rf"pip install 'fairpca\[{engine}\]'"):
        by_engine(engine, tmp_path / "x.parquet", "sex", FEATURES)
