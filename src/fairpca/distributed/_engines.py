"""One call for files and any engine, for the command line and for scripts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from fairpca.distributed._csv import SUFFIXES as CSV_SUFFIXES
from fairpca.distributed._csv import csv_columns, moments_from_csv
from fairpca.distributed._dask import moments_from_dask
from fairpca.distributed._files import DataFile, Source, find_files
from fairpca.distributed._parquet import SUFFIXES as PARQUET_SUFFIXES
from fairpca.distributed._parquet import moments_from_parquet
from fairpca.distributed._plan import Names
from fairpca.distributed._progress import Progress
from fairpca.distributed._spark import moments_from_spark
from fairpca.distributed._stream import open_part
from fairpca.exceptions import InvalidInputError
from fairpca.moments import GroupMoments

Engine = Literal["local", "dask", "spark"]


def moments_from_files(
    source: Source,
    sensitive: Names,
    *,
    engine: Engine = "local",
    scheduler: str | None = None,
    master: str | None = None,
    separator: str = ",",
    progress: Progress = False,
    checkpoint: str | os.PathLike[str] | None = None,
    **options: Any,
) -> GroupMoments:
    r"""Sum the rows of CSV or Parquet files with the engine of choice.

    Parameters
    ----------
    source : str, path or iterable of them
        Files, globs, directories or addresses, all CSV or all Parquet, told by their names.
    sensitive : str or iterable of str
        Protected attributes.
    engine : {"local", "dask", "spark"}, default "local"
        "local" streams in this process; "dask" and "spark" hand the reading to them.
    scheduler : str, optional
        Address of a Dask scheduler; None: threads of this process.
    master : str, optional
        Address of a Spark master; None: ``local[*]``.
    separator : str, default ","
        Between the fields of a CSV file.
    progress : bool or callable, default False
        As in `moments_from_parquet`; local engine only.
    checkpoint : str or path, optional
        As in `moments_from_parquet`; local engine and Parquet only.
    **options
        features, control, weight, numeric, categorical, missing, max_cells and max_levels, as in
        `moments_from_parquet`.

    Returns
    -------
    GroupMoments
        The moments.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fairpca.distributed import moments_from_files
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "people.csv")
    ...     _ = file.write_text("height,sex\n1.6,f\n1.8,m\n")
    ...     moments_from_files(file, "sex").n_samples
    2
    """
    files = find_files(source, (*PARQUET_SUFFIXES, *CSV_SUFFIXES))
    kind = _kind(files)
    if engine not in ("local", "dask", "spark"):
        raise InvalidInputError(f"engine={engine!r}: use 'local', 'dask' or 'spark'.")
    if checkpoint is not None and (engine, kind) != ("local", "parquet"):
        raise InvalidInputError("checkpoint needs engine='local' and Parquet files.")
    if engine == "local" and kind == "parquet":
        return moments_from_parquet(
            source, sensitive, progress=progress, checkpoint=checkpoint, **options
        )
    if engine == "local":
        return moments_from_csv(
            source, sensitive, separator=separator, progress=progress, **options
        )
    paths = _plain_paths(source, files, kind)
    if engine == "dask":
        with dask_client(scheduler):
            return moments_from_dask(_dask_table(paths, kind, separator), sensitive, **options)
    with spark_session(master) as session:
        return moments_from_spark(
            _spark_table(session, paths, kind, separator), sensitive, **options
        )


def _kind(files: list[DataFile]) -> str:
    """Tell CSV from Parquet by the names; both together have no common types."""
    csv = [file for file in files if file.path.lower().endswith(CSV_SUFFIXES)]
    if csv and len(csv) < len(files):
        other = next(file for file in files if file not in csv)
        raise InvalidInputError(
            f"{csv[0].path} is CSV and {other.path} is not: give files of one kind."
        )
    return "csv" if csv else "parquet"


def _plain_paths(source: Source, files: list[DataFile], kind: str) -> list[str]:
    """Paths as the other engines take them; only they know how to read a Parquet directory."""
    items = [source] if isinstance(source, str | os.PathLike) else list(source)
    paths = [os.fspath(item) for item in items]
    if kind == "csv" and not any("://" in path for path in paths):
        return [file.path for file in files]
    return paths


def column_names(source: Source, separator: str = ",") -> list[str]:
    """Names of the columns of CSV or Parquet files, without reading any rows.

    Parameters
    ----------
    source : str, path or iterable of them
        As in `moments_from_files`.
    separator : str, default ","
        Between the fields of a CSV file.

    Returns
    -------
    list of str
        The columns of the first file, hive keys included.
    """
    files = find_files(source, (*PARQUET_SUFFIXES, *CSV_SUFFIXES))
    if _kind(files) == "parquet":
        return list(open_part(files[0]).schema.names)
    return csv_columns(files[0], separator)


@contextmanager
def dask_client(scheduler: str | None) -> Iterator[Any]:
    """Connect to a Dask scheduler for as long as the block lasts.

    Parameters
    ----------
    scheduler : str or None
        Its address; None: whatever scheduler is active, threads by default.

    Yields
    ------
    distributed.Client or None
        The connection.
    """
    try:
        import dask.dataframe  # noqa: F401
    except ImportError:
        raise InvalidInputError("the dask engine needs: pip install 'fairpca[dask]'") from None
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


@contextmanager
def spark_session(master: str | None) -> Iterator[Any]:
    """Open a Spark session, or use the one that is active.

    Parameters
    ----------
    master : str or None
        Address of the master; None: ``local[*]``.

    Yields
    ------
    pyspark.sql.SparkSession
        The session; stopped at the end if it was opened here.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise InvalidInputError(
            "the spark engine needs: pip install 'fairpca[spark]' and Java 17 or 21."
        ) from None
    active = SparkSession.getActiveSession()
    if active is not None and master is None:
        yield active
        return
    import sys

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master or "local[*]").appName("fairpca")
    session = builder.config("spark.ui.enabled", "false").getOrCreate()
    try:
        yield session
    finally:
        if active is None:
            session.stop()


def _dask_table(paths: list[str], kind: str, separator: str) -> Any:
    import dask.dataframe as dd

    if kind == "parquet":
        return dd.read_parquet(paths if len(paths) > 1 else paths[0])
    return dd.read_csv(paths, sep=separator)


def _spark_table(session: Any, paths: list[str], kind: str, separator: str) -> Any:
    paths = [path if "://" in path else os.path.abspath(path) for path in paths]
    if kind == "parquet":
        return session.read.parquet(*paths)
    # Spark infers the types of CSV columns by a pass of its own.
    return session.read.csv(paths, header=True, inferSchema=True, sep=separator)
