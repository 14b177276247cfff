"""Databases: PostgreSQL on a server of our own, SQLite and DuckDB; run by `make test-sql`."""

import sys
import threading
import time
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from postgres_support import PASSWORD, binaries, running_server
from support import run_command
from table_support import FEATURES, assert_same_moments, in_memory, people

from fairpca import FairPCA
from fairpca.estimators import load_model
from fairpca.exceptions import InvalidInputError
from fairpca.tables import Database, open_query, open_table, project_into

pytest.importorskip("adbc_driver_manager", reason="needs fairpca[sql]")
pytestmark = pytest.mark.sql
KINDS = ("postgresql", "sqlite", "duckdb")
PIECES = (PASSWORD, "t0p", "secret", "%2Fsecret")


@pytest.fixture(scope="module")
def postgresql():
    if binaries() is None:
        pytest.skip("PostgreSQL is not installed: there is no initdb")
    with running_server() as uri:
        yield uri


@pytest.fixture(params=KINDS)
def uri(request, tmp_path):
    if request.param == "postgresql":
        return request.getfixturevalue("postgresql")
    return f"{request.param}:{tmp_path}/people.db"


@pytest.fixture
def frame(uri):
    frame = people(1500)
    fill(uri, "people", frame)
    return frame


def fill(uri, name, frame):
    table = frame if isinstance(frame, pa.Table) else pa.Table.from_pandas(frame)
    with Database(uri).connection() as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS {name}")
        cursor.adbc_ingest(name, table)
        connection.commit()


def rows_of(uri, name):
    """What another connection sees of a table; None where there is none."""
    with Database(uri).connection() as connection, connection.cursor() as cursor:
        try:
            cursor.execute(f"SELECT * FROM {name}")
            return cursor.fetch_arrow_table().to_pandas()
        except Exception:
            return None


def run(*words, **environment):
    result = run_command(*words, env=environment)
    shown = result.stdout + result.stderr
    assert not any(piece in shown for piece in PIECES), shown
    return result


def test_moments_are_those_of_the_rows(uri, frame, monkeypatch):
    monkeypatch.setattr("fairpca.tables._stream.batch_rows", lambda _: 400)
    table = open_query("select * from people;", uri)
    roles = table.assign(["sex", "race"], FEATURES, "city", "w")
    found = table.moments(roles)
    expected = in_memory(frame, ["sex", "race"], ["city"], "w")
    assert_same_moments(found, expected, rtol=1e-12)
    assert_same_moments(table.moments(roles), expected)  # the query is run anew
    assert len(table.rows(roles)) == (frame["w"] > 0).sum()


def test_the_command_line_from_a_query_to_a_table(uri, frame, tmp_path):
    model = tmp_path / "model.npz"
    asked = ("--sql", "with p as (select * from people) select * from p", "--database", uri)
    result = run("fit", *asked, "-s", "sex", "--drop", "race,age,city,w", "--save", model)
    assert result.exit_code == 0, result.stderr
    assert "1500 rows, 4 features" in result.stdout
    assert not any(piece.encode() in model.read_bytes() for piece in PIECES)
    into = ("transform", model, *asked, "--into", "reduced", "--keep", "age")
    result = run(*into)
    assert (result.exit_code, result.stdout) == (0, "1500 rows written to reduced\n")
    written = rows_of(uri, "reduced").sort_values("age")
    fair = load_model(model)
    expected = fair.transform(frame.sort_values("age")[FEATURES])
    assert list(written) == ["age", "fairpca0", "fairpca1"]
    np.testing.assert_allclose(written[["fairpca0", "fairpca1"]], expected, atol=1e-10)
    assert_refused_without_force(uri, into)


def assert_refused_without_force(uri, into):
    result = run(*into)
    assert result.exit_code == 2
    assert "the table reduced exists already" in result.stderr
    fill(uri, "reduced", pd.DataFrame({"old": [1.0]}))
    assert run(*into, "--force").exit_code == 0
    assert len(rows_of(uri, "reduced")) == 1500


@pytest.mark.parametrize("source", ["people", "seen"])
def test_the_table_that_is_read_can_be_replaced(uri, frame, tmp_path, source):
    fair = FairPCA(2).fit(frame[FEATURES], sensitive_features=frame["sex"])
    model = fair.save(tmp_path / "model")
    if source == "seen":
        if uri.startswith("postgresql"):
            pytest.skip("PostgreSQL does not drop a table that a view needs")
        with Database(uri).connection() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE VIEW seen AS SELECT * FROM people")
            connection.commit()
    asked = ("--sql", f"select * from {source}", "--database", uri, "--into", "people")
    result = run("transform", model, *asked, "--keep", "city")
    assert result.exit_code == 2
    assert "use --force" in result.stderr
    result = run("transform", model, *asked, "--keep", "city", "--force")
    assert (result.exit_code, result.stdout) == (0, "1500 rows written to people\n"), result.stderr
    written = rows_of(uri, "people")
    assert sorted(written["city"]) == sorted(frame["city"])
    totals = np.abs(written[["fairpca0", "fairpca1"]]).sum()
    np.testing.assert_allclose(totals, np.abs(fair.transform(frame[FEATURES])).sum(axis=0))


def test_between_files_and_databases(uri, frame, tmp_path):
    fair = FairPCA(2).fit(frame[FEATURES], sensitive_features=frame["sex"])
    model, source = fair.save(tmp_path / "model"), tmp_path / "x.parquet"
    frame.to_parquet(source, row_group_size=200)
    result = run(
        "transform", model, source, "--into", "fair", "--keep", "city", FAIRPCA_DATABASE=uri
    )
    assert result.exit_code == 0, result.stderr
    written = rows_of(uri, "fair")
    np.testing.assert_allclose(written[["fairpca0", "fairpca1"]], fair.transform(frame[FEATURES]))
    assert written["city"].tolist() == frame["city"].tolist()
    out = tmp_path / "out.csv"
    result = run("transform", model, out, "--sql", "select * from people", "--database", uri)
    assert result.exit_code == 0, result.stderr
    assert len(pd.read_csv(out)) == 1500


def test_an_error_in_the_middle_leaves_nothing_behind(uri, frame, monkeypatch):
    monkeypatch.setattr("fairpca.tables.project.WRITE_ELEMENTS", 1)  # batches of 1,024 rows
    fair = FairPCA(2).fit(frame[FEATURES], sensitive_features=frame["sex"])
    bad = frame.copy()
    bad.loc[1200, "b"] = np.nan
    fill(uri, "people", bad)
    table = open_query("select * from people", uri)
    fill(uri, "kept", frame[["a"]])
    for force, into in ((False, "fresh"), (True, "kept")):
        with pytest.raises(InvalidInputError, match="1 of 476 rows have missing values") as error:
            project_into(table, fair, uri, into, force=force)
        assert "\n" not in str(error.value)
    assert rows_of(uri, "fresh") is None
    assert rows_of(uri, "kept")["a"].tolist() == frame["a"].tolist()


def test_a_table_is_known_by_every_name_that_the_database_gives_it(uri, frame):
    fair = FairPCA(2).fit(frame[FEATURES], sensitive_features=frame["sex"])
    table = open_query("select * from people", uri)
    known = ["public.people"] if "postgresql" in uri else ["main.people", "PEOPLE"]
    for name in known:
        with pytest.raises(InvalidInputError, match="exists already"):
            project_into(table, fair, uri, name)
    with pytest.raises(InvalidInputError, match=r"nowhere.*cannot be written .*nothing was"):
        project_into(table, fair, uri, "nowhere.fresh")
    name = f"it's {time.time_ns()}"  # the server stays for other tests
    assert project_into(table, fair, uri, name) == len(frame)
    with pytest.raises(InvalidInputError, match="exists already"):
        project_into(table, fair, uri, name)


def test_a_connection_that_fails_does_not_mean_that_a_table_is_absent(postgresql, monkeypatch):
    frame = people(200)
    fill(postgresql, "kept", frame[["a"]])
    fair = FairPCA(2).fit(frame[FEATURES], sensitive_features=frame["sex"])
    open_connection = Database.connection

    @contextmanager
    def lost(self):
        with open_connection(self) as connection:
            with connection.cursor() as cursor:
                cursor.execute("select pg_backend_pid()")
                (pid,) = cursor.fetchone()
            with open_connection(Database(postgresql)) as other, other.cursor() as cursor:
                cursor.execute(f"select pg_terminate_backend({pid})")
                cursor.fetchall()
            yield connection

    monkeypatch.setattr(Database, "connection", lost)
    table = open_table(frame)
    for into, force in (("fresh", False), ("kept", False), ("kept", True)):
        with pytest.raises(InvalidInputError) as error:
            project_into(table, fair, postgresql, into, force=force)
        said = str(error.value)
        assert said.startswith(f"the table {into} cannot be written (")
        assert said.endswith("nothing was written.")
        assert "\n" not in said
    monkeypatch.undo()
    assert rows_of(postgresql, "fresh") is None
    assert rows_of(postgresql, "kept")["a"].tolist() == frame["a"].tolist()


def test_mistakes_are_one_line(uri, frame, tmp_path):
    def failing(*words, **environment):
        result = run(*words, **environment)
        assert result.exit_code == 2, result.output
        assert result.stderr.count("\n") == 1, result.stderr
        return result.stderr

    base = ("fit", "-s", "sex", "--database", uri, "--sql")
    assert "no_such" in failing(*base, "select * from no_such")
    assert "cannot be read" in failing(*base, "selec * from people")
    assert "--sensitive names ['sxe'], which is not among the columns: they are" in failing(
        "fit", "-s", "sxe", "--database", uri, "--sql", "select * from people"
    )
    if "duckdb" not in uri:  # which renames the second one
        assert "column names occur more than once: 'a'" in failing(
            *base, "select a, b as a, sex from people"
        )
    assert "sql is empty" in failing(*base, " ; ")
    assert "takes no files" in failing(*base, "select 1", tmp_path / "x.csv")
    assert "--sql needs --database" in failing("fit", "-s", "sex", "--sql", "select 1")
    model = FairPCA(2).fit(frame[FEATURES], sensitive_features=frame["sex"]).save(tmp_path / "m")
    assert "Missing argument 'OUT'" in failing("transform", model, "x.csv")
    assert "one name too many" in failing("transform", model, "x.csv", "y.csv", "z.csv")
    assert "--into needs --database" in failing("transform", model, "x.csv", "--into", "t")
    assert "exists already" in failing(
        "transform", model, *base[3:], "select * from people", "--into", "people"
    )


def test_files_that_are_not_there_are_not_made(tmp_path):
    for kind in ("sqlite", "duckdb"):
        with pytest.raises(InvalidInputError, match=f"no such {kind}|no such SQL|no such Duck"):
            open_query("select 1", f"{kind}:{tmp_path}/none.db")
    assert not list(tmp_path.iterdir())
    for wrong in ("mysql://host/x", "people.db", "sqlite:", ""):
        with pytest.raises(InvalidInputError, match="database: give an address"):
            open_query("select 1", wrong)


def test_types_that_databases_have_of_their_own(postgresql):
    sql = """select g::numeric / 7 as n, (g % 50)::smallint as s, (g % 2 = 0) as even,
             (g % 50)::float4 as f,
             case when g % 3 = 0 then 'x' else 'y' end::char(1) as c, 'v'::varchar as v,
             now() as moment, gen_random_uuid() as u from generate_series(1, 100) as g"""
    table = open_query(sql, postgresql)
    found = table.moments(table.assign(["c", "even"], ["n", "s", "f"]))
    assert found.levels("c") == ("x", "y")
    np.testing.assert_allclose(found.pooled()[1], [50.5 / 7, 24.5, 24.5], rtol=1e-12)


def test_sqlite_with_empty_and_mixed_columns(tmp_path):
    import sqlite3

    path = tmp_path / "x.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table t (a, b real, g text)")
        rows = [(1 if i < 40000 else 1.5, float(i % 100), "xy"[i % 2]) for i in range(50000)]
        connection.executemany("insert into t values (?, ?, ?)", rows)
    connection.close()
    table = open_query("select b, g from t", f"sqlite:{path}")
    assert table.moments(table.assign("g")).n_samples == 50000
    table = open_query("select * from t", f"sqlite:{path}")  # a turns from whole to broken numbers
    with pytest.raises(InvalidInputError, match="the SQLite query cannot be read"):
        table.moments(table.assign("g"))
    table = open_query("select cast(a as real) as a, g from t", f"sqlite:{path}")
    assert table.moments(table.assign("g")).pooled()[1][0] == pytest.approx(1.1)


WRONG = (
    ("postgresql://fairpca:pa/ss@/postgres", "pa"),
    ("postgresql://fairpca:se%zzcret@/postgres", "se%zzcret"),
    ("postgresql://fairpca:sec ret@host.invalid:99/x", "sec ret"),
    ("postgresql://fairpca:hush99", "hush99"),
    ("postgresql://fairpca@host.invalid/x?password=hush99&bad=1", "hush99"),
    ("postgresql://fairpca:hu:sh@host.invalid:99x/x", "hu:sh"),
    ("postgresql://fairpca:p@hush99@host.invalid/x", "hush99"),
    ("postgresql://fairpca:p@ss:hush99@host.invalid/x", "hush99"),
    ("duckdb:md:x?motherduck_token=hush99", "hush99"),
    ("sqlite:file:x.db?key=hush99", "hush99"),
)


@pytest.mark.parametrize(("uri", "secret"), WRONG)
def test_no_message_repeats_a_password(uri, secret, monkeypatch):
    monkeypatch.setenv("FAIRPCA_DEBUG", "1")
    result = run_command("fit", "-s", "sex", "--sql", "select 1", "--database", uri)
    assert result.exit_code == 2, result.output
    assert f'"{secret}"' not in result.output
    assert len(secret) < 3 or secret not in result.output.replace("FAIRPCA", "")
    assert secret not in repr(Database(uri))


def test_a_wrong_password_is_not_repeated(postgresql, tmp_path):
    uri = postgresql.replace("t0p", "t1p")
    result = run_command("fit", "-s", "sex", "--sql", "select 1", "--database", uri)
    assert "password authentication failed" in result.stderr
    assert "t1p" not in result.output
    sql = "select * from dblink('password=hush99', 'select 1')"
    result = run("fit", "-s", "sex", "--sql", sql, "--database", postgresql)
    assert "hush99" not in result.output


@pytest.fixture(scope="module")
def million(postgresql):
    with Database(postgresql).connection() as connection, connection.cursor() as cursor:
        cursor.execute(
            "create unlogged table million as select g as id, random() as a, random() * g as b, "
            "random()::float4 as c, case when g % 3 = 0 then 'x' else 'y' end as sex "
            "from generate_series(1, 1000000) as g"
        )
        connection.commit()
    return postgresql


def test_a_million_rows(million, tmp_path):
    model = tmp_path / "model.npz"
    asked = ("--sql", "select * from million", "--database", million)
    result = run("fit", *asked, "-s", "sex", "--drop", "id", "--save", model, "-d", 1)
    assert result.exit_code == 0, result.stderr
    assert "1000000 rows, 3 features" in result.stdout
    result = run("transform", model, *asked, "--into", "reduced_million", "--keep", "id")
    assert (result.exit_code, result.stdout) == (0, "1000000 rows written to reduced_million\n")
    with Database(million).connection() as connection, connection.cursor() as cursor:
        cursor.execute("select count(*), count(distinct id) from reduced_million")
        assert cursor.fetchone() == (1000000, 1000000)


def kill_others(uri, stop):
    """Terminate every other connection as soon as one copies rows."""
    killed = []
    while not stop.is_set() and not killed:
        with Database(uri).connection() as connection, connection.cursor() as cursor:
            cursor.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where pid <> "
                "pg_backend_pid() and query ilike 'copy%' and state = 'active'"
            )
            killed = cursor.fetchall()
        time.sleep(0.01)


@pytest.mark.parametrize("command", ["fit", "transform"])
def test_a_killed_connection_is_one_line_and_nothing_is_written(million, tmp_path, command):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(100, 3)), columns=list("abc"))
    model = tmp_path / "model.npz"
    FairPCA(1).fit(frame, sensitive_features=np.arange(100) % 2).save(model)
    asked = ("--sql", "select * from million", "--database", million)
    words = ("fit", *asked, "-s", "sex", "--drop", "id", "--save", tmp_path / "new.npz")
    if command == "transform":
        words = ("transform", model, *asked, "--into", "never", "-q")
    stop = threading.Event()
    killer = threading.Thread(target=kill_others, args=(million, stop))
    killer.start()
    try:
        result = run(*words, "-q")
    finally:
        stop.set()
        killer.join()
    assert result.exit_code == 2, result.output
    lines = [line for line in result.stderr.splitlines() if "error" in line]
    assert len(lines) == 1
    assert "cannot be" in lines[0]
    assert rows_of(million, "never") is None
    assert not (tmp_path / "new.npz").exists()


def test_without_the_extra_one_line_says_what_to_install(monkeypatch, tmp_path):
    (tmp_path / "x.db").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "adbc_driver_manager.dbapi", None)
    result = run("fit", "-s", "x", "--sql", "select 1", "--database", f"sqlite:{tmp_path}/x.db")
    assert result.exit_code == 2
    assert result.stderr == (
        "fairpca: error: databases need ADBC drivers: pip install 'fairpca[sql]'\n"
    )
