"""Distances between groups: of means, of covariances, of distributions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel

from fairpca.exceptions import InvalidInputError
from fairpca.metrics._inputs import Inputs, check_inputs
from fairpca.metrics._thresholds import Floats, Signs

_Moments = tuple[Floats, Floats]
_CHUNK_ROWS = 1024  # rows of a kernel matrix computed at a time
_MEDIAN_ROWS = 1000  # rows whose distances give the median


def mean_gap(
    U: Any, sensitive_features: Any, *, control_features: Any = None, sample_weight: Any = None
) -> float:
    """Return the largest distance between the means of two groups.

    Parameters
    ----------
    U : array-like of shape (n, d)
        Any representation.
    sensitive_features : array-like or data frame
        Protected attributes.
    control_features : array-like or data frame, optional
        Strata.
    sample_weight : array-like of shape (n,), optional
        Row weights.

    Returns
    -------
    float
        Euclidean norm of the difference of means; the largest over pairs of groups, attributes
        and strata.

    Examples
    --------
    >>> from fairpca.metrics import mean_gap
    >>> mean_gap([[0.0, 0.0], [2.0, 0.0], [4.0, 4.0], [4.0, 4.0]], ["a", "a", "b", "b"])
    5.0
    """
    inputs = check_inputs(U, sensitive_features, control_features, sample_weight)
    return largest_over_pairs(inputs, _distance_of_means)


def _distance_of_means(pair: tuple[_Moments, _Moments]) -> float:
    return float(np.linalg.norm(pair[1][0] - pair[0][0]))


def cov_gap(
    U: Any, sensitive_features: Any, *, control_features: Any = None, sample_weight: Any = None
) -> float:
    """Return the largest distance between the covariances of two groups.

    Parameters
    ----------
    U : array-like of shape (n, d)
        Any representation.
    sensitive_features : array-like or data frame
        Protected attributes.
    control_features : array-like or data frame, optional
        Strata.
    sample_weight : array-like of shape (n,), optional
        Row weights.

    Returns
    -------
    float
        Spectral norm of the difference of covariances, each divided by the size of its group;
        the largest over pairs of groups, attributes and strata.

    Examples
    --------
    >>> from fairpca.metrics import cov_gap
    >>> cov_gap([[-1.0], [1.0], [-3.0], [3.0]], ["a", "a", "b", "b"])
    8.0
    """
    inputs = check_inputs(U, sensitive_features, control_features, sample_weight)
    return largest_over_pairs(inputs, _distance_of_covariances)


def _distance_of_covariances(pair: tuple[_Moments, _Moments]) -> float:
    return float(np.abs(np.linalg.eigvalsh(pair[1][1] - pair[0][1])).max())


def largest_over_pairs(
    inputs: Inputs, distance: Callable[[tuple[_Moments, _Moments]], float]
) -> float:
    """Return the largest distance over all comparisons, from means and covariances.

    Parameters
    ----------
    inputs : Inputs
        Checked arguments.
    distance : callable
        Takes the (mean, covariance) of both groups.

    Returns
    -------
    float
        The largest value.
    """
    values = []
    for stratum in inputs.strata:
        U, weight = inputs.rows_of(stratum)
        share = np.ones(len(U)) if weight is None else weight
        for comparison in stratum.comparisons:
            pair = tuple(_moments(U, share, comparison.signs == sign) for sign in (-1, 1))
            values.append(distance((pair[0], pair[1])))
    return max(values)


def _moments(U: Floats, weight: Floats, inside: Any) -> _Moments:
    rows, share = U[inside], weight[inside] / weight[inside].sum()
    mean = share @ rows
    centred = rows - mean
    return mean, (centred.T * share) @ centred


def mmd2(
    U: Any,
    sensitive_features: Any,
    *,
    gamma: float | None = None,
    unbiased: bool = True,
    control_features: Any = None,
    sample_weight: Any = None,
) -> float:
    """Return the largest squared maximum mean discrepancy of two groups.

    Parameters
    ----------
    U : array-like of shape (n, d)
        Any representation.
    sensitive_features : array-like or data frame
        Protected attributes.
    gamma : float, optional
        Width of the Gaussian kernel ``exp(−gamma ‖u − v‖²)``. By default one over the median
        squared distance between rows (of the first thousand, evenly spaced, of many rows).
    unbiased : bool, default True
        Whether to leave out each row's kernel with itself: zero on average where groups do not
        differ, and therefore sometimes negative. Otherwise never negative, and biased upwards.
    control_features : array-like or data frame, optional
        Strata.
    sample_weight : array-like of shape (n,), optional
        Row weights.

    Returns
    -------
    float
        The largest value over pairs of groups, attributes and strata.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.metrics import mmd2
    >>> z = np.repeat([0, 1], 50)
    >>> round(mmd2(np.random.default_rng(0).normal(size=(100, 2)) + 5 * z[:, None], z), 1)
    1.5
    """
    if gamma is not None and not gamma > 0:
        raise InvalidInputError(f"gamma must be positive, not {gamma!r}.")
    inputs = check_inputs(U, sensitive_features, control_features, sample_weight)
    width = _median_gamma(inputs.U) if gamma is None else gamma
    values = []
    for stratum in inputs.strata:
        rows, weight = inputs.rows_of(stratum)
        share = np.ones(len(rows)) if weight is None else weight
        for comparison in stratum.comparisons:
            values.append(_mmd2(rows, share, comparison.signs, width, unbiased))
    return max(values)


def _median_gamma(U: Floats) -> float:
    """Return one over the median squared distance between rows; one where all are equal."""
    picked = U[np.unique(np.linspace(0, len(U) - 1, min(len(U), _MEDIAN_ROWS)).astype(int))]
    squares = ((picked[:, None, :] - picked[None, :, :]) ** 2).sum(axis=2)
    distances = squares[np.triu_indices(len(picked), 1)]
    positive = distances[distances > 0]
    return float(1.0 / np.median(positive)) if positive.size else 1.0


def _mmd2(U: Floats, weight: Floats, signs: Signs, gamma: float, unbiased: bool) -> float:
    groups = [(U[signs == sign], weight[signs == sign]) for sign in (1, -1)]
    (plus, plus_weight), (minus, minus_weight) = groups
    total = 0.0
    for rows, share in groups:
        within = _kernel_sum(rows, rows, share, share, gamma)
        itself = float(share @ share)
        mass = float(share.sum()) ** 2
        total += (within - itself) / (mass - itself) if unbiased else within / mass
    across = _kernel_sum(plus, minus, plus_weight, minus_weight, gamma)
    return total - 2.0 * across / float(plus_weight.sum() * minus_weight.sum())


def _kernel_sum(
    left: Floats, right: Floats, left_weight: Floats, right_weight: Floats, gamma: float
) -> float:
    """Sum the kernel over all pairs of rows, without holding the whole matrix."""
    total = 0.0
    for start in range(0, len(left), _CHUNK_ROWS):
        block = slice(start, start + _CHUNK_ROWS)
        total += float(
            left_weight[block] @ rbf_kernel(left[block], right, gamma=gamma) @ right_weight
        )
    return total
