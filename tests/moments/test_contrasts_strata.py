"""Contrasts inside strata, small and empty cells, nested attributes."""

import warnings

import numpy as np
import pandas as pd
import pytest

from fairpca.exceptions import GroupsError, NestedAttributeWarning, SmallGroupWarning
from fairpca.moments import GroupMoments


@pytest.fixture
def rng():
    return np.random.default_rng(23)


def gaps(X, plus, minus):
    """Mean and covariance gap between two masks, from the rows."""
    return (
        X[plus].mean(axis=0) - X[minus].mean(axis=0),
        np.cov(X[plus].T, bias=True) - np.cov(X[minus].T, bias=True),
    )


def check(contrast, expected):
    np.testing.assert_allclose(contrast.mean_gap, expected[0], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(contrast.cov_gap, expected[1], rtol=1e-9, atol=1e-11)


def single_warning(moments, category, **options):
    """Form contrasts and return them with the only warning given."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        contrasts = moments.contrasts(**options)
    assert [w.category for w in caught] == [category]
    assert caught[0].filename == __file__  # it points at the caller, not into the library
    return contrasts, str(caught[0].message)


def test_contrasts_are_formed_inside_every_stratum(rng):
    X = rng.normal(size=(400, 3)) * rng.uniform(0.5, 2, size=(400, 1))
    frame = pd.DataFrame({"sex": rng.integers(0, 2, 400), "race": rng.integers(0, 3, 400)})
    control = pd.DataFrame({"income": rng.integers(0, 2, 400), "town": rng.integers(0, 2, 400)})
    X += 3 * control["income"].to_numpy()[:, None] * frame["sex"].to_numpy()[:, None]
    moments = GroupMoments.from_arrays(X, frame, control)
    contrasts = moments.contrasts(joint=True, min_group_size=2)
    assert len(contrasts) == 4 * (1 + 3 + 6)
    assert list(dict.fromkeys(c.stratum for c in contrasts)) == [
        f"income={i}, town={t}" for i in (0, 1) for t in (0, 1)
    ]
    for contrast in contrasts:
        income, town = (int(part[-1]) for part in contrast.stratum.split(", "))
        inside = ((control["income"] == income) & (control["town"] == town)).to_numpy()
        side = np.ones(400, dtype=bool)
        names, levels = contrast.attribute.split(" × "), contrast.positive.split(" × ")
        for name, level in zip(names, levels, strict=True):
            side &= (frame[name] == int(level)).to_numpy()
        check(contrast, gaps(X, inside & side, inside & ~side))
        assert contrast.n_positive == (inside & side).sum()
        assert contrast.n_negative == (inside & ~side).sum()


def test_a_numeric_attribute_is_centred_inside_its_stratum(rng):
    X, age = rng.normal(size=(80, 2)), rng.normal(size=80)
    y = rng.integers(0, 2, 80)
    X[:, 0] += 5 * y + age * y
    age = age + 10 * y
    contrasts = GroupMoments.from_arrays(X, age, pd.Series(y, name="y")).contrasts()
    assert [c.stratum for c in contrasts] == ["y=0", "y=1"]
    for level, contrast in enumerate(contrasts):
        z, x = age[y == level], X[y == level]
        z, x = (z - z.mean()) / z.std(), x - x.mean(axis=0)
        check(contrast, (z @ x / len(z), (x * z[:, None]).T @ x / len(z)))


def test_a_stratum_with_one_group_is_reported_and_not_compared(rng):
    X = rng.normal(size=(9, 2))
    sex = pd.Series(["f", "m", "f", "m", "f", "m", "f", "f", "f"], name="sex")
    y = pd.Series([0] * 6 + [1] * 3, name="y")
    contrasts, message = single_warning(GroupMoments.from_arrays(X, sex, y), SmallGroupWarning)
    assert "sex=m in y=1 (no rows)" in message
    assert [c.status for c in contrasts] == ["compared", "not compared: empty"]
    assert contrasts[1].label == "sex: m vs f where y=1"
    assert (contrasts[1].n_positive, contrasts[1].n_negative) == (0, 3)
    assert contrasts[1].mean_gap is None
    assert contrasts[1].cov_gap is None
    assert contrasts.mean_gaps.shape == (1, 2)
    assert contrasts.cov_gaps.shape == (1, 2, 2)
    assert len(contrasts.as_table()["status"]) == 2
    assert contrasts.projected_gaps(np.eye(2)).mean[1] is None


def test_two_of_three_groups_in_a_stratum_are_one_contrast(rng):
    X = rng.normal(size=(10, 2))
    race = pd.Series(list("aabbcc") + list("ccaa"), name="race")
    y = pd.Series([0] * 6 + [1] * 4, name="y")
    contrasts, message = single_warning(GroupMoments.from_arrays(X, race, y), SmallGroupWarning)
    assert "race=b in y=1 (no rows)" in message
    inside = [c for c in contrasts if c.stratum == "y=1"]
    assert [(c.positive, c.negative, c.status) for c in inside] == [
        ("c", "a", "compared"),
        ("b", "rest", "not compared: empty"),
    ]
    rows = np.arange(10) >= 6
    check(inside[0], gaps(X, rows & (race == "c").to_numpy(), rows & (race == "a").to_numpy()))


@pytest.mark.parametrize("compare", ["pairs", "reference"])
def test_an_absent_group_leaves_records_in_every_form(rng, compare):
    X = rng.normal(size=(10, 2))
    moments = GroupMoments.from_arrays(X, list("aabbcc") + list("ccaa"), [0] * 6 + [1] * 4)
    reference = "b" if compare == "reference" else None
    contrasts, _ = single_warning(moments, SmallGroupWarning, compare=compare, reference=reference)
    status = [c.status for c in contrasts if c.stratum == "control_feature=1"]
    absent = "not compared: empty"
    assert status == ([absent, "compared", absent] if compare == "pairs" else [absent, absent])


def test_an_attribute_that_the_strata_determine_is_refused(rng):
    X, sex = rng.normal(size=(8, 2)), np.arange(8) % 2
    moments = GroupMoments.from_arrays(X, pd.Series(sex, name="sex"), pd.Series(sex, name="y"))
    with pytest.raises(GroupsError, match=r"'sex' cannot be compared in any stratum of \['y'\]"):
        moments.contrasts()


def test_a_number_that_is_constant_in_a_stratum_is_reported(rng):
    X = rng.normal(size=(10, 2))
    age = pd.Series(np.r_[rng.normal(size=5), np.full(5, 0.3)], name="age")
    moments = GroupMoments.from_arrays(X, age, pd.Series([0] * 5 + [1] * 5, name="y"))
    contrasts, message = single_warning(moments, SmallGroupWarning)
    assert "age in y=1 (constant)" in message
    assert [c.status for c in contrasts] == ["compared", "not compared: constant"]


def test_a_group_of_one_row_is_compared_by_its_mean_only(rng):
    X = rng.normal(size=(6, 3))
    race = pd.Series(["a", "a", "b", "b", "b", "c"], name="race")
    contrasts, message = single_warning(GroupMoments.from_arrays(X, race), SmallGroupWarning)
    assert "race=c (1 row)" in message
    assert [c.status for c in contrasts] == [
        "compared",
        "compared",
        "mean only: fewer than 2 rows",
    ]
    assert contrasts[2].cov_gap is None
    np.testing.assert_allclose(contrasts[2].mean_gap, X[5] - X[:5].mean(axis=0))
    assert contrasts.mean_gaps.shape == (3, 3)
    assert contrasts.cov_gaps.shape == (2, 3, 3)
    gaps_left = contrasts.projected_gaps(np.eye(3)[:, :2])
    assert gaps_left.cov[2] is None
    assert gaps_left.mean[2] == pytest.approx(np.linalg.norm(contrasts[2].mean_gap[:2]))


def test_a_rest_of_one_row_is_named_too(rng):
    X = rng.normal(size=(5, 2))
    moments = GroupMoments.from_arrays(X, pd.Series(["a", "a", "a", "a", "b"], name="g"))
    contrasts, message = single_warning(moments, SmallGroupWarning)
    assert "g=b (1 row)" in message
    assert contrasts[0].status == "mean only: fewer than 2 rows"
    frame = pd.DataFrame({"g": [0, 0, 0, 1, 1], "h": [0, 0, 0, 0, 1]})
    moments = GroupMoments.from_arrays(X, frame[["h", "g"]])
    with pytest.warns() as caught:
        moments.contrasts(joint=True)
    text = " ".join(str(w.message) for w in caught)
    assert "h=1, g=1 (1 row)" in text


def test_one_warning_names_every_small_cell(rng):
    X = rng.normal(size=(30, 2))
    frame = pd.DataFrame(
        {"sex": ["f"] * 15 + ["m"] * 15, "race": (["x"] * 12 + ["y"] * 3 + ["x"] * 11 + ["y"] * 4)}
    )
    moments = GroupMoments.from_arrays(X, frame)
    contrasts, message = single_warning(moments, SmallGroupWarning, joint=True, min_group_size=5)
    assert "from 5 rows on" in message
    assert "sex=f, race=y (3 rows)" in message
    assert "sex=m, race=y (4 rows)" in message
    assert message.count(" rows)") == 2
    status = {c.positive: c.status for c in contrasts if "×" in c.attribute}
    assert status == {
        "f × x": "compared",
        "f × y": "mean only: fewer than 5 rows",
        "m × x": "compared",
        "m × y": "mean only: fewer than 5 rows",
    }


def test_small_numeric_samples_are_compared_by_mean_only(rng):
    moments = GroupMoments.from_arrays(rng.normal(size=(4, 2)), pd.Series(rng.normal(size=4)))
    contrasts, message = single_warning(moments, SmallGroupWarning, min_group_size=5)
    assert "sensitive_feature (4 rows)" in message
    assert contrasts[0].status == "mean only: fewer than 5 rows"
    assert contrasts[0].mean_gap is not None


def test_rows_of_weight_zero_do_not_make_a_group_large(rng):
    moments = GroupMoments.from_arrays(
        rng.normal(size=(6, 2)), [0, 0, 0, 1, 1, 1], sample_weight=[1, 1, 1, 5, 0, 0]
    )
    contrasts, _ = single_warning(moments, SmallGroupWarning)
    assert contrasts[0].n_positive == 1


def test_empty_cells_of_the_cross_table_are_said(rng):
    X = rng.normal(size=(12, 2))
    frame = pd.DataFrame({"sex": list("ffffffmmmmmm"), "job": list("aabbccaabbaa")})
    moments = GroupMoments.from_arrays(X, frame)
    contrasts, message = single_warning(moments, SmallGroupWarning, joint=True)
    assert "sex=m, job=c (no rows)" in message
    (empty,) = [c for c in contrasts if c.positive == "m × c"]
    assert empty.status == "not compared: empty"
    assert empty.mean_gap is None


def test_a_huge_cross_table_has_its_empty_cells_counted(rng):
    X = rng.normal(size=(160, 2))
    frame = pd.DataFrame({"a": np.arange(160) % 40, "b": np.arange(160) // 2 % 40})
    moments = GroupMoments.from_arrays(X, frame)
    cells = len({*zip(frame["a"], frame["b"], strict=True)})
    contrasts, message = single_warning(moments, SmallGroupWarning, joint=True, min_group_size=2)
    assert f"{1600 - cells} of 1600 cells of a × b (no rows)" in message
    assert sum("×" in c.attribute for c in contrasts) == cells


def test_a_long_warning_is_cut_and_says_so(rng):
    moments = GroupMoments.from_arrays(rng.normal(size=(60, 2)), np.arange(60))
    _, message = single_warning(moments, SmallGroupWarning)
    assert "and 10 more (see the contrasts)" in message


def test_equal_attributes_are_said(rng):
    frame = pd.DataFrame({"sex": [0, 0, 1, 1] * 3, "gender": ["m", "m", "f", "f"] * 3})
    moments = GroupMoments.from_arrays(rng.normal(size=(12, 2)), frame)
    contrasts, message = single_warning(moments, NestedAttributeWarning)
    assert "'sex' and 'gender' name the same groups" in message
    assert len(contrasts) == 2


@pytest.mark.parametrize("order", [["town", "state"], ["state", "town"]])
def test_a_nested_attribute_is_said(rng, order):
    frame = pd.DataFrame({"town": list("abcd") * 3, "state": list("xxyy") * 3})
    moments = GroupMoments.from_arrays(rng.normal(size=(12, 2)), frame[order])
    _, message = single_warning(moments, NestedAttributeWarning)
    assert "'town' determines 'state'" in message


def test_notes_can_be_read_without_warning(rng):
    frame = pd.DataFrame({"a": [0, 0, 1, 1, 1], "b": list("xxyyz")})
    moments = GroupMoments.from_arrays(rng.normal(size=(5, 2)), frame)
    with pytest.warns() as caught:
        contrasts = moments.contrasts()
    assert [type(note) for note in contrasts.notes] == [w.category for w in caught]
    assert {type(note) for note in contrasts.notes} == {
        NestedAttributeWarning,
        SmallGroupWarning,
    }
