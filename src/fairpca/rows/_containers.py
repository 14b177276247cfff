"""Containers of any library: their columns by name, complete columns of groups, strata or units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import combinations
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from fairpca.exceptions import GroupsError, InvalidInputError

PARTS = ("sensitive_features", "control_features", "sample_weight")
"""The arguments that go with the features, in the order of every signature."""

ALIGNED = (*PARTS, "units", "y")
"""All that may go with the features."""


@dataclass(frozen=True, eq=False)
class Column:
    """A complete column before it is known to hold labels or numbers."""

    name: str
    values: NDArray[Any]
    missing: NDArray[np.bool_]  # rows that `unknown` stands for
    codes: NDArray[np.intp] | None = None  # of the distinct values, where the library keeps them
    distinct: NDArray[Any] | None = None


def check_unique(names: Iterable[Any], of: str, parameter: str | None = None) -> None:
    """Refuse a table in which two columns have one name, whatever it came in."""
    listed = [str(name) for name in names]
    if len(set(listed)) == len(listed):
        return
    repeated = ", ".join(repr(name) for name in sorted(set(listed)) if listed.count(name) > 1)
    kind = GroupsError if parameter and "features" in parameter else InvalidInputError
    raise kind(
        f"{of}: column names occur more than once: {repeated}. Rename the columns.",
        parameter=parameter,
    )


def column_names(table: Any) -> list[Any]:
    """Return the names of the columns of a table in memory, none of anything else."""
    if not hasattr(table, "shape"):  # polars warns when the columns of a lazy frame are read
        return []
    names = getattr(table, "column_names", getattr(table, "columns", None))
    return [] if names is None else list(names)


def read_columns(
    values: Any,
    argument: str,
    unknown: str | None = None,
    n_rows: int | None = None,
    of: str = "X",
) -> list[Column]:
    """Split any container into named, complete columns; `unknown` names what is missing.

    Where `n_rows` is given it is the number of rows of the argument `of`, which they must have.
    """
    if values is None:
        raise no_groups_error("X", argument)
    if issparse(values):
        raise GroupsError(f"{argument} is a sparse matrix: give {argument}.toarray().")
    native = values
    if not isinstance(values, np.ndarray):
        check_unique(column_names(values), argument, argument)
        native = nw.from_native(values, allow_series=True, eager_only=True, pass_through=True)
    default = argument.removesuffix("s")
    if isinstance(native, nw.Series):
        name = default if native.name in (None, "") else str(native.name)
        named: list[tuple[str, Any]] = [(name, native)]
    elif isinstance(native, nw.DataFrame):
        named = list(zip(map(str, native.columns), native.iter_columns(), strict=True))
    else:
        named = _split_array(values, default, argument)
    names = [name for name, _ in named]
    if not names:
        raise GroupsError(f"{argument} has no columns: give at least one.")
    columns = [_complete_column(name, column, argument, unknown) for name, column in named]
    length = len(columns[0].values)
    if n_rows is not None and length != n_rows:
        raise GroupsError(
            f"{argument} has {length} rows but {of} has {n_rows}: give one value for each row of "
            f"{of}.",
            parameter=argument,
        )
    return columns


def _split_array(values: Any, default: str, argument: str) -> list[tuple[str, Any]]:
    """Name the columns of a vector or matrix that is not a data frame."""
    if hasattr(values, "collect"):
        raise GroupsError(f"{argument} is a lazy frame: call .collect() first.")
    try:
        # Lists stay objects, so that [["f", 1.5]] does not turn its numbers into text.
        is_array = hasattr(values, "__array__")
        array = np.asanyarray(values) if is_array else np.array(values, dtype=object)
    except ValueError as error:
        raise GroupsError(
            f"{argument} is not a rectangular array ({error}): give a vector with one value for "
            "each row of X, or a table with one row each."
        ) from None
    if array.ndim == 1:
        return [(default, array)]
    if array.ndim == 2:
        return [(f"{default}_{index}", column) for index, column in enumerate(array.T)]
    raise GroupsError(
        f"{argument} must be a vector or a 2-D table, but it has {array.ndim} dimensions "
        f"(type {type(values).__name__})."
    )


def _complete_column(name: str, column: Any, argument: str, unknown: str | None) -> Column:
    """Refuse missing values, and types that are neither labels nor numbers."""
    is_series = isinstance(column, nw.Series)
    if is_series and (coded := _coded(column)) is not None:
        # What holds for the values in use holds for all rows, which need not be looked at.
        few, codes = _complete_column(name, coded[0], argument, unknown), coded[1]
        return Column(name, few.values[codes], np.zeros(len(codes), np.bool_), codes, few.values)
    data: NDArray[Any] = np.asarray(column.to_numpy() if is_series else column)
    # The frame library knows what is missing; in its array pandas 3 has floats for strings.
    mask = np.array(column.is_null().to_numpy() if is_series else np.ma.getmaskarray(column))
    kind = data.dtype.kind
    if kind in "cV":
        raise GroupsError(
            f"{argument} column {name!r} has type {data.dtype}: "
            "give strings, categories, booleans, integers or floats."
        )
    if kind == "f":
        mask |= np.isnan(data)
    elif kind in "mM":
        mask |= np.isnat(data)
    elif kind == "O":
        types = set(map(type, data))
        nested = sorted(item.__name__ for item in types if not _is_scalar(item))
        if nested:
            raise GroupsError(
                f"{argument} column {name!r} holds values of type {nested}: give one plain "
                "label or number for each row of X (all rows of a table have the same length)."
            )
        if not types <= {str, bool, int}:
            mask |= np.fromiter(map(_is_missing, data), dtype=np.bool_, count=len(data))
    missing = int(np.count_nonzero(mask))
    if missing and unknown is None:
        raise missing_groups_error(name, missing, argument)
    return Column(name, _filled(data, mask, unknown) if missing else data, mask)


def _coded(column: Any) -> tuple[NDArray[Any], NDArray[np.intp]] | None:
    """Values in use and the code of every row of a complete column of categories."""
    native = column.to_native()
    if hasattr(native, "to_physical") and column.dtype in (nw.Categorical, nw.Enum):
        codes = native.to_physical().to_numpy()  # polars
    elif hasattr(getattr(native, "cat", None), "codes"):
        codes = np.asarray(native.cat.codes)  # pandas
    else:
        return None
    if not len(codes) or column.null_count():
        return None
    rows = np.zeros(int(codes.max()) + 1, np.intp)
    rows[codes[::-1]] = np.arange(len(codes), 0, -1)  # 1 + the first row of each
    used = rows > 0
    values = column[(rows[used] - 1).tolist()].to_numpy()
    return np.asarray(values), (np.cumsum(used) - 1)[codes]


def _filled(data: NDArray[Any], mask: NDArray[np.bool_], unknown: str | None) -> NDArray[Any]:
    """Name what is missing; whole numbers that a missing value made floats are whole again."""
    known = data[~mask]
    if data.dtype.kind == "f" and (known == np.rint(known)).all():
        known = known.astype(np.int64)
    filled = np.full(len(data), unknown, dtype=object)
    filled[~mask] = known.astype(str) if known.dtype.kind in "mM" else known
    return filled


def _is_scalar(kind: type) -> bool:
    return kind.__hash__ is not None and not issubclass(kind, tuple | np.ndarray)


def _is_missing(value: object) -> bool:
    # pandas is not a dependency, so its NA and NaT are known by the names of their types.
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def no_groups_error(of: str, argument: str = "sensitive_features") -> GroupsError:
    """Say that there are no groups."""
    return GroupsError(
        f"{argument} is None: give one group value for each row of {of}.", parameter=argument
    )


def missing_groups_error(name: str, count: int, argument: str) -> GroupsError:
    """Say that a column of groups or units has missing values."""
    what, settings = "the missing group", [("missing_groups", "own")]
    if argument == "units":
        what, settings = "each missing unit", []
    return GroupsError(
        f"{argument} column {name!r} has {count} missing value{'s' if count > 1 else ''}: "
        f"drop those rows, or give {what} a name of its own.",
        parameter=argument,
        settings=settings,
    )


# Columns by name.


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
