"""The Nyström form: landmarks in every group, streamed rows, and what it approximates."""

import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.metrics.pairwise import rbf_kernel

from fairpca import FairKernelPCA
from fairpca.estimators import _fair_kernel_pca
from fairpca.estimators._fair_kernel_pca import cluster_centres
from fairpca.kernels import _anchors
from fairpca.kernels._anchors import choose_landmarks, landmark_quotas
from fairpca.rows import Rows, encode_groups


def two_groups(n, p=3, seed=0, share=0.4):
    rng = np.random.default_rng(seed)
    z = (rng.random(n) < share).astype(int)
    return rng.normal(size=(n, p)) * (1 + 0.5 * z[:, None]) + 0.4 * z[:, None], z


@pytest.mark.parametrize("seed", range(20))
def test_quotas(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.geometric(rng.choice([0.5, 0.01]), rng.integers(1, 9))
    count = int(rng.integers(len(sizes), sizes.sum() + 1))
    quotas = landmark_quotas(sizes, rng.random(len(sizes)), count)
    assert quotas.sum() == count
    assert (quotas >= 1).all()
    assert (quotas <= sizes).all()


@pytest.mark.parametrize("method", ["kmeans", "uniform"])
def test_small_groups_are_present(method):
    X, _ = two_groups(500)
    z = np.where(np.arange(500) < 3, "rare", "common")
    X[:3] += 50.0
    rows = Rows(X, encode_groups(z, n_rows=500), None, None)
    cluster = cluster_centres if method == "kmeans" else None
    landmarks, drawn = choose_landmarks(rows, 40, np.random.RandomState(0), cluster)
    assert landmarks.shape == (40, 3)
    assert np.count_nonzero(landmarks.mean(axis=1) > 30) == 3
    assert len(drawn) == (500 if method == "kmeans" else 40)
    again, _ = choose_landmarks(rows, 40, np.random.RandomState(0), cluster)
    np.testing.assert_array_equal(landmarks, again)


def draw_landmarks(monkeypatch):
    """Take rows at random as landmarks, as for a precomputed kernel, instead of centres."""
    monkeypatch.setattr(_fair_kernel_pca, "cluster_centres", None)


@pytest.mark.parametrize("method", ["kmeans", "uniform"])
def test_more_landmarks_come_closer_to_the_exact_form(method, monkeypatch):
    if method == "uniform":
        draw_landmarks(monkeypatch)
    X, z = two_groups(400)
    exact = FairKernelPCA(2, gamma=0.1, rank=60).fit(X, sensitive_features=z)
    errors = []
    for count in (10, 40, 160):
        fair = FairKernelPCA(2, gamma=0.1, rank=60, n_landmarks=count)
        U = fair.fit(X, sensitive_features=z).transform(X)
        V = exact.transform(X)
        # Distance between the subspaces of scores, which knows no signs and no rotations.
        errors.append(np.linalg.norm(V - U @ np.linalg.lstsq(U, V, rcond=None)[0]))
        mean = U[z == 1].mean(axis=0) - U[z == 0].mean(axis=0)
        assert np.abs(mean).max() <= 1e-10
        assert fair.certificate_.objective <= exact.certificate_.bound * (1 + 1e-6)
    assert errors[2] < 0.02 * np.linalg.norm(V)
    assert errors[2] < errors[0]


def test_all_rows_as_landmarks_are_the_exact_form(monkeypatch):
    X, z = two_groups(60)
    exact = FairKernelPCA(2, rank=30).fit(X, sensitive_features=z)
    most = FairKernelPCA(2, rank=30, n_landmarks=60).fit(X, sensitive_features=z)
    np.testing.assert_array_equal(most.transform(X), exact.transform(X))
    # Duplicated rows: the landmarks are all distinct rows, so the span is that of the rows.
    doubled, groups = np.vstack([X, X]), np.tile(z, 2)
    draw_landmarks(monkeypatch)
    few = FairKernelPCA(2, rank=30, n_landmarks=119)
    few.fit(doubled, sensitive_features=groups)
    np.testing.assert_allclose(few.transform(X), exact.transform(X), atol=1e-7)
    np.testing.assert_allclose(few.eigenvalues_, 2 * exact.eigenvalues_, rtol=1e-6)
    np.testing.assert_allclose(
        few.explained_variance_ratio_, exact.explained_variance_ratio_, rtol=1e-6
    )


@pytest.mark.parametrize("method", ["kmeans", "uniform", "precomputed"])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_weight_is_a_row_that_occurs_as_often(method, is_sparse, monkeypatch):
    if method != "kmeans":
        draw_landmarks(monkeypatch)
    X, z = two_groups(150)
    counts = np.random.default_rng(3).integers(0, 4, 150)
    copies = np.random.default_rng(4).permutation(np.repeat(np.arange(150), counts))
    fair = FairKernelPCA(2, gamma=0.1, n_landmarks=30, rank=10)
    tables = X, X[copies], X
    if method == "precomputed":
        fair.set_params(kernel="precomputed")
        K = rbf_kernel(X, gamma=0.1)
        tables = K, K[np.ix_(copies, copies)], K[:, copies]
    weighted, repeated, new = map(csr_matrix, tables) if is_sparse else tables
    U = fair.fit(weighted, sensitive_features=z, sample_weight=counts).transform(tables[0])
    V = fair.fit(repeated, sensitive_features=z[copies]).transform(new)
    assert len(fair.coefficients_) == 30
    np.testing.assert_allclose(U, V, atol=1e-10)


def test_landmarks_are_drawn_in_proportion_to_weights():
    X, _ = two_groups(100)
    weights = np.where(np.arange(100) < 20, 12.0, 1.0)  # three quarters of the weight
    rows = Rows(X, None, None, weights)
    drawn = [choose_landmarks(rows, 4, np.random.RandomState(seed), None)[1] for seed in range(500)]
    # By the keys' definition: successive draws without replacement.
    rng = np.random.default_rng(0)
    slow = [rng.choice(100, 4, replace=False, p=weights / weights.sum()) for _ in range(500)]
    assert np.mean(np.less(drawn, 20)) == pytest.approx(np.mean(np.less(slow, 20)), abs=0.05)


def test_batches_change_nothing(monkeypatch):
    X, z = two_groups(500)
    age = np.random.default_rng(1).normal(size=500)
    groups = np.column_stack([z, age]).astype(object)
    weights = np.random.default_rng(2).random(500)
    fair = FairKernelPCA(2, n_landmarks=30)
    whole = fair.fit(X, sensitive_features=groups, sample_weight=weights).transform(X)
    certificate = fair.certificate_
    monkeypatch.setattr(_anchors, "_BATCH_ELEMENTS", 64 * 30)
    assert len(_anchors.row_batches(500, 30)) == 8
    parts = fair.fit(X, sensitive_features=groups, sample_weight=weights).transform(X)
    np.testing.assert_allclose(parts, whole, atol=1e-8)
    assert fair.certificate_.objective == pytest.approx(certificate.objective, rel=1e-8)


def test_memory_does_not_grow_with_the_square_of_the_rows():
    X, z = two_groups(60_000)
    fair = FairKernelPCA(2, n_landmarks=50, certify=False)
    tracemalloc.start()
    fair.fit(X, sensitive_features=z)
    fair.transform(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 300e6  # the kernel matrix would take 28.8 GB
    assert fair.coefficients_.shape == (50, 2)


@pytest.mark.parametrize("weights", [None, np.arange(120) % 2])
def test_landmarks_of_a_precomputed_kernel_are_drawn(weights, monkeypatch):
    X, z = two_groups(120)
    K = rbf_kernel(X, gamma=0.2)
    given = FairKernelPCA(2, kernel="precomputed", n_landmarks=30)
    given.fit(K, sensitive_features=z, sample_weight=weights)
    drawn = given._anchors.columns
    assert len(np.unique(drawn)) == 30
    assert weights is None or weights[drawn].all()
    assert given.X_fit_ is None
    # The same rows as landmarks of the features.
    monkeypatch.setattr(_anchors, "choose_landmarks", lambda *arguments: (X[drawn], drawn))
    same = FairKernelPCA(2, gamma=0.2, n_landmarks=30)
    same.fit(X, sensitive_features=z, sample_weight=weights)
    np.testing.assert_allclose(given.transform(K), same.transform(X), atol=1e-8)


def test_additive_chi2_is_conditionally_positive_and_needs_no_clipping():
    X, z = two_groups(100)
    X = np.abs(X)
    few = FairKernelPCA(2, kernel="additive_chi2", n_landmarks=60).fit(X, sensitive_features=z)
    exact = FairKernelPCA(2, kernel="additive_chi2").fit(X, sensitive_features=z)
    U, V = few.transform(X), exact.transform(X)
    rest = V - U @ np.linalg.lstsq(U, V, rcond=None)[0]
    assert np.linalg.norm(rest) < 0.05 * np.linalg.norm(V)
