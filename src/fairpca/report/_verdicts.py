"""Every printed cell of the paper beside ours, whether it agrees, and if not why."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from fairpca.experiments._experiment import Estimate, Results, printed, printed_clusters, read_csv
from fairpca.experiments._methods import DATASETS, PAPER_METHODS, definitions

KINDS = ("agrees", "known", "unknown")
VARIANCE_TOLERANCE = {"pca": 2.0, "mean": 2.0, "both": 3.0}
POINTS, DELTA = 2.0, 0.05
"""Agreement: within so many points of a share, or so much of Δ, AUC or a distance."""


@dataclass(frozen=True)
class Judged:
    """Which of our values stands beside a printed one."""

    method: str
    measure: str  # as printed
    ours: str
    d: int | None
    tolerance: float


JUDGED = {
    "table1": [
        Judged(method, measure, ours, 2, tolerance)
        for method in PAPER_METHODS
        for measure, ours, tolerance in (
            ("variance", "variance", VARIANCE_TOLERANCE[method]),
            ("linear", "linear", DELTA),
            ("gaussian", "gaussian_released", DELTA),
        )
    ],
    "table3": [
        *(Judged(method, "ks", "ks_released", 2, DELTA) for method in PAPER_METHODS),
        Judged("calmon", "ks", "ks", 3, DELTA),
    ],
    "table4": [
        Judged(method, measure, measure, None, tolerance)
        for method in (*PAPER_METHODS, "calmon")
        for measure, tolerance in (("score", DELTA), ("std", POINTS))
    ],
    "table5": [
        Judged(method, measure, measure, 2 if method in PAPER_METHODS else None, DELTA)
        for method in ("fsvm", *PAPER_METHODS, "calmon")
        for measure in ("auc", "delta")
    ],
}


@dataclass(frozen=True)
class Verdict:
    """A printed cell and ours; `cause` is empty where they agree or nothing is known."""

    table: str
    dataset: str
    method: str
    measure: str
    printed: float
    found: Estimate
    kind: str
    cause: str = ""

    @property
    def difference(self) -> float:
        return self.found.mean - self.printed


@cache
def texts() -> dict[str, Any]:
    """Everything that the page says in words."""
    source = files("fairpca.report").joinpath("reproduction.toml")
    return tomllib.loads(source.read_text(encoding="utf-8"))


def judged_definition(dataset: str) -> str:
    """Name the definition that printed values are held against."""
    return definitions(dataset)[-1]


def verdicts(present: dict[str, Path]) -> list[Verdict]:
    """Judge every printed cell that a run has computed."""
    found = [verdict for table in JUDGED if table in present for verdict in _table(table, present)]
    return found + (list(_clusters(present["table2"])) if "table2" in present else [])


def _table(table: str, present: dict[str, Path]) -> Iterator[Verdict]:
    results = Results(present[table])
    for dataset in DATASETS:
        definition = judged_definition(dataset)
        for cell in JUDGED[table]:
            found = results.get(dataset, definition, cell.method, cell.ours, cell.d)
            if found is None:
                continue
            # Two orders of the components are possible; print may be between them.
            orders = results.get(dataset, definition, cell.method, "ks_range", cell.d)
            slack = max(cell.tolerance, 2.0 * found.deviation)
            slack += 0.0 if orders is None else orders.mean
            value = printed(table)[dataset, cell.method, cell.measure]
            yield _judge(table, dataset, cell.method, cell.measure, value, found, slack)


def cluster_shares(path: Path) -> dict[tuple[str, str, int], list[float]]:
    """Shares over 40 of table 2 by description, method and rank, one for each seed."""
    shares = defaultdict(list)
    for row in read_csv(path):
        if row["measure"] == "share":
            key = (row["description"], row["method"], int(row["cluster"]))
            shares[key].append(float(row["value"]))
    return dict(shares)


def _clusters(path: Path) -> Iterator[Verdict]:
    shares = cluster_shares(path)
    for method, values in printed_clusters().items():
        for rank, value in enumerate(values, start=1):
            found = shares.get(("run_weaker", method, rank))
            if found is not None:
                estimate = Estimate.of(found, 0)
                yield _judge("table2", "nhanes", method, f"{rank}", value, estimate, POINTS)


def _judge(
    table: str, dataset: str, method: str, measure: str, value: float, found: Estimate, slack: float
) -> Verdict:
    # Print is rounded to two digits.
    if abs(found.mean - value) <= slack + 0.005:
        return Verdict(table, dataset, method, measure, value, found, "agrees")
    cause = _cause({"table": table, "dataset": dataset, "method": method, "measure": measure})
    kind = "known" if cause else "unknown"
    return Verdict(table, dataset, method, measure, value, found, kind, cause)


def _cause(where: dict[str, str]) -> str:
    """Find the first cause all of whose conditions hold."""
    for cause in texts()["causes"]:
        if all(where[key] in cause[key] for key in where if key in cause):
            return str(cause["text"])
    return ""
