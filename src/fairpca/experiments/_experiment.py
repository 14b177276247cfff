"""What an experiment is: cells computed one by one and kept on disk; printed values beside."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from fairpca._files import replacing
from fairpca.experiments._methods import (
    DATASETS,
    PAPER_MU,
    Split,
    definitions,
    fit_bases,
    make_split,
    representation,
)


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file so that it is either complete or not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as beside:
        beside.write_bytes(content.encode() if isinstance(content, str) else content)


class Store:
    """Results in a folder, by key; those made under another fingerprint do not count."""

    def __init__(self, folder: str | os.PathLike[str], fingerprint: str) -> None:
        self.folder = Path(folder)
        self.fingerprint = fingerprint

    def path(self, key: str) -> Path:
        """Name the file of a key."""
        return self.folder / (re.sub(r"[^\w.=-]+", "_", key) + ".json")

    def read(self, key: str) -> dict[str, Any] | None:
        """Return what was written under a key, or None."""
        try:
            found = json.loads(self.path(key).read_text(encoding="utf-8"))
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        fits = found.get("key") == key and found.get("fingerprint") == self.fingerprint
        return found if fits else None

    def write(self, key: str, **content: Any) -> None:
        """Write content under a key, at once."""
        document = {"key": key, "fingerprint": self.fingerprint, **content}
        write_atomically(self.path(key), json.dumps(document, indent=1))


def digest(value: Any) -> str:
    """Short hash of anything that JSON can hold."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def write_csv(path: Path, rows: Iterable[Mapping[str, Any]], columns: list[str]) -> None:
    """Write rows as CSV, at once; numbers to ten significant digits."""
    lines = [",".join(columns)]
    for row in rows:
        lines.append(",".join(_cell(row.get(column)) for column in columns))
    write_atomically(path, "\n".join(lines) + "\n")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = f"{value:.10g}" if isinstance(value, float) else str(value)
    return '"' + text.replace('"', '""') + '"' if any(c in text for c in ',"\n') else text


def read_csv(path: Path) -> list[dict[str, str]]:
    """Read rows of a CSV file as text."""
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


Row = dict[str, Any]

CODE_VERSION = 3
"""Raised whenever the meaning of a cell changes, so that older files do not count."""


@dataclass(frozen=True)
class Options:
    """What the numbers depend on.

    Parameters
    ----------
    splits : int, default=5
        Training-test splits of the tables.
    quick : bool, default=False
        Fewer rows for Gaussian SVMs and the adversary, fewer permutations, folds and candidates.

    Examples
    --------
    >>> from fairpca.experiments import Options
    >>> Options(quick=True).permutations
    19
    """

    splits: int = 5
    quick: bool = False

    @property
    def permutations(self) -> int:
        """Permutations behind each null of a linear SVM or a distribution function."""
        return 19 if self.quick else 99

    @property
    def kernel_rows(self) -> int:
        """Rows a Gaussian SVM is trained on at most."""
        return 400 if self.quick else 2000

    @property
    def adversary_rows(self) -> int:
        """Rows that the adversary of DeltaFairPCA sees at most."""
        return 1000 if self.quick else 20000

    @property
    def folds(self) -> int:
        """Folds by which the linear SVMs choose their penalty."""
        return 2 if self.quick else 5

    def as_dict(self) -> dict[str, Any]:
        """All options, derived ones included."""
        derived = ("permutations", "kernel_rows", "adversary_rows", "folds")
        return {**asdict(self), **{name: getattr(self, name) for name in derived}}


@dataclass(frozen=True)
class Cell:
    """One computation, whose rows are kept under its key.

    Parameters
    ----------
    experiment : str
        Name of the experiment.
    key : str
        Name of the cell, unique in the experiment.
    params : mapping
        Arguments of the computation, JSON values only.
    cost : float
        Rough cost; dear cells of a split start first.

    Examples
    --------
    >>> from fairpca.experiments import Cell
    >>> Cell("figure1", "all", {}).full_key
    'figure1-all'
    """

    experiment: str
    key: str
    params: Mapping[str, Any]
    cost: float = 1.0

    @property
    def full_key(self) -> str:
        """Key under which the result is stored."""
        return f"{self.experiment}-{self.key}"


@dataclass(frozen=True)
class Experiment:
    """A table or a figure of the paper.

    Parameters
    ----------
    name : str
        Name on the command line.
    columns : tuple of str
        Columns of its rows.
    cells : callable
        Options to cells.
    compute : callable
        Parameters of a cell, options and store to rows; pure but for the store's cache.
    datasets : tuple of str
        Data sets it needs, for the manifest.
    prepare : callable or None
        Options to cells of "bases" that should be computed before.

    Examples
    --------
    >>> from fairpca.experiments import EXPERIMENTS, Options
    >>> [cell.key for cell in EXPERIMENTS["figure1"].cells(Options())]
    ['all']
    """

    name: str
    columns: tuple[str, ...]
    cells: Callable[[Options], Sequence[Cell]]
    compute: Callable[[Mapping[str, Any], Options, Store], list[Row]]
    datasets: tuple[str, ...] = ()
    prepare: Callable[[Options], Sequence[Cell]] | None = None


def measures(values: Mapping[str, Any], **where: Any) -> list[Row]:
    """Turn named values into tidy rows; what is None is left out."""
    return [
        {**where, "measure": name, "value": float(value)}
        for name, value in values.items()
        if value is not None
    ]


COLUMNS = ("dataset", "definition", "split", "d", "method", "measure", "value")

COSTS = {
    "adult": 9.0,
    "taiwanese_credit": 7.0,
    "wine_quality": 8.0,
    "recidivism": 5.0,
    "statlog_landsat": 8.0,
    "letter_recognition": 4.0,
    "magic": 4.0,
    "steel_plates": 3.0,
}
"""Rough cost of a cell by data set, so that the dear ones start first."""


def split_table(
    name: str,
    compute: Callable[[Mapping[str, Any], Options, Store], list[Row]],
    dimensions: tuple[int, ...],
) -> Experiment:
    """Make a table with a cell for each data set, definition and split."""
    return Experiment(
        name=name,
        columns=COLUMNS,
        cells=lambda options: split_cells(name, options),
        compute=compute,
        datasets=DATASETS,
        prepare=lambda options: [c for d in dimensions for c in split_cells("bases", options, d=d)],
    )


def split_cells(experiment: str, options: Options, **more: Any) -> list[Cell]:
    """Cells of all data sets, definitions and splits."""
    return [
        Cell(
            experiment,
            "-".join(
                [dataset, definition, f"split={split}", *(f"{k}={v}" for k, v in more.items())]
            ),
            {"dataset": dataset, "definition": definition, "split": split, **more},
            COSTS.get(dataset, 1.0),
        )
        for dataset in DATASETS
        for definition in definitions(dataset)
        for split in range(options.splits)
    ]


def split_and_bases(
    dataset: str, definition: str, split: int, d: int, store: Store
) -> tuple[Split, dict[str, dict[str, Any]]]:
    """Return the rows of a split and the bases of all methods with d components."""
    rows = make_split(dataset, split, definition)
    key = f"fit-{dataset}-{definition}-split={split}-d={d}"
    found = store.read(key)
    if found is None:
        bases = fit_bases(rows.train, rows.z_train, d, mu=PAPER_MU)
        store.write(key, bases=bases)
        return rows, bases
    return rows, found["bases"]


def representations(
    params: Mapping[str, Any], dimensions: tuple[int, ...], store: Store
) -> Iterator[tuple[int, str, Split, dict[str, Any], Any]]:
    """Yield d, method, split, fit and the scaled scores of the test rows."""
    for d in dimensions:
        split, bases = split_and_bases(**params, d=d, store=store)
        for method, fit in bases.items():
            yield d, method, split, fit, representation(split.test, fit["basis"])


def _compute(params: Mapping[str, Any], options: Options, store: Store) -> list[Row]:
    """Fit all methods, for the tables to find."""
    split_and_bases(**params, store=store)
    return []


BASES = Experiment("bases", COLUMNS, lambda options: [], _compute, DATASETS)


_RENAMED = {"var_pct": "variance", "": "ks"}


@cache
def printed(table: str) -> dict[tuple[str, str, str], float]:
    """Return printed values by data set, method and measure, such as "adult", "pca", "linear"."""
    values = {}
    for row in _printed_rows(table):
        dataset = row.pop("dataset")
        for column, text in row.items():
            method, _, measure = column.partition("_")
            values[dataset, method, _RENAMED.get(measure, measure)] = float(text)
    return values


@cache
def printed_clusters() -> dict[str, list[float]]:
    """Return the printed shares over 40 of table 2 by method, falling."""
    rows = [row for row in _printed_rows("table2") if row["cluster"] != "std"]
    return {
        method: sorted((float(row[f"{method}_over_40_pct"]) for row in rows), reverse=True)
        for method in ("pca", "mean", "both")
    }


def _printed_rows(table: str) -> list[dict[str, str]]:
    source = files("fairpca.experiments").joinpath("printed", f"{table}.csv")
    return list(csv.DictReader(source.read_text(encoding="utf-8").splitlines()))


@dataclass(frozen=True)
class Estimate:
    """Mean and standard deviation over splits."""

    mean: float
    deviation: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float], ddof: int = 1) -> Estimate:
        """Estimate from the values of all splits."""
        spread = float(np.std(values, ddof=ddof)) if len(values) > 1 else 0.0
        return cls(float(np.mean(values)), spread, len(values))

    def text(self, digits: int = 2) -> str:
        """Mean with its spread."""
        spread = f" ± {self.deviation:.{digits}f}" if self.count > 1 else ""
        return f"{self.mean:.{digits}f}{spread}"


class Results:
    """Values of a table by data set, definition, components, method and measure."""

    def __init__(self, path: Path) -> None:
        values: dict[tuple[str, ...], list[float]] = defaultdict(list)
        for row in read_csv(path):
            key = (row["dataset"], row["definition"], row["d"], row["method"], row["measure"])
            values[key].append(float(row["value"]))
        self._values = dict(values)

    def get(
        self, dataset: str, definition: str, method: str, measure: str, d: int | None = None
    ) -> Estimate | None:
        """Return an estimate; None where there is nothing. Without d any dimension counts."""
        for key, values in self._values.items():
            same = key[:2] == (dataset, definition) and key[3:] == (method, measure)
            if same and (d is None or key[2] == str(d)):
                return Estimate.of(values)
        return None

    @property
    def rows(self) -> list[tuple[str, str]]:
        """Data sets with their definitions, in the order of the file."""
        return list(dict.fromkeys((key[0], key[1]) for key in self._values))
