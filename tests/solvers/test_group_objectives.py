"""The smallest group objective: exact for two groups, certified for any number."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from support import projector, random_bases

from fairpca.exceptions import InvalidInputError
from fairpca.linalg import top_eigenpairs
from fairpca.solvers import FairProblem, solve
from fairpca.solvers._exact import solve_two_groups
from fairpca.solvers._problem import reduce_problem
from fairpca.solvers._solution import Options
from fairpca.solvers._tight import solve_tight

OBJECTIVES = ("worst-variance", "worst-loss")


def random_groups(seed, n_groups, size, rank=8):
    """Covariances of groups that share some of their factors."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(size, rank)) * np.linspace(2.0, 0.5, rank)
    found = []
    for _ in range(n_groups):
        loadings = common * rng.uniform(0.3, 1.5, rank) + 0.7 * rng.normal(size=(size, rank))
        X = rng.normal(size=(200, rank)) @ loadings.T + rng.normal(size=(200, size))
        found.append(np.cov(X.T, bias=True))
    return np.array(found)


def offsets_of(covariances, d, objective):
    if objective == "worst-variance":
        return np.zeros(len(covariances))
    return np.array([top_eigenpairs(S, d)[0].sum() for S in covariances])


def pure_problem(covariances, d, **options):
    p = covariances.shape[-1]
    options = {"mean_tol": None, "cov_weight": 0.0, **options}
    return FairProblem(covariances.mean(0), np.zeros((0, p)), np.zeros((0, p, p)), d, **options)


def grouped(problem, covariances, offsets):
    """The same problem for the smallest group objective; zero offsets are those of the variance."""
    offsets = offsets if offsets.any() else None
    return replace(problem, group_covariances=covariances, group_offsets=offsets)


def solve_groups(covariances, d, objective, **options):
    offsets = offsets_of(covariances, d, objective)
    return solve(grouped(pure_problem(covariances, d), covariances, offsets), **options)


def worst(covariances, offsets, V):
    return (np.einsum("gij,ij->g", covariances @ V, V) - offsets).min()


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("seed", range(8))
def test_two_groups_are_exact(seed, objective):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 40))
    d = int(rng.integers(1, size))
    groups = random_groups(seed, 2, size)
    found = solve_groups(groups, d, objective)
    certificate = found.certificate
    assert found.basis.shape == (size, d)
    np.testing.assert_allclose(found.basis.T @ found.basis, np.eye(d), atol=1e-12)
    assert certificate.gap <= 1e-9
    assert certificate.solver == "exact"
    assert certificate.criterion == objective
    np.testing.assert_allclose(found.weights.sum(), 1.0)


def test_two_groups_at_a_crossing_of_four_eigenvalues():
    groups = np.array([np.diag([2.0, 2.0, 0.0, 0.0]), np.diag([0.0, 0.0, 2.0, 2.0])])
    found = solve_groups(groups, 2, "worst-variance")
    assert found.certificate.objective == pytest.approx(2.0, abs=1e-12)
    assert found.certificate.gap <= 1e-12
    loss = solve_groups(groups, 2, "worst-loss")
    assert loss.certificate.objective == pytest.approx(-2.0, abs=1e-12)


def test_the_textbook_answer_for_two_groups_and_one_component():
    # The best share of a direction between e1 and e2 gives 4cos² and 2sin² the same value.
    groups = np.array([np.diag([4.0, 0.0]), np.diag([0.0, 2.0])])
    found = solve_groups(groups, 1, "worst-variance")
    assert found.certificate.objective == pytest.approx(4.0 / 3.0, rel=1e-12)
    np.testing.assert_allclose(found.basis[:, 0] ** 2, [1 / 3, 2 / 3], rtol=1e-9)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize(
    ("n_groups", "size", "d"), [(3, 10, 2), (6, 20, 5), (16, 30, 3), (40, 6, 2)]
)
def test_bound_holds_and_relaxation_is_solved(n_groups, size, d, objective):
    groups = random_groups(n_groups, n_groups, size)
    offsets = offsets_of(groups, d, objective)
    found = solve_groups(groups, d, objective, tol=1e-7)
    certificate = found.certificate
    assert certificate.duality_gap <= 1e-7
    assert certificate.objective == pytest.approx(worst(groups, offsets, found.basis), rel=1e-9)
    for V in random_bases(0, size, d, 200):
        assert worst(groups, offsets, V) <= certificate.bound
    # The weights by themselves prove the bound.
    w = found.weights
    proven = np.linalg.eigvalsh(np.tensordot(w, groups, 1))[-d:].sum() - w @ offsets
    assert certificate.bound == pytest.approx(proven, rel=1e-9)


def relaxed(groups, d, objective, tol):
    """The relaxation without limits, and its objectives in reduced units."""
    problem = grouped(pure_problem(groups, d), groups, offsets_of(groups, d, objective))
    reduced = reduce_problem(problem)
    return solve_tight(reduced, Options(tol=tol, max_iter=500)), reduced.groups


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_subspace_of_many_dimensions_is_enough(objective):
    bound, _ = relaxed(random_groups(5, 6, 90), 3, objective, 1e-7)
    assert bound.status.converged
    assert bound.n_iter <= 100
    assert bound.relaxed_value <= bound.value
    assert bound.value - bound.relaxed_value <= 1e-7 * abs(bound.value)


@pytest.mark.parametrize("size", [12, 90])
def test_the_relaxed_point_is_in_the_fantope_and_has_its_value(size):
    bound, groups = relaxed(random_groups(4, 7, size), 3, "worst-loss", 1e-6)
    P = bound.root @ bound.root.T
    assert np.trace(P) == pytest.approx(3.0, rel=1e-9)
    assert np.linalg.eigvalsh(P)[-1] <= 1.0 + 1e-9
    values = np.einsum("gij,ij->g", groups.S, P) - groups.offsets
    assert values.min() == pytest.approx(bound.relaxed_value, rel=1e-6)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("n_groups", [2, 4])
def test_next_to_no_penalty_is_no_penalty(n_groups, objective):
    groups = random_groups(6, n_groups, 7)
    offsets, S = offsets_of(groups, 2, objective), groups.mean(axis=0)
    gaps = groups[1:] - groups[:1]
    found = [
        solve(
            grouped(FairProblem(S, np.zeros((0, 7)), gaps, 2, cov_weight=weight), groups, offsets)
        ).certificate
        for weight in (0.0, 1e-9)
    ]
    assert found[1].objective == pytest.approx(found[0].objective, rel=1e-6)
    assert found[1].gap <= 1e-4


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_two_groups_agree_with_any_number(objective):
    many, groups = relaxed(random_groups(3, 2, 12), 3, objective, 1e-9)
    assert solve_two_groups(groups, 3).value == pytest.approx(many.value, rel=1e-8)


def test_equal_groups_and_one_group_are_plain_pca():
    S = random_groups(0, 1, 9)[0]
    top = top_eigenpairs(S, 3)[1]
    for n_groups in (1, 2, 5):
        for objective in OBJECTIVES:
            found = solve_groups(np.array([S] * n_groups), 3, objective)
            assert found.certificate.gap <= 1e-6
            np.testing.assert_allclose(projector(found.basis), projector(top), atol=1e-4)
    assert found.certificate.objective == 0.0


def test_more_components_are_never_worse():
    groups = random_groups(1, 4, 10)
    values = [solve_groups(groups, d, "worst-variance").certificate.objective for d in range(1, 11)]
    assert all(more >= less * (1 - 1e-6) for less, more in pairwise(values))


def test_as_many_components_as_dimensions():
    groups = random_groups(1, 3, 5)
    found = solve_groups(groups, 5, "worst-loss")
    assert found.certificate.objective == 0.0
    assert found.certificate.gap == 0.0


@pytest.mark.parametrize("factor", [1e-8, 1e8])
@pytest.mark.parametrize("n_groups", [2, 5])
def test_units_do_not_matter(n_groups, factor):
    groups = random_groups(2, n_groups, 8)
    one = solve_groups(groups, 2, "worst-loss")
    other = solve_groups(groups * factor, 2, "worst-loss")
    assert other.certificate.objective == pytest.approx(one.certificate.objective * factor)
    np.testing.assert_allclose(projector(other.basis), projector(one.basis), atol=1e-6)


def test_a_group_without_variance_leaves_no_choice():
    groups = random_groups(0, 3, 6)
    groups[1] = 0.0
    found = solve_groups(groups, 2, "worst-variance")
    assert found.certificate.objective == found.certificate.bound == 0.0


def test_groups_of_low_rank():
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(5, 12, 1))
    groups = factors @ np.swapaxes(factors, 1, 2)
    for objective in OBJECTIVES:
        certificate = solve_groups(groups, 3, objective).certificate
        assert certificate.duality_gap <= 1e-4
        assert certificate.objective <= certificate.bound


@pytest.mark.parametrize("d", [2, 5])
def test_groups_that_are_all_alike_but_for_a_permutation(d):
    # Rounding stands at a saddle: e_i, where no group's gradient leaves the basis.
    groups = np.array([np.outer(e, e) for e in np.eye(6)])
    certificate = solve_groups(groups, d, "worst-variance").certificate
    assert certificate.bound == pytest.approx(d / 6)
    assert certificate.objective == pytest.approx(d / 6, rel=1e-6)


def test_group_objectives_are_checked():
    groups = random_groups(0, 3, 5)
    problem = grouped(pure_problem(groups, 2), groups, np.zeros(3))
    with pytest.raises(InvalidInputError, match="worst-variance"):
        solve(problem, "paper")
    with pytest.raises(InvalidInputError, match="group_covariances has shape"):
        replace(problem, group_covariances=groups[:, :4, :4])
    with pytest.raises(InvalidInputError, match="group_offsets has shape"):
        replace(problem, group_offsets=np.zeros(2))
