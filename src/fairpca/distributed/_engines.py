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
from fairpca.distributed._plan import Names, as_names, make_plan
from fairpca.distributed._progress import Progress
from fairpca.distributed._spark import moments_from_spark
from fairpca.distributed._stream import (
    check_same_columns,
    default_threads,
    in_order,
    open_part,
)
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

    def check() -> None:
        if kind == "parquet":
            _check_parquet(files, sensitive, options)
        else:
            _check_headers(files, separator, sensitive, options, by_position=engine == "spark")

    if engine == "dask":
        with dask_client(scheduler), explained("dask"):
            check()
            return moments_from_dask(_dask_table(paths, kind, separator), sensitive, **options)
    with spark_session(master) as session, explained("spark"):
        check()
        return moments_from_spark(
            _spark_table(session, paths, kind, separator), sensitive, **options
        )


def _check_parquet(files: list[DataFile], sensitive: Names, options: dict[str, Any]) -> None:
    """Name the file that does not fit the others, which the other engines do not, or not well."""
    parts = list(in_order(open_part, files, default_threads()))
    plan = make_plan(parts[0].schema, sensitive, **options)
    for part in parts[1:]:
        check_same_columns(parts[0], part, plan.columns)


def _check_headers(
    files: list[DataFile],
    separator: str,
    sensitive: Names,
    options: dict[str, Any],
    *,
    by_position: bool,
) -> None:
    """Name the CSV file whose columns are not those of the first."""
    first = csv_columns(files[0], separator)
    needed = set(first)
    if options.get("features") is not None:
        parts = (sensitive, *map(options.get, ("features", "control", "weight", "categorical")))
        needed = {name for part in parts for name in as_names(part)}
    for file in files[1:]:
        columns = csv_columns(file, separator)
        absent = [name for name in first if name in needed and name not in columns]
        if absent:
            raise InvalidInputError(
                f"{file.path}: column {absent[0]!r} is missing, which {files[0].path} has."
            )
        if by_position and columns != first:
            raise InvalidInputError(
                f"{file.path}: the columns are in another order, or more, than in "
                f"{files[0].path}, and Spark reads them by position: use engine='local'."
            )


@contextmanager
def explained(engine: str) -> Iterator[None]:
    """Turn what an engine says of unreadable files into one line.

    Parameters
    ----------
    engine : {"dask", "spark"}
        Whose errors to expect.
    """
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
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
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
    try:
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


def _dask_table(paths: list[str], kind: str, separator: str) -> Any:
    import dask.dataframe as dd

    if kind == "parquet":
        return dd.read_parquet(paths if len(paths) > 1 else paths[0])
    packed = any(path.lower().endswith((".gz", ".bz2", ".zst")) for path in paths)
    # A packed file cannot be cut into blocks.
    return dd.read_csv(paths, sep=separator, blocksize=None if packed else "default")


def _spark_table(session: Any, paths: list[str], kind: str, separator: str) -> Any:
    paths = [path if "://" in path else os.path.abspath(path) for path in paths]
    if kind == "parquet":
        return session.read.parquet(*paths)
    # Spark infers the types of CSV columns by a pass of its own.
    return session.read.csv(paths, header=True, inferSchema=True, sep=separator)
