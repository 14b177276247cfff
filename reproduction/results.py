"""Values of a run and those that the paper prints, whether they agree, and if not why."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas

from reproduction.datasets import UCI, definitions
from reproduction.methods import PAPER_METHODS

_HERE = Path(__file__).parent

KINDS = ("agrees", "known", "unknown")
VARIANCE_TOLERANCE = {"pca": 2.0, "mean": 2.0, "both": 3.0}
POINTS, DELTA = 2.0, 0.05
"""Agreement: within so many points of a share, or so much of Δ, AUC or a distance."""
UNREADABLE = ("ecoli", "image_segmentation")
"""Sets whose file does not give table 1 by any reading."""
_RENAMED = {"var_pct": "variance", "": "ks"}


@cache
def texts() -> dict[str, Any]:
    """Everything that the page says in words."""
    return tomllib.loads((_HERE / "page.toml").read_text(encoding="utf-8"))


@cache
def printed(table: str) -> dict[tuple[str, str, str], float]:
    """Return printed values by data set, method and measure, such as "adult", "pca", "linear"."""
    frame = pandas.read_csv(_HERE / "printed" / f"{table}.csv", index_col="dataset")
    values = {}
    for column in frame.columns:
        method, _, measure = column.partition("_")
        for dataset, value in frame[column].items():
            values[str(dataset), method, _RENAMED.get(measure, measure)] = float(value)
    return values


@cache
def printed_clusters() -> dict[str, list[float]]:
    """Return the printed shares over 40 of table 2 by method, falling."""
    frame = pandas.read_csv(_HERE / "printed" / "table2.csv", index_col="cluster").drop(index="std")
    return {
        method: sorted(frame[f"{method}_over_40_pct"].tolist(), reverse=True)
        for method in PAPER_METHODS
    }


def compared_definition(dataset: str) -> str:
    """Name the definition that is compared with printed values."""
    return definitions(dataset)[-1]


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
        frame = pandas.read_csv(path)
        keys = ["dataset", "definition", "method", "measure", "d"]
        groups = frame.groupby(keys, sort=False)["value"]
        self._values: dict[Any, list[float]] = {key: part.tolist() for key, part in groups}
        self.rows = list(dict.fromkeys((key[0], key[1]) for key in self._values))
        """Data sets with their definitions, in the order of the file."""

    def get(
        self, dataset: str, definition: str, method: str, measure: str, d: int | None = None
    ) -> Estimate | None:
        """Return an estimate; None where there is nothing. Without d any dimension counts."""
        for key, values in self._values.items():
            if key[:4] == (dataset, definition, method, measure) and d in (None, key[4]):
                return Estimate.of(values)
        return None


def cluster_shares(path: Path) -> dict[Any, list[float]]:
    """Shares over 40 of table 2 by description, method and rank, one for each seed."""
    frame = pandas.read_csv(path)
    frame = frame[frame["measure"] == "share"].astype({"cluster": int})
    groups = frame.groupby(["description", "method", "cluster"])["value"]
    return {key: part.tolist() for key, part in groups}


@dataclass(frozen=True)
class Compared:
    """Which of our values is compared with a printed one."""

    method: str
    measure: str  # as printed
    ours: str
    d: int | None
    tolerance: float


COMPARED = {
    "table1": [
        Compared(method, measure, ours, 2, tolerance)
        for method in PAPER_METHODS
        for measure, ours, tolerance in (
            ("variance", "variance", VARIANCE_TOLERANCE[method]),
            ("linear", "linear", DELTA),
            ("gaussian", "gaussian_released", DELTA),
        )
    ],
    "table3": [
        *(Compared(method, "ks", "ks_released", 2, DELTA) for method in PAPER_METHODS),
        Compared("calmon", "ks", "ks", 3, DELTA),
    ],
    "table4": [
        Compared(method, measure, measure, 3 if method == "calmon" else 2, tolerance)
        for method in (*PAPER_METHODS, "calmon")
        for measure, tolerance in (("score", DELTA), ("std", POINTS))
    ],
    "table5": [
        Compared(method, measure, measure, 2 if method in PAPER_METHODS else None, DELTA)
        for method in ("fsvm", *PAPER_METHODS, "calmon")
        for measure in ("auc", "delta")
    ],
}


@dataclass(frozen=True)
class Verdict:
    """A printed cell and ours; `cause` is empty where none predicts the sign of the difference."""

    table: str
    dataset: str
    method: str
    measure: str
    printed: float
    ours: Estimate
    kind: str
    cause: str = ""
    by_order: bool = False  # it agrees only with the range of two orders of the components

    @property
    def difference(self) -> float:
        """Ours minus printed."""
        return self.ours.mean - self.printed


def verdicts(files: dict[str, Path]) -> list[Verdict]:
    """Compare every printed cell that a run has computed."""
    tables = {table: cells for table, cells in COMPARED.items() if table in files}
    cells = [v for table, mine in tables.items() for v in _compare(table, files[table], mine)]
    return cells + (list(_clusters(files["table2"])) if "table2" in files else [])


def _compare(table: str, path: Path, cells: Sequence[Compared]) -> Iterator[Verdict]:
    results = Results(path)
    for dataset in UCI:
        definition = compared_definition(dataset)
        for cell in cells:
            ours = results.get(dataset, definition, cell.method, cell.ours, cell.d)
            if ours is None:
                continue
            # Two orders of the components are possible; print may be between them.
            orders = results.get(dataset, definition, cell.method, "ks_range", cell.d)
            slack = max(cell.tolerance, 2.0 * ours.deviation)
            value = printed(table)[dataset, cell.method, cell.measure]
            where = (table, dataset, cell.method, cell.measure)
            strict = _verdict(where, value, ours, slack)
            loose = _verdict(where, value, ours, slack + (orders.mean if orders else 0.0))
            yield replace(loose, by_order=loose.kind != strict.kind)


def agreeing(path: Path, ours: str) -> int:
    """Count cells of the paper's methods in table 4 that agree, by a measure of ours."""
    cells = [
        replace(cell, ours=ours)
        for cell in COMPARED["table4"]
        if cell.method in PAPER_METHODS and cell.measure == ours.removesuffix("_simple")
    ]
    return sum(verdict.kind == "agrees" for verdict in _compare("table4", path, cells))


def _clusters(path: Path) -> Iterator[Verdict]:
    shares = cluster_shares(path)
    for method, values in printed_clusters().items():
        for rank, value in enumerate(values, start=1):
            ours = shares.get(("run_weaker", method, rank))
            if ours is not None:
                where = ("table2", "nhanes", method, str(rank))
                yield _verdict(where, value, Estimate.of(ours, 0), POINTS)


def _verdict(
    where: tuple[str, str, str, str], value: float, ours: Estimate, slack: float
) -> Verdict:
    # Print is rounded to two digits.
    if abs(ours.mean - value) <= slack + 0.005:
        return Verdict(*where, value, ours, "agrees")
    cell = dict(zip(("table", "dataset", "method", "measure"), where, strict=True))
    cause = cause_of({**cell, "sign": "+" if ours.mean > value else "-"})
    return Verdict(*where, value, ours, "known" if cause else "unknown", cause)


def cause_of(where: dict[str, str]) -> str:
    """Return the first cause that predicts a difference of this sign in this cell, or nothing."""
    for cause in texts()["causes"]:
        if all(where[key] in cause[key] for key in where if key in cause):
            return str(cause["text"])
    return ""
