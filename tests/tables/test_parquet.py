"""Streaming Parquet files gives the moments of the same rows in memory."""

import threading

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs
from table_support import FEATURES, assert_same_moments, in_memory, people, write_files

from fairpca import FairPCA
from fairpca.exceptions import GroupsError, InvalidInputError
from fairpca.tables import moments_from_files

ASKED = {
    "one attribute": {"sensitive": ["sex"]},
    "several": {"sensitive": ["sex", "race", "age"]},
    "strata": {"sensitive": ["sex"], "control": ["city"]},
    "weights": {"sensitive": ["sex", "age"], "weight": "w"},
    "everything": {"sensitive": ["race", "age"], "control": ["city", "sex"], "weight": "w"},
    "declared": {"sensitive": ["race"], "numeric": ["race"]},
}


@pytest.mark.parametrize("mean", [0.0, 1e6])
@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_equals_memory(tmp_path, asked, mean):
    frame = people(mean=mean)
    write_files(frame, tmp_path, [500, 0, 1, 699])  # an empty file and one of a single row
    found = moments_from_files(tmp_path, features=FEATURES, **asked)
    assert_same_moments(found, in_memory(frame, **asked))


def test_an_empty_file_without_types_is_no_other_table(tmp_path):
    """pandas 2 writes a text column of no rows as null."""
    frame = people(60)
    write_files(frame, tmp_path, [60])
    empty = pa.table({name: pa.nulls(0) for name in frame.columns})
    pq.write_table(empty, tmp_path / "part-99.parquet")
    found = moments_from_files(tmp_path, ["sex"], FEATURES)
    assert_same_moments(found, in_memory(frame, ["sex"]))


@pytest.mark.parametrize("row_group_size", [1, 7, 1000])
@pytest.mark.parametrize("threads", [1, 3])
def test_row_groups_of_any_size(tmp_path, row_group_size, threads):
    frame = people(60, mean=1e6)
    write_files(frame, tmp_path, [20, 40], row_group_size)
    found = moments_from_files(
        tmp_path, ["sex", "age"], FEATURES, control="city", weight="w", threads=threads
    )
    assert_same_moments(found, in_memory(frame, ["sex", "age"], ["city"], "w"))


def test_the_result_does_not_depend_on_the_number_of_threads(tmp_path, monkeypatch):
    monkeypatch.setattr("fairpca.tables._stream.batch_rows", lambda _: 64)
    write_files(people(), tmp_path, [700, 500], 50)
    one, four = (
        moments_from_files(tmp_path, ["sex"], FEATURES, threads=threads) for threads in (1, 4)
    )
    for key, cell in one.table.cells.items():
        np.testing.assert_array_equal(cell.scatter, four.table.cells[key].scatter)


def test_a_group_that_lives_in_one_row_group_only(tmp_path):
    frame = people(900)
    frame.loc[430:440, "sex"] = "x"
    write_files(frame, tmp_path, [900], 50)
    found = moments_from_files(tmp_path, ["sex"], FEATURES)
    assert found.levels("sex") == ("f", "m", "x")
    assert_same_moments(found, in_memory(frame, ["sex"]))


def test_a_float_column_is_judged_by_all_its_values(tmp_path):
    # Binary in some row groups, constant in others, a number in one of them.
    frame = people(400)
    frame["z"] = np.r_[np.zeros(100), np.resize([0.0, 1.0], 100), np.linspace(0, 1, 200)]
    write_files(frame, tmp_path, [400], 100)
    found = moments_from_files(tmp_path, ["z"], FEATURES)
    assert found.numeric_attributes == ("z",)
    assert_same_moments(found, in_memory(frame, ["z"]))


KINDS = {
    "int": lambda n: np.arange(n) % 3,
    "bool": lambda n: np.arange(n) % 2 == 0,
    "float labels": lambda n: (np.arange(n) % 2).astype(float),
    "categories": lambda n: pd.Categorical(np.resize(["x", "y", "z"], n)),
    "dates": lambda n: pd.to_datetime(np.resize(["2020-01-01", "2021-01-01"], n)),
    "numbers": lambda n: np.sin(np.arange(n)),
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_kind_of_group_column(tmp_path, kind):
    frame = people(300)
    frame["g"] = kind(300)
    write_files(frame, tmp_path, [120, 180], 40)
    found = moments_from_files(tmp_path, ["g"], FEATURES)
    expected = in_memory(frame, ["g"])
    if frame["g"].dtype.kind == "M":  # how a date is written differs between the libraries
        assert [len(found.levels("g")), len(expected.levels("g"))] == [2, 2]
    else:
        assert_same_moments(found, expected)


@pytest.mark.parametrize("dtype", ["float32", "int16", "bool", "float64"])
def test_every_kind_of_number(tmp_path, dtype):
    frame = people(300)
    frame[FEATURES] = np.round(frame[FEATURES] * 5)
    frame["a"] = (frame["a"] > 0).astype(dtype)
    frame["b"] = frame["b"].astype("int32")
    write_files(frame, tmp_path, [300], 100)
    found = moments_from_files(tmp_path, ["sex"], FEATURES)
    assert_same_moments(found, in_memory(frame.astype(dict.fromkeys(FEATURES, float)), ["sex"]))


def test_float32_is_summed_in_float64(tmp_path):
    frame = people(2000, mean=1e3)
    frame[FEATURES] = frame[FEATURES].astype("float32")
    write_files(frame, tmp_path, [2000], 150)
    assert_same_moments(moments_from_files(tmp_path, ["sex"], FEATURES), in_memory(frame, ["sex"]))


def test_paths_globs_lists_and_directories(tmp_path):
    frame = people(300)
    folder = write_files(frame, tmp_path / "table", [100, 100, 100])
    (folder / "_SUCCESS").write_text("")
    (folder / "notes.txt").write_text("not a table")
    expected = in_memory(frame, ["sex"])
    sources = [
        folder,
        str(folder),
        f"{folder}/*.parquet",
        f"{tmp_path}/**/part-0?.parquet",
        f"{tmp_path}/tab*/part-0[012].parquet",
        sorted(folder.glob("*.parquet")),
        [folder / "part-00.parquet", f"{folder}/part-0[12].parquet"],
        folder.as_uri(),
    ]
    for source in sources:
        assert_same_moments(moments_from_files(source, ["sex"], FEATURES), expected)
    one = moments_from_files(folder / "part-01.parquet", ["sex"], FEATURES)
    assert_same_moments(one, in_memory(frame.iloc[100:200], ["sex"]))


def test_a_relative_path(tmp_path, monkeypatch):
    frame = people(100)
    write_files(frame, tmp_path / "table", [100])
    monkeypatch.chdir(tmp_path)
    for source in ("table", "table/*.parquet", "./table/part-00.parquet", "t*/*"):
        assert moments_from_files(source, ["sex"], FEATURES).n_samples == 100


def test_wrong_paths_are_named(tmp_path):
    write_files(people(50), tmp_path, [50])
    for source in (tmp_path / "absent", f"{tmp_path}/*.csv", f"{tmp_path}/no/*.parquet"):
        with pytest.raises(InvalidInputError, match="names no file"):
            moments_from_files(source, ["sex"])
    with pytest.raises(InvalidInputError, match="no files"):
        moments_from_files([], ["sex"])
    file = tmp_path / "part-00.parquet"
    with pytest.raises(InvalidInputError, match="more than once"):
        moments_from_files([file, tmp_path], ["sex"])


def test_hive_directories_are_columns(tmp_path):
    frame = people(400)
    pq.write_to_dataset(
        pa.Table.from_pandas(frame, preserve_index=False), tmp_path, ["sex", "race"]
    )
    found = moments_from_files(tmp_path, ["sex", "race"], FEATURES, control="city")
    assert_same_moments(found, in_memory(frame, ["sex", "race"], ["city"]))
    # A missing key is a missing value of its column.
    (tmp_path / "sex=f" / "race=0").rename(tmp_path / "sex=f" / "race=__HIVE_DEFAULT_PARTITION__")
    with pytest.raises(GroupsError, match="column 'race' has 69 missing values: drop those rows"):
        moments_from_files(tmp_path, ["sex", "race"], FEATURES)
    only = moments_from_files(f"{tmp_path}/sex=f/**/*.parquet", ["city"], FEATURES)
    assert_same_moments(only, in_memory(frame[frame.sex == "f"], ["city"]))


def test_other_file_systems(tmp_path):
    frame = people(200)
    write_files(frame, tmp_path / "bucket", [80, 120])
    expected = in_memory(frame, ["sex"])
    below = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    for source in ("bucket", "bucket/*.parquet", "bucket/"):
        found = moments_from_files(source, ["sex"], FEATURES, filesystem=below)
        assert_same_moments(found, expected)


def test_fsspec_file_systems():
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    frame = people(200)
    with memory.open("/fairpca-test/table/x.parquet", "wb") as file:
        frame.to_parquet(file)
    try:
        found = moments_from_files("/fairpca-test/table", ["sex"], FEATURES, filesystem=memory)
        assert_same_moments(found, in_memory(frame, ["sex"]))
    finally:
        memory.rm("/fairpca-test", recursive=True)


@pytest.mark.parametrize("writer", ["polars", "large_string", "dictionary"])
def test_files_of_other_writers(tmp_path, writer):
    frame = people(200)
    path = tmp_path / "x.parquet"
    if writer == "polars":
        pl.DataFrame(frame.to_dict("list")).write_parquet(path)
    else:
        table = pa.Table.from_pandas(frame, preserve_index=False)
        kind = {"large_string": pa.large_string(), "dictionary": pa.dictionary("int8", "string")}
        index = table.schema.get_field_index("sex")
        pq.write_table(table.set_column(index, "sex", table["sex"].cast(kind[writer])), path)
    assert_same_moments(moments_from_files(path, ["sex"], FEATURES), in_memory(frame, ["sex"]))


def test_only_the_columns_needed_are_read(tmp_path):
    frame = people(200)
    frame["junk"] = [["list"]] * 200  # could not be a feature or a group
    write_files(frame, tmp_path, [200])
    assert moments_from_files(tmp_path, ["sex"], FEATURES).n_samples == 200


def test_features_default_to_all_other_columns(tmp_path):
    frame = people(100)[[*FEATURES, "sex", "race", "w"]]
    write_files(frame, tmp_path, [100])
    found = moments_from_files(tmp_path, "sex", weight="w")
    assert found.feature_names == (*FEATURES, "race")


def test_the_index_of_pandas_is_no_feature(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2, 4, 3], "b": [0.0, 1, 0, 2], "sex": list("fmfm")})
    frame.index = [7, 5, 1, 3]
    frame.to_parquet(path := tmp_path / "t.parquet")
    assert "__index_level_0__" in pq.read_schema(path).names
    assert moments_from_files(path, "sex").feature_names == ("a", "b")


def test_progress_is_called_and_never_drawn(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("fairpca.tables._stream.batch_rows", lambda _: 100)
    write_files(people(300), tmp_path, [300], 120)
    calls = []
    moments_from_files(tmp_path, ["sex"], FEATURES, progress=lambda *x: calls.append(x))
    assert calls == [(100, 300), (200, 300), (300, 300)]
    with pytest.raises(InvalidInputError, match="progress=True: give a function"):
        moments_from_files(tmp_path, ["sex"], FEATURES, progress=True)
    assert capsys.readouterr() == ("", "")


def test_the_moments_fit_like_the_rows(tmp_path):
    frame = people()
    write_files(frame, tmp_path, [1200], 200)
    moments = moments_from_files(tmp_path, ["sex"], FEATURES)
    streamed = FairPCA(2).fit_moments(moments)
    whole = FairPCA(2).fit(frame[FEATURES], sensitive_features=frame["sex"])
    np.testing.assert_allclose(
        streamed.components_.T @ streamed.components_,
        whole.components_.T @ whole.components_,
        atol=1e-7,
    )
    rows = (frame[FEATURES] - frame[FEATURES].mean()) / frame[FEATURES].std(ddof=0)
    standard = moments.standardized().pooled()
    np.testing.assert_allclose(standard.covariance, np.cov(rows.T, bias=True), atol=1e-12)


def test_no_threads_are_left_behind(tmp_path):
    write_files(people(300), tmp_path, [300], 10)
    before = threading.active_count()
    moments_from_files(tmp_path, ["sex"], FEATURES, threads=4)
    with pytest.raises(GroupsError):
        moments_from_files(tmp_path, ["age"], FEATURES, control=["w"], threads=4)
    assert threading.active_count() == before


@pytest.mark.slow
def test_memory_does_not_grow_with_the_row_group(tmp_path):
    rng = np.random.default_rng(0)
    peaks = []
    for n in (200_000, 600_000):  # one row group of 48 and of 144 MB written out
        columns = {f"x{j}": rng.standard_normal(n) for j in range(30)}
        columns["g"] = np.arange(n) % 2
        pq.write_table(pa.table(columns), tmp_path / "x.parquet", row_group_size=n)
        del columns
        pool = pa.proxy_memory_pool(pa.system_memory_pool())
        before = pa.default_memory_pool()
        pa.set_memory_pool(pool)
        try:
            moments_from_files(tmp_path, ["g"], threads=2)
            peaks.append(pool.max_memory())
        finally:
            pa.set_memory_pool(before)
    assert peaks[1] < peaks[0] * 1.2 < 100e6
