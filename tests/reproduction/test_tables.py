"""Tables, figures and search without data files: protocol, methods, runs."""

import ast
import json
from pathlib import Path

import joblib
import numpy as np
import pytest

import reproduction
from fairpca.metrics import delta_fairness
from reproduction import run as running
from reproduction import search, tables
from reproduction.datasets import UCI
from reproduction.methods import (
    FULL,
    METHODS,
    QUICK,
    choose_rows,
    cov_weight_from_paper,
    fit_bases,
    gaussian_released,
    ks_released,
    make_split,
    representation,
    score_delta,
    standardise,
)
from reproduction.results import printed, printed_clusters
from reproduction.run import EXPERIMENTS, run

CELL = {"dataset": "wine_quality", "definition": "released", "split": 0}


def uncached(function):
    return function


def test_the_paper_scale_of_mu():
    X = np.random.default_rng(0).normal(size=(50, 4))
    (X,) = standardise(X)
    assert cov_weight_from_paper(0.01, *X.shape) == pytest.approx(0.01 * np.linalg.norm(X))


def test_splits_are_standardised_with_the_training_rows(toy):
    split = make_split("wine_quality", 3)
    assert len(split.train) == 168
    assert len(split.test) == 72
    np.testing.assert_allclose(split.train.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(split.train.std(axis=0), 1.0)
    again = make_split("wine_quality", 3)
    np.testing.assert_array_equal(split.test, again.test)
    assert not np.array_equal(split.z_test, make_split("wine_quality", 4).z_test)


def test_constant_columns_become_zero():
    train, test = standardise(np.array([[1.0, 5.0], [3.0, 5.0]]), np.array([[2.0, 6.0]]))
    np.testing.assert_array_equal(train[:, 1], 0.0)
    np.testing.assert_array_equal(test, [[0.0, 0.0]])


def test_methods_do_what_they_say(toy):
    split = make_split("any", 0)
    bases = fit_bases(split.train, split.z_train, 2, mu=0.01)
    assert tuple(bases) == METHODS
    for method, fit in bases.items():
        V = fit["basis"]
        np.testing.assert_allclose(V.T @ V, np.eye(2), atol=1e-8)
        if method != "pca":
            assert fit["mean_gap"] < 1e-6
    assert bases["pca"]["variance"] > bases["mean"]["variance"] > bases["both"]["variance"]
    assert bases["refined_gap"]["variance"] >= bases["both"]["variance"] - 1e-6
    assert bases["refined_gap"]["cov_gap"] <= bases["both"]["cov_gap"] * (1 + 1e-4)
    assert bases["refined_zero"]["cov_gap"] < 1e-5


def test_smallest_tolerance_where_zero_cannot_be_met(toy):
    split = make_split("any", 0)
    fit = fit_bases(split.train, split.z_train, 6, mu=0.01)["refined_zero"]
    assert fit["cov_tol"] > 0.0
    assert fit["cov_gap"] <= fit["cov_tol"] * (1 + 1e-4) + 1e-8


def test_representation_has_unit_variance(toy):
    split = make_split("any", 0)
    basis = np.eye(8)[:, :2]
    np.testing.assert_allclose(representation(split.test, basis).std(axis=0), 1.0)
    scaled = representation(split.test, basis, scale_by=split.train)
    np.testing.assert_allclose(scaled, split.test[:, :2])


def test_printed_tables_are_complete():
    assert printed("table1")["wine_quality", "pca", "variance"] == 50.21
    assert printed("table3")["wine_quality", "calmon", "ks"] == 0.44
    assert printed("table4")["adult", "both", "std"] == 2.28
    assert printed("table5")["adult", "fsvm", "auc"] == 0.86
    for table, per_set in (("table1", 9), ("table3", 4), ("table4", 8), ("table5", 10)):
        assert len(printed(table)) == per_set * len(UCI)
    assert printed_clusters()["pca"] == [43.18, 32.94, 8.71]


@pytest.mark.parametrize("name", ["table1", "table3", "table4", "table5"])
def test_tables_on_toy_data(toy, name):
    rows = EXPERIMENTS[name].compute(**CELL, effort=QUICK, cache=uncached)
    if name == "table1":
        assert rows == EXPERIMENTS[name].compute(**CELL, effort=QUICK, cache=uncached)
    assert {"pca", "both", "refined_zero"} <= {row["method"] for row in rows}
    for row in rows:
        assert np.isfinite(row["value"])
        assert set(row) == set(EXPERIMENTS[name].columns)
    released = {(row["d"], row["method"]) for row in rows if row["measure"] == "gaussian_released"}
    assert released == ({(2, "pca"), (2, "mean"), (2, "both")} if name == "table1" else set())


@pytest.mark.slow
def test_leakage_on_toy_data(toy, monkeypatch):
    seen = []
    original = tables.DeltaFairPCA
    monkeypatch.setattr(
        tables, "DeltaFairPCA", lambda *a, **k: seen.append(k["max_rows"]) or original(*a, **k)
    )
    rows = tables.leakage(**CELL, effort=QUICK, cache=uncached)
    assert seen == [QUICK.adversary_rows]  # a quick run has two components only
    assert {(row["d"], row["method"]) for row in rows} == {(2, "delta"), (2, "same_leakage")}
    assert all(0.0 < row["value"] <= 100.0 for row in rows if row["measure"] == "variance")


def test_fair_pca_is_held_to_a_leakage(monkeypatch):
    leaks = dict(zip(tables.COV_WEIGHTS, (0.9, 0.6, 0.4, 0.2, 0.3, 0.25), strict=True))
    monkeypatch.setattr(
        tables, "fit_and_measure", lambda model, *rest: {"gaussian": leaks[model.cov_weight]}
    )
    for limit, reached in ((0.7, 0.6), (0.4, 0.4), (0.21, 0.2), (0.1, 0.2)):
        assert tables.as_little_leakage(2, None, QUICK, limit) == {"gaussian": reached}


def test_leakage_is_run_for_the_definition_held_against_print():
    cells = tables.leakage_cells(5)
    pairs = {(cell["dataset"], cell["definition"]) for cell in cells}
    assert ("magic", "printed") in pairs
    assert ("magic", "released") not in pairs
    assert len(cells) == tables.LEAKAGE_SPLITS * len(UCI) == len(pairs) * tables.LEAKAGE_SPLITS


def test_tables_are_run_for_both_definitions():
    cells = tables.split_cells(2)
    pairs = {(cell["dataset"], cell["definition"]) for cell in cells}
    assert {("magic", "released"), ("magic", "printed"), ("wine_quality", "released")} <= pairs
    assert ("wine_quality", "printed") not in pairs
    assert len(cells) == 2 * len(pairs)


def test_gaussian_svm_of_the_program_sees_a_ring():
    rng = np.random.default_rng(0)
    z = np.arange(300) % 2
    U = rng.normal(size=(300, 2))
    U[z == 1] *= 2.5 / np.linalg.norm(U[z == 1], axis=1, keepdims=True)
    assert gaussian_released(U, z, 0) > 0.8
    assert gaussian_released(U, rng.permutation(z), 0) < 0.6
    assert gaussian_released(U, z, 0) == gaussian_released(U, z, 0)


def test_delta_of_a_score_is_that_of_the_metrics():
    rng = np.random.default_rng(2)
    z = np.arange(60) % 2
    for score in (rng.normal(size=60) + z, rng.integers(0, 4, 60).astype(float)):
        assert score_delta(score, z) == pytest.approx(float(delta_fairness(score, z)))
    assert score_delta(score, np.ones(60)) == 0.0


def test_distance_of_the_program_by_brute_force():
    rng = np.random.default_rng(1)
    z = np.arange(40) % 2
    U = rng.normal(size=(40, 2)) + 0.5 * z[:, None]
    for distance, (x, y) in zip(ks_released(U, z), (U.T, U.T[::-1]), strict=True):
        places = np.argsort(y)
        weights = np.where(z == 1, -1 / 20, 1 / 20)
        sums = [
            abs(weights[(x >= low) & (places <= last)].sum()) for low in x for last in range(40)
        ]
        assert distance == pytest.approx(max(sums))


def test_rows_that_are_used():
    np.testing.assert_array_equal(choose_rows(11, "all rows"), np.arange(11))
    np.testing.assert_array_equal(choose_rows(11, "first fifth"), [0, 1])
    random = choose_rows(1000, "random fifth")
    assert len(set(random)) == 200
    assert random.max() > 900


@pytest.mark.slow
def test_search_finds_what_was_hidden(hidden):
    reader, truth = hidden
    place = reader.candidates.index(truth)
    best = reader.best("any", "all rows", 40, 10)
    assert place in [i for _, i in best[:2]]
    score = {i: score for score, i in best}[place]
    assert score < 0.5
    splits = enumerate(reader.splits(truth))
    measured = [search.full_cells(split, s, FULL) for s, split in splits]
    cells, overall, agreeing = search.compare("any", measured)
    assert overall == pytest.approx(0.0, abs=1e-12)
    assert agreeing == len(cells) == 18


@pytest.mark.slow
def test_screening_agrees_with_the_methods(hidden):
    reader, truth = hidden
    place = reader.candidates.index(truth)
    fits = [
        fit_bases(split.train, split.z_train, 2, mu=0.01, methods=("pca", "mean"))
        for split in reader.splits(truth)
    ]
    expected = [np.mean([fit[name]["variance"] for fit in fits]) for name in ("pca", "mean")]
    np.testing.assert_allclose(reader.cheap[place], expected)


def test_thresholds_leave_rows_on_both_sides():
    assert search.thresholds(np.repeat([0.0, 1.0, 2.0], [90, 7, 3])) == [0.0]
    cuts = search.thresholds(np.arange(1000.0))
    assert len(cuts) == 19
    assert min(cuts) >= 49


@pytest.mark.slow
def test_a_quick_search_fits_little(hidden, monkeypatch):
    fits, rows = [], []
    fit_all, measure = search.fit_bases, search.gaussian_released
    monkeypatch.setattr(search, "fit_bases", lambda *a, **k: fits.append(1) or fit_all(*a, **k))
    monkeypatch.setattr(
        search, "gaussian_released", lambda U, *a: rows.append(len(U)) or measure(U, *a)
    )
    search.search("any", QUICK, uncached)
    assert len(fits) <= 9  # of three choices of rows: two in the screening, one in full
    assert len(rows) == 9
    assert max(rows) <= QUICK.kernel_rows


class Counted:
    """Cells of two experiments that note when they are computed, and may stop in the middle."""

    def __init__(self):
        self.computed, self.stop_at = [], None

    def cells(self, splits):
        return [{"split": split} for split in range(splits)]

    def compute(self, split, effort, cache):
        if split == self.stop_at:
            raise KeyboardInterrupt
        self.computed.append(split)
        return [{"split": split, "value": split / 3}]


@pytest.fixture
def counted(monkeypatch):
    made = Counted()

    def compute(split, effort, cache):
        return made.compute(split, effort, cache)

    experiment = running.Experiment(compute, made.cells, ("split", "value"))
    monkeypatch.setitem(EXPERIMENTS, "counted", experiment)
    monkeypatch.setattr(running, "code_hash", lambda: "code")
    return made


def contents(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}


def test_a_stopped_run_continues(counted, tmp_path):
    run(["counted"], tmp_path / "straight")
    assert (tmp_path / "straight" / "counted.csv").read_text().splitlines()[1:3] == [
        "0,0",
        "1,0.3333333333",
    ]
    counted.computed.clear()
    counted.stop_at = 3
    with pytest.raises(KeyboardInterrupt):
        run(["counted"], tmp_path / "stopped")
    counted.stop_at = None
    run(["counted"], tmp_path / "stopped")
    assert counted.computed == [0, 1, 2, 3, 4]
    assert contents(tmp_path / "stopped") == contents(tmp_path / "straight")


def test_other_options_and_other_code_compute_anew(counted, tmp_path, monkeypatch):
    run(["counted"], tmp_path, splits=2)
    run(["counted"], tmp_path, splits=3)  # more splits leave the cells that are there
    assert counted.computed == [0, 1, 2]
    run(["counted"], tmp_path, splits=1, quick=True)
    monkeypatch.setattr(running, "code_hash", lambda: "other")
    run(["counted"], tmp_path, splits=1)
    assert counted.computed == [0, 1, 2, 0, 0]


def test_files_of_other_code_stay_and_are_named(counted, tmp_path, monkeypatch):
    monkeypatch.setitem(EXPERIMENTS, "earlier", EXPERIMENTS["counted"])
    run(["earlier"], tmp_path, splits=1)
    monkeypatch.setattr(running, "code_hash", lambda: "other")
    run(["counted"], tmp_path, splits=1)
    made = json.loads((tmp_path / "manifest.json").read_text())["experiments"]
    assert made == {"counted": "other", "earlier": "code"}
    run(["counted"], tmp_path, splits=2)  # other options: the earlier one is not of this run
    assert set(json.loads((tmp_path / "manifest.json").read_text())["experiments"]) == {"counted"}


def test_missing_data_are_missed_before_anything_is_computed(counted, tmp_path, monkeypatch):
    monkeypatch.setenv("FAIRPCA_DATA", str(tmp_path / "none"))
    with pytest.raises(FileNotFoundError, match="nhanes"):
        run(["counted", "table2"], tmp_path)
    assert counted.computed == []


def test_cells_that_take_longest_start_first_and_fits_are_shared():
    cells = [(name, cell) for name, e in EXPERIMENTS.items() for cell in e.cells(2)]
    names = [name for name, _ in sorted(cells, key=running._order)]
    assert set(names[: len(search.SEARCHED)]) == {"search"}
    assert set(names[len(search.SEARCHED) :][: 2 * len(UCI)]) == {"leakage"}
    fits = running._shared_fits({name: EXPERIMENTS[name] for name in ("table1", "table5")}, 2)
    assert len(fits) == 2 * len(tables.split_cells(2))


def test_numbers_and_manifest_are_the_same_in_processes(tmp_path):
    run(["figure1"], tmp_path / "one", quick=True)
    with joblib.parallel_config(backend="threading"):
        run(["figure1"], tmp_path / "two", quick=True, jobs=2)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    manifest = json.loads((tmp_path / "one" / "manifest.json").read_text())
    assert manifest["experiments"] == {"figure1": running.code_hash()}
    assert {"numpy", "scipy", "scikit-learn"} <= set(manifest["packages"])


def test_only_public_modules_of_the_package_are_imported():
    for path in Path(reproduction.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                parts = [*str(node.module).split("."), *(alias.name for alias in node.names)]
                assert not any(part.startswith("_") and part != "__future__" for part in parts)
