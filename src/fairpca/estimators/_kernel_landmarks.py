"""Landmarks of the Nyström approximation, chosen inside every group."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from fairpca.estimators._kernel_functions import dense
from fairpca.estimators._kernel_rows import Rows
from fairpca.exceptions import InvalidInputError

# k-means sees this many rows for each of its centres; more do not move the centres noticeably.
_ROWS_PER_CENTRE = 30
_KMEANS_ITERATIONS = 25


def landmark_quotas(sizes: NDArray[np.intp], count: int) -> NDArray[np.intp]:
    """Share landmarks out: by size, but a quarter of an equal share to every group at least.

    Parameters
    ----------
    sizes : ndarray of int
        Rows of each group.
    count : int
        Landmarks to share out, at most the number of rows.

    Returns
    -------
    ndarray of int
        Landmarks of each group; none gets more than it has rows.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.estimators._kernel_landmarks import landmark_quotas
    >>> landmark_quotas(np.array([9900, 97, 3]), 60).tolist()
    [52, 5, 3]
    """
    if count < len(sizes):
        raise InvalidInputError(
            f"n_landmarks={count} is below the number of groups ({len(sizes)} combinations of "
            "sensitive_features and control_features): give each at least one landmark."
        )
    share = count * sizes / sizes.sum()
    floor = np.minimum(sizes, max(1, count // (4 * len(sizes))))
    quotas = np.minimum(sizes, np.maximum(floor, share.astype(np.intp)))
    while quotas.sum() > count:
        quotas[np.argmax(np.where(quotas > floor, quotas - share, -np.inf))] -= 1
    while quotas.sum() < count:
        quotas[np.argmax(np.where(quotas < sizes, share - quotas, -np.inf))] += 1
    return quotas


def choose_landmarks(
    rows: Rows, count: int, method: str, random_state: Any
) -> tuple[Any, NDArray[np.intp] | None]:
    """Choose landmarks in every combination of groups and strata.

    Parameters
    ----------
    rows : Rows
        The rows to choose from.
    count : int
        Number of landmarks.
    method : {"kmeans", "uniform"}
        Cluster centres, or rows drawn without replacement.
    random_state : int, RandomState or None
        Of the draw and of k-means.

    Returns
    -------
    landmarks : ndarray or sparse matrix, shape (count, p)
        The landmarks.
    indices : ndarray of int, or None
        Their row numbers; None for cluster centres.
    """
    random = check_random_state(random_state)
    cells = rows.cells()
    sizes = np.bincount(cells)
    quotas = landmark_quotas(sizes, count)
    centres, indices = [], []
    for cell, quota in enumerate(quotas):
        members = np.flatnonzero(cells == cell)
        if method == "uniform":
            indices.append(np.sort(random.choice(members, quota, replace=False)))
        else:
            limit = max(_ROWS_PER_CENTRE * quota, 1000)
            if len(members) > limit:
                members = np.sort(random.choice(members, limit, replace=False))
            centres.append(_cluster_centres(rows.take(members), int(quota), random))
    if method == "uniform":
        chosen = np.concatenate(indices)
        return rows.X[chosen], chosen
    return np.concatenate(centres), None


def _cluster_centres(rows: Rows, quota: int, random: np.random.RandomState) -> NDArray[Any]:
    if quota == len(rows):
        return dense(rows.X)
    means = KMeans(quota, n_init=1, max_iter=_KMEANS_ITERATIONS, random_state=random)
    with warnings.catch_warnings():
        # Fewer distinct rows than centres: repeated landmarks cost nothing but their place.
        warnings.simplefilter("ignore", ConvergenceWarning)
        means.fit(rows.X.astype(np.float64, copy=False), sample_weight=rows.weights)
    return np.asarray(means.cluster_centers_)
