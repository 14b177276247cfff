"""What `import fairpca` gives, and what it does not load."""

import subprocess
import sys

import pytest

import fairpca


def test_public_names_are_there():
    for name in fairpca.__all__:
        assert name in dir(fairpca)
        assert getattr(fairpca, name) is not None
    assert fairpca.FairPCA is fairpca.estimators.FairPCA
    with pytest.raises(AttributeError, match="no attribute 'FairPcA'"):
        _ = fairpca.FairPcA


def test_nothing_heavy_is_loaded_before_it_is_used():
    program = (
        "import sys, fairpca.cli; print(sorted({'sklearn', 'scipy', 'pandas'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
