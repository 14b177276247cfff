"""Both sides of limits, and parts of formulas that only few tables have."""

import numpy as np
import pytest

from fairpca.exceptions import InvalidInputError
from fairpca.metrics import cov_gap, delta_fairness, gaussian_bound, mean_gap
from fairpca.metrics._search import _starts
from fairpca.moments._targets import TargetPart


@pytest.fixture
def rng():
    return np.random.default_rng(11)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_numbers_whose_square_is_no_number_are_refused_on_either_side(sign):
    z = np.arange(20) % 2
    U = sign * 1e152 * np.linspace(1.0, 2.0, 20)[:, None]
    with pytest.raises(InvalidInputError, match="rescale"):
        mean_gap(U, z)
    assert mean_gap(U * 1e-4, z) > 0.0


def test_differences_whose_square_is_no_number_are_refused():
    z, x = np.arange(20) % 2, np.linspace(0.0, 1.0, 20)[:, None]
    with pytest.raises(InvalidInputError, match="rescale"):
        mean_gap(5e-151 * x, z)
    assert mean_gap(2e-150 * x, z) > 0.0


@pytest.mark.parametrize("metric", [mean_gap, cov_gap, gaussian_bound])
def test_rows_of_a_third_group_are_on_no_side_of_a_pair(rng, metric):
    z = np.arange(90) % 3
    U = rng.normal(size=(90, 2)) * (1.0 + z[:, None]) + np.outer(z == 1, [0.4, 0.0])
    U[z == 2] = U[z == 0] + rng.normal(scale=0.01, size=(30, 2))  # no larger gap than the others
    alone = [metric(U[z != left_out], z[z != left_out]) for left_out in range(3)]
    assert metric(U, z, compare="pairs") == pytest.approx(max(alone), rel=1e-9)


def test_each_pair_of_three_groups_is_measured_on_its_own_rows(rng):
    z = np.arange(60) % 3
    U = rng.normal(size=(60, 1)) + 2.0 * z[:, None]
    for pair in delta_fairness(U, z, compare="pairs").pairs:
        inside = np.isin(z, pair.groups)
        assert pair.value == delta_fairness(U[inside], z[inside]).value


@pytest.mark.parametrize(("place", "value"), [(0, 0.0), (1, 0.0), (1, -1.0), (2, np.nan)])
def test_a_part_of_a_target_without_rows_or_weight_is_refused(place, value):
    row = np.array([3.0, 2.5, 0.1, 0.0, 1.0, 0.0, 4.0, 0.5])  # one feature and one target
    part = TargetPart.from_flat(row, 1, 1)
    assert (part.n_rows, part.weight, part.y_scatter.item()) == (3, 2.5, 4.0)
    row[place] = value
    with pytest.raises(ValueError, match="no rows"):
        TargetPart.from_flat(row, 1, 1)


def test_the_search_starts_from_the_discriminant_of_fisher_with_weights(rng):
    signs = np.where(np.arange(80) % 2 == 1, 1, -1).astype(np.int8)
    weight = rng.uniform(0.2, 5.0, 80)
    U = rng.normal(size=(80, 4)) * (1.0 + 0.5 * (signs[:, None] > 0)) + 0.5 * signs[:, None]
    means, covs = [], []
    for sign in (1, -1):
        rows, share = U[signs == sign], weight[signs == sign]
        means.append(np.average(rows, axis=0, weights=share))
        covs.append(np.cov(rows.T, aweights=share, bias=True))
    starts = _starts(U, np.eye(4), signs, weight)
    np.testing.assert_allclose(np.linalg.norm(starts, axis=1), 1.0)
    for cov in (covs[0] + covs[1], covs[0], covs[1]):
        expected = np.linalg.solve(cov, means[0] - means[1])
        cosines = starts @ expected / np.linalg.norm(expected)
        assert np.abs(cosines).max() == pytest.approx(1.0, abs=1e-9)
