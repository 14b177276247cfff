"""What may be summed: a finite matrix and non-negative weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from fairpca.exceptions import InvalidInputError
from fairpca.moments._cells import FloatArray
from fairpca.moments._sparse import check_sparse

# Rows looked at together: a few megabytes, so that checking and copying never double the memory.
BLOCK_ELEMENTS = 1 << 20


def block_rows(n_features: int) -> int:
    """Return how many rows of `n_features` values are handled at once.

    Parameters
    ----------
    n_features : int
        Number of columns.

    Returns
    -------
    int
        At least 256, so that the matrix products stay efficient.
    """
    return max(256, BLOCK_ELEMENTS // max(n_features, 1))


def check_matrix(X: Any) -> tuple[Any, tuple[str, ...] | None]:
    """Check the features and read their names where the container has them.

    Parameters
    ----------
    X : array-like, data frame or SciPy sparse matrix
        Features.

    Returns
    -------
    matrix : ndarray or csr_array, shape (n, p)
        Floats of the precision given (float64 for other numbers), finite.
    names : tuple of str, or None
        Column names of a data frame.
    """
    if issparse(X):
        return check_sparse(X), None
    names = getattr(X, "column_names", getattr(X, "columns", None))
    try:
        matrix = np.asarray(X)
        if np.iscomplexobj(matrix):
            raise TypeError("complex numbers")
        if matrix.dtype not in (np.float32, np.float64):
            matrix = matrix.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"X cannot be read as a matrix of real numbers ({error}): encode its columns first."
        ) from None
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise InvalidInputError(
            f"X has shape {matrix.shape}: give a matrix with a row for each sample and at least "
            "one column."
        )
    names = None if names is None else tuple(str(name) for name in names)
    _check_finite(matrix, names)
    return matrix, names


def _check_finite(matrix: NDArray[Any], names: tuple[str, ...] | None) -> None:
    step = block_rows(matrix.shape[1])
    for start in range(0, len(matrix), step):
        bad = np.argwhere(~np.isfinite(matrix[start : start + step]))
        if len(bad):
            row, column = bad[0]
            name = column if names is None else repr(names[column])
            raise InvalidInputError(
                f"X holds NaN or infinite values, the first in row {start + row}, column {name}: "
                "drop those rows or fill them in."
            )


def check_feature_names(names: Any, n_features: int) -> tuple[str, ...] | None:
    """Check that there is a name for each feature.

    Parameters
    ----------
    names : iterable of str, or None
        Names given by the user.
    n_features : int
        Number of columns of X.

    Returns
    -------
    tuple of str, or None
        The names.
    """
    if names is None:
        return None
    checked = tuple(str(name) for name in names)
    if len(checked) != n_features:
        raise InvalidInputError(
            f"feature_names has {len(checked)} names but X has {n_features} columns."
        )
    return checked


def check_weights(sample_weight: ArrayLike | None, n_rows: int) -> FloatArray | None:
    """Check the weights of the rows.

    Parameters
    ----------
    sample_weight : array-like of shape (n_rows,), or None
        Weights.
    n_rows : int
        Number of rows of X.

    Returns
    -------
    ndarray or None
        Finite weights, none negative and not all zero.
    """
    if sample_weight is None:
        return None
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"sample_weight cannot be read as numbers ({error}).") from None
    if weights.shape != (n_rows,):
        raise InvalidInputError(
            f"sample_weight has shape {weights.shape} but X has {n_rows} rows: give one weight "
            "for each row."
        )
    if not np.isfinite(weights).all():
        raise InvalidInputError("sample_weight holds NaN or infinite values: give finite weights.")
    if (weights < 0).any():
        raise InvalidInputError("sample_weight holds negative values: weights must be >= 0.")
    if n_rows and not (weights > 0).any():
        raise InvalidInputError("sample_weight is zero for every row: no row is left to use.")
    return weights
