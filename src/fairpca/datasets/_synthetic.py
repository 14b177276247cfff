"""Synthetic data."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

# Two flat, tilted clouds: they differ in position along the first axis and in shape, so that
# equal means alone leave a visible difference.
_MEANS = np.array([[1.2, 0.4, 0.0], [-1.2, -0.4, 0.0]])
_SPREADS = np.array([[1.0, 1.6, 0.4], [1.0, 0.5, 1.3]])


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
    random = check_random_state(random_state)
    turn = np.array([[0.8, -0.6, 0.0], [0.6, 0.8, 0.0], [0.0, 0.0, 1.0]])
    clouds = [
        mean + (random.standard_normal((n_samples, 3)) * spread) @ rotation.T
        for mean, spread, rotation in zip(_MEANS, _SPREADS, (turn, turn.T), strict=True)
    ]
    return np.vstack(clouds), np.repeat([0, 1], n_samples)
