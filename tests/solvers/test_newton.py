"""Newton's method for a basis: its derivatives, its last digits, and problems of low rank."""

from dataclasses import replace

import numpy as np
import pytest
from support import random_problem

from fairpca.solvers import FairProblem, solve
from fairpca.solvers import _newton as newton
from fairpca.solvers import _problem as problems
from fairpca.solvers._lagrangian import Lagrangian
from fairpca.solvers._newton import (
    _BasisPoint,
    _Preconditioner,
    _retract,
    _solve,
    _solve_directly,
    ascend,
    leading_span,
    polish,
)
from fairpca.solvers._problem import FEASIBLE, reduce_problem
from fairpca.solvers._refinement import orthonormal_factor, refine

FORMS = [
    {"cov_weight": 2.0},
    {"cov_tol": 0.3},
    {"cov_weight": 2.0, "mean_tol": 0.1},
    {"cov_tol": 0.3, "mean_tol": 0.1},
]


def lagrangian_and_basis(options, contrasts=2, size=24, d=3):
    """A basis of no merit, with multipliers that commute with its gaps as those of an ascent do."""
    reduced = reduce_problem(random_problem(5, size, contrasts, d, **options))
    lagrangian = Lagrangian(reduced)
    start = np.random.default_rng(3).normal(size=(reduced.size, d))
    V = np.linalg.qr(start + 2.0 * np.eye(reduced.size)[:, :d])[0]
    found = lagrangian.evaluate(V).multipliers
    lagrangian.M, lagrangian.b = found.M, found.b
    return lagrangian, V


def tangent(V, seed):
    K = np.random.default_rng(seed).normal(size=V.shape)
    return K - V @ (V.T @ K)


def turned(V, K):
    left, _, right = np.linalg.svd(V + K, full_matrices=False)
    return left @ right


@pytest.mark.parametrize("options", FORMS)
def test_gradient_is_the_derivative_of_the_value(options):
    lagrangian, V = lagrangian_and_basis(options)
    point = _BasisPoint(lagrangian, V)
    lagrangian.M, K, h = point.centre, tangent(point.V, 0), 1e-5
    ahead, behind = (lagrangian.evaluate(turned(point.V, step * K)).value for step in (h, -h))
    assert (ahead - behind) / (2 * h) == pytest.approx(2.0 * np.vdot(point.gradient, K), rel=1e-6)


@pytest.mark.parametrize("options", FORMS)
def test_curvature_is_the_derivative_of_the_gradient(options):
    lagrangian, V = lagrangian_and_basis(options)
    point = _BasisPoint(lagrangian, V)
    point.weigh()
    lagrangian.M, K, h = point.centre, tangent(point.V, 1), 1e-5

    def gradient(at):
        return lagrangian.evaluate(at).gradient

    changes = gradient(turned(point.V, h * K)) - gradient(turned(point.V, -h * K))
    expected = point.inside(changes / (2 * h)) + K * point.inner
    np.testing.assert_allclose(point.multiply(K), expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("options", FORMS)
def test_the_whole_matrix_is_the_curvature(options):
    lagrangian, V = lagrangian_and_basis(options, size=9, d=4)
    point = _BasisPoint(lagrangian, V)
    point.weigh()
    N = np.linalg.svd(point.V)[0][:, 4:]
    X = np.random.default_rng(6).normal(size=(N.shape[1], 4))
    found = N @ (point.matrix(N) @ X.ravel()).reshape(X.shape)
    np.testing.assert_allclose(found, point.multiply(N @ X), atol=1e-10 * np.abs(found).max())


@pytest.mark.parametrize("options", FORMS)
def test_a_direct_step_is_that_of_conjugate_gradients(options, monkeypatch):
    reduced = reduce_problem(random_problem(5, 14, 3, 4, **options))
    found = refine(reduced, np.eye(reduced.size)[:, :4])
    lagrangian = Lagrangian(reduced)
    lagrangian.M = found.multipliers
    lagrangian.b = found.mean_costs
    lagrangian.step, lagrangian.mean_step = 100.0 * lagrangian.step, 100.0 * lagrangian.mean_step
    point = _BasisPoint(lagrangian, found.basis)
    point.weigh()
    right = tangent(point.V, 7)
    direct, count = _solve_directly(point, right)
    assert count == 1  # at an optimum, under a high penalty, the curvature is positive
    assert np.abs(point.V.T @ direct).max() <= 1e-12
    np.testing.assert_allclose(point.multiply(direct), -right, atol=1e-8 * np.abs(right).max())
    monkeypatch.setattr("fairpca.solvers._newton._FEW_UNKNOWNS", 0)
    np.testing.assert_allclose(_solve(point, right, 1e-10)[0], direct, atol=1e-6)


@pytest.mark.parametrize("options", FORMS)
def test_the_preconditioner_is_symmetric_and_exact_for_one_component(options):
    lagrangian, V = lagrangian_and_basis(options, d=1)
    point = _BasisPoint(lagrangian, V)
    point.weigh()
    preconditioner = _Preconditioner(point)
    K, other = tangent(point.V, 2), tangent(point.V, 4)
    there = np.vdot(other, preconditioner.solve(K))
    assert there == pytest.approx(np.vdot(K, preconditioner.solve(other)), rel=1e-9)
    if not lagrangian.shifts.any() or lagrangian.shifts[0] <= 2e-3 * lagrangian.unit:
        back = preconditioner.solve(point.multiply(K))
        assert np.vdot(back, K) == pytest.approx(np.vdot(K, K), rel=0.05)


@pytest.mark.parametrize("options", FORMS)
def test_polish_finds_the_last_digits_of_a_large_basis(options):
    rng = np.random.default_rng(0)
    reduced = reduce_problem(random_problem(7, 60, 1, 12, **options))
    best = refine(reduced, reduced.leading(12)[1])
    assert best.status.converged
    assert reduced.violation(best.basis) <= 1e-9
    lagrangian = Lagrangian(reduced)
    lagrangian.M = best.multipliers
    lagrangian.b = best.mean_costs
    near = turned(best.basis, 1e-4 * rng.normal(size=best.basis.shape))
    found = polish(lagrangian, near, lagrangian.evaluate(near).multipliers)
    assert found is not None
    again = found[0]
    assert np.linalg.norm(again - best.basis @ (best.basis.T @ again)) <= 1e-7
    assert reduced.objective(again) == pytest.approx(reduced.objective(best.basis), rel=1e-10)


@pytest.mark.parametrize("options", FORMS)
def test_large_and_small_problems_are_solved_alike(options, monkeypatch):
    problem = random_problem(11, 20, 1, 3, **options)
    small = solve(problem).certificate
    monkeypatch.setattr(problems, "_FEW_UNKNOWNS", 0)
    large = solve(problem).certificate
    slack = 1e-7 * abs(small.bound)
    assert small.objective <= large.bound + slack
    assert large.objective <= small.bound + slack
    assert large.bound == pytest.approx(small.bound, rel=2e-3)
    assert large.objective >= small.objective - 0.01 * abs(small.objective)


@pytest.mark.parametrize("options", FORMS)
def test_directions_without_variance_cost_nothing(options, monkeypatch):
    for name in ("MOST_WORK", "MOST_WORK_NEAR"):  # one of the two is too large
        monkeypatch.setattr(f"fairpca.solvers._lifted.{name}", 0)
    inner = random_problem(2, 9, 1, 2, **options)
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(60, 60)))[0][:, :9]
    outer = FairProblem(
        turn @ inner.covariance @ turn.T,
        inner.mean_gaps @ turn.T,
        turn @ inner.cov_gaps @ turn.T,
        2,
        **options,
    )
    assert reduce_problem(outer).size <= 9 + 2
    assert reduce_problem(replace(outer, group_covariances=outer.covariance[None])).size >= 59
    few, many = solve(inner).certificate, solve(outer).certificate
    assert many.objective == pytest.approx(few.objective, rel=1e-6)
    assert many.bound == pytest.approx(few.bound, rel=1e-4)


def test_a_covariance_that_hides_a_difference_keeps_all_dimensions():
    S = np.diag([3.0, 2.0, 1.0, 0.0, 0.0, 0.0])
    Q = np.zeros((6, 6))
    Q[0, 5] = Q[5, 0] = 1.0
    assert reduce_problem(FairProblem(S, np.zeros((0, 6)), Q[None], 1)).size == 6
    Q = np.diag([1.0, -1.0, 0.0, 0.0, 0.0, 0.0])
    assert reduce_problem(FairProblem(S, np.zeros((0, 6)), Q[None], 1)).size == 4


@pytest.mark.parametrize("d", [20, 34])
def test_many_components_get_a_bound_that_comes_close(d):
    found = solve(random_problem(4, 60, 1, d, cov_weight=2.0))
    assert found.certificate.bound_solved
    assert found.certificate.gap <= 0.02


def test_a_step_that_rounding_left_along_the_basis_keeps_it_orthonormal():
    _, V = lagrangian_and_basis(FORMS[0])
    step = tangent(V, 0) - 0.9 * np.outer(V[:, 0], [1.0, 0.0, 0.0])
    turned = _retract(V, step)
    assert turned.T @ turned == pytest.approx(np.eye(3), abs=1e-12)


@pytest.mark.parametrize("apart", [1.0, 1e-3, 1e-6, 1e-9, 0.0])
def test_columns_that_are_nearly_the_same_have_anorthonormal_factor(apart):
    Y = np.random.default_rng(0).normal(size=(8, 3))
    Y[:, 2] = Y[:, 1] + apart * Y[:, 2]
    V, _ = orthonormal_factor(Y)
    np.testing.assert_allclose(V.T @ V, np.eye(3), atol=1e-6)


def test_a_gradient_that_underflows_asks_for_no_step():
    lagrangian, V = lagrangian_and_basis(FORMS[0], size=40)  # by conjugate gradients
    point = _BasisPoint(lagrangian, V)
    point.weigh()
    for size in (0.0, 1e-200):
        K, _ = _solve(point, size * tangent(point.V, 0), 1e-4)
        assert not K.any()


def test_a_step_that_underflows_ends_the_ascent(monkeypatch):
    lagrangian, V = lagrangian_and_basis({"cov_weight": 2.0})
    monkeypatch.setattr(newton, "_solve", lambda point, gradient, accuracy: (0.0 * gradient, 1))
    found, steps, _ = ascend(lagrangian, V, 1e-8, 6000)
    assert steps == 1
    np.testing.assert_allclose(found @ found.T, V @ V.T, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"cov_tol": 0.3}, {"cov_tol": 0.3, "mean_tol": 0.05}])
def test_many_columns_ascend_without_a_factorisation_to_what_newton_finds(options, monkeypatch):
    problem = random_problem(3, 56, 1, 17, **options)
    reduced = reduce_problem(problem)
    start = reduced.leading(17)[1]
    assert reduced.has_many_columns
    with monkeypatch.context() as patch:
        patch.setattr("fairpca.solvers._newton._Preconditioner", None)
        found = refine(reduced, start)
    assert found.status.converged
    assert reduced.violation(found.basis) <= FEASIBLE
    monkeypatch.setattr(problems, "_MOST_COUPLED", 1000)
    newton = reduce_problem(problem)
    assert not newton.has_many_columns
    best = newton.objective(refine(newton, start).basis)
    assert reduced.objective(found.basis) >= best - 1e-3 * abs(best)


def test_the_span_of_a_round_holds_the_optimum():
    problem = random_problem(3, 120, 1, 20)
    reduced = reduce_problem(problem)
    found = refine(reduced, reduced.leading(20)[1])
    lagrangian = Lagrangian(reduced)
    lagrangian.M = found.multipliers
    T = leading_span(lagrangian, found.basis)
    np.testing.assert_allclose(T.T @ T, np.eye(T.shape[1]), atol=1e-12)
    assert T.shape[1] < 0.6 * reduced.size
    assert np.linalg.norm(found.basis - T @ (T.T @ found.basis)) <= 1e-4
    # The leading directions alone do not.
    assert np.linalg.norm(found.basis[40:]) > 1e-2
    inside = lagrangian.inside(T)
    assert inside.problem.variances is not None
    value = inside.evaluate(orthonormal_factor(T.T @ found.basis)[0]).value
    assert value == pytest.approx(lagrangian.evaluate(found.basis).value, rel=1e-6)


def test_many_contrasts_ascend_as_many_columns_do(monkeypatch):
    # Newton's method spends all its evaluations on a few steps, and ends far outside the limits.
    problem = random_problem(0, 44, 10, 10, cov_tol=0.1, mean_tol=None)
    reduced = reduce_problem(problem)
    assert reduced.has_many_columns
    start = reduced.leading(10)[1]
    found = refine(reduced, start)
    assert reduced.violation(found.basis) <= FEASIBLE
    monkeypatch.setattr(problems, "_MOST_COUPLED", 1000)
    newton = reduce_problem(problem)
    assert not newton.has_many_columns
    assert newton.violation(refine(newton, start).basis) > 1e-3


@pytest.mark.parametrize(
    ("size", "d", "contrasts", "is_large", "has_many_columns"),
    [
        (100, 4, 1, False, False),
        (101, 4, 1, True, False),  # more than 400 entries
        (50, 16, 1, True, False),
        (50, 17, 1, False, False),  # more than 150 pairs of columns, and few features
        (51, 17, 1, True, True),
        (81, 5, 10, True, False),
        (81, 5, 11, True, True),  # more than 150 pairs in all contrasts
    ],
)
def test_the_method_of_an_ascent_follows_from_sizes(size, d, contrasts, is_large, has_many_columns):
    rng = np.random.default_rng(0)
    S, diagonals = np.eye(size), rng.normal(size=(contrasts, size))
    Q = diagonals[:, :, None] * np.eye(size)
    reduced = reduce_problem(FairProblem(S, np.zeros((0, size)), Q, d))
    assert (reduced.is_large, reduced.has_many_columns) == (is_large, has_many_columns)
    assert reduced.suits_newton == (d <= 16)
