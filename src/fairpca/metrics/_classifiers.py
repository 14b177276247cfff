"""The classifiers that attain Δ, and what a family has to offer: a statistic made from rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import rbf_kernel

from fairpca.linalg import Array
from fairpca.metrics._thresholds import Signs, best_cut

_CHUNK_ROWS = 4096  # rows compared with the support vectors at a time


@dataclass(frozen=True, eq=False)
class HalfSpaceRule:
    """Flag rows on one side of a hyperplane.

    Parameters
    ----------
    direction : ndarray of shape (d,)
        Unit normal, in the coordinates of the representation.
    threshold : float
        Rows with ``direction @ u > threshold`` are flagged.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.metrics import HalfSpaceRule
    >>> HalfSpaceRule(np.array([0.0, 1.0]), 2.0).predict(np.array([[5.0, 1.0], [0.0, 3.0]]))
    array([False,  True])
    """

    direction: Array
    threshold: float

    def score(self, U: Array) -> Array:
        """Return the projections of rows on the direction."""
        return np.asarray(U, dtype=float) @ self.direction

    def predict(self, U: Array) -> NDArray[np.bool_]:
        """Return which rows are flagged."""
        return self.score(U) > self.threshold


@dataclass(frozen=True, eq=False)
class OrthantRule:
    """Flag rows inside (or outside) an orthant with a given corner.

    Parameters
    ----------
    corner : ndarray of shape (d,)
        The corner.
    orthant : ndarray of shape (d,)
        +1 where rows must not exceed the corner, −1 where they must not fall below it.
    inside : bool, default True
        Whether the rows inside are the flagged ones.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.metrics import OrthantRule
    >>> rule = OrthantRule(np.array([1.0, 1.0]), np.array([1.0, -1.0]))
    >>> rule.predict(np.array([[0.0, 2.0], [0.0, 0.0], [1.0, 1.0]]))
    array([ True, False,  True])
    """

    corner: Array
    orthant: Array
    inside: bool = True

    def score(self, U: Array) -> Array:
        """Return how far rows are inside: negative outside, zero on the boundary."""
        return -((np.asarray(U, dtype=float) - self.corner) * self.orthant).max(axis=1)

    def predict(self, U: Array) -> NDArray[np.bool_]:
        """Return which rows are flagged."""
        return (self.score(U) >= 0) == self.inside


def kernel_sums(rows: Array, support: Array, coefficients: Array, gamma: float) -> Array:
    """Sum Gaussian kernels centred at the support vectors, a block of rows at a time."""
    sums = np.empty(len(rows))
    for start in range(0, len(rows), _CHUNK_ROWS):
        block = slice(start, start + _CHUNK_ROWS)
        sums[block] = rbf_kernel(rows[block], support, gamma=gamma) @ coefficients
    return sums


@dataclass(frozen=True, eq=False)
class KernelRule:
    """Flag rows by a Gaussian-kernel SVM and a threshold.

    Parameters
    ----------
    support : ndarray of shape (m, d)
        Support vectors, standardised.
    coefficients : ndarray of shape (m,)
        Their signed dual coefficients.
    intercept : float
        Intercept of the SVM.
    gamma : float
        Kernel width, on standardised rows.
    C : float
        Penalty it was trained with.
    mean, scale : ndarray of shape (d,)
        Standardisation of the rows.
    threshold : float
        Threshold on the decision function.
    above : bool, default True
        Whether rows above the threshold are the flagged ones.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.metrics import KernelRule
    >>> rule = KernelRule(np.array([[0.0]]), np.array([1.0]), 0.0, 1.0, 1.0,
    ...                   np.zeros(1), np.ones(1), 0.5)
    >>> rule.predict(np.array([[0.1], [2.0]]))
    array([ True, False])
    """

    support: Array
    coefficients: Array
    intercept: float
    gamma: float
    C: float
    mean: Array
    scale: Array
    threshold: float
    above: bool = True

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
    """Δ by one family and method, made from rows alone: what groups do not change is done once.

    It answers for one pair (`fit`) and for many (`null`, values only) by the same procedure,
    which is what makes a permutation p-value valid.
    """

    def fit(self, signs: Signs) -> Fit:
        """Return the value of one pair, with its classifier."""

    def null(self, signs: Signs) -> Array:
        """Return the values of many pairs, one in each row of `signs`."""


def half_space(U: Array, direction: Array, mass: Array, tolerance: float) -> HalfSpaceRule:
    """Turn a direction into the half-space that flags the positive group more often."""
    direction = direction / np.linalg.norm(direction)
    scores = U @ direction
    cut = best_cut(scores, mass, tolerance=tolerance)
    if cut.above or cut.below_row < 0:
        return HalfSpaceRule(direction, cut.threshold)
    # A half-space flags by ">", so a threshold on the lower neighbour becomes one on the upper.
    on_lower = cut.threshold == scores[cut.below_row]
    flipped = -scores[cut.above_row] if on_lower else -cut.threshold
    return HalfSpaceRule(-direction, float(flipped))
