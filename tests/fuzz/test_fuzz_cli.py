"""Random command lines on random files: exit code 0 or 2, one line of error, never a traceback.

`run(tries, seed)` returns failures by class.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fuzzing import campaign
from support import run_command

pytest.importorskip("click", reason="click is not installed")
pytest.importorskip("pyarrow", reason="pyarrow is not installed")

NASTY = ["", "é", "\x1b[31mred", "a" * 300, "=1+1", "<b>", "{{7}}", "x\ty", "x\ny", "nul\0", '"']
VALUES = ["0", "-1", "nan", "inf", "1e-9", "1e9", "2", "", "x", "0.05"]
OPTIONS = [
    "--mean-tol",
    "--cov-tol",
    "--cov-weight",
    "-d",
    "--tol",
    "--max-iter",
    "--min-group-size",
]


def make_file(rng, folder):
    """A table, sometimes a damaged or odd one."""
    n = int(rng.integers(0, 40))
    frame = pd.DataFrame({f"x{i}": rng.normal(size=n) for i in range(3)})
    frame["sex"] = rng.choice(["f", "m"], n)
    if rng.random() < 0.3:
        frame[str(rng.choice(NASTY))] = rng.normal(size=n)
    if rng.random() < 0.2:
        frame["text"] = rng.choice(NASTY, n)
    path = Path(folder, str(rng.choice(["t.csv", "t.parquet", "t.csv.gz", "t.txt"])))
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False)
    content = path.read_bytes()
    damage = rng.random()
    if damage < 0.1:
        path.write_bytes(content[: int(rng.integers(0, len(content) + 1))])
    elif damage < 0.2:
        place = int(rng.integers(0, len(content)))
        path.write_bytes(content[:place] + rng.bytes(4) + content[place:])
    elif damage < 0.25:
        path.write_bytes(rng.bytes(200))
    elif damage < 0.3 and path.suffix == ".csv":
        path.write_bytes(content.replace(b"x1", b"\xe9\xe8", 1))
    return str(path)


def make_arguments(rng, folder):
    command = str(rng.choice(["fit", "fit", "fit", "audit", "transform", "datasets"]))
    arguments = [command]
    if rng.random() < 0.95:
        arguments.append(make_file(rng, folder))
    if command in ("fit", "audit"):
        arguments += ["--sensitive", str(rng.choice(["sex", "sex", "sex", "x0", "nobody", ""]))]
    if command == "audit":
        arguments += ["--permutations", "1", "--family", "linear"]
    if command == "fit":
        for option in rng.choice(OPTIONS, int(rng.integers(0, 3)), replace=False):
            arguments += [str(option), str(rng.choice(VALUES))]
        for option in ("--out", "--save"):
            if rng.random() < 0.2:
                name = str(rng.choice(["o.csv", "o.parquet", ".", "", "no/such/o.csv", "a" * 300]))
                arguments += [option, name and str(Path(folder, name))]
        if rng.random() < 0.2:
            arguments += ["--separator", str(rng.choice([";", "é", "", "\t", ",,"]))]
    if command == "transform":
        arguments += [str(Path(folder, "model.npz")), str(Path(folder, "new.csv"))]
    if rng.random() < 0.3:
        arguments.append(
            str(rng.choice(["--json", "-q", "--joint", "--no-standardize", "--bogus"]))
        )
    return arguments


def attempt(rng):
    with tempfile.TemporaryDirectory() as folder:
        arguments = make_arguments(rng, folder)
        result = run_command(*arguments, default_map=None)
        assert result.exit_code in (0, 2), f"exit code {result.exit_code}"
        assert "Traceback" not in result.stderr, "traceback"
        if result.exit_code == 2:
            last = result.stderr.rstrip("\n").split("\n")[-1]
            assert last, "no message"
            assert len(last) < 2000, "an endless line"
        assert "\x1b[31mred" not in result.output, "raw escape sequence"
        if result.exit_code == 0 and "--json" in arguments and arguments[0] == "fit":
            assert "NaN" not in json.dumps(json.loads(result.stdout)), "NaN in JSON"
        parts = [entry.name for entry in Path(folder).iterdir() if entry.name.startswith(".")]
        assert not parts, "litter"


def attempt_kill(rng):
    """A fit that is killed at any moment leaves no file, or a whole one."""
    with tempfile.TemporaryDirectory() as folder:
        data, out = Path(folder, "t.csv"), Path(folder, "out.csv")
        n = 3000
        frame = pd.DataFrame(rng.normal(size=(n, 5)), columns=list("abcde"))
        frame.assign(sex=np.resize(["f", "m"], n)).to_csv(data, index=False)
        command = [sys.executable, "-m", "fairpca.cli", "fit", str(data), "-s", "sex"]
        process = subprocess.Popen(
            [*command, "--out", str(out)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        time.sleep(float(rng.uniform(0.2, 4.0)))
        how = signal.SIGKILL if rng.random() < 0.5 else signal.SIGINT
        os.kill(process.pid, how)
        _, stderr = process.communicate(timeout=60)
        assert b"Traceback" not in stderr, "traceback after a signal"
        if out.exists():
            assert len(pd.read_csv(out)) == n, "half a file"


def run(tries, seed):
    failures = campaign(attempt, tries, seed)
    for kind, seeds in campaign(attempt_kill, tries // 50, seed).items():
        failures.setdefault(f"killed: {kind}", []).extend(seeds)
    return failures


@pytest.mark.parametrize(("tries", "seed"), [(45, 1), pytest.param(300, 2, marks=pytest.mark.slow)])
def test_command_lines(tries, seed):
    assert run(tries, seed) == {}
