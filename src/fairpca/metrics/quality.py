"""Variance that a representation keeps, of all rows and of each group, and parity of clusters."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairpca.exceptions import InvalidInputError
from fairpca.linalg import Array
from fairpca.moments import GroupMoments
from fairpca.rows import Rows, encode_groups
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

    See Also
    --------
    delta_fairness : What classifiers predict, without clusters.

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
    weights = check_weights(sample_weight, len(codes), of="labels")
    weight = np.ones(len(codes)) if weights is None else weights
    size = np.bincount(codes, weight, minlength=n_clusters)
    largest = 0.0
    for attribute in groups.labelled():
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

    See Also
    --------
    group_loss : The same group by group.

    Examples
    --------
    >>> from fairpca.metrics import explained_variance
    >>> X = [[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]]
    >>> explained_variance(X, components=[[1.0, 0.0]])
    0.8
    """
    _check_one_of(components, U)
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
        basis = _basis(components, rows.shape[1])
        return float(((centred @ basis.T) ** 2).sum()) / total
    representation = _same_rows(U, len(rows))
    basis = _row_space((root * _centred(representation, share)).T)
    return float(((basis @ centred) ** 2).sum()) / total


def group_loss(
    X: Any,
    sensitive_features: Any = None,
    *,
    components: Any = None,
    U: Any = None,
    joint: bool = False,
    control_features: Any = None,
    sample_weight: Any = None,
) -> dict[str, list[Any]]:
    """Return what each group keeps of its variance, and what it loses against its own best.

    Give either the components or the representation itself.

    Parameters
    ----------
    X : array-like of shape (n, p), or Rows
        The original data, in the units in which variance counts; `fairpca.rows.Rows` bring their
        own groups, strata and weights.
    sensitive_features : array-like or data frame
        Protected attributes. Those that are numbers have no groups.
    components : array-like of shape (d, p), optional
        Rows span the subspace kept; they need not be orthonormal.
    U : array-like of shape (n, d), optional
        A representation of the same rows, by whatever method: what counts is its best linear
        reconstruction of X, the same for all groups.
    joint : bool, default False
        Whether the groups are the cells of the cross table of all attributes, instead of the
        levels of each.
    control_features, sample_weight
        Strata, in each of which a group counts by itself, and weights of the rows.

    Returns
    -------
    dict of lists
        One entry per group: attribute, group, stratum, n_rows, total (variance about its own mean),
        variance (what is kept of it), best (what its own best basis of as many directions keeps),
        loss (best less variance; below zero only for `U`, which may reconstruct a group better
        than a basis can) and error (total less variance: the mean squared error of
        reconstruction about the group's mean). ``pandas.DataFrame`` makes a table of it.

    See Also
    --------
    explained_variance : All rows together.
    fairpca.report.GroupLossDisplay : The same as a picture.

    Examples
    --------
    >>> from fairpca.metrics import group_loss
    >>> X = [[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]]
    >>> table = group_loss(X, ["a", "a", "b", "b"], components=[[1.0, 0.0]])
    >>> table["variance"], table["best"], table["loss"]
    ([4.0, 0.0], [4.0, 1.0], [0.0, 1.0])
    """
    _check_one_of(components, U)
    if isinstance(X, Rows):
        rows = X
    else:
        parts = (sensitive_features, control_features, sample_weight)
        rows = Rows.attach(dense_matrix(X, "X"), *parts)
    if components is not None:
        groups = GroupMoments.from_rows(rows.counted()).expanded().group_covariances(joint)
        table = groups.as_table(_basis(components, groups.covariances.shape[1]).T)
    else:
        table = group_reconstruction(rows, _same_rows(U, len(rows)), joint=joint)
    pairs = zip(table["total"], table["variance"], strict=True)
    return {**table, "error": [max(total - kept, 0.0) for total, kept in pairs]}


def group_reconstruction(rows: Rows, U: Array, *, joint: bool) -> dict[str, list[Any]]:
    """Return the table of groups for the best linear reconstruction of rows from U."""
    X = np.asarray(rows.X, dtype=np.float64)
    p = X.shape[1]
    both = rows.with_features(np.column_stack([X, U])).counted()
    moments = GroupMoments.from_rows(both).expanded()
    covariance = moments.pooled().covariance
    # A scale of one each, so that columns in small units are not taken for rounding.
    scale = np.sqrt(np.diag(covariance)[p:])
    inverse = 1.0 / np.where(scale > 0.0, scale, 1.0)
    spread = covariance[p:, p:] * np.outer(inverse, inverse)
    values, vectors = np.linalg.eigh(spread)
    used = values > 1e-10 * max(float(values.max(initial=0.0)), 1e-300)
    whitened = inverse[:, None] * vectors[:, used] / np.sqrt(values[used])
    back = whitened @ (whitened.T @ covariance[p:, :p])
    residual = np.vstack([np.eye(p), -back])
    groups = moments.group_covariances(joint)
    left = np.einsum("gij,ij->g", groups.covariances @ residual, residual)
    groups = type(groups)(
        groups.attributes, groups.groups, groups.strata, groups.n_rows,
        np.ascontiguousarray(groups.covariances[:, :p, :p]),
    )  # fmt: skip
    table = groups.as_table(np.zeros((p, 0)), groups.best(min(int(used.sum()), p)))
    kept = np.array(table["total"]) - left
    return {**table, "variance": kept.tolist(), "loss": (np.array(table["best"]) - kept).tolist()}


def _check_one_of(components: Any, U: Any) -> None:
    if (components is None) == (U is None):
        raise InvalidInputError(
            "Give either components or U, and not both.", parameter="components"
        )


def _same_rows(U: Any, n_rows: int) -> Array:
    matrix = dense_matrix(U, "U")
    if len(matrix) != n_rows:
        raise InvalidInputError(f"U has {len(matrix)} rows, but X has {n_rows}.", parameter="U")
    return matrix


def _basis(components: Any, n_features: int) -> Array:
    basis = _row_space(dense_matrix(components, "components"))
    if basis.shape[1] != n_features:
        raise InvalidInputError(
            f"components have {basis.shape[1]} columns, but X has {n_features}.",
            parameter="components",
        )
    return basis


def _centred(rows: Array, weight: Array) -> Array:
    return rows - weight @ rows / weight.sum()


def _row_space(matrix: Array) -> Array:
    """Return orthonormal rows that span the rows of a matrix."""
    _, singular, right = np.linalg.svd(matrix, full_matrices=False)
    return right[singular > 1e-10 * singular.max(initial=0.0)]
