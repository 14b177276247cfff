"""Databases by ADBC: queries as streams of batches, and scores back into a table.

Nothing that is said, logged or kept has the address of a database in it: addresses hold passwords.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from secrets import token_hex
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from fairpca._choices import Missing, Unknown
from fairpca._present import Counter, Progress
from fairpca.exceptions import InvalidInputError
from fairpca.linalg import single_blas_thread
from fairpca.rows._containers import check_unique
from fairpca.tables._model import AnyModel
from fairpca.tables._roles import Names, value_type
from fairpca.tables._stream import Stream, plain_type, reading
from fairpca.tables.project import Job
from fairpca.tables.table import Table

_KINDS = {"postgresql": "PostgreSQL", "postgres": "PostgreSQL", "sqlite": "SQLite"}
_KINDS |= {"duckdb": "DuckDB"}
# SQLite has no types of columns: its driver guesses them from so many rows, then refuses others.
_SQLITE_ROWS = 32768
_HIDDEN = "***"
_SPOKEN = re.compile(r"(?i)(password|passwd|pwd|secret|token|key)(\s*[=:]\s*)('[^']*'|[^\s&,;)]+)")


class Database:
    """An address, and connections to it; embedded engines share one, which they need.

    See Also
    --------
    open_query : Opens a query of it.

    Examples
    --------
    >>> from fairpca.tables import Database
    >>> Database("postgresql://me:secret@host/people")
    Database(PostgreSQL)
    """

    def __init__(self, uri: str) -> None:
        scheme, _, rest = str(uri).partition(":")
        if scheme not in _KINDS or not rest:
            raise InvalidInputError(
                "database: give an address such as postgresql://user@host/name, sqlite:people.db "
                "or duckdb:people.duckdb.",
                parameter="database",
            )
        self.kind = _KINDS[scheme]
        self._uri = uri
        self.path = None if self.kind == "PostgreSQL" else rest.removeprefix("///")
        self._shared: list[Any] = []

    @classmethod
    def of(cls, database: str | Database) -> Database:
        """Take an address or what was made of one."""
        return database if isinstance(database, Database) else cls(database)

    def __repr__(self) -> str:
        return f"Database({self.kind})"

    def clean(self, text: str) -> str:
        """Take out of a message whatever could be a password, or a piece of one."""
        secrets = _secrets(self._uri)
        for secret in (self._uri, *secrets):
            text = text.replace(secret, _HIDDEN)
        for quoted in set(re.findall(r'"([^"]+)"', text)):
            # libpq ends a login at its first @, and quotes what is after it as a host.
            if "@" in quoted or any(quoted in secret for secret in secrets):
                text = text.replace(f'"{quoted}"', f'"{_HIDDEN}"')
        return _SPOKEN.sub(rf"\1\2{_HIDDEN}", text)

    @contextmanager
    def connection(self) -> Iterator[Any]:
        """Open a connection that commits only when `commit` is called."""
        if self._shared:
            yield self._shared[0]
            return
        try:
            import_module("adbc_driver_manager.dbapi")
            driver = import_module(f"adbc_driver_{self.kind.lower()}.dbapi")
        except ImportError:
            raise ImportError("databases need ADBC drivers: pip install 'fairpca[sql]'") from None
        with reading(f"the {self.kind} database", self.clean):
            opened = driver.connect(self._uri if self.path is None else self.path)
        if self.path is not None:
            self._shared.append(opened)
        try:
            yield opened
        finally:
            self._shared.clear()
            opened.close()

    @contextmanager
    def reader(self, sql: str, name: str) -> Iterator[Any]:
        """Run a query, which messages call by a name, and give a reader of its rows."""
        with self.connection() as connection, reading(name, self.clean):
            cursor = connection.cursor()
            try:
                if self.kind == "SQLite":
                    rows = {"adbc.sqlite.query.batch_rows": _SQLITE_ROWS}
                    cursor.adbc_statement.set_options(**rows)
                cursor.execute(sql)
                yield cursor.fetch_record_batch()
            finally:
                cursor.close()

    def check_exists(self) -> None:
        """Refuse a file that is not there: the drivers would make an empty one."""
        if self.path is not None and not os.path.isfile(self.path):
            place = self.path.partition("?")[0]  # after it come options, and tokens among them
            raise InvalidInputError(f"{place}: no such {self.kind} file.", parameter="database")


def _secrets(uri: str) -> list[str]:
    """Return what stands where a password does in an address, well formed or not, longest first."""
    rest = uri.partition("://")[2]
    login = rest.rpartition("@")[0] or rest.partition("/")[0]
    secrets = [login.partition(":")[2]]
    secrets += re.findall(r"[?&](?:ssl)?(?:password|passfile)=([^&]*)", rest)
    secrets += [unquote(secret) for secret in secrets]
    return sorted(filter(None, set(secrets)), key=len, reverse=True)


def open_query(sql: str, database: str | Database) -> Table:
    """Open a query of a database as a table; only its columns are looked at yet.

    Parameters
    ----------
    sql : str
        One SELECT. It is run anew for each pass, for the columns that are needed.
    database : str
        ``postgresql://user@host/name``, ``sqlite:people.db`` or ``duckdb:people.duckdb``. Needs
        ``pip install 'fairpca[sql]'``. Passwords are better left to ``PGPASSWORD`` or ``.pgpass``;
        no message repeats them.

    Returns
    -------
    Table
        For `project_table` and `project_into`.

    See Also
    --------
    open_table : Files.
    project_into : Writes scores to a database.

    Examples
    --------
    >>> from fairpca.tables import open_query
    >>> table = open_query("SELECT * FROM people", "sqlite:people.db")  # doctest: +SKIP
    """
    db = Database.of(database)
    db.check_exists()
    query = sql.strip().rstrip(";")
    if not query:
        raise InvalidInputError("sql is empty: give a SELECT.", parameter="sql")
    name = f"the {db.kind} query"

    def select(columns: str) -> str:
        return f"SELECT {columns} FROM (\n{query}\n) AS fairpca_rows"

    # SQLite guesses types from rows, and renames one of two columns of one name in a subquery.
    empty = query if db.kind == "SQLite" else select("*") + " LIMIT 0"
    with db.reader(empty, name) as reader:
        schema = reader.schema
    # PostgreSQL's numeric, which its driver hands over as text.
    numbers = {field.name for field in schema if getattr(field.type, "type_name", "") == "numeric"}
    types = [(f.name, pa.float64() if f.name in numbers else plain_type(f.type)) for f in schema]
    check_unique(schema.names, name)

    def read(columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        quoted = {column: _quoted(column) for column in columns}
        for column in numbers & set(columns):
            quoted[column] = f"CAST({quoted[column]} AS double precision) AS {quoted[column]}"
        with db.reader(select(", ".join(quoted.values())), name) as reader:
            yield from reader

    stream = Stream(name, pa.schema(types), read)
    return Table(name, stream.schema, (stream,))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def project_into(
    table: Table,
    model: AnyModel,
    database: str | Database,
    into: str,
    *,
    keep: Names = (),
    force: bool = False,
    missing: Missing | None = None,
    unknown: Unknown = "error",
    progress: Progress | None = None,
) -> int:
    """Write the scores of the rows of a table into a table of a database; return their number.

    In one transaction: the new table appears complete or not at all, and what `force` replaces
    is there until then. What is kept stands before the components.

    Parameters
    ----------
    table, model, keep, missing, unknown, progress
        As in `project_table`; the table may be a query of the same database.
    database : str
        As in `open_query`.
    into : str
        Name of the new table, or ``schema.name``.
    force : bool, default False
        Whether an existing table may be replaced.

    See Also
    --------
    project_table : The same into a file.

    Examples
    --------
    >>> from fairpca.tables import project_into
    >>> project_into(table, "model.npz", "sqlite:people.db", "reduced")  # doctest: +SKIP
    """
    db = Database.of(database)
    rows = _Rows(Job(table, model, keep, missing, unknown), progress)
    space, dot, name = into.rpartition(".")
    if any(part != part.strip() or not part for part in ([space] if dot else []) + [name]):
        raise InvalidInputError(
            f"into={into!r} is no name of a table: write name or schema.name, without spaces "
            "around them.",
            parameter="into",
        )
    with db.connection() as connection, _transaction(connection, into, db) as cursor:
        exists = _exists(cursor, db.kind, space, name)
        if exists and not force:
            raise InvalidInputError(
                f"the table {into} exists already: choose another name, or replace it.",
                parameter="into",
                settings=[("force", True)],
            )
        # The rows may come from the table that is replaced: it stays until all are read.
        temporary = f"fairpca_{token_hex(8)}" if exists else name
        written = rows.ingest(cursor, temporary, space)
        if rows.error is None and written in (-1, rows.count):
            if exists:
                _replace(cursor, db.kind, space, name, temporary)
            connection.commit()
            return rows.count
    raise rows.error or InvalidInputError(
        f"the table {into} took {written} of {rows.count} rows: nothing was written."
    )


def _replace(cursor: Any, kind: str, space: str, name: str, temporary: str) -> None:
    """Put a table that is complete in the place of an old one."""
    old, new = _place(space, name), _place(space, temporary)
    cursor.execute(f"DROP TABLE {old}")
    if kind != "SQLite":
        cursor.execute(f"ALTER TABLE {new} RENAME TO {_quoted(name)}")
        return
    # SQLite renames nothing while a view is about a table that is not there.
    cursor.execute(f"CREATE TABLE {old} AS SELECT * FROM {new}")
    cursor.execute(f"DROP TABLE {new}")


class _Rows:
    """Scored batches for a driver, which counts them and keeps an error that drivers garble."""

    def __init__(self, job: Job, progress: Progress | None) -> None:
        self.job, self.progress = job, progress
        self.count = 0
        self.error: BaseException | None = None
        self.schema = pa.schema([(field.name, value_type(field.type)) for field in job.schema])

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            counter = Counter(self.job.table.n_rows, self.progress)
            with single_blas_thread():
                for batch in self.job.batches(self.job.table.parts, counter):
                    self.count += batch.num_rows
                    yield batch.cast(self.schema)
            self.job.warn_of_incomplete()
        except BaseException as error:
            self.error = error
            raise

    def ingest(self, cursor: Any, name: str, space: str) -> int:
        """Write the rows into a new table; return how many the driver counts."""
        reader = pa.RecordBatchReader.from_batches(self.schema, iter(self))
        place = {"db_schema_name": space} if space else {}
        try:
            return int(cursor.adbc_ingest(name, reader, mode="create", **place))
        except Exception:
            if self.error is not None:
                raise self.error from None
            raise


@contextmanager
def _transaction(connection: Any, into: str, database: Database) -> Iterator[Any]:
    """Give a cursor whose transaction ends here; what a driver says becomes one line."""
    from adbc_driver_manager import Error

    cursor = connection.cursor()
    try:
        with reading(f"the table {into}", database.clean, "written", ": nothing was written"):
            yield cursor
    finally:
        for end in (cursor.close, connection.rollback):  # of nothing, after a commit
            with suppress(Error):  # of a connection that is lost, and has undone all by that
                end()


def _exists(cursor: Any, kind: str, space: str, name: str) -> bool:
    """Ask the catalogue, since a SELECT that fails does not say whether the table is absent."""
    if kind == "PostgreSQL":
        cursor.execute(f"SELECT to_regclass({_text(_place(space, name))}) IS NOT NULL")
    elif kind == "SQLite":
        catalogue = _place(space, "sqlite_master")
        same = f"lower(name) = lower({_text(name)})"
        cursor.execute(f"SELECT count(*) > 0 FROM {catalogue} WHERE {same}")
    else:
        schema = _text(space) if space else "current_schema()"
        same = f"lower(table_name) = lower({_text(name)}) AND lower(table_schema) = lower({schema})"
        cursor.execute(f"SELECT count(*) > 0 FROM information_schema.tables WHERE {same}")
    return bool(cursor.fetchall()[0][0])


def _place(space: str, name: str) -> str:
    return f"{_quoted(space)}.{_quoted(name)}" if space else _quoted(name)


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
