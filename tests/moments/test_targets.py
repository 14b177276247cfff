"""Moments of targets: merged, mapped and stored like everything else."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from fairpca import GroupMoments
from fairpca.exceptions import GroupsError, InvalidInputError
from fairpca.moments import FoldedMoments
from fairpca.rows import Rows


def table(n=300, p=5, seed=0):
    random = np.random.default_rng(seed)
    z = random.integers(0, 2, n)
    X = random.normal(size=(n, p)) + np.outer(z, np.arange(p)) + 100.0
    return X, z, random


def oracle(X, Y, weights=None):
    """Covariance of x and y, and of y, in two passes."""
    w = np.ones(len(X)) if weights is None else weights
    x, y = X - np.average(X, axis=0, weights=w), Y - np.average(Y, axis=0, weights=w)
    return (x * w[:, None]).T @ y / w.sum(), (y * w[:, None]).T @ y / w.sum()


def check(moments, X, Y, weights=None):
    target = moments.target_moments()
    covariance, own = oracle(X, Y, weights)
    np.testing.assert_allclose(target.covariance, covariance, atol=1e-11)
    np.testing.assert_allclose(target.y_covariance, own, atol=1e-11)


def test_numbers_labels_and_both():
    X, z, random = table()
    number, label = random.normal(size=300), random.choice(list("abc"), 300)
    indicators = (label[:, None] == np.array(list("abc"))).astype(float)
    weights = random.random(300) + 0.1
    check(GroupMoments.from_arrays(X, z, None, weights, y=number), X, number[:, None], weights)
    check(GroupMoments.from_arrays(X, z, y=label), X, indicators)
    both = GroupMoments.from_arrays(X, z, y=np.array([label, number], dtype=object).T)
    assert [name for name, _ in both.table.targets] == ["y_1"] + ["y_0"] * 3
    check(both, X, np.column_stack([number, indicators]))


def test_order_of_batches_does_not_matter_and_labels_may_come_late():
    X, z, random = table()
    label = np.where(np.arange(300) < 200, "early", random.choice(["early", "late"], 300))
    parts = [
        GroupMoments.from_arrays(X[i : i + 50], z[i : i + 50], y=label[i : i + 50])
        for i in range(0, 300, 50)
    ]
    whole = GroupMoments.from_arrays(X, z, y=label).target_moments()
    for order in (range(6), (5, 3, 1, 0, 2, 4)):
        merged = sum((parts[i] for i in order[1:]), parts[order[0]])
        assert merged.table.targets == (("y", "early"), ("y", "late"))
        np.testing.assert_allclose(merged.target_moments().covariance, whole.covariance, atol=1e-11)


def test_whole_numbers_are_labels_until_there_are_many():
    X, z, random = table()
    count = random.integers(0, 40, 300)
    few = GroupMoments.from_arrays(X[:20], z[:20], y=count[:20])
    assert few.table.targets == tuple(("y", label) for label in np.unique(count[:20]))
    late = GroupMoments.from_arrays(X[20:], z[20:], y=count[20:])
    for merged in (few + late, late + few):
        assert merged.table.targets == (("y", None),)
        check(merged, np.vstack([X[:20], X[20:]]), count[:, None].astype(float))


def test_columns_of_labels_and_numbers_are_merged_by_name_and_label():
    X, z, random = table()
    first = np.where(np.arange(300) < 150, "a", random.choice(list("ab"), 300))
    second = np.where(np.arange(300) < 150, random.integers(0, 3, 300), random.integers(1, 40, 300))
    y = np.array([first, second], dtype=object).T
    halves = [GroupMoments.from_arrays(X[i], z[i], y=y[i]) for i in (slice(150), slice(150, 300))]
    Y = np.column_stack([second.astype(float), first == "a", first == "b"])
    for merged in (halves[0] + halves[1], halves[1] + halves[0]):
        assert merged.table.targets == (("y_1", None), ("y_0", "a"), ("y_0", "b"))
        check(merged, X, Y)


def test_fractions_that_come_late_make_all_of_it_numbers():
    X, z, _ = table(40)
    y = np.where(np.arange(40) < 20, np.arange(40) % 3, np.arange(40) / 7)
    parts = [GroupMoments.from_arrays(X[i], z[i], y=y[i]) for i in (slice(20), slice(20, 40))]
    check(parts[0] + parts[1], X, y[:, None])
    words = GroupMoments.from_arrays(X[:20], z[:20], y=["a", "b"] * 10)
    with pytest.raises(InvalidInputError, match="a number in some moments and a label in others"):
        words + parts[1]


def test_missing_targets_count_in_all_other_moments():
    X, z, random = table()
    y = random.normal(size=300)
    y[::3] = np.nan
    moments, without = (
        GroupMoments.from_arrays(X, z, y=y),
        GroupMoments.from_arrays(X, z),
    )
    covariance = moments.pooled().covariance
    np.testing.assert_allclose(covariance, without.pooled().covariance, rtol=1e-13)
    known = ~np.isnan(y)
    check(moments, X[known], y[known, None])
    assert moments.target_moments().n_rows == 200
    labels = np.where(known, np.where(y > 0, "up", "down"), None)
    assert GroupMoments.from_arrays(X, z, y=labels).target_moments().n_rows == 200
    nothing = GroupMoments.from_arrays(X, z, y=np.full(300, np.nan))
    assert nothing.target_moments() is None


def test_sparse_wide_imputed_and_scaled_rows():
    X, z, random = table()
    X = np.where(random.random(X.shape) < 0.7, 0.0, X)
    y = random.normal(size=300)
    check(GroupMoments.from_arrays(csr_array(X), z, y=y), X, y[:, None])
    scaled = GroupMoments.from_arrays(X, z, y=y).standardized()
    check(scaled, (X - X.mean(0)) / X.std(0), y[:, None])
    wide = random.normal(size=(60, 200)) + 3.0
    halves = [
        GroupMoments.from_arrays(wide[i : i + 30], z[i : i + 30], y=y[i : i + 30]) for i in (0, 30)
    ]
    merged = halves[0] + halves[1]
    assert merged.span is not None
    check(merged.expanded(), wide, y[:60, None])
    holes = np.where(random.random(X.shape) < 0.2, np.nan, X)
    parts = [
        GroupMoments.from_incomplete(
            Rows.attach(holes[i : i + 150], z[i : i + 150], y=y[i : i + 150])
        )
        for i in (0, 150)
    ]
    filled = np.where(np.isnan(holes), np.nanmean(holes, axis=0), holes)
    check((parts[0] + parts[1]).complete(), filled, y[:, None])


def test_weights_equal_repetition():
    X, z, random = table(80)
    y, times = random.choice(list("ab"), 80), random.integers(0, 4, 80)
    weighted = GroupMoments.from_arrays(X, z, None, times.astype(float), y=y).target_moments()
    repeated = GroupMoments.from_arrays(
        np.repeat(X, times, 0), np.repeat(z, times), y=np.repeat(y, times)
    ).target_moments()
    np.testing.assert_allclose(weighted.covariance, repeated.covariance, atol=1e-11)


def test_stored_and_by_fold(tmp_path):
    X, z, random = table()
    y = np.array([random.choice(list("ab"), 300), random.normal(size=300)], dtype=object).T
    moments = GroupMoments.from_arrays(X, z, y=y)
    again = GroupMoments.load(moments.save(tmp_path / "moments"))
    first, second = moments.target_moments(), again.target_moments()
    assert again.targets == ("y_0", "y_1")
    assert moments.table.targets == again.table.targets
    assert (first.covariance == second.covariance).all()
    assert "target: y_0" in repr(again)
    folded = FoldedMoments.from_arrays(X, z, y=y, folds=3)
    total = folded.total.target_moments()
    np.testing.assert_allclose(total.covariance, first.covariance, atol=1e-11)
    # Labels that a fold does not have are indicators of zeros all the same.
    columns = (("y_1", None), ("y_0", "a"), ("y_0", "z"))
    assert folded.folds[0].target_moments(columns).covariance[:, 2].tolist() == [0.0] * 5


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (np.arange(299), "y has 299 rows but X has 300"),
        ([f"name {i}" for i in range(300)], "more than 200 different labels"),
        (np.r_[np.inf, np.arange(299) / 7], "infinite"),
        (["1", 1] * 150, "give the column one type"),
    ],
)
def test_bad_targets(y, words):
    X, z, _ = table()
    with pytest.raises(InvalidInputError, match=words):
        GroupMoments.from_arrays(X, z, y=y)


def test_batches_with_and_without_target_are_refused():
    X, z, _ = table()
    with pytest.raises(GroupsError, match="different y cannot be merged"):
        GroupMoments.from_arrays(X, z, y=z) + GroupMoments.from_arrays(X, z)


def test_rare_labels_are_not_written(tmp_path):
    X, z, _ = table()
    y = np.where(np.arange(300) < 3, "rare", "usual")
    with pytest.raises(InvalidInputError, match=r"target rare \(\d rows of"):
        GroupMoments.from_arrays(X, z, y=y).save(tmp_path / "moments")
    y = np.where(np.arange(300) < 3, np.nan, X[:, 0])
    with pytest.raises(InvalidInputError, match="target missing"):
        GroupMoments.from_arrays(X, z, y=y).save(tmp_path / "moments")
