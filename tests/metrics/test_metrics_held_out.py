"""Values on rows not trained on: their intervals, and permutations that differ between strata."""

import numpy as np
import pytest
from scipy.stats import ks_2samp, norm

from fairpca.metrics import delta_fairness
from fairpca.metrics._cross_fit import HeldOutPart, Labelled, Trained
from fairpca.metrics.bounds import Share, difference, p_value_of_difference, ratio
from fairpca.rows import Rows


def test_the_interval_is_that_of_the_first_half():
    rng = np.random.default_rng(3)
    z = np.arange(400) % 2
    U = rng.normal(size=(400, 2)) + z[:, None]
    result = delta_fairness(U, z, cross_fit=True)
    new = result.worst.held_out
    assert new.n_rows == (100, 100)
    assert new.low < new.value < new.high
    assert new.p_value < 1e-6
    assert abs(new.value - result.worst.cross_fit_value) < 0.1
    assert "95 % interval" in repr(result)
    assert result.to_dict()["held_out"]["low"] == new.low


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
    pooled = 104 / 150
    z = 0.2 / np.sqrt(pooled * (1 - pooled) * (1 / 70 + 1 / 80))
    assert p_value_of_difference(plus, minus) == pytest.approx(norm.sf(z))
    assert p_value_of_difference(Share(0.0, 5, 5), Share(0.0, 5, 5)) == 1.0


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


def test_the_largest_of_several_tests_pays_for_all(monkeypatch):
    # Nulls of a sample take the p-value of new rows: that of the best pair, times their number.
    monkeypatch.setattr("fairpca.metrics._cross_fit.SEARCH_ROWS", 60)
    rng = np.random.default_rng(1)
    z = np.arange(300) % 3
    U = rng.normal(size=(300, 2)) + 0.3 * z[:, None]
    found = delta_fairness(U, z, method="search", cross_fit=True, n_permutations=3)
    single = [pair.held_out.p_value for pair in found.pairs]
    assert [pair.null.p_value for pair in found.pairs] == single
    assert found.null.p_value == min(1.0, 3 * min(single))
    assert found.null.p_value > min(single)


def test_the_null_of_the_largest_is_the_largest_of_the_nulls():
    rng = np.random.default_rng(2)
    z = np.arange(90) % 3
    found = delta_fairness(rng.normal(size=(90, 2)), z, method="exact", n_permutations=40)
    assert found.null.mean > max(pair.null.mean for pair in found.pairs)


def delta_of(scores, signs, weights):
    rows = Rows(scores[:, None], weights=weights)
    return HeldOutPart(Trained(None, lambda U: [U[:, 0]]), Labelled(rows, signs)).delta()


def test_differences_are_those_of_the_kolmogorov_smirnov_statistic():
    rng = np.random.default_rng(8)
    for _ in range(20):
        scores = rng.integers(0, 12, 80).astype(float)
        signs = np.where(rng.random(80) < 0.4, 1, -1).astype(np.int8)
        found = delta_of(scores, signs, np.ones(80))
        expected = ks_2samp(scores[signs > 0], scores[signs < 0]).statistic
        assert found.value == pytest.approx(expected)
    w = rng.integers(1, 4, 80)
    weighted = delta_of(scores, signs, w.astype(float))
    repeated = delta_of(scores.repeat(w), signs.repeat(w), None)
    assert weighted.value == pytest.approx(repeated.value)
