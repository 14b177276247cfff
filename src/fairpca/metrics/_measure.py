"""Δ of the pairs of one stratum after the other: value, permutation null, cross-fitted value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import chi2

from fairpca.exceptions import InvalidInputError
from fairpca.linalg import Array, single_blas_thread
from fairpca.metrics._classifiers import Fit, Statistic
from fairpca.metrics._intervals import HeldOut
from fairpca.metrics._orthants import OrthantStatistic
from fairpca.metrics._plane import LineStatistic, PlaneStatistic
from fairpca.metrics._rbf import KernelStatistic
from fairpca.metrics._result import DeltaPair, DeltaResult, NullSummary
from fairpca.metrics._search import SearchStatistic, SVMStatistic
from fairpca.metrics._thresholds import Signs
from fairpca.rows import Pair, Rows, Stratum

_ROUNDING = 1e-13  # below any difference of shares that rows can make
_CHUNK_CELLS = 1 << 24  # permutations × rows whose masses are held at a time: 128 MB
MIN_CROSS_FIT = 4

_NO_DIRECTION = (
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

    def statistic(self, rows: Rows) -> Statistic:
        """Prepare what rows alone decide."""
        U, weight = rows.X, rows.weights
        if self.family == "cdf":
            return OrthantStatistic(U, weight, self.method, self.orthants)
        if self.family == "rbf":
            options = (self.C, self.gamma, self.max_samples, self.seed)
            return KernelStatistic(U, weight, *options)
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
    nulls: list[Array] = []
    with single_blas_thread():  # thin products: threads would wait for each other
        for number, stratum in enumerate(strata):
            pairs, null = _measure_stratum(stratum, settings, n_permutations, cross_fit, number)
            found += pairs
            nulls += null
    worst = max(range(len(found)), key=lambda i: found[i].value)
    null_values = np.max(nulls, axis=0) if n_permutations else None
    return DeltaResult(
        family=settings.family,
        method=settings.method,
        pairs=tuple(found),
        null=None if null_values is None else NullSummary.of(found[worst].value, null_values),
        null_values=null_values,
        scores=_scores(strata, found[worst], worst),
        n_components=strata[0].rows.X.shape[1],
        supremum=_is_supremum(settings, strata[0].rows),
    )


def _is_supremum(settings: Settings, rows: Rows) -> bool:
    """Whether the value is the largest over a family that the bounds are about."""
    if rows.weights is not None or settings.family == "rbf":
        return False
    one = settings.family == "linear" or settings.orthants == "one"
    return rows.X.shape[1] == 1 or (settings.method == "exact" and one)


def _measure_stratum(
    stratum: Stratum, settings: Settings, n_permutations: int, cross_fit: bool, number: int
) -> tuple[list[DeltaPair], list[Array]]:
    """Measure all pairs of one stratum; they share what is computed from the rows."""
    statistic = settings.statistic(stratum.rows)
    found, statistics = [], []
    for pair in stratum.pairs:
        signs = pair.signs
        chosen, fit, note = _fit(statistic, stratum.rows, signs)
        measured = _describe(stratum, pair, fit, signs, note)
        if cross_fit:
            halves, more = _cross_fit(settings, stratum.rows, signs, measured.label())
            value = float(np.mean([half.value for half in halves]))
            note = "; ".join(text for text in (note, more) if text)
            measured = replace(measured, cross_fit_value=value, held_out=halves[0], note=note)
        found.append(measured)
        statistics.append(chosen)
    nulls = []
    if n_permutations:
        nulls = _permute(stratum, statistics, n_permutations, (settings.seed, number))
        found = [
            replace(measured, null=NullSummary.of(measured.value, null))
            for measured, null in zip(found, nulls, strict=True)
        ]
    return found, nulls


def _fit(statistic: Statistic, rows: Rows, signs: Signs) -> tuple[Statistic, Fit, str]:
    """Fit one pair; replace an SVM that has no direction by a search, and say so."""
    fit = statistic.fit(signs)
    if not isinstance(statistic, SVMStatistic) or not statistic.rank:
        return statistic, fit, ""
    if fit.classifier is None:
        instead = SearchStatistic(rows.X, rows.weights)
        return instead, instead.fit(signs), _NO_DIRECTION
    return statistic, fit, _NOISE if _is_noise(statistic, signs) else ""


def _is_noise(statistic: SVMStatistic, signs: Signs) -> bool:
    """Whether group means differ no more than those of groups drawn at random would."""
    rank = statistic.rank
    return rank > 0 and bool(statistic.mean_shift(signs) <= chi2.ppf(0.95, rank))


def _describe(stratum: Stratum, pair: Pair, fit: Fit, signs: Signs, note: str) -> DeltaPair:
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
    return DeltaPair(
        attribute=pair.attribute,
        groups=pair.groups,
        stratum=dict(stratum.name),
        n_rows=(int((signs < 0).sum()), int((signs > 0).sum())),
        value=value,
        classifier=classifier,
        rates=rates,
        note=note,
    )


def _permute(
    stratum: Stratum, statistics: list[Statistic], n_permutations: int, seed: tuple[int, int]
) -> list[Array]:
    """Return the null values of each pair; all see the same permutations of the rows.

    Rows are permuted as wholes, so that attributes keep their dependence on each other, and the
    largest value over pairs has a null of its own.
    """
    rng = np.random.default_rng(seed)
    n = len(stratum.rows)
    size = max(1, _CHUNK_CELLS // n)
    nulls = [np.empty(n_permutations) for _ in statistics]
    for start in range(0, n_permutations, size):
        stop = min(start + size, n_permutations)
        orders = np.empty((stop - start, n), dtype=np.intp)
        for order in orders:
            order[:] = rng.permutation(n)
        for null, statistic, pair in zip(nulls, statistics, stratum.pairs, strict=True):
            null[start:stop] = statistic.null(pair.signs[orders])
    return nulls


def _cross_fit(
    settings: Settings, rows: Rows, signs: Signs, label: str
) -> tuple[list[HeldOut], str]:
    """Train on each half and measure on the other."""
    half = _halves(signs, settings.seed, label)
    found, noisy = [], 0
    for side in (1, 2):
        train, test = (np.flatnonzero(half == part) for part in (side, 3 - side))
        known, new = rows.take(train), rows.take(test)
        statistic = settings.statistic(known)
        if isinstance(statistic, SVMStatistic) and _is_noise(statistic, signs[train]):
            statistic = SearchStatistic(known.X, known.weights)
            noisy += 1
        classifier = statistic.fit(signs[train]).classifier
        flagged = (
            np.zeros(len(new), dtype=bool) if classifier is None else classifier.predict(new.X)
        )
        found.append(HeldOut.of(flagged, signs[test], new.weights, settings.confidence))
    return found, _HALF_NOISE.format(count=noisy) if noisy else ""


def _halves(signs: Signs, seed: int, label: str) -> Signs:
    """Split both groups at random into halves 1 and 2; 0 for rows of neither group."""
    rng = np.random.default_rng(seed)
    half = np.zeros(len(signs), dtype=np.int8)
    for sign in (-1, 1):
        members = rng.permutation(np.flatnonzero(signs == sign))
        if len(members) < MIN_CROSS_FIT:
            raise InvalidInputError(
                f"cross_fit needs at least {MIN_CROSS_FIT} rows in each group, but "
                f"{label} has {len(members)}: use cross_fit=False.",
                parameter="cross_fit",
            )
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
