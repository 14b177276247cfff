"""Which column plays which part, settled once for a whole table; the columns of a batch by part."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from fairpca._choices import GROUPLESS, MAX_CELLS, MAX_LEVELS, MISSING, Groupless, Missing
from fairpca.exceptions import GroupsError, InvalidInputError
from fairpca.moments.folds import check_folds
from fairpca.rows import UNKNOWN_GROUP
from fairpca.rows._checks import MISSING_GROUP
from fairpca.rows._containers import (
    ALIGNED,
    PARTS,
    check_apart,
    check_names,
    check_numeric,
    check_unique,
)
from fairpca.rows._identifiers import (
    DATES,
    TEXT,
    is_identifier,
    names_units,
    not_numbers_error,
    suggests_units,
)

Names = str | Iterable[str] | None


class RoleOptions(TypedDict, total=False):
    """Options for reading any table, by keyword; see `moments_from_files`."""

    numeric: Names
    categorical: Names
    missing: Missing
    missing_groups: Groupless
    max_cells: int
    max_levels: int
    folds: int
    unit: str | None
    target: Names


@dataclass(frozen=True)
class Roles:
    """Which column plays which part, the same for every batch of a pass; made by `Table.assign`.

    The parts and options are those of `moments_from_files`.

    See Also
    --------
    Table.assign : What makes it.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from fairpca.tables import open_table
    >>> table = open_table(pa.table({"height": [1.6, 1.8], "sex": ["f", "m"]}))
    >>> table.assign("sex").features
    ('height',)
    """

    features: tuple[str, ...]  # those that are numbers, in order
    categorical: tuple[str, ...] = ()  # their indicators come after `features`
    sensitive: tuple[str, ...] = ()
    control: tuple[str, ...] = ()
    weight: str | None = None
    numeric: tuple[str, ...] = ()
    unit: str | None = None
    missing: Missing = "error"
    missing_groups: Groupless = "raise"
    max_cells: int = MAX_CELLS
    max_levels: int = MAX_LEVELS
    folds: int = 0  # 0: one sum for all rows
    hold_out: float = 0.0  # share of the rows that is not used, or alone if `only_held_out`
    only_held_out: bool = False
    target: tuple[str, ...] = ()  # what the features are to predict
    single: bool = False  # all features fit float32: batches are held in it, sums never are

    def __post_init__(self) -> None:
        check_choice("missing", self.missing, MISSING)
        check_choice("missing_groups", self.missing_groups, GROUPLESS)
        if self.folds:
            check_folds(self.folds)

    @property
    def parts(self) -> tuple[tuple[str, ...], ...]:
        """Names of features, categorical ones, groups, strata, weight, unit and target."""
        single = (as_names(self.weight), as_names(self.unit))
        groups = (self.sensitive, self.control, *single, self.target)
        return (self.features, self.categorical, *groups)

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column to read, once."""
        return tuple(dict.fromkeys(chain.from_iterable(self.parts)))

    @property
    def aligned(self) -> dict[str, tuple[str, ...]]:
        """Return the columns of groups, strata, weights, units and targets by argument."""
        return dict(zip(ALIGNED, self.parts[2:], strict=True))

    @property
    def own_group(self) -> frozenset[str]:
        """Columns in which a missing value has the group `missing_level`."""
        if self.missing_groups == "raise":
            return frozenset()
        strata = self.control if self.missing_groups == "own" else ()
        return frozenset((*self.sensitive, *strata)) - frozenset(self.numeric)

    @property
    def missing_level(self) -> str:
        """Name of the group of rows without one."""
        return MISSING_GROUP if self.missing_groups == "own" else UNKNOWN_GROUP


def possible_features(schema: pa.Schema) -> list[str]:
    """Return all columns but the index that pandas writes to Parquet files: it is no feature."""
    return [name for name in schema.names if not re.fullmatch(r"__index_level_\d+__", name)]


def assign_roles(
    schema: pa.Schema,
    sensitive: Names,
    features: Names = None,
    control: Names = None,
    weight: str | None = None,
    *,
    numeric: Names = None,
    categorical: Names = None,
    unit: str | None = None,
    target: Names = None,
    **options: Any,
) -> Roles:
    """Check the names against a schema and settle the part of every column."""
    for word, parameter, name in (("weight", PARTS[2], weight), ("unit", "units", unit)):
        if name is not None and not isinstance(name, str):
            problem = f"{word}={name!r}: give the name of one column."
            raise InvalidInputError(problem, parameter=parameter)
    named = (sensitive, control, weight, unit, target)
    groups = dict(zip(ALIGNED, map(as_names, named), strict=True))
    if not groups["sensitive_features"]:
        raise GroupsError(
            "sensitive names no column: give at least one protected attribute.",
            parameter="sensitive_features",
        )
    taken = tuple(chain.from_iterable(groups.values()))
    coded, chosen = as_names(categorical), as_names(features)
    if features is None:
        chosen = tuple(name for name in possible_features(schema) if name not in taken)
    check_numeric(as_names(numeric), groups["sensitive_features"], "sensitive")
    _check_names(schema, {**groups, "categorical": coded, "features": chosen})
    if both := [name for name in (*chosen, *coded) if name in taken]:
        raise InvalidInputError(
            f"{both} cannot be features and groups, weights or targets at the same time: copy the "
            "column under another name if that is meant.",
            parameter="features",
        )
    check_apart(groups)
    _check_values(schema, (*taken, *coded))
    if not chosen and not coded:
        raise InvalidInputError(
            "no column is left for the features: name them in features.", parameter="features"
        )
    plain = tuple(name for name in chosen if name not in coded)
    check_numbers({name: schema.field(name).type for name in plain})
    single = all(schema.field(name).type in (pa.float32(), pa.float16()) for name in plain)
    parts = (plain, coded, groups[PARTS[0]], groups[PARTS[1]], weight, as_names(numeric), unit)
    return Roles(*parts, single=single, target=groups["y"], **options)


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of a batch by the part they play; a sparse `matrix` stands for the features."""

    n_rows: int
    features: Mapping[str, pa.Array] = field(default_factory=dict)
    categorical: Mapping[str, pa.Array] = field(default_factory=dict)
    sensitive: Mapping[str, pa.Array] = field(default_factory=dict)
    control: Mapping[str, pa.Array] = field(default_factory=dict)
    weight: Mapping[str, pa.Array] = field(default_factory=dict)
    unit: Mapping[str, pa.Array] = field(default_factory=dict)
    target: Mapping[str, pa.Array] = field(default_factory=dict)
    matrix: Any = field(default=None, kw_only=True)
    path: str = field(default="", kw_only=True)  # where the rows come from, for messages

    @classmethod
    def of(cls, batch: pa.RecordBatch, roles: Roles, path: str = "") -> Columns:
        """Sort the columns of a batch by their roles."""
        parts = ({name: decoded(batch.column(name)) for name in names} for names in roles.parts)
        return cls(batch.num_rows, *parts, path=path)

    def parts(self) -> tuple[Mapping[str, pa.Array], ...]:
        """Return the columns of each part, in the order of `Roles.parts`."""
        groups = (self.sensitive, self.control, self.weight, self.unit, self.target)
        return (self.features, self.categorical, *groups)

    def filter(self, rows: Any) -> Columns:
        """Keep the rows that a mask marks."""
        if rows.all():
            return self
        mask = pa.array(rows)
        matrix = None if self.matrix is None else self.matrix[rows]
        return self._with(lambda column: column.filter(mask), int(np.count_nonzero(rows)), matrix)

    def slice(self, start: int, size: int) -> Columns:
        """Keep the rows from a place on."""
        matrix = None if self.matrix is None else self.matrix[start : start + size]
        n_rows = max(min(size, self.n_rows - start), 0)
        return self._with(lambda column: column.slice(start, size), n_rows, matrix)

    def _with(self, change: Callable[[Any], Any], n_rows: int, matrix: Any) -> Columns:
        parts = [{name: change(column) for name, column in p.items()} for p in self.parts()]
        return Columns(n_rows, *parts, matrix=matrix, path=self.path)


def decoded(column: pa.Array) -> pa.Array:
    """Write out a dictionary of numbers, as files hold it, or one with nulls; others stay."""
    if not kinds.is_dictionary(column.type):
        return column
    # A null among the values of a dictionary is not counted with those of its rows.
    written = is_number(column.type) or column.dictionary.null_count
    return column.dictionary_decode() if written else column


def check_choice(parameter: str, value: str, among: Sequence[str]) -> None:
    """Refuse a word that is not one of those to choose from."""
    if value not in among:
        words = ", ".join(map(repr, among))
        raise InvalidInputError(f"{parameter}={value!r}: use one of {words}.", parameter=parameter)


def as_names(names: Names) -> tuple[str, ...]:
    """Return the columns that an argument names, one, several or none."""
    if names is None:
        return ()
    return (names,) if isinstance(names, str) else tuple(names)


def _check_names(schema: pa.Schema, parts: Mapping[str, tuple[str, ...]]) -> None:
    check_unique(schema.names, "the table")
    for parameter, names in parts.items():
        check_names(names, schema.names, parameter)


def _check_values(schema: pa.Schema, names: Iterable[str]) -> None:
    """Refuse groups whose values are lists, records or maps."""
    for name in sorted(names):
        if kinds.is_nested(schema.field(name).type):
            raise InvalidInputError(
                f"column {name!r} is {schema.field(name).type}: groups need a column with one "
                "value in each row."
            )


def check_numbers(features: Mapping[str, pa.DataType]) -> None:
    """Refuse features of other types than numbers."""
    others = {name: kind for name, kind in features.items() if not is_number(kind)}
    if others:
        words = {name: _kind_in_words(kind) for name, kind in others.items()}
        raise not_numbers_error(words, "features")


def _kind_in_words(kind: pa.DataType) -> str:
    if kinds.is_temporal(value_type(kind)):
        return DATES
    return TEXT if is_text(kind) else str(kind)


def is_number(kind: pa.DataType) -> bool:
    """Tell whether a column can be a feature as it is; one without any value can be anything."""
    tests = (kinds.is_floating, kinds.is_integer, kinds.is_boolean, kinds.is_decimal, kinds.is_null)
    return any(test(value_type(kind)) for test in tests)


def is_text(kind: pa.DataType) -> bool:
    """Tell text, in whichever way it is stored."""
    tests = (kinds.is_string, kinds.is_large_string, kinds.is_string_view)
    return any(test(value_type(kind)) for test in tests)


def value_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values, coded by a dictionary or not."""
    return kind.value_type if kinds.is_dictionary(kind) else kind


def suggested_units(
    table: Any, roles: Roles, names: Sequence[str]
) -> Iterator[tuple[str, int, int]]:
    """Yield columns that seem to name persons or sites, with their values in the first rows."""
    groups = [name for name in roles.sensitive if name not in roles.numeric]
    first: Any = next(table.batches([*names, *groups]), None)
    if first is None:
        return
    columns = {name: _labels(first.column(name)) for name in (*names, *groups)}
    coded = [np.unique(columns[name], return_inverse=True)[1] for name in groups]
    cells = np.unique(np.array([np.zeros(first.num_rows), *coded]), axis=1, return_inverse=True)
    for name in names:
        by_name = names_units(name) or (is_identifier(name) and name not in roles.columns)
        if suggests_units(columns[name], cells[1].ravel(), by_name=by_name):
            yield name, len(first.column(name).drop_null().unique()), first.num_rows


def _labels(column: Any) -> Any:
    """Return the values of a column as an array; what is missing is a value of its own."""
    if kinds.is_dictionary(column.type):
        column = column.dictionary_decode()
    values = column.to_numpy(zero_copy_only=False)
    return values.astype(str) if values.dtype.kind == "O" else values  # None has no order
