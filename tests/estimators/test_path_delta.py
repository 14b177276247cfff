"""Δ of a path of bases on held-out rows."""

import numpy as np
import pytest
from sklearn.svm import SVC

from fairpca.adversary import PathTarget
from fairpca.estimators._path_delta import held_out_deltas
from fairpca.exceptions import GroupsError, InfeasibleError
from fairpca.metrics import _cross_fit
from fairpca.metrics._cross_fit import CLASSIFIERS, Classifier, Labelled, Trained
from fairpca.rows import Rows


def contrasts_of(moments):
    return moments.contrasts()


def penalties(*values):
    return [PathTarget(value) for value in values]


def shells(n=600, seed=0):
    """Groups with equal means whose spread differs in the first two of five features."""
    rng = np.random.default_rng(seed)
    z = np.arange(n) % 2
    X = rng.normal(size=(n, 5)) * np.array([2.0, 2.0, 1.0, 1.0, 1.0])
    X[z == 1, :2] *= 0.3
    return X, z


@pytest.fixture(autouse=True)
def by_size(monkeypatch):
    """Replace the logistic regression by the distance from zero."""
    trained = Trained(None, lambda U: [np.linalg.norm(U, axis=1)])
    monkeypatch.setitem(CLASSIFIERS, "logistic", Classifier(lambda *_: trained))


def deltas_of(rows, d, targets, random):
    return held_out_deltas(rows, contrasts_of, d, 0.0, targets, random, "linear")


def test_held_out_rows_tell_what_the_classifier_can_see():
    X, z = shells()
    first, middle, last = deltas_of(
        Rows.read(X, z), 2, penalties(0.01, 0.5, 5.0), np.random.default_rng(0)
    )
    assert first.value > 0.6
    assert first.value >= middle.value
    assert last.value < first.value - 0.3
    assert 0.0 < last.error < 0.1
    assert 0.05 < last.chance < 0.2
    few = Rows.read(X[:9], z[:9])
    with pytest.raises(GroupsError, match="at least 8 rows"):
        deltas_of(few, 1, penalties(1.0), np.random.default_rng(0))


@pytest.mark.parametrize("n_rare", [1, 2])
def test_halves_are_drawn_again_until_both_vary_in_enough_directions(n_rare):
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(80, 3)), np.arange(80) % 2
    X[:, 2] = 0.0
    X[: 2 * n_rare : 2, 2] = 1.0  # one or two rows of one group
    rows = Rows.read(X, z)
    if n_rare == 1:
        with pytest.raises(InfeasibleError, match="for a half: n_components=2"):
            deltas_of(rows, 2, penalties(1.0), rng)
    else:
        for _ in range(3):  # the first draw separates the two rows in about half of the cases
            (found,) = deltas_of(rows, 2, penalties(1.0), rng)
            assert 0.0 <= found.value <= 1.0


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
