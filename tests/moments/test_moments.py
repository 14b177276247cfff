"""GroupMoments against sums taken from the rows."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fairpca.moments import GroupMoments, _cells
from fairpca.rows import Rows, encode_groups
from fairpca.rows import _checks as validation


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def covariance(X, weights=None):
    """Weighted covariance with the weight as divisor, from the rows."""
    w = np.ones(len(X)) if weights is None else np.asarray(weights, dtype=float)
    centred = X - (w @ X) / w.sum()
    return (centred * w[:, None]).T @ centred / w.sum()


def third(X, z, weights):
    """Third central co-moment of a number and the features, from the rows."""
    w = np.asarray(weights, dtype=float)
    x_dev = X - (w @ X) / w.sum()
    z_dev = z - (w @ z) / w.sum()
    return np.einsum("i,ij,ik->jk", w * z_dev, x_dev, x_dev)


def test_each_cell_holds_the_moments_of_its_rows(rng):
    X = rng.normal(size=(60, 4))
    sex = np.array(["f", "m"])[rng.integers(0, 2, 60)]
    region = rng.integers(0, 3, 60)
    weights = rng.uniform(0.5, 2.0, 60)
    moments = GroupMoments.from_arrays(X, sex, region, weights)
    assert len(moments.table.cells) == 6
    for (sex_level, region_level), cell in moments.table.cells.items():
        rows = (sex == sex_level) & (region == region_level)
        w = weights[rows]
        assert cell.n_rows == rows.sum()
        assert cell.weight == pytest.approx(w.sum())
        np.testing.assert_allclose(cell.mean, np.average(X[rows], axis=0, weights=w), rtol=1e-12)
        expected = covariance(X[rows], w)
        np.testing.assert_allclose(cell.covariance, expected, rtol=1e-12, atol=1e-14)


def test_numeric_attributes_keep_their_mixed_moments(rng):
    X = rng.normal(size=(50, 3)) + 5
    frame = pd.DataFrame(
        {"age": rng.normal(40, 10, 50), "sex": rng.integers(0, 2, 50), "iq": rng.normal(size=50)}
    )
    weights = rng.uniform(0.1, 3, 50)
    moments = GroupMoments.from_arrays(X, frame, sample_weight=weights)
    assert moments.attributes == ("age", "sex", "iq")
    assert moments.numeric_attributes == ("age", "iq")
    assert moments.categorical_attributes == ("sex",)
    for (level,), cell in moments.table.cells.items():
        rows = (frame["sex"] == level).to_numpy()
        w, x = weights[rows], X[rows]
        for index, name in enumerate(moments.numeric_attributes):
            z = frame[name].to_numpy()[rows]
            deviation = z - np.average(z, weights=w)
            assert cell.z_mean[index] == pytest.approx(np.average(z, weights=w))
            assert cell.z_scatter[index] == pytest.approx(w @ deviation**2)
            centred = x - np.average(x, axis=0, weights=w)
            np.testing.assert_allclose(cell.cross[index], (w * deviation) @ centred, rtol=1e-10)
            np.testing.assert_allclose(cell.third[index], third(x, z, w), rtol=1e-9, atol=1e-10)


def test_pooled_is_the_covariance_of_all_rows_and_symmetric(rng):
    X = rng.normal(size=(80, 5)) @ rng.normal(size=(5, 5)) + 3
    groups = rng.integers(0, 4, 80)
    weights = rng.uniform(0, 2, 80)
    weight, mean, cov = GroupMoments.from_arrays(X, groups, sample_weight=weights).pooled()
    assert weight == pytest.approx(weights.sum())
    np.testing.assert_allclose(mean, np.average(X, axis=0, weights=weights), rtol=1e-12)
    np.testing.assert_allclose(cov, covariance(X, weights), rtol=1e-11, atol=1e-12)
    np.testing.assert_array_equal(cov, cov.T)


@pytest.mark.parametrize("offset", [1e6, 1e8])
def test_a_large_mean_costs_no_digits(rng, offset):
    X = rng.normal(size=(300, 4)) + offset
    z = rng.normal(size=300) + offset
    expected = covariance(X - offset)
    moments = GroupMoments.from_arrays(X, z)
    np.testing.assert_allclose(moments.pooled().covariance, expected, rtol=1e-10, atol=1e-11)
    (contrast,) = moments.contrasts()
    w = np.ones(300)
    spread = (z - offset).std()
    np.testing.assert_allclose(
        contrast.cov_gap, third(X - offset, z - offset, w) / 300 / spread, rtol=1e-8, atol=1e-10
    )


@pytest.mark.parametrize("offset", [0.0, 1e6, 1e8])
@pytest.mark.parametrize("order", ["forward", "backward", "tree", "shuffled"])
def test_merging_single_rows_in_any_order_keeps_the_digits(rng, offset, order):
    X = rng.normal(size=(64, 3)) + offset
    groups = rng.integers(0, 2, 64)
    rows = [GroupMoments.from_arrays(X[i : i + 1], groups[i : i + 1]) for i in range(64)]
    if order == "tree":
        while len(rows) > 1:
            rows = [rows[i] + rows[i + 1] for i in range(0, len(rows), 2)]
        merged = rows[0]
    else:
        if order == "backward":
            rows.reverse()
        elif order == "shuffled":
            rng.shuffle(rows)
        merged = rows[0]
        for row in rows[1:]:
            merged = merged + row
    expected = covariance(X - offset)
    np.testing.assert_allclose(merged.pooled().covariance, expected, rtol=1e-9, atol=1e-10)
    gap = (X - offset)[groups == 1].mean(axis=0) - (X - offset)[groups == 0].mean(axis=0)
    np.testing.assert_allclose(merged.contrasts()[0].mean_gap, gap, rtol=1e-9, atol=1e-10)


def test_batches_give_the_sums_of_the_whole(rng, monkeypatch):
    X = rng.normal(size=(2000, 3)) + 1e6
    z = rng.normal(size=2000)
    whole = GroupMoments.from_arrays(X, z)
    monkeypatch.setattr(validation, "ELEMENTS_AT_ONCE", 1)
    assert validation.rows_at_once(3) == 256
    blocks = GroupMoments.from_arrays(X, z)
    one, other = whole.table.cells[()], blocks.table.cells[()]
    assert one.n_rows == other.n_rows == 2000
    np.testing.assert_allclose(one.scatter, other.scatter, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(one.third, other.third, rtol=1e-9, atol=1e-9)


def test_the_layout_of_the_matrix_does_not_matter(rng):
    wide = rng.normal(size=(60, 8))
    frame = pd.DataFrame({"g": rng.integers(0, 2, 60), "z": rng.normal(size=60)})
    layouts = [wide[:, ::2].copy(), np.asfortranarray(wide[:, ::2]), wide[:, ::2]]
    tables = [GroupMoments.from_arrays(X, frame).table.cells for X in layouts]
    for key, cell in tables[0].items():
        for other in tables[1:]:
            np.testing.assert_allclose(cell.mean, other[key].mean, rtol=1e-12)
            np.testing.assert_allclose(cell.scatter, other[key].scatter, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(cell.third, other[key].third, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("column", ["spikes", "far first row", "trend", "constant"])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_centring_at_a_guess_costs_no_digits(rng, monkeypatch, column, kind):
    # The mean is guessed from every 128th row, which these columns mislead as far as they can.
    monkeypatch.setattr(_cells, "_PIECE_NUMBERS", 1000)
    n = 5000
    values = {
        "spikes": np.where(np.arange(n) % 128 == 0, 1e6, rng.normal(size=n)),
        "far first row": np.where(np.arange(n) == 0, 1e7, rng.normal(size=n)),
        "trend": 1e3 * np.arange(n) + rng.normal(size=n),
        "constant": np.full(n, 0.1),
    }[column]
    X = np.column_stack([values, rng.normal(size=n)]).astype(kind)
    exact = X.astype(np.longdouble)
    exact -= exact.mean(axis=0)
    found = GroupMoments.from_arrays(X, np.zeros(n, dtype=int)).pooled()[2]
    deviation = np.sqrt((exact**2).mean(axis=0)).astype(float)
    error = np.abs(found - (exact.T @ exact / n).astype(float))
    assert (error <= 1e-13 * np.outer(deviation, deviation)).all()


def test_a_far_first_row_of_almost_no_weight_does_not_spoil_the_sums(rng):
    X = rng.normal(size=(50, 2))
    X[0] = 1e15
    weights = np.ones(50)
    weights[0] = 1e-40
    _, mean, cov = GroupMoments.from_arrays(X, np.zeros(50), sample_weight=weights).pooled()
    np.testing.assert_allclose(mean, X[1:].mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(cov, covariance(X[1:]), rtol=1e-9)


def test_weights_equal_repetition(rng):
    X = rng.normal(size=(40, 3))
    frame = pd.DataFrame({"g": rng.integers(0, 3, 40), "z": rng.normal(size=40)})
    times = rng.integers(0, 4, 40)
    weighted = GroupMoments.from_arrays(X, frame, sample_weight=times)
    repeated = GroupMoments.from_arrays(
        np.repeat(X, times, axis=0), frame.loc[frame.index.repeat(times)]
    )
    for one, other in zip(weighted.contrasts(), repeated.contrasts(), strict=True):
        assert one.label == other.label
        np.testing.assert_allclose(one.mean_gap, other.mean_gap, rtol=1e-10, atol=1e-13)
        np.testing.assert_allclose(one.cov_gap, other.cov_gap, rtol=1e-10, atol=1e-13)
    assert weighted.n_samples == np.count_nonzero(times)
    assert weighted.weight == repeated.weight == times.sum()


def test_rows_of_weight_zero_leave_no_trace(rng):
    X = rng.normal(size=(6, 2))
    groups = ["a", "a", "b", "b", "gone", "gone"]
    moments = GroupMoments.from_arrays(X, groups, sample_weight=[1, 1, 2, 1, 0, 0])
    assert moments.levels("sensitive_feature") == ("a", "b")
    assert moments.n_samples == 4
    assert len(moments.contrasts()) == 1


def test_scaling_the_weights_changes_nothing_but_the_weight(rng):
    X = rng.normal(size=(30, 3))
    groups, weights = rng.integers(0, 2, 30), rng.uniform(0.5, 1, 30)
    one = GroupMoments.from_arrays(X, groups, sample_weight=weights)
    other = GroupMoments.from_arrays(X, groups, sample_weight=weights * 1e-9)
    np.testing.assert_allclose(one.contrasts()[0].cov_gap, other.contrasts()[0].cov_gap, rtol=1e-9)
    assert other.weight == pytest.approx(one.weight * 1e-9)


def test_single_precision_is_summed_in_double(rng):
    X = (rng.normal(size=(500, 3)) + 1000).astype(np.float32)
    cov = GroupMoments.from_arrays(X, rng.integers(0, 2, 500)).pooled().covariance
    np.testing.assert_allclose(cov, covariance(X.astype(np.float64)), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_column_names_of_a_data_frame_become_feature_names(kind):
    data = {"height": [1.0, 2.0, 3.0], "width": [0.0, 5.0, 1.0]}
    make = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[kind]
    moments = GroupMoments.from_arrays(make(data), ["a", "b", "b"])
    assert moments.feature_names == ("height", "width")
    np.testing.assert_allclose(moments.pooled().mean, [2.0, 2.0])


def test_integers_and_lists_are_features_too():
    moments = GroupMoments.from_arrays([[1, 2], [3, 5]], [0, 1], feature_names=["a", "b"])
    np.testing.assert_array_equal(moments.pooled().mean, [2.0, 3.5])
    assert moments.feature_names == ("a", "b")


def test_without_attributes_there_is_one_cell(rng):
    X = rng.normal(size=(20, 3))
    moments = GroupMoments.from_rows(Rows(X))
    assert list(moments.table.cells) == [()]
    np.testing.assert_allclose(moments.pooled().covariance, covariance(X), rtol=1e-12)
    contrasts = moments.contrasts()
    assert len(contrasts) == 0
    assert contrasts.mean_gaps.shape == (0, 3)
    assert contrasts.cov_gaps.shape == (0, 3, 3)


def test_from_rows_equals_from_arrays(rng):
    X, groups = rng.normal(size=(20, 2)), rng.integers(0, 2, 20)
    one = GroupMoments.from_arrays(X, groups).contrasts()[0]
    other = GroupMoments.from_rows(Rows(X, encode_groups(groups, n_rows=20))).contrasts()[0]
    np.testing.assert_array_equal(one.cov_gap, other.cov_gap)


@pytest.mark.parametrize("width", [1, 2, 8, 13, 25])
def test_many_wide_columns_do_not_overflow_the_cell_number(rng, width):
    # Beyond 64 bits the first column is the first to be lost, and rows i and i + 40 would meet.
    first = np.repeat([0, 1], 40)
    columns = np.column_stack([first, np.tile(np.arange(40)[:, None], (2, width))])
    X = rng.normal(size=(80, 2))
    moments = GroupMoments.from_arrays(X, columns)
    assert len(moments.table.cells) == 80
    for key, cell in moments.table.cells.items():
        np.testing.assert_array_equal(cell.mean, X[40 * key[0] + key[1]])


def test_standardized_equals_the_moments_of_standardised_rows(rng):
    X = rng.normal(size=(100, 3)) * [1e-6, 1.0, 1e6] + [5.0, 0.0, -1e7]
    frame = pd.DataFrame({"g": rng.integers(0, 3, 100), "z": rng.normal(size=100)})
    weights = rng.uniform(0.5, 2, 100)
    moments = GroupMoments.from_arrays(X, frame, sample_weight=weights)
    mean, scale = moments.standardization()
    expected = GroupMoments.from_arrays((X - mean) / scale, frame, sample_weight=weights)
    standard = moments.standardized()
    np.testing.assert_allclose(np.diag(standard.pooled().covariance), 1.0, rtol=1e-9)
    np.testing.assert_allclose(standard.pooled().mean, 0.0, atol=1e-9)
    for one, other in zip(standard.contrasts(), expected.contrasts(), strict=True):
        np.testing.assert_allclose(one.mean_gap, other.mean_gap, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(one.cov_gap, other.cov_gap, rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(standard.pooled().covariance, standard.pooled().covariance.T)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e8 / 3, -1e-12])
def test_constant_columns_keep_their_scale(rng, value):
    X = np.column_stack([rng.normal(size=50), np.full(50, value)])
    groups = rng.integers(0, 2, 50)
    parts = [GroupMoments.from_arrays(X[i : i + 7], groups[i : i + 7]) for i in range(0, 50, 7)]
    moments = sum(parts[1:], parts[0])
    assert moments.pooled().covariance[1, 1] == 0
    assert moments.standardization().scale[1] == 1.0
    assert moments.standardization().mean[1] == value
    assert moments.standardized().pooled().covariance[1, 1] == 0


def test_a_column_that_varies_by_rounding_only_is_constant():
    column = np.where(np.arange(40) % 2, 0.1 + 0.2, 0.3)
    assert np.ptp(column) > 0
    moments = GroupMoments.from_arrays(column[:, None], np.arange(40) % 4 > 1)
    assert moments.standardization().scale[0] == 1.0


@pytest.mark.parametrize("scale", [1e12, 1e-12])
def test_standardising_undoes_any_scale(rng, scale):
    X, groups = rng.normal(size=(60, 3)) + 1, rng.integers(0, 2, 60)
    plain = GroupMoments.from_arrays(X, groups).standardized()
    scaled = GroupMoments.from_arrays(X * scale, groups).standardized()
    np.testing.assert_allclose(
        plain.contrasts()[0].cov_gap, scaled.contrasts()[0].cov_gap, rtol=1e-9, atol=1e-12
    )


def test_moments_are_frozen_and_can_be_pickled(rng):
    moments = GroupMoments.from_arrays(rng.normal(size=(10, 2)), np.arange(10) % 2)
    with pytest.raises(AttributeError):
        moments.n_features = 3
    with pytest.raises(ValueError, match="read-only"):
        next(iter(moments.table.cells.values())).mean[0] = 1.0
    again = pickle.loads(pickle.dumps(moments))
    np.testing.assert_array_equal(again.pooled().covariance, moments.pooled().covariance)
