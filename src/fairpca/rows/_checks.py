"""What may be a matrix of features, their names, and the weights of rows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse

from fairpca.exceptions import InvalidInputError

Floats: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = tuple[str, str, NDArray[np.bool_]]
"""The argument and the name of a column, and a mark on every row in which it lacks a value."""

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
        return
    raise InvalidInputError(f"X is {what}.", parameter="X")


def check_matrix(
    X: Any, of: str = "X", masks: Iterable[Mask] = ()
) -> tuple[Any, tuple[str, ...] | None]:
    """Return a finite matrix of floats, and its column names where the container has them."""
    # The precision given is kept (float64 for other numbers); a sparse matrix stays sparse (CSR).
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


def dense_matrix(values: Any, of: str, masks: Iterable[Mask] = ()) -> Floats:
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
    masks: Iterable[Mask] = (),
) -> None:
    """Refuse infinite values and, unless `missing` says what it means, NaN.

    NaN is counted by column, together with what the columns of `masks` lack.
    """
    width = matrix.shape[1]
    step = rows_at_once(width)
    is_sparse = issparse(matrix)
    values = matrix.data if is_sparse else matrix
    parts = (values[start : start + step] for start in range(0, len(values), step))
    if all(np.isfinite(part).all() for part in parts):
        return
    found = missing_features(matrix, names)
    if found.counts and missing == "error":
        found = found.with_columns(masks)
        raise missing_values_error(found.incomplete, len(found.rows), found.counts, of)
    known = [f"x{index}" for index in range(width)] if names is None else names
    places = np.isinf(values)
    infinite = matrix.tocoo().col[places] if is_sparse else np.nonzero(places)[1]
    if len(infinite):
        raise infinite_error(known[int(infinite.min())], of)


class Missing(NamedTuple):
    """What rows lack: values by column, whether a row lacks any, and the arguments of columns."""

    counts: dict[str, int]
    rows: NDArray[np.bool_]
    arguments: dict[str, str]  # of groups, strata and weights; features have none

    @classmethod
    def nothing(cls, n_rows: int) -> Missing:
        """Complete rows."""
        return cls({}, np.zeros(n_rows, dtype=np.bool_), {})

    @property
    def incomplete(self) -> int:
        """Number of rows that lack a value."""
        return int(np.count_nonzero(self.rows))

    def with_columns(self, masks: Iterable[Mask]) -> Missing:
        """Add what other columns of as many rows lack."""
        counts, rows, arguments = dict(self.counts), self.rows.copy(), dict(self.arguments)
        for argument, name, mask in masks:
            if len(mask) == len(rows) and mask.any():
                if argument and name not in counts:
                    arguments[name] = argument
                counts[name] = counts.get(name, 0) + int(np.count_nonzero(mask))
                rows |= mask
        return Missing(counts, rows, arguments)


def missing_features(X: Any, names: Sequence[str] | None) -> Missing:
    """Count the NaN of every column of a matrix, by name or by place where it has no names."""
    counts = np.zeros(X.shape[1], dtype=np.intp)
    marked = np.zeros(X.shape[0], dtype=np.bool_)
    is_sparse = issparse(X)
    if is_sparse:
        places = np.flatnonzero(np.isnan(X.data))
        marked[np.searchsorted(X.indptr, places, side="right") - 1] = True
        counts = np.bincount(X.indices[places], minlength=X.shape[1])
    step = rows_at_once(X.shape[1])
    for start in () if is_sparse else range(0, len(X), step):
        absent = np.isnan(X[start : start + step])
        counts += absent.sum(axis=0)
        marked[start : start + step] = absent.any(axis=1)
    found = [int(index) for index in np.flatnonzero(counts)]
    known = {f"x{i}" if names is None else str(names[i]): int(counts[i]) for i in found}
    return Missing(known, marked, {})


def check_no_dates_or_masks(X: Any, of: str = "X") -> None:
    """Refuse what NumPy would turn into numbers without a word."""
    if np.ma.is_masked(X):
        count = int(np.count_nonzero(np.ma.getmaskarray(X)))
        raise InvalidInputError(
            f"{of} is a masked array with {count:,} masked values, which would be used as if they "
            "were not: fill them in or drop those rows.",
            parameter=of,
        )
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    kinds: dict[str, str] = {}
    if isinstance(frame, nw.DataFrame):
        types = frame.schema.items()
        kinds = {str(name): str(kind) for name, kind in types if kind.is_temporal()}
    elif isinstance(X, np.ndarray) and X.dtype.kind in "mM":
        kinds = {of: str(X.dtype)}
    if kinds:
        raise not_numbers_error(kinds, of)


def check_no_text(X: Any, of: str = "X") -> None:
    """Refuse columns of text, by name; any container."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    columns: dict[str, Any] = {}
    if isinstance(frame, nw.DataFrame):
        columns = {str(name): frame[name].to_numpy() for name in frame.columns}
    elif not issparse(X):
        try:
            array = X if isinstance(X, np.ndarray) else np.array(X, dtype=object)
        except ValueError:  # rows of different lengths
            return
        columns = {f"x{i}": column for i, column in enumerate(array.T if array.ndim == 2 else ())}
    text = [name for name, values in columns.items() if _is_text(values)]
    if text:
        raise not_numbers_error(dict.fromkeys(text, "text"), of)


def _is_text(values: Any) -> bool:
    if values.dtype.kind in "biufc":
        return False
    try:
        values.astype(np.float64)
    except ValueError:
        return True
    except TypeError:  # neither text nor numbers
        return False
    return False


# The words of a mistake are the same whatever the rows were held in.


def missing_values_error(
    incomplete: int, n_rows: int, by_column: Mapping[str, int], of: str
) -> InvalidInputError:
    """Say that rows have missing values, in which columns, and what to do."""
    return InvalidInputError(
        f"{describe_missing(incomplete, n_rows, by_column)}, NaN or null: fill them in, or leave "
        "the columns out.",
        parameter=of,
        settings=[("missing", "drop-rows"), ("missing", "mean")],
    )


def describe_missing(incomplete: int, n_rows: int, by_column: Mapping[str, int]) -> str:
    """Say how many rows have missing values, and in which columns."""
    counts = ", ".join(f"{name!r} {count:,}" for name, count in by_column.items())
    return f"{incomplete:,} of {n_rows:,} rows have missing values (by column: {counts})"


def infinite_error(name: str, of: str) -> InvalidInputError:
    """Say that a feature holds infinite values."""
    return InvalidInputError(
        f"column {name!r} holds infinite values: drop those rows or clip them.", parameter=of
    )


def not_numbers_error(kinds: Mapping[str, str], of: str) -> InvalidInputError:
    """Say which features are no numbers, and what they are."""
    listed = ", ".join(f"{name!r} ({kind})" for name, kind in kinds.items())
    return InvalidInputError(
        f"features that are not numbers: {listed}. One-hot encode them (a table does, where "
        "categorical names them), or leave them out.",
        parameter=of,
    )


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
        given = np.asarray(sample_weight)
        weights = given.astype(np.float64)
    except (TypeError, ValueError):
        raise weights_error("text") from None
    if given.dtype.kind in "USmM":
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


def weights_error(mistake: str, n_rows: int = 0) -> InvalidInputError:
    """Say what is wrong with weights: "text", "masked", "not finite", "negative" or "zero"."""
    words = {
        "text": "cannot be read as numbers: give one for each row.",
        "masked": "is masked in some rows: fill it in, or drop those rows.",
        "not finite": "holds NaN or infinite values: give finite weights.",
        "negative": "holds negative values: weights must be >= 0.",
        "zero": f"is zero for every row: no row can be used ({n_rows:,} read).",
    }
    return InvalidInputError(f"sample_weight {words[mistake]}", parameter="sample_weight")
