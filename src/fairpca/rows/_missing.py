"""Missing values: where they are, the one description of them, and what may stand for them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from fairpca.exceptions import GroupsError, InvalidInputError
from fairpca.rows._columns import PARTS, missing_groups_error, read_columns

Mask: TypeAlias = tuple[str, str, NDArray[np.bool_]]
"""The argument ("" for features) and the name of a column, and the rows in which it is missing."""

MISSING_GROUP = "missing"
"""Name of the group of rows whose group is missing, where they have one."""


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
        if kinds <= {"sensitive_features", "control_features"}:
            first = next(name for name in self.arguments if name in self.counts)
            return missing_groups_error(first, self.counts[first], self.arguments[first])
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
    if is_sparse:
        places = np.flatnonzero(np.isnan(X.data))
        incomplete[np.searchsorted(X.indptr, places, side="right") - 1] = True
        return np.bincount(X.indices[places], minlength=X.shape[1])
    counts = np.zeros(X.shape[1], dtype=np.intp)
    step = max(256, (1 << 20) // max(X.shape[1], 1))  # a few megabytes at once
    for start in range(0, len(X), step):
        absent = np.isnan(X[start : start + step])
        counts += absent.sum(axis=0)
        incomplete[start : start + step] |= absent.any(axis=1)
    return counts


def missing_in_parts(
    *parts: Any, own: bool = False, numeric: Container[str] = ()
) -> Iterator[Mask]:
    """Mark the rows that lack a group, a stratum or a weight, by argument and column.

    Where those without a group have their `own`, only numbers and weights can be missing.
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
            if is_weight or not own or column.name in numeric:
                yield argument, column.name, column.missing


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
        f"column {column!r} has no value in any row: leave it out.", parameter="features"
    )
