"""Moments of files, by name and by engine."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Unpack

from fairpca._choices import ENGINES, Engine
from fairpca._progress import Progress
from fairpca.exceptions import InvalidInputError
from fairpca.moments import GroupMoments
from fairpca.tables._dask import moments_by_dask
from fairpca.tables._files import Source
from fairpca.tables._roles import Names, RoleOptions, Roles, check_choice
from fairpca.tables._spark import moments_by_spark, spark_session
from fairpca.tables._stream import open_stream
from fairpca.tables.table import Table, open_table


def moments_from_parquet(
    source: Source,
    sensitive: Names,
    features: Names = None,
    control: Names = None,
    weight: str | None = None,
    *,
    filesystem: Any = None,
    threads: int | None = None,
    progress: Progress | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_seconds: float = 5.0,
    **options: Unpack[RoleOptions],
) -> GroupMoments:
    """Sum the rows of Parquet files in one pass, in memory that does not grow with them.

    The moments are what `GroupMoments.from_arrays` gives for the same rows, but for rounding.

    Parameters
    ----------
    source : str, path or iterable of them
        Files, globs, directories (with ``key=value`` directories as columns) or addresses that
        pyarrow knows, such as ``s3://bucket/table``.
    sensitive : str or iterable of str
        Protected attributes. Their groups are found on the way.
    features : iterable of str, optional
        Features; None: every column that has no other part. Other columns are not read.
    control : str or iterable of str, optional
        Strata.
    weight : str, optional
        Column of weights ≥ 0; rows of weight zero are left out altogether.
    filesystem : pyarrow or fsspec file system, optional
        Where plain paths lie; None: the local disk.
    threads : int, optional
        Row groups that are read and summed at the same time; None: one for each core, at most 8.
        Fewer where the table is so wide that their readers would be felt in memory. The result
        does not depend on it.
    progress : callable, optional
        Called with the rows done and, where it is known, the rows in all.
    checkpoint : str or path, optional
        Directory in which the sums so far are kept, so that a pass that was interrupted, or that
        met a damaged file, goes on where it stopped when called again. Removed at the end.
    checkpoint_seconds : float, default 5.0
        Shortest time between two states on disk; 0 keeps one after every row group.
    **options
        numeric : iterable of str
            Sensitive columns that are numbers whatever their type.
        categorical : iterable of str
            Features that become one indicator ``column=value`` for each of their values.
        missing : {"error", "drop-rows", "mean"}, default "error"
            "error" counts the missing values of all columns and raises; "drop-rows" leaves the
            rows out and warns with their number; "mean" counts a missing feature (a missing
            category as well) as its mean over all rows, never over a group, and warns too.
        missing_groups : {"raise", "own"}, default "raise"
            What a row without a group (or stratum) is: an error, unless `missing` drops it, or one
            of a group called missing.
        max_cells : int, default 1000
            Largest number of distinct combinations of groups.
        max_levels : int, default 1000
            Largest number of values of a categorical feature.
        folds : int, default 0
            Sum the rows by fold, in the same pass, and return `FoldedMoments`; 0: all together.

    Raises
    ------
    InvalidInputError
        Naming the file where one cannot be read, lacks a column or has another type.

    Examples
    --------
    >>> import os, tempfile
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> from fairpca.tables import moments_from_parquet
    >>> table = pa.table({"height": [1.6, 1.8, 1.7], "sex": ["f", "m", "f"]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pq.write_table(table, os.path.join(folder, "people.parquet"))
    ...     moments = moments_from_parquet(folder, sensitive=["sex"])
    >>> moments.n_samples, moments.feature_names, moments.levels("sex")
    (3, ('height',), ('f', 'm'))
    """
    table = open_table(source, filesystem=filesystem, kind="parquet")
    roles = table.assign(sensitive, features, control, weight, **options)
    return table.moments(
        roles,
        progress=progress,
        checkpoint=checkpoint,
        checkpoint_seconds=checkpoint_seconds,
        threads=threads,
    )


def moments_from_csv(
    source: Source,
    sensitive: Names,
    features: Names = None,
    control: Names = None,
    weight: str | None = None,
    *,
    separator: str = ",",
    types: Mapping[str, str] | None = None,
    filesystem: Any = None,
    progress: Progress | None = None,
    **options: Unpack[RoleOptions],
) -> GroupMoments:
    r"""Sum the rows of CSV files in one pass, in memory that does not grow with them.

    The types of the columns are inferred from the first 8 MB of the first file and hold for all;
    number features are always read as floats. Empty fields, NA, NaN, None, null and the like are
    missing values.

    Parameters
    ----------
    source : str, path or iterable of them
        Files (``.gz``, ``.bz2`` and ``.zst`` are unpacked on the way), globs, directories or
        addresses, with a header line.
    separator : str, default ","
        Between the fields.
    types : mapping, optional
        Arrow types by column where the start of the file misleads, such as ``{"zip": "string"}``.
    sensitive, features, control, weight, filesystem, progress, **options
        As in `moments_from_parquet`.

    Examples
    --------
    >>> import os, tempfile
    >>> from pathlib import Path
    >>> from fairpca.tables import moments_from_csv
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "people.csv")
    ...     _ = file.write_text("height,sex\n1.6,f\n1.8,m\n")
    ...     moments = moments_from_csv(file, sensitive="sex")
    >>> moments.n_samples, moments.levels("sex")
    (2, ('f', 'm'))
    """
    table = open_table(source, separator=separator, types=types, filesystem=filesystem, kind="csv")
    roles = table.assign(sensitive, features, control, weight, **options)
    return table.moments(roles, progress=progress)


def moments_from_arrow(
    source: Any,
    sensitive: Names,
    features: Names = None,
    control: Names = None,
    weight: str | None = None,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_seconds: float = 5.0,
    **options: Unpack[RoleOptions],
) -> GroupMoments:
    """Sum the rows of an Arrow stream in one pass, in memory that does not grow with them.

    Batches are cut to one size and added in order, so that the same rows in the same order give
    the same bits, whichever engine they come from and however it was scheduled.

    Parameters
    ----------
    source : object with ``__arrow_c_stream__``, polars LazyFrame, ADBC cursor or callable
        A pyarrow reader, table or dataset, a frame of pandas or polars, a DuckDB relation, a cursor
        whose query has been run. A LazyFrame runs in the streaming engine of polars. A function
        without arguments is called to open the stream, each time that it is needed.
    checkpoint, checkpoint_seconds
        As in `moments_from_parquet`, for what can be read again in the same order: tables, frames,
        datasets, queries of polars and DuckDB, and functions. The last batch that was summed is
        read again and must give the same sums.
    sensitive, features, control, weight, threads, progress, **options
        As in `moments_from_parquet`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from fairpca.tables import moments_from_arrow
    >>> table = pa.table({"height": [1.6, 1.8, 1.7], "sex": ["f", "m", "f"]})
    >>> moments_from_arrow(table.to_reader(), sensitive=["sex"]).levels("sex")
    ('f', 'm')
    """
    stream = None if isinstance(source, str | os.PathLike) else open_stream(source)
    if stream is None:
        raise InvalidInputError(
            f"source is a {type(source).__name__}: give what has __arrow_c_stream__, a polars "
            "LazyFrame, an ADBC cursor, or a function that returns one of them.",
            parameter="source",
        )
    table = open_table(stream)
    roles = table.assign(sensitive, features, control, weight, **options)
    return table.moments(
        roles,
        progress=progress,
        checkpoint=checkpoint,
        checkpoint_seconds=checkpoint_seconds,
        threads=threads,
    )


def moments_from_files(
    source: Source | Table,
    sensitive: Names,
    *,
    engine: Engine = "local",
    scheduler: str | None = None,
    master: str | None = None,
    separator: str = ",",
    progress: Progress | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    features: Names = None,
    control: Names = None,
    weight: str | None = None,
    **options: Unpack[RoleOptions],
) -> GroupMoments:
    r"""Sum the rows of CSV or Parquet files with the engine of choice.

    Parameters
    ----------
    source : str, path or iterable of them
        Files, globs, directories or addresses, all CSV or all Parquet, told by their names; or a
        table that `open_table` has opened.
    engine : {"local", "dask", "spark"}, default "local"
        "local" streams in this process; "dask" and "spark" hand the reading to them.
    scheduler : str, optional
        Address of a Dask scheduler; None: threads of this process.
    master : str, optional
        Address of a Spark master; None: ``local[*]``.
    separator : str, default ","
        Between the fields of a CSV file.
    progress, checkpoint
        As in `moments_from_parquet`; local engine only.
    sensitive, features, control, weight, **options
        As in `moments_from_parquet`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fairpca.tables import moments_from_files
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "people.csv")
    ...     _ = file.write_text("height,sex\n1.6,f\n1.8,m\n")
    ...     moments_from_files(file, "sex").n_samples
    2
    """
    table = open_table(source, separator=separator)
    _check_engine(engine, table, checkpoint)
    return moments_from_table(
        table,
        table.assign(sensitive, features, control, weight, **options),
        engine=engine,
        scheduler=scheduler,
        master=master,
        progress=progress,
        checkpoint=checkpoint,
    )


def moments_from_table(
    table: Table,
    roles: Roles,
    *,
    engine: Engine = "local",
    scheduler: str | None = None,
    master: str | None = None,
    progress: Progress | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    quiet: bool = False,
) -> GroupMoments:
    """Sum the rows of an open table with the engine of choice.

    Parameters
    ----------
    table : Table
        What `open_table` returned.
    roles : Roles
        What its `assign` returned.
    engine, scheduler, master, progress, checkpoint
        As in `moments_from_files`.
    quiet : bool, default False
        Whether the log lines of a Spark that is started here are kept off standard error.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from fairpca.tables import moments_from_table, open_table
    >>> table = open_table(pa.table({"height": [1.6, 1.8], "sex": ["f", "m"]}))
    >>> moments_from_table(table, table.assign("sex")).levels("sex")
    ('f', 'm')
    """
    with warnings.catch_warnings():
        if quiet:  # pyspark complains of the versions of others when it is imported
            warnings.filterwarnings("ignore", module="pyspark")
        _check_engine(engine, table, checkpoint)
        if engine == "spark":
            with spark_session(master, quiet) as session, _explained("spark"):
                return moments_by_spark(session, table, roles)
    if engine == "dask":
        with _dask_client(scheduler), _explained("dask"):
            return moments_by_dask(table, roles)
    return table.moments(roles, progress=progress, checkpoint=checkpoint)


def _check_engine(engine: str, table: Table, checkpoint: Any) -> None:
    """Refuse an engine that is not known, not installed, or that keeps no checkpoints."""
    check_choice("engine", engine, ENGINES)
    if engine == "spark" and table.kind == "arrow":
        raise InvalidInputError(
            "engine='spark' reads CSV and Parquet files only.", parameter="engine"
        )
    if engine != "local" and table.listing is None:
        raise InvalidInputError(f"engine={engine!r} reads files only.", parameter="engine")
    if checkpoint is not None and engine != "local":
        raise InvalidInputError("checkpoint needs engine='local'.", parameter="checkpoint")
    if checkpoint is not None:
        table.check_repeatable()
    try:
        if engine == "dask":
            import dask.dataframe  # noqa: F401
        elif engine == "spark":
            import pyspark.sql  # noqa: F401
    except ImportError:
        java = " and Java 17 or 21" if engine == "spark" else ""
        raise InvalidInputError(
            f"the {engine} engine needs: pip install 'fairpca[{engine}]'{java}.", parameter="engine"
        ) from None


def column_names(source: Source, separator: str = ",") -> list[str]:
    r"""Names of the columns of files, hive keys included; parameters as in `moments_from_files`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fairpca.tables import column_names
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "people.csv")
    ...     _ = file.write_text("height,sex\n1.6,f\n")
    ...     column_names(file)
    ['height', 'sex']
    """
    return open_table(source, separator=separator).names


@contextmanager
def _explained(engine: str) -> Iterator[None]:
    """Turn what an engine says of unreadable files into one line."""
    expected: tuple[type[Exception], ...] = (ValueError, KeyError, TypeError, OSError)
    if engine == "spark":
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        expected = (PySparkException, Py4JError)
    try:
        yield
    except InvalidInputError:
        raise
    except expected as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = lines[0][:300] if lines else type(error).__name__
        raise InvalidInputError(
            f"the {engine} engine failed on these files ({reason}): engine='local' says which one "
            "and where."
        ) from error


@contextmanager
def _dask_client(scheduler: str | None) -> Iterator[Any]:
    """Connect to a Dask scheduler for as long as the block lasts; None: whatever is active."""
    if scheduler is None:
        yield None
        return
    from distributed import Client

    try:
        client = Client(scheduler, timeout=30)
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"no Dask scheduler answers at {scheduler!r} ({error}).") from None
    with client:
        yield client
