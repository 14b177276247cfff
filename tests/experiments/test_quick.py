"""A quick run plans and fits little."""

from fairpca.experiments import EXPERIMENTS, NAMES, Options, _runner, leak, search, table5
from fairpca.experiments._experiment import Store

QUICK = Options(splits=1, quick=True)


def counting(monkeypatch, module, name, seen):
    """Note what `seen` makes of the arguments of a function, which still does its work."""
    found, original = [], getattr(module, name)

    def noted(*args, **kwargs):
        found.append(seen(*args, **kwargs))
        return original(*args, **kwargs)

    monkeypatch.setattr(module, name, noted)
    return found


def test_a_quick_run_plans_few_cells():
    chosen = _runner.choose(["all"])
    cells = [cell for experiment in chosen for cell in experiment.cells(QUICK)]
    assert len(cells) <= 125
    assert len(_runner._first_needed(chosen, QUICK)) <= 45


def test_a_quick_run_fits_little(toy, monkeypatch, tmp_path):
    params = {"dataset": "wine_quality", "definition": "released", "split": 0}
    svms = counting(monkeypatch, table5, "_quietly", lambda *args: 1)
    table5.compute(params, QUICK, Store(tmp_path, "x"))
    assert len(svms) <= 90  # twelve classifiers: two folds at three penalties, and the chosen one
    rows = counting(monkeypatch, leak, "DeltaFairPCA", lambda *args, max_rows, **more: max_rows)
    leak.compute(params, QUICK, Store(tmp_path, "x"))
    assert rows == [1000, 1000]


def test_a_quick_search_fits_little(hidden, monkeypatch, tmp_path):
    fits = counting(monkeypatch, search, "fit_bases", lambda *args, **more: 1)
    monkeypatch.setattr(Options, "kernel_rows", 50)
    rows = counting(monkeypatch, search, "gaussian_released", lambda U, z, seed: len(U))
    search.compute({"dataset": "any"}, QUICK, Store(tmp_path, "x"))
    assert len(fits) <= 9  # of three choices of rows: two in the screening, one in full
    assert len(rows) == 9
    assert max(rows) == 50


def test_cells_that_take_longest_start_first(monkeypatch, tmp_path):
    cells = [cell for name in NAMES for cell in EXPERIMENTS[name].cells(QUICK)]
    started = []
    monkeypatch.setattr(_runner, "_check_data", lambda names: None)
    monkeypatch.setattr(_runner, "_work", lambda task: started.append(task[0].experiment))
    _runner._compute_missing([], cells, QUICK, Store(tmp_path, "x"), 1, None, None)
    searched = len(search.SEARCHED)
    assert set(started[:searched]) == {"search"}
    dear = started[searched : searched + 8]
    assert dear.count("leak") == 8
