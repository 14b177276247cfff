"""DeltaFairPCA: what it promises, what it keeps, and what it refuses."""

import pickle

import numpy as np
import pytest
import scipy.sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fairpca import DeltaFairPCA, FairPCA
from fairpca.estimators import load_model
from fairpca.exceptions import (
    DeltaNotReachedWarning,
    GroupFeatureWarning,
    GroupsError,
    InfeasibleError,
    InvalidInputError,
    SmallGroupWarning,
)


def hidden(n=1000, seed=0):
    """Equal means and covariances, but two features that only a curved boundary can use."""
    rng = np.random.default_rng(seed)
    z = np.arange(n) % 2
    X = rng.normal(size=(n, 6)) * np.array([1.5, 1.5, 1.0, 1.0, 1.0, 1.0])
    angle, radius = rng.uniform(0, 2 * np.pi, n), np.where(z, 2.0, rng.rayleigh(np.sqrt(2.0), n))
    X[:, :2] = 1.5 * np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    for group in (0, 1):
        X[z == group] -= X[z == group].mean(axis=0)
    return X, z


@pytest.fixture(scope="module")
def fitted():
    X, z = hidden()
    return DeltaFairPCA(2, delta=0.25).fit(X, sensitive_features=z)


def test_it_finds_what_means_and_covariances_do_not_show(fitted):
    X, z = hidden()
    fair = FairPCA(2).fit(X, sensitive_features=z)
    assert np.abs(fair.components_[:, :2]).max() > 0.9  # alike in two moments, so it is kept
    assert fitted.explained_variance_.sum() < 0.8 * fair.explained_variance_.sum()
    assert fitted.path_["delta"][0] > 0.25
    assert fitted.delta_ <= 0.25
    assert fitted.leakage_ < 0.1
    U = fitted.transform(X)
    assert np.abs(U[z == 1].mean(axis=0) - U[z == 0].mean(axis=0)).max() <= 1e-12
    np.testing.assert_allclose(
        np.cov(U.T, bias=True), np.diag(fitted.explained_variance_), atol=1e-9
    )


def test_the_path_is_the_trade_off(fitted):
    path = fitted.path_
    assert list(path) == ["penalty", "variance", "leakage", "delta", "delta_error", "chosen"]
    assert path["penalty"] == sorted(path["penalty"])
    assert path["variance"] == sorted(path["variance"], reverse=True)
    chosen = path["chosen"].index(True)
    assert path["chosen"].count(True) == 1
    assert path["penalty"][chosen] == fitted.penalty_
    assert path["delta"][chosen] == fitted.delta_
    assert fitted.delta_verified_ is True
    assert path["variance"][chosen] == pytest.approx(fitted.explained_variance_ratio_.sum())
    assert 0.0 < fitted.delta_error_ < 0.1
    assert 0.0 < fitted.delta_chance_ < 0.15
    assert fitted.n_iter_ == len(path["penalty"])


def test_the_certificate_bounds_the_variance_of_bases_as_fair(fitted):
    X, z = hidden()
    certificate = fitted.certificate_
    assert certificate.objective == pytest.approx(fitted.explained_variance_.sum())
    assert certificate.objective <= certificate.bound * (1 + 1e-12)
    assert certificate.cov_gap == fitted.cov_gap_ == max(fitted.contrasts_["cov_gap"])
    as_close = FairPCA(2, cov_tol=fitted.cov_gap_ * 1.000001).fit(X, sensitive_features=z)
    assert as_close.explained_variance_.sum() <= certificate.bound * (1 + 1e-6)
    loose = DeltaFairPCA(2, penalty=1.0, certify=False).fit(X, sensitive_features=z)
    means = FairPCA(2, cov_weight=0.0).fit(X, sensitive_features=z)
    assert loose.certificate_.bound == pytest.approx(means.certificate_.bound)


def test_the_same_seed_gives_the_same_bits():
    X, z = hidden(300)
    make = DeltaFairPCA(2, penalty=1.0, random_state=3)
    first, again = (clone(make).fit(X, sensitive_features=z).components_ for _ in range(2))
    np.testing.assert_array_equal(first, again)
    other = clone(make).set_params(random_state=4).fit(X, sensitive_features=z)
    assert not np.array_equal(first, other.components_)


def test_a_penalty_skips_the_search():
    X, z = hidden(300)
    fair = DeltaFairPCA(2, penalty=2.0).fit(X, sensitive_features=z)
    assert fair.penalty_ == fair.path_["penalty"][-1] == 2.0
    assert fair.delta_ is fair.delta_error_ is fair.delta_chance_ is fair.delta_verified_ is None
    assert set(fair.path_["delta"]) == {None}


def test_a_delta_out_of_reach_is_said_once(short_path):
    rng = np.random.default_rng(0)
    z = np.arange(200) % 2
    X = rng.normal(size=(200, 2)) * (1.0 + 3.0 * z[:, None])  # every direction gives it away
    with pytest.warns(
        DeltaNotReachedWarning,
        match=r"at most 5\.0 points.* was not reached and cannot be verified",
    ) as caught:
        fair = DeltaFairPCA(1, delta=0.05).fit(X, sensitive_features=z)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert fair.delta_ > 0.05
    assert fair.delta_verified_ is False


def test_a_delta_below_chance_is_never_called_reached(short_path):
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(200, 8)), np.arange(200) % 2  # nothing to find
    said = r"cannot be verified with so few rows: chance alone gives up to 2\d\.\d points"
    with pytest.warns(DeltaNotReachedWarning, match=said):
        fair = DeltaFairPCA(2, delta=0.18).fit(X, sensitive_features=z)
    assert fair.delta_ <= 0.18 < fair.delta_chance_
    assert fair.delta_verified_ is False
    assert DeltaFairPCA(2, delta=0.35).fit(X, sensitive_features=z).delta_verified_ is True


def test_without_delta_it_goes_as_low_as_chance_allows(short_path):
    X, _ = hidden(300)
    z = np.random.default_rng(5).permutation(300) % 2
    fair = DeltaFairPCA(2, family="linear").fit(X, sensitive_features=z)
    assert fair.delta_verified_ == (fair.delta_ <= fair.delta_chance_)


@pytest.mark.parametrize(
    "family", ["linear", "trees", pytest.param("panel", marks=pytest.mark.slow)]
)
def test_other_families_measure(family, short_path):
    X, z = hidden(80)
    fair = DeltaFairPCA(1, delta=0.9, family=family).fit(X, sensitive_features=z)
    assert fair.path_["chosen"].index(True) == 0
    assert 0.0 <= fair.delta_ <= 0.9


def test_many_groups_numbers_strata_and_weights():
    X, z = hidden(400)
    rng = np.random.default_rng(1)
    X = np.hstack([X, rng.normal(size=(400, 20))])
    letters, numbers = rng.choice(list("abc"), 400), rng.normal(size=400)
    groups = np.array(list(zip(z, letters, numbers, strict=True)), dtype=object)
    fair = DeltaFairPCA(2, penalty=1.0, joint=True).fit(
        X,
        sensitive_features=groups,
        control_features=rng.integers(0, 2, 400),
        sample_weight=rng.integers(0, 3, 400),
    )
    assert fair.mean_gap_ <= 1e-12
    assert np.isfinite(fair.leakage_)
    assert len(fair.contrasts_["attribute"]) == 2 * (1 + 3 + 6 + 1)


def test_rows_beyond_max_rows_count_for_means_and_variance():
    X, z = hidden(1000)
    fair = DeltaFairPCA(2, penalty=1.0, max_rows=200).fit(X, sensitive_features=z)
    U = fair.transform(X)
    assert np.abs(U[z == 1].mean(axis=0) - U[z == 0].mean(axis=0)).max() <= 1e-12
    np.testing.assert_allclose(U.var(axis=0), fair.explained_variance_)


def test_plain_pca_without_groups():
    X, _ = hidden(200)
    plain = DeltaFairPCA(2, missing_groups="ignore").fit(X)
    np.testing.assert_allclose(
        plain.explained_variance_ratio_, PCA(2).fit(X).explained_variance_ratio_
    )
    assert plain.penalty_ == plain.leakage_ == 0.0
    with pytest.raises(GroupsError, match="missing_groups='ignore'"):
        DeltaFairPCA(2).fit(X)


def test_wide_and_sparse_rows():
    rng = np.random.default_rng(0)
    z = np.arange(60) % 2
    X = rng.normal(size=(60, 200)) + np.outer(z, rng.normal(size=200))
    fair = DeltaFairPCA(2, penalty=0.5).fit(X, sensitive_features=z)
    U = fair.transform(X)
    assert fair.components_.shape == (2, 200)
    assert np.abs(U[z == 1].mean(axis=0) - U[z == 0].mean(axis=0)).max() <= 1e-9
    X, z = hidden(200)
    X[np.abs(X) < 0.5] = 0.0
    dense = DeltaFairPCA(2, penalty=0.5).fit(X, sensitive_features=z)
    sparse = DeltaFairPCA(2, penalty=0.5).fit(scipy.sparse.csr_array(X), sensitive_features=z)
    np.testing.assert_allclose(sparse.components_, dense.components_, atol=1e-4)


def test_saved_loaded_pickled_and_routed(tmp_path, fitted):
    X, z = hidden()
    for again in (
        load_model(fitted.save(tmp_path / "model")),
        load_model(tmp_path / "model.npz"),
        pickle.loads(pickle.dumps(fitted)),
    ):
        np.testing.assert_array_equal(again.transform(X), fitted.transform(X))
        assert again.path_ == fitted.path_
        assert again.certificate_ == fitted.certificate_
    with config_context(enable_metadata_routing=True):
        steps = make_pipeline(StandardScaler(), DeltaFairPCA(2, penalty=0.5))
        U = steps.fit(X, sensitive_features=z).transform(X)
    assert np.abs(U[z == 1].mean(axis=0) - U[z == 0].mean(axis=0)).max() <= 1e-9


def test_a_label_that_is_one_feature_is_left_out():
    X, z = hidden(300)
    X = np.column_stack([X, 10.0 * z])
    with pytest.warns(GroupFeatureWarning, match="'x6' is a function of the protected attribute"):
        fair = DeltaFairPCA(2, penalty=1.0).fit(X, sensitive_features=z)
    assert np.abs(fair.transform(X)[z == 1].mean(axis=0)).max() <= 1e-9


@pytest.mark.parametrize(
    ("options", "groups", "error", "message"),
    [
        ({"delta": 0.1, "penalty": 1.0}, None, InvalidInputError, "both set"),
        ({"n_components": 6}, None, InfeasibleError, "n_components=6"),
        ({}, np.ones(40), GroupsError, "single group"),
        ({"delta": 1.5}, None, ValueError, "'delta' parameter"),
        ({"family": "svm"}, None, ValueError, "'family' parameter"),
        ({"max_rows": 5}, None, ValueError, "'max_rows' parameter"),
    ],
)
def test_bad_input(options, groups, error, message):
    X, z = hidden(40)
    with pytest.raises(error, match=message):
        DeltaFairPCA(**options).fit(X, sensitive_features=z if groups is None else groups)


@pytest.mark.filterwarnings("ignore::fairpca.exceptions.SmallGroupWarning")
def test_a_group_too_small_to_be_measured_says_so(short_path):
    X, _ = hidden(60)
    z = np.where(np.arange(60) < 1, "only", "many")
    with pytest.raises(GroupsError, match="at least 8 rows"):
        DeltaFairPCA(2, delta=0.1).fit(X, sensitive_features=z)
    with pytest.warns(SmallGroupWarning, match="only"):
        fair = DeltaFairPCA(2, penalty=1.0).fit(X, sensitive_features=z)
    assert np.isfinite(fair.components_).all()


@pytest.mark.parametrize("factor", [1e-60, 1e60])
def test_units_out_of_reach_are_refused(factor):
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(40, 3)), np.arange(40) % 2
    with pytest.raises(InvalidInputError, match="rescale X, or set standardize=True"):
        DeltaFairPCA(1, penalty=0.5).fit(factor * X, sensitive_features=z)
    DeltaFairPCA(1, penalty=0.0, standardize=True).fit(factor * X, sensitive_features=z)


def test_points_around_the_request_are_part_of_the_path():
    z = np.arange(240) % 2
    spread = 1 + np.outer(z, [2, 0.8, 0.5, 0.2, 0, 0])
    X = np.random.default_rng(2).normal(size=(240, 6)) * spread
    fair = DeltaFairPCA(2, delta=0.3, family="linear", certify=False).fit(X, sensitive_features=z)
    path = fair.path_
    assert path["penalty"] == sorted(path["penalty"])
    assert len(path["penalty"]) >= len(set(path["variance"])) > 3
    chosen = path["chosen"].index(True)
    assert path["variance"][chosen] == pytest.approx(fair.explained_variance_ratio_.sum())
    np.testing.assert_allclose(
        np.abs(np.sum(fair.path_components_[chosen] * fair.components_, axis=1)), 1.0
    )


def test_a_warning_of_small_groups_is_about_the_line_that_fits(short_path):
    z = np.where(np.arange(400) < 5, "few", np.where(np.arange(400) % 2, "a", "b"))
    X = np.random.default_rng(0).normal(size=(400, 4))
    with pytest.warns(SmallGroupWarning) as caught:
        DeltaFairPCA(2, delta=1.0, family="linear", certify=False).fit(X, sensitive_features=z)
    assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.parametrize("kind", [scipy.sparse.csr_matrix, scipy.sparse.csr_array])
def test_sparse_rows_of_any_kind_are_standardized(kind):
    """OneHotEncoder returns a csr_matrix, whose * is a matrix product."""
    rng = np.random.default_rng(0)
    X, z = rng.poisson(0.5, size=(300, 5)) * [1.0, 2.0, 3.0, 1.0, 1.0], np.arange(300) % 2
    fair = DeltaFairPCA(2, penalty=1.0, standardize=True)
    dense = clone(fair).fit(X, sensitive_features=z)
    found = fair.fit(kind(X), sensitive_features=z)
    np.testing.assert_allclose(found.scale_, dense.scale_)
    P, Q = (model.components_.T @ model.components_ for model in (found, dense))
    np.testing.assert_allclose(P, Q, atol=0.05)  # ascents in single precision
