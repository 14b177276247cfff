"""Missing values: refused by name, left out, or counted as the mean of all rows, by every door."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_array
from sklearn.impute import SimpleImputer
from sklearn.utils.estimator_checks import check_estimator

from fairpca import DeltaFairPCA, FairPCA, GroupMoments
from fairpca.exceptions import (
    DroppedRowsWarning,
    GroupsError,
    ImputedValuesWarning,
    InvalidInputError,
)
from fairpca.rows import Rows
from fairpca.tables import moments_from_dask, open_table


@pytest.fixture
def rng():
    return np.random.default_rng(1)


@pytest.fixture
def holed(rng):
    """Rows far from zero with holes that depend on the group, weights and a numeric attribute."""
    groups = rng.integers(0, 3, 600)
    X = rng.normal(size=(600, 5)) + 1e7 + np.outer(groups, [1.0, 0, 2, 0, 0])
    X[rng.random((600, 5)) < [0.3, 0, 0.1, 0, 0.02]] = np.nan
    X[groups == 2, 0] = np.where(rng.random((groups == 2).sum()) < 0.6, np.nan, 1e7)
    sensitive = pd.DataFrame({"z": groups.astype(str), "t": rng.normal(size=600)})
    return X, sensitive, rng.uniform(0.5, 2, 600)


def _imputed(X, weights):
    means = [np.average(c[~np.isnan(c)], weights=weights[~np.isnan(c)]) for c in X.T]
    return np.where(np.isnan(X), means, X)


def _assert_same(found, expected, atol=1e-6):
    found, expected = found.complete(), expected.complete()
    assert found.table.cells.keys() == expected.table.cells.keys()
    for key, cell in expected.table.cells.items():
        other = found.table.cells[key]
        np.testing.assert_allclose(
            other.mean + other.mean_rest, cell.mean + cell.mean_rest, rtol=1e-13
        )
        for name in ("scatter", "cross", "third", "z_scatter"):
            np.testing.assert_allclose(getattr(other, name), getattr(cell, name), atol=atol)


@pytest.mark.parametrize("parts", [1, 2, 7, 100])
def test_moments_are_exactly_those_of_rows_imputed_by_the_mean_of_all(holed, parts, tmp_path):
    X, sensitive, weights = holed
    expected = GroupMoments.from_arrays(_imputed(X, weights), sensitive, sample_weight=weights)
    total = None
    for index in np.array_split(np.arange(600)[::-1], parts):
        rows = Rows.attach(X[index], sensitive.iloc[index], sample_weight=weights[index])
        part = GroupMoments.from_incomplete(rows)
        total = part if total is None else part + total
    _assert_same(total, expected)
    again = GroupMoments.load(total.save(tmp_path / "moments", min_rows=1))
    _assert_same(again, total, atol=0)
    share = np.average(np.isnan(X), axis=0, weights=weights)
    assert set(again.missing()) == {"x0", "x2", "x4"}
    np.testing.assert_allclose(list(again.missing().values()), share[[0, 2, 4]])


def test_wide_and_sparse_rows_are_imputed_alike(rng, tmp_path):
    X = rng.normal(size=(60, 150))
    X[rng.random(X.shape) < 0.05] = np.nan
    groups, ones = np.arange(60) % 2, np.ones(60)
    expected = GroupMoments.from_arrays(_imputed(X, ones), groups)
    halves = [GroupMoments.from_incomplete(Rows.attach(X[i::2], groups[i::2])) for i in (0, 1)]
    total = halves[0] + halves[1]
    assert total.span is not None
    again = GroupMoments.load(total.save(tmp_path / "wide", min_rows=1))
    for found in (total, again):
        np.testing.assert_allclose(found.pooled().mean, expected.pooled().mean, atol=1e-12)
        np.testing.assert_allclose(
            found.pooled().covariance, expected.pooled().covariance, atol=1e-10
        )
        np.testing.assert_allclose(found.standardization().scale, expected.standardization().scale)
    thin = np.where(rng.random((300, 8)) < 0.7, 0.0, rng.normal(size=(300, 8)))
    thin[rng.random(thin.shape) < 0.05] = np.nan
    z = np.arange(300) % 3
    sparse = GroupMoments.from_incomplete(Rows.attach(csr_array(thin), z))
    _assert_same(sparse, GroupMoments.from_arrays(_imputed(thin, np.ones(300)), z), 1e-10)


def test_fit_and_transform_use_the_means_of_all_rows(holed):
    X, sensitive, weights = holed
    names = list("abcde")
    frame, groups = pd.DataFrame(X, columns=names), sensitive["z"]
    model = FairPCA(2, missing="mean", standardize=True)
    with pytest.warns(ImputedValuesWarning, match=r"'a' \d+.*shrinks the variance of"):
        model.fit(frame, sensitive_features=groups, sample_weight=weights)
    filled = pd.DataFrame(_imputed(X, weights), columns=names)
    plain = FairPCA(2, standardize=True)
    plain.fit(filled, sensitive_features=groups, sample_weight=weights)
    np.testing.assert_allclose(model.mean_, plain.mean_, rtol=1e-14)
    np.testing.assert_allclose(model.transform(frame), plain.transform(filled), atol=1e-4)
    assert np.isfinite(model.transform(frame.astype(np.float32))).all()
    batches = FairPCA(2, missing="mean", standardize=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ImputedValuesWarning)
        for index in np.array_split(np.arange(600), 4):
            batches.partial_fit(
                frame.iloc[index],
                sensitive_features=groups.iloc[index],
                sample_weight=weights[index],
            )
        again = FairPCA(2, missing="mean", standardize=True).fit_moments(batches.moments_)
    np.testing.assert_allclose(batches.transform(frame), model.transform(frame), atol=1e-4)
    np.testing.assert_allclose(again.transform(frame), model.transform(frame), atol=1e-4)


def test_dask_and_tables_impute_alike(holed, tmp_path):
    dd = pytest.importorskip("dask.dataframe")
    X, sensitive, _ = holed
    frame = pd.DataFrame(X, columns=list("abcde")).assign(z=sensitive["z"])
    expected = GroupMoments.from_incomplete(Rows.attach(X, frame["z"], feature_names=list("abcde")))
    lazy = dd.from_pandas(frame, npartitions=3)
    with pytest.warns(ImputedValuesWarning):
        _assert_same(moments_from_dask(lazy, "z", missing="mean"), expected)
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=100)
    table = open_table(tmp_path / "t.parquet")
    with pytest.warns(ImputedValuesWarning):
        found = table.moments(table.assign("z", missing="mean"))
    _assert_same(found, expected)
    with pytest.warns(ImputedValuesWarning):
        rows = table.rows(table.assign("z", missing="mean"))
    np.testing.assert_allclose(rows.X, _imputed(X, np.ones(600)))
    model = FairPCA(2, missing="mean")
    with pytest.warns(ImputedValuesWarning):
        model.fit(lazy[list("abcde")], sensitive_features=lazy["z"])
    stream = FairPCA(2, missing="mean")
    with pytest.warns(ImputedValuesWarning):
        stream.fit(pl.from_pandas(frame).lazy(), sensitive_features="z")
    np.testing.assert_allclose(stream.components_, model.components_, atol=1e-6)
    scores = model.transform(lazy[list("abcde")]).compute()
    np.testing.assert_allclose(scores, model.transform(frame[list("abcde")]), atol=1e-8)


def test_a_missing_category_counts_as_the_shares_of_all(rng):
    """Levels, and columns without any, are met in some batches only."""
    jobs = np.array(["a"] * 40 + [None] * 40 + ["b", None] * 40 + ["c"] * 40, dtype=object)
    z = np.tile(["x", "y"], 100)
    z = np.where(rng.random(200) < 0.5, "x", "y")
    height = rng.normal(size=200)
    table = pa.table({"job": jobs, "height": height, "z": z})
    expected = pd.get_dummies(pd.DataFrame({"height": height, "job": jobs}), dtype=float)
    expected.columns = ["height", "job=a", "job=b", "job=c"]
    lacking = pd.isna(jobs)
    expected.iloc[lacking, 1:] = expected.iloc[~lacking, 1:].mean().to_numpy()
    pieces = [table.slice(start, 40) for start in range(0, 200, 40)]
    total = None
    for piece in pieces:
        opened = open_table(piece)
        roles = opened.assign("z", categorical="job", missing="mean")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ImputedValuesWarning)
            part = _partial(opened, roles)
        total = part if total is None else _merge(total, part, roles)
    _assert_same(total.moments, GroupMoments.from_arrays(expected, z), 1e-10)
    famd = total.moments.standardization(famd=True)
    np.testing.assert_allclose(famd.scale[1:], np.sqrt(expected.mean()[1:]))


def _partial(table, roles):
    from fairpca.tables._stream import sum_parts

    return sum_parts(table.parts, roles, table.role_schema(roles))


def _merge(left, right, roles):
    from fairpca.tables._kernel import merge_partials

    return merge_partials([left, right], roles)


def test_rows_are_left_out_and_counted(holed):
    X, sensitive, _ = holed
    groups = sensitive["z"].mask(np.arange(600) == 3)
    kept = ~np.isnan(X).any(axis=1) & groups.notna().to_numpy()
    expected = FairPCA(2).fit(X[kept], sensitive_features=groups[kept])
    for wrap in (pd.Series, pl.from_pandas, list, np.asarray):
        model = FairPCA(2, missing="drop-rows")
        with pytest.warns(DroppedRowsWarning, match=rf"^{600 - kept.sum()} of 600 rows"):
            model.fit(X, sensitive_features=wrap(groups), sample_weight=np.ones(600))
        np.testing.assert_allclose(model.components_, expected.components_, atol=1e-8)
        with pytest.warns(ImputedValuesWarning, match="a score for every row"):
            scores = model.transform(X)
        np.testing.assert_allclose(scores[kept], expected.transform(X[kept]), atol=1e-6)
        assert np.isfinite(scores).all()


def test_by_default_columns_and_counts_are_named(holed):
    X, sensitive, _ = holed
    frame = pd.DataFrame(X, columns=list("abcde"))
    counts = frame.isna().sum()
    model = FairPCA(2)
    with pytest.raises(InvalidInputError, match=rf"'a' {counts['a']}, 'c' {counts['c']}.*NaN"):
        model.fit(frame, sensitive_features=sensitive["z"])
    model.fit(frame.fillna(0), sensitive_features=sensitive["z"])
    with pytest.raises(InvalidInputError, match=r"'a'.*NaN"):
        model.transform(frame)
    frame["b"] = np.nan
    empty = pytest.raises(InvalidInputError, match="'b' has no value in any row")
    with pytest.warns(ImputedValuesWarning), empty:
        FairPCA(2, missing="mean").fit(frame, sensitive_features=sensitive["z"])


@pytest.mark.parametrize("values", [["f", None, "m"], [1.0, np.nan, 2.0], [True, None, False]])
def test_rows_without_a_group_can_be_a_group(rng, values):
    groups, X = np.array(values * 20, dtype=object), rng.normal(size=(60, 4))
    series = pd.Series(groups).convert_dtypes()
    with pytest.raises(GroupsError, match="missing_groups='own'"):
        FairPCA(1).fit(X, sensitive_features=series)
    models = [
        FairPCA(1, missing_groups="own").fit(X, sensitive_features=given)
        for given in (series, pl.from_pandas(series))
    ]
    table = open_table(pa.table({**{f"x{i}": X[:, i] for i in range(4)}, "z": pa.array(series)}))
    moments = table.moments(table.assign("z", missing_groups="own"))
    for found in (moments, *(model.moments_ for model in models)):
        assert "missing" in found.levels(found.attributes[0])
        assert len(found.levels(found.attributes[0])) == 3


def test_a_missing_number_is_no_group(rng):
    X, age = rng.normal(size=(60, 3)), rng.normal(size=60)
    age[3] = np.nan
    for numeric in (None, ["sensitive_feature"]):
        with pytest.raises(GroupsError, match=r"1 is missing|1 missing"):
            FairPCA(1, missing_groups="own", numeric=numeric).fit(X, sensitive_features=age)
    table = open_table(
        pa.table({"x": X[:, 0], "y": X[:, 1], "age": pa.array(age, from_pandas=True)})
    )
    with pytest.raises(InvalidInputError, match="missing"):
        table.moments(table.assign("age", missing_groups="own"))


def test_the_adversary_takes_incomplete_rows_too(rng):
    X, groups = rng.normal(size=(300, 4)), np.arange(300) % 2
    X[rng.random(X.shape) < 0.1] = np.nan
    with pytest.warns(ImputedValuesWarning):
        model = DeltaFairPCA(2, penalty=0.5, missing="mean").fit(X, sensitive_features=groups)
    filled = SimpleImputer().fit_transform(X)
    plain = DeltaFairPCA(2, penalty=0.5).fit(filled, sensitive_features=groups)
    np.testing.assert_allclose(model.transform(X), plain.transform(filled), atol=1e-6)


@pytest.mark.parametrize("missing", ["drop-rows", "mean"])
def test_scikit_learn_agrees(missing):
    check_estimator(FairPCA(missing_groups="ignore", missing=missing), on_skip=None)
