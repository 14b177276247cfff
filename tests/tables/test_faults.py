"""What goes wrong with a file names it."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from table_support import FEATURES, people, write_files

from fairpca.exceptions import InvalidInputError
from fairpca.tables import moments_from_files


def damage(path, group):
    """Overwrite bytes in the middle of a row group."""
    column = pq.read_metadata(path).row_group(group).column(1)
    content = bytearray(path.read_bytes())
    start = column.data_page_offset + column.total_compressed_size // 2
    content[start : start + 40] = bytes(range(100, 140))
    path.write_bytes(content)


@pytest.fixture
def table(tmp_path):
    frame = people(900)
    return frame, write_files(
        frame, tmp_path / "table", [300, 300, 300], 50, write_page_checksum=True
    )


@pytest.mark.parametrize("threads", [1, 3])
def test_a_damaged_row_group_names_the_file(table, threads):
    _, folder = table
    damage(folder / "part-01.parquet", 2)
    with pytest.raises(InvalidInputError, match=r"part-01\.parquet: the file cannot be read"):
        moments_from_files(folder, ["sex"], FEATURES, threads=threads)


@pytest.mark.parametrize("size", [0, 3, 2000])
def test_a_truncated_file_is_named(table, size):
    _, folder = table
    path = folder / "part-02.parquet"
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(InvalidInputError, match=r"part-02\.parquet: the file cannot be read"):
        moments_from_files(folder, ["sex"], FEATURES)


def test_a_missing_column_names_the_file(table):
    frame, folder = table
    frame.iloc[:50].drop(columns="b").to_parquet(folder / "part-07.parquet")
    with pytest.raises(InvalidInputError, match=r"part-07\.parquet: column 'b' is missing, which"):
        moments_from_files(folder, ["sex"], FEATURES)
    assert moments_from_files(folder, ["sex"], ["a", "c"]).n_samples == 950


@pytest.mark.parametrize(
    ("column", "kind"), [("b", "float32"), ("race", "float64"), ("race", "str"), ("b", "str")]
)
def test_another_type_names_the_file(table, column, kind):
    frame, folder = table
    frame.iloc[:50].astype({column: kind}).to_parquet(folder / "part-07.parquet")
    with pytest.raises(InvalidInputError, match=rf"part-07\.parquet: column '{column}' is .*, but"):
        moments_from_files(folder, ["race"], FEATURES)


def test_errors_inside_a_file_name_it(table):
    frame, folder = table
    bad = frame.iloc[:50].copy()
    bad.loc[7, "c"] = np.inf
    bad.to_parquet(folder / "part-08.parquet")
    with pytest.raises(InvalidInputError, match=r"part-08\.parquet: column 'c' holds infinite"):
        moments_from_files(folder, ["sex"], FEATURES)
    bad = frame.iloc[:50].copy()
    bad.loc[7, "w"] = -1.0
    bad.to_parquet(folder / "part-08.parquet")
    with pytest.raises(InvalidInputError, match=r"part-08\.parquet: .*negative"):
        moments_from_files(folder, ["sex"], FEATURES, weight="w")


def test_a_file_that_is_not_parquet(tmp_path):
    (tmp_path / "x.parquet").write_text("a,b\n1,2\n")
    with pytest.raises(InvalidInputError, match=r"x\.parquet: the file cannot be read"):
        moments_from_files(tmp_path, ["b"])


def test_nested_columns_are_no_features(tmp_path):
    table = pa.table({"a": [1.0, 2.0], "s": [{"x": 1}, {"x": 2}], "g": ["u", "v"]})
    pq.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(InvalidInputError, match=r"not numbers: 's' \(struct"):
        moments_from_files(tmp_path, ["g"])
    assert moments_from_files(tmp_path, ["g"], ["a"]).n_samples == 2
