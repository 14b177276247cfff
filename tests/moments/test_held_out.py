"""Held-out gaps without noise: against rows, without bias, and what chance shows."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from support import NEEDS_SKLEARN_1_9

from fairpca import FairPCA
from fairpca.estimators._comparison import held_out_summary, measure_held_out
from fairpca.moments import FoldedMoments
from fairpca.moments._held_out import (
    align_components,
    chance_levels,
    measure_fold,
    summarise_cov,
    summarise_mean,
)
from fairpca.moments.folds import pair_halves
from fairpca.rows import Rows

OPTIONS = ("one-vs-rest", False, None)
LABEL = "sensitive_feature: 1 vs 0"


def made(n, seed, gap=0.0, p=6):
    random = np.random.default_rng(seed)
    z = (random.random(n) < 0.4).astype(int)
    X = random.normal(size=(n, p)) * np.linspace(2.0, 0.5, p)
    return X + gap * np.outer(z, np.ones(p) / np.sqrt(p)), z


def test_a_fold_consists_of_its_halves_and_is_the_same_as_before():
    X, z = made(400, 0)
    rows, folded = Rows.read(X, z), FoldedMoments.from_arrays(X, z, folds=4)
    assert (rows.folds(8) // 2 == rows.folds(4)).all()
    counts = np.bincount(rows.folds(8), minlength=8).reshape(4, 2)
    assert [[half.n_samples for half in halves] for halves in folded.halves] == counts.tolist()
    assert [fold.n_samples for fold in folded.folds] == counts.sum(axis=1).tolist()


def test_the_square_is_that_of_the_rows_less_its_noise():
    X, z = made(300, 1, gap=1.0)
    V = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 2)))[0].T
    folded, fold = FoldedMoments.from_arrays(X, z, folds=3), Rows.read(X, z).folds(6)
    measured = measure_fold(folded.halves[1], V, OPTIONS, {LABEL})[LABEL]
    inside = fold // 2 == 1
    U, g = X[inside] @ V.T, z[inside]
    gap = U[g == 1].mean(axis=0) - U[g == 0].mean(axis=0)
    noise = sum(np.trace(np.cov(U[g == k].T)) / np.sum(g == k) for k in (0, 1))
    assert measured.square == pytest.approx(gap @ gap - noise)
    for half in (0, 1):
        part = fold == 2 + half
        U, g = X[part] @ V.T, z[part]
        expected = np.cov(U[g == 1].T) - np.cov(U[g == 0].T)
        np.testing.assert_allclose(measured.cov_gaps[half], expected, atol=1e-9)


def test_numbers_have_their_noise_taken_off_too():
    random, squares = np.random.default_rng(0), []
    for _ in range(300):
        X, z = random.normal(size=(60, 2)), random.normal(size=60)
        folded = FoldedMoments.from_arrays(X, z, folds=2, numeric=["sensitive_feature"])
        squares += [
            gap.square
            for halves in folded.halves
            for gap in measure_fold(halves, np.eye(2), OPTIONS, _Everything()).values()
        ]
    assert abs(np.mean(squares)) < 4 * np.std(squares) / np.sqrt(len(squares))


class _Everything:
    def __contains__(self, name):
        return True


def test_aligned_components_span_the_same_space():
    random = np.random.default_rng(0)
    first, other = (np.linalg.qr(random.normal(size=(5, 2)))[0].T for _ in range(2))
    turned = align_components(other, first)
    np.testing.assert_allclose(turned.T @ turned, other.T @ other, atol=1e-12)
    turn = np.linalg.qr(random.normal(size=(2, 2)))[0]
    np.testing.assert_allclose(align_components(turn @ first, first), first, atol=1e-12)


@NEEDS_SKLEARN_1_9
def test_folds_of_the_demo_are_not_taken_for_a_gap():
    """The demo had a covariance gap of 0.48 in plain PCA and of 0.83 in fair PCA on held-out rows.

    There was no plain PCA next to it, and shuffled groups had 0.64.
    """
    X = load_diabetes().data
    features, sex, random = np.delete(X, 1, axis=1), X[:, 1] > 0, np.random.default_rng(0)
    model = FairPCA(2, standardize=True)
    summary = held_out_summary(model, FoldedMoments.from_arrays(features, sex))
    assert summary["mean_gap"] < 0.5 * summary["plain_mean_gap"]
    assert summary["cov_gap"] > 0.0
    assert summary["plain_cov_gap"] > 0.0
    assert summary["chance_cov_gap"] > 0.0
    raw, corrected, chance = [], [], []
    for _ in range(10):
        measured = measure_held_out(
            model, FoldedMoments.from_arrays(features, random.permutation(sex))
        )
        raw.append(np.mean([one.cov_gap for one in measured.statistics]))
        corrected.append(measured.figures()["cov_gap"].value)
        chance.append(measured.chance()[1])
    assert np.mean(raw) > 0.5
    assert np.mean(corrected) < 0.6 * np.mean(raw)
    assert np.mean(chance) == pytest.approx(np.mean(corrected), abs=0.25)


def test_corrected_gaps_are_nearer_to_the_truth():
    errors = []
    for seed in range(40):
        X, z = made(300, seed, gap=1.0)
        model = FairPCA(2, cov_weight=0.0, certify=False)
        folded = FoldedMoments.from_arrays(X, z)
        measured = measure_held_out(model, folded, rounds=3)
        assert len(measured.statistics) == 5
        assert len(measured.folds) == 15
        once = measured._replace(folds=measured.folds[:5])
        truth = np.linalg.norm(model.fit_moments(folded.total).components_.sum(axis=1)) / np.sqrt(6)
        for name, true in (("mean_gap", truth), ("cov_gap", 0.0)):  # covariances do not differ
            raw = np.mean([getattr(one, name) for one in measured.statistics])
            shown = [one.figures()[name].value for one in (once, measured)]
            errors.append(np.array([raw, *shown]) - true)
    squares = np.square(errors).reshape(40, 2, 3)
    (mean_raw, mean_once, mean), (cov_raw, cov_once, cov) = np.sqrt(np.mean(squares, axis=0))
    assert mean_once < 0.7 * mean_raw
    assert cov_once < 0.6 * cov_raw
    # Further divisions into folds multiply halves that have not met.
    assert mean < 0.9 * mean_once
    assert cov < cov_once


def test_the_error_of_several_rounds_is_that_of_their_mean():
    """Folds of several rounds share halves: as if they were independent it would be too small."""
    V, said, shown = np.eye(6)[:2], [], []
    for seed in range(80):
        X, z = made(300, seed, gap=2.0)
        folds = [
            measure_fold(
                split.halves, V, OPTIONS, {LABEL}, places=split.places, again=split.round > 0
            )
            for split in FoldedMoments.from_arrays(X, z).repeated_splits(5)
        ]
        gap = summarise_mean(folds)
        said.append((gap.value + gap.error) ** 2 - gap.value**2)
        shown.append(gap.value**2)
    assert np.mean(said) == pytest.approx(np.std(shown), rel=0.25)


def test_halves_meet_once():
    rounds = list(pair_halves(10, 100))
    assert len(rounds) == 9
    assert rounds[0] == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
    assert all(sorted(half for pair in pairs for half in pair) == [*range(10)] for pairs in rounds)
    assert len({pair for pairs in rounds for pair in pairs}) == 45


@pytest.mark.parametrize("rounds", [1, 3])
def test_chance_is_what_groups_without_a_difference_show(rounds):
    shown, chance = [], []
    for seed in range(16):
        X, z = made(400, seed)
        folded = FoldedMoments.from_arrays(X, z)
        measured = measure_held_out(FairPCA(2, cov_weight=0.0, certify=False), folded, rounds)
        figures = measured.figures()
        shown.append((figures["mean_gap"].value, figures["cov_gap"].value))
        chance.append(measured.chance())
    error = np.std(shown, axis=0) / np.sqrt(len(shown))
    assert (np.abs(np.mean(shown, axis=0) - np.mean(chance, axis=0)) < 4 * error).all()


def test_parts_of_held_out_rows_are_pooled():
    """One fit: products of all halves are unbiased too, and far more exact than those of parts."""
    V = np.eye(6)[:2]
    squares, errors, chance, shown = [], [], [], []
    for seed in range(60):
        for gap, collected in ((1.0, squares), (0.0, shown)):
            X, z = made(300, seed, gap=gap)
            folds = [
                measure_fold(halves, V, OPTIONS, {LABEL})
                for halves in FoldedMoments.from_arrays(X, z).halves
            ]
            both = [
                (summarise_mean(folds, pooled), summarise_cov(folds, {LABEL}, pooled))
                for pooled in (False, True)
            ]
            roots = np.array([figure.by_fold for figure in both[1]])
            by_half = np.sign(roots) * roots**2
            by_part = [np.mean(np.sign(g.by_fold) * np.square(g.by_fold)) for g in both[0]]
            collected.append((*by_part, *by_half.mean(axis=1)))
            if gap:
                errors.append(by_half.std(axis=1, ddof=1) / np.sqrt(by_half.shape[1]))
            else:
                chance.append(chance_levels(folds, {LABEL}, True))
    truth = np.array([2.0 / 6.0, 0.0, 2.0 / 6.0, 0.0])
    spread = np.std(squares, axis=0)
    assert (np.abs(np.mean(squares, axis=0) - truth) < 4 * spread / np.sqrt(60)).all()
    assert spread[3] < 0.6 * spread[1]
    said = np.sqrt(np.mean(np.square(errors), axis=0)) / spread[2:]
    np.testing.assert_allclose(said, [1.0, 2.0**0.5], rtol=0.25)  # covariances do not differ
    largest = np.sqrt(np.maximum(np.array(shown)[:, 2:], 0.0)).mean(axis=0)
    np.testing.assert_allclose(np.mean(chance, axis=0), largest, rtol=0.35)


def test_without_anything_measured_gaps_are_infinite():
    assert summarise_mean([{}, {}]).value == np.inf
    assert chance_levels([{}], set(), False) == (np.inf, np.inf)


def test_rows_of_one_unit_are_not_new():
    """Persons differ, groups do not: by rows the groups seem to, by units they do not."""
    random = np.random.default_rng(0)
    by_rows, by_units = [], []
    for _ in range(12):
        person = np.repeat(np.arange(40), 20)
        X = random.normal(size=(40, 4))[person] + random.normal(size=(800, 4))
        plain = FairPCA(2, mean_tol=None, cov_weight=0.0)
        for units, results in ((None, by_rows), (person, by_units)):
            folded = FoldedMoments.from_arrays(X, person % 2, units=units)
            gap = measure_held_out(plain, folded).figures()["mean_gap"]
            results.append(np.mean(np.array(gap.by_fold) * np.abs(gap.by_fold)))
    assert np.mean(by_rows) > 3 * np.std(by_rows) / np.sqrt(12)
    assert abs(np.mean(by_units)) < 4 * np.std(by_units) / np.sqrt(12)
