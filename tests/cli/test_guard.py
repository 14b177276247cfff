"""No failure is a traceback: one line, an exit code, the user's own options, no control codes."""

import subprocess
import sys

import numpy as np
import pytest

from fairpca import _choices, metrics, rows, solvers
from fairpca._present import visible
from fairpca.cli._app import explain, known_options
from fairpca.cli._console import (
    LONGEST,
    RENAMED,
    SAME,
    as_options,
    error_message,
    one_line,
    option_of,
)
from fairpca.cli._options import EXPERT
from fairpca.exceptions import GroupsError, InvalidInputError

SEX = ("--sensitive", "sex", "--drop", "race,income")


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (RuntimeError("boom"), 1, "RuntimeError: boom"),
        (np.linalg.LinAlgError("singular"), 1, "LinAlgError: singular"),
        (RecursionError(), 1, "report"),
        (MemoryError(), 1, "not enough memory"),
        (RuntimeError("can't start new thread"), 1, "not enough memory"),
        (OSError(28, "No space left on device", "out.csv"), 1, "No space left on device: out.csv"),
        (ImportError("this needs x: pip install x"), 2, "this needs x: pip install x"),
        (InvalidInputError("bad"), 2, "bad"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_every_kind_of_failure(run, monkeypatch, error, code, says):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("fairpca.cli._fit.parse_request", fail)
    result = run("fit")
    assert result.exit_code == code
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert says in result.stderr
    assert len(result.stderr.strip().splitlines()) == (0 if code == 130 else 1)
    assert ("report" in result.stderr) == (
        code == 1 and says != "not enough memory" and not isinstance(error, OSError)
    )


def test_the_traceback_is_there_for_who_asks(run, monkeypatch):
    monkeypatch.setattr("fairpca.cli._fit.parse_request", lambda *_: 1 / 0)
    monkeypatch.setenv("FAIRPCA_DEBUG", "1")
    result = run("fit")
    assert result.exit_code == 1
    assert "Traceback" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("fairpca: error: ")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            InvalidInputError("cov_tol=0 cannot be met.", parameter="cov_tol"),
            "--cov-tol 0 cannot",
        ),
        (
            InvalidInputError("n_components=9 …", parameter="n_components"),
            "--components 9 …",
        ),
        (GroupsError("column 'a' is …", parameter="sensitive_features"), "--sensitive: column 'a'"),
        (InvalidInputError("tolerance is …", parameter="tol"), "--tol: tolerance is …"),
        (InvalidInputError("other …", parameter="cov_shift"), "other …"),
        (
            GroupsError("sensitive_features column 'a' …", parameter="sensitive_features").at("f"),
            "--sensitive: f: --sensitive column 'a' …",
        ),
    ],
)
def test_errors_name_the_option(error, line):
    assert error_message(error, known_options()).startswith(line)
    assert explain(error)[1] == 2


def test_every_option_that_an_error_can_name_exists():
    assert {option_of(parameter) for parameter in (*RENAMED, *SAME)} <= known_options()


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("lower n_components, raise mean_tol, or", "lower --components, raise --mean-tol, or"),
        ("cov_tol=1e-05 and n_nonzero=-3.", "--cov-tol 1e-05 and --nonzero -3."),
        ("reference='a b' is", "--reference 'a b' is"),
        ("set joint=True (mean_tol=0)", "set --joint (--mean-tol 0)"),
        # Names in quotes are columns; a single word may be of the language, or a level.
        ("column 'mean_tol', 'tol'", "column 'mean_tol', 'tol'"),
        ("the solver, tol or units; reference=old", "the solver, tol or units; reference=old"),
        ("X_mean_tol, mean_tols, mean_tol_", "X_mean_tol, mean_tols, mean_tol_"),
    ],
)
def test_parameters_in_messages_are_options(message, shown):
    assert as_options(message) == shown


def test_control_characters_are_written_out():
    assert visible("a\x1b[2Jb\r\x9b\u202ec") == "a\\x1b[2Jb\\r\\x9b\\u202ec"
    for harmless in ("größer", "名前", "a\u00a0b", "👩\u200d🔬", "Δ ≥ 1"):
        assert visible(harmless) == harmless


@pytest.mark.parametrize("option", ["--sensitive", "--features"])
def test_no_control_character_reaches_the_terminal(run, write, people, option):
    frame = people.rename(columns={"sex": "se\x1b[31mx"}).assign(q="\x1b]0;title\x07")
    path = write(frame, "people.parquet")
    shown = run(
        "fit", path, "--sensitive", "se\x1b[31mx", "--control", "q", "--drop", "race,income"
    )
    refused = run("fit", path, "--sensitive", "race", option, "\x1b[2J")
    assert (shown.exit_code, refused.exit_code) == (0, 2)
    assert "se\\x1b[31mx" in shown.stdout
    assert "\\x1b]0;title" in shown.stdout
    assert "\\x1b[2J" in refused.stderr
    assert not {"\x1b", "\x07"} & set(shown.output + refused.output)


def test_an_endless_message_keeps_its_beginning_and_its_advice(refused, write, people):
    line = one_line("begins " + "x" * 10**6 + " do this")
    assert len(line) < LONGEST + 10
    assert line.startswith("begins ")
    assert line.endswith(" do this")
    frame = people.rename(columns={"u": "u" * 10**5})
    assert len(refused("fit", write(frame), "--sensitive", "qqqq")) < LONGEST + 10


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--separator", "é"], "not one ASCII character"),
        (["--save", ""], "give the name of a file"),
        (["--save", "."], "give the name of a file"),
        (["--out", "loop.csv"], "--out: loop.csv cannot be written"),
        (["--out", "loop.csv", "--force"], "--out: loop.csv cannot be written"),
        (["--out", 300 * "x" + ".csv"], "too long"),
        (["--save", 300 * "x"], "too long"),
    ],
)
def test_places_that_there_cannot_be(
    refused, write, people, tmp_path, monkeypatch, options, complaint
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop.csv").symlink_to(tmp_path / "loop.csv")
    assert complaint in refused("fit", write(people), *SEX, *options)


def test_choices_are_declared_once():
    assert metrics.FAMILIES is _choices.FAMILIES
    assert solvers.SOLVERS is _choices.SOLVERS
    assert rows.MAX_CELLS is _choices.MAX_CELLS


def test_help_does_not_wait_for_numbers():
    program = (
        "import sys; from fairpca.cli._app import app\n"
        "try: app.main(['fit', '--help'], prog_name='fairpca')\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'scipy', 'sklearn', 'pyarrow', 'pandas', 'rich'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("module", ["fairpca"])
def test_the_package_is_the_command(module):
    done = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True)
    assert done.stdout.startswith(b"fairpca ")


def test_what_help_leaves_out_are_options():
    assert known_options() >= EXPERT
