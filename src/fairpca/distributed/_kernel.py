"""The kernel of every pass: one Arrow batch in, its moments out.

Parquet, CSV, Dask and Spark all end here, so that they cannot differ in what a group, a missing
value or an indicator is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from fairpca.distributed._partial import (
    Levels,
    Partial,
    indicator_names,
    merge_partials,
    too_many_levels,
)
from fairpca.distributed._plan import Plan
from fairpca.estimators._limits import check_cells
from fairpca.exceptions import InvalidInputError
from fairpca.moments import GroupMoments
from fairpca.rows import Attribute, Groups, NumericAttribute, encode_groups

# Numbers in one batch: 32 MB of float64. Smaller batches of many features would spend their time
# on merging p × p matrices; larger ones, held once for each thread, would be felt in memory.
BATCH_ELEMENTS = 1 << 22


# Up to this many distinct values in a batch their encoding is remembered.
CACHED_LEVELS = 64


def batch_rows(n_columns: int) -> int:
    """Rows that are read and summed at once.

    Parameters
    ----------
    n_columns : int
        Columns of the batch.

    Returns
    -------
    int
        Between 1,024 and 32,768.

    Examples
    --------
    >>> from fairpca.distributed._kernel import batch_rows
    >>> batch_rows(50), batch_rows(500)
    (32768, 8388)
    """
    return int(np.clip(BATCH_ELEMENTS // max(n_columns, 1), 1024, 32768))


def rebatch(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Join small batches until they have some rows; a sum has a fixed cost for each batch.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        Batches of any size.
    rows : int
        Rows to reach.

    Yields
    ------
    pyarrow.RecordBatch
        Batches of at least `rows` rows, but for the last.
    """
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        waiting.append(batch)
        count += batch.num_rows
        if count >= rows:
            yield pa.concat_batches(waiting)
            waiting, count = [], 0
    if waiting:
        yield pa.concat_batches(waiting)


def summarise_batches(
    batches: Iterable[pa.RecordBatch], plan: Plan, *, counting: bool = False
) -> Partial:
    """Sum batches one after the other.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        With the columns of the plan, in any order.
    plan : Plan
        The plan of the pass.
    counting : bool, default False
        Whether missing values are counted only, because the pass has failed already.

    Returns
    -------
    Partial
        Their moments.
    """
    total = Partial(levels=dict.fromkeys(plan.categorical, ()))
    for batch in batches:
        # Once a value is missing there will be no result, only counts.
        counting = counting or (plan.missing == "error" and bool(total.missing))
        total = merge_partials([total, summarise_batch(batch, plan, counting=counting)], plan)
    return total


def summarise_batch(batch: pa.RecordBatch, plan: Plan, *, counting: bool = False) -> Partial:
    """Sum one batch.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
        With the columns of the plan.
    plan : Plan
        The plan of the pass.
    counting : bool, default False
        Whether missing values are counted only, because the pass has failed already.

    Returns
    -------
    Partial
        Moments of the complete rows of positive weight.
    """
    nothing: Levels = dict.fromkeys(plan.categorical, ())
    n_rows = batch.num_rows
    # Nulls cost nothing to see. NaN among the features shows in the sums, so that a complete batch
    # is never searched for it; groups and weights are few and are searched at once.
    missing, complete = _missing(batch, plan, search_features=counting)
    if not missing and not counting:
        try:
            return Partial(*_sum(batch, plan), n_rows)
        except InvalidInputError as error:
            missing, complete = _missing(batch, plan, search_features=True)
            if not missing:
                raise _explain(error, batch, plan) from None
    incomplete = n_rows - int(np.count_nonzero(complete))
    if counting or plan.missing == "error":
        return Partial(None, nothing, n_rows, incomplete, missing)
    moments, levels = _sum(batch.filter(pa.array(complete)), plan)
    return Partial(moments, levels, n_rows, incomplete, missing)


def _missing(
    batch: pa.RecordBatch, plan: Plan, *, search_features: bool
) -> tuple[dict[str, int], Any]:
    """Count the missing values of each column and mark the complete rows."""
    counts: dict[str, int] = {}
    complete = np.ones(batch.num_rows, dtype=bool)
    for name in plan.columns:
        column = batch.column(name)
        search = kinds.is_floating(column.type) and (search_features or name in plan.group_columns)
        if not column.null_count and not search:
            continue
        absent = column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
        if absent.any():
            counts[name] = int(np.count_nonzero(absent))
            complete &= ~absent
    if counts and not search_features:  # the counts of an error are those of all columns
        return _missing(batch, plan, search_features=True)
    return counts, complete


def _explain(error: InvalidInputError, batch: pa.RecordBatch, plan: Plan) -> InvalidInputError:
    """Name the column whose values made the sums overflow, if that is what is wrong."""
    for name in plan.features:
        if not np.isfinite(_numbers(batch.column(name))).all():
            return InvalidInputError(
                f"column {name!r} holds infinite values: drop those rows or clip them."
            )
    return error


def _sum(batch: pa.RecordBatch, plan: Plan) -> tuple[GroupMoments, Levels]:
    """Moments of complete rows."""
    weights = None
    if plan.weight is not None:
        weights = _weights(batch.column(plan.weight), plan.weight)
        if not weights.all():  # left out before anything is learned from the rows
            batch = batch.filter(pa.array(weights != 0.0))
            weights = weights[weights != 0.0]
    sensitive = encode_columns(batch, plan.sensitive, plan.numeric, "sensitive_features")
    control = None
    if plan.control:
        control = encode_columns(batch, plan.control, (), "control_features")
    check_cells([part for part in (sensitive, control) if part is not None], plan.max_cells)
    matrix, levels = _matrix(batch, plan)
    names = [*plan.features, *indicator_names(levels)]
    moments = GroupMoments.from_groups(matrix, sensitive, control, weights, feature_names=names)
    return moments, levels


def _weights(column: pa.Array, name: str) -> Any:
    if not (kinds.is_floating(column.type) or kinds.is_integer(column.type)):
        raise InvalidInputError(f"the weights {name!r} are {column.type}: give numbers.")
    return _numbers(column).astype(np.float64)


def encode_columns(
    batch: pa.RecordBatch, names: Iterable[str], numeric: Iterable[str], argument: str
) -> Groups:
    """Encode group columns; only their distinct values are looked at one by one.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
        Complete rows.
    names : iterable of str
        The columns.
    numeric : iterable of str
        Those that are numbers whatever their type.
    argument : str
        Name of the argument, for messages.

    Returns
    -------
    Groups
        What `encode_groups` makes of the same columns.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from fairpca.distributed._kernel import encode_columns
    >>> batch = pa.RecordBatch.from_pydict({"sex": ["m", "f", "m"]})
    >>> groups = encode_columns(batch, ["sex"], [], "sensitive_features")
    >>> groups.categorical[0].levels, groups.categorical[0].codes
    (('f', 'm'), array([1, 0, 1]))
    """
    encoded = [
        _encode_column(batch.column(name), name, name in numeric, argument) for name in names
    ]
    categorical = tuple(item for item in encoded if isinstance(item, Attribute))
    numbers = tuple(item for item in encoded if isinstance(item, NumericAttribute))
    return Groups(categorical, numbers, tuple(names), batch.num_rows)


def _encode_column(
    column: pa.Array, name: str, numeric: bool, argument: str
) -> Attribute | NumericAttribute:
    if numeric:
        return _encode_numbers(column, name, argument)
    declared = kinds.is_dictionary(column.type)
    coded = column if declared else column.dictionary_encode()
    codes = coded.indices.to_numpy(zero_copy_only=False).astype(np.intp)
    present = np.flatnonzero(np.bincount(codes, minlength=len(coded.dictionary)))
    distinct = coded.dictionary.take(pa.array(present))
    small = len(distinct) <= CACHED_LEVELS
    encode = _encode_few if small else _encode_distinct
    values = tuple(distinct.to_pylist()) if small else distinct
    attribute = encode(values, distinct.type, declared, name, argument)
    if attribute is None:
        return _encode_numbers(column, name, argument)
    lookup = np.zeros(max(len(coded.dictionary), 1), dtype=np.intp)
    lookup[present] = attribute.codes
    return Attribute(name, attribute.levels, lookup[codes])


@lru_cache(maxsize=256)
def _encode_few(
    values: tuple[Any, ...], kind: pa.DataType, declared: bool, name: str, argument: str
) -> Attribute | None:
    """Encode the distinct values of a batch, which the next batch will most likely have too."""
    return _encode_distinct(pa.array(values, kind), kind, declared, name, argument)


def _encode_distinct(
    values: pa.Array, kind: pa.DataType, declared: bool, name: str, argument: str
) -> Attribute | None:
    """Encode distinct values; None where they are numbers."""
    if declared:  # the declaration counts: categories are labels even where they look like numbers
        order = pa.array(np.arange(len(values), dtype=np.int32))
        values = pa.DictionaryArray.from_arrays(order, values)
    groups = encode_groups(pa.table({name: values}), n_rows=len(values), argument=argument)
    return None if groups.numeric else groups.categorical[0]


def _encode_numbers(column: pa.Array, name: str, argument: str) -> NumericAttribute:
    table = pa.table({name: column})
    return encode_groups(table, n_rows=len(column), argument=argument, numeric=[name]).numeric[0]


def _matrix(batch: pa.RecordBatch, plan: Plan) -> tuple[Any, Levels]:
    """Features of a batch, column by column in memory as Arrow holds them."""
    coded = {name: _text_codes(batch.column(name), name, plan) for name in plan.categorical}
    levels = {name: values for name, (values, _) in coded.items()}
    width = len(plan.features) + sum(map(len, levels.values()))
    columns = np.empty((width, batch.num_rows), dtype=np.float32 if plan.single else np.float64)
    for index, name in enumerate(plan.features):
        columns[index] = _numbers(batch.column(name))
    start = len(plan.features)
    columns[start:] = 0.0
    for values, codes in coded.values():
        columns[start + codes, np.arange(batch.num_rows)] = 1.0
        start += len(values)
    return columns.T, levels


def _numbers(column: pa.Array) -> Any:
    if kinds.is_decimal(column.type):
        column = column.cast(pa.float64())
    return column.to_numpy(zero_copy_only=False)


def _text_codes(column: pa.Array, name: str, plan: Plan) -> tuple[tuple[str, ...], Any]:
    """Sorted values of a categorical feature as text, and the place of each row's value."""
    coded = column if kinds.is_dictionary(column.type) else column.dictionary_encode()
    present = pc.unique(coded.indices).to_numpy(zero_copy_only=False)
    if len(present) > plan.max_levels:
        raise too_many_levels(name, plan.max_levels)
    texts = {int(code): level_text(coded.dictionary[int(code)].as_py()) for code in present}
    values = tuple(sorted(set(texts.values())))
    place = {text: index for index, text in enumerate(values)}
    lookup = np.zeros(max(len(coded.dictionary), 1), dtype=np.intp)
    for code, text in texts.items():
        lookup[code] = place[text]
    return values, lookup[coded.indices.to_numpy(zero_copy_only=False).astype(np.intp)]


def level_text(value: Any) -> str:
    """Text of a categorical value in the name of its indicator.

    Parameters
    ----------
    value : object
        The value.

    Returns
    -------
    str
        The same for every engine: pandas turns whole numbers into floats where one is missing.

    Examples
    --------
    >>> from fairpca.distributed._kernel import level_text
    >>> level_text(2), level_text(2.0), level_text(b"x")
    ('2', '2', 'x')
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
