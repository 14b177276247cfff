"""The guide "the attribute stays where it is" runs as it is printed, without network."""

import re
import shlex
import sys
from pathlib import Path

import pandas as pd
import pytest
from support import run_command

from fairpca import load_model
from fairpca.datasets.__main__ import main

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "three-parties.md"


def test_the_guide_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text, output = GUIDE.read_text(encoding="utf-8"), []
    lines = "\n".join(re.findall(r"```console\n(.*?)```", text, re.DOTALL)).split("\n")
    for command in (shlex.split(line[2:]) for line in lines if line.startswith("$ ")):
        if command[0] == "python":
            monkeypatch.setattr(sys, "argv", command[2:])
            main()
            continue
        if command[1:3] == ["transform", "model.npz"] and "--keep" not in command:
            pd.read_csv("new.csv").drop(columns="sex").to_csv("new-without.csv", index=False)
            command[3] = "new-without.csv"  # what the operator has
        result = run_command(*command[1:])
        assert result.exit_code == 0, (command, result.output)
        output.append(result.stdout)
    assert "Smallest cell: 2,442 rows" in output[2]
    assert "Mean gap: expected on new data" in output[3]
    assert "Verdict: " in output[-1]
    assert not hasattr(load_model("model.npz"), "moments_")
    scores = pd.read_csv("reduced.csv")
    pd.testing.assert_frame_equal(scores, pd.read_csv("labelled.csv")[scores.columns])


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL))
def test_its_blocks_run(block):
    exec(compile(block, GUIDE.name, "exec"), {})
