"""Matrices, weights and parts of rows: what is refused wherever it stands, and what goes along."""

import numpy as np
import pandas as pd
import pytest

from fairpca import FairPCA, GroupMoments
from fairpca.exceptions import GroupsError, InvalidInputError
from fairpca.metrics import mean_gap
from fairpca.rows import Rows
from fairpca.rows._checks import rows_at_once


@pytest.mark.parametrize(("bad", "says"), [(np.nan, "'x2047' 1"), (np.inf, "'x2047'")])
def test_the_last_row_is_looked_at_too(bad, says):
    X = np.zeros((2 * rows_at_once(2048) + 1, 2048), dtype=np.float32)
    X[-1, -1] = bad
    with pytest.raises(InvalidInputError, match=says):
        Rows.read(X, np.arange(len(X)) % 2)


def test_all_parts_of_a_row_go_along():
    X = np.arange(8.0)[:, None]
    rows = Rows.read(X, list("abababab"), list("xxyyxxyy"), np.arange(1.0, 9.0))
    some = rows.take(np.array([5, 2, 7]))
    assert some.X[:, 0].tolist() == [5.0, 2.0, 7.0]
    assert some.weights.tolist() == [6.0, 3.0, 8.0]
    assert some.groups.categorical[0].codes.tolist() == [1, 0, 1]
    assert some.strata.categorical[0].codes.tolist() == [0, 1, 1]
    assert some.groups.n_rows == 3


DOORS = [
    lambda X, z, w: GroupMoments.from_arrays(X, z, None, w),
    lambda X, z, w: FairPCA(1).fit(X, sensitive_features=z, sample_weight=w),
    lambda X, z, w: mean_gap(X, z, sample_weight=w),
]


@pytest.mark.parametrize("door", DOORS, ids=["moments", "fit", "metric"])
def test_what_numpy_would_take_for_numbers(door):
    X, z = np.random.default_rng(0).normal(size=(8, 2)), np.arange(8) % 2
    dates = (1e6 * X).astype("datetime64[s]")
    for given, message in (
        (np.ma.array(X, mask=X > 0.5), "is a masked array"),
        (dates, r"not numbers: '[XU]' \(dates\)"),
        (pd.DataFrame(dates, columns=["a", "b"]), r"not numbers: 'a' \(dates\)"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            door(given, z, None)
    ones = np.ones(8)
    for weight in (np.ma.array(ones, mask=z == 1), ones.astype(str), ones.astype("m8[s]")):
        with pytest.raises(InvalidInputError, match="sample_weight"):
            door(X, z, weight)
    door(np.ma.array(X, mask=False), z, np.ma.array(ones))  # nothing is masked


@pytest.mark.parametrize("door", DOORS, ids=["moments", "fit", "metric"])
def test_names_of_features_that_repeat_are_refused_in_our_words(door):
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(8, 3)), columns=["a", "b", "a"])
    with pytest.raises(InvalidInputError, match="column names occur more than once: 'a'"):
        door(X, np.arange(8) % 2, None)


def test_groups_that_are_printed_alike_are_refused():
    X = np.zeros((4, 1))
    with pytest.raises(GroupsError, match="'1' as int and as str"):
        GroupMoments.from_arrays(X, np.array([1, "1", 2, 2], dtype=object))
    whole = GroupMoments.from_arrays(X, [1, 1, 2, 2])
    with pytest.raises(GroupsError, match="'1' as int and as str"):
        whole + GroupMoments.from_arrays(X, ["1", "1", "2", "2"])
    with pytest.raises(GroupsError, match=r"control_features column .* as bool and as str"):
        GroupMoments.from_arrays(X, [1, 1, 2, 2], [True, False, True, False]) + (
            GroupMoments.from_arrays(X, [1, 1, 2, 2], ["True", "False"] * 2)
        )
    assert (whole + GroupMoments.from_arrays(X, [1.0, 2.0, 3.0, 3.0])).n_samples == 8


def test_no_message_is_endless():
    names = [f"column {number} {'x' * 1000}" for number in range(100)]
    X = pd.DataFrame(np.full((4, 100), np.nan), columns=names)
    with pytest.raises(InvalidInputError, match="4 of 4 rows") as caught:
        GroupMoments.from_arrays(X, [0, 1, 0, 1])
    assert len(str(caught.value)) < 2100
    assert "drop-rows" in str(caught.value)
