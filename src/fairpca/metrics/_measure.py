"""Δ of the pairs of one stratum after the other: value, permutation null, cross-fitted value."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from fairpca.exceptions import InvalidInputError
from fairpca.linalg import Array, single_blas_thread
from fairpca.metrics._classifiers import Fit, Signs, Statistic, masses
from fairpca.metrics._intervals import HeldOut
from fairpca.metrics._orthants import OrthantStatistic
from fairpca.metrics._plane import LineStatistic, PlaneStatistic
from fairpca.metrics._result import DeltaPair, DeltaResult, NullSummary
from fairpca.metrics._search import SearchStatistic, SVMStatistic
from fairpca.metrics._svm import KernelStatistic
from fairpca.rows import Pair, Rows, Stratum

NULL_ROWS = 2000  # rows on which a null repeats a search: 200 take half a minute
_SAME_MEAN = 1e-9  # of the range of a component: what rounding leaves of equal means
_ROUNDING = 1e-13  # below any difference of shares that rows can make
_NUMBERS_AT_ONCE = 1 << 22  # permutations × rows that are held at a time: 32 MB
MIN_CROSS_FIT = 4

NO_DIRECTION = (
    "the group means coincide, so a linear SVM has weight zero and no direction; "
    "the value, and its null, are those of method='search'"
)
_NOISE = (
    "the SVM's weight vector is within sampling noise of zero, so its direction means little; "
    "method='search' looks beyond the means"
)
_HALF_NOISE = (
    "on {count} of the halves the SVM's weight vector is within sampling noise of zero; "
    "there the cross-fitted direction comes from method='search'"
)


@dataclass(frozen=True)
class Settings:
    """How to compute; what to compute it on comes apart."""

    family: str
    method: str
    orthants: str = "one"
    C: float | None = None
    gamma: float | None = None
    max_samples: int = 2000
    seed: int = 0
    confidence: float = 0.95
    min_group: int | None = None  # smaller groups are no headline, and no reason to stop
    null_rows: int | None = None  # rows that are permuted at most

    def rows_to_permute(self) -> int:
        """Return how many rows a null may take; fewer where a permutation repeats a costly fit."""
        limit = sys.maxsize if self.null_rows is None else self.null_rows
        if self.family == "rbf":
            return min(limit, self.max_samples)
        is_search = (self.family, self.method) == ("linear", "search")
        return min(limit, NULL_ROWS) if is_search else limit

    def statistic(self, rows: Rows) -> Statistic:
        """Prepare what rows alone decide."""
        U, weight = rows.X, rows.weights
        if self.family == "cdf":
            return OrthantStatistic(U, weight, self.method, self.orthants)
        if self.family == "rbf":
            trained = rows.draw(self.max_samples, self.seed)
            return KernelStatistic(U, weight, self.C, self.gamma, trained, self.seed)
        if U.shape[1] == 1:
            return LineStatistic(U, weight)
        statistics: dict[str, Callable[[Array, Array | None], Statistic]] = {
            "svm": SVMStatistic,
            "search": SearchStatistic,
            "exact": PlaneStatistic,
        }
        return statistics[self.method](U, weight)


def measure(
    strata: Sequence[Stratum], settings: Settings, n_permutations: int = 0, cross_fit: bool = False
) -> DeltaResult:
    """Measure Δ of every pair; the null of the largest value takes them all together."""
    found: list[DeltaPair] = []
    nulls: list[_Null] = []
    with single_blas_thread():  # thin products: threads would wait for each other
        for number, stratum in enumerate(strata):
            pairs, more = _measure_stratum(stratum, settings, n_permutations, cross_fit, number)
            found += pairs
            nulls += more
    result = DeltaResult(
        family=settings.family,
        method=settings.method,
        pairs=tuple(found),
        n_rows=sum(len(stratum.rows) for stratum in strata),
        n_components=strata[0].rows.X.shape[1],
        supremum=_is_supremum(settings, strata[0].rows),
    )
    worst = found.index(result.worst)
    scores = _scores(strata, found[worst], worst)
    if not nulls:
        return replace(result, scores=scores)
    counted = [null for pair, null in zip(found, nulls, strict=True) if pair in result.headline]
    null = _Null(
        max(null.observed for null in counted),
        np.max([null.values for null in counted], axis=0),
        max(null.n_rows for null in counted),
        any(null.sampled for null in counted),
    )
    summary = null.summary(_held_out_p(result.headline))
    return replace(result, null=summary, null_values=null.values, scores=scores)


def lacks_direction(strata: Sequence[Stratum]) -> bool:
    """Whether all group means coincide, so that every SVM is a search."""
    for stratum in strata:
        U, weights = stratum.rows.X, stratum.rows.weights
        spread = np.ptp(U, axis=0)
        for pair in stratum.pairs:
            mass = masses(pair.signs[None], weights)
            if (np.abs(mass.values[0] @ U) > mass.scale[0] * _SAME_MEAN * spread).any():
                return False
    return True


def _is_supremum(settings: Settings, rows: Rows) -> bool:
    """Whether the value is the largest over a family that the bounds are about."""
    if rows.weights is not None or settings.family == "rbf":
        return False
    one = settings.family == "linear" or settings.orthants == "one"
    return rows.X.shape[1] == 1 or (settings.method == "exact" and one)


def _measure_stratum(
    stratum: Stratum, settings: Settings, n_permutations: int, cross_fit: bool, number: int
) -> tuple[list[DeltaPair], list[_Null]]:
    """Measure all pairs of one stratum; they share what is computed from the rows."""
    statistic = settings.statistic(stratum.rows)
    found, methods = [], []
    for pair in stratum.pairs:
        signs = pair.signs
        fit, method, note = _fit(statistic, settings, stratum.rows, signs)
        measured = _describe(stratum, pair, fit, signs, note, settings)
        if cross_fit and (settings.min_group is None or min(measured.n_rows) >= MIN_CROSS_FIT):
            halves, more = _cross_fit(settings, stratum.rows, signs, measured.label())
            value = float(np.mean([half.value for half in halves]))
            note = "; ".join(text for text in (note, more) if text)
            measured = replace(measured, cross_fit_value=value, held_out=halves[0], note=note)
        found.append(measured)
        methods.append(method)
    if not n_permutations:
        return found, []
    values = [measured.value for measured in found]
    nulls = _nulls(stratum, statistic, settings, methods, values, n_permutations, number)
    both = zip(found, nulls, strict=True)
    return [replace(pair, null=null.summary(_held_out_p([pair]))) for pair, null in both], nulls


def _held_out_p(pairs: Sequence[DeltaPair]) -> float | None:
    """Return the p-value of the largest of several differences on new rows, by Bonferroni."""
    found = [pair.held_out.p_value for pair in pairs if pair.held_out is not None]
    return min(1.0, len(found) * min(found)) if found else None


def _fit(
    statistic: Statistic, settings: Settings, rows: Rows, signs: Signs
) -> tuple[Fit, str, str]:
    """Fit one pair; return the method, which is a search where an SVM has no direction, and why."""
    fit = statistic.fit(signs)
    if not isinstance(statistic, SVMStatistic) or not statistic.rank:
        return fit, settings.method, ""
    if fit.classifier is None:
        return SearchStatistic(rows.X, rows.weights).fit(signs), "search", NO_DIRECTION
    return fit, settings.method, _NOISE if _is_noise(statistic, signs) else ""


def _is_noise(statistic: SVMStatistic, signs: Signs) -> bool:
    """Whether group means differ no more than those of groups drawn at random would."""
    rank = statistic.rank
    return rank > 0 and bool(statistic.mean_shift(signs) <= chi2.ppf(0.95, rank))


def _describe(
    stratum: Stratum, pair: Pair, fit: Fit, signs: Signs, note: str, settings: Settings
) -> DeltaPair:
    # Weighted shares that cancel leave a rest of rounding, which no classifier attains.
    value, classifier = (fit.value, fit.classifier) if fit.value > _ROUNDING else (0.0, None)
    value = min(value, 1.0)  # sums of weights may end a bit above
    rates = {}
    if classifier is not None:
        flagged = classifier.predict(stratum.rows.X)
        weights = stratum.rows.weights
        share = np.ones(len(signs)) if weights is None else weights
        for group, sign in zip(pair.groups, (-1, 1), strict=True):
            inside = signs == sign
            rates[group] = float(share[inside & flagged].sum() / share[inside].sum())
    n_rows = int((signs < 0).sum()), int((signs > 0).sum())
    return DeltaPair(
        attribute=pair.attribute,
        groups=pair.groups,
        stratum=dict(stratum.name),
        n_rows=n_rows,
        small=min(n_rows) < (settings.min_group or 0),
        value=value,
        classifier=classifier,
        rates=rates,
        note=note,
    )


@dataclass(frozen=True, eq=False)
class _Null:
    """Values of one pair under permuted groups, and what they are compared with."""

    observed: float
    values: Array
    n_rows: int
    sampled: bool

    def summary(self, held_out: float | None) -> NullSummary:
        """Return the figures to print; a test on all new rows says more than one of a sample."""
        found = NullSummary.of(self.observed, self.values, self.n_rows)
        if not self.sampled or held_out is None:
            return found
        return replace(found, p_value=held_out, p_value_of="held-out rows")


def _nulls(
    stratum: Stratum,
    statistic: Statistic,
    settings: Settings,
    methods: Sequence[str],
    values: Sequence[float],
    n_permutations: int,
    number: int,
) -> list[_Null]:
    """Permute the rows, or a sample of them; then the sample's own values are what is compared."""
    # Under permuted groups values shrink with the root of the rows, by which those of a sample
    # are scaled for display. The p-value does not depend on it: both sides are scaled alike.
    found: list[_Null | None] = [None] * len(methods)
    for method in dict.fromkeys(methods):
        how = replace(settings, method=method)
        chosen = [k for k, used in enumerate(methods) if used == method]
        index = stratum.rows.draw(how.rows_to_permute(), (settings.seed, number, 1))
        sampled = len(index) < len(stratum.rows)
        rows = stratum.rows.take(index) if sampled else stratum.rows
        if sampled or method != settings.method:
            statistic = how.statistic(rows)
        signs = [stratum.pairs[k].signs[index] for k in chosen]
        nulls = _permute(statistic, signs, n_permutations, (settings.seed, number))
        for k, sign, null in zip(chosen, signs, nulls, strict=True):
            scale, value = 1.0, values[k]
            if sampled:
                scale = math.sqrt(_size(sign) / _size(stratum.pairs[k].signs))
                value = scale * statistic.fit(sign).value
            found[k] = _Null(value, scale * null, len(index), sampled)
    return [null for null in found if null is not None]


def _size(signs: Signs) -> float:
    """Return the rows of two groups of which one is as informative as the pair."""
    plus, minus = int((signs > 0).sum()), int((signs < 0).sum())
    return plus * minus / max(plus + minus, 1)


def _permute(
    statistic: Statistic, signs: Sequence[Signs], n_permutations: int, seed: tuple[int, int]
) -> list[Array]:
    """Return the null values of each pair; all see the same permutations of the rows."""
    # Rows are permuted as wholes, so that attributes keep their dependence on each other, and the
    # largest value over pairs has a null of its own.
    rng = np.random.default_rng(seed)
    n = len(signs[0])
    size = max(1, _NUMBERS_AT_ONCE // n)
    nulls = [np.empty(n_permutations) for _ in signs]
    for start in range(0, n_permutations, size):
        stop = min(start + size, n_permutations)
        orders = np.empty((stop - start, n), dtype=np.intp)
        for order in orders:
            order[:] = rng.permutation(n)
        for null, pair in zip(nulls, signs, strict=True):
            null[start:stop] = statistic.null(pair[orders])
    return nulls


def _cross_fit(
    settings: Settings, rows: Rows, signs: Signs, label: str
) -> tuple[list[HeldOut], str]:
    """Train on each half and measure on the other."""
    for sign in (-1, 1):
        size = int((signs == sign).sum())
        if size < MIN_CROSS_FIT:
            raise InvalidInputError(
                f"cross_fit needs at least {MIN_CROSS_FIT} rows in each group, but "
                f"{label} has {size}: use cross_fit=False.",
                parameter="cross_fit",
            )
    half = halves_of(signs, settings.seed)
    found, noisy = [], 0
    for side in (1, 2):
        known, new = (np.flatnonzero(half == part) for part in (side, 3 - side))
        predict, searched = train(settings, rows.take(known), signs[known])
        noisy += searched
        rest = rows.take(new)
        flagged = predict(rest.X)
        found.append(HeldOut.of(flagged, signs[new], rest.weights, settings.confidence))
    return found, _HALF_NOISE.format(count=noisy) if noisy else ""


def train(
    settings: Settings, rows: Rows, signs: Signs
) -> tuple[Callable[[Array], NDArray[np.bool_]], bool]:
    """Return what a classifier predicts, and whether a search took the place of a noisy SVM."""
    statistic = settings.statistic(rows)
    searched = isinstance(statistic, SVMStatistic) and _is_noise(statistic, signs)
    if searched:
        index = rows.draw(NULL_ROWS, settings.seed)
        rows, signs = rows.take(index), signs[index]
        statistic = SearchStatistic(rows.X, rows.weights)
    classifier = statistic.fit(signs).classifier
    if classifier is None:
        return lambda U: np.zeros(len(U), dtype=bool), searched
    return classifier.predict, searched


def halves_of(signs: Signs, seed: int) -> Signs:
    """Split both groups at random into halves 1 and 2; 0 for rows of neither group."""
    rng = np.random.default_rng(seed)
    half = np.zeros(len(signs), dtype=np.int8)
    for sign in (-1, 1):
        members = rng.permutation(np.flatnonzero(signs == sign))
        half[members[: len(members) // 2]] = 1
        half[members[len(members) // 2 :]] = 2
    return half


def _scores(
    strata: Sequence[Stratum], measured: DeltaPair, number: int
) -> tuple[Array, Array] | None:
    """Return the scores of both groups of a pair, for the plot."""
    if measured.classifier is None:
        return None
    stratum, pair = [(stratum, pair) for stratum in strata for pair in stratum.pairs][number]
    scores, signs = measured.classifier.score(stratum.rows.X), pair.signs
    return scores[signs < 0], scores[signs > 0]
