"""Samples of rows that lie in several partitions.

Every row has a random key, and the rows with the smallest keys are drawn. The seed comes from the
content of a partition: whoever reads it, however often, draws the same rows.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.sparse import issparse

from fairpca.moments import GroupMoments
from fairpca.rows import Rows
from fairpca.rows._sampling import MIN_DRAWN, smallest_keys
from fairpca.tables._roles import Columns, Roles

_KEY, _CELL = "key", "cell"


def draw_rows(columns: Columns, rows: Rows, size: int, seed: int) -> pa.Table:
    """Draw from one partition: its columns by their places, keys, and the names of cells."""
    X: Any = rows.X
    is_sparse = issparse(X)
    content: Any = X.data if is_sparse else np.ascontiguousarray(X)
    keys = np.random.default_rng((seed, len(rows), zlib.crc32(content))).random(len(rows))
    cells = rows.cells()
    kept = _smallest_keys(keys, cells, size)
    arrays = [column.take(kept) for part in columns.parts() for column in part.values()]
    if is_sparse:
        arrays = [*map(pa.array, X[kept].toarray().T.copy()), *arrays]
    names = np.array([_cell_name(rows, cells, number) for number in range(cells.max() + 1)])
    # A feature may be called like a group, so that columns are known by their places.
    placed = {str(place): array for place, array in enumerate(arrays)}
    return pa.table({**placed, _KEY: keys[kept], _CELL: names[cells[kept]]})


def merge_draws(draws: list[pa.Table], size: int) -> pa.Table:
    """Draw from the rows that were drawn from several partitions."""
    table = pa.concat_tables(draws, promote_options="permissive")
    cells = table.column(_CELL).combine_chunks().dictionary_encode().indices.to_numpy()
    return table.take(_smallest_keys(table.column(_KEY).to_numpy(), cells, size))


def columns_of(drawn: pa.Table, roles: Roles) -> Columns:
    """Return the columns of the rows drawn by the part they play."""
    arrays = (column.unify_dictionaries().combine_chunks() for column in drawn.columns)
    parts = [{name: next(arrays) for name in names} for names in roles.parts]
    return Columns(drawn.num_rows, *parts)


def weigh_by_cell(rows: Rows, drawn: pa.Table, moments: GroupMoments) -> Rows:
    """Give the rows drawn the weight of all rows of their cell."""
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    cells = moments.table.cells.items()
    totals = {repr([str(level) for level in key]): cell.weight for key, cell in cells}
    coded = drawn.column(_CELL).combine_chunks().dictionary_encode()
    codes = coded.indices.to_numpy()
    wanted = np.array([totals.get(name.as_py(), np.nan) for name in coded.dictionary])
    held = np.bincount(codes, weights)
    return replace(rows, weights=weights * (np.where(np.isnan(wanted), held, wanted) / held)[codes])


def _smallest_keys(keys: Any, cells: Any, size: int) -> Any:
    """Return the rows with the smallest keys of all, and the smallest of their cell, in order."""
    n_cells = int(cells.max()) + 1
    least = np.full(n_cells, max(1, min(MIN_DRAWN, size // (2 * n_cells))))
    overall = smallest_keys(keys, np.zeros_like(cells), np.array([size]))
    return np.union1d(overall, smallest_keys(keys, cells, least))


def _cell_name(rows: Rows, cells: Any, number: int) -> str:
    """Name a cell by its levels, which mean the same in every partition."""
    row = int(np.argmax(cells == number))
    parts = [part for part in (rows.groups, rows.strata) if part is not None]
    columns = [column for part in parts for column in part.categorical]
    return repr([str(column.levels[column.codes[row]]) for column in columns])
