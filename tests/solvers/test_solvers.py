"""What every solver promises: constraints, order, certificate; and what each adds."""

from dataclasses import replace

import numpy as np
import pytest
from support import problem_from_rows, projector, random_bases, random_problem

from fairpca._present import verdict
from fairpca.exceptions import InfeasibleError, InvalidInputError
from fairpca.moments import GroupMoments
from fairpca.solvers import SOLVERS, Certificate, FairProblem, Status, solve
from fairpca.solvers._exact import deflate
from fairpca.solvers._problem import reduce_problem, smallest_cov_gap
from fairpca.solvers._solution import Bound
from fairpca.solvers._starts import Outcome
from fairpca.solvers._tight import _SubspaceRounds

CASES = [
    (1, {}),
    (1, {"cov_weight": 0.1}),
    (1, {"cov_weight": 30.0}),
    (3, {}),
    (1, {"cov_tol": 0.3}),
    (2, {"cov_tol": 0.6}),
    (1, {"mean_tol": 0.15}),
    (2, {"mean_tol": 0.15, "cov_tol": 0.6}),
    (1, {"mean_tol": None}),
]


def gaps(problem, V):
    return max(np.linalg.norm(V.T @ Q @ V, 2) for Q in problem.cov_gaps)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("contrasts", "options"), CASES)
@pytest.mark.parametrize("d", [1, 3])
def test_promises(solver, contrasts, options, d):
    problem = random_problem(contrasts, 9, contrasts, d, **options)
    if solver == "paper" and "cov_tol" in options:
        with pytest.raises(InvalidInputError, match="no constrained form"):
            solve(problem, solver)
        return
    solution = solve(problem, solver)
    V, certificate = solution.basis, solution.certificate
    np.testing.assert_allclose(V.T @ V, np.eye(d), atol=1e-10)
    scores = V.T @ problem.covariance @ V
    np.testing.assert_allclose(scores - np.diag(np.diag(scores)), 0, atol=1e-9)
    assert (np.diff(np.diag(scores)) <= 1e-9).all()
    assert (V[np.abs(V).argmax(axis=0), range(d)] > 0).all()
    assert certificate.cov_gap == pytest.approx(gaps(problem, V), abs=1e-9)
    if problem.mean_tol == 0.0:
        assert certificate.mean_gap <= 1e-10
    elif problem.mean_tol is not None:
        assert certificate.mean_gap <= problem.mean_tol * (1 + 1e-6)
    if problem.cov_tol is not None:
        assert certificate.cov_gap <= problem.cov_tol * (1 + 1e-6)
    assert certificate.objective <= certificate.bound
    assert certificate.bound_solved
    assert certificate.basis_settled == (certificate.solver not in ("tight", "paper"))


@pytest.mark.parametrize(("contrasts", "options"), CASES)
def test_bound_holds_for_random_bases(contrasts, options):
    problem = random_problem(contrasts, 6, contrasts, 2, **options)
    bounds = {
        solver: solve(problem, solver).certificate.bound
        for solver in SOLVERS
        if not (solver == "paper" and "cov_tol" in options)
    }
    size = 6
    if problem.mean_tol == 0.0:
        N = np.linalg.svd(problem.mean_gaps)[2][contrasts:].T
        size = N.shape[1]
    tried = 0
    for V in random_bases(7, size, 2, 2000):
        if problem.mean_tol == 0.0:
            V = N @ V
        mean_gap = np.linalg.norm(problem.mean_gaps @ V, axis=1).max()
        if problem.mean_tol is not None and mean_gap > problem.mean_tol + 1e-9:
            continue
        value, gap = np.trace(V.T @ problem.covariance @ V), gaps(problem, V)
        if problem.cov_tol is None:
            value -= problem.cov_weight * gap
        elif gap > problem.cov_tol:
            continue
        tried += 1
        assert all(value <= bound for bound in bounds.values())
    assert tried > 5


@pytest.mark.parametrize("seed", range(8))
def test_tight_bound_is_never_above_the_papers(seed):
    problem = random_problem(
        seed, 8 + seed % 3, 1 + seed % 2, 1 + seed % 3, cov_weight=2.0**seed / 8
    )
    tight = solve(problem, "tight", tol=1e-6).certificate.bound
    paper = solve(problem, "paper", tol=1e-6, trace="equal").certificate.bound
    assert tight <= paper * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_refined_is_at_least_as_good_as_the_others(seed):
    problem = random_problem(seed, 10, 1 + seed % 3, 3)
    values = {solver: solve(problem, solver).certificate.objective for solver in SOLVERS}
    assert values["refined"] >= max(values.values()) - 1e-8


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("options", [{}, {"cov_tol": 0.1}])
def test_one_component_has_no_duality_gap(seed, options):
    problem = random_problem(seed, 7, 1, 1, **options)
    certificate = solve(problem, "deflation", tol=1e-6).certificate
    assert certificate.gap <= 1e-5


def test_deflation_makes_every_gap_diagonal():
    reduced = reduce_problem(random_problem(5, 14, 1, 4, cov_tol=0.05))
    V, _ = deflate(reduced)
    B = V.T @ reduced.Q[0] @ V
    np.testing.assert_allclose(B - np.diag(np.diag(B)), 0, atol=1e-9)
    assert np.abs(np.diag(B)).max() <= reduced.limit * (1 + 1e-6)


@pytest.mark.parametrize("options", [{"cov_weight": 1.0}, {"cov_tol": 0.3}])
def test_deflation_is_nested(options):
    problem = random_problem(5, 14, 1, 4, **options)
    many = solve(problem, "deflation", certify=False).basis
    few = solve(replace(problem, n_components=2), "deflation", certify=False).basis
    np.testing.assert_allclose(many @ (many.T @ few), few, atol=1e-9)


def test_deflation_without_room_is_made_feasible():
    # Five components in six dimensions leave no room for the images Qv: what deflation finds
    # sticks out of the limit, and the solver must not hand that on.
    problem = random_problem(6, 7, 1, 5)
    smallest = (
        smallest_cov_gap(reduce_problem(problem).cov_values, 5) * np.trace(problem.covariance) / 7
    )
    problem = replace(problem, cov_tol=1.02 * smallest)
    reduced = reduce_problem(problem)
    assert reduced.violation(deflate(reduced)[0]) > 1e-3
    certificate = solve(problem, "deflation").certificate
    assert certificate.cov_gap <= problem.cov_tol * (1 + 1e-6)


def test_optimality_conditions_of_the_refined_basis():
    problem = random_problem(8, 12, 1, 3, cov_tol=0.2)
    V = solve(problem).basis
    S, Q = problem.covariance, problem.cov_gaps[0]
    N = np.linalg.svd(np.column_stack([V, problem.mean_gaps[0]]))[0][:, 4:]
    # The gradient NᵀSV must be a combination NᵀQV·G with a symmetric G.
    G = np.linalg.lstsq(N.T @ Q @ V, N.T @ S @ V, rcond=None)[0]
    np.testing.assert_allclose(N.T @ Q @ V @ G, N.T @ S @ V, atol=1e-8)
    assert problem.cov_tol == pytest.approx(np.linalg.norm(V.T @ Q @ V, 2))


def test_attainable_minimum_is_stated_and_attained():
    problem = random_problem(3, 7, 1, 4, cov_tol=0.0)
    with pytest.raises(InfeasibleError, match="smallest attainable covariance gap is") as caught:
        solve(problem)
    minimum = caught.value.minimum
    assert minimum > 0.0
    options = {"n_components": 4, "cov_tol": minimum * 1.001}
    attainable = FairProblem(problem.covariance, problem.mean_gaps, problem.cov_gaps, **options)
    assert solve(attainable).certificate.cov_gap <= minimum * 1.0011


def test_smallest_gap_against_random_bases():
    reduced = reduce_problem(random_problem(3, 7, 1, 4))
    Q, smallest = reduced.Q, smallest_cov_gap(reduced.cov_values, 4)
    found = min(np.linalg.norm(V.T @ Q[0] @ V, 2) for V in random_bases(0, 6, 4, 3000))
    assert 0.0 < smallest <= found


@pytest.mark.parametrize("factor", [1e-12, 1e12])
@pytest.mark.parametrize("options", [{}, {"cov_tol": 0.3}, {"mean_tol": 0.1}])
@pytest.mark.parametrize("solver", ["refined", "tight"])
def test_scale_changes_nothing(factor, options, solver):
    problem = random_problem(2, 8, 1, 2, **options)
    scaled_options = {
        "cov_tol": {"cov_tol": 0.3 * factor**2},
        "mean_tol": {"mean_tol": 0.1 * factor},
    }.get(next(iter(options), ""), {})
    scaled = FairProblem(
        problem.covariance * factor**2,
        problem.mean_gaps * factor,
        problem.cov_gaps * factor**2,
        2,
        **scaled_options,
    )
    first, second = solve(problem, solver), solve(scaled, solver)
    np.testing.assert_allclose(projector(first.basis), projector(second.basis), atol=1e-6)
    assert second.certificate.bound == pytest.approx(first.certificate.bound * factor**2, rel=1e-6)


def test_without_certificate_the_bound_is_loose_but_valid():
    problem = random_problem(1, 10, 1, 3)
    with_bound, without = solve(problem), solve(problem, certify=False)
    assert without.certificate.bound > with_bound.certificate.bound
    assert without.certificate.objective == pytest.approx(with_bound.certificate.objective)


def test_iteration_limit_gives_a_valid_bound_and_says_so():
    problem = random_problem(1, 12, 2, 3, cov_weight=3.0)
    hasty, patient = (solve(problem, max_iter=n, tol=1e-8) for n in (3, 20000))
    assert not hasty.certificate.bound_solved
    assert hasty.status is Status.ITERATION_LIMIT
    assert "Raise max_iter or tol" in hasty.status.message
    assert patient.certificate.bound_solved
    assert hasty.certificate.bound >= patient.certificate.bound * (1 - 1e-9)


def test_what_is_solved_exactly_takes_no_steps():
    for d, contrasts in ((2, 0), (5, 2)):  # no contrast; the whole space
        solution = solve(random_problem(1, 5, contrasts, d, mean_tol=None))
        assert (solution.n_iter, solution.certificate.solver) == (0, "exact")
        assert solution.certificate.gap <= 1e-12


def test_a_gap_of_one_per_cent_is_proven_whatever_its_last_digit():
    figures = (0.0, 0.0, 1.0, 0.0, "refined", True, True)
    assert 1.0 - 0.99 > 0.01
    assert Certificate(0.99, 1.0, *figures).proven
    assert not Certificate(0.99 - 1e-9, 1.0, *figures).proven


@pytest.mark.parametrize(("left", "settled"), [(0.5, True), (2.0, False)])
def test_an_ascent_that_was_cut_short_counts_as_settled_next_to_its_bound(
    left, settled, monkeypatch
):
    def cut_short(reduced, *_):
        V = reduced.leading(2)[1]
        value = reduced.objective(V) / (1.0 - 1e-3 * left)
        return Outcome(V, Bound(value, value, V), 1, "refined", Status.UNSETTLED)

    monkeypatch.setattr("fairpca.solvers._solve._find", cut_short)
    solution = solve(random_problem(1, 8, 1, 2, mean_tol=None), tol=1e-3)
    assert solution.certificate.gap == pytest.approx(1e-3 * left)
    assert solution.certificate.basis_settled == settled
    assert solution.status is (Status.CONVERGED if settled else Status.UNSETTLED)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_callback_sees_every_iteration_with_valid_bounds(solver):
    problem = random_problem(3, 9, 2, 2)
    seen = []
    solution = solve(problem, solver, callback=seen.append)
    bounds = [at.bound for at in seen if at.stage == "bound" and np.isfinite(at.bound)]
    assert [at.iteration for at in seen if at.stage == "bound"][:3] == [1, 2, 3]
    assert (np.diff(bounds) <= 0.0).all()
    assert bounds[-1] <= solution.certificate.bound * (1 + 1e-12)
    assert all(at.gap >= 0.0 for at in seen)
    if solver == "refined":
        assert {at.stage for at in seen} == {"basis", "bound"}


@pytest.mark.parametrize("solver", ["refined", "tight", "paper"])
def test_what_a_callback_sees_is_in_the_units_of_the_problem(solver):
    problem, unit = random_problem(3, 9, 2, 2), 4096.0  # a power of four: nothing is rounded
    larger = replace(
        problem, covariance=unit * problem.covariance, cov_gaps=unit * problem.cov_gaps,
        mean_gaps=np.sqrt(unit) * problem.mean_gaps,
    )  # fmt: skip
    seen = {1.0: [], unit: []}
    solve(problem, solver, callback=seen[1.0].append)
    solve(larger, solver, callback=seen[unit].append)
    for name in ("bound", "objective"):
        small, large = ([getattr(at, name) for at in seen[key]] for key in seen)
        np.testing.assert_allclose(large, unit * np.array(small), rtol=1e-9)


def test_a_problem_from_contrasts_is_the_one_from_rows():
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(60, 4)), np.repeat(["a", "b", "c"], 20)
    moments = GroupMoments.from_arrays(X, z)
    covariance, contrasts = moments.pooled().covariance, moments.contrasts("pairs")
    problem = FairProblem.from_contrasts(covariance, contrasts, 2, cov_tol=0.4, mean_tol=0.1)
    assert (problem.mean_tol, problem.cov_tol, problem.cov_weight) == (0.1, 0.4, 1.0)
    means = [X[z == g].mean(axis=0) for g in "abc"]
    np.testing.assert_allclose(problem.covariance, np.cov(X.T, bias=True))
    np.testing.assert_allclose(problem.mean_gaps[0], means[1] - means[0])
    assert problem.cov_gaps.shape == (3, 4, 4)


def test_a_larger_shift_weakens_the_paper():
    problem = random_problem(1, 8, 1, 2)
    smallest = max(np.linalg.norm(Q, 2) for Q in problem.cov_gaps)
    bounds = [
        solve(problem, "paper", cov_shift=shift, trace="equal", tol=1e-6).certificate.bound
        for shift in (None, smallest, 2 * smallest)
    ]
    assert bounds[0] <= bounds[1] * (1 + 1e-5) <= bounds[2]
    with pytest.raises(InvalidInputError, match=r"cov_shift=0\.001 is below"):
        solve(problem, "paper", cov_shift=1e-3)


def test_rank_deficient_and_constant_features():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    X = np.column_stack([X, X[:, 0], X[:, 1] + X[:, 2], np.full(300, 4.0)])
    z = rng.integers(0, 2, 300)
    X[z == 1, 0] *= 1.5
    X[z == 1, 1] += 1.0
    certificate = solve(problem_from_rows(X, z, 3)).certificate
    assert certificate.bound_solved
    assert certificate.basis_settled
    assert certificate.mean_gap <= 1e-10


def test_identical_groups():
    S = np.diag([3.0, 2.0, 1.0])
    problem = FairProblem(S, np.zeros((1, 3)), np.zeros((1, 3, 3)), 2)
    assert solve(problem).certificate.objective == pytest.approx(5.0)


def test_no_variance_at_all():
    problem = FairProblem(np.zeros((3, 3)), np.zeros((1, 3)), np.zeros((1, 3, 3)), 2)
    certificate = solve(problem).certificate
    assert (certificate.objective, certificate.bound, certificate.gap) == (0.0, 0.0, 0.0)


def test_the_same_problem_twice_is_the_same_to_the_bit():
    problem = random_problem(4, 12, 2, 3)
    np.testing.assert_array_equal(solve(problem).basis, solve(problem).basis)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_components": 0}, "n_components=0 must be between 1 and n_features=4"),
        ({"n_components": 5}, "n_components=5"),
        ({"mean_tol": -1.0}, "mean_tol=-1.0"),
        ({"cov_weight": float("nan")}, "cov_weight=nan"),
        ({"cov_tol": float("inf")}, "cov_tol=inf"),
        ({"covariance": np.full((4, 4), np.nan)}, "covariance contains NaN"),
        ({"cov_gaps": np.zeros((1, 3, 3))}, "cov_gaps has shape"),
    ],
)
def test_bad_problems(change, message):
    good = {
        "covariance": np.eye(4),
        "mean_gaps": np.zeros((1, 4)),
        "cov_gaps": np.zeros((1, 4, 4)),
        "n_components": 2,
    }
    with pytest.raises(InvalidInputError, match=message):
        FairProblem(**(good | change))


def test_unknown_solver():
    with pytest.raises(InvalidInputError, match="solver='simplex' is unknown"):
        solve(random_problem(0, 5, 1, 1), "simplex")


def test_three_words_of_a_certificate_are_three_things():
    proven = Certificate(9.99, 10.0, 0.0, 0.1, 10.0, 0.0, "refined", True, True)
    assert proven.proven
    assert verdict(proven.as_dict()) == "within 0.1 % of optimal (proven)"
    loose = replace(proven, objective=8.0)
    assert not loose.proven
    assert replace(loose, level=0.2).proven
    assert verdict(loose.as_dict()).startswith("a local optimum; at most 25.0 % more is possible")
    assert "more iterations will not narrow this" in repr(loose)
    hasty = replace(loose, basis_settled=False, bound_solved=False)
    assert verdict(hasty.as_dict()).startswith("a basis short of an optimum; ")
    assert verdict(hasty.as_dict()).endswith("the bound was not solved to tol")
    # Of nothing there is no percentage.
    assert "at most 10 more" in verdict(replace(loose, objective=0.0).as_dict())
    assert "at most 2.000 more" in verdict(replace(loose, objective=-3.0, bound=-1.0).as_dict())


def test_halved_multipliers_bound_many_components_more_closely(monkeypatch):
    # Both signs bind, and together they take too much.
    diagonal, bases = 1.0 / np.arange(1, 81), [*random_bases(0, 80, 80, 3)]
    shared, one, other = ((basis * diagonal) @ basis.T for basis in bases)
    problem = FairProblem(shared + 0.5 * (one + other), np.zeros((0, 80)), (one - other)[None], 35)
    lower = solve(problem).certificate
    monkeypatch.setattr(_SubspaceRounds, "_halve", lambda rounds, dual: Status.STALLED)
    plain = solve(problem).certificate
    assert lower.objective == plain.objective
    assert lower.gap < 0.9 * plain.gap


def test_a_bound_that_was_not_computed_was_not_solved():
    certificate = solve(random_problem(1, 12, 2, 3), certify=False).certificate
    assert certificate.basis_settled
    assert not certificate.bound_solved


def test_a_wider_level_may_be_asked_for():
    problem = random_problem(1, 12, 2, 3, cov_weight=3.0)
    assert solve(problem, tol=0.3).certificate.level == 0.3
    assert solve(problem).certificate.level == 0.01
