"""Properties of every solve, over random problems."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from support import examples, projector, random_problem

from fairpca.solvers import FairProblem, solve
from fairpca.solvers._problem import reduce_problem, smallest_cov_gap

problems = st.builds(
    random_problem,
    seed=st.integers(0, 10_000),
    size=st.integers(5, 9),
    n_contrasts=st.integers(1, 2),
    n_components=st.integers(1, 2),
    mean_tol=st.sampled_from([0.0, None, 0.2]),
    cov_weight=st.sampled_from([0.05, 1.0, 8.0]),
)


def assert_equivalent(first, second):
    """Two spellings of a problem may end in different optima, but not beyond the other's bound."""
    assert first.objective <= second.bound + 1e-9 * abs(second.bound)
    assert second.objective <= first.bound + 1e-9 * abs(first.bound)
    # A relaxation stops at a tenth of the gap it certifies, or says that it ran out of steps.
    share = 0.2 if first.converged and second.converged else 0.6
    tolerance = 1e-3 + share * max(first.gap, second.gap)
    assert second.bound == pytest.approx(first.bound, rel=tolerance)


@settings(max_examples=examples(20), deadline=None)
@given(problems, st.sampled_from(["refined", "deflation", "tight", "paper"]))
def test_weak_duality_and_constraints(problem, solver):
    solution = solve(problem, solver)
    certificate = solution.certificate
    assert certificate.objective <= certificate.bound
    if problem.mean_tol is not None:
        assert certificate.mean_gap <= problem.mean_tol * (1 + 1e-6) + 1e-10
    np.testing.assert_allclose(
        solution.basis.T @ solution.basis, np.eye(problem.n_components), atol=1e-9
    )


@settings(max_examples=examples(15), deadline=None)
@given(problems)
def test_tight_bound_below_the_papers(problem):
    tight = solve(problem, "tight", tol=1e-6).certificate.bound
    paper = solve(problem, "paper", tol=1e-6, trace="equal").certificate.bound
    assert tight <= paper + 1e-5 * abs(paper)


@settings(max_examples=examples(15), deadline=None)
@given(problems, st.integers(0, 100))
@example(random_problem(1, 7, 2, 1, mean_tol=0.2, cov_weight=8.0), 7)  # stops before it converges
def test_rotating_the_features_rotates_the_basis(problem, seed):
    size = len(problem.covariance)
    R = np.linalg.qr(np.random.default_rng(seed).normal(size=(size, size)))[0]
    rotated = FairProblem(
        R @ problem.covariance @ R.T,
        problem.mean_gaps @ R.T,
        R @ problem.cov_gaps @ R.T,
        problem.n_components,
        problem.mean_tol,
        problem.cov_weight,
    )
    assert_equivalent(solve(problem).certificate, solve(rotated).certificate)


@settings(max_examples=examples(15), deadline=None)
@given(problems)
def test_repeating_a_contrast_or_swapping_its_sides_changes_nothing(problem):
    doubled = FairProblem(
        problem.covariance,
        np.concatenate([problem.mean_gaps, -problem.mean_gaps]),
        np.concatenate([problem.cov_gaps, -problem.cov_gaps]),
        problem.n_components,
        problem.mean_tol,
        problem.cov_weight,
    )
    assert_equivalent(solve(problem).certificate, solve(doubled).certificate)


@settings(max_examples=examples(10), deadline=None)
@given(st.integers(0, 10_000), st.floats(0.1, 2.0))
@example(617, 0.12)  # next to what can be met
def test_a_looser_tolerance_never_costs_variance(seed, tol):
    problem = random_problem(seed, 8, 1, 2)
    reduced = reduce_problem(problem)
    assume(tol > smallest_cov_gap(reduced.cov_values, 2))
    tighter, looser = (solve(replace(problem, cov_tol=t)).certificate for t in (tol, 1.5 * tol))
    assert tighter.objective <= looser.bound * (1 + 1e-12)
    assert looser.objective >= tighter.objective * (1 - looser.gap) - 1e-9


def test_projectors_ignore_signs_and_order():
    V = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 2)))[0]
    np.testing.assert_allclose(projector(V), projector(-V[:, ::-1]))
