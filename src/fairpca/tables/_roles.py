"""Which column plays which part in a pass, settled once from the schema of the whole table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

import pyarrow as pa
import pyarrow.types as kinds

from fairpca._choices import GROUPLESS, MAX_CELLS, MAX_LEVELS, MISSING, Groupless, Missing
from fairpca.exceptions import GroupsError, InvalidInputError
from fairpca.moments.folds import check_folds
from fairpca.rows._checks import not_numbers_error
from fairpca.rows._columns import PARTS, check_apart, check_names, check_numeric

Names = str | Iterable[str] | None

_PARAMETER_OF = dict(zip(("sensitive", "control", "weight"), PARTS, strict=True))


class RoleOptions(TypedDict, total=False):
    """Options for reading any table, by keyword; see `moments_from_files`."""

    numeric: Names
    categorical: Names
    missing: Missing
    missing_groups: Groupless
    max_cells: int
    max_levels: int
    folds: int


@dataclass(frozen=True)
class Roles:
    """Which column plays which part, the same for every batch of a pass; made by `Table.assign`.

    The parts and options are those of `moments_from_files`.

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
    missing: Missing = "error"
    missing_groups: Groupless = "raise"
    max_cells: int = MAX_CELLS
    max_levels: int = MAX_LEVELS
    folds: int = 0  # 0: one sum for all rows
    single: bool = False  # all features fit float32: batches are held in it, sums never are

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column to read, once."""
        weight = () if self.weight is None else (self.weight,)
        named = self.features + self.categorical + self.sensitive + self.control + weight
        return tuple(dict.fromkeys(named))

    @property
    def aligned(self) -> dict[str, tuple[str, ...]]:
        """Return the columns of groups, strata and weights by argument."""
        weight = () if self.weight is None else (self.weight,)
        return dict(zip(PARTS, (self.sensitive, self.control, weight), strict=True))

    @property
    def own_group(self) -> frozenset[str]:
        """Columns in which no value is a group of its own."""
        if self.missing_groups == "raise":
            return frozenset()
        return frozenset((*self.sensitive, *self.control)) - frozenset(self.numeric)


def assign_roles(
    schema: pa.Schema,
    sensitive: Names,
    features: Names = None,
    control: Names = None,
    weight: str | None = None,
    *,
    numeric: Names = None,
    categorical: Names = None,
    missing: Missing = "error",
    missing_groups: Groupless = "raise",
    max_cells: int = MAX_CELLS,
    max_levels: int = MAX_LEVELS,
    folds: int = 0,
) -> Roles:
    """Check the names against a schema and settle the part of every column."""
    if weight is not None and not isinstance(weight, str):
        raise InvalidInputError(
            f"weight={weight!r}: give the name of one column.", parameter="sample_weight"
        )
    parts = {
        "sensitive": as_names(sensitive),
        "control": as_names(control),
        "weight": as_names(weight),
        "categorical": as_names(categorical),
        "numeric": as_names(numeric),
    }
    if not parts["sensitive"]:
        raise GroupsError(
            "sensitive names no column: give at least one protected attribute.",
            parameter="sensitive_features",
        )
    check_choice("missing", missing, MISSING)
    check_choice("missing_groups", missing_groups, GROUPLESS)
    if folds:
        check_folds(folds)
    taken = {name for part in ("sensitive", "control", "weight") for name in parts[part]}
    chosen = as_names(features)
    if features is None:
        chosen = tuple(name for name in schema.names if name not in taken)
    check_numeric(parts.pop("numeric"), parts["sensitive"], "sensitive")
    _check_names(schema, {**parts, "features": chosen})
    _check_parts(parts, chosen, taken)
    _check_values(schema, (*taken, *parts["categorical"]))
    plain = tuple(name for name in chosen if name not in parts["categorical"])
    check_numbers({name: schema.field(name).type for name in plain})
    if not chosen and not parts["categorical"]:
        raise InvalidInputError(
            "no column is left for the features: name them in features.", parameter="features"
        )
    single = all(schema.field(name).type in (pa.float32(), pa.float16()) for name in plain)
    return Roles(
        features=plain,
        **{name: parts[name] for name in ("categorical", "sensitive", "control")},
        numeric=as_names(numeric),
        weight=weight,
        missing=missing,
        missing_groups=missing_groups,
        max_cells=max_cells,
        max_levels=max_levels,
        folds=folds,
        single=single,
    )


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
    for part, names in parts.items():
        parameter = _PARAMETER_OF.get(part, part)
        different = dict.fromkeys(names)
        twice = [name for name in different if len(schema.get_all_field_indices(name)) > 1]
        if twice:
            problem = f"the table has several columns named {twice}: rename them."
            raise InvalidInputError(problem, parameter=parameter)
        check_names(names, schema.names, parameter)


def _check_parts(
    parts: Mapping[str, tuple[str, ...]], features: Sequence[str], taken: set[str]
) -> None:
    if both := [name for name in (*features, *parts["categorical"]) if name in taken]:
        raise InvalidInputError(
            f"{both} cannot be features and groups or weights at the same time: copy the column "
            "under another name if that is meant.",
            parameter="features",
        )
    check_apart({argument: parts[part] for part, argument in _PARAMETER_OF.items()})


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
    bad = {name: _kind_name(kind) for name, kind in features.items() if not is_number(kind)}
    if bad:
        raise not_numbers_error(bad, "features")


def _kind_name(kind: pa.DataType) -> str:
    inner = kind.value_type if kinds.is_dictionary(kind) else kind
    tests = (kinds.is_string, kinds.is_large_string, kinds.is_string_view)
    return "text" if any(test(inner) for test in tests) else str(kind)


def is_number(kind: pa.DataType) -> bool:
    """Tell whether a column can be a feature as it is; one without any value can be anything."""
    tests = (kinds.is_floating, kinds.is_integer, kinds.is_boolean, kinds.is_decimal, kinds.is_null)
    inner = kind.value_type if kinds.is_dictionary(kind) else kind
    return any(test(inner) for test in tests)
