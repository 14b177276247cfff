"""Files and places that nobody wishes for: one line, exit code 2, and nothing is lost."""

import os
import stat
import threading
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fairpca.tables import moments_from_files

SEX = ("--sensitive", "sex")
ROWS = "1,2,3,f\n2,3,1,m\n" * 10


@pytest.mark.parametrize("command", ["fit", "audit"])
@pytest.mark.parametrize(
    ("header", "complaint"),
    [
        ('u,v,"w,sex\n', "cannot be read"),
        ('u,v,"' + "w" * 200_000 + ",sex\n", "cannot be read"),
        ("u,v,gr\xf6\xdfe,sex\n", "is not UTF-8 text"),
        ("u,v," + "w" * 200_000 + "\n", "cannot be read"),
    ],
    ids=["unclosed quote", "unclosed long quote", "Latin-1", "long and ragged"],
)
def test_headers(refused, tmp_path, command, header, complaint):
    path = tmp_path / "odd.csv"
    path.write_bytes((header + ROWS).encode("latin-1"))
    assert complaint in refused(command, path, *SEX)
    if command == "fit":
        assert complaint in refused(command, path, *SEX)


def test_a_header_of_any_length(run, tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("u,v," + "w" * 200_000 + ",sex\n" + ROWS)
    assert run("fit", path, *SEX).exit_code == 0


@pytest.mark.parametrize("drop", [(), ("--drop", "note")])
def test_a_quote_that_is_never_closed_swallows_no_rows(refused, run, tmp_path, drop):
    lines = [f"{i % 9},{i % 7},{'fm'[i % 2]},n{i}" for i in range(40)]
    path = tmp_path / "notes.csv"
    for middle, is_good in (('5" pipe', True), ('"5"" pipe', False)):
        lines[20] = f"2,1,f,{middle}"
        path.write_text("u,v,sex,note\n" + "\n".join(lines) + "\n")
        if is_good:
            assert run("fit", path, *SEX, "-d", "1", "--drop", "note").exit_code == 0
            assert moments_from_files(path, "sex", ["u", "v"]).n_samples == 40
        else:
            assert "is opened and not closed" in refused("fit", path, *SEX, *drop)


@pytest.mark.parametrize("command", ["fit", "audit"])
@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ([b"\xe8", b"\xe9"], "bytes that are no UTF-8"),
        ([[1], [2]], "one value in each row"),
        ([{"a": 1}, {"a": 2}], "one value in each row"),
    ],
    ids=["bytes", "lists", "structs"],
)
def test_columns_of_odd_types(refused, tmp_path, command, values, complaint):
    rng = np.random.default_rng(0)
    table = {"u": rng.normal(size=40), "v": rng.normal(size=40), "odd": pa.array(values * 20)}
    path = tmp_path / "odd.parquet"
    pq.write_table(pa.table({**table, "sex": np.resize(["f", "m"], 40)}), path)
    assert complaint in refused(command, path, "--sensitive", "odd", "--features", "u,v")
    assert complaint in refused(command, path, *SEX, "--control", "odd", "--features", "u,v")
    assert "odd" in refused("fit", path, *SEX, "--weight", "odd", "--features", "u,v")
    assert "odd" in refused("fit", path, *SEX, "--features", "u,odd")


@pytest.fixture
def model(run, write, people, tmp_path):
    """A model file of a table, and the table."""
    path, file = write(people), tmp_path / "model.npz"
    assert run("fit", path, *SEX, "--drop", "race,income", "--save", file).exit_code == 0
    return file, path


def test_places_that_a_transform_cannot_write_to(refused, model, tmp_path):
    (tmp_path / "loop.csv").symlink_to(tmp_path / "loop.csv")
    (tmp_path / "null.csv").symlink_to(os.devnull)
    os.mkfifo(tmp_path / "pipe.csv")
    for name, complaint in {
        "loop.csv": "loop",
        "x" * 300 + ".csv": "too long",
        "null.csv": "a device or a pipe",
        "pipe.csv": "a device or a pipe",
        ".": "the suffix decides the format",
    }.items():
        assert complaint in refused("transform", *model, tmp_path / name, "--force").lower()
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    assert stat.S_ISFIFO((tmp_path / "pipe.csv").stat().st_mode)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs a folder closed to root too")
@pytest.mark.parametrize(
    "words", [("fit", "--out", "o.csv"), ("fit", "--save", "m.npz"), ("report", "--out", "r.html")]
)
def test_a_folder_that_takes_no_file_is_refused_before_the_rows_are_read(refused, tmp_path, words):
    (tmp_path / "t.csv").write_text("u,v,w,sex\n" + ROWS + "inf,1,1,f\n")  # which is said later
    command, option, name = words
    message = refused(command, tmp_path / "t.csv", *SEX, option, f"/proc/self/{name}")
    assert "cannot be written" in message


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_names_of_no_file(refused, write, people, name):
    assert "give the name of a file" in refused("fit", write(people), *SEX, "--save", name)


def test_damaged_models(refused, model, tmp_path):
    file, table = model
    whole = file.read_bytes()
    for content in (b"", whole[:100], whole[:-30], whole[:200] + b"xxxx" + whole[204:], whole[30:]):
        file.write_bytes(content)
        assert "model.npz" in refused("transform", file, table, tmp_path / "new.csv")
    assert not (tmp_path / "new.csv").exists()


def test_a_transform_replaces_in_one_step(run, model, tmp_path):
    file, table = model
    out, seen, done = tmp_path / "out.csv", [], threading.Event()

    def watch():
        while not done.is_set():
            seen.append(out.exists())
            time.sleep(0)

    assert run("transform", file, table, out).exit_code == 0
    watcher = threading.Thread(target=watch)
    watcher.start()
    codes = [run("transform", file, table, out, "--force", "-q").exit_code for _ in range(5)]
    done.set()
    watcher.join()
    assert codes == [0] * 5
    assert len(seen) > 10
    assert all(seen)
    assert len(pd.read_csv(out)) == 120
