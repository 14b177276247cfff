"""The audit: what it can check, small groups, its budget, adversaries and interrupts."""

import json
import tracemalloc

import numpy as np
import pandas as pd
import pytest

from fairpca import FairPCA
from fairpca.exceptions import AuditInterrupted, InvalidInputError, SmallGroupWarning
from fairpca.metrics import AuditOptions, audit, cov_gap, delta_fairness, mean_gap
from fairpca.metrics._audit_options import Budget, cost_of
from fairpca.metrics.audits import hold_out
from fairpca.rows import Rows

QUICK = {"n_permutations": 9, "slow_permutations": 2, "adversaries": ()}


@pytest.fixture
def people():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"race": rng.choice(["a", "b", "c"], 300), "sex": rng.choice(["f", "m"], 300)}
    )
    U = rng.normal(size=(300, 2)) + 0.8 * (frame["race"] == "c").to_numpy()[:, None]
    return U, frame


class TestWhatFitCanDo:
    def test_joint_and_one_against_the_rest(self, people):
        U, frame = people
        asked = {"compare": "one-vs-rest", "joint": True}
        report = audit(U, frame, families=("linear",), **asked, **QUICK)
        model = FairPCA(2, mean_tol=None, cov_weight=0.0, **asked).fit(U, sensitive_features=frame)
        assert report.mean_gap == pytest.approx(model.mean_gap_)
        assert report.cov_gap == pytest.approx(model.cov_gap_)
        assert len(report.results[0].pairs) == 3 + 1 + 6
        assert len(report.contrasts) == 10
        worst = max(report.contrasts, key=lambda row: row["mean_gap"])
        assert worst["mean_gap"] == report.mean_gap

    def test_reference_strata_and_weights(self, people):
        U, frame = people
        more = {
            "control_features": frame["sex"],
            "sample_weight": np.linspace(0.5, 1.5, 300),
            "compare": "reference",
            "reference": "b",
        }
        report = audit(U, frame["race"], families=("linear",), **more, **QUICK)
        assert {pair.groups for pair in report.results[0].pairs} == {("b", "a"), ("b", "c")}
        assert report.mean_gap == pytest.approx(mean_gap(U, frame["race"], **more))
        assert report.cov_gap == pytest.approx(cov_gap(U, frame["race"], **more))

    def test_numbers_are_halves_for_classifiers_and_numbers_for_gaps(self, people):
        U, frame = people
        age = np.round(40 + 10 * U[:, 0] + np.random.default_rng(1).normal(size=300))
        given = frame[["sex"]].assign(age=age)
        report = audit(U, given, numeric=["age"], families=("linear",), **QUICK)
        groups = {pair.attribute: pair.groups for pair in report.results[0].pairs}
        assert groups["age"] == (f"up to {np.median(age):g}", f"above {np.median(age):g}")
        assert report.results[0].worst.attribute == "age"
        assert report.results[0].value > 0.8
        rows = Rows.read(U, given, numeric=["age"])
        assert report.mean_gap == mean_gap(rows)
        assert audit(rows, families=(), **QUICK).mean_gap == report.mean_gap

    @pytest.mark.parametrize("values", [[1.5, 2.5, 3.5, 9.5], [0.5, 1.5, 2.5, 2.5, 2.5, 2.5]])
    def test_halves_are_never_empty(self, values):
        rows = Rows.read(np.ones((len(values), 1)), values).binarized_at_median()
        assert set(rows.groups.categorical[0].codes) == {0, 1}


class TestSmallGroups:
    def test_are_listed_and_are_no_headline(self):
        rng = np.random.default_rng(0)
        z = np.repeat(["a", "b", "c", "d"], [150, 130, 9, 1])
        U = rng.normal(size=(290, 2)) + 5.0 * (z == "c")[:, None]
        with pytest.warns(SmallGroupWarning, match="=d"):
            report = audit(U, z, families=("linear",), n_permutations=19, slow_permutations=0)
        assert [(g.group, g.n_rows) for g in report.small_groups] == [("c", 9), ("d", 1)]
        result = report.results[0]
        assert {pair.groups: pair.small for pair in result.pairs} == {
            ("a", "b"): False,
            ("a", "c"): True,
            ("b", "c"): True,
        }
        assert result.worst.groups == ("a", "b")
        assert result.value < 0.5 < result.pairs[1].value
        assert result.null.p_value == result.pairs[0].null.p_value
        assert "c vs" not in report.headline.pair
        assert "fewer than 30 rows" in repr(report)
        assert report.mean_gap < 1

    def test_the_headline_is_the_largest_lower_end(self):
        # A larger value of few rows is less certain than a smaller one of many.
        rng = np.random.default_rng(3)
        z = np.repeat(["a", "b", "c"], [2000, 2000, 32])
        U = rng.normal(size=4032) + 0.8 * (z == "b") + 1.0 * (z == "c")
        report = audit(U, z, families=("linear",), **QUICK)
        assert report.headline.pair.endswith("b vs a")
        wide = [pair.held_out.worst_of(3) for pair in report.results[0].pairs]
        assert report.headline.held_out.low == max(new.low for new in wide)

    def test_the_headline_allows_for_being_the_worst_of_several(self):
        rng = np.random.default_rng(4)
        z = rng.integers(0, 4, 900)
        U = rng.normal(size=900) + 0.4 * (z == 3)
        report = audit(U, z, families=("linear",), adversaries=("linear",), n_permutations=0)
        worst = report.headline
        assert worst.n_compared == 6 + 4
        assert f"allows for {worst.n_compared} comparisons" in repr(report)
        alone = [pair.held_out for pair in report.results[0].pairs]
        alone += [attack.held_out for attack in report.adversaries]
        [same] = {(new.low, new.high) for new in alone if new.worst_of(10) == worst.held_out}
        assert worst.held_out.low < same[0] < same[1] < worst.held_out.high
        assert worst.held_out.confidence == 0.95  # of all ten together

    def test_a_single_comparison_is_its_own_headline(self):
        z = np.arange(200) % 2
        U = np.random.default_rng(0).normal(size=200) + z
        report = audit(U, z, families=("linear",), **QUICK)
        assert report.headline.n_compared == 1
        assert report.headline.held_out == report.results[0].worst.held_out
        assert "allows for" not in repr(report)

    def test_where_all_are_small_they_are_compared(self):
        report = audit(np.arange(12.0), np.arange(12) % 2, families=("linear",), **QUICK)
        assert len(report.small_groups) == 2
        assert report.results[0].value == delta_fairness(np.arange(12.0), np.arange(12) % 2).value
        assert report.headline.small
        assert "no headline" not in repr(report)

    def test_no_pair_of_a_small_group_is_the_headline_beside_a_larger_comparison(self):
        # Every pair has a small group, but one group against the rest has not.
        z = np.repeat(["a", "b", "c"], [100, 20, 15])
        U = np.random.default_rng(0).normal(size=(135, 2)) + 3.0 * (z == "b")[:, None]
        report = audit(U, z, families=("linear",), **QUICK | {"adversaries": ("linear",)})
        assert all(pair.small for pair in report.results[0].pairs)
        worst = report.headline
        assert (worst.by, worst.pair, worst.n_compared) == (
            "linear",
            "sensitive_feature: a vs rest",
            1,
        )
        assert not worst.small

    def test_small_intersections_are_listed(self, people):
        U, frame = people
        frame.loc[frame["race"] == "a", "sex"] = "f"
        frame.loc[:4, ["race", "sex"]] = ["a", "m"]
        report = audit(U, frame, joint=True, families=("linear",), **QUICK)
        assert [(g.attribute, g.group, g.n_rows) for g in report.small_groups] == [
            ("race × sex", "a × m", 5)
        ]


class TestBudget:
    def test_a_sample_keeps_the_shares_of_the_rest(self, monkeypatch):
        monkeypatch.setattr(Budget, "is_spent", lambda self: False)  # on a busy machine
        # Small groups are drawn more often than others, and would be most of the rest.
        rng = np.random.default_rng(0)
        z = np.repeat(list("abcde"), [10_000, 5000, 100, 100, 100])
        U = rng.normal(size=(len(z), 2)) + 4.0 * (z > "b")[:, None]
        adversaries, values = [], []
        asked = {"compare": "one-vs-rest", "adversaries": ("linear",), "families": ("linear",)}
        for seed in range(3):
            report = audit(U, z, **asked, budget=1, random_state=seed)
            assert "linear svm: measured on a sample of" in report.cut[0]
            assert "adversary linear: on a sample of" in report.cut[2]
            adversaries += [a.held_out.value for a in report.adversaries if a.groups[1] == "a"]
            values += [p.value for p in report.results[0].pairs if p.groups[1] == "a"]
        whole = delta_fairness(U, z == "a").value
        # 0.06 on all rows; as they are drawn, samples say 0.33 and 0.46.
        assert np.mean(values) == pytest.approx(whole, abs=0.05)
        # Of a third of as many held-out rows the mean of three has an error of 0.04.
        assert np.mean(adversaries) == pytest.approx(whole, abs=0.15)

    def test_many_groups_against_the_rest(self):
        z = np.repeat(np.arange(60), 40)
        U = np.random.default_rng(0).normal(size=len(z)) + 3.0 * (z == 7)
        report = audit(U, z, compare="one-vs-rest", families=("linear",), **QUICK, budget=0)
        assert report.results[0].worst.groups == ("rest", 7)
        with pytest.raises(InvalidInputError, match=r"more than 50: .* use compare='one-vs-rest'"):
            audit(U, z, compare="pairs")

    def test_a_thinned_pair_has_the_shares_of_all_rows(self):
        z = np.repeat(list("abc"), [500, 100, 100])  # drawn from 5000, 100 and 200 rows
        pair = Rows.read(np.zeros((700, 1)), z).pairs("one-vs-rest")[0].pairs[0]
        rates = np.repeat([0.1, 1.0, 0.5], [500, 100, 100])
        signs = pair.thinned(rates, np.random.default_rng(0)).signs
        assert (signs[:500] == 1).all()  # a side of one cell stays as it is
        kept = [np.count_nonzero(signs[z == group]) for group in "bc"]
        assert kept[1] == 100
        assert kept[0] == pytest.approx(50, abs=15)

    def test_what_is_cut_is_said_and_the_same_again(self):
        rng = np.random.default_rng(0)
        z = rng.random(6000) < 0.4
        U = rng.normal(size=(6000, 3)) + 0.3 * z[:, None]
        # Fitted rows: the means agree, which used to take a search for each permutation.
        U -= np.where(z[:, None], U[z].mean(axis=0), U[~z].mean(axis=0))
        options = {"families": ("linear", "cdf"), "adversaries": ("trees",), "budget": 12.0}
        report, again = (audit(U, z, **options) for _ in range(2))
        assert json.dumps(report.to_dict()) == json.dumps(again.to_dict())
        assert any("linear svm: measured on a sample of" in what for what in report.cut)
        assert any("permutations of a sample" in what for what in report.cut)
        assert "weight zero" in report.results[0].worst.note
        assert report.results[0].value == report.results[1].value
        assert report.results[0].n_rows < 6000
        assert report.results[0].null.p_value_of == "held-out rows"
        assert report.mean_gap < 1e-12  # gaps are those of all rows

    def test_no_budget_is_no_limit(self):
        rng = np.random.default_rng(0)
        z = np.arange(3000) % 2
        U = rng.normal(size=(3000, 2)) + 0.2 * z[:, None]
        options = {"families": ("cdf",), "orthants": "one", **QUICK}
        report = audit(U, z, budget=0, **options)
        assert report.cut == ()
        assert "cut to keep" not in repr(report)
        assert report.results[0].null.n_rows == report.results[0].n_rows == 3000

    def test_nothing_is_begun_when_the_time_is_up(self, people, monkeypatch):
        monkeypatch.setattr(Budget, "is_spent", lambda self: True)
        U, frame = people
        report = audit(U, frame["sex"])
        assert report.results == ()
        assert report.adversaries == ()
        assert report.mmd2 is None
        assert len(report.cut) == 9
        [line] = [line for line in repr(report).splitlines() if "cut to keep" in line]
        assert line.count("not measured, the budget was used up") == 1
        assert "adversary trees, adversary mlp, MMD²" in line
        assert report.headline is None
        assert "MMD² –" in repr(report)
        json.dumps(report.to_dict(), allow_nan=False)

    def test_plans_shrink_with_the_budget_and_end_in_nothing(self):
        cost = cost_of("search", 5, 1)
        sizes = [Budget(seconds).plan("search", cost, 10**6, 20) for seconds in (30, 60, 600)]
        assert sizes[0].rows < sizes[1].rows < sizes[2].rows
        assert sizes[0].null_rows <= sizes[1].null_rows <= sizes[2].null_rows
        crowd = cost_of("search", 5, 1000)
        assert Budget(1.0).plan("search", crowd, 10**6, 20) is None

    def test_an_interrupt_hands_over_what_is_done(self, people):
        U, frame = people

        def stop(done, total):
            if done == 2:
                raise KeyboardInterrupt

        with pytest.raises(AuditInterrupted) as caught:
            audit(U, frame["sex"], progress=stop, **QUICK)
        assert len(caught.value.report.results) == 2
        assert caught.value.report.mean_gap > 0

    def test_decisions_losses_and_unknown_rows_come_first_and_survive_an_interrupt(self, people):
        U, frame = people
        sex = frame["sex"].astype(object)
        sex[:7] = None

        def stop(done, total):
            raise KeyboardInterrupt

        decisions = {"decision": np.arange(300) % 2}
        judged = {"decisions": decisions, "original": U, "missing_groups": "leave-out"}
        with pytest.raises(AuditInterrupted) as caught:
            audit(U, sex, progress=stop, **judged, **QUICK)
        report = caught.value.report
        assert report.unknown == {"sex": 7}
        assert report.decisions.rates
        assert report.losses is not None
        with pytest.raises(InvalidInputError, match="positive='maybe'"):  # before anything is done
            audit(U, frame["sex"], progress=stop, decisions={**decisions, "positive": "maybe"})

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"budget": -1}, "budget must be"),
            ({"budget": np.nan}, "budget must be"),
            ({"min_group": 1}, "min_group must be"),
            ({"confidence": 1.0}, "confidence must be"),
            ({"adversaries": ("tree",)}, "adversaries must be some of"),
            ({"n_permutations": -1}, "n_permutations must be"),
            ({"slow_permutations": 0.5}, "n_permutations must be"),
        ],
    )
    def test_bad_options(self, people, options, message):
        with pytest.raises(InvalidInputError, match=message):
            audit(people[0], people[1], **options)


class TestAdversaries:
    def test_trees_and_networks_see_what_half_spaces_cannot(self):
        # Exclusive or: every half-space flags both groups alike.
        rng = np.random.default_rng(0)
        U = rng.normal(size=(1200, 2))
        z = U[:, 0] * U[:, 1] > 0
        report = audit(U, z, families=(), n_permutations=0)
        found = {a.adversary: a.held_out for a in report.adversaries}
        assert found["linear"].value < 0.3
        for name in ("gaussian", "trees", "mlp"):
            assert found[name].low > 0.6
            assert found[name].p_value < 1e-10
        assert report.strongest.adversary != "linear"
        assert report.headline.by == report.strongest.adversary
        assert report.to_dict()["strongest"]["adversary"] == report.strongest.adversary

    def test_several_groups_face_the_rest_and_strata_stay_apart(self, people):
        U, frame = people
        rows = Rows.read(U, frame["race"], frame["sex"], np.linspace(1, 2, 300))
        found = list(hold_out(rows.pairs("one-vs-rest"), "mlp", AuditOptions(max_samples=100)))
        assert [(a.groups, tuple(a.stratum.values())) for a in found] == [
            (("rest", level), (sex,)) for sex in "fm" for level in "abc"
        ]
        report = audit(rows, families=(), adversaries=("trees",))
        assert {a.groups for a in report.adversaries} == {("rest", level) for level in "abc"}

    def test_none_without_new_rows(self, people):
        U, frame = people
        assert audit(U, frame["sex"], families=(), cross_fit=False).adversaries == ()


def test_to_dict_has_all_that_a_page_needs(people):
    U, frame = people
    report = audit(U, frame, n_permutations=9, slow_permutations=1)
    document = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert {"headline", "delta", "adversaries", "strongest", "contrasts", "small_groups"} <= set(
        document
    )
    assert document["settings"]["budget"] == 60.0
    assert document["headline"]["held_out"]["low"] <= document["headline"]["held_out"]["value"]
    for entry in document["delta"]:
        for pair in entry["pairs"]:
            assert pair["held_out"]["low"] < pair["held_out"]["high"]


def test_draws_keep_proportions_and_every_cell():
    rng = np.random.default_rng(0)
    z = np.repeat(["a", "b", "c"], [8000, 1990, 10])
    rows = Rows.read(rng.normal(size=(10_000, 1)), z)
    drawn = rows.draw(1000, 3)
    assert len(np.unique(drawn)) == len(drawn)
    counts = np.bincount(rows.groups.categorical[0].codes[drawn])
    assert 990 <= counts.sum() <= 1000
    assert counts[2] == 10
    assert counts[0] / counts[1] == pytest.approx(4, rel=0.2)
    np.testing.assert_array_equal(drawn, rows.draw(1000, 3))
    assert not np.array_equal(drawn, rows.draw(1000, 4))
    np.testing.assert_array_equal(rows.draw(10_000), np.arange(10_000))


def test_memory_stays_below_three_times_the_rows():
    rng = np.random.default_rng(0)
    z = rng.random(250_000) < 0.4
    U = rng.normal(size=(250_000, 40)) + 0.1 * z[:, None]
    tracemalloc.start()
    try:
        audit(U, z, budget=0.5, n_permutations=19, slow_permutations=0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert U.nbytes + peak < 3 * U.nbytes
