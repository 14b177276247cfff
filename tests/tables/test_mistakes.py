"""What could silently go wrong: names that collide, files that do not fit, targets that matter."""

import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from table_support import FEATURES, by_engine, in_memory, transform_files, write_files

from fairpca.exceptions import InvalidInputError
from fairpca.tables import (
    moments_from_dask,
    moments_from_files,
)


def test_an_indicator_called_like_another_feature_is_refused(tmp_path):
    half = np.arange(300) < 150
    colliding = pd.DataFrame(
        {
            "a": np.arange(300.0),
            "c": np.where(half, "b=x", "y"),
            "c=b": np.where(half, "z", "x"),
            "g": np.arange(300) % 2,
        }
    )
    colliding.to_parquet(tmp_path / "x.parquet", row_group_size=40)
    with pytest.raises(InvalidInputError, match="two features the name 'c=b=x'"):
        moments_from_files(tmp_path, "g", categorical=["c", "c=b"])


def test_a_file_under_two_names_counts_once(tmp_path, frame, monkeypatch):
    write_files(frame, tmp_path / "in", [500])
    monkeypatch.chdir(tmp_path)
    twice = ["in/part-00.parquet", str(tmp_path / "in" / "part-00.parquet")]
    for names in (twice, ["in/part-00.parquet", "in/../in/part-00.parquet"]):
        with pytest.raises(InvalidInputError, match="named more than once"):
            moments_from_files(names, "sex", FEATURES)
    with pytest.raises(InvalidInputError, match="source=None"):
        moments_from_files(None, "sex")


def test_inputs_of_one_name_are_not_written_over_each_other(tmp_path, frame, fair):
    for folder in ("one", "two"):
        write_files(frame, tmp_path / folder, [500])
    with pytest.raises(InvalidInputError, match=r"several inputs are called 'part-00\.parquet'"):
        transform_files(fair, [tmp_path / "one", tmp_path / "two"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_directory_of_one_file_stays_a_directory(tmp_path, frame, fair):
    write_files(frame, tmp_path / "in", [500])
    transform_files(fair, tmp_path / "in", tmp_path / "out")
    assert (tmp_path / "out" / "part-00.parquet").is_file()
    transform_files(fair, tmp_path / "in" / "part-00.parquet", tmp_path / "out.parquet")
    assert (tmp_path / "out.parquet").is_file()


def test_what_is_not_ours_is_not_replaced(tmp_path, frame, fair):
    write_files(frame, tmp_path / "in", [250, 250])
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "important.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for source, target, message in (
        ("in", "mine", r"holds 'important\.txt'"),
        ("in/part-00.parquet", "mine", "the suffix decides the format"),
        ("in", "file", "is a file, not a directory"),
        ("in", "in/out", "lies inside the input"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            transform_files(fair, tmp_path / source, tmp_path / target, force=True)
    assert (mine / "important.txt").read_text() == (tmp_path / "file").read_text() == "mine"


def test_the_input_is_recognised_however_it_is_written(tmp_path, frame, fair, monkeypatch):
    write_files(frame, tmp_path / "in", [500])
    monkeypatch.chdir(tmp_path)
    os.symlink("in", "link")
    for target in (tmp_path / "in" / "part-00.parquet", "link/part-00.parquet"):
        with pytest.raises(InvalidInputError, match="is or holds the input"):
            transform_files(fair, "in/part-00.parquet", target, force=True)


def test_a_failed_move_keeps_the_old_target(tmp_path, frame, fair, monkeypatch):
    write_files(frame, tmp_path / "in", [250, 250])
    transform_files(fair, tmp_path / "in", tmp_path / "out")
    before = (tmp_path / "out" / "part-00.parquet").read_bytes()

    class Full:
        """A local disk on which nothing finished can be moved."""

        def __init__(self):
            from pyarrow import fs

            self.real = fs.LocalFileSystem()

        def __getattr__(self, name):
            return getattr(self.real, name)

        def move(self, source, target):
            if source.endswith(".part") and target.endswith("out"):
                if getattr(self, "failed", False):
                    return self.real.move(source, target)
                self.failed = True
                raise OSError("disk full")
            return self.real.move(source, target)

    from fairpca.tables import project as _transform

    full = Full()
    real = _transform.open_filesystem
    monkeypatch.setattr(_transform, "open_filesystem", lambda *a: (full, real(*a)[1]))
    with pytest.raises(OSError, match="disk full"):
        transform_files(fair, tmp_path / "in", tmp_path / "out", force=True)
    assert (tmp_path / "out" / "part-00.parquet").read_bytes() == before
    assert sorted(item.name for item in tmp_path.iterdir()) == ["in", "out"]


def test_columns_are_copied_once_and_csv_files_become_no_directory(tmp_path, frame, fair):
    write_files(frame, tmp_path / "in", [500])
    transform_files(fair, tmp_path / "in", tmp_path / "out", keep=["age", "age"])
    assert list(pd.read_parquet(tmp_path / "out")) == ["age", "fairpca0", "fairpca1"]
    frame.to_csv(tmp_path / "x.csv", index=False)
    with pytest.raises(InvalidInputError, match="the suffix decides the format"):
        transform_files(fair, tmp_path / "x.csv", tmp_path / "new")


def test_lists_are_no_groups(tmp_path):
    table = pa.table({"a": [1.0, 2.0], "g": ["x", "y"], "tags": [["p"], ["q", "r"]]})
    pq.write_table(table, tmp_path / "x.parquet")
    for part in ({"sensitive": "tags"}, {"sensitive": "g", "categorical": ["tags"]}):
        with pytest.raises(InvalidInputError, match="column 'tags' is list"):
            moments_from_files(tmp_path, features=["a"], **part)
    with pytest.raises(InvalidInputError, match=r"weight=\['a'\]: give the name of one column"):
        moments_from_files(tmp_path, "g", weight=["a"])


def test_a_csv_file_that_lacks_a_column_is_named(tmp_path, frame):
    frame.to_csv(tmp_path / "one.csv", index=False)
    frame.drop(columns="b").to_csv(tmp_path / "two.csv", index=False)
    with pytest.raises(InvalidInputError, match=r"two\.csv: column 'b' is missing"):
        moments_from_files(tmp_path, "sex", FEATURES)


class TestDask:
    dd = pytest.importorskip("dask.dataframe")

    def test_columns_may_be_numbers(self, frame):
        numbered = frame[[*FEATURES, "race"]].set_axis(range(5), axis=1)
        table = self.dd.from_pandas(numbered, npartitions=3)
        expected = in_memory(frame, ["race"])
        for sensitive in ([4], 4, "4"):
            found = moments_from_dask(table, sensitive)
            assert found.feature_names == ("0", "1", "2", "3")
            assert found.n_samples == expected.n_samples

    @pytest.mark.parametrize("fault", ["no column", "another type"])
    def test_the_parquet_file_that_does_not_fit_is_named(self, tmp_path, frame, fault):
        write_files(frame, tmp_path, [250, 250])
        bad = frame.drop(columns="b") if fault == "no column" else frame.assign(b="x")
        bad[250:].to_parquet(tmp_path / "part-01.parquet")
        with pytest.raises(InvalidInputError, match=r"part-01\.parquet: column 'b' is"):
            by_engine("dask", tmp_path, "sex", features=FEATURES)

    def test_the_csv_file_that_lacks_a_column_is_named(self, tmp_path, frame):
        frame.to_csv(tmp_path / "one.csv", index=False)
        frame.drop(columns="b").to_csv(tmp_path / "two.csv", index=False)
        with pytest.raises(InvalidInputError, match=r"two\.csv: column 'b' is missing"):
            by_engine("dask", tmp_path, "sex", features=FEATURES)
        found = by_engine("dask", tmp_path, "sex", features=["a", "c"])
        assert found.n_samples == 1000  # a column that nobody asked for may be missing

    def test_what_the_engine_says_is_one_line(self, tmp_path, frame):
        frame.to_csv(tmp_path / "one.csv", index=False)
        frame.assign(b="text").to_csv(tmp_path / "two.csv", index=False)
        messages = []
        for engine in ("dask", "local"):  # which name the file and the value in the same words
            with pytest.raises(InvalidInputError, match=r"two\.csv: .*invalid value 'text'") as e:
                by_engine(engine, tmp_path, "sex", features=FEATURES)
            messages.append(str(e.value))
        assert messages[0] == messages[1]
        assert "\n" not in messages[0]

    def test_what_nobody_expected_is_one_line(self, tmp_path, frame, monkeypatch):
        def fail(*_):
            raise KeyError("a\nb")

        frame.to_csv(tmp_path / "one.csv", index=False)
        monkeypatch.setattr("fairpca.tables.dask.merge_tree", fail)
        with pytest.raises(InvalidInputError, match=r"the dask engine failed.*--engine") as e:
            by_engine("dask", tmp_path, "sex", features=FEATURES)
        assert "\n" not in str(e.value)
