"""Everything there is to say about representations and protected groups, in one call.

Rows are drawn and halved once; every adversary of the panel is trained on each half of each
representation and measured on the other. docs/design/evidence-protocol.md says what is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from time import process_time
from typing import Any, NamedTuple

import numpy as np

from fairpca._choices import ADVERSARIES, COMPARE, FAMILIES, PANEL, UNGROUPED
from fairpca._present import Counter, Progress, label, seconds_left
from fairpca.exceptions import AuditInterrupted, InvalidInputError
from fairpca.linalg import Array, single_blas_thread
from fairpca.metrics._audit_report import (
    AUDITED,
    AuditReport,
    Comparison,
    Missing,
    Representation,
    SmallGroup,
)
from fairpca.metrics._cross_fit import CLASSIFIERS, Labelled, Settings, cross_fit_flags
from fairpca.metrics._inference import Rates, effort_of
from fairpca.metrics._rules import Signs
from fairpca.metrics.bounds import check_limits, largest_gaussian_bound
from fairpca.metrics.delta import measure
from fairpca.metrics.gaps import (
    gaps_of_large_groups,
    largest_mmd2,
    median_gamma,
    without_small,
)
from fairpca.rows import UNKNOWN_GROUP, Level, Rows
from fairpca.rows._checks import dense_matrix
from fairpca.rows._identifiers import warn_of_units
from fairpca.rows._pairs import Stratum, intersection, known_rows

_ALL_ORTHANTS = 3  # components up to which every orthant is tried
# In-sample: family, method, whether a permutation repeats a costly fit, and its seconds for n rows.
_STATISTICS: tuple[tuple[str, str, bool, Callable[[int, int], float]], ...] = (
    ("linear", "svm", False, lambda n, d: 4e-8 * n * (d + 1)),
    ("linear", "search", True, lambda n, d: 4e-3 * (d - 1) * (1.0 + 2e-3 * n)),
    ("rbf", "svm", True, lambda n, d: 0.02 + 2e-7 * n**2),
    ("cdf", "search", False, lambda n, d: (2**d if d <= _ALL_ORTHANTS else 3) * (4e-4 + 7e-7 * n)),
)


def audit(
    U: Any,
    sensitive_features: Any = None,
    *,
    against: Any = None,
    control_features: Any = None,
    sample_weight: Any = None,
    units: Any = None,
    numeric: Iterable[str] = (),
    missing_groups: str = "raise",
    compare: str = COMPARE[0],
    joint: bool = False,
    reference: Any = None,
    effort: str = "standard",
    adversaries: Sequence[str] = ADVERSARIES,
    families: Sequence[str] = FAMILIES,
    decisions: Mapping[str, Any] | None = None,
    original: Any = None,
    confidence: float = 0.95,
    min_group: int = 30,
    random_state: int = 0,
    progress: Progress | None = None,
) -> AuditReport:
    """Measure how well the group of a row is predicted from a representation, on held-out rows.

    Parameters
    ----------
    U : array-like of shape (n, d), or Rows
        Raw features or any representation; `fairpca.rows.Rows` bring their own groups, strata,
        weights and units.
    sensitive_features : array-like or data frame
        Protected attributes. Numbers are groups up to and above their median, and are compared
        as in `FairPCA` for the gaps.
    against : array-like of shape (n, k), or dict of str to array-like, optional
        Other representations of the same rows, such as scores of plain PCA. They are measured on
        the same rows, halves and adversaries, and compared with U.
    control_features, sample_weight, units, compare, joint, reference
        As in `delta_fairness`.
    numeric : iterable of str, default ()
        Names of attributes that are numbers whatever their type.
    missing_groups : {"raise", "leave-out"}, default "raise"
        What to do with rows of unknown group: refuse them, or count and leave them out.
    effort : {"quick", "standard", "thorough"}, default "standard"
        Rows drawn, rows trained on, repeats and permutations.
    adversaries : sequence of str
        Which of "linear", "gaussian", "trees" and "mlp" to train on one half of the rows and
        measure on the other, both ways. There is no verdict without all of them.
    families : sequence of str
        Which of "linear", "rbf" and "cdf" to compute on the rows they are fitted to.
    decisions : dict, optional
        Arguments of `decision_rates` (decision, score, label, positive), whose rates by group are
        added to the report.
    original : array-like of shape (n, p), optional
        The features that U represents, row by row; adds what each group loses (`group_loss`).
    confidence : float, default 0.95
        Of the intervals; those of all adversaries and pairs of a representation hold together.
    min_group : int, default 30
        Pairs with a group of fewer rows (or units) are never the largest.
    random_state : int, default 0
        Seed.
    progress : callable, optional
        Called with the expected milliseconds of the steps that are done, and of all steps.

    Returns
    -------
    AuditReport
        ``to_dict()`` gives plain values.

    Raises
    ------
    AuditInterrupted
        On an interrupt; its ``report`` is what was done so far.

    See Also
    --------
    delta_fairness : One family of classifiers.
    decision_rates : What is decided, instead of what could be.
    fairpca.report.audit_report : The same on a page.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.metrics import audit
    >>> z = np.repeat([0, 1], 100)
    >>> U = np.random.default_rng(1).normal(size=(200, 2))
    >>> report = audit(U, z, against=U + z[:, None], adversaries=("linear",), families=())
    >>> [difference.estimate < 0 for difference in report.differences]
    [True]
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
    check_limits(min_group=min_group, confidence=confidence, random_state=random_state)
    sizes = effort_of(effort)
    unknown = UNKNOWN_GROUP if missing_groups == "leave-out" else None
    parts = (sensitive_features, control_features, sample_weight)
    rows = Rows.read_dense(U, *parts, numeric=numeric, unknown=unknown, units=units)
    warn_of_units(U, rows)
    names, rows, places = _side_by_side(rows, against)
    more: dict[str, Any] = {"unknown": _unknown(rows)}
    # Cheap, and the way to find a wrong column before anything costly is done: this comes first.
    if original is not None:
        more["losses"] = _losses(rows, rows.X[:, places[0]], original, joint)
    if decisions is not None:
        from fairpca.metrics.decisions import decision_rates

        more["decisions"] = decision_rates(
            sensitive_features=rows.binarized_at_median(),
            sample_weight=rows.weights,
            units=rows.units,
            min_group=min_group,
            confidence=confidence,
            **decisions,
        )
    how = {"compare": compare, "joint": joint, "reference": reference}
    settings = {
        "effort": effort, "adversaries": tuple(adversaries), "families": tuple(families), **how,
        "confidence": float(confidence), "min_group": int(min_group),
        "random_state": int(random_state),
    }  # fmt: skip
    run = _Audit(rows.counted(), names, places, settings, sizes)
    try:
        report = run.run(progress)
    except KeyboardInterrupt:
        raise AuditInterrupted(replace(run.report(), **more)) from None
    return replace(report, **more)


def _side_by_side(rows: Rows, against: Any) -> tuple[list[str], Rows, list[slice]]:
    """Put all representations into one matrix, so that rows are taken from all of them at once."""
    if against is None:
        against = {}
    elif not isinstance(against, Mapping):
        against = {"against": against}
    matrices = [rows.X]
    for name, values in against.items():
        matrix = dense_matrix(values, f"against[{name!r}]")
        if len(matrix) != len(rows):
            raise InvalidInputError(
                f"against[{name!r}] has {len(matrix)} rows, but U has {len(rows)}.",
                parameter="against",
            )
        matrices.append(matrix)
    ends = np.cumsum([0, *(matrix.shape[1] for matrix in matrices)])
    places = [slice(int(a), int(b)) for a, b in pairwise(ends)]
    joined = rows.with_features(np.column_stack(matrices)) if len(matrices) > 1 else rows
    return [AUDITED, *map(str, against)], joined, places


def _unknown(rows: Rows) -> dict[str, int]:
    columns = rows.groups.categorical if rows.groups is not None else ()
    left = {column.name: int((~known_rows(column)).sum()) for column in columns}
    return {name: count for name, count in left.items() if count}


def _losses(rows: Rows, U: Array, original: Any, joint: bool) -> dict[str, list[Any]]:
    from fairpca.metrics.quality import group_loss

    features = dense_matrix(original, "original")
    if len(features) != len(rows.X):
        raise InvalidInputError(
            f"original has {len(features)} rows, but U has {len(rows.X)}.", parameter="original"
        )
    return group_loss(rows.with_features(features), U=U, joint=joint)


class _Target(NamedTuple):
    """Two groups of a stratum, and the side of every drawn row."""

    attribute: str
    groups: tuple[Level, Level]
    stratum: dict[str, Level]
    signs: Signs


_Step = tuple[str, float, Callable[[], None]]  # a kind, expected seconds, and what to do


class _Audit:
    """Rows, what to measure on them, and what has been measured."""

    def __init__(
        self,
        rows: Rows,
        names: Sequence[str],
        places: Sequence[slice],
        settings: dict[str, Any],
        effort: Any,
    ) -> None:
        self._rows, self._names, self._places = rows, names, places
        self._settings = settings
        self._how = {key: settings[key] for key in ("compare", "joint", "reference")}
        self._seed = settings["random_state"]
        groups = rows.binarized_at_median()
        self._sample = groups.sample(effort.rows, self._seed)
        self._targets = self._form_targets()
        self._effort = effort = effort.shared(len(self._targets))
        drawn = groups.draw(effort.null_rows, (self._seed, 1))
        self._in_sample = groups.take(drawn)
        self._small = _small_groups(groups, settings["min_group"], settings["joint"])
        self._splits = [
            self._sample.halves((self._seed, repeat)) for repeat in range(effort.repeats)
        ]
        self._rates: dict[tuple[int, str, int], Rates | None] = {}
        least = settings["min_group"]
        self._measured: list[dict[str, Any]] = []
        for place in places:
            rows, binary = (some.with_features(some.X[:, place]) for some in (self._rows, groups))
            strata = binary.pairs(**self._how, strict=False)
            figures = {
                "n_components": place.stop - place.start,
                "gaussian_bound": largest_gaussian_bound(without_small(strata, least)),
                **gaps_of_large_groups(rows, least, **self._how),
            }
            self._measured.append({**figures, "in_sample": [], "mmd2": None})

    def _form_targets(self) -> list[_Target]:
        """Pair the groups of the drawn rows; a column of positions says what a stratum holds."""
        n = len(self._sample)
        numbered = self._sample.with_features(np.arange(n)[:, None])
        targets = []
        for stratum in numbered.pairs(**self._how, strict=False):
            for pair in stratum.pairs:
                signs = np.zeros(n, dtype=np.int8)
                signs[stratum.rows.X[:, 0]] = pair.signs
                targets.append(_Target(pair.attribute, pair.groups, dict(stratum.name), signs))
        return targets

    def run(self, progress: Progress | None) -> AuditReport:
        """Take one step after the other."""
        steps = [step for number in range(len(self._names)) for step in self._steps(number)]
        counter = Counter(round(1000 * seconds_left(steps, {}, {})) + 1, progress)
        counter.add(0)
        planned, taken = dict[str, float](), dict[str, float]()
        with single_blas_thread():  # thin products: threads would wait for each other
            for number, (kind, expected, step) in enumerate(steps, start=1):
                begun = process_time()
                step()
                seconds = process_time() - begun
                planned[kind] = planned.get(kind, 0.0) + expected
                taken[kind] = taken.get(kind, 0.0) + seconds
                # Milliseconds that were and will be taken: what is left follows the machine.
                count = max(1, round(1000 * seconds))
                left = seconds_left(steps[number:], planned, taken)
                counter.total = counter.done + count + round(1000 * left)
                counter.add(count)
        return self.report()

    def report(self) -> AuditReport:
        """Return everything that has been measured."""
        settings, effort = self._settings, self._effort
        return AuditReport.of(
            [
                Representation(name, **measured)
                for name, measured in zip(self._names, self._measured, strict=True)
            ],
            list(self._comparisons()),
            missing=tuple(self._missing()),
            n_rows=len(self._rows),
            n_units=None if self._rows.units is None else self._rows.n_units,
            drawn=(len(self._sample), self._sample.n_units),
            small_groups=tuple(self._small),
            effort=effort,
            settings=settings,
            n_pairs=len(self._targets),
        )

    def _comparisons(self) -> Iterator[tuple[Comparison, list[Rates]]]:
        """Yield what was measured for all representations, in the order of adversaries."""
        for key in self._settings["adversaries"]:
            for number, target in enumerate(self._targets):
                rates = [self._rates.get((k, key, number)) for k in range(len(self._names))]
                known = [one for one in rates if one is not None]
                if len(known) == len(rates):
                    counts = known[0].n_units or known[0].n_rows
                    small = min(counts) < self._settings["min_group"]
                    yield Comparison(PANEL[key], *target[:3], small), known

    def _missing(self) -> Iterator[Missing]:
        """Yield what the panel did not measure; small groups are listed apart."""
        for key, name in PANEL.items():
            if key not in self._settings["adversaries"]:
                yield Missing(name, "all pairs", "left out by adversaries")
                continue
            for number, target in enumerate(self._targets):
                rates = [
                    self._rates.get((k, key, number), "stopped") for k in range(len(self._names))
                ]
                pair = label(target.attribute, target.groups[1], target.groups[0], target.stratum)
                if "stopped" in rates:
                    yield Missing(name, pair, "interrupted")
                elif None in rates and self._size_of(target) >= self._settings["min_group"]:
                    yield Missing(name, pair, "too few rows in a half")

    def _size_of(self, target: _Target) -> int:
        """Return the rows of the smaller group, or its units."""
        units = self._sample.units
        sides = (np.flatnonzero(target.signs == sign) for sign in (-1, 1))
        return min(len(side if units is None else np.unique(units[side])) for side in sides)

    # -- steps ---------------------------------------------------------------------------------

    def _steps(self, number: int) -> Iterator[_Step]:
        """Yield the steps of one representation, with what they cost."""
        place = self._places[number]
        d, effort = place.stop - place.start, self._effort
        sizes = [int((target.signs != 0).sum()) // 2 for target in self._targets]
        for key in self._settings["adversaries"]:
            for k, size in enumerate(sizes):
                seconds = CLASSIFIERS[key].cost(min(effort.trained, size), d)
                yield key, 2 * effort.repeats * seconds, partial(self._cross_fit, number, key, k)
        for family, method, is_slow, cost in _STATISTICS:
            is_line = d == 1 and (family, method) == ("linear", "search")  # exact already
            if family in self._settings["families"] and not is_line:
                n, times = self._effort.permuted(is_slow)
                seconds = times * cost(n, d) * len(self._targets)
                if family == "rbf" and effort.C is None:  # chosen from three
                    seconds *= 3.0
                step = partial(self._measure, number, family, method, is_slow)
                yield f"{family} {method}", seconds, step
        yield "mmd2", 1e-8 * d * effort.null_rows**2, partial(self._mmd2, number)

    def _cross_fit(self, number: int, key: str, target: int) -> None:
        """Flag every row of a pair by an adversary that was trained on the other half."""
        sample, signs = self._sample, self._targets[target].signs
        rows = Rows(sample.X[:, self._places[number]], weights=sample.weights, units=sample.units)
        train = CLASSIFIERS[key].trainer(self._seed, self._effort.trained)
        flags = cross_fit_flags(Labelled(rows, signs), self._splits, train)
        rates = None if flags is None else Rates.of(flags, signs, rows.weights, rows.units)
        self._rates[number, key, target] = rates

    def _drawn(self, number: int, is_slow: bool) -> tuple[Stratum, ...]:
        """Pair the groups of the rows that in-sample values are of."""
        rows = self._in_sample.with_features(self._in_sample.X[:, self._places[number]])
        if is_slow:
            rows = rows.take(rows.draw(self._effort.permuted(is_slow)[0], self._seed))
        return rows.pairs(**self._how, strict=False)

    def _measure(self, number: int, family: str, method: str, is_slow: bool) -> None:
        """Measure a family on the rows it is fitted to, with its null on the same rows."""
        strata = self._drawn(number, is_slow)
        d = strata[0].rows.X.shape[1]
        settings = Settings(
            family,
            "exact" if family == "linear" and d == 1 else method,
            "all" if family == "cdf" and d <= _ALL_ORTHANTS else "one",
            C=self._effort.C if family == "rbf" else None,
            max_samples=self._effort.null_rows,
            seed=self._seed,
            min_group=self._settings["min_group"],
        )
        result = measure(strata, settings, self._effort.permuted(is_slow)[1])
        result = replace(result, compare=self._settings["compare"])
        self._measured[number]["in_sample"].append(result)

    def _mmd2(self, number: int) -> None:
        strata = without_small(self._drawn(number, False), self._settings["min_group"])
        gamma = median_gamma(np.concatenate([stratum.rows.X for stratum in strata]))
        self._measured[number]["mmd2"] = largest_mmd2(strata, gamma)


def _small_groups(rows: Rows, least: int, joint: bool) -> list[SmallGroup]:
    """List the groups with fewer rows, or units, than a headline needs."""
    columns = rows.groups.categorical if rows.groups is not None else ()
    both = (intersection(columns),) if joint and len(columns) > 1 else ()
    small = []
    for column in (*columns, *both):
        codes = column.codes
        if rows.units is not None:  # one row of every unit of a group
            codes = np.unique(np.column_stack([codes, rows.units]), axis=0)[:, 0]
        counts = np.bincount(codes, minlength=len(column.levels))
        for level, count in zip(column.levels, counts, strict=True):
            if 0 < count < least:
                small.append(SmallGroup(column.name, level, int(count)))
    return small
