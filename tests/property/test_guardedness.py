"""What equal means and covariances imply for classifiers (Belrose et al. 2023), by fitted ones."""

import numpy as np
import pytest
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from fairpca import FairPCA

N, P = 400, 8
LINEAR = {
    "logistic": LogisticRegression(C=1e6, tol=1e-12, max_iter=1000),
    "svm": LinearSVC(C=10.0, dual=False, tol=1e-10),
}


def draw(seed, n_groups):
    """Groups of different sizes, means and covariances, in rows that are correlated."""
    rng = np.random.default_rng(seed)
    z = rng.choice(n_groups, N, p=np.arange(1, n_groups + 1) / np.arange(1, n_groups + 1).sum())
    means = rng.normal(size=(n_groups, P))
    spreads = rng.uniform(0.5, 2.0, (n_groups, P))
    return (rng.normal(size=(N, P)) * spreads[z] + means[z]) @ rng.normal(size=(P, P)), z


@pytest.mark.parametrize("classifier", LINEAR)
@pytest.mark.parametrize("n_groups", [2, 3])
@pytest.mark.parametrize("seed", [0, 1])
def test_no_linear_classifier_uses_the_components(classifier, n_groups, seed):
    X, z = draw(seed, n_groups)
    plain = LINEAR[classifier].fit(X, z)
    assert abs(plain.coef_).max() > 0.01
    fair = FairPCA(3, cov_weight=0).fit(X, sensitive_features=z)
    assert abs(LINEAR[classifier].fit(fair.transform(X), z).coef_).max() < 1e-9


@pytest.mark.parametrize("classifier", LINEAR)
def test_no_linear_classifier_uses_erased_rows(classifier):
    """All fair directions, and the way back: rows of as many features as before."""
    X, z = draw(2, 3)
    eraser = FairPCA(None, cov_weight=0).fit(X, sensitive_features=z)
    erased = eraser.inverse_transform(eraser.transform(X))
    assert erased.shape == X.shape
    assert len(eraser.components_) == P - 2  # one direction less for each contrast
    assert abs(LINEAR[classifier].fit(erased - erased.mean(axis=0), z).coef_).max() < 1e-9


@pytest.mark.parametrize("seed", [0, 1])
def test_a_quadratic_classifier_is_the_trivial_one_at_tolerance_zero(seed):
    X, _ = draw(seed, 2)
    z = np.arange(N) % 2  # as many rows each, so that divisors n and n - 1 agree
    X[z == 1] *= np.random.default_rng(seed).uniform(0.5, 2.0, P)
    X[z == 1] += 1.0
    quadratic = QuadraticDiscriminantAnalysis()
    assert quadratic.fit(X, z).score(X, z) > 0.7
    means_only = FairPCA(2, cov_weight=0).fit_transform(X, sensitive_features=z)
    assert abs(quadratic.fit(means_only, z).predict_proba(means_only) - 0.5).max() > 0.1
    U = FairPCA(2, cov_tol=0).fit_transform(X, sensitive_features=z)
    assert U.std(axis=0).min() > 0.1
    assert abs(quadratic.fit(U, z).predict_proba(U) - 0.5).max() < 1e-6
