"""One-dimensional level searches behind the projections and proximal steps; exact by sorting."""

from __future__ import annotations

import numpy as np

from fairpca.linalg._spectral import Array


def fantope_eigenvalues(values: Array, rank: float, *, at_most: bool = False) -> Array:
    """Eigenvalues of the projection onto the Fantope {0 ⪯ P ⪯ I, tr P = rank}.

    They are clip(values − θ, 0, 1) with θ such that they sum to `rank`; with `at_most` the set is
    tr P ≤ rank and θ is zero where the clipped values already sum to less.

    Examples
    --------
    >>> fantope_eigenvalues(np.array([2.0, 0.5, 0.5]), 2).tolist()
    [1.0, 0.5, 0.5]
    """
    if at_most and np.clip(values, 0.0, 1.0).sum() <= rank:
        return np.clip(values, 0.0, 1.0)
    # The sum is piecewise linear and falls with θ; its kinks are at values and values − 1.
    kinks = np.sort(np.concatenate([values, values - 1.0]))
    ordered = np.sort(values)
    cumulative = np.concatenate([[0.0], np.cumsum(ordered)])
    above_zero = np.searchsorted(ordered, kinks, side="right")
    above_one = np.searchsorted(ordered, kinks + 1.0, side="left")
    inside = cumulative[above_one] - cumulative[above_zero]
    sums = inside - kinks * (above_one - above_zero) + (len(values) - above_one)
    right = int(np.clip(np.searchsorted(-sums, -rank), 1, len(kinks) - 1))
    left = right - 1
    drop = sums[left] - sums[right]
    share = (sums[left] - rank) / drop if drop > 0.0 else 0.0
    theta = kinks[left] + share * (kinks[right] - kinks[left])
    return np.asarray(np.clip(values - theta, 0.0, 1.0))


def shared_level(values: Array, mass: float, weights: Array | None = None) -> float:
    """Level s ≥ 0 with Σ weights·(values − s)₊ = mass; 0 where even s = 0 leaves less.

    It is the multiplier of the shared bound in the proximal step of mass·max(values, 0).

    Examples
    --------
    >>> shared_level(np.array([3.0, 1.0, -1.0]), 1.0)
    2.0
    """
    order = np.argsort(values)[::-1]
    ordered = values[order]
    weight = np.ones(len(values)) if weights is None else weights[order]
    levels = (np.cumsum(weight * ordered) - mass) / np.cumsum(weight)
    above = np.flatnonzero(ordered > levels)
    return max(float(levels[above[-1]]), 0.0) if len(above) else 0.0


def clipping_level(singular_values: Array, price: float, step: float) -> float:
    """Level s that minimises price·s² + step/2·Σ(σ − s)₊² over s ≥ 0.

    Clipping all singular values of a set of matrices at s is the proximal step of
    price·(largest singular value)².

    Examples
    --------
    >>> clipping_level(np.array([3.0, 0.5]), 1.0, 2.0)
    1.5
    """
    ordered = np.sort(singular_values)[::-1]
    counts = np.arange(1, len(ordered) + 1)
    levels = step * np.cumsum(ordered) / (2.0 * price + step * counts)
    above = np.flatnonzero(ordered > levels)
    return float(levels[above[-1]]) if len(above) else 0.0
