"""Sums and counts of one part of a pass, and how parts are merged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fairpca.exceptions import (
    DroppedRowsWarning,
    IdentifierWarning,
    ImputedValuesWarning,
    InvalidInputError,
    warn_user,
)
from fairpca.moments import FoldedMoments, GroupMoments
from fairpca.moments._maps import MissingIndicators, embed
from fairpca.rows._checks import Unique, find_identifiers, identifier_text, merge_unique
from fairpca.rows._columns import MissingReport, no_rows_error
from fairpca.rows.groups import too_many_cells
from fairpca.tables._roles import Roles

Levels = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, eq=False)
class Partial:
    """The moments of some rows, and what was met on the way."""

    moments: GroupMoments | None = None  # of the complete rows; None where nothing was summed
    levels: Levels = field(default_factory=dict)  # of the categorical features so far, sorted
    n_rows: int = 0
    incomplete: int = 0  # rows with a missing value
    missing: Mapping[str, int] = field(default_factory=dict)  # values by column
    unique: Mapping[str, Unique] = field(default_factory=dict)  # features that may be identifiers


def indicator_names(levels: Levels) -> list[str]:
    """Names of the indicator features, ``column=value`` for each."""
    return [f"{name}={level}" for name, values in levels.items() for level in values]


def fold_columns(roles: Roles, levels: Levels) -> list[int | str]:
    """Say what stands for each feature in folds: its place, and the level of an indicator."""
    # A batch knows only the levels that it holds, so that indicators have no place of their own.
    start = len(roles.features)
    indicators = [
        f"{start + place}={level}" for place, known in enumerate(levels.values()) for level in known
    ]
    return [*range(start), *indicators]


def feature_columns(roles: Roles, levels: Levels) -> list[str]:
    """Return the column that each feature comes from."""
    return [*roles.features, *(name for name, values in levels.items() for _ in values)]


def merge_partials(parts: Sequence[Partial], roles: Roles) -> Partial:
    """Put parts together from left to right; an indicator that a part does not know was zero."""
    levels = {
        name: tuple(sorted(set().union(*(part.levels.get(name, ()) for part in parts))))
        for name in roles.categorical
    }
    for name, values in levels.items():
        if len(values) > roles.max_levels:
            raise too_many_levels(name, roles.max_levels)
    names = [*roles.features, *indicator_names(levels)]
    _check_distinct(names)
    columns = feature_columns(roles, levels)
    summed = [part.moments for part in parts if part.moments is not None]
    aligned = [_align(moments, names, columns) for moments in summed]
    missing: dict[str, int] = {}
    for part in parts:
        for name, count in part.missing.items():
            missing[name] = missing.get(name, 0) + count
    return Partial(
        moments=_add(aligned, roles.max_cells * max(2 * roles.folds, 1)) if aligned else None,
        levels=levels,
        n_rows=sum(part.n_rows for part in parts),
        incomplete=sum(part.incomplete for part in parts),
        missing=missing,
        unique=merge_unique(part.unique for part in parts if part.n_rows) if aligned else {},
    )


def _add(parts: Sequence[GroupMoments], limit: int) -> GroupMoments:
    """Merge moments from left to right, with a limit on the number of cells."""
    total = parts[0]
    for part in parts[1:]:
        total = total + part
        if len(total.table.cells) > limit:
            names = total.table.key_names
            raise too_many_cells({name: len(total.levels(name)) for name in names}, limit)
    return total


def _check_distinct(names: Sequence[str]) -> None:
    """Refuse an indicator that is called like another feature: their sums would be mixed up."""
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise InvalidInputError(
            f"the indicators of the categorical columns give two features the name {twice[0]!r}: "
            "rename a column."
        )


def too_many_levels(name: str, limit: int) -> InvalidInputError:
    """Say that a categorical feature has too many values."""
    return InvalidInputError(
        f"categorical column {name!r} has more than {limit} distinct values, each of which would "
        "become a feature: leave it out, put its values into classes, or raise the limit.",
        parameter="max_levels",
    )


def _align(moments: GroupMoments, names: Sequence[str], columns: Sequence[str]) -> GroupMoments:
    """Give moments all features; those they lack were zero in all rows that have their column."""
    if moments.feature_names == tuple(names):
        return moments
    place = {name: index for index, name in enumerate(names)}
    index = [place[name] for name in moments.feature_names or ()]
    indicators, size = moments.indicators, len(names)
    if indicators is not None:
        fill = np.zeros(size)
        fill[index] = indicators.fill
        index += range(size, size + len(indicators.incomplete))
        size += len(indicators.incomplete)
        indicators = MissingIndicators(tuple(columns), indicators.incomplete, fill)
    table, span = embed((moments.table, moments.span), np.array(index, dtype=np.intp), size)
    return GroupMoments(len(names), tuple(names), table, span, indicators)


def finish(total: Partial, roles: Roles, name: str = "the table", named: bool = True) -> Any:
    """Turn the sum of a pass into moments (by fold where there are folds), or raise an error."""
    check_missing(total, roles)
    if total.moments is None or not total.moments.table.cells:
        raise no_rows_error(total.n_rows, total.incomplete, name)
    _warn_of_identifiers(total)
    moments = total.moments if named else replace(total.moments, feature_names=None)
    return FoldedMoments(roles.folds, moments) if roles.folds else moments


def _warn_of_identifiers(total: Partial) -> None:
    """Warn of features that have another value in every row."""
    n_rows = total.n_rows - total.incomplete
    identifiers = find_identifiers(total.unique, n_rows)
    identifiers += [name for name, values in total.levels.items() if len(values) == n_rows >= 20]
    if identifiers:
        warn_user(identifier_text(identifiers), IdentifierWarning)


def refused(missing: Iterable[str], roles: Roles) -> bool:
    """Whether missing values of these columns end a pass."""
    if roles.missing == "mean":
        return bool(set(missing) - {*roles.features, *roles.categorical})
    return roles.missing == "error" and bool(list(missing))


def check_missing(total: Partial, roles: Roles) -> None:
    """Refuse missing values, or warn of what was done about them."""
    if not total.missing:
        return
    arguments = {name: argument for argument, names in roles.aligned.items() for name in names}
    arguments = {name: arguments[name] for name in arguments if name not in roles.features}
    report = MissingReport(total.missing, total.incomplete, total.n_rows, arguments)
    if refused(total.missing, roles):
        raise report.error()
    if roles.missing == "mean":
        warn_user(report.imputed, ImputedValuesWarning)
    else:
        warn_user(report.dropped, DroppedRowsWarning)
