"""Moments of Spark data frames, and component columns for them.

Needs pyspark 4.0 or later, which needs Java 17 or 21 (tested with pyspark 4.3 on Java 17), and
fairpca with pyarrow and pandas for the Python of the driver and of every executor.
"""

from __future__ import annotations

import os
import pickle
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, Unpack

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from fairpca.exceptions import InvalidInputError
from fairpca.linalg import single_blas_thread
from fairpca.moments import GroupMoments
from fairpca.tables._files import CSV_MISSING, Files
from fairpca.tables._kernel import Partial, merge_partials
from fairpca.tables._model import AnyModel, Projection, read_model
from fairpca.tables._roles import Columns, Names, RoleOptions, Roles, assign_roles
from fairpca.tables._stream import batch_rows, equal_batches, finish, sum_batches
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

    Examples
    --------
    >>> from fairpca.tables import moments_from_spark
    >>> data = session.read.parquet("people")  # doctest: +SKIP
    >>> moments = moments_from_spark(data, sensitive=["sex"])  # doctest: +SKIP
    """
    schema = arrow_schema(data)
    roles = assign_roles(schema, sensitive, features, control, weight, **options)
    return _sum(data, roles, None)


def moments_by_spark(
    table: Table, roles: Roles, master: str | None = None, quiet: bool = False
) -> GroupMoments:
    """Sum the files of a table as Spark reads them; CSV is read as text and typed by our schema.

    `quiet` keeps the log lines of a Spark that is started here off standard error.
    """
    if table.files is None or table.kind == "arrow":
        raise InvalidInputError(
            "the spark engine reads CSV and Parquet files only.", parameter="engine"
        )
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
        with _session(master, quiet) as session:
            try:
                return _sum_files(session, table, table.files, roles)
            except (PySparkException, Py4JError) as error:
                lines = [line.strip() for line in str(error).splitlines() if line.strip()]
                reason = lines[0][:300] if lines else type(error).__name__
                raise InvalidInputError(
                    f"the spark engine failed on these files ({reason}): leave --engine out to "
                    "learn which one and where.",
                    parameter="engine",
                ) from error


def _sum_files(session: Any, table: Table, files: Files, roles: Roles) -> GroupMoments:
    paths = [part.path for part in files.parts]
    if table.kind == "parquet" or any("://" in item for item in files.items):
        paths = list(files.items)  # only Spark knows how to read a directory of its own
    paths = [path if "://" in path else os.path.abspath(path) for path in paths]
    if table.kind == "parquet":
        return _sum(session.read.parquet(*paths), roles, None)
    for part in files.parts[1:]:
        if part.schema.names != table.names:
            raise InvalidInputError(
                f"{part.path}: the columns are not those of {files.parts[0].path} in the same "
                "order, and Spark reads them by position: leave --engine out.",
                parameter="engine",
            )
    separator = files.parts[0].format.parse_options.delimiter
    data = session.read.csv(paths, header=True, sep=separator, escape='"', mode="FAILFAST")
    wanted = table.role_schema(roles)
    return _sum(data, roles, {name: wanted.field(name).type for name in wanted.names})


def _sum(data: Any, roles: Roles, types: Mapping[str, pa.DataType] | None) -> GroupMoments:
    work = partial(_summarise_partition, roles=roles, types=types)
    partials = _numbered(data, roles.columns).mapInArrow(work, _SCHEMA)
    merge = partial(_merge_partition, roles=roles)
    partials = partials.repartition(MERGERS).mapInArrow(merge, _SCHEMA)
    parts = [_unpack(row["partial"]) for row in partials.collect()]
    return finish(merge_partials(parts, roles) if parts else Partial(), roles)


def transform_spark(data: Any, model: AnyModel) -> Any:
    """Append a column of doubles for each component to a Spark data frame, lazily.

    Parameters
    ----------
    data : pyspark.sql.DataFrame
        The table, with the features of the model by name.
    model : FairPCA, str or path
        As in `project_table`.

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


def arrow_schema(data: Any) -> pa.Schema:
    """Columns of a Spark data frame with their Arrow types."""
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

    columns = (F.col(quoted(name)) for name in names)
    return data.select(*(column.alias(f"c{index}") for index, column in enumerate(columns)))


def quoted(name: str) -> str:
    """Write the name of a column as Spark's expressions want it."""
    return "`" + name.replace("`", "``") + "`"


def _summarise_partition(
    batches: Iterator[pa.RecordBatch], roles: Roles, types: Mapping[str, pa.DataType] | None
) -> Iterator[pa.RecordBatch]:
    """Sum one partition; what is wrong with it travels as a value, to be said by the driver."""
    try:
        with single_blas_thread():
            named = (batch.rename_columns(list(roles.columns)) for batch in batches)
            if types is not None:
                named = (_typed_text(batch, types) for batch in named)
            equal = equal_batches(named, batch_rows(len(roles.columns)))
            yield _pack(sum_batches((Columns.of(batch, roles) for batch in equal), roles))
    except InvalidInputError as error:
        yield _pack(error)


def _typed_text(batch: pa.RecordBatch, types: Mapping[str, pa.DataType]) -> pa.RecordBatch:
    """Give columns of text, as Spark found them in a CSV file, their types."""
    absent = pa.array(CSV_MISSING)
    arrays = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        kind = types[name]
        known = pc.if_else(pc.is_in(column, absent), pa.scalar(None, column.type), column)
        try:
            is_text = kinds.is_string(kind)
            arrays.append(known if is_text else pc.utf8_trim(known, " \t").cast(kind))
        except pa.ArrowInvalid as error:
            raise InvalidInputError(
                f"column {name!r}: conversion error to {kind} ({' '.join(str(error).split())}). "
                "The types come from the start of the first file: write the column in one way."
            ) from None
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _merge_partition(batches: Iterator[pa.RecordBatch], roles: Roles) -> Iterator[pa.RecordBatch]:
    """Add partial sums as they come, so that a task holds two of them."""
    total = Partial()
    try:
        for batch in batches:
            for item in batch.column(0):
                total = merge_partials([total, _unpack(item.as_py())], roles)
        yield _pack(total)
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
