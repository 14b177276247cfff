"""Δ of bases on the rows of the fit, and the search around a request."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.svm import SVC

from fairpca.adversary import PathTarget, Point, find_space
from fairpca.estimators import _path_delta
from fairpca.estimators._path_delta import DeltaSearch, own_delta
from fairpca.exceptions import GroupsError, InfeasibleError
from fairpca.metrics import _cross_fit
from fairpca.metrics._cross_fit import CLASSIFIERS, Classifier, HeldOutDelta, Labelled, Trained
from fairpca.moments import GroupMoments
from fairpca.rows import Rows


def contrasts_of(moments):
    return moments.contrasts()


def shells(n=600, seed=0):
    """Groups with equal means whose spread differs in the first two of five features."""
    rng = np.random.default_rng(seed)
    z = np.arange(n) % 2
    X = rng.normal(size=(n, 5)) * np.array([2.0, 2.0, 1.0, 1.0, 1.0])
    X[z == 1, :2] *= 0.3
    return X, z


@pytest.fixture(autouse=True)
def by_size(monkeypatch):
    """Replace the logistic regression by the nearness to zero."""
    trained = Trained(None, lambda U: [-np.linalg.norm(U, axis=1)])
    monkeypatch.setitem(CLASSIFIERS, "logistic", Classifier(lambda *_: trained))


def search_of(rows, d, random):
    moments = GroupMoments.from_rows(rows)
    space = find_space(moments, moments.contrasts(), d, 0.0)
    return DeltaSearch(space, rows, contrasts_of, 0.0, "linear", random)


@pytest.fixture
def search(short_path):
    return search_of(Rows.read(*shells()), 2, np.random.default_rng(0))


def test_own_delta_is_what_the_classifier_sees_and_refuses_few_rows(search, short_path):
    first, *_, last = (search.measure(point) for point in search.coarse)
    assert first.value > 0.6
    assert last.value < first.value - 0.3
    assert 0.0 < last.error < 0.1
    assert 0.05 < last.chance < 0.2
    X, z = shells()
    with pytest.raises(GroupsError, match="at least 8 rows"):
        search_of(Rows.read(X[:9], z[:9]), 1, np.random.default_rng(0))


def test_a_share_of_the_optimism_of_bases_with_the_same_own_delta_is_added(search):
    point = search.coarse[-1]
    search._own = lambda *_: HeldOutDelta(0.2, 0.03, 0.1)
    search._seen = np.array([-1.0, 0.2, 0.2, 1.0])
    search._optimism = np.array([9.0, 0.05, 0.15, -9.0])  # far away: these do not count
    found = search.measure(point)
    assert found.value == pytest.approx(0.2 + 0.7 * 0.1, abs=1e-3)
    # Of two bases both the mean and the spread are estimates: 0.05 times the root of 3.
    parts = (0.03, 0.7 * 0.05 * np.sqrt(3), 0.3 * 0.1)
    assert found.error == pytest.approx(np.linalg.norm(parts), abs=1e-3)
    search._seen, search._optimism = np.full(2, 0.2), np.full(2, -0.9)
    assert search.measure(point).value == 0.0


def test_splits_that_differ_add_the_error_of_their_mean(search):
    values = itertools.cycle([0.2, 0.3, 0.7])
    search._own = lambda *_: HeldOutDelta(next(values), 0.03, 0.1)
    search._seen, search._optimism = np.full(50, 0.4), np.zeros(50)
    found = search.measure(search.coarse[0])
    assert found.value == pytest.approx(0.4)
    parts = (0.03, np.std([0.2, 0.3, 0.7]) / np.sqrt(3), 0.3 * 0.1)
    assert found.error == pytest.approx(np.linalg.norm(parts))


def test_the_most_variance_within_the_request_is_chosen(search):
    points, deltas, chosen = search.search(0.4)
    assert deltas[chosen].value <= 0.4
    variances = [point.variance for point in points]
    assert variances == sorted(variances, reverse=True)
    for point in search.points:  # each of more variance is above the request, or too close to it
        if point.variance > points[chosen].variance:
            quick = search._known.get(id(point.basis))
            assert point.leakage > 0.4 or quick.value + quick.error > 0.4


def test_a_figure_that_is_reported_did_not_serve_to_choose(search, monkeypatch):
    asked = []
    measure = search.measure

    def noted(point, repeats=3, train=None):
        asked.append((id(point.basis), repeats))
        return measure(point, repeats, train)

    monkeypatch.setattr(search, "measure", noted)
    points, deltas, chosen = search.search(0.4)
    key = id(points[chosen].basis)
    assert (key, 1) in asked  # one split to choose
    assert (key, 3) in asked  # and fresh ones to report
    assert deltas[chosen] is not search._known[key]


def pretended(delta_of, noise, seed=0):
    """A search whose ascents end at the variance they aim at, and whose Δ is a noisy function."""
    random = np.random.default_rng(seed)
    search = DeltaSearch.__new__(DeltaSearch)

    def point(variance):
        return Point(PathTarget(1.0), np.full((4, 2), variance), variance, delta_of(variance) ** 2)

    def ascend(target, start):
        return point(target.variance * np.exp(0.02 * random.standard_normal()))

    def measure(point, repeats=3, train=None):
        value = delta_of(point.variance) + noise * random.standard_normal() / np.sqrt(repeats)
        return HeldOutDelta(value, 0.05, 0.05)

    search.coarse = [point(variance) for variance in (0.8, 0.5, 0.05)]
    space = SimpleNamespace(variances=np.ones(4), problem=SimpleNamespace(n_components=2))
    search.path = SimpleNamespace(points=search.coarse, ascend=ascend, space=space)
    search.measure, search._random = measure, random
    search._known, search._many, search._gain, search._train_some = {}, False, 0.0, None
    return search


def gentle(variance):
    return 0.08 + 0.06 * np.log(variance / 0.05)


def jumping(variance):
    """Rise from 0.06 to 0.21 at a variance of 0.07, and hardly beyond."""
    return 0.05 + 0.15 * (variance > 0.07) + 0.03 * np.log(variance / 0.05)


@pytest.mark.parametrize(
    ("delta_of", "requested", "best"), [(gentle, 0.15, 0.1058), (jumping, 0.2, 0.07)]
)
def test_the_search_ends_next_to_the_request(delta_of, requested, best):
    # Half an error is left to the request. By bad luck of noise nothing else may be lost: points
    # of many are chosen that were lucky, and their fresh figures disappoint.
    kept = [
        points[chosen].variance
        for seed in range(20)
        for points, _, chosen in [pretended(delta_of, 0.015, seed).search(requested)]
    ]
    assert np.quantile(kept, 0.1) >= 0.92 * best
    points, _, chosen = pretended(delta_of, 0.0).search(requested)
    assert 0.95 * best <= points[chosen].variance <= 1.001 * best


def test_after_a_disappointment_the_next_best_points_are_tried():
    search = pretended(lambda variance: variance, 0.0)
    search.points = [search.path.ascend(PathTarget(1.0, v), None) for v in (0.16, 0.15, 0.1, 0.05)]
    quick = search.measure
    search.measure = lambda point, repeats=3, train=None: quick(point, repeats)._replace(
        value=point.variance + (0.06 if repeats == 3 else 0.0)
    )
    points, deltas, chosen = search._choose(0.19)
    assert 0.09 < points[chosen].variance < 0.11  # not the least of all
    assert deltas[chosen].value <= 0.19


def test_with_many_rows_the_figure_reported_is_of_classifiers_with_all_of_them(monkeypatch):
    trained = []

    def train(part, seed):
        trained.append(len(part.signs))
        return Trained(None, lambda U: [-np.linalg.norm(U, axis=1)])

    monkeypatch.setitem(CLASSIFIERS, "logistic", Classifier(train))
    monkeypatch.setattr(_path_delta, "_TRAINED_ROWS", 100)
    monkeypatch.setattr(_path_delta, "PENALTIES", (1.0,))
    search = search_of(Rows.read(*shells(400)), 2, np.random.default_rng(0))
    point = search.coarse[0]
    before = search._quick(point)
    assert set(trained) == {100}
    trained.clear()
    search.measure(point)
    assert set(trained) == {200}
    search.measure = lambda *_: before._replace(value=before.value + 0.1)
    search.points = [point]
    search._calibrate(0.9)
    assert search._quick(point).value == pytest.approx(before.value + 0.1)
    assert not search._many
    monkeypatch.setattr(_path_delta, "_MANY_ROWS", 399)
    assert search_of(Rows.read(*shells(400)), 2, np.random.default_rng(0))._many


def test_no_difference_of_selection_rates_exceeds_one(search, monkeypatch):
    monkeypatch.setattr(search, "_gain", 2.0)
    assert search._quick(search.coarse[0]).value == 1.0


def test_no_point_within_the_request_gives_the_least(search):
    points, deltas, chosen = search.search(0.0)
    assert deltas[chosen].value > 0.0
    assert points[chosen].leakage <= np.sort([point.leakage for point in search.points])[2]


def test_groups_too_small_for_quarters_are_halved(short_path):
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(60, 4)), (np.arange(60) < 9).astype(int)
    search = search_of(Rows.read(X, z), 1, rng)
    assert 0.0 <= search.measure(search.coarse[0]).value <= 1.0
    units = np.where(z, np.arange(60) % 2, np.arange(60))  # the small group is two persons
    with pytest.raises(GroupsError, match="belong to few units"):
        search_of(Rows.read(X, z, units=units), 1, rng)


@pytest.mark.parametrize("n_rare", [1, 2])
def test_halves_are_drawn_again_until_both_vary_in_enough_directions(n_rare, short_path):
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(80, 3)), np.arange(80) % 2
    X[:, 2] = 0.0
    X[: 2 * n_rare : 2, 2] = 1.0  # one or two rows of one group
    rows = Rows.read(X, z)
    if n_rare == 1:
        with pytest.raises(InfeasibleError, match="for a half: n_components=2"):
            search_of(rows, 2, rng)
    else:
        for _ in range(3):  # the first draw separates the two rows in about half of the cases
            search = search_of(rows, 2, rng)
            assert 0.0 <= search.measure(search.coarse[0]).value <= 1.0


def test_units_are_never_trained_on_and_measured():
    rng = np.random.default_rng(0)
    person, z = np.repeat(np.arange(60), 8), np.repeat(np.arange(60) % 2, 8)
    U = 3.0 * rng.normal(size=(60, 2))[person] + 0.01 * rng.normal(size=(480, 2))
    signs = np.where(z, 1, -1).astype(np.int8)
    labels = {"group": (signs, np.full(480, 1 / 480))}
    train = CLASSIFIERS["gaussian-widths"].trainer(0)
    apart = own_delta(U, Rows.read(U, z), labels, train, np.random.default_rng(0))
    whole = Rows.read(U, z, units=person)
    together = own_delta(U, whole, labels, train, np.random.default_rng(0))
    assert apart.value > 0.8  # every person is known from other rows of theirs
    assert together.value < 0.6


def test_the_panel_has_the_scores_of_its_classifiers():
    rng = np.random.default_rng(0)
    U, new = rng.normal(size=(120, 2)), rng.normal(size=(30, 2))
    signs = np.where(U[:, 0] > 0, 1, -1).astype(np.int8)
    part = Labelled(Rows(U), signs)
    scores = CLASSIFIERS["panel"].trainer(0)(part).scores(new)
    alone = [
        some
        for key in ("gaussian-widths", "large-trees", "mlp")
        for some in CLASSIFIERS[key].trainer(0)(part).scores(new)
    ]
    assert len(scores) == 5
    for one, other in zip(scores, alone, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_gaussian_classifier_is_three_support_vector_machines(monkeypatch):
    monkeypatch.setattr(_cross_fit, "_BATCH_ROWS", 70)
    rng = np.random.default_rng(0)
    U, new = rng.normal(size=(120, 3)), rng.normal(size=(150, 3))
    signs = np.where(U[:, 0] * U[:, 1] + rng.normal(size=120) > 0, 1, -1).astype(np.int8)
    weights = rng.uniform(0.5, 2.0, 120)
    for sign in (-1, 1):  # both groups weigh the same, as in every target
        weights[signs == sign] *= 60 / weights[signs == sign].sum()
    part = Labelled(Rows(U, weights=weights), signs)
    scores = CLASSIFIERS["gaussian-widths"].trainer(0)(part).scores(new)
    for gamma, found in zip((0.5, 2.0, 8.0), scores, strict=True):
        machine = SVC(gamma=gamma / 3).fit(U, signs, sample_weight=part.balanced_weights())
        np.testing.assert_allclose(found, machine.decision_function(new), atol=1e-10)
