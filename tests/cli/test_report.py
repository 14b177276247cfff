"""`fairpca report`: a page, its figures and a card from one command."""

import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

QUICK = ("--family", "linear", "--effort", "quick")
LESS = (*QUICK, "--adversaries", "linear")


@pytest.fixture
def hired(people):
    people["hired"] = np.where(np.arange(len(people)) % 3, "no", "yes")
    return people


def test_a_table_becomes_a_page_figures_and_a_card(run, write, hired, tmp_path):
    out, card, path = tmp_path / "r.html", tmp_path / "card.md", write(hired)
    roles = ("--sensitive", "sex", "--drop", "race,income", "--decision", "hired", "-d", 2)
    places = ("--out", out, "--card", card, "--title", "A & B")
    result = run("report", path, *roles, *LESS, *places, "--folds", 5)
    assert result.exit_code == 0, result.stderr
    assert f"Report written to {out}" in result.stdout
    html = out.read_text(encoding="utf-8")
    assert "<h1>A &amp; B</h1>" in html
    document = json.loads((tmp_path / "r.json").read_text())
    assert document["data"]["features"] == list("uvwxyz")
    assert (
        document["fit"]["fair"]["mean_gap"] < 1e-8 <= document["fit"]["held_out"]["mean_gap_error"]
    )
    assert document["fit"]["held_out"]["plain_mean_gap"] > document["fit"]["held_out"]["mean_gap"]
    assert document["audit"]["decisions"]["rates"][0]["measure"] == "selection"
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    assert document["record"]["files"] == [{"name": "people.csv", "sha256": digest}]
    assert digest in html
    assert card.read_text(encoding="utf-8").startswith("# Model card: A \\& B\n")
    again = run("report", path, *roles, *LESS, *places)
    assert (again.exit_code, again.stdout) == (2, "")
    assert "--out" in again.stderr
    assert "--force" in again.stderr


def test_columns_as_they_are(run, refused, write, people, tmp_path):
    out = tmp_path / "r.html"
    arguments = ("--sensitive", "sex", "--features", "u,v", *LESS, "--as-is", "--out", out)
    assert run("report", write(people), *arguments, "--quiet").stdout == ""
    document = json.loads((tmp_path / "r.json").read_text())
    assert document["fit"] is None
    assert document["data"]["n_components"] == 2
    error = refused("report", write(people), *arguments, "--hold-out", 0.25)
    assert "--as-is excludes --hold-out: give one of them." in error


def test_sparse_components_have_a_page_in_their_own_words(run, refused, write, people, tmp_path):
    asked = (
        "report",
        write(people),
        "-s",
        "sex",
        "--drop",
        "race,income",
        "-o",
        tmp_path / "p.html",
    )
    result = run(*asked, "--nonzero", 3, "--folds", 0, "--effort", "quick", "--family", "linear")
    assert result.exit_code == 0, result.stderr
    page = (tmp_path / "p.html").read_text()
    assert re.search(r"explains [\d.]+ %; no 2 scores with equal group means explain more", page)
    assert "--nonzero excludes --rotation" in refused(
        *asked, "--nonzero", 3, "--rotation", "varimax"
    )


def test_mistakes(refused, write, people, tmp_path):
    nowhere = tmp_path / "no" / "r.html"
    line = refused("report", write(people), "--sensitive", "sex", "--out", nowhere)
    assert "the directory 'no' does not exist" in line
    assert "--sensitive COL" in refused("report", write(people), "--out", tmp_path / "r.html")


def test_unknown_groups_are_refused_or_counted_and_left_out(run, refused, write, hired, tmp_path):
    hired.loc[:7, "sex"] = None
    out = tmp_path / "r.html"
    roles = ("--sensitive", "sex", "--drop", "race,income,hired", *LESS, "--folds", 0, "--out", out)
    assert "'sex'" in refused("report", write(hired), *roles)
    result = run("report", write(hired), *roles, "--leave-out-unknown")
    assert result.exit_code == 0, result.stderr
    document = json.loads((tmp_path / "r.json").read_text())
    assert document["data"]["unknown"] == {"sex": 8}
    assert document["data"]["n_rows"] == 112
    assert {row["group"] for row in document["data"]["groups"]} == {"f", "m"}
    assert len(document["fit"]["contrasts"]) == 1  # nor are they a group of the fit


def test_no_folds_and_places_that_collide(run, refused, write, people, tmp_path):
    roles = (write(people), "--sensitive", "sex", "--drop", "race,income", *LESS)
    out = tmp_path / "r.html"
    assert run("report", *roles, "--folds", 0, "--out", out).exit_code == 0
    fit = json.loads(out.with_suffix(".json").read_text())["fit"]
    assert (fit["held_out"], fit["tradeoff"]) == (None, [])
    for places in (
        ("--out", tmp_path / "a.json"),
        ("--out", tmp_path / "a.html", "--card", tmp_path / "a.html"),
        ("--out", tmp_path / "a.html", "--card", tmp_path / "a.json"),
    ):
        assert "--out" in refused("report", *roles, *places)
    assert not list(tmp_path.glob("a.*"))


@pytest.mark.parametrize("more", [(), ("--hold-out", 0.3), ("--missing", "mean")])
def test_held_out_figures_and_the_forecast_are_those_of_a_fit(run, write, people, tmp_path, more):
    """Text columns become indicators, whose folds have to be the same for batches and for rows."""
    people = pd.concat([people] * 3, ignore_index=True)
    people[list("uvwxyz")] += np.random.default_rng(0).normal(size=(360, 6))
    people["town"] = np.random.default_rng(1).choice(["a", "b", "c"], 360)
    if "mean" in more:
        people.loc[::9, "u"] = np.nan
    path, out = write(people), tmp_path / "page.html"
    asked = ("-s", "sex", "--drop", "race,income", "--folds", 3, *more)
    fit = json.loads(run("fit", path, *asked, "--json").stdout)
    result = run("report", path, *asked, "-o", out, *LESS)
    assert result.exit_code == 0, result.stderr
    page = json.loads(out.with_suffix(".json").read_text())["fit"]
    assert page["held_out"] == pytest.approx(fit["held_out"])
    assert page["expected"] == pytest.approx(fit["expected"])
    assert page["expected"]["mean_gap"] > 0
