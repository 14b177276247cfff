"""Properties of every solve, over random problems."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.optimize
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
    share = 0.2 if first.bound_solved and second.bound_solved else 0.6
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


def best_at_an_angle(S, f, along, across):
    """Largest vᵀSv over unit v = along·e + across·w, with e = f/‖f‖ and w in its complement."""
    # What is left is a quadratic on a sphere, across²·wᵀCw + 2gᵀw, whose multiplier lies next to
    # the largest eigenvalue of C. No number is large, however small the angle is.
    e = f / np.linalg.norm(f)
    N = np.linalg.svd(e[None])[2][1:].T
    C, turn = np.linalg.eigh(across**2 * N.T @ S @ N)
    g = along * across * turn.T @ (N.T @ S @ e)

    def w(log_shift):
        return g / (C[-1] - C + np.exp(log_shift))

    highest = np.log(np.linalg.norm(g)) + 1.0
    root = scipy.optimize.brentq(lambda x: w(x) @ w(x) - 1.0, highest - 80.0, highest, xtol=1e-14)
    w = w(root) / np.linalg.norm(w(root))
    return along**2 * (e @ S @ e) + w @ (C * w) + 2.0 * g @ w


one_bounded_mean = {
    "seed": st.integers(0, 10_000),
    "size": st.integers(2, 30),
    "tol": st.floats(-12.0, 0.0).map(lambda power: 10.0**power),
    "scale": st.floats(-6.0, 6.0).map(lambda power: 10.0**power),
}


def bounded_mean(seed, size, d, tol, scale):
    """Features of different spreads, and a tolerance relative to the size of the mean gap."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(3 * size, size)) * 10.0 ** rng.uniform(-1, 1, size)
    S, f = scale**2 * np.cov(X.T, bias=True), scale * rng.normal(size=size)
    none, limit = np.zeros((0, size, size)), tol * float(np.linalg.norm(f))
    return FairProblem(S, f[None], none, d, mean_tol=limit)


@settings(max_examples=examples(60), deadline=None)
@given(**one_bounded_mean, d=st.integers(1, 29))
@example(seed=6, size=6, d=3, tol=2.5e-10, scale=1.0)
@example(seed=2, size=4, d=3, tol=1e-12, scale=1e6)
def test_one_bounded_mean_has_no_gap_at_any_tolerance(seed, size, d, tol, scale):
    problem = bounded_mean(seed, size, min(d, size - 1), tol, scale)
    certificate = solve(problem).certificate
    assert certificate.gap <= 1e-9
    # Of a basis in double precision ‖Vᵀf‖ is known to a rounding of ‖f‖.
    allowed = problem.mean_tol * (1 + 1e-9) + 1e-14 * np.linalg.norm(problem.mean_gaps)
    assert certificate.mean_gap <= allowed
    narrower = solve(replace(problem, mean_tol=0.5 * problem.mean_tol)).certificate
    equal = solve(replace(problem, mean_tol=0.0)).certificate
    rounding = 1e-12 * np.trace(problem.covariance)
    assert equal.objective <= narrower.bound + rounding
    assert narrower.objective <= certificate.bound + rounding


@settings(max_examples=examples(40), deadline=None)
@given(**one_bounded_mean, is_one=st.booleans())
@example(seed=6, size=6, tol=2.5e-10, scale=1.0, is_one=True)
@example(seed=3, size=3, tol=3e-10, scale=1.0, is_one=False)
def test_one_bounded_mean_against_a_quadratic_on_a_sphere(seed, size, tol, scale, is_one):
    problem = bounded_mean(seed, size, 1 if is_one else size - 1, tol, scale)
    S, f, rest = problem.covariance, problem.mean_gaps[0], np.sqrt((1.0 - tol) * (1.0 + tol))
    assume(solve(replace(problem, mean_tol=None)).certificate.mean_gap > problem.mean_tol)
    if is_one:
        best = best_at_an_angle(S, f, tol, rest)
    else:  # the direction that is left out has all of f but the tolerance
        best = np.trace(S) + best_at_an_angle(-S, f, rest, tol)
    certificate = solve(problem).certificate
    assert certificate.objective == pytest.approx(best, rel=1e-9)
    assert certificate.bound == pytest.approx(best, rel=1e-9)


def test_projectors_ignore_signs_and_order():
    V = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 2)))[0]
    np.testing.assert_allclose(projector(V), projector(-V[:, ::-1]))
