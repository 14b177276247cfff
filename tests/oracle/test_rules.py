"""Rules and thresholds that decide a figure, each recomputed by hand from its definition."""

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import ks_2samp, norm

from fairpca import FairPCA, FairPCACV
from fairpca.exceptions import FairnessWarning
from fairpca.metrics import audit, decision_rates, delta_fairness
from fairpca.moments import FoldedMoments, GroupMoments

PLAIN = {"mean_tol": None, "cov_weight": 0.0}


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def test_a_chance_level_is_exceeded_once_in_twenty(rng):
    z = np.repeat([0, 1], 300)
    U = rng.normal(size=(600, 2)) + 0.3 * z[:, None]
    [one] = (
        audit(U, z, families=(), adversaries=("linear",), effort="quick")
        .representations[0]
        .held_out
    )
    one = one.held_out
    # Chance level and p-value come from the same error and are two-sided, as the interval is.
    error = one.estimate / norm.isf(one.p_value / 2)
    assert one.chance == pytest.approx(norm.isf(0.025) * error, rel=0.02)


def test_the_null_of_a_fitted_delta_has_its_95_percent_quantile(rng):
    # One column of 40 rows: Δ is the two-sample statistic of Kolmogorov and Smirnov.
    x, z = rng.normal(size=40), np.repeat([False, True], 20)
    draws = [
        ks_2samp(x[drawn], x[~drawn]).statistic
        for drawn in (rng.permutation(z) for _ in range(2000))
    ]
    result = delta_fairness(x[:, None], z, n_permutations=999, random_state=0)
    assert result.null.quantile == pytest.approx(
        np.quantile(draws, 0.95, method="higher"), abs=0.051
    )
    assert result.null.quantile > np.quantile(draws, 0.88)


def test_unequal_weights_count_as_fewer_rows(rng):
    weights = np.tile([1.0, 9.0], 60)
    selected = np.repeat([1, 0, 1, 0], [20, 40, 30, 30])
    z = np.repeat(["a", "b"], 60)
    report = decision_rates(selected, z, sample_weight=weights)
    rate = next(rate for rate in report.rates if rate.group == "a")
    inside = weights[z == "a"]
    size = inside.sum() ** 2 / (inside**2).sum()
    share, q = np.average(selected[z == "a"], weights=inside), norm.isf(0.025)
    middle = (share + q**2 / (2 * size)) / (1 + q**2 / size)
    half = q * np.sqrt(share * (1 - share) / size + q**2 / (4 * size**2)) / (1 + q**2 / size)
    np.testing.assert_allclose([rate.rate_low, rate.rate_high], [middle - half, middle + half])


def test_rows_of_weight_zero_decide_nothing():
    z, selected = np.repeat(["a", "b"], 50), np.tile([1, 0], 50)
    label = np.r_[np.tile([1, 1, 0, 0], 12), 1, 0, np.tile([1, 1, 0, 0], 12), 1, 0]
    nothing = (
        np.r_[z, ["a"] * 30],
        np.r_[selected, np.ones(30, int)],
        np.r_[label, np.ones(30, int)],
    )
    weights = np.r_[np.ones(100), np.zeros(30)]
    alone = decision_rates(selected, z, label=label)
    beside = decision_rates(nothing[1], nothing[0], label=nothing[2], sample_weight=weights)
    assert beside.n_rows == alone.n_rows
    for one, other in zip(beside.rates, alone.rates, strict=True):
        assert (one.n_rows, one.n_selected) == (other.n_rows, other.n_selected)
        assert one.rate_low == pytest.approx(other.rate_low, abs=1e-12)


def test_half_a_row_is_added_to_each_count_of_an_impact_ratio():
    z = np.repeat(["a", "b"], 50)
    selected = np.r_[np.repeat([1, 0], [40, 10]), np.repeat([1, 0], [4, 46])]
    rate = next(r for r in decision_rates(selected, z).rates if r.group == "b")
    hits, sizes = np.array([4.5, 40.5]), np.array([50.5, 50.5])
    centre = np.log(hits[0] / sizes[0]) - np.log(hits[1] / sizes[1])
    half = norm.isf(0.025) * np.sqrt(np.sum(1 / hits - 1 / sizes))
    expected = np.exp([centre - half, centre + half])
    np.testing.assert_allclose([rate.ratio_low, rate.ratio_high], expected)


def test_a_small_loss_of_a_group_is_a_loss():
    # Group b has its variance turned by one degree: it loses sin² of it, 0.03 %, and not nothing.
    angle = np.deg2rad(1.0)
    first, second = (
        np.diag([4.0, 1.0]),
        np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]),
    )
    grid = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]]) @ np.sqrt(first)
    X = np.r_[np.tile(grid, (10, 1)), np.tile(grid @ second.T, (10, 1))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = FairPCA(1, objective="worst-loss", **PLAIN).fit(
            X, sensitive_features=np.repeat(["a", "b"], 40)
        )
    losses = model.group_variance_["loss"]
    expected = 3.0 * np.sin(angle / 2.0) ** 2  # both groups turn by half of it
    np.testing.assert_allclose(losses, expected, rtol=1e-3)


def test_the_rule_of_one_standard_error(rng):
    z = rng.integers(0, 2, 240)
    X = rng.normal(size=(240, 6)) * (1.0 + 1.5 * z[:, None] * (np.arange(6) < 2))
    search = FairPCACV(cov_weights=(0.0, 1.38, 1.5, 3.0), folds=4)
    table = search.fit(X, sensitive_features=z).cv_results_
    splits = np.array([table[f"split{k}_test_gaussian_bound"] for k in range(4)])
    means, errors = splits.mean(axis=0), splits.std(axis=0, ddof=1) / np.sqrt(4)
    np.testing.assert_allclose(table["error_test_gaussian_bound"], errors)
    allowed = means <= (means + errors)[np.argmin(means)]
    # Two errors would allow one setting more.
    assert allowed.sum() < (means <= (means + 2.0 * errors)[np.argmin(means)]).sum() < len(means)
    assert search.best_index_ == np.argmax(np.where(allowed, table["mean_test_variance"], -1.0))


def test_a_held_out_fold_has_the_scale_of_the_others(rng):
    z = rng.integers(0, 2, 60)
    X = rng.standard_t(3, size=(60, 4)) * [1.0, 5.0, 0.2, 30.0]
    search = FairPCACV(
        2, cov_weights=(0.0,), mean_tols=(None,), folds=3, estimator=FairPCA(standardize=True)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search.fit(X, sensitive_features=z)
    for k, (train, halves) in enumerate(FoldedMoments.from_arrays(X, z, folds=3).splits):
        covariance = train.pooled().covariance
        scale = np.sqrt(np.diag(covariance))
        V = np.linalg.eigh(covariance / np.outer(scale, scale))[1][:, -2:]
        held_out = (halves[0] + halves[1]).pooled().covariance / np.outer(scale, scale)
        share = np.trace(V.T @ held_out @ V) / np.trace(held_out)
        assert search.cv_results_[f"split{k}_test_variance"][0] == pytest.approx(share, rel=1e-9)


def test_a_missing_value_of_a_sparse_matrix_becomes_the_mean(rng):
    dense = np.where(rng.random((50, 3)) < 0.5, 0.0, rng.normal(4.0, 1.0, (50, 3)))
    dense[[3, 17, 30], [0, 1, 2]] = np.nan
    z = np.arange(50) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits = [
            FairPCA(1, missing="mean").fit(X, sensitive_features=z)
            for X in (dense, csr_array(dense))
        ]
        filled = np.where(np.isnan(dense), np.nanmean(dense, axis=0), dense)
        for model, X in zip(fits, (dense, csr_array(dense)), strict=True):
            np.testing.assert_allclose(model.transform(X), model.transform(filled), atol=1e-12)
    np.testing.assert_allclose(*(model.components_ for model in fits), atol=1e-9)


def test_all_components_are_those_that_vary_however_little(rng):
    X = rng.normal(size=(80, 4)) * [1.0, 1e-2, 1e-4, 0.0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        model = FairPCA(None, **PLAIN).fit(X, sensitive_features=np.arange(80) % 2)
    assert model.n_components_ == 3


def test_only_zeros_and_ones_are_taken_for_a_category():
    # Two columns are never one together; in the last one of 200 values is 0.9 and not 1.
    codes = np.arange(200) % 3
    one_hot = (codes[:, None] == np.arange(3)).astype(float)
    nearly = one_hot.copy()
    nearly[0, 0] = 0.9
    columns = np.c_[nearly[:, 0], one_hot[:, 1:]]
    scales = []
    for X in (one_hot, columns):
        moments = GroupMoments.from_arrays(X, np.arange(200) % 2)
        scales.append(moments.standardization(famd=True).scale)
    np.testing.assert_allclose(scales[0], np.sqrt(one_hot.mean(axis=0)))
    np.testing.assert_allclose(scales[1][0], columns[:, 0].std())


def test_a_mean_gap_of_a_millionth_is_equalised(rng):
    X = rng.normal(size=(400, 3))
    z = np.arange(400) % 2
    X -= np.where(z[:, None] == 1, X[z == 1].mean(axis=0), X[z == 0].mean(axis=0))
    X[z == 1, 0] += 1e-6
    model = FairPCA(2, cov_weight=0.0, min_group_size=2).fit(X, sensitive_features=z)
    assert np.abs(model.components_[:, 0]).max() < 1e-6
