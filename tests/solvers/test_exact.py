"""Without a covariance term: eigenvectors, checked against the definition."""

import numpy as np
import pytest
from support import projector, random_bases, random_problem

from fairpca.exceptions import InfeasibleError
from fairpca.solvers import FairProblem, solve
from fairpca.solvers._exact import _between


def mean_problem(S, mean_gaps, n_components, mean_tol):
    mean_gaps = np.atleast_2d(mean_gaps)
    none = np.zeros((0, len(S), len(S)))
    return FairProblem(S, mean_gaps, none, n_components, mean_tol=mean_tol)


@pytest.fixture
def S():
    A = np.random.default_rng(0).normal(size=(40, 7)) * np.linspace(2, 0.5, 7)
    return A.T @ A / 40


def test_unconstrained_is_pca(S):
    solution = solve(mean_problem(S, np.zeros((0, 7)), 3, 0.0))
    values, vectors = np.linalg.eigh(S)
    np.testing.assert_allclose(projector(solution.basis), projector(vectors[:, -3:]), atol=1e-12)
    assert solution.certificate.objective == pytest.approx(values[-3:].sum())
    assert solution.certificate.gap <= 1e-14


def test_equal_means_with_dependent_and_zero_directions(S):
    f, g = np.random.default_rng(1).normal(size=(2, 7))
    solution = solve(mean_problem(S, [f, -2 * f, f + g, np.zeros(7)], 3, 0.0))
    assert solution.certificate.mean_gap <= 1e-12 * np.linalg.norm(f)
    # The best subspace inside the complement of span{f, g}, from scratch.
    U = np.linalg.svd(np.array([f, g]))[2][2:].T
    values = np.linalg.eigvalsh(U.T @ S @ U)
    assert solution.certificate.objective == pytest.approx(values[-3:].sum())


def test_a_mean_gap_of_rounding_size_takes_no_dimension(S):
    solution = solve(mean_problem(S, 1e-14 * np.ones(7), 7, 0.0))
    assert solution.basis.shape == (7, 7)


@pytest.mark.parametrize("share", [0.05, 0.3, 0.7, 0.99])
@pytest.mark.parametrize("d", [1, 2, 4])
def test_bounded_mean_uses_the_tolerance_and_has_no_gap(S, share, d):
    f = np.random.default_rng(2).normal(size=7)
    unconstrained = solve(mean_problem(S, f, d, None)).certificate
    tol = share * unconstrained.mean_gap
    certificate = solve(mean_problem(S, f, d, tol)).certificate
    assert certificate.mean_gap <= tol * (1 + 1e-9)
    assert certificate.mean_gap == pytest.approx(tol)
    assert certificate.gap <= 1e-9
    equal = solve(mean_problem(S, f, d, 0.0)).certificate.objective
    assert equal < certificate.objective < unconstrained.objective


def test_bounded_mean_at_an_eigenvalue_crossing():
    # f lies along one eigenvector, so the best subspace jumps and only a rotation meets the bound.
    S, f = np.diag([3.0, 2.0, 1.0]), np.array([1.0, 0.0, 0.0])
    solution = solve(mean_problem(S, f, 1, 0.6))
    assert solution.certificate.mean_gap == pytest.approx(0.6)
    assert solution.certificate.objective == pytest.approx(3 * 0.36 + 2 * 0.64)
    assert solution.certificate.gap <= 1e-12


def test_bounded_mean_beats_random_feasible_bases(S):
    f = np.random.default_rng(3).normal(size=7)
    best = solve(mean_problem(S, f, 2, 0.4)).certificate
    feasible = [V for V in random_bases(0, 7, 2, 4000) if np.linalg.norm(V.T @ f) <= 0.4]
    assert len(feasible) > 20
    assert max(np.trace(V.T @ S @ V) for V in feasible) <= best.bound


def test_several_bounded_means(S):
    F = np.random.default_rng(4).normal(size=(3, 7))
    certificate = solve(mean_problem(S, F, 2, 0.3)).certificate
    assert certificate.mean_gap <= 0.3 * (1 + 1e-6)
    assert certificate.bound_solved
    assert certificate.basis_settled
    assert 0.0 <= certificate.gap <= 0.02


def test_tolerance_above_every_gap_changes_nothing(S):
    f = np.ones(7)
    free, bounded = (solve(mean_problem(S, f, 2, tol)) for tol in (None, 10.0))
    np.testing.assert_allclose(projector(free.basis), projector(bounded.basis), atol=1e-12)


def test_too_many_components_for_equal_means(S):
    with pytest.raises(InfeasibleError, match=r"n_components=6.*leave 5 of n_features=7"):
        solve(mean_problem(S, np.eye(7)[:2], 6, 0.0))


def test_all_dimensions_cannot_bound_the_mean(S):
    with pytest.raises(InfeasibleError, match=r"mean_tol=0\.1"):
        solve(mean_problem(S, np.ones(7), 7, 0.1))


def test_zero_penalty_is_the_mean_constraint_only():
    problem = random_problem(0, 8, 1, 2, cov_weight=0.0)
    certificate = solve(problem).certificate
    assert certificate.solver == "exact"
    assert certificate.gap <= 1e-14


@pytest.mark.parametrize("tol", [1e100, 1e200, 1e308])
def test_a_tolerance_without_end_is_none_at_all(tol):
    f = np.array([[1.0, 0.0, 0.0]])
    Q = np.diag([1.0, -1.0, 0.0])[None]
    problem = FairProblem(np.diag([3.0, 2.0, 1.0]), f, Q, 1, mean_tol=tol)
    certificate = solve(problem).certificate
    free = solve(FairProblem(np.diag([3.0, 2.0, 1.0]), f, Q, 1, mean_tol=None)).certificate
    assert certificate.bound == pytest.approx(free.bound)
    assert certificate.gap == pytest.approx(free.gap, abs=1e-12)


def test_a_flat_root_between_two_subspaces_is_no_error():
    """A hundred steps of the root search do not reach its last digit, and need not."""
    left, right = np.eye(3)[:, :1], np.eye(3)[:, 1:2]

    def angle(V):
        return float(np.arctan2(V[1, 0], V[0, 0]))

    found = _between(left, right, lambda V: (angle(V) - 0.3) ** 9)
    assert angle(found) == pytest.approx(0.3, abs=1e-6)
