"""Which column plays which part in a pass, settled once from the schema of the whole table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import pyarrow as pa
import pyarrow.types as kinds

from fairpca.estimators._limits import MAX_CELLS
from fairpca.exceptions import GroupsError, InvalidInputError

Missing = Literal["error", "drop-rows"]
Names = str | Iterable[str] | None

MAX_LEVELS = 1000
"""Distinct values of one categorical feature that a pass accepts unless told otherwise."""


@dataclass(frozen=True)
class Plan:
    """What to read and how, the same for every batch of a pass.

    Parameters
    ----------
    features : tuple of str
        Number columns that are features, in order.
    categorical : tuple of str
        Columns that become one indicator feature for each of their values, after `features`.
    sensitive, control : tuple of str
        Protected attributes and strata.
    weight : str or None
        Column of weights.
    numeric : tuple of str
        Sensitive columns that are numbers whatever their type.
    missing : {"error", "drop-rows"}
        What happens to rows with missing values.
    max_cells, max_levels : int
        Limits on distinct combinations of groups, and on values of a categorical feature.
    single : bool
        Whether all features fit float32, so that batches are held in it; sums never are.
    """

    features: tuple[str, ...]
    categorical: tuple[str, ...]
    sensitive: tuple[str, ...]
    control: tuple[str, ...]
    weight: str | None
    numeric: tuple[str, ...]
    missing: Missing
    max_cells: int
    max_levels: int
    single: bool

    @property
    def group_columns(self) -> tuple[str, ...]:
        """Columns that are no features."""
        weight = () if self.weight is None else (self.weight,)
        return tuple(dict.fromkeys(self.sensitive + self.control + weight))

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column to read, once."""
        return tuple(dict.fromkeys(self.features + self.categorical + self.group_columns))

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as JSON would give it back, to be compared with a stored one."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
        }


def make_plan(
    schema: pa.Schema,
    sensitive: Names,
    *,
    features: Names = None,
    control: Names = None,
    weight: str | None = None,
    numeric: Names = None,
    categorical: Names = None,
    missing: Missing = "error",
    max_cells: int = MAX_CELLS,
    max_levels: int = MAX_LEVELS,
) -> Plan:
    """Check the names against a schema and settle the part of every column.

    Parameters
    ----------
    schema : pyarrow.Schema
        Columns of the table.
    sensitive : str or iterable of str
        Protected attributes.
    features : iterable of str, optional
        Features; None: every column that has no other part.
    control : str or iterable of str, optional
        Strata.
    weight : str, optional
        Column of weights.
    numeric : iterable of str, optional
        Sensitive columns that are numbers whatever their type.
    categorical : iterable of str, optional
        Features to be one-hot encoded.
    missing : {"error", "drop-rows"}, default "error"
        What happens to rows with missing values.
    max_cells, max_levels : int
        Limits on distinct combinations of groups, and on values of a categorical feature.

    Returns
    -------
    Plan
        The settled parts.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from fairpca.distributed._plan import make_plan
    >>> schema = pa.schema({"height": pa.float32(), "age": pa.int64(), "sex": pa.string()})
    >>> make_plan(schema, "sex").features
    ('height', 'age')
    """
    if weight is not None and not isinstance(weight, str):
        raise InvalidInputError(f"weight={weight!r}: give the name of one column.")
    parts = {
        "sensitive": as_names(sensitive),
        "control": as_names(control),
        "weight": as_names(weight),
        "categorical": as_names(categorical),
        "numeric": as_names(numeric),
    }
    if not parts["sensitive"]:
        raise GroupsError("sensitive names no column: give at least one protected attribute.")
    if missing not in ("error", "drop-rows"):
        raise InvalidInputError(f"missing={missing!r}: use 'error' or 'drop-rows'.")
    taken = {name for part in ("sensitive", "control", "weight") for name in parts[part]}
    chosen = as_names(features)
    if features is None:
        chosen = tuple(name for name in schema.names if name not in taken)
    _check_names(schema, {**parts, "features": chosen})
    _check_parts(parts, chosen, taken)
    _check_values(schema, (*taken, *parts["categorical"]))
    plain = tuple(name for name in chosen if name not in parts["categorical"])
    _check_numbers(schema, plain)
    if not chosen and not parts["categorical"]:
        raise InvalidInputError("no column is left for the features: name them in features.")
    return Plan(
        features=plain,
        categorical=parts["categorical"],
        sensitive=parts["sensitive"],
        control=parts["control"],
        weight=weight,
        numeric=parts["numeric"],
        missing=missing,
        max_cells=max_cells,
        max_levels=max_levels,
        single=all(schema.field(n).type in (pa.float32(), pa.float16()) for n in plain),
    )


def as_names(given: Names) -> tuple[str, ...]:
    """Return the columns that an argument names, one or several.

    Parameters
    ----------
    given : str, iterable of str or None
        The argument.

    Returns
    -------
    tuple of str
        Empty for None.

    Examples
    --------
    >>> from fairpca.distributed._plan import as_names
    >>> as_names("sex"), as_names(["sex", "race"]), as_names(None)
    (('sex',), ('sex', 'race'), ())
    """
    if given is None:
        return ()
    return (given,) if isinstance(given, str) else tuple(given)


def _check_names(schema: pa.Schema, parts: dict[str, tuple[str, ...]]) -> None:
    for part, names in parts.items():
        twice = [
            name for name in dict.fromkeys(names) if len(schema.get_all_field_indices(name)) > 1
        ]
        if twice:
            raise InvalidInputError(f"the table has several columns named {twice}: rename them.")
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise InvalidInputError(f"{part} names {repeated} more than once.")
        unknown = [name for name in names if name not in schema.names]
        if unknown:
            raise InvalidInputError(
                f"{part} names {unknown}, but the columns are {_shortened(schema.names)}."
            )


def _check_parts(
    parts: dict[str, tuple[str, ...]], features: Sequence[str], taken: set[str]
) -> None:
    both = [name for name in (*features, *parts["categorical"]) if name in taken]
    if both:
        raise InvalidInputError(
            f"{both} cannot be features and groups or weights at the same time: copy the column "
            "under another name if that is meant."
        )
    stray = [name for name in parts["numeric"] if name not in parts["sensitive"]]
    if stray:
        raise GroupsError(f"numeric names {stray}, which sensitive does not have.")
    doubled = [name for name in parts["sensitive"] if name in parts["control"]]
    if doubled:
        raise GroupsError(f"{doubled} are sensitive and control columns at the same time.")


def _check_values(schema: pa.Schema, names: Iterable[str]) -> None:
    """Refuse groups whose values are lists, records or maps."""
    for name in sorted(names):
        kind = schema.field(name).type
        if kinds.is_nested(kind):
            raise InvalidInputError(
                f"column {name!r} is {kind}: groups need a column with one value in each row."
            )


def _check_numbers(schema: pa.Schema, features: Sequence[str]) -> None:
    bad = [f"{name!r} ({schema.field(name).type})" for name in features]
    bad = [text for text, name in zip(bad, features, strict=True) if not is_number(schema, name)]
    if bad:
        raise InvalidInputError(
            f"features that are not numbers: {', '.join(bad)}. Name the columns to be one-hot "
            "encoded in categorical, or name the features without them."
        )


def is_number(schema: pa.Schema, name: str) -> bool:
    """Tell whether a column can be a feature as it is.

    Parameters
    ----------
    schema : pyarrow.Schema
        Columns of the table.
    name : str
        One of them.

    Returns
    -------
    bool
        True for numbers and booleans.
    """
    kind = schema.field(name).type
    tests = (kinds.is_floating, kinds.is_integer, kinds.is_boolean, kinds.is_decimal)
    return any(test(kind) for test in tests)


def _shortened(names: Sequence[str], limit: int = 40) -> str:
    shown = ", ".join(map(repr, names[:limit]))
    return shown + (f" and {len(names) - limit} more" if len(names) > limit else "")
