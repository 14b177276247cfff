"""The guide "a raw table in ten minutes" runs as it is printed, in both ways, without network."""

import re
import shlex
import sys
import warnings
from pathlib import Path

import pandas as pd
import pytest

from fairpca.datasets.__main__ import main
from fairpca.metrics import _inference

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "raw-adult.md"
MAKE = ["python", "-m", "fairpca.datasets"]
EFFORT = _inference._TABLE  # before a fixture makes it small


def _blocks(kind):
    return re.findall(rf"```{kind}\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)


def _commands():
    lines = "\n".join(_blocks("console")).replace("\\\n", "").split("\n")
    return [shlex.split(line.removeprefix("$ ")) for line in lines if line.startswith("$ ")]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with the tables that the first commands make."""
    monkeypatch.chdir(tmp_path)
    for command in _commands():
        if command[:3] == MAKE:
            monkeypatch.setattr(sys, "argv", command[2:])
            main()
    return tmp_path


@pytest.mark.parametrize(
    "with_figures", [False, pytest.param(True, marks=pytest.mark.slow, id="as printed")]
)
def test_the_commands_run(here, run, monkeypatch, with_figures):
    if with_figures:
        monkeypatch.setattr(_inference, "_TABLE", EFFORT)
    commands = [command for command in _commands() if command[:3] != MAKE]
    assert [command[1] for command in commands] == ["audit", "fit", "audit", "transform"]
    results = [run(*command[1:]) for command in commands]
    for command, result in zip(commands, results, strict=True):
        assert command[0] == "fairpca"
        assert result.exit_code == 0, (command, result.stderr)
    raw, fit, reduced, _ = (result.stdout for result in results)
    assert "Verdict: much" in raw
    assert "measured on 1247 rows that were not fitted" in fit
    assert "1247 rows, 3 features" in reduced
    if with_figures:  # what the guide says of them
        assert "Largest on held-out rows: 82" in raw
        assert "Largest on held-out rows: 1" in reduced
        assert "Verdict: some" in reduced
    scores = pd.read_parquet(here / "new-reduced.parquet")
    assert len(scores) == 2000
    assert scores.notna().all(axis=None)


def test_the_python_blocks_run(here):
    names: dict = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for block in _blocks("python"):
            exec(compile(block, GUIDE.name, "exec"), names)
    assert names["scores"].shape == (2000, 3)
