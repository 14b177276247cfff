"""Behaviour of the baselines a user can meet."""

import numpy as np
import pandas as pd
import pytest

from fairpca.baselines import CalmonPreprocessor, FairSVC
from fairpca.baselines._transport import Binning
from fairpca.exceptions import GroupsError, InfeasibleError, InvalidInputError


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
    X, y, z = data
    return CalmonPreprocessor(parity_bound=0.02, distortion_bound=0.2).fit(
        X, y, sensitive_features=z
    )


def test_svm_scores_have_equal_means_and_variances(data):
    X, y, z = data
    fair = FairSVC(cov_weight=5.0).fit(X, y, sensitive_features=z)
    score = fair.decision_function(X)
    assert abs(score[z == 1].mean() - score[z == 0].mean()) < 1e-10
    assert abs(score[z == 1].var() - score[z == 0].var()) == pytest.approx(fair.cov_gap_, abs=1e-10)
    plain = FairSVC(cov_weight=0.0).fit(X, y, sensitive_features=z)
    assert fair.cov_gap_ < 0.05 * plain.cov_gap_
    assert fair.score(X, y) > 0.6


def test_svm_of_three_groups_and_strings(data):
    X, y, _ = data
    groups = pd.Series(np.array(["a", "b", "c"])[np.arange(len(X)) % 3], name="g")
    labels = np.array(["no", "yes"])[y]
    for compare in ("one-vs-rest", "pairs"):
        fair = FairSVC(compare=compare).fit(X, labels, sensitive_features=groups)
        score = fair.decision_function(X)
        means = [score[groups == g].mean() for g in "abc"]
        assert np.ptp(means) < 1e-10
    assert set(fair.predict(X)) == {"no", "yes"}


def test_svm_bound_on_means_is_met_with_equality(data):
    X, y, z = data
    fair = FairSVC(mean_tol=0.05, cov_weight=0.0).fit(X, y, sensitive_features=z)
    assert fair.mean_gap_ == pytest.approx(0.05, abs=1e-6)


def test_svm_when_every_direction_is_taken():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 1))
    z = np.arange(60) % 2
    fair = FairSVC().fit(X + z[:, None], (X[:, 0] > 0.3).astype(int), sensitive_features=z)
    np.testing.assert_array_equal(fair.coef_, 0.0)


def test_svm_errors(data):
    X, y, z = data
    with pytest.raises(InvalidInputError, match="Only binary classification"):
        FairSVC().fit(X, np.arange(len(X)) % 3, sensitive_features=z)
    with pytest.raises(InvalidInputError, match="one class"):
        FairSVC().fit(X, np.zeros(len(X)), sensitive_features=z)
    with pytest.raises(GroupsError, match="missing_groups"):
        FairSVC().fit(X, y)


def test_weights_count_like_repetitions(data):
    X, y, z = (part[:300] for part in data)
    weights = np.arange(300) % 3
    twice = np.repeat(np.arange(300), weights)
    ours = FairSVC().fit(X, y, sensitive_features=z, sample_weight=weights)
    other = FairSVC().fit(X[twice], y[twice], sensitive_features=z[twice])
    np.testing.assert_allclose(ours.coef_, other.coef_, atol=1e-5)


def test_calmon_selects_by_correlation(data, fitted):
    X, y, _ = data
    strongest = np.argsort([-abs(np.corrcoef(column, y)[0, 1]) for column in X.T])[:3]
    np.testing.assert_array_equal(fitted.selected_, strongest)


def test_calmon_evens_out_the_label(data, fitted):
    X, y, z = data
    _, positive = (
        CalmonPreprocessor(parity_bound=0.02, distortion_bound=0.2, version="expected")
        .fit(X, y, sensitive_features=z)
        .transform_pairs(X, y, sensitive_features=z)
    )
    for group in (0, 1):
        assert abs(positive[z == group].mean() / y.mean() - 1) <= 0.02 + 1e-6
    before = abs(y[z == 1].mean() - y[z == 0].mean())
    _, drawn = fitted.transform_pairs(X, y, sensitive_features=z)
    assert abs(drawn[z == 1].mean() - drawn[z == 0].mean()) < before


def test_random_version_is_seeded_and_averages_to_the_expected_one(data, fitted):
    X, y, z = data
    np.testing.assert_array_equal(fitted.transform(X), fitted.transform(X))
    expected = CalmonPreprocessor(parity_bound=0.02, distortion_bound=0.2, version="expected").fit(
        X, y, sensitive_features=z
    )
    draws = [
        fitted.set_params(random_state=seed).transform(X, sensitive_features=z)
        for seed in range(30)
    ]
    fitted.set_params(random_state=0)
    difference = np.mean(draws, axis=0) - expected.transform(X, sensitive_features=z)
    assert np.abs(difference.mean(axis=0)).max() < 0.01
    assert np.sqrt(np.mean(difference**2)) < 0.2


def test_nothing_changes_where_nothing_must(data):
    X, y, z = data
    calmon = CalmonPreprocessor(parity_bound=1.0).fit(X, y, sensitive_features=z)
    X_new, y_new = calmon.transform_pairs(X, y, sensitive_features=z)
    np.testing.assert_array_equal(y_new, y)
    assert calmon.deviation_ == pytest.approx(0.0, abs=1e-9)
    own = calmon._binning.decode(calmon._binning.codes(X[:, calmon.selected_]))
    np.testing.assert_allclose(X_new, own)


def test_infeasible_distortion_states_the_smallest_feasible(data):
    X, y, z = data
    hard = np.where(z == 1, y | (X[:, 2] > -1.5), y & (X[:, 2] > 1.5))
    with pytest.raises(InfeasibleError, match="smallest feasible distortion_bound") as caught:
        CalmonPreprocessor(distortion_bound=0.01).fit(X, hard, sensitive_features=z)
    smallest = caught.value.minimum
    CalmonPreprocessor(distortion_bound=smallest).fit(X, hard, sensitive_features=z)


def grid(unseen, version="expected"):
    """Two observed corners of a grid of four bins by four, then a fit on them."""
    corners = np.repeat([[0.0, 0.0], [3.0, 3.0]], 20, axis=0)
    y, z = np.arange(40) % 2, np.arange(40) // 2 % 2
    model = CalmonPreprocessor(n_bins=4, unseen=unseen, version=version)
    return model.fit(corners, y, sensitive_features=z)


def test_unseen_cells():
    near_first = np.array([[0.0, 1.0]])
    np.testing.assert_allclose(grid("nearest").transform(near_first), [[0.0, 0.0]])
    unchanged = grid("unchanged").transform(near_first)
    np.testing.assert_allclose(unchanged, [[0.0, 1.125]])  # the middle of a bin without rows
    model = grid("unchanged")
    np.testing.assert_array_equal(model.transform_pairs(near_first, [1])[1], [1.0])


def test_values_beyond_the_range_fall_into_the_outer_bins():
    np.testing.assert_allclose(grid("nearest").transform([[-9.0, -9.0]]), [[0.0, 0.0]])


def test_calmon_errors(data, fitted):
    X, y, z = data
    with pytest.raises(InvalidInputError, match="3 classes"):
        CalmonPreprocessor().fit(X, np.arange(len(X)) % 3, sensitive_features=z)
    with pytest.raises(GroupsError, match="missing_groups"):
        CalmonPreprocessor().fit(X, y)
    with pytest.raises(GroupsError, match="holds numbers"):
        CalmonPreprocessor().fit(X, y, sensitive_features=X[:, 0])
    with pytest.raises(GroupsError, match="not there in fit"):
        fitted.transform(X[:2], sensitive_features=[0, 7])
    with pytest.raises(InvalidInputError, match="labels other than"):
        fitted.transform_pairs(X[:2], [0, 7])


def test_several_attributes_count_by_their_combinations(data):
    X, y, z = data
    frame = pd.DataFrame({"z": z, "half": np.arange(len(z)) % 2})
    calmon = CalmonPreprocessor(distortion_bound=0.3).fit(X, y, sensitive_features=frame)
    assert calmon.cells_.n_groups == 4
    assert calmon.transform(X, sensitive_features=frame).shape == (len(X), 3)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_bins(strategy):
    X = np.column_stack([np.arange(100.0), np.ones(100), np.r_[np.zeros(99), 1.0]])
    binning = Binning.fit(X, 8, strategy, np.ones(100))
    codes = binning.codes(X)
    assert [len(np.unique(column)) for column in codes.T] == [8, 1, 2]
    np.testing.assert_allclose(binning.decode(codes).mean(axis=0), X.mean(axis=0))
