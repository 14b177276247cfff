"""What may be a matrix of features, their names, and the weights of rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse

from fairpca.exceptions import InvalidInputError
from fairpca.rows._columns import Mask, find_missing, weights_error
from fairpca.rows._containers import check_unique, column_names
from fairpca.rows._identifiers import DATES, check_no_text, not_numbers_error

Floats: TypeAlias = NDArray[np.float64]

# Numbers looked at together: a few megabytes, so that a check never doubles the memory.
ELEMENTS_AT_ONCE = 1 << 20
_LARGEST = 1e150  # whose square is a number


def rows_at_once(n_features: int) -> int:
    """Rows of `n_features` values that are handled at once; enough for efficient products."""
    return max(256, ELEMENTS_AT_ONCE // max(n_features, 1))


def check_container(X: Any) -> None:
    """Refuse what is nearly a matrix of features, saying what to pass instead."""
    kind = type(X).__name__
    if isinstance(X, str | os.PathLike):
        what = "the name of a file: read it first, or use fairpca.tables.open_table"
    elif isinstance(X, Mapping) and not hasattr(X, "shape"):  # some sparse matrices are
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
        if not isinstance(X, np.ndarray):
            check_unique(column_names(X), "X", "X")
        return
    raise InvalidInputError(f"X is {what}.", parameter="X")


def check_matrix(
    X: Any, of: str = "X", masks: Callable[[], Iterable[Mask]] = tuple
) -> tuple[Any, tuple[str, ...] | None]:
    """Return a finite matrix of floats, and its column names where the container has them."""
    # The precision of the floats is kept (others: float64); a sparse matrix stays sparse (CSR).
    names = getattr(X, "column_names", getattr(X, "columns", None))
    is_sparse = issparse(X)
    check_no_dates_or_masks(X, of)
    try:
        matrix: Any = csr_array(X) if is_sparse else np.asarray(X)
        if matrix.dtype.kind == "c":
            raise TypeError("complex numbers")
        if matrix.dtype not in (np.float32, np.float64):
            matrix = matrix.astype(np.float64)
    except (TypeError, ValueError) as error:
        check_no_text(X, of)
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
    check_finite(matrix, checked, of, masks=masks)
    return matrix, checked


def dense_matrix(values: Any, of: str, masks: Callable[[], Iterable[Mask]] = tuple) -> Floats:
    """Return a finite, dense float64 matrix to measure; a vector is one column."""
    if getattr(values, "ndim", 1) == 1 and not hasattr(values, "columns") and not issparse(values):
        with suppress(ValueError):  # rows of different lengths, which the next check refuses
            array = np.asarray(values)
            values = array[:, None] if array.ndim == 1 else array
    return without_rounding(check_matrix(values, of, masks)[0], of)


def without_rounding(matrix: Any, of: str) -> Floats:
    """Refuse what cannot be measured, and make columns constant that vary by rounding alone."""
    if issparse(matrix):
        raise InvalidInputError(f"{of} is a sparse matrix: give {of}.toarray().", parameter=of)
    array: Floats = np.asarray(matrix, dtype=np.float64)
    if not len(array):
        raise InvalidInputError(f"{of} has no rows: give at least one.", parameter=of)
    low, high = array.min(axis=0), array.max(axis=0)
    spread, size = high - low, np.maximum(-low, high)
    if (size > _LARGEST).any() or ((spread > 0.0) & (spread < 1.0 / _LARGEST)).any():
        raise InvalidInputError(
            f"{of} holds values too large or differences too small to be squared: rescale it.",
            parameter=of,
        )
    # A projection of equal rows may differ in the last bits; that is not a difference.
    noise = spread <= 16 * np.finfo(float).eps * size
    return np.where(noise, array[0], array) if noise.any() else array


def check_finite(
    matrix: Any,
    names: Sequence[str] | None,
    of: str = "X",
    *,
    missing: str = "error",
    masks: Callable[[], Iterable[Mask]] = tuple,
) -> None:
    """Refuse infinite values and, unless `missing` says what it means, NaN.

    NaN is counted by column, together with missing groups, strata and weights, which `masks` finds.
    """
    is_sparse = issparse(matrix)
    values = matrix.data if is_sparse else matrix
    step = rows_at_once(matrix.shape[1])
    parts = (values[start : start + step] for start in range(0, len(values), step))
    if all(np.isfinite(part).all() for part in parts):
        return
    if missing == "error" and np.isnan(values).any():
        raise find_missing(matrix.shape[0], masks(), matrix, names)[0].error(of)
    places = np.isinf(values)
    infinite = matrix.tocoo().col[places] if is_sparse else np.nonzero(places)[1]
    if len(infinite):
        first = int(infinite.min())
        raise infinite_error(f"x{first}" if names is None else names[first], of)


def check_no_dates_or_masks(X: Any, of: str = "X") -> None:
    """Refuse what NumPy would turn into numbers without a word."""
    if np.ma.is_masked(X):
        count = int(np.count_nonzero(np.ma.getmaskarray(X)))
        raise InvalidInputError(
            f"{of} is a masked array with {count:,} masked values, which would be used as if they "
            "were not: fill them in or drop those rows.",
            parameter=of,
        )
    kinds: dict[str, str] = {}
    if isinstance(X, np.ndarray):
        kinds = {of: DATES} if X.dtype.kind in "mM" else {}
    else:
        check_unique(column_names(X), of, of)
        frame = nw.from_native(X, eager_only=True, pass_through=True)
        types = frame.schema.items() if isinstance(frame, nw.DataFrame) else ()
        kinds = {str(name): DATES for name, kind in types if kind.is_temporal()}
    if kinds:
        raise not_numbers_error(kinds, of)


def infinite_error(name: str, of: str) -> InvalidInputError:
    """Say that a feature holds infinite values."""
    return InvalidInputError(
        f"column {name!r} holds infinite values: drop those rows or clip them.", parameter=of
    )


def check_weights(sample_weight: ArrayLike | None, n_rows: int, of: str = "X") -> Floats | None:
    """Return finite weights, none negative and not all zero; None stands for ones."""
    if sample_weight is None:
        return None
    try:
        values = np.asarray(sample_weight)
        weights = values.astype(np.float64)
    except (TypeError, ValueError):
        raise weights_error("text") from None
    if values.dtype.kind in "USmM":
        raise weights_error("text")
    if np.ma.is_masked(sample_weight):
        raise weights_error("masked")
    if weights.shape != (n_rows,):
        raise InvalidInputError(
            f"sample_weight has shape {weights.shape} but {of} has {n_rows} rows: give one weight "
            "for each row.",
            parameter="sample_weight",
        )
    if not np.isfinite(weights).all():
        raise weights_error("not finite")
    if (weights < 0).any():
        raise weights_error("negative")
    if n_rows and not (weights > 0).any():
        raise weights_error("zero", n_rows)
    return weights
