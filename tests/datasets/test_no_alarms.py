"""Ordinary data give no warning: the caveats of a fit are said only where they are true."""

import os
import warnings

import pytest

from fairpca import FairPCA
from fairpca.datasets import list_datasets, load_dataset
from fairpca.exceptions import FairnessWarning

pytestmark = pytest.mark.skipif(
    not os.environ.get("FAIRPCA_DATA"), reason="FAIRPCA_DATA is not set"
)
NAMES = [status.info.name for status in list_datasets() if status.info.file.startswith("uci/")]


@pytest.mark.parametrize("name", NAMES)
def test_a_data_set_gives_no_warning(name):
    data = load_dataset(name, download=False)
    model = FairPCA(2, standardize=True, cov_weight=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FairnessWarning)
        model.fit(data.data, sensitive_features=data.sensitive_features)
    assert [str(entry.message) for entry in caught] == []
