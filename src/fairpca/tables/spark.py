"""Moments of Spark data frames, and component columns for them; needs pyspark 4.0 and Java 17."""

from __future__ import annotations

import os
import pickle
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial, reduce
from inspect import signature
from typing import Any, Unpack

import pyarrow as pa

from fairpca.exceptions import InvalidInputError
from fairpca.linalg import single_blas_thread
from fairpca.moments import GroupMoments
from fairpca.tables._kernel import Partial, merge_partials
from fairpca.tables._model import AnyModel, Projection, read_model
from fairpca.tables._roles import Columns, Names, RoleOptions, Roles, assign_roles
from fairpca.tables._stream import batch_rows, equal_batches, finish, sum_batches, sum_parts
from fairpca.tables.table import Table

# Tasks that merge the partial sums: with thousands of partitions the driver would otherwise have
# to hold thousands of matrices.
MERGERS = 4

_SCHEMA = "partial binary"


def moments_from_spark(
    data: Any,
    sensitive: Names,
    features: Names = None,
    control: Names = None,
    weight: str | None = None,
    **options: Unpack[RoleOptions],
) -> GroupMoments:
    """Sum the rows of a Spark data frame in one pass, by ``mapInArrow``.

    Every task sums its partition in Arrow batches and sends the moments of its rows; a few tasks
    merge them before the driver sees the rest. Needs pyspark 4.0 or later with
    Java 17 or 21, and fairpca, pyarrow and pandas for the Python of the executors
    (``PYSPARK_PYTHON``).

    Parameters
    ----------
    data : pyspark.sql.DataFrame
        The table.
    sensitive, features, control, weight, **options
        As in `moments_from_files`.

    See Also
    --------
    transform_spark : The way back.
    moments_from_files : The same without a cluster.

    Examples
    --------
    >>> from fairpca.tables import moments_from_spark
    >>> data = session.read.parquet("people")  # doctest: +SKIP
    >>> moments = moments_from_spark(data, sensitive=["sex"])  # doctest: +SKIP
    """
    roles = assign_roles(arrow_schema(data), sensitive, features, control, weight, **options)
    rows = _numbered(data, roles.columns)
    return _sum(rows.mapInArrow(partial(_sum_partition, roles=roles), _SCHEMA), roles)


def moments_by_spark(
    table: Table, roles: Roles, master: str | None = None, quiet: bool = False
) -> GroupMoments:
    """Sum the files of a table by the tasks of a Spark session, each as the local pass would.

    `quiet` keeps the log lines of a Spark that is started here off standard error.
    """
    if table.files is None:
        raise InvalidInputError("the spark engine reads files only.", parameter="engine")
    with warnings.catch_warnings():
        if quiet:  # pyspark complains of the versions of others when it is imported
            warnings.filterwarnings("ignore", module="pyspark")
        try:
            from py4j.protocol import Py4JError
            from pyspark.errors import PySparkException
        except ImportError:
            raise InvalidInputError(
                "the spark engine needs: pip install 'fairpca[spark]' and Java 17 or 21.",
                parameter="engine",
            ) from None
        units = [(pickle.dumps(u),) for part in table.files.parts for u in part.row_groups()]
        work = partial(_sum_files, roles=roles, wanted=table.role_schema(roles))
        with _session(master, quiet) as session:
            try:
                data = session.createDataFrame(units, "part binary")
                return _sum(data.repartition(len(units)).mapInArrow(work, _SCHEMA), roles)
            except (PySparkException, Py4JError) as error:
                lines = [line.strip() for line in str(error).splitlines() if line.strip()]
                reason = lines[0][:300] if lines else type(error).__name__
                raise InvalidInputError(
                    f"the spark engine failed on these files ({reason}): leave --engine out to "
                    "learn which one and where.",
                    parameter="engine",
                ) from error


def _sum(partials: Any, roles: Roles) -> GroupMoments:
    """Merge a column of partial sums by a few tasks, then here."""
    merge = partial(_merge_partition, roles=roles)
    merged = partials.repartition(MERGERS).mapInArrow(merge, _SCHEMA).collect()
    return finish(merge_partials([_unpack(row["partial"]) for row in merged], roles), roles)


def transform_spark(data: Any, model: AnyModel) -> Any:
    """Append a column of doubles for each component to a Spark data frame, lazily.

    Parameters
    ----------
    data : pyspark.sql.DataFrame
        The table, with the features of the model by name.
    model : FairPCA, str or path
        As in `project_table`.

    See Also
    --------
    moments_from_spark : What the components are fitted from.

    Examples
    --------
    >>> from fairpca.tables import transform_spark
    >>> reduced = transform_spark(data, "model.npz")  # doctest: +SKIP
    """
    from pyspark.sql.types import DoubleType, StructType

    projection = read_model(model).bind(arrow_schema(data))
    clash = [name for name in projection.output_names if name in data.columns]
    if clash:
        raise InvalidInputError(f"the table has columns named {clash} already: rename them.")
    schema = StructType(list(data.schema.fields))
    for name in projection.output_names:
        schema = schema.add(name, DoubleType(), nullable=False)
    append = partial(_append_scores, projection=projection, names=list(data.columns))
    return _numbered(data, data.columns).mapInArrow(append, schema)


def _append_scores(
    batches: Iterator[pa.RecordBatch], projection: Projection, names: list[str]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        scores = projection.scores(batch.rename_columns(names))
        arrays = [*batch.columns, *(pa.array(column) for column in scores.T)]
        yield pa.RecordBatch.from_arrays(arrays, names=[*names, *projection.output_names])


def arrow_schema(data: Any) -> pa.Schema:
    """Columns of a Spark data frame with their Arrow types."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_type

    if not hasattr(data, "mapInArrow"):
        raise InvalidInputError(f"data is a {type(data).__name__}: give a Spark data frame.")
    zone = {"timezone": "UTC"} if "timezone" in signature(to_arrow_type).parameters else {}
    fields = []
    for field in data.schema.fields:
        try:
            kind = to_arrow_type(field.dataType, **zone)
        except PySparkException:  # Arrow does not know it; neither a number nor a group
            kind = pa.struct([])
        fields.append(pa.field(field.name, kind))
    return pa.schema(fields)


def _numbered(data: Any, names: Iterable[str]) -> Any:
    """Select columns under plain names: mapInArrow cannot handle dots and backticks in them."""
    from pyspark.sql import functions as F

    columns = (F.col(quoted(name)) for name in names)
    return data.select(*(column.alias(f"c{index}") for index, column in enumerate(columns)))


def quoted(name: str) -> str:
    """Write the name of a column as Spark's expressions want it."""
    return "`" + name.replace("`", "``") + "`"


# What tasks do. What is wrong with their rows travels as a value, to be said by the driver.


def _sum_partition(batches: Iterator[pa.RecordBatch], roles: Roles) -> Iterator[pa.RecordBatch]:
    """Sum the rows of one partition."""
    named = (batch.rename_columns(list(roles.columns)) for batch in batches)
    equal = equal_batches(named, batch_rows(len(roles.columns)))
    columns = (Columns.of(batch, roles) for batch in equal)
    yield _packed(lambda: sum_batches(columns, roles))


def _sum_files(
    batches: Iterator[pa.RecordBatch], roles: Roles, wanted: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Sum the rows of the files whose descriptions came in a column."""
    files = (_unpack(item.as_py()) for batch in batches for item in batch.column(0))
    yield _packed(lambda: sum_parts(files, roles, wanted))


def _merge_partition(batches: Iterator[pa.RecordBatch], roles: Roles) -> Iterator[pa.RecordBatch]:
    """Add partial sums as they come, so that a task holds two of them."""
    parts = (_unpack(item.as_py()) for batch in batches for item in batch.column(0))
    yield _packed(lambda: reduce(lambda *two: merge_partials(two, roles), parts, Partial()))


def _packed(work: Callable[[], Partial]) -> pa.RecordBatch:
    """Return the result of some work, or what was wrong, as a batch."""
    # Pickle between the driver and its own executors, which is how Spark sends the functions too.
    value: Partial | InvalidInputError
    try:
        with single_blas_thread():
            value = work()
    except InvalidInputError as error:
        value = error
    return pa.RecordBatch.from_pydict({"partial": pa.array([pickle.dumps(value)], pa.binary())})


def _unpack(content: bytes | bytearray) -> Any:
    value = pickle.loads(bytes(content))
    if isinstance(value, InvalidInputError):
        raise value
    return value


@contextmanager
def _session(master: str | None, quiet: bool = False) -> Iterator[Any]:
    """Open a Spark session, or use the one that is active; None stands for ``local[*]``."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None and master is None:
        yield active
        return
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master or "local[*]").appName("fairpca")
    try:
        with _silenced() if quiet else nullcontext():
            session = builder.config("spark.ui.enabled", "false").getOrCreate()
    except (PySparkException, Py4JError) as error:
        reason = " ".join(str(error).split())[:300]
        raise InvalidInputError(
            f"no Spark session opens for master={master or 'local[*]'!r} ({reason}): check the "
            "address, and that Java 17 or 21 is installed."
        ) from None
    try:
        yield session
    finally:
        if active is None:
            session.stop()


@contextmanager
def _silenced() -> Iterator[None]:
    """Give the Java process that starts here nowhere to write its log lines."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
