"""The second-order bound: valid whatever its multipliers are, and never above the relaxation."""

from dataclasses import replace

import numpy as np
import pytest
from support import random_bases, random_problem

from fairpca.solvers import _lifted as lifted_module
from fairpca.solvers import _starts as starts
from fairpca.solvers import solve
from fairpca.solvers._lifted import _Lifted, lifted_bound
from fairpca.solvers._problem import reduce_problem
from fairpca.solvers._refinement import refine

CASES = [
    (2, 7, 1, 3, {"cov_tol": 0.3}),
    (22, 7, 2, 3, {"mean_tol": 0.1, "cov_tol": 0.3}),
    (19, 6, 2, 3, {"cov_weight": 3.0}),
    (8, 6, 1, 2, {"cov_tol": 0.3}),
]


@pytest.mark.parametrize(("seed", "p", "contrasts", "d", "options"), CASES)
def test_it_lies_between_the_basis_and_the_relaxation(seed, p, contrasts, d, options, monkeypatch):
    problem = random_problem(seed, p, contrasts, d, **options)
    lower = solve(problem).certificate
    monkeypatch.setattr(lifted_module, "MOST_WORK", 0)
    plain = solve(problem).certificate
    assert plain.gap > 0.01
    assert lower.bound < plain.bound - 0.3 * (plain.bound - plain.objective)
    assert lower.bound >= max(lower.objective, plain.objective)


@pytest.mark.parametrize(("seed", "p", "contrasts", "d", "options"), CASES)
def test_any_multipliers_bound_every_feasible_basis(seed, p, contrasts, d, options):
    reduced = reduce_problem(random_problem(seed, p, contrasts, d, **options))
    known = [V for V in random_bases(0, reduced.size, d, 1000) if reduced.violation(V) <= 1e-9]
    known.append(solve_reduced(reduced))
    best = max(reduced.objective(V) for V in known)
    lifted = _Lifted(reduced, best, all_signs(reduced))
    point = lifted.pose()
    for number in range(8):  # from the first, far from the optimum
        assert lifted.prove(point) >= best - 1e-9
        point.step(number)


def test_bounded_means_alone_are_bounded():
    reduced = reduce_problem(random_problem(22, 5, 2, 2, mean_tol=0.1, cov_weight=0.0))
    V = refine(reduced, reduced.leading(2)[1]).basis
    value, status = lifted_bound(reduced, V, 1e-4, 100)
    assert status.converged
    assert 0.0 <= value - reduced.objective(V) <= 0.01 * value


def all_signs(reduced):
    return np.ones((2, len(reduced.Q)), dtype=bool)


def solve_reduced(reduced):
    from fairpca.solvers._solution import Options

    return starts.refined_basis(reduced, "refined", Options()).basis


@pytest.mark.parametrize(("seed", "p", "contrasts", "d", "options"), CASES)
def test_its_forms_are_those_of_projectors(seed, p, contrasts, d, options):
    # At zzᵀ of a basis: P² = P, cuts and rows of its gaps, and the objective.
    reduced = reduce_problem(random_problem(seed, p, contrasts, d, **options))
    V = next(random_bases(0, reduced.size, d, 1))
    lifted = _Lifted(reduced, -100.0, all_signs(reduced))
    P, n = V @ V.T, lifted.n
    z = np.zeros(n)
    z[0] = 1.0
    E = lifted.E[1 : lifted.k + 1]
    z[1 : lifted.k + 1] = np.einsum("iab,ab->i", E, P) / np.sum(E**2, axis=(1, 2))
    np.testing.assert_allclose(np.tensordot(z, lifted.E, 1), P, atol=1e-12)
    Z = np.outer(z, z)
    np.testing.assert_allclose(np.tensordot(Z, lifted.zero, 2), 0.0, atol=1e-12)
    if reduced.limit is None:
        most = reduced.cov_gap(reduced.leading(d)[1])
        z[-1] = reduced.cov_gap(V) / most
        Z = np.outer(z, z)
        cuts = np.stack([np.tensordot(Z, form, 2) for form in lifted.cuts[2:]])
        assert abs(np.linalg.eigvalsh(cuts).min()) <= 1e-12
        assert np.vdot(lifted.S, Z) == pytest.approx(reduced.objective(V))
    else:
        cuts = np.stack([np.tensordot(Z, form, 2) for form in lifted.cuts])
        lowest = np.linalg.eigvalsh(cuts).min() * reduced.cov_scale
        assert lowest == pytest.approx(min(reduced.limit - reduced.cov_gap(V), 0.0), abs=1e-12)


def test_contrasts_far_from_binding_are_left_out():
    problem = random_problem(19, 6, 2, 3, cov_weight=3.0)
    far = np.concatenate([problem.cov_gaps, 1e-3 * problem.cov_gaps])
    lower, plain = (solve(replace(problem, cov_gaps=gaps)) for gaps in (far, problem.cov_gaps))
    assert lower.certificate.bound == pytest.approx(plain.certificate.bound, rel=1e-3)
    reduced = reduce_problem(replace(problem, cov_gaps=far))
    assert len(_Lifted(reduced, 0.0, all_signs(reduced)).cuts) == 10
    value, _ = lifted_bound(reduced, reduced.basis.T @ lower.basis, 1e-4, 100)
    assert value * reduced.scale == pytest.approx(lower.certificate.bound, rel=1e-3)


def test_it_agrees_with_a_conic_solver():
    cp = pytest.importorskip("cvxpy")
    reduced = reduce_problem(random_problem(26, 7, 2, 3, cov_tol=0.3))
    lifted = _Lifted(reduced, -100.0, all_signs(reduced))
    Z = cp.Variable((lifted.n, lifted.n), PSD=True)
    flat = cp.vec(Z, order="C")
    m = reduced.size

    def at(form):
        return cp.reshape(form.reshape(lifted.n**2, -1).T @ flat, (m, m), order="C")

    limits = [Z[0, 0] == 1, at(lifted.zero) == 0, *(at(form) >> 0 for form in lifted.cuts)]
    limits += [cp.sum(cp.multiply(row, Z)) >= 0 for row in lifted.rows]
    whole = cp.Problem(cp.Maximize(cp.sum(cp.multiply(lifted.S, Z))), limits)
    whole.solve(solver="CLARABEL")
    point, value, status = lifted.pose(), np.inf, None
    while status is None:
        status, value = point.step(0), min(value, lifted.prove(point))
    assert status.converged
    assert value == pytest.approx(whole.value, rel=1e-4)


def test_where_no_contrast_binds_only_the_means_are_left():
    problem = random_problem(22, 7, 2, 3, mean_tol=0.1, cov_tol=50.0)
    reduced = reduce_problem(problem)
    basis = solve_reduced(reduced)
    assert reduced.cov_gap(basis) < 0.1 * reduced.limit
    bound, _ = lifted_bound(reduced, basis, 1e-4, 100)
    feasible = [V for V in random_bases(0, reduced.size, 3, 1000) if reduced.violation(V) <= 0.0]
    assert np.isfinite(bound)
    assert all(reduced.objective(V) <= bound for V in [basis, *feasible])
