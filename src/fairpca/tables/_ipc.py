"""Arrow (Feather) files as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from fairpca.exceptions import InvalidInputError
from fairpca.tables._files import DataFile
from fairpca.tables._parquet import READ_ERRORS, unreadable

SUFFIXES = (".arrow", ".feather", ".ipc")


@dataclass(frozen=True)
class ArrowPart:
    """A file whose schema has been read."""

    file: DataFile
    schema: Any

    @property
    def path(self) -> str:
        """Name of the file, for messages."""
        return self.file.path

    @property
    def n_rows(self) -> None:
        """Nobody knows without reading all of it."""

    def batches(self, columns: Iterable[str]) -> Iterator[pa.RecordBatch]:
        """Read some columns, a batch at a time."""
        wanted = list(columns)
        places = [self.schema.get_field_index(name) for name in wanted]
        try:
            with self.file.filesystem.open_input_file(self.path) as handle:
                options = pa.ipc.IpcReadOptions(included_fields=places)
                reader = pa.ipc.open_file(handle, options=options)
                for index in range(reader.num_record_batches):
                    yield reader.get_batch(index).select(wanted)
        except READ_ERRORS as error:
            raise unreadable(self.path, "the file", error) from None


def open_arrow(file: DataFile) -> ArrowPart:
    """Read the schema of an Arrow file; repeated names cannot be told apart."""
    try:
        with file.filesystem.open_input_file(file.path) as handle:
            schema = pa.ipc.open_file(handle).schema
    except READ_ERRORS as error:
        raise unreadable(file.path, "the file", error) from None
    twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if twice:
        listed = ", ".join(map(repr, twice))
        raise InvalidInputError(f"{file.path}: column names occur more than once: {listed}.")
    return ArrowPart(file, schema)
