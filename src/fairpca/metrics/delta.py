"""Δ-fairness: how well a family of classifiers predicts protected groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpca._choices import COMPARE, METHODS
from fairpca.exceptions import InvalidInputError
from fairpca.linalg import Array, single_blas_thread
from fairpca.metrics._cross_fit import (
    MIN_ROWS,
    Labelled,
    Settings,
    Trained,
    cross_fit_flags,
    is_noise,
)
from fairpca.metrics._inference import Family, Rates
from fairpca.metrics._result import DeltaPair, DeltaResult, NullSummary
from fairpca.metrics._rules import Fit, Signs, Statistic
from fairpca.metrics._search import SearchStatistic, SVMStatistic
from fairpca.metrics.bounds import check_limits
from fairpca.rows import Rows
from fairpca.rows._pairs import Pair, Stratum

_MAX_ORTHANT_COMPONENTS = 12  # 4,096 orthants
_ROUNDING = 1e-13  # below any difference of shares that rows can make
_NUMBERS_AT_ONCE = 1 << 22  # permutations × rows that are held at a time: 32 MB
_CONFIDENCE = 0.95  # of intervals on held-out rows
_NO_DIRECTION = (
    "the group means coincide, so a linear SVM has weight zero and no direction; "
    "the value, and its null, are those of the method search"
)
_NOISE = (
    "the SVM's weight vector is within sampling noise of zero, so its direction means little; "
    "the method search looks beyond the means"
)
_HALF_NOISE = (
    "on {count} of the halves the SVM's weight vector is within sampling noise of zero; "
    "there the cross-fitted direction comes from the method search"
)


def delta_fairness(
    U: Any,
    sensitive_features: Any = None,
    *,
    family: str = "linear",
    method: str | None = None,
    compare: str = COMPARE[0],
    joint: bool = False,
    reference: Any = None,
    control_features: Any = None,
    sample_weight: Any = None,
    units: Any = None,
    n_permutations: int = 0,
    cross_fit: bool = False,
    orthants: str = "one",
    C: float | None = None,
    gamma: float | None = None,
    max_samples: int = 2000,
    random_state: int | None = None,
) -> DeltaResult:
    """Measure how well a family of classifiers predicts protected groups.

    Δ̂ is the largest difference, over classifiers of the family and their thresholds, between the
    shares of two groups that a classifier flags: 0 where no classifier of the family sees a
    difference, 1 where one separates the groups.

    Parameters
    ----------
    U : array-like of shape (n, d), or Rows
        Any representation; a vector is one component. `fairpca.rows.Rows` bring their own groups,
        strata and weights.
    sensitive_features : array-like or data frame
        Protected attributes; all are compared.
    family : {"linear", "rbf", "cdf"}, default "linear"
        Half-spaces; Gaussian-kernel SVMs; lower-left orthants, which is the multivariate
        Kolmogorov–Smirnov distance.
    method : {"svm", "search", "sample", "exact"}, optional
        For "linear": "svm" (default), "search" (ascent on Δ̂ from many directions, never below
        "svm") or "exact" (one or two components). For "cdf": "search" (default; ascent from the
        best rows), "sample" (the rows only) or "exact" (up to three components). For "rbf": "svm".
        A single component is always treated exactly.
    compare : {"one-vs-rest", "pairs", "reference"}, default "one-vs-rest"
        Which groups of an attribute are compared, where it has more than two.
    joint : bool, default False
        Whether intersections of the attributes are compared with the rest, too.
    reference : level or dict of str to level, optional
        The reference group, for each attribute where there are several.
    control_features : array-like or data frame, optional
        Strata: groups are compared within each, as for equalised odds.
    sample_weight : array-like of shape (n,), optional
        Row weights. Their unit does not matter, so for "rbf" with `C` they are not the same
        as repeated rows: `C` refers to the number of rows.
    units : array-like of shape (n,), optional
        Which rows belong together, such as those of one person: they stay in one half, and are
        permuted as wholes.
    n_permutations : int, default 0
        Permutations of the groups, within strata, for the null and the p-value. The same
        procedure runs on every permutation; what does not depend on the groups runs once. Where a
        permutation repeats a costly fit, 2,000 rows are drawn: `NullSummary.value` is their Δ̂.
    cross_fit : bool, default False
        Whether to train on one half and evaluate on the other, both ways: the difference of
        rates at the trained threshold. On average a lower bound of the true Δ; negative values
        are chance.
    orthants : {"one", "all"}, default "one"
        For "cdf": lower-left orthants, or the largest value over all 2^d sign flips, since the
        signs of principal components mean nothing.
    C, gamma : float, optional
        For "rbf": penalty and kernel width on standardised rows. By default chosen from a grid by
        5-fold cross-validation, as in the paper: the smoothest SVM whose held-out Δ̂ is
        within one standard error of the largest.
    max_samples : int, default 2000
        For "rbf": rows an SVM is trained on at most, drawn at random; all rows are scored.
    random_state : int, optional
        Seed of permutations, halves, folds and draws; results are deterministic without it too.

    Returns
    -------
    DeltaResult
        ``float()`` gives the value.

    See Also
    --------
    audit : Several families at once, with one headline.
    delta_bound : A bound for new data.

    Notes
    -----
    In-sample values are biased upwards, more so for few rows: read them against the null. The
    SVM rounds its hinge off, which makes its direction unique. Where group means coincide
    exactly, as on the rows a mean constraint was fitted on, a linear SVM has no direction; the
    value then comes from "search" and a note says so.

    References
    ----------
    Olfat and Aswani, "Convex formulations for fair principal component analysis", AAAI 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.metrics import delta_fairness
    >>> rng = np.random.default_rng(0)
    >>> z = np.repeat([0, 1], 100)
    >>> U = rng.normal(size=(200, 2)) + np.outer(z, [2.0, 0.0])
    >>> result = delta_fairness(U, z, n_permutations=99)
    >>> round(result.value, 2), result.null.p_value
    (0.74, 0.01)
    """
    seed = 0 if random_state is None else random_state
    parts = (sensitive_features, control_features, sample_weight)
    rows = Rows.read_dense(U, *parts, units=units).counted()
    settings = Settings(family, method, orthants, C, gamma, max_samples)  # type: ignore[arg-type]
    settings = _check(settings, rows.X.shape[1], n_permutations, seed)
    strata = rows.pairs(compare, joint=joint, reference=reference)
    return replace(measure(strata, settings, n_permutations, cross_fit), compare=compare)


def _check(settings: Settings, d: int, n_permutations: Any, random_state: Any) -> Settings:
    """Refuse options that cannot be meant; a single component is always exact."""
    family, method = settings.family, settings.method
    if family not in METHODS:
        raise InvalidInputError(
            f"family must be one of {tuple(METHODS)}, not {family!r}.", parameter="family"
        )
    method = METHODS[family][0] if method is None else method
    if method not in METHODS[family]:
        raise InvalidInputError(
            f"family={family!r} knows the methods {METHODS[family]}, not {method!r}.",
            parameter="method",
        )
    if settings.orthants not in ("one", "all"):
        raise InvalidInputError(
            f"orthants must be 'one' or 'all', not {settings.orthants!r}.", parameter="orthants"
        )
    values = {name: getattr(settings, name) for name in ("C", "gamma")}
    check_limits(**{name: value for name, value in values.items() if value is not None})
    check_limits(
        n_permutations=n_permutations,
        max_samples=settings.max_samples,
        random_state=random_state,
    )
    limit, instead = {"linear": (2, "search"), "cdf": (3, "search"), "rbf": (0, "")}[family]
    if method == "exact" and d > limit:
        raise InvalidInputError(
            f"family={family!r}, method='exact' needs at most {limit} components, but U "
            f"has {d}: use method={instead!r}."
        )
    if family == "cdf" and settings.orthants == "all" and d > _MAX_ORTHANT_COMPONENTS:
        raise InvalidInputError(
            f"orthants='all' tries 2^{d} orthants: use at most {_MAX_ORTHANT_COMPONENTS} "
            "components, or orthants='one'."
        )
    method = "exact" if family == "linear" and d == 1 else method
    return replace(settings, method=method, seed=int(random_state))


def measure(
    strata: Sequence[Stratum], settings: Settings, n_permutations: int = 0, cross_fit: bool = False
) -> DeltaResult:
    """Measure Δ of every pair; the null of the largest value takes them all together."""
    measured: list[DeltaPair] = []
    nulls: list[_Null] = []
    with single_blas_thread():  # thin products: threads would wait for each other
        for number, stratum in enumerate(strata):
            pairs, more = _measure_stratum(stratum, settings, n_permutations, cross_fit, number)
            measured += pairs
            nulls += more
    result = DeltaResult(
        family=settings.family,
        method=settings.method,
        pairs=tuple(measured),
        n_rows=sum(len(stratum.rows) for stratum in strata),
        n_components=strata[0].rows.X.shape[1],
        supremum=_is_supremum(settings, strata[0].rows),
    )
    if not nulls:
        return result
    counted = [null for pair, null in zip(measured, nulls, strict=True) if pair in result.headline]
    null = _Null(
        max(null.observed for null in counted),
        np.max([null.values for null in counted], axis=0),
        sum({null.stratum: null.n_rows for null in counted}.values()),
    )
    return replace(result, null=null.summary(), null_values=null.values)


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
    pairs, methods = [], []
    for pair in stratum.pairs:
        part = Labelled(stratum.rows, pair.signs)
        fit, method, note = _fit(statistic, settings, part)
        measured = _describe(stratum, pair, fit, part, note, settings.min_group)
        if cross_fit:
            measured = _add_held_out(measured, part, settings)
        pairs.append(measured)
        methods.append(method)
    if not n_permutations:
        return pairs, []
    values = [measured.value for measured in pairs]
    nulls = _nulls(stratum, statistic, settings, methods, values, n_permutations, number)
    both = zip(pairs, nulls, strict=True)
    return [replace(pair, null=null.summary()) for pair, null in both], nulls


def _fit(statistic: Statistic, settings: Settings, part: Labelled) -> tuple[Fit, str, str]:
    """Fit one pair; return the method, which is a search where an SVM has no direction, and why."""
    fit = statistic.fit(part.signs)
    if not isinstance(statistic, SVMStatistic) or not statistic.rank:
        return fit, settings.method, ""
    if fit.classifier is None:
        search = SearchStatistic(part.rows.X, part.rows.weights)
        return search.fit(part.signs), "search", _NO_DIRECTION
    return fit, settings.method, _NOISE if is_noise(statistic, part.signs) else ""


def _describe(
    stratum: Stratum, pair: Pair, fit: Fit, part: Labelled, note: str, min_group: int
) -> DeltaPair:
    # Weighted shares that cancel leave a rest of rounding, which no classifier attains.
    value, classifier = (fit.value, fit.classifier) if fit.value > _ROUNDING else (0.0, None)
    rows, signs = part
    rates = {}
    if classifier is not None:
        flagged = classifier.predict(rows.X)
        share = np.ones(len(signs)) if rows.weights is None else rows.weights
        for group, sign in zip(pair.groups, (-1, 1), strict=True):
            inside = signs == sign
            rates[group] = float(share[inside & flagged].sum() / share[inside].sum())
    return DeltaPair(
        attribute=pair.attribute,
        groups=pair.groups,
        stratum=dict(stratum.name),
        n_rows=(int((signs < 0).sum()), int((signs > 0).sum())),
        small=part.smallest < min_group,
        value=min(value, 1.0),  # sums of weights may end a bit above
        classifier=classifier,
        rates=rates,
        note=note,
    )


def _add_held_out(measured: DeltaPair, part: Labelled, settings: Settings) -> DeltaPair:
    """Train on each half and measure on the other."""
    if part.smallest < MIN_ROWS:
        raise InvalidInputError(
            f"cross_fit needs at least {MIN_ROWS} rows in each group, but "
            f"{measured.label()} has {part.smallest}: use cross_fit=False.",
            parameter="cross_fit",
        )
    searched = []

    def train(half: Labelled) -> Trained:
        trained = settings.train(half)
        searched.append(trained.searched)
        return trained

    used = part.take(np.flatnonzero(part.signs))
    flags = cross_fit_flags(used, [used.split(settings.seed)], train)
    if flags is None:
        raise InvalidInputError(
            f"cross_fit needs at least two rows of each group in both halves, which the units of "
            f"{measured.label()} do not allow: use cross_fit=False.",
            parameter="cross_fit",
        )
    rates = Rates.of(flags, used.signs, used.rows.weights, used.rows.units)
    noisy = sum(searched)
    notes = (measured.note, _HALF_NOISE.format(count=noisy) if noisy else "")
    return replace(
        measured,
        held_out=rates.described(Family(), _CONFIDENCE),
        note="; ".join(note for note in notes if note),
    )


@dataclass(frozen=True, eq=False)
class _Null:
    """Values of one pair under permuted groups, and what they are compared with."""

    observed: float
    values: Array
    n_rows: int
    stratum: int = 0

    def summary(self) -> NullSummary:
        return NullSummary.of(self.observed, self.values, self.n_rows)


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
    by_pair: list[_Null | None] = [None] * len(methods)
    for method in dict.fromkeys(methods):
        how = replace(settings, method=method)
        chosen = [k for k, used in enumerate(methods) if used == method]
        index = stratum.rows.draw(how.rows_to_permute(), (settings.seed, number, 1))
        sampled = len(index) < len(stratum.rows)
        rows = stratum.rows.take(index) if sampled else stratum.rows
        if sampled or method != settings.method:
            statistic = how.statistic(rows)
        signs = [stratum.pairs[k].signs[index] for k in chosen]
        nulls = _permute(statistic, signs, rows.units, n_permutations, (settings.seed, number))
        for k, sign, null in zip(chosen, signs, nulls, strict=True):
            value = statistic.fit(sign).value if sampled else values[k]
            by_pair[k] = _Null(value, null, len(index), number)
    return [null for null in by_pair if null is not None]


def _permute(
    statistic: Statistic,
    signs: Sequence[Signs],
    units: Any,
    n_permutations: int,
    seed: tuple[int, int],
) -> list[Array]:
    """Return the null values of each pair; all see the same permutations of the rows."""
    # Rows are permuted as wholes, so that attributes keep their dependence on each other, and the
    # largest value over pairs has a null of its own.
    draw_order = _permutation(signs, units)
    rng = np.random.default_rng(seed)
    n = len(signs[0])
    size = max(1, _NUMBERS_AT_ONCE // n)
    nulls = [np.empty(n_permutations) for _ in signs]
    for start in range(0, n_permutations, size):
        stop = min(start + size, n_permutations)
        orders = np.empty((stop - start, n), dtype=np.intp)
        for order in orders:
            order[:] = draw_order(rng)
        for null, pair in zip(nulls, signs, strict=True):
            null[start:stop] = statistic.null(pair[orders])
    return nulls


def _permutation(
    signs: Sequence[Signs], units: Any
) -> Callable[[np.random.Generator], NDArray[np.intp]]:
    """Return what draws an order: of rows, of units, or of rows inside units of several groups."""
    n = len(signs[0])
    if units is None:
        return lambda rng: rng.permutation(n)
    _, first, unit = np.unique(units, return_index=True, return_inverse=True)
    if all((pair == pair[first][unit]).all() for pair in signs):
        return lambda rng: first[rng.permutation(len(first))][unit]
    order = np.argsort(unit, kind="stable")

    def inside(rng: np.random.Generator) -> NDArray[np.intp]:
        permuted = np.empty(n, dtype=np.intp)
        permuted[order] = np.lexsort((rng.random(n), unit))
        return permuted

    return inside
