"""Moments of a sparse matrix at the cost of its non-zeros.

Centring would fill a sparse matrix, and without centring a large mean costs digits. Both are
avoided by looking at how full a column is. In a column that is at most half full the zeros
themselves keep the variance above half the mean square, so subtracting the mean afterwards costs
one bit at most. A column that is more than half full is centred as a dense one, which at most
doubles its storage.

Letters: x a row of features, w a weight, u the weight times a centred numeric attribute.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, diags_array

from fairpca.linalg import symmetrize
from fairpca.moments._cells import Cell, FloatArray, centre, merge

# Above this share of non-zeros a column is centred as a dense one.
DENSE_SHARE = 0.5


def summarise_sparse(
    matrix: Any,
    attributes: FloatArray,
    weights: FloatArray | None,
    rows: NDArray[np.intp],
    block: int,
) -> Cell:
    """Compute the moments of some rows of a sparse matrix; the counterpart of `summarise`."""
    filled = max(matrix.nnz / (matrix.shape[0] * matrix.shape[1]), 1e-3)
    step = max(int(block / filled), 1)
    parts = []
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        x = matrix[part].astype(np.float64)
        w = np.ones(len(part)) if weights is None else weights.take(part)
        parts.append(_summarise_block(x, attributes.take(part, axis=0), w))
    return merge(parts)


def _summarise_block(x: Any, z: FloatArray, w: FloatArray) -> Cell:
    """Moments of one block; the columns are split by how full they are."""
    total = float(w.sum())
    z_mean = centre(z, w, total)
    u = z * w[:, None]
    columns = csc_array(x)
    full = _full_columns(columns, w, total)
    thin = np.flatnonzero(~full)
    dense = np.asfortranarray(columns[:, np.flatnonzero(full)].toarray())
    means = centre(dense, w, total)
    mean, mean_rest = np.zeros(x.shape[1]), np.zeros(x.shape[1])
    mean[full], mean_rest[full] = means
    sparse = columns[:, thin]
    mean[thin] = sparse.T @ w / total

    scatter = _second_moments(dense, sparse, w, np.flatnonzero(full), thin)
    scatter[np.ix_(thin, thin)] -= total * np.outer(mean[thin], mean[thin])
    cross = np.zeros((z.shape[1], x.shape[1]))
    cross[:, full], cross[:, thin] = u.T @ dense, (sparse.T @ u).T
    third = np.empty((z.shape[1], x.shape[1], x.shape[1]))
    offset = np.where(full, 0.0, mean)  # what has not been subtracted yet; u sums to zero
    for index in range(z.shape[1]):
        moved = np.outer(cross[index], offset)
        third[index] = _second_moments(dense, sparse, u[:, index], np.flatnonzero(full), thin)
        third[index] -= moved + moved.T
    z_scatter = np.einsum("ij,ij->j", u, z)
    features = (mean, mean_rest, symmetrize(scatter))
    return Cell(x.shape[0], total, *features, *z_mean, z_scatter, cross, symmetrize(third))


def _full_columns(columns: Any, w: FloatArray, total: float) -> NDArray[np.bool_]:
    """Mark the columns whose non-zeros hold more than half the rows or half the weight."""
    present = csc_array(
        (np.ones_like(columns.data), columns.indices, columns.indptr), shape=columns.shape
    )
    count = np.diff(columns.indptr)
    marked: NDArray[np.bool_] = count > DENSE_SHARE * columns.shape[0]
    marked |= present.T @ w > DENSE_SHARE * total
    return marked


def _second_moments(
    dense: FloatArray,
    sparse: Any,
    w: FloatArray,
    full: NDArray[np.intp],
    thin: NDArray[np.intp],
) -> FloatArray:
    """Sum of w x xᵀ with the dense columns in places `full` and the sparse ones in `thin`."""
    p = len(full) + len(thin)
    sums = np.zeros((p, p))
    weighted = dense * w[:, None]
    sums[np.ix_(full, full)] = weighted.T @ dense
    mixed = (sparse.T @ weighted).T
    sums[np.ix_(full, thin)] = mixed
    sums[np.ix_(thin, full)] = mixed.T
    sums[np.ix_(thin, thin)] = (sparse.T @ (diags_array(w) @ sparse)).toarray()
    return sums
