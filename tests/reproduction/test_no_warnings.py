"""Ordinary data give no warning: the caveats of a fit are said only where they are true."""

import os
import warnings

import pytest

from fairpca import FairPCA
from fairpca.exceptions import ExtremeRowsWarning, FairnessWarning
from reproduction.datasets import UCI, load_dataset

pytestmark = pytest.mark.skipif(
    not os.environ.get("FAIRPCA_DATA"), reason="FAIRPCA_DATA is not set"
)
# One feature of ecoli is constant but for a few rows, which make a component of their own.
KNOWN = {"ecoli": (ExtremeRowsWarning,)}
SAMPLE = ("ecoli", "german_credit", "wine_quality")


@pytest.mark.parametrize(
    "name", [name if name in SAMPLE else pytest.param(name, marks=pytest.mark.slow) for name in UCI]
)
def test_a_data_set_gives_no_warning(name):
    data = load_dataset(name)
    model = FairPCA(2, standardize=True, cov_weight=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FairnessWarning)
        model.fit(data.data, sensitive_features=data.sensitive_features)
    said = [entry for entry in caught if entry.category not in KNOWN.get(name, ())]
    assert [str(entry.message) for entry in said] == []
