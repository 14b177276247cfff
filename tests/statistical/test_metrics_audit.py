"""Intervals on held-out rows cover what they should, and p-values are uniform."""

import numpy as np
import pytest
from scipy.stats import kstest

from fairpca.metrics import audit, audits, decision_rates, delta_fairness
from fairpca.metrics._audit_report import Comparison, Representation
from fairpca.metrics._cross_fit import CLASSIFIERS, Labelled, Trained, cross_fit_flags
from fairpca.metrics._inference import Rates, difference_of_largest
from fairpca.rows import Rows
from fairpca.rows._sampling import halves


def nearest_mean(part):
    """Flag rows on one side of the plane between two means: few parameters."""
    means = [part.rows.X[part.signs == sign].mean(axis=0) for sign in (1, -1)]
    direction = means[0] - means[1]
    threshold = direction @ (means[0] + means[1]) / 2
    return Trained(lambda U: U @ direction > threshold, None)


def nearest_rows(part):
    """Flag rows with more of a group around them: as many parameters as rows."""
    groups = [part.rows.X[part.signs == sign] for sign in (1, -1)]

    def score(U, rows):
        distance = (U**2).sum(axis=1)[:, None] + (rows**2).sum(axis=1) - 2 * U @ rows.T
        return np.exp(-2.0 * distance).mean(axis=1)

    return Trained(lambda U: score(U, groups[0]) > score(U, groups[1]), None)


def made(rng, n, shift, units=None):
    """Return a fair and a plain representation, groups, and units of several rows."""
    n_units = units or n
    group = rng.permutation(np.arange(n_units) % 2)
    unit = np.repeat(np.arange(n_units), n // n_units)
    U = rng.normal(size=(n_units, 3))[unit] + (0.0 if units is None else 0.3) * rng.normal(
        size=(n, 3)
    )
    z = group[unit]
    plain = U.copy()
    U[:, 0] += shift * z
    plain[:, 0] += (shift + 0.5) * z
    return (U, plain), z, unit


def simulate(n_simulations, shift, units=None, by_units=True):
    """Return how often headline and difference cover the truth of the trained classifiers."""
    trainers = (nearest_mean, nearest_rows)
    covered = []
    for seed in range(n_simulations):
        rng = np.random.default_rng([seed, int(10 * shift), units or 0])
        representations, z, unit = made(rng, 400, shift, units)
        fresh, labels, _ = made(rng, 2000, shift)
        signs = np.where(z == 1, 1, -1).astype(np.int8)
        known = unit if units and by_units else None
        splits = [halves(z, seed, known)]
        columns, truths = [], []
        for U, new in zip(representations, fresh, strict=True):
            part = Labelled(Rows(U, units=known), signs)
            for train in trainers:
                kept = []
                flags = cross_fit_flags(
                    part, splits, lambda p, t=train: kept.append(t(p)) or kept[-1]
                )
                columns.append(Rates.of(flags, signs, None, known))
                rates = [trained.predict(new) for trained in kept]
                truths.append(
                    np.mean([r[labels == 1].mean() - r[labels == 0].mean() for r in rates])
                )
        k = len(trainers)
        comparisons = [Comparison(train.__name__, "z", (0, 1), {}, False) for train in trainers]
        empty = Representation("U", 3, {}, None, 0.0, ())
        headline = empty.measured(comparisons, columns[:k], 0, 0.95, seed).headline
        difference = difference_of_largest(columns[:k], columns[k:], (), 0.95, seed)
        largest = max(truths[:k])
        other = largest - max(truths[k:])
        covered.append(
            (headline.low <= largest <= headline.high, difference.low <= other <= difference.high)
        )
    return np.mean(covered, axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("shift", [0.0, 0.3, 1.0, 2.5])
def test_headline_and_difference_cover_what_their_classifiers_attain_on_new_rows(shift):
    assert (simulate(400, shift) >= 0.93).all()


@pytest.mark.slow
@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_people_are_covered_by_units_and_missed_by_rows(shift):
    assert (simulate(300, shift, units=40) >= 0.93).all()
    assert simulate(100, shift, units=40, by_units=False)[0] < 0.5


def test_quickly_that_headline_and_difference_cover():
    assert (simulate(60, 0.3) >= 0.9).all()
    assert simulate(20, 0.0, units=40)[0] >= 0.8
    assert simulate(20, 0.0, units=40, by_units=False)[0] < 0.5


@pytest.mark.slow
def test_the_panel_covers_too(monkeypatch):
    """The same for the adversaries of an audit, whose classifiers are kept as they are trained."""
    kept = []
    for name in ("linear", "gaussian", "mlp"):
        entry = CLASSIFIERS[name]

        def train(part, seed, entry=entry):
            kept.append(entry.train(part, seed))
            return kept[-1]

        monkeypatch.setitem(audits.CLASSIFIERS, name, type(entry)(train, entry.seconds))
    covered = []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        (U, plain), z, _ = made(rng, 300, 0.3)
        fresh, labels, _ = made(rng, 3000, 0.3)
        kept.clear()
        options = {"adversaries": ("linear", "gaussian", "mlp"), "families": (), "effort": "quick"}
        report = audit(U, z, against=plain, random_state=seed, **options)
        rates = [c.predict(fresh[place // 6]) for place, c in enumerate(kept)]
        values = [r[labels == 1].mean() - r[labels == 0].mean() for r in rates]
        one, other = np.reshape(values, (2, 3, 2)).mean(axis=2).max(axis=1)
        [difference], headline = report.differences, report.headline
        covered.append(
            (
                headline.low <= one <= headline.high,
                difference.low <= one - other <= difference.high,
            )
        )
    assert (np.mean(covered, axis=0) >= 0.92).all()


def within(covered):
    return 0.90 <= np.mean(covered) <= 0.98


@pytest.mark.slow
@pytest.mark.parametrize("rates", [(0.5, 0.5), (0.3, 0.15), (0.08, 0.05)])
@pytest.mark.parametrize("rows_each", [1, 6])
def test_intervals_of_decisions_cover_rates_differences_and_ratios(rates, rows_each):
    rng = np.random.default_rng(int(100 * sum(rates)))
    truth = dict(zip("ab", rates, strict=True))
    covered = {"rate": [], "difference": [], "ratio": []}
    for _ in range(400):
        z = np.repeat(["a", "b"], [260, 240])
        hired = rng.random(500) < np.where(z == "a", *rates)
        z, hired = np.repeat(z, rows_each), np.repeat(hired, rows_each)
        units = np.arange(500).repeat(rows_each) if rows_each > 1 else None
        found = {entry.group: entry for entry in decision_rates(hired, z, units=units).rates}
        best = max(found, key=lambda group: found[group].rate)
        other = "b" if best == "a" else "a"
        entry = found[other]
        covered["rate"].append(entry.rate_low <= truth[other] <= entry.rate_high)
        gap, quotient = truth[other] - truth[best], truth[other] / truth[best]
        covered["difference"].append(entry.difference_low <= gap <= entry.difference_high)
        covered["ratio"].append(entry.ratio_low <= quotient <= entry.ratio_high)
    for hits in covered.values():
        assert within(hits)


def two_groups(rng, n, d, shift):
    z = rng.permutation(np.arange(n) % 3 == 0)
    return rng.normal(size=(n, d)) + np.outer(z, [shift] + [0.0] * (d - 1)), z


def assert_levels(p_values):
    """At every level as many p-values as the level says, up to chance."""
    p_values = np.array(p_values)
    for level in (0.1, 0.25, 0.5, 0.75):
        noise = 3.5 * np.sqrt(level * (1 - level) / len(p_values))
        assert abs((p_values <= level).mean() - level) <= noise


@pytest.mark.slow
def test_p_values_of_held_out_rows_are_at_most_what_they_say_when_nothing_leaks():
    rng = np.random.default_rng(6)
    p_values = []
    for seed in range(300):
        U, z = two_groups(rng, 2000, 3, 0.0)
        result = delta_fairness(U, z, family="cdf", cross_fit=True, random_state=seed)
        p_values.append(result.worst.held_out.p_value)
    assert kstest(p_values, "uniform", alternative="greater").pvalue > 0.001
    assert np.mean(np.array(p_values) <= 0.05) <= 0.08


@pytest.mark.slow
def test_p_values_of_a_sampled_null_are_uniform(monkeypatch):
    monkeypatch.setattr("fairpca.metrics._cross_fit.SEARCH_ROWS", 60)
    rng = np.random.default_rng(7)
    p_values = []
    for seed in range(150):
        U, z = two_groups(rng, 200, 2, 0.0)
        result = delta_fairness(U, z, method="search", n_permutations=19, random_state=seed)
        assert result.null.n_rows <= 60
        p_values.append(result.null.p_value)
    assert_levels(p_values)


@pytest.mark.slow
def test_p_values_of_permuted_units_are_uniform():
    rng = np.random.default_rng(8)
    p_values = []
    for seed in range(200):
        person = np.repeat(np.arange(30), 5)
        U = rng.normal(size=30)[person] + 0.2 * rng.normal(size=150)
        z = rng.permutation(np.arange(30) % 2)[person]
        options = {"n_permutations": 19, "units": person, "random_state": seed}
        p_values.append(delta_fairness(U, z, **options).null.p_value)
    assert_levels(p_values)
