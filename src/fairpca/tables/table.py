"""Table: files, or an Arrow table, whose schema is settled once; and its moments and rows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Literal, Unpack

import numpy as np
import pyarrow as pa

from fairpca.exceptions import InvalidInputError
from fairpca.linalg import single_blas_thread
from fairpca.moments import GroupMoments
from fairpca.rows import Rows
from fairpca.tables import _csv, _parquet
from fairpca.tables._csv import CsvPart, settled_types
from fairpca.tables._files import Listing, Source, find_files
from fairpca.tables._kernel import (
    Columns,
    check_finite,
    count_missing,
    positive_rows,
    to_rows,
)
from fairpca.tables._parquet import (
    ParquetPart,
    RowGroup,
    affordable_threads,
    check_same_columns,
    open_part,
)
from fairpca.tables._partial import Partial, check_missing, finish
from fairpca.tables._pass import (
    Bar,
    Checkpoint,
    Progress,
    default_threads,
    in_order,
    sum_row_groups,
    sum_units,
)
from fairpca.tables._roles import Names, RoleOptions, Roles, assign_roles

Kind = Literal["csv", "parquet", "arrow"]
KNOWN_SUFFIXES = (*_parquet.SUFFIXES, *_csv.SUFFIXES)


@dataclass(frozen=True)
class _Slice:
    """An Arrow table in memory, as what one pass reads."""

    table: pa.Table
    path: str

    def batches(self, columns: Iterable[str]) -> Iterator[pa.RecordBatch]:
        yield from self.table.select(list(columns)).to_batches()


@dataclass(frozen=True, eq=False)
class Table:
    """Rows in files or in Arrow, whose files were listed and whose columns are known.

    Made by `open_table`, which has an example.

    Parameters
    ----------
    name : str
        What to call it in a heading.
    kind : {"csv", "parquet", "arrow"}
        Where the rows are.
    schema : pyarrow.Schema
        Columns and types; for CSV files they come from the start of the first one.
    listing : Listing or None
        The files.
    parts : tuple
        What there is to read.
    given_types : frozenset of str
        Columns of CSV files whose types the user gave.
    """

    name: str
    kind: Kind
    schema: Any
    listing: Listing | None = None
    parts: tuple[Any, ...] = ()
    given_types: frozenset[str] = field(default=frozenset())

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
            return int(self.parts[0].table.num_rows)
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

        Parameters
        ----------
        sensitive : str or iterable of str
            Protected attributes.
        features : iterable of str, optional
            Features; None: every column that has no other part.
        control : str or iterable of str, optional
            Strata.
        weight : str, optional
            Column of weights.
        **options
            numeric, categorical, missing, max_cells and max_levels, as in `moments_from_parquet`.

        Returns
        -------
        Roles
            The parts.
        """
        roles = assign_roles(self.schema, sensitive, features, control, weight, **options)
        self.check_columns(roles.columns)
        return roles

    def batches(self, columns: Iterable[str]) -> Iterator[pa.RecordBatch]:
        """Read some columns from the first row to the last.

        Parameters
        ----------
        columns : iterable of str
            Their names.

        Yields
        ------
        pyarrow.RecordBatch
            The rows in order.
        """
        wanted = list(columns)
        self.check_columns(wanted)
        for unit in self.units({}):
            yield from unit.batches(wanted)

    def moments(
        self,
        roles: Roles,
        *,
        progress: Progress = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_seconds: float = 5.0,
        threads: int | None = None,
    ) -> GroupMoments:
        """Sum the rows in one pass, in memory that does not grow with them.

        Parameters
        ----------
        roles : Roles
            What `assign` returned.
        progress : bool or callable, optional
            True draws a bar on standard error; a function is called with the rows done and the
            rows in all, or None where they are not known.
        checkpoint : str or path, optional
            Directory in which the sums so far are kept; Parquet only.
        checkpoint_seconds : float, default 5.0
            Shortest time between two states on disk.
        threads : int, optional
            Row groups that are read and summed at the same time; the result does not depend on it.

        Returns
        -------
        GroupMoments
            What `GroupMoments.from_arrays` gives for the same rows in memory, but for rounding.
        """
        if checkpoint is not None and self.kind != "parquet":
            raise InvalidInputError("checkpoint needs Parquet files.", parameter="checkpoint")
        if self.kind != "parquet":
            with Bar(self.n_rows, progress) as bar, single_blas_thread():
                total = sum_units(self.units(self.types(roles)), roles, bar)
                return finish(total, roles, self.name)
        threads = default_threads() if threads is None else max(int(threads), 1)
        readers = affordable_threads(self.parts[0], roles.columns, threads)
        # Where there are fewer readers than threads, Arrow decodes the columns in parallel.
        spare = min(readers, sum(len(part.rows) for part in self.parts)) < threads
        kept = None
        if checkpoint is not None:
            kept = Checkpoint(checkpoint, roles.as_dict(), checkpoint_seconds)
        with Bar(self.n_rows, progress) as bar, single_blas_thread():
            groups = self._row_groups(use_threads=spare)
            total = sum_row_groups(groups, roles, readers, bar, kept)
        moments = finish(total, roles, self.name)
        if kept is not None:
            kept.remove()
        return moments

    def rows(self, roles: Roles) -> Rows:
        """Read the whole table into memory, by the kernel that sums it in batches.

        Parameters
        ----------
        roles : Roles
            What `assign` returned.

        Returns
        -------
        Rows
            Complete rows of positive weight.
        """
        return self.rows_with(roles, ())[0]

    def rows_with(self, roles: Roles, beside: Iterable[str]) -> tuple[Rows, pa.Table]:
        """Read the whole table into memory, and further columns of the same rows.

        Parameters
        ----------
        roles : Roles
            What `assign` returned.
        beside : iterable of str
            Names of further columns.

        Returns
        -------
        rows : Rows
            Complete rows of positive weight.
        others : pyarrow.Table
            The columns in `beside`, for the same rows.
        """
        others = list(beside)
        columns = list(dict.fromkeys((*roles.columns, *others)))
        self.check_columns(columns)
        batches = [b for unit in self.units(self.types(roles)) for b in unit.batches(columns)]
        whole = _one_batch(batches, columns, self.schema)
        parts = Columns.of(whole, roles)
        missing, used = count_missing(parts, roles, search_features=True)
        incomplete = parts.n_rows - int(np.count_nonzero(used))
        check_missing(Partial(None, {}, parts.n_rows, incomplete, missing), roles)
        if incomplete:
            whole, parts = whole.filter(pa.array(used)), parts.filter(used)
        positive = positive_rows(parts)
        if positive is not None:
            whole, parts = whole.filter(pa.array(positive)), parts.filter(positive)
        if not parts.n_rows:
            raise InvalidInputError(f"{self.name}: no row can be used ({len(used):,} read).")
        check_finite(parts, roles)
        return to_rows(parts, roles)[0], pa.Table.from_batches([whole.select(others)])

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
        """Refuse a Parquet file that does not have these columns as the first one has them."""
        if self.kind == "parquet":
            check_same_columns(list(self.parts), columns)


def _one_batch(batches: list[Any], columns: list[str], schema: pa.Schema) -> pa.RecordBatch:
    """Join batches; text that was coded batch by batch gets one code."""
    if not batches:
        return pa.RecordBatch.from_pylist([], schema=pa.schema([schema.field(n) for n in columns]))
    table = pa.Table.from_batches(batches).select(columns).unify_dictionaries().combine_chunks()
    found = table.to_batches()
    return found[0] if found else batches[0].select(columns)


def open_table(
    source: Source | pa.Table | Table,
    *,
    separator: str = ",",
    types: Mapping[str, str] | None = None,
    filesystem: Any = None,
    kind: Literal["csv", "parquet"] | None = None,
) -> Table:
    r"""List the files of a table once and settle its columns once.

    Parameters
    ----------
    source : str, path, iterable of them, pyarrow.Table or Table
        Files, globs, directories (with ``key=value`` directories as columns) or addresses that
        pyarrow knows, such as ``s3://bucket/table``, all CSV or all Parquet; or an Arrow table.
        A table that is open already is returned as it is.
    separator : str, default ","
        Between the fields of a CSV file.
    types : mapping, optional
        Arrow types of columns of CSV files whose start misleads, such as ``{"zip": "string"}``.
    filesystem : pyarrow or fsspec file system, optional
        Where plain paths lie; None: the local disk.
    kind : {"csv", "parquet"}, optional
        What the files are; None: told by their names.

    Returns
    -------
    Table
        Nothing but headers and footers has been read.

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
    if isinstance(source, pa.Table):
        return Table("table", "arrow", source.schema, None, (_Slice(source, "table"),))
    suffixes = {"csv": _csv.SUFFIXES, "parquet": _parquet.SUFFIXES}
    listing = find_files(source, suffixes[kind] if kind else KNOWN_SUFFIXES, filesystem)
    name = _name(source, listing)
    if (kind or _kind(listing)) == "parquet":
        return _open_parquet(name, listing)
    given = {column: pa.type_for_alias(alias) for column, alias in (types or {}).items()}
    parts = tuple(CsvPart(file, separator, given) for file in listing.files)
    return Table(name, "csv", parts[0].schema(), listing, parts, frozenset(given))


def _open_parquet(name: str, listing: Listing) -> Table:
    for file in listing.files:
        if file.path.lower().endswith(_csv.SUFFIXES):
            raise InvalidInputError(f"{file.path} is CSV: only Parquet files are read here.")
    found: list[ParquetPart] = list(in_order(open_part, listing.files, default_threads()))
    return Table(name, "parquet", found[0].schema, listing, tuple(found))


def _name(source: Any, listing: Listing) -> str:
    if isinstance(source, str | os.PathLike):
        return PurePosixPath(os.fspath(source).rstrip("/")).name or os.fspath(source)
    if listing.single:
        return PurePosixPath(listing.files[0].path).name
    return f"{len(listing.files)} files"


def _kind(listing: Listing) -> Kind:
    """Tell CSV from Parquet by the names; both together have no common types."""
    paths = [file.path for file in listing.files]
    csv = [path for path in paths if path.lower().endswith(_csv.SUFFIXES)]
    if csv and len(csv) < len(paths):
        other = next(path for path in paths if path not in csv)
        raise InvalidInputError(f"{csv[0]} is CSV and {other} is not: give files of one kind.")
    if csv:
        return "csv"
    name = PurePosixPath(paths[0]).name
    if listing.single and "." in name and not name.lower().endswith(_parquet.SUFFIXES):
        raise InvalidInputError(
            f"{paths[0]}: the kind of file is told by its name: use one of .csv, .csv.gz, .parquet."
        )
    return "parquet"
