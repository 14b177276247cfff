"""Arrow streams: whatever an engine hands over in batches, read once and never held."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds

from fairpca._progress import Counter
from fairpca.exceptions import InvalidInputError
from fairpca.tables._kernel import Columns, batch_rows, summarise
from fairpca.tables._partial import Partial, merge_partials
from fairpca.tables._pass import Checkpoint, State, in_order
from fairpca.tables._roles import Roles

# What a scanner of pyarrow holds beside the batch it hands over. By default it reads four files and
# sixteen batches of 131,072 rows ahead, which follows the number of files up to a gigabyte.
READ_AHEAD = {"batch_readahead": 1, "fragment_readahead": 1}

# DuckDB has a cost for each batch that it exports: it is asked for larger ones, which are cut.
DUCKDB_BATCHES = 2

# Errors of these packages are about rows that cannot be read; others are defects of ours.
ENGINES = frozenset({"pyarrow", "polars", "duckdb", "_duckdb", "adbc_driver_manager"})

Read = Callable[[list[str], int], Iterable[pa.RecordBatch]]


@dataclass(frozen=True, eq=False)
class Stream:
    """Rows that come in batches; `read` takes the names of columns and the rows to skip."""

    path: str  # what messages call it
    schema: Any
    read: Read
    n_rows: int | None = None
    repeatable: bool = True

    def batches(self, columns: Iterable[str], start: int = 0) -> Iterator[pa.RecordBatch]:
        """Read some columns from a row on, as batches of one size but for the last."""
        wanted = list(columns)
        schema = pa.schema([self.schema.field(name) for name in wanted])
        with reading(self.path):
            # By `map`, here and below: a loop would hold its batch while the engine makes the next.
            found = map(partial(_as_schema, schema=schema), self.read(wanted, start))
            yield from equal_batches(found, batch_rows(len(wanted)))


class reading:
    """Turn what an engine says of rows that it cannot deliver into one line."""

    def __init__(self, path: str, clean: Callable[[str], str] = str) -> None:
        self.path, self.clean = path, clean

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None or isinstance(error, InvalidInputError):
            return
        foreign = type(error).__module__.partition(".")[0] in ENGINES
        if foreign or isinstance(error, OSError | pa.ArrowException):
            reason = " ".join(self.clean(str(error)).split())[:300] or type(error).__name__
            raise InvalidInputError(f"{self.path} cannot be read ({reason}).") from None


def open_stream(source: Any) -> Stream | None:
    """Find out how to read what is neither a path nor a Table; None where nobody knows."""
    if isinstance(source, Stream):
        return source
    if callable(source) and not hasattr(source, "__arrow_c_stream__"):
        with _reader(source()) as reader:
            schema = reader.schema
        return _stream("the stream", schema, lambda _, start: _after(_reader(source()), start))
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    if hasattr(source, "iloc"):
        with reading("the data frame"):
            source = pa.Table.from_pandas(source, preserve_index=False)
    package = type(source).__module__.partition(".")[0]
    if isinstance(source, pa.Table):
        read = partial(_read_table, source)
        return replace(_stream("table", source.schema, read), n_rows=source.num_rows)
    if package == "polars" and hasattr(source, "collect_schema"):
        return _polars(source)
    if package in ("duckdb", "_duckdb") and hasattr(source, "limit"):  # not a connection
        return _duckdb(source)
    if package == "pyarrow" and hasattr(source, "get_fragments"):
        return _dataset(source)
    if not any(hasattr(source, name) for name in ("__arrow_c_stream__", "fetch_record_batch")):
        return None
    reader = _reader(source)
    once = _stream("the stream", reader.schema, _Once(reader))
    return replace(once, repeatable=False)


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


class _Once:
    """A reader that can be read one time only."""

    def __init__(self, reader: Any) -> None:
        self.reader = reader

    def __call__(self, columns: list[str], start: int) -> Iterator[pa.RecordBatch]:
        reader, self.reader = self.reader, None
        if reader is None:
            raise InvalidInputError(
                "the stream has been read already, and cannot be read again: pass a table, or a "
                "function that opens the stream."
            )
        return _after(reader, start)


def _read_table(table: pa.Table, columns: list[str], start: int) -> Any:
    return table.select(columns).slice(start).to_batches()


def _dataset(dataset: Any) -> Stream:
    """Read a pyarrow dataset, filtered or not, with little read ahead of the sums."""
    from pyarrow.dataset import ParquetFileFormat, ParquetFragmentScanOptions

    options = {}
    if isinstance(getattr(dataset, "format", None), ParquetFileFormat):
        lean = ParquetFragmentScanOptions(use_buffered_stream=True, pre_buffer=False)
        options = {"fragment_scan_options": lean}

    def read(columns: list[str], start: int) -> Iterator[pa.RecordBatch]:
        size = batch_rows(len(columns))
        scanner = dataset.scanner(columns=columns, batch_size=size, **READ_AHEAD, **options)
        return _after(scanner.to_reader(), start)

    return _stream("the dataset", dataset.schema, read)


def _polars(frame: Any) -> Stream:
    """Read a polars frame; a lazy one by its streaming engine, with only the columns asked for."""
    import polars as pl
    from polars.selectors import by_name  # in which "*" and "^x.*$" are names, not patterns

    with reading("the polars query"):
        empty = pl.DataFrame(schema=frame.collect_schema()).to_arrow()
    if isinstance(frame, pl.DataFrame):

        def read(columns: list[str], start: int) -> Any:
            return _frame_batches(frame.select(by_name(*columns)).slice(start))

        return replace(_stream("the frame", empty.schema, read), n_rows=frame.height)
    if not hasattr(frame, "collect_batches"):
        raise InvalidInputError(
            f"polars {pl.__version__} cannot stream a LazyFrame: use polars 1.34 or newer, or "
            "call .collect() first."
        )

    def stream(columns: list[str], start: int) -> Iterator[pa.RecordBatch]:
        query = frame.select(by_name(*columns)).slice(start)
        size = batch_rows(len(columns))
        frames = query.collect_batches(chunk_size=size, engine="streaming")
        return chain.from_iterable(map(_frame_batches, frames))

    return _stream("the polars query", empty.schema, stream)


def _frame_batches(frame: Any) -> list[pa.RecordBatch]:
    found: list[pa.RecordBatch] = frame.to_arrow().to_batches()
    return found


def _duckdb(relation: Any) -> Stream:
    def read(columns: list[str], start: int) -> Any:
        # Quoted in SQL: an expression of a column takes "*" for all of them.
        quoted = ('"' + column.replace('"', '""') + '"' for column in columns)
        chosen = relation.project(", ".join(quoted))
        return _after(chosen.to_arrow_reader(DUCKDB_BATCHES * batch_rows(len(columns))), start)

    with reading("the DuckDB query"):
        schema = relation.limit(0).to_arrow_reader(1).schema
    return _stream("the DuckDB query", schema, read)


def _after(batches: Iterable[pa.RecordBatch], start: int) -> Iterator[pa.RecordBatch]:
    """Leave out rows at the beginning."""
    left = iter(batches)
    while start and (batch := next(left, None)) is not None:
        if start < batch.num_rows:
            yield batch.slice(start)
        start = max(start - batch.num_rows, 0)
    yield from left


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
    found = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks().to_batches()
    return found[0]


def sum_stream(
    stream: Stream, roles: Roles, threads: int, counter: Counter, kept: Checkpoint | None
) -> Partial:
    """Sum batches by several threads, added in order, from wherever an earlier pass stopped."""
    name = [stream.path, str(stream.schema)]
    state = State() if kept is None else kept.load([name])
    failing = False  # read by the threads: after a missing value rows are only counted

    def work(batch: pa.RecordBatch) -> Partial:
        try:
            return summarise(Columns.of(batch, roles), roles, counting=failing)
        except InvalidInputError as error:
            raise error.at(stream.path) from None

    batches = _left(stream, roles, state, work)
    total = state.current or Partial(levels=dict.fromkeys(roles.categorical, ()))
    counter.skip(total.n_rows)
    try:
        for part in in_order(work, batches, threads):
            total = merge_partials([total, part], roles)
            failing = failing or (roles.missing == "error" and bool(part.missing))
            if kept is not None and not failing:
                mark = (part.n_rows, _digest(part))
                state = State(current=total, current_file=name, mark=mark)
                kept.save(state)
            counter.add(part.n_rows)
    finally:
        if kept is not None and not failing and state.mark:
            kept.save(state, now=True)
    return total


def _left(
    stream: Stream, roles: Roles, state: State, work: Callable[[Any], Partial]
) -> Iterator[Any]:
    """Read what is not summed yet, and before it the last batch that is: it must be the same."""
    if state.mark is None or state.current is None:
        return stream.batches(roles.columns)
    n_rows, digest = state.mark
    batches = stream.batches(roles.columns, state.current.n_rows - n_rows)
    again = next(batches, None)
    if again is None or again.num_rows != n_rows or _digest(work(again)) != digest:
        raise InvalidInputError(
            f"{stream.path} does not give the rows again that the checkpoint has summed: remove "
            "the checkpoint and start again.",
            parameter="checkpoint",
        )
    return batches


def _digest(part: Partial) -> str:
    """Return what tells the rows of a batch from others: the bits of their sums."""
    found = hashlib.sha256()
    if part.moments is not None:
        for key, cell in part.moments.table.cells.items():
            found.update(repr((key, cell.n_rows, cell.weight)).encode())
            found.update(cell.mean.tobytes() + cell.scatter.tobytes())
    return found.hexdigest()
