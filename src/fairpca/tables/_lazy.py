"""What estimators ask of Dask: some rows in memory, sums of features of all rows, lazy scores.

A partition draws by a seed that its own content gives: whoever reads it, and however often after a
worker has died, the same rows are drawn.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.sparse import issparse

from fairpca.linalg import single_blas_thread
from fairpca.moments import GroupMoments
from fairpca.rows import Rows
from fairpca.rows._checks import check_matrix
from fairpca.rows._columns import fill_means
from fairpca.rows._sampling import MIN_DRAWN, smallest_keys
from fairpca.tables._kernel import Columns, count_missing, positive_rows, to_rows
from fairpca.tables._roles import Roles
from fairpca.tables.dask import collections, merge_tree, partition_columns

_KEY, _CELL = "key", "cell"


def lazy_sample(
    parts: tuple[Any, Any, Any, Any],
    moments: GroupMoments,
    size: int,
    *,
    seed: int = 0,
    names: Sequence[str] | None = None,
    **options: Any,
) -> Rows:
    """Draw rows of a collection, from all cells in proportion but some of each at least.

    `parts` are X, groups, strata and weights, and `moments` those of all rows: the rows drawn weigh
    as much together as all rows of their cell. All rows, in order, where there are no more. What
    is missing is NaN where it counts as the mean. `options` are those of roles.
    """
    work = partial(_draw_partition, size=size, seed=seed)
    roles, delayed = collections(work, *parts, names, **options)
    drawn = merge_tree(delayed, partial(_merge, size=size))
    rows = to_rows(_as_columns(drawn, roles), roles)[0]
    rows = rows if names is not None else replace(rows, feature_names=None)
    return rows if len(rows) == moments.n_samples else _weighted(rows, drawn, moments)


def lazy_feature_moments(
    parts: tuple[Any, Any, Any, Any],
    function: Callable[[Any], Any],
    *,
    names: Sequence[str] | None = None,
    **options: Any,
) -> GroupMoments:
    """Sum what a function makes of the features of every row."""
    work = partial(_sum_features, function=function)
    _, delayed = collections(work, *parts, names, **options)
    moments: GroupMoments | None = merge_tree(delayed, _add)
    assert moments is not None
    return moments


def _partition_rows(X: Any, groups: Mapping[str, Any], roles: Roles) -> tuple[Columns, Rows | None]:
    columns = partition_columns(X, groups, roles)
    if roles.missing == "drop-rows":
        missing, complete = count_missing(columns, roles, search_features=True)
        columns = columns.filter(complete) if missing else columns
    used = positive_rows(columns)
    columns = columns if used is None else columns.filter(used)
    return columns, to_rows(columns, roles)[0] if columns.n_rows else None


def _sum_features(
    X: Any, groups: Mapping[str, Any], *, roles: Roles, function: Callable[[Any], Any]
) -> GroupMoments | None:
    with single_blas_thread():
        _, rows = _partition_rows(X, groups, roles)
        if rows is None:
            return None
        return GroupMoments.from_rows(rows.with_features(function(rows.X)), wide=np.inf)


def _add(parts: list[GroupMoments | None]) -> GroupMoments | None:
    moments = [part for part in parts if part is not None]
    return reduce(add, moments) if moments else None


def _draw_partition(
    X: Any, groups: Mapping[str, Any], *, roles: Roles, size: int, seed: int
) -> pa.Table | None:
    columns, rows = _partition_rows(X, groups, roles)
    if rows is None:
        return None
    content: Any = rows.X.data if hasattr(rows.X, "indptr") else np.ascontiguousarray(rows.X)
    keys = np.random.default_rng((seed, len(rows), zlib.crc32(content))).random(len(rows))
    cells = rows.cells()
    kept = _smallest_keys(keys, cells, size)
    mask = np.zeros(len(rows), dtype=bool)
    mask[kept] = True
    arrays = _as_arrays(columns.filter(mask))
    names = np.array([_cell_names(rows, cells, number) for number in range(cells.max() + 1)])
    return pa.table({**arrays, _KEY: keys[kept], _CELL: names[cells[kept]]})


def _smallest_keys(keys: Any, cells: Any, size: int) -> Any:
    """Return the rows with the smallest keys of all, and the smallest of their cell, in order."""
    counts = np.bincount(cells)
    least = np.full(len(counts), max(1, min(MIN_DRAWN, size // (2 * len(counts)))))
    everywhere = np.zeros(len(keys), dtype=np.intp)
    return np.union1d(
        smallest_keys(keys, everywhere, np.array([size])), smallest_keys(keys, cells, least)
    )


def _cell_names(rows: Rows, cells: Any, number: int) -> str:
    """Name a cell by its levels, which mean the same in every partition."""
    row = int(np.argmax(cells == number))
    parts = [part for part in (rows.groups, rows.strata) if part is not None]
    columns = [column for part in parts for column in part.categorical]
    return repr([str(column.levels[column.codes[row]]) for column in columns])


def _merge(parts: list[pa.Table | None], size: int) -> pa.Table | None:
    tables = [part for part in parts if part is not None]
    if not tables:
        return None
    table = pa.concat_tables(tables, promote_options="permissive")
    cells = table.column(_CELL).combine_chunks().dictionary_encode().indices.to_numpy()
    kept = _smallest_keys(table.column(_KEY).to_numpy(), cells, size)
    return table.take(pa.array(kept)) if len(kept) < len(cells) else table


def _as_arrays(columns: Columns) -> dict[str, Any]:
    """Name the columns by their places: a feature may be called like a group."""
    features: Sequence[Any] = list(columns.features.values())
    if columns.matrix is not None:
        features = [pa.array(column) for column in columns.matrix.toarray().T.copy()]
    parts = {"x": features}
    for name in ("sensitive", "control", "weight"):
        parts[name] = list(getattr(columns, name).values())
    return {f"{part}{index}": a for part, arrays in parts.items() for index, a in enumerate(arrays)}


def _as_columns(table: pa.Table, roles: Roles) -> Columns:
    def part(prefix: str, names: Sequence[str]) -> dict[str, Any]:
        columns = (table.column(f"{prefix}{index}") for index in range(len(names)))
        joined = (column.unify_dictionaries().combine_chunks() for column in columns)
        return dict(zip(names, joined, strict=True))

    weight = () if roles.weight is None else (roles.weight,)
    named = (("sensitive", roles.sensitive), ("control", roles.control), ("weight", weight))
    others = (part(prefix, names) for prefix, names in named)
    return Columns(table.num_rows, part("x", roles.features), {}, *others)


def _weighted(rows: Rows, drawn: pa.Table, moments: GroupMoments) -> Rows:
    """Give the rows drawn the weight of all rows of their cell."""
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    totals = {
        repr([str(level) for level in key]): cell.weight
        for key, cell in moments.table.cells.items()
    }
    coded = drawn.column(_CELL).combine_chunks().dictionary_encode()
    codes = coded.indices.to_numpy()
    wanted = np.array([totals.get(name.as_py(), np.nan) for name in coded.dictionary])
    held = np.bincount(codes, weights)
    return replace(rows, weights=weights * (np.where(np.isnan(wanted), held, wanted) / held)[codes])


def lazy_transform(
    X: Any, function: Callable[[Any], Any], names: Sequence[str], dtype: Any, means: Any = None
) -> Any:
    """Scores of a Dask collection as one with the same partitions; nothing is computed yet.

    `function` maps a matrix (n, p) to its scores (n, d); `means` (p,) stand for missing values.
    """
    apply = partial(_apply_partition, function=function, means=means)
    if hasattr(X, "rechunk"):
        X = X.rechunk({1: -1})
        chunks = (X.chunks[0], (len(names),))
        meta = np.empty((0, len(names)), dtype=dtype)
        return X.map_blocks(apply, chunks=chunks, dtype=dtype, meta=meta)
    meta = X._meta.iloc[:, :0].assign(**{name: np.empty(0, dtype) for name in names})
    return X.map_partitions(partial(_apply_frame, apply, list(names)), meta=meta)


def _apply_partition(X: Any, function: Callable[[Any], Any], means: Any) -> Any:
    if means is not None:
        X = fill_means(X if issparse(X) else np.asarray(X, dtype=np.float64), means)
    return function(check_matrix(X)[0])


def _apply_frame(function: Callable[[Any], Any], names: list[str], frame: Any) -> Any:
    return type(frame)(function(frame), columns=names, index=frame.index)
