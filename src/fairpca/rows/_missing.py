"""Values that are missing: where they are, and what is said of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from fairpca.exceptions import InvalidInputError
from fairpca.rows._checks import Floats, rows_at_once

MISSING_GROUP = "missing"
"""Name of the group of rows whose group is missing, where they have one."""


def holds_nan(X: Any) -> bool:
    """Tell whether a matrix without infinite values has NaN; quick where it has none."""
    is_sparse = issparse(X)
    values = X.data if is_sparse else X
    return bool(np.isnan(values.sum(dtype=np.float64)))


def nan_places(X: Any) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Count the NaN of every column, and mark the rows that have any."""
    counts = np.zeros(X.shape[1], dtype=np.intp)
    marked = np.zeros(X.shape[0], dtype=np.bool_)
    is_sparse = issparse(X)
    if is_sparse:
        places = np.flatnonzero(np.isnan(X.data))
        marked[np.searchsorted(X.indptr, places, side="right") - 1] = True
        return np.bincount(X.indices[places], minlength=X.shape[1]), marked
    step = rows_at_once(X.shape[1])
    for start in range(0, len(X), step):
        absent = np.isnan(X[start : start + step])
        counts += absent.sum(axis=0)
        marked[start : start + step] = absent.any(axis=1)
    return counts, marked


def name_counts(counts: NDArray[np.intp], names: Sequence[str] | None) -> dict[str, int]:
    """Return the columns with missing values by name, or by place where they have none."""
    found = [int(index) for index in np.flatnonzero(counts)]
    return {f"x{i}" if names is None else str(names[i]): int(counts[i]) for i in found}


def imputed(found: str) -> str:
    """Say what counting missing values as the mean does."""
    return (
        f"{found}. They count as the mean of all rows: the variance of each of these columns is "
        "smaller by the share it lacks, and groups that lack more of it look more alike."
    )


def fill_means(X: Any, means: Floats) -> Any:
    """Put means in the places of NaN; the same matrix where there is none."""
    is_sparse = issparse(X)
    if not holds_nan(X):
        return X
    if is_sparse:
        values = np.where(np.isnan(X.data), means[X.indices], X.data)
        return csr_array((values.astype(X.dtype), X.indices, X.indptr), X.shape)
    return np.where(np.isnan(X), means.astype(X.dtype), X)


def known_means(X: NDArray[Any], weights: Floats | None) -> Floats:
    """Weighted mean of the known values of every column of a dense matrix."""
    known = ~np.isnan(X)
    w = known * (1.0 if weights is None else weights[:, None])
    total = w.sum(axis=0)
    if not total.all():
        raise InvalidInputError(
            f"column {int(np.argmin(total))} has no value in any row: leave it out.",
            parameter="features",
        )
    return np.asarray((np.where(known, X, 0.0) * w).sum(axis=0) / total)
