"""Settings for all tests."""

import os
import sys

import pytest
from hypothesis import settings

# The same examples on every run of the continuous integration; new ones on a developer's machine.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


@pytest.fixture(autouse=True)
def close_figures():
    """Pictures that nobody closes are kept by pyplot, which warns of more than twenty."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
