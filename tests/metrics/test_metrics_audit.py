"""The audit: one design for all representations, held-out rows, small groups, units, interrupts."""

import json
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from fairpca import FairPCA
from fairpca._choices import ADVERSARIES, PANEL
from fairpca._present import seconds_left
from fairpca.exceptions import AuditInterrupted, InvalidInputError, SmallGroupWarning
from fairpca.metrics import HeldOut, _cross_fit, audit, cov_gap, mean_gap
from fairpca.metrics._audit_report import AdversaryResult, Comparison, Representation
from fairpca.metrics._cross_fit import CLASSIFIERS, Classifier, Labelled, Trained
from fairpca.metrics._result import statistic_name
from fairpca.rows import Rows

FAST = {"families": (), "adversaries": ("linear",), "effort": "quick"}
NOTHING = {"families": (), "adversaries": (), "effort": "quick"}


@pytest.fixture
def people():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"race": rng.choice(["a", "b", "c"], 300), "sex": rng.choice(["f", "m"], 300)}
    )
    U = rng.normal(size=(300, 2)) + 0.8 * (frame["race"] == "c").to_numpy()[:, None]
    return U, frame


@pytest.fixture(scope="module")
def leaky():
    """Return an audit of two representations by all adversaries and statistics."""
    rng = np.random.default_rng(0)
    z = np.arange(300) % 2
    U = rng.normal(size=(300, 3))
    options = {"against": {"plain PCA": U + z[:, None]}, "effort": "quick"}
    return audit(U, z, **options)


class TestRepresentationsAreMeasuredAlike:
    def test_a_copy_has_the_same_figures_and_a_difference_of_exactly_zero(self, people):
        U, frame = people
        report = audit(U, frame, against={"copy": U.copy()}, **FAST)
        audited, copy = (one.to_dict("one-vs-rest") for one in report.representations)
        assert audited["held_out"] == copy["held_out"]
        assert audited["headline"] == copy["headline"]
        [difference] = report.differences
        assert (difference.estimate, difference.against) == (0.0, "copy")
        assert difference.low <= 0.0 <= difference.high
        for row in difference.rows:
            assert row[1].estimate == 0.0

    def test_every_adversary_sees_the_same_rows_and_halves(self, people, monkeypatch):
        U, frame = people
        seen = []
        train = CLASSIFIERS["linear"].train

        def keep(part, seed):
            seen.append((part.rows.X[:, 0].copy(), part.signs.copy(), seed))
            return train(part, seed)

        monkeypatch.setitem(CLASSIFIERS, "linear", Classifier(keep))
        audit(U, frame["sex"], against=10.0 * U, **FAST)
        first, second = seen[: len(seen) // 2], seen[len(seen) // 2 :]
        for (one, labels, seed), (other, others, same) in zip(first, second, strict=True):
            np.testing.assert_allclose(10.0 * one, other)
            np.testing.assert_array_equal(labels, others)
            assert seed == same

    def test_a_paired_difference_is_sharper_than_two_intervals(self):
        rng = np.random.default_rng(1)
        z = np.arange(800) % 2
        U = rng.normal(size=(800, 2))
        U[:, 0] += 1.5 * z
        near = U + 0.05 * rng.normal(size=U.shape)
        report = audit(U, z, against=near, **FAST)
        [difference], (one, other) = report.differences, report.representations
        apart = (one.headline.high - other.headline.low) - (one.headline.low - other.headline.high)
        assert difference.high - difference.low < 0.5 * apart
        assert difference.low < difference.estimate < difference.high

    def test_rows_of_another_length_are_refused(self, people):
        U, frame = people
        with pytest.raises(InvalidInputError, match=r"against\['plain'\] has 299 rows, but U has"):
            audit(U, frame["sex"], against={"plain": U[1:]}, **FAST)


def _results(pairs):
    """A representation with one result for each (attribute, estimate, chance)."""
    held_out = tuple(
        AdversaryResult(
            Comparison("linear SVM", name, ("rest", "x"), {}, False),
            HeldOut(value, 0.1, value - chance, value + chance, chance, 0.5, (0.3, 0.4), (50, 50)),
        )
        for name, value, chance in pairs
    )
    return Representation("audited", 2, {}, None, 0.0, (), held_out=held_out)


class TestHeadline:
    def test_it_is_the_largest_estimate_over_the_panel(self, leaky):
        for one in leaky.representations:
            best = max(one.held_out, key=lambda row: row.held_out.estimate)
            assert one.headline.estimate == best.held_out.estimate
            assert one.headline.comparison == best.comparison
            assert one.headline.n_compared == len(ADVERSARIES)
            for name in ("chance", "p_value"):
                assert getattr(one.headline, name) == getattr(best.held_out, name)
            for name in ("low", "high"):
                assert getattr(one.headline, name) == max(getattr(r, name) for r in one.held_out)

    def test_noise_of_a_small_group_is_not_the_worst(self):
        # 35 rows without a difference may show more than the few points of large groups.
        named = 0
        for seed in range(5):
            rng = np.random.default_rng(seed)
            z = np.repeat(list("abc"), [3000, 3000, 35])
            U = rng.normal(size=(len(z), 2)) + 0.25 * (z == "b")[:, None]
            report = audit(U, z, families=(), adversaries=("linear",), effort="quick")
            worst = report.headline
            assert "c" not in worst.comparison.groups
            assert worst.low <= worst.estimate <= worst.high
            assert worst.estimate > worst.chance
            # The table leads with the same comparison, and who has too few rows is named.
            [row] = report.representations[0].by_adversary()
            assert row.comparison == worst.comparison
            for other in report.representations[0].undecided():
                assert other.comparison.groups == ("rest", "c")
                assert other.chance >= 0.25
                assert other.low <= 0
                named += 1
        assert named

    def test_it_is_the_plain_maximum_where_there_are_rows_enough(self):
        # Within chance or not: only pairs with too few rows to say are left out, and named.
        def report(*estimates):
            rows = zip("abcd", estimates, (0.05, 0.09, 0.3, 0.3), strict=True)
            return _results([(pair, value, chance) for pair, value, chance in rows])

        one = report(0.06, 0.08, 0.15, 0.1)
        assert [one.held_out[k].comparison.attribute for k in one.counted()] == ["a", "b"]
        assert [row.comparison.attribute for row in one.undecided()] == ["c", "d"]
        assert [row.estimate for row in one.by_adversary()] == [0.08]
        # Few rows, but a clear difference.
        one = report(0.06, 0.08, 0.15, 0.4)
        assert [row.estimate for row in one.by_adversary()] == [0.4]

    def test_a_clear_difference_is_not_hidden_by_a_noisier_and_larger_one(self):
        rng = np.random.default_rng(0)
        z = np.repeat(list("abc"), [2000, 2000, 40])
        U = rng.normal(size=(len(z), 2)) + 0.5 * (z == "b")[:, None]
        U[z == "c"] += [0.5, 0.6]
        report = audit(U, z, families=(), effort="quick", compare="pairs")
        one = report.representations[0]
        largest = max(one.held_out, key=lambda row: row.estimate)
        clear = max(one.held_out, key=lambda row: row.low)
        assert "c" in largest.comparison.groups
        assert "c" not in clear.comparison.groups
        assert one.headline.comparison == largest.comparison
        assert one.headline.low == clear.low > largest.low

    def test_no_verdict_where_no_pair_has_rows_enough(self):
        z = np.arange(60) % 2
        U = np.random.default_rng(1).normal(size=(60, 2))
        report = audit(U, z, families=(), effort="quick")
        [row] = report.representations[0].undecided()
        assert row.comparison.groups == report.headline.comparison.groups
        assert report.verdict.level == "unknown"
        assert "too small to say" in report.verdict.reason

    def test_the_difference_is_that_of_two_headlines(self):
        # Of 35 rows fair columns may show more than the headline, where plain ones exceed chance.
        rng = np.random.default_rng(1)
        z = np.repeat(list("abc"), [1000, 1000, 35])
        fair = rng.normal(size=(len(z), 2)) + 0.25 * (z == "b")[:, None]
        plain = fair + 2.0 * (z == "c")[:, None]
        how = {"families": (), "adversaries": ("linear",), "effort": "quick"}
        report = audit(fair, z, against=plain, **how)
        one, other = (representation.headline for representation in report.representations)
        assert "c" in other.comparison.groups
        assert "c" not in one.comparison.groups
        assert report.differences[0].estimate == one.estimate - other.estimate

    def test_its_interval_allows_for_being_the_largest_of_several(self):
        rng = np.random.default_rng(4)
        z = rng.integers(0, 6, 900)
        U = rng.normal(size=(900, 2))
        several = audit(U, z, **FAST).representations[0].held_out
        alone = audit(U, z == 3, **FAST).representations[0].held_out[0].held_out
        wide = next(row.held_out for row in several if row.comparison.groups == ("rest", 3))
        # The same rows against the same rest, in other halves.
        assert wide.high - wide.low > 1.2 * (alone.high - alone.low)

    def test_trees_and_networks_see_what_half_spaces_cannot(self):
        # Exclusive or: every half-space flags both groups alike.
        rng = np.random.default_rng(0)
        U = rng.normal(size=(1200, 2))
        z = U[:, 0] * U[:, 1] > 0
        report = audit(U, z, families=(), effort="quick")
        found = {
            row.comparison.adversary: row.held_out for row in report.representations[0].held_out
        }
        assert set(found) == set(PANEL.values())
        assert found["linear SVM"].estimate < 0.3
        assert report.headline.estimate == max(one.estimate for one in found.values())
        for name in ("Gaussian-kernel SVM", "boosted trees", "small network"):
            assert found[name].low > 0.6
            assert found[name].p_value < 1e-10
        assert report.verdict.level == "much"

    def test_a_classifier_that_is_wrong_has_a_negative_value(self, people, monkeypatch):
        U, frame = people

        def wrong(part, seed):
            return Trained(lambda new: np.asarray(new[:, 0] < 0.4), lambda new: [-new[:, 0]])

        monkeypatch.setitem(CLASSIFIERS, "linear", Classifier(wrong))
        report = audit(U, frame["race"] == "c", **FAST)
        assert report.headline.estimate < 0
        assert report.headline.p_value > 0.5


class TestVerdict:
    def test_none_without_the_whole_panel(self, people):
        U, frame = people
        # What did run is clear: only what did not leaves the verdict open.
        report = audit(U + 3.0 * (frame["sex"] == "f").to_numpy()[:, None], frame["sex"], **FAST)
        assert report.headline.low > 0.5
        assert report.verdict.level == "unknown"
        assert "did not run for 3 comparisons" in report.verdict.reason
        assert {one.adversary for one in report.missing} == set(list(PANEL.values())[1:])
        nothing = audit(U, frame["sex"], **NOTHING)
        assert (nothing.headline, nothing.verdict.level) == (None, "unknown")
        assert len(nothing.missing) == len(PANEL)

    def test_none_where_a_half_has_too_few_rows(self):
        # Two units: one half has the first group only.
        U = np.random.default_rng(0).normal(size=(80, 2))
        z = np.repeat([0, 1], 40)
        report = audit(U, z, units=z, families=(), effort="quick", min_group=2)
        assert report.verdict.level == "unknown"
        assert report.headline is None
        assert {one.reason for one in report.missing} <= {"too few rows in a half"}

    def test_all_of_the_panel_has_one(self, leaky):
        assert leaky.missing == ()
        assert leaky.verdict.level in ("chance", "unclear")
        assert leaky.representations[1].verdict.level == "much"
        assert leaky.differences[0].high < 0


class TestOneRowIsOneQuantity:
    def test_held_out_rows(self, leaky):
        for one in leaky.representations:
            for row in one.held_out:
                new = row.held_out
                assert new.low < new.estimate < new.high
                assert new.estimate == pytest.approx(new.rates[1] - new.rates[0])
                # Beyond the level of chance exactly where the p-value is below 5 %, and 0 outside.
                assert (new.estimate > new.chance) == (new.p_value < 0.05) == (new.low > 0)

    def test_in_sample_rows(self, leaky):
        for one in leaky.representations:
            assert one.in_sample
            for result in one.in_sample:
                null = result.null
                assert null.value == result.value
                assert null.n_rows == result.n_rows
                reached = np.count_nonzero(result.null_values >= result.value - 1e-12)
                assert null.p_value == (1 + reached) / (1 + null.n_permutations)

    def test_names_are_unique_on_a_page(self, leaky):
        one = leaky.representations[0]
        names = [statistic_name(result.family, result.method) for result in one.in_sample]
        names += [PANEL[key] for key in leaky.settings["adversaries"]]
        assert len(names) == len(set(names))


class TestWhatFitCanDo:
    def test_gaps_are_those_of_a_fit_without_arguments(self, people):
        U, frame = people
        report = audit(U, frame["race"], **NOTHING).representations[0]
        model = FairPCA(2, mean_tol=None, cov_weight=0.0).fit(U, sensitive_features=frame["race"])
        assert report.mean_gap == pytest.approx(model.mean_gap_)
        assert report.cov_gap == pytest.approx(model.cov_gap_)
        assert mean_gap(U, frame["race"]) == pytest.approx(model.mean_gap_)
        assert cov_gap(U, frame["race"]) == pytest.approx(model.cov_gap_)

    def test_joint_and_one_against_the_rest(self, people):
        U, frame = people
        report = audit(U, frame, joint=True, **FAST)
        one = report.representations[0]
        model = FairPCA(2, mean_tol=None, cov_weight=0.0, joint=True).fit(
            U, sensitive_features=frame
        )
        assert one.mean_gap == pytest.approx(model.mean_gap_)
        assert one.cov_gap == pytest.approx(model.cov_gap_)
        assert len(one.held_out) == 3 + 1 + 6
        assert len(one.contrasts) == 10
        assert report.to_dict()["comparison"]["joint"] is True

    def test_reference_strata_and_weights(self, people):
        U, frame = people
        more = {
            "control_features": frame["sex"],
            "sample_weight": np.linspace(0.5, 1.5, 300),
            "compare": "reference",
            "reference": "b",
        }
        report = audit(U, frame["race"], **more, **FAST)
        one = report.representations[0]
        assert {row.comparison.groups for row in one.held_out} == {("b", "a"), ("b", "c")}
        assert {row.comparison.stratum["sex"] for row in one.held_out} == {"f", "m"}
        assert one.mean_gap == pytest.approx(mean_gap(U, frame["race"], **more))
        assert one.cov_gap == pytest.approx(cov_gap(U, frame["race"], **more))

    def test_numbers_are_halves_for_classifiers_and_numbers_for_gaps(self, people):
        U, frame = people
        age = np.round(40 + 10 * U[:, 0] + np.random.default_rng(1).normal(size=300))
        table = frame[["sex"]].assign(age=age)
        report = audit(U, table, numeric=["age"], **FAST)
        headline = report.headline.comparison
        assert headline.attribute == "age"
        assert headline.groups == (f"up to {np.median(age):g}", f"above {np.median(age):g}")
        assert report.headline.estimate > 0.8
        rows = Rows.read(U, table, numeric=["age"])
        assert report.representations[0].mean_gap == mean_gap(rows)

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
            report = audit(U, z, compare="pairs", **FAST)
        assert [(g.group, g.n_rows) for g in report.small_groups] == [("c", 9), ("d", 1)]
        rows = {row.comparison.groups: row for row in report.representations[0].held_out}
        assert {pair: row.comparison.small for pair, row in rows.items()} == {
            ("a", "b"): False,
            ("a", "c"): True,
            ("b", "c"): True,
        }
        assert report.headline.comparison.groups == ("a", "b")
        assert report.headline.n_compared == 1
        assert report.headline.estimate < 0.5 < rows["a", "c"].held_out.estimate
        assert "fewer than 30 rows" in repr(report)
        assert report.representations[0].mean_gap < 1

    def test_where_all_are_small_they_are_compared_and_there_is_no_verdict(self):
        z = np.repeat(["a", "b"], 12)
        U = np.random.default_rng(0).normal(size=(24, 2)) + 9.0 * (z == "b")[:, None]
        report = audit(U, z, families=(), effort="quick")
        assert report.headline.comparison.small
        assert report.headline.estimate > 0.8
        assert report.verdict.reason == "all groups are too small to say"

    def test_small_intersections_are_listed(self, people):
        U, frame = people
        frame.loc[frame["race"] == "a", "sex"] = "f"
        frame.loc[:4, ["race", "sex"]] = ["a", "m"]
        report = audit(U, frame, joint=True, **NOTHING)
        assert [(g.attribute, g.group, g.n_rows) for g in report.small_groups] == [
            ("race × sex", "a × m", 5)
        ]


class TestUnits:
    def made(self, rng, n_people, per_person, gap=0.0):
        """Return people whose rows are alike, in two groups."""
        group = rng.permutation(np.arange(n_people) % 2)
        person = np.repeat(np.arange(n_people), per_person)
        centre = rng.normal(size=(n_people, 2)) + gap * group[:, None]
        U = centre[person] + 0.1 * rng.normal(size=(len(person), 2))
        return U, group[person], person

    def test_rows_of_a_person_in_both_halves_give_the_person_away(self):
        U, z, person = self.made(np.random.default_rng(0), 40, 25)
        options = {"families": (), "adversaries": ("trees",), "effort": "quick", "min_group": 5}
        by_rows, by_units = audit(U, z, **options), audit(U, z, units=person, **options)
        # Nothing is there; trees recognise people, and with them the group.
        assert by_rows.headline.low > 0.5
        assert by_units.headline.low < 0.0 < by_units.headline.high
        assert by_units.n_units == 40
        assert by_units.representations[0].held_out[0].held_out.n_units == (20, 20)

    def test_counts_are_of_units(self):
        U, z, person = self.made(np.random.default_rng(0), 20, 25)
        report = audit(U, z, units=person, **FAST)
        assert [group.n_rows for group in report.small_groups] == [10, 10]
        assert "fewer than 30 units" in repr(report)
        error = report.representations[0].held_out[0].held_out.error
        assert error > 2 * audit(U, z, **FAST).representations[0].held_out[0].held_out.error

    def test_a_row_each_is_no_unit(self, people):
        U, frame = people
        one, other = (
            audit(U, frame["sex"], units=units, **FAST).representations[0].held_out[0].held_out
            for units in (None, np.arange(300))
        )
        assert one.error == pytest.approx(other.error, rel=0.2)
        assert other.n_units == other.n_rows


class TestSamples:
    def test_a_draw_keeps_the_shares_of_the_rest(self):
        # Small groups are drawn more often than others, and would be most of the rest.
        rng = np.random.default_rng(0)
        z = np.repeat(list("abcde"), [10_000, 5000, 100, 100, 100])
        U = rng.normal(size=(len(z), 2)) + 4.0 * (z > "b")[:, None]
        report = audit(U, z, **FAST)
        assert report.drawn[0] <= 4000 < report.n_rows
        rows = report.representations[0].held_out
        [estimate] = [r.held_out.estimate for r in rows if r.comparison.groups[1] == "a"]
        # The best half-space has 0.057 on all rows; drawn alike, groups c, d and e give 0.1.
        assert estimate < 0.08

    def test_many_groups_against_the_rest(self):
        z = np.repeat(np.arange(60), 40)
        U = np.random.default_rng(0).normal(size=len(z)) + 3.0 * (z == 7)
        report = audit(U, z, **FAST)
        assert report.headline.comparison.groups == ("rest", 7)
        with pytest.raises(InvalidInputError, match=r"more than 50: .* use compare='one-vs-rest'"):
            audit(U, z, compare="pairs")

    def test_the_same_again(self, people):
        U, frame = people
        documents = [json.dumps(audit(U, frame["sex"], **FAST).to_dict()) for _ in range(2)]
        assert documents[0] == documents[1]
        other = audit(U, frame["sex"], **FAST, random_state=1).to_dict()
        assert json.dumps(other) != documents[0]


class TestSteps:
    def test_progress_counts_expected_time_up_to_all_of_it(self, people):
        U, frame = people
        calls = []
        audit(U, frame["sex"], progress=lambda *counts: calls.append(counts), **FAST)
        assert calls[-1][0] == calls[-1][1]
        assert [done for done, _ in calls] == sorted(done for done, _ in calls)

    def test_the_time_left_follows_what_steps_took(self):
        steps = [("trees", 1.0, None), ("trees", 3.0, None), ("mlp", 2.0, None)]
        assert seconds_left(steps, {}, {}) == 6.0
        # Trees took three times as long as planned, and so will they; networks are not known yet.
        planned, taken = {"trees": 1.0, "linear": 1.0}, {"trees": 3.0, "linear": 3.0}
        left = seconds_left(steps[1:], planned, taken)
        assert 3.0 * 3.0 + 2.0 * 2.0 < left < 3.0 * 3.0 + 3.0 * 2.0
        # One kind that was planned for much too little says next to nothing of the others.
        left = seconds_left(steps, {"linear": 0.01}, {"linear": 1.0})
        assert 6.0 <= left <= 12.0

    def test_an_interrupt_hands_over_what_is_done_without_a_verdict(self, people):
        U, frame = people

        def stop(done, total):
            if done:
                raise KeyboardInterrupt

        with pytest.raises(AuditInterrupted) as caught:
            audit(U, frame["sex"], families=(), effort="quick", progress=stop)
        report = caught.value.report
        assert len(report.representations[0].held_out) == 1
        assert report.representations[0].mean_gap > 0
        assert report.verdict.level == "unknown"
        assert {one.reason for one in report.missing} == {"interrupted"}

    def test_decisions_losses_and_unknown_rows_come_first_and_survive_an_interrupt(self, people):
        U, frame = people
        sex = frame["sex"].astype(object)
        sex[:7] = None

        def stop(done, total):
            raise KeyboardInterrupt

        decisions = {"decision": np.arange(300) % 2}
        more = {"decisions": decisions, "original": U, "missing_groups": "leave-out"}
        with pytest.raises(AuditInterrupted) as caught:
            audit(U, sex, progress=stop, **more, **FAST)
        report = caught.value.report
        assert report.unknown == {"sex": 7}
        assert report.decisions.rates
        assert report.losses is not None
        with pytest.raises(InvalidInputError, match="positive='maybe'"):  # before anything is done
            audit(U, frame["sex"], progress=stop, decisions={**decisions, "positive": "maybe"})

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"effort": "60"}, "effort must be"),
            ({"min_group": 1}, "min_group must be"),
            ({"confidence": 1.0}, "confidence must be"),
            ({"adversaries": ("tree",)}, "adversaries must be some of"),
            ({"adversaries": "linear"}, "adversaries must be some of"),
            ({"families": ("svm",)}, "families must be some of"),
            ({"random_state": -1}, "random_state must be"),
        ],
    )
    def test_bad_options(self, people, options, message):
        with pytest.raises(InvalidInputError, match=message):
            audit(people[0], people[1], **options)


def test_to_dict_is_the_structure_of_the_design_note(leaky):
    document = json.loads(json.dumps(leaky.to_dict(), allow_nan=False))
    audited, plain = document["representations"]
    assert (audited["name"], plain["name"]) == ("audited", "plain PCA")
    assert document["headline"] == audited["headline"]
    assert document["verdict"] == audited["verdict"]
    assert set(audited["headline"]) == {
        "adversary", "attribute", "groups", "stratum", "pair", "small", "estimate", "low", "high",
        "chance", "p_value", "n_compared",
    }  # fmt: skip
    assert set(audited["held_out"][0]) >= {
        "adversary", "pair", "rates", "estimate", "error", "low", "high", "chance", "p_value",
        "n_rows", "n_units", "small",
    }  # fmt: skip
    assert audited["gaps"]["compare"] == "one-vs-rest"
    [difference] = document["differences"]
    assert (difference["of"], difference["against"]) == ("audited", "plain PCA")
    assert len(difference["rows"]) == len(audited["held_out"])
    assert document["effort"]["name"] == "quick"
    text = repr(leaky)
    for one in leaky.representations:
        assert one.headline.text() in text
    assert leaky.differences[0].text() in text
    assert "audited − plain PCA" in leaky._repr_html_()


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


@pytest.mark.slow
def test_memory_stays_below_three_times_the_rows():
    rng = np.random.default_rng(0)
    z = rng.random(250_000) < 0.4
    U = rng.normal(size=(250_000, 40)) + 0.1 * z[:, None]
    tracemalloc.start()
    try:
        audit(U, z, **FAST)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert U.nbytes + peak < 3 * U.nbytes


def test_trees_keep_to_one_thread():
    # They wait for each other where other cores are busy: 54 s of a processor instead of 9.
    counts = []

    def watched(*_, **__):
        found = threadpool_info()
        counts.extend(lib["num_threads"] for lib in found if lib["user_api"] == "openmp")
        raise StopIteration

    rows = Rows.read(np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 2)
    part = Labelled(rows, np.where(np.arange(60) % 2, 1, -1).astype(np.int8))
    import sklearn.ensemble  # noqa: F401, loads the library whose threads are counted

    with threadpool_limits(limits=2, user_api="openmp"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(_cross_fit, "_of_model", watched)
        with pytest.raises(StopIteration):
            CLASSIFIERS["trees"].train(part, 0)
    assert set(counts) == {1}
