"""Experiments without data files: protocol, methods, store, runner and report."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fairpca.exceptions import InvalidInputError
from fairpca.experiments import (
    EXPERIMENTS,
    Cell,
    Experiment,
    Options,
    _protocol,
    _runner,
    cov_weight_from_paper,
    run,
    table1,
    table3,
    table4,
    table5,
    write_report,
)
from fairpca.experiments._methods import METHODS, fit_bases, representation
from fairpca.experiments._printed import printed, printed_clusters
from fairpca.experiments._protocol import DATASETS, MATCHING, make_split, standardise
from fairpca.experiments._results import Results
from fairpca.experiments._store import Store, read_csv, write_atomically, write_csv


@pytest.fixture
def toy(monkeypatch):
    """All data sets are one small synthetic table."""
    rng = np.random.default_rng(0)
    z = rng.integers(0, 2, 240)
    X = rng.normal(size=(240, 8)) + rng.normal(size=(240, 1))
    stretch = np.array([1.6, 0.6, 1.4, 0.7, 1.2, 0.8, 1.5, 0.5])
    X[z == 1] = stretch * X[z == 1] + rng.normal(size=8)
    y = (X[:, 0] + rng.normal(size=240) > 0).astype(int)
    monkeypatch.setattr(_protocol, "rows_of", lambda name, label=None: (X, z, y))
    return X, z, y


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
    assert set(MATCHING) < set(DATASETS)


@pytest.mark.parametrize("module", [table1, table3, table4, table5])
def test_tables_on_toy_data(toy, module, tmp_path):
    options = Options(splits=1, quick=True)
    params = {"dataset": "wine_quality", "label": None, "split": 0}
    store = Store(tmp_path, "x")
    rows = module.compute(params, options, store)
    assert rows == module.compute(params, options, store)
    assert {"pca", "both", "refined_zero"} <= {row["method"] for row in rows}
    for row in rows:
        assert np.isfinite(row["value"])
        assert set(row) == set(module.EXPERIMENT.columns)
    json.dumps(rows)


def test_untuned_machine_comes_apart(toy, tmp_path):
    params = {"dataset": "wine_quality", "label": None, "split": 0, "untuned": True}
    rows = table1.compute(params, Options(quick=True), Store(tmp_path, "x"))
    assert {row["measure"] for row in rows} == {"gaussian_untuned"}
    assert set(rows[0]) == set(table1.EXPERIMENT.columns)


def test_tables_have_a_second_row_for_coin_flips():
    options = Options(splits=2)
    assert len(table1.cells(options)) == 2 * 2 * 15
    cells = table5.cells(options)
    assert len(cells) == 2 * (15 + 7)
    labels = {cell.params["label"] for cell in cells if cell.params["dataset"] == "magic"}
    assert labels == {"DummyMain", "fDist"}
    assert {c.params["label"] for c in cells if c.params["dataset"] == "biodeg"} == {"nX>0"}
    assert len({cell.full_key for cell in cells}) == len(cells)


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
        write_atomically(tmp_path / "x", None)
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
            title="",
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
    seen = []
    run(
        ["counted"],
        Options(),
        tmp_path / "stopped",
        progress=lambda cells, *counts: seen.append(([cell.key for cell in cells], *counts)),
    )
    assert counted.computed == [0, 1, 2, 3, 4]
    # What is running is named while it runs. (The first call is the empty stage before.)
    assert seen[1:] == [(["i=3"], 3, 5), (["i=4"], 4, 5), ([], 5, 5)]
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


def test_figure_and_manifest_are_the_same_every_time(tmp_path):
    options = Options(quick=True)
    run(["figure1"], options, tmp_path / "one")
    run(["figure1"], options, tmp_path / "two")
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    manifest = json.loads((tmp_path / "one" / "manifest.json").read_text())
    assert manifest["experiments"] == {"figure1": 1}
    assert {"numpy", "scipy", "scikit-learn"} <= set(manifest["packages"])


MEASURES = {
    "table1": ("variance", "linear", "gaussian", "cov_gap", "linear_null_mean"),
    "table3": ("ks", "ks_null_mean"),
    "table4": ("score", "std"),
    "table5": ("auc", "delta"),
}


@pytest.fixture
def toy_run(tmp_path, monkeypatch):
    """A finished run of two data sets with made-up values."""

    def invent(params, options, store):
        rng = np.random.default_rng(params["split"])
        return [
            {**params, "d": d, "method": method, "measure": measure, "value": rng.uniform()}
            for d in (2, 3, 5)
            for method in (*METHODS, "calmon", "fsvm")
            for measure in MEASURES[params["table"]]
        ]

    for name in MEASURES:
        experiment = EXPERIMENTS[name]
        few = [
            replace(cell, params={**cell.params, "table": name})
            for cell in experiment.cells(Options(splits=2))
            if cell.params["dataset"] in ("wine_quality", "magic") and "untuned" not in cell.params
        ]
        small = replace(
            experiment, cells=lambda o, few=few: few, compute=invent, prepare=None, datasets=()
        )
        monkeypatch.setitem(_runner.EXPERIMENTS, name, small)
        monkeypatch.setitem(_runner._ALL, name, small)
    run(list(MEASURES), Options(splits=2, quick=True), tmp_path)
    return tmp_path


def test_report_has_every_row_and_a_verdict(toy_run):
    path = write_report(toy_run, toy_run / "docs" / "page.md")
    text = path.read_text()
    for part in ("## Table 1", "## Table 3", "## Table 4", "## Table 5", "wine_quality"):
        assert part in text
    assert "magic, y = fDist" in text
    assert "coin flip" in text
    assert "(50.21)" in text
    assert "mean absolute difference" in text
    for line in text.splitlines():
        if line.startswith(("| wine_quality |", "| magic")) and "verdict" in line:
            assert any(word in line for word in ("agrees", "differs", "cannot be checked"))
    results = Results(toy_run / "table1.csv")
    assert results.get("wine_quality", "pca", "variance", 2).count == 2
    assert results.get("wine_quality", "pca", "nothing", 2) is None
