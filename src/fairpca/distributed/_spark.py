"""Moments of Spark data frames, and component columns for them.

Needs pyspark 4.0 or later, which needs Java 17 or 21 (tested with pyspark 4.3 on Java 17), and
fairpca with pyarrow and pandas for the Python of the driver and of every executor.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from fairpca.distributed._kernel import batch_rows, rebatch, summarise_batches
from fairpca.distributed._model import AnyModel, Projection, read_model
from fairpca.distributed._partial import Partial, finish, merge_partials
from fairpca.distributed._plan import MAX_LEVELS, Missing, Names, Plan, make_plan
from fairpca.estimators._lazy import check_fan_in
from fairpca.estimators._limits import MAX_CELLS
from fairpca.exceptions import InvalidInputError
from fairpca.linalg import single_blas_thread
from fairpca.moments import GroupMoments

# Partial sums that one task, and the driver, merge at a time: with thousands of partitions the
# driver would otherwise have to hold thousands of matrices.
FAN_IN = 32

_SCHEMA = "partial binary"


def moments_from_spark(
    data: Any,
    sensitive: Names,
    features: Names = None,
    control: Names = None,
    weight: str | None = None,
    *,
    numeric: Names = None,
    categorical: Names = None,
    missing: Missing = "error",
    max_cells: int = MAX_CELLS,
    max_levels: int = MAX_LEVELS,
    fan_in: int = FAN_IN,
) -> GroupMoments:
    """Sum the rows of a Spark data frame in one pass, by ``mapInArrow``.

    Every task sums its partition in Arrow batches and sends one small block of moments; more than
    `fan_in` of them are merged by tasks before the driver sees the rest. Needs pyspark 4.0 or
    later with Java 17 or 21, and fairpca, pyarrow and pandas for the Python of the executors
    (``PYSPARK_PYTHON``).

    Parameters
    ----------
    data : pyspark.sql.DataFrame
        The table.
    sensitive, features, control, weight, numeric, categorical, missing, max_cells, max_levels
        As in `moments_from_parquet`.
    fan_in : int, default 32
        Partial sums that one task, or the driver, merges.

    Returns
    -------
    GroupMoments
        What `GroupMoments.from_arrays` gives for the same rows in memory, but for rounding.
    """
    check_fan_in(fan_in)
    plan = make_plan(
        _arrow_schema(data),
        sensitive,
        features=features,
        control=control,
        weight=weight,
        numeric=numeric,
        categorical=categorical,
        missing=missing,
        max_cells=max_cells,
        max_levels=max_levels,
    )
    selected = _numbered(data, plan.columns)
    count = _partition_count(selected)
    partials = selected.mapInArrow(partial(_summarise_partition, plan=plan), _SCHEMA)
    while count > fan_in:
        count = -(-count // fan_in)
        merge = partial(_merge_partition, plan=plan)
        partials = partials.repartition(count).mapInArrow(merge, _SCHEMA)
    found = [_unpack(row["partial"]) for row in partials.collect()]
    return finish(merge_partials(found, plan) if found else Partial(), plan)


def transform_spark(data: Any, model: AnyModel) -> Any:
    """Append the component columns of a model to a Spark data frame, lazily.

    Parameters
    ----------
    data : pyspark.sql.DataFrame
        The table, with the features of the model by name.
    model : FairPCA, SavedModel, str or path
        The fitted model, or a file written by its `save` method.

    Returns
    -------
    pyspark.sql.DataFrame
        All columns of `data`, then one column of doubles for each component.
    """
    from pyspark.sql.types import DoubleType, StructType

    projection = read_model(model).bind(_arrow_schema(data))
    clash = [name for name in projection.output_names if name in data.columns]
    if clash:
        raise InvalidInputError(f"the table has columns named {clash} already: rename them.")
    schema = StructType(list(data.schema.fields))
    for name in projection.output_names:
        schema = schema.add(name, DoubleType(), nullable=False)
    names = list(data.columns)
    append = partial(_append_scores, projection=projection, names=names)
    return _numbered(data, names).mapInArrow(append, schema)


def _append_scores(
    batches: Iterator[pa.RecordBatch], projection: Projection, names: list[str]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        scores = projection.scores(batch.rename_columns(names))
        yield pa.RecordBatch.from_arrays(
            [*batch.columns, *(pa.array(column) for column in scores.T)],
            names=[*names, *projection.output_names],
        )


def _arrow_schema(data: Any) -> pa.Schema:
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_type

    if not hasattr(data, "mapInArrow"):
        raise InvalidInputError(f"data is a {type(data).__name__}: give a Spark data frame.")
    fields = []
    for field in data.schema.fields:
        try:
            kind = to_arrow_type(field.dataType, timezone="UTC")
        except PySparkException:  # Arrow does not know it; neither a number nor a group
            kind = pa.struct([])
        fields.append(pa.field(field.name, kind))
    return pa.schema(fields)


def _numbered(data: Any, names: Iterable[str]) -> Any:
    """Select columns under plain names: mapInArrow cannot handle dots and backticks in them."""
    from pyspark.sql import functions as F

    quoted = ("`" + name.replace("`", "``") + "`" for name in names)
    return data.select(*(F.col(name).alias(f"c{index}") for index, name in enumerate(quoted)))


def _partition_count(data: Any) -> int:
    """Partitions of a table; Spark Connect does not tell, so that one round of merging is made."""
    from pyspark.errors import PySparkException

    try:
        return int(data.rdd.getNumPartitions())
    except PySparkException:
        return FAN_IN + 1


def _summarise_partition(batches: Iterator[pa.RecordBatch], plan: Plan) -> Iterator[pa.RecordBatch]:
    """Sum one partition; what is wrong with it travels as a value, to be said by the driver."""
    try:
        with single_blas_thread():
            named = (batch.rename_columns(list(plan.columns)) for batch in batches)
            joined = rebatch(named, batch_rows(len(plan.columns)))
            yield _pack(summarise_batches(joined, plan))
    except InvalidInputError as error:
        yield _pack(error)


def _merge_partition(batches: Iterator[pa.RecordBatch], plan: Plan) -> Iterator[pa.RecordBatch]:
    found = [item for batch in batches for item in batch.column(0).to_pylist()]
    if not found:
        return
    try:
        yield _pack(merge_partials([_unpack(item) for item in found], plan))
    except InvalidInputError as error:
        yield _pack(error)


def _pack(value: Partial | InvalidInputError) -> pa.RecordBatch:
    # Pickle between the driver and its own executors, which is how Spark sends the functions too.
    return pa.RecordBatch.from_pydict({"partial": pa.array([pickle.dumps(value)], pa.binary())})


def _unpack(content: bytes | bytearray) -> Partial:
    value = pickle.loads(bytes(content))
    if isinstance(value, InvalidInputError):
        raise value
    return value
