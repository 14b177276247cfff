"""Synthetic data."""

from __future__ import annotations

from numbers import Integral

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from fairpca.exceptions import InvalidInputError

# A ball and a cigar that crosses it at an angle: they differ in position and in shape, and the
# difference in shape is visible in most planes in which the means are equal or nearly so.
_HALF_GAP = 1.0
_WIDTH, _LENGTH = 0.7, 2.0
_AXIS = np.array([1.0, 1.0, 0.0]) / np.sqrt(2.0)


def make_two_gaussians(
    n_samples: int = 1000, *, random_state: int | np.random.RandomState | None = 0
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Draw points from two different three-dimensional Gaussians.

    The setting of the paper's figure 1: 1000 points from each of two populations. The paper does
    not print its means and covariances; these are ours.

    Parameters
    ----------
    n_samples : int, default=1000
        Points in each population.
    random_state : int, RandomState or None, default=0
        Seed.

    Returns
    -------
    X : ndarray of shape (2 * n_samples, 3)
        Points.
    z : ndarray of shape (2 * n_samples,)
        Population: 0 for the first half, 1 for the second.

    Examples
    --------
    >>> from fairpca.datasets import make_two_gaussians
    >>> X, z = make_two_gaussians(500)
    >>> X.shape, int(z.sum())
    ((1000, 3), 500)
    """
    if not isinstance(n_samples, Integral) or n_samples < 1:
        raise InvalidInputError(f"n_samples must be a whole number of at least 1: {n_samples!r}.")
    random = check_random_state(random_state)
    ball = _WIDTH * random.standard_normal((n_samples, 3))
    cigar = _WIDTH * random.standard_normal((n_samples, 3))
    cigar += _LENGTH * random.standard_normal((n_samples, 1)) * _AXIS
    ball[:, 0] += _HALF_GAP
    cigar[:, 0] -= _HALF_GAP
    return np.vstack([ball, cigar]), np.repeat([0, 1], n_samples)
