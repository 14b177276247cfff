"""Intervals on held-out rows cover what they should, and p-values are uniform."""

import numpy as np
import pytest
from scipy.stats import kstest, norm

from fairpca.metrics import audit, audits, decision_rates, delta_fairness
from fairpca.metrics._audit_report import Comparison, Representation
from fairpca.metrics._cross_fit import CLASSIFIERS, Labelled, Trained, cross_fit_flags
from fairpca.metrics._inference import (
    Family,
    Rates,
    difference_of_largest,
    paired_differences,
)
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
        difference = difference_of_largest(columns[:k], columns[k:], 0.95, seed)
        largest = max(truths[:k])
        other = largest - max(truths[k:])
        covered.append(
            (headline.low <= largest <= headline.high, difference.low <= other <= difference.high)
        )
    return np.mean(covered, axis=0)


TIES = (0.2, 0.2, 0.2, 0.2)
ONE = (0.5, 0.0, 0.0, 0.0)
SEVERAL = ("abcdef", (30, 40, 60, 80, 100, 130))  # one-vs-rest; half as many rows are independent


class Flags:
    """Flags with known rates, as two representations and several adversaries give them.

    Every row (or unit) occurs twice, which is how strongly both ways of a split may depend, and
    errors allow for it: with independent rows all intervals would cover too often.
    """

    def __init__(self, gains, others, *, shared=0.5, groups=None, rows_each=None):
        names, sizes = groups or ("ab", (100, 100))
        group = np.repeat(np.repeat(list(names), sizes), 2 * (rows_each or 1))
        self.unit = np.repeat(np.arange(2 * sum(sizes)), rows_each or 1)
        self.known = None if rows_each is None else self.unit
        self.shared = shared
        pairs = names[1:] if len(names) == 2 else names
        self.signs = [np.where(group == name, 1, -1).astype(np.int8) for name in pairs]
        # A gain is what an adversary flags more in the last group.
        gains = np.array([gains, others])[:, :, None] * (np.array(list(names)) == names[-1])
        self.rates = (0.3 + gains)[:, :, np.searchsorted(list(names), group)]
        self.truths = np.array(
            [[self.apart(rate, s) for rate in one for s in self.signs] for one in self.rates]
        )

    @staticmethod
    def apart(flags, signs):
        return flags[signs > 0].mean() - flags[signs < 0].mean()

    def draw(self, rng):
        """Return the rates of both representations, in the order of truths."""
        half, n = self.unit[-1] // 2 + 1, len(self.unit)
        own = np.sqrt(1.0 - self.shared) * rng.normal(size=(*self.rates.shape[:2], half))
        latent = (np.sqrt(self.shared) * rng.normal(size=half) + own)[:, :, self.unit // 2]
        if self.known is not None:  # rows of a person are alike, and not equal
            latent = np.sqrt(0.8) * latent + np.sqrt(0.2) * rng.normal(size=(*latent.shape[:2], n))
        flags = (latent < norm.ppf(self.rates)).astype(float)
        return [
            [Rates.of(some, signs, None, self.known) for some in one for signs in self.signs]
            for one in flags
        ]


def coverage(flags, n_simulations):
    """Return how often rows, single comparisons, headline and difference cover the truth."""
    m = flags.truths.shape[1]
    comparisons = [Comparison("x", str(k), (0, 1), {}, False) for k in range(m)]
    empty = Representation("U", 3, {}, None, 0.0, ())
    one, other = flags.truths
    covered = []
    for seed in range(n_simulations):
        rates, others = flags.draw(np.random.default_rng([seed, m]))
        alone = [r.described(Family(), 0.95) for r in rates]
        measured = empty.measured(comparisons, rates, 0, 0.95, seed)
        together = [row.held_out for row in measured.held_out]
        best, apart = measured.headline, difference_of_largest(rates, others, 0.95, seed)
        paired = paired_differences(rates, others, 0.95, seed)
        covered.append(
            (
                np.mean([r.low <= x <= r.high for r, x in zip(alone, one, strict=True)]),
                all(r.low <= x <= r.high for r, x in zip(together, one, strict=True)),
                best.low <= one.max() <= best.high,
                all(r.low <= x <= r.high for r, x in zip(paired, one - other, strict=True)),
                apart.low <= one.max() - other.max() <= apart.high,
            )
        )
    return np.mean(covered, axis=0)


def enough(n_simulations):
    """The least share of 95 % that chance allows, at two deviations."""
    return 0.95 - 2.0 * np.sqrt(0.95 * 0.05 / n_simulations)


CASES = {
    "ties": (TIES, TIES, {}),
    "independent ties": (TIES, TIES, {"shared": 0.0}),
    "one winner against ties": (ONE, TIES, {"shared": 0.0}),
    "ties against one winner": (TIES, ONE, {"shared": 0.0}),
    "dependent ties against one winner": (TIES, ONE, {"shared": 0.8}),
    "one winner": (ONE, ONE, {}),
    "nothing": ((0.0,) * 4, (0.0,) * 4, {}),
    "several groups, nothing": ((0.0,) * 4, (0.0,) * 4, {"groups": SEVERAL}),
    "several groups, one winner": ((0.0,) * 4, ONE, {"groups": SEVERAL, "shared": 0.0}),
    "several groups": (TIES, (0.3, 0.1, 0.1, 0.1), {"groups": SEVERAL}),
    "units": (TIES, ONE, {"rows_each": 5, "groups": ("ab", (50, 50)), "shared": 0.0}),
    "few units": (ONE, TIES, {"rows_each": 8, "groups": ("ab", (15, 15)), "shared": 0.0}),
    "rates near 0 and 1": ((0.68, 0.6), (-0.28, -0.2), {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_every_interval_covers_with_ties_winners_many_pairs_and_units(case):
    gains, others, how = CASES[case]
    assert (coverage(Flags(gains, others, **how), 400) >= enough(400)).all()


def test_quickly_that_the_choice_of_the_largest_is_covered():
    # One adversary is the best on fair components; on plain ones many are, and the largest of
    # their estimates is too large. An interval around that difference misses one time in five.
    gains, others = ONE + (0.0,) * 12, TIES * 4
    assert coverage(Flags(gains, others, shared=0.0), 40)[-1] >= enough(40)


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
