"""delta_fairness: what it accepts, what it returns, and what it says."""

import json

import numpy as np
import pandas as pd
import pytest

from fairpca.exceptions import GroupsError, InvalidInputError, SmallGroupWarning
from fairpca.metrics import DeltaResult, delta_fairness

WAYS = [
    {"family": "linear", "method": "svm"},
    {"family": "linear", "method": "search"},
    {"family": "linear", "method": "exact"},
    {"family": "rbf"},
    {"family": "cdf", "method": "sample"},
    {"family": "cdf", "method": "search"},
    {"family": "cdf", "method": "exact"},
    {"family": "cdf", "method": "search", "orthants": "all"},
]


def name_of(way):
    return "-".join(way.values())


@pytest.fixture
def shifted():
    rng = np.random.default_rng(0)
    z = np.repeat(["a", "b"], [70, 50])
    return rng.normal(size=(120, 2)) + 1.5 * (z == "b")[:, None], z


@pytest.mark.parametrize("way", WAYS, ids=name_of)
class TestEveryFamily:
    @pytest.mark.parametrize("value", [0.0, 0.1, 1e6 + 0.1])
    @pytest.mark.parametrize("weighted", [False, True])
    def test_constant_representation_has_delta_zero(self, way, value, weighted):
        weight = np.linspace(0.1, 1.0, 20) if weighted else None
        z = np.arange(20) % 3 == 0
        result = delta_fairness(
            np.full((20, 2), value), z, sample_weight=weight, n_permutations=5, **way
        )
        assert result.value == 0.0
        assert result.worst.classifier is None
        assert result.worst.rates == {}
        assert result.null.p_value == 1.0
        assert result.null_values.max() < 1e-12
        assert "Δ = 0.0 points" in repr(result)

    def test_rows_equal_in_both_groups_have_delta_zero(self, way):
        rng = np.random.default_rng(1)
        U = rng.normal(size=(15, 2))
        result = delta_fairness(np.vstack([U, U]), np.repeat([0, 1], 15), **way)
        assert result.value == pytest.approx(0.0, abs=1e-12)

    def test_separated_groups_have_delta_one(self, way):
        rng = np.random.default_rng(2)
        z = np.repeat([0, 1], 40)
        U = rng.normal(size=(80, 2)) + 20 * z[:, None]
        # The rows alone need not hold the corner that separates.
        least = 0.9 if way.get("method") == "sample" else 1.0
        assert least <= delta_fairness(U, z, **way).value <= 1.0

    def test_rates_at_the_classifier_give_the_value(self, way, shifted):
        U, z = shifted
        result = delta_fairness(U, z, **way)
        flagged = result.worst.classifier.predict(U)
        rates = {group: flagged[z == group].mean() for group in ("a", "b")}
        assert result.worst.rates == pytest.approx(rates)
        assert result.worst.rates["b"] - result.worst.rates["a"] == pytest.approx(
            result.value, abs=1e-12
        )

    def test_whole_weights_are_repeated_rows(self, way):
        rng = np.random.default_rng(3)
        z = np.arange(40) % 2
        U = rng.normal(size=(40, 2)) + z[:, None]
        weight = rng.integers(1, 4, size=40)
        more = np.repeat(U, weight, axis=0), np.repeat(z, weight)
        if way["family"] == "rbf":  # C counts per row, and folds are drawn by row
            way = {**way, "gamma": 0.5}
            once = delta_fairness(U, z, sample_weight=weight, C=weight.mean(), **way).value
            assert once == pytest.approx(delta_fairness(*more, C=1.0, **way).value, abs=0.02)
            return
        once = delta_fairness(U, z, sample_weight=weight, **way).value
        assert once == pytest.approx(delta_fairness(*more, **way).value, abs=1e-12)

    def test_equal_weights_change_nothing(self, way, shifted):
        U, z = shifted
        assert (
            delta_fairness(U, z, sample_weight=np.full(120, 0.3), **way).value
            == delta_fairness(U, z, **way).value
        )

    def test_rows_of_weight_zero_are_left_out(self, way, shifted):
        U, z = shifted
        weight = np.ones(120)
        weight[::7] = 0.0
        kept = weight > 0
        weighted = delta_fairness(U, z, sample_weight=weight, **way).value
        assert weighted == pytest.approx(delta_fairness(U[kept], z[kept], **way).value, abs=1e-12)

    def test_result_is_deterministic_and_plain(self, way, shifted):
        U, z = shifted
        if way["family"] == "rbf":
            way = {**way, "C": 1.0, "gamma": 0.5}
        results = [delta_fairness(U, z, n_permutations=19, cross_fit=True, **way) for _ in range(2)]
        assert results[0].to_dict() == results[1].to_dict()
        assert results[0].null.p_value == pytest.approx(0.05)
        assert results[0].null.mean < results[0].null.quantile < results[0].value
        assert 0 < results[0].worst.held_out.estimate <= 1
        json.dumps(results[0].to_dict())
        other = delta_fairness(U, z, n_permutations=19, random_state=1, **way)
        assert other.value == results[0].value or way["family"] == "rbf"
        assert not np.array_equal(other.null_values, results[0].null_values)

    def test_null_is_the_value_under_permuted_groups(self, way):
        # The permutations are the first things drawn from the seed; repeat them by hand.
        rng = np.random.default_rng(5)
        z = np.arange(30) % 2
        U = np.round(rng.normal(size=(30, 2)), 1)
        if way["family"] == "rbf":
            way = {**way, "C": 1.0, "gamma": 0.5}
        result = delta_fairness(U, z, n_permutations=6, **way)
        draws = np.random.default_rng((0, 0))
        expected = [delta_fairness(U, z[draws.permutation(30)], **way).value for _ in range(6)]
        np.testing.assert_allclose(result.null_values, expected, atol=1e-12)


def test_a_permutation_without_svm_direction_counts_like_a_value_without_one():
    # On few distinct rows the means of many permuted groups coincide.
    z = np.repeat([0, 1], 20)
    binary = np.r_[np.zeros(18), np.ones(2), np.zeros(2), np.ones(18)]
    U = np.column_stack([binary, np.zeros(40)])
    results = [delta_fairness(U, z, method=m, n_permutations=199) for m in ("svm", "exact")]
    assert results[0].value == results[1].value == pytest.approx(0.8)
    np.testing.assert_allclose(results[0].null_values, results[1].null_values)
    assert results[0].null.p_value == 0.005


@pytest.mark.parametrize("units", [1e-8, 1e7, 1e9, [1.0, 1e8, 1.0, 1e8], [1.0, 1e3, 1e6, 1e9]])
def test_search_does_not_depend_on_units_and_is_never_below_the_svm(units):
    rng = np.random.default_rng(0)
    z = rng.integers(0, 2, 200)
    U = rng.normal(size=(200, 4))
    U[:, 0] += 0.7 * z
    found = delta_fairness(U * np.array(units), z, method="search").value
    assert found >= delta_fairness(U * np.array(units), z, method="svm").value
    if np.ndim(units) == 0:
        assert found == pytest.approx(delta_fairness(U, z, method="search").value, abs=1e-12)


class TestManyGroups:
    def test_largest_pair_and_table_of_pairs(self):
        rng = np.random.default_rng(0)
        z = np.repeat(["x", "y", "z"], 60)
        U = rng.normal(size=(180, 2)) + np.repeat([0.0, 0.5, 3.0], 60)[:, None]
        result = delta_fairness(U, z, method="exact", compare="pairs", n_permutations=19)
        assert [row.groups for row in result.pairs] == [("x", "y"), ("x", "z"), ("y", "z")]
        assert result.worst.groups == ("x", "z")
        assert result.value == max(row.value for row in result.pairs)
        pair = (z == "x") | (z == "z")
        alone = delta_fairness(U[pair], z[pair], method="exact")
        assert result.value == alone.value
        assert "largest of 3 pairs" in repr(result)
        # Joint permutations: the null of the largest value is above that of each pair.
        assert all(result.null.mean > row.null.mean for row in result.pairs)

    def test_one_value_for_each_attribute(self):
        rng = np.random.default_rng(1)
        frame = pd.DataFrame(
            {"sex": np.tile(["f", "m"], 60), "region": np.repeat(["n", "s", "w"], 40)}
        )
        U = rng.normal(size=(120, 1)) + 2.0 * (frame["sex"] == "m").to_numpy()[:, None]
        result = delta_fairness(U, frame)
        assert result.worst.attribute == "sex"
        assert {pair.attribute for pair in result.pairs} == {"sex", "region"}
        for name in ("sex", "region"):
            values = [pair.value for pair in result.pairs if pair.attribute == name]
            assert max(values) == delta_fairness(U, frame[name]).value

    def test_one_value_for_each_stratum(self):
        # Within strata nothing differs; across them everything does (Simpson).
        rng = np.random.default_rng(2)
        y = np.repeat([0, 1], 200)
        z = (rng.random(400) < np.where(y, 0.8, 0.2)).astype(int)
        U = rng.normal(size=400) + 3 * y
        marginal = delta_fairness(U, z)
        conditional = delta_fairness(U, z, control_features=pd.Series(y, name="label"))
        assert marginal.value > 0.5 > conditional.value
        assert [pair.stratum for pair in conditional.pairs] == [{"label": 0}, {"label": 1}]
        for label, pair in enumerate(conditional.pairs):
            assert pair.value == delta_fairness(U[y == label], z[y == label]).value
        assert conditional.worst.stratum.keys() == {"label"}

    def test_small_cells_are_named_and_skipped(self):
        z = np.array([0, 0, 0, 1, 1, 1, 0, 0, 0, 1])
        strata = np.array(list("aaaaaabbbb"))
        with pytest.warns(SmallGroupWarning, match="has 1 rows where control_feature='b'"):
            result = delta_fairness(np.arange(10.0), z, control_features=strata)
        assert [tuple(pair.stratum.values()) for pair in result.pairs] == [("a",)]

    def test_no_stratum_left_is_an_error(self):
        z = np.array([0, 0, 1, 1])
        with (
            pytest.warns(SmallGroupWarning),
            pytest.raises(GroupsError, match="No stratum"),
        ):
            delta_fairness(np.arange(4.0), z, control_features=z)


class TestNearZeroWeights:
    """After exact mean matching a linear SVM has no direction."""

    @staticmethod
    def matched(n=200, spread=2.0, seed=0):
        rng = np.random.default_rng(seed)
        z = np.repeat([0, 1], n // 2)
        U = rng.normal(size=(n, 2))
        U[z == 1] *= spread
        for group in (0, 1):
            U[z == group] -= U[z == group].mean(axis=0)
        return U, z

    def test_the_value_comes_from_search_and_a_note_says_so(self):
        U, z = self.matched()
        result = delta_fairness(U, z, n_permutations=19)
        assert result.value == delta_fairness(U, z, method="search").value > 0.15
        assert "weight zero" in result.worst.note
        assert "weight zero" in repr(result)
        search = delta_fairness(U, z, method="search", n_permutations=19)
        np.testing.assert_array_equal(result.null_values, search.null_values)

    def test_cross_fitting_finds_differences_of_spread(self):
        U, z = self.matched(n=2000, spread=3.0)
        result = delta_fairness(U, z, cross_fit=True)
        assert "on 2 of the halves" in result.worst.note
        assert 0.15 < result.worst.held_out.estimate < result.value

    def test_cross_fitting_does_not_invent_what_is_not_there(self):
        values = [
            delta_fairness(*self.matched(n=200, spread=1.0, seed=seed), cross_fit=True)
            for seed in range(20)
        ]
        assert np.mean([result.value for result in values]) > 0.1
        # Halves of matched groups lean opposite ways, so the bias is downwards.
        assert -0.15 < np.mean([result.worst.held_out.estimate for result in values]) < 0.03

    def test_a_clear_direction_has_no_note(self, shifted):
        U, z = shifted
        assert delta_fairness(U, z, cross_fit=True).worst.note == ""


class TestSpecialCases:
    def test_a_single_component_is_exact_whatever_the_method(self):
        rng = np.random.default_rng(0)
        u, z = rng.normal(size=50), np.arange(50) % 2
        values = {m: delta_fairness(u, z, method=m) for m in ("svm", "search", "exact")}
        assert len({result.value for result in values.values()}) == 1
        assert {result.method for result in values.values()} == {"exact"}

    def test_dependent_components_are_one_component(self):
        rng = np.random.default_rng(1)
        u, z = rng.normal(size=60), np.arange(60) % 2
        U = np.column_stack([u, 3 * u, np.ones(60)])
        for method in ("svm", "search"):
            assert delta_fairness(U, z, method=method).value == delta_fairness(u, z).value

    def test_orthants_all_does_not_depend_on_signs(self):
        rng = np.random.default_rng(2)
        z = np.arange(100) % 2
        U = rng.normal(size=(100, 3)) + np.outer(z, [1.0, -1.0, 0.0])
        flipped = U * [-1, 1, -1]
        options = {"family": "cdf", "method": "exact"}
        one, other = (delta_fairness(V, z, **options).value for V in (U, flipped))
        assert one != other
        both = [delta_fairness(V, z, orthants="all", **options).value for V in (U, flipped)]
        assert both[0] == both[1] >= max(one, other)

    def test_a_large_table_for_the_exact_grid_is_refused(self, monkeypatch):
        monkeypatch.setattr("fairpca.metrics._orthants._MAX_TABLE", 100)
        U = np.random.default_rng(0).normal(size=(20, 3))
        with pytest.raises(InvalidInputError, match="400 cells"):
            delta_fairness(U, np.arange(20) % 2, family="cdf", method="exact")

    def test_many_rows_are_sampled_for_the_gaussian_svm(self):
        rng = np.random.default_rng(3)
        z = np.arange(600) % 2
        U = rng.normal(size=(600, 2)) + z[:, None]
        result = delta_fairness(U, z, family="rbf", C=1.0, gamma=0.5, max_samples=100)
        assert len(result.worst.classifier.support) <= 100
        assert result.value > 0.4

    def test_duplicate_rows_get_one_score(self):
        # The same point in both groups cannot be split, however its score is rounded.
        rng = np.random.default_rng(4)
        U = np.repeat(rng.normal(size=(10, 7)) * 1e3, 20, axis=0)
        z = np.tile([0, 1], 100)
        order = rng.permutation(200)
        for way in ({}, {"method": "search"}, {"family": "rbf", "C": 10.0, "gamma": 1.0}):
            assert delta_fairness(U[order], z[order], **way).value == pytest.approx(0, abs=1e-12)

    def test_float_and_repr(self, shifted):
        result = delta_fairness(*shifted, family="rbf", C=1.0, gamma=1.0)
        assert isinstance(result, DeltaResult)
        assert float(result) == result.value
        assert "Gaussian-kernel surfaces" in repr(result)
        orthant = delta_fairness(*shifted, family="cdf")
        assert "orthant at" in repr(orthant)
        plain = orthant.to_dict()
        assert plain["direction"] is None
        assert plain["threshold"] is None


@pytest.mark.parametrize("offset", [0.0, 100.0, 1e4, 1e6, 1e8])
def test_exact_on_collinear_columns_far_from_zero_is_the_value_of_their_line(offset):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x, z = rng.normal(size=30), rng.permutation(np.arange(30) % 2)
        U = np.c_[x + offset, 2 * x - 0.3 + offset]
        result = delta_fairness(U, z, method="exact")
        line = delta_fairness(x[:, None], z, method="exact")
        flagged = result.worst.classifier.predict(U)
        attained = abs(flagged[z == 1].mean() - flagged[z == 0].mean())
        assert result.value == pytest.approx(line.value, abs=1e-12)
        assert attained == pytest.approx(result.value, abs=1e-12)
