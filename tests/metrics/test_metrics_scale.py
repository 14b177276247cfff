"""Representations in any units, far from zero, or out of reach of numbers: the same, or refused."""

import numpy as np
import pytest

from fairpca.exceptions import InvalidInputError
from fairpca.metrics import audit, cov_gap, delta_fairness, gaussian_bound, mean_gap, mmd2

MEASURES = (delta_fairness, gaussian_bound, mmd2, mean_gap, cov_gap, audit)


@pytest.fixture
def pair():
    rng = np.random.default_rng(0)
    z = np.arange(60) % 2
    U = np.round((rng.normal(size=(60, 2)) + z[:, None]) * 2**20) / 2**20
    return U, z


@pytest.mark.parametrize("factor", [1e200, 1e-200])
@pytest.mark.parametrize("measure", MEASURES)
def test_what_cannot_be_squared_is_refused(pair, measure, factor):
    with pytest.raises(InvalidInputError, match="rescale"):
        measure(pair[0] * factor, pair[1])


@pytest.mark.parametrize(("factor", "offset"), [(1, 2**20), (1, 2**30), (2.0**100, 0), (2**-90, 0)])
@pytest.mark.parametrize("measure", [delta_fairness, gaussian_bound, mmd2])
def test_units_and_offsets_do_not_matter(pair, measure, factor, offset):
    U, z = pair
    found = float(measure(factor * U + offset, z))
    assert found == pytest.approx(float(measure(U, z)), rel=1e-6)
