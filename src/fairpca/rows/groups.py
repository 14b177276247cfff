"""Protected attributes and strata: columns of any kind become names, levels and codes.

Everything after this module sees complete columns of the right length, either coded groups or
finite numbers.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fairpca._choices import MAX_CELLS
from fairpca.exceptions import GroupsError, InvalidInputError
from fairpca.rows._containers import Column, check_numeric, read_columns
from fairpca.rows._sampling import label_keys

Level: TypeAlias = str | int | bool | float
"""A group's name as a plain Python scalar, so that it can be hashed, printed and stored."""

# Up to this many distinct values a column of fractions is a group label (0.5/1.5), beyond it a
# number. Moments of batches apply the same rule to the union of their values.
MAX_FLOAT_LEVELS = 2
_FIRST = 1000  # rows that may show already what a column is
# The same of whole numbers in a target: up to this many are labels, more are numbers.
MAX_NUMBER_LABELS = 20
_MAX_LABELS = 200


@dataclass(frozen=True, eq=False)
class Attribute:
    """One categorical column: its name, the sorted values that occur, and a code per row."""

    name: str
    levels: tuple[Level, ...]
    codes: NDArray[np.intp]  # (n_rows,): position of each row's value in `levels`


@dataclass(frozen=True, eq=False)
class NumericAttribute:
    """One numeric column: its name and a finite number per row."""

    name: str
    values: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Groups:
    """Encoded columns of ``sensitive_features`` or ``control_features``.

    See Also
    --------
    encode_groups : What makes it.

    Examples
    --------
    >>> from fairpca.rows import encode_groups
    >>> encode_groups(["m", "f", "m"], n_rows=3).names
    ('sensitive_feature',)
    """

    categorical: tuple[Attribute, ...]
    numeric: tuple[NumericAttribute, ...]
    names: tuple[str, ...]  # of all columns, in their order
    n_rows: int

    @classmethod
    def of(cls, columns: Sequence[Attribute | NumericAttribute], n_rows: int) -> Groups:
        """Columns that are encoded."""
        categorical = tuple(column for column in columns if isinstance(column, Attribute))
        numeric = tuple(column for column in columns if isinstance(column, NumericAttribute))
        return cls(categorical, numeric, tuple(column.name for column in columns), n_rows)

    @classmethod
    def none(cls, n_rows: int) -> Groups:
        """No columns at all."""
        return cls((), (), (), n_rows)

    def labelled(self, argument: str = "sensitive_features") -> tuple[Attribute, ...]:
        """Return the columns, of which none may hold numbers."""
        if self.numeric:
            raise GroupsError(
                f"{argument} column {self.numeric[0].name!r} holds numbers, but groups are needed "
                "to compare: bin it first, for example with pandas.qcut or numpy.digitize.",
                parameter=argument,
            )
        return self.categorical

    def take(self, rows: slice | NDArray[np.intp]) -> Groups:
        """Return the groups of some of the rows; levels that no longer occur stay listed."""
        return replace(
            self,
            categorical=tuple(replace(c, codes=c.codes[rows]) for c in self.categorical),
            numeric=tuple(replace(c, values=c.values[rows]) for c in self.numeric),
            n_rows=len(np.arange(self.n_rows)[rows]),
        )

    def as_numbers(self, rows: NDArray[np.intp]) -> list[NDArray[Any]]:
        """Numbers of some of the rows, then an indicator for each level, side by side."""
        numbers = [column.values.take(rows)[:, None] for column in self.numeric]
        codes = ((column.codes.take(rows), len(column.levels)) for column in self.categorical)
        return [*numbers, *(own[:, None] == np.arange(count) for own, count in codes)]

    def number_columns(self) -> tuple[tuple[str, Level | None], ...]:
        """Name of each of these numbers, and the level that it indicates."""
        levels = ((column.name, level) for column in self.categorical for level in column.levels)
        return (*((column.name, None) for column in self.numeric), *levels)

    def known(self) -> NDArray[np.bool_]:
        """Rows in which nothing is missing."""
        masks = [~np.isnan(column.values) for column in self.numeric]
        masks += [column.codes >= 0 for column in self.categorical]
        return np.asarray(np.logical_and.reduce(masks))


def encode_groups(
    values: Any,
    *,
    n_rows: int,
    argument: str = "sensitive_features",
    numeric: Iterable[str] = (),
    of: str = "X",
    unknown: str | None = None,
) -> Groups:
    """Turn group columns of any kind into names, levels and integer codes.

    Strings, categories, booleans, dates and whole numbers name groups, and whole numbers held as
    floats (the usual fate of integers with a missing value) are the same groups as the integers.
    A column with fractions is a number, unless it has at most two distinct values; so are
    categories that are numbers, which files hold as plain numbers. A column with a single value is
    accepted, since a batch may hold one group only. Levels are sorted plain Python
    scalars; unused categories are dropped.

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
    unknown : str, optional
        Name of a group for missing values, which are refused without it.

    See Also
    --------
    Rows.attach : Groups with features, strata and weights.

    Examples
    --------
    >>> from fairpca.rows import encode_groups
    >>> groups = encode_groups(["b", "a", "b"], n_rows=3)
    >>> groups.categorical[0].levels, groups.categorical[0].codes
    (('a', 'b'), array([1, 0, 1]))
    """
    forced = {numeric} if isinstance(numeric, str) else set(numeric)
    try:
        columns = read_columns(values, argument, unknown, n_rows, of)
        if forced:
            check_numeric(forced, [column.name for column in columns], argument)
        encoded = []
        for column in columns:
            if column.missing.any():
                _check_numbers_known(column, forced, argument)
            encoded.append(_encode_column(column, argument, column.name in forced))
    except GroupsError as error:
        error.parameter = error.parameter or argument
        raise
    return Groups.of(encoded, n_rows)


def encode_units(
    values: Any, n_rows: int, of: str = "X"
) -> tuple[NDArray[np.intp], NDArray[np.uint64]]:
    """Turn the labels of units into codes from 0 on, and a number for each that follows from it."""
    groups = encode_groups(values, n_rows=n_rows, argument="units", of=of)
    if len(groups.names) > 1:
        raise GroupsError(
            f"units has {len(groups.names)} columns: give one label for each row.",
            parameter="units",
        )
    for column in groups.categorical:
        return column.codes, label_keys(column.levels, "unit")
    labels, codes = np.unique(groups.numeric[0].values, return_inverse=True)  # fractions
    return codes.astype(np.intp, copy=False), label_keys(labels.tolist(), "unit")


def encode_targets(values: Any, n_rows: int, of: str = "X") -> Groups:
    """Turn columns to predict into labels and numbers; types are as in `encode_groups`."""
    encoded = []
    for column in read_columns(values, "y", "", n_rows, of):
        known = ~column.missing
        if not known.all():
            column = Column(column.name, column.values[known], column.missing[known])
        encoded.append((_encode_column(column, "y", False), known))
    return join_targets(encoded, n_rows)


def join_targets(
    columns: Iterable[tuple[Attribute | NumericAttribute, NDArray[np.bool_]]], n_rows: int
) -> Groups:
    """Sort targets by name; where a value is not known the code is −1, or the number NaN.

    More than 20 different whole numbers are numbers.
    """
    encoded: list[Attribute | NumericAttribute] = []
    column: Any
    for column, known in sorted(columns, key=lambda pair: pair[0].name):
        if isinstance(column, Attribute) and labels_are_numbers(column.name, column.levels):
            numbers = np.array(column.levels, dtype=np.float64)
            column = NumericAttribute(column.name, numbers[column.codes])
        if not known.all():
            name, missing = ("codes", -1) if isinstance(column, Attribute) else ("values", np.nan)
            every = np.full(n_rows, missing)
            every[known] = getattr(column, name)
            column = replace(column, **{name: every})
        encoded.append(column)
    return Groups.of(encoded, n_rows)


def labels_are_numbers(name: str, labels: Sequence[Level]) -> bool:
    """Whether labels of a target are numbers together; refuse labels that nothing can predict."""
    if holds_numbers(labels, MAX_NUMBER_LABELS):
        return True
    check_levels(name, labels, "y")
    if len(labels) > _MAX_LABELS:
        raise InvalidInputError(
            f"the target {name!r} has more than {_MAX_LABELS} different labels: put them into "
            "classes, or name another column.",
            parameter="y",
        )
    return False


def holds_numbers(levels: Sequence[Level], most: float = np.inf) -> bool:
    """Whether levels are numbers: more than two, with fractions, or more than `most` in all."""
    if len(levels) <= MAX_FLOAT_LEVELS or not all(map(is_number, levels)):
        return False
    fractions = any(isinstance(level, float) and not level.is_integer() for level in levels)
    return fractions or len(levels) > most


def is_number(level: Level) -> bool:
    """Whether a level is a number, which a boolean is not."""
    return isinstance(level, int | float) and not isinstance(level, bool)


def _check_numbers_known(column: Column, forced: set[str], argument: str) -> None:
    """Refuse missing values among numbers, which no name can stand for."""
    known, missing = column.values[~column.missing], int(np.count_nonzero(column.missing))
    fractions = _holds_floats(known) and not all(float(v).is_integer() for v in set(known))
    if column.name in forced or (fractions and len(set(known)) > MAX_FLOAT_LEVELS):
        raise GroupsError(
            f"{argument} column {column.name!r} holds numbers, of which {missing} "
            f"{'is' if missing == 1 else 'are'} missing: drop those rows."
        )


def _to_numbers(name: str, values: NDArray[Any], argument: str) -> NDArray[np.float64]:
    """Convert a column to finite float64 numbers."""
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise GroupsError(
            f"{argument} column {name!r} is declared numeric but cannot be read as numbers "
            f"({error}): leave it out of numeric, or convert it."
        ) from None
    count = int(np.count_nonzero(~np.isfinite(numbers)))
    if count:
        raise GroupsError(
            f"{argument} column {name!r} has {count} infinite or undefined "
            f"value{'s' if count > 1 else ''}: drop those rows or clip them."
        )
    return numbers


def _encode_column(column: Column, argument: str, is_numeric: bool) -> Attribute | NumericAttribute:
    """Decide whether a column names groups or holds numbers, and encode it."""
    values = column.values
    if is_numeric:
        return NumericAttribute(column.name, _to_numbers(column.name, values, argument))
    if column.codes is not None and column.distinct is not None:
        few = replace(column, values=column.distinct, codes=None)
        encoded = _encode_column(few, argument, is_numeric)
        if isinstance(encoded, NumericAttribute):
            return replace(encoded, values=encoded.values[column.codes])
        return replace(encoded, codes=encoded.codes[column.codes])
    kind = values.dtype.kind
    if kind == "O" and _holds_floats(values):
        values, kind = values.astype(np.float64), "f"
    if kind == "f":
        values = _to_numbers(column.name, values, argument)
    if kind not in "biuf":
        return _encode_objects(column.name, values, argument)
    if kind == "f" and _are_fractions(np.unique(values[:_FIRST])):  # sorting all would take longer
        return NumericAttribute(column.name, values)
    if kind == "i" and len(values) and np.ptp(values.astype(float)) <= len(values):
        # Whole numbers close together are counted, which takes a tenth of sorting them.
        least = int(values.min())
        codes = values.astype(np.intp) - least
        occurs = np.bincount(codes) > 0
        levels: Any = np.flatnonzero(occurs) + least
        codes = (np.cumsum(occurs) - 1)[codes]
    else:
        levels, codes = np.unique(values, return_inverse=True)
    labels: list[Level] = levels.tolist()
    if kind == "f" and _are_fractions(levels):
        return NumericAttribute(column.name, values)
    if kind == "f" and (levels == np.rint(levels)).all():
        labels = [int(label) for label in labels]
    return Attribute(column.name, tuple(labels), codes.astype(np.intp, copy=False))


def _are_fractions(levels: NDArray[np.float64]) -> bool:
    """Whether floats are numbers and no groups: more than two, and not all whole."""
    return len(levels) > MAX_FLOAT_LEVELS and bool((levels != np.rint(levels)).any())


def _holds_floats(values: NDArray[Any]) -> bool:
    """Whether an object column is what NumPy would call floats: [1, 2.5] is, [1, 2] is not."""
    kinds = set(map(type, values))
    numbers = all(issubclass(kind, int | float | np.integer | np.floating) for kind in kinds)
    floats = any(issubclass(kind, float | np.floating) for kind in kinds)
    return numbers and floats and bool not in kinds


def _encode_objects(name: str, values: NDArray[Any], argument: str) -> Attribute:
    """Encode text and mixed values; a dictionary beats sorting the rows by far."""
    kind = values.dtype.kind
    if kind == "m":
        values = values.astype(str)
    rows = list(values) if kind == "M" else values.tolist()  # NumPy makes integers of fine dates
    distinct = list(dict.fromkeys(rows))
    try:
        levels = tuple(dict.fromkeys(_plain(value) for value in sort_levels(distinct)))
        position = {level: index for index, level in enumerate(levels)}
        code_of = {value: position[_plain(value)] for value in distinct}
    except UnicodeDecodeError as error:
        raise GroupsError(
            f"{argument} column {name!r} holds bytes that are no UTF-8 text "
            f"({bytes(error.object[:20])!r}): decode the column with its own encoding first."
        ) from None
    check_levels(name, levels, argument)
    codes = np.fromiter(map(code_of.__getitem__, rows), dtype=np.intp, count=len(rows))
    return Attribute(name, levels, codes)


def check_levels(name: str, levels: Sequence[Level], argument: str) -> None:
    """Refuse 1 and "1": what is printed alike is one group, and the types of a column differ."""
    texts = [str(level) for level in levels]
    if len(set(texts)) < len(texts):
        twice = next(text for text in texts if texts.count(text) > 1)
        kinds = sorted(type(level).__name__ for level in levels if str(level) == twice)
        raise GroupsError(
            f"{argument} column {name!r} holds {twice!r} as {' and as '.join(kinds)}, which would "
            "be two groups: give the column one type.",
            parameter=argument,
        )


def sort_levels(levels: Iterable[Any]) -> tuple[Any, ...]:
    """Sort distinct levels by value, or by their text where the types do not compare."""
    values = list(levels)
    try:
        return tuple(sorted(values))
    except TypeError:
        return tuple(sorted(values, key=lambda value: (str(value), type(value).__name__)))


def _plain(value: Any) -> Level:
    """Turn a value into the plain Python scalar that names its group."""
    if isinstance(value, datetime.date | np.datetime64):
        return _date_text(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bytes):
        return value.decode()
    # Subclasses (numpy strings, enumerations) become their plain base, so that they can be stored.
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value) if kind is not str else str.__str__(value)
    return str(value)


def _date_text(value: Any) -> str:
    """Text of a date or time, no finer than it needs to be: libraries hold dates as midnights."""
    if getattr(value, "tzinfo", None) is not None:
        return str(value)
    return str(np.datetime_as_string(np.datetime64(value), unit="auto"))


def combine(columns: Sequence[Attribute]) -> NDArray[np.intp]:
    """Return the number of each row's combination of levels, among those that occur, sorted."""
    codes, size = np.zeros(len(columns[0].codes), dtype=np.intp), 1
    few = 4 * len(codes) + 1000  # beyond it, counting takes more than sorting
    for column in columns:
        codes, size = codes * len(column.levels) + column.codes, size * len(column.levels)
        if size > few:
            codes = np.unique(codes, return_inverse=True)[1]
            size = int(codes.max(initial=0)) + 1
    return np.asarray((np.cumsum(np.bincount(codes) > 0) - 1)[codes])


# A limit on the number of groups tells a group from an identifier passed by mistake.
def check_cells(parts: Sequence[Groups | None], limit: int = MAX_CELLS) -> None:
    """Refuse groups with more distinct combinations than a table of moments should hold."""
    columns = [column for part in parts if part is not None for column in part.categorical]
    for column in columns:
        if len(column.levels) > limit:
            raise too_many_cells({column.name: len(column.levels)}, limit)
    if np.prod([float(len(column.levels)) for column in columns], initial=1.0) <= limit:
        return
    if combine(columns).max(initial=0) >= limit:
        raise too_many_cells({column.name: len(column.levels) for column in columns}, limit)


def too_many_cells(levels: Mapping[str, int], limit: int) -> GroupsError:
    """Say that there are too many groups; `levels` counts the distinct values of each column."""
    worst = max(levels, key=levels.__getitem__)
    if levels[worst] > limit:
        what = f"column {worst!r} has more than {limit} distinct values"
    else:
        counts = ", ".join(f"{name!r}: {count}" for name, count in levels.items())
        what = f"the group columns have more than {limit} distinct combinations ({counts})"
    return GroupsError(
        f"{what}: that is an identifier rather than a group. Leave the column out, put its values "
        "into classes, name it in numeric if it is a number, or raise max_cells (each combination "
        "holds a matrix of features × features).",
        parameter="sensitive_features",
    )
