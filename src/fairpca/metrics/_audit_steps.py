"""The steps of an audit: the cheapest first, each within its part of the budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpca._choices import ADVERSARIES, FAMILIES
from fairpca._progress import Progress
from fairpca.exceptions import AuditInterrupted, InvalidInputError
from fairpca.linalg import Array
from fairpca.metrics._adversaries import attack
from fairpca.metrics._audit_report import AuditReport, SmallGroup
from fairpca.metrics._budget import Budget, Part, cost_of
from fairpca.metrics._intervals import check_limits
from fairpca.metrics._measure import NO_DIRECTION, Settings, lacks_direction, measure
from fairpca.metrics._result import DeltaResult
from fairpca.metrics.bounds import largest_gaussian_bound
from fairpca.metrics.delta import check_dimension, check_settings
from fairpca.metrics.gaps import largest_gap, largest_mmd2, median_gamma, table_of_gaps
from fairpca.rows import Rows, Stratum
from fairpca.rows._pairs import intersection

# Family, method, and what it costs; in order of worth.
_STATISTICS = (
    ("linear", "svm", "svm"),
    ("linear", "search", "search"),
    ("rbf", "svm", "rbf"),
    ("cdf", "search", "cdf"),
)
_SCORED_ROWS = 25_000  # rows that a Gaussian-kernel SVM scores within a budget
_NEARLY_ALL = 0.9  # a larger sample saves less than it costs to explain
_MMD_ROWS = 10_000  # MMD² takes all pairs of rows

Step = Callable[[AuditReport], AuditReport]


@dataclass(frozen=True)
class Options:
    """What was asked for, under the names of `audit`."""

    families: Sequence[str]
    adversaries: Sequence[str]
    compare: str
    joint: bool
    reference: Any
    min_group: int
    budget: float
    n_permutations: int
    slow_permutations: int
    cross_fit: bool
    orthants: str | None
    confidence: float
    max_samples: int
    random_state: int

    def checked(self) -> Options:
        """Refuse what cannot be meant."""
        for name, known in (("families", FAMILIES), ("adversaries", ADVERSARIES)):
            given = getattr(self, name)
            if isinstance(given, str) or any(word not in known for word in given):
                raise InvalidInputError(
                    f"{name} must be some of {known}, not {given!r}.", parameter=name
                )
        check_limits(min_group=self.min_group, budget=self.budget, confidence=self.confidence)
        for count in (self.n_permutations, self.slow_permutations):
            self.settings("rbf", "svm", 1, count)
        return self

    def settings(self, family: str, method: str, d: int, n_permutations: int) -> Settings:
        """Return the checked settings of a statistic."""
        shape = self.orthants or ("all" if d <= 3 else "one")
        options = (self.max_samples, self.random_state, n_permutations)
        found = check_settings(family, method, shape, None, None, *options)
        found = check_dimension(found, d)
        return replace(found, confidence=float(self.confidence), min_group=int(self.min_group))

    def question(self) -> dict[str, Any]:
        """Return what faces what."""
        return {"compare": self.compare, "joint": self.joint, "reference": self.reference}


class Audit:
    """Rows, what to measure on them, and the time that is left."""

    def __init__(self, rows: Rows, options: Options) -> None:
        self._options = options
        self._budget = Budget(float(options.budget))
        self._table = table_of_gaps(rows, options.compare, options.joint, options.reference)
        self._rows = rows.binarized_at_median()
        self._strata = self._rows.pairs(**options.question(), strict=False)
        self._d = rows.X.shape[1]
        self._searched: DeltaResult | None = None

    def run(self, progress: Progress | None) -> AuditReport:
        """Take one step after the other until all are done or the budget is."""
        report = self._begin()
        steps = list(self._steps())
        try:
            for number, (name, step) in enumerate(steps, start=1):
                if self._budget.is_spent():
                    report = _cut(report, f"{name}: not measured, the budget was used up")
                else:
                    report = step(report)
                if progress is not None:
                    progress(number, len(steps))
        except KeyboardInterrupt:
            raise AuditInterrupted(report) from None
        return report

    def _begin(self) -> AuditReport:
        """Return what moments alone say."""
        options = self._options
        least = options.min_group
        large = [
            row
            for row in self._table
            if min(row["n_positive"], row["n_negative"] or row["n_positive"]) >= least
        ] or self._table
        return AuditReport(
            n_rows=len(self._rows),
            n_components=self._d,
            results=(),
            adversaries=(),
            confidence=float(options.confidence),
            mean_gap=largest_gap(large, "mean_gap"),
            cov_gap=largest_gap(large, "cov_gap"),
            mmd2=None,
            gaussian_bound=largest_gaussian_bound(_headline(self._strata, least)),
            contrasts=tuple(self._table),
            min_group=int(least),
            small_groups=tuple(_small_groups(self._rows, least, options.joint)),
            cut=(),
            options=asdict(options),
        )

    def _steps(self) -> Iterator[tuple[str, Step]]:
        """Yield names and steps, in order of worth."""
        for family, method, kind in _STATISTICS:
            is_line = self._d == 1 and kind == "search"  # a single component is exact
            if family in self._options.families and not is_line:
                yield f"{family} {method}", partial(self._measure, family, method, kind)
        for adversary in self._options.adversaries:
            yield f"adversary {adversary}", partial(self._attack, adversary)
        yield "MMD²", self._mmd2

    def _measure(self, family: str, method: str, kind: str, report: AuditReport) -> AuditReport:
        name = f"{family} {method}"
        no_direction = kind == "svm" and self._d > 1 and lacks_direction(self._strata)
        if no_direction:
            kind, method = "search", "search"
        if kind == "search" and self._searched is not None:
            return replace(report, results=(*report.results, self._searched))
        part = self._plan(kind, self._permutations(kind))
        if part is None:
            return _cut(report, f"{name}: not measured, too many pairs for the budget")
        settings = self._options.settings(family, method, self._d, part.permutations)
        if kind == "rbf":
            trained = min(settings.max_samples, part.rows)
            settings = replace(settings, max_samples=trained)
            part = replace(part, rows=_SCORED_ROWS if self._budget.seconds else part.rows)
        settings = replace(settings, null_rows=part.null_rows)
        strata, _ = self._sampled(part.rows)
        result = measure(strata, settings, part.permutations, self._options.cross_fit)
        report = self._say_cut(report, name, result, self._permutations(kind))
        if kind == "search":
            self._searched = result
        if no_direction:
            pairs = tuple(replace(pair, note=NO_DIRECTION) for pair in result.pairs)
            result = replace(result, method="svm", pairs=pairs)
        return replace(report, results=(*report.results, result))

    def _permutations(self, kind: str) -> int:
        slow = kind in ("search", "rbf")
        return self._options.slow_permutations if slow else self._options.n_permutations

    def _plan(
        self, kind: str, permutations: int, strata: Sequence[Stratum] | None = None
    ) -> Part | None:
        n_pairs = max(len(stratum.pairs) for stratum in strata or self._strata)
        if kind == "adversaries":
            n_pairs *= len(self._options.adversaries)
        shape = self._options.settings("cdf", "search", self._d, 0).orthants
        cost = cost_of(kind, self._d, n_pairs, 2**self._d if shape == "all" else 1)
        return self._budget.plan(kind, cost, len(self._rows), permutations)

    def _sampled(self, size: int, **question: Any) -> tuple[tuple[Stratum, ...], int]:
        """Return the strata of all rows, or of a sample that keeps shares, and its size."""
        asked = self._options.question() | question
        if size >= _NEARLY_ALL * len(self._rows):
            same = asked == self._options.question()
            strata = self._strata if same else self._rows.pairs(**asked, strict=False)
            return strata, len(self._rows)
        index = self._rows.draw(size, self._options.random_state)
        rows = self._rows.take(index)
        # Small groups are drawn more often than others, and would be most of "the rest".
        rates = replace(rows, weights=_rates_of_draw(self._rows, index))
        random = np.random.default_rng(self._options.random_state)
        both = (taken.pairs(**asked, strict=False) for taken in (rows, rates))
        return tuple(
            replace(
                stratum,
                pairs=tuple(pair.thinned(rated.rows.weights, random) for pair in stratum.pairs),
            )
            for stratum, rated in zip(*both, strict=True)
        ), len(rows)

    def _say_cut(
        self, report: AuditReport, name: str, result: DeltaResult, asked: int
    ) -> AuditReport:
        said, null = [], result.null
        if result.n_rows < len(self._rows):
            said.append(f"measured on a sample of {result.n_rows} of {len(self._rows)} rows")
        if null is not None and null.n_rows < result.n_rows:
            said.append(f"permutations of a sample of {null.n_rows} rows")
        made = 0 if null is None else null.n_permutations
        if made < asked:
            said.append(f"{made} permutations instead of {asked}")
        return _cut(report, f"{name}: {', '.join(said)}") if said else report

    def _attack(self, adversary: str, report: AuditReport) -> AuditReport:
        compare = self._options.compare
        rest: dict[str, Any] = {"compare": "one-vs-rest"} if compare == "pairs" else {}
        everything, _ = self._sampled(len(self._rows), **rest)
        part = self._plan("adversaries", 0, everything)
        if part is None:
            return _cut(report, f"adversary {adversary}: not tried, too many pairs for the budget")
        strata, n_rows = self._sampled(part.rows, **rest)
        if n_rows < len(self._rows):
            text = f"adversary {adversary}: on a sample of {n_rows} of {len(self._rows)} rows"
            report = _cut(report, text)
        options = self._options
        found = attack(
            strata, adversary, options.random_state, report.confidence, options.max_samples
        )
        return replace(report, adversaries=(*report.adversaries, *found))

    def _mmd2(self, report: AuditReport) -> AuditReport:
        size = _MMD_ROWS if self._budget.seconds else len(self._rows)
        strata, n_rows = self._sampled(size)
        if n_rows < len(self._rows):
            report = _cut(report, f"MMD²: on a sample of {n_rows} of {len(self._rows)} rows")
        strata = _headline(strata, self._options.min_group)
        rows = np.concatenate([stratum.rows.X for stratum in strata])
        return replace(report, mmd2=largest_mmd2(strata, median_gamma(rows)))


def _cut(report: AuditReport, what: str) -> AuditReport:
    return replace(report, cut=(*report.cut, what))


def _rates_of_draw(rows: Rows, index: NDArray[np.intp]) -> Array:
    """Return which share of its cell was drawn, for each drawn row."""
    cells = rows.cells()
    drawn = np.bincount(cells[index], minlength=int(cells.max()) + 1)
    return np.asarray((drawn / np.maximum(np.bincount(cells), 1))[cells[index]])


def _headline(strata: Sequence[Stratum], least: int) -> tuple[Stratum, ...]:
    """Leave out pairs of small groups, unless all are."""
    found = []
    for stratum in strata:
        sizes = [(pair, pair.signs) for pair in stratum.pairs]
        kept = [p for p, s in sizes if min((s > 0).sum(), (s < 0).sum()) >= least]
        if kept:
            found.append(replace(stratum, pairs=tuple(kept)))
    return tuple(found) or tuple(strata)


def _small_groups(rows: Rows, least: int, joint: bool) -> Iterator[SmallGroup]:
    columns = rows.groups.categorical if rows.groups is not None else ()
    both = (intersection(columns),) if joint and len(columns) > 1 else ()
    for column in (*columns, *both):
        for level, count in zip(column.levels, np.bincount(column.codes), strict=False):
            if 0 < count < least:
                yield SmallGroup(column.name, level, int(count))
