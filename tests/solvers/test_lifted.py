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
from fairpca.solvers._solution import Options

CASES = [
    (2, 7, 1, 3, {"cov_tol": 0.3}),
    (22, 7, 2, 3, {"mean_tol": 0.1, "cov_tol": 0.3}),
    (19, 6, 2, 3, {"cov_weight": 3.0}),
    (8, 6, 1, 2, {"cov_tol": 0.3}),
]
# Too large for the whole program.
LARGE = [
    (1, 14, 3, 2, {"cov_tol": 0.3}),
    (2, 14, 3, 2, {"mean_tol": 0.3, "cov_tol": 0.3}),
    (5, 14, 2, 2, {"cov_tol": 0.3}),
]
# Dimensions of T and rank of the multipliers; None: the whole space.
PARTS = pytest.mark.parametrize(
    ("seed", "p", "contrasts", "d", "options", "part"),
    [
        *((*case, None) for case in CASES),
        (*CASES[0], (1, 2)),
        (*CASES[1], (2, 4)),
        (12, 10, 2, 2, {"mean_tol": 0.3, "cov_tol": 0.3}, (3, 4)),
    ],
)


def lifted_program(reduced, V, part=None):
    """The program of all signs of contrasts, of the whole space or near V."""
    extra, rank = part or (reduced.size - reduced.d, reduced.size)
    return _Lifted(reduced, V, reduced.d + extra, rank, np.ones((2, len(reduced.Q)), dtype=bool))


def without_products(monkeypatch):
    monkeypatch.setattr(lifted_module, "MOST_WORK", 0)
    monkeypatch.setattr(lifted_module, "MOST_WORK_NEAR", 0)


@pytest.mark.parametrize(("seed", "p", "contrasts", "d", "options"), [*CASES, *LARGE])
def test_it_lies_between_the_basis_and_the_relaxation(seed, p, contrasts, d, options, monkeypatch):
    problem = random_problem(seed, p, contrasts, d, **options)
    lower = solve(problem).certificate
    without_products(monkeypatch)
    plain = solve(problem).certificate
    assert plain.gap > 0.01
    assert lower.objective == plain.objective
    assert lower.bound < plain.bound - 0.2 * (plain.bound - plain.objective)
    assert lower.bound >= lower.objective


@PARTS
def test_any_multipliers_bound_every_feasible_basis(seed, p, contrasts, d, options, part):
    reduced = reduce_problem(random_problem(seed, p, contrasts, d, **options))
    known = [V for V in random_bases(0, reduced.size, d, 300) if reduced.violation(V) <= 1e-9]
    known.append(starts.refined_basis(reduced, "refined", Options(certify=False)).basis)
    best = max(reduced.objective(V) for V in known)
    lifted = lifted_program(reduced, known[-1], part)
    for _ in range(2):
        point = lifted.pose()
        for number in range(8):  # from the first, far from the optimum
            value, missing = lifted.prove(point)
            assert value >= best - 1e-9
            point.step(number)
        lifted.join(missing)


@PARTS
def test_its_terms_are_those_of_projectors(seed, p, contrasts, d, options, part):
    # At zzᵀ of any basis: P² = P, cuts and rows of its gaps, and the objective.
    reduced = reduce_problem(random_problem(seed, p, contrasts, d, **options))
    V, other = random_bases(0, reduced.size, d, 2)
    lifted, rng = lifted_program(reduced, V, part), np.random.default_rng(0)
    U = lifted.turn.T @ other
    P, t = U @ U.T, 0.4 if lifted.has_t else 1.0
    z = np.concatenate([[1.0], lifted.vectors.svec(P - lifted.P0), [t] * lifted.has_t])
    whole, gap = np.eye(len(lifted.basis)), t * lifted.most

    def at(terms):
        return z @ lifted._form(terms, whole) @ z

    variance = np.vdot(lifted.S, P) - reduced.penalty * gap * reduced.cov_scale
    assert at(lifted.objective) == pytest.approx(variance)
    for c, sign, K in lifted.cuts:
        M = K @ np.diag(rng.random(K.shape[1])) @ K.T
        cut = gap * P - sign * P @ lifted.Q[c] @ P
        assert at(lifted._cut_terms(c, sign, M)) == pytest.approx(np.vdot(M, cut))
    M = np.diag(rng.random(len(P)))
    below, above = lifted._box_terms(M)
    if lifted.has_t:
        assert at(below) == pytest.approx(t * np.vdot(M, np.eye(len(P)) - P))
        assert at(above) == pytest.approx((1.0 - t) * np.vdot(M, np.eye(len(P)) - P))
    for Q, row in zip(lifted.Q, lifted.rows, strict=False):
        on_N = np.zeros_like(Q)
        on_N[lifted.m :, lifted.m :] = Q[lifted.m :, lifted.m :]
        values, vectors = np.linalg.eigh(on_N)
        pays = np.vdot(gap * (vectors * np.abs(values)) @ vectors.T + P @ on_N @ P, P @ P)
        pays += np.vdot(on_N, P @ Q @ P) - np.vdot(P @ on_N @ P, P @ P)
        assert at(row) == pytest.approx(d * gap**2 - np.sum((P @ Q @ P) ** 2) + pays)
        assert pays >= -1e-12 or gap < np.linalg.norm(P @ Q @ P, 2)


@PARTS
def test_forms_of_cuts_are_those_of_their_terms(seed, p, contrasts, d, options, part):
    reduced = reduce_problem(random_problem(seed, p, contrasts, d, **options))
    lifted = lifted_program(reduced, next(random_bases(0, reduced.size, d, 1)), part)
    U = lifted.vectors.smat(lifted.basis.T)
    cases = [
        (K, form, lambda M, c=c, sign=sign: lifted._cut_terms(c, sign, M))
        for c, sign, K in lifted.cuts
        for form in [lifted._cut_forms(c, sign, K, U)]
    ]
    if lifted.has_t:
        below, above = lifted._box_forms(U)
        cases.append((np.eye(len(U[0])), below, lambda M: lifted._box_terms(M)[0]))
        cases.append((np.eye(len(U[0])), above, lambda M: lifted._box_terms(M)[1]))
    for K, form, terms_of in cases:
        for x, y in ((0, 0), (0, 1), (1, 0)):
            M = np.outer(K[:, x], K[:, y])
            expected = lifted._form(terms_of((M + M.T) / 2.0), lifted.basis)
            np.testing.assert_allclose(form[x, y], expected, atol=1e-12)


@PARTS
def test_it_starts_where_products_of_projectors_are(seed, p, contrasts, d, options, part):
    reduced = reduce_problem(random_problem(seed, p, contrasts, d, **options))
    lifted = lifted_program(reduced, next(random_bases(0, reduced.size, d, 1)), part)
    for _ in range(2):
        Z = lifted.pose().Z.box[0]
        np.testing.assert_allclose(np.tensordot(lifted.fixed, Z, 2), 0.0, atol=1e-10)
        assert np.linalg.eigvalsh(Z)[0] > 0.0
        outside = np.eye(len(lifted.basis)) - lifted.basis @ lifted.basis.T
        lifted.join(np.linalg.svd(outside)[0][:, : 3 * (part is not None)])


def test_contrasts_far_from_binding_are_left_out():
    problem = random_problem(19, 6, 2, 3, cov_weight=3.0)
    far = np.concatenate([problem.cov_gaps, 1e-3 * problem.cov_gaps])
    lower, plain = (solve(replace(problem, cov_gaps=gaps)) for gaps in (far, problem.cov_gaps))
    assert lower.certificate.bound == pytest.approx(plain.certificate.bound, rel=1e-3)
    reduced = reduce_problem(replace(problem, cov_gaps=far))
    V = reduced.basis.T @ lower.basis
    assert len(lifted_program(reduced, V).cuts) == 8
    assert len(lifted_module._choose(reduced, V).cuts) <= 4
    value, _ = lifted_bound(reduced, V, 1e-4, 100)
    assert value * reduced.scale == pytest.approx(lower.certificate.bound, rel=1e-3)


@pytest.mark.parametrize("part", [None, (2, 3)])
def test_it_agrees_with_a_conic_solver(part):
    cp = pytest.importorskip("cvxpy")
    reduced = reduce_problem(random_problem(26, 7, 2, 3, cov_tol=0.3))
    V = starts.refined_basis(reduced, "refined", Options(certify=False)).basis
    lifted = lifted_program(reduced, V, part)
    point, value, status = lifted.pose(), np.inf, None
    start, rank = point.Z.box[0], lifted.cuts[0][2].shape[1]
    Z = cp.Variable(start.shape, PSD=True)
    entries = rank * (rank + 1) // 2
    limits = [cp.sum(cp.multiply(form, Z)) == np.vdot(form, start) for form in point.E]
    for k in range(len(lifted.cuts)):
        forms = point.vectors.smat(point.C[k * entries : (k + 1) * entries].T).T
        flat = forms.reshape(rank * rank, -1) @ cp.vec(Z, order="C")
        limits.append(cp.reshape(flat, (rank, rank), order="C") >> 0)
    limits += [cp.sum(cp.multiply(row, Z)) >= 0 for row in point.C[len(lifted.cuts) * entries :]]
    program = cp.Problem(cp.Maximize(cp.sum(cp.multiply(point.S, Z))), limits)
    program.solve(solver="CLARABEL")
    while status is None:
        status, value = point.step(0), min(value, lifted.prove(point)[0])
    assert status.converged
    assert np.vdot(point.S, point.Z.box[0]) == pytest.approx(program.value, rel=1e-4)
    if part is None:
        assert value == pytest.approx(program.value, rel=1e-4)
    assert value >= program.value * (1.0 - 1e-4)


def test_where_no_contrast_binds_only_the_means_are_left():
    problem = random_problem(22, 7, 2, 3, mean_tol=0.1, cov_tol=50.0)
    reduced = reduce_problem(problem)
    basis = starts.refined_basis(reduced, "refined", Options()).basis
    assert reduced.cov_gap(basis) < 0.1 * reduced.limit
    bound, _ = lifted_bound(reduced, basis, 1e-4, 100)
    feasible = [V for V in random_bases(0, reduced.size, 3, 1000) if reduced.violation(V) <= 0.0]
    assert np.isfinite(bound)
    assert all(reduced.objective(V) <= bound for V in [basis, *feasible])


def test_bounded_means_alone_are_bounded():
    reduced = reduce_problem(random_problem(22, 5, 2, 2, mean_tol=0.1, cov_weight=0.0))
    V = refine(reduced, reduced.leading(2)[1]).basis
    value, status = lifted_bound(reduced, V, 1e-4, 100)
    assert status.converged
    assert 0.0 <= value - reduced.objective(V) <= 0.01 * value
