"""Problems that are close to having no solution, or cost an ascent its way."""

import time
from dataclasses import replace

import numpy as np
import pytest
from support import problem_from_moments, random_problem

from fairpca.exceptions import InfeasibleError
from fairpca.moments import GroupMoments
from fairpca.solvers import SOLVERS, FairProblem, Status, _solve, solve
from fairpca.solvers._problem import reduce_problem
from fairpca.solvers._refinement import Refined
from fairpca.solvers._solution import Bound
from fairpca.solvers._starts import Outcome, best_feasible


def test_ascent_that_misses_the_limits_starts_again_inside_them():
    # What is found when no first attempt is feasible is feasible, or the error states a minimum.
    problem = random_problem(5, 9, 3, 2, mean_tol=0.1, cov_tol=0.9)
    reduced = reduce_problem(problem)
    nowhere = Refined(np.eye(9)[:, :2], np.zeros((6, 2, 2)), np.zeros(3), 0, Status.UNSETTLED)
    found = best_feasible(reduced, [nowhere])
    assert reduced.violation(nowhere.basis) > 1e-3
    assert reduced.violation(found.basis) <= 1e-7
    equal_means = reduce_problem(random_problem(5, 9, 3, 2, cov_tol=0.9))
    found = best_feasible(equal_means, [replace(nowhere, basis=np.eye(6)[:, :2])])
    assert equal_means.violation(found.basis) <= 1e-7


def test_a_limit_no_ascent_meets_is_an_error_with_the_smallest_gap_found():
    problem = random_problem(4, 7, 4, 3, mean_tol=None, cov_tol=1e-4)
    with pytest.raises(InfeasibleError, match=r"no basis gets below|smallest covariance gap found"):
        solve(problem)


def one_dimension(mean_tol):
    rng = np.random.default_rng(0)
    z = np.repeat([0, 1], 50)
    x = rng.normal(size=(100, 1)) + 2 * z[:, None]
    moments = GroupMoments.from_arrays(x, z)
    return problem_from_moments(moments, 1, mean_tol=mean_tol)


@pytest.mark.parametrize("solver", SOLVERS)
def test_one_dimension_with_a_mean_gap_above_the_tolerance_is_refused(solver):
    with pytest.raises(InfeasibleError, match=r"mean_tol=0\.1 cannot be met") as caught:
        solve(one_dimension(0.1), solver)
    attainable = solve(one_dimension(caught.value.minimum * 1.001), solver).certificate
    assert attainable.mean_gap <= caught.value.minimum * 1.001


@pytest.mark.parametrize("seed", range(4))
def test_the_papers_basis_meets_a_bounded_mean(seed):
    problem = random_problem(seed, 8, 1 + seed % 3, 3, mean_tol=0.05, cov_weight=0.5)
    assert solve(problem, "paper").certificate.mean_gap <= 0.05 * (1 + 1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_basis_outside_its_constraints_is_never_certified(solver, monkeypatch):
    problem = random_problem(3, 7, 2, 2, mean_tol=0.01)
    outside = np.eye(7)[:, :2]
    found = Outcome(outside, None, 1, solver)
    monkeypatch.setattr(_solve, "_find", lambda *_: found)
    with pytest.raises(RuntimeError, match="outside its constraints"):
        solve(problem, solver)


def test_a_bound_below_its_own_basis_is_never_returned(monkeypatch):
    problem = random_problem(3, 7, 1, 2, mean_tol=None, cov_weight=0.0)
    too_low = Bound(0.1, 0.1, np.eye(7)[:, :2], 0, Status.CONVERGED)
    found = Outcome(np.eye(7)[:, :2], too_low, 1, "tight")
    monkeypatch.setattr(_solve, "_find", lambda *_: found)
    with pytest.raises(RuntimeError, match="better than its bound"):
        solve(problem)


@pytest.mark.parametrize("seed", range(12))
def test_an_unattainable_mean_of_three_groups_is_said_and_not_a_crash(seed):
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 3, 60)
    X = rng.normal(size=(60, 2)) + rng.normal(size=(3, 2))[z]
    problem = problem_from_moments(GroupMoments.from_arrays(X, z), 2, mean_tol=0.3)
    smallest = np.linalg.norm(problem.mean_gaps, axis=1).max()  # two components keep everything
    with pytest.raises(InfeasibleError, match=r"mean_tol=0\.3 cannot be met") as caught:
        solve(problem)
    assert caught.value.minimum == pytest.approx(smallest)


@pytest.mark.parametrize("seed", range(25))
def test_an_attainable_limit_with_two_attributes_is_met(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(200, 9))
    Z = rng.integers(0, 2, size=(200, 2))
    problem = problem_from_moments(GroupMoments.from_arrays(X, Z), 3, cov_tol=0.05)
    if seed in (11, 17):
        with pytest.raises(InfeasibleError, match=r"cannot be met .* no basis gets below"):
            solve(problem)
        return
    certificate = solve(problem, certify=False).certificate
    assert certificate.cov_gap <= 0.05 * (1 + 1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("options", [{"cov_tol": 0.6}, {"mean_tol": 0.15}])
def test_one_iteration_claims_nothing_that_is_not_proven(solver, options):
    problem = random_problem(2, 9, 2, 3, **options)
    if solver == "paper" and "cov_tol" in options:
        return
    solution = solve(problem, solver, max_iter=1)  # attainable, as the other solvers show
    assert solution.certificate.bound >= solve(problem).certificate.objective * (1 - 1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
def test_many_contrasts_and_few_rows_end_soon(solver):
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(50, 8)), np.arange(50) % 25
    moments = GroupMoments.from_arrays(X, z)
    problem = problem_from_moments(moments, 3, mean_tol=0.3)
    start = time.process_time()
    with pytest.raises(InfeasibleError, match=r"mean_tol=0\.3 cannot be met"):
        solve(problem, solver)
    assert time.process_time() - start < 2.0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("solver", ["refined", "deflation", "tight"])
def test_a_high_penalty_ends_soon(solver, seed):
    problem = random_problem(seed, 6 + seed, 2, 2, cov_weight=1000.0)
    start = time.process_time()
    certificate = solve(problem, solver).certificate
    assert certificate.objective <= certificate.bound
    assert time.process_time() - start < 2.0


def test_a_limit_that_only_the_smallest_features_meet_is_met():
    rng, p, d = np.random.default_rng(0), 30, 10
    X, Z = rng.normal(size=(200, p)) * 10.0 ** np.linspace(-2, 2, p), rng.integers(0, 3, (200, 2))
    quiet = problem_from_moments(GroupMoments.from_arrays(X[:, :d], Z), d)
    limit = 1.01 * np.abs(np.linalg.eigvalsh(quiet.cov_gaps)).max()
    problem = problem_from_moments(GroupMoments.from_arrays(X, Z), d, mean_tol=None, cov_tol=limit)
    assert solve(problem, certify=False).certificate.cov_gap <= limit * (1 + 1e-6)


def test_directions_without_gaps_violate_nothing():
    S, Q = np.diag([3.0, 2.0, 1.0, 0.5]), np.diag([1.0, -1.0, 0.0, 0.0])
    for tol in (0.0, 0.1):
        reduced = reduce_problem(FairProblem(S, np.zeros((0, 4)), Q[None], 2, cov_tol=tol))
        inner = reduced.inside(np.eye(4)[:, 2:], 1)
        assert inner.cov_scale == inner.violation(np.eye(2)[:, :1]) == 0.0


@pytest.mark.parametrize(("d", "tol", "best"), [(2, 0.5, 4.85), (3, 0.7, 7.09)])
@pytest.mark.parametrize("solver", ["refined", "tight"])
def test_gaps_of_two_directions_only(solver, d, tol, best):
    # Of each of the two a share of `tol`, and what is left of the columns from the others, of
    # which two are shared: 0.7·(4 + 3) + 1.5 + 0.3·(1.2 + 1.1) for three columns.
    Q = np.zeros((2, 5, 5))
    Q[0, 0, 0], Q[0, 1, 1], Q[1, 0, 1], Q[1, 1, 0] = 1.0, -1.0, 1.0, 1.0
    S = np.diag([4.0, 3.0, 1.5, 1.2, 1.1])
    found = solve(FairProblem(S, np.zeros((0, 5)), Q, d, cov_tol=tol), solver).certificate
    assert found.objective == pytest.approx(best, rel=1e-6)
    assert found.cov_gap <= tol * (1 + 1e-6)
    assert found.basis_settled == (solver == "refined")
