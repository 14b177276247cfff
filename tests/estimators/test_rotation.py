"""Rotation inside the fair subspace: what must not change, and what it is for."""

import numpy as np
import pytest

from fairpca import DeltaFairPCA, FairPCA
from fairpca.datasets import load_diabetes_sex
from fairpca.linalg import varimax


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 500)
    loadings = np.kron(np.eye(3), np.ones(4)) * rng.uniform(0.7, 1.3, 12)
    X = rng.normal(size=(500, 3)) @ loadings + 0.3 * rng.normal(size=(500, 12))
    return X + np.outer(group, 0.5 * rng.normal(size=12)), group


def kurtosis(components):
    return float(np.sum(components**4))


@pytest.mark.parametrize("estimator", [FairPCA(3), DeltaFairPCA(3, penalty=1.0, max_rows=500)])
def test_gaps_variance_and_certificate_stay(rows, estimator):
    X, group = rows
    fits = {}
    for rotation in (None, "varimax"):
        estimator.set_params(rotation=rotation).fit(X, sensitive_features=group)
        fits[rotation] = {**vars(estimator), "scores": estimator.transform(X)}
    before, after = fits[None], fits["varimax"]
    V, W = before["components_"], after["components_"]
    np.testing.assert_allclose(W @ W.T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(V.T @ V, W.T @ W, atol=1e-10)  # the same subspace
    for name in ("mean_gap_", "cov_gap_"):
        assert after[name] == pytest.approx(before[name], rel=1e-9, abs=1e-12)
    for name in ("objective", "bound", "gap"):
        one, other = (getattr(fit["certificate_"], name) for fit in (before, after))
        assert other == pytest.approx(one, rel=1e-12)
    total = before["explained_variance_ratio_"].sum()
    assert after["explained_variance_ratio_"].sum() == pytest.approx(total, rel=1e-12)
    np.testing.assert_allclose(after["scores"].var(axis=0), after["explained_variance_"])
    assert (np.diff(after["explained_variance_"]) <= 0).all()
    np.testing.assert_allclose(after["contrasts_"]["cov_gap"], before["contrasts_"]["cov_gap"])
    assert kurtosis(W) > 1.005 * kurtosis(V)
    correlated = np.abs(np.corrcoef(after["scores"].T) - np.eye(3)).max()
    assert correlated > 1e-3 > np.abs(np.corrcoef(before["scores"].T) - np.eye(3)).max()


def test_blocks_of_features_come_apart(rows):
    X, group = rows
    fair = FairPCA(3, cov_weight=0.0, rotation="varimax").fit(X, sensitive_features=group)
    blocks = (fair.components_**2).reshape(3, 3, 4).sum(axis=2)
    assert blocks.max(axis=1).min() > 0.7


def test_varimax_is_a_maximum_over_planes():
    loadings = np.linalg.qr(np.random.default_rng(1).normal(size=(10, 3)))[0]

    def criterion(L):
        return float(np.sum((L**2).var(axis=0)))

    rotated = loadings @ varimax(loadings)
    np.testing.assert_allclose(rotated @ rotated.T, loadings @ loadings.T, atol=1e-12)
    for one, other in ((0, 1), (0, 2), (1, 2)):
        for angle in np.linspace(-0.5, 0.5, 21):
            turn = np.eye(3)
            turn[[one, one, other, other], [one, other, one, other]] = (
                np.cos(angle), -np.sin(angle), np.sin(angle), np.cos(angle),
            )  # fmt: skip
            assert criterion(rotated @ turn) <= criterion(rotated) + 1e-8


def test_wide_rows_and_the_words_of_the_representation():
    rng = np.random.default_rng(2)
    X, group = rng.normal(size=(40, 150)), np.arange(40) % 2
    plain, rotated = (
        FairPCA(2, cov_weight=0.0, rotation=rotation).fit(X, sensitive_features=group)
        for rotation in (None, "varimax")
    )
    np.testing.assert_allclose(
        plain.components_.T @ plain.components_, rotated.components_.T @ rotated.components_,
        atol=1e-10,
    )  # fmt: skip
    np.testing.assert_allclose(rotated.transform(X).var(axis=0), rotated.explained_variance_)
    assert "rotation='varimax'" in repr(rotated)
    U = rotated.transform(X)
    largest = np.abs(np.triu(np.corrcoef(U.T), 1)).max()
    assert rotated.correlation_ == pytest.approx(largest, abs=1e-9)
    assert repr(rotated).endswith(f"# scores are correlated, up to {largest:.2f}")
    assert "correlated" not in repr(
        rotated.set_params(rotation=None).fit(X, sensitive_features=group)
    )
    diabetes = load_diabetes_sex()
    with pytest.raises(ValueError, match="rotation"):
        FairPCA(rotation="quartimax").fit(
            diabetes.data, sensitive_features=diabetes.sensitive_features
        )
