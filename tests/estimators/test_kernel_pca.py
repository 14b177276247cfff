"""FairKernelPCA: what it equals, what it guarantees, and what it keeps."""

import pickle

import numpy as np
import pytest
import scipy.sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.decomposition import PCA, KernelPCA
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fairpca import FairKernelPCA, FairPCA
from fairpca.exceptions import FairnessWarning, InvalidInputError
from fairpca.kernels import SpectrumOptions
from fairpca.kernels._spaces import centred_spectrum

NOTHING = {"mean_tol": None, "cov_weight": 0.0}


def two_groups(n=60, p=4, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 2, n)
    X = rng.normal(size=(n, p)) * (1.0 + 0.5 * z[:, None]) + 0.4 * z[:, None]
    return X, z, rng.normal(size=(11, p))


def same_up_to_sign(actual, expected, atol):
    signs = np.sign(np.sum(actual * expected, axis=0))
    np.testing.assert_allclose(actual, expected * signs, atol=atol)


def gaps(U, z):
    one, zero = U[z == 1], U[z == 0]
    mean = np.linalg.norm(one.mean(axis=0) - zero.mean(axis=0))
    cov = np.linalg.norm(np.cov(one.T, bias=True) - np.cov(zero.T, bias=True), 2)
    return mean, cov


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "cosine"])
@pytest.mark.parametrize("missing", [True, False])
def test_without_constraints_it_is_kernel_pca(kernel, missing):
    X, z, new = two_groups()
    theirs = KernelPCA(3, kernel=kernel, gamma=0.3, degree=2).fit(X)
    ours = FairKernelPCA(
        3, kernel=kernel, gamma=0.3, kernel_params={"degree": 2}, missing_groups="ignore"
    )
    if missing:
        ours.fit(X)
    else:
        ours.set_params(**NOTHING).fit(X, sensitive_features=z)
    same_up_to_sign(ours.transform(X), theirs.transform(X), 1e-8)
    same_up_to_sign(ours.transform(new), theirs.transform(new), 1e-8)
    np.testing.assert_allclose(ours.explained_variance_ * len(X), theirs.eigenvalues_, rtol=1e-10)
    assert ours.certificate_.gap <= 1e-12


@pytest.mark.parametrize("kernel", sorted(PAIRWISE_KERNEL_FUNCTIONS))
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.PositiveSpectrumWarning")
def test_every_kernel_of_scikit_learn(kernel):
    X, z, new = two_groups()
    X, new = np.abs(X), np.abs(new)  # the chi-squared kernels know no negative numbers
    params = {"gamma": 0.3, "degree": 3, "coef0": 1}
    K = pairwise_kernels(X, metric=kernel, filter_params=True, **params)
    k = pairwise_kernels(new, X, metric=kernel, filter_params=True, **params)
    theirs = KernelPCA(3, kernel="precomputed").fit(K)
    ours = FairKernelPCA(3, kernel=kernel, gamma=0.3, **NOTHING).fit(X, sensitive_features=z)
    same_up_to_sign(ours.transform(new), theirs.transform(k), 1e-8)
    fair = FairKernelPCA(2, kernel=kernel, gamma=0.3).fit(X, sensitive_features=z)
    assert gaps(fair.transform(X), z)[0] <= 1e-8 * np.sqrt(fair.explained_variance_.sum())


@pytest.mark.parametrize("options", [{}, {"cov_weight": 0.0}, {"mean_tol": 0.2}, {"cov_tol": 0.5}])
@pytest.mark.parametrize("d", [1, 2])
def test_the_linear_kernel_is_fair_pca(options, d):
    X, z, new = two_groups(n=90, p=5)
    linear = FairPCA(d, **options).fit(X, sensitive_features=z)
    kernel = FairKernelPCA(d, kernel="linear", **options).fit(X, sensitive_features=z)
    directions = (X - X.mean(axis=0)).T @ kernel.coefficients_
    np.testing.assert_allclose(
        directions @ directions.T, linear.components_.T @ linear.components_, atol=1e-8
    )
    same_up_to_sign(kernel.transform(new), linear.transform(new), 1e-8)
    np.testing.assert_allclose(
        kernel.explained_variance_ratio_, linear.explained_variance_ratio_, atol=1e-9
    )
    assert kernel.certificate_.bound == pytest.approx(linear.certificate_.bound, rel=1e-6)


def test_the_constraints_hold_for_the_scores():
    X, z, _ = two_groups(n=120)
    fair = FairKernelPCA(2).fit(X, sensitive_features=z)
    mean, cov = gaps(fair.transform(X), z)
    assert mean <= 1e-12
    assert cov == pytest.approx(fair.cov_gap_, abs=1e-12)
    assert 0.0 <= fair.certificate_.gap <= 0.05
    plain = FairKernelPCA(2, **NOTHING).fit(X, sensitive_features=z)
    assert cov < 0.5 * gaps(plain.transform(X), z)[1]
    bounded = FairKernelPCA(2, mean_tol=0.05, cov_tol=0.01).fit(X, sensitive_features=z)
    mean, cov = gaps(bounded.transform(X), z)
    assert mean <= 0.05 + 1e-9
    assert cov <= 0.01 + 1e-9


def test_components_are_orthonormal_in_feature_space():
    X, z, _ = two_groups()
    fair = FairKernelPCA(3, gamma=0.2).fit(X, sensitive_features=z)
    alpha, K = fair.coefficients_, pairwise_kernels(X, metric="rbf", gamma=0.2)
    np.testing.assert_allclose(alpha.sum(axis=0), 0.0, atol=1e-10)
    np.testing.assert_allclose(alpha.T @ K @ alpha, np.eye(3), atol=1e-10)
    np.testing.assert_allclose(fair.components_ @ fair.components_.T, np.eye(3), atol=1e-12)
    assert fair.components_.shape == (3, len(fair.eigenvalues_))
    U = fair.transform(X)
    np.testing.assert_allclose(
        np.cov(U.T, bias=True), np.diag(fair.explained_variance_), atol=1e-12
    )
    assert fair.explained_variance_.sum() <= 0.5 * (1.0 - K.mean())  # all the variance of an RBF


def test_several_attributes_and_strata():
    X, z, _ = two_groups(n=160)
    rng = np.random.default_rng(1)
    region = rng.choice(["north", "south", "west"], len(X))
    stratum = rng.integers(0, 2, len(X))
    fair = FairKernelPCA(2, rank=40, compare="pairs").fit(
        X, sensitive_features=np.column_stack([z, region]).astype(object), control_features=stratum
    )
    assert len(fair.contrasts_["attribute"]) == 2 * (1 + 3)
    U = fair.transform(X)
    for inside in (stratum == 0, stratum == 1):
        assert gaps(U[inside], z[inside])[0] <= 1e-12
        for first, second in (("north", "south"), ("north", "west")):
            difference = U[inside & (region == first)].mean(0) - U[
                inside & (region == second)
            ].mean(0)
            assert np.abs(difference).max() <= 1e-12


@pytest.mark.parametrize("options", [{}, {"n_landmarks": 25}])
def test_weights_are_repetitions_and_zero_weights_are_absent(options):
    X, z, new = two_groups(n=50)
    w = np.random.default_rng(2).integers(0, 4, len(X))
    if options:  # landmarks are drawn from the rows: keep the draw out of the comparison
        options = {"n_landmarks": 50}
    weighted = FairKernelPCA(2, rank=20, **options).fit(X, sensitive_features=z, sample_weight=w)
    repeated = FairKernelPCA(2, rank=20).fit(
        np.repeat(X, w, axis=0), sensitive_features=z.repeat(w)
    )
    np.testing.assert_allclose(weighted.transform(new), repeated.transform(new), atol=1e-8)
    np.testing.assert_allclose(weighted.eigenvalues_, repeated.eigenvalues_, rtol=1e-9)


def test_the_inverse_with_weights_is_that_of_repeated_rows():
    X, z, _ = two_groups(n=40)
    w = np.random.default_rng(2).integers(1, 3, len(X))
    make = FairKernelPCA(2, inverse_alpha=0.1, rank=20)
    weighted = clone(make).fit(X, sensitive_features=z, sample_weight=w)
    repeated = clone(make).fit(np.repeat(X, w, axis=0), sensitive_features=z.repeat(w))
    U = weighted.transform(X)
    np.testing.assert_allclose(
        weighted.inverse_transform(U), repeated.inverse_transform(U), atol=1e-7
    )


def test_the_inverse_is_that_of_kernel_pca():
    X, z, new = two_groups()
    theirs = KernelPCA(3, kernel="rbf", fit_inverse_transform=True, alpha=0.1).fit(X)
    ours = FairKernelPCA(3, inverse_alpha=0.1, **NOTHING)
    ours.fit(X, sensitive_features=z)
    expected = theirs.inverse_transform(theirs.transform(new))
    np.testing.assert_allclose(ours.inverse_transform(ours.transform(new)), expected, atol=1e-8)
    landmarks = clone(ours).set_params(n_landmarks=30).fit(X, sensitive_features=z)
    U = landmarks.transform(X)
    assert np.mean((landmarks.inverse_transform(U) - X) ** 2) < np.mean((X - X.mean(0)) ** 2)


def test_precomputed_and_callable_kernels_agree_with_named_ones():
    X, z, new = two_groups()
    named = FairKernelPCA(2, gamma=0.3, rank=30).fit(X, sensitive_features=z)

    def gaussian(x, y, width):
        return np.exp(-width * np.sum((x - y) ** 2))

    called = FairKernelPCA(2, kernel=gaussian, kernel_params={"width": 0.3}, rank=30)
    called.fit(X, sensitive_features=z)
    K, k = named._anchors.kernel(X), named._anchors.kernel(new, X)
    kept = K.copy()
    given = FairKernelPCA(2, kernel="precomputed", rank=30).fit(K, sensitive_features=z)
    np.testing.assert_array_equal(K, kept)
    np.testing.assert_allclose(called.transform(new), named.transform(new), atol=1e-9)
    np.testing.assert_allclose(given.transform(k), named.transform(new), atol=1e-9)
    w = np.arange(len(X)) % 3
    weighted = clone(given).fit(K, sensitive_features=z, sample_weight=w)
    expected = clone(named).fit(X, sensitive_features=z, sample_weight=w)
    np.testing.assert_allclose(weighted.transform(k), expected.transform(new), atol=1e-9)


@pytest.mark.parametrize("rank", [8, 12])
def test_few_eigenpairs_are_those_of_the_whole_matrix(rank):
    X, _, _ = two_groups(n=250, p=3)  # below 10 of more than 200 they come from an iteration
    K = pairwise_kernels(X, metric="rbf", gamma=0.05)
    few = centred_spectrum(K.copy(), None, SpectrumOptions(rank, is_positive=True))
    whole = centred_spectrum(K.copy(), None, SpectrumOptions(None, is_positive=True))
    np.testing.assert_allclose(few.values, whole.values[:rank], rtol=1e-10)
    projector = whole.vectors[:, :rank] @ whole.vectors[:, :rank].T
    np.testing.assert_allclose(few.vectors @ few.vectors.T, projector, atol=1e-8)


def test_rank_keeps_the_largest_eigenvalues():
    X, z, _ = two_groups()
    full = FairKernelPCA(2).fit(X, sensitive_features=z)
    cut = FairKernelPCA(2, rank=10).fit(X, sensitive_features=z)
    np.testing.assert_allclose(cut.eigenvalues_, full.eigenvalues_[:10], rtol=1e-9)
    assert cut.components_.shape == (2, 10)
    assert cut.certificate_.objective <= full.certificate_.bound + 1e-12
    total = full.eigenvalues_.sum() / len(X)
    np.testing.assert_allclose(cut.explained_variance_ratio_ * total, cut.explained_variance_)


def test_as_many_components_as_there_is_room_for():
    X, z, _ = two_groups()
    assert FairKernelPCA(None, rank=6).fit(X, sensitive_features=z).components_.shape == (5, 6)
    assert FairKernelPCA(None, kernel="linear", **NOTHING).fit(
        X, sensitive_features=z
    ).components_.shape == (4, 4)


def test_types_are_kept_and_sparse_rows_are_read():
    X, z, new = two_groups()
    X[np.abs(X) < 0.7] = 0.0
    for landmarks in (None, 30):
        fair = FairKernelPCA(2, rank=20, n_landmarks=landmarks).fit(X, sensitive_features=z)
        assert fair.transform(new.astype(np.float32)).dtype == np.float32
        single = clone(fair).fit(X.astype(np.float32), sensitive_features=z)
        np.testing.assert_allclose(single.transform(new), fair.transform(new), atol=1e-4)
        sparse = clone(fair).fit(scipy.sparse.csr_array(X), sensitive_features=z)
        found = sparse.transform(scipy.sparse.csr_array(new))
        np.testing.assert_allclose(found, fair.transform(new), atol=1e-7)


def test_copies_and_pickles():
    X, z, new = two_groups()
    plain = FairKernelPCA(2, rank=20).fit(X, sensitive_features=z)
    again = pickle.loads(pickle.dumps(plain))
    np.testing.assert_array_equal(again.transform(new), plain.transform(new))
    twice = clone(plain).fit(X, sensitive_features=z)
    np.testing.assert_array_equal(twice.transform(new), plain.transform(new))


def test_groups_are_routed_through_a_pipeline():
    X, z, _ = two_groups()
    with config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), FairKernelPCA(2, rank=20), PCA(2))
        U = pipeline.fit_transform(X, sensitive_features=z)
    assert gaps(U, z)[0] <= 1e-12


def test_verbose_prints_the_certificate(capsys):
    X, z, _ = two_groups()
    FairKernelPCA(2, rank=10, verbose=1).fit(X, sensitive_features=z)
    assert capsys.readouterr().out.startswith("[FairKernelPCA] Certificate(")


# Rows far apart have equal kernel values: eigenvalues tie, and a basis keeps turning among them.
@pytest.mark.filterwarnings("ignore:solver=.*before its last digits settled")
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("landmarks", [None, 20])
def test_its_own_figures_at_any_scale_and_offset(kernel, scale, offset, landmarks):
    X, z, _ = two_groups()
    X = scale * (X + offset)
    fair = FairKernelPCA(2, kernel=kernel, mean_tol=None, n_landmarks=landmarks)
    U = fair.fit(X, sensitive_features=z).transform(X)
    unit = fair.explained_variance_.sum()
    mean, cov = gaps(U, z)
    assert abs(mean - fair.mean_gap_) <= 1e-8 * np.sqrt(unit)
    assert abs(cov - fair.cov_gap_) <= 1e-8 * unit
    assert np.abs(U.mean(axis=0)).max() <= 1e-8 * np.sqrt(unit)
    np.testing.assert_allclose(U.var(axis=0), fair.explained_variance_, atol=1e-8 * unit)


def test_a_kernel_that_keeps_few_digits_says_so():
    X, z, _ = two_groups()
    fair = FairKernelPCA(2, kernel="poly", mean_tol=None)
    with pytest.warns(FairnessWarning, match="centre and scale the features"):
        fair.fit(X + 1e6, sensitive_features=z)
    fair.fit(X, sensitive_features=z)


@pytest.mark.parametrize(
    "settings",
    [{"kernel": lambda a, b: np.nan}, {"kernel": "poly", "kernel_params": {"degree": 300}}],
)
def test_kernel_values_that_are_no_numbers(settings):
    X, z, _ = two_groups()
    with pytest.raises(InvalidInputError, match="values that are not finite"):
        FairKernelPCA(1, **settings).fit(1e3 * X, sensitive_features=z)


@pytest.mark.parametrize("kernel", ["poly", "linear"])
def test_scores_that_are_no_numbers(kernel):
    X, z, _ = two_groups()
    fair = FairKernelPCA(1, kernel=kernel).fit(X, sensitive_features=z)
    with pytest.raises(InvalidInputError, match="scores are no numbers"):
        fair.transform(np.full((1, 4), 1e308) * np.sign(fair.coefficients_.sum() + 0.5))
    linear = FairPCA(1, mean_tol=None).fit(X + X.sum(axis=1)[:, None], sensitive_features=z)
    with pytest.raises(InvalidInputError, match="scores are no numbers"):
        linear.transform(1.7e308 * np.sign(linear.components_))
