"""The page and the pictures of the reproduction, from made-up and from real numbers."""

import re
from dataclasses import replace

import numpy as np
import pytest

from fairpca.experiments import EXPERIMENTS, Options, _runner, run
from fairpca.experiments._experiment import COLUMNS, Estimate, Results, printed, write_csv
from fairpca.experiments._methods import DATASETS, METHODS, PAPER_METHODS
from fairpca.report import draw_figures, write_report
from fairpca.report._verdicts import JUDGED, KINDS, _cause, judged_definition, texts, verdicts

MEASURES = {
    "table1": ("variance", "linear", "gaussian", "gaussian_released", "cov_gap"),
    "table3": ("ks", "ks_released", "ks_range"),
    "table4": ("score", "std"),
    "table5": ("auc", "delta"),
    "leak": ("variance", "linear", "gaussian"),
}


@pytest.fixture
def toy_run(tmp_path, monkeypatch):
    """A finished run of two data sets with made-up values."""

    def invent(params, options, store):
        rng = np.random.default_rng(params["split"])
        return [
            {**params, "d": d, "method": method, "measure": measure, "value": rng.uniform()}
            for d in (2, 3, 5)
            for method in (*METHODS, "calmon", "fsvm", "delta", "same_leak")
            for measure in MEASURES[params["table"]]
        ]

    for name in MEASURES:
        experiment = EXPERIMENTS[name]
        few = [
            replace(cell, params={**cell.params, "table": name})
            for cell in experiment.cells(Options(splits=2))
            if cell.params["dataset"] in ("wine_quality", "magic")
        ]
        small = replace(
            experiment, cells=lambda o, few=few: few, compute=invent, prepare=None, datasets=()
        )
        monkeypatch.setitem(_runner.EXPERIMENTS, name, small)
        monkeypatch.setitem(_runner._ALL, name, small)
    run(list(MEASURES), Options(splits=2, quick=True), tmp_path)
    return tmp_path


def test_page_begins_with_the_picture_and_counts_every_cell(toy_run):
    path = write_report(toy_run, toy_run / "docs" / "page.md")
    text = path.read_text()
    assert text.index("agreement.png") < text.index("##")
    assert (path.parent / "img" / "reproduction" / "agreement.png").stat().st_size > 10_000
    total, *kinds = map(int, re.search(r"Of (\d+) .*? (\d+) .*? (\d+) .*? (\d+) ", text).groups())
    assert total == sum(kinds) == 2 * (9 + 4 + 8 + 10)
    results = Results(toy_run / "table1.csv")
    assert results.get("wine_quality", "released", "pca", "variance", 2).count == 2
    assert results.get("wine_quality", "released", "pca", "nothing", 2) is None


def test_page_has_every_row_and_a_verdict(toy_run):
    text = write_report(toy_run, toy_run / "page.md").read_text()
    for part in ("## Table 1", "## Table 3", "## Table 4", "## Table 5", "quick run"):
        assert part in text
    assert "(50.21)" in text
    rows = [line for line in text.splitlines() if line.startswith("| ") and "wine_quality" in line]
    assert len(rows) == 4 + 2 + 1  # four tables, two of what refined adds, one of what leaks
    assert "With 2 components: in" in text
    judged = [line for line in text.splitlines() if line.startswith("| **magic, as printed**")]
    assert sum("agrees" in line or "differs" in line for line in judged) == 4


def write_exact(folder, shift):
    """Table 1 as printed, with a shift of every value, on two equal splits."""
    rows = [
        {
            "dataset": dataset,
            "definition": judged_definition(dataset),
            "split": split,
            "d": 2,
            "method": method,
            "measure": "gaussian_released" if measure == "gaussian" else measure,
            "value": value + shift,
        }
        for (dataset, method, measure), value in printed("table1").items()
        for split in (0, 1)
    ]
    write_csv(folder / "table1.csv", rows, list(COLUMNS))
    return {"table1": folder / "table1.csv"}


def test_verdicts_follow_the_tolerances(tmp_path):
    found = verdicts(write_exact(tmp_path, 0.0))
    assert len(found) == 9 * len(DATASETS)
    assert {verdict.kind for verdict in found} == {"agrees"}
    shifted = verdicts(write_exact(tmp_path, 2.5))
    assert {verdict.kind for verdict in shifted if verdict.measure == "linear"} <= set(KINDS[1:])
    by_method = {
        v.method: v.kind for v in shifted if v.measure == "variance" and v.dataset == "adult"
    }
    assert by_method == {"pca": "unknown", "mean": "unknown", "both": "agrees"}


def test_spread_widens_the_tolerance():
    assert Estimate.of([0.0, 1.0]).deviation == pytest.approx(np.sqrt(0.5))
    assert Estimate.of([0.3]).text() == "0.30"


def test_causes_are_rules_with_conditions():
    where = {"table": "table1", "dataset": "adult", "method": "pca", "measure": "variance"}
    assert _cause(where) == ""
    assert "k" in _cause({**where, "table": "table4"})
    for rule in texts()["causes"]:
        assert set(rule) - {"text"} <= set(where)
        assert len(rule) > 1  # a rule without conditions would explain everything


def test_every_printed_cell_is_judged():
    for table, cells in JUDGED.items():
        asked = {(cell.method, cell.measure) for cell in cells}
        assert asked == {(method, measure) for _, method, measure in printed(table)}


def test_pictures_are_the_same_every_time(tmp_path):
    pictures = []
    for name in ("one", "two"):
        run(["figure1"], Options(quick=True), tmp_path / name)
        files = draw_figures(tmp_path / name)
        pictures.append([path.read_bytes() for path in files])
    assert pictures[0] == pictures[1]
    assert len(pictures[0]) == 2


def test_figures_of_curves_and_profiles(tmp_path):
    """Figures 2 and 3 need data files to be computed, but not to be drawn."""
    from fairpca.experiments import figure2, figure3

    rows = [
        {"split": 0, "method": m, "delta": d, "mu": mu, "measure": k, "value": d + mu}
        for m in ("mean", "both", "refined")
        for d in figure2.DELTAS
        for mu in (0.0, *figure2.MUS)
        for k in ("variance", "linear")
    ]
    write_csv(tmp_path / "figure2.csv", rows, list(figure2.COLUMNS))
    rows = [
        {"description": "run", "method": m, "cluster": c, "share": 40.0, "bucket": b, "activity": b}
        for m in METHODS
        for c in (1, 2, 3)
        for b in range(70)
    ]
    write_csv(tmp_path / "figure3.csv", rows, list(figure3.COLUMNS))
    names = [path.name for path in draw_figures(tmp_path)]
    assert names == ["figure2.png", "figure2.svg", "figure3.png", "figure3.svg"]


def test_methods_have_names():
    assert set(texts()["methods"]) == {*METHODS, "calmon", "fsvm"}
    assert set(PAPER_METHODS) < set(METHODS)
