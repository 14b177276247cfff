"""What each group keeps and loses, for any basis and any representation."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from fairpca import FairPCA
from fairpca.exceptions import InvalidInputError
from fairpca.metrics import audit, group_loss


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    g = rng.choice(list("abc"), 300)
    X = rng.normal(size=(300, 6)) * rng.uniform(0.5, 2.0, (3, 6))[np.searchsorted(list("abc"), g)]
    return X + 1.0 * (g == "b")[:, None], g


def test_agrees_with_the_rows(rows):
    X, g = rows
    V = np.linalg.qr(np.random.default_rng(1).normal(size=(6, 2)))[0]
    found = group_loss(X, g, components=3.0 * V.T)
    for place, level in enumerate("abc"):
        centred = X[g == level] - X[g == level].mean(axis=0)
        error = ((centred - centred @ V @ V.T) ** 2).sum(axis=1).mean()
        own = PCA(2).fit(centred).explained_variance_.sum() * (len(centred) - 1) / len(centred)
        assert found["error"][place] == pytest.approx(error)
        assert found["best"][place] == pytest.approx(own)
        assert found["loss"][place] == pytest.approx(own - found["variance"][place])


def test_scores_of_a_basis_of_pca_are_its_components(rows):
    X, g = rows
    pca = PCA(3).fit(X)
    one = group_loss(X, g, components=pca.components_)
    mixing = np.array([[1.0, 0.99, 0.0], [1.0, 1.0, 0.0], [0.0, 1.0, 1.0]])
    other = group_loss(X, g, U=pca.transform(X) @ mixing * [1e-6, 1.0, 1e6])
    for name in ("variance", "best", "loss", "error"):
        np.testing.assert_allclose(other[name], one[name], atol=1e-9)


def test_agrees_with_the_estimator_and_weights_repeat(rows):
    X, g = rows
    w = np.random.default_rng(2).integers(0, 3, len(X))
    fair = FairPCA(2, objective="worst-loss", mean_tol=None, cov_weight=0)
    fair.fit(X, sensitive_features=g, sample_weight=w)
    found = group_loss(X, g, components=fair.components_, sample_weight=w)
    again = group_loss(np.repeat(X, w, axis=0), np.repeat(g, w), components=fair.components_)
    for name in ("variance", "best", "loss"):
        np.testing.assert_allclose(found[name], fair.group_variance_[name], atol=1e-9)
        np.testing.assert_allclose(found[name], again[name], atol=1e-9)


def test_the_audit_says_what_groups_lose(rows):
    X, g = rows
    fair = FairPCA(2).fit(X, sensitive_features=g)
    quick = {"families": (), "adversaries": (), "effort": "quick"}
    report = audit(fair.transform(X), g, original=X, **quick)
    assert report.losses == report.to_dict()["losses"]
    np.testing.assert_allclose(
        report.losses["loss"], group_loss(X, g, U=fair.transform(X))["loss"], atol=1e-9
    )
    assert "largest loss: " in repr(report)
    assert audit(fair.transform(X), g, **quick).losses is None
    with pytest.raises(InvalidInputError, match="original has 10 rows"):
        audit(fair.transform(X), g, original=X[:10], **quick)


@pytest.mark.parametrize(
    "given", [{}, {"components": np.eye(6), "U": np.eye(6)}, {"components": np.eye(5)}]
)
def test_what_cannot_be_asked(rows, given):
    with pytest.raises(InvalidInputError):
        group_loss(*rows, **given)
    with pytest.raises(InvalidInputError, match="U has 2 rows"):
        group_loss(*rows, U=np.ones((2, 1)))
