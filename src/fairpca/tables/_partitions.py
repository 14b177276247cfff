"""What a Dask task does with one partition: pandas or NumPy to Arrow columns, sums and samples.

For a sample every row has a random key, and the rows with the smallest keys are drawn. The seed
comes from the content of a partition: whoever reads it, however often, draws the same rows.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.sparse import issparse

from fairpca.exceptions import InvalidInputError
from fairpca.linalg import single_blas_thread
from fairpca.moments import GroupMoments
from fairpca.rows import Rows
from fairpca.rows._checks import check_matrix
from fairpca.rows._containers import ALIGNED
from fairpca.rows._sampling import MIN_DRAWN, smallest_keys
from fairpca.tables._kernel import Partial, count_missing, positive_rows, to_rows
from fairpca.tables._roles import Columns, Roles, check_numbers, decoded
from fairpca.tables._stream import batch_rows, sum_batches, sum_parts

_KEY, _CELL = "key", "cell"


def on_partition(
    X: Any, groups: Mapping[str, Any], *, work: Callable[..., Any], roles: Roles
) -> Any:
    """Do some work on the columns of a partition of features with its groups."""
    parts = {name: _arrow_columns(part, roles.aligned[name]) for name, part in groups.items()}
    for name, column in (item for part in parts.values() for item in part.items()):
        if len(column) != X.shape[0]:
            raise InvalidInputError(
                f"{name} has {len(column)} rows in a partition of {X.shape[0]}: give both the same "
                "chunks."
            )
    features = {} if issparse(X) else _arrow_columns(X, roles.features)
    check_numbers({name: column.type for name, column in features.items()})
    columns = Columns(X.shape[0], features, {}, *(parts.get(name, {}) for name in ALIGNED))
    matrix = check_matrix(X)[0] if issparse(X) else None
    with single_blas_thread():
        return work(replace(columns, matrix=matrix), roles)


def _arrow_columns(part: Any, names: Sequence[str]) -> dict[str, pa.Array]:
    """Arrow arrays of the columns of a pandas or NumPy partition, by their places."""
    part = part if hasattr(part, "iloc") else np.asarray(part)
    if part.ndim == 1:
        columns = [part]
    elif hasattr(part, "iloc"):
        columns = [part.iloc[:, index] for index in range(part.shape[1])]
    else:
        columns = list(np.ascontiguousarray(part.T))
    arrays = {}
    for name, column in zip(names, columns, strict=True):
        try:
            arrays[name] = _arrow_column(column)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise InvalidInputError(
                f"column {name!r} holds values of several types ({error}): convert it first."
            ) from None
    return arrays


def _arrow_column(values: Any) -> pa.Array:
    """Convert a column; plain floats are not searched for NaN, which the kernel does if need be."""
    if isinstance(values.dtype, np.dtype) and values.dtype.kind == "f":
        return pa.array(np.asarray(values))
    array = pa.array(values, from_pandas=True)
    return decoded(array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array)


def sum_frame(frame: Any, _: Any, *, roles: Roles) -> Partial:
    """Sum a pandas partition that has all columns."""
    batch = pa.RecordBatch.from_pydict(_arrow_columns(frame, list(frame.columns)))
    with single_blas_thread():
        return sum_columns(Columns.of(batch, roles), roles)


def sum_file(part: Any, roles: Roles, wanted: pa.Schema) -> Partial:
    """Sum a file, or row groups of one."""
    with single_blas_thread():
        return sum_parts([part], roles, wanted)


def sum_columns(columns: Columns, roles: Roles) -> Partial:
    """Sum the rows of a partition, some at a time."""
    size = batch_rows(len(roles.columns))
    starts = range(0, max(columns.n_rows, 1), size)
    return sum_batches((columns.slice(start, size) for start in starts), roles)


def _usable_rows(columns: Columns, roles: Roles) -> tuple[Columns, Rows | None]:
    """Keep the rows of positive weight, and the complete ones where others are left out."""
    used = positive_rows(columns)
    if roles.missing == "drop-rows":
        used &= count_missing(columns, roles, search_features=True)[1]
    columns = columns.filter(used)
    return columns, to_rows(columns, roles)[0] if columns.n_rows else None


def sum_features(
    columns: Columns, roles: Roles, function: Callable[[Any], Any]
) -> GroupMoments | None:
    """Sum what a function makes of the features."""
    _, rows = _usable_rows(columns, roles)
    if rows is None:
        return None
    return GroupMoments.from_rows(rows.with_features(function(rows.X)), wide=np.inf)


def draw_rows(columns: Columns, roles: Roles, size: int, seed: int) -> pa.Table | None:
    """Draw from one partition: its columns by their places, keys, and the names of cells."""
    columns, rows = _usable_rows(columns, roles)
    if rows is None:
        return None
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
