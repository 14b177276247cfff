"""Which small groups are compared, and that what is not compared is said with its size."""

import warnings

import numpy as np
import pandas as pd
import pytest

from fairpca import FairPCA, GroupMoments
from fairpca.exceptions import SmallGroupWarning
from fairpca.moments._form_contrasts import differ_beyond_chance, mean_test

LEFT_OUT = "not compared: small group, no difference beyond chance"


def table(n=2000, size=60, shift=0.0, seed=0):
    """Rows with two large groups that differ, and a small one of random rows."""
    random = np.random.default_rng(seed)
    group = random.choice(["a", "b"], n).astype(object)
    X = random.normal(size=(n, 6)) * np.linspace(2.0, 1.0, 6)
    X[:, 0] += group == "b"
    small = random.choice(n, size, replace=False)
    group[small] = "c"
    X[small, 1] += shift
    return X, group


def contrasts_of(X, group, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        contrasts = GroupMoments.from_arrays(X, group).contrasts(**options)
    return {c.positive: c for c in contrasts}, " ".join(str(one.message) for one in caught)


def test_a_group_of_random_rows_is_left_out_and_named_with_its_size():
    contrasts, message = contrasts_of(*table())
    assert contrasts["c"].status == LEFT_OUT
    assert contrasts["c"].mean_gap is None
    assert contrasts["a"].status == contrasts["b"].status == "compared"
    assert "sensitive_feature=c (60 rows, no difference beyond chance)" in message
    assert "small where it and all smaller ones hold less than 10 % of the rows" in message
    assert message.endswith("Or use min_group_size=2.")


def test_a_group_that_is_not_small_is_compared_with_any_number_of_rows():
    X, group = table(n=400, size=60)  # under 500 rows, but 15 % of all
    contrasts, message = contrasts_of(X, group)
    assert contrasts["c"].status == "compared"
    assert not message


def test_a_group_of_random_rows_costs_no_variance():
    X, group = table()
    with pytest.warns(SmallGroupWarning, match="60 rows"):
        fair = FairPCA(2).fit(X, sensitive_features=group)
    large = group != "c"
    alone = FairPCA(2).fit(X[large], sensitive_features=group[large])
    everything = FairPCA(2, min_group_size=2).fit(X, sensitive_features=group)
    kept = [model.explained_variance_ratio_.sum() for model in (fair, alone, everything)]
    assert kept[0] == pytest.approx(kept[1], abs=0.005)
    assert kept[2] < kept[0] - 0.015


def test_a_real_difference_of_a_small_group_is_removed_from_the_means():
    X, group = table(shift=2.0)
    contrasts, message = contrasts_of(X, group)
    assert contrasts["c"].status == "mean only: small group, fewer than 500 rows"
    assert "sensitive_feature=c (60 rows)" in message
    with pytest.warns(SmallGroupWarning, match="60 rows"):
        fair = FairPCA(2).fit(X, sensitive_features=group)
    U = fair.transform(X)
    apart = U[group == "c"].mean(axis=0) - U[group != "c"].mean(axis=0)
    assert np.abs(apart).max() < 1e-10


def test_the_covariance_of_a_small_group_counts_from_500_rows_on():
    for size, status in ((499, "mean only: small group, fewer than 500 rows"), (500, "compared")):
        assert contrasts_of(*table(8000, size, shift=2.0))[0]["c"].status == status


def test_groups_of_a_tenth_of_the_rows_are_always_compared():
    random = np.random.default_rng(0)
    for n, status in (
        (20, "compared"),
        (22, LEFT_OUT),
    ):
        X, group = random.normal(size=(n, 2)), np.arange(n) < 2
        assert contrasts_of(X, group)[0]["True"].status == status


def test_the_stratum_is_named():
    X, group = table()
    frame = pd.DataFrame({"town": np.arange(2000) % 2})
    moments = GroupMoments.from_arrays(X, group, frame)
    with pytest.warns(SmallGroupWarning, match=r"sensitive_feature=c in town=1 \(\d+ rows, no"):
        moments.contrasts()


def test_an_attribute_of_one_small_random_group_is_not_an_error():
    X, group = table()
    with pytest.warns(SmallGroupWarning, match="60 rows"):
        fair = FairPCA(2).fit(X, sensitive_features=group == "c")
    assert fair.mean_gap_ == 0.0
    assert fair.contrasts_["status"] == [LEFT_OUT]


def cells_of(*parts):
    return [
        GroupMoments.from_arrays(part, np.zeros(len(part))).table.cells.popitem()[1]
        for part in parts
    ]


def test_the_test_of_means_has_its_level_and_does_not_depend_on_units():
    random, values = np.random.default_rng(0), []
    scale = np.array([1e-6, 1.0, 1e6])
    for _ in range(1000):
        X = random.normal(size=(60, 3))
        values.append(mean_test(*cells_of(X[:5] * scale, X[5:] * scale))[0])
    assert 0.03 < np.mean(np.array(values) < 0.05) < 0.07


def test_a_weak_difference_counts_where_it_costs_little_and_there_are_rows():
    # p is about 0.03 in all cases; what differs is the variance along the gap, and the rows.
    random = np.random.default_rng(0)
    compared = {}
    for place, size in ((0, 50), (7, 50), (7, 49)):
        X = random.normal(size=(2000, 8)) * np.r_[9.0, np.ones(7)]
        X -= X.mean(axis=0)
        X[:size] -= X[:size].mean(axis=0)
        X[:size, place] += 3.7 * X[:, place].std() / np.sqrt(size) * np.sqrt(1.25)
        cells = cells_of(X[:size], X[size:])
        p_value, share = mean_test(*cells)
        assert 0.02 < p_value < 0.05
        assert share == pytest.approx(81 / 88 if place == 0 else 1 / 88, rel=0.2)
        compared[place, size] = differ_beyond_chance(*cells)
    assert compared == {(0, 50): False, (7, 50): True, (7, 49): False}


def test_few_rows_for_many_features_count_as_different():
    X = np.random.default_rng(0).normal(size=(30, 40))
    contrasts, _ = contrasts_of(X, np.arange(30) < 2)
    assert contrasts["True"].status == "mean only: small group, fewer than 500 rows"
