"""The cell table: which combination of levels each set of moments belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from fairpca.exceptions import GroupsError
from fairpca.moments._cells import (
    Cell,
    FloatArray,
    check_sums,
    merge,
    permute_attributes,
    summarise,
    summarise_sparse,
    with_attribute,
)
from fairpca.rows import MAX_FLOAT_LEVELS, Groups, Level, Rows, sort_levels
from fairpca.rows._checks import rows_at_once
from fairpca.rows.groups import check_levels
from fairpca.rows.rows import numeric_strata_error

Key: TypeAlias = tuple[Level, ...]
"""Levels of the categorical attributes, then of the controls."""

# 1, 1.0 and True are one level; the widest type names it, whichever batch came first.
_WIDTH = {bool: 0, int: 1, float: 2, str: 3}


@dataclass(frozen=True, eq=False)
class Table:
    """Cells by key: levels of the categorical attributes, then of the controls."""

    attributes: tuple[str, ...]
    numeric: tuple[str, ...]
    controls: tuple[str, ...]
    cells: Mapping[Key, Cell]

    @property
    def categorical(self) -> tuple[str, ...]:
        """Names of the attributes that name groups."""
        return tuple(name for name in self.attributes if name not in self.numeric)

    @property
    def key_names(self) -> tuple[str, ...]:
        """Name of each position of a key."""
        return self.categorical + self.controls

    @property
    def n_rows(self) -> int:
        """Number of rows with a positive weight."""
        return sum(cell.n_rows for cell in self.cells.values())

    def levels(self, position: int) -> tuple[Level, ...]:
        """Levels that occur at one position of the keys, sorted."""
        return sort_levels({key[position] for key in self.cells})

    # Pairs, because formats other than pickle know no keys that are tuples.
    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "cells": list(self.cells.items())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, cells=dict(state["cells"]))


def tabulate(rows: Rows) -> Table:
    """Sort rows into cells, one for each combination of levels that occurs, and sum each cell."""
    matrix, weights, n_rows = rows.X, rows.weights, len(rows)
    groups, strata = rows.groups or Groups.none(n_rows), rows.strata or Groups.none(n_rows)
    summarise_rows = summarise_sparse if issparse(matrix) else summarise
    numeric = [attribute.values for attribute in groups.numeric]
    values = np.column_stack(numeric) if numeric else np.empty((n_rows, 0))
    columns = groups.categorical + strata.categorical
    batch = rows_at_once(matrix.shape[1])
    cells: dict[Key, Cell] = {}
    for members in _rows_by_cell(columns, n_rows, weights):
        key = tuple(column.levels[column.codes[members[0]]] for column in columns)
        with np.errstate(over="ignore", invalid="ignore"):  # said in words instead
            cells[key] = summarise_rows(matrix, values, weights, members, batch)
        check_sums(cells[key])
    names = tuple(attribute.name for attribute in groups.numeric)
    return _canonical(Table(groups.names, names, strata.names, cells))


def _rows_by_cell(
    columns: Sequence[Any], n_rows: int, weights: FloatArray | None
) -> list[NDArray[np.intp]]:
    """Return the row numbers of each non-empty cell; one sort serves all of them."""
    code = np.zeros(n_rows, dtype=np.int64)
    size = 1
    for column in columns:
        width = max(len(column.levels), 1)
        if size * width > np.iinfo(np.int64).max // 2:  # many wide columns: renumber what occurs
            present, code = np.unique(code, return_inverse=True)
            size = len(present)
        code = code * width + column.codes
        size *= width
    if weights is not None and not weights.all():
        kept = np.flatnonzero(weights)
    else:
        kept = np.arange(n_rows)
    code = code[kept]
    if size > np.iinfo(np.uint16).max:
        present, code = np.unique(code, return_inverse=True)
        size = len(present)
    if size <= np.iinfo(np.uint16).max:
        code = code.astype(np.uint16)  # sixteen bits are sorted by radix, in linear time
    order = np.argsort(code, kind="stable")
    ends = np.cumsum(np.bincount(code, minlength=size))
    return [rows for rows in np.split(kept[order], ends[:-1]) if len(rows)]


def merge_tables(left: Table, right: Table) -> Table:
    """Moments of the rows of both tables, in the column order of `left`."""
    # Whether a column names groups or holds numbers is decided by all its values together, as it
    # would be had the rows come at once.
    _check_columns(left, right)
    for name in left.attributes:
        if name in right.numeric and name not in left.numeric:
            left = _as_numeric(left, name)
        elif name in left.numeric and name not in right.numeric:
            right = _as_numeric(right, name)
    right = _reorder(right, left)
    parts = list(left.cells.items()) + list(right.cells.items())
    merged = replace(left, cells=_merge_parts(parts, len(left.key_names)))
    for position, name in enumerate(merged.key_names):
        if not _holds_numbers(merged.levels(position)):
            continue
        if name in merged.controls:
            raise numeric_strata_error([name])
        merged = _as_numeric(merged, name)
        return merge_tables(merged, replace(merged, cells={}))  # positions have moved: look again
    for position, name in enumerate(merged.key_names):
        argument = "control_features" if name in merged.controls else "sensitive_features"
        check_levels(name, merged.levels(position), argument)
    return _canonical(merged)


def _holds_numbers(levels: Sequence[Level]) -> bool:
    """Whether levels of several batches are numbers together: fractions, and more than two."""
    if len(levels) <= MAX_FLOAT_LEVELS or not all(map(_is_number, levels)):
        return False
    return any(isinstance(level, float) and not level.is_integer() for level in levels)


def _is_number(level: Level) -> bool:
    return isinstance(level, int | float) and not isinstance(level, bool)


def _check_columns(left: Table, right: Table) -> None:
    pairs = (
        ("sensitive_features", left.attributes, right.attributes),
        ("control_features", left.controls, right.controls),
    )
    for argument, ours, theirs in pairs:
        if set(ours) != set(theirs):
            raise GroupsError(
                f"moments with different {argument} cannot be merged: {list(ours)} and "
                f"{list(theirs)}. Use the same columns for every batch."
            )


def _as_numeric(table: Table, name: str) -> Table:
    """Turn a column of number levels into a numeric attribute; nothing is lost by it."""
    position = table.key_names.index(name)
    others = [level for level in table.levels(position) if not _is_number(level)]
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
    cells = _merge_parts(parts, len(table.key_names) - 1)
    return replace(table, numeric=numeric, cells=cells)


def _reorder(table: Table, model: Table) -> Table:
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


def _merge_parts(parts: Iterable[tuple[Key, Cell]], width: int) -> dict[Key, Cell]:
    """Merge the cells that share a key; `width` is the length of the keys."""
    parts = list(parts)
    names: list[dict[Level, Level]] = [{} for _ in range(width)]
    for key, _ in parts:
        for level, chosen in zip(key, names, strict=True):
            current = chosen.setdefault(level, level)
            if _WIDTH[type(level)] > _WIDTH[type(current)]:
                chosen[level] = level
    gathered: dict[Key, list[Cell]] = {}
    for key, cell in parts:
        name = tuple(chosen[level] for level, chosen in zip(key, names, strict=True))
        gathered.setdefault(name, []).append(cell)
    return {key: merge(cells) for key, cells in gathered.items()}


def _canonical(table: Table) -> Table:
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
