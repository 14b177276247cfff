"""formulation="paper" against the printed semidefinite program, solved by Clarabel."""

import numpy as np
import pytest
import scipy.linalg
from sklearn.metrics.pairwise import pairwise_kernels

from fairpca import FairKernelPCA

cvxpy = pytest.importorskip("cvxpy")


def rows(seed, n, p=3):
    rng = np.random.default_rng(seed)
    z = np.arange(n) % 3 == 0
    return rng.normal(size=(n, p)) * (1.0 + 0.7 * z[:, None]) + 0.5 * z[:, None], z


def printed(K, z):
    """Q_k and f_k, term by term as in the paper."""
    plus, minus = K[:, z], K[:, ~z]
    f = plus.mean(axis=1) - minus.mean(axis=1)
    return f, plus @ plus.T - minus @ minus.T


def solve_printed(K, f, Q, d, mu, phi, delta):
    """Value and optimal P of (7) with K² as objective; δ = 0 by elimination, for an interior."""
    n = len(K)
    N = scipy.linalg.null_space(f[None]) if delta == 0.0 else np.eye(n)
    size = N.shape[1]
    P, t = cvxpy.Variable((size, size), symmetric=True), cvxpy.Variable()
    constraints = [cvxpy.trace(P) <= d, P >> 0, np.eye(size) - P >> 0]
    if delta > 0.0:
        constraints.append(cvxpy.trace(P @ np.outer(f, f)) <= delta**2)
    for sign in (1.0, -1.0):
        values, E = np.linalg.eigh(N.T @ (sign * Q + phi * np.eye(n)) @ N)
        M = (E * np.sqrt(np.maximum(values, 0.0))) @ E.T
        block = cvxpy.bmat([[t * np.eye(size), P @ M], [(P @ M).T, np.eye(size)]])
        constraints.append(0.5 * (block + block.T) >> 0)
    problem = cvxpy.Problem(cvxpy.Maximize(cvxpy.trace(N.T @ K @ K @ N @ P) - mu * t), constraints)
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    assert problem.status == "optimal"
    return problem.value, N @ P.value @ N.T


@pytest.mark.parametrize(
    ("kernel", "n", "d", "mu", "relative_delta"),
    [
        ("rbf", 14, 2, 1.0, 0.0),
        ("rbf", 12, 1, 0.3, 0.0),
        ("rbf", 12, 2, 0.5, 0.3),
        ("linear", 16, 2, 1.0, 0.0),
        ("poly", 12, 2, 0.2, 0.0),
    ],
)
def test_the_printed_program(kernel, n, d, mu, relative_delta):
    # With as many dimensions as components there is one basis, and no program is solved.
    X, z = rows(n, n, 5 if kernel == "linear" else 3)
    K = pairwise_kernels(X, metric=kernel)
    H = np.eye(n) - 1.0 / n
    K = H @ K @ H
    f, Q = printed(K, z)
    phi, delta = np.linalg.norm(Q, 2), relative_delta * np.linalg.norm(f)
    value, P = solve_printed(K / np.sqrt(n), f, Q / n, d, mu, phi / n, delta)

    fair = FairKernelPCA(
        d,
        kernel="precomputed",
        formulation="paper",
        solver="paper",
        mean_tol=delta,
        cov_weight=mu,
        solver_options={"cov_shift": phi / n, "tol": 1e-6, "max_iter": 50_000},
    ).fit(K, sensitive_features=z)
    found = fair.certificate_
    scale = abs(value) + mu * phi / n
    assert abs(found.relaxed_objective - mu * phi / n - value) <= 1e-5 * scale
    assert abs(found.bound - mu * phi / n - value) <= 1e-5 * scale

    # The coefficients are the top eigenvectors of the optimal P wherever those are determined.
    values, vectors = np.linalg.eigh(P)
    if values[-d] - values[-d - 1] > 0.05:
        expected = vectors[:, -d:] @ vectors[:, -d:].T
        actual = fair.coefficients_ @ fair.coefficients_.T
        np.testing.assert_allclose(actual, expected, atol=2e-3)


def test_what_is_kept_is_what_is_printed():
    X, z = rows(3, 20)
    fair = FairKernelPCA(2, formulation="paper", gamma=0.4).fit(X, sensitive_features=z)
    K = pairwise_kernels(X, metric="rbf", gamma=0.4)
    K = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    f, Q = printed(K, z)
    alpha = fair.coefficients_
    np.testing.assert_allclose(alpha.T @ alpha, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(fair.transform(X), K @ alpha, atol=1e-12)
    assert np.linalg.norm(alpha.T @ f) <= 1e-12
    gap = np.linalg.norm(alpha.T @ Q @ alpha, 2) / 20
    assert fair.cov_gap_ == pytest.approx(gap, abs=1e-12)
    np.testing.assert_allclose(
        fair.explained_variance_, np.diag(alpha.T @ K @ K @ alpha) / 20, rtol=1e-10
    )
    assert fair.explained_variance_ratio_.sum() <= 1.0
    objective = np.trace(alpha.T @ K @ K @ alpha) / 20 - gap
    assert fair.certificate_.objective == pytest.approx(objective, rel=1e-10)


def test_several_attributes_and_a_number():
    X, z = rows(5, 20)
    K = pairwise_kernels(X, metric="rbf")
    K = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    age = np.linspace(20.0, 60.0, 20)
    second = np.arange(20) % 2 == 0
    fair = FairKernelPCA(2, kernel="precomputed", formulation="paper").fit(
        K, sensitive_features=np.column_stack([z, second, age]).astype(object)
    )
    alpha, scaled = fair.coefficients_, (age - age.mean()) / age.std()
    for side in (z, second):
        f, Q = printed(K, side)
        assert np.linalg.norm(alpha.T @ f) <= 1e-12
        assert np.linalg.norm(alpha.T @ Q @ alpha, 2) / 20 <= fair.cov_gap_ + 1e-12
    assert np.linalg.norm(alpha.T @ K @ scaled) <= 1e-10
    numeric = alpha.T @ (K * scaled) @ K @ alpha / 20
    assert fair.contrasts_["cov_gap"][2] == pytest.approx(np.linalg.norm(numeric, 2), abs=1e-12)
