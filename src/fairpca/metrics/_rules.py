"""The classifiers that attain Δ: what to call on new rows, and what to print."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import rbf_kernel

from fairpca.metrics._thresholds import Floats

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

    direction: Floats
    threshold: float

    def score(self, U: Floats) -> Floats:
        """Return the projections of rows on the direction."""
        return np.asarray(U, dtype=float) @ self.direction

    def predict(self, U: Floats) -> NDArray[np.bool_]:
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

    corner: Floats
    orthant: Floats
    inside: bool = True

    def score(self, U: Floats) -> Floats:
        """Return how far rows are inside: negative outside, zero on the boundary."""
        return -((np.asarray(U, dtype=float) - self.corner) * self.orthant).max(axis=1)

    def predict(self, U: Floats) -> NDArray[np.bool_]:
        """Return which rows are flagged."""
        return (self.score(U) >= 0) == self.inside


def kernel_sums(rows: Floats, support: Floats, coefficients: Floats, gamma: float) -> Floats:
    """Sum Gaussian kernels centred at the support vectors, a block of rows at a time."""
    sums = np.empty(len(rows))
    for start in range(0, len(rows), _CHUNK_ROWS):
        block = slice(start, start + _CHUNK_ROWS)
        sums[block] = rbf_kernel(rows[block], support, gamma=gamma) @ coefficients
    return sums


@dataclass(frozen=True, eq=False)
class KernelRule:
    """Flag rows by a Gaussian-kernel support vector machine and a threshold.

    Parameters
    ----------
    support : ndarray of shape (m, d)
        Support vectors, standardised.
    coefficients : ndarray of shape (m,)
        Their signed dual coefficients.
    intercept : float
        Intercept of the machine.
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

    support: Floats
    coefficients: Floats
    intercept: float
    gamma: float
    C: float
    mean: Floats
    scale: Floats
    threshold: float
    above: bool = True

    def score(self, U: Floats) -> Floats:
        """Return the decision function."""
        rows = (np.asarray(U, dtype=float) - self.mean) / self.scale
        return kernel_sums(rows, self.support, self.coefficients, self.gamma) + self.intercept

    def predict(self, U: Floats) -> NDArray[np.bool_]:
        """Return which rows are flagged."""
        return (self.score(U) > self.threshold) == self.above


Rule = HalfSpaceRule | OrthantRule | KernelRule
