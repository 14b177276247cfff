"""The estimator: its attributes, its ways of being fitted, and what it refuses."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from support import projector

from fairpca import DeltaFairPCA, FairPCA, GroupMoments
from fairpca.estimators import FairPCACV
from fairpca.exceptions import (
    ExtremeRowsWarning,
    GroupsError,
    InfeasibleError,
    InvalidInputError,
    NotFittedYetWarning,
    SmallGroupWarning,
)
from fairpca.rows import Rows


@pytest.fixture(scope="module")
def diabetes():
    X = load_diabetes(scaled=False).data
    sex = (X[:, 1] == 2).astype(int)
    X = np.delete(X, 1, axis=1)
    return (X - X.mean(axis=0)) / X.std(axis=0), sex


def groups_apart(U, z):
    mean = U[z == 1].mean(axis=0) - U[z == 0].mean(axis=0)
    cov = np.cov(U[z == 1].T, bias=True) - np.cov(U[z == 0].T, bias=True)
    return np.linalg.norm(mean), np.linalg.norm(np.atleast_2d(cov), 2)


def test_attributes_describe_the_transformed_rows(diabetes):
    X, sex = diabetes
    fair = FairPCA(3).fit(X, sensitive_features=sex)
    U = fair.transform(X)
    mean_gap, cov_gap = groups_apart(U, sex)
    assert mean_gap <= 1e-10
    assert fair.mean_gap_ <= 1e-10
    assert fair.cov_gap_ == pytest.approx(cov_gap)
    np.testing.assert_allclose(U.var(axis=0), fair.explained_variance_)
    np.testing.assert_allclose(np.cov(U.T, bias=True), np.diag(fair.explained_variance_), atol=1e-9)
    np.testing.assert_allclose(
        fair.explained_variance_ratio_, fair.explained_variance_ / X.var(axis=0).sum()
    )
    np.testing.assert_allclose(fair.mean_, X.mean(axis=0), atol=1e-12)
    assert fair.n_iter_ >= 1
    certificate = fair.certificate_
    assert certificate.objective == pytest.approx(fair.explained_variance_.sum() - fair.cov_gap_)
    table = fair.contrasts_
    assert table["positive"] == ["1"]
    assert table["n_positive"] == [int(sex.sum())]
    assert table["mean_gap"][0] <= 1e-10 < table["mean_gap_before"][0]
    assert table["cov_gap"][0] == pytest.approx(fair.cov_gap_)
    assert len({len(column) for column in table.values()}) == 1


def test_projection_and_back(diabetes):
    X, sex = diabetes
    fair = FairPCA(3).fit(X, sensitive_features=sex)
    U = fair.transform(X)
    np.testing.assert_allclose(fair.transform(fair.inverse_transform(U)), U, atol=1e-10)
    whitened = clone(fair).set_params(whiten=True).fit(X, sensitive_features=sex)
    np.testing.assert_allclose(whitened.transform(X).var(axis=0), 1.0)
    np.testing.assert_allclose(
        whitened.inverse_transform(whitened.transform(X)), fair.inverse_transform(U), atol=1e-10
    )
    with pytest.raises(InvalidInputError, match="2 columns, but there are 3 components"):
        fair.inverse_transform(U[:, :2])


def test_plain_pca_without_groups(diabetes):
    X, _ = diabetes
    plain = FairPCA(3, missing_groups="ignore").fit(X)
    reference = PCA(3).fit(X)
    np.testing.assert_allclose(
        projector(plain.components_.T), projector(reference.components_.T), atol=1e-10
    )
    np.testing.assert_allclose(plain.explained_variance_ratio_, reference.explained_variance_ratio_)
    assert plain.contrasts_["attribute"] == []


LABELS = {
    "zero-one": lambda z: z,
    "plus-minus": lambda z: 2 * z - 1,
    "floats": lambda z: z.astype(float),
    "boolean": lambda z: z.astype(bool),
    "strings": lambda z: np.where(z, "male", "female"),
    "list": lambda z: ["m" if v else "f" for v in z],
    "pandas strings": lambda z: pd.Series(np.where(z, "male", "female"), name="sex"),
    "unused level": lambda z: pd.Series(
        pd.Categorical(np.where(z, "m", "f"), categories=["f", "m", "x"])
    ),
    "polars": lambda z: pl.Series("sex", np.where(z, "male", "female")),
    "frame": lambda z: pd.DataFrame({"sex": np.where(z, "male", "female")}),
    "column": lambda z: z[:, None],
}


@pytest.mark.parametrize("encode", LABELS.values(), ids=LABELS.keys())
def test_every_spelling_of_two_groups_gives_the_same(diabetes, encode):
    X, sex = diabetes
    reference = FairPCA(2, certify=False).fit(X, sensitive_features=sex)
    fair = FairPCA(2, certify=False).fit(X, sensitive_features=encode(sex))
    np.testing.assert_allclose(fair.components_, reference.components_, atol=1e-9)


def test_names_reach_the_results(diabetes):
    X, sex = diabetes
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(9)])
    groups = pd.Series(np.where(sex, "male", "female"), name="sex")
    fair = FairPCA(2).fit(frame, sensitive_features=groups)
    assert fair.contrasts_["attribute"] == ["sex"]
    assert (fair.contrasts_["positive"], fair.contrasts_["negative"]) == (["male"], ["female"])
    assert fair.feature_names_in_.tolist() == list(frame.columns)
    assert fair.get_feature_names_out().tolist() == ["fairpca0", "fairpca1"]
    out = fair.set_output(transform="pandas").transform(frame)
    assert out.columns.tolist() == ["fairpca0", "fairpca1"]


def test_float32_in_float32_out(diabetes):
    X, sex = diabetes
    fair = FairPCA(2, certify=False).fit(X.astype(np.float32), sensitive_features=sex)
    U = fair.transform(X.astype(np.float32))
    assert U.dtype == np.float32
    assert fair.inverse_transform(U).dtype == np.float32
    assert fair.transform(X).dtype == np.float64
    reference = FairPCA(2, certify=False).fit(X, sensitive_features=sex).transform(X)
    np.testing.assert_allclose(U, reference, atol=1e-4)


@pytest.mark.parametrize("options", [{}, {"cov_tol": 0.05}, {"mean_tol": 0.1}])
def test_weights_equal_repetition(diabetes, options):
    X, sex = diabetes
    weight = np.random.default_rng(0).integers(0, 4, len(X))
    weighted = FairPCA(2, **options).fit(X, sensitive_features=sex, sample_weight=weight)
    repeated = FairPCA(2, **options).fit(
        np.repeat(X, weight, axis=0), sensitive_features=np.repeat(sex, weight)
    )
    np.testing.assert_allclose(weighted.components_, repeated.components_, atol=1e-7)
    np.testing.assert_allclose(weighted.transform(X), repeated.transform(X), atol=1e-7)


def test_batches_equal_one_fit(diabetes):
    X, sex = diabetes
    whole = FairPCA(2, certify=False).fit(X, sensitive_features=sex)
    batched = FairPCA(2, certify=False)
    for rows in np.array_split(np.arange(len(X)), 5):
        batched.partial_fit(X[rows], sensitive_features=sex[rows])
    np.testing.assert_allclose(batched.components_, whole.components_, atol=1e-7)
    moments = sum(
        (GroupMoments.from_arrays(X[r], sex[r]) for r in (slice(9, 200), slice(200, None))),
        start=GroupMoments.from_arrays(X[:9], sex[:9]),
    )
    from_moments = FairPCA(2, certify=False).fit_moments(moments)
    np.testing.assert_allclose(from_moments.components_, whole.components_, atol=1e-7)


def test_batches_sorted_by_group(diabetes):
    X, sex = diabetes
    order = np.argsort(sex)
    X, sex = X[order], sex[order]
    batched = FairPCA(2, certify=False)
    batched.partial_fit(X[:50], sensitive_features=sex[:50])
    with pytest.raises(NotFittedError):
        batched.transform(X)
    batched.partial_fit(X[50:], sensitive_features=sex[50:])
    whole = FairPCA(2, certify=False).fit(X, sensitive_features=sex)
    np.testing.assert_allclose(batched.components_, whole.components_, atol=1e-7)


def test_batches_of_one_row_add_up(diabetes):
    X, sex = diabetes
    rows = np.concatenate([np.flatnonzero(sex == label)[:12] for label in np.unique(sex)])
    batched = FairPCA(1, cov_weight=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # single rows have no covariance
        for row in rows:
            batched.partial_fit(X[[row]], sensitive_features=sex[[row]])
    whole = FairPCA(1, cov_weight=0.0).fit(X[rows], sensitive_features=sex[rows])
    assert batched.moments_.n_samples == len(rows)
    np.testing.assert_allclose(batched.components_, whole.components_, atol=1e-8)


def test_a_batch_that_allows_no_fit_yet_is_kept():
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(400, 4)), np.arange(400) % 2
    X[:20] *= 1 + 4 * z[:20, None]  # in these rows one group spreads more in every direction
    settings = {"n_components": 3, "mean_tol": None, "cov_tol": 3.0}
    with pytest.warns(ExtremeRowsWarning, match="of 400"):
        fair = FairPCA(**settings).fit(X, sensitive_features=z)
    batched = FairPCA(**settings)
    with pytest.warns(NotFittedYetWarning, match=r"20 rows so far are kept.*cov_tol=3 cannot"):
        batched.partial_fit(X[:20], sensitive_features=z[:20])
    with pytest.raises(NotFittedError):
        batched.transform(X)
    batched.partial_fit(X[20:], sensitive_features=z[20:])
    assert batched.moments_.n_samples == 400
    assert batched.certificate_.objective == pytest.approx(fair.certificate_.objective, rel=1e-6)


def test_fit_after_partial_fit_starts_anew(diabetes):
    X, sex = diabetes
    fair = FairPCA(2, certify=False).partial_fit(X[:200], sensitive_features=sex[:200])
    fair.fit(X[200:], sensitive_features=sex[200:])
    assert fair.moments_.n_samples == len(X) - 200


def test_fitting_twice_gives_the_same(diabetes):
    X, sex = diabetes
    fair = FairPCA(2, certify=False).fit(X, sensitive_features=sex)
    first = fair.components_.copy()
    np.testing.assert_array_equal(fair.fit(X, sensitive_features=sex).components_, first)


def test_a_constant_column_has_no_weight(diabetes):
    X, sex = diabetes
    padded = np.column_stack([X, np.full(len(X), 3.0)])
    fair = FairPCA(2, certify=False).fit(padded, sensitive_features=sex)
    np.testing.assert_allclose(fair.components_[:, -1], 0.0, atol=1e-9)
    reference = FairPCA(2, certify=False).fit(X, sensitive_features=sex)
    np.testing.assert_allclose(fair.transform(padded), reference.transform(X), atol=1e-7)


def test_duplicate_columns_share_their_weight(diabetes):
    X, sex = diabetes
    fair = FairPCA(2).fit(np.column_stack([X, X[:, 0]]), sensitive_features=sex)
    np.testing.assert_allclose(fair.components_[:, 0], fair.components_[:, -1], atol=1e-7)


def test_more_features_than_rows():
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(30, 80)), np.arange(30) % 2
    fair = FairPCA(3).fit(X, sensitive_features=z)
    assert groups_apart(fair.transform(X), z)[0] <= 1e-10
    assert fair.certificate_.bound_solved


@pytest.mark.parametrize("factor", [1e-12, 1e12])
@pytest.mark.parametrize("solver", ["refined", "deflation", "paper"])
def test_scale_of_the_features(diabetes, factor, solver):
    X, sex = diabetes
    reference = FairPCA(2, solver=solver, certify=False).fit(X, sensitive_features=sex)
    scaled = FairPCA(2, solver=solver, certify=False).fit(X * factor, sensitive_features=sex)
    np.testing.assert_allclose(scaled.components_, reference.components_, atol=1e-6)
    assert scaled.certificate_.gap == pytest.approx(reference.certificate_.gap, abs=1e-6)


def test_large_means_do_not_matter(diabetes):
    X, sex = diabetes
    reference = FairPCA(2, certify=False).fit(X, sensitive_features=sex)
    shifted = FairPCA(2, certify=False).fit(X + 1e6, sensitive_features=sex)
    np.testing.assert_allclose(shifted.components_, reference.components_, atol=1e-6)


def test_a_group_of_one_row_is_compared_by_its_mean_only(diabetes):
    X, _ = diabetes
    z = np.arange(len(X)) == 0
    with pytest.warns(SmallGroupWarning, match="1 row"):
        fair = FairPCA(2, min_group_size=2).fit(X, sensitive_features=z)
    assert fair.contrasts_["status"][0].startswith("mean only")
    assert fair.contrasts_["cov_gap"] == [None]
    assert groups_apart(fair.transform(X), z)[0] <= 1e-10


def test_not_converged_is_said_and_usable(diabetes):
    X, sex = diabetes
    with pytest.warns(ConvergenceWarning, match="Raise max_iter or tol"):
        fair = FairPCA(4, solver="tight", max_iter=2, tol=1e-9).fit(X, sensitive_features=sex)
    assert not fair.certificate_.bound_solved
    assert fair.certificate_.objective <= fair.certificate_.bound
    assert np.isfinite(fair.transform(X)).all()


def test_verbose_prints_the_certificate(diabetes, capsys):
    X, sex = diabetes
    FairPCA(2, verbose=1).fit(X, sensitive_features=sex)
    assert "(proven)" in capsys.readouterr().out


# What is refused, with one clear error before anything is computed.
X0 = np.random.default_rng(0).normal(size=(40, 4))
Z0 = np.arange(40) % 2


def with_value(value):
    X = X0.copy()
    X[3, 1] = value
    return X


def missing_label(value):
    labels = np.where(Z0, "a", "b").astype(object)
    labels[5] = value
    return labels


REFUSED = {
    "NaN": ({}, with_value(np.nan), Z0, ValueError, "NaN"),
    "infinity": ({}, with_value(np.inf), Z0, ValueError, "infinite"),
    "no groups given": ({}, X0, None, GroupsError, "sensitive_features was not given"),
    "one group": ({}, X0, np.ones(40), GroupsError, "single group"),
    "other length": ({}, X0, Z0[:-1], GroupsError, "39"),
    "None label": ({}, X0, missing_label(None), GroupsError, "missing"),
    "NaN label": ({}, X0, missing_label(np.nan), GroupsError, "missing"),
    "pandas missing": ({}, X0, pd.Series(missing_label(None)), GroupsError, "missing"),
    "too many components": (
        {"n_components": 4},
        X0,
        Z0,
        InfeasibleError,
        "leave 3 of n_features=4",
    ),
    "more components than features": (
        {"n_components": 5},
        X0,
        Z0,
        InvalidInputError,
        "n_features=4",
    ),
    "both forms": (
        {"cov_tol": 0.1, "cov_weight": 1.0},
        X0,
        Z0,
        InvalidInputError,
        "both set",
    ),
    "negative tolerance": ({"mean_tol": -0.1}, X0, Z0, ValueError, "mean_tol"),
    "text tolerance": ({"cov_tol": "small"}, X0, Z0, ValueError, "cov_tol"),
    "paper with cov_tol": (
        {"solver": "paper", "cov_tol": 0.1, "n_components": 1},
        X0,
        Z0,
        InvalidInputError,
        "no constrained form",
    ),
    "unattainable cov_tol": (
        {"n_components": 3, "cov_tol": 0.0},
        X0,
        Z0,
        InfeasibleError,
        "smallest attainable covariance gap",
    ),
}


@pytest.mark.parametrize(
    ("options", "X", "z", "error", "message"), REFUSED.values(), ids=REFUSED.keys()
)
def test_refused(options, X, z, error, message):
    fair = FairPCA(**({"n_components": 2} | options))
    with pytest.raises(error, match=message):
        fair.fit(X, sensitive_features=z)
    assert not hasattr(fair, "components_")


def test_refused_weights():
    for weight, message in ((-np.ones(40), "sample_weight"), (np.zeros(40), "sample_weight")):
        with pytest.raises(ValueError, match=message):
            FairPCA(2).fit(X0, sensitive_features=Z0, sample_weight=weight)


def test_fit_moments_wants_moments():
    with pytest.raises(InvalidInputError, match="pass a GroupMoments"):
        FairPCA(2).fit_moments(X0)
    without_groups = GroupMoments.from_rows(Rows(X0))
    with pytest.raises(GroupsError, match="missing_groups='ignore'"):
        FairPCA(2).fit_moments(without_groups)
    plain = FairPCA(2, missing_groups="ignore").fit_moments(without_groups)
    assert plain.transform(X0).shape == (40, 2)


def test_sparse_rows_give_the_same_as_dense_ones():
    fair = FairPCA(2).fit(scipy.sparse.csr_array(X0), sensitive_features=Z0)
    dense = FairPCA(2).fit(X0, sensitive_features=Z0)
    np.testing.assert_allclose(fair.components_, dense.components_, atol=1e-9)


def test_components_of_deflation_are_nested():
    rng = np.random.default_rng(0)
    z = np.arange(400) % 2
    X = rng.normal(size=(400, 8)) * (1 + z[:, None] * rng.uniform(0, 2, 8))
    X = X @ np.linalg.qr(rng.normal(size=(8, 8)))[0]
    few, many = (
        FairPCA(d, solver="deflation").fit(X, sensitive_features=z).components_ for d in (2, 4)
    )
    np.testing.assert_allclose(few @ many.T @ many, few, atol=1e-8)


@pytest.mark.parametrize(
    ("model", "parameter"),
    [
        (FairPCA(cov_weight=1.0, cov_tol=0.1), "cov_weight"),
        (FairPCA(objective="worst-loss", solver="tight"), "solver"),
        (DeltaFairPCA(delta=0.1, penalty=1.0), "penalty"),
        (FairPCACV(cov_tols=(0.1,), estimator=FairPCA(cov_weight=1.0)), "cov_weight"),
    ],
)
def test_parameters_that_contradict_each_other_are_refused_before_rows_are_read(model, parameter):
    with pytest.raises(InvalidInputError) as error:
        model.fit("no rows at all", sensitive_features="sex")
    assert error.value.parameter == parameter
