"""Δ-fairness: how well a family of classifiers tells protected groups apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.stats import chi2

from fairpca.exceptions import InvalidInputError
from fairpca.linalg import single_blas_thread
from fairpca.metrics._engines import (
    Engine,
    Fit,
    LineEngine,
    OrthantEngine,
    PlaneEngine,
    SearchEngine,
    SVMEngine,
)
from fairpca.metrics._inputs import Comparison, Inputs, Stratum, check_inputs
from fairpca.metrics._rbf import KernelEngine
from fairpca.metrics._result import DeltaComparison, DeltaResult, NullSummary
from fairpca.metrics._thresholds import Floats, Signs, masses

METHODS = {
    "linear": ("svm", "search", "exact"),
    "rbf": ("svm",),
    "cdf": ("search", "sample", "exact"),
}
_MAX_ORTHANT_COMPONENTS = 12  # 4,096 orthants
_ROUNDING = 1e-13  # below any difference of shares that rows can make
_CHUNK_CELLS = 1 << 24  # permutations × rows whose masses are held at a time: 128 MB
_MIN_CROSS_FIT = 4

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
class _Settings:
    """How to compute; what to compute it on comes apart."""

    family: str
    method: str
    orthants: str
    C: float | None
    gamma: float | None
    max_samples: int
    seed: int

    def engine(self, U: Floats, weight: Floats | None) -> Engine:
        """Prepare an engine on rows."""
        if self.family == "cdf":
            return OrthantEngine(U, weight, self.method, self.orthants)
        if self.family == "rbf":
            return KernelEngine(
                U,
                weight,
                C=self.C,
                gamma=self.gamma,
                max_samples=self.max_samples,
                seed=self.seed,
            )
        if U.shape[1] == 1:
            return LineEngine(U, weight)
        engines: dict[str, Callable[[Floats, Floats | None], Engine]] = {
            "svm": SVMEngine,
            "search": SearchEngine,
            "exact": PlaneEngine,
        }
        return engines[self.method](U, weight)


def delta_fairness(
    U: Any,
    sensitive_features: Any,
    *,
    family: str = "linear",
    method: str | None = None,
    control_features: Any = None,
    sample_weight: Any = None,
    n_permutations: int = 0,
    cross_fit: bool = False,
    orthants: str = "one",
    C: float | None = None,
    gamma: float | None = None,
    max_samples: int = 2000,
    random_state: int | None = None,
) -> DeltaResult:
    """Measure how well a family of classifiers tells protected groups apart.

    Δ̂ is the largest difference, over classifiers of the family and their thresholds, between the
    shares of two groups that a classifier flags: 0 where no classifier of the family sees a
    difference, 1 where one separates the groups.

    Parameters
    ----------
    U : array-like of shape (n, d)
        Any representation; a vector is one component.
    sensitive_features : array-like or data frame
        Protected attributes. Every pair of groups of every attribute is compared.
    family : {"linear", "rbf", "cdf"}, default "linear"
        Half-spaces; Gaussian-kernel SVMs; lower-left orthants, which is the multivariate
        Kolmogorov–Smirnov distance.
    method : {"svm", "search", "sample", "exact"}, optional
        For "linear": "svm" (default; linear SVMs with a large and a small penalty, balanced
        groups, the better kept), "search" (the SVM and other directions with ascent on Δ̂ itself,
        never below "svm") or "exact" (one or two components). For "cdf": "search" (default;
        ascent from the best rows), "sample" (the rows only) or "exact" (up to three components).
        For "rbf": "svm". A single component is always treated exactly.
    control_features : array-like or data frame, optional
        Strata: groups are compared within each, as for equalised odds.
    sample_weight : array-like of shape (n,), optional
        Row weights. Their unit does not matter, so for "rbf" with `C` given they are not the same
        as repeated rows: `C` refers to the number of rows.
    n_permutations : int, default 0
        Permutations of the groups, within strata, for the null and the p-value. The same
        procedure runs on every permutation; what does not depend on the groups runs once.
    cross_fit : bool, default False
        Whether to train on one half and evaluate on the other, both ways: the mean difference of
        rates at the trained threshold. On average a lower bound of the true Δ. It may be negative
        when nothing leaks, above all after exact matching of means, where the halves lean
        opposite ways.
    orthants : {"one", "all"}, default "one"
        For "cdf": lower-left orthants, or the largest value over all 2^d sign flips, since the
        signs of principal components mean nothing.
    C, gamma : float, optional
        For "rbf": penalty and kernel width on standardised rows. By default chosen from a grid by
        5-fold cross-validation, as in the paper: the smoothest machine whose held-out Δ̂ is
        within one standard error of the largest.
    max_samples : int, default 2000
        For "rbf": rows a machine is trained on at most, drawn at random; all rows are scored.
    random_state : int, optional
        Seed of permutations, halves, folds and draws; results are deterministic without it too.

    Returns
    -------
    DeltaResult
        ``float()`` gives the value.

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
    >>> round(result.value, 2), result.p_value
    (0.74, 0.01)
    """
    settings = _check_settings(
        family, method, orthants, C, gamma, max_samples, random_state, n_permutations
    )
    inputs = check_inputs(U, sensitive_features, control_features, sample_weight)
    settings = _check_dimension(settings, inputs.U.shape[1])
    rows: list[DeltaComparison] = []
    nulls: list[Floats] = []
    with single_blas_thread():  # thin products: threads would wait for each other
        for index, stratum in enumerate(inputs.strata):
            found, null = _compare_stratum(
                inputs, stratum, settings, n_permutations, cross_fit, index
            )
            rows += found
            nulls += null
    worst = max(range(len(rows)), key=lambda i: rows[i].value)
    null_values = np.max(nulls, axis=0) if n_permutations else None
    return DeltaResult(
        family=settings.family,
        method=settings.method,
        comparisons=tuple(rows),
        null=None if null_values is None else NullSummary.of(rows[worst].value, null_values),
        null_values=null_values,
        scores=_scores(inputs, rows[worst], worst),
    )


def _check_settings(
    family: str,
    method: str | None,
    orthants: str,
    C: float | None,
    gamma: float | None,
    max_samples: int,
    random_state: int | None,
    n_permutations: int,
) -> _Settings:
    if family not in METHODS:
        raise InvalidInputError(f"family must be one of {tuple(METHODS)}, not {family!r}.")
    method = METHODS[family][0] if method is None else method
    if method not in METHODS[family]:
        raise InvalidInputError(
            f"family={family!r} knows the methods {METHODS[family]}, not {method!r}."
        )
    if orthants not in ("one", "all"):
        raise InvalidInputError(f"orthants must be 'one' or 'all', not {orthants!r}.")
    for name, value in (("C", C), ("gamma", gamma)):
        if value is not None and not (isinstance(value, Real) and value > 0):
            raise InvalidInputError(f"{name} must be a positive number or None, not {value!r}.")
    seed = 0 if random_state is None else random_state
    whole = {"n_permutations": (n_permutations, 0), "max_samples": (max_samples, 10)}
    whole["random_state"] = (seed, 0)
    for name, (number, least) in whole.items():
        if not isinstance(number, Integral) or number < least:
            raise InvalidInputError(
                f"{name} must be a whole number of at least {least}, not {number!r}."
            )
    seed = int(seed)
    return _Settings(family, method, orthants, C, gamma, max_samples, seed)


def _check_dimension(settings: _Settings, d: int) -> _Settings:
    """Refuse what a dimension does not allow; a single component is always exact."""
    limits = {"linear": (2, "search"), "cdf": (3, "search"), "rbf": (0, "")}
    limit, instead = limits[settings.family]
    if settings.method == "exact" and d > limit:
        raise InvalidInputError(
            f"family={settings.family!r}, method='exact' needs at most {limit} components, but U "
            f"has {d}: use method={instead!r}."
        )
    if settings.family == "cdf" and settings.orthants == "all" and d > _MAX_ORTHANT_COMPONENTS:
        raise InvalidInputError(
            f"orthants='all' tries 2^{d} orthants: use at most {_MAX_ORTHANT_COMPONENTS} "
            "components, or orthants='one'."
        )
    if settings.family == "linear" and d == 1:
        return replace(settings, method="exact")
    return settings


def _compare_stratum(
    inputs: Inputs,
    stratum: Stratum,
    settings: _Settings,
    n_permutations: int,
    cross_fit: bool,
    index: int,
) -> tuple[list[DeltaComparison], list[Floats]]:
    """Compare all pairs of one stratum; they share what is computed from the rows."""
    U, weight = inputs.rows_of(stratum)
    engine = settings.engine(U, weight)
    rows, engines = [], []
    for comparison in stratum.comparisons:
        chosen, fit, note = _fit(engine, U, weight, comparison.signs)
        row = _describe(stratum, comparison, fit, U, weight, note)
        if cross_fit:
            value, more = _cross_fit(settings, U, weight, comparison.signs, row.label())
            note = "; ".join(text for text in (note, more) if text)
            row = replace(row, cross_fit_value=value, note=note)
        rows.append(row)
        engines.append(chosen)
    nulls = []
    if n_permutations:
        nulls = _permute(stratum, engines, n_permutations, (settings.seed, index))
        rows = [
            replace(row, null=NullSummary.of(row.value, null))
            for row, null in zip(rows, nulls, strict=True)
        ]
    return rows, nulls


def _fit(engine: Engine, U: Floats, weight: Floats | None, signs: Signs) -> tuple[Engine, Fit, str]:
    """Fit one comparison; replace an SVM that has no direction by a search, and say so."""
    fit = engine.fit(signs)
    if not isinstance(engine, SVMEngine) or engine.rank == 0:
        return engine, fit, ""
    if fit.rule is None:
        engine_instead = SearchEngine(U, weight)
        return engine_instead, engine_instead.fit(signs), _NO_DIRECTION
    return engine, fit, _NOISE if _is_noise(engine, signs) else ""


def _is_noise(engine: SVMEngine, signs: Signs) -> bool:
    """Whether group means differ no more than those of groups drawn at random would."""
    return engine.mean_shift(signs) <= chi2.ppf(0.95, engine.rank)


def _describe(
    stratum: Stratum,
    comparison: Comparison,
    fit: Fit,
    U: Floats,
    weight: Floats | None,
    note: str,
) -> DeltaComparison:
    # Weighted shares that cancel leave a rest of rounding, which no classifier attains.
    value, rule = (fit.value, fit.rule) if fit.value > _ROUNDING else (0.0, None)
    rates = {}
    signs = comparison.signs
    if rule is not None:
        flagged = rule.predict(U)
        share = np.ones(len(U)) if weight is None else weight
        for group, sign in zip(comparison.groups, (-1, 1), strict=True):
            inside = signs == sign
            rates[group] = float(share[inside & flagged].sum() / share[inside].sum())
    return DeltaComparison(
        attribute=comparison.attribute,
        groups=comparison.groups,
        stratum=dict(stratum.name),
        n_rows=(int((signs < 0).sum()), int((signs > 0).sum())),
        value=value,
        classifier=rule,
        rates=rates,
        note=note,
    )


def _permute(
    stratum: Stratum, engines: list[Engine], n_permutations: int, seed: tuple[int, int]
) -> list[Floats]:
    """Return the null values of each comparison; all see the same permutations of the rows.

    Rows are permuted as wholes, so that attributes keep their dependence on each other, and the
    largest value over comparisons has a null of its own.
    """
    rng = np.random.default_rng(seed)
    n = len(stratum.rows)
    size = max(1, _CHUNK_CELLS // n)
    nulls = [np.empty(n_permutations) for _ in engines]
    for start in range(0, n_permutations, size):
        stop = min(start + size, n_permutations)
        orders = np.empty((stop - start, n), dtype=np.intp)
        for order in orders:
            order[:] = rng.permutation(n)
        for null, engine, comparison in zip(nulls, engines, stratum.comparisons, strict=True):
            null[start:stop] = engine.null(comparison.signs[orders])
    return nulls


def _cross_fit(
    settings: _Settings, U: Floats, weight: Floats | None, signs: Signs, label: str
) -> tuple[float, str]:
    """Train on each half, evaluate on the other; return the mean difference of rates."""
    rng = np.random.default_rng(settings.seed)
    half = np.zeros(len(signs), dtype=np.int8)
    for sign in (-1, 1):
        members = rng.permutation(np.flatnonzero(signs == sign))
        if len(members) < _MIN_CROSS_FIT:
            raise InvalidInputError(
                f"cross_fit needs at least {_MIN_CROSS_FIT} rows in each group, but "
                f"{label} has {len(members)}: use cross_fit=False."
            )
        half[members[: len(members) // 2]] = 1
        half[members[len(members) // 2 :]] = 2
    values, noisy = [], 0
    for side in (1, 2):
        train, test = half == side, half == 3 - side
        train_weight = None if weight is None else weight[train]
        engine = settings.engine(U[train], train_weight)
        if isinstance(engine, SVMEngine) and engine.rank and _is_noise(engine, signs[train]):
            engine = SearchEngine(U[train], train_weight)
            noisy += 1
        rule = engine.fit(signs[train]).rule
        if rule is None:
            values.append(0.0)
            continue
        mass = masses(signs[test][None], None if weight is None else weight[test])
        flagged = rule.predict(U[test])
        values.append(float(mass.values[0][flagged].sum() / mass.scale[0]))
    return float(np.mean(values)), _HALF_NOISE.format(count=noisy) if noisy else ""


def _scores(inputs: Inputs, row: DeltaComparison, index: int) -> tuple[Floats, Floats] | None:
    """Return the scores of both groups of a comparison, for the plot."""
    if row.classifier is None:
        return None
    pairs = [(s, c) for s in inputs.strata for c in s.comparisons]
    stratum, comparison = pairs[index]
    scores = row.classifier.score(inputs.U[stratum.rows])
    return scores[comparison.signs < 0], scores[comparison.signs > 0]
