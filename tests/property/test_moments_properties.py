"""Merging moments: the rows may be split anywhere and come in any order."""

import warnings
from functools import reduce
from itertools import pairwise
from operator import add

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st
from support import cell_arrays, examples

from fairpca.moments import GroupMoments

quietly = settings(deadline=None, max_examples=examples(30))


@st.composite
def samples(draw):
    """Rows with a text attribute, an integer one, a number, a stratum and weights."""
    n = draw(st.integers(1, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    offset = draw(st.sampled_from([0.0, 1.0, 1e6, 1e8]))
    X = rng.normal(size=(n, 3)) * draw(st.sampled_from([1.0, 100.0])) + offset
    frame = pd.DataFrame(
        {
            "sex": np.array(["f", "m"])[rng.integers(0, 2, n)],
            "age": rng.normal(size=n) + draw(st.sampled_from([0.0, 1e6])),
            "race": rng.integers(0, draw(st.integers(1, 4)), n),
        }
    )
    control = pd.Series(rng.integers(0, draw(st.integers(1, 2)), n), name="y")
    weights = rng.uniform(0.5, 2.0, n)
    return X, frame, control, weights


def moments_of(sample, rows=slice(None)):
    X, frame, control, weights = (part[rows] for part in sample)
    weights = weights if len(weights) else None
    return GroupMoments.from_arrays(X, frame, control, weights, numeric=["age"])


def assert_same(one, other):
    assert list(one.table.cells) == list(other.table.cells)
    for key, cell in one.table.cells.items():
        twin = other.table.cells[key]
        assert cell.n_rows == twin.n_rows
        np.testing.assert_allclose(cell.weight, twin.weight, rtol=1e-13)
        # Sizes: deviations are below 1e3, thirty rows, weights below two.
        for name, array in cell_arrays(cell).items():
            if name in ("mean", "z_mean"):
                np.testing.assert_allclose(array, cell_arrays(twin)[name], rtol=1e-14, atol=1e-12)
            elif not name.endswith("_rest"):
                scale = 1 + np.abs(array).max(initial=0.0)
                np.testing.assert_allclose(array, cell_arrays(twin)[name], atol=1e-9 * scale)


@quietly
@given(samples(), st.data())
def test_rows_split_anywhere_merge_to_the_whole(sample, data):
    n = len(sample[0])
    cuts = data.draw(st.lists(st.integers(0, n), max_size=6).map(sorted))
    edges = [0, *cuts, n]
    parts = [moments_of(sample, slice(a, b)) for a, b in pairwise(edges)]
    assert_same(reduce(add, parts), moments_of(sample))


@quietly
@given(samples(), st.data())
def test_merging_is_commutative_and_associative(sample, data):
    n = len(sample[0])
    a, b = sorted(data.draw(st.tuples(st.integers(0, n), st.integers(0, n))))
    one, two, three = (moments_of(sample, s) for s in (slice(a), slice(a, b), slice(b, None)))
    assert_same(one + two, two + one)
    assert_same((one + two) + three, one + (two + three))


@quietly
@given(samples(), st.randoms(use_true_random=False))
def test_single_rows_in_any_order_merge_to_the_whole(sample, random):
    order = list(range(len(sample[0])))
    random.shuffle(order)
    parts = [moments_of(sample, slice(i, i + 1)) for i in order]
    assert_same(reduce(add, parts), moments_of(sample))


@quietly
@given(samples(), st.integers(0, 30))
def test_contrasts_do_not_show_that_the_rows_came_in_parts(sample, cut):
    X, frame, control, weights = sample
    X, frame = np.vstack([X, X[::-1] + 1]), pd.concat([frame, frame], ignore_index=True)
    frame.loc[: len(sample[0]) - 1, "sex"] = "f"
    frame.loc[len(sample[0]) :, "sex"] = "m"
    frame.loc[0, "age"] += 1.0
    frame["race"] = np.arange(len(frame)) % 2
    control = pd.Series(np.zeros(len(frame), dtype=int), name="y")
    sample = (X, frame, control, np.r_[weights, weights])
    whole = moments_of(sample)
    parts = moments_of(sample, slice(cut)) + moments_of(sample, slice(cut, None))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one row on a side is legitimate here
        ours, theirs = whole.contrasts(joint=True), parts.contrasts(joint=True)
    assert ours.as_table() == theirs.as_table()
    scale = 1 + np.abs(ours.cov_gaps).max(initial=0.0)
    np.testing.assert_allclose(ours.mean_gaps, theirs.mean_gaps, atol=1e-9 * scale)
    np.testing.assert_allclose(ours.cov_gaps, theirs.cov_gaps, atol=1e-9 * scale)


@quietly
@given(st.lists(st.sampled_from([0.5, 1.5, 2.5, 3.5]), min_size=1, max_size=12), st.data())
def test_floats_are_groups_or_numbers_by_all_their_values(values, data):
    z = np.array(values)
    X = np.arange(2.0 * len(z)).reshape(-1, 2) ** 1.5
    cuts = data.draw(st.lists(st.integers(0, len(z)), max_size=4).map(sorted))
    edges = [0, *cuts, len(z)]
    pairs = pairwise(edges)
    merged = reduce(add, [GroupMoments.from_arrays(X[a:b], z[a:b]) for a, b in pairs])
    whole = GroupMoments.from_arrays(X, z)
    assert merged.numeric_attributes == whole.numeric_attributes
    assert_same(merged, whole)
