"""Arrow streams: whatever an engine hands over in batches, read once and never held."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.types as kinds

from fairpca._progress import Counter
from fairpca.exceptions import InvalidInputError
from fairpca.tables._kernel import Columns, batch_rows, summarise
from fairpca.tables._partial import Partial, merge_partials, refused
from fairpca.tables._roles import Roles

Item = TypeVar("Item")
Result = TypeVar("Result")
Read = Callable[[list[str], int], Iterable[pa.RecordBatch]]

MAX_THREADS = 8

# What a scanner of pyarrow holds apart from the batch it hands over. By default it reads four files
# and sixteen batches of 131,072 rows ahead, which follows the number of files up to a gigabyte.
READ_AHEAD = {"batch_readahead": 1, "fragment_readahead": 1}

# DuckDB has a cost for each batch that it exports: larger ones are requested, and cut.
DUCKDB_BATCHES = 2

# Errors of these packages are about rows that cannot be read; others are defects of ours.
ENGINES = frozenset({"pyarrow", "polars", "duckdb", "_duckdb", "adbc_driver_manager"})


@dataclass(frozen=True, eq=False)
class Stream:
    """Rows that come in batches; `read` takes names of columns and a number of rows at once."""

    path: str  # what messages call it
    schema: Any
    read: Read
    n_rows: int | None = None

    def batches(self, wanted: pa.Schema, rows: int) -> Iterator[pa.RecordBatch]:
        """Read some columns as batches of one size but for the last."""
        schema = pa.schema([self.schema.field(name) for name in wanted.names])
        with reading(self.path):
            # By `map`, here and below: a loop would hold its batch while the engine makes the next.
            batches = map(partial(_as_schema, schema=schema), self.read(schema.names, rows))
            yield from equal_batches(batches, rows)


@contextmanager
def reading(path: str, clean: Callable[[str], str] = str) -> Iterator[None]:
    """Turn what an engine says of rows that it cannot deliver into one line."""
    try:
        yield
    except InvalidInputError:
        raise
    except Exception as error:
        foreign = type(error).__module__.partition(".")[0] in ENGINES
        if not foreign and not isinstance(error, OSError | pa.ArrowException):
            raise
        reason = " ".join(clean(str(error)).split())[:300] or type(error).__name__
        raise InvalidInputError(f"{path} cannot be read ({reason}).") from None


def open_stream(source: Any) -> Stream | None:
    """Find out how to read what is neither a path nor a Table; None where nobody knows."""
    if isinstance(source, Stream):
        return source
    if callable(source) and not hasattr(source, "__arrow_c_stream__"):
        with _reader(source()) as reader:
            schema = reader.schema
        return _stream("the stream", schema, lambda *_: _reader(source()))
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    if hasattr(source, "iloc"):
        with reading("the data frame"):
            source = pa.Table.from_pandas(source, preserve_index=False)
    package = type(source).__module__.partition(".")[0]
    if isinstance(source, pa.Table):
        stream = _stream("table", source.schema, lambda names, _: source.select(names).to_batches())
        return replace(stream, n_rows=source.num_rows)
    if package == "polars" and hasattr(source, "collect_schema"):
        return _polars(source)
    if package in ("duckdb", "_duckdb") and hasattr(source, "limit"):  # not a connection
        return _duckdb(source)
    if package == "pyarrow" and hasattr(source, "get_fragments"):
        return _dataset(source)
    if not any(hasattr(source, name) for name in ("__arrow_c_stream__", "fetch_record_batch")):
        return None
    reader = _reader(source)
    return _stream("the stream", reader.schema, partial(_read_once, [reader]))


def _stream(path: str, schema: pa.Schema, read: Read) -> Stream:
    twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if twice:
        listed = ", ".join(map(repr, twice))
        raise InvalidInputError(f"{path}: column names occur more than once: {listed}.")
    plain = pa.schema([pa.field(field.name, plain_type(field.type)) for field in schema])
    return Stream(path, plain, read)


def _reader(source: Any) -> Any:
    """Open anything that speaks Arrow's C interface, or a cursor whose query has been run."""
    with reading("the stream"):
        if hasattr(source, "fetch_record_batch"):
            return source.fetch_record_batch()
        if hasattr(source, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(source)
    raise InvalidInputError(
        f"the function gave a {type(source).__name__}: it must open an Arrow stream, such as a "
        "pyarrow.RecordBatchReader."
    )


def _read_once(readers: list[Any], *_: Any) -> Any:
    """Take the one reader there is: it can be read one time only."""
    if not readers:
        raise InvalidInputError(
            "the stream has been read already, and cannot be read again: pass a table, or a "
            "function that opens the stream."
        )
    return readers.pop()


def _dataset(dataset: Any) -> Stream:
    """Read a pyarrow dataset, filtered or not, with little read ahead of the sums."""
    options = {}
    if isinstance(getattr(dataset, "format", None), ds.ParquetFileFormat):
        lean = ds.ParquetFragmentScanOptions(use_buffered_stream=True, pre_buffer=False)
        options = {"fragment_scan_options": lean}

    def read(columns: list[str], rows: int) -> Any:
        return dataset.scanner(
            columns=columns, batch_size=rows, **READ_AHEAD, **options
        ).to_reader()

    return _stream("the dataset", dataset.schema, read)


def _polars(frame: Any) -> Stream:
    """Read a polars frame; a lazy one by its streaming engine, with only the columns needed."""
    import polars as pl
    from polars.selectors import by_name  # in which "*" and "^x.*$" are names, not patterns

    with reading("the polars query"):
        empty = pl.DataFrame(schema=frame.collect_schema()).to_arrow()
    if isinstance(frame, pl.DataFrame):

        def read(columns: list[str], rows: int) -> Any:
            return _frame_batches(frame.select(by_name(*columns)))

        return replace(_stream("the frame", empty.schema, read), n_rows=frame.height)
    if not hasattr(frame, "collect_batches"):
        raise InvalidInputError(
            f"polars {pl.__version__} cannot stream a LazyFrame: use polars 1.34 or newer, or "
            "call .collect() first."
        )

    def stream(columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        query = frame.select(by_name(*columns))
        frames = query.collect_batches(chunk_size=rows, engine="streaming")
        return chain.from_iterable(map(_frame_batches, frames))

    return _stream("the polars query", empty.schema, stream)


def _frame_batches(frame: Any) -> list[pa.RecordBatch]:
    batches: list[pa.RecordBatch] = frame.to_arrow().to_batches()
    return batches


def _duckdb(relation: Any) -> Stream:
    def read(columns: list[str], rows: int) -> Any:
        # Quoted in SQL: an expression of a column takes "*" for all of them.
        quoted = ('"' + column.replace('"', '""') + '"' for column in columns)
        return relation.project(", ".join(quoted)).to_arrow_reader(DUCKDB_BATCHES * rows)

    with reading("the DuckDB query"):
        schema = relation.limit(0).to_arrow_reader(1).schema
    return _stream("the DuckDB query", schema, read)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type as which a column is read: views and extensions become what they hold."""
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if kinds.is_string_view(kind):
        return pa.large_string()
    if kinds.is_binary_view(kind):
        return pa.large_binary()
    if kinds.is_dictionary(kind):
        return pa.dictionary(pa.int32(), plain_type(kind.value_type), kind.ordered)
    if kinds.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    return kind


def _as_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if batch.schema.equals(schema):
        return batch
    arrays = [_as_plain(batch.column(field.name), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _as_plain(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind:
        return column
    if isinstance(column, pa.ExtensionArray):
        return _as_plain(column.storage, kind)
    if kinds.is_dictionary(kind) and kinds.is_dictionary(column.type):
        values = _as_plain(column.dictionary, kind.value_type)
        return pa.DictionaryArray.from_arrays(column.indices.cast(pa.int32()), values)
    if kinds.is_run_end_encoded(column.type):
        column = pa.compute.run_end_decode(column)
    return column.cast(kind)


def equal_batches(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Cut a stream into batches of one size, wherever the engine cuts it."""
    # So sums have the same bits however an engine was scheduled, and a pass can be resumed.
    waiting: list[pa.RecordBatch] = []
    lacking = rows
    for batch in batches:
        start = 0
        while batch.num_rows - start >= lacking:
            waiting.append(batch.slice(start, lacking))
            start, lacking = start + lacking, rows
            yield _joined(waiting)
        if start < batch.num_rows:
            waiting.append(batch.slice(start))
            lacking -= batch.num_rows - start
        del batch  # or it would be held while the engine makes the next
    if waiting:
        yield _joined(waiting)


def _joined(waiting: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Empty a list of batches into one; only what is in several pieces is copied."""
    batches = waiting.copy()
    waiting.clear()
    if len(batches) == 1:
        return batches[0]
    joined = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks().to_batches()
    return joined[0]


def sum_parts(
    parts: Iterable[Any], roles: Roles, wanted: pa.Schema, threads: int, counter: Counter
) -> Partial:
    """Sum the batches of files or of a stream in order by several threads; errors name the file."""
    rows = batch_rows(len(wanted))
    failing = False  # read by the threads: after a missing value rows are only counted

    def work(item: tuple[str, pa.RecordBatch]) -> Partial:
        path, batch = item
        try:
            return summarise(Columns.of(batch, roles), roles, counting=failing)
        except InvalidInputError as error:
            raise error.at(path) from None

    total = Partial(levels=dict.fromkeys(roles.categorical, ()))
    batches = chain.from_iterable(
        map(partial(_pair, part.path), part.batches(wanted, rows)) for part in parts
    )
    for result in in_order(work, batches, threads):
        total = merge_partials([total, result], roles)
        failing = failing or refused(result.missing, roles)
        counter.add(result.n_rows)
    return total


def _pair(path: str, batch: pa.RecordBatch) -> tuple[str, pa.RecordBatch]:
    return path, batch


def default_threads() -> int:
    """Cores that this process may use, at most `MAX_THREADS`."""
    if hasattr(os, "sched_getaffinity"):
        return min(len(os.sched_getaffinity(0)), MAX_THREADS)
    return min(os.cpu_count() or 1, MAX_THREADS)


def in_order(
    function: Callable[[Item], Result], items: Iterable[Item], threads: int | None = None
) -> Iterator[Result]:
    """Apply a function by several threads; results come in order, and few wait at a time."""
    threads = default_threads() if threads is None else threads
    if threads <= 1:
        yield from map(function, items)
        return
    pool = ThreadPoolExecutor(threads, thread_name_prefix="fairpca")
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            del item  # or it would be held while the next is made
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
