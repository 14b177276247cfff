"""Intervals on new rows cover what they should, and p-values are uniform within any budget."""

import numpy as np
import pytest
from scipy.stats import kstest, norm

from fairpca.metrics import AuditOptions, _cross_fit, audit, decision_rates, delta_fairness
from fairpca.metrics._audit_options import Part
from fairpca.metrics._cross_fit import CLASSIFIERS, Classifier, Labelled, Settings, cross_fit
from fairpca.metrics.audits import hold_out
from fairpca.rows import Rows

pytestmark = pytest.mark.slow


def two_groups(rng, n, d, shift):
    z = rng.permutation(np.arange(n) % 3 == 0)
    return rng.normal(size=(n, d)) + np.outer(z, [shift] + [0.0] * (d - 1)), z


def within(covered):
    return 0.90 <= np.mean(covered) <= 0.98


@pytest.mark.parametrize("shift", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_intervals_of_half_spaces_cover_their_true_difference_of_rates(shift, weighted):
    rng = np.random.default_rng([int(10 * shift), weighted])
    covered = []
    for seed in range(400):
        U, z = two_groups(rng, 300, 2, shift)
        rows = Rows.read(U, z, None, rng.random(300) + 0.5 if weighted else None)
        signs = np.where(z, 1, -1).astype(np.int8)
        halves = Labelled(rows, signs).halves(seed)
        [part] = cross_fit([halves], Settings("linear", "svm").train)
        rule = part.trained.predict.__self__
        # Unit normal groups: a half-space flags a share that is known.
        low, high = (norm.sf(rule.threshold - rule.direction[0] * s) for s in (0.0, shift))
        found = part.rates(0.95)
        covered.append(found.low <= high - low <= found.high)
    assert within(covered)


@pytest.mark.parametrize("adversary", ["linear", "gaussian", "trees", "mlp"])
def test_intervals_of_adversaries_cover_what_they_attain_on_many_new_rows(adversary, monkeypatch):
    rng = np.random.default_rng(5)
    fresh, labels = two_groups(rng, 30_000, 2, 1.0)
    train = CLASSIFIERS[adversary].train
    kept = {}

    def keep(part, seed, max_rows):
        kept["trained"] = train(part, seed, max_rows)
        return kept["trained"]

    monkeypatch.setitem(_cross_fit.CLASSIFIERS, adversary, Classifier(keep))
    covered = []
    for seed in range(200):
        U, z = two_groups(rng, 300, 2, 1.0)
        options = AuditOptions(random_state=seed, max_samples=100)
        [found] = hold_out(Rows.read(U, z).pairs(), adversary, options)
        flagged = kept["trained"].predict(fresh)
        truth = flagged[labels].mean() - flagged[~labels].mean()
        covered.append(found.held_out.low <= truth <= found.held_out.high)
    assert within(covered)


def test_the_interval_of_a_headline_covers_though_it_is_the_worst_of_many():
    # Six groups that are alike: every classifier flags the same share of each.
    rng = np.random.default_rng(11)
    covered, alone = [], []
    for seed in range(200):
        U, z = rng.normal(size=(600, 2)), rng.permutation(np.arange(600) % 6)
        report = audit(U, z, families=(), adversaries=("linear",), random_state=seed)
        assert report.headline.n_compared == 6
        for hits, new in ((covered, report.headline.held_out), (alone, report.strongest.held_out)):
            hits.append(new.low <= 0.0 <= new.high)
    assert np.mean(alone) < 0.9  # without allowing for the choice
    assert np.mean(covered) >= 0.93


@pytest.mark.parametrize("rates", [(0.5, 0.5), (0.3, 0.15), (0.08, 0.05)])
def test_intervals_of_decisions_cover_rates_differences_and_ratios(rates):
    rng = np.random.default_rng(int(100 * sum(rates)))
    truth = dict(zip("ab", rates, strict=True))
    covered = {"rate": [], "difference": [], "ratio": []}
    for _ in range(400):
        z = np.repeat(["a", "b"], [260, 240])
        hired = rng.random(500) < np.where(z == "a", *rates)
        found = {entry.group: entry for entry in decision_rates(hired, z).rates}
        best = max(found, key=lambda group: found[group].rate)
        other = "b" if best == "a" else "a"
        entry = found[other]
        covered["rate"].append(entry.rate_low <= truth[other] <= entry.rate_high)
        gap, quotient = truth[other] - truth[best], truth[other] / truth[best]
        covered["difference"].append(entry.difference_low <= gap <= entry.difference_high)
        covered["ratio"].append(entry.ratio_low <= quotient <= entry.ratio_high)
    for hits in covered.values():
        assert within(hits)


_STATISTICS = {
    "svm": ({"families": ("linear",), "n_permutations": 39, "slow_permutations": 0}, 300, 0),
    "search": ({"families": ("linear",), "n_permutations": 0, "slow_permutations": 19}, 150, 1),
    "rbf": ({"families": ("rbf",), "slow_permutations": 19, "max_samples": 60}, 120, 0),
}


@pytest.mark.parametrize("budget", [1.0, 60.0, 0.0])
@pytest.mark.parametrize("statistic", _STATISTICS)
def test_p_values_of_every_statistic_are_uniform_within_any_budget(statistic, budget):
    options, n, place = _STATISTICS[statistic]
    rng = np.random.default_rng([12, n, int(budget)])
    found = []
    for seed in range(100):
        U, z = two_groups(rng, n, 2, 0.0)
        report = audit(
            U, z, adversaries=(), cross_fit=False, budget=budget, random_state=seed, **options
        )
        found.append(report.results[place].null.p_value)
    known = [p for p in found if p is not None]
    assert known or budget == 1.0  # too little for any permutation: none, and said
    if known:
        assert_levels(known)


def test_p_values_of_a_sample_of_unequal_groups_are_uniform(monkeypatch):
    # Small groups are drawn more often than others, and left out again where they are the rest.
    monkeypatch.setattr(
        "fairpca.metrics._audit_options.Budget.plan",
        lambda self, kind, *_: Part(900, 900, 19) if kind == "svm" else None,
    )
    rng = np.random.default_rng(14)
    z = np.repeat(list("abcd"), [3000, 800, 100, 100])
    found = []
    for seed in range(150):
        report = audit(
            rng.normal(size=(len(z), 2)),
            z,
            compare="one-vs-rest",
            families=("linear",),
            adversaries=(),
            n_permutations=19,
            slow_permutations=0,
            cross_fit=False,
            random_state=seed,
        )
        assert report.results[0].n_rows <= 900
        found.append(report.results[0].null.p_value)
    assert_levels(found)


def test_p_values_of_new_rows_are_uniform_when_nothing_leaks():
    rng = np.random.default_rng(6)
    found = []
    for seed in range(300):
        U, z = two_groups(rng, 2000, 3, 0.0)
        result = delta_fairness(U, z, family="cdf", cross_fit=True, random_state=seed)
        found.append(result.worst.held_out.p_value)
    assert kstest(found, "uniform").pvalue > 0.001


def assert_levels(p_values):
    """At every level as many p-values as the level says, up to chance."""
    p_values = np.array(p_values)
    for level in (0.1, 0.25, 0.5, 0.75):
        noise = 3.5 * np.sqrt(level * (1 - level) / len(p_values))
        assert abs((p_values <= level).mean() - level) <= noise


def test_p_values_of_a_sampled_null_are_uniform(monkeypatch):
    monkeypatch.setattr("fairpca.metrics._cross_fit.SEARCH_ROWS", 60)
    rng = np.random.default_rng(7)
    found = []
    for seed in range(150):
        U, z = two_groups(rng, 200, 2, 0.0)
        result = delta_fairness(U, z, method="search", n_permutations=19, random_state=seed)
        assert result.null.n_rows <= 60
        found.append(result.null.p_value)
    assert_levels(found)


def test_a_sampled_null_scales_to_all_rows(monkeypatch):
    rng = np.random.default_rng(8)
    U, z = two_groups(rng, 1600, 2, 0.0)
    options = {"method": "search", "n_permutations": 60}
    whole = delta_fairness(U, z, **options)
    monkeypatch.setattr("fairpca.metrics._cross_fit.SEARCH_ROWS", 400)
    part = delta_fairness(U, z, **options)
    assert part.value == whole.value
    assert part.null.mean == pytest.approx(whole.null.mean, rel=0.1)


@pytest.mark.parametrize("budget", [0.5, 60.0])
@pytest.mark.parametrize("cross_fit", [False, True])
def test_p_values_of_an_audit_are_uniform_within_any_budget(budget, cross_fit):
    rng = np.random.default_rng([9, int(budget), cross_fit])
    found = []
    for seed in range(150):
        U, z = two_groups(rng, 2000, 2, 0.0)
        report = audit(
            U,
            z,
            families=("cdf",),
            adversaries=(),
            orthants="one",
            n_permutations=39,
            budget=budget,
            cross_fit=cross_fit,
            random_state=seed,
        )
        found.append(report.results[0].null.p_value)
    assert_levels([p for p in found if p is not None])
