"""How many rows and permutations a budget of processor time allows, statistic by statistic.

Costs are known beforehand up to the speed of the machine, so what is cut depends on the table and
the budget only, and results are the same everywhere. A third of the budget is planned with: a
machine three times slower than the one the costs were measured on still keeps to it.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass

PLANNED = 1 / 3
# What each step of an audit may take of it, if all are asked for.
SHARES = {"svm": 0.1, "search": 0.2, "rbf": 0.25, "cdf": 0.1, "adversaries": 0.35}
LEAST_PERMUTATIONS = 19  # fewer cannot give p = 0.05


@dataclass(frozen=True)
class Part:
    """What is done for one step: rows measured, rows permuted, how often."""

    rows: int
    null_rows: int
    permutations: int


@dataclass(frozen=True)
class Cost:
    """Seconds of n rows: `value` · n^power to measure, `null` · n^power for a permutation."""

    value: float
    null: float
    power: int = 1
    least: int = 1000  # a sample is never smaller


def cost_of(kind: str, d: int, n_pairs: int, n_orthants: int = 1) -> Cost:
    """Return the cost of a statistic, cross-fitting included."""
    size = n_pairs * (d + 1)
    if kind == "svm":
        return Cost(5e-7 * size, 4e-8 * size)
    if kind == "search":
        return Cost(5e-5 * size, 2.5e-5 * size)
    if kind == "rbf":  # of the rows that it is trained on
        return Cost(2e-6 * n_pairs, 7e-7 * n_pairs, 2, 300)
    if kind == "cdf":
        size = n_pairs * n_orthants * (d + 2)
        return Cost(6e-10 * size, 6e-11 * size, 2)
    return Cost(3e-5 * n_pairs * (1 + d / 10), 0.0)  # an adversary


@dataclass
class Budget:
    """Seconds of processor time, and how much of them is gone; 0 seconds: no limit."""

    seconds: float

    def __post_init__(self) -> None:
        self._start = time.process_time()

    def is_spent(self) -> bool:
        """Whether nothing more should be begun."""
        return 0 < self.seconds < time.process_time() - self._start

    def plan(self, kind: str, cost: Cost, n_rows: int, permutations: int) -> Part | None:
        """Decide on rows and permutations, half of the time each; None where too little is left."""
        if not self.seconds:
            return Part(n_rows, sys.maxsize, permutations)
        share = self.seconds * PLANNED * SHARES[kind]
        half = share / 2 if permutations else share
        rows = max(cost.least, _fitting(half, cost.value, cost.power))
        spent = cost.value * min(rows, n_rows) ** cost.power
        if not permutations:
            return Part(rows, sys.maxsize, 0) if spent <= share / PLANNED else None
        null_rows = _fitting(half / permutations, cost.null, cost.power)
        if null_rows < min(cost.least, n_rows):
            null_rows = cost.least
            once = cost.null * min(null_rows, n_rows) ** cost.power
            permutations = min(permutations, max(LEAST_PERMUTATIONS, int(half / once)))
        spent += permutations * cost.null * min(null_rows, n_rows) ** cost.power
        if spent > share / PLANNED:
            return self.plan(kind, cost, n_rows, 0)
        return Part(rows, null_rows, permutations)


def cut_in_a_line(cut: Iterable[str]) -> str:
    """Name together what was cut in the same way."""
    names: dict[str, list[str]] = {}
    for text in cut:
        name, _, how = text.partition(": ")
        names.setdefault(how, []).append(name)
    return "; ".join(f"{', '.join(named)}: {how}" for how, named in names.items())


def _fitting(seconds: float, cost: float, power: int) -> int:
    """Return the rows that a time allows."""
    return int(min((seconds / cost) ** (1 / power), math.ldexp(1.0, 62)))
