"""`fairpca fit --delta`: the trade-off as a table and as JSON."""

import json

import numpy as np
import pytest

from fairpca.estimators import load_model

UNVERIFIED = "cannot be verified with so few rows: chance alone gives up to "


@pytest.fixture
def shells(people):
    rng = np.random.default_rng(0)
    frame = people.loc[np.repeat(people.index, 2)].reset_index(drop=True)
    frame[list("uvwxyz")] = rng.normal(size=(len(frame), 6))
    frame.loc[frame["sex"] == "m", ["u", "v"]] *= 3.0
    return frame


def test_the_path_is_shown_saved_and_written(run, write, shells, tmp_path, short_path):
    source, model, out = write(shells), tmp_path / "model.npz", tmp_path / "out.csv"
    options = ("--drop", "race,income", "-s", "sex", "--delta", "0.1")
    result = run("fit", source, *options, "--save", model, "-o", out)
    assert result.exit_code == 0, result.stderr
    assert "Leakage along the path, and the variance it costs" in result.stdout
    lines = [line.rstrip(" │") for line in result.stdout.splitlines()]
    chosen = next(line for line in lines if line.endswith("chosen"))
    assert UNVERIFIED in " ".join(result.stdout.replace("│", " ").split())
    fair = load_model(model)
    assert type(fair).__name__ == "DeltaFairPCA"
    figures = chosen.replace("±", "").split()
    assert f"{100 * fair.delta_:.1f}" in figures  # in points, as in the sentence below the table
    assert f"{100 * fair.delta_error_:.1f}" in figures
    written = np.loadtxt(out, delimiter=",", skiprows=1, usecols=(0, 1))
    np.testing.assert_allclose(written, fair.transform(shells[list("uvwxyz")]), atol=1e-9)


def test_json_has_the_path(run, write, shells, short_path):
    options = ("--drop", "race,income", "-s", "sex", "--delta", "0.5", "--adversary", "linear")
    result = run("fit", write(shells), *options, "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)["adversary"]
    assert found["family"] == "linear"
    assert found["delta"] <= 0.5
    assert found["delta_verified"] is True
    chosen = [point for point in found["path"] if point["penalty"] == found["penalty"]]
    assert chosen[0]["delta"] == found["delta"]
    assert found["request"].startswith("Requested Δ: at most 50.0 points. Estimated for new")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--adversary", "rbf"), "give --delta too"),
        (("--delta", "0.1", "--cov-tol", "0"), "excludes"),
        (("--delta", "2"), "between 0 and 1"),
        (("--delta", "0.1", "--adversary", "svm"), "--adversary"),
    ],
)
def test_what_does_not_go_together(refused, write, shells, options, message):
    assert message in refused("fit", write(shells), "-s", "sex", *options)


def test_a_request_below_chance_is_said_on_the_page(run, write, people, tmp_path, short_path):
    options = ("--drop", "race,income", "-s", "sex", "--delta", "0.12", "--adversary", "linear")
    page = tmp_path / "page.html"
    quick = ("--effort", "quick", "--adversaries", "linear", "--family", "linear", "--folds", 0)
    result = run("report", write(people), *options, *quick, "-o", page)
    assert result.exit_code == 0, result.stderr
    assert UNVERIFIED in page.read_text(encoding="utf-8")
    assert UNVERIFIED in json.loads(page.with_suffix(".json").read_text("utf-8"))["fit"]["request"]
