"""Output files, of the kind that their name tells."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pyarrow.types as kinds

from fairpca.tables._csv import SUFFIXES as CSV_SUFFIXES
from fairpca.tables._parquet import SUFFIXES

# What a spreadsheet takes for the beginning of a formula, unless it is a number.
_FORMULA, _NUMBER = r"^[=+\-@\t\r]", r"^[+\-]?[0-9.]+([eE][+\-]?[0-9]+)?$"
OUTPUTS = (".csv", ".csv.gz", ".parquet", ".feather", ".arrow")


def is_csv(path: str | os.PathLike[str]) -> bool:
    """Tell text from Arrow's own formats."""
    return os.fspath(path).lower().endswith(CSV_SUFFIXES)


@contextmanager
def open_writer(
    place: Any, schema: pa.Schema, name: str, safe_csv: bool
) -> Iterator[Callable[[pa.Table], None]]:
    """Open a file of the kind that a name tells."""
    if not is_csv(name):
        opened = pq.ParquetWriter if name.lower().endswith(SUFFIXES) else pa.ipc.new_file
        with opened(place, schema) as writer:
            yield writer.write_table
        return
    stream: Any = pa.OSFile(os.fspath(place), "wb")
    if name.lower().endswith(".gz"):
        stream = pa.CompressedOutputStream(stream, "gzip")
    if safe_csv:
        schema = _without_formulas(schema.empty_table()).schema
    header = io.StringIO()
    csv.writer(header, lineterminator="\n").writerow(schema.names)
    options = pa_csv.WriteOptions(include_header=False)
    with stream:
        stream.write(header.getvalue().encode())
        with pa_csv.CSVWriter(stream, schema, write_options=options) as writer:
            if safe_csv:
                yield lambda table: writer.write_table(_without_formulas(table))
            else:
                yield writer.write_table


def _without_formulas(table: pa.Table) -> pa.Table:
    """Put an apostrophe before text, in names and values, that begins like a formula."""
    columns = []
    for column in table.columns:
        kind = column.type.value_type if kinds.is_dictionary(column.type) else column.type
        if kinds.is_string(kind) or kinds.is_large_string(kind):
            text = column.cast(pa.string())
            formula = pc.match_substring_regex(text, _FORMULA)
            number = pc.match_substring_regex(text, _NUMBER)
            marked = pc.binary_join_element_wise(pa.scalar("'"), text, pa.scalar(""))
            column = pc.if_else(pc.and_not(formula, number), marked, text)
        columns.append(column)
    names = [f"'{name}" if re.match(_FORMULA, name) else name for name in table.column_names]
    return pa.table(columns, names=names)
