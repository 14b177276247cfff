"""Parquet files as row groups, and row groups as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as kinds

from fairpca.exceptions import InvalidInputError
from fairpca.tables._files import DataFile
from fairpca.tables._kernel import batch_rows

SUFFIXES = (".parquet", ".parq", ".pq")

# Bytes read ahead in each column. Without a buffer Arrow holds the whole column chunks of a row
# group, which grows with whatever the writer chose.
BUFFER_BYTES = 1 << 16

# What all readers together may hold. A reader holds a page of every column, which the writer chose
# (a megabyte as a rule), so that tables of very many columns are read by fewer threads.
READER_BYTES = 300 << 20
PAGE_BYTES = 1 << 20
READ_ERRORS = (pa.ArrowException, OSError, EOFError)


@dataclass(frozen=True)
class ParquetPart:
    """A file whose footer has been read."""

    file: DataFile
    schema: Any  # hive keys included
    rows: tuple[int, ...]  # of each row group
    keys: frozenset[str]  # columns of the schema that are hive keys only


@dataclass(frozen=True)
class RowGroup:
    """What one thread or task reads of a Parquet file."""

    part: ParquetPart
    group: int
    use_threads: bool = False  # whether Arrow decodes the columns of a batch in parallel

    @property
    def path(self) -> str:
        """Name of the file, for messages."""
        return self.part.file.path

    def batches(self, columns: Iterable[str]) -> Iterator[pa.RecordBatch]:
        """Read some columns, a batch at a time; hive keys are filled in."""
        part, wanted = self.part, list(columns)
        stored = [name for name in wanted if name not in part.keys]
        # Text stays coded as it is in the file: no string is made for any row.
        text = [name for name in stored if _type_name(part.schema.field(name).type) == "string"]
        try:
            metadata = _metadata(part.file)
            with part.file.filesystem.open_input_file(part.file.path) as handle:
                reader = pq.ParquetFile(
                    handle,
                    metadata=metadata,
                    read_dictionary=text,
                    buffer_size=BUFFER_BYTES,
                    pre_buffer=False,
                    page_checksum_verification=True,
                )
                for batch in reader.iter_batches(
                    batch_rows(len(wanted)), [self.group], stored, use_threads=self.use_threads
                ):
                    yield batch if stored == wanted else _with_keys(batch, part, wanted)
        except READ_ERRORS as error:
            raise unreadable(part.file.path, f"row group {self.group}", error) from None


def affordable_threads(part: ParquetPart, columns: Iterable[str], threads: int) -> int:
    """Reduce the number of threads until their readers fit the memory set aside for them."""
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
    """Say that a file, or a part of it, cannot be read."""
    reason = " ".join(str(error).split()) or type(error).__name__
    return InvalidInputError(f"{path}: {what} cannot be read ({reason}): mend or remove the file.")


@lru_cache(maxsize=8)
def _metadata(file: DataFile) -> Any:
    """Footer of a file; a few are kept, since every row group asks for it."""
    with file.filesystem.open_input_file(file.path) as handle:
        return pq.read_metadata(handle)


def open_part(file: DataFile) -> ParquetPart:
    """Read the footer of a file."""
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


def check_same_columns(parts: list[Any], columns: Iterable[str]) -> None:
    """Refuse a file whose columns are not those of the first."""
    first = parts[0]
    for other in parts[1:]:
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
