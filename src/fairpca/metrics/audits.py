"""Everything there is to say about a representation and its protected groups, in one call.

An audit takes the cheapest steps first, each within its part of a budget of processor time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np

from fairpca._choices import ADVERSARIES, FAMILIES, UNGROUPED
from fairpca._progress import Progress
from fairpca.exceptions import AuditInterrupted, InvalidInputError
from fairpca.linalg import single_blas_thread
from fairpca.metrics._audit_options import AuditOptions, Budget, Cost, Part, cost_of
from fairpca.metrics._audit_report import AdversaryResult, AuditReport, SmallGroup
from fairpca.metrics._cross_fit import CLASSIFIERS, MIN_ROWS, Labelled, cross_fit
from fairpca.metrics._result import DeltaResult
from fairpca.metrics.bounds import largest_gaussian_bound
from fairpca.metrics.delta import NO_DIRECTION, lacks_direction, measure
from fairpca.metrics.gaps import largest_gap, largest_mmd2, median_gamma, table_of_gaps
from fairpca.rows import UNKNOWN_GROUP, Rows, Stratum
from fairpca.rows._checks import dense_matrix
from fairpca.rows._pairs import intersection, known_rows

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


def audit(
    U: Any,
    sensitive_features: Any = None,
    *,
    control_features: Any = None,
    sample_weight: Any = None,
    numeric: Iterable[str] = (),
    missing_groups: str = "raise",
    families: Sequence[str] = FAMILIES,
    adversaries: Sequence[str] = ADVERSARIES,
    decisions: Mapping[str, Any] | None = None,
    original: Any = None,
    progress: Progress | None = None,
    **options: Any,
) -> AuditReport:
    """Measure a representation by every family and adversary, with nulls, intervals and bounds.

    Parameters
    ----------
    U : array-like of shape (n, d), or Rows
        Raw features or any representation; `fairpca.rows.Rows` bring their own groups, strata
        and weights.
    sensitive_features : array-like or data frame
        Protected attributes. Numbers are groups up to and above their median, and are compared
        as in `FairPCA` for the gaps.
    control_features, sample_weight
        As in `delta_fairness`.
    numeric : iterable of str, default ()
        Names of attributes that are numbers whatever their type.
    missing_groups : {"raise", "leave-out"}, default "raise"
        What to do with rows of unknown group: refuse them, or count and leave them out.
    families : sequence of str
        Which of "linear", "rbf" and "cdf" to compute.
    adversaries : sequence of str
        Which of "linear", "gaussian", "trees" and "mlp" to train on one half of the rows and
        measure on the other; attributes of several groups one against the rest.
    decisions : dict, optional
        Arguments of `decision_rates` (decision, score, label, positive), whose rates by group are
        added to the report.
    original : array-like of shape (n, p), optional
        The features that U represents, row by row; adds what each group loses (`group_loss`).
    progress : callable, optional
        Called with the number of steps that are done, and of all steps.
    **options
        Fields of `AuditOptions`, such as ``budget=10`` or ``compare="one-vs-rest"``.

    Returns
    -------
    AuditReport
        ``to_dict()`` gives plain values.

    Raises
    ------
    AuditInterrupted
        On an interrupt; its ``report`` is what was done so far.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.metrics import audit
    >>> z = np.repeat([0, 1], 40)
    >>> U = np.random.default_rng(1).normal(size=(80, 2))
    >>> report = audit(U, z, families=("cdf",), adversaries=(), n_permutations=99)
    >>> bool(report.results[0].null.p_value > 0.05)
    True
    """
    for name, chosen, known in (
        ("families", families, FAMILIES),
        ("adversaries", adversaries, ADVERSARIES),
        ("missing_groups", [missing_groups], UNGROUPED),
    ):
        if isinstance(chosen, str) or any(word not in known for word in chosen):
            raise InvalidInputError(
                f"{name} must be some of {known}, not {chosen!r}.", parameter=name
            )
    checked = AuditOptions(**options)
    unknown = UNKNOWN_GROUP if missing_groups == "leave-out" else None
    parts = (sensitive_features, control_features, sample_weight)
    rows = Rows.read_dense(U, *parts, numeric=numeric, unknown=unknown)
    steps = _Audit(rows.counted(), families, adversaries, checked)
    # Cheap, and the way to find a wrong column before the budget is spent: all this comes first.
    more: dict[str, Any] = {"unknown": _unknown(rows)}
    if original is not None:
        more["losses"] = _losses(rows, original, checked.joint)
    if decisions is not None:
        from fairpca.metrics.decisions import decision_rates

        more["decisions"] = decision_rates(
            sensitive_features=rows.binarized_at_median(),
            sample_weight=rows.weights,
            min_group=checked.min_group,
            confidence=checked.confidence,
            **decisions,
        )
    try:
        return replace(steps.run(progress), **more)
    except AuditInterrupted as stopped:
        raise AuditInterrupted(replace(stopped.report, **more)) from None


def _unknown(rows: Rows) -> dict[str, int]:
    columns = rows.groups.categorical if rows.groups is not None else ()
    left = {column.name: int((~known_rows(column)).sum()) for column in columns}
    return {name: count for name, count in left.items() if count}


def _losses(rows: Rows, original: Any, joint: bool) -> dict[str, list[Any]]:
    from fairpca.metrics.quality import group_loss

    features = dense_matrix(original, "original")
    if len(features) != len(rows.X):
        raise InvalidInputError(
            f"original has {len(features)} rows, but U has {len(rows.X)}.", parameter="original"
        )
    return group_loss(rows.with_features(features), U=rows.X, joint=joint)


class _Audit:
    """Rows, what to measure on them, and the time that is left."""

    def __init__(
        self,
        rows: Rows,
        families: Sequence[str],
        adversaries: Sequence[str],
        options: AuditOptions,
    ) -> None:
        self._options, self._families = options, families
        self._adversaries = adversaries if options.cross_fit else ()
        self._budget = Budget(float(options.budget))
        self._table = table_of_gaps(rows, options.compare, options.joint, options.reference)
        self._rows = rows.binarized_at_median()
        self._how = {
            "compare": options.compare,
            "joint": options.joint,
            "reference": options.reference,
            "strict": False,
        }
        self._strata = self._rows.pairs(**self._how)
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
        chosen = {"families": tuple(self._families), "adversaries": tuple(self._adversaries)}
        return AuditReport(
            n_rows=len(self._rows),
            n_components=self._d,
            results=(),
            adversaries=(),
            confidence=float(options.confidence),
            mean_gap=largest_gap(large, "mean_gap"),
            cov_gap=largest_gap(large, "cov_gap"),
            mmd2=None,
            gaussian_bound=largest_gaussian_bound(_without_small(self._strata, least)),
            contrasts=tuple(self._table),
            min_group=int(least),
            small_groups=tuple(_small_groups(self._rows, least, options.joint)),
            cut=(),
            options={**chosen, **asdict(options)},
        )

    def _steps(self) -> Iterator[tuple[str, Step]]:
        """Yield names and steps, in order of worth."""
        for family, method, kind in _STATISTICS:
            is_line = self._d == 1 and kind == "search"  # a single component is exact
            if family in self._families and not is_line:
                yield f"{family} {method}", partial(self._measure, family, method, kind)
        for adversary in self._adversaries:
            yield f"adversary {adversary}", partial(self._train_adversary, adversary)
        yield "MMD²", self._mmd2

    def _measure(self, family: str, method: str, kind: str, report: AuditReport) -> AuditReport:
        name = f"{family} {method}"
        no_direction = kind == "svm" and self._d > 1 and lacks_direction(self._strata)
        if no_direction:
            kind, method = "search", "search"
        if kind == "search" and self._searched is not None:
            return replace(report, results=(*report.results, self._searched))
        part = self._plan(kind, self._permutations(kind), self._strata)
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

    def _plan(self, kind: str, permutations: int, strata: Sequence[Stratum]) -> Part | None:
        n_pairs = max(len(stratum.pairs) for stratum in strata)
        if kind == "adversaries":
            seconds = sum(CLASSIFIERS[name].seconds for name in self._adversaries)
            cost = Cost(seconds * n_pairs * (1 + self._d / 10), 0.0)
        else:
            shape = self._options.settings("cdf", "search", self._d, 0).orthants
            cost = cost_of(kind, self._d, n_pairs, 2**self._d if shape == "all" else 1)
        return self._budget.plan(kind, cost, len(self._rows), permutations)

    def _sampled(self, size: int, **how: Any) -> tuple[tuple[Stratum, ...], int]:
        """Return the strata of all rows, or of a sample that keeps shares, and its size."""
        how = self._how | how
        if size >= _NEARLY_ALL * len(self._rows):
            strata = self._strata if how == self._how else self._rows.pairs(**how)
            return strata, len(self._rows)
        strata = self._rows.draw_pairs(size, self._options.random_state, **how)
        return strata, sum(len(stratum.rows) for stratum in strata)

    def _say_cut(
        self, report: AuditReport, name: str, result: DeltaResult, wanted: int
    ) -> AuditReport:
        said, null = [], result.null
        if result.n_rows < len(self._rows):
            said.append(f"measured on a sample of {result.n_rows} of {len(self._rows)} rows")
        if null is not None and null.n_rows < result.n_rows:
            said.append(f"permutations of a sample of {null.n_rows} rows")
        made = 0 if null is None else null.n_permutations
        if made < wanted:
            said.append(f"{made} permutations instead of {wanted}")
        return _cut(report, f"{name}: {', '.join(said)}") if said else report

    def _train_adversary(self, name: str, report: AuditReport) -> AuditReport:
        rest = {"compare": "one-vs-rest"} if self._options.compare == "pairs" else {}
        everything, _ = self._sampled(len(self._rows), **rest)
        part = self._plan("adversaries", 0, everything)
        if part is None:
            return _cut(report, f"adversary {name}: not tried, too many pairs for the budget")
        strata, n_rows = self._sampled(part.rows, **rest)
        if n_rows < len(self._rows):
            text = f"adversary {name}: on a sample of {n_rows} of {len(self._rows)} rows"
            report = _cut(report, text)
        results = hold_out(strata, name, self._options)
        return replace(report, adversaries=(*report.adversaries, *results))

    def _mmd2(self, report: AuditReport) -> AuditReport:
        size = _MMD_ROWS if self._budget.seconds else len(self._rows)
        strata, n_rows = self._sampled(size)
        if n_rows < len(self._rows):
            report = _cut(report, f"MMD²: on a sample of {n_rows} of {len(self._rows)} rows")
        strata = _without_small(strata, self._options.min_group)
        rows = np.concatenate([stratum.rows.X for stratum in strata])
        return replace(report, mmd2=largest_mmd2(strata, median_gamma(rows)))


def hold_out(
    strata: Sequence[Stratum], name: str, options: AuditOptions
) -> Iterator[AdversaryResult]:
    """Train one adversary on a half of every pair that has enough rows, and measure the other."""
    train = CLASSIFIERS[name].trainer(options.random_state, options.max_samples)
    with single_blas_thread():
        for stratum in strata:
            for pair in stratum.pairs:
                part = Labelled(stratum.rows, pair.signs)
                if part.smallest >= MIN_ROWS:
                    [half] = cross_fit([part.halves(options.random_state)], train)
                    rates = half.rates(options.confidence)
                    where = (pair.attribute, pair.groups, dict(stratum.name))
                    yield AdversaryResult(name, *where, rates)


def _cut(report: AuditReport, what: str) -> AuditReport:
    return replace(report, cut=(*report.cut, what))


def _without_small(strata: Sequence[Stratum], least: int) -> tuple[Stratum, ...]:
    """Leave out pairs of small groups, unless all are."""
    remaining = []
    for stratum in strata:
        parts = ((pair, Labelled(stratum.rows, pair.signs)) for pair in stratum.pairs)
        kept = tuple(pair for pair, part in parts if part.smallest >= least)
        if kept:
            remaining.append(replace(stratum, pairs=kept))
    return tuple(remaining) or tuple(strata)


def _small_groups(rows: Rows, least: int, joint: bool) -> Iterator[SmallGroup]:
    columns = rows.groups.categorical if rows.groups is not None else ()
    both = (intersection(columns),) if joint and len(columns) > 1 else ()
    for column in (*columns, *both):
        for level, count in zip(column.levels, np.bincount(column.codes), strict=False):
            if 0 < count < least:
                yield SmallGroup(column.name, level, int(count))
