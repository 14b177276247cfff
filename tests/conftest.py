"""Settings for all tests."""

import os
import sys

import pytest
from hypothesis import settings
from support import NEEDS_SKLEARN_1_9

from fairpca._choices import EFFORTS
from fairpca.metrics._inference import Effort

# The same examples on every run: a fresh clone passes where ours did. New ones if asked for.
settings.register_profile("repeatable", derandomize=True)
if not os.environ.get("FAIRPCA_RANDOM"):
    settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def close_figures():
    """Pictures that nobody closes are kept by pyplot, which warns of more than twenty."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture
def short_path(monkeypatch):
    """DeltaFairPCA tries three penalties and two more ascents, for tests of something else."""
    for module in ("_delta_fair_pca", "_path_delta"):
        monkeypatch.setattr(f"fairpca.estimators.{module}.PENALTIES", (0.05, 1.0, 15.0))
        monkeypatch.setattr(f"fairpca.estimators.{module}.ASCENTS", 2)


@pytest.fixture(scope="module")
def small_effort():
    """Audits and pages draw, permute and fit little, for tests of what they say."""
    with pytest.MonkeyPatch.context() as patch:
        table = tuple(Effort(name, 400, 200, 1, 200, 19, 9, 1.0) for name in EFFORTS)
        patch.setattr("fairpca.metrics._inference._TABLE", table)
        patch.setattr("fairpca.report._summary.PENALTIES", (0.0, 1.0))
        patch.setattr("fairpca.report._audit_report._DPI", 40)
        yield


def pytest_collection_modifyitems(items):
    """Skip examples that show callbacks where scikit-learn has none."""
    for item in items:
        if item.name.endswith(("_variance.SolveHistory", "_variance.CertificateDisplay")):
            item.add_marker(NEEDS_SKLEARN_1_9)
