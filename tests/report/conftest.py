"""Pages and displays of audits that measure little."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def audits_of_little(small_effort):
    """Audits have tests of their own."""
