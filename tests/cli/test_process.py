"""The command as a process of its own: streams, exit codes, interruption, a missing extra."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from fairpca.cli import main

COMMAND = [sys.executable, "-m", "fairpca"]
LIMIT = 120


def start(*arguments):
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def finish(process):
    stdout, stderr = process.communicate(timeout=LIMIT)
    return process.returncode, stdout, stderr


@pytest.fixture
def long_work(tmp_path):
    """A table whose fit takes many seconds."""
    rng = np.random.default_rng(0)
    p, n = 160, 1000
    z = np.repeat([0, 1], n // 2)
    X = rng.normal(size=(n, p)) @ rng.normal(size=(p, p))
    X[z == 1] = rng.normal(size=(n // 2, p)) @ rng.normal(size=(p, p))
    frame = pd.DataFrame(X).add_prefix("f").assign(z=z)
    path = tmp_path / "wide.parquet"
    frame.to_parquet(path)
    options = ["-d", 10, "--solver", "paper", "--tol", 1e-15, "--max-iter", 10**8]
    return ["fit", path, "--sensitive", "z", *options, "--out", tmp_path / "reduced.csv"]


def test_json_alone_on_standard_output():
    code, stdout, stderr = finish(start("fit", "--json"))
    assert code == 0
    assert json.loads(stdout)["data"]["name"] == "diabetes (embedded)"
    # On a busy machine a stage may take more than a second, and then says so.
    stages = ("fairpca: reading", "fairpca: summing", "fairpca: fitting")
    assert all(line.startswith(stages) for line in stderr.splitlines())


def test_bad_input_is_one_line_and_two():
    code, stdout, stderr = finish(start("fit", "no-such-file.csv", "--sensitive", "sex"))
    assert (code, stdout) == (2, "")
    assert stderr == "fairpca: error: no-such-file.csv: no such file.\n"


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, 130),
        pytest.param(signal.SIGTERM, 128 + signal.SIGTERM, marks=pytest.mark.slow),
    ],
)
def test_interruption_leaves_no_file_and_no_traceback(long_work, tmp_path, number, code):
    process = start(*long_work)
    # A line of progress proves that the command is at work; a busy machine tells of reading first.
    line = process.stderr.readline()
    while line.startswith(("fairpca: reading", "fairpca: summing")):
        line = process.stderr.readline()
    time.sleep(0.2)
    process.send_signal(number)
    returned, stdout, stderr = finish(process)
    assert line.startswith("fairpca: fitting 1000 rows, 160 features (")
    assert returned == code
    assert stdout == ""
    assert "Traceback" not in stderr
    assert [path.name for path in tmp_path.iterdir()] == ["wide.parquet"]


@pytest.mark.parametrize("missing", ["click", "rich", "pyarrow"])
def test_without_the_extra_one_line_says_what_to_install(monkeypatch, capsys, missing):
    # In this process, since a new one takes seconds to import scikit-learn.
    for name in [name for name in sys.modules if name.startswith("fairpca.cli._")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert capsys.readouterr() == (
        "",
        f"fairpca: error: the command line needs {missing}: pip install 'fairpca[cli]'\n",
    )


def test_output_outside_the_encoding_of_the_terminal():
    program = "import sys; from fairpca.cli import main; sys.argv = ['fairpca', 'fit']; main()"
    process = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONIOENCODING": "ascii", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        timeout=LIMIT,
    )
    assert process.returncode == 0
    assert b"Certificate" in process.stdout
