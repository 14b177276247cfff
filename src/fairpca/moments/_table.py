"""The cell table: which combination of levels each set of moments belongs to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from fairpca._choices import MIN_ROWS
from fairpca._present import html_table, levels_text
from fairpca.exceptions import GroupsError
from fairpca.moments._cells import (
    Cell,
    check_sums,
    merge,
    permute_attributes,
    sum_cell,
    with_attribute,
)
from fairpca.rows import UNKNOWN_GROUP, Level, Rows
from fairpca.rows.groups import check_levels, combine, holds_numbers, is_number, sort_levels
from fairpca.rows.rows import numeric_strata_error

Key: TypeAlias = tuple[Level, ...]
"""Levels of the categorical attributes, then of the controls."""
TargetColumn: TypeAlias = tuple[str, Level | None]
"""Name of a target, and the label that an indicator is of; None where the target is a number."""

# 1, 1.0 and True are one level; the widest type names it, whichever batch came first.
_WIDTH = {bool: 0, int: 1, float: 2, str: 3}
_IN_A_LINE, _IN_A_TABLE, _FEATURES = 5, 60, 20  # what a repr shows


@dataclass(frozen=True, eq=False)
class CellTable:
    """Cells by key: levels of the categorical attributes, then of the controls."""

    attributes: tuple[str, ...]
    numeric: tuple[str, ...]
    controls: tuple[str, ...]
    cells: Mapping[Key, Cell]
    targets: tuple[TargetColumn, ...] = ()  # numbers and indicators to predict
    categorical: tuple[str, ...] = field(init=False)  # attributes that name groups
    key_names: tuple[str, ...] = field(init=False)  # of each position of a key

    def __post_init__(self) -> None:
        categorical = tuple(name for name in self.attributes if name not in self.numeric)
        vars(self).update(categorical=categorical, key_names=categorical + self.controls)

    def map(self, function: Callable[[Cell], Cell]) -> CellTable:
        """Return the table of other cells with the same keys."""
        return replace(self, cells={key: function(cell) for key, cell in self.cells.items()})

    def levels(self, position: int) -> tuple[Level, ...]:
        """Levels that occur at one position of the keys, sorted."""
        return sort_levels({key[position] for key in self.cells})

    def name_key(self, key: Key) -> str:
        """Name the cell of a key."""
        return levels_text(self.key_names, key) or "all rows"

    # Pairs, because formats other than pickle know no keys that are tuples.
    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "cells": list(self.cells.items())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, cells=dict(state["cells"]))


def tabulate(rows: Rows) -> CellTable:
    """Sort rows into cells, one for each combination of levels that occurs, and sum each cell."""
    parts = [part for part in (rows.groups, rows.strata) if part is not None]
    columns = [column for part in parts for column in part.categorical]
    numeric = () if rows.groups is None else rows.groups.numeric
    values = np.empty((len(rows), 0))
    if numeric:
        values = np.column_stack([attribute.values for attribute in numeric])
    kept = np.arange(len(rows))
    member = combine(columns) if columns else np.zeros_like(kept)
    if rows.weights is not None and not rows.weights.all():
        kept = np.flatnonzero(rows.weights)
        member = member[kept]
    if member.max(initial=0) <= np.iinfo(np.uint16).max:
        member = member.astype(np.uint16)  # sixteen bits are sorted by radix, in linear time
    ends = np.cumsum(np.bincount(member))
    sum_members: Callable[[Any], Cell] = partial(sum_cell, rows.X, values, rows.weights)
    targets: tuple[TargetColumn, ...] = ()
    if rows.targets is not None:
        from fairpca.moments._targets import sum_with_targets  # not needed without a target

        targets = rows.targets.number_columns()
        sum_members = partial(sum_with_targets, rows, values, known=rows.targets.known())
    cells: dict[Key, Cell] = {}
    for members in np.split(kept[np.argsort(member, kind="stable")], ends[:-1]):
        if not len(members):
            continue
        key = tuple(column.levels[column.codes[members[0]]] for column in columns)
        with np.errstate(over="ignore", invalid="ignore"):  # said in words instead
            cells[key] = sum_members(members)
        check_sums(cells[key])
    attributes, controls = (
        () if part is None else part.names for part in (rows.groups, rows.strata)
    )
    names = tuple(attribute.name for attribute in numeric)
    return _canonical(CellTable(attributes, names, controls, cells, targets))


def merge_tables(left: CellTable, right: CellTable) -> CellTable:
    """Moments of the rows of both tables, in the column order of `left`."""
    # Whether a column names groups or holds numbers is decided by all its values together, as it
    # would be had the rows come at once.
    _check_columns(left, right)
    for name in left.attributes:
        if name in right.numeric and name not in left.numeric:
            left = _as_numeric(left, name)
        elif name in left.numeric and name not in right.numeric:
            right = _as_numeric(right, name)
    if left.targets:
        from fairpca.moments._targets import align_targets, join_columns

        targets = join_columns(left, right)
        left, right = align_targets(left, targets), align_targets(right, targets)
    right = _reorder(right, left)
    parts = list(left.cells.items()) + list(right.cells.items())
    merged = replace(left, cells=_merge_same(parts))
    for position, name in enumerate(merged.key_names):
        if not holds_numbers(merged.levels(position)):
            continue
        if name in merged.controls:
            raise numeric_strata_error([name])
        merged = _as_numeric(merged, name)
        return merge_tables(merged, replace(merged, cells={}))  # positions have moved: look again
    for position, name in enumerate(merged.key_names):
        argument = "control_features" if name in merged.controls else "sensitive_features"
        check_levels(name, merged.levels(position), argument)
    return _canonical(merged)


def _check_columns(left: CellTable, right: CellTable) -> None:
    pairs = (
        ("sensitive_features", left.attributes, right.attributes),
        ("control_features", left.controls, right.controls),
        ("y", *(sorted({name for name, _ in table.targets}) for table in (left, right))),
    )
    for argument, ours, theirs in pairs:
        if set(ours) != set(theirs):
            raise GroupsError(
                f"moments with different {argument} cannot be merged: {list(ours)} and "
                f"{list(theirs)}. Use the same columns for every batch."
            )


def _as_numeric(table: CellTable, name: str) -> CellTable:
    """Turn a column of number levels into a numeric attribute; nothing is lost by it."""
    position = table.key_names.index(name)
    others = [level for level in table.levels(position) if not is_number(level)]
    if others:
        raise GroupsError(
            f"sensitive_features column {name!r} is numeric in some moments and names groups "
            f"in others (for example {others[0]!r}): give it the same type in every batch.",
            parameter="sensitive_features",
            settings=[("numeric", [name])],
        )
    numeric = tuple(n for n in table.attributes if n in table.numeric or n == name)
    place = numeric.index(name)
    parts = [
        (key[:position] + key[position + 1 :], with_attribute(cell, place, float(key[position])))
        for key, cell in table.cells.items()
    ]
    return replace(table, numeric=numeric, cells=_merge_same(parts))


def _reorder(table: CellTable, model: CellTable) -> CellTable:
    """Bring keys and attributes into the column order of `model`."""
    if table.attributes == model.attributes and table.controls == model.controls:
        return table
    place = [table.categorical.index(name) for name in model.categorical]
    place += [len(table.categorical) + table.controls.index(name) for name in model.controls]
    order = [table.numeric.index(name) for name in model.numeric]
    cells = {
        tuple(key[index] for index in place): permute_attributes(cell, order)
        for key, cell in table.cells.items()
    }
    return replace(model, cells=cells)


def _merge_cells(cells: Sequence[Cell]) -> Cell:
    """Merge cells and their targets."""
    if not any(cell.targets for cell in cells):
        return merge(cells)
    from fairpca.moments._targets import merge_targets

    return replace(merge(cells), targets=merge_targets([cell.targets for cell in cells]))


def _merge_same(parts: Sequence[tuple[Key, Cell]]) -> dict[Key, Cell]:
    """Merge the cells that share a key."""
    names = [widest(levels) for levels in zip(*(key for key, _ in parts), strict=True)]
    gathered: dict[Key, list[Cell]] = {}
    for key, cell in parts:
        name = tuple(chosen[level] for level, chosen in zip(key, names, strict=True))
        gathered.setdefault(name, []).append(cell)
    return {key: _merge_cells(same) for key, same in gathered.items()}


def widest(levels: Iterable[Level]) -> dict[Level, Level]:
    """Return how each level is written: equal ones alike, by the widest of their types."""
    names: dict[Level, Level] = {}
    for level in levels:
        if _WIDTH[type(level)] > _WIDTH[type(names.setdefault(level, level))]:
            names[level] = level
    return names


def relabel(table: CellTable, name: Callable[[Key, Cell], Key]) -> CellTable:
    """Give cells other keys; those that then share one are merged."""
    parts = [(name(key, cell), cell) for key, cell in table.cells.items()]
    return _canonical(replace(table, cells=_merge_same(parts)))


def _canonical(table: CellTable) -> CellTable:
    """Sort the cells by the places of their levels, so that no order of arrival shows."""
    places = [
        {level: place for place, level in enumerate(table.levels(position))}
        for position in range(len(table.key_names))
    ]
    ordered = sorted(
        table.cells,
        key=lambda key: tuple(place[level] for level, place in zip(key, places, strict=True)),
    )
    return replace(table, cells={key: table.cells[key] for key in ordered})


class MomentsReprMixin:
    """Names, levels and counts of the rows behind moments."""

    n_features: int
    feature_names: tuple[str, ...] | None
    table: CellTable

    def __repr__(self) -> str:
        parts = [f"{self.n_samples} rows, {self.n_features} features"]
        for name in self.categorical_attributes:
            counts = [f"{level!r} {count}" for level, count in self.counts(name).items()]
            more = f", … ({len(counts)} groups)" if len(counts) > _IN_A_LINE else ""
            parts.append(f"{name}: {', '.join(counts[:_IN_A_LINE])}{more}")
        parts += [f"{name}: numeric" for name in self.numeric_attributes]
        if self.controls:
            parts.append(f"strata: {', '.join(self.controls)}")
        parts += [f"target: {name}" for name in self.targets]
        small = sum(cell.n_rows < MIN_ROWS for cell in self.table.cells.values())
        if small:
            parts.append(f"{small} cell{'s' * (small > 1)} with fewer than {MIN_ROWS} rows")
        return f"GroupMoments({'; '.join(parts)})"

    def _repr_html_(self) -> str:
        rows: list[tuple[str, Level | None, int]] = []
        for name in self.table.key_names:
            rows += [(name, level, count) for level, count in self.counts(name).items()]
        rows += [(name, None, self.n_samples) for name in self.numeric_attributes]
        title = f"Moments of {self.n_samples} rows and {self.n_features} features"
        names = ", ".join((self.feature_names or ())[:_FEATURES])
        note = names and f"features: {names}{', …' if self.n_features > _FEATURES else ''}"
        head = ("column", "group", "rows")
        return html_table(rows[:_IN_A_TABLE], head=head, title=title, note=note)

    def counts(self, name: str) -> dict[Level, int]:
        """Rows of each level of a categorical attribute or control, by its name.

        Examples
        --------
        >>> import numpy as np
        >>> from fairpca import GroupMoments
        >>> GroupMoments.from_arrays(np.eye(20), ["a", "b"] * 10)
        GroupMoments(20 rows, 20 features; sensitive_feature: 'a' 10, 'b' 10)
        >>> GroupMoments.from_arrays(np.eye(3), ["a", "b", "a"]).counts("sensitive_feature")
        {'a': 2, 'b': 1}
        """
        counts = dict.fromkeys(self.levels(name), 0)
        position = self.table.key_names.index(name)
        for key, cell in self.table.cells.items():
            counts[key[position]] += cell.n_rows
        return counts

    @property
    def attributes(self) -> tuple[str, ...]:
        """Names of the protected attributes, in the order of their columns."""
        return self.table.attributes

    @property
    def categorical_attributes(self) -> tuple[str, ...]:
        """Names of the attributes that name groups."""
        return self.table.categorical

    @property
    def numeric_attributes(self) -> tuple[str, ...]:
        """Names of the attributes that are numbers."""
        return self.table.numeric

    @property
    def controls(self) -> tuple[str, ...]:
        """Names of the control columns."""
        return self.table.controls

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of the columns to predict, sorted."""
        return tuple(sorted({name for name, _ in self.table.targets}))

    @property
    def n_samples(self) -> int:
        """Number of rows with a positive weight."""
        return sum(cell.n_rows for cell in self.table.cells.values())

    @property
    def n_labelled(self) -> int:
        """Number of those rows whose groups are known."""
        cells = self.table.cells.items()
        return sum(cell.n_rows for key, cell in cells if UNKNOWN_GROUP not in key)

    @property
    def weight(self) -> float:
        """Sum of the weights."""
        return float(sum(cell.weight for cell in self.table.cells.values()))

    def levels(self, name: str) -> tuple[Level, ...]:
        """Levels of a categorical attribute or control, by its name, that occur, sorted."""
        if name not in self.table.key_names:
            raise GroupsError(
                f"{name!r} is not a column with groups: those are {list(self.table.key_names)}."
            )
        return self.table.levels(self.table.key_names.index(name))
