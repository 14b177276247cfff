"""A file becomes a data frame, or one line that says why it cannot."""

from __future__ import annotations

import csv
import gzip
import importlib.util
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import click
import pandas as pd

from fairpca.datasets import load_diabetes_sex

CSV_SUFFIXES = (".csv", ".csv.gz")
PARQUET_SUFFIXES = (".parquet",)


@dataclass(frozen=True, eq=False)
class Source:
    """A table and where it came from.

    Parameters
    ----------
    frame : pandas.DataFrame
        The table; column names are text.
    name : str
        File name, or the name of the embedded data.
    description : str
        What to print above the results.
    """

    frame: Any
    name: str
    description: str


def kind_of(path: Path) -> str:
    """Tell ``csv`` from ``parquet`` by the name of a file.

    Parameters
    ----------
    path : Path
        The file, which need not exist.

    Returns
    -------
    str
        ``"csv"`` or ``"parquet"``.
    """
    name = path.name.lower()
    if name.endswith(CSV_SUFFIXES):
        return "csv"
    if name.endswith(PARQUET_SUFFIXES):
        if importlib.util.find_spec("pyarrow") is None:
            raise click.ClickException(
                f"{path}: parquet files need pyarrow: pip install 'fairpca[arrow]'"
            )
        return "parquet"
    known = ", ".join(CSV_SUFFIXES + PARQUET_SUFFIXES)
    raise click.ClickException(f"{path}: the kind of file is told by its name: use one of {known}.")


def read_embedded() -> Source:
    """Return the data of the demonstration.

    Returns
    -------
    Source
        scikit-learn's diabetes data with the column ``sex``.
    """
    data = load_diabetes_sex()
    frame = pd.DataFrame(data.X, columns=list(data.feature_names))
    frame[data.sensitive_name] = data.sensitive
    frame[data.target_name] = data.target
    return Source(frame, "diabetes (embedded)", data.description)


def read_table(path: Path, separator: str = ",") -> Source:
    """Read a CSV or parquet file.

    Parameters
    ----------
    path : Path
        The file.
    separator : str, default ","
        Between the fields of a CSV file.

    Returns
    -------
    Source
        The table, with at least one row.
    """
    if not path.exists():
        raise click.ClickException(f"{path}: no such file.")
    if path.is_dir():
        raise click.ClickException(f"{path} is a directory, not a file.")
    kind = kind_of(path)
    try:
        frame = _read_csv(path, separator) if kind == "csv" else pd.read_parquet(path)
    except UnicodeDecodeError:
        raise click.ClickException(f"{path} is not UTF-8 text: convert it first.") from None
    # pandas, pyarrow, zlib and gzip each have their own; all mean that the file is not readable.
    except (ValueError, OSError, EOFError, pd.errors.ParserWarning) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise click.ClickException(f"{path} cannot be read: {reason}") from None
    frame.columns = [str(name) for name in frame.columns]
    _check_names(path, list(frame.columns))
    if not len(frame):
        raise click.ClickException(f"{path} has a header but no rows.")
    return Source(frame, path.name, str(path))


def _read_csv(path: Path, separator: str) -> Any:
    with _open(path) as file:
        # pandas renames a repeated column to "a.1" in silence, so the header is read first.
        header = next(csv.reader(file, delimiter=separator), [])
    _check_names(path, header)
    with warnings.catch_warnings():
        # With a field too many pandas would drop it, or take the first column for row names.
        warnings.simplefilter("error", pd.errors.ParserWarning)
        return pd.read_csv(
            path, sep=separator, index_col=False, low_memory=False, encoding="utf-8-sig"
        )


def _open(path: Path) -> IO[str]:
    if path.name.lower().endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _check_names(path: Path, names: list[str]) -> None:
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise click.ClickException(
            f"{path}: column names occur more than once: {', '.join(map(repr, repeated))}. "
            "Rename them."
        )
