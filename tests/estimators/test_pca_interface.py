"""The attributes and methods of scikit-learn's PCA, and the probabilistic model behind them."""

import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import multivariate_normal
from sklearn.decomposition import PCA
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.model_selection import GridSearchCV

from fairpca import DeltaFairPCA, FairPCA, FairPCACV, SparseFairPCA, load_model
from fairpca.exceptions import InvalidInputError

N, P = 300, 6
rng = np.random.default_rng(0)
GROUP = np.arange(N) % 2
X = rng.normal(size=(N, P)) @ rng.normal(size=(P, P)) + np.outer(GROUP, rng.normal(size=P)) + 3.0

MODELS = {
    "defaults": FairPCA(2),
    "means": FairPCA(3, cov_weight=0),
    "scaled": FairPCA(3, cov_weight=0, standardize=True),
    "whitened": FairPCA(2, cov_weight=0, whiten=True),
    "all": FairPCA(None, cov_weight=0),
    "delta": DeltaFairPCA(2, penalty=1.0),
    "chosen": FairPCACV(2, cov_weights=(0.0, 1.0), folds=2),
}


@pytest.fixture(scope="module", params=MODELS)
def fair(request):
    return MODELS[request.param].fit(X, sensitive_features=GROUP)


def test_without_groups_all_is_as_in_scikit_learn():
    plain = FairPCA(2, missing_groups="ignore", cov_weight=0).fit(X)
    pca = PCA(2).fit(X)
    np.testing.assert_allclose(plain.singular_values_, pca.singular_values_)
    assert plain.noise_variance_ == pytest.approx(pca.noise_variance_ * (N - 1) / N)
    assert plain.n_samples_ == pca.n_samples_ == N
    np.testing.assert_allclose(plain.get_covariance(), pca.get_covariance() * (N - 1) / N)
    np.testing.assert_allclose(plain.get_precision(), pca.get_precision() * N / (N - 1))


def test_the_likelihood_is_that_of_the_covariance(fair):
    normal = multivariate_normal(fair.mean_, fair.get_covariance())
    np.testing.assert_allclose(fair.score_samples(X), normal.logpdf(X), rtol=1e-8)
    assert fair.score(X) == pytest.approx(normal.logpdf(X).mean())
    np.testing.assert_allclose(fair.get_covariance() @ fair.get_precision(), np.eye(P), atol=1e-8)


def test_the_covariance_has_the_variances_of_components_and_rows(fair):
    directions = fair.components_ if fair.scale_ is None else fair.components_ / fair.scale_
    inside = directions @ fair.get_covariance() @ directions.T
    variances = np.maximum(fair.explained_variance_, fair.noise_variance_)
    np.testing.assert_allclose(inside, np.diag(variances), atol=1e-10 * variances.max())
    if (fair.explained_variance_ >= fair.noise_variance_).all() and fair.scale_ is None:
        assert np.trace(fair.get_covariance()) == pytest.approx(np.trace(np.cov(X.T, bias=True)))


def test_the_plain_pca_for_export_is_complete(fair):
    fair = getattr(fair, "best_estimator_", fair)
    plain = fair.to_sklearn()
    assert {name for name in vars(PCA(2).fit(X)) if name.endswith("_")} <= {*vars(plain)}
    above = (fair.explained_variance_ > fair.noise_variance_).all()  # else it divides by zero
    if above and fair.scale_ is None and not fair.whiten:
        np.testing.assert_allclose(plain.get_covariance(), fair.get_covariance(), rtol=1e-9)
        np.testing.assert_allclose(plain.score_samples(X), fair.score_samples(X), rtol=1e-9)
        back = plain.inverse_transform(plain.transform(X))
        np.testing.assert_allclose(back, fair.inverse_transform(fair.transform(X)))


def test_a_saved_model_scores_alike(tmp_path):
    fair = FairPCA(2, cov_weight=0).fit(X, sensitive_features=GROUP)
    again = load_model(fair.save(tmp_path / "model"))
    assert again.score(X) == fair.score(X)


def test_rows_without_a_density_are_said_to_have_none():
    flat = np.column_stack([X[:, :2], X[:, :2].sum(axis=1)])
    fair = FairPCA(2, missing_groups="ignore", cov_weight=0).fit(flat)
    assert np.isfinite(fair.get_covariance()).all()
    with pytest.raises(InvalidInputError, match="do not vary in all directions"):
        fair.score(flat)


def test_what_has_no_model_says_so():
    with pytest.raises(NotFittedError):
        FairPCA().score(X)
    sparse = SparseFairPCA(2).fit(X, sensitive_features=GROUP)
    assert not any(hasattr(sparse, name) for name in ("score", "score_samples", "get_covariance"))


def test_a_bare_grid_search_chooses_by_likelihood():
    low = rng.normal(size=(N // 2, 2)) @ rng.normal(size=(2, P)) * 5
    low = np.repeat(low + rng.normal(size=low.shape), 2, axis=0)  # both groups have the same rows
    search = GridSearchCV(FairPCA(cov_weight=0), {"n_components": [1, 2, 3]}, cv=3)
    search.fit(low, sensitive_features=GROUP)
    assert search.best_params_ == {"n_components": 2}


def test_a_grid_of_penalties_and_tolerances_leaves_out_what_excludes_itself():
    grid = {"cov_weight": [None, 1.0], "cov_tol": [None, 5.0]}
    search = GridSearchCV(FairPCA(1), grid, cv=2)
    said = "cov_weight=1.0 and cov_tol=5.0 are both set"
    with (
        pytest.warns(FitFailedWarning, match=said),
        pytest.warns(UserWarning, match="non-finite"),
    ):
        search.fit(X, sensitive_features=GROUP)
    assert np.isnan(search.cv_results_["mean_test_score"]).sum() == 1
    chosen = FairPCACV(1, cov_weights=[0.0, 1.0], cov_tols=[5.0, 9.0], folds=2)
    chosen.fit(X, sensitive_features=GROUP)
    pairs = [(p["cov_weight"], p["cov_tol"]) for p in chosen.cv_results_["params"]]
    assert sorted(pairs, key=str) == [(0.0, None), (1.0, None), (None, 5.0), (None, 9.0)]


@pytest.mark.parametrize(
    "model", [FairPCA(2), FairPCA(2, standardize=True), MODELS["delta"], MODELS["chosen"]]
)
@pytest.mark.parametrize("kind", [np.asarray, csr_array])
def test_single_precision_stays(model, kind):
    single = kind(X.astype(np.float32))
    fair = model.fit(single, sensitive_features=GROUP)
    assert fair.components_.dtype == fair.transform(single).dtype == np.float32
    assert fair.inverse_transform(fair.transform(single)).dtype == np.float32
    again = model.fit(X, sensitive_features=GROUP)
    assert again.components_.dtype == np.float64


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"cov_weight": 0}, {}, {"certify": False}], ids=str)
def test_a_fit_in_single_precision_makes_no_second_table(options):
    """20,000 × 768, as embeddings are: at most 1.3 times the rows beyond them."""
    random = np.random.default_rng(0)
    group = np.arange(20_000) % 2
    rows = random.standard_normal((20_000, 768), dtype=np.float32) * np.arange(1, 769) ** -0.5
    rows = (rows * (1 + 0.2 * group[:, None] * random.random(768))).astype(np.float32)
    tracemalloc.start()
    try:
        fair = FairPCA(32, **options).fit(rows, sensitive_features=group)
        assert tracemalloc.get_traced_memory()[1] < 1.3 * rows.nbytes
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        scores = fair.transform(rows)
        assert tracemalloc.get_traced_memory()[1] - before < 3 * scores.nbytes
    finally:
        tracemalloc.stop()
    assert scores.dtype == fair.components_.dtype == np.float32


def test_a_plain_pca_scores_where_a_component_has_less_variance_than_the_noise():
    rng = np.random.default_rng(0)
    group = np.arange(400) % 2
    X = rng.normal(size=(400, 6)) * [1.0, 1.0, 4.0, 4.0, 4.0, 4.0]
    X[:, 2:] *= 1.0 + 2.0 * group[:, None]
    fair = FairPCA(2, cov_weight=30.0).fit(X, sensitive_features=group)
    assert fair.explained_variance_.min() < fair.noise_variance_
    assert fair.to_sklearn().score(X) == pytest.approx(fair.score(X), rel=1e-6)


def test_correlated_scores_have_no_such_model():
    X, group = np.random.default_rng(0).normal(size=(60, 4)), np.arange(60) % 2
    for estimator in (FairPCA(2), FairPCA(2, rotation="varimax")):
        fair = estimator.fit(X, sensitive_features=group)
        assert hasattr(fair, "score") == hasattr(fair, "get_covariance") == (not fair.rotation)


def test_batches_in_single_precision_give_components_in_it():
    X, group = np.random.default_rng(0).normal(size=(60, 4)), np.arange(60) % 2
    fair = FairPCA(2)
    for batch in np.split(np.arange(60), 3):
        fair.partial_fit(X[batch].astype(np.float32), sensitive_features=group[batch])
    assert fair.components_.dtype == np.float32
    chosen = FairPCACV(2).fit(X, sensitive_features=group)
    np.testing.assert_allclose(chosen.to_sklearn().transform(X), chosen.transform(X))


@pytest.mark.parametrize("unit", [1.0, 2.0**-30, 2.0**30])
def test_little_noise_is_noise_and_rounding_is_none(unit):
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(60, 4)) * [3.0, 2.0, 1.0, 1e-4] * unit, np.arange(60) % 2
    options = {"mean_tol": None, "cov_weight": 0.0}
    little = FairPCA(3, **options).fit(X, sensitive_features=z).noise_variance_
    assert little == pytest.approx(np.linalg.eigvalsh(np.cov(X.T, bias=True))[0], rel=1e-6)
    X[:, 3] = X[:, 0] + X[:, 1]
    assert FairPCA(3, **options).fit(X, sensitive_features=z).noise_variance_ == 0.0


def test_where_no_directions_are_left_there_is_no_noise():
    X = np.random.default_rng(0).normal(size=(4, 6))
    fair = FairPCA(4, cov_weight=0.0).fit(X, sensitive_features=[0, 1, 0, 1])
    assert fair.explained_variance_ratio_.sum() < 0.99  # the means take a direction of three
    assert fair.noise_variance_ == 0.0
