"""Columns by name, and missing values: where they are, what is said of them, what fills them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import combinations
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from fairpca.exceptions import GroupsError, InvalidInputError
from fairpca.rows._containers import column_names, missing_groups_error, read_columns

PARTS = ("sensitive_features", "control_features", "sample_weight")
"""The arguments that go with the features, in the order of every signature."""

ALIGNED = (*PARTS, "units", "y")
"""All that may go with the features."""


def split_named(X: Any, parts: Mapping[str, Any]) -> tuple[Any, dict[str, Any], tuple[str, ...]]:
    """Take the columns that parts name out of a table; return the rest, the parts and the names."""
    # A text names a column. A list of texts names columns where X does not have as many rows as the
    # list has texts, and one of them is a column of X, nearly one, or the only one; otherwise it
    # holds the labels of the rows.
    if not any(isinstance(part, str | list | tuple) for part in parts.values()):
        return X, dict(parts), ()
    columns = column_names(X)
    named = {
        argument: (part,) if isinstance(part, str) else tuple(part)
        for argument, part in parts.items()
        if _is_named(part, columns, X)
    }
    for argument, names in named.items():
        check_names(names, columns, argument)
    check_apart(named)
    taken = tuple(dict.fromkeys(name for names in named.values() for name in names))
    if not taken:
        return X, dict(parts), ()
    selected = {argument: _select(X, list(names)) for argument, names in named.items()}
    for argument in {"sample_weight", "units"} & named.keys():
        if len(named[argument]) > 1:
            raise InvalidInputError(
                f"{argument} names {list(named[argument])}: give one column.", parameter=argument
            )
        selected[argument] = X[named[argument][0]]
    return without_columns(X, taken), {**parts, **selected}, taken


def check_names(names: Sequence[str], known: Sequence[Any], parameter: str) -> None:
    """Refuse names of columns that are given twice, or that no column has."""
    repeated = sorted({name for name in names if names.count(name) > 1})
    unknown = [name for name in names if name not in known]
    if repeated:
        problem = f"{parameter} names {repeated} more than once."
    elif unknown:
        listed = _known(unknown[0], known)
        problem = f"{parameter} names {unknown}, which is not among the columns: {listed}"
    else:
        return
    kind = GroupsError if parameter in PARTS[:2] else InvalidInputError
    # A header that seems to be a single column may have another separator.
    marks = [mark for mark in ";\t|" if len(known) == 1 and mark in str(known[0])]
    settings = [("separator", mark) for mark in marks[:1]]
    raise kind(problem, parameter=parameter, settings=settings, is_subject=True)


def _known(name: str, known: Sequence[Any], limit: int = 40) -> str:
    """Say which columns there are, and which of them may be meant."""
    if not known:
        return "X has no named columns."
    more = f" and {len(known) - limit} more" if len(known) > limit else ""
    text = f"they are {', '.join(map(repr, known[:limit]))}{more}."
    if close := close_names(name, known):
        text += f" Did you mean {' or '.join(map(repr, close))}?"
    return text


def close_names(name: str, known: Sequence[Any]) -> list[Any]:
    """Return the columns that a name may stand for by a slip."""
    by_case = {str(column).lower(): column for column in known}
    return [by_case[close] for close in get_close_matches(name.lower(), list(by_case))]


def check_apart(parts: Mapping[str, Sequence[str]]) -> None:
    """Refuse a column that plays two parts at once; it would be compared to itself."""
    words = dict(zip(ALIGNED, ("sensitive", "control", "weight", "unit", "target"), strict=True))
    for first, second in combinations(words, 2):
        if (first, second) == (PARTS[1], "y"):
            continue  # strata of the target: equalised odds
        both = [name for name in parts.get(first, ()) if name in parts.get(second, ())]
        if both:
            raise GroupsError(
                f"{both} are {words[first]} and {words[second]} columns at the same time.",
                parameter=second,
            )


def check_numeric(numeric: Iterable[str], names: Sequence[str], part: str) -> None:
    """Refuse the names of numbers that are no groups."""
    stray = sorted(str(name) for name in set(numeric) - set(names))
    if stray:
        raise GroupsError(
            f"{stray} is not among the columns of {part}: they are {list(names)}.",
            parameter="numeric",
        )


def without_columns(X: Any, names: Iterable[str]) -> Any:
    """Leave columns out of a table; X itself where it has none of them."""
    columns, left_out = column_names(X), set(names)
    rest = [name for name in columns if name not in left_out]
    return X if len(rest) == len(columns) else _select(X, rest)


def _is_named(part: Any, columns: list[Any], X: Any) -> bool:
    if isinstance(part, str):
        return True
    if not isinstance(part, list | tuple) or not all(isinstance(name, str) for name in part):
        return False
    n_rows = X.shape[0] if columns else len(part)  # not a number where Dask does not know it yet
    if not columns or (isinstance(n_rows, int) and n_rows == len(part)):
        return False
    return len(part) == 1 or any(name in columns or close_names(name, columns) for name in part)


def _select(X: Any, names: list[str]) -> Any:
    return X[names] if hasattr(X, "iloc") else X.select(names)


# Missing values: where they are, the one description of them, and what may stand for them.

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
        f"column {column!r} has no value in any row: leave it out.", parameter="features"
    )
