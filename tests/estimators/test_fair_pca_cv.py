"""FairPCACV: what it tries, how it chooses, and that every input gives the same."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from fairpca import FairPCA, FairPCACV
from fairpca.exceptions import (
    DroppedRowsWarning,
    ImputedValuesWarning,
    InfeasibleError,
    InvalidInputError,
)
from fairpca.moments import FoldedMoments
from fairpca.tables import moments_from_dask, moments_from_files, open_table

FEATURES = list("abcdef")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(5)
    n = 900
    sex = rng.choice(["f", "m"], n)
    X = rng.normal(size=(n, 6)) * np.where(sex == "m", 1.6, 1.0)[:, None] ** [1, 1, 1, 0, 0, 0]
    X += np.outer(sex == "m", [1.5, 0.5, 0, 0, 0, 0])
    return pd.DataFrame(X, columns=FEATURES).assign(sex=sex)


@pytest.fixture(scope="module")
def fitted(table):
    model = FairPCACV((1, 2), mean_tols=(0.0, None), cov_weights=(0.0, 3.0), folds=4)
    return model.fit(table[FEATURES], sensitive_features=table["sex"])


def test_the_whole_table_is_kept(fitted):
    results = fitted.cv_results_
    assert len(results["params"]) == 8
    assert results["params"][0] == {"n_components": 1, "mean_tol": 0.0, "cov_weight": 0.0}
    for name in ("mean_gap", "cov_gap", "variance", "gaussian_bound"):
        splits = np.array([results[f"split{k}_test_{name}"] for k in range(4)])
        assert np.isfinite(splits).all()
        if name.endswith("gap"):  # of squares, which may be negative on a fold
            square = (splits * np.abs(splits)).mean(axis=0)
            expected = np.sqrt(np.maximum(square, 0.0))
        else:
            expected = splits.mean(axis=0)
            error = splits.std(axis=0, ddof=1) / 2.0
            np.testing.assert_allclose(results[f"error_test_{name}"], error)
        np.testing.assert_allclose(results[f"mean_test_{name}"], expected, atol=1e-7)
        assert (results[f"error_test_{name}"] > 0.0).all()
    for name in ("mean_gap", "variance"):
        plain, fair = results[f"plain_test_{name}"], results[f"mean_test_{name}"]
        assert (plain >= fair - 1e-9).all()
        assert len(np.unique(plain)) == 2  # one for each number of components
    matched = results["param_mean_tol"] == 0.0
    assert (
        results["mean_test_mean_gap"][matched].max() < results["mean_test_mean_gap"][~matched].min()
    )


def test_it_chooses_most_variance_within_one_standard_error(fitted):
    results = fitted.cv_results_
    bound = results["mean_test_gaussian_bound"]
    smallest = bound.argmin()
    limit = bound[smallest] + results["error_test_gaussian_bound"][smallest]
    allowed = np.flatnonzero(bound <= limit)
    assert fitted.best_index_ == allowed[results["mean_test_variance"][allowed].argmax()]
    assert fitted.best_params_ == results["params"][fitted.best_index_]


def test_the_best_is_refitted_to_all_rows(fitted, table):
    again = FairPCA(**fitted.best_params_).fit(table[FEATURES], sensitive_features=table["sex"])
    np.testing.assert_allclose(
        fitted.components_.T @ fitted.components_,
        again.components_.T @ again.components_,
        atol=1e-8,
    )
    U = fitted.transform(table[FEATURES])
    np.testing.assert_allclose(U, fitted.best_estimator_.transform(table[FEATURES]))
    assert fitted.certificate_.gap < 1e-2
    assert fitted.get_feature_names_out()[0] == "fairpcacv0"


def test_a_limit_is_kept_or_refused(table):
    parts = {"sensitive_features": table["sex"]}
    options = {"mean_tols": (0.0, None), "cov_weights": (0.0, 3.0), "at_most": 9.0}
    model = FairPCACV(figure="gaussian_bound", **options).fit(table[FEATURES], **parts)
    assert model.best_index_ == model.cv_results_["mean_test_variance"].argmax()
    with pytest.raises(InfeasibleError, match="smallest gaussian_bound on held-out") as caught:
        clone(model).set_params(at_most=1e-6).fit(table[FEATURES], **parts)
    assert caught.value.minimum > 1e-6


def test_settings_that_cannot_be_met_are_listed_and_never_chosen(table):
    frame = table.assign(race=np.arange(len(table)) % 6)
    model = FairPCACV(2, mean_tols=(0.0, 0.5), cov_weights=(0.0,))
    model.fit(frame[FEATURES], sensitive_features=frame[["sex", "race"]])
    assert model.cv_results_["status"][0].startswith("infeasible: n_components=2 is too many")
    assert np.isinf(model.cv_results_["mean_test_mean_gap"][0])
    assert model.best_params_["mean_tol"] == 0.5
    with pytest.raises(InfeasibleError, match="no setting can be met on every fold"):
        FairPCACV(2, cov_weights=(0.0,)).fit(
            frame[FEATURES], sensitive_features=frame[["sex", "race"]]
        )


def test_every_input_gives_the_same(table, fitted, tmp_path):
    import dask.dataframe as dd
    import pyarrow as pa

    for part in range(3):
        table.iloc[part::3].to_parquet(tmp_path / f"{part}.parquet", row_group_size=50)
    small = [table.iloc[start : start + 100] for start in range(0, 900, 100)]
    batches = [FoldedMoments.from_arrays(b[FEATURES], b[["sex"]], folds=4) for b in small]
    arrow = open_table(pa.Table.from_pandas(table))
    lazy = dd.from_pandas(table, npartitions=5)
    inputs = {
        "files": moments_from_files(tmp_path, "sex", folds=4),
        "arrow": arrow.moments(arrow.assign("sex", folds=4)),
        "dask": moments_from_dask(lazy, "sex", folds=4),
        "batches": sum(batches[1:], batches[0]),
    }
    for name, folded in inputs.items():
        found = clone(fitted).fit_moments(folded)
        for key in ("mean_test_mean_gap", "mean_test_gaussian_bound", "split2_test_variance"):
            np.testing.assert_allclose(
                found.cv_results_[key], fitted.cv_results_[key], atol=1e-7, err_msg=name
            )
        assert found.best_params_ == fitted.best_params_
    rows = clone(fitted).fit(lazy[FEATURES], sensitive_features=lazy["sex"])
    np.testing.assert_allclose(
        rows.cv_results_["mean_test_cov_gap"], fitted.cv_results_["mean_test_cov_gap"], atol=1e-7
    )


def test_categorical_features_fall_into_the_same_folds_in_every_batch(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=400), "sex": rng.choice(["f", "m"], 400)})
    frame["job"] = np.repeat(["w", "x", "y", "z"], 100)  # no batch knows all of them
    frame.to_parquet(tmp_path / "a.parquet", row_group_size=60, index=False)
    frame.sample(frac=1, random_state=0).to_parquet(tmp_path / "b.parquet", index=False)
    one, other = (
        moments_from_files(tmp_path / name, "sex", categorical=["job"], folds=3)
        for name in ("a.parquet", "b.parquet")
    )
    assert [f.n_samples for f in one.folds] == [f.n_samples for f in other.folds]
    assert one.folds[0].feature_names == other.folds[0].feature_names
    for a, b in zip(one.folds, other.folds, strict=True):
        np.testing.assert_allclose(a.pooled().covariance, b.pooled().covariance, atol=1e-12)


QUICK = {"n_components": 2, "cov_weights": (0.0, 1.0), "folds": 3}


@pytest.mark.parametrize("missing", ["drop-rows", "mean"])
@pytest.mark.parametrize("standardize", [False, True])
def test_missing_values_mean_the_same_by_every_input(table, missing, standardize):
    holed = table.copy()
    holed.loc[[3, 70, 400], "a"] = np.nan
    holed.loc[[70, 71], "e"] = np.nan
    model = FairPCACV(**QUICK, estimator=FairPCA(missing=missing, standardize=standardize))
    with pytest.raises(InvalidInputError, match="4 of 900 rows have missing values"):
        clone(model).set_params(estimator__missing="error").fit(
            holed[FEATURES], sensitive_features=holed["sex"]
        )
    kind = {"drop-rows": DroppedRowsWarning, "mean": ImputedValuesWarning}[missing]
    with pytest.warns(kind, match="4 of 900"):
        fitted = clone(model).fit(holed[FEATURES], sensitive_features=holed["sex"])
    with pytest.warns(kind, match="4 of 900"):
        whole = FairPCA(missing=missing, standardize=standardize, **fitted.best_params_).fit(
            holed[FEATURES], sensitive_features=holed["sex"]
        )
    np.testing.assert_allclose(fitted.explained_variance_, whole.explained_variance_)
    with pytest.warns(kind, match="4 of 900"):
        moments = open_table(pa.Table.from_pandas(holed)).moments(
            open_table(pa.Table.from_pandas(holed)).assign("sex", missing=missing, folds=3)
        )
    streamed = clone(model).fit_moments(moments)
    for name in ("mean_gap", "variance"):
        np.testing.assert_allclose(
            fitted.cv_results_[f"mean_test_{name}"], streamed.cv_results_[f"mean_test_{name}"]
        )
    if missing == "drop-rows":
        kept = holed.dropna()
        again = clone(model).fit(kept[FEATURES], sensitive_features=kept["sex"])
        np.testing.assert_allclose(fitted.components_, again.components_, atol=1e-9)
    assert np.isfinite(fitted.transform(holed[FEATURES].dropna())).all()


def test_missing_groups_may_be_a_group_of_their_own(table):
    unknown = table.copy()
    unknown.loc[::9, "sex"] = None
    model = FairPCACV(**QUICK, estimator=FairPCA(missing_groups="own"))
    fitted = model.fit(unknown[FEATURES], sensitive_features=unknown["sex"])
    assert "missing" in fitted.moments_.levels("sex")


def test_columns_may_be_named_and_a_table_may_be_a_stream(table):
    expected = FairPCACV(**QUICK).fit(table[FEATURES], sensitive_features=table["sex"])
    named = FairPCACV(**QUICK).fit(table, sensitive_features="sex")
    stream = pa.Table.from_pandas(table).to_reader(max_chunksize=100)
    streamed = FairPCACV(**QUICK).fit(stream, sensitive_features="sex")
    for found in (named, streamed):
        assert found.best_params_ == expected.best_params_
        np.testing.assert_allclose(found.components_, expected.components_, atol=1e-9)
        assert found.other_columns_.tolist() == ["sex"]
        for model in (found, found.best_estimator_):
            scores = model.transform(table)
            np.testing.assert_allclose(scores, expected.transform(table[FEATURES]), atol=1e-8)


@pytest.mark.parametrize("kind", ["masked", "dates", "masked weights"])
def test_what_numpy_would_turn_into_numbers_is_refused_as_by_fair_pca(table, kind):
    X, weights = table[FEATURES].to_numpy(), np.ones(len(table))
    if kind == "masked":
        X = np.ma.masked_array(X, np.arange(X.size).reshape(X.shape) == 8)
    elif kind == "dates":
        X = table[FEATURES].assign(b=pd.Timestamp("2020-01-01"))
    else:
        weights = np.ma.masked_array(weights, np.arange(len(weights)) == 8)
    about = {"sensitive_features": table["sex"], "sample_weight": weights}
    with pytest.raises(InvalidInputError) as expected:
        FairPCA().fit(X, **about)
    with pytest.raises(InvalidInputError) as found:
        FairPCACV().fit(X, **about)
    assert str(found.value) == str(expected.value)
    assert "masked" in str(found.value) or "'b'" in str(found.value)


def test_mistakes(table):
    parts = {"sensitive_features": table["sex"]}
    with pytest.raises(InvalidInputError, match="no setting to try"):
        FairPCACV(mean_tols=()).fit(table[FEATURES], **parts)
    with pytest.raises(InvalidInputError, match="pass FoldedMoments"):
        FairPCACV().fit_moments(3)
    with pytest.raises(ValueError, match="sensitive_features was not given"):
        FairPCACV().fit(table[FEATURES])


GROUPLESS = FairPCA(missing_groups="ignore")


@parametrize_with_checks([FairPCACV(1, cov_weights=(0.0, 1.0), folds=2, estimator=GROUPLESS)])
def test_sklearn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cov_weights": ()}, "no setting to try: give numbers in cov_weights"),
        ({"n_components": ()}, "no setting to try: give numbers in n_components"),
        ({"cov_weights": ("x",)}, "cov_weights holds 'x'"),
        ({"mean_tols": ("x",)}, "mean_tols holds 'x'"),
    ],
)
def test_a_grid_that_cannot_be_meant_is_refused_by_its_name(options, message):
    X = np.random.default_rng(0).normal(size=(40, 3))
    with pytest.raises(InvalidInputError, match=message) as caught:
        FairPCACV(**options).fit(X, sensitive_features=np.arange(40) % 2)
    assert caught.value.parameter == next(iter(options))


def test_folds_that_leave_one_group_say_so():
    X = np.random.default_rng(0).normal(size=(60, 3))
    X[:20] = 1.0  # copies of a row share a fold
    with pytest.raises(InvalidInputError, match=r"without the rows of fold \d of 5") as caught:
        FairPCACV(1, folds=5).fit(X, sensitive_features=np.repeat(["a", "b"], [20, 40]))
    assert caught.value.parameter == "folds"


def test_without_a_grid_six_penalties_are_tried_and_limits_replace_them():
    rng = np.random.default_rng(1)
    X, z = rng.normal(size=(80, 3)), np.arange(80) % 2
    plain = FairPCACV(1).fit(X, sensitive_features=z)
    assert list(plain.cv_results_["param_cov_weight"]) == [0.0, 0.1, 0.3, 1.0, 3.0, 10.0]
    limited = FairPCACV(1, cov_tols=(0.1, 0.2)).fit(X, sensitive_features=z)
    assert list(limited.cv_results_["param_cov_tol"]) == [0.1, 0.2]


@pytest.mark.parametrize("rounding", [1e-15, -1e-15])
def test_rounding_does_not_choose_between_equal_settings(rounding):
    model, gaps = FairPCACV(), np.array([0.7, 0.7 * (1.0 + rounding), 0.9])
    model.cv_results_ = {
        f"mean_test_{model.figure}": gaps,
        f"error_test_{model.figure}": np.zeros(3),
        "mean_test_variance": np.array([0.6, 0.7, 0.8]),
    }
    assert model._best(["", "", ""]) == 1
