"""Settings for all tests."""

import os
import sys

import pytest
from hypothesis import settings

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
    """DeltaFairPCA tries three penalties, for tests that are not about the path."""
    monkeypatch.setattr("fairpca.estimators._delta_fair_pca.PENALTIES", (0.05, 1.0, 15.0))
    monkeypatch.setattr("fairpca.estimators._delta_fair_pca.GAP_POINTS", 0)
