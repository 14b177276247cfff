"""Table: files, or an Arrow table, whose schema is settled once; and its moments and rows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, Literal, Unpack

import numpy as np
import pyarrow as pa

from fairpca._progress import Counter, Progress
from fairpca.exceptions import InvalidInputError
from fairpca.linalg import single_blas_thread
from fairpca.moments import GroupMoments
from fairpca.rows import Rows
from fairpca.rows._missing import fill_means, known_means, no_rows_error
from fairpca.tables import _csv, _ipc, _parquet
from fairpca.tables._csv import CsvPart, settled_types
from fairpca.tables._files import Listing, find_files
from fairpca.tables._ipc import open_arrow
from fairpca.tables._kernel import Columns, check_finite, count_missing, positive_rows, to_rows
from fairpca.tables._parquet import RowGroup, affordable_threads, check_same_columns, open_part
from fairpca.tables._partial import Partial, check_missing, finish
from fairpca.tables._pass import (
    Checkpoint,
    default_threads,
    in_order,
    sum_row_groups,
    sum_units,
)
from fairpca.tables._roles import Names, RoleOptions, Roles, assign_roles
from fairpca.tables._stream import Stream, open_stream, sum_stream

Kind = Literal["csv", "parquet", "arrow"]
_SUFFIXES: dict[Kind, tuple[str, ...]] = {
    "csv": _csv.SUFFIXES,
    "parquet": _parquet.SUFFIXES,
    "arrow": _ipc.SUFFIXES,
}
_KIND_NAMES = {"csv": "CSV", "parquet": "Parquet", "arrow": "Arrow", None: "of no known kind"}


@dataclass(frozen=True, eq=False)
class Table:
    """Rows in files or in Arrow, whose files were listed and whose columns are known.

    Made by `open_table`, which has an example. `schema` has the columns and their types; for CSV
    files they come from the start of the first one.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from fairpca.tables import open_table
    >>> table = open_table(pa.table({"height": [1.6, 1.8], "sex": ["f", "m"]}))
    >>> table.names, table.n_rows
    (['height', 'sex'], 2)
    """

    name: str  # for a heading
    kind: Kind
    schema: Any
    listing: Listing | None = None  # the files
    parts: tuple[Any, ...] = ()  # what there is to read
    given_types: frozenset[str] = field(default=frozenset())  # columns of CSV files typed by hand

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self.schema.names)

    @property
    def n_rows(self) -> int | None:
        """Number of rows, where it is known without reading them."""
        if self.kind == "csv":
            return None
        if self.kind == "arrow":
            counts = [part.n_rows for part in self.parts]
            return None if None in counts else sum(counts)
        return sum(sum(part.rows) for part in self.parts)

    def assign(
        self,
        sensitive: Names,
        features: Names = None,
        control: Names = None,
        weight: str | None = None,
        **options: Unpack[RoleOptions],
    ) -> Roles:
        """Settle which column plays which part, and check that every file has these columns.

        Parameters are as in `moments_from_parquet`.
        """
        roles = assign_roles(self.schema, sensitive, features, control, weight, **options)
        self.check_columns(roles.columns)
        return roles

    def batches(self, columns: Iterable[str]) -> Iterator[pa.RecordBatch]:
        """Read some columns, by their names, from the first row to the last."""
        wanted = list(columns)
        self.check_columns(wanted)
        for unit in self.units({}):
            yield from unit.batches(wanted)

    def moments(
        self,
        roles: Roles,
        *,
        progress: Progress | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_seconds: float = 5.0,
        threads: int | None = None,
    ) -> GroupMoments:
        """Sum the rows in one pass, in memory that does not grow with them.

        Parameters
        ----------
        roles : Roles
            What `assign` returned.
        progress, checkpoint, checkpoint_seconds, threads
            As in `moments_from_parquet`; `checkpoint` and `threads` are for Parquet only.
        """
        kept = None
        if checkpoint is not None:
            self.check_repeatable()
            kept = Checkpoint(checkpoint, roles.as_dict(), checkpoint_seconds)
        threads = default_threads() if threads is None else max(int(threads), 1)
        counter = Counter(self.n_rows, progress)
        with single_blas_thread():
            if self.kind == "parquet":
                total = self._sum_row_groups(roles, threads, counter, kept)
            elif isinstance(self.parts[0], Stream):
                total = sum_stream(self.parts[0], roles, threads, counter, kept)
            else:
                total = sum_units(self.units(self.types(roles)), roles, counter)
        moments = finish(total, roles, self.name)
        if kept is not None:
            kept.remove()
        return moments

    def check_repeatable(self) -> None:
        """Refuse a table whose pass could not go on where it was interrupted."""
        first = self.parts[0]
        if self.kind != "parquet" and not (isinstance(first, Stream) and first.repeatable):
            raise InvalidInputError(
                "checkpoint needs Parquet files, or a stream that can be read again.",
                parameter="checkpoint",
            )

    def _sum_row_groups(
        self, roles: Roles, threads: int, counter: Counter, kept: Checkpoint | None
    ) -> Partial:
        readers = affordable_threads(self.parts[0], roles.columns, threads)
        # Where there are fewer readers than threads, Arrow decodes the columns in parallel.
        spare = min(readers, sum(len(part.rows) for part in self.parts)) < threads
        return sum_row_groups(self._row_groups(use_threads=spare), roles, readers, counter, kept)

    def rows(self, roles: Roles) -> Rows:
        """Read the complete rows of positive weight into memory; `assign` gives the roles."""
        return self.rows_with(roles, ())[0]

    def rows_with(self, roles: Roles, beside: Iterable[str]) -> tuple[Rows, pa.Table]:
        """Read what `rows` does, and the columns named in `beside` for the same rows."""
        others = list(beside)
        columns = list(dict.fromkeys((*roles.columns, *others)))
        self.check_columns(columns)
        batches = [b for unit in self.units(self.types(roles)) for b in unit.batches(columns)]
        whole = _one_batch(batches, columns, self.schema)
        parts = Columns.of(whole, roles)
        missing, used = count_missing(parts, roles, search_features=True)
        incomplete = parts.n_rows - int(np.count_nonzero(used))
        found = Partial(None, {}, parts.n_rows, incomplete, missing)
        check_missing(found, roles)
        if incomplete and roles.missing == "drop-rows":
            whole, parts = whole.filter(pa.array(used)), parts.filter(used)
        positive = positive_rows(parts)
        if positive is not None:
            whole, parts = whole.filter(pa.array(positive)), parts.filter(positive)
        if not parts.n_rows:
            raise no_rows_error(found.n_rows, incomplete, self.name)
        check_finite(parts, roles)
        rows, _ = to_rows(parts, roles)
        if missing and roles.missing == "mean":
            rows = replace(rows, X=fill_means(rows.X, known_means(rows.X, rows.weights)))
        return rows, pa.Table.from_batches([whole.select(others)])

    def types(self, roles: Roles) -> dict[str, pa.DataType]:
        """Types of the columns for a whole pass, where the files do not say."""
        return settled_types(self.schema, roles, self.given_types) if self.kind == "csv" else {}

    def units(self, types: Mapping[str, pa.DataType], *, ranges: bool = False) -> list[Any]:
        """Return what can be read apart from the rest; `ranges` cuts large CSV files."""
        if self.kind == "parquet":
            return self._row_groups()
        if self.kind == "arrow":
            return list(self.parts)
        text = {f.name: pa.string() if f.type == pa.null() else f.type for f in self.schema}
        files = [
            CsvPart(part.file, part.separator, {**text, **part.types, **types})
            for part in self.parts
        ]
        return [part for file in files for part in file.ranges()] if ranges else files

    def _row_groups(self, use_threads: bool = False) -> list[RowGroup]:
        return [
            RowGroup(part, group, use_threads)
            for part in self.parts
            for group in range(len(part.rows))
        ]

    def check_columns(self, columns: Iterable[str]) -> None:
        """Refuse a file that does not have these columns as the first one has them."""
        if self.kind != "csv" and self.listing is not None:
            check_same_columns(list(self.parts), columns)


def _one_batch(batches: list[Any], columns: list[str], schema: pa.Schema) -> pa.RecordBatch:
    """Join batches; text that was coded batch by batch gets one code."""
    if not batches:
        return pa.RecordBatch.from_pylist([], schema=pa.schema([schema.field(n) for n in columns]))
    table = pa.Table.from_batches(batches).select(columns).unify_dictionaries().combine_chunks()
    found = table.to_batches()
    return found[0] if found else batches[0].select(columns)


def open_table(
    source: Any,
    *,
    separator: str = ",",
    types: Mapping[str, str] | None = None,
    filesystem: Any = None,
    kind: Kind | None = None,
) -> Table:
    r"""List the files of a table once and settle its columns once; headers and footers are read.

    Parameters
    ----------
    source : str, path, iterable of them, table, stream or Table
        As in `moments_from_parquet`, all CSV, all Parquet or all Arrow (Feather); or what
        `moments_from_arrow` takes. A table that is open already is returned as it is.
    separator, types, filesystem
        As in `moments_from_csv`.
    kind : {"csv", "parquet", "arrow"}, optional
        What the files are; None: told by their names.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from fairpca.tables import open_table
    >>> table = open_table(pa.table({"height": [1.6, 1.8, 1.7], "sex": ["f", "m", "f"]}))
    >>> roles = table.assign("sex")
    >>> table.moments(roles).levels("sex"), table.rows(roles).X.shape
    (('f', 'm'), (3, 1))
    """
    if isinstance(source, Table):
        return source
    stream = None if isinstance(source, str | os.PathLike) else open_stream(source)
    if stream is not None:
        return Table(stream.path, "arrow", stream.schema, None, (stream,))
    known = tuple(suffix for suffixes in _SUFFIXES.values() for suffix in suffixes)
    listing = find_files(source, _SUFFIXES[kind] if kind else known, filesystem)
    name, kind = _name(source, listing), kind or _kind(listing)
    if kind == "parquet":
        return _open_parquet(name, listing)
    if kind == "arrow":
        found = tuple(open_arrow(file) for file in listing.files)
        return Table(name, "arrow", found[0].schema, listing, found)
    given = {column: pa.type_for_alias(alias) for column, alias in (types or {}).items()}
    parts = tuple(CsvPart(file, separator, given) for file in listing.files)
    return Table(name, "csv", parts[0].schema(), listing, parts, frozenset(given))


def _open_parquet(name: str, listing: Listing) -> Table:
    for file in listing.files:
        if file.path.lower().endswith(_csv.SUFFIXES):
            raise InvalidInputError(f"{file.path} is CSV: only Parquet files are read here.")
    found = tuple(in_order(open_part, listing.files, default_threads()))
    return Table(name, "parquet", found[0].schema, listing, found)


def _name(source: Any, listing: Listing) -> str:
    if isinstance(source, str | os.PathLike):
        return PurePosixPath(os.fspath(source).rstrip("/")).name or os.fspath(source)
    if listing.single:
        return PurePosixPath(listing.files[0].path).name
    return f"{len(listing.files)} files"


def _kind(listing: Listing) -> Kind:
    """Tell the kind of the files by their names; different kinds have no common types."""
    first = listing.files[0].path
    kind = _kind_of(first)
    for file in listing.files:
        if _kind_of(file.path) != kind:
            raise InvalidInputError(
                f"{first} is {_KIND_NAMES[kind]} and {file.path} is not: give files of one kind."
            )
    if kind is None and listing.single and "." in PurePosixPath(first).name:
        raise InvalidInputError(
            f"{first}: the kind of file is told by its name: use one of .csv, .csv.gz, .parquet, "
            ".feather, .arrow."
        )
    return kind or "parquet"


def _kind_of(path: str) -> Kind | None:
    name = path.lower()
    return next((kind for kind, ends in _SUFFIXES.items() if name.endswith(ends)), None)
