"""Table: files or an Arrow stream whose columns are settled once; its moments and its rows."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from fairpca._present import Counter, Progress
from fairpca.exceptions import InvalidInputError
from fairpca.linalg import single_blas_thread
from fairpca.moments import GroupMoments
from fairpca.rows import Rows
from fairpca.rows._checks import fill_means, known_means, no_rows_error
from fairpca.rows._identifiers import check_text_features, unique_columns, warn_of_identifiers
from fairpca.tables._kernel import (
    Partial,
    check_finite_columns,
    count_missing,
    numbers,
    positive_rows,
    to_rows,
    used_part,
    with_keys,
)
from fairpca.tables._roles import Columns, Names, RoleOptions, Roles, assign_roles, is_text
from fairpca.tables._stream import (
    batch_rows,
    check_missing,
    finish,
    join_batches,
    open_stream,
    sum_parts,
)

if TYPE_CHECKING:
    from fairpca.tables._files import Files, Kind, Source


@dataclass(frozen=True, eq=False)
class Table:
    """Rows in files or in Arrow, whose files were listed and whose columns are known.

    Made by `open_table`, which has an example. `schema` has the columns and their types; for CSV
    files they come from the start of the first one.

    See Also
    --------
    open_table, open_query : What make it.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from fairpca.tables import open_table
    >>> table = open_table(pa.table({"height": [1.6, 1.8], "sex": ["f", "m"]}))
    >>> table.names, table.n_rows
    (['height', 'sex'], 2)
    """

    name: str  # for a heading
    schema: Any
    parts: tuple[Any, ...]  # files, or one stream
    files: Files | None = None

    @property
    def kind(self) -> Kind:
        """What the rows are stored as; a stream is Arrow."""
        return "arrow" if self.files is None else self.files.kind

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self.schema.names)

    @property
    def n_rows(self) -> int | None:
        """Number of rows, where it is known without reading them."""
        counts = [part.n_rows for part in self.parts]
        return None if None in counts else sum(counts)

    def assign(
        self,
        sensitive: Names,
        features: Names = None,
        control: Names = None,
        weight: str | None = None,
        **options: Unpack[RoleOptions],
    ) -> Roles:
        """Settle which column plays which part, and check that every file has these columns.

        Parameters are as in `moments_from_files`.
        """
        roles = assign_roles(self.schema, sensitive, features, control, weight, **options)
        self.check_columns(roles.columns)
        return roles

    def batches(self, columns: Iterable[str]) -> Iterator[pa.RecordBatch]:
        """Read some columns, by their names, from the first row to the last."""
        wanted = self.read_as(columns)
        self.check_columns(wanted.names)
        for part in self.parts:
            yield from part.batches(wanted, batch_rows(len(wanted)))

    def _read(self, wanted: pa.Schema) -> pa.RecordBatch:
        """Read all rows of some columns into one batch."""
        size = batch_rows(len(wanted))
        batches = [batch for part in self.parts for batch in part.batches(wanted, size)]
        return join_batches(batches or [pa.RecordBatch.from_pylist([], schema=wanted)])

    def moments(
        self, roles: Roles, *, progress: Progress | None = None, threads: int | None = None
    ) -> GroupMoments:
        """Sum the rows in one pass, in memory that does not grow with them.

        Parameters
        ----------
        roles : Roles
            What `assign` returned.
        progress, threads
            As in `moments_from_files`.
        """
        counter = Counter(self.n_rows, progress)
        with single_blas_thread():
            total = sum_parts(self.parts, roles, self.role_schema(roles), threads, counter)
        return finish(total, roles, self.name)

    def rows(self, roles: Roles) -> Rows:
        """Read the complete rows of positive weight into memory; `assign` gives the roles."""
        return self.rows_with(roles, ())[0]

    def rows_with(
        self,
        roles: Roles,
        columns: Iterable[str],
        only: Mapping[str, str] | None = None,
        against: Mapping[str, tuple[Table, tuple[str, ...]]] | None = None,
    ) -> tuple[Rows, pa.Table]:
        """Read what `rows` does, and some columns for the same rows; `only` those with a value.

        Columns of other tables `against` them follow, as ``table: column``.
        """
        others, only = list(columns), only or {}
        needed = [name for name in dict.fromkeys([*others, *only]) if name not in roles.columns]
        wanted = pa.schema([*self.role_schema(roles), *self.read_as(needed)])
        self.check_columns(wanted.names)
        whole = self._read(wanted)
        for name, (other, chosen) in (against or {}).items():
            whole = _with_columns(whole, name, other, chosen)
            others += [f"{name}: {column}" for column in chosen]
        for name, value in only.items():
            whole = _with_value(whole, name, value)
        parts = Columns.of(whole, roles)
        missing, complete = count_missing(parts, roles, search_features=True)
        incomplete = parts.n_rows - int(np.count_nonzero(complete))
        check_missing(Partial(None, {}, parts.n_rows, incomplete, missing), roles)
        used = positive_rows(parts) & (complete | (roles.missing == "mean"))
        if not used.any():
            raise no_rows_error(parts.n_rows, incomplete, self.name)
        parts = parts.filter(used)
        check_finite_columns(parts, roles)
        rows, levels = to_rows(parts, roles)
        rows = with_keys(rows, roles, levels)  # before means fill what is missing, as in batches
        check_text_features(levels, len(rows), missing if roles.missing == "mean" else {})
        unique = unique_columns(rows.X[:, : len(roles.features)], roles.features)
        warn_of_identifiers(unique, len(rows))
        if roles.hold_out:
            part = used_part(rows, roles)
            rows, used[used] = rows.take(np.flatnonzero(part)), part
        if missing and roles.missing == "mean":
            rows = replace(rows, X=fill_means(rows.X, known_means(rows.X, rows.weights)))
        copied = pa.Table.from_batches([whole.select(others)])
        return rows, copied if used.all() else copied.filter(pa.array(used))

    def role_schema(self, roles: Roles) -> pa.Schema:
        """Columns of a pass and the types to read them as."""
        floats = {*roles.features, *roles.numeric, roles.weight, *roles.target}
        return self.read_as(roles.columns, floats)

    def read_as(
        self, columns: Iterable[str], floats: Collection[Any] = (), texts: Collection[str] = ()
    ) -> pa.Schema:
        """Types to read columns as: numbers of CSV files are floats, whatever the file starts with.

        `texts` are read as they are written; files of other kinds know their types.
        """
        fields = [self.schema.field(name) for name in columns]
        if self.kind != "csv":
            return pa.schema(fields)
        types = {}
        for field in fields:
            kind = field.type
            if field.name in floats and (kind == pa.null() or kinds.is_integer(kind)):
                kind = pa.float64()
            elif field.name in texts or kind == pa.null():
                kind = pa.string()
            types[field.name] = kind
        return pa.schema(types)

    def check_columns(self, columns: Iterable[str]) -> None:
        """Refuse a file that does not have these columns as the first one has them."""
        first, names = self.parts[0], list(columns)
        for other in self.parts[1:]:
            for name in names:
                if name not in other.schema.names:
                    raise InvalidInputError(
                        f"{other.path}: column {name!r} is missing, which {first.path} has."
                    )
                ours, theirs = (part.schema.field(name).type for part in (first, other))
                alike = ours == theirs or (is_text(ours) and is_text(theirs))
                if not alike and theirs != pa.null():  # as pandas 2 writes text of no rows
                    raise InvalidInputError(
                        f"{other.path}: column {name!r} is {theirs}, but {ours} in {first.path}: "
                        "write both with the same type."
                    )


def _with_columns(
    batch: pa.RecordBatch, name: str, other: Table, columns: Sequence[str]
) -> pa.RecordBatch:
    """Add columns of another table that has the same rows, in the same order."""
    added = other._read(other.read_as(columns, columns))
    if len(added) != len(batch):
        raise InvalidInputError(
            f"{name} has {len(added)} rows, but the audited table has {len(batch)}: both must "
            "have the same rows in the same order.",
            parameter="against",
        )
    matrix = {column: numbers(added.column(column)).astype(np.float64) for column in columns}
    for column, values in matrix.items():
        if not np.isfinite(values).all():
            raise InvalidInputError(
                f"{name}: column {column!r} has missing or infinite values.", parameter="against"
            )
    names = [*batch.schema.names, *(f"{name}: {column}" for column in columns)]
    arrays = [*batch.columns, *map(pa.array, matrix.values())]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _with_value(batch: pa.RecordBatch, name: str, value: str) -> pa.RecordBatch:
    """Keep the rows in which a column has a value, which is written as text."""
    column = batch.column(name)
    column = column.dictionary_decode() if kinds.is_dictionary(column.type) else column
    try:
        kept = batch.filter(pc.equal(column, pa.scalar(value).cast(column.type)))
    except pa.ArrowException:  # a word where numbers stand
        kept = batch.slice(0, 0)
    if not kept.num_rows:
        values = pc.drop_null(pc.unique(column)).slice(0, 10).cast(pa.string())
        known = ", ".join(values.to_pylist())
        raise InvalidInputError(
            f"no row has {value!r} in column {name!r}: it holds {known or 'no value'}.",
            parameter="only",
        )
    return kept


def open_table(
    source: Any,
    *,
    separator: str = ",",
    decimal: str = ".",
    types: Mapping[str, str] | None = None,
    filesystem: Any = None,
    kind: Kind | None = None,
) -> Table:
    r"""List the files of a table once and settle its columns once; headers and footers are read.

    Parameters
    ----------
    source : str, path, iterable of them, table, stream or Table
        Files, globs, directories or addresses, as in `moments_from_files`; or what
        `moments_from_arrow` takes. A table that is open already is returned as it is.
    separator, decimal, types, filesystem, kind
        As in `moments_from_files`.

    See Also
    --------
    open_query : Databases.
    Table : What it returns.

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
        return Table(stream.path, stream.schema, (stream,))
    from fairpca.tables._files import open_files  # rows in memory need none of it

    files = open_files(source, (separator, decimal), types or {}, filesystem, kind)
    if isinstance(source, str | os.PathLike):
        name = PurePosixPath(os.fspath(source).rstrip("/")).name or os.fspath(source)
    elif files.single:
        name = PurePosixPath(files.parts[0].path).name
    else:
        name = f"{len(files.parts)} files"
    return Table(name, files.parts[0].schema, files.parts, files)


def moments_from_files(
    source: Source,
    sensitive: Names,
    features: Names = None,
    control: Names = None,
    weight: str | None = None,
    *,
    separator: str = ",",
    decimal: str = ".",
    types: Mapping[str, str] | None = None,
    filesystem: Any = None,
    kind: Kind | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    **options: Unpack[RoleOptions],
) -> GroupMoments:
    r"""Sum the rows of CSV, Parquet or Arrow files in one pass, in memory that does not grow.

    The moments are what `GroupMoments.from_arrays` gives for the same rows, but for rounding.
    The types of CSV columns are inferred from the first 4 MB of the first file and hold for all;
    features are read as floats. Empty fields, NA, NaN, None, null and the like are missing values.

    Parameters
    ----------
    source : str, path or iterable of them
        Files, globs, directories (with ``key=value`` directories as columns) or addresses that
        pyarrow knows, such as ``s3://bucket/table``. All of one kind; CSV files have a header
        line and may be packed (``.gz``, ``.bz2``, ``.zst``).
    sensitive : str or iterable of str
        Protected attributes. Their groups are found on the way.
    features : iterable of str, optional
        Features; None: every column not used elsewhere. Other columns are not read.
    control : str or iterable of str, optional
        Strata.
    weight : str, optional
        Column of weights ≥ 0; rows of weight zero are left out altogether.
    separator : str, default ","
        Between the fields of a CSV file.
    decimal : str, default "."
        Before the decimals of a number of a CSV file.
    types : mapping, optional
        Arrow types of CSV columns where the start of the file misleads: ``{"zip": "string"}``.
    filesystem : pyarrow or fsspec file system, optional
        Where plain paths lie; None: the local disk.
    kind : {"csv", "parquet", "arrow"}, optional
        Format of the files; None: by their suffixes.
    threads : int, optional
        Batches that are summed at the same time; None: one for each core, at most 8. The result
        does not depend on it.
    progress : callable, optional
        Called with the rows done and, where it is known, the rows in all.
    **options
        numeric : iterable of str
            Sensitive columns that are numbers whatever their type.
        categorical : iterable of str
            Features that become one indicator ``column=value`` for each of their values.
        missing : {"error", "drop-rows", "mean"}, default "error"
            "error" counts the missing values of all columns and raises; "drop-rows" leaves the
            rows out and warns with their number; "mean" counts a missing feature (a missing
            category as well) as its mean over all rows, never over a group, and warns too.
        missing_groups : {"raise", "own", "unlabelled"}, default "raise"
            What a row without a group (or stratum) is: an error, unless `missing` drops it, or one
            of a group called missing; "unlabelled" is as in `FairPCA`.
        max_cells : int, default 1000
            Largest number of distinct combinations of groups.
        max_levels : int, default 1000
            Largest number of values of a categorical feature.
        folds : int, default 0
            Sum the rows by fold, in the same pass, and return `FoldedMoments`; 0: all together.
        unit : str
            Column of persons, sites or households, whose rows share a fold.
        target : str or iterable of str
            Columns that the features are to predict, for `FairPCA(target_weight=…)`. A row in
            which one is missing counts in all other moments.

    Raises
    ------
    InvalidInputError
        Naming the file where one cannot be read, lacks a column or has another type.

    See Also
    --------
    moments_from_arrow, moments_from_dask, moments_from_spark : Other inputs.
    project_table : The way back.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fairpca.tables import moments_from_files
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "people.csv")
    ...     _ = file.write_text("height,sex\n1.6,f\n1.8,m\n")
    ...     moments = moments_from_files(file, sensitive="sex")
    >>> moments.n_samples, moments.feature_names, moments.levels("sex")
    (2, ('height',), ('f', 'm'))
    """
    marks = {"separator": separator, "decimal": decimal}
    table = open_table(source, **marks, types=types, filesystem=filesystem, kind=kind)
    roles = table.assign(sensitive, features, control, weight, **options)
    return table.moments(roles, progress=progress, threads=threads)


def moments_from_arrow(
    source: Any,
    sensitive: Names,
    features: Names = None,
    control: Names = None,
    weight: str | None = None,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
    **options: Unpack[RoleOptions],
) -> GroupMoments:
    """Sum the rows of an Arrow stream in one pass, in memory that does not grow with them.

    Batches are cut to one size and added in order, so that the same rows in the same order give
    the same bits, whichever engine they come from and however it was scheduled.

    Parameters
    ----------
    source : object with ``__arrow_c_stream__``, polars LazyFrame, ADBC cursor or callable
        A pyarrow reader, table or dataset, a frame of pandas or polars, a DuckDB relation, a cursor
        whose query has been run. A LazyFrame runs in the streaming engine of polars. A function
        without arguments is called to open the stream, each time that it is needed.
    sensitive, features, control, weight, threads, progress, **options
        As in `moments_from_files`.

    See Also
    --------
    moments_from_files, moments_from_dask, moments_from_spark : Other inputs.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from fairpca.tables import moments_from_arrow
    >>> table = pa.table({"height": [1.6, 1.8, 1.7], "sex": ["f", "m", "f"]})
    >>> moments_from_arrow(table.to_reader(), sensitive=["sex"]).levels("sex")
    ('f', 'm')
    """
    stream = None if isinstance(source, str | os.PathLike) else open_stream(source)
    if stream is None:
        raise InvalidInputError(
            f"source is a {type(source).__name__}: give what has __arrow_c_stream__, a polars "
            "LazyFrame, an ADBC cursor, or a function that returns one of them.",
            parameter="source",
        )
    table = open_table(stream)
    roles = table.assign(sensitive, features, control, weight, **options)
    return table.moments(roles, progress=progress, threads=threads)
