"""What the paper proves, asserted on representations: a probe learns nothing it should not."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from fairpca import FairPCA


@pytest.fixture(scope="module")
def gaussian_groups():
    """Two Gaussian groups that differ in mean and covariance."""
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(2, 8, 8)) / 2
    X = np.vstack([rng.normal(size=(2000, 8)) @ A + 1.0, rng.normal(size=(2000, 8)) @ B])
    return X, np.repeat([1, 0], 2000)


def test_linear_probe_learns_nothing_after_mean_matching(gaussian_groups):
    X, z = gaussian_groups
    U = FairPCA(3).fit(X, sensitive_features=z).transform(X)
    # Equal means: the least-squares probe of z on U has no slope at all.
    assert np.abs(LinearRegression().fit(U, z).coef_).max() < 1e-10
    probe = LogisticRegression(C=np.inf).fit(U, z)
    assert np.abs(probe.coef_ * U.std(axis=0)).max() < 1e-3
    assert LogisticRegression().fit(X, z).score(X, z) > 0.7


def test_quadratic_probe_learns_nothing_after_covariance_matching(gaussian_groups):
    X, z = gaussian_groups
    fair = FairPCA(3, cov_tol=0.0).fit(X, sensitive_features=z)
    U = fair.transform(X)
    first, second = np.triu_indices(3)
    quadratic = np.column_stack([U, U[:, first] * U[:, second]])
    # Equal first and second moments: no slope in any product of components either.
    assert fair.cov_gap_ < 1e-8
    assert np.abs(LinearRegression().fit(quadratic, z).coef_).max() < 1e-6
    mean_only = FairPCA(3, cov_weight=0.0).fit(X, sensitive_features=z).transform(X)
    products = mean_only[:, first] * mean_only[:, second]
    assert np.abs(LinearRegression().fit(products, z).coef_).max() > 1e-3


def test_every_direction_has_equal_mean_and_variance(gaussian_groups):
    # The KL bound of the paper vanishes in every direction w when both constraints hold.
    X, z = gaussian_groups
    U = FairPCA(2, cov_tol=0.0).fit(X, sensitive_features=z).transform(X)
    for angle in np.linspace(0, np.pi, 17):
        line = U @ [np.cos(angle), np.sin(angle)]
        one, other = line[z == 1], line[z == 0]
        assert one.mean() == pytest.approx(other.mean(), abs=1e-10)
        assert one.var() == pytest.approx(other.var(), rel=1e-6)


def test_fitting_the_fair_data_again_changes_nothing(gaussian_groups):
    # Idempotence: what was made fair is fair, so plain PCA of it is all that is left to do.
    X, z = gaussian_groups
    fair = FairPCA(3, cov_tol=0.0).fit(X, sensitive_features=z)
    U = fair.transform(X)
    again = FairPCA(3, cov_tol=1e-6).fit(U, sensitive_features=z)
    assert again.explained_variance_ratio_.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(np.abs(again.components_), np.eye(3), atol=1e-4)


def test_penalty_moves_variance_and_gap_together(gaussian_groups):
    X, z = gaussian_groups
    fits = [FairPCA(2, cov_weight=w).fit(X, sensitive_features=z) for w in (0, 0.1, 1, 10)]
    variances = [fit.explained_variance_.sum() for fit in fits]
    gaps = [fit.cov_gap_ for fit in fits]
    assert (np.diff(variances) <= 1e-9).all()
    assert (np.diff(gaps) <= 1e-9).all()
    assert gaps[-1] < gaps[0]
