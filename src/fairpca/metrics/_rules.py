"""The classifiers that attain Δ: thresholds of a score, and what a family offers for rows.

A pair of groups is a vector of signs per row: +1 for one group, −1 for the other and 0
for rows of neither. Signs become *masses* whose sum over a set of rows, divided by a scale, is
the share of the first group in the set minus the share of the second.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import rbf_kernel

from fairpca._present import number
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


def best_cut(
    scores: Array, mass: Array, *, tolerance: float = TIE_TOLERANCE, one_sided: bool = False
) -> Cut:
    """Return the threshold at which ``|mass of {score <= t}|`` is largest.

    One-sided: only where the group of positive mass is over-represented above.
    """
    order = np.argsort(scores)
    ordered = scores[order]
    sums = np.cumsum(mass[order])[:-1]
    gap = max(abs(ordered[0]), abs(ordered[-1])) * tolerance
    sums[np.diff(ordered) <= gap] = 0.0
    if one_sided:
        np.minimum(sums, 0.0, out=sums)
    if not sums.size or not sums.any():
        return Cut(0.0, float(ordered[-1]), True, -1, -1)
    best = int(np.argmax(np.abs(sums)))
    return Cut(
        float(abs(sums[best])),
        _between(ordered[best], ordered[best + 1]),
        bool(sums[best] < 0),
        int(order[best]),
        int(order[best + 1]),
    )


def _between(low: float, high: float) -> float:
    middle = low + 0.5 * (high - low)
    return float(middle if middle < high else low)


_BATCH_ROWS = 4096  # rows compared with the support vectors at a time


@dataclass(frozen=True, eq=False)
class HalfSpaceRule:
    """Flag rows on one side of a hyperplane, where ``direction @ u > threshold``."""

    direction: Array  # unit normal, in the coordinates of the representation
    threshold: float

    def score(self, U: Array) -> Array:
        """Return the projections of rows on the direction."""
        return np.asarray(U, dtype=float) @ self.direction

    def predict(self, U: Array) -> NDArray[np.bool_]:
        """Return which rows are flagged."""
        return self.score(U) > self.threshold


@dataclass(frozen=True, eq=False)
class OrthantRule:
    """Flag rows inside (or outside) an orthant."""

    corner: Array
    orthant: Array  # +1 where rows must not exceed the corner, −1 where they must not fall below it
    inside: bool = True  # whether the rows inside are the flagged ones

    def score(self, U: Array) -> Array:
        """Return how far rows are inside: negative outside, zero on the boundary."""
        return -((np.asarray(U, dtype=float) - self.corner) * self.orthant).max(axis=1)

    def predict(self, U: Array) -> NDArray[np.bool_]:
        """Return which rows are flagged."""
        return (self.score(U) >= 0) == self.inside


def kernel_sums(rows: Array, support: Array, coefficients: Array, gamma: float) -> Array:
    """Sum Gaussian kernels centred at the support vectors, a batch of rows at a time."""
    sums = np.empty(len(rows))
    for start in range(0, len(rows), _BATCH_ROWS):
        batch = slice(start, start + _BATCH_ROWS)
        sums[batch] = rbf_kernel(rows[batch], support, gamma=gamma) @ coefficients
    return sums


@dataclass(frozen=True, eq=False)
class KernelRule:
    """Flag rows by a Gaussian-kernel SVM and a threshold on its decision function."""

    support: Array  # support vectors, standardised
    coefficients: Array  # their signed dual coefficients
    intercept: float
    gamma: float  # of the kernel, on standardised rows
    C: float
    mean: Array  # of the standardisation, as is `scale`
    scale: Array
    threshold: float
    above: bool = True  # whether rows above the threshold are the flagged ones

    def score(self, U: Array) -> Array:
        """Return the decision function."""
        rows = (np.asarray(U, dtype=float) - self.mean) / self.scale
        return kernel_sums(rows, self.support, self.coefficients, self.gamma) + self.intercept

    def predict(self, U: Array) -> NDArray[np.bool_]:
        """Return which rows are flagged."""
        return (self.score(U) > self.threshold) == self.above


Classifier = HalfSpaceRule | OrthantRule | KernelRule


@dataclass(frozen=True, eq=False)
class Fit:
    """Value of one pair and the classifier that attains it; None for a constant one."""

    value: float
    classifier: Classifier | None


class Statistic(Protocol):
    """Δ by one family and method, made from rows alone: what groups do not change is done once."""

    # It answers for one pair (`fit`) and for many (`null`, values only) by the same procedure,
    # which is what makes a permutation p-value valid.

    def fit(self, signs: Signs) -> Fit:
        """Return the value of one pair, with its classifier."""

    def null(self, signs: Signs) -> Array:
        """Return the values of many pairs, one in each row of `signs`."""


def half_space(U: Array, direction: Array, mass: Array, tolerance: float) -> HalfSpaceRule:
    """Turn a direction into the half-space that flags the positive group more often."""
    direction = direction / np.linalg.norm(direction)
    scores = U @ direction
    # Ties are found after centring: next to a large offset rows that differ look alike.
    cut = best_cut((U - U.mean(axis=0)) @ direction, mass, tolerance=tolerance)
    low, high = scores[cut.below_row], scores[cut.above_row]
    if cut.below_row >= 0 and low < high:
        cut = replace(cut, threshold=_between(low, high))
    else:
        cut = best_cut(scores, mass, tolerance=tolerance)
    if cut.above or cut.below_row < 0:
        return HalfSpaceRule(direction, cut.threshold)
    # A half-space flags by ">", so a threshold on the lower neighbour becomes one on the upper.
    on_lower = cut.threshold == scores[cut.below_row]
    flipped = -scores[cut.above_row] if on_lower else -cut.threshold
    return HalfSpaceRule(-direction, float(flipped))


def in_words(classifier: Classifier) -> str:
    """Say in words what a classifier flags."""
    if isinstance(classifier, HalfSpaceRule):
        return f"where direction · u > {number(classifier.threshold)}"
    if isinstance(classifier, KernelRule):
        side = ">" if classifier.above else "≤"
        svm = f"SVM (C={classifier.C:g}, gamma={number(classifier.gamma)})"
        return f"where the {svm} {side} {number(classifier.threshold)}"
    corner = ", ".join(map(number, classifier.corner))
    return f"{'inside' if classifier.inside else 'outside'} the orthant at ({corner})"
