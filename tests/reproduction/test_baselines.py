"""What the two baselines promise."""

import numpy as np
import pytest

from reproduction.calmon import Binning, CalmonPreprocessor
from reproduction.fair_svm import FairSVM


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    z = rng.integers(0, 2, 1500)
    X = rng.normal(size=(1500, 5)) + np.outer(z, [0.5, 0, 0, 0, 0])
    X[z == 1, 1] *= 1.7
    y = (X[:, 0] + X[:, 1] + rng.normal(size=1500) > 0).astype(int)
    return X, y, z


@pytest.fixture(scope="module")
def fitted(data):
    return CalmonPreprocessor(parity_bound=0.02, distortion_bound=0.2).fit(*data)


def test_svm_scores_have_equal_means_and_variances(data):
    X, y, z = data
    fair = FairSVM(1e-3, cov_weight=5.0).fit(X, y, z)
    score = fair.decision_function(X)
    assert abs(score[z == 1].mean() - score[z == 0].mean()) < 1e-10
    assert fair.mean_gap_ < 1e-10
    assert abs(score[z == 1].var() - score[z == 0].var()) == pytest.approx(fair.cov_gap_, abs=1e-10)
    plain = FairSVM(1e-3, cov_weight=0.0).fit(X, y, z)
    assert fair.cov_gap_ < 0.05 * plain.cov_gap_
    assert np.mean((score > 0) == y) > 0.6


def test_svm_when_every_direction_is_taken():
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(60, 1)), np.arange(60) % 2
    fair = FairSVM(1e-3).fit(X + z[:, None], (X[:, 0] > 0.3).astype(int), z)
    np.testing.assert_array_equal(fair.coef_, 0.0)


def test_calmon_selects_by_correlation(data, fitted):
    X, y, _ = data
    strongest = np.argsort([-abs(np.corrcoef(column, y)[0, 1]) for column in X.T])[:3]
    np.testing.assert_array_equal(fitted.selected_, strongest)


def test_calmon_evens_out_the_label(data, fitted):
    X, y, z = data
    _, drawn = fitted.transform_pairs(X, y, z)
    before = abs(y[z == 1].mean() - y[z == 0].mean())
    assert abs(drawn[z == 1].mean() - drawn[z == 0].mean()) < 0.5 * before


def test_draws_are_seeded_and_average_to_the_mapping(data, fitted):
    X, _, z = data
    np.testing.assert_array_equal(fitted.transform(X, z), fitted.transform(X, z))
    shares = fitted._sources(fitted.binning_.codes(X[:, fitted.selected_]), None, z)
    mapping, cells = fitted.mapping_, fitted.cells_
    values = fitted.binning_.decode(cells.bins)
    full = mapping.near.toarray() + mapping.far[:, None] * mapping.pool[cells.group]
    expected = shares @ (full @ values)
    draws = []
    for seed in range(30):
        fitted.seed = seed
        draws.append(fitted.transform(X, z))
    fitted.seed = 0
    difference = np.mean(draws, axis=0) - expected
    assert np.abs(difference.mean(axis=0)).max() < 0.01
    assert np.sqrt(np.mean(difference**2)) < 0.2


def test_nothing_changes_where_nothing_must(data):
    X, y, z = data
    calmon = CalmonPreprocessor(parity_bound=1.0).fit(X, y, z)
    X_new, y_new = calmon.transform_pairs(X, y, z)
    np.testing.assert_array_equal(y_new, y)
    assert calmon.mapping_.deviation == pytest.approx(0.0, abs=1e-9)
    np.testing.assert_allclose(
        X_new, calmon.binning_.decode(calmon.binning_.codes(X[:, calmon.selected_]))
    )


def test_an_infeasible_bound_is_raised_to_the_smallest_feasible(data):
    X, y, z = data
    hard = np.where(z == 1, y | (X[:, 2] > -1.5), y & (X[:, 2] > 1.5))
    raised = CalmonPreprocessor(distortion_bound=0.01).fit(X, hard, z).distortion_bound_
    assert raised > 0.01
    again = CalmonPreprocessor(distortion_bound=raised).fit(X, hard, z)
    assert again.distortion_bound_ == raised


def test_unseen_cells_are_treated_like_the_nearest():
    corners = np.repeat([[0.0, 0.0], [3.0, 3.0]], 20, axis=0)
    y, z = np.arange(40) % 2, np.arange(40) // 2 % 2
    model = CalmonPreprocessor(n_bins=4).fit(corners, y, z)
    for rows in ([[0.0, 1.0]], [[-9.0, -9.0]]):  # the second is beyond the range
        np.testing.assert_allclose(model.transform(np.array(rows), np.array([0])), [[0.0, 0.0]])


def test_bins():
    X = np.column_stack([np.arange(100.0), np.ones(100), np.r_[np.zeros(99), 1.0]])
    binning = Binning.fit(X, 8)
    codes = binning.codes(X)
    assert [len(np.unique(column)) for column in codes.T] == [8, 1, 2]
    np.testing.assert_allclose(binning.decode(codes).mean(axis=0), X.mean(axis=0))
