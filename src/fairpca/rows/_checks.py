"""What may be a matrix of features, their names, and the weights of rows."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse

from fairpca.exceptions import InvalidInputError

Floats: TypeAlias = NDArray[np.float64]

# Numbers looked at together: a few megabytes, so that a check never doubles the memory.
BLOCK_ELEMENTS = 1 << 20


def block_rows(n_features: int) -> int:
    """Rows of `n_features` values that are handled at once; enough for efficient products."""
    return max(256, BLOCK_ELEMENTS // max(n_features, 1))


def check_container(X: Any) -> None:
    """Refuse what is nearly a matrix of features, saying what to pass instead."""
    kind = type(X).__name__
    if isinstance(X, str | os.PathLike):
        what = "the name of a file: read it first, or use fairpca.tables.open_table"
    elif isinstance(X, Mapping):
        what = f"a {kind}: pass a data frame, such as pandas.DataFrame(X)"
    elif kind == "LazyFrame":
        what = "a LazyFrame: call .collect() first"
    elif isinstance(X, Iterator):
        what = (
            f"a {kind}, which yields rows once: pass list(X), or numpy.vstack(list(X)) where it "
            "yields batches, or call partial_fit with each of them"
        )
    elif kind in ("GroupMoments", "FoldedMoments"):
        what = "moments: pass them to fit_moments"
    elif kind == "Table" and hasattr(X, "assign") and hasattr(X, "moments"):
        what = "an open table: pass table.moments(table.assign(…)) to fit_moments"
    else:
        return
    raise InvalidInputError(f"X is {what}.", parameter="X")


def check_matrix(X: Any, of: str = "X") -> tuple[Any, tuple[str, ...] | None]:
    """Return a finite matrix of floats, and its column names where the container has them.

    The precision given is kept (float64 for other numbers); a sparse matrix stays sparse (CSR).
    """
    names = getattr(X, "column_names", getattr(X, "columns", None))
    is_sparse = issparse(X)
    try:
        matrix: Any = csr_array(X) if is_sparse else np.asarray(X)
        if matrix.dtype.kind == "c":
            raise TypeError("complex numbers")
        if matrix.dtype not in (np.float32, np.float64):
            matrix = matrix.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"{of} cannot be read as a matrix of real numbers ({error}): encode its columns first.",
            parameter=of,
        ) from None
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise InvalidInputError(
            f"{of} has shape {matrix.shape}: give a matrix with a row for each sample and at least "
            "one column.",
            parameter=of,
        )
    checked = None if names is None else tuple(str(name) for name in names)
    place = _first_bad_value(matrix)
    if place is not None:
        row, column = place
        name = column if checked is None else repr(checked[column])
        raise InvalidInputError(
            f"{of} holds NaN or infinite values, the first in row {row}, column {name}: "
            "drop those rows or fill them in.",
            parameter=of,
        )
    return matrix, checked


def _first_bad_value(matrix: Any) -> tuple[int, int] | None:
    """Row and column of the first value that is not finite."""
    if isinstance(matrix, csr_array):
        bad = np.flatnonzero(~np.isfinite(matrix.data))
        if not len(bad):
            return None
        row = int(np.searchsorted(matrix.indptr, bad[0], side="right")) - 1
        return row, int(matrix.indices[bad[0]])
    step = block_rows(matrix.shape[1])
    for start in range(0, len(matrix), step):
        places = np.argwhere(~np.isfinite(matrix[start : start + step]))
        if len(places):
            return start + int(places[0, 0]), int(places[0, 1])
    return None


def check_feature_names(names: Any, n_features: int) -> tuple[str, ...] | None:
    """Check that there is a name for each feature."""
    if names is None:
        return None
    checked = tuple(str(name) for name in names)
    if len(checked) != n_features:
        raise InvalidInputError(
            f"feature_names has {len(checked)} names but X has {n_features} columns.",
            parameter="feature_names",
        )
    return checked


def check_weights(sample_weight: ArrayLike | None, n_rows: int, of: str = "X") -> Floats | None:
    """Return finite weights, none negative and not all zero; None stands for ones."""
    if sample_weight is None:
        return None
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise _bad_weights(f"cannot be read as numbers ({error}).") from None
    if weights.shape != (n_rows,):
        raise _bad_weights(
            f"has shape {weights.shape} but {of} has {n_rows} rows: give one weight for each row."
        )
    if not np.isfinite(weights).all():
        raise _bad_weights("holds NaN or infinite values: give finite weights.")
    if (weights < 0).any():
        raise _bad_weights("holds negative values: weights must be >= 0.")
    if n_rows and not (weights > 0).any():
        raise _bad_weights("is zero for every row: no row is left to use.")
    return weights


def _bad_weights(what: str) -> InvalidInputError:
    return InvalidInputError(f"sample_weight {what}", parameter="sample_weight")
