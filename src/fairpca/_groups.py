"""Protected attributes and strata: whatever the user holds becomes names, levels and codes.

This is the one validator for ``sensitive_features`` and ``control_features``: everything after it
sees complete columns of the right length, either coded groups or finite numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.exceptions import DuplicateError
from numpy.typing import NDArray
from scipy.sparse import issparse

from fairpca.exceptions import GroupsError

Level: TypeAlias = str | int | bool | float
"""A group's name as a plain Python scalar, so that it can be hashed, printed and stored."""

# Up to this many distinct values a float column is a group label (0.0/1.0, -1.0/+1.0), beyond it
# a number. Moments of batches apply the same rule to the union of their values.
MAX_FLOAT_LEVELS = 2


@dataclass(frozen=True, eq=False)
class Attribute:
    """One categorical column: its name, its sorted levels and a code per row.

    Parameters
    ----------
    name : str
        Name of the column.
    levels : tuple of str, int, bool or float
        The values that occur, sorted.
    codes : ndarray of int, shape (n_rows,)
        Position of each row's value in `levels`.
    """

    name: str
    levels: tuple[Level, ...]
    codes: NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class NumericAttribute:
    """One numeric column: its name and a finite number per row.

    Parameters
    ----------
    name : str
        Name of the column.
    values : ndarray of float64, shape (n_rows,)
        The numbers.
    """

    name: str
    values: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Groups:
    """Encoded columns of ``sensitive_features`` or ``control_features``.

    Parameters
    ----------
    categorical : tuple of Attribute
        The columns that name groups.
    numeric : tuple of NumericAttribute
        The columns that hold numbers.
    names : tuple of str
        All names in the order of the columns.
    n_rows : int
        Number of rows.
    """

    categorical: tuple[Attribute, ...]
    numeric: tuple[NumericAttribute, ...]
    names: tuple[str, ...]
    n_rows: int


@dataclass(frozen=True, eq=False)
class _Column:
    """A column before it is judged: complete values, and whether they are labels by declaration."""

    name: str
    values: NDArray[Any]
    declared_categorical: bool = False


def encode_groups(
    values: Any,
    *,
    n_rows: int,
    argument: str = "sensitive_features",
    numeric: Iterable[str] = (),
    of: str = "X",
) -> Groups:
    """Turn group columns of any kind into names, levels and integer codes.

    Strings, categories, booleans and integers name groups. A float column with at most two
    distinct values names groups too; any other float column is a number.

    Parameters
    ----------
    values : array-like, Series or data frame
        A vector, a 2-D array, or a pandas, polars or pyarrow column or table.
    n_rows : int
        Number of rows that `values` must have.
    argument : str, default "sensitive_features"
        Name of the argument, for messages and for columns that have no name.
    numeric : iterable of str, default ()
        Names of columns that are numbers whatever their type.
    of : str, default "X"
        Name of the argument whose rows the groups belong to, for messages.

    Returns
    -------
    Groups
        Levels are sorted plain Python scalars; unused categories are dropped. A column with a
        single value is accepted, since a batch may hold one group only.

    Raises
    ------
    GroupsError
        If the columns cannot be used; the message names the argument and what to do.

    Examples
    --------
    >>> from fairpca._groups import encode_groups
    >>> groups = encode_groups(["b", "a", "b"], n_rows=3)
    >>> groups.categorical[0].levels, groups.categorical[0].codes
    (('a', 'b'), array([1, 0, 1]))
    """
    columns = _read_columns(values, argument)
    for column in columns:
        if len(column.values) != n_rows:
            raise GroupsError(
                f"{argument} has {len(column.values)} rows but {of} has {n_rows}: "
                f"give one value for each row of {of}."
            )
    forced = _forced_names(numeric, columns, argument)
    categorical: list[Attribute] = []
    numbers: list[NumericAttribute] = []
    for column in columns:
        if column.name in forced:
            numbers.append(NumericAttribute(column.name, _to_numbers(column, argument)))
            continue
        encoded = _encode_column(column, argument)
        if isinstance(encoded, Attribute):
            categorical.append(encoded)
        else:
            numbers.append(encoded)
    names = tuple(column.name for column in columns)
    return Groups(tuple(categorical), tuple(numbers), names, n_rows)


def _read_columns(values: Any, argument: str) -> list[_Column]:
    """Split any accepted container into named, complete columns."""
    if values is None:
        raise GroupsError(f"{argument} is None: give one group value for each row of X.")
    if issparse(values):
        raise GroupsError(
            f"{argument} is a sparse matrix: give a dense array, for example {argument}.toarray()."
        )
    try:
        native = nw.from_native(values, allow_series=True, eager_only=True, pass_through=True)
    except DuplicateError as error:
        raise GroupsError(
            f"{argument} has duplicate column names ({error}): rename the columns."
        ) from None
    default = argument.removesuffix("s")
    if isinstance(native, nw.Series):
        name = default if native.name in (None, "") else str(native.name)
        columns = [_read_series(native, name, argument)]
    elif isinstance(native, nw.DataFrame):
        pairs = zip(native.iter_columns(), native.columns, strict=True)
        columns = [_read_series(series, str(name), argument) for series, name in pairs]
    else:
        columns = _read_array(values, default, argument)
    if not columns:
        raise GroupsError(f"{argument} has no columns: give at least one.")
    names = [column.name for column in columns]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise GroupsError(f"{argument} has duplicate column names {repeated}: rename the columns.")
    return columns


def _read_series(series: Any, name: str, argument: str) -> _Column:
    """Read one column of a data frame, of whichever library."""
    # Asked of the frame library, not of the array: pandas 3 turns a missing string into a float.
    missing = int(series.is_null().sum())
    if missing:
        raise _missing_error(name, missing, argument)
    declared = isinstance(series.dtype, nw.Categorical | nw.Enum)
    return _complete_column(name, series.to_numpy(), argument, declared)


def _read_array(values: Any, default: str, argument: str) -> list[_Column]:
    """Read a vector or matrix that is not a data frame."""
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
    if array.ndim not in (1, 2):
        raise GroupsError(
            f"{argument} must be a vector or a 2-D table, but it has {array.ndim} dimensions "
            f"(type {type(values).__name__})."
        )
    if array.ndim == 1:
        return [_complete_column(default, array, argument)]
    return [
        _complete_column(f"{default}_{index}", array[:, index], argument)
        for index in range(array.shape[1])
    ]


def _complete_column(
    name: str, values: NDArray[Any], argument: str, declared: bool = False
) -> _Column:
    """Refuse missing values, and types that are neither labels nor numbers."""
    data: NDArray[Any] = np.asarray(values)
    if data.dtype.kind in "cV":
        raise GroupsError(
            f"{argument} column {name!r} has type {data.dtype}: "
            "give strings, categories, booleans, integers or floats."
        )
    if data.dtype.kind == "O":
        nested = [kind.__name__ for kind in set(map(type, data)) if not _is_scalar(kind)]
        if nested:
            raise GroupsError(
                f"{argument} column {name!r} holds values of type {sorted(nested)}: give one plain "
                "label or number for each row of X (all rows of a table have the same length)."
            )
    missing = int(np.count_nonzero(_missing_mask(data) | np.ma.getmaskarray(values)))
    if missing:
        raise _missing_error(name, missing, argument)
    return _Column(name, data, declared)


def _is_scalar(kind: type) -> bool:
    return kind.__hash__ is not None and not issubclass(kind, tuple | np.ndarray)


def _missing_mask(data: NDArray[Any]) -> NDArray[np.bool_]:
    """Mark what stands for no value: NaN, NaT, None and pandas.NA."""
    mask = np.zeros(len(data), dtype=np.bool_)
    if data.dtype.kind == "f":
        mask |= np.isnan(data)
    elif data.dtype.kind in "mM":
        mask |= np.isnat(data)
    elif data.dtype.kind == "O" and not set(map(type, data)) <= {str, bool, int}:
        mask |= np.fromiter(map(_is_missing, data), dtype=np.bool_, count=len(data))
    return mask


def _is_missing(value: object) -> bool:
    # pandas is not a dependency, so its NA and NaT are known by the names of their types.
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def _missing_error(name: str, count: int, argument: str) -> GroupsError:
    return GroupsError(
        f"{argument} column {name!r} has {count} missing value{'s' if count > 1 else ''}: "
        "drop those rows, or give the missing group a name of its own."
    )


def _forced_names(numeric: Iterable[str], columns: Sequence[_Column], argument: str) -> set[str]:
    """Check the names that the user declares numeric."""
    forced = {numeric} if isinstance(numeric, str) else set(numeric)
    names = [column.name for column in columns]
    unknown = sorted(str(name) for name in forced - set(names))
    if unknown:
        raise GroupsError(
            f"numeric names {unknown}, which {argument} does not have: its columns are {names}."
        )
    return forced


def _to_numbers(column: _Column, argument: str) -> NDArray[np.float64]:
    """Convert a column to finite float64 numbers."""
    try:
        numbers = np.asarray(column.values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise GroupsError(
            f"{argument} column {column.name!r} is declared numeric but cannot be read as numbers "
            f"({error}): leave it out of numeric, or convert it."
        ) from None
    not_finite = int(np.count_nonzero(~np.isfinite(numbers)))
    if not_finite:
        raise GroupsError(
            f"{argument} column {column.name!r} has {not_finite} infinite or undefined "
            f"value{'s' if not_finite > 1 else ''}: drop those rows or clip them."
        )
    return numbers


def _encode_column(column: _Column, argument: str) -> Attribute | NumericAttribute:
    """Decide whether a column names groups or holds numbers, and encode it."""
    values = column.values
    kind = values.dtype.kind
    if kind == "O" and _holds_floats(values):
        values, kind = values.astype(np.float64), "f"
    if kind == "f":
        values = _to_numbers(_Column(column.name, values), argument)
    if kind not in "biuf":
        return _encode_objects(column.name, values)
    levels, codes = np.unique(values, return_inverse=True)
    labels: list[Level] = levels.tolist()
    if kind == "f" and column.declared_categorical:
        labels = [
            str(label) for label in labels
        ]  # text, so that no later rule takes it for numbers
    elif kind == "f" and len(levels) > MAX_FLOAT_LEVELS:
        return NumericAttribute(column.name, values)
    return Attribute(column.name, tuple(labels), codes.astype(np.intp, copy=False))


def _holds_floats(values: NDArray[Any]) -> bool:
    """Whether an object column is what NumPy would call floats: [1, 2.5] is, [1, 2] is not."""
    kinds = set(map(type, values))
    numbers = all(issubclass(kind, int | float | np.integer | np.floating) for kind in kinds)
    floats = any(issubclass(kind, float | np.floating) for kind in kinds)
    return numbers and floats and bool not in kinds


def _encode_objects(name: str, values: NDArray[Any]) -> Attribute:
    """Encode text and mixed values; a dictionary beats sorting the rows by far."""
    rows = values.astype(str).tolist() if values.dtype.kind in "mM" else values.tolist()
    distinct = list(dict.fromkeys(rows))
    levels = tuple(dict.fromkeys(_plain(value) for value in sort_levels(distinct)))
    position = {level: index for index, level in enumerate(levels)}
    code_of = {value: position[_plain(value)] for value in distinct}
    codes = np.fromiter(map(code_of.__getitem__, rows), dtype=np.intp, count=len(rows))
    return Attribute(name, levels, codes)


def sort_levels(levels: Iterable[Any]) -> tuple[Any, ...]:
    """Sort levels by value, or by their text where the types do not compare.

    Parameters
    ----------
    levels : iterable
        Distinct levels.

    Returns
    -------
    tuple
        The levels, in an order that does not depend on the order given.

    Examples
    --------
    >>> from fairpca._groups import sort_levels
    >>> sort_levels([10, 9]), sort_levels(["b", 1])
    ((9, 10), (1, 'b'))
    """
    values = list(levels)
    try:
        return tuple(sorted(values))
    except TypeError:
        return tuple(sorted(values, key=lambda value: (str(value), type(value).__name__)))


def _plain(value: Any) -> Level:
    """Turn a value into the plain Python scalar that names its group."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    # Subclasses (numpy strings, enumerations) become their plain base, so that they can be stored.
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value) if kind is not str else str.__str__(value)
    return str(value)
