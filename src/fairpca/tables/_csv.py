"""CSV files as Arrow batches: the one place that says what a field of text means."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping
from csv import Error as BadRows
from csv import reader as csv_rows
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds
from pyarrow import csv

from fairpca.exceptions import InvalidInputError
from fairpca.tables._files import DataFile
from fairpca.tables._parquet import READ_ERRORS, unreadable
from fairpca.tables._roles import Roles

SUFFIXES = (".csv", ".csv.gz", ".csv.bz2", ".csv.zst")

# The types of the columns come from the first so many bytes.
BATCH_BYTES = 8 << 20
# What one task of an engine reads of a file that is not packed.
RANGE_BYTES = 64 << 20

CSV_MISSING = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip
"""Fields that stand for no value, whoever reads the file: what pandas and pyarrow agree on."""


@dataclass(frozen=True)
class CsvPart:
    """A CSV file, or the lines of it that begin within a range of bytes."""

    file: DataFile
    separator: str
    types: Mapping[str, pa.DataType]
    start: int = 0
    stop: int | None = None
    names: tuple[str, ...] | None = None  # of the columns, where the range has no header

    @property
    def path(self) -> str:
        """Name of the file, for messages."""
        return self.file.path

    def batches(self, columns: Iterable[str]) -> Iterator[pa.RecordBatch]:
        """Read some columns, a batch at a time."""
        stream = _Quotes(self._stream())
        try:
            with self._open(list(columns), stream) as reader:
                yield from reader
            if stream.count % 2:
                self._check_closed()
        except (*READ_ERRORS, UnicodeDecodeError) as error:
            raise self._failure(error) from None

    def _check_closed(self) -> None:
        """Refuse a quote that is never closed: it swallows all rows to the end of the file."""
        # Arrow does not say so. Inside a field that does not begin with one a quote is a mark like
        # any other, so that an odd number of them is a reason to look, no more.
        text = io.TextIOWrapper(self._stream(), "utf-8", newline="")
        try:
            for _ in csv_rows(text, delimiter=self.separator, strict=True):
                pass
        except BadRows:
            raise InvalidInputError(
                f'{self.path}: a quote (") is opened and not closed, so that rows to the end of '
                "the file are one field: mend the file."
            ) from None

    def schema(self) -> pa.Schema:
        """Read the header and infer the types that were not given."""
        try:
            with self._open(None, self._stream()) as reader:
                schema = reader.schema
                names = schema.names
        except (*READ_ERRORS, UnicodeDecodeError) as error:
            raise self._failure(error) from None
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            listed = ", ".join(map(repr, repeated))
            raise InvalidInputError(
                f"{self.path}: column names occur more than once: {listed}. Rename them."
            )
        for name in names:
            # Arrow calls bytes what is not the text it should be.
            if kinds.is_binary(schema.field(name).type):
                raise _not_text(self.path, f"column {name!r}")
        return schema

    def ranges(self) -> list[CsvPart]:
        """Cut the file into ranges that can be read apart; one that is packed stays whole."""
        if not self.path.lower().endswith(".csv") or self.file.size <= RANGE_BYTES:
            return [self]
        names = tuple(self.schema().names)
        starts = range(0, self.file.size, RANGE_BYTES)
        return [
            replace(self, start=start, stop=start + RANGE_BYTES, names=names if start else None)
            for start in starts
        ]

    def _open(self, columns: list[str] | None, stream: Any) -> Any:
        return csv.open_csv(
            stream,
            read_options=csv.ReadOptions(block_size=BATCH_BYTES, column_names=self.names),
            parse_options=csv.ParseOptions(
                delimiter=self.separator, newlines_in_values=self.stop is None
            ),
            convert_options=csv.ConvertOptions(
                column_types=dict(self.types),
                include_columns=columns,
                null_values=list(CSV_MISSING),
                # An empty field of text is as absent as one of numbers.
                strings_can_be_null=True,
            ),
        )

    def _stream(self) -> Any:
        if self.stop is None:
            return self.file.filesystem.open_input_stream(self.path)
        with self.file.filesystem.open_input_file(self.path) as handle:
            start = _line_start(handle, self.start)
            stop = _line_start(handle, min(self.stop, self.file.size))
            handle.seek(start)
            return pa.BufferReader(handle.read(max(stop - start, 0)))

    def _failure(self, error: BaseException) -> InvalidInputError:
        text = " ".join(str(error).split())
        if absent := re.search(r"Column '(.*)' in include_columns", text):
            return InvalidInputError(
                f"{self.path}: column {absent[1]!r} is missing, which the first file has."
            )
        if isinstance(error, UnicodeDecodeError) or "UTF8" in text:
            column = re.search(r"In CSV column #(\d+)", text)
            return _not_text(self.path, f"column {column[1]}" if column else "it")
        if "onversion" in text:
            return InvalidInputError(
                f"{self.path}: {text}. The types come from the start of the first file: write the "
                "column in one way, or give moments_from_csv its type."
            )
        return unreadable(self.path, "the file", error)


class _Quotes:
    """A stream that counts the quotes read through it."""

    def __init__(self, stream: Any) -> None:
        self.stream, self.count = stream, 0

    def read(self, size: int = -1) -> bytes:
        """Read some bytes."""
        content: bytes = self.stream.read(size)
        self.count += content.count(b'"')
        return content

    @property
    def closed(self) -> bool:
        """Whether there is nothing left to read."""
        return bool(self.stream.closed)

    def close(self) -> None:
        """Close the stream."""
        self.stream.close()


def _not_text(path: str, what: str) -> InvalidInputError:
    return InvalidInputError(
        f"{path} is not UTF-8 text ({what} is in another encoding): convert it first, for example "
        "with iconv -f latin1 -t utf-8."
    )


def _line_start(handle: Any, position: int) -> int:
    """Place of the first line that begins at a position or after it."""
    if position == 0:
        return 0
    handle.seek(position - 1)
    while content := handle.read(1 << 16):
        found = content.find(b"\n")
        if found >= 0:
            return int(handle.tell()) - len(content) + found + 1
    return int(handle.tell())


def settled_types(schema: pa.Schema, roles: Roles, given: Iterable[str]) -> dict[str, pa.DataType]:
    """Types of the columns for a whole pass: numbers are floats, whatever the file begins with."""
    types = {}
    for name in roles.columns:
        kind = schema.field(name).type
        is_float = name in roles.features or name == roles.weight or name in roles.numeric
        if name not in given and kind == pa.null():
            kind = pa.float64() if is_float else pa.string()
        elif name not in given and is_float and kinds.is_integer(kind):
            kind = pa.float64()
        types[name] = kind
    return types


def typed_text(batch: pa.RecordBatch, types: Mapping[str, pa.DataType]) -> pa.RecordBatch:
    """Give columns of text, as another reader found them in a CSV file, their types."""
    absent = pa.array(CSV_MISSING)
    arrays = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        kind = types[name]
        known = pc.if_else(pc.is_in(column, absent), pa.scalar(None, column.type), column)
        try:
            arrays.append(known if kinds.is_string(kind) else _cast(known, kind))
        except pa.ArrowInvalid as error:
            raise InvalidInputError(
                f"column {name!r}: conversion error to {kind} ({' '.join(str(error).split())}). "
                "The types come from the start of the first file: write the column in one way."
            ) from None
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _cast(text: pa.Array, kind: pa.DataType) -> pa.Array:
    return pc.cast(pc.utf8_trim(text, " \t"), kind)
