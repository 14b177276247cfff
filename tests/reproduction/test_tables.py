"""Experiments without data files: protocol, methods, store, runner and search."""

import json
from pathlib import Path

import numpy as np
import pytest

from fairpca.exceptions import InvalidInputError
from fairpca.experiments import (
    EXPERIMENTS,
    NAMES,
    Cell,
    Experiment,
    Options,
    _experiment,
    _runner,
    cov_weight_from_paper,
    leak,
    run,
    search,
    table1,
    table3,
    table4,
    table5,
)
from fairpca.experiments._experiment import Store, printed, printed_clusters, read_csv, write_csv
from fairpca.experiments._methods import (
    DATASETS,
    METHODS,
    choose_rows,
    fit_bases,
    gaussian_released,
    ks_released,
    make_split,
    representation,
    score_delta,
    standardise,
)
from fairpca.metrics import delta_fairness


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
        V = np.asarray(fit["basis"])
        np.testing.assert_allclose(V.T @ V, np.eye(2), atol=1e-8)
        if method != "pca":
            assert fit["mean_gap"] < 1e-6
    assert bases["pca"]["variance"] > bases["mean"]["variance"] > bases["both"]["variance"]
    assert bases["refined_gap"]["variance"] >= bases["both"]["variance"] - 1e-6
    assert bases["refined_gap"]["cov_gap"] <= bases["both"]["cov_gap"] * (1 + 1e-4)
    assert bases["refined_zero"]["cov_gap"] < 1e-5
    json.dumps(bases)


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
        assert len(printed(table)) == per_set * len(DATASETS)
    assert printed_clusters()["pca"] == [43.18, 32.94, 8.71]


@pytest.mark.parametrize("module", [table1, table3, table4, table5])
def test_tables_on_toy_data(toy, module, tmp_path):
    options = Options(splits=1, quick=True)
    params = {"dataset": "wine_quality", "definition": "released", "split": 0}
    store = Store(tmp_path, "x")
    rows = module.compute(params, options, store)
    assert rows == module.compute(params, options, store)
    assert {"pca", "both", "refined_zero"} <= {row["method"] for row in rows}
    for row in rows:
        assert np.isfinite(row["value"])
        assert set(row) == set(module.EXPERIMENT.columns)
    json.dumps(rows)


def test_leak_on_toy_data(toy, tmp_path):
    params = {"dataset": "wine_quality", "definition": "released", "split": 0}
    rows = leak.compute(params, Options(quick=True), Store(tmp_path, "x"))
    assert {(row["d"], row["method"]) for row in rows} == {
        (d, method) for d in leak.DIMENSIONS for method in ("delta", "same_leak")
    }
    assert all(0.0 < row["value"] <= 100.0 for row in rows if row["measure"] == "variance")


def test_fair_pca_is_held_to_a_leak(monkeypatch):
    leaks = dict(zip(leak.PRICES, (0.9, 0.6, 0.4, 0.2, 0.3, 0.25), strict=True))
    monkeypatch.setattr(
        leak, "_values", lambda model, split, options: {"gaussian": leaks[model.cov_weight]}
    )
    for asked, found in ((0.7, 0.6), (0.4, 0.4), (0.21, 0.2), (0.1, 0.2)):
        assert leak._as_fair(2, None, None, asked) == {"gaussian": found}


def test_leak_is_run_for_the_definition_held_against_print():
    cells = leak.EXPERIMENT.cells(Options(splits=5))
    found = [(cell.params["dataset"], cell.params["definition"]) for cell in cells]
    assert ("magic", "printed") in found
    assert ("magic", "released") not in found
    assert len(cells) == leak.SPLITS * len(DATASETS) == len(set(found)) * leak.SPLITS


def test_table1_has_the_svm_of_the_program(toy, tmp_path):
    params = {"dataset": "wine_quality", "definition": "released", "split": 0}
    rows = table1.compute(params, Options(quick=True), Store(tmp_path, "x"))
    found = {(row["d"], row["method"]) for row in rows if row["measure"] == "gaussian_released"}
    assert found == {(2, "pca"), (2, "mean"), (2, "both")}


def test_tables_are_run_for_both_definitions():
    options = Options(splits=2)
    for module in (table1, table3, table4, table5):
        cells = module.EXPERIMENT.cells(options)
        assert len({cell.full_key for cell in cells}) == len(cells)
        found = {(cell.params["dataset"], cell.params["definition"]) for cell in cells}
        assert {("magic", "released"), ("magic", "printed"), ("wine_quality", "released")} <= found
        assert ("wine_quality", "printed") not in found
        assert len(cells) == 2 * len(found)


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
    for found, (x, y) in zip(ks_released(U, z), (U.T, U.T[::-1]), strict=True):
        places = np.argsort(y)
        weights = np.where(z == 1, -1 / 20, 1 / 20)
        sums = [
            abs(weights[(x >= low) & (places <= last)].sum()) for low in x for last in range(40)
        ]
        assert found == pytest.approx(max(sums))


def test_rows_that_are_used():
    np.testing.assert_array_equal(choose_rows(11, "all rows"), np.arange(11))
    np.testing.assert_array_equal(choose_rows(11, "first fifth"), [0, 1])
    random = choose_rows(1000, "random fifth")
    assert len(set(random)) == 200
    assert random.max() > 900


def test_search_finds_what_was_hidden(hidden):
    reader, truth = hidden
    place = reader.candidates.index(truth)
    best = reader.best("any", "all rows", 40, 10)
    assert place in [i for _, i in best[:2]]
    score = {i: score for score, i in best}[place]
    assert score < 0.5
    splits = enumerate(reader.splits(truth))
    found = [search.full_cells(split, s, Options()) for s, split in splits]
    cells, overall, agreeing = search._judge("any", found)
    assert overall == pytest.approx(0.0, abs=1e-12)
    assert agreeing == len(cells) == 18


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


def test_names_are_declared_once():
    assert tuple(EXPERIMENTS) == NAMES
    assert all(experiment.name == name for name, experiment in EXPERIMENTS.items())


def test_store_keeps_only_what_fits(tmp_path):
    store = Store(tmp_path, "one")
    store.write("a/b c", rows=[1])
    assert store.read("a/b c")["rows"] == [1]
    assert store.read("a/b d") is None
    assert Store(tmp_path, "two").read("a/b c") is None
    store.path("a/b c").write_text("{ half")
    assert store.read("a/b c") is None


def test_nothing_is_left_of_a_write_that_fails(tmp_path):
    with pytest.raises(TypeError):
        _experiment.write_atomically(tmp_path / "x", None)
    assert list(tmp_path.iterdir()) == []


def test_csv_round_trip(tmp_path):
    path = tmp_path / "x.csv"
    write_csv(path, [{"a": 'b,"c"', "v": 0.1}, {"a": None, "v": 1 / 3}], ["a", "v"])
    rows = read_csv(path)
    assert rows[0] == {"a": 'b,"c"', "v": "0.1"}
    assert float(rows[1]["v"]) == pytest.approx(1 / 3, rel=1e-9)


class Counted:
    """An experiment of five cells that can be told to stop in the middle."""

    def __init__(self):
        self.computed = []
        self.stop_at = None

    def compute(self, params, options, store):
        if params["i"] == self.stop_at:
            raise KeyboardInterrupt
        self.computed.append(params["i"])
        return [{"i": params["i"], "value": params["i"] / 3}]

    def experiment(self):
        return Experiment(
            name="counted",
            columns=("i", "value"),
            cells=lambda o: [Cell("counted", f"i={i}", {"i": i}) for i in range(5)],
            compute=self.compute,
        )


@pytest.fixture
def counted(monkeypatch):
    made = Counted()
    experiment = made.experiment()
    monkeypatch.setitem(_runner.EXPERIMENTS, "counted", experiment)
    monkeypatch.setitem(_runner._ALL, "counted", experiment)
    return made


def contents(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}


def test_a_stopped_run_continues(counted, tmp_path):
    run(["counted"], Options(), tmp_path / "straight")
    counted.computed.clear()
    counted.stop_at = 3
    with pytest.raises(KeyboardInterrupt):
        run(["counted"], Options(), tmp_path / "stopped")
    assert counted.computed == [0, 1, 2]
    counted.stop_at = None
    seen, named = [], []
    told = {"progress": lambda *count: seen.append(count), "started": named.append}
    run(["counted"], Options(), tmp_path / "stopped", **told)
    assert counted.computed == [0, 1, 2, 3, 4]
    # (The first call is the empty stage before.)
    assert seen[1:] == [(3, 5), (4, 5), (5, 5)]
    assert named == ["counted-i=3", "counted-i=4"]
    assert contents(tmp_path / "stopped") == contents(tmp_path / "straight")


def test_missing_data_are_missed_before_anything_is_computed(counted, tmp_path, monkeypatch):
    for variable in ("FAIRPCA_DATA", "FAIRPCA_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / "none"))
    with pytest.raises(FileNotFoundError, match="nhanes"):
        run(["counted", "table2"], Options(), tmp_path)
    assert counted.computed == []


def test_running_cells_are_named_for_several_processes(tmp_path):
    seen = []
    options = Options(quick=True, splits=3)
    tasks = [(Cell("figure1", f"copy {i}", {}), options, str(tmp_path), "s") for i in range(3)]
    for running, left in _runner._running_in_processes(tasks, 2):
        seen.append(([cell.key for cell in running], left))
    assert [left for _, left in seen] == [3, 2, 1]
    assert [len(running) for running, _ in seen] == [2, 2, 1]
    assert seen[0][0] == ["copy 0", "copy 1"]


def test_other_options_compute_anew(counted, tmp_path):
    run(["counted"], Options(), tmp_path)
    run(["counted"], Options(quick=True), tmp_path)
    assert counted.computed == [0, 1, 2, 3, 4] * 2
    # More splits do not change the cells that are there.
    assert _runner.fingerprint(Options(splits=9)) == _runner.fingerprint(Options())


def test_unknown_experiment():
    with pytest.raises(InvalidInputError, match="table1"):
        run(["table9"], Options(), "nowhere")


def test_numbers_and_manifest_are_the_same_every_time(tmp_path):
    options = Options(quick=True)
    run(["figure1"], options, tmp_path / "one")
    run(["figure1"], options, tmp_path / "two")
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    manifest = json.loads((tmp_path / "one" / "manifest.json").read_text())
    assert manifest["experiments"] == {"figure1": 1}
    assert {"numpy", "scipy", "scikit-learn"} <= set(manifest["packages"])
