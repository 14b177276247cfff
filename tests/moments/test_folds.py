"""Moments by fold: one assignment for every order and batch, statistics that the rows confirm."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.sparse import csr_array

from fairpca import FairPCA
from fairpca.exceptions import InvalidInputError
from fairpca.metrics import cov_gap, gaussian_bound, mean_gap
from fairpca.moments import FoldedMoments, GroupMoments, gap_statistics
from fairpca.rows import Rows
from fairpca.rows._sampling import fold_of
from fairpca.tables import moments_from_arrow


@pytest.fixture
def table():
    rng = np.random.default_rng(3)
    n = 600
    frame = pd.DataFrame(rng.normal(size=(n, 6)), columns=list("uvwxyz"))
    frame["g"] = rng.integers(0, 2, n)
    frame["h"] = rng.choice(["a", "b", "c"], n)
    frame[["u", "v"]] += np.outer(frame["g"], [2.0, -1.0])
    frame["w"] *= np.where(frame["g"], 2.0, 1.0)
    return frame


FEATURES = list("uvwxyz")


def rows_of(frame, **kind):
    return Rows.read(frame[FEATURES].astype(kind.get("dtype", float)), frame[["g", "h"]])


def test_the_fold_is_a_matter_of_the_values_alone(table):
    folds = fold_of(rows_of(table), 5)
    assert np.bincount(folds).min() > 80
    order = np.random.default_rng(0).permutation(len(table))
    assert (fold_of(rows_of(table.iloc[order]), 5) == folds[order]).all()
    pieces = [fold_of(rows_of(table.iloc[start : start + 7]), 5) for start in range(0, 600, 7)]
    assert (np.concatenate(pieces) == folds).all()
    fortran = Rows.read(
        np.asfortranarray(table[FEATURES]), table[["g", "h"]], feature_names=FEATURES
    )
    assert (fold_of(fortran, 5) == folds).all()
    sparse = Rows.read(
        csr_array(table[FEATURES].to_numpy()), table[["g", "h"]], feature_names=FEATURES
    )
    assert (fold_of(sparse, 5) == folds).all()


def test_zeros_of_either_sign_and_columns_of_zeros_change_nothing(table):
    table.loc[:300, "u"] = 0.0
    folds = fold_of(rows_of(table), 5)
    assert (
        fold_of(rows_of(table.assign(u=table["u"].where(table["u"] != 0, -0.0))), 5) == folds
    ).all()
    more = Rows.read(table[FEATURES].assign(q=0.0), table[["g", "h"]])
    assert (fold_of(more, 5) == folds).all()


def test_numbers_that_a_batch_takes_for_groups_share_their_fold():
    age = np.array([20.5, 31.25, 44.0, 20.5, 60.5])
    X = np.arange(5.0)[:, None]
    whole = fold_of(Rows.read(X, age, numeric=["sensitive_feature"]), 7)
    pairs = [fold_of(Rows.read(X[i : i + 1], age[i : i + 1]), 7)[0] for i in range(5)]
    assert (whole == pairs).all()


def test_an_array_a_frame_and_a_stream_of_the_same_numbers_share_their_folds(table):
    z, s = table[["g", "h"]], table["x"] > 0
    named = fold_of(Rows.read(table[FEATURES], z, s), 5)
    plain = Rows.read(table[FEATURES].to_numpy(), z.to_numpy(), s.to_numpy())
    assert (fold_of(plain, 5) == named).all()
    renamed = Rows.read(table[FEATURES].add_prefix("other "), z.add_prefix("z"), s)
    assert (fold_of(renamed, 5) == named).all()
    whole = FoldedMoments.from_rows(plain, 5)
    stream = pa.Table.from_pandas(table.assign(s=s)).to_reader(max_chunksize=70)
    streamed = moments_from_arrow(stream, ["g", "h"], FEATURES, "s", folds=5)
    for one, other in zip(streamed.folds, whole.folds, strict=True):
        assert one.n_samples == other.n_samples
        np.testing.assert_allclose(one.pooled().mean, other.pooled().mean, atol=1e-12)


@pytest.mark.parametrize("size", [1, 7, 600])
def test_indicators_of_a_stream_do_not_depend_on_batches(table, size):
    text = pa.Table.from_pandas(table.assign(job=np.arange(600) % 11).astype({"job": str}))
    options = {"features": ["u"], "categorical": ["h", "job"], "folds": 3}
    [one, other] = [
        moments_from_arrow(pa.Table.from_batches(text.to_batches(n)[::-1]), "g", **options)
        for n in (size, 50)
    ]
    assert one.feature_names == other.feature_names
    for a, b in zip(one.folds, other.folds, strict=True):
        np.testing.assert_allclose(a.pooled().mean, b.pooled().mean, atol=1e-12)


def test_units_share_a_fold(table):
    unit = np.arange(600) // 10
    parts = (table[FEATURES], table["g"])
    folded = FoldedMoments.from_arrays(*parts, folds=3, units=unit)
    folds = Rows.read(*parts, units=unit).folds(3)
    assert all(len(set(folds[unit == u])) == 1 for u in range(60))
    for k, fold in enumerate(folded.folds):
        assert fold.n_samples == np.count_nonzero(folds == k)
        np.testing.assert_allclose(fold.pooled().mean, table[FEATURES][folds == k].mean())
    halves = [
        FoldedMoments.from_arrays(*(p[part] for p in parts), folds=3, units=unit[part])
        for part in (slice(0, 333), slice(333, 600))
    ]
    for one, other in zip((halves[0] + halves[1]).folds, folded.folds, strict=True):
        assert one.n_samples == other.n_samples


@pytest.mark.parametrize("n_folds", [2, 5, 13])
def test_indicators_spread_evenly(n_folds):
    rng = np.random.default_rng(1)
    X = np.hstack([np.eye(20)[rng.integers(0, 20, 40_000)] for _ in range(3)])
    counts = np.bincount(fold_of(Rows.read(X, rng.integers(0, 2, 40_000)), n_folds))
    assert counts.max() / counts.min() < 1.2


def test_parts_add_up(table):
    parts = (table[FEATURES], table[["g", "h"]])
    whole = GroupMoments.from_arrays(*parts)
    folded = FoldedMoments.from_arrays(*parts, folds=4)
    np.testing.assert_allclose(folded.total.pooled().covariance, whole.pooled().covariance)
    assert folded.total.levels("h") == whole.levels("h")
    assert folded.total.controls == ()
    assert folded.n_samples == sum(fold.n_samples for fold in folded.folds) == 600
    left = table.iloc[:250]
    right = table.iloc[250:]
    halves = [FoldedMoments.from_arrays(h[FEATURES], h[["g", "h"]], folds=4) for h in (left, right)]
    both = halves[0] + halves[1]
    for one, other in zip(both.folds, folded.folds, strict=True):
        assert one.n_samples == other.n_samples
        np.testing.assert_allclose(one.pooled().mean, other.pooled().mean, atol=1e-12)
    rest = folded.train(1)
    assert rest.n_samples == 600 - folded.folds[1].n_samples


def test_parts_of_which_one_has_units_have_units(table):
    plain, units = (
        FoldedMoments.from_rows(Rows.read(table[FEATURES], table[["g", "h"]], units=units), 3)
        for units in (None, np.arange(len(table)) // 2)
    )
    both = [(one + other).by_units for one in (plain, units) for other in (plain, units)]
    assert both == [False, True, True, True]


def test_a_weight_of_two_is_a_row_twice(table):
    weights = np.random.default_rng(0).integers(0, 3, len(table))
    repeated = table.loc[table.index.repeat(weights)]
    one = FoldedMoments.from_arrays(table[FEATURES], table["g"], sample_weight=weights)
    other = FoldedMoments.from_arrays(repeated[FEATURES], repeated["g"])
    for a, b in zip(one.folds, other.folds, strict=True):
        np.testing.assert_allclose(a.pooled().covariance, b.pooled().covariance)


@pytest.mark.parametrize("compare", ["pairs", "one-vs-rest"])
@pytest.mark.parametrize("strata", [False, True])
def test_held_out_figures_are_those_of_the_held_out_rows(table, compare, strata):
    """The promise of the issue: to 1e-9, for any tolerance, penalty and number of components."""
    control = table["x"] > 0 if strata else None
    folded = FoldedMoments.from_arrays(table[FEATURES], table[["g", "h"]], control, folds=3)
    folds = fold_of(Rows.read(table[FEATURES], table[["g", "h"]], control), 3)
    for index, (d, tol, penalty) in enumerate([(1, 0.2, 0.0), (2, 0.3, 1.0), (3, None, 0.5)]):
        fair = FairPCA(d, mean_tol=tol, cov_weight=penalty, certify=False)
        fair.fit_moments(folded.train(index))
        found = gap_statistics(folded.folds[index], fair.components_, compare)
        new = table[folds == index]
        kept = {"control_features": control[folds == index]} if strata else {}
        U = fair.transform(new[FEATURES])
        about = {"sensitive_features": new[["g", "h"]], **kept}
        assert abs(found.mean_gap - mean_gap(U, compare=compare, **about)) < 1e-9
        assert abs(found.cov_gap - cov_gap(U, compare=compare, **about)) < 1e-9
        if compare == "pairs":
            assert abs(found.gaussian_bound - gaussian_bound(U, compare=compare, **about)) < 1e-9
        spread = np.cov(new[FEATURES].T, ddof=0).trace()
        assert abs(found.variance - np.cov(U.T, ddof=0).reshape(d, d).trace() / spread) < 1e-9


def test_wide_rows_and_standardised_moments():
    rng = np.random.default_rng(0)
    X, g = rng.normal(size=(60, 300)) + 5.0, np.arange(60) % 2
    folded = FoldedMoments.from_arrays(X, g, folds=3).standardized()
    fair = FairPCA(2, certify=False).fit_moments(folded.train(0))
    found = gap_statistics(folded.folds[0], fair.components_)
    scaled = (X - X.mean(0)) / X.std(0)
    inside = fold_of(Rows.read(X, g), 3) == 0
    U = scaled[inside] @ fair.components_.T
    assert found.mean_gap == pytest.approx(mean_gap(U, g[inside]), abs=1e-9)
    assert found.cov_gap == pytest.approx(cov_gap(U, g[inside]), abs=1e-9)


def test_a_fold_of_one_group_has_no_gap():
    moments = GroupMoments.from_arrays(np.arange(6.0).reshape(3, 2), [1, 1, 1])
    found = gap_statistics(moments, np.array([[1.0, 0.0]]))
    assert (found.mean_gap, found.cov_gap, found.gaussian_bound) == (None, None, None)
    assert found.variance == pytest.approx(0.5)


def test_mistakes(table):
    for folds in (1, 0, 2.5, True, 1000):
        with pytest.raises(InvalidInputError, match="whole number from 2 to 100"):
            FoldedMoments.from_arrays(table[FEATURES], table["g"], folds=folds)
    same = FoldedMoments.from_arrays(np.ones((4, 2)), [0, 0, 0, 0])
    with pytest.raises(InvalidInputError, match="too few different rows"):
        same.train(0)
    three = FoldedMoments.from_arrays(table[FEATURES], table["g"], folds=3)
    with pytest.raises(InvalidInputError, match="3 and of 5 folds"):
        three + FoldedMoments.from_arrays(table[FEATURES], table["g"])
    with pytest.raises(InvalidInputError, match="rename it"):
        FoldedMoments.from_arrays(
            table[FEATURES], table["g"], table[["h"]].rename(columns={"h": "(fold)"})
        )


def test_projected_moments_are_moments_of_scores(table):
    V = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 2)))[0].T
    X = table[FEATURES].to_numpy()
    scores = GroupMoments.from_arrays((X - X.mean(0)) @ V.T, table["g"])
    moved = GroupMoments.from_arrays(X, table["g"]).projected(V, X.mean(0))
    np.testing.assert_allclose(moved.pooled().covariance, scores.pooled().covariance, atol=1e-12)
    np.testing.assert_allclose(
        moved.contrasts().mean_gaps, scores.contrasts().mean_gaps, atol=1e-12
    )


def test_what_varies_in_left_out_rows_only_is_constant_in_the_others(monkeypatch):
    # One indicator a row: in the span of 120 rows every coordinate has a part in every feature.
    X = np.hstack([np.random.default_rng(0).normal(size=(120, 10)), np.eye(120)])
    groups = np.arange(120) % 2
    folded = FoldedMoments.from_rows(Rows.read(X, groups), 5)
    monkeypatch.setattr("fairpca.moments.group_moments.MIN_FEATURES", 10**9)
    dense = FoldedMoments.from_rows(Rows.read(X, groups), 5)
    for index, test in enumerate(folded.folds):
        train, other = folded.train(index), dense.train(index)
        assert train.span is not None
        assert other.span is None
        scale = train.standardization().scale
        np.testing.assert_allclose(scale, other.standardization().scale, rtol=1e-9)
        assert np.count_nonzero(scale == 1.0) == test.n_samples
