"""Sparse components against slow ones: derivatives, optima on a support, brute force, limits."""

from itertools import combinations

import numpy as np
import pytest
import scipy.linalg
from support import random_problem

from fairpca.linalg import complement_basis
from fairpca.solvers._sparse import (
    SparseProblem,
    _solve_sets,
    _SupportSets,
    explained_bound,
    explained_variances,
    independent_rows,
    solve_path,
    solve_sparse,
    whitened_gap,
)

SUPPORTS = np.array([[[0, 1, 2, 3], [2, 3, 4, 5]], [[0, 2, 4, 6], [1, 3, 5, 6]]])


def posed(seed=0, p=7, k=4, d=2, n_means=1, **options):
    """A problem with two covariance gaps and some independent mean gaps."""
    made = random_problem(seed, p, 2, 1)
    F = independent_rows(made.mean_gaps[:n_means], 1e-12)
    return SparseProblem.pose(made.covariance, F, made.cov_gaps, d, k, **options)


def slope(function, y, step=1e-6):
    """Central differences of a function of a vector, by its last axis."""
    moves = step * np.eye(len(y))
    return np.stack([(function(y + e) - function(y - e)) / (2 * step) for e in moves], axis=-1)


def explained(S, V):
    """Variance of all features that a regression on the scores explains."""
    return np.trace(np.linalg.solve(V.T @ S @ V, V.T @ S @ S @ V))


def start(sets, seed=0):
    y = np.random.default_rng(seed).normal(size=sets.M.shape[:1] + sets.M.shape[-1:])
    return sets._unit(y)


def test_gradients_of_the_constraints_are_their_derivatives():
    sets = _SupportSets(posed(d=3), np.concatenate([SUPPORTS, SUPPORTS[:, :1] + 1], axis=1) % 7)
    y = start(sets)
    J, residual = sets.constraints(y)
    for n in range(len(y)):
        G = sets.E[n] @ (y[n][:, None] * sets.one_hot)
        lacking = (G.T @ sets.problem.S @ G - np.eye(3))[sets.pairs]
        half = np.where(sets.pairs[0] == sets.pairs[1], 0.5, 1.0)
        np.testing.assert_allclose(residual[n], half * lacking, atol=1e-10)

        def of_one(part, n=n):
            return sets.constraints(np.where(np.arange(len(y))[:, None] == n, part, y))[1][n]

        np.testing.assert_allclose(J[n], slope(of_one, y[n]), atol=1e-7)


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("duals", [0.0, 0.3])
def test_what_exceeds_a_limit_has_its_gradient_and_a_matrix_above_its_hessian(d, duals):
    means = random_problem(1, 7, 2, 1).mean_gaps
    problem = posed(d=d, n_means=0, limit=0.1, means=means, mean_limit=0.2)
    sets, penalty = _SupportSets(problem, SUPPORTS[:, :d]), 7.0
    y = start(sets)
    parts = sets._penalised(y[None], duals * np.eye(d), penalty)
    new, gradient, curvature = parts[0][:, 0], parts[1][0], parts[2][0]

    def cost(part, n):
        Y = part[:, None] * sets.one_hot
        z = np.linalg.eigvalsh(Y.T @ sets.B[:, 0, n] @ Y + duals / penalty * np.eye(d))
        return penalty / 4.0 * np.sum(np.maximum(z, 0.0) ** 2)

    for n, part in enumerate(y):
        numeric = slope(lambda x, n=n: cost(x, n), part)
        np.testing.assert_allclose(gradient[n], numeric, rtol=1e-5, atol=1e-7)
        hessian = slope(lambda x, n=n: slope(lambda v: cost(v, n), x, 1e-4), part, 1e-4)
        if d == 1:
            np.testing.assert_allclose(curvature[n], hessian, rtol=1e-4, atol=1e-4)
        above = np.linalg.eigvalsh(curvature[n] - hessian)
        assert above.min() > -1e-3 * abs(above).max() - 1e-4
    assert np.linalg.eigvalsh(new).min() > -1e-12
    if not duals:
        Y = y[..., None] * sets.one_hot
        values = np.linalg.eigvalsh(np.swapaxes(Y, -1, -2) @ sets.B[:, 0] @ Y)
        np.testing.assert_allclose(
            np.linalg.eigvalsh(new), penalty * np.maximum(values, 0.0), atol=1e-9
        )


def test_limits_are_those_of_gaps_and_of_means():
    means = random_problem(1, 7, 2, 1).mean_gaps
    problem = posed(n_means=0, limit=0.3, means=means, mean_limit=0.2)
    sets = _SupportSets(problem, SUPPORTS)
    y = start(sets)
    V, Y = sets.lift(y), y[..., None] * sets.one_hot
    forms = np.swapaxes(Y, -1, -2) @ sets.B[:, 0] @ Y
    for n, W in enumerate(V):
        inside = 0.98 * 0.3 * W.T @ problem.S @ W
        for c, Q in enumerate(problem.Q):
            np.testing.assert_allclose(forms[2 * c, n], W.T @ Q @ W - inside, atol=1e-10)
            np.testing.assert_allclose(forms[2 * c + 1, n], -W.T @ Q @ W - inside, atol=1e-10)
        for c, f in enumerate(means):
            of_each = (f @ W) ** 2 - (0.98 * 0.2) ** 2 / 2.0 * np.sum(W**2, axis=0)
            np.testing.assert_allclose(forms[4 + c, n], np.diag(of_each), atol=1e-10)


@pytest.mark.parametrize(("n_means", "k"), [(0, 4), (1, 4), (2, 4), (1, 3), (2, 3)])
def test_components_on_a_support_are_optimal_there(n_means, k):
    problem = posed(3, k=k, n_means=n_means)
    supports = SUPPORTS[..., :k]
    V = np.stack([problem.dense] * 2)
    sets = _SupportSets(problem, supports)
    _, values = sets.solve(np.stack([sets.near(V)]))
    states = _solve_sets(problem, supports, V)
    for n, state in enumerate(states):
        assert state.value >= values[0, n] * (1.0 - 1e-12)
        W = state.V
        outside = np.ones_like(W, dtype=bool)
        outside[supports[n].T, np.arange(2)] = False
        assert not W[outside].any()
        assert np.abs(problem.F @ W).max(initial=0.0) < 1e-10
        np.testing.assert_allclose(np.sum(W * (problem.S @ W), axis=0), 1.0, atol=1e-6)
        correlation = (W.T @ problem.S @ W)[0, 1]
        if problem.is_uncorrelated:
            assert abs(correlation) < 1e-8
            assert state.value == pytest.approx(explained(problem.S, W), rel=1e-8)
        else:  # what each explains, less what a correlation costs
            alone = np.sum((problem.S @ W) ** 2)
            cost = 2.0 * problem.bound / 2.0 * correlation**2
            assert state.value == pytest.approx(alone - cost, rel=1e-6)
        # Where the Lagrangian is stationary, the gradient is a combination of the constraints'.
        own = np.sum(sets.E[n] * (problem.S @ W)[:, sets.column], axis=0)
        own = sets._unit(own)
        gradient = (sets.inner[n] @ own[None].T)[:, 0]
        J, residual = (part[n] for part in sets.constraints(np.stack([own] * 2)))
        free = gradient
        if not problem.is_uncorrelated:
            free = gradient - J[1] * residual[1] * 2.0
            J = J[[0, 2]]
        left = free - J.T @ np.linalg.lstsq(J.T, free, rcond=None)[0]
        assert np.linalg.norm(left) < 1e-4 * np.linalg.norm(gradient)


@pytest.mark.parametrize("n_means", [0, 1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_one_component_is_that_of_the_best_support(seed, n_means):
    problem = posed(seed, p=7, k=3, d=1, n_means=n_means)
    values = []
    for some in map(list, combinations(range(7), 3)):
        N = complement_basis(problem.F[:, some], 1e-12)
        pair = (N.T @ matrix[np.ix_(some, some)] @ N for matrix in (problem.square, problem.S))
        values.append(scipy.linalg.eigvalsh(*pair)[-1])
    best = solve_sparse(problem)
    assert best.value == pytest.approx(max(values), rel=1e-9)
    assert best.value == pytest.approx(explained(problem.S, best.V), rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_two_components_are_those_of_the_best_supports(seed):
    problem = posed(seed, p=6, k=3, n_means=1)
    some = list(combinations(range(6), 3))
    pairs = np.array([(one, other) for one in some for other in some])
    states = _solve_sets(problem, pairs, np.stack([problem.dense] * len(pairs)))
    best = solve_sparse(problem)
    assert best.value >= max(state.value for state in states) * (1.0 - 1e-6)
    assert best.value <= problem.bound * (1.0 + 1e-12)


SETS = np.array(
    [[[0, 1, 2, 3], [2, 4, 5, 6]], [[0, 2, 4, 7], [1, 3, 5, 7]], [[1, 2, 3, 6], [0, 4, 5, 7]]]
)
# Seed, components, places, mean gaps and the limits; what was reached on each of the sets. What
# exceeds a limit has a negative value.
REACHED = {
    (0, 1, 3, 1, 0.3, None): (1.89062, 2.04052, 1.83391),
    (0, 2, 4, 1, 0.6, None): (3.98439, 4.06102, 4.46692),
    (0, 2, 4, 0, None, 0.2): (4.01508, 4.19352, 4.47678),
    (0, 2, 4, 0, 0.3, 0.2): (-1.30909, 4.05161, 4.01312),
    (0, 2, 3, 0, 0.3, 0.2): (3.2353, 3.09829, -1.49409),
    (0, 2, 3, 1, None, None): (3.27412, 3.57522, 4.08623),
    (0, 2, 3, 1, 0.6, None): (3.27412, 3.57522, -1.54468),
    (1, 2, 4, 1, 0.3, None): (-4.2, 4.27586, 4.30966),
    (1, 2, 4, 0, None, 0.2): (4.07566, 4.025, 4.67356),
    (1, 2, 3, 0, None, None): (4.27957, 3.9414, 4.28337),
    (1, 2, 3, 0, 0.3, None): (4.07808, 3.94081, 4.17825),
    (1, 2, 3, 0, 0.6, 0.2): (3.83329, -2.10815, -1.38381),
}


@pytest.mark.parametrize(("seed", "d", "k", "n_means", "limit", "mean_limit"), REACHED)
def test_nothing_is_lost_on_a_support(seed, d, k, n_means, limit, mean_limit):
    problem = limited(seed, d, k, n_means, limit, mean_limit)
    states = _solve_sets(problem, SETS[:, :d, :k], np.stack([problem.dense] * len(SETS)))
    reached = REACHED[seed, d, k, n_means, limit, mean_limit]
    for state, value in zip(states, reached, strict=True):
        assert state.value >= value - 1e-4 * abs(value)
        over = problem.excess(state.V)
        assert (over == 0.0) == (state.value > 0.0)
        if over and problem.is_uncorrelated:  # worth less than anything within the limits
            worth = explained(problem.S, state.V) - (1.0 + 10.0 * over) * problem.bound
            assert state.value == pytest.approx(worth, rel=1e-6)
        assert np.abs(problem.F @ state.V).max(initial=0.0) < 1e-9


@pytest.mark.parametrize(
    ("limit", "mean_limit", "value"), [(0.118, None, 3.30117), (0.276, 0.1, 4.337)]
)
def test_nothing_is_lost_by_the_search_under_a_limit(limit, mean_limit, value):
    problem = limited(0, 2, 5, 0, limit, mean_limit)
    state = solve_sparse(problem)
    assert state.value >= value * (1.0 - 1e-4)
    assert problem.excess(state.V) == 0.0
    assert whitened_gap(problem.S, problem.Q, state.V) <= limit


def limited(seed, d, k, n_means, limit, mean_limit):
    made = random_problem(seed, 8, 2, 1)
    means = {"means": made.mean_gaps, "mean_limit": mean_limit} if mean_limit else {}
    return posed(seed, 8, k, d, n_means, limit=limit, **means)


def test_what_scores_explain_does_not_depend_on_their_units():
    problem = posed(4)
    V = np.random.default_rng(0).normal(size=(7, 3))
    units = np.array([1e-7, 1.0, 1e7])
    shares = explained_variances(problem.S, V)
    np.testing.assert_allclose(explained_variances(problem.S, V * units), shares, rtol=1e-9)
    for count in (1, 2, 3):
        assert shares[:count].sum() == pytest.approx(explained(problem.S, V[:, :count]))
    gap = whitened_gap(problem.S, problem.Q, V)
    assert whitened_gap(problem.S, problem.Q, V * units) == pytest.approx(gap, rel=1e-9)
    L = np.linalg.cholesky(V.T @ problem.S @ V)
    G = np.linalg.solve(L, V.T).T
    norms = [np.linalg.norm(G.T @ Q @ G, 2) for Q in problem.Q]
    assert gap == pytest.approx(max(norms), rel=1e-9)


def test_excess_is_that_of_the_worst_limit():
    made = random_problem(2, 7, 2, 1)
    V = np.random.default_rng(1).normal(size=(7, 2))
    gap = whitened_gap(made.covariance, made.cov_gaps, V)
    unit = V / np.linalg.norm(V, axis=0)
    mean = max(np.linalg.norm(f @ unit) for f in made.mean_gaps)
    for limit, mean_limit, over in [
        (gap + 1.0, mean + 1.0, 0.0),
        (gap - 0.01, mean - 0.1, 0.1),
        (gap - 0.1, mean - 0.01, 0.1),
        (gap - 0.1, mean + 1.0, 0.1),
        (None, mean - 0.1, 0.1),
    ]:
        problem = posed(2, limit=limit, means=made.mean_gaps, mean_limit=mean_limit)
        assert problem.excess(V) == pytest.approx(over, abs=1e-12)


@pytest.mark.parametrize("rank", [7, 4])
def test_the_bound_is_that_of_the_best_dense_scores(rank):
    rng = np.random.default_rng(rank)
    A = rng.normal(size=(7, rank))  # where nothing varies, means do not differ
    S, F = A @ A.T, independent_rows(rng.normal(size=(2, rank)) @ A.T, 1e-12)
    bound, V = explained_bound(S, F, 2)
    assert np.abs(F @ V).max() < 1e-10
    np.testing.assert_allclose(V.T @ S @ V, np.eye(2), atol=1e-9)
    assert explained(S, V) == pytest.approx(bound)
    N = complement_basis(F, 1e-12)
    values, W = np.linalg.eigh(N.T @ S @ N)
    N = N @ W[:, values > 1e-9] / np.sqrt(values[values > 1e-9])
    assert bound == pytest.approx(np.linalg.eigvalsh(N.T @ S @ S @ N)[-2:].sum())


def test_a_direction_without_variance_is_not_used():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5)) * [3.0, 2.0, 1.0, 1.0, 1.0]
    X = np.column_stack([X, X[:, 0] + X[:, 1], np.zeros(60)])
    problem = SparseProblem.pose(np.cov(X.T), np.zeros((0, 7)), np.zeros((0, 7, 7)), 2, 3)
    supports = np.array([[[0, 1, 5], [2, 3, 6]], [[0, 1, 6], [1, 2, 5]]])
    for state in _solve_sets(problem, supports, np.stack([problem.dense] * 2)):
        np.testing.assert_allclose(state.V.T @ problem.S @ state.V, np.eye(2), atol=1e-8)
        assert state.value == pytest.approx(explained(problem.S, state.V), rel=1e-8)
        assert np.abs(state.V).max() < 10.0


def test_a_path_ends_where_enough_is_explained_and_skips_what_cannot_be():
    problem = posed(1, p=7, n_means=2)
    path = solve_path(problem, range(1, 8))
    values = [path[size].value for size in path]
    assert list(path) == list(range(3, 8))  # two means and a direction
    assert (np.diff(values) >= -1e-9 * problem.bound).all()
    assert values[-1] == pytest.approx(problem.bound, rel=1e-6)
    share = values[1] / problem.bound
    assert list(solve_path(problem, range(1, 8), share - 1e-6)) == [3, 4]
