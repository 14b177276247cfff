"""The bound of a fit with a target against an interior-point solver on S + wλ₁T."""

import numpy as np
import pytest

from fairpca import FairPCA
from fairpca.estimators._target import _bounded, ridge
from fairpca.linalg import complement_basis
from fairpca.moments._targets import TargetMoments

cp = pytest.importorskip("cvxpy", reason="the reference extra is not installed")


@pytest.mark.parametrize(("seed", "weight"), [(0, 0.5), (1, 3.0)])
def test_bound_is_the_tight_relaxation_with_the_target(seed, weight):
    random = np.random.default_rng(seed)
    z = np.arange(300) % 2
    scale = np.where(z[:, None], np.linspace(2.0, 0.5, 6), np.linspace(0.5, 1.5, 6))
    X = random.normal(size=(300, 6)) * scale + np.outer(z, random.normal(size=6))
    y = X[:, 0] - X[:, 5] + random.normal(size=300)
    fair = FairPCA(2, target_weight=weight, cov_weight=3.0, tol=1e-7)
    fair.fit(X, y, sensitive_features=z)
    contrasts, S = fair.moments_.contrasts(), np.cov(X.T, bias=True)
    N = complement_basis(contrasts.mean_gaps, 1e-12)
    S, Q = N.T @ S @ N, N.T @ contrasts.cov_gaps[0] @ N
    x = (X - X.mean(0)) @ N
    penalties = 10.0 ** np.arange(-4, 5) * np.trace(S) / 5
    errors = []
    for penalty in penalties:
        hat = x @ np.linalg.solve(S + penalty * np.eye(5), x.T) / 300
        rest = y - y.mean() - hat @ (y - y.mean())
        errors.append(rest @ rest / (1 - (1 + np.trace(hat)) / 300) ** 2)
    best = penalties[int(np.argmin(errors))]
    u = np.linalg.solve(S + best * np.eye(5), x.T @ (y - y.mean()))
    u /= np.linalg.norm(u)
    paid = weight * np.linalg.eigvalsh(S)[-1]

    P, s, identity = cp.Variable((5, 5), symmetric=True), cp.Variable(nonneg=True), np.eye(5)
    constraints = [P >> 0, identity - P >> 0, cp.trace(P) == 2]
    for sign in (1.0, -1.0):
        values, vectors = np.linalg.eigh(sign * Q)
        shift = max(0.0, -values[0])
        R = (vectors * np.sqrt(np.maximum(values + shift, 0.0))) @ vectors.T
        constraints.append((shift + s) * identity - R @ P @ R >> 0)
    constraints.append(cp.abs(cp.trace(Q @ P)) <= 2 * s)
    problem = cp.Problem(
        cp.Maximize(cp.trace((S + paid * np.outer(u, u)) @ P) - 3.0 * s), constraints
    )
    problem.solve(solver=cp.CLARABEL)
    certificate = fair.certificate_
    with_target = certificate.objective + paid * fair.target_kept_
    # The bound may stop early where the basis attains it, and lies between the two.
    assert with_target <= certificate.bound + paid * fair.target_kept_ + 1e-9
    assert certificate.bound + paid * fair.target_kept_ <= problem.value * (1 + 1e-5)
    assert with_target <= problem.value * (1 + 1e-6)


@pytest.mark.parametrize("share", [0.9999, 0.5, 0.05, 1e-4])
def test_bounded_predictors_use_the_limit_up(share):
    rng = np.random.default_rng(4)
    values, G, F = rng.uniform(0.5, 3.0, 6), rng.normal(size=(6, 1)), rng.normal(size=(2, 6))
    _, free = _bounded(values, G, F, None, 500.0)
    limit = share * np.abs(F @ free).max()
    strength, directions = _bounded(values, G, F, limit, 500.0)
    assert np.abs(F @ directions).max() == pytest.approx(limit, rel=1e-8)
    np.testing.assert_allclose(_bounded(values, G, F, limit / share * 1.0001, 500.0)[1], free)
    # The strength is what the direction explains of G, with variances as they are.
    B = np.linalg.solve(np.diag(values + ridge(values, G, 500.0)), G)
    assert share < 0.9 or strength == pytest.approx(np.sum(values[:, None] * B**2), rel=1e-2)


@pytest.mark.parametrize(
    ("weight", "count"), [(7.0, 10), (10.0, 10), (40.0, 40), (99.0, 99), (101.0, 10)]
)
def test_weights_up_to_ten_on_average_count_repetitions(weight, count):
    assert TargetMoments(10, weight, *[np.zeros(1)] * 6).count == count
