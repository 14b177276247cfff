"""The solvers of the baselines against generic ones on small problems."""

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.svm import SVC

from reproduction.calmon import CalmonPreprocessor, Cells, solve_mapping
from reproduction.fair_svm import FairSVM, HingeProblem, solve_hinge, with_tangents


def small_data(seed, n=150, p=4):
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 2, n)
    X = rng.normal(size=(n, p))
    X[z == 1] = X[z == 1] @ (np.eye(p) + 0.4 * rng.normal(size=(p, p))) + 0.3
    y = (X[:, 0] + X[:, 1] + 0.5 * rng.normal(size=n) > 0).astype(int)
    return X, y, z


def random_problem(seed, penalty):
    rng = np.random.default_rng(seed)
    X, y, _ = small_data(seed)
    rows = (2.0 * y - 1.0)[:, None] * np.column_stack([X, np.ones(len(X))])
    p = X.shape[1]
    halves = [a @ a.T for a in rng.normal(size=(2, p, 2))]
    empty = (np.empty((0, p, p)), np.empty((0, p)), np.empty(0))
    problem = HingeProblem(rows, 0.01, penalty, *empty)
    return with_tangents(problem, *halves, rng.normal(size=p))


def quadratics(problem):
    return zip(problem.matrices, problem.slopes, problem.constants, strict=True)


def solve_with_cvxpy(problem):
    v, b, t = cp.Variable(problem.rows.shape[1] - 1), cp.Variable(), cp.Variable()
    margins = problem.rows[:, :-1] @ v + problem.rows[:, -1] * b
    objective = cp.sum(cp.pos(1 - margins)) / len(problem.rows)
    objective += problem.alpha * cp.sum_squares(v)
    constraints = []
    if problem.penalty > 0:
        objective += problem.penalty * t
        constraints = [
            cp.quad_form(v, cp.psd_wrap(A)) - 2 * slope @ v + constant <= t
            for A, slope, constant in quadratics(problem)
        ]
    cp.Problem(cp.Minimize(objective), constraints).solve(solver=cp.CLARABEL)
    return v.value, objective.value


def value_of(problem, x):
    v = x[:-1]
    value = np.maximum(1 - problem.rows @ x, 0).mean() + problem.alpha * v @ v
    if problem.penalty > 0:
        value += problem.penalty * max(v @ A @ v - 2 * s @ v + k for A, s, k in quadratics(problem))
    return value


@pytest.mark.parametrize("penalty", [0.0, 0.05, 3.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_convex_problem_against_clarabel(penalty, seed):
    problem = random_problem(seed, penalty)
    ours = solve_hinge(problem)
    weights, value = solve_with_cvxpy(problem)
    assert ours.converged
    assert value_of(problem, ours.x) == pytest.approx(value, abs=2e-6)
    np.testing.assert_allclose(ours.x[:-1], weights, atol=2e-3)


def test_without_groups_it_is_libsvm():
    X, y, _ = small_data(3)
    alpha = 0.01
    ours = FairSVM(alpha).fit(X, y)
    theirs = SVC(kernel="linear", C=1 / (2 * alpha * len(X)), tol=1e-9).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_[0], atol=1e-4)


def test_mean_constraint_against_clarabel():
    X, y, z = small_data(4)
    ours = FairSVM(0.01, cov_weight=0.0).fit(X, y, z)
    gap = X[z == 1].mean(0) - X[z == 0].mean(0)
    v, b = cp.Variable(X.shape[1]), cp.Variable()
    loss = cp.sum(cp.pos(1 - cp.multiply(2 * y - 1, X @ v + b))) / len(X)
    problem = cp.Problem(cp.Minimize(loss + 0.01 * cp.sum_squares(v)), [gap @ v == 0])
    problem.solve(solver=cp.CLARABEL)
    assert ours.objective_ == pytest.approx(problem.value, abs=1e-6)
    np.testing.assert_allclose(ours.coef_, v.value, atol=1e-3)


def test_convex_concave_is_stationary_and_better_than_its_start():
    X, y, z = small_data(5)
    plain = FairSVM(0.01, cov_weight=0.0).fit(X, y, z)
    ours = FairSVM(0.01, cov_weight=0.5, tol=1e-10).fit(X, y, z)
    assert ours.objective_ <= plain.objective_ + 0.5 * plain.cov_gap_
    assert ours.cov_gap_ < plain.cov_gap_


def random_cells(seed, *, n=300, bins=3, shift=0.6):
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 2, n)
    codes = rng.integers(0, bins, (n, 2))
    y = (rng.uniform(size=n) < 0.3 + shift * 0.5 * z + 0.1 * (codes[:, 0] > 0)).astype(int)
    cells, cell = np.unique(np.column_stack([codes, y]), axis=0, return_inverse=True)
    sources, source = np.unique(np.column_stack([cell, z]), axis=0, return_inverse=True)
    mass = np.bincount(source) / n
    return Cells(cells[:, :-1], cells[:, -1], sources[:, 0], sources[:, 1], mass)


def full_program(cells, distortion_bound, parity_bound):
    """One variable for each pair of a source and a cell: deviation, or None."""
    S, T = len(cells.mass), len(cells.bins)
    apart = np.abs(cells.bins[:, None] - cells.bins[None]).max(-1)
    same = cells.labels[:, None] == cells.labels[None]
    distortion = np.where(same & (apart == 0), 0.0, np.where(same & (apart <= 1), 0.5, 1.0))
    cost = np.concatenate([np.zeros(S * T), np.full(2 * T, 0.5)])
    equal = np.zeros((S + T, S * T + 2 * T))
    upper, right = np.zeros((T, S * T + 2 * T)), distortion_bound * cells.cell_mass
    for s in range(S):
        block = slice(s * T, (s + 1) * T)
        equal[s, block] = 1.0
        equal[S:, block] = np.eye(T)
        upper[cells.cell[s], block] = distortion[cells.cell[s]]
    equal[S:, S * T : S * T + T], equal[S:, S * T + T :] = -np.eye(T), np.eye(T)
    rows, bounds = [], []
    for group in range(cells.n_groups):
        for label in (0, 1):
            row = np.zeros(S * T + 2 * T)
            row[: S * T] = np.outer(cells.group == group, cells.labels == label).ravel()
            share = cells.mass[cells.group == group].sum()
            share *= cells.cell_mass[cells.labels == label].sum()
            rows += [row, -row]
            bounds += [(1 + parity_bound) * share, -(1 - parity_bound) * share]
    result = linprog(
        cost,
        A_ub=np.vstack([upper, rows]),
        b_ub=np.concatenate([right, bounds]),
        A_eq=equal,
        b_eq=np.concatenate([cells.mass, cells.cell_mass]),
    )
    return None if result.status == 2 else result.fun


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("distortion_bound", [0.1, 0.2, 0.35])
def test_pooled_program_against_all_pairs(seed, distortion_bound):
    cells = random_cells(seed, shift=0.2 + 0.2 * seed)
    mapping, bound = solve_mapping(cells, distortion_bound, 0.1)
    expected = full_program(cells, bound, 0.1)
    assert mapping.deviation == pytest.approx(expected, abs=2e-3)
    assert_feasible(cells, mapping, bound, 0.1)
    feasible = full_program(cells, distortion_bound, 0.1) is not None
    assert feasible == (bound == distortion_bound)
    if not feasible:  # the bound was raised, and not further than it had to be
        assert full_program(cells, bound - 2e-4, 0.1) is None


def assert_feasible(cells, mapping, distortion_bound, parity_bound):
    full = mapping.near.toarray() + mapping.far[:, None] * mapping.pool[cells.group]
    np.testing.assert_allclose(full.sum(axis=1), 1.0)
    apart = np.abs(cells.bins[:, None] - cells.bins[None]).max(-1)
    same = cells.labels[:, None] == cells.labels[None]
    distortion = np.where(same & (apart == 0), 0.0, np.where(same & (apart <= 1), 0.5, 1.0))
    spent = cells.mass * (full * distortion[cells.cell]).sum(axis=1)
    each = np.bincount(cells.cell, spent) / cells.cell_mass
    assert each.max() <= distortion_bound + 1e-6
    positive = full @ cells.labels
    overall = cells.cell_mass @ cells.labels
    for group in range(cells.n_groups):
        mine = cells.group == group
        share = cells.mass[mine] @ positive[mine] / cells.mass[mine].sum()
        assert abs(share / overall - 1) <= parity_bound + 1e-6
        assert abs((1 - share) / (1 - overall) - 1) <= parity_bound + 1e-6


def test_estimator_meets_its_bounds():
    rng = np.random.default_rng(0)
    z = rng.integers(0, 2, 2000)
    X = rng.normal(size=(2000, 5)) + np.outer(z, [0.6, 0, 0, 0, 0])
    y = (X[:, 0] + X[:, 1] + rng.normal(size=2000) > 0).astype(int)
    calmon = CalmonPreprocessor(distortion_bound=0.2, parity_bound=0.15).fit(X, y, z)
    assert_feasible(calmon.cells_, calmon.mapping_, 0.2, 0.15)
