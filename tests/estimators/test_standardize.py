"""Scaling that belongs to the model: from moments, in every door, saved, applied and undone."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.preprocessing import StandardScaler

from fairpca import DeltaFairPCA, FairPCA, FairPCACV, GroupMoments
from fairpca.estimators import load_model
from fairpca.exceptions import InvalidInputError


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def table(rng):
    groups = rng.integers(0, 2, 400)
    X = rng.normal(size=(400, 6)) * [1, 10, 100, 1, 0.01, 5] + np.outer(groups, np.arange(6.0))
    X[:, 3] = 7.0  # constant
    return X, groups, rng.uniform(0.5, 2.0, 400)


def _projector(model):
    return model.components_.T @ model.components_


def test_it_is_the_fit_of_standardised_rows(table):
    X, groups, weights = table
    own = FairPCA(2, standardize=True).fit(X, sensitive_features=groups, sample_weight=weights)
    mean = np.average(X, axis=0, weights=weights)
    scale = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weights))
    scale[3] = 1.0
    scaled = (X - mean) / scale
    plain = FairPCA(2).fit(scaled, sensitive_features=groups, sample_weight=weights)
    np.testing.assert_allclose(own.scale_, scale, rtol=1e-12)
    np.testing.assert_allclose(_projector(own), _projector(plain), atol=1e-6)
    scores = np.abs(own.transform(X))
    np.testing.assert_allclose(scores, np.abs(plain.transform(scaled)), atol=1e-5)
    np.testing.assert_allclose(own.explained_variance_.sum(), plain.explained_variance_.sum())


def test_every_input_scales_alike(table, tmp_path):
    X, groups, _ = table
    whole = FairPCA(2, standardize=True).fit(X, sensitive_features=groups)
    parts = FairPCA(2, standardize=True)
    for rows in np.array_split(np.arange(400), 3):
        parts.partial_fit(X[rows], sensitive_features=groups[rows])
    moments = GroupMoments.from_arrays(X, groups)
    summed = FairPCA(2, standardize=True).fit_moments(moments)
    sparse = FairPCA(2, standardize=True).fit(csr_array(X), sensitive_features=groups)
    again = load_model(whole.save(tmp_path / "model", with_moments=True))
    for other in (parts, summed, sparse, again):
        np.testing.assert_allclose(other.scale_, whole.scale_, rtol=1e-12)
        np.testing.assert_allclose(_projector(other), _projector(whole), atol=1e-6)
        np.testing.assert_allclose(other.transform(X), whole.transform(X), atol=1e-5)
    model = load_model(tmp_path / "model.npz")
    model.partial_fit(X, sensitive_features=groups)  # the moments kept are in the user's units
    np.testing.assert_allclose(model.scale_, whole.scale_, rtol=1e-12)


def test_the_inverse_gives_points_in_the_users_units(table):
    X, groups, _ = table
    fair = FairPCA(4, standardize=True, whiten=True, cov_weight=0)
    U = fair.fit_transform(X, sensitive_features=groups)
    np.testing.assert_allclose(fair.transform(fair.inverse_transform(U)), U, atol=1e-9)
    plain = FairPCA(5, standardize=True, missing_groups="ignore").fit(X)
    np.testing.assert_allclose(plain.inverse_transform(plain.transform(X)), X, rtol=1e-9)


def test_wide_data_are_scaled_in_their_span(rng):
    X, groups = rng.normal(size=(40, 200)) * np.arange(1, 201), np.arange(40) % 2
    own = FairPCA(2, standardize=True).fit(X, sensitive_features=groups)
    plain = FairPCA(2).fit(StandardScaler().fit_transform(X), sensitive_features=groups)
    np.testing.assert_allclose(_projector(own), _projector(plain), atol=1e-6)


def test_dask_scales_as_well(table):
    da = pytest.importorskip("dask.array")
    X, groups, _ = table
    whole = FairPCA(2, standardize=True).fit(X, sensitive_features=groups)
    lazy = da.from_array(X, chunks=(100, 6))
    fair = FairPCA(2, standardize=True).fit(lazy, sensitive_features=groups)
    np.testing.assert_allclose(fair.transform(lazy).compute(), whole.transform(X), atol=1e-5)


@pytest.mark.parametrize("wrap", [np.asarray, csr_array])
def test_the_adversary_sees_scaled_rows(table, wrap):
    X, groups, _ = table
    own = DeltaFairPCA(2, penalty=0.5, standardize=True).fit(wrap(X), sensitive_features=groups)
    plain = DeltaFairPCA(2, penalty=0.5)
    plain.fit(StandardScaler().fit_transform(X), sensitive_features=groups)
    np.testing.assert_allclose(own.scale_, StandardScaler().fit(X).scale_, rtol=1e-12)
    np.testing.assert_allclose(
        own.explained_variance_.sum(), plain.explained_variance_.sum(), rtol=0.02
    )
    assert np.isclose(own.leakage_, plain.leakage_, atol=0.02)


def test_famd_divides_indicators_by_the_root_of_their_share(rng):
    job = rng.choice(list("abcd"), size=500, p=[0.5, 0.3, 0.15, 0.05])
    frame = pd.get_dummies(pd.DataFrame({"job": job}), dtype=float)
    frame["height"], frame["lone"] = rng.normal(170, 9, 500), rng.integers(0, 2, 500)
    groups = rng.integers(0, 2, 500)
    fair = FairPCA(2, standardize="famd").fit(frame, sensitive_features=groups)
    share = frame.mean().to_numpy()
    np.testing.assert_allclose(fair.scale_[:4], np.sqrt(share[:4]), rtol=1e-12)
    # A single column of zeros and ones is a number: nothing says which value should weigh more.
    np.testing.assert_allclose(fair.scale_[4:], frame.iloc[:, 4:].std(ddof=0), rtol=1e-12)
    moments = fair.moments_.standardized(fair.moments_.standardization(famd=True))
    block = moments.pooled().covariance[:4, :4]
    # Theorem: a one-hot block has variance one in all its directions but one.
    np.testing.assert_allclose(np.linalg.eigvalsh(block), [0, 1, 1, 1], atol=1e-12)


def test_a_share_is_that_of_plain_pca_and_none_is_all_there_is_room_for(table):
    X, groups, _ = table
    X = np.delete(X, 3, axis=1)
    options = {"standardize": True, "cov_weight": 0}
    plain = FairPCA(5, missing_groups="ignore", standardize=True).fit(X)
    held = np.cumsum(plain.explained_variance_ratio_)
    for share in (0.1, 0.5, 0.7):
        fair = FairPCA(share, **options).fit(X, sensitive_features=groups)
        assert fair.n_components_ == 1 + int(np.count_nonzero(held < share))
    everything = FairPCA(None, **options).fit(X, sensitive_features=groups)
    assert everything.n_components_ == 4 == len(everything.components_)
    assert everything.mean_gap_ < 1e-10
    assert FairPCA(0.99999, **options).fit(X, sensitive_features=groups).n_components_ == 4
    doubled = np.column_stack([X, X])  # what does not vary is no component
    assert FairPCA(None, **options).fit(doubled, sensitive_features=groups).n_components_ == 4
    found = DeltaFairPCA(0.5, penalty=0.1, standardize=True).fit(X, sensitive_features=groups)
    assert found.transform(X).shape[1] == found.n_components_ == 2


@pytest.mark.parametrize("bad", [0, 1.0, -0.5, "all", 2.5])
def test_numbers_of_components_that_mean_nothing_are_refused(table, bad):
    X, groups, _ = table
    with pytest.raises((ValueError, InvalidInputError), match="n_components"):
        FairPCA(bad).fit(X, sensitive_features=groups)


def test_a_mistyped_parameter_names_the_class():
    with pytest.raises(TypeError, match="FairPCA"):
        FairPCA(n_component=2)


@pytest.mark.filterwarnings("ignore::fairpca.exceptions.FairnessWarning")
@pytest.mark.parametrize("scattered", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_famd_scales_are_those_of_known_values_by_every_estimator(rng, scattered, sparse):
    """Whole blocks of indicators are missing, or single ones of them."""
    job = rng.choice(4, 600, p=[0.4, 0.3, 0.2, 0.1])
    X = np.c_[np.eye(4)[job], rng.normal(size=(600, 3)) * [1.0, 2.0, 3.0]]
    absent = rng.random(X.shape) < 0.1 if scattered else np.zeros(X.shape, dtype=bool)
    absent[rng.random(600) < 0.1, :4] = True
    groups = rng.choice(["a", "b"], 600)
    holed = np.where(absent, np.nan, X)
    rows = csr_array(holed) if sparse else holed
    expected = np.sqrt(np.nanmean(holed[:, :4], axis=0))
    shared = {"standardize": "famd", "missing": "mean"}
    for model in (
        FairPCA(2, **shared),
        DeltaFairPCA(2, penalty=0.1, **shared),
        FairPCACV(2, cov_weights=[0.0], estimator=FairPCA(**shared)),
    ):
        model.fit(rows, sensitive_features=groups)
        np.testing.assert_allclose(model.scale_[:4], expected, rtol=1e-8)
        deviation = np.where(absent, np.nanmean(holed, axis=0), X).std(axis=0)
        np.testing.assert_allclose(model.scale_[4:], deviation[4:], rtol=1e-8)
