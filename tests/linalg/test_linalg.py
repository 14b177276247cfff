from threading import Event, Thread

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize_scalar
from threadpoolctl import threadpool_info, threadpool_limits

from fairpca.linalg import (
    complement_basis,
    fantope_eigenvalues,
    fix_signs,
    ky_fan,
    project,
    release_control,
    shared_level,
    single_blas_thread,
    spectral_norms,
    top_eigenpairs,
)

vectors = arrays(float, st.integers(1, 12), elements=st.floats(-5, 5, width=32))


@given(vectors, st.integers(1, 12))
def test_fantope_projection_is_the_nearest_point(values, rank):
    rank = min(rank, len(values))
    kept = fantope_eigenvalues(values, rank)
    assert kept.sum() == pytest.approx(rank)
    assert kept.min() >= 0.0
    assert kept.max() <= 1.0
    # Variational inequality against the vertices of the set: rank ones among zeros.
    vertex = np.zeros(len(values))
    vertex[np.argsort(values - kept)[::-1][:rank]] = 1.0
    assert (values - kept) @ (vertex - kept) <= 1e-9


@given(vectors, st.integers(1, 12))
def test_fantope_with_trace_at_most(values, rank):
    kept = fantope_eigenvalues(values, rank, at_most=True)
    assert kept.sum() <= rank + 1e-9
    if np.clip(values, 0, 1).sum() <= rank:
        np.testing.assert_array_equal(kept, np.clip(values, 0, 1))


@given(vectors, st.floats(0.01, 10))
def test_shared_level_spends_the_mass(values, mass):
    level = shared_level(values, mass)
    spent = np.maximum(values - level, 0.0).sum()
    assert level >= 0.0
    if level > 0.0:
        assert spent == pytest.approx(mass)
    else:
        assert spent <= mass * (1 + 1e-12)


@given(vectors.map(np.abs), st.floats(0.05, 5), st.floats(0.05, 5))
def test_shared_level_with_growth_minimises_a_squared_bound(values, penalty, step):
    def cost(s):
        return penalty * s**2 + 0.5 * step * np.sum(np.maximum(values - s, 0.0) ** 2)

    level = shared_level(values, 0.0, 2.0 * penalty / step)
    best = minimize_scalar(cost, bounds=(0, values.max() + 1), method="bounded").fun
    assert cost(level) <= best + 1e-9


@pytest.mark.parametrize("size", [3, 40, 120])
def test_partial_and_full_eigenpairs_agree(size):
    rng = np.random.default_rng(size)
    A = rng.normal(size=(size, size))
    A = A + A.T
    values, basis = top_eigenpairs(A, 3)
    np.testing.assert_allclose(values, np.sort(np.linalg.eigvalsh(A))[::-1][:3], rtol=1e-10)
    np.testing.assert_allclose(A @ basis, basis * values, atol=1e-9)
    assert ky_fan(A, 3) == pytest.approx(values.sum())
    assert spectral_norms(A[None])[0] == pytest.approx(np.linalg.norm(A, 2))


def test_all_eigenpairs():
    values, basis = top_eigenpairs(np.diag([1.0, 2.0]), 2)
    assert values.tolist() == [2.0, 1.0]
    assert basis.shape == (2, 2)


def test_complement_ignores_dependent_and_zero_directions():
    rng = np.random.default_rng(0)
    f = rng.normal(size=5)
    basis = complement_basis(np.array([f, 2 * f, np.zeros(5)]), 1e-10)
    assert basis.shape == (5, 4)
    np.testing.assert_allclose(basis.T @ f, 0, atol=1e-12)
    np.testing.assert_array_equal(complement_basis(np.zeros((0, 3)), 1e-10), np.eye(3))


def test_fix_signs():
    basis = fix_signs(np.array([[-3.0, 1.0], [1.0, 2.0]]))
    np.testing.assert_array_equal(basis, [[3.0, 1.0], [-1.0, 2.0]])


def test_blas_is_held_at_one_thread():
    with single_blas_thread():
        blas = [library for library in threadpool_info() if library["user_api"] == "blas"]
        assert blas
        assert all(library["num_threads"] == 1 for library in blas)


def blas_threads():
    blas = [library for library in threadpool_info() if library["user_api"] == "blas"]
    return [library["num_threads"] for library in blas]


def test_overlapping_threads_give_blas_its_threads_back():
    """First in, first out: the guard of the second must not restore what the first had set."""
    entered, may_leave = [Event(), Event()], [Event(), Event()]

    def hold(k):
        with single_blas_thread():
            entered[k].set()
            may_leave[k].wait(10)

    threads = [Thread(target=hold, args=(k,)) for k in (0, 1)]
    limits = threadpool_limits(limits=2, user_api="blas")
    release_control(force=True)  # or the threads could not change what this one has set
    before = blas_threads()
    try:
        for thread, event in zip(threads, entered, strict=True):
            thread.start()
            assert event.wait(10)
        may_leave[0].set()
        threads[0].join(10)
        inside = blas_threads()
        may_leave[1].set()
        threads[1].join(10)
        assert set(inside) == {1}
        assert blas_threads() == before
        assert 2 in before
    finally:
        limits.restore_original_limits()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_are_projected_in_blocks_as_they_would_be_at_once(dtype, order, monkeypatch):
    rng = np.random.default_rng(0)
    X = np.array(1000.0 + rng.normal(size=(101, 7)), dtype=dtype, order=order)
    mean, components = X.mean(axis=0, dtype=np.float64), rng.normal(size=(3, 7))
    monkeypatch.setattr("fairpca.linalg._CACHED_ENTRIES", 70)
    scores = project(X, mean, components, np.arange(1.0, 4.0))
    assert scores.dtype == dtype
    wanted = (X.astype(np.float64) - mean) @ components.T / np.arange(1.0, 4.0)
    np.testing.assert_allclose(scores, wanted, atol=1e-4 if dtype == np.float32 else 1e-12)
    assert project(X[:0], mean, components).shape == (0, 3)
