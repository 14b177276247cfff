"""More features than rows: the same results from moments in the span of the rows."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from support import projector, rewrite_npz

from fairpca import FairPCA, GroupMoments, load_model
from fairpca.exceptions import InvalidInputError
from fairpca.moments import group_moments


def wide_rows(n=40, p=150, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6)) @ rng.normal(size=(6, p)) + 0.3 * rng.normal(size=(n, p)) + 50.0
    frame = pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], n),
            "age": rng.normal(40.0, 9.0, n),
        }
    )
    X[frame["sex"] == "m"] += rng.normal(size=p)
    X[:, 3] = 7.0
    return X, frame, rng.integers(0, 2, n), rng.uniform(0.5, 2.0, n)


@pytest.fixture
def dense(monkeypatch):
    """Make moments by the path with matrices of all features, for comparison."""

    def make(*arguments, **options):
        with monkeypatch.context() as patch:
            patch.setattr(group_moments, "MIN_FEATURES", 10**9)
            return GroupMoments.from_arrays(*arguments, **options)

    return make


def assert_same(found, expected, tolerance=1e-9):
    for name, one in (("mean", found.pooled().mean), ("covariance", found.pooled().covariance)):
        other = getattr(expected.pooled(), name)
        np.testing.assert_allclose(
            one, other, rtol=0, atol=tolerance * max(np.abs(other).max(), 1.0)
        )
    for one, other in zip(found.contrasts(), expected.contrasts(), strict=True):
        assert (one.label, one.n_positive, one.status) == (
            other.label,
            other.n_positive,
            other.status,
        )
        np.testing.assert_allclose(one.mean_gap, other.mean_gap, atol=tolerance)
        scale = np.abs(other.cov_gap).max()
        np.testing.assert_allclose(one.cov_gap, other.cov_gap, rtol=0, atol=tolerance * scale)


def test_moments_in_the_span_are_the_moments(dense):
    X, z, y, w = wide_rows()
    found = GroupMoments.from_arrays(X, z, y, w)
    assert len(found.span) == 39
    assert next(iter(found.table.cells.values())).scatter.shape == (39, 39)
    assert_same(found, dense(X, z, y, w))


def test_standardised_moments_too(dense):
    X, z, *_ = wide_rows()
    found, expected = GroupMoments.from_arrays(X, z), dense(X, z)
    np.testing.assert_allclose(
        found.standardization().scale, expected.standardization().scale, rtol=1e-12
    )
    assert found.standardization().scale[3] == 1.0
    assert_same(found.standardized(), expected.standardized())


@pytest.mark.parametrize("sizes", [[20, 20], [1, 5, 34], [10, 10, 10, 10]])
def test_batches_bring_new_directions(dense, sizes):
    X, z, *_ = wide_rows()
    ends = np.cumsum(sizes)
    parts = [
        GroupMoments.from_arrays(X[end - size : end], z[end - size : end])
        for end, size in zip(ends, sizes, strict=True)
    ]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    assert len(total.span) == 39
    assert_same(total, dense(X, z))
    backward = parts[-1]
    for part in parts[-2::-1]:
        backward = backward + part
    assert_same(backward, dense(X, z))


def test_directions_that_both_batches_have_are_counted_once(dense):
    rng = np.random.default_rng(5)
    X = 2.0 + rng.normal(size=(40, 6)) @ rng.normal(size=(6, 150))
    z = np.arange(40) % 2
    parts = [GroupMoments.from_arrays(X[k : k + 10], z[k : k + 10]) for k in range(0, 40, 10)]
    total = parts[0] + parts[1] + (parts[2] + parts[3])
    assert len(parts[0].span) == len(total.span) == 6
    basis = total.span.basis
    np.testing.assert_allclose(basis @ basis.T, np.eye(6), atol=1e-12)
    assert_same(total, dense(X, z))


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_batches_bring_new_directions_in_any_unit(unit):
    X, z, *_ = wide_rows()
    parts = [GroupMoments.from_arrays(unit * X[k::2], z[k::2]) for k in (0, 1)]
    total = parts[0] + parts[1]
    assert len(total.span) == 39
    variance = total.expanded().pooled().covariance.trace()
    assert variance == pytest.approx(unit**2 * X.var(axis=0).sum(), rel=1e-12)


def test_enough_rows_end_the_span(dense):
    X, z, *_ = wide_rows(n=200)
    parts = [GroupMoments.from_arrays(X[i : i + 50], z[i : i + 50]) for i in range(0, 200, 50)]
    total = parts[0] + parts[1] + (parts[2] + parts[3])
    assert total.span is None
    assert_same(total, dense(X, z))
    assert_same(dense(X[:100], z[:100]) + parts[2] + parts[3], dense(X, z))


@pytest.mark.parametrize("options", [{}, {"cov_tol": 5.0}, {"cov_weight": 0.0}])
def test_a_fit_is_the_fit_of_all_features(dense, options):
    X, z, y, w = wide_rows(60)
    fair = FairPCA(3, **options).fit(
        X, sensitive_features=z["sex"], control_features=y, sample_weight=w
    )
    other = FairPCA(3, **options).fit_moments(dense(X, z["sex"], y, w))
    assert fair.certificate_.objective == pytest.approx(other.certificate_.objective, rel=1e-7)
    assert fair.certificate_.bound == pytest.approx(other.certificate_.bound, rel=1e-3)
    np.testing.assert_allclose(fair.mean_, other.mean_, rtol=1e-12)
    np.testing.assert_allclose(
        fair.explained_variance_ratio_, other.explained_variance_ratio_, rtol=1e-5
    )
    np.testing.assert_allclose(
        projector(fair.components_.T), projector(other.components_.T), atol=1e-4
    )
    assert fair.contrasts_["cov_gap_before"] == pytest.approx(other.contrasts_["cov_gap_before"])
    U = fair.transform(X)
    np.testing.assert_allclose(fair.inverse_transform(U).mean(axis=0).shape, X.shape[1])


def test_batches_give_the_fit_of_all_rows():
    X, z, *_ = wide_rows(60)
    batched = FairPCA(2)
    for start in range(0, 60, 20):
        rows = slice(start, start + 20)
        batched.partial_fit(X[rows], sensitive_features=z["sex"][rows])
    whole = FairPCA(2).fit(X, sensitive_features=z["sex"])
    assert batched.certificate_.objective == pytest.approx(whole.certificate_.objective, rel=1e-6)


def test_sparse_rows():
    X, z, *_ = wide_rows()
    X = np.where(np.abs(X - 50) > 2, X - 50, 0.0)
    dense_fit = FairPCA(2).fit(X, sensitive_features=z["sex"])
    sparse_fit = FairPCA(2).fit(scipy.sparse.csr_array(X), sensitive_features=z["sex"])
    np.testing.assert_allclose(sparse_fit.components_, dense_fit.components_, atol=1e-6)


def test_files_keep_the_span(tmp_path):
    X, z, *_ = wide_rows()
    fair = FairPCA(2).fit(X, sensitive_features=z["sex"])
    again = load_model(fair.save(tmp_path / "model", with_moments=True))
    np.testing.assert_array_equal(again.moments_.span.basis, fair.moments_.span.basis)
    np.testing.assert_array_equal(again.transform(X), fair.transform(X))
    again.partial_fit(X[::-1] + 1.0, sensitive_features=z["sex"][::-1])
    assert again.moments_.n_samples == 80
    path = fair.moments_.save(tmp_path / "moments")
    rewrite_npz(path, lambda _, arrays: arrays.update(span_basis=1.01 * arrays["span_basis"]))
    with pytest.raises(InvalidInputError, match=r"damaged.*not orthonormal"):
        GroupMoments.load(path)


def test_more_components_than_the_span_offers_are_directions_without_variance():
    X, z, *_ = wide_rows(n=8)
    fair = FairPCA(10, cov_weight=0.0).fit(X, sensitive_features=z["sex"])
    assert fair.components_.shape == (10, 150)
    np.testing.assert_allclose(fair.components_ @ fair.components_.T, np.eye(10), atol=1e-10)
    np.testing.assert_allclose(fair.explained_variance_[6:], 0.0, atol=1e-9)
    np.testing.assert_allclose(fair.transform(X)[:, 6:], 0.0, atol=1e-7)
    assert fair.mean_gap_ < 1e-9


def test_no_matrix_of_all_features_is_formed():
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(30, 4000)), np.arange(30) % 2  # 128 MB would be such a matrix
    tracemalloc.start()
    fair = FairPCA(2).fit(X, sensitive_features=z)
    fair.inverse_transform(fair.transform(X))
    halves = FairPCA(2).partial_fit(X[:15], sensitive_features=z[:15])
    halves.partial_fit(X[15:], sensitive_features=z[15:])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6


def test_indicators_beside_many_columns(tmp_path):
    from fairpca.tables import moments_from_files

    X, z, *_ = wide_rows(12)
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(150)])
    frame = frame.assign(town=["a", "b"] * 4 + ["c"] * 4, sex=z["sex"])
    parts = [frame[:6], frame[6:]]
    for number, part in enumerate(parts):
        part.to_csv(tmp_path / f"{number}.csv", index=False)
    found = moments_from_files(tmp_path, "sex", list(frame.columns[:150]), categorical=["town"])
    wide = pd.concat([frame.iloc[:, :150], pd.get_dummies(frame["town"]).astype(float)], axis=1)
    assert found.feature_names[-3:] == ("town=a", "town=b", "town=c")
    expected = np.cov(wide.to_numpy().T, bias=True)
    np.testing.assert_allclose(found.pooled().covariance, expected, atol=1e-9)
