"""The way back: component columns for the rows of a table, written as they are read."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as kinds
from pyarrow import fs

from fairpca._choices import MISSING, UNKNOWN, Missing, Unknown
from fairpca._files import replacing
from fairpca._progress import Counter, Progress
from fairpca.exceptions import DroppedRowsWarning, InvalidInputError
from fairpca.linalg import single_blas_thread
from fairpca.tables._files import Source, open_filesystem, resolved
from fairpca.tables._model import AnyModel, Projection, read_model
from fairpca.tables._parquet import SUFFIXES, ParquetPart, RowGroup
from fairpca.tables._roles import Names, as_names, check_choice
from fairpca.tables._write import OUTPUTS, is_csv, open_writer
from fairpca.tables.table import Table, open_table


def project_table(
    table: Table,
    model: AnyModel,
    out: str | os.PathLike[str],
    *,
    keep: Names = (),
    force: bool = False,
    kept_first: bool = False,
    missing: Missing | None = None,
    unknown: Unknown = "error",
    safe_csv: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Write the scores of the rows of a table, in bounded memory.

    What is written is told by the name of `out`: ``.csv``, ``.csv.gz``, ``.parquet``, ``.feather``
    or ``.arrow``; any other name is a directory with the same files below it, where the table is
    a directory of Parquet files. It appears complete or not at all. Returns `out`.

    Parameters
    ----------
    table : Table
        What `open_table` returned.
    model : FairPCA, str or path
        The fitted model, or a file written by its `save` method. Rows are standardised if the
        file says so; indicator features are formed from their columns.
    out : str or path
        File or directory to write.
    keep : str or iterable of str, default ()
        Columns to copy; "*" copies all.
    force : bool, default False
        Whether what is there may be replaced.
    kept_first : bool, default False
        Whether the copied columns stand before the components instead of after them.
    missing : {"error", "drop-rows", "mean"}, optional
        What happens to rows that lack a feature; None: what the model says. Under "mean" the mean
        that the model has learned takes the place.
    unknown : {"error", "ignore"}, default "error"
        What happens to values of a categorical column that the model has not seen; "ignore"
        takes them for none of those it knows.
    safe_csv : bool, default False
        Whether text that a spreadsheet would run as a formula gets an apostrophe in front, in CSV
        files; no other program then reads what was there.
    progress : callable, optional
        As in `moments_from_parquet`.

    Examples
    --------
    >>> import os, tempfile
    >>> import pandas as pd, pyarrow as pa
    >>> from fairpca import FairPCA
    >>> from fairpca.tables import open_table, project_table
    >>> frame = pd.DataFrame({"a": [1.0, 2, 4, 3], "b": [0.0, 1, 1, 0], "z": list("xyxy")})
    >>> fair = FairPCA(1).fit(frame[["a", "b"]], sensitive_features=frame["z"])
    >>> table = open_table(pa.Table.from_pandas(frame))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     out = project_table(table, fair, os.path.join(folder, "reduced.csv"), keep="z")
    ...     list(pd.read_csv(out))
    ['fairpca0', 'z']
    """
    check_target(table, out, force=force)
    if missing is not None:
        check_choice("missing", missing, MISSING)
    check_choice("unknown", unknown, UNKNOWN)
    projection = read_model(model).bind(table.schema, missing, unknown)
    job = Job(table, projection, keep, kept_first, as_text=is_csv(out))
    if not str(out).lower().endswith(OUTPUTS):
        _write_directory(job, fs.LocalFileSystem(), Path(out).as_posix(), progress)
        return Path(out)
    with replacing(out) as beside:
        with open_writer(beside, job.schema, os.fspath(out), safe_csv) as write:
            job.run(write, progress)
        if Path(out).exists() and not force:  # it may have appeared meanwhile
            raise _exists(out, "force")
    return Path(out)


def check_target(table: Table, out: str | os.PathLike[str], *, force: bool = False) -> None:
    """Refuse what `project_table`, with these parameters, could not or must not write.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from fairpca.tables import check_target, open_table
    >>> check_target(open_table(pa.table({"a": [1.0]})), "reduced.csv")
    """
    path, name = Path(out), os.fspath(out)
    is_directory = table.listing is not None and not table.listing.single
    try:
        path.exists()
        folder = path.resolve().parent
    except (OSError, RuntimeError, ValueError) as error:  # links in a circle, too long a name
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInputError(f"{name}: {reason}.", parameter="out") from None
    if name.lower().endswith(OUTPUTS):
        if path.is_dir():
            raise InvalidInputError(f"{name} is a directory, not a file.", parameter="out")
        if path.exists() and not path.is_file():
            raise InvalidInputError(f"{name} is a device or a pipe, not a file.", parameter="out")
        _check_not_input(table, resolved(fs.LocalFileSystem(), name), name, "is the input itself")
        if path.exists() and not force:
            raise _exists(name, "force")
    elif table.kind == "parquet" and is_directory:
        _check_replaceable(table, fs.LocalFileSystem(), path.as_posix(), force, "force", False)
    else:
        raise InvalidInputError(
            f"{name}: the kind of file is told by its name: use one of {', '.join(OUTPUTS)}.",
            parameter="out",
        )
    if not folder.is_dir():
        raise InvalidInputError(
            f"{name}: the directory {folder.name!r} does not exist.", parameter="out"
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InvalidInputError(f"{name}: the directory is not writable.", parameter="out")


def transform_parquet(
    model: AnyModel,
    source: Source,
    target: str | os.PathLike[str],
    *,
    keep: Names = (),
    overwrite: bool = False,
    filesystem: Any = None,
    progress: Progress | None = None,
) -> int:
    """Write the scores of Parquet rows to Parquet, in bounded memory; return how many there are.

    A file becomes a file; a directory, or several files, become a directory with the same names
    below it and the same row groups. The target appears complete or not at all.

    Parameters
    ----------
    model, keep
        As in `project_table`; what is kept stands before the components.
    source, filesystem, progress
        As in `moments_from_parquet`.
    target : str or path
        File or directory to write, in the file system of `source` where one is given.
    overwrite : bool, default False
        Whether an existing target may be replaced.

    Examples
    --------
    >>> import os, tempfile
    >>> import pandas as pd
    >>> from fairpca import FairPCA
    >>> from fairpca.tables import transform_parquet
    >>> frame = pd.DataFrame({"a": [1.0, 2, 4, 3], "b": [0.0, 1, 1, 0]})
    >>> fair = FairPCA(1).fit(frame, sensitive_features=["x", "y", "x", "y"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     place = os.path.join(folder, "in.parquet")
    ...     frame.to_parquet(place)
    ...     rows = transform_parquet(fair, place, os.path.join(folder, "out.parquet"))
    ...     names = list(pd.read_parquet(os.path.join(folder, "out.parquet")))
    >>> rows, names
    (4, ['fairpca0'])
    """
    table = open_table(source, filesystem=filesystem, kind="parquet")
    job = Job(table, read_model(model).bind(table.schema), keep, kept_first=True)
    system, path = open_filesystem(os.fspath(target), filesystem)
    system.normalize_path(path)
    single = table.listing is not None and table.listing.single
    _check_replaceable(table, system, path, overwrite, "overwrite", single)
    _write_directory(job, system, path, progress, single=single)
    return table.n_rows or 0


class Job:
    """A table, a model bound to its columns, and the columns to write."""

    def __init__(
        self,
        table: Table,
        projection: Projection,
        keep: Names,
        kept_first: bool,
        as_text: bool = False,
    ) -> None:
        self.table = table
        self.projection = projection
        self.as_text = as_text
        self.kept = self._kept_columns(keep)
        self.kept_first = kept_first
        self.dropped = 0  # rows that lack a feature, so far
        self.types: dict[str, pa.DataType] = {}
        if table.kind == "csv":  # whole numbers at the start of a file may be followed by others
            self.types = {name: pa.float64() for _, name in self.projection.plain}
        if table.kind == "csv" and as_text:  # what is only copied stays as it was written
            copied = set(self.kept) - set(self.projection.columns)
            self.types |= dict.fromkeys(copied, pa.string())
        table.check_columns((*self.projection.columns, *self.kept))
        self.schema = self.schema_without(())

    def _kept_columns(self, keep: Names) -> tuple[str, ...]:
        names = tuple(dict.fromkeys(self.table.names if keep == "*" else as_names(keep)))
        unknown = [name for name in names if name not in self.table.names]
        if unknown:
            raise InvalidInputError(
                f"keep names {unknown}, which {self.table.name} does not have.", parameter="keep"
            )
        clash = [name for name in names if name in self.projection.output_names]
        if clash:
            raise InvalidInputError(
                f"keep names {clash}, which components are called too: column {clash[0]!r} has the "
                "name of a component, rename it, or do not keep it.",
                parameter="keep",
            )
        nested = [name for name in names if kinds.is_nested(self.table.schema.field(name).type)]
        if nested and self.as_text:
            raise InvalidInputError(
                f"keep names {nested}, whose values CSV cannot hold: write Parquet instead.",
                parameter="keep",
            )
        return names

    def schema_without(self, absent: Iterable[str]) -> pa.Schema:
        """Columns of the output, but for some of the kept ones."""
        fields = [self.table.schema.field(name) for name in self.kept if name not in absent]
        kept = [pa.field(f.name, self.types.get(f.name, f.type)) for f in fields]
        scores = [pa.field(name, pa.float64()) for name in self.projection.output_names]
        return pa.schema(kept + scores if self.kept_first else scores + kept)

    def run(self, write: Callable[[pa.Table], None], progress: Progress | None) -> None:
        """Project every unit of the table."""
        counter = Counter(self.table.n_rows, progress)
        with single_blas_thread():
            for unit in self.table.units(self.types):
                self.write_unit(unit, self.schema, write, counter)
        self.warn_of_dropped()

    def warn_of_dropped(self) -> None:
        """Say how many rows were left out."""
        if self.dropped:
            found = f"{self.dropped:,} rows lack a feature and were left out."
            warnings.warn(found, DroppedRowsWarning, stacklevel=4)

    def scored_batches(self, progress: Progress | None) -> Iterator[pa.RecordBatch]:
        """Project the rows of all units, a batch at a time."""
        columns = tuple(dict.fromkeys((*self.projection.columns, *self.kept)))
        counter = Counter(self.table.n_rows, progress)
        with single_blas_thread():
            for unit in self.table.units(self.types):
                for batch in unit.batches(columns):
                    scored = self._scored_of(unit, batch, self.schema)
                    yield scored
                    counter.add(scored.num_rows)
        self.warn_of_dropped()

    def write_unit(
        self, unit: Any, schema: pa.Schema, write: Callable[[pa.Table], None], counter: Counter
    ) -> None:
        """Project what one unit holds; a row group stays a row group."""
        copied = [name for name in schema.names if name not in self.projection.output_names]
        columns = tuple(dict.fromkeys((*self.projection.columns, *copied)))
        waiting = []
        for batch in unit.batches(columns):
            waiting.append(self._scored_of(unit, batch, schema))
            counter.add(waiting[-1].num_rows)
            if not isinstance(unit, RowGroup):
                write(pa.Table.from_batches(waiting, schema))
                waiting = []
        if waiting:
            write(pa.Table.from_batches(waiting, schema))

    def _scored_of(self, unit: Any, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        try:
            return self._scored(batch, schema)
        except InvalidInputError as error:
            raise error.at(unit.path) from None

    def _scored(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        n_rows, batch = batch.num_rows, self.projection.complete(batch)
        self.dropped += n_rows - batch.num_rows
        names, scores = self.projection.output_names, self.projection.scores(batch)
        new = dict(zip(names, scores.T, strict=True))
        arrays = [
            pa.array(new[field.name])
            if field.name in new
            else batch.column(field.name).cast(field.type)
            for field in schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _write_directory(
    job: Job, system: Any, path: str, progress: Progress | None, *, single: bool = False
) -> None:
    """Write the files of a table below a directory (or one in its place), beside it at first."""
    counter = Counter(job.table.n_rows, progress)
    with replacing(path, system) as beside, single_blas_thread():
        for part in job.table.parts:
            place = beside if single else f"{beside}/{part.file.relative}"
            _write_part(job, part, system, place, counter)
    job.warn_of_dropped()


def _write_part(job: Job, part: ParquetPart, system: Any, place: str, counter: Counter) -> None:
    """Write one file, row group by row group; its hive keys stand in its path."""
    folder = place.rpartition("/")[0]
    if folder:
        system.create_dir(folder, recursive=True)
    schema = job.schema_without(part.file.values)
    with (
        system.open_output_stream(place) as stream,
        pq.ParquetWriter(stream, schema) as writer,
    ):
        for group in range(len(part.rows)):
            unit = RowGroup(part, group, use_threads=True)
            job.write_unit(unit, schema, writer.write_table, counter)


def _check_replaceable(
    table: Table, system: Any, path: str, force: bool, word: str, single: bool
) -> None:
    """Refuse to write over the input, over what is not ours, or two files into one."""
    place = resolved(system, path)
    _check_not_input(table, place, repr(path), "is or holds the input")
    folders = () if table.listing is None else table.listing.folders
    if any(place.startswith(f"{folder}/") for folder in folders):
        raise InvalidInputError(
            f"{path!r} lies inside the input: choose another target.", parameter="out"
        )
    relative = [part.file.relative for part in table.parts]
    if not single and len(set(relative)) < len(relative):
        twice = next(name for name in relative if relative.count(name) > 1)
        raise InvalidInputError(
            f"several inputs are called {twice!r}, which would be one file in {path!r}: transform "
            "them one by one."
        )
    kind = system.get_file_info(path).type
    if kind == fs.FileType.NotFound:
        return
    if not force:
        raise _exists(repr(path), word)
    if (kind == fs.FileType.File) != single:
        other = "directory" if single else "file"
        raise InvalidInputError(f"{path!r} is a {other}, which is not replaced: remove it first.")
    if kind == fs.FileType.Directory:
        _check_only_parquet(system, path)


def _check_not_input(table: Table, place: str, name: str, what: str) -> None:
    for file in () if table.listing is None else table.listing.files:
        source = resolved(file.filesystem, file.path)
        if source == place or source.startswith(f"{place}/"):
            raise InvalidInputError(f"{name} {what}: choose another target.", parameter="out")


def _exists(path: str | os.PathLike[str], word: str) -> InvalidInputError:
    return InvalidInputError(
        f"{os.fspath(path)} exists already: remove it, or use {word}=True.", parameter="out"
    )


def _check_only_parquet(system: Any, path: str) -> None:
    """Refuse to remove a directory that holds anything but tables."""
    for info in system.get_file_info(fs.FileSelector(path, recursive=True)):
        if info.type == fs.FileType.File and not info.path.lower().endswith(SUFFIXES):
            raise InvalidInputError(
                f"{path!r} holds {info.base_name!r}, which is no Parquet file: it is not replaced, "
                "remove it first."
            )
