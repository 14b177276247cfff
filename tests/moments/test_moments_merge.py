"""Merging: what may be merged, and that nothing shows that the rows came in parts."""

import numpy as np
import pandas as pd
import pytest
from support import cell_arrays

from fairpca.exceptions import GroupsError, InvalidInputError
from fairpca.moments import GroupMoments


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def assert_same(one, other, tolerance=1e-10):
    """Assert that two moments have the same cells to rounding."""
    assert one.attributes == other.attributes
    assert one.numeric_attributes == other.numeric_attributes
    assert one.controls == other.controls
    assert list(one.table.cells) == list(other.table.cells)
    for key, cell in one.table.cells.items():
        twin = other.table.cells[key]
        assert cell.n_rows == twin.n_rows
        assert cell.weight == pytest.approx(twin.weight, rel=1e-12)
        for name, array in cell_arrays(cell).items():
            if not name.endswith("_rest"):
                np.testing.assert_allclose(
                    array, cell_arrays(twin)[name], rtol=tolerance, atol=tolerance, err_msg=name
                )


def test_parts_merge_to_the_whole_with_attributes_controls_and_numbers(rng):
    X = rng.normal(size=(90, 4)) + 2
    frame = pd.DataFrame(
        {
            "sex": np.array(["f", "m"])[rng.integers(0, 2, 90)],
            "age": rng.normal(40, 10, 90),
            "race": rng.integers(0, 3, 90),
            "iq": rng.normal(size=90),
        }
    )
    region = pd.Series(rng.integers(0, 2, 90), name="region")
    weights = rng.uniform(0.5, 2, 90)

    def part(rows):
        return GroupMoments.from_arrays(X[rows], frame[rows], region[rows], weights[rows])

    whole = part(slice(None))
    assert_same(part(slice(0, 31)) + part(slice(31, 60)) + part(slice(60, None)), whole)


def test_levels_are_discovered_as_they_come(rng):
    X = rng.normal(size=(9, 2))
    groups = np.array(list("bbbcccaaa"))
    parts = [GroupMoments.from_arrays(X[i : i + 3], groups[i : i + 3]) for i in (0, 3, 6)]
    merged = parts[0] + parts[1] + parts[2]
    assert merged.levels("sensitive_feature") == ("a", "b", "c")
    assert_same(merged, GroupMoments.from_arrays(X, groups))


def test_an_empty_batch_changes_nothing(rng):
    X, z = rng.normal(size=(8, 2)), rng.normal(size=8)
    moments = GroupMoments.from_arrays(X, z)
    empty = GroupMoments.from_arrays(X[:0], z[:0])
    assert_same(moments + empty, moments)
    assert_same(empty + moments, moments)


def test_columns_in_another_order_are_matched_by_name(rng):
    X = rng.normal(size=(40, 2))
    frame = pd.DataFrame(
        {"a": rng.normal(size=40), "b": rng.integers(0, 2, 40), "c": rng.normal(size=40)}
    )
    frame["d"] = np.array(["x", "y"])[rng.integers(0, 2, 40)]
    controls = pd.DataFrame({"u": rng.integers(0, 2, 40), "v": rng.integers(5, 7, 40)})
    whole = GroupMoments.from_arrays(X, frame, controls)
    first = GroupMoments.from_arrays(X[:25], frame[:25], controls[:25])
    second = GroupMoments.from_arrays(
        X[25:], frame.loc[25:, ["d", "c", "b", "a"]], controls.loc[25:, ["v", "u"]]
    )
    assert_same(first + second, whole)


def test_a_float_column_is_judged_by_all_its_values_together(rng):
    X = rng.normal(size=(6, 2))
    z = np.array([0.5, 1.5, 0.5, 2.5, 3.5, 3.5])
    whole = GroupMoments.from_arrays(X, z)
    assert whole.numeric_attributes == ("sensitive_feature",)
    pairs = [GroupMoments.from_arrays(X[i : i + 2], z[i : i + 2]) for i in (0, 2, 4)]
    assert pairs[0].categorical_attributes == ("sensitive_feature",)
    assert_same(pairs[0] + pairs[1] + pairs[2], whole)
    assert_same(pairs[0] + (pairs[1] + pairs[2]), whole)
    three = GroupMoments.from_arrays(X[:4], z[:4])
    assert three.numeric_attributes == ("sensitive_feature",)
    assert_same(three + pairs[2], whole)
    assert_same(pairs[2] + three, whole)


def test_two_float_values_stay_groups(rng):
    X, z = rng.normal(size=(6, 2)), np.array([1.0, -1.0] * 3)
    merged = GroupMoments.from_arrays(X[:3], z[:3]) + GroupMoments.from_arrays(X[3:], z[3:])
    assert merged.levels("sensitive_feature") == (-1.0, 1.0)


def test_two_float_columns_can_turn_numeric_at_once(rng):
    X = rng.normal(size=(4, 2))
    z = np.array([[0.5, 9.5], [1.5, 8.5], [2.5, 7.5], [3.5, 6.5]])
    merged = GroupMoments.from_arrays(X[:2], z[:2]) + GroupMoments.from_arrays(X[2:], z[2:])
    assert merged.numeric_attributes == ("sensitive_feature_0", "sensitive_feature_1")
    assert_same(merged, GroupMoments.from_arrays(X, z))


def test_declared_numbers_may_be_few_in_a_batch(rng):
    X, age = rng.normal(size=(5, 2)), pd.Series([30, 30, 40, 50, 60], name="age")
    parts = [
        GroupMoments.from_arrays(X[i : i + 1], age[i : i + 1], numeric=["age"]) for i in range(5)
    ]
    assert_same(sum(parts[1:], parts[0]), GroupMoments.from_arrays(X, age, numeric=["age"]))


@pytest.mark.parametrize("first", [[True, False], [1, 0], [1.0, 0.0]])
@pytest.mark.parametrize("second", [[True, False], [1, 0], [1.0, 0.0]])
def test_one_and_true_are_one_level_named_the_same_in_any_order(rng, first, second):
    X = rng.normal(size=(4, 2))
    one = GroupMoments.from_arrays(X[:2], first)
    two = GroupMoments.from_arrays(X[2:], second)
    levels = [moments.levels("sensitive_feature") for moments in (one + two, two + one)]
    assert levels[0] == (0, 1)
    assert [type(level) for level in levels[0]] == [type(level) for level in levels[1]]


def test_feature_names_are_taken_from_either_side():
    named = GroupMoments.from_arrays(pd.DataFrame({"a": [1.0, 2.0]}), [0, 1])
    plain = GroupMoments.from_arrays([[3.0]], [1])
    assert (named + plain).feature_names == (plain + named).feature_names == ("a",)


def moments_of(features=("a",), sensitive=("sex",), control=(), kind=int):
    """Two rows with the columns asked for."""
    values = {int: [0, 1], float: [0.5, 1.5], str: ["x", "y"]}[kind]
    return GroupMoments.from_arrays(
        pd.DataFrame({name: [0.0, 1.0] for name in features}),
        pd.DataFrame(dict.fromkeys(sensitive, values)),
        pd.DataFrame({name: [0, 1] for name in control}) if control else None,
    )


@pytest.mark.parametrize(
    ("other", "error", "message"),
    [
        (moments_of(features=("a", "b")), InvalidInputError, "of 1 and of 2 features"),
        (moments_of(features=("b",)), InvalidInputError, r"different features .*'a'.*'b'"),
        (moments_of(sensitive=("race",)), GroupsError, r"sensitive_features .*'sex'.*'race'"),
        (moments_of(sensitive=("sex", "race")), GroupsError, "different sensitive_features"),
        (moments_of(control=("y",)), GroupsError, r"different control_features .*\[\].*'y'"),
    ],
)
def test_moments_of_different_columns_are_not_merged(other, error, message):
    with pytest.raises(error, match=message):
        moments_of() + other


def test_groups_and_numbers_of_one_name_are_not_merged():
    numbers = GroupMoments.from_arrays(
        pd.DataFrame({"a": [0.0, 1.0, 2.0]}), pd.DataFrame({"sex": [0.5, 1.5, 2.5]})
    )
    for pair in ((moments_of(kind=str), numbers), (numbers, moments_of(kind=str))):
        with pytest.raises(GroupsError, match=r"'sex' is numeric in some .* numeric=\['sex'\]"):
            pair[0] + pair[1]


def test_whole_numbers_of_one_batch_are_numbers_where_another_has_fractions():
    X, hours = np.arange(6.0)[:, None] ** 2, np.array([40.0, 38.0, 40.0, 37.5, 40.25, 38.0])
    whole = GroupMoments.from_arrays(X, hours)
    parts = GroupMoments.from_arrays(X[:3], hours[:3]), GroupMoments.from_arrays(X[3:], hours[3:])
    assert parts[0].categorical_attributes == parts[1].numeric_attributes == whole.attributes
    for merged in (parts[0] + parts[1], parts[1] + parts[0]):
        assert merged.numeric_attributes == whole.numeric_attributes
        np.testing.assert_allclose(
            merged.contrasts()[0].mean_gap, whole.contrasts()[0].mean_gap, rtol=1e-12
        )


def test_controls_that_turn_out_to_be_numbers_are_refused():
    X, groups = np.eye(4), [0, 1, 0, 1]
    first = GroupMoments.from_arrays(X[:2], groups[:2], [0.5, 1.5])
    second = GroupMoments.from_arrays(X[2:], groups[2:], [2.5, 3.5])
    with pytest.raises(GroupsError, match=r"control_features \['control_feature'\] hold more than"):
        first + second


def test_only_moments_are_added():
    with pytest.raises(TypeError):
        moments_of() + 1
