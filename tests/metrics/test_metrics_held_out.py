"""Values on rows not trained on: their intervals, and permutations that differ between strata."""

import numpy as np
import pytest
from scipy.stats import ks_2samp, norm

from fairpca.metrics import delta_fairness
from fairpca.metrics._cross_fit import Labelled, Trained, cross_fit_delta, largest_delta
from fairpca.metrics._inference import (
    Family,
    Rates,
    difference_of_largest,
    paired_differences,
)
from fairpca.metrics.bounds import Share, difference, ratio
from fairpca.rows import Rows


def test_every_row_is_held_out_once():
    rng = np.random.default_rng(3)
    z = np.arange(400) % 2
    U = rng.normal(size=(400, 2)) + z[:, None]
    result = delta_fairness(U, z, cross_fit=True)
    new = result.worst.held_out
    assert new.n_rows == (200, 200)
    assert new.low < new.estimate < new.high
    assert new.estimate == pytest.approx(new.rates[1] - new.rates[0])
    assert new.p_value < 1e-6
    assert f"on held-out rows: {new.text()}" in repr(result)
    assert result.to_dict()["held_out"]["low"] == new.low


def signs_of(n):
    return np.where(np.arange(n) % 2, 1, -1).astype(np.int8)


class TestErrors:
    def test_of_independent_rows_are_those_of_two_shares(self):
        rng = np.random.default_rng(0)
        signs, flags = signs_of(2000), (rng.random(2000) < 0.3).astype(float)
        found = Rates.of(flags, signs, None)
        p, q = found.rates
        # Twice the variance, since both ways of a split may be one number measured twice.
        expected = np.sqrt(2 * (p * (1 - p) + q * (1 - q)) / 1000)
        assert found.error == pytest.approx(expected, rel=0.01)
        assert found.estimate == pytest.approx(q - p)
        assert abs(found.influence.sum()) < 1e-12

    def test_weights_equal_repetition_of_units(self):
        rng = np.random.default_rng(1)
        signs, flags = signs_of(120), (rng.random(120) < 0.4).astype(float)
        times = rng.integers(1, 5, 120)
        unit = np.arange(120)
        weighted = Rates.of(flags, signs, times.astype(float), unit)
        repeated = Rates.of(flags.repeat(times), signs.repeat(times), None, unit.repeat(times))
        for name in ("estimate", "error", "null_error", "freedom"):
            assert getattr(weighted, name) == pytest.approx(getattr(repeated, name))
        np.testing.assert_allclose(weighted.influence, repeated.influence)

    def test_units_of_equal_rows_say_as_much_as_one_row_each(self):
        rng = np.random.default_rng(2)
        signs, flags = signs_of(80), (rng.random(80) < 0.5).astype(float)
        alone = Rates.of(flags, signs, None)
        whole = Rates.of(flags.repeat(9), signs.repeat(9), None, np.arange(80).repeat(9))
        assert whole.error == pytest.approx(alone.error)
        assert Rates.of(flags.repeat(9), signs.repeat(9), None).error < 0.4 * whole.error

    def test_rates_of_zero_and_one_have_an_interval(self):
        found = Rates.of((signs_of(40) > 0).astype(float), signs_of(40), None)
        assert found.estimate == 1.0
        new = found.described(Family(), 0.95)
        assert 0.5 < new.low < 0.9
        assert new.high == 1.0

    def test_few_units_have_the_quantiles_of_student(self):
        flags = np.array([0.0, 1.0, 1.0, 0.0, 1.0, 1.0])
        few = Rates.of(flags, signs_of(6), None)
        assert few.freedom == 2
        assert few.described(Family(), 0.95).chance == pytest.approx(
            min(4.3027 * few.null_error, 1.0), rel=1e-3
        )

    def test_a_paired_difference_of_equal_flags_has_next_to_no_error(self):
        rng = np.random.default_rng(3)
        flags = (rng.random(1000) < 0.4).astype(float)
        one = Rates.of(flags, signs_of(1000), None)
        [row] = paired_differences([one], [one], 0.95, 0)
        largest = difference_of_largest([one], [one], 0.95, 0)
        assert largest.estimate == row.estimate == 0.0
        assert row.high < 0.02 < one.error
        assert largest.high == pytest.approx(row.high, rel=0.05)

    def test_the_difference_of_the_largest_is_bounded_by_every_pair(self):
        rng = np.random.default_rng(4)
        signs = signs_of(600)
        flagged = rng.random((2, 5, 600)) < 0.3 + 0.2 * (signs > 0)
        rates, others = ([Rates.of(flags * 1.0, signs, None) for flags in some] for some in flagged)
        rows = paired_differences(rates, others, 0.95, 0)
        largest = difference_of_largest(rates, others, 0.95, 0)
        best, other = (max(one.estimate for one in some) for some in (rates, others))
        assert largest.estimate == best - other
        assert largest.low < largest.estimate < largest.high
        assert min(row.estimate for row in rows) <= largest.estimate
        assert largest.estimate <= max(row.estimate for row in rows)

    def test_either_order_gives_the_same_interval(self):
        rng = np.random.default_rng(7)
        signs = signs_of(600)
        gains = (0.3, 0.28, 0.1), (0.25, 0.25, 0.25)
        some = [
            [Rates.of(1.0 * (rng.random(600) < 0.3 + g * (signs > 0)), signs, None) for g in one]
            for one in gains
        ]
        forth, back = (difference_of_largest(*pair, 0.95, 0) for pair in (some, some[::-1]))
        mirrored = (-back.estimate, -back.high, -back.low)
        assert forth == pytest.approx(mirrored, abs=0.02 * (forth.high - forth.low))

    def test_of_one_value_each_the_largest_differ_as_the_pair_does(self):
        rng = np.random.default_rng(5)
        one, other = (Rates.of(rng.random(300), signs_of(300), None) for _ in range(2))
        [row] = paired_differences([one], [other], 0.95, 0)
        largest = difference_of_largest([one], [other], 0.95, 0)
        assert largest == pytest.approx(row, abs=0.05 * (row.high - row.low))

    def test_a_value_that_cannot_be_the_largest_hardly_widens_the_interval(self):
        rng = np.random.default_rng(6)
        signs = signs_of(2000)
        high = [Rates.of(1.0 * (rng.random(2000) < 0.3 + 0.3 * (signs > 0)), signs, None)]
        low = [Rates.of(1.0 * (rng.random(2000) < 0.3), signs, None) for _ in range(20)]
        few = difference_of_largest(high, high, 0.95, 0)
        many = difference_of_largest(high + low, high + low, 0.95, 0)
        assert many == pytest.approx(few, abs=0.02 * (few.high - few.low) + 1e-9)


class TestOneTest:
    """Interval, chance level and p-value of a comparison are one test."""

    @pytest.mark.parametrize("kind", ["rows", "weights", "units"])
    def test_they_agree(self, kind):
        above = 0
        for seed in range(60):
            rng = np.random.default_rng(seed)
            signs = np.where(rng.random(240) < 0.3, 1, -1).astype(np.int8)
            weights = rng.exponential(size=240) if kind == "weights" else None
            units = rng.integers(0, 60, 240) if kind == "units" else None
            shift = rng.choice([0.0, 0.2, 0.3, 0.4, 0.7])
            rates = [
                Rates.of(1.0 * (rng.random(240) < 0.2 + shift * (signs > 0)), signs, weights, units)
                for _ in range(5)
            ]
            family = Family.of([one.influence for one in rates], seed)
            for one in rates:
                new = one.described(family, 0.95)
                assert new.low < new.estimate < new.high
                assert (new.low > 0) == (new.p_value < 0.05) == (new.estimate > new.chance)
                above += new.low > 0
                alone = one.described(Family(), 0.95)
                assert new.low < alone.low < alone.high < new.high
                assert new.p_value >= alone.p_value
                assert new.chance > alone.chance
        assert 60 < above < 240  # of 300

    def test_it_is_the_score_test_of_two_shares(self):
        # Independent rows, without the doubled variance and the guard: 30 of 100 against 45 of 100.
        flags = np.r_[np.ones(30), np.zeros(70), np.ones(45), np.zeros(55)]
        signs = np.repeat([-1, 1], 100).astype(np.int8)
        one = Rates.of(flags, signs, None)
        assert one.null_error**2 == pytest.approx(2 * 2 * 0.375 * 0.625 / 100, rel=0.02)
        assert one.null_error**2 - one.error**2 == pytest.approx(one.bend * 0.15**2)

    def test_many_values_have_the_p_value_of_independent_ones_at_most(self):
        family = Family.of(list(np.eye(30)), 0)
        for beyond in (1.0, 2.5, 3.0, 3.5):
            expected = 1 - (1 - 2 * norm.sf(beyond)) ** 30
            assert family.p_value(beyond) == pytest.approx(expected, abs=0.02)
        assert family.p_value(8.0) == pytest.approx(30 * 2 * norm.sf(8.0), rel=1e-6)
        assert Family(500).p_value(3.0) > family.p_value(3.0)
        assert family.p_value(-1.0) == family.p_value(0.0) == 1.0
        same = Family.of([np.ones(4)] * 30, 0)
        assert same.p_value(2.0) == pytest.approx(2 * norm.sf(2.0), abs=0.01)


def test_weights_widen_the_interval():
    rng = np.random.default_rng(0)
    z = np.arange(400) % 2
    U = rng.normal(size=400) + z
    few = np.where(np.arange(400) < 100, 100.0, 0.1)
    wide, narrow = (
        delta_fairness(U, z, cross_fit=True, sample_weight=weight).worst.held_out
        for weight in (few, np.linspace(0.9, 1.1, 400))
    )
    assert wide.high - wide.low > 1.5 * (narrow.high - narrow.low)


def test_wilson_newcombe_and_log_ratio_on_known_numbers():
    # Newcombe (1998), table II: 56/70 against 48/80, method 10.
    plus, minus = Share(56 / 70, 70, 70), Share(48 / 80, 80, 80)
    assert difference(plus, minus, 0.95) == pytest.approx((0.0524, 0.3339), abs=1e-4)
    assert Share(0.0, 10, 10).interval(0.95) == pytest.approx((0.0, 0.2775), abs=1e-4)
    low, high = ratio(plus, minus, 0.95)
    assert low < 4 / 3 < high
    assert 0 < ratio(Share(0.0, 10, 10), minus, 0.95).low < 0.2


def test_strata_are_permuted_apart():
    # The same rows in both strata: with the same permutations their nulls would be equal.
    rng = np.random.default_rng(0)
    U, z = rng.normal(size=(30, 2)), np.arange(30) % 2
    twice = delta_fairness(
        np.vstack([U, U]),
        np.tile(z, 2),
        control_features=np.repeat(["a", "b"], 30),
        method="exact",
        n_permutations=50,
    )
    first, second = twice.pairs
    assert first.value == second.value
    assert first.null.mean != second.null.mean
    # The largest of two independent values lies above either, most of the time.
    assert twice.null.mean > max(first.null.mean, second.null.mean) + 0.01


def test_a_p_value_is_of_the_value_beside_it(monkeypatch):
    # Where a sample is permuted, its own value is what is compared, held-out rows or not.
    monkeypatch.setattr("fairpca.metrics._cross_fit.SEARCH_ROWS", 60)
    rng = np.random.default_rng(1)
    z = np.arange(300) % 3
    U = rng.normal(size=(300, 2)) + 0.3 * z[:, None]
    options = {"method": "search", "n_permutations": 19}
    one, other = (delta_fairness(U, z, cross_fit=held_out, **options) for held_out in (True, False))
    for result in (one, other):
        null = result.null
        assert null.n_rows == 60 < result.n_rows
        reached = np.count_nonzero(result.null_values >= null.value - 1e-12)
        assert null.p_value == (1 + reached) / 20
        assert "of 60 rows, which have" in repr(result)
    assert one.null.p_value == other.null.p_value


def test_units_are_permuted_as_wholes():
    # Rows of a person are alike: permuted by rows, any grouping of people looks significant.
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(24), 12)
    U = rng.normal(size=24)[person] + 0.05 * rng.normal(size=288)
    z = rng.permutation(np.arange(24) % 2)[person]
    by_rows = delta_fairness(U, z, n_permutations=199)
    by_units = delta_fairness(U, z, n_permutations=199, units=person)
    assert by_rows.value == by_units.value
    assert by_rows.null.p_value == 1 / 200
    assert by_units.null.p_value > 0.05


def test_groups_that_vary_within_units_are_permuted_within_them():
    rng = np.random.default_rng(0)
    person, z = np.repeat(np.arange(40), 6), np.arange(240) % 2
    U = 5.0 * rng.normal(size=40)[person] + rng.normal(size=240) + 1.0 * z
    found = delta_fairness(U, z, n_permutations=99, units=person)
    assert found.null.p_value == 1 / 100  # between people the shift would be lost


def test_the_null_of_the_largest_is_the_largest_of_the_nulls():
    rng = np.random.default_rng(2)
    z = np.arange(90) % 3
    found = delta_fairness(rng.normal(size=(90, 2)), z, method="exact", n_permutations=40)
    assert found.null.mean > max(pair.null.mean for pair in found.pairs)


def delta_of(scores, signs, weights, units=None):
    rows = Rows(scores[:, None], weights=weights, units=units)
    return largest_delta([scores], Labelled(rows, signs))


def test_differences_are_those_of_the_kolmogorov_smirnov_statistic():
    rng = np.random.default_rng(8)
    for _ in range(20):
        scores = rng.integers(0, 12, 80).astype(float)
        signs = np.where(rng.random(80) < 0.4, 1, -1).astype(np.int8)
        found = delta_of(scores, signs, np.ones(80))
        less = ks_2samp(scores[signs > 0], scores[signs < 0], alternative="less").statistic
        assert found.value == pytest.approx(less)
    w = rng.integers(1, 4, 80)
    weighted = delta_of(scores, signs, w.astype(float))
    repeated = delta_of(scores.repeat(w), signs.repeat(w), None)
    assert weighted.value == pytest.approx(repeated.value)


def test_chance_exceeds_its_level_in_one_case_of_twenty():
    rng = np.random.default_rng(3)
    signs = np.where(np.arange(200) % 2, 1, -1).astype(np.int8)
    for count, least in ((1, 0.02), (3, 0.01)):
        above = []
        for _ in range(400):
            part = Labelled(Rows(np.zeros((200, 1))), signs)
            found = largest_delta(list(rng.normal(size=(count, 200))), part)
            above.append(found.value > found.chance)
            assert found.error >= 0.3 / np.sqrt(50)  # of the largest of many thresholds
        assert least <= np.mean(above) <= 0.07


def test_cross_fitted_scores_are_pooled_by_rank_and_know_their_direction():
    rng = np.random.default_rng(4)
    signs = np.where(np.arange(400) % 2, 1, -1).astype(np.int8)
    shift = np.where(signs > 0, 1.0, 0.0)
    part = Labelled(Rows((rng.normal(size=400) + shift)[:, None]), signs)
    folds = np.array_split(rng.permutation(400), 4)
    seen = []

    def train(training):
        seen.append(len(training.signs))  # scores of every fold have another scale and origin
        a, b = 10.0 ** len(seen), 100.0 * len(seen)
        return Trained(None, lambda U: [a * U[:, 0] + b])

    found = cross_fit_delta(part, folds, train)
    assert seen == [300] * 4
    plain = delta_of(part.rows.X[:, 0], signs, None)
    assert found.value == pytest.approx(plain.value, abs=0.05)
    reverse = cross_fit_delta(part, folds, lambda _: Trained(None, lambda U: [-U[:, 0]]))
    assert reverse.value < 0.05
    few = Labelled(part.rows.take(np.arange(9)), signs[:9])
    assert cross_fit_delta(few, np.array_split(np.arange(9), 4), train) is None
