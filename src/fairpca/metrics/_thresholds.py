"""Supremum over thresholds: the step that every score-based family shares.

A pair of groups is a vector of signs per row: +1 for one group, −1 for the other and 0
for rows of neither. Signs become *masses* whose sum over a set of rows, divided by a scale, is
the share of the first group in the set minus the share of the second.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairpca.linalg import Array

Signs = NDArray[np.int8]

# Projections of equal rows may differ in the last bits, because a matrix product sums in an order
# that depends on the row's place. Thresholds are put only between values further apart than this
# share of the largest score, so rounding never separates what is equal.
TIE_TOLERANCE = 1e-12


@dataclass(frozen=True, eq=False)
class Masses:
    """Signed row masses of pairs on the same rows; a sum over `scale` is a difference of shares."""

    values: Array  # pairs × rows; whole numbers without weights, so that sums are exact
    scale: Array  # one for each pair


def masses(signs: Signs, sample_weight: Array | None = None) -> Masses:
    """Turn signs, pairs × rows, into masses; both groups have the same total, of opposite signs."""
    plus, minus = signs > 0, signs < 0
    if sample_weight is None:
        count_plus = plus.sum(axis=1).astype(float)
        count_minus = minus.sum(axis=1).astype(float)
        values = np.where(plus, count_minus[:, None], 0.0)
        np.copyto(values, -count_plus[:, None], where=minus)
        return Masses(values, count_plus * count_minus)
    total_plus = plus @ sample_weight
    total_minus = minus @ sample_weight
    values = np.where(plus, sample_weight / total_plus[:, None], 0.0)
    np.copyto(values, -sample_weight / total_minus[:, None], where=minus)
    return Masses(values, np.ones(len(signs)))


def sup_over_thresholds(scores: Array, mass: Array, *, tolerance: float = TIE_TOLERANCE) -> Array:
    """Return the largest ``|mass of {score <= t}|`` over all thresholds t, row by row."""
    order = np.argsort(scores, axis=1)
    ordered = np.take_along_axis(scores, order, axis=1)
    sums = np.cumsum(np.take_along_axis(mass, order, axis=1), axis=1)[:, :-1]
    gap = np.maximum(np.abs(ordered[:, :1]), np.abs(ordered[:, -1:])) * tolerance
    ties = np.diff(ordered, axis=1) <= gap
    np.abs(sums, out=sums)
    if ties.any():
        sums[ties] = 0.0
    return sums.max(axis=1, initial=0.0)


def sup_between_groups(scores: Array, n_plus: int, weight: Array | None = None) -> Array:
    """Return the suprema of scores sorted by group along the last axis, which are overwritten."""
    n = scores.shape[-1]
    if weight is not None:
        mass = np.concatenate([weight[..., :n_plus], -weight[..., n_plus:]], axis=-1)
        flat = np.broadcast_to(mass, scores.shape).reshape(-1, n)
        return sup_over_thresholds(scores.reshape(-1, n), flat).reshape(scores.shape[:-1])
    # A score's last bit, far below the tolerance for ties, carries the group through the sort:
    # sorting numbers is several times faster than sorting positions and looking the group up.
    bits = scores.view(np.int64)
    bits &= -2
    bits[..., :n_plus] |= 1
    scores.sort(axis=-1)
    sums = np.cumsum(bits & 1, axis=-1)[..., :-1]
    sums *= n
    sums -= n_plus * np.arange(1, n)
    gap = np.maximum(np.abs(scores[..., :1]), np.abs(scores[..., -1:])) * TIE_TOLERANCE
    # In a score of zero the bit is all there is, below the smallest normal number.
    ties = np.diff(scores, axis=-1) <= np.maximum(gap, np.finfo(np.float64).tiny)
    if ties.any():
        sums[ties] = 0
    largest = np.maximum(sums.max(axis=-1, initial=0), -sums.min(axis=-1, initial=0))
    return np.asarray(largest / (n_plus * (n - n_plus)))


@dataclass(frozen=True)
class Cut:
    """The best threshold of one score function, between two neighbouring distinct scores."""

    value: float  # absolute mass at or below the threshold, not divided by the scale
    threshold: float
    above: bool  # whether the group of positive mass is over-represented above
    below_row: int  # rows whose scores are the neighbours; −1 for a constant score
    above_row: int


def best_cut(scores: Array, mass: Array, *, tolerance: float = TIE_TOLERANCE) -> Cut:
    """Return the threshold at which ``|mass of {score <= t}|`` is largest."""
    order = np.argsort(scores)
    ordered = scores[order]
    sums = np.cumsum(mass[order])[:-1]
    gap = max(abs(ordered[0]), abs(ordered[-1])) * tolerance
    sums[np.diff(ordered) <= gap] = 0.0
    if not sums.size or not sums.any():
        return Cut(0.0, float(ordered[-1]), True, -1, -1)
    best = int(np.argmax(np.abs(sums)))
    low, high = ordered[best], ordered[best + 1]
    middle = low + 0.5 * (high - low)
    threshold = float(middle if middle < high else low)
    return Cut(
        float(abs(sums[best])),
        threshold,
        bool(sums[best] < 0),
        int(order[best]),
        int(order[best + 1]),
    )
