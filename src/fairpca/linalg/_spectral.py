"""Symmetric matrices: their extreme eigenpairs, norms and subspaces; scores on them."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse import issparse

Array: TypeAlias = NDArray[np.float64]

# Below this size a full divide-and-conquer decomposition beats LAPACK's partial one.
_PARTIAL_FROM = 80


def symmetrize(matrices: Array) -> Array:
    """Return the symmetric part of a matrix or of every matrix of a stack."""
    return 0.5 * (matrices + np.swapaxes(matrices, -1, -2))


def top_eigenpairs(matrix: Array, count: int) -> tuple[Array, Array]:
    """Return the `count` largest eigenvalues, falling, and their eigenvectors as columns.

    Examples
    --------
    >>> values, vectors = top_eigenpairs(np.diag([1.0, 3.0, 2.0]), 2)
    >>> values.tolist()
    [3.0, 2.0]
    """
    size = len(matrix)
    if size < _PARTIAL_FROM or count > size // 4:
        values, vectors = np.linalg.eigh(matrix)
        return values[::-1][:count], vectors[:, ::-1][:, :count]
    values, vectors = scipy.linalg.eigh(
        matrix, subset_by_index=(size - count, size - 1), check_finite=False
    )
    return values[::-1], vectors[:, ::-1]


def ky_fan(matrix: Array, count: int, *, nonnegative: bool = False) -> float:
    """Sum of the `count` largest eigenvalues (of their positive parts where `nonnegative`).

    This is the support function of the Fantope {0 ⪯ P ⪯ I, tr P = count}, and of the set
    with tr P ≤ count where `nonnegative`; every dual bound ends in it.
    """
    top = np.linalg.eigvalsh(matrix)[len(matrix) - count :]
    return float(np.maximum(top, 0.0).sum() if nonnegative else top.sum())


def spectral_norms(matrices: Array) -> Array:
    """Spectral norm of every symmetric matrix of a stack (…, k, k)."""
    if matrices.shape[-1] == 0:
        return np.zeros(matrices.shape[:-2])
    values = np.linalg.eigvalsh(matrices)
    return np.asarray(np.maximum(-values[..., 0], values[..., -1]))


def eigenvalue_excess(values: Array, vectors: Array, level: Array | float) -> tuple[Array, Array]:
    """Part of symmetric matrices above a level, and its eigenvalues, from their `eigh`."""
    excess = np.maximum(values - level, 0.0)
    return (vectors * excess[..., None, :]) @ np.swapaxes(vectors, -1, -2), excess


def orthonormalize(matrix: Array) -> Array:
    """Return an orthonormal basis of the columns of a full-rank tall matrix."""
    return np.linalg.qr(matrix)[0]


def complement_basis(vectors: Array, floor: float) -> Array:
    """Orthonormal basis (columns) of the complement of the rows of `vectors`.

    Directions whose singular value is at most `floor` count as zero, so dependent and zero
    rows take no dimension away.

    Examples
    --------
    >>> complement_basis(np.array([[1.0, 0.0, 0.0], [2.0, 0.0, 0.0]]), 1e-12).shape
    (3, 2)
    """
    size = vectors.shape[1]
    if not len(vectors):
        return np.eye(size)
    _, singular_values, right = scipy.linalg.svd(vectors, full_matrices=True)
    rank = int(np.count_nonzero(singular_values > floor))
    return np.ascontiguousarray(right[rank:].T)


def fix_signs(basis: Array) -> Array:
    """Flip columns so that the entry of largest size in each is positive."""
    if not basis.size:
        return basis
    leading = basis[np.argmax(np.abs(basis), axis=0), np.arange(basis.shape[1])]
    return basis * np.where(leading < 0.0, -1.0, 1.0)


def project(X: Any, mean: Any, components: Any, scale: Any = None) -> Any:
    """Return (X - mean) componentsᵀ / scale in the floating type of X; sparse X is not filled."""
    mean, basis = mean.astype(X.dtype), components.T.astype(X.dtype)
    scores = X @ basis - mean @ basis if issparse(X) else (X - mean) @ basis
    return scores if scale is None else scores / scale.astype(X.dtype)
