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
