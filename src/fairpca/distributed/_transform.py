"""Component columns for Parquet files, written as they are read."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from fairpca.distributed._csv import SUFFIXES as CSV_SUFFIXES
from fairpca.distributed._files import DataFile, Source, find_files, open_filesystem, resolved
from fairpca.distributed._model import AnyModel, Projection, read_model
from fairpca.distributed._parquet import SUFFIXES
from fairpca.distributed._plan import Names
from fairpca.distributed._progress import Bar, Progress
from fairpca.distributed._stream import (
    ParquetPart,
    check_same_columns,
    default_threads,
    in_order,
    open_part,
    row_group_batches,
)
from fairpca.exceptions import InvalidInputError
from fairpca.linalg import single_blas_thread


def transform_parquet(
    model: AnyModel,
    source: Source,
    target: str | os.PathLike[str],
    *,
    keep: Names = (),
    overwrite: bool = False,
    filesystem: Any = None,
    progress: Progress = False,
) -> int:
    """Write the scores of Parquet rows to Parquet, in bounded memory.

    A file becomes a file; a directory, or several files, become a directory with the same names
    below it and the same row groups. The target appears complete or not at all.

    Parameters
    ----------
    model : FairPCA, SavedModel, str or path
        The fitted model, or a file written by its `save` method. Rows are standardised if the
        file says so; indicator features are formed from their columns.
    source : str, path or iterable of them
        As in `moments_from_parquet`.
    target : str or path
        File or directory to write, in the file system of `source` where one is given.
    keep : iterable of str, default ()
        Columns to copy, before the components. "*" copies all.
    overwrite : bool, default False
        Whether an existing target may be replaced.
    filesystem : pyarrow or fsspec file system, optional
        Where plain paths lie; None: the local disk.
    progress : bool or callable, default False
        As in `moments_from_parquet`.

    Returns
    -------
    int
        Rows written.

    Examples
    --------
    >>> import os, tempfile
    >>> import pandas as pd
    >>> from fairpca import FairPCA
    >>> from fairpca.distributed import transform_parquet
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
    files = find_files(source, SUFFIXES, filesystem)
    for file in files:
        if file.path.lower().endswith(CSV_SUFFIXES):
            raise InvalidInputError(f"{file.path} is CSV: only Parquet files are transformed.")
    parts = list(in_order(open_part, files, default_threads()))
    projection = read_model(model).bind(parts[0].schema)
    kept = _kept_columns(keep, parts[0], projection)
    for part in parts[1:]:
        check_same_columns(parts[0], part, (*projection.columns, *kept))
    system, path = open_filesystem(os.fspath(target), filesystem)
    system.normalize_path(path)
    single, folders = _source_kind(source, filesystem)
    _check_target(system, path, files, folders, overwrite, single)
    beside = _beside(path)
    try:
        with Bar(sum(sum(part.rows) for part in parts), progress) as bar, single_blas_thread():
            for part in parts:
                place = beside if single else f"{beside}/{part.file.relative}"
                _write_part(part, projection, kept, system, place, bar.add)
        _replace(system, beside, path)
    finally:
        _remove(system, beside)
    return sum(sum(part.rows) for part in parts)


def _kept_columns(keep: Names, part: ParquetPart, projection: Projection) -> tuple[str, ...]:
    """Check the columns to copy."""
    if keep == "*":
        keep = part.schema.names
    kept = (keep,) if isinstance(keep, str) else tuple(dict.fromkeys(keep or ()))
    unknown = [name for name in kept if name not in part.schema.names]
    if unknown:
        raise InvalidInputError(f"keep names {unknown}, which {part.file.path} does not have.")
    clash = [name for name in kept if name in projection.output_names]
    if clash:
        raise InvalidInputError(f"keep names {clash}, which components are called too.")
    return kept


def _source_kind(source: Source, filesystem: Any) -> tuple[bool, list[str]]:
    """Tell whether the source is one file, and which directories it names."""
    items = [source] if isinstance(source, str | os.PathLike) else list(source)
    places = [open_filesystem(os.fspath(item), filesystem) for item in items]
    kinds = [system.get_file_info(path).type for system, path in places]
    folders = [
        resolved(*place)
        for place, kind in zip(places, kinds, strict=True)
        if kind == fs.FileType.Directory
    ]
    return kinds == [fs.FileType.File], folders


def _check_target(
    system: Any,
    path: str,
    files: list[DataFile],
    folders: list[str],
    overwrite: bool,
    single: bool,
) -> None:
    """Refuse to write over the input, over what is not ours, or two files into one."""
    place = resolved(system, path)
    for file in files:
        source = resolved(file.filesystem, file.path)
        if source == place or source.startswith(f"{place}/"):
            raise InvalidInputError(f"{path!r} is or holds the input: choose another target.")
    if any(place.startswith(f"{folder}/") for folder in folders):
        raise InvalidInputError(f"{path!r} lies inside the input: choose another target.")
    relative = [file.relative for file in files]
    if not single and len(set(relative)) < len(relative):
        twice = next(name for name in relative if relative.count(name) > 1)
        raise InvalidInputError(
            f"several inputs are called {twice!r}, which would be one file in {path!r}: transform "
            "them one by one."
        )
    kind = system.get_file_info(path).type
    if kind == fs.FileType.NotFound:
        return
    if not overwrite:
        raise InvalidInputError(f"{path!r} exists already: remove it, or use overwrite=True.")
    if (kind == fs.FileType.File) != single:
        other = "directory" if single else "file"
        raise InvalidInputError(f"{path!r} is a {other}, which is not replaced: remove it first.")
    if kind == fs.FileType.Directory:
        _check_only_parquet(system, path)


def _check_only_parquet(system: Any, path: str) -> None:
    """Refuse to remove a directory that holds anything but tables."""
    for info in system.get_file_info(fs.FileSelector(path, recursive=True)):
        if info.type == fs.FileType.File and not info.path.lower().endswith(SUFFIXES):
            raise InvalidInputError(
                f"{path!r} holds {info.base_name!r}, which is no Parquet file: it is not replaced, "
                "remove it first."
            )


def _beside(path: str) -> str:
    """Name for the output while it is incomplete, in the same directory."""
    folder, _, name = path.rpartition("/")
    hidden = f".{name}.{uuid.uuid4().hex[:8]}.part"
    return f"{folder}/{hidden}" if folder else hidden


def _write_part(
    part: ParquetPart,
    projection: Projection,
    kept: tuple[str, ...],
    system: Any,
    place: str,
    done: Callable[[int], None],
) -> None:
    """Write one file, row group by row group."""
    folder = place.rpartition("/")[0]
    if folder:
        system.create_dir(folder, recursive=True)
    copied = [name for name in kept if name not in part.file.values]
    fields = [part.schema.field(name) for name in copied]
    fields += [pa.field(name, pa.float64()) for name in projection.output_names]
    schema = pa.schema(fields)
    columns = tuple(dict.fromkeys((*projection.columns, *copied)))
    with (
        system.open_output_stream(place) as stream,
        pq.ParquetWriter(stream, schema) as writer,
    ):
        for group in range(len(part.rows)):
            batches = []
            for batch in row_group_batches(part, group, columns, use_threads=True):
                batches.append(_scored(batch, projection, schema, part))
                done(batch.num_rows)
            writer.write_table(pa.Table.from_batches(batches, schema))


def _scored(
    batch: pa.RecordBatch, projection: Projection, schema: pa.Schema, part: ParquetPart
) -> pa.RecordBatch:
    try:
        scores = projection.scores(batch)
    except InvalidInputError as error:
        raise InvalidInputError(f"{part.file.path}: {error}") from None
    new = dict(zip(projection.output_names, scores.T, strict=True))
    arrays = [
        pa.array(new[field.name])
        if field.name in new
        else batch.column(field.name).cast(field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _replace(system: Any, beside: str, path: str) -> None:
    """Move the finished output into place; what was there goes only after that."""
    old = _beside(path)
    exists = system.get_file_info(path).type != fs.FileType.NotFound
    if exists:
        system.move(path, old)
    try:
        system.move(beside, path)
    except BaseException:
        if exists:
            system.move(old, path)
        raise
    _remove(system, old)


def _remove(system: Any, path: str) -> None:
    kind = system.get_file_info(path).type
    if kind == fs.FileType.File:
        system.delete_file(path)
    elif kind == fs.FileType.Directory:
        system.delete_dir(path)
