"""What a representation keeps, and what clusters of it look like."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairpca.exceptions import GroupsError, InvalidInputError
from fairpca.linalg import Array
from fairpca.rows import encode_groups
from fairpca.rows._checks import check_weights, dense_matrix


def cluster_parity_std(labels: Any, sensitive_features: Any, *, sample_weight: Any = None) -> float:
    """Return how unevenly clusters are made up, in percentage points.

    Parameters
    ----------
    labels : array-like of shape (n,)
        Cluster of each row.
    sensitive_features : array-like or data frame
        Protected attributes.
    sample_weight : array-like of shape (n,), optional
        Row weights.

    Returns
    -------
    float
        Standard deviation over clusters of a group's share in the cluster, times 100: 0 where
        every cluster has the same make-up. The largest over groups and attributes.

    Examples
    --------
    >>> from fairpca.metrics import cluster_parity_std
    >>> cluster_parity_std([0, 0, 1, 1], ["a", "a", "a", "b"])
    25.0
    """
    clusters = encode_groups(labels, n_rows=len(labels), argument="labels").categorical
    if len(clusters) != 1:
        raise InvalidInputError(
            "labels must be one column of cluster names or numbers.", parameter="labels"
        )
    codes, n_clusters = clusters[0].codes, len(clusters[0].levels)
    groups = encode_groups(sensitive_features, n_rows=len(codes), of="labels")
    if groups.numeric:
        raise GroupsError(
            f"sensitive_features column {groups.numeric[0].name!r} holds numbers: bin it first.",
            parameter="sensitive_features",
        )
    weights = check_weights(sample_weight, len(codes), of="labels")
    weight = np.ones(len(codes)) if weights is None else weights
    size = np.bincount(codes, weight, minlength=n_clusters)
    largest = 0.0
    for attribute in groups.categorical:
        for level in range(len(attribute.levels)):
            inside = np.where(attribute.codes == level, weight, 0.0)
            share = np.bincount(codes, inside, minlength=n_clusters)[size > 0] / size[size > 0]
            largest = max(largest, 100.0 * float(share.std()))
    return largest


def explained_variance(
    X: Any, *, components: Any = None, U: Any = None, sample_weight: Any = None
) -> float:
    """Return the share of the variance of the original data that a representation keeps.

    Give either the components or the representation itself.

    Parameters
    ----------
    X : array-like of shape (n, p)
        The original data, in the units in which variance counts.
    components : array-like of shape (d, p), optional
        Rows span the subspace kept; they need not be orthonormal. The result is the paper's
        ``tr(VᵀΣV)/tr Σ``.
    U : array-like of shape (n, d), optional
        A representation of the same rows, by whatever method. The result is the share of
        variance that the best linear reconstruction from `U` recovers, which is the same number
        for principal components and never smaller than that of the subspace they span.
    sample_weight : array-like of shape (n,), optional
        Row weights.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> from fairpca.metrics import explained_variance
    >>> X = [[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]]
    >>> explained_variance(X, components=[[1.0, 0.0]])
    0.8
    """
    if (components is None) == (U is None):
        raise InvalidInputError(
            "Give either components or U, and not both.", parameter="components"
        )
    rows = dense_matrix(X, "X")
    weights = check_weights(sample_weight, len(rows))
    share = np.ones(len(rows)) if weights is None else weights
    root = np.sqrt(share / share.sum())[:, None]
    centred = root * _centred(rows, share)
    total = float((centred**2).sum())
    if total == 0:
        raise InvalidInputError(
            "X does not vary, so there is no variance to explain.", parameter="X"
        )
    if components is not None:
        basis = _row_space(dense_matrix(components, "components"))
        if basis.shape[1] != rows.shape[1]:
            raise InvalidInputError(
                f"components have {basis.shape[1]} columns, but X has {rows.shape[1]}.",
                parameter="components",
            )
        return float(((centred @ basis.T) ** 2).sum()) / total
    representation = dense_matrix(U, "U")
    if len(representation) != len(rows):
        raise InvalidInputError(
            f"U has {len(representation)} rows, but X has {len(rows)}.", parameter="U"
        )
    basis = _row_space((root * _centred(representation, share)).T)
    return float(((basis @ centred) ** 2).sum()) / total


def _centred(rows: Array, weight: Array) -> Array:
    return rows - weight @ rows / weight.sum()


def _row_space(matrix: Array) -> Array:
    """Return orthonormal rows that span the rows of a matrix."""
    _, singular, right = np.linalg.svd(matrix, full_matrices=False)
    return right[singular > 1e-10 * singular.max(initial=0.0)]
