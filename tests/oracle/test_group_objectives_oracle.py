"""The relaxed optimum of the smallest group objective against an interior-point solver."""

import numpy as np
import pytest

from fairpca.linalg import top_eigenpairs
from fairpca.solvers import FairProblem, solve

cp = pytest.importorskip("cvxpy", reason="the reference extra is not installed")


def random_covariances(seed, n_groups, size):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n_groups, 60, size)) * rng.uniform(0.3, 2.0, (n_groups, 1, size))
    rows = rows @ np.linalg.qr(rng.normal(size=(n_groups, size, size)))[0]
    return np.array([np.cov(X.T, bias=True) for X in rows])


def clarabel(groups, offsets, d):
    size = groups.shape[-1]
    P, t = cp.Variable((size, size), symmetric=True), cp.Variable()
    constraints = [P >> 0, np.eye(size) - P >> 0, cp.trace(P) == d]
    constraints += [
        cp.trace(S @ P) - offset >= t for S, offset in zip(groups, offsets, strict=True)
    ]
    problem = cp.Problem(cp.Maximize(t), constraints)
    problem.solve(solver=cp.CLARABEL)
    assert problem.status == cp.OPTIMAL
    return problem.value


@pytest.mark.parametrize("objective", ["worst-variance", "worst-loss"])
@pytest.mark.parametrize(
    ("n_groups", "size", "d"),
    [(2, 6, 1), (2, 20, 4), (3, 8, 2), (3, 20, 3), (4, 12, 5), (5, 15, 2), (6, 20, 3), (6, 20, 10)],
)
def test_relaxed_optimum(n_groups, size, d, objective):
    groups = random_covariances(size + n_groups, n_groups, size)
    offsets = np.zeros(n_groups)
    if objective == "worst-loss":
        offsets = np.array([top_eigenpairs(S, d)[0].sum() for S in groups])
    empty = np.zeros((0, size)), np.zeros((0, size, size))
    problem = FairProblem(
        groups.mean(axis=0),
        *empty,
        d,
        mean_tol=None,
        cov_weight=0.0,
        group_covariances=groups,
        group_offsets=offsets,
    )
    certificate = solve(problem, tol=1e-6).certificate
    reference = clarabel(groups, offsets, d)
    assert certificate.bound == pytest.approx(reference, rel=1e-5)
    assert certificate.relaxed_objective == pytest.approx(reference, rel=1e-5)
    assert certificate.duality_gap <= 1e-6
    if n_groups == 2:
        assert certificate.gap <= 1e-6


@pytest.mark.parametrize("objective", ["worst-variance", "worst-loss"])
def test_equal_means_only_restrict_the_space(objective):
    size, d, groups = 10, 3, random_covariances(0, 4, 10)
    f = np.random.default_rng(1).normal(size=(2, size))
    N = np.linalg.svd(f)[2][2:].T
    offsets = np.zeros(4)
    if objective == "worst-loss":  # own bests are those of all features
        offsets = np.array([top_eigenpairs(S, d)[0].sum() for S in groups])
    problem = FairProblem(
        groups.mean(axis=0),
        f,
        np.zeros((0, size, size)),
        d,
        cov_weight=0.0,
        group_covariances=groups,
        group_offsets=offsets,
    )
    found = solve(problem, tol=1e-6)
    assert np.abs(f @ found.basis).max() < 1e-12
    reference = clarabel(N.T @ groups @ N, offsets, d)
    assert found.certificate.bound == pytest.approx(reference, rel=1e-5)
