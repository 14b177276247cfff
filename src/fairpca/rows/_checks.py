"""Missing values and what is said of them; what may be a matrix of features, or weights."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse

from fairpca.exceptions import WITH, GroupsError, InvalidInputError
from fairpca.rows._containers import (
    PARTS,
    check_unique,
    column_names,
    missing_groups_error,
    read_columns,
)
from fairpca.rows._identifiers import DATES, check_no_text, not_numbers_error

Floats: TypeAlias = NDArray[np.float64]

# Numbers looked at together: a few megabytes, so that a check never doubles the memory.
ELEMENTS_AT_ONCE = 1 << 20
_LARGEST = 1e150  # whose square is a number

Mask: TypeAlias = tuple[str, str, NDArray[np.bool_]]
"""The argument ("" for features) and the name of a column, and the rows in which it is missing."""

MISSING_GROUP = "missing"
"""Name of the group of rows whose group is missing, where they have one."""


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
    elif hasattr(X, "assign") and hasattr(X, "moments"):
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
        frame = nw.from_native(X, pass_through=True)
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


# Missing values: where they are, the one description of them, and what may stand for them.


class MissingReport(NamedTuple):
    """Missing values by column, of rows in memory or of a whole stream; its text is what is said.

    `arguments` has those of the columns that are groups, strata or weights, in order.
    """

    counts: Mapping[str, int]
    incomplete: int  # rows that lack a value
    n_rows: int
    arguments: Mapping[str, str]

    def __str__(self) -> str:
        counts = ", ".join(f"{name!r} {count:,}" for name, count in self.counts.items())
        return (
            f"{self.incomplete:,} of {self.n_rows:,} rows have missing values (by column: {counts})"
        )

    @property
    def dropped(self) -> str:
        """What is said where those rows are left out."""
        return f"{self} and were left out."

    @property
    def imputed(self) -> str:
        """What is said where the mean of all rows stands for missing values."""
        return (
            f"{self}. They count as the mean of all rows. Mean imputation shrinks the variance of "
            "these columns in proportion to the missing share, and groups with more missing values "
            "look more alike."
        )

    def error(self, of: str = "missing") -> InvalidInputError:
        """Return the refusal, with the remedies that there are for these columns."""
        kinds = {self.arguments.get(name) for name in self.counts}
        if kinds == {"sample_weight"}:
            return weights_error("not finite")
        if None not in kinds:
            groups = {n: a for n, a in self.arguments.items() if a != "sample_weight"}
            first = next(name for name in groups if name in self.counts)
            return missing_groups_error(first, self.counts[first], groups[first])
        return InvalidInputError(
            f"{self}, NaN or null: fill them in, or leave the columns out.",
            parameter=of,
            settings=[("missing", "drop-rows"), ("missing", "mean")],
        )


def find_missing(
    n_rows: int, masks: Iterable[Mask] = (), X: Any = None, names: Sequence[str] | None = None
) -> tuple[MissingReport, NDArray[np.bool_]]:
    """Count missing values of features X and of other columns; also mark the rows that lack any."""
    counts: dict[str, int] = {}
    arguments: dict[str, str] = {}
    incomplete = np.zeros(n_rows, dtype=np.bool_)
    if X is not None:
        by_feature = _count_nan(X, incomplete)
        for index in map(int, np.flatnonzero(by_feature)):
            name = f"x{index}" if names is None else str(names[index])
            counts[name] = int(by_feature[index])
    for argument, name, mask in masks:
        if len(mask) == n_rows and mask.any():
            if argument and name not in counts:
                arguments[name] = argument
            counts[name] = counts.get(name, 0) + int(np.count_nonzero(mask))
            incomplete |= mask
    report = MissingReport(counts, int(np.count_nonzero(incomplete)), n_rows, arguments)
    return report, incomplete


def _count_nan(X: Any, incomplete: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return the number of NaN of each column, and mark their rows."""
    is_sparse = issparse(X)
    if not is_sparse:
        absent = np.isnan(X)
        incomplete |= absent.any(axis=1)
        return np.asarray(absent.sum(axis=0))
    places = np.flatnonzero(np.isnan(X.data))
    incomplete[np.searchsorted(X.indptr, places, side="right") - 1] = True
    return np.bincount(X.indices[places], minlength=X.shape[1])


def missing_in_parts(
    *parts: Any, own: Container[str] = (), numeric: Container[str] = ()
) -> Iterator[Mask]:
    """Mark the rows that lack a group, a stratum or a weight, by argument and column.

    In the arguments of `own` missing groups have a name, so that only numbers can be missing.
    """
    for argument, values in zip(PARTS, parts, strict=True):
        is_weight = argument == "sample_weight"
        if values is None or (is_weight and np.ma.is_masked(values)):
            continue
        try:
            columns = read_columns(values, argument, unknown="")
        except GroupsError:  # what they are is refused elsewhere, in other words for weights
            continue
        for column in columns:
            if argument not in own or column.name in numeric:
                yield argument, column.name, column.missing


def scored_text(n_rows: int) -> str:
    """Say what `transform` does after a fit that dropped incomplete rows."""
    return (
        f"{n_rows:,} rows have missing values, which count as the mean of the rows used in fit: "
        "transform returns a score for every row."
    )


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


def no_rows_error(n_rows: int, incomplete: int, name: str = "X") -> InvalidInputError:
    """Say why there is no row to use."""
    if n_rows and not incomplete:
        return weights_error("zero", n_rows)
    why = "every row is incomplete or of weight zero" if n_rows else "there are no rows"
    return InvalidInputError(f"{name}: no row can be used ({n_rows:,} read): {why}.")


def holds_nan(X: Any) -> bool:
    """Tell whether a matrix without infinite values has NaN; quick where it has none."""
    is_sparse = issparse(X)
    return bool(np.isnan((X.data if is_sparse else X).sum(dtype=np.float64)))


def fill_means(X: Any, means: NDArray[np.float64]) -> Any:
    """Put means in the places of NaN; the same matrix where there is none."""
    if not holds_nan(X):
        return X
    is_sparse = issparse(X)
    if is_sparse:
        values = np.where(np.isnan(X.data), means[X.indices], X.data)
        return csr_array((values.astype(X.dtype), X.indices, X.indptr), X.shape)
    return np.where(np.isnan(X), means.astype(X.dtype), X)


def known_means(X: NDArray[Any], weights: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Weighted mean of the known values of every column of a dense matrix."""
    known = ~np.isnan(X)
    w = known * (1.0 if weights is None else weights[:, None])
    total = w.sum(axis=0)
    if not total.all():
        raise no_value_error(int(np.argmin(total)))
    return np.asarray((np.where(known, X, 0.0) * w).sum(axis=0) / total)


def no_value_error(column: str | int) -> InvalidInputError:
    """Say that a column is missing in all rows."""
    return InvalidInputError(
        f"column {column!r} has no value in any row: leave it out{WITH}.",
        parameter="features",
        settings=[("drop", [str(column)])],
    )
