"""Δ-fairness: how well a family of classifiers tells protected groups apart."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real
from typing import Any

from fairpca._choices import METHODS
from fairpca.exceptions import InvalidInputError
from fairpca.metrics._measure import Settings, measure
from fairpca.metrics._result import DeltaResult
from fairpca.rows import Rows

_MAX_ORTHANT_COMPONENTS = 12  # 4,096 orthants


def delta_fairness(
    U: Any,
    sensitive_features: Any = None,
    *,
    family: str = "linear",
    method: str | None = None,
    compare: str = "pairs",
    joint: bool = False,
    reference: Any = None,
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
    U : array-like of shape (n, d), or Rows
        Any representation; a vector is one component. `fairpca.rows.Rows` bring their own groups,
        strata and weights.
    sensitive_features : array-like or data frame
        Protected attributes; all are compared.
    family : {"linear", "rbf", "cdf"}, default "linear"
        Half-spaces; Gaussian-kernel SVMs; lower-left orthants, which is the multivariate
        Kolmogorov–Smirnov distance.
    method : {"svm", "search", "sample", "exact"}, optional
        For "linear": "svm" (default; linear SVMs with a large and a small penalty, balanced
        groups, the better kept), "search" (the SVM and other directions with ascent on Δ̂ itself,
        never below "svm") or "exact" (one or two components). For "cdf": "search" (default;
        ascent from the best rows), "sample" (the rows only) or "exact" (up to three components).
        For "rbf": "svm". A single component is always treated exactly.
    compare : {"pairs", "one-vs-rest", "reference"}, default "pairs"
        What faces what in an attribute of more than two groups.
    joint : bool, default False
        Whether intersections of the attributes are compared with the rest, too.
    reference : level or dict of str to level, optional
        The reference group, for each attribute where there are several.
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
    settings = check_settings(
        family, method, orthants, C, gamma, max_samples, random_state, n_permutations
    )
    rows = Rows.read_dense(U, sensitive_features, control_features, sample_weight).counted()
    strata = rows.pairs(compare, joint=joint, reference=reference)
    settings = check_dimension(settings, rows.X.shape[1])
    return measure(strata, settings, n_permutations, cross_fit)


def check_settings(
    family: str,
    method: str | None,
    orthants: str,
    C: float | None,
    gamma: float | None,
    max_samples: int,
    random_state: int | None,
    n_permutations: int,
) -> Settings:
    """Check the options of a statistic."""
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
    if orthants not in ("one", "all"):
        raise InvalidInputError(
            f"orthants must be 'one' or 'all', not {orthants!r}.", parameter="orthants"
        )
    for name, value in (("C", C), ("gamma", gamma)):
        if value is not None and not (isinstance(value, Real) and value > 0):
            raise InvalidInputError(
                f"{name} must be a positive number or None, not {value!r}.", parameter=name
            )
    seed = 0 if random_state is None else random_state
    whole = {"n_permutations": (n_permutations, 0), "max_samples": (max_samples, 10)}
    whole["random_state"] = (seed, 0)
    for name, (number, least) in whole.items():
        if not isinstance(number, Integral) or number < least:
            raise InvalidInputError(
                f"{name} must be a whole number of at least {least}, not {number!r}.",
                parameter=name,
            )
    seed = int(seed)
    return Settings(family, method, orthants, C, gamma, max_samples, seed)


def check_dimension(settings: Settings, d: int) -> Settings:
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
