"""Moments of a sparse matrix equal those of the same matrix written out, and cost its non-zeros."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from support import cell_arrays

from fairpca import FairPCA
from fairpca.moments import GroupMoments

N, P = 400, 12


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def sparse_rows(rng, density, n=N, p=P):
    X = sparse.random_array((n, p), density=density, rng=rng, format="csr")
    X.data[:] = rng.normal(3.0, 1.0, len(X.data))
    return X


def assert_same(moments, dense, rtol=1e-10):
    assert moments.table.cells.keys() == dense.table.cells.keys()
    for key, cell in moments.table.cells.items():
        other = dense.table.cells[key]
        assert (cell.n_rows, cell.weight) == (other.n_rows, other.weight)
        deviation = np.sqrt(np.diag(other.scatter))
        for name, array in cell_arrays(cell).items():
            expected = cell_arrays(other)[name]
            if name.endswith("mean_rest"):
                continue
            scale = np.abs(expected).max(initial=0.0)
            if name == "scatter":  # the accuracy that a covariance of these deviations can have
                scale = np.outer(deviation, deviation) + 1e-300
            np.testing.assert_array_less(np.abs(array - expected), rtol * scale + 1e-290)


@pytest.mark.parametrize("density", [0.0, 0.02, 0.3, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_sparse_equals_dense(rng, density, weighted):
    X = sparse_rows(rng, density)
    frame = pd.DataFrame({"g": rng.integers(0, 3, N), "age": rng.normal(40, 9, N)})
    weights = rng.uniform(0, 2, N) * rng.integers(0, 2, N) if weighted else None
    given = {"sensitive_features": frame, "sample_weight": weights}
    assert_same(
        GroupMoments.from_arrays(X, **given), GroupMoments.from_arrays(X.toarray(), **given)
    )


def test_full_columns_with_a_large_mean_keep_their_digits(rng):
    X = sparse_rows(rng, 0.1).toarray()
    X[:, 3] = rng.normal(1e6, 1.0, N)
    X[:, 5] = 1e6  # constant
    X[: N // 3, 7] = rng.normal(1e6, 1.0, N // 3)
    z = rng.normal(size=N)
    groups = pd.DataFrame({"g": rng.integers(0, 2, N), "z": z})
    moments = GroupMoments.from_arrays(sparse.csr_array(X), groups)
    dense = GroupMoments.from_arrays(X, groups)
    for key, cell in moments.table.cells.items():
        other = dense.table.cells[key]
        deviation = np.sqrt(np.diag(other.scatter))
        error = np.abs(cell.scatter - other.scatter)
        assert (error <= 1e-10 * np.outer(deviation, deviation)).all()
        assert cell.scatter[5, 5] == 0.0


def test_one_row_of_almost_all_weight_keeps_its_digits(rng):
    X = sparse_rows(rng, 0.2).toarray()
    X[0] = 1e5
    weights = np.ones(N)
    weights[0] = 1e9
    given = {"sensitive_features": np.zeros(N, dtype=int), "sample_weight": weights}
    one = GroupMoments.from_arrays(sparse.csr_array(X), **given).pooled()
    other = GroupMoments.from_arrays(X, **given).pooled()
    np.testing.assert_allclose(one.covariance, other.covariance, rtol=1e-9)


@pytest.mark.parametrize("kind", ["csr_matrix", "csc_array", "coo_array", "lil_array", "dok_array"])
def test_every_sparse_format_and_type(rng, kind):
    X = sparse_rows(rng, 0.2)
    X.data = np.round(X.data)
    g = rng.integers(0, 2, N)
    expected = GroupMoments.from_arrays(X.toarray(), g).pooled().covariance
    for dtype in (np.float64, np.float32, np.int64):
        converted = getattr(sparse, kind)(X).astype(dtype)
        found = GroupMoments.from_arrays(converted, g).pooled().covariance
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_explicit_zeros_and_repeated_entries_count_once(rng):
    row, column = np.array([0, 0, 1, 2]), np.array([0, 0, 1, 0])
    X = sparse.coo_array((np.array([1.0, 2.0, 0.0, 4.0]), (row, column)), shape=(4, 2))
    found = GroupMoments.from_arrays(X, [0, 0, 0, 0]).pooled()
    expected = GroupMoments.from_arrays(X.toarray(), [0, 0, 0, 0]).pooled()
    np.testing.assert_allclose(found.covariance, expected.covariance, rtol=1e-12)
    np.testing.assert_allclose(found.mean, expected.mean)


def test_sparse_and_dense_batches_merge(rng):
    X, g = sparse_rows(rng, 0.2), rng.integers(0, 2, N)
    parts = GroupMoments.from_arrays(X[:100], g[:100])
    parts = parts + GroupMoments.from_arrays(X[100:].toarray(), g[100:])
    assert_same(parts, GroupMoments.from_arrays(X.toarray(), g))


def test_the_matrix_is_never_filled():
    n, p = 200_000, 300  # 480 MB written out, 2 MB as it is
    X = sparse.random_array((n, p), density=0.003, rng=np.random.default_rng(0), format="csr")
    g = np.arange(n) % 2
    tracemalloc.start()
    GroupMoments.from_arrays(X, g)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60e6


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_array])
def test_the_estimator_accepts_sparse_rows(rng, kind):
    X, g = sparse_rows(rng, 0.2), rng.integers(0, 2, N)
    dense = FairPCA(n_components=3).fit(X.toarray(), sensitive_features=g)
    fair = FairPCA(n_components=3).fit(kind(X), sensitive_features=g)
    projector = fair.components_.T @ fair.components_
    np.testing.assert_allclose(projector, dense.components_.T @ dense.components_, atol=1e-7)
    U = fair.transform(kind(X))
    assert isinstance(U, np.ndarray)
    np.testing.assert_allclose(U, fair.transform(X.toarray()), atol=1e-10)
    halves = FairPCA(n_components=3)
    for part in (slice(0, 150), slice(150, N)):
        halves.partial_fit(kind(X[part]), sensitive_features=g[part])
    np.testing.assert_allclose(halves.components_.T @ halves.components_, projector, atol=1e-7)


def test_sparse_float32_stays_float32(rng):
    X, g = sparse_rows(rng, 0.2).astype(np.float32), rng.integers(0, 2, N)
    fair = FairPCA(whiten=True).fit(X, sensitive_features=g)
    U = fair.transform(X)
    assert U.dtype == np.float32
    np.testing.assert_allclose(U, fair.transform(X.toarray()), atol=1e-4)
