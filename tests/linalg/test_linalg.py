from functools import partial
from threading import Event, Thread

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize_scalar
from threadpoolctl import threadpool_info, threadpool_limits

from fairpca import FairPCA
from fairpca.estimators import _comparison
from fairpca.linalg import (
    complement_basis,
    divergence,
    fantope_eigenvalues,
    fix_signs,
    gaussian_delta,
    ky_fan,
    project,
    release_control,
    shared_level,
    shrink_means,
    single_blas_thread,
    spectral_norms,
    top_eigenpairs,
    varimax,
)
from fairpca.moments import FoldedMoments

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


def test_one_column_is_not_rotated():
    loadings = -np.arange(1.0, 5.0)[:, None]
    np.testing.assert_array_equal(varimax(loadings), np.eye(1))


def varimax_criterion(L):
    return np.var(L**2, axis=0).sum()


def test_varimax_is_as_good_as_every_angle():
    loadings = np.random.default_rng(0).normal(size=(7, 2)) * [2.0, 1.0]
    R = varimax(loadings)
    np.testing.assert_allclose(R.T @ R, np.eye(2), atol=1e-12)
    c, s = np.cos(np.linspace(0, np.pi / 2, 500)), np.sin(np.linspace(0, np.pi / 2, 500))
    turned = np.einsum("pd,dek->kpe", loadings, np.array([[c, -s], [s, c]]))
    best = max(map(varimax_criterion, turned))
    assert best * (1 - 1e-4) <= varimax_criterion(loadings @ R) >= best - 1e-12
    for few in (1, 2, 5):  # every step is one up
        last = varimax_criterion(loadings @ varimax(loadings, max_iter=few))
        assert last <= varimax_criterion(loadings @ varimax(loadings, max_iter=few + 1)) + 1e-12


@pytest.mark.parametrize("seed", range(4))
def test_the_divergence_is_the_largest_over_all_directions(seed):
    rng = np.random.default_rng(seed)
    A, B, unit = rng.normal(size=(2, 4)), rng.normal(size=(2, 4)), 10.0 ** rng.uniform(-6, 6)
    cov, other, gap = A @ A.T * unit**2, B @ B.T * unit**2, rng.normal(size=2) * unit
    turns = np.linspace(0.0, np.pi, 20001)
    w = np.array([np.cos(turns), np.sin(turns)])
    size = np.sum(w * (other @ w), axis=0)
    r = np.sum(w * (cov @ w), axis=0) / size
    expected = (r - np.log(r) - 1.0 + (gap @ w) ** 2 / size).max()
    assert divergence(gap, cov, other) == pytest.approx(expected, rel=1e-6)
    both = min(divergence(gap, cov, other), divergence(gap, other, cov))
    assert gaussian_delta(gap, cov, other) == pytest.approx(0.5 * np.sqrt(both))


def test_the_divergence_in_directions_in_which_nothing_varies():
    flat, round_, none, step = np.diag([1.0, 0.0]), np.eye(2), np.zeros(2), np.array([0.0, 1.0])
    assert divergence(none, flat, flat) == pytest.approx(0.0, abs=1e-12)
    assert divergence(none, round_, flat) == divergence(none, flat, round_) == np.inf
    assert divergence(step, flat, flat) == divergence(step, 0 * flat, 0 * flat) == np.inf
    assert divergence(none, 0 * flat, 0 * flat) == gaussian_delta(none, 0 * flat, 0 * flat) == 0.0
    # A hundred-millionth is a variance, and rounding is none.
    small, rounding = np.diag([1.0, 1e-8]), np.diag([1.0, 1e-14])
    assert divergence(none, small, round_) == pytest.approx(1e-8 - np.log(1e-8) - 1.0)
    assert divergence(none, rounding, round_) == np.inf


@pytest.mark.parametrize(("limit", "inside"), [(1e6, True), (0.3, False), (0.0, False)])
def test_means_are_shrunk_to_their_limit_and_no_further(limit, inside):
    rng = np.random.default_rng(3)
    F, V = rng.normal(size=(2, 6)), np.linalg.qr(rng.normal(size=(6, 3)))[0]
    found = shrink_means(F, limit, V)
    assert (found is V) == inside
    np.testing.assert_allclose(found.T @ found, np.eye(3), atol=1e-12)
    used = np.sum((F @ found) ** 2, axis=1).max()
    assert used <= limit + 1e-28
    assert inside or used >= limit * (1 - 1e-9)


def test_means_stay_where_what_is_left_would_be_no_basis():
    F, V = np.eye(4)[:2], np.eye(4)[:, 1:]
    assert shrink_means(F, 0.0, V) is V  # three columns, and two dimensions without means
    W = np.linalg.qr(np.array([[1.0], [0.0], [1e-4], [0.0]]))[0]
    assert shrink_means(F, 0.0, W) is W  # next to nothing of it is outside
    np.testing.assert_allclose(np.abs(shrink_means(F, 0.0, W, least=1e-5)[2]), 1.0)
    assert shrink_means(F[:0], 0.0, V) is V


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


def test_figures_on_folds_and_forecasts_keep_blas_at_one_thread(monkeypatch):
    # A page of 1,000 rows took three times the processor time with two threads.
    seen = []

    def watched(*_, **__):
        seen.append(blas_threads())
        raise StopIteration

    X, z = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    model = FairPCA(1).fit(X, sensitive_features=z)
    monkeypatch.setattr(_comparison, "_measure", watched)
    monkeypatch.setattr(_comparison, "_refit", watched)
    with threadpool_limits(limits=2, user_api="blas"):
        release_control(force=True)
        for call in (
            partial(_comparison.measure_held_out, model, FoldedMoments.from_arrays(X, z, folds=2)),
            model.expected_gaps,
        ):
            with pytest.raises(StopIteration):
                call()
    assert seen == [[1] * len(one) for one in seen]
    assert len(seen) == 2
