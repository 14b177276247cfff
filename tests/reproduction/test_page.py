"""The page and the pictures of the reproduction, from made-up and from real numbers."""

import itertools
import json
import re
import shutil

import numpy as np
import pandas as pd
import pytest

from reproduction import page, tables
from reproduction.activity import FIGURE3_COLUMNS
from reproduction.claims import check_claims
from reproduction.datasets import UCI
from reproduction.figures import draw_figures
from reproduction.markdown import kept_section
from reproduction.methods import METHODS, PAPER_METHODS
from reproduction.page import write_page
from reproduction.results import (
    COMPARED,
    KINDS,
    Estimate,
    Results,
    cause_of,
    compared_definition,
    printed,
    texts,
    verdicts,
)
from reproduction.run import EXPERIMENTS, Experiment, run

MEASURES = {
    "table1": ("variance", "linear", "gaussian", "gaussian_released", "cov_gap"),
    "table3": ("ks", "ks_released", "ks_range"),
    "table4": ("score", "std", "score_simple", "std_simple", "std_stated"),
    "table5": ("auc", "delta"),
    "leakage": ("variance", "linear", "gaussian"),
}


@pytest.fixture(scope="module")
def toy_run(tmp_path_factory):
    """A finished run of two data sets with made-up values."""
    folder = tmp_path_factory.mktemp("run")

    def invent(dataset, definition, split, table, effort, cache):
        rng = np.random.default_rng(split)
        where = {"dataset": dataset, "definition": definition, "split": split}
        return [
            {**where, "d": d, "method": method, "measure": measure, "value": rng.uniform()}
            for d in (2, 3, 5)
            for method in (*METHODS, "calmon", "fsvm", "delta", "same_leakage")
            for measure in MEASURES[table]
        ]

    with pytest.MonkeyPatch.context() as patch:
        for name in MEASURES:
            few = [
                {**cell, "table": name}
                for cell in EXPERIMENTS[name].cells(2)
                if cell["dataset"] in ("wine_quality", "magic")
            ]
            small = Experiment(invent, lambda splits, few=few: few, tables.COLUMNS)
            patch.setitem(EXPERIMENTS, name, small)
        run(list(MEASURES), folder, splits=2, quick=True)
        yield folder


@pytest.fixture(scope="module")
def toy_page(toy_run):
    return write_page(toy_run, toy_run / "docs" / "page.md")


def test_page_begins_with_an_answer_and_counts_every_cell(toy_run, toy_page):
    path, more = toy_page
    text = path.read_text()
    headings = re.findall(r"^##+ (.*)$", text, re.MULTILINE)
    assert headings[:2] == ["Does the method work as the paper says?", "The paper's claims"]
    assert text.index("overview.png") < text.index("The paper's claims")
    for name in ("overview.png", "agreement.png"):
        assert (path.parent / "img" / "reproduction" / name).stat().st_size > 10_000
    assert more == path.with_name("page-search.md")
    assert "Cells that differ without a cause" in more.read_text()
    plain = " ".join(text.split())
    total, *kinds = map(int, re.search(r"Of (\d+) .*? (\d+) .*? (\d+) .*? (\d+) ", plain).groups())
    assert total == sum(kinds) == 2 * (9 + 4 + 8 + 10)
    results = Results(toy_run / "table1.csv")
    assert results.get("wine_quality", "released", "pca", "variance", 2).count == 2
    assert results.get("wine_quality", "released", "pca", "nothing", 2) is None


def test_page_has_every_row_and_a_verdict(toy_page):
    text = toy_page[0].read_text()
    for part in ("## Table 1", "## Table 3", "## Table 4", "## Table 5", "quick run"):
        assert part in text
    assert "(50.21)" in text
    rows = [line for line in text.splitlines() if line.startswith("| ") and "wine_quality" in line]
    # Four tables, two of what refined adds, five clusters, leakage.
    assert len(rows) == 4 + 2 + 1 + 1
    assert "With 2 components: on" in text
    compared = [line for line in text.splitlines() if line.startswith("| **magic, as printed**")]
    assert sum("agrees" in line or "differs" in line for line in compared) == 4


def write_exact(folder, shift):
    """Table 1 as printed, with a shift of every value, on two equal splits."""
    rows = [
        {
            "dataset": dataset,
            "definition": compared_definition(dataset),
            "split": split,
            "d": 2,
            "method": method,
            "measure": "gaussian_released" if measure == "gaussian" else measure,
            "value": value + shift,
        }
        for (dataset, method, measure), value in printed("table1").items()
        for split in (0, 1)
    ]
    pd.DataFrame(rows, columns=tables.COLUMNS).to_csv(folder / "table1.csv", index=False)
    return {"table1": folder / "table1.csv"}


def test_verdicts_follow_the_tolerances(tmp_path):
    exact = verdicts(write_exact(tmp_path, 0.0))
    assert len(exact) == 9 * len(UCI)
    assert {verdict.kind for verdict in exact} == {"agrees"}
    shifted = verdicts(write_exact(tmp_path, 2.5))
    assert {verdict.kind for verdict in shifted if verdict.measure == "linear"} <= set(KINDS[1:])
    by_method = {
        v.method: v.kind for v in shifted if v.measure == "variance" and v.dataset == "adult"
    }
    assert by_method == {"pca": "unknown", "mean": "unknown", "both": "agrees"}


def test_a_difference_of_the_other_sign_has_no_cause(tmp_path):
    kinds = {}
    for shift in (-20.0, 20.0):
        cells = verdicts(write_exact(tmp_path, shift))
        kinds[shift] = {(v.dataset, v.measure): v.kind for v in cells if v.method == "mean"}
    assert kinds[-20.0]["ecoli", "variance"] == kinds[20.0]["ecoli", "linear"] == "known"
    assert kinds[20.0]["ecoli", "variance"] == kinds[-20.0]["ecoli", "linear"] == "unknown"


def test_the_deviation_of_five_components_is_that_of_the_text(tmp_path):
    names = ("score", "std", "std_stated", "score_simple", "std_simple")
    values = [
        {"dataset": name, "definition": compared_definition(name), "split": 0, "d": d}
        | {"method": method, "measure": measure, "value": 10.0 * d + place}
        for name in UCI
        for d, method in itertools.product((2, 5), METHODS)
        for place, measure in enumerate(names)
    ]
    pd.DataFrame(values, columns=list(tables.COLUMNS)).to_csv(tmp_path / "table4.csv", index=False)
    text = page._table4(tmp_path / "table4.csv", [])
    assert re.search(r"20\.00 \(0\.19\) / 50\.00; 21\.0 \(12\.4\) / 52\.0", text)


def test_spread_widens_the_tolerance():
    assert Estimate.of([0.0, 1.0]).deviation == pytest.approx(np.sqrt(0.5))
    assert Estimate.of([0.3]).text() == "0.30"


def test_causes_predict_the_sign_of_a_difference():
    where = {"table": "table1", "dataset": "adult", "method": "pca", "measure": "variance"}
    assert cause_of({**where, "sign": "-"}) == ""
    assert cause_of({**where, "dataset": "ecoli", "sign": "-"}) == ""
    where["method"] = "mean"
    assert "further apart" in cause_of({**where, "dataset": "ecoli", "sign": "-"})
    assert cause_of({**where, "dataset": "ecoli", "sign": "+"}) == ""
    for rule in texts()["causes"]:
        assert set(rule) - {"text"} <= {*where, "sign"}
        assert rule["sign"] in ("+", "-")  # chance predicts none, and is no cause
        assert len(rule) > 2  # a rule without conditions would explain everything


def test_a_section_that_was_not_computed_is_kept(toy_run, tmp_path, monkeypatch):
    toy_run = shutil.copytree(toy_run, tmp_path / "run")
    monkeypatch.setattr(page, "draw_agreement", lambda *_: None)
    monkeypatch.setattr(page, "draw_overview", lambda *_: None)
    path = toy_run / "page.md"
    write_page(toy_run, path)
    before = path.read_text()
    manifest = toy_run / "manifest.json"
    content = json.loads(manifest.read_text())
    del content["experiments"]["table5"]
    manifest.write_text(json.dumps(content))
    write_page(toy_run, path)
    assert kept_section(path.read_text(), "table5") == kept_section(before, "table5") != ""
    assert "not computed again: table5." in path.read_text()
    assert path.read_text().count("## Table 5") == 1
    assert kept_section(before, "search") == ""


FALLS = {"pca": 0.5, "mean": 0.3, "both": 0.1}


def write_table(folder, name, value):
    """A table of all sets whose values are a function of method and measure."""
    measures = (
        "variance",
        "linear",
        "gaussian_released",
        "ks_released",
        "std",
        "score",
        "auc",
        "delta",
    )
    rows = [
        {
            "dataset": dataset,
            "definition": compared_definition(dataset),
            "split": 0,
            "d": 2,
            "method": method,
            "measure": measure,
            "value": value(method, measure),
        }
        for dataset in UCI
        for method in (*PAPER_METHODS, "fsvm")
        for measure in measures
    ]
    pd.DataFrame(rows, columns=tables.COLUMNS).to_csv(folder / f"{name}.csv", index=False)
    return folder / f"{name}.csv"


def test_claims_hold_where_they_were_built_in_and_not_in_reverse(tmp_path):
    def built_in(method, measure):
        fall = 1.0 - FALLS.get(method, 0.5)
        return {"gaussian_released": 0.9 - 0.5 * fall, "score": 0.2, "auc": 0.7}.get(
            measure, 0.9 - fall
        )

    def reverse(method, measure):
        return {"score": 1.0, "auc": 2.0}.get(measure, 1.0) - built_in(method, measure) * (
            2.0 if method != "fsvm" and measure == "auc" else 1.0
        )

    names = ("table1", "table3", "table4", "table5")
    verdict_of = {}
    for label, value in (("built in", built_in), ("reverse", reverse)):
        files = {name: write_table(tmp_path, name, value) for name in names}
        claims = check_claims(files, texts()["claims"])
        verdict_of[label] = {claim.text: claim.verdict for claim in claims}
    words = texts()["claims"]
    chosen = ("fairer", "linear_gains", "matches_fair_svm")
    assert [verdict_of["built in"][words[name]] for name in chosen] == ["yes"] * 3
    assert [verdict_of["reverse"][words[name]] for name in chosen] == ["no"] * 3
    assert verdict_of["built in"][words["superfluous"]] == "no"  # it helps everywhere
    assert words["nhanes"] not in verdict_of["built in"]  # table 2 is not there


@pytest.mark.parametrize("true", [True, False])
def test_claims_about_curves_and_hours(tmp_path, true):
    rows = [
        {"split": 0, "method": m, "delta": d, "mu": mu, "measure": k, "value": v}
        for m in ("mean", "both")
        for d in tables.DELTAS
        for mu in (0.0, *tables.MUS)
        # Δ grows with δ and the variance does not, and both stop falling at μ = 0.1; or neither.
        for k, v in (
            ("linear", 1.0 + d * true - min(mu, 0.1 if true else 1.0)),
            ("variance", 50.0 + d * (not true) - 9.0 * min(mu, 0.1 if true else 1.0)),
        )
    ]
    frame = pd.DataFrame(rows, columns=tables.FIGURE2_COLUMNS)
    frame.to_csv(tmp_path / "figure2.csv", index=False)
    rows = [
        {"description": name, "method": m, "cluster": c, "share": 40.0, "bucket": b, "activity": a}
        for name in ("run_weaker", "described")
        for m in PAPER_METHODS
        for c in (1, 2, 3)
        for b in range(70)
        for a in (float(c if (b >= 51) == ((m == "pca") == true) else 0),)
    ]
    frame = pd.DataFrame(rows, columns=FIGURE3_COLUMNS)
    frame.to_csv(tmp_path / "figure3.csv", index=False)
    files = {name: tmp_path / f"{name}.csv" for name in ("figure2", "figure3")}
    claims = {claim.text: claim.verdict for claim in check_claims(files, texts()["claims"])}
    words = texts()["claims"]
    chosen = [claims[words[name]] for name in ("sensitive_to_delta", "no_benefit", "hours")]
    assert chosen == (["yes"] * 3 if true else ["no"] * 3)


def test_every_printed_cell_is_compared():
    for table, cells in COMPARED.items():
        pairs = {(cell.method, cell.measure) for cell in cells}
        assert pairs == {(method, measure) for _, method, measure in printed(table)}


def test_figures_of_curves_and_profiles(tmp_path):
    """Figures 2 and 3 need data files to be computed, but not to be drawn."""
    rows = [
        {"split": 0, "method": m, "delta": d, "mu": mu, "measure": k, "value": d + mu}
        for m in ("mean", "both", "refined")
        for d in tables.DELTAS
        for mu in (0.0, *tables.MUS)
        for k in ("variance", "linear")
    ]
    frame = pd.DataFrame(rows, columns=tables.FIGURE2_COLUMNS)
    frame.to_csv(tmp_path / "figure2.csv", index=False)
    rows = [
        {"description": "run", "method": m, "cluster": c, "share": 40.0, "bucket": b, "activity": b}
        for m in METHODS
        for c in (1, 2, 3)
        for b in range(70)
    ]
    frame = pd.DataFrame(rows, columns=FIGURE3_COLUMNS)
    frame.to_csv(tmp_path / "figure3.csv", index=False)
    names = [path.name for path in draw_figures(tmp_path)]
    assert names == ["figure2.png", "figure2.svg", "figure3.png", "figure3.svg"]


def test_methods_have_names():
    assert set(texts()["methods"]) == {*METHODS, "calmon", "fsvm"}
    assert set(PAPER_METHODS) < set(METHODS)
