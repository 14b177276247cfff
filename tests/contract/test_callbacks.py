"""scikit-learn's own checks of callbacks, for every estimator of this library."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fairpca import DeltaFairPCA, FairKernelPCA, FairPCA, FairPCACV
from fairpca.estimators._path_delta import ASCENTS, PENALTIES
from fairpca.exceptions import DeltaNotReachedWarning

callback_tests = pytest.importorskip("sklearn.callback.tests._utils")  # scikit-learn 1.9 has them
from sklearn.callback import ProgressBar  # noqa: E402

FailingCallback = callback_tests.FailingCallback
NotValidCallback = callback_tests.NotValidCallback
RecordingAutoPropagatedCallback = callback_tests.RecordingAutoPropagatedCallback
RecordingCallback = callback_tests.RecordingCallback

MAKERS = {
    "FairPCA": FairPCA,
    "FairKernelPCA": lambda: FairKernelPCA(rank=10),
    "DeltaFairPCA": lambda: DeltaFairPCA(penalty=1.0),
    "FairPCACV": lambda: FairPCACV(cov_weights=(0.0, 1.0), folds=2),
}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    z = np.arange(200) % 2
    return rng.normal(size=(200, 8)) * (1 + z[:, None] * rng.uniform(0, 2, 8)), z


@pytest.fixture(params=MAKERS)
def estimator(request):
    return MAKERS[request.param]()


@pytest.mark.parametrize(
    "callbacks",
    [[RecordingCallback()], [RecordingCallback(), RecordingAutoPropagatedCallback()]],
)
def test_set_callbacks(estimator, callbacks):
    assert estimator.set_callbacks(*callbacks) is estimator
    assert estimator._skl_callbacks == callbacks


@pytest.mark.parametrize("callback", [None, NotValidCallback(), RecordingCallback])
def test_what_is_no_callback_is_refused(estimator, callback):
    with pytest.raises(TypeError, match="FitCallback protocol"):
        estimator.set_callbacks(callback)


@pytest.mark.parametrize("Callback", [RecordingCallback, RecordingAutoPropagatedCallback])
def test_hooks_are_called_in_pairs(estimator, rows, Callback):
    X, z = rows
    callback = Callback()
    estimator.set_callbacks(callback).fit(X, sensitive_features=z)
    assert callback.count_hooks("setup") == callback.count_hooks("teardown") == 1
    begun, ended = (callback.count_hooks(f"on_fit_task_{end}") for end in ("begin", "end"))
    assert begun == ended > 1
    assert not hasattr(estimator, "_callback_fit_ctx")


@pytest.mark.parametrize("fail_at", ["setup", "on_fit_task_begin", "on_fit_task_end", "teardown"])
def test_a_callback_that_fails_is_torn_down(estimator, rows, fail_at):
    X, z = rows
    callback = FailingCallback(fail_at=fail_at)
    with pytest.raises(ValueError, match=f"Failing callback failed at {fail_at}"):
        estimator.set_callbacks(callback).fit(X, sensitive_features=z)
    assert callback.count_hooks("setup") == callback.count_hooks("teardown") == 1


def test_callbacks_do_not_change_the_result(estimator, rows):
    X, z = rows
    silent = clone(estimator).fit(X, sensitive_features=z)
    told = clone(estimator).set_callbacks(RecordingCallback()).fit(X, sensitive_features=z)
    np.testing.assert_array_equal(silent.components_, told.components_)


def test_progress_bar(estimator, rows, capsys):
    pytest.importorskip("rich")
    X, z = rows
    estimator.set_callbacks(ProgressBar()).fit(X, sensitive_features=z)
    assert type(estimator).__name__ in capsys.readouterr().out
    again = pickle.loads(pickle.dumps(estimator))
    assert len(again._skl_callbacks) == 1
    np.testing.assert_array_equal(again.transform(X), estimator.transform(X))


def test_inside_a_pipeline(estimator, rows):
    X, z = rows
    callback = RecordingCallback()
    name = type(estimator).__name__.lower()
    model = make_pipeline(StandardScaler(), estimator.set_callbacks(callback))
    model.fit(X, **{f"{name}__sensitive_features": z})
    assert callback.count_hooks("teardown") == 1


def test_every_ascent_of_a_path_is_told(rows):
    X, z = rows
    callback = RecordingCallback()
    model = DeltaFairPCA(delta=0.0).set_callbacks(callback)
    with pytest.warns(DeltaNotReachedWarning) as caught:
        model.fit(X, sensitive_features=z)
    assert caught[0].filename == __file__
    tasks = [r["context"].task_name for r in callback.record if r["name"] == "on_fit_task_end"]
    assert tasks.count("ascent") == 3 * len(PENALTIES) + ASCENTS


def test_a_search_tells_of_its_settings_and_of_the_solve_of_the_best(rows):
    X, z = rows
    callback = RecordingAutoPropagatedCallback()
    chosen = FairPCACV(cov_weights=(0.0, 1.0, 3.0), folds=2).set_callbacks(callback)
    chosen.fit(X, sensitive_features=z)
    ended = [r for r in callback.record if r["name"] == "on_fit_task_end"]
    names = [r["context"].task_name for r in ended]
    assert names.count("setting") == len(chosen.cv_results_["params"]) == 3
    assert "basis" in names  # steps of the inner solve, with bound and gap
    assert not hasattr(chosen.best_estimator_, "_skl_callbacks")
