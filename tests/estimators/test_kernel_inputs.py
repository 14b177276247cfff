"""FairKernelPCA on input that is wrong, degenerate or too large."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.exceptions import NotFittedError, PositiveSpectrumWarning
from sklearn.metrics.pairwise import rbf_kernel

from fairpca import FairKernelPCA
from fairpca.exceptions import GroupsError, InfeasibleError, InvalidInputError, SmallGroupWarning
from fairpca.kernels import _anchors


def two_groups(n=40, p=3, seed=0):
    rng = np.random.default_rng(seed)
    z = np.arange(n) % 2
    return rng.normal(size=(n, p)) + 0.5 * z[:, None], z


def indefinite(n=40):
    """A symmetric matrix whose centred form has one eigenvalue of -3."""
    X, _ = two_groups(n)
    K = rbf_kernel(X)
    v = np.random.default_rng(1).normal(size=n)
    v -= v.mean()
    v /= np.linalg.norm(v)
    H = np.eye(n) - 1.0 / n
    P = H - np.outer(v, v)
    return P @ K @ P - 3.0 * np.outer(v, v), v


@pytest.mark.parametrize("rank", [None, 10])
def test_a_kernel_that_is_not_positive_is_said_and_clipped(rank):
    K, v = indefinite()
    _, z = two_groups()
    with pytest.warns(PositiveSpectrumWarning, match=r"most negative eigenvalue .* is -3,"):
        fair = FairKernelPCA(2, kernel="precomputed", rank=rank).fit(K, sensitive_features=z)
    assert (fair.eigenvalues_ > 0.0).all()
    assert np.abs(v @ fair.coefficients_).max() <= 1e-9
    assert fair.explained_variance_ratio_.sum() <= 1.0


def test_the_warning_points_at_the_caller():
    K, _ = indefinite()
    _, z = two_groups()
    with pytest.warns(PositiveSpectrumWarning) as caught:
        FairKernelPCA(2, kernel="precomputed", rank=10).fit(K, sensitive_features=z)
    assert caught[0].filename == __file__


def test_sigmoid_is_said_to_be_not_positive():
    X, z = two_groups()
    with pytest.warns(PositiveSpectrumWarning, match="not positive semidefinite"):
        FairKernelPCA(2, kernel="sigmoid", gamma=2.0).fit(X, sensitive_features=z)


def test_rounding_is_no_reason_to_warn():
    X, z = two_groups()
    for K in (rbf_kernel(X), rbf_kernel(X).astype(np.float32)):
        FairKernelPCA(2, kernel="precomputed").fit(K, sensitive_features=z)
    FairKernelPCA(2, kernel=lambda x, y: x @ y).fit(X, sensitive_features=z)


def test_precomputed_matrices_of_the_wrong_shape():
    X, z = two_groups()
    K = rbf_kernel(X)
    make = FairKernelPCA(2, kernel="precomputed")
    with pytest.raises(InvalidInputError, match=r"square kernel matrix .* shape \(40, 3\)"):
        make.fit(X, sensitive_features=z)
    with pytest.raises(InvalidInputError, match="not symmetric"):
        make.fit(K + np.triu(K), sensitive_features=z)
    fair = make.fit(K, sensitive_features=z)
    with pytest.raises(ValueError, match=r"39 features.* expecting 40"):
        fair.transform(K[:5, :39])
    with pytest.raises(InvalidInputError, match="precomputed"):
        FairKernelPCA(kernel="precomputed", inverse_alpha=1.0).fit(K, sensitive_features=z)


@pytest.mark.parametrize("gamma", [0.0, -1.0])
def test_gamma_must_be_positive(gamma):
    X, z = two_groups()
    with pytest.raises(ValueError, match=r"'gamma' parameter .* range \(0.0, inf\)"):
        FairKernelPCA(gamma=gamma).fit(X, sensitive_features=z)


def test_duplicate_rows_cost_nothing():
    X, z = two_groups(n=12)
    many = FairKernelPCA(2).fit(np.tile(X, (4, 1)), sensitive_features=np.tile(z, 4))
    once = FairKernelPCA(2).fit(X, sensitive_features=z)
    assert len(many.eigenvalues_) == len(once.eigenvalues_) == 11
    np.testing.assert_allclose(many.transform(X), once.transform(X), atol=1e-8)
    few = FairKernelPCA(2, n_landmarks=30).fit(np.tile(X, (4, 1)), sensitive_features=np.tile(z, 4))
    np.testing.assert_allclose(few.transform(X), once.transform(X), atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"n_landmarks": 15}, {"formulation": "paper"}])
def test_a_group_of_one_row_is_compared_by_its_mean(options):
    X, _ = two_groups()
    z = np.where(np.arange(len(X)) == 3, "only", "many")
    with pytest.warns(SmallGroupWarning, match="only"):
        fair = FairKernelPCA(2, min_group_size=2, **options).fit(X, sensitive_features=z)
    U = fair.transform(X)
    np.testing.assert_allclose(U[3], U[z == "many"].mean(axis=0), atol=1e-10)
    assert fair.contrasts_["cov_gap"] == [None]


def test_rows_that_are_all_alike():
    with pytest.raises(InvalidInputError, match="all rows are alike"):
        FairKernelPCA(1).fit(np.ones((6, 2)), sensitive_features=[0, 1] * 3)


def test_more_components_than_room():
    X, z = two_groups()
    with pytest.raises(InvalidInputError, match=r"n_components=4, .* 3 eigenvalues"):
        FairKernelPCA(4, kernel="linear").fit(X, sensitive_features=z)
    with pytest.raises(InfeasibleError, match="n_components=3 is too many"):
        FairKernelPCA(3, kernel="linear").fit(X, sensitive_features=z)


@pytest.mark.parametrize(
    ("options", "fit_options", "message"),
    [
        ({"cov_weight": 1.0, "cov_tol": 0.1}, {}, "both set"),
        ({"formulation": "paper", "n_landmarks": 10}, {}, "no n_landmarks"),
        ({"formulation": "paper"}, {"sample_weight": np.ones(40)}, "no sample_weight"),
        ({"n_landmarks": 2}, {"control_features": np.arange(40) % 4}, "below the number of groups"),
    ],
)
def test_what_does_not_go_together(options, fit_options, message):
    X, z = two_groups()
    with pytest.raises(InvalidInputError, match=message):
        FairKernelPCA(**options).fit(X, sensitive_features=z, **fit_options)


def test_groups_are_required_unless_told_otherwise():
    X, _ = two_groups()
    with pytest.raises(GroupsError, match="missing_groups='ignore'"):
        FairKernelPCA().fit(X)


def test_the_inverse_must_have_been_learned():
    X, z = two_groups()
    fair = FairKernelPCA(2)
    with pytest.raises(NotFittedError):
        fair.inverse_transform(np.zeros((2, 2)))
    fair.fit(X, sensitive_features=z)
    with pytest.raises(NotFittedError, match=r"set inverse_alpha=1\.0 and fit again"):
        fair.inverse_transform(np.zeros((2, 2)))
    fair.set_params(inverse_alpha=1.0).fit(X, sensitive_features=z)
    with pytest.raises(InvalidInputError, match=r"^inverse_alpha=1 needs dense .*X\.toarray"):
        fair.fit(csr_matrix(X), sensitive_features=z)
    with pytest.raises(InvalidInputError, match="3 columns, but there are 2 components"):
        fair.inverse_transform(np.zeros((2, 3)))


def test_a_matrix_that_does_not_fit_is_refused_before_it_is_built(monkeypatch):
    X, z = np.zeros((1_000_000, 1)), np.arange(1_000_000) % 2
    with pytest.raises(InvalidInputError, match=r"takes 7\.276 TiB, .*n_landmarks.*set rank"):
        FairKernelPCA(rank=None).fit(X, sensitive_features=z)
    X, z = two_groups()
    monkeypatch.setattr(_anchors, "machine_memory", lambda: 20_000)
    with pytest.raises(InvalidInputError, match=r"12\.5 KiB, and 25 KiB .*the machine has 19"):
        FairKernelPCA(rank=5).fit(X, sensitive_features=z)
    monkeypatch.setattr(_anchors, "machine_memory", lambda: 30_000)
    FairKernelPCA(rank=5).fit(X, sensitive_features=z)
    with pytest.raises(InvalidInputError, match=r"37\.5 KiB"):
        FairKernelPCA(rank=5, inverse_alpha=1.0).fit(X, sensitive_features=z)
    monkeypatch.undo()
    monkeypatch.setattr(_anchors.os, "sysconf", lambda name: 1)
    with pytest.raises(InvalidInputError, match="the machine has 1 bytes"):
        FairKernelPCA().fit(X, sensitive_features=z)


def test_a_container_has_the_memory_it_was_given(monkeypatch, tmp_path):
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(_anchors, "_CGROUP_LIMIT", limit)
    everything = _anchors.machine_memory()
    limit.write_text("max\n")
    assert _anchors.machine_memory() == everything > 0
    limit.write_text("1048576\n")
    assert _anchors.machine_memory() == 1048576
