"""Distances between groups: of means, of covariances, of distributions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist
from sklearn.metrics.pairwise import rbf_kernel

from fairpca._choices import COMPARE
from fairpca._present import label
from fairpca.exceptions import GroupsError, InvalidInputError
from fairpca.linalg import Array
from fairpca.metrics._rules import Signs
from fairpca.moments import GroupMoments
from fairpca.rows import Rows
from fairpca.rows._pairs import Stratum

_NUMBERS_AT_ONCE = 1 << 22  # of a kernel matrix: 32 MB
_MEDIAN_ROWS = 1000  # rows whose distances give the median


def mean_gap(
    U: Any,
    sensitive_features: Any = None,
    *,
    compare: str = COMPARE[0],
    joint: bool = False,
    reference: Any = None,
    control_features: Any = None,
    sample_weight: Any = None,
) -> float:
    """Return the largest distance between the means of two groups.

    Parameters
    ----------
    U, joint, reference, control_features, sample_weight
        As in `delta_fairness`.
    sensitive_features : array-like or data frame
        Protected attributes; numbers are compared as `FairPCA` does.
    compare : {"one-vs-rest", "pairs", "reference"}, default "one-vs-rest"
        Which groups are compared, where there are more than two. `FairPCA.mean_gap_` is the same
        figure of the same scores and has the same default.

    Returns
    -------
    float
        Euclidean norm of the difference of means; the largest over attributes and strata.

    See Also
    --------
    cov_gap, mmd2 : Differences of covariances, and of whole distributions.

    Examples
    --------
    >>> from fairpca.metrics import mean_gap
    >>> mean_gap([[0.0, 0.0], [2.0, 0.0], [4.0, 4.0], [4.0, 4.0]], ["a", "a", "b", "b"])
    5.0
    """
    rows = Rows.read_dense(U, sensitive_features, control_features, sample_weight).counted()
    return gaps_of(rows, compare, joint, reference)[0]


def cov_gap(
    U: Any,
    sensitive_features: Any = None,
    *,
    compare: str = COMPARE[0],
    joint: bool = False,
    reference: Any = None,
    control_features: Any = None,
    sample_weight: Any = None,
) -> float:
    """Return the largest distance between the covariances of two groups.

    Parameters
    ----------
    U, sensitive_features, joint, reference, control_features, sample_weight
        As in `mean_gap`.
    compare : {"one-vs-rest", "pairs", "reference"}, default "one-vs-rest"
        As in `mean_gap`; `FairPCA.cov_gap_` is the same figure of the groups that the fit
        compares. Here every group of two rows or more counts; `audit` says whose gap is largest.

    Returns
    -------
    float
        Spectral norm of the difference of covariances, each divided by the size of its group;
        the largest over attributes and strata.

    See Also
    --------
    mean_gap, mmd2 : Differences of means, and of whole distributions.

    Examples
    --------
    >>> from fairpca.metrics import cov_gap
    >>> cov_gap([[-1.0], [1.0], [-3.0], [3.0]], ["a", "a", "b", "b"])
    8.0
    """
    rows = Rows.read_dense(U, sensitive_features, control_features, sample_weight).counted()
    return gaps_of(rows, compare, joint, reference)[1]


def gaps_of(rows: Rows, compare: str, joint: bool, reference: Any) -> tuple[float, float]:
    """Return the largest mean gap and covariance gap, over the contrasts of all groups."""
    gaps = table_of_gaps(rows, compare, joint, reference)
    mean, cov = (largest_gap(gaps, name)[name] for name in ("mean_gap", "cov_gap"))
    return mean, cov


def table_of_gaps(rows: Rows, compare: str, joint: bool, reference: Any) -> list[dict[str, Any]]:
    """Return every contrast of groups with two rows or more, with its gaps."""
    # A fit leaves small groups out where they do not differ in the features; a measure of what is
    # left of their differences must not.
    moments = GroupMoments.from_rows(rows)
    contrasts = moments.contrasts(compare, joint, reference, min_group_size=2)
    columns = contrasts.as_table()
    gaps = contrasts.projected_gaps(np.eye(rows.X.shape[1]))
    columns |= {"mean_gap": gaps.mean, "cov_gap": gaps.cov}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def largest_gap(table: Sequence[dict[str, Any]], name: str) -> dict[str, Any]:
    """Return the contrast with the largest of one kind of gap."""
    known = [row for row in table if row[name] is not None]
    if not known:
        raise GroupsError(
            "No two groups of at least two rows each can be compared: merge small groups, or use "
            "fewer control features."
        )
    return max(known, key=lambda row: row[name])


def contrast_text(row: dict[str, Any]) -> str:
    """Name the two sides of a contrast, with their rows."""
    pair = label(row["attribute"], row["positive"], row["negative"], row["stratum"])
    sizes = (row["n_positive"], row["n_negative"])[: 2 if row["negative"] else 1]
    return f"{pair} ({' / '.join(f'{size:,}' for size in sizes)} rows)"


def mmd2(
    U: Any,
    sensitive_features: Any = None,
    *,
    gamma: float | None = None,
    unbiased: bool = True,
    compare: str = COMPARE[0],
    control_features: Any = None,
    sample_weight: Any = None,
) -> float:
    """Return the largest squared maximum mean discrepancy of two groups.

    Parameters
    ----------
    U : array-like of shape (n, d), or Rows
        Any representation; `fairpca.rows.Rows` bring their own groups, strata and weights.
    sensitive_features : array-like or data frame
        Protected attributes.
    gamma : float, optional
        Width of the Gaussian kernel ``exp(−gamma ‖u − v‖²)``. By default one over the median
        squared distance between rows (of the first thousand, evenly spaced, of many rows).
    unbiased : bool, default True
        Whether to leave out each row's kernel with itself: zero on average where groups do not
        differ, and therefore sometimes negative. Otherwise never negative, and biased upwards.
    compare, control_features, sample_weight
        As in `delta_fairness`.

    Returns
    -------
    float
        The largest value over pairs of groups, attributes and strata.

    See Also
    --------
    mean_gap, cov_gap : First and second moments alone.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.metrics import mmd2
    >>> z = np.repeat([0, 1], 50)
    >>> round(mmd2(np.random.default_rng(0).normal(size=(100, 2)) + 5 * z[:, None], z), 1)
    1.5
    """
    if gamma is not None and not gamma > 0:
        raise InvalidInputError(f"gamma must be positive, not {gamma!r}.", parameter="gamma")
    rows = Rows.read_dense(U, sensitive_features, control_features, sample_weight).counted()
    width = median_gamma(rows.X) if gamma is None else gamma
    return largest_mmd2(rows.pairs(compare), width, unbiased)


def largest_mmd2(strata: Sequence[Stratum], gamma: float, unbiased: bool = True) -> float:
    """Return the largest value over all pairs."""
    values = []
    for stratum in strata:
        U, weights = stratum.rows.X, stratum.rows.weights
        U = U - U.mean(axis=0)  # far from zero squared distances would lose their digits
        share = np.ones(len(U)) if weights is None else weights
        values += [_mmd2(U, share, pair.signs, gamma, unbiased) for pair in stratum.pairs]
    return max(values)


def median_gamma(U: Array) -> float:
    """Return one over the median squared distance between rows; one where all are equal."""
    picked = U[np.unique(np.linspace(0, len(U) - 1, min(len(U), _MEDIAN_ROWS)).astype(int))]
    distances = pdist(picked, "sqeuclidean")
    positive = distances[distances > 0]
    return float(1.0 / np.median(positive)) if positive.size else 1.0


def without_small(strata: Sequence[Stratum], least: int) -> tuple[Stratum, ...]:
    """Leave out pairs of groups with fewer rows, unless all are."""
    remaining = []
    for stratum in strata:
        signs = ((pair, pair.signs) for pair in stratum.pairs)
        kept = tuple(p for p, s in signs if min((s > 0).sum(), (s < 0).sum()) >= least)
        if kept:
            remaining.append(replace(stratum, pairs=kept))
    return tuple(remaining) or tuple(strata)


def gaps_of_large_groups(rows: Rows, least: int, **how: Any) -> dict[str, Any]:
    """Return all contrasts, and those of the largest gaps of groups with rows enough."""
    table = table_of_gaps(rows, **how)
    sizes = [(row["n_positive"], row["n_negative"] or row["n_positive"]) for row in table]
    large = [row for row, both in zip(table, sizes, strict=True) if min(both) >= least] or table
    largest = {name: largest_gap(large, name) for name in ("mean_gap", "cov_gap")}
    return {"gaps": largest, "contrasts": tuple(table)}


def _mmd2(U: Array, weight: Array, signs: Signs, gamma: float, unbiased: bool) -> float:
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
    left: Array, right: Array, left_weight: Array, right_weight: Array, gamma: float
) -> float:
    """Sum the kernel over all pairs of rows, without holding the whole matrix."""
    total = 0.0
    size = max(1, _NUMBERS_AT_ONCE // len(right))
    for start in range(0, len(left), size):
        batch = slice(start, start + size)
        total += float(
            left_weight[batch] @ rbf_kernel(left[batch], right, gamma=gamma) @ right_weight
        )
    return total
