"""A small table and a model of it."""

import pytest
from table_support import FEATURES, people

from fairpca import FairPCA


@pytest.fixture
def frame():
    return people(500)


@pytest.fixture
def fair(frame):
    return FairPCA(2).fit(frame[FEATURES], sensitive_features=frame["sex"])
