"""Random groups, of which the one with the worst value counts: bounds, tables and constraints.

python tests/fuzz --tries 10000   runs it with the other campaigns
"""

from dataclasses import replace

import numpy as np
import pytest
from fuzzing import campaign

from fairpca.exceptions import InfeasibleError
from fairpca.solvers import FairProblem, solve


def make_groups(rng, p):
    """Covariances of any rank, size and likeness."""
    n_groups = int(rng.choice([1, 2, 2, 3, 4, 6, 12]))
    scale = 10.0 ** rng.uniform(-1, 1, (n_groups, 1, p)) * 10.0 ** rng.choice([0.0, 0.0, -4.0, 4.0])
    groups = []
    for g in range(n_groups):
        rows = rng.normal(size=(int(rng.integers(1, 3 * p + 2)), p)) * scale[g]
        groups.append(rows.T @ rows / len(rows))
    groups = np.array(groups)
    if rng.random() < 0.15:
        groups[:] = groups[0]  # all alike
    if rng.random() < 0.15:
        groups[-1] = 0.0
    if rng.random() < 0.2:  # eigenvalues that cross exactly
        groups = np.array([np.diag(rng.integers(0, 3, p)).astype(float) for _ in groups])
    return groups


def make_problem(rng, groups, d):
    p, S = groups.shape[-1], groups.mean(axis=0)
    unit = float(np.trace(S)) / p
    if rng.random() < 0.5:
        empty = np.zeros((0, p)), np.zeros((0, p, p))
        return FairProblem(S, *empty, d, mean_tol=None, cov_weight=0.0)
    means = rng.normal(size=(int(rng.integers(0, 3)), p)) * np.sqrt(unit)
    gaps = groups[1:] - groups[:1] if rng.random() < 0.6 else np.zeros((0, p, p))
    options = {"cov_weight": float(rng.choice([0.0, 0.1, 1.0, 10.0]))}
    if rng.random() < 0.3:
        options = {"cov_tol": 10.0 ** rng.uniform(-1, 1) * unit}
    mean_tol = rng.choice([0.0, None, 10.0 ** rng.uniform(-2, 1) * np.sqrt(unit)])
    return FairProblem(S, means, gaps, d, mean_tol=mean_tol, **options)


def judge(problem, groups, offsets, V):
    """Objective and relative violation of a basis, from the definition."""
    value = (np.einsum("gij,ij->g", groups @ V, V) - offsets).min()
    gap = max((np.linalg.norm(V.T @ Q @ V, 2) for Q in problem.cov_gaps), default=0.0)
    mean = max((np.linalg.norm(V.T @ f) for f in problem.mean_gaps), default=0.0)
    unit = float(np.trace(problem.covariance)) or 1.0
    violation = 0.0
    if problem.mean_tol is not None:
        violation = (mean - problem.mean_tol) / np.sqrt(unit)
    if problem.cov_tol is not None:
        return value, max(violation, (gap - problem.cov_tol) / unit)
    return value - problem.cov_weight * gap, violation


def room_of(problem):
    if problem.mean_tol != 0.0 or not len(problem.mean_gaps):
        return np.eye(len(problem.covariance))
    rank = np.linalg.matrix_rank(problem.mean_gaps)
    return np.linalg.svd(problem.mean_gaps)[2][rank:].T


def attempt(rng):
    p = int(rng.integers(1, 10))
    d, groups = int(rng.integers(1, p + 1)), make_groups(rng, p)
    problem = make_problem(rng, groups, d)
    offsets = np.zeros(len(groups))
    if rng.random() < 0.6:
        offsets = np.linalg.eigvalsh(groups)[:, p - d :].sum(axis=1)
    try:
        found = solve(replace(problem, group_covariances=groups, group_offsets=offsets))
    except InfeasibleError:
        return
    certificate, V = found.certificate, found.basis
    size = max(float(np.trace(groups, axis1=1, axis2=2).max()), abs(certificate.objective), 1e-300)
    value, violation = judge(problem, groups, offsets, V)
    assert np.allclose(V.T @ V, np.eye(d), atol=1e-9), "not orthonormal"
    assert violation <= 1e-6, "outside its constraints"
    assert abs(value - certificate.objective) <= 1e-8 * size, "wrong objective"
    assert certificate.bound >= certificate.objective, "bound below its own basis"
    assert np.isfinite([certificate.bound, certificate.relaxed_objective]).all(), "not finite"
    assert abs(found.weights.sum() - 1.0) <= 1e-9, "weights do not sum to one"
    assert found.weights.min() >= 0.0, "a negative weight"
    is_pure = problem.mean_tol is None and problem.cov_weight == 0.0 and problem.cov_tol is None
    if is_pure and len(groups) <= 2:
        room = 1e-6 * abs(certificate.bound) + 1e-10 * size
        assert certificate.bound - certificate.objective <= room, "two groups are not exact"
    N = room_of(problem)
    for _ in range(40 if N.shape[1] >= d else 0):
        other = N @ np.linalg.qr(rng.normal(size=(N.shape[1], d)))[0]
        value, violation = judge(problem, groups, offsets, other)
        if violation <= 0.0:
            assert value <= certificate.bound + 1e-8 * size, "bound below a feasible basis"


def run(tries, seed):
    return campaign(attempt, tries, seed)


@pytest.mark.parametrize(
    ("tries", "seed"), [(12, 20_261_116), pytest.param(200, 2, marks=pytest.mark.slow)]
)
def test_random_groups(tries, seed):
    assert run(tries, seed) == {}


def test_a_basis_a_rounding_outside_its_limit_is_not_better_than_its_bound():
    attempt(np.random.default_rng([2026111800005, 2]))
