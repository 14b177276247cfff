"""The two relaxations against an interior-point solver, in the reduced form."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from support import problem_from_rows, random_problem, standardized_uci

from fairpca.solvers import _problem as problems
from fairpca.solvers import solve
from fairpca.solvers._paper import solve_paper
from fairpca.solvers._problem import reduce_problem
from fairpca.solvers._solution import Options
from fairpca.solvers._tight import solve_tight

cp = pytest.importorskip("cvxpy", reason="the reference extra is not installed")


def shifted_root(Q, sign, shift):
    values, vectors = np.linalg.eigh(Q)
    return (vectors * np.sqrt(np.maximum(shift + sign * values, 0.0))) @ vectors.T


def solve_with_clarabel(objective, constraints):
    problem = cp.Problem(cp.Maximize(objective), constraints)
    # With its defaults it stalls or fails at the end on some of these; this is ample for 1e-5.
    accuracy = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-7)
    problem.solve(solver=cp.CLARABEL, static_regularization_constant=1e-7, **accuracy)
    assert problem.status == cp.OPTIMAL
    return problem.value


def fantope(reduced, trace):
    P = cp.Variable((reduced.size, reduced.size), symmetric=True)
    bound = cp.trace(P) == reduced.d if trace == "equal" else cp.trace(P) <= reduced.d
    means = [f @ P @ f <= reduced.mean_limit for f in reduced.F]
    return P, [P >> 0, np.eye(reduced.size) - P >> 0, bound, *means]


def clarabel_tight(reduced):
    P, constraints = fantope(reduced, "equal")
    s = cp.Variable(nonneg=True) if reduced.limit is None else reduced.limit
    for Q in reduced.Q:
        for sign in (1.0, -1.0):
            shift = max(0.0, -float(np.linalg.eigvalsh(sign * Q)[0]))
            R = shifted_root(Q, sign, shift)
            constraints.append((shift + s) * np.eye(reduced.size) - R @ P @ R >> 0)
        constraints += [cp.abs(cp.trace(Q @ P)) <= reduced.d * s]
    penalty = reduced.penalty * s if reduced.limit is None else 0.0
    value = cp.trace(reduced.S @ P)
    if reduced.groups is not None:
        pairs = zip(reduced.groups.S, reduced.groups.offsets, strict=True)
        value = cp.min(cp.hstack([cp.trace(S @ P) - offset for S, offset in pairs]))
    return solve_with_clarabel(value - penalty, constraints)


def clarabel_paper(reduced, trace):
    P, constraints = fantope(reduced, trace)
    t, eye, shift = cp.Variable(), np.eye(reduced.size), reduced.cov_scale
    for Q in reduced.Q:
        for sign in (1.0, -1.0):
            L = shifted_root(Q, sign, shift)
            constraints.append(cp.bmat([[t * eye, P @ L], [(P @ L).T, eye]]) >> 0)
    value = solve_with_clarabel(cp.trace(reduced.S @ P) - reduced.penalty * t, constraints)
    return value + reduced.penalty * shift


def assert_agrees(bound, reference, rtol=1e-5):
    assert bound.status.converged
    assert bound.value == pytest.approx(reference, rel=rtol)
    assert bound.relaxed_value == pytest.approx(reference, rel=rtol)
    # Both sides of the truth, up to the reference's own accuracy.
    assert bound.relaxed_value <= bound.value * (1.0 + 1e-9)


PENALISED = [
    (6, 1, {}),
    (6, 2, {"cov_weight": 5.0}),
    (10, 1, {}),
    (10, 3, {"cov_weight": 0.3}),
    (10, 2, {"mean_tol": 0.2}),
    (15, 1, {}),
    (12, 6, {}),
]


@pytest.mark.parametrize(("size", "contrasts", "options"), PENALISED)
def test_tight_penalised(size, contrasts, options):
    reduced = reduce_problem(random_problem(size, size, contrasts, 2, **options))
    assert_agrees(solve_tight(reduced, Options(tol=1e-6, max_iter=20000)), clarabel_tight(reduced))


GROUPED = [{"cov_weight": 1.0}, {"cov_tol": 0.5}, {"cov_weight": 0.5, "mean_tol": 0.2}]


@pytest.mark.parametrize("options", GROUPED)
@pytest.mark.parametrize(("size", "n_groups"), [(8, 3), (14, 4)])
def test_group_objectives_under_a_covariance_term(size, n_groups, options):
    rng = np.random.default_rng(size)
    roots = rng.normal(size=(n_groups, size, size)) / np.sqrt(size)
    problem = replace(
        random_problem(size, size, 2, 2, **options),
        group_covariances=roots @ np.swapaxes(roots, 1, 2),
        group_offsets=rng.uniform(size=n_groups),
    )
    reduced = reduce_problem(problem)
    bound = solve_tight(reduced, Options(tol=1e-6, max_iter=20000))
    assert_agrees(bound, clarabel_tight(reduced), rtol=2e-5)
    assert bound.weights.min() >= 0.0
    assert bound.weights.sum() == pytest.approx(1.0)
    # No fixed weights prove a smaller bound.
    for w in (bound.weights, np.full(n_groups, 1.0 / n_groups), np.eye(n_groups)[0]):
        S, offset = reduced.mixture(w)
        fixed = solve_tight(replace(reduced, S=S, groups=None), Options(tol=1e-6, max_iter=20000))
        assert bound.value <= fixed.value - offset + 1e-5 * abs(bound.value)


CONSTRAINED = [
    (6, 1, {"cov_tol": 0.4}),
    (10, 1, {"cov_tol": 0.1}),
    (10, 2, {"cov_tol": 0.5}),
    (10, 2, {"cov_tol": 0.5, "mean_tol": 0.2}),
    (12, 1, {"cov_tol": 0.0}),
    (15, 1, {"cov_tol": 0.2}),
]


@pytest.mark.parametrize(("size", "contrasts", "options"), CONSTRAINED)
def test_tight_constrained(size, contrasts, options):
    reduced = reduce_problem(random_problem(size, size, contrasts, 2, **options))
    assert_agrees(solve_tight(reduced, Options(tol=1e-6, max_iter=20000)), clarabel_tight(reduced))


@pytest.mark.parametrize("trace", ["at-most", "equal"])
@pytest.mark.parametrize(
    ("size", "contrasts", "options"),
    [
        (6, 1, {}),
        (6, 1, {"cov_weight": 20.0}),
        (6, 2, {"mean_tol": 0.2}),
        (10, 1, {"cov_weight": 3.0}),
        (10, 2, {}),
        (15, 1, {}),
    ],
)
def test_paper(size, contrasts, options, trace):
    reduced = reduce_problem(random_problem(size, size, contrasts, 2, **options))
    bound = solve_paper(reduced, Options(tol=1e-6, max_iter=20000, trace=trace))
    assert_agrees(bound, clarabel_paper(reduced, trace))


def test_size_20():
    reduced = reduce_problem(random_problem(20, 20, 1, 2))
    assert_agrees(solve_tight(reduced, Options(tol=1e-6, max_iter=20000)), clarabel_tight(reduced))
    bound = solve_paper(reduced, Options(tol=1e-6, max_iter=20000, trace="equal"))
    assert_agrees(bound, clarabel_paper(reduced, "equal"))


CERTIFIED = [
    (14, 1, 3, {}),
    (16, 2, 4, {"cov_weight": 3.0}),
    (18, 1, 4, {"cov_tol": 0.3}),
    (20, 1, 5, {"cov_tol": 0.05}),
    (16, 1, 3, {"cov_tol": 0.2, "mean_tol": 0.2}),
]


@pytest.mark.parametrize("few", [0, 400], ids=["as large", "as small"])
@pytest.mark.parametrize(("size", "contrasts", "d", "options"), CERTIFIED)
def test_certificates_of_large_and_small_problems(size, contrasts, d, options, few, monkeypatch):
    monkeypatch.setattr(problems, "_FEW_UNKNOWNS", few)
    problem = random_problem(size, size, contrasts, d, **options)
    reduced = reduce_problem(problem)
    reference = clarabel_tight(reduced) * reduced.scale
    found = solve(problem).certificate
    slack = 1e-5 * abs(reference)
    assert found.objective <= reference + slack
    assert found.bound >= reference - slack
    # The share of the gap that may stay unproven, or a certificate within its tolerance.
    unproven = max(0.011 * (found.bound - found.objective), 1e-4 * abs(found.bound))
    assert found.bound <= reference + unproven + slack


def real_problems():
    X = load_diabetes(scaled=False).data
    sex = (X[:, 1] == 2).astype(int)
    X = np.delete(X, 1, axis=1)
    yield "diabetes", (X - X.mean(axis=0)) / X.std(axis=0), sex
    for name, features in (("pima_diabetes", 7), ("wine_quality", 11), ("german_credit", 16)):
        yield name, None, features


@pytest.mark.parametrize(("name", "X", "z"), list(real_problems()), ids=lambda v: str(v)[:16])
def test_real_data(name, X, z):
    if X is None:
        features = z
        X, z = standardized_uci(name)
        X = X[:, :features]
    reduced = reduce_problem(problem_from_rows(X, z, 2))
    assert_agrees(solve_tight(reduced, Options(tol=1e-6, max_iter=20000)), clarabel_tight(reduced))
    bound = solve_paper(reduced, Options(tol=1e-6, max_iter=20000))
    assert_agrees(bound, clarabel_paper(reduced, "at-most"))
