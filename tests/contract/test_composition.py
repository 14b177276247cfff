"""FairPCA inside scikit-learn's own machinery."""

import pickle

import joblib
import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fairpca import FairPCA


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    z = rng.integers(0, 2, 200)
    X = rng.normal(size=(200, 6)) + np.outer(z, [1.5, 0, 0, 0, 0, 0])
    X[z == 1, 1] *= 2.0
    return X, (X[:, 2] > 0).astype(int), z


def assert_fair(U, z):
    assert np.abs(U[z == 1].mean(0) - U[z == 0].mean(0)).max() < 1e-9


@pytest.mark.parametrize("routing", [False, True])
def test_pipeline(data, routing):
    X, y, z = data
    with sklearn.config_context(enable_metadata_routing=routing):
        pipeline = make_pipeline(StandardScaler(), FairPCA(2), LogisticRegression())
        groups = {"sensitive_features" if routing else "fairpca__sensitive_features": z}
        pipeline.fit(X, y, **groups)
        assert_fair(pipeline[:-1].transform(X), z)
        assert pipeline.predict(X).shape == y.shape


@pytest.mark.parametrize("routing", [False, True])
def test_grid_search(data, routing):
    X, y, z = data
    with sklearn.config_context(enable_metadata_routing=routing):
        pipeline = make_pipeline(FairPCA(), LogisticRegression())
        search = GridSearchCV(pipeline, {"fairpca__n_components": [1, 3]}, cv=3)
        groups = {"sensitive_features" if routing else "fairpca__sensitive_features": z}
        search.fit(X, y, **groups)
        assert search.best_params_["fairpca__n_components"] in (1, 3)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
        assert_fair(search.best_estimator_[0].transform(X), z)


def test_groups_are_split_with_the_rows(data):
    X, y, z = data
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(FairPCA(2), LogisticRegression())
        result = cross_validate(
            pipeline, X, y, cv=4, params={"sensitive_features": z}, return_estimator=True
        )
    for fitted in result["estimator"]:
        assert fitted[0].moments_.n_samples == 150


def test_weights_are_routed_on_request(data):
    X, y, z = data
    weight = np.linspace(0.5, 2.0, len(X))
    with sklearn.config_context(enable_metadata_routing=True):
        step = FairPCA(2).set_fit_request(sample_weight=True)
        final = LogisticRegression().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(step, final)
        pipeline.fit(X, y, sensitive_features=z, sample_weight=weight)
    direct = FairPCA(2).fit(X, sensitive_features=z, sample_weight=weight)
    np.testing.assert_allclose(pipeline[0].components_, direct.components_)


def test_clone_keeps_every_parameter():
    fair = FairPCA(3, mean_tol=0.1, cov_tol=0.2, joint=True, solver="tight", whiten=True)
    assert clone(fair).get_params() == fair.get_params()


@pytest.mark.parametrize("store", ["pickle", "joblib"])
def test_stored_and_loaded(data, store, tmp_path):
    X, _, z = data
    fair = FairPCA(2).fit(X, sensitive_features=z)
    if store == "pickle":
        loaded = pickle.loads(pickle.dumps(fair))
    else:
        joblib.dump(fair, tmp_path / "fair.joblib")
        loaded = joblib.load(tmp_path / "fair.joblib")
    np.testing.assert_array_equal(loaded.transform(X), fair.transform(X))
    assert repr(loaded.certificate_) == repr(fair.certificate_)
