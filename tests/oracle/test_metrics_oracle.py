"""Fast kernels of the metrics against slow ones that are obviously right."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import ks_2samp
from sklearn.svm import SVC

from fairpca.metrics import delta_fairness
from fairpca.metrics._orthants import Orthants
from fairpca.metrics._plane import PlaneSweep
from fairpca.metrics._rules import (
    best_cut,
    masses,
    sup_between_groups,
    sup_over_thresholds,
)
from fairpca.metrics._search import SVMStatistic
from fairpca.metrics._svm import PENALTIES, svm_directions, whiten


def brute_half_planes(points, mass):
    """All half-planes: lines through point pairs, with every way to split the points on them."""
    total = {}
    for point, value in zip(map(tuple, points), mass, strict=True):
        total[point] = total.get(point, 0.0) + value
    best = 0.0
    for a, b in itertools.combinations(total, 2):
        dx, dy = b[0] - a[0], b[1] - a[1]
        side = {p: dx * (p[1] - a[1]) - dy * (p[0] - a[0]) for p in total}
        left = sum(total[p] for p in total if side[p] > 0)
        on = sorted(
            (p for p in total if side[p] == 0),
            key=lambda p: dx * (p[0] - a[0]) + dy * (p[1] - a[1]),
        )
        prefix = 0.0
        everything = sum(total[p] for p in on)
        best = max(best, abs(left), abs(left + everything))
        for p in on:
            prefix += total[p]
            best = max(best, abs(left + prefix), abs(left + everything - prefix))
    return best


def brute_orthants(U, mass, points):
    return max(abs(mass[(np.asarray(point) >= U).all(axis=1)].sum()) for point in points)


def random_signs(rng, n, share=0.4):
    signs = np.where(rng.random(n) < share, 1, -1).astype(np.int8)
    signs[:2] = 1, -1
    return signs


@pytest.mark.parametrize("levels", [2, 3, 5, 9, 10_000])
@pytest.mark.parametrize("seed", range(8))
def test_plane_sweep_is_brute_force_over_point_pairs(levels, seed):
    # Integer coordinates: duplicates and collinear points abound, and all sums are exact.
    rng = np.random.default_rng([seed, levels])
    n = int(rng.integers(4, 61))
    points = rng.integers(0, levels, size=(n, 2)).astype(float)
    signs = random_signs(rng, n)
    mass = masses(signs[None]).values[0]
    expected = brute_half_planes(points.astype(int).tolist(), mass)
    sweep = PlaneSweep(points)
    found = sweep.best(mass)
    assert found.value == expected
    assert best_cut(points @ found.normal, mass).value == expected
    many = np.array([rng.permutation(signs) for _ in range(3)] + [signs])
    suprema = sweep.suprema(masses(many).values)
    assert suprema[3] == expected
    for row, value in zip(many[:3], suprema[:3], strict=True):
        assert value == sweep.best(masses(row[None]).values[0]).value


def test_plane_sweep_with_weights_and_decimal_coordinates():
    # Tenths are not exact in binary: rounding must not separate what lies on one line.
    rng = np.random.default_rng(1)
    for _ in range(10):
        grid = rng.integers(0, 6, size=(40, 2))
        signs = random_signs(rng, 40)
        weight = rng.integers(1, 5, size=40).astype(float)
        mass = masses(signs[None], weight).values[0]
        expected = brute_half_planes(grid.tolist(), mass)
        sweep = PlaneSweep(grid / 10)
        assert sweep.best(mass).value == pytest.approx(expected, abs=1e-12)
        assert sweep.suprema(mass[None])[0] == pytest.approx(expected, abs=1e-12)


def test_exact_linear_on_continuous_points_is_brute_force():
    rng = np.random.default_rng(2)
    for n in (10, 30, 60):
        U = rng.normal(size=(n, 2))
        z = rng.permutation(np.arange(n) % 3 == 0)
        mass = masses(np.where(z, 1, -1).astype(np.int8)[None])
        expected = brute_half_planes(U.tolist(), mass.values[0]) / mass.scale[0]
        assert delta_fairness(U, z, method="exact").value == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("levels", [2, 4, 1000])
@pytest.mark.parametrize("seed", range(4))
def test_orthants_are_brute_force_over_the_grid(d, levels, seed):
    rng = np.random.default_rng([seed, d, levels])
    n = int(rng.integers(4, 41 if d < 3 else 26))
    U = rng.integers(0, levels, size=(n, d)).astype(float)
    signs = random_signs(rng, n)
    mass = masses(signs[None]).values[0]
    orthants = Orthants(U)
    grid = itertools.product(*(np.unique(column) for column in U.T))
    corner = orthants.on_grid(mass)
    assert abs(corner.value) == brute_orthants(U, mass, grid)
    assert mass[(corner.point >= U).all(axis=1)].sum() == corner.value
    at_rows = orthants.at_rows(signs[None])[0]
    assert np.abs(at_rows).max() == brute_orthants(U, mass, U)
    climbed = orthants.ascend(at_rows, mass)
    assert np.abs(at_rows).max() <= abs(climbed.value) <= abs(corner.value)
    assert mass[(climbed.point >= U).all(axis=1)].sum() == climbed.value


def test_orthants_on_the_grid_in_three_dimensions_with_forty_rows():
    rng = np.random.default_rng(5)
    U = rng.normal(size=(40, 3))
    signs = random_signs(rng, 40)
    mass = masses(signs[None]).values[0]
    inside = [U[:, k][:, None] <= np.sort(U[:, k])[None, :] for k in range(3)]
    table = np.einsum("n,na,nb,nc->abc", mass, *(part.astype(float) for part in inside))
    assert abs(Orthants(U).on_grid(mass).value) == np.abs(table).max()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_pairs", [1, 12])
def test_orthants_at_rows_for_many_pairs(weighted, n_pairs):
    # Few comparisons are counted by bits, many by matrix products.
    rng = np.random.default_rng(3)
    U = np.round(rng.normal(size=(150, 4)), 1)
    signs = rng.integers(-1, 2, size=(n_pairs, 150)).astype(np.int8)
    weight = rng.random(150) if weighted else None
    dominated = (U[None, :, :] <= U[:, None, :]).all(axis=2)
    expected = masses(signs, weight).values @ dominated.T
    np.testing.assert_allclose(Orthants(U).at_rows(signs, weight), expected, atol=1e-12)


def test_one_component_is_the_two_sample_kolmogorov_smirnov_statistic():
    rng = np.random.default_rng(4)
    for n in (6, 40, 300):
        u = np.round(rng.normal(size=n), 1)
        z = rng.permutation(np.arange(n) % 2 == 0)
        expected = ks_2samp(u[z], u[~z]).statistic
        for options in (
            {},
            {"method": "search"},
            {"family": "cdf"},
            {"family": "cdf", "method": "exact"},
        ):
            assert delta_fairness(u, z, **options).value == pytest.approx(expected, abs=1e-12)


def test_thresholds_are_those_of_a_loop():
    rng = np.random.default_rng(6)
    scores = rng.integers(0, 6, size=(20, 30)).astype(float)
    mass = masses(rng.integers(-1, 2, size=(20, 30)).astype(np.int8)).values
    values = sup_over_thresholds(scores, mass)
    for row, signed, value in zip(scores, mass, values, strict=True):
        assert value == max(abs(signed[row <= t].sum()) for t in row)
        cut = best_cut(row, signed)
        below = signed[row <= cut.threshold].sum()
        assert cut.value == value == abs(below)
        assert cut.above == (below < 0) or value == 0


@pytest.mark.parametrize("levels", [1, 2, 6, 1000])
@pytest.mark.parametrize("weighted", [False, True])
def test_thresholds_of_sorted_groups_are_those_of_a_loop(levels, weighted):
    rng = np.random.default_rng([levels, weighted])
    scores = rng.integers(0, levels, size=(4, 3, 31)) / 3.0 - 1.0
    weight = rng.random((4, 1, 31)) if weighted else np.ones((1, 1, 31))
    weight[..., :12] /= weight[..., :12].sum(axis=-1, keepdims=True)
    weight[..., 12:] /= weight[..., 12:].sum(axis=-1, keepdims=True)
    mass = np.broadcast_to(weight, scores.shape) * np.where(np.arange(31) < 12, 1, -1)
    expected = [
        [max(abs(m[row <= t].sum()) for t in row) for row, m in zip(*pair, strict=True)]
        for pair in zip(scores, mass, strict=True)
    ]
    found = sup_between_groups(scores.copy(), 12, weight if weighted else None)
    np.testing.assert_allclose(found, expected, atol=1e-14)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shift", [0.0, 0.5, 5.0])
def test_the_null_of_the_svm_runs_the_procedure_of_the_value(weighted, shift):
    rng = np.random.default_rng([weighted, int(10 * shift)])
    signs = np.array([random_signs(rng, 400, 0.3) for _ in range(60)])
    signs[::7, 300:] = 0
    signs[1::3] = [rng.permutation(signs[0]) for _ in signs[1::3]]
    U = rng.normal(size=(400, 3)) + shift * signs[:1].T
    statistic = SVMStatistic(U, rng.random(400) if weighted else None)
    expected = [statistic.fit(row).value for row in signs]
    np.testing.assert_array_equal(statistic.null(signs), expected)


def rounded_hinge(theta, U, labels, weight, penalty):
    short = np.maximum(1 - labels * (U @ theta[:-1] + theta[-1]), 0)
    cut = np.minimum(short, 0.5)
    value = 0.5 * penalty * theta[:-1] @ theta[:-1] + weight @ (cut**2 + short - cut)
    pull = -2 * weight * cut * labels
    return value, np.append(U.T @ pull + penalty * theta[:-1], pull.sum())


@pytest.mark.parametrize("d", [1, 3, 20])
@pytest.mark.parametrize("shift", [0.0, 0.3, 4.0])
def test_newton_finds_the_minimum_of_the_svm(d, shift):
    rng = np.random.default_rng([d, int(10 * shift)])
    signs = np.array([random_signs(rng, 120, 0.3) for _ in range(3)])
    signs[1, 100:] = 0
    U, _ = whiten(rng.normal(size=(120, d)) + shift * signs[0][:, None])
    found = svm_directions(U, signs, tolerance=1e-7)
    for label, directions in zip(signs, found, strict=True):
        mass = masses(label[None])
        weight = 0.5 * np.abs(mass.values[0]) / mass.scale[0]
        for penalty, direction in zip(PENALTIES, directions, strict=True):
            best = minimize(
                rounded_hinge,
                np.zeros(d + 1),
                args=(U, label.astype(float), weight, penalty),
                jac=True,
                method="BFGS",
                options={"gtol": 1e-8, "maxiter": 2000},
            )
            np.testing.assert_allclose(
                direction, best.x[:-1], atol=2e-4 * np.abs(best.x).max() + 1e-6
            )


def test_svm_direction_is_close_to_that_of_libsvm():
    rng = np.random.default_rng(7)
    z = np.repeat([-1, 1], [100, 200]).astype(np.int8)
    U, _ = whiten(rng.normal(size=(300, 3)) + np.outer(z, [1.0, 0.5, 0.0]))
    ours = svm_directions(U, z[None], tolerance=1e-7)[0]
    for penalty, direction in zip(PENALTIES, ours, strict=True):
        theirs = SVC(kernel="linear", C=1 / (300 * penalty), class_weight="balanced").fit(U, z)
        cosine = direction @ theirs.coef_[0]
        cosine /= np.linalg.norm(direction) * np.linalg.norm(theirs.coef_[0])
        assert cosine > 0.99


@pytest.mark.parametrize("seed", range(12))
def test_search_reaches_the_exact_value_in_the_plane_and_is_never_below_the_svm(seed):
    rng = np.random.default_rng(seed)
    n = [30, 80, 200, 500][seed % 4]
    z = rng.permutation(np.arange(n) < n * (0.2 + 0.3 * (seed % 2)))
    U = rng.normal(size=(n, 2))
    if seed % 3 == 1:
        U[z] *= [1.0, 2.0]
    if seed % 3 == 2:
        U = rng.integers(0, 6, size=(n, 2)) + 0.5 * z[:, None]
    exact = delta_fairness(U, z, method="exact").value
    search = delta_fairness(U, z, method="search").value
    svm = delta_fairness(U, z, method="svm").value
    assert svm <= search + 1e-15
    assert 0.99 * exact <= search <= exact + 1e-12


@pytest.mark.parametrize("d", [3, 6, 15])
def test_search_is_never_below_the_svm_or_single_directions(d):
    rng = np.random.default_rng(d)
    z = rng.permutation(np.arange(150) < 60)
    U = rng.normal(size=(150, d)) @ rng.normal(size=(d, d))
    U[z, 0] *= 2.0
    search = delta_fairness(U, z, method="search").value
    assert search >= delta_fairness(U, z, method="svm").value - 1e-15
    for k in range(min(d, 8)):
        assert search >= 0.9 * delta_fairness(U[:, k], z).value


def test_gaussian_family_is_scikit_learn_with_the_chosen_parameters():
    rng = np.random.default_rng(8)
    z = np.repeat([0, 1], 60)
    U = rng.normal(size=(120, 2)) * np.where(z, 2.0, 1.0)[:, None]
    result = delta_fairness(U, z, family="rbf")
    rule = result.worst.classifier
    rows = (U - U.mean(axis=0)) / U.std(axis=0)
    theirs = SVC(C=rule.C, gamma=rule.gamma, class_weight="balanced").fit(rows, z)
    expected = ks_2samp(*(theirs.decision_function(rows)[z == k] for k in (0, 1))).statistic
    assert result.value == pytest.approx(expected, abs=0.02)
