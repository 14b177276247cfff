"""What an audit may do: its options, and how many rows and permutations its budget allows.

Costs are known beforehand up to the speed of the machine, so what is cut depends on the table and
the budget only, and results are the same everywhere. A third of the budget is planned with: a
machine three times slower than the one the costs were measured on still keeps to it.
"""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass, replace
from typing import Any

from fairpca.metrics._cross_fit import Settings
from fairpca.metrics.bounds import check_limits
from fairpca.metrics.delta import check_dimension, check_settings

_PLANNED = 1 / 3
# What each step of an audit may take of the budget, if every step is taken.
_SHARES = {"svm": 0.1, "search": 0.2, "rbf": 0.25, "cdf": 0.1, "adversaries": 0.35}
_LEAST_PERMUTATIONS = 19  # fewer cannot give p = 0.05


@dataclass(frozen=True)
class AuditOptions:
    """What an audit compares, how precisely, and how long it may take.

    Parameters
    ----------
    compare, joint, reference
        As in `delta_fairness`.
    min_group : int, default 30
        Pairs with a smaller group are listed, but are never the largest one of a result.
    budget : float, default 60
        Seconds of processor time; 0: no limit. What does not fit is done on a sample of rows, with
        fewer permutations, or not at all, and `AuditReport.cut` says so.
    n_permutations : int, default 200
        Permutations for the linear SVM and for orthants.
    slow_permutations : int, default 20
        Permutations for the linear search and the Gaussian SVM, which repeat a costly fit.
    cross_fit : bool, default True
        Whether to add values on held-out rows, where groups have at least four rows.
    orthants : {"one", "all"}, optional
        As in `delta_fairness`; "all" by default up to three components, "one" beyond.
    confidence : float, default 0.95
        Of the bounds and intervals.
    max_samples : int, default 1000
        Rows that Gaussian-kernel SVMs are trained on at most.
    random_state : int, default 0
        Seed.

    Examples
    --------
    >>> from fairpca.metrics import AuditOptions
    >>> AuditOptions(budget=10).n_permutations
    200
    """

    compare: str = "pairs"
    joint: bool = False
    reference: Any = None
    min_group: int = 30
    budget: float = 60.0
    n_permutations: int = 200
    slow_permutations: int = 20
    cross_fit: bool = True
    orthants: str | None = None
    confidence: float = 0.95
    max_samples: int = 1000
    random_state: int = 0

    def __post_init__(self) -> None:
        check_limits(min_group=self.min_group, budget=self.budget, confidence=self.confidence)
        for count in (self.n_permutations, self.slow_permutations):
            self.settings("rbf", "svm", 1, count)

    def settings(self, family: str, method: str, d: int, n_permutations: int) -> Settings:
        """Return the checked settings of a statistic."""
        shape = self.orthants or ("all" if d <= 3 else "one")
        options = (self.max_samples, self.random_state, n_permutations)
        settings = check_settings(family, method, shape, None, None, *options)
        settings = check_dimension(settings, d)
        return replace(settings, confidence=float(self.confidence), min_group=int(self.min_group))


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
    size = n_pairs * n_orthants * (d + 2)  # orthants
    return Cost(6e-10 * size, 6e-11 * size, 2)


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
        share = self.seconds * _PLANNED * _SHARES[kind]
        half = share / 2 if permutations else share
        rows = max(cost.least, _fitting(half, cost.value, cost.power))
        spent = cost.value * min(rows, n_rows) ** cost.power
        if not permutations:
            return Part(rows, sys.maxsize, 0) if spent <= share / _PLANNED else None
        null_rows = _fitting(half / permutations, cost.null, cost.power)
        if null_rows < min(cost.least, n_rows):
            null_rows = cost.least
            once = cost.null * min(null_rows, n_rows) ** cost.power
            permutations = min(permutations, max(_LEAST_PERMUTATIONS, int(half / once)))
        spent += permutations * cost.null * min(null_rows, n_rows) ** cost.power
        if spent > share / _PLANNED:
            return self.plan(kind, cost, n_rows, 0)
        return Part(rows, null_rows, permutations)


def _fitting(seconds: float, cost: float, power: int) -> int:
    """Return the rows that a time allows."""
    return int(min((seconds / cost) ** (1 / power), math.ldexp(1.0, 62)))
