"""The guide "raw Adult in ten minutes" runs as it is printed, in both ways."""

import os
import re
import shlex
import warnings
from pathlib import Path

import pandas as pd
import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "raw-adult.md"
DATA = Path(os.environ.get("FAIRPCA_DATA", "nowhere"), "raw", "adult.csv.gz")

pytestmark = pytest.mark.skipif(not DATA.is_file(), reason="needs raw Adult under FAIRPCA_DATA")


def _blocks(kind):
    return re.findall(rf"```{kind}\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def here(tmp_path, monkeypatch):
    frame = pd.read_csv(DATA)
    frame[::4].to_csv(
        tmp_path / "adult.csv.gz", index=False, compression={"method": "gzip", "compresslevel": 1}
    )
    frame[frame["split"] == "test"].head(2000).to_csv(tmp_path / "new.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_commands_run(here, run):
    commands = [
        line for block in _blocks("console") for line in block.replace("\\\n", "").split("\n")
    ]
    commands = [shlex.split(line.removeprefix("$ ")) for line in commands if line.startswith("$ ")]
    assert 3 <= len([command for command in commands if command[0] == "fairpca"]) <= 4
    for command in commands:
        result = run(*command[1:])
        assert result.exit_code == 0, (command, result.stderr)
    scores = pd.read_parquet(here / "new-reduced.parquet")
    assert len(scores) == 2000
    assert scores.notna().all(axis=None)


def test_the_python_blocks_run(here):
    names: dict = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for block in _blocks("python"):
            exec(compile(block, GUIDE.name, "exec"), names)
    assert names["scores"].shape == (2000, 5)
