"""Which rows an estimator reads as they are: dense, sparse, and lazy tables."""

from __future__ import annotations

from typing import Any

from scipy.sparse import issparse


def is_lazy(X: Any) -> bool:
    """Tell a Dask collection from rows in memory, without importing Dask.

    Parameters
    ----------
    X : object
        Rows.

    Returns
    -------
    bool
        Whether X is a Dask array or data frame.

    Examples
    --------
    >>> from fairpca.estimators._inputs import is_lazy
    >>> is_lazy([[1.0]])
    False
    """
    return hasattr(X, "__dask_graph__") and hasattr(X, "to_delayed")


def project(X: Any, mean: Any, components: Any, scale: Any = None) -> Any:
    """Scores of rows on components; a sparse matrix is not filled.

    Parameters
    ----------
    X : ndarray or SciPy sparse matrix of float, shape (n, p)
        Rows.
    mean : ndarray, shape (p,)
        What is subtracted.
    components : ndarray, shape (d, p)
        Directions.
    scale : ndarray, shape (d,), optional
        What the scores are divided by.

    Returns
    -------
    ndarray, shape (n, d)
        Scores in the floating type of X.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.estimators._inputs import project
    >>> project(np.array([[1.0, 2.0]]), np.array([0.0, 1.0]), np.array([[0.0, 1.0]]))
    array([[1.]])
    """
    mean, basis = mean.astype(X.dtype), components.T.astype(X.dtype)
    scores = X @ basis - mean @ basis if issparse(X) else (X - mean) @ basis
    return scores if scale is None else scores / scale.astype(X.dtype)
