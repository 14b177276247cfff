"""What a fit tells of itself while it runs."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
from support import NEEDS_SKLEARN_1_9

from fairpca import FairKernelPCA, FairPCA
from fairpca.estimators import _sklearn


class Recorder:
    """A callback that keeps what it is told."""

    def __init__(self):
        self.figures, self.ended = [], False

    def setup(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context, **kwargs):
        pass

    def on_fit_task_end(self, estimator, context, *, metadata=None, **kwargs):
        if metadata:
            self.figures.append(metadata)

    def teardown(self, estimator, context):
        self.ended = True


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    z = np.arange(300) % 2
    return rng.normal(size=(300, 12)) * (1 + z[:, None] * rng.uniform(0, 2, 12)), z


@NEEDS_SKLEARN_1_9
@pytest.mark.parametrize("make", [FairPCA, lambda: FairKernelPCA(rank=10)])
def test_callbacks_get_bound_and_gap_at_every_step(rows, make):
    X, z = rows
    recorder = Recorder()
    fair = make().set_callbacks(recorder).fit(X, sensitive_features=z)
    assert recorder.ended
    bounds = [step["bound"] for step in recorder.figures if np.isfinite(step["bound"])]
    assert bounds
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] == pytest.approx(fair.certificate_.bound, rel=1e-6)
    assert recorder.figures[-1]["gap"] >= 0.0


@NEEDS_SKLEARN_1_9
def test_the_progress_bar_of_scikit_learn_works(rows):
    pytest.importorskip("rich")
    from sklearn.callback import ProgressBar

    X, z = rows
    fair = FairPCA().set_callbacks(ProgressBar()).fit(X, sensitive_features=z)
    assert fair.certificate_.bound_solved


def test_a_long_solve_prints_where_it_is(rows, monkeypatch, capsys):
    X, z = rows
    monkeypatch.setattr(_sklearn, "SECONDS_BETWEEN_LINES", 0.0)
    FairPCA(verbose=1).fit(X, sensitive_features=z)
    lines = capsys.readouterr().out.splitlines()
    assert all("bound" in line and "gap" in line and "%" in line for line in lines[:-1])
    assert {"basis", "bound"} <= {word.strip(",") for line in lines[:-1] for word in line.split()}
    assert lines[-1].startswith("[FairPCA] Certificate(")


@NEEDS_SKLEARN_1_9
@pytest.mark.parametrize("certify", [False, True])
def test_a_large_solve_tells_a_bound_from_its_first_step_on(certify):
    rng = np.random.default_rng(1)
    X, z = rng.normal(size=(400, 90)) @ rng.normal(size=(90, 90)), np.arange(400) % 2
    recorder = Recorder()
    fair = FairPCA(8, cov_tol=0.5, certify=certify).set_callbacks(recorder)
    fair.fit(X * (1 + 0.3 * z[:, None]), sensitive_features=z)
    bounds = [step["bound"] for step in recorder.figures]
    assert len(bounds) > 3
    assert all(np.isfinite(bounds))
    assert bounds == sorted(bounds, reverse=True)
    assert min(bounds) >= fair.certificate_.objective


def test_a_short_solve_prints_its_certificate_only(rows, capsys):
    X, z = rows
    FairPCA(verbose=1, cov_weight=0).fit(X, sensitive_features=z)
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_callbacks_of_older_versions_are_said_to_be_missing(rows):
    program = """
        import sys
        sys.modules["sklearn.callback"] = None
        from fairpca import FairPCA
        try:
            FairPCA().set_callbacks(print)
        except ImportError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True
    )
    assert "callbacks need scikit-learn 1.9 or newer" in done.stdout, done.stderr
