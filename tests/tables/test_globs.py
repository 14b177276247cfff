"""Patterns name the files that pathlib names by them."""

import pytest
from pyarrow import fs

from fairpca.tables._files import _match

FILES = ("a/x1.csv", "a/b/x2.csv", "a/b/c/x3.csv", "a/b/c/y4.csv", "d/x5.csv", "x6.csv", "a/z.pq")
PATTERNS = (
    "*.csv", "*/*.csv", "**/*.csv", "a/**/*.csv", "a/*/x?.csv", "a/**/c/*.csv", "a/b/[xy]*.csv",
    "**/b/*.csv", "**/c/y*.csv", "*/b/**/x3.csv", "a/x[1-2].csv", "e/*.csv",
)  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_names_what_pathlib_names(pattern, tmp_path):
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    _, files = _match(fs.LocalFileSystem(), f"{tmp_path.as_posix()}/{pattern}")
    assert sorted(files) == sorted(path.as_posix() for path in tmp_path.glob(pattern))
