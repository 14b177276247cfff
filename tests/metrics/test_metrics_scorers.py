"""Scorers: values, routing through scikit-learn's searches, and the guide that shows them."""

import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fairpca import FairPCA
from fairpca.exceptions import InvalidInputError
from fairpca.metrics import (
    FairScorer,
    delta_fairness,
    explained_variance,
    refit_within,
)

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "choosing-parameters.md"


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    z = np.arange(240) % 2
    X = rng.normal(size=(240, 4)) * [3.0, 2.0, 1.5, 1.0]
    X[:, 0] += 4 * z
    return X, z


class RepresentationOnly(TransformerMixin, BaseEstimator):
    """A transformer of another library: no components, no groups."""

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        return np.exp(X[:, :1] / 10)


def test_score_is_variance_minus_delta(data):
    X, z = data
    pca = PCA(2).fit(X)
    variance = explained_variance(X, components=pca.components_)
    delta = delta_fairness(pca.transform(X), z, method="exact").value
    options = {"method": "exact"}
    scored = FairScorer(1.0, 0.5, **options)(pca, X, sensitive_features=z)
    assert scored == pytest.approx(variance - 0.5 * delta)
    assert FairScorer(0.0, **options)(pca, X, sensitive_features=z) == pytest.approx(-delta)
    assert FairScorer(1.0, 0.0)(pca, X) == pytest.approx(variance)


def test_variance_in_a_pipeline_is_that_of_the_last_step(data):
    X, _ = data
    model = make_pipeline(StandardScaler(), PCA(1)).fit(X)
    scaled = model[0].transform(X)
    expected = explained_variance(scaled, components=model[-1].components_)
    assert FairScorer(1.0, 0.0)(model, X) == pytest.approx(expected)
    single = make_pipeline(PCA(1)).fit(X)
    assert FairScorer(1.0, 0.0)(single, X) == pytest.approx(FairScorer(1.0, 0.0)(single[-1], X))


def test_any_transformer_can_be_scored(data):
    X, z = data
    model = RepresentationOnly().fit(X)
    score = FairScorer()(model, X, sensitive_features=z)
    expected = explained_variance(X, U=model.transform(X))
    assert score == pytest.approx(expected - delta_fairness(model.transform(X), z).value)


def test_weights_and_strata_reach_delta(data):
    X, z = data
    pca = PCA(1).fit(X)
    strata, weight = np.arange(240) // 120, np.linspace(0.5, 1.5, 240)
    scored = FairScorer(0.0)(
        pca, X, sensitive_features=z, control_features=strata, sample_weight=weight
    )
    expected = delta_fairness(
        pca.transform(X), z, control_features=strata, sample_weight=weight
    ).value
    assert scored == -expected


def test_missing_groups_say_how_to_pass_them(data):
    X, _ = data
    with pytest.raises(InvalidInputError, match="enable_metadata_routing"):
        FairScorer(0.0)(PCA(1).fit(X), X)


class TestPipelinesThatEndInAClassifier:
    def test_the_representation_before_it_is_scored(self, data):
        X, z = data
        y = X[:, 1] > 0
        model = make_pipeline(StandardScaler(), PCA(2), LogisticRegression()).fit(X, y)
        U, scaled = model[:-1].transform(X), model[0].transform(X)
        score = FairScorer(1.0, 0.5)(model, X, sensitive_features=z)
        variance = explained_variance(scaled, components=model[1].components_)
        assert score == pytest.approx(variance - 0.5 * delta_fairness(U, z).value)
        assert FairScorer(0.0)(model, X, sensitive_features=z) == -delta_fairness(U, z).value

    def test_decisions_are_differences_of_selection_rates(self, data):
        X, z = data
        y = X[:, 0] > 0
        scorer = FairScorer(0.0, of="decision")
        assert repr(scorer) == "FairScorer(variance_weight=0, delta_weight=1, of='decision')"
        for model in (LogisticRegression(), make_pipeline(PCA(2), LogisticRegression())):
            chosen = model.fit(X, y).predict(X)
            expected = abs(chosen[z == 1].mean() - chosen[z == 0].mean())
            assert scorer(model, X, sensitive_features=z) == pytest.approx(-expected)
        many = KNeighborsClassifier(1).fit(X, np.argsort(np.argsort(X[:, 0])) // 10)
        assert len(np.unique(many.predict(X))) == 24
        rates = [
            abs(np.mean((many.predict(X) == k)[z == 1]) - np.mean((many.predict(X) == k)[z == 0]))
            for k in range(24)
        ]
        assert scorer(many, X, sensitive_features=z) == pytest.approx(-max(rates))
        constant = LogisticRegression().fit(X, np.arange(240) % 2)
        constant.coef_[:], constant.intercept_[:] = 0.0, 1.0
        assert scorer(constant, X, sensitive_features=z) == 0.0

    def test_a_classifier_alone_says_what_to_do(self, data):
        X, z = data
        model = LogisticRegression().fit(X, X[:, 1] > 0)
        with pytest.raises(InvalidInputError, match="use of='decision'"):
            FairScorer(0.0)(model, X, sensitive_features=z)
        with pytest.raises(InvalidInputError, match="of must be"):
            FairScorer(0.0, of="prediction")
        with pytest.raises(InvalidInputError, match="needs classes"):
            FairScorer(0.0, of="decision")(LinearRegression().fit(X, z), X, sensitive_features=z)

    @pytest.mark.usefixtures("routing")
    def test_searches_over_them_have_no_nan(self, data):
        X, z = data
        model = make_pipeline(PCA(), LogisticRegression())
        scoring = {"delta": FairScorer(0.0), "decision": FairScorer(0.0, of="decision")}
        search = GridSearchCV(model, {"pca__n_components": [1, 2]}, scoring=scoring, refit=False)
        search.fit(X, X[:, 1] > 0, sensitive_features=z)
        for name in scoring:
            assert np.isfinite(search.cv_results_[f"mean_test_{name}"]).all()


@pytest.mark.usefixtures("routing")
class TestRouting:
    def test_grid_search_prefers_the_fair_candidate(self, data):
        X, z = data
        search = GridSearchCV(
            FairPCA(1),
            {"mean_tol": [0.0, None], "cov_weight": [0.0]},
            scoring=FairScorer(1.0, 3.0),
            cv=3,
        )
        search.fit(X, sensitive_features=z)
        assert search.best_params_["mean_tol"] == 0.0

    def test_several_scorers_and_a_limit(self, data):
        X, z = data
        scoring = {"delta": FairScorer(0.0), "variance": FairScorer(1.0, 0.0)}
        grid = {"mean_tol": [0.0, 1.0, None], "cov_weight": [0.0]}
        search = GridSearchCV(FairPCA(1), grid, scoring=scoring, refit=refit_within(0.3), cv=3)
        search.fit(X, sensitive_features=z)
        deltas = -search.cv_results_["mean_test_delta"]
        assert deltas[search.best_index_] <= 0.3
        assert search.best_estimator_.components_.shape == (1, 4)

    def test_alias_and_requests(self, data):
        X, z = data
        scorer = FairScorer(0.0).set_score_request(sensitive_features="group", sample_weight=True)
        model = PCA(1)
        params = {"group": z, "sample_weight": np.linspace(1, 2, 240)}
        result = cross_validate(model, X, scoring=scorer, cv=2, params=params)
        assert (result["test_score"] < 0).all()
        with pytest.raises(InvalidInputError, match="takes"):
            scorer.set_score_request(groups=True)

    def test_scorers_can_be_sent_to_other_processes(self, data):
        X, z = data
        scorer = pickle.loads(pickle.dumps(FairScorer(1.0, 2.0, family="cdf")))
        assert repr(scorer) == repr(FairScorer(1.0, 2.0, family="cdf"))
        pca = PCA(1).fit(X)
        assert scorer(pca, X, sensitive_features=z) == FairScorer(1.0, 2.0, family="cdf")(
            pca, X, sensitive_features=z
        )


def test_limit_out_of_reach_is_said():
    results = {"mean_test_delta": [-0.5, -0.4], "mean_test_variance": [0.9, 0.8]}
    with pytest.warns(UserWarning, match="smallest is 0.400"):
        assert refit_within(0.1)(results) == 1


def test_the_guide_runs(capsys):
    before = sklearn.get_config()["enable_metadata_routing"]
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 3
    try:
        exec(compile("\n".join(blocks), str(GUIDE), "exec"), {})
    finally:
        sklearn.set_config(enable_metadata_routing=before)
    printed = capsys.readouterr().out
    assert "Δ" in printed
    assert "fairpca__mean_tol" in printed
