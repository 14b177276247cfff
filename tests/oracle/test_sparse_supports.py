"""Sparse components against all supports: the best of every choice of features."""

import itertools

import numpy as np
import pytest
import scipy.linalg

from fairpca.linalg import complement_basis
from fairpca.solvers._sparse import (
    SparseProblem,
    explained_variances,
    independent_rows,
    solve_sparse,
)

ANGLES = 45


def make_problem(seed, p, d, k):
    """Correlated or nearly uncorrelated features in two groups, in turn."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(1 + seed % 4, p)) * (0.3, 1.0, 2.0)[seed % 3]
    X = rng.normal(size=(300, len(factors))) @ factors + rng.normal(size=(300, p))
    group = rng.integers(0, 2, 300)
    X += np.outer(group, rng.normal(size=p))
    X = (X - X.mean(0)) / X.std(0)
    gap = X[group == 1].mean(0) - X[group == 0].mean(0)
    F = independent_rows(gap[None], 1e-11)
    return SparseProblem.pose(np.cov(X.T, bias=True), F, np.zeros((0, p, p)), d, k)


def best_single(problem):
    """One component: a generalised eigenproblem for every support."""
    best = 0.0
    for support in itertools.combinations(range(len(problem.S)), problem.k):
        at = np.ix_(support, support)
        N = complement_basis(problem.F[:, support], 1e-12)
        pair = (N.T @ matrix[at] @ N for matrix in (problem.S @ problem.S, problem.S))
        best = max(best, scipy.linalg.eigvalsh(*pair)[-1])
    return best


def best_pair(problem):
    """Two components of three features: all directions of the first, and what fits the second.

    A first component on a support is a point of a half circle. Equal means and no correlation then
    leave one direction on each support of the second: the cross product of both constraints.
    """
    S, square, f = problem.S, problem.S @ problem.S, problem.F[0]
    supports = np.array(list(itertools.combinations(range(len(S)), 3)))
    at = supports[:, :, None], supports[:, None, :]
    gaps = f[supports]

    def evaluate(support, angles):
        N = complement_basis(f[None, support], 1e-12)
        u = N @ np.array([np.cos(angles), np.sin(angles)])
        first = np.sum(u * (square[np.ix_(support, support)] @ u), 0)
        first = first / np.sum(u * (S[np.ix_(support, support)] @ u), 0)
        constraint = (S[:, support] @ u)[supports]  # (n, 3, angles)
        w = np.cross(gaps[:, :, None], constraint, axis=1)
        second = np.einsum("nia,nij,nja->na", w, square[at], w)
        return first + second / np.maximum(np.einsum("nia,nij,nja->na", w, S[at], w), 1e-9)

    best = 0.0
    for support in supports:
        angles, width = np.linspace(0, np.pi, ANGLES, endpoint=False), np.pi / ANGLES
        while width > 1e-5:
            values = evaluate(support, angles).max(axis=0)
            if values.max() < 0.98 * best:
                break
            best = max(best, values.max())
            angles = angles[np.argmax(values)] + np.linspace(-width, width, 21)
            width /= 10
    return best


# Other seeds than those on which the constants of the search were chosen.
CASES = [(seed, 8 + seed % 5, 1, 2 + seed % 4) for seed in range(5000, 5070)]
CASES += [(seed, 6 + seed % 4, 2, 3) for seed in range(7000, 7050)]


@pytest.mark.parametrize("cases", [CASES[::3], pytest.param(CASES, marks=pytest.mark.slow)])
def test_the_best_of_all_supports_is_found(cases):
    shares = []
    for seed, p, d, k in cases:
        problem = make_problem(seed, p, d, k)
        components = solve_sparse(problem).V
        best = best_single(problem) if d == 1 else best_pair(problem)
        shares.append(sum(explained_variances(problem.S, components)) / best)
    shares = np.array(shares)
    assert shares.max() < 1 + 1e-4  # the oracle's grid of angles
    assert np.mean(shares > 0.999) >= 0.95
    assert shares.min() > 0.99
