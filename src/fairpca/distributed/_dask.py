"""Moments of Dask arrays and data frames, on whichever scheduler is active."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from fairpca.distributed._kernel import batch_rows, summarise_batches
from fairpca.distributed._partial import Partial, finish, merge_partials
from fairpca.distributed._plan import MAX_LEVELS, Missing, Names, Plan, make_plan
from fairpca.estimators._inputs import is_lazy
from fairpca.estimators._lazy import FAN_IN, aligned_blocks, as_declared, row_blocks, tree_sum
from fairpca.estimators._limits import MAX_CELLS
from fairpca.exceptions import InvalidInputError
from fairpca.linalg import single_blas_thread
from fairpca.moments import GroupMoments


def moments_from_dask(
    data: Any,
    sensitive: Any,
    features: Names = None,
    control: Any = None,
    weight: Any = None,
    *,
    numeric: Names = None,
    categorical: Names = None,
    missing: Missing = "error",
    max_cells: int = MAX_CELLS,
    max_levels: int = MAX_LEVELS,
    fan_in: int = FAN_IN,
) -> GroupMoments:
    """Sum the rows of a Dask collection in one pass; partial sums are merged as a tree.

    The work goes to the active scheduler: threads by default, or the cluster of the current
    ``distributed.Client``. A worker that dies during the pass costs time, not correctness.

    Parameters
    ----------
    data : dask.dataframe.DataFrame or dask.array.Array
        The table, or the features alone.
    sensitive : str, iterable of str, or collection
        Names of the protected columns of a data frame. For an array: a Dask or NumPy array with
        its rows, one column for each attribute.
    features : iterable of str, optional
        Features of a data frame; None: every column that has no other part.
    control : str, iterable of str, or collection, optional
        Strata; an array where `data` is one.
    weight : str or collection, optional
        Weights ≥ 0; an array where `data` is one.
    numeric, categorical, missing, max_cells, max_levels
        As in `moments_from_parquet`. An array has no categorical features; its attributes are
        named ``sensitive_feature`` or ``sensitive_feature_0``, …
    fan_in : int, default 8
        Partial sums that one task merges.

    Returns
    -------
    GroupMoments
        What `GroupMoments.from_arrays` gives for the same rows in memory, but for rounding.

    Examples
    --------
    >>> import dask.dataframe as dd
    >>> import pandas as pd
    >>> from fairpca.distributed import moments_from_dask
    >>> frame = pd.DataFrame({"height": [1.6, 1.8, 1.7], "sex": ["f", "m", "f"]})
    >>> moments = moments_from_dask(dd.from_pandas(frame, npartitions=2), sensitive=["sex"])
    >>> moments.n_samples, moments.levels("sex")
    (3, ('f', 'm'))
    """
    if not is_lazy(data):
        raise InvalidInputError(
            f"data is a {type(data).__name__}: give a Dask array or data frame, or use "
            "GroupMoments.from_arrays for rows in memory."
        )
    options: dict[str, Any] = {
        "numeric": numeric,
        "categorical": categorical,
        "missing": missing,
        "max_cells": max_cells,
        "max_levels": max_levels,
    }
    if hasattr(data, "rechunk"):
        if features is not None or categorical is not None:
            raise InvalidInputError("an array has no names: features and categorical need a table.")
        parts, plan = _array_parts(data, sensitive, control, weight, options)
    else:
        parts, plan = _frame_parts(data, sensitive, features, control, weight, options)
    total = tree_sum(parts, partial(_merge, plan=plan), fan_in).compute()
    return finish(total, plan, named=not hasattr(data, "rechunk"))


def _merge(parts: list[Partial], plan: Plan) -> Partial:
    with single_blas_thread():
        return merge_partials(parts, plan)


def _frame_parts(
    data: Any, sensitive: Any, features: Any, control: Any, weight: Any, options: dict[str, Any]
) -> tuple[list[Any], Plan]:
    """Delayed sums of the partitions of a data frame; only the columns needed are loaded."""
    from dask import delayed

    if not all(isinstance(name, str) for name in data.columns):  # as FairPCA.fit takes them
        data = data.rename(columns={name: str(name) for name in data.columns})
        sensitive, features, control = map(_as_text, (sensitive, features, control))
        weight = None if weight is None else str(weight)
    plan = make_plan(
        frame_schema(data._meta),
        sensitive,
        features=features,
        control=control,
        weight=weight,
        **options,
    )
    columns = list(plan.columns)
    meta = data._meta[columns]
    summarise = delayed(partial(_summarise_frame, plan=plan, meta=meta))
    return [summarise(block) for block in row_blocks(data[columns])], plan


def _as_text(names: Any) -> Any:
    """Names of columns as text; they may be numbers in a pandas frame."""
    if names is None:
        return None
    return [str(name) for name in ([names] if np.isscalar(names) else names)]


def frame_schema(meta: Any) -> pa.Schema:
    """Arrow types of the columns of an empty pandas frame.

    Parameters
    ----------
    meta : pandas.DataFrame
        The frame; object columns are taken for text.

    Returns
    -------
    pyarrow.Schema
        Names and types.
    """
    fields = []
    for name, dtype in meta.dtypes.items():
        kind = pa.string()
        if getattr(dtype, "kind", "") != "O":
            kind = pa.Array.from_pandas(meta[name]).type
        fields.append(pa.field(str(name), kind))
    return pa.schema(fields)


def _summarise_frame(frame: Any, plan: Plan, meta: Any) -> Partial:
    """Sum one pandas partition."""
    frame = as_declared(frame, meta)
    return _summarise_arrow(_to_arrow(frame), plan)


def _summarise_arrow(batch: pa.RecordBatch, plan: Plan) -> Partial:
    rows = batch_rows(len(plan.columns))
    starts = range(0, max(batch.num_rows, 1), rows)
    with single_blas_thread():
        return summarise_batches((batch.slice(start, rows) for start in starts), plan)


def _to_arrow(frame: Any) -> pa.RecordBatch:
    """Convert a pandas frame column by column; numbers and Arrow strings are not copied."""
    arrays = []
    for name in frame.columns:
        try:
            arrays.append(_arrow_column(frame[name]))
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise InvalidInputError(
                f"column {name!r} holds values of several types ({error}): convert it first."
            ) from None
    return pa.RecordBatch.from_arrays(arrays, names=[str(name) for name in frame.columns])


def _arrow_column(values: Any) -> pa.Array:
    """Convert a column; plain floats are not searched for NaN, which the kernel does if need be."""
    dtype = values.dtype
    if isinstance(dtype, np.dtype) and dtype.kind == "f":
        return pa.array(np.asarray(values))
    return _plain(pa.array(values, from_pandas=True))


def _plain(array: Any) -> pa.Array:
    if isinstance(array, pa.ChunkedArray):
        return array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
    return array


def _array_parts(
    data: Any, sensitive: Any, control: Any, weight: Any, options: dict[str, Any]
) -> tuple[list[Any], Plan]:
    """Delayed sums of the blocks of an array, whose groups are arrays too."""
    from dask import delayed

    if data.ndim != 2:
        raise InvalidInputError(f"data has {data.ndim} dimensions: give rows and columns.")
    if sensitive is None:
        raise InvalidInputError("sensitive is None: give an array with a value for each row.")
    given = {"sensitive_feature": sensitive, "control_feature": control, "weight": weight}
    names = {role: _column_names(part, role) for role, part in given.items()}
    fields = [(f"x{index}", pa.from_numpy_dtype(data.dtype)) for index in range(data.shape[1])]
    groups = [(name, pa.string()) for part in names.values() for name in part]
    plan = make_plan(
        pa.schema(fields + groups),
        names["sensitive_feature"],
        control=names["control_feature"],
        weight=names["weight"][0] if names["weight"] else None,
        **options,
    )
    others = [
        (names[role], aligned_blocks(part, data, role))
        for role, part in given.items()
        if part is not None
    ]
    summarise = delayed(partial(_summarise_block, plan=plan))
    parts = [
        summarise(block, [(columns, blocks[index]) for columns, blocks in others])
        for index, block in enumerate(row_blocks(data, optimize=False))
    ]
    return parts, plan


def _column_names(part: Any, role: str) -> list[str]:
    """Names of the columns of a collection, or those that `encode_groups` would give."""
    if part is None:
        return []
    if hasattr(part, "columns"):
        return [str(name) for name in part.columns]
    if getattr(part, "ndim", 1) == 1:
        name = getattr(part, "name", None)
        labelled = name is not None and not hasattr(part, "chunks")  # a dask array's is a token
        return [str(name) if labelled else role]
    return [f"{role}_{index}" for index in range(part.shape[1])]


def _summarise_block(block: Any, others: list[tuple[list[str], Any]], plan: Plan) -> Partial:
    """Sum one block of an array with its groups."""
    matrix = np.asarray(block)
    arrays = {f"x{index}": column for index, column in enumerate(np.ascontiguousarray(matrix.T))}
    for names, part in others:
        values = part if hasattr(part, "iloc") else np.asarray(part)
        for index, name in enumerate(names):
            column = values if values.ndim == 1 else _column(values, index)
            if len(column) != len(matrix):
                raise InvalidInputError(
                    f"{name} has {len(column)} rows in a block of {len(matrix)}: give both the "
                    "same chunks."
                )
            arrays[name] = column
    converted = [_arrow_column(column) for column in arrays.values()]
    return _summarise_arrow(pa.RecordBatch.from_arrays(converted, names=list(arrays)), plan)


def _column(values: Any, index: int) -> Any:
    return values.iloc[:, index] if hasattr(values, "iloc") else values[:, index]
