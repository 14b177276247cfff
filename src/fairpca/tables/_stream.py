"""Arrow streams: whatever an engine hands over in batches, read once, summed and never held."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.types as kinds

from fairpca._present import Counter
from fairpca.exceptions import (
    DroppedRowsWarning,
    ImputedValuesWarning,
    InvalidInputError,
    warn_user,
)
from fairpca.moments import FoldedMoments
from fairpca.rows._checks import MissingReport, no_rows_error
from fairpca.rows._containers import check_unique
from fairpca.rows._identifiers import check_text_features, warn_of_identifiers
from fairpca.tables._kernel import Partial, merge_partials, refused, sum_batch
from fairpca.tables._roles import Columns, Roles

Item = TypeVar("Item")
Result = TypeVar("Result")
Read = Callable[[list[str], int], Iterable[pa.RecordBatch]]

MAX_THREADS = 8

# Numbers in one batch: 32 MB of float64. Smaller batches of many features would spend their time
# on merging p × p matrices; larger ones, held once for each thread, would be felt in memory.
BATCH_ELEMENTS = 1 << 22

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
    passes: list[int] = field(default_factory=list)  # rows of each pass that came to its end

    def batches(self, wanted: pa.Schema, rows: int) -> Iterator[pa.RecordBatch]:
        """Read some columns as batches of one size but for the last; every pass has the same."""
        count = 0
        for batch in self._batches(wanted, rows):
            count += batch.num_rows
            yield batch
            del batch  # or it would be held while the engine makes the next
        self.passes.append(count)
        if count != self.passes[0]:
            raise InvalidInputError(
                f"{self.path} had {self.passes[0]:,} rows when it was read first, and has "
                f"{count:,} now: run again when nobody writes to it."
            )

    def _batches(self, wanted: pa.Schema, rows: int) -> Iterator[pa.RecordBatch]:
        schema = pa.schema([self.schema.field(name) for name in wanted.names])
        with reading(self.path):
            # By `map`, here and below: a loop would hold its batch while the engine makes the next.
            batches = map(partial(_as_schema, schema=schema), self.read(schema.names, rows))
            yield from equal_batches(batches, rows)


@contextmanager
def reading(
    path: str, clean: Callable[[str], str] = str, verb: str = "read", end: str = ""
) -> Iterator[None]:
    """Turn what an engine says of rows that it cannot deliver, or take, into one line."""
    try:
        yield
    except InvalidInputError:
        raise
    except Exception as error:
        foreign = type(error).__module__.partition(".")[0] in ENGINES
        if not foreign and not isinstance(error, OSError | pa.ArrowException):
            raise
        reason = " ".join(clean(str(error)).split())[:300] or type(error).__name__
        raise InvalidInputError(f"{path} cannot be {verb} ({reason}){end}.") from None


def open_stream(source: Any) -> Stream | None:
    """Open what is neither a path nor a Table; None for what is no stream."""
    if isinstance(source, Stream):
        return source
    if callable(source) and not hasattr(source, "__arrow_c_stream__"):
        with _reader(source()) as reader:
            schema = reader.schema
        return _stream("the stream", schema, lambda *_: _reader(source()))
    package = type(source).__module__.partition(".")[0]
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    elif hasattr(source, "iloc"):
        check_unique(source.columns, "the data frame")
        with reading("the data frame"):
            source = pa.Table.from_pandas(source, preserve_index=False)
    elif package == "polars" and hasattr(source, "height"):
        source = pa.table(source)  # which copies nothing
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
    check_unique(schema.names, path)
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
    options: dict[str, Any] = dict(READ_AHEAD)
    if isinstance(getattr(dataset, "format", None), ds.ParquetFileFormat):
        lean = ds.ParquetFragmentScanOptions(use_buffered_stream=True, pre_buffer=False)
        options["fragment_scan_options"] = lean

    def read(columns: list[str], rows: int) -> Any:
        return dataset.scanner(columns=columns, batch_size=rows, **options).to_reader()

    return _stream("the dataset", dataset.schema, read)


def _polars(frame: Any) -> Stream:
    """Read a lazy query by the streaming engine of polars, with only the columns needed."""
    import polars as pl
    from polars.selectors import by_name  # in which "*" and "^x.*$" are names, not patterns

    if tuple(map(int, pl.__version__.split(".")[:2])) < (1, 38):
        raise InvalidInputError(
            f"polars {pl.__version__} loses errors of a query that it streams: use polars 1.38 or "
            "newer, or call .collect() first."
        )

    def read(columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        query = frame.select(by_name(*columns))
        frames = query.collect_batches(chunk_size=rows, engine="streaming")
        return chain.from_iterable(map(_frame_batches, frames))

    with reading("the polars query"):
        schema = pl.DataFrame(schema=frame.collect_schema()).to_arrow().schema
    return _stream("the polars query", schema, read)


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


def batch_rows(n_columns: int) -> int:
    """Rows that are read and summed at once, between 1,024 and 32,768."""
    # As many as there are columns at least: the sums of fewer rows are kept in another form.
    return min(max(1024, n_columns, BATCH_ELEMENTS // max(n_columns, 1)), 32768)


def equal_batches(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Cut a stream into batches of one size, wherever the engine cuts it."""
    # So sums have the same bits however an engine was scheduled.
    waiting: list[pa.RecordBatch] = []
    lacking = rows
    for batch in batches:
        start = 0
        while batch.num_rows - start >= lacking:
            waiting.append(batch.slice(start, lacking))
            start, lacking = start + lacking, rows
            yield join_batches(waiting)
        if start < batch.num_rows:
            waiting.append(batch.slice(start))
            lacking -= batch.num_rows - start
        del batch  # or it would be held while the engine makes the next
    if waiting:
        yield join_batches(waiting)


def join_batches(waiting: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Empty a list of batches into one; only what is in several pieces is copied."""
    batches = waiting.copy()
    waiting.clear()
    if len(batches) == 1:
        return batches[0]
    joined = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks().to_batches()
    return joined[0] if joined else batches[0]


def sum_parts(
    parts: Iterable[Any],
    roles: Roles,
    wanted: pa.Schema,
    threads: int | None = 1,
    counter: Counter | None = None,
) -> Partial:
    """Sum the batches of files or of a stream in order by several threads; errors name the file."""
    rows = batch_rows(len(wanted))
    batches = chain.from_iterable(
        map(partial(Columns.of, roles=roles, path=part.path), part.batches(wanted, rows))
        for part in parts
    )
    return sum_batches(batches, roles, threads, counter)


def sum_batches(
    batches: Iterable[Columns],
    roles: Roles,
    threads: int | None = 1,
    counter: Counter | None = None,
) -> Partial:
    """Sum batches by several threads, and add the sums in order."""
    failing = False  # read by the threads: after a missing value rows are only counted

    def work(columns: Columns) -> Partial:
        try:
            return sum_batch(columns, roles, counting=failing)
        except InvalidInputError as error:
            raise error.at(columns.path) from None

    total = Partial()
    for part in in_order(work, batches, threads):
        total = merge_partials([total, part], roles)
        failing = failing or refused(part.missing, roles)
        if counter is not None:
            counter.add(part.n_rows)
    return total


def finish(total: Partial, roles: Roles, name: str = "the table", named: bool = True) -> Any:
    """Turn the sum of a pass into moments (by fold where there are folds), or raise an error."""
    check_missing(total, roles)
    if total.moments is None or not total.moments.table.cells:
        raise no_rows_error(total.n_rows, total.incomplete, name)
    n_rows = total.n_rows - total.incomplete
    missing = total.missing if roles.missing == "mean" else {}
    check_text_features(total.levels, total.n_rows if missing else n_rows, missing)
    warn_of_identifiers(total.unique, n_rows)
    moments = total.moments if named else replace(total.moments, feature_names=None, columns=None)
    by_units = roles.unit is not None
    return FoldedMoments(roles.folds, moments, by_units) if roles.folds else moments


def check_missing(total: Partial, roles: Roles) -> None:
    """Refuse missing values, or warn of what was done about them."""
    if not total.missing:
        return
    arguments = {
        name: argument
        for argument, names in roles.aligned.items()
        for name in names
        if name not in roles.features
    }
    report = MissingReport(total.missing, total.incomplete, total.n_rows, arguments)
    if refused(total.missing, roles):
        if roles.missing == "mean":  # which is no remedy for groups and weights
            counts = {name: n for name, n in total.missing.items() if name in arguments}
            report = report._replace(counts=counts)
        raise report.error()
    if roles.missing == "mean":
        warn_user(report.imputed, ImputedValuesWarning)
    else:
        warn_user(report.dropped, DroppedRowsWarning)


def in_order(
    function: Callable[[Item], Result], items: Iterable[Item], threads: int | None = None
) -> Iterator[Result]:
    """Apply a function by several threads; results come in order, and few wait at a time."""
    if threads is None:  # as many as this process has cores, within reason
        affinity = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))
        threads = min(len(affinity(0)), MAX_THREADS)
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
