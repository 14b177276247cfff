"""Files of a table: paths, globs, directories and addresses, read by `pyarrow.dataset`."""

from __future__ import annotations

import csv
import fnmatch
import io
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple, TypeAlias
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pyarrow.types as kinds
from pyarrow import fs

from fairpca.exceptions import InvalidInputError
from fairpca.rows._containers import check_unique
from fairpca.tables._roles import is_text
from fairpca.tables._stream import READ_AHEAD, equal_batches, in_order

Source: TypeAlias = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
"""A path, glob, directory or address, or several of them."""
Kind = Literal["csv", "parquet", "arrow"]

SUFFIXES: dict[Kind, tuple[str, ...]] = {
    "csv": (".csv", ".csv.gz", ".csv.bz2", ".csv.zst"),
    "parquet": (".parquet", ".parq", ".pq"),
    "arrow": (".arrow", ".feather", ".ipc"),
}
_KIND_NAMES = {"csv": "CSV", "parquet": "Parquet", "arrow": "Arrow", None: "of no known kind"}

CSV_MISSING = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip
"""Fields that stand for no value, whoever reads the file: what pandas and pyarrow agree on."""

# Read at once of a CSV file; the types of its columns come from the first so many bytes.
BLOCK_BYTES = 4 << 20

# Read ahead in each column of a Parquet file. Without a buffer Arrow holds the whole column chunks
# of a row group, as large as the writer chose.
BUFFER_BYTES = 1 << 16

_READ_ERRORS = (pa.ArrowException, OSError, EOFError, UnicodeDecodeError)
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_WHOLE = re.compile(r"-?(0|[1-9][0-9]*)")


@dataclass(frozen=True, eq=False)
class FilePart:
    """A file (or row groups of one) of a table; `schema` has its hive keys as well."""

    path: str
    filesystem: Any
    format: Any  # of pyarrow.dataset
    schema: Any
    relative: str = ""  # path below the directory or glob that names the file
    keys: Mapping[str, Any] = field(default_factory=dict)  # hive keys and their values
    groups: tuple[int, ...] = ()  # row groups of a Parquet file
    n_rows: int | None = None  # which only Parquet files say without being read
    state: tuple[Any, ...] = ()  # size and time of the last change when it was opened

    def batches(self, wanted: pa.Schema, rows: int) -> Iterator[pa.RecordBatch]:
        """Read some columns as batches of one size but for the last; CSV is read as these types."""
        stored = pa.schema([column for column in wanted if column.name not in self.keys])
        try:
            if isinstance(self.format, ds.ParquetFileFormat):
                batches = self._parquet_batches(stored.names, rows)
            elif isinstance(self.format, ds.CsvFileFormat):
                batches = self._csv_batches(stored, rows)
            else:
                batches = self._scan(self.schema, stored.names, rows)
            if self.keys:  # by `map`: a loop would hold its batch while the next is read
                batches = map(partial(self._with_keys, wanted=wanted), batches)
            yield from equal_batches(batches, rows)
        except _READ_ERRORS as error:
            raise self._failure(error) from None
        if self.state and self._state() != self.state:
            raise InvalidInputError(
                f"{self.path} changed after it was opened, so that not every step saw the same "
                "rows: run again when nobody writes to it."
            )

    def _state(self) -> tuple[Any, ...]:
        info = self.filesystem.get_file_info(self.path)
        return info.size, info.mtime_ns

    def _scan(self, schema: pa.Schema, columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        fragment = self.format.make_fragment(self.path, self.filesystem)
        options = {"schema": schema, "columns": columns, "batch_size": rows, **READ_AHEAD}
        return iter(fragment.scanner(**options).to_reader())

    def _csv_batches(self, wanted: pa.Schema, rows: int) -> Iterator[pa.RecordBatch]:
        # A quote that is not closed is no error to Arrow where it stands in the last column and
        # that is text: the last value then holds all lines that follow.
        last = [name for name in self.schema.names if name not in self.keys][-1]
        extra = [] if last in wanted.names or not is_text(self.schema.field(last).type) else [last]
        schema = pa.schema([*wanted, *(pa.field(name, pa.string()) for name in extra)])
        final: Any = None
        for batch in self._scan(schema, schema.names, BLOCK_BYTES):  # a row has a byte at least
            if last in schema.names and batch.num_rows:
                final = batch.column(last)[-1]
            yield batch.select(wanted.names) if extra else batch
            del batch  # or it would be held while the next is read
        if "\n" in str(final):
            self._check_quotes()

    def _parquet_batches(self, columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        # Not by a scanner, which holds whole row groups.
        text = [name for name in columns if is_text(self.schema.field(name).type)]
        with self.filesystem.open_input_file(self.path) as handle:
            reader = pq.ParquetFile(
                handle,
                read_dictionary=text,  # coded as it is in the file: no string is made for any row
                buffer_size=BUFFER_BYTES,
                pre_buffer=False,
                page_checksum_verification=True,
            )
            yield from reader.iter_batches(rows, self.groups, columns)

    def _with_keys(self, batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
        """Add the hive keys, which are the same in every row."""
        arrays = [
            pa.repeat(pa.scalar(self.keys[column.name], column.type), batch.num_rows)
            if column.name in self.keys
            else batch.column(column.name)
            for column in wanted
        ]
        return pa.RecordBatch.from_arrays(arrays, names=wanted.names)

    def row_groups(self) -> list[FilePart]:
        """Take a Parquet file apart; other files stay whole."""
        return [replace(self, groups=(group,)) for group in self.groups] or [self]

    def opened(self, types: pa.Schema | None = None) -> FilePart:
        """Read the footer, or the header of a CSV file, whose types are those of the first file."""
        groups: tuple[int, ...] = ()
        n_rows, state = None, self._state()
        fragment = self.format.make_fragment(self.path, self.filesystem)
        try:
            if types is not None and isinstance(self.format, ds.CsvFileFormat):
                known = {name: types.field(name).type for name in types.names}
                schema = pa.schema([(n, known.get(n, pa.string())) for n in self._header(fragment)])
            else:
                schema = fragment.physical_schema.remove_metadata()
            if isinstance(self.format, ds.ParquetFileFormat):
                groups = tuple(range(fragment.num_row_groups))
                n_rows = fragment.metadata.num_rows
            names = schema.names
        except _READ_ERRORS as error:
            raise self._failure(error) from None
        check_unique(names, self.path)
        # A hive key that is a column of the file too is read from the file.
        own = [key for key in self.schema if key.name not in names]
        keys = {key.name: self.keys[key.name] for key in own}
        schema = pa.schema([*schema, *own])
        facts: dict[str, Any] = {"keys": keys, "groups": groups, "n_rows": n_rows, "state": state}
        return replace(self, schema=schema, **facts)

    def _header(self, fragment: Any) -> list[str]:
        try:
            names = next((row for row in self._csv_rows() if row), [])
        except csv.Error:  # a name that is longer than Python's reader allows
            names = fragment.physical_schema.names
        if not names:
            raise EOFError("it is empty")
        return names

    def _csv_rows(self) -> Iterator[list[str]]:
        """Read by Python's reader, to which a quote that is not closed is an error."""
        with self.filesystem.open_input_stream(self.path) as stream:  # which unpacks .gz and others
            text = io.TextIOWrapper(stream, "utf-8-sig", newline="")
            delimiter = self.format.parse_options.delimiter
            yield from csv.reader(text, delimiter=delimiter, strict=True)

    def _check_quotes(self) -> None:
        """Refuse a quote that is never closed: all rows from there on are one field."""
        try:
            for _ in self._csv_rows():
                pass
        except csv.Error:
            raise InvalidInputError(
                f'{self.path}: a quote (") is opened and not closed, so that rows to the end of '
                "the file are one field: correct the file."
            ) from None

    def _failure(self, error: BaseException) -> InvalidInputError:
        """Say in one line why a file cannot be read; Arrow names the row of a CSV file."""
        text = " ".join(str(error).split())
        text = text.removeprefix(f"Could not open CSV input source '{self.path}': Invalid: ")
        if isinstance(error, UnicodeDecodeError) or "invalid UTF8" in text:
            return _not_text(self.path, text.partition(": CSV conversion")[0])
        if "multiple columns named" in text:
            check_unique([text.partition("multiple columns named")[2].strip()] * 2, self.path)
        if "onversion error" in text:
            return InvalidInputError(
                f"{self.path}: {text}. The types come from the start of the first file: write the "
                "column in one way, or set its type with types={column: type}."
            )
        return InvalidInputError(
            f"{self.path}: the file cannot be read ({text or type(error).__name__}): correct or "
            "remove the file."
        )


class Files(NamedTuple):
    """The files of a table, what they are, and the paths and directories that name them."""

    parts: tuple[FilePart, ...]
    kind: Kind
    single: bool  # one file, by its name
    folders: tuple[str, ...]


class _Listed(NamedTuple):
    """Files that one path, glob or directory names."""

    filesystem: Any
    base: str
    paths: list[str]
    type: Any


def open_files(
    source: Source,
    marks: tuple[str, str],
    types: Mapping[str, str],
    filesystem: Any,
    kind: Kind | None,
) -> Files:
    """List the files of a table, sorted by path, and read their headers or footers.

    `marks` are what separates fields and decimals in CSV files.
    """
    if not isinstance(source, Iterable | os.PathLike):
        raise InvalidInputError(f"source={source!r}: give a path, or several.", parameter="source")
    items = [source] if isinstance(source, str | os.PathLike) else source
    suffixes = SUFFIXES[kind] if kind else tuple(s for known in SUFFIXES.values() for s in known)
    listed = [_find(os.fspath(item), suffixes, filesystem) for item in items]
    places = [resolved(item.filesystem, path) for item in listed for path in item.paths]
    if not places:
        raise InvalidInputError("no files were given.", parameter="source")
    if len(set(places)) < len(places):
        raise InvalidInputError(
            "a file is named more than once: its rows would count twice.", parameter="source"
        )
    single = [item.type for item in listed] == [fs.FileType.File]
    kind = kind or _common_kind([path for item in listed for path in item.paths], single)
    format = _format(kind, marks, types)
    closed = [part for item in listed for part in _closed_parts(item, format)]
    first = closed[0].opened()
    for name in first.schema.names:  # bytes are what is not the text it should be
        if kind == "csv" and kinds.is_binary(first.schema.field(name).type):
            raise _not_text(first.path, f"column {name!r}")
    others = in_order(lambda part: part.opened(first.schema), closed[1:])
    folders = [resolved(f.filesystem, f.base) for f in listed if f.type == fs.FileType.Directory]
    return Files((first, *others), kind, single, tuple(folders))


def resolved(filesystem: Any, path: str) -> str:
    """Return one path for a file, however it was written."""
    if isinstance(filesystem, fs.LocalFileSystem):
        return Path(os.path.realpath(path)).as_posix()
    return path


def open_filesystem(source: str, filesystem: Any = None) -> tuple[Any, str]:
    """Return the file system of a path or address, and the path inside it."""
    if filesystem is not None:
        if not isinstance(filesystem, fs.FileSystem):
            filesystem = fs.PyFileSystem(fs.FSSpecHandler(filesystem))
        return filesystem, source.rstrip("/")
    if "://" not in source:
        return fs.LocalFileSystem(), str(PurePosixPath(Path(source).as_posix()))
    try:
        return fs.FileSystem.from_uri(source)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InvalidInputError(f"{source!r} cannot be opened: {error}") from None


def _find(source: str, suffixes: Sequence[str], filesystem: Any) -> _Listed:
    """Files that one path, glob or address names; a directory without such names is read whole."""
    system, path = open_filesystem(source, filesystem)
    try:
        kind = system.get_file_info(path).type
        if kind == fs.FileType.File:
            return _Listed(system, path.rpartition("/")[0], [path], kind)
        base, paths = path, []
        if kind == fs.FileType.Directory:
            paths = _list(system, path)
            paths = [name for name in paths if name.lower().endswith(tuple(suffixes))] or paths
        elif re.search(r"[*?\[]", path):
            base, paths = _match(system, path)
    except OSError as error:
        raise InvalidInputError(f"{source!r} cannot be listed: {error}") from None
    if not paths:
        raise InvalidInputError(f"{source!r} names no file: check the path.", parameter="source")
    return _Listed(system, base, sorted(paths), kind)


def _list(system: Any, path: str) -> list[str]:
    """Files below a directory, without those that writers mean to be hidden."""
    infos = system.get_file_info(fs.FileSelector(path, recursive=True))
    files = [info.path for info in infos if info.type == fs.FileType.File]
    hidden = ("_", ".")
    return [f for f in files if not any(p.startswith(hidden) for p in _below(f, path).split("/"))]


def _match(system: Any, pattern: str) -> tuple[str, list[str]]:
    """Files that a glob names, below its last directory without a wildcard; ``**`` is any depth."""
    parts = pattern.split("/")
    first = next(index for index, part in enumerate(parts) if re.search(r"[*?\[]", part))
    base = "/".join(parts[:first]) or ("/" if pattern.startswith("/") else ".")
    regex = "".join(
        "(?:.*/)?" if part == "**" else _segment(part) + "/" for part in parts[first:-1]
    )
    regex += ".*" if parts[-1] == "**" else _segment(parts[-1])
    if system.get_file_info(base).type != fs.FileType.Directory:
        return base, []
    return base, [path for path in _list(system, base) if re.fullmatch(regex, _below(path, base))]


def _segment(part: str) -> str:
    """Regular expression of a glob between two slashes."""
    return re.sub(r"\\[Zz]$", "", fnmatch.translate(part).replace(".*", "[^/]*"))


def _below(path: str, base: str) -> str:
    return path.removeprefix("./").removeprefix(base.removeprefix("./").rstrip("/")).lstrip("/")


def _common_kind(paths: list[str], single: bool) -> Kind:
    """Return the kind of the files by their suffixes; different kinds have no common types."""
    of_paths = [
        next((kind for kind, ends in SUFFIXES.items() if path.lower().endswith(ends)), None)
        for path in paths
    ]
    first, kind = paths[0], of_paths[0]
    for path, other in zip(paths, of_paths, strict=True):
        if other != kind:
            raise InvalidInputError(
                f"{first} is {_KIND_NAMES[kind]} and {path} is not: give files of one kind."
            )
    if kind is None and single and "." in PurePosixPath(first).name:
        raise InvalidInputError(
            f"{first}: the suffix decides the format: use one of .csv, .csv.gz, .parquet, "
            ".feather, .arrow."
        )
    return kind or "parquet"


def _format(kind: Kind, marks: tuple[str, str], types: Mapping[str, str]) -> Any:
    """Return the format by which pyarrow.dataset reads files of a kind."""
    if kind != "csv":
        return ds.IpcFileFormat() if kind == "arrow" else ds.ParquetFileFormat()
    separator, decimal = marks
    for name, mark in (("separator", separator), ("decimal", decimal)):
        if not isinstance(mark, str) or len(mark) != 1:
            raise InvalidInputError(f"{name}={mark!r}: give one character.", parameter=name)
    options = ds.CsvFragmentScanOptions(
        read_options=pa_csv.ReadOptions(block_size=BLOCK_BYTES),
        convert_options=pa_csv.ConvertOptions(
            column_types={column: pa.type_for_alias(alias) for column, alias in types.items()},
            null_values=list(CSV_MISSING),
            decimal_point=decimal,
            strings_can_be_null=True,  # an empty field of text is as absent as one of numbers
        ),
    )
    parse = pa_csv.ParseOptions(delimiter=separator, newlines_in_values=True)
    return ds.CsvFileFormat(parse_options=parse, default_fragment_scan_options=options)


def _closed_parts(item: _Listed, format: Any) -> Iterator[FilePart]:
    """Files that one path, glob or directory names, with the values of their hive keys."""
    below = [_below(path, item.base) for path in item.paths]
    rows = [_hive_values(relative) for relative in below]
    keys = dict.fromkeys(name for row in rows for name in row)
    texts = {name: [row.get(name) for row in rows] for name in keys}
    whole = {  # a key whose values are all whole numbers is one; 01 is none
        name: all(_WHOLE.fullmatch(text) for text in column if text is not None)
        for name, column in texts.items()
    }
    schema = pa.schema({name: pa.int64() if whole[name] else pa.string() for name in keys})
    for path, relative, row in zip(item.paths, below, rows, strict=True):
        known = {name: row.get(name) for name in keys}
        values = {n: int(text) if text and whole[n] else text for n, text in known.items()}
        yield FilePart(path, item.filesystem, format, schema, relative, values)


def _hive_values(relative: str) -> dict[str, str | None]:
    """Read ``key=value`` directories."""
    pairs = [part.partition("=") for part in relative.split("/")[:-1] if "=" in part]
    return {unquote(key): None if text == _HIVE_NULL else unquote(text) for key, _, text in pairs}


def _not_text(path: str, what: str) -> InvalidInputError:
    return InvalidInputError(
        f"{path} is not UTF-8 text ({what} is in another encoding): convert it first, for example "
        "with iconv -f latin1 -t utf-8."
    )
