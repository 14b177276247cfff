"""Row groups of Parquet files as Arrow batches, and work on them by several threads in order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as kinds

from fairpca.distributed._files import DataFile
from fairpca.distributed._kernel import batch_rows
from fairpca.exceptions import InvalidInputError

Item = TypeVar("Item")
Result = TypeVar("Result")

# Bytes read ahead in each column. Without a buffer Arrow holds the whole column chunks of a row
# group, which grows with whatever the writer chose.
BUFFER_BYTES = 1 << 16
MAX_THREADS = 8

# What all readers together may hold. A reader holds a page of every column, which the writer chose
# (a megabyte as a rule), so that tables of very many columns are read by fewer threads.
READER_BYTES = 300 << 20
PAGE_BYTES = 1 << 20
READ_ERRORS = (pa.ArrowException, OSError, EOFError)


@dataclass(frozen=True)
class ParquetPart:
    """A file whose footer has been read.

    Parameters
    ----------
    file : DataFile
        The file.
    schema : pyarrow.Schema
        Its columns, hive keys included.
    rows : tuple of int
        Rows of each row group.
    keys : frozenset of str
        Columns of the schema that are hive keys only.
    """

    file: DataFile
    schema: Any
    rows: tuple[int, ...]
    keys: frozenset[str]


def default_threads() -> int:
    """Cores that this process may use, at most `MAX_THREADS`.

    Returns
    -------
    int
        At least one.
    """
    if hasattr(os, "sched_getaffinity"):
        return min(len(os.sched_getaffinity(0)), MAX_THREADS)
    return min(os.cpu_count() or 1, MAX_THREADS)


def affordable_threads(part: ParquetPart, columns: Iterable[str], threads: int) -> int:
    """Reduce the number of threads until their readers fit the memory set aside for them.

    Parameters
    ----------
    part : ParquetPart
        A file that stands for all.
    columns : iterable of str
        Columns that are read.
    threads : int
        Threads asked for.

    Returns
    -------
    int
        At least one.
    """
    wanted = set(columns)
    metadata = _metadata(part.file)
    largest = 0
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        chunks = (group.column(place) for place in range(group.num_columns))
        held = sum(
            min(chunk.total_uncompressed_size, PAGE_BYTES)
            for chunk in chunks
            if chunk.path_in_schema in wanted
        )
        largest = max(largest, held)
    return max(min(threads, READER_BYTES // max(largest, 1)), 1)


def unreadable(path: str, what: str, error: BaseException) -> InvalidInputError:
    """Say that a file cannot be read.

    Parameters
    ----------
    path : str
        The file.
    what : str
        Which part of it.
    error : BaseException
        What the reader said.

    Returns
    -------
    InvalidInputError
        The error to raise.
    """
    reason = " ".join(str(error).split()) or type(error).__name__
    return InvalidInputError(f"{path}: {what} cannot be read ({reason}): mend or remove the file.")


class _HashableFile:
    """A file as the key of a cache; pyarrow's file systems have no hash."""

    def __init__(self, file: DataFile) -> None:
        self.file = file
        self.key = (id(file.filesystem), *file.fingerprint)

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _HashableFile) and self.key == other.key


@lru_cache(maxsize=8)
def _read_footer(wrapped: _HashableFile) -> Any:
    """Footer of a file; a few are kept, since every row group asks for it."""
    with wrapped.file.filesystem.open_input_file(wrapped.file.path) as handle:
        return pq.read_metadata(handle)


def _metadata(file: DataFile) -> Any:
    return _read_footer(_HashableFile(file))


def open_part(file: DataFile) -> ParquetPart:
    """Read the footer of a file.

    Parameters
    ----------
    file : DataFile
        The file.

    Returns
    -------
    ParquetPart
        Its schema and row groups.
    """
    try:
        metadata = _metadata(file)
        schema = metadata.schema.to_arrow_schema()
    except READ_ERRORS as error:
        raise unreadable(file.path, "the file", error) from None
    keys = [key for key in file.keys if key.name not in schema.names]
    for key in keys:
        schema = schema.append(key)
    rows = tuple(metadata.row_group(index).num_rows for index in range(metadata.num_row_groups))
    return ParquetPart(file, schema, rows, frozenset(key.name for key in keys))


def check_same_columns(first: ParquetPart, other: ParquetPart, columns: Iterable[str]) -> None:
    """Refuse a file whose columns are not those of the first.

    Parameters
    ----------
    first, other : ParquetPart
        The files.
    columns : iterable of str
        Columns that are read.
    """
    for name in columns:
        if name not in other.schema.names:
            raise InvalidInputError(
                f"{other.file.path}: column {name!r} is missing, which {first.file.path} has."
            )
        ours, theirs = (_type_name(part.schema.field(name).type) for part in (first, other))
        if ours != theirs:
            raise InvalidInputError(
                f"{other.file.path}: column {name!r} is {theirs}, but {ours} in "
                f"{first.file.path}: write both with the same type."
            )


def _type_name(kind: pa.DataType) -> str:
    """Name of a type; the ways to store text are one."""
    inner = kind.value_type if kinds.is_dictionary(kind) else kind
    if kinds.is_string(inner) or kinds.is_large_string(inner) or kinds.is_string_view(inner):
        return "string"
    return str(kind)


def row_group_batches(
    part: ParquetPart, group: int, columns: Iterable[str], *, use_threads: bool = False
) -> Iterator[pa.RecordBatch]:
    """Read the columns of one row group, a batch at a time.

    Parameters
    ----------
    part : ParquetPart
        The file.
    group : int
        Number of the row group.
    columns : iterable of str
        Columns to read; hive keys are filled in.
    use_threads : bool, default False
        Whether Arrow decodes the columns of a batch in parallel.

    Yields
    ------
    pyarrow.RecordBatch
        The rows in order.
    """
    file, wanted = part.file, list(columns)
    stored = [name for name in wanted if name not in part.keys]
    # Text stays coded as it is in the file: no string is made for any row.
    text = [name for name in stored if _type_name(part.schema.field(name).type) == "string"]
    try:
        metadata = _metadata(file)
        with file.filesystem.open_input_file(file.path) as handle:
            reader = pq.ParquetFile(
                handle,
                metadata=metadata,
                read_dictionary=text,
                buffer_size=BUFFER_BYTES,
                pre_buffer=False,
                page_checksum_verification=True,
            )
            for batch in reader.iter_batches(
                batch_rows(len(wanted)), [group], stored, use_threads=use_threads
            ):
                yield batch if stored == wanted else _with_keys(batch, part, wanted)
    except READ_ERRORS as error:
        raise unreadable(file.path, f"row group {group}", error) from None


def _with_keys(batch: pa.RecordBatch, part: ParquetPart, columns: list[str]) -> pa.RecordBatch:
    """Add the hive keys of a file; they are the same in every row."""
    values = part.file.values
    arrays = [
        pa.repeat(pa.scalar(values.get(name), part.schema.field(name).type), batch.num_rows)
        if name in part.keys
        else batch.column(name)
        for name in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, names=columns)


def in_order(
    function: Callable[[Item], Result], items: Iterable[Item], threads: int
) -> Iterator[Result]:
    """Apply a function by several threads; results come in order, and few wait at a time.

    Parameters
    ----------
    function : callable
        What to do with each item.
    items : iterable
        The items.
    threads : int
        Number of threads; one: no thread is started.

    Yields
    ------
    object
        The results, so that a sum of them does not depend on which thread was faster.

    Examples
    --------
    >>> from fairpca.distributed._stream import in_order
    >>> list(in_order(abs, [-1, 2, -3], threads=2))
    [1, 2, 3]
    """
    if threads <= 1:
        yield from map(function, items)
        return
    pool = ThreadPoolExecutor(threads, thread_name_prefix="fairpca")
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
