"""Decisions by group: rates, differences and ratios, small and unknown groups."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest

from fairpca.exceptions import GroupsError, InvalidInputError
from fairpca.metrics import audit, decision_rates
from fairpca.rows import Rows


@pytest.fixture
def hiring():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"sex": rng.choice(["f", "m"], 600), "race": rng.choice(["a", "b"], 600, p=[0.7, 0.3])}
    )
    chance = 0.3 + 0.2 * (frame["sex"] == "m") + 0.1 * (frame["race"] == "a")
    qualified = rng.random(600) < 0.5
    return frame, rng.random(600) < chance, qualified


def named(report, measure, attribute):
    return {
        rate.group: rate
        for rate in report.rates
        if (rate.measure, rate.attribute) == (measure, attribute)
    }


def test_rates_differences_and_ratios(hiring):
    frame, chosen, _ = hiring
    report = decision_rates(chosen, frame)
    rates = named(report, "selection", "sex")
    f, m = (chosen[frame["sex"] == s].mean() for s in "fm")
    assert (rates["f"].rate, rates["m"].rate) == pytest.approx((f, m))
    assert rates["f"].impact_ratio == pytest.approx(f / m)
    assert rates["f"].difference == pytest.approx(f - m)
    assert rates["f"].difference_low < f - m < rates["f"].difference_high
    assert rates["f"].ratio_low < f / m < rates["f"].ratio_high
    assert rates["m"].impact_ratio == 1.0
    assert rates["f"].n_selected == chosen[frame["sex"] == "f"].sum()
    assert set(named(report, "selection", "sex × race")) == {"f × a", "f × b", "m × a", "m × b"}
    assert report.worst().group == "f × b"
    assert "impact ratio" in repr(report)
    json.dumps(report.to_dict(), allow_nan=False)
    alone = decision_rates(chosen, frame, joint=False)
    assert {rate.attribute for rate in alone.rates} == {"sex", "race"}


def test_labels_give_true_and_false_positive_rates(hiring):
    frame, chosen, qualified = hiring
    report = decision_rates(chosen, frame["sex"], label=qualified)
    for measure, truth in (("true positives", True), ("false positives", False)):
        for sex, rate in named(report, measure, "sex").items():
            inside = (frame["sex"] == sex).to_numpy() & (qualified == truth)
            assert rate.rate == pytest.approx(chosen[inside].mean())
            assert rate.n_rows == inside.sum()


def test_scores_above_the_median(hiring):
    frame, chosen, _ = hiring
    score = np.random.default_rng(1).normal(size=600) + chosen
    report = decision_rates(score=score, sensitive_features=frame["sex"])
    for sex, rate in named(report, "above median", "sex").items():
        assert rate.rate == pytest.approx((score > np.median(score))[frame["sex"] == sex].mean())


@pytest.mark.parametrize("make", [pd.Series, pl.Series, list, lambda v: np.array(v, dtype=object)])
def test_small_and_unknown_groups_are_listed_and_left_out(make):
    z = ["a"] * 40 + ["b"] * 40 + ["c"] * 5 + [None] * 15
    chosen = np.arange(100) % 2
    report = decision_rates(chosen, make(z))
    assert list(report.unknown.values()) == [15]
    rates = {rate.group: rate for rate in report.rates}
    assert set(rates) == {"a", "b", "c"}
    assert rates["c"].left_out == "fewer than 30 rows"
    assert rates["c"].impact_ratio is None
    assert rates["c"].rate is not None
    assert rates["a"].left_out == ""
    assert "15 rows of unknown group" in repr(report)


def test_whole_numbers_with_a_hole_are_the_same_groups():
    z = pd.Series([1, 2, None] * 20)
    report = decision_rates(np.arange(60) % 2, z, min_group=2)
    assert [rate.group for rate in report.rates] == [1, 2]


def test_weights_count(hiring):
    frame, chosen, _ = hiring
    weight = np.random.default_rng(2).integers(0, 4, 600)
    weighted = decision_rates(chosen, frame["sex"], sample_weight=weight)
    again = decision_rates(np.repeat(chosen, weight), np.repeat(frame["sex"], weight))
    for one, other in zip(weighted.rates, again.rates, strict=True):
        assert one.rate == pytest.approx(other.rate)
        assert one.n_rows < other.n_rows


def test_nobody_or_everybody_selected():
    z = np.repeat(["a", "b"], 40)
    nobody = decision_rates(np.zeros(80, dtype=bool), z)
    assert {rate.left_out for rate in nobody.rates} == {"no group has a rate above zero"}
    assert nobody.worst() is None
    everybody = decision_rates(np.ones(80), z)
    assert [rate.impact_ratio for rate in everybody.rates] == [1.0, 1.0]
    empty = decision_rates(np.arange(80) % 2, z, label=np.repeat([1, 0], 40))
    assert "no rows" in {rate.left_out for rate in empty.rates}


def test_the_value_that_means_yes():
    z, chosen = np.repeat(["a", "b"], 40), np.tile(["hire", "reject"], 40)
    chosen[:10] = "hire"
    default = decision_rates(chosen, z).rates[0].rate
    said = decision_rates(chosen, z, positive="hire").rates[0].rate
    assert said == pytest.approx(1 - default)
    nobody = decision_rates(np.full(80, "reject"), z, positive="hire")
    assert [rate.rate for rate in nobody.rates] == [0.0, 0.0]
    with pytest.raises(InvalidInputError, match="say in positive"):  # "no" is not yes
        decision_rates(np.full(80, "no"), z)
    with pytest.raises(InvalidInputError, match="positive='maybe'") as caught:
        decision_rates(chosen, z, positive="maybe")
    assert caught.value.parameter == "positive"


def test_rows_of_weight_zero_are_not_there():
    rng = np.random.default_rng(0)
    z, score = rng.choice(["a", "b"], 400), rng.normal(size=400)
    score[:200] += 1.0
    weight = np.repeat([0.0, 1.0], 200)
    with_them = decision_rates(score=score, sensitive_features=z, sample_weight=weight)
    without = decision_rates(score=score[200:], sensitive_features=z[200:])
    assert with_them.n_rows == without.n_rows == 200
    assert [r.rate for r in with_them.rates] == pytest.approx([r.rate for r in without.rates])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "Give a decision or a score"),
        ({"score": [1.0, 2.0], "label": [0, 1]}, "Give a decision or a score"),
        ({"decision": [0, 1, 2]}, "give two"),
        ({"decision": [0, 1], "positive": 2}, "give two"),
        ({"decision": [0.1, 0.2, 0.3]}, "give two"),
        ({"decision": [0, 1], "score": [1.0]}, "score has shape"),
        ({"score": ["a", "b"]}, "finite numbers"),
        ({"score": [np.nan, 1.0]}, "finite numbers"),
        ({"decision": [0, 1], "sample_weight": [-1, 1]}, "negative"),
        ({"decision": [0, 1], "confidence": 1.5}, "confidence must be"),
        ({"decision": [0, 1], "confidence": "x"}, "confidence must be"),
        ({"decision": [0, 1], "min_group": -1}, "min_group must be"),
    ],
)
def test_bad_input(arguments, message):
    n = len(arguments.get("decision", arguments.get("score", [0, 1])))
    with pytest.raises(InvalidInputError, match=message):
        decision_rates(sensitive_features=["a", "b", "a"][:n], **arguments)


def test_numbers_are_no_groups():
    with pytest.raises(GroupsError, match="bin it first"):
        decision_rates(np.arange(40) % 2, np.linspace(0, 1, 40))
    with pytest.raises(GroupsError, match="not one for each decision"):
        decision_rates([0, 1], Rows.read([[1.0]], ["a"]))


def test_an_audit_has_the_decisions_and_the_unknown(hiring):
    frame, chosen, qualified = hiring
    U = np.random.default_rng(3).normal(size=(600, 2))
    given = frame.assign(sex=frame["sex"].where(np.arange(600) > 20))
    decisions = {"decision": chosen, "label": qualified}
    options = {"families": (), "adversaries": (), "decisions": decisions}
    with pytest.raises(GroupsError, match="missing"):
        audit(U, given, **options)
    report = audit(U, given, missing_groups="leave-out", **options)
    assert report.n_rows == 579
    assert report.unknown == {"sex": 21}
    assert report.decisions.n_rows == 600
    assert report.decisions.unknown == {"sex": 21}
    document = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert document["decisions"]["rates"][0]["measure"] == "selection"
    assert "unknown group" in repr(report)
    with pytest.raises(InvalidInputError, match="missing_groups must be"):
        audit(U, frame, missing_groups="drop")


def test_uneven_weights_and_units_of_several_rows_widen_intervals():
    rng = np.random.default_rng(0)
    sex, hired = np.repeat(["f", "m"], 200), rng.random(400) < 0.4
    plain, weighted = (
        decision_rates(hired, sex, sample_weight=weight).rates[0]
        for weight in (None, np.where(np.arange(400) % 10, 0.1, 10.0))
    )
    assert weighted.rate_high - weighted.rate_low > 2 * (plain.rate_high - plain.rate_low)
    five = np.arange(400).repeat(5)
    by_rows, by_units = (
        decision_rates(hired.repeat(5), sex.repeat(5), units=units).rates[0]
        for units in (None, five)
    )
    # Five equal rows of a unit say as much as one.
    assert by_units.rate_low == pytest.approx(plain.rate_low, abs=2e-3)
    assert by_units.rate_high == pytest.approx(plain.rate_high, abs=2e-3)
    assert by_rows.rate_high - by_rows.rate_low < 0.6 * (plain.rate_high - plain.rate_low)


def test_groups_are_compared_inside_strata():
    """What looks like a difference of groups may be one of departments."""
    rng = np.random.default_rng(0)
    job = np.repeat(["cook", "judge"], 400)
    sex = np.where(rng.random(800) < np.where(job == "cook", 0.8, 0.2), "f", "m")
    hired = rng.random(800) < np.where(job == "cook", 0.2, 0.6)
    assert decision_rates(hired, sex).worst().impact_ratio < 0.7
    report = decision_rates(hired, sex, control_features=pd.Series(job, name="job"))
    for rate in report.rates:
        alone = job == rate.stratum.removeprefix("job=")
        same = decision_rates(hired[alone], sex[alone])
        expected = next(r for r in same.rates if r.group == rate.group)
        assert replace(rate, stratum="") == expected
    assert {rate.stratum for rate in report.rates} == {"job=cook", "job=judge"}
    assert "selection, sensitive_feature: f where job=cook: 0." in repr(report)
    two = pd.DataFrame({"job": job, "site": np.where(np.arange(800) % 2, "a", None)})
    known = decision_rates(hired, sex, control_features=two)
    assert sum(rate.n_rows for rate in known.rates) == 400  # of those whose site is known
    with pytest.raises(GroupsError, match=r"control_features column .* holds numbers"):
        decision_rates(hired, sex, control_features=rng.normal(size=800))
