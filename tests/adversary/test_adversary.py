"""The leakage, its gradient, the targets it is about, and ascent against it."""

import numpy as np
import pytest

from fairpca.adversary import (
    Ascent,
    Leakage,
    Path,
    PathTarget,
    Point,
    find_space,
    form_targets,
    random_frequencies,
    whitened,
)
from fairpca.adversary._leakage import RIDGE
from fairpca.exceptions import InfeasibleError
from fairpca.linalg import fix_signs
from fairpca.moments import GroupMoments
from fairpca.rows import Rows


def contrasts_of(moments, **options):
    return moments.contrasts(**options)


def joint(moments):
    return moments.contrasts(joint=True)


def everything(n=240, seed=0):
    """Two attributes, a number, strata and weights."""
    rng = np.random.default_rng(seed)
    groups = np.column_stack(
        [rng.integers(0, 3, n), rng.integers(0, 2, n), rng.normal(size=n)]
    ).astype(object)
    X = rng.normal(size=(n, 5)) + groups[:, :1].astype(float)
    X[:, 1] += groups[:, 2].astype(float)
    return Rows.read(X, groups, rng.integers(0, 2, n), rng.random(n) + 0.1)


def leakage_of(rows, form=contrasts_of, d=2, n_features=40, seed=1, frequencies=None):
    targets, order = form_targets(rows, form)
    w = np.ones(len(rows)) if rows.weights is None else rows.weights
    X = rows.X - np.average(rows.X, axis=0, weights=w)
    S = (X.T * w) @ X / w.sum()
    if frequencies is None:
        frequencies = random_frequencies(d, n_features, np.random.default_rng(seed))
    return Leakage(X[order], S, targets, frequencies, np.float64), X, S, frequencies


@pytest.mark.parametrize("form", [contrasts_of, joint])
def test_the_gradient_is_that_of_differences(form):
    leakage, *_ = leakage_of(everything(), form)
    Y = np.random.default_rng(2).normal(size=(5, 2))
    _, gradient = leakage(Y)
    step = 1e-5
    for place in np.ndindex(*Y.shape):
        move = np.zeros_like(Y)
        move[place] = step
        difference = (leakage(Y + move)[0] - leakage(Y - move)[0]) / (2 * step)
        assert gradient[place] == pytest.approx(difference, abs=1e-8)


def plain_leakage(U, label, weight, frequencies):
    """R² term by term: no cells, no shared sums."""
    angles = U @ frequencies
    F = np.hstack([np.cos(angles), np.sin(angles)]) / np.sqrt(frequencies.shape[1])
    weight = weight / weight.sum()
    F = F - weight @ F
    label = label - weight @ label
    label = label / np.sqrt(weight @ label**2)
    M = (F.T * weight) @ F + RIDGE / F.shape[1] * np.eye(F.shape[1])
    right = F.T @ (weight * label)
    return right @ np.linalg.solve(M, right)


def test_every_target_is_a_regression_of_its_own():
    rows = everything()
    leakage, X, S, frequencies = leakage_of(rows)
    Y = np.random.default_rng(3).normal(size=(5, 2))
    U = X @ whitened(Y, S)[0]
    first, second = rows.groups.categorical
    number, strata = rows.groups.numeric[0].values, rows.strata.categorical[0]
    expected = {}
    for stratum in range(2):
        inside, place = strata.codes == stratum, f" where control_feature={stratum}"
        for attribute, level, name in (
            (first, 0, "sensitive_feature_0: 0 vs rest"),
            (first, 1, "sensitive_feature_0: 1 vs rest"),
            (first, 2, "sensitive_feature_0: 2 vs rest"),
            (second, 1, "sensitive_feature_1: 1 vs 0"),
        ):
            plus = attribute.codes == level
            weight = np.zeros(len(rows))
            for side in (inside & plus, inside & ~plus):
                weight[side] = rows.weights[side] / rows.weights[side].sum()
            expected[name + place] = plain_leakage(
                U, np.where(plus, 1.0, -1.0), weight, frequencies
            )
        expected["sensitive_feature_2: numeric" + place] = plain_leakage(
            U, number, rows.weights * inside, frequencies
        )
    found = dict(zip(leakage.targets.names, leakage.amounts(Y), strict=True))
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-8)


def test_the_smooth_maximum_is_near_the_largest():
    leakage, *_ = leakage_of(everything())
    Y = np.random.default_rng(4).normal(size=(5, 2))
    largest = leakage.amounts(Y).max()
    assert largest - np.log(len(leakage.targets)) / 40.0 <= leakage(Y)[0] <= largest


def test_a_weight_of_two_is_two_rows():
    rng = np.random.default_rng(5)
    X, z, w = rng.normal(size=(90, 4)), np.arange(90) % 2, rng.integers(1, 4, 90)
    Y = rng.normal(size=(4, 2))
    weighted, _, _, frequencies = leakage_of(Rows.read(X, z, sample_weight=w))
    repeated, *_ = leakage_of(
        Rows.read(np.repeat(X, w, axis=0), z.repeat(w)), frequencies=frequencies
    )
    assert weighted(Y)[0] == pytest.approx(repeated(Y)[0], rel=1e-10)
    np.testing.assert_allclose(weighted(Y)[1], repeated(Y)[1], atol=1e-10)


def test_a_label_that_the_features_represent_leaks_all():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(2000, 3))
    z = (X[:, 0] > 0).astype(int)
    leakage, *_ = leakage_of(Rows.read(X, z), d=1, n_features=200)
    assert leakage(np.eye(3)[:, :1])[0] > 0.9
    assert leakage.adjusted(np.eye(3)[:, :1])[0] > 0.9


def test_labels_without_relation_leak_nothing_but_chance():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(1000, 3))
    raw, adjusted = [], []
    for seed in range(20):
        leakage, *_ = leakage_of(Rows.read(X, rng.permutation(1000) % 2), n_features=100, seed=seed)
        Y = rng.normal(size=(3, 2))
        raw.append(leakage.amounts(Y)[0])
        adjusted.append(leakage.adjusted(Y)[0])
    assert np.mean(raw) > 0.03
    assert abs(np.mean(adjusted)) < 3 * np.std(adjusted) / np.sqrt(20) + 0.005


def test_draws_and_samples_keep_the_shares_of_cells():
    rows = everything(400)
    targets, _ = form_targets(rows, joint)
    np.testing.assert_allclose(targets.row_weights().sum(axis=1), 1.0)
    drawn = targets.take(targets.draw(100, np.random.default_rng(0)))
    assert len(drawn.cells) <= 100
    np.testing.assert_array_equal(drawn.shares, targets.shares)
    np.testing.assert_allclose(drawn.row_weights().sum(axis=1), 1.0)
    np.testing.assert_allclose(np.sum(drawn.labels * drawn.row_weights(), axis=1), 0.0, atol=1e-12)
    few = rows.sample(150, np.random.default_rng(0))
    assert len(few) <= 150
    np.testing.assert_allclose(form_targets(few, joint)[0].shares, targets.shares, atol=1e-12)
    assert rows.sample(400) is rows


def test_small_cells_are_kept_whole():
    z = np.array(["rare"] * 5 + ["common"] * 995)
    rows = Rows.read(np.random.default_rng(0).normal(size=(1000, 2)), z)
    few = rows.sample(100, np.random.default_rng(0))
    codes = few.groups.categorical[0].codes
    assert np.count_nonzero(codes == few.groups.categorical[0].levels.index("rare")) == 5
    assert few.weight == pytest.approx(1000)


def test_halves_share_every_cell():
    rows = everything(301)
    first, second = rows.halves(np.random.default_rng(0))
    assert sorted([*first, *second]) == list(range(301))
    cells = rows.cells()
    one, two = np.bincount(cells[first]), np.bincount(cells[second])
    assert np.abs(one - two).max() <= 1


def shells(n=600, seed=0):
    """Groups with equal means whose spread differs in the first two of five features."""
    rng = np.random.default_rng(seed)
    z = np.arange(n) % 2
    X = rng.normal(size=(n, 5)) * np.array([2.0, 2.0, 1.0, 1.0, 1.0])
    X[z == 1, :2] *= 0.3
    return X, z


def test_the_path_gives_up_variance_for_less_leakage():
    rows = Rows.read(*shells())
    moments = GroupMoments.from_rows(rows)
    space = find_space(moments, moments.contrasts(), 2, 0.0)
    random = np.random.default_rng(0)
    path = Path(space, rows, contrasts_of, random).fit((0.05, 0.5, 5.0))
    variance, leakage = (
        [getattr(point, name) for point in path] for name in ("variance", "leakage")
    )
    assert variance == sorted(variance, reverse=True)
    assert leakage == sorted(leakage, reverse=True)
    assert leakage[0] > 0.2
    assert leakage[-1] < 0.05
    for point in path:
        V = space.ordered(point.basis)
        np.testing.assert_allclose(V.T @ V, np.eye(2), atol=1e-10)
        assert np.abs(moments.contrasts().mean_gaps @ V).max() <= 1e-12


def test_starts_leave_out_the_directions_that_differ_the_most():
    X, z = shells()
    moments = GroupMoments.from_arrays(X, z)
    space = find_space(moments, moments.contrasts(), 2, 0.0)
    Q = moments.contrasts().cov_gaps[0]
    leading = np.linalg.eigh(space.inner.T @ Q @ space.inner)
    order = np.argsort(-np.abs(leading[0]))
    for count in (1, 2):
        dropped = leading[1][:, order[:count]]
        left_out = [V for V in space.starts() if np.abs(dropped.T @ V).max() < 1e-10]
        rest = np.linalg.svd(dropped)[0][:, count:]
        most = np.linalg.eigvalsh(rest.T @ np.diag(space.variances) @ rest)[-2:].sum()
        kept = [np.sum(V * (space.variances[:, None] * V)) for V in left_out]
        assert max(kept) == pytest.approx(most)


def test_penalties_are_ascended_up_and_down_from_the_best_basis_for_each(monkeypatch):
    ascended = []

    def stay(self, V, target):
        ascended.append(target.penalty)
        return V

    monkeypatch.setattr(Ascent, "ascend", stay)
    rows = Rows.read(*shells())
    moments = GroupMoments.from_rows(rows)
    space = find_space(moments, moments.contrasts(), 2, 0.0)
    path = Path(space, rows, contrasts_of, np.random.default_rng(0))
    points = path.fit((1.0, 2.0, 3.0, 4.0, 500.0))
    assert ascended == [1.0, 3.0, 500.0, 4.0, 2.0]
    assert [point.target.penalty for point in points] == [1.0, 2.0, 3.0, 4.0, 500.0]
    for point in points:
        value = point.target.value(point.variance, point.leakage)
        others = [point.target.value(p.variance, p.leakage) for p in path.points]
        assert value == max(others)


def test_signs_that_rounding_chooses_do_not_matter():
    # eigh and QR choose them: rows that are summed in another order may have others.
    rows = Rows.read(everything(120).X, np.arange(120) % 2)
    moments = GroupMoments.from_rows(rows)
    space = find_space(moments, moments.contrasts(), 1, 0.0)
    for basis in (space.inner, *space.starts()):
        np.testing.assert_array_equal(fix_signs(basis), basis)
    targets, order = form_targets(rows, contrasts_of)
    X, S = space.coordinates(rows.take(order).X), np.diag(space.variances)
    start = np.full((len(S), 1), len(S) ** -0.5)
    one, other = (
        Ascent(X, S, space.total, targets, np.random.default_rng(0)).ascend(V, PathTarget(1.0))
        for V in (start, -start)
    )
    np.testing.assert_allclose(one, -other, atol=1e-5)


def test_an_ascent_does_not_lose():
    rows = Rows.read(*shells())
    moments = GroupMoments.from_rows(rows)
    space = find_space(moments, moments.contrasts(), 2, 0.0)
    targets, order = form_targets(rows, contrasts_of)
    X, S = space.coordinates(rows.X)[order], np.diag(space.variances)
    ascent = Ascent(X, S, space.total, targets, np.random.default_rng(0))
    start = space.starts()[0]
    leakage = Leakage(X, S, targets, random_frequencies(2, 60, np.random.default_rng(1)))
    better = ascent.ascend(start, PathTarget(2.0))

    def objective(V):
        return np.sum(V * (S @ V)) / space.total - 2.0 * leakage.adjusted(V).max()

    assert objective(better) > objective(start) + 0.05


@pytest.mark.parametrize("mean_tol", [0.3, None])
def test_means_may_differ_where_they_are_allowed_to(mean_tol):
    rng = np.random.default_rng(1)
    z = np.arange(400) % 2
    X = rng.normal(size=(400, 4)) + np.outer(z, [2.0, 0.0, 0.0, 0.0])
    rows = Rows.read(X, z)
    moments = GroupMoments.from_rows(rows)
    contrasts = moments.contrasts()
    space = find_space(moments, contrasts, 2, mean_tol)
    path = Path(space, rows, contrasts_of, np.random.default_rng(0)).fit((0.01,))
    gap = np.linalg.norm(contrasts.mean_gaps @ space.ordered(path[0].basis))
    if mean_tol is None:
        assert gap > 1.0
    else:
        assert 0.0 < gap <= mean_tol * (1 + 1e-9)


def test_more_components_than_directions():
    X, z = shells()
    moments = GroupMoments.from_arrays(X[:, :2], z)
    with pytest.raises(InfeasibleError, match="n_components=2"):
        find_space(moments, moments.contrasts(), 2, 0.0)
    constant = np.column_stack([X[:, :2], np.zeros((600, 2))])
    moments = GroupMoments.from_arrays(constant, z)
    with pytest.raises(InfeasibleError, match="group means is 1 "):
        find_space(moments, moments.contrasts(), 2, 0.0)


def test_a_rising_penalty_is_the_slope_of_what_is_maximised():
    target = PathTarget(2.0, variance=0.3, rise=7.0)
    assert target.penalty_at(0.3) == 2.0
    for variance in (0.2, 0.3, 0.4):
        step = 1e-6
        up, down = (target.value(variance * np.exp(s), 0.1) for s in (step, -step))
        by_variance = (up - down) / (2 * step)
        by_leakage = (target.value(variance, 0.1 + step) - target.value(variance, 0.1)) / step
        assert -by_leakage / by_variance == pytest.approx(target.penalty_at(variance), rel=1e-6)
    for tiny in (1e-300, 1e300):  # far away, where the power would overflow
        assert np.isfinite(target.value(tiny, 0.1))
        assert np.isfinite(target.penalty_at(tiny))


def test_points_in_a_hollow_are_best_for_a_target_between_their_neighbours():
    kept, leaked = (0.57, 0.52, 0.48), (0.37, 0.25, 0.12)
    points = [Point(PathTarget(0.0), np.zeros((2, 1)), *p) for p in zip(kept, leaked, strict=True)]
    first, middle, last = points

    def best(target):
        return max(points, key=lambda p: target.value(p.variance, p.leakage))

    assert all(best(PathTarget(penalty)) is not middle for penalty in np.geomspace(0.01, 100, 200))
    target = first.between(last, float(np.sqrt(first.variance * last.variance)))
    assert best(target) is middle
    tie = PathTarget(target.penalty)
    values = [tie.value(point.variance, point.leakage) for point in (first, last)]
    assert values[0] == pytest.approx(values[1])


def test_an_ascent_between_two_points_keeps_about_the_variance_it_aims_at():
    rows = Rows.read(*shells())
    moments = GroupMoments.from_rows(rows)
    space = find_space(moments, moments.contrasts(), 2, 0.0)
    path = Path(space, rows, contrasts_of, np.random.default_rng(0))
    first, last = path.fit((0.05, 5.0))
    middle = float(np.sqrt(first.variance * last.variance))
    for start in (first.basis, last.basis):
        point = path.ascend(first.between(last, middle), start)
        assert point is path.points[-1]
        assert point.target.rise > 0.0
        assert abs(np.log(point.variance / middle)) < 0.4 * np.log(first.variance / middle)
        assert point.leakage < first.leakage


def test_points_that_leak_alike_have_a_target_between_them():
    point = Point(PathTarget(1.0), np.zeros((2, 1)), 0.5, 0.1)
    target = point.between(point._replace(variance=0.49), 0.495)
    assert target == PathTarget(500.0, 0.495, 6.0 / 0.3)


@pytest.mark.parametrize(("r", "firsts"), [(8, {2, 4}), (9, {2, 4, 7})])
def test_starts_of_less_variance_begin_twice_as_far_each_time(r, firsts):
    X = np.random.default_rng(0).normal(size=(60, r)) * np.geomspace(3.0, 1.0, r)
    moments = GroupMoments.from_arrays(X, np.arange(60) % 2)
    space = find_space(moments, moments.contrasts(), 2, None)
    windows = [V for V in space.starts() if np.isin(V, (0.0, 1.0)).all()]
    for V in windows:
        np.testing.assert_array_equal(V, np.eye(r)[:, V[:, 0].argmax() :][:, :2])
    assert {int(V[:, 0].argmax()) for V in windows} - {0} == firsts
