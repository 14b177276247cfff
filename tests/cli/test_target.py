"""A target on the command line, and in the report."""

import json

import numpy as np
import pytest
from support import run_command

from fairpca import FairPCA
from fairpca.report._target import target_figures
from fairpca.rows import Rows


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    random = np.random.default_rng(0)
    sex = random.choice(["f", "m"], 400)
    X = random.normal(size=(400, 5)) * [3, 2, 2, 1, 1] + np.outer(sex == "m", [1, 1, 0, 0, 0.5])
    income = np.where(X[:, 3] + X[:, 4] + random.normal(size=400) > 0, "high", "low")
    path = tmp_path_factory.mktemp("target") / "people.csv"
    lines = [",".join([*map(str, row), s, y]) for row, s, y in zip(X, sex, income, strict=True)]
    path.write_text("\n".join(["a,b,c,d,e,sex,income", *lines]))
    return path


FIT = ("-s", "sex", "--target", "income", "--no-standardize")


def test_fit_shows_what_the_target_keeps(people):
    weighted = (*FIT, "--target-weight", "1", "--folds", "5")
    result = run_command("fit", people, *weighted)
    assert result.exit_code == 0, result.output
    for words in ("Variance of income that a linear model", "fair PCA without target",
                  "and keeps as much of the target", "A bias in the target is"):  # fmt: skip
        assert words in " ".join(result.output.split())
    document = json.loads(run_command("fit", people, *weighted, "--json").stdout)
    shares = {name: entry["r2"] for name, entry in document["held_out"]["target"].items()}
    assert shares["components"] > shares["without_target"] + 0.1
    assert shares["components"] > shares["plain"] + 0.1
    assert document["target"]["kept"] > 0.5
    assert document["data"]["features"] == list("abcde")
    held_out = ("--target-weight", "1", "--hold-out", "0.3", "--json")
    other = json.loads(run_command("fit", people, *FIT, *held_out).stdout)["held_out"]["target"]
    assert other["components"]["r2"] > other["without_target"]["r2"] + 0.1


def test_without_a_weight_nothing_changes(people):
    document = json.loads(run_command("fit", people, *FIT, "--folds", "2", "--json").stdout)
    assert "target" not in document
    assert "target" not in document["held_out"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("-s", "sex", "--target-weight", "1"), "give --target COL"),
        ((*FIT, "--target-weight", "1", "--nonzero", "3"), "--nonzero excludes --target-weight"),
        ((*FIT, "--target-weight", "1", "--delta", "0.1"), "--delta excludes --target-weight"),
        ((*FIT, "--target-weight", "-1"), "--target-weight"),
        ((*FIT, "--target-weight", "1", "--objective", "worst-loss"), "needs --objective total"),
    ],
)
def test_mistakes(people, options, words):
    result = run_command("fit", people, *options)
    assert result.exit_code != 0
    assert words in result.output


@pytest.mark.slow
def test_report_has_decisions_by_group(people, tmp_path):
    out = tmp_path / "page.html"
    quick = ("--effort", "quick", "--adversaries", "linear", "--family", "linear")
    card = tmp_path / "card.md"
    result = run_command("report", people, *FIT, "--target-weight", "1", *quick, "-o", out,
                         "--card", card)  # fmt: skip
    assert result.exit_code == 0, result.output
    page, figures = out.read_text(), json.loads(out.with_suffix(".json").read_text())
    assert "What the components are for: income" in page
    for text in (page, card.read_text()):
        assert "the components keep the bias on purpose" in text
        assert "satisfies the constraints and keeps as much of the target can exceed" in text
    assert "| fair PCA with target | " in card.read_text()
    models = {entry["name"]: entry for entry in figures["fit"]["target"]["models"]}
    with_target, without = models["fair PCA with target"], models["fair PCA without target"]
    assert with_target["auc"] > without["auc"] + 0.1
    assert {rate["group"] for rate in with_target["rates"]} == {"f", "m"}
    selection = [r["rate"] for r in with_target["rates"] if r["measure"] == "selection"]
    assert with_target["parity"] == pytest.approx(abs(selection[0] - selection[1]))
    assert 0.0 <= with_target["odds"] <= 1.0


def test_models_decide_by_group():
    random = np.random.default_rng(0)
    z, X = random.integers(0, 2, 600), random.normal(size=(600, 5)) * [3, 2, 2, 1, 1]
    y = X[:, 3] + 2 * z + random.normal(size=600) > 1
    rows = Rows.read(X, z, y=y)
    fair = FairPCA(2, target_weight=1.0, cov_weight=0.0).fit(X, y, sensitive_features=z)
    plain = FairPCA(2, mean_tol=None, cov_weight=0.0).fit(X, sensitive_features=z)
    figures = target_figures(fair, plain, rows)
    _, without, model = figures["models"]
    assert model["auc"] > without["auc"] + 0.1
    rates = {(r["measure"], r["group"]): r["rate"] for r in model["rates"]}
    spread = {
        name: abs(rates[name, 1] - rates[name, 0])
        for name in ("selection", "true positives", "false positives")
    }
    assert model["parity"] == pytest.approx(spread.pop("selection"))
    assert model["odds"] == pytest.approx(max(spread.values()))
