"""A small table with known groups, and the command as a function."""

import numpy as np
import pandas as pd
import pytest
from support import run_command


@pytest.fixture
def people():
    """120 rows: four features that differ between the sexes, two that do not."""
    rng = np.random.default_rng(7)
    n = 120
    sex = rng.permutation(np.repeat(["f", "m"], [70, 50]))
    race = rng.permutation(np.repeat(["a", "b", "c"], 40))
    income = rng.permutation(np.repeat(["high", "low"], 60))
    X = rng.normal(size=(n, 6)) * np.where(sex == "m", 1.5, 1.0)[:, None]
    X += np.outer(sex == "m", [2.0, 1.0, 0.5, 0.5, 0.0, 0.0])
    X += np.outer(race == "b", [0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    frame = pd.DataFrame(X, columns=list("uvwxyz"))
    frame["sex"], frame["race"], frame["income"] = sex, race, income
    return frame


@pytest.fixture
def write(tmp_path):
    """Write a table to a file in a directory of its own, and return the path as text."""

    def write_to(frame, name="people.csv"):
        path = tmp_path / name
        if name.endswith(".parquet"):
            frame.to_parquet(path, index=False)
        elif name.endswith((".feather", ".arrow")):
            frame.to_feather(path)
        else:
            frame.to_csv(path, index=False)
        return str(path)

    return write_to


@pytest.fixture(autouse=True)
def no_lines_of_progress(monkeypatch):
    """A busy machine must not add lines to what is asserted."""
    monkeypatch.setattr("fairpca.cli._console.DELAY", 300.0)


@pytest.fixture(scope="module", autouse=True)
def audits_of_little(small_effort):
    """Audits have tests of their own."""


@pytest.fixture
def run():
    """Run the command in this process."""
    return run_command


@pytest.fixture
def refused(run):
    """Run the command, check that it refuses as promised, and return its one line."""

    def invoke(*arguments):
        result = run(*arguments)
        assert result.exit_code == 2, result.output
        assert isinstance(result.exception, SystemExit)
        assert result.stdout == ""
        lines = result.stderr.splitlines()
        assert len(lines) == 1
        assert lines[0].startswith("fairpca: error: ")
        return lines[0].removeprefix("fairpca: error: ")

    return invoke
