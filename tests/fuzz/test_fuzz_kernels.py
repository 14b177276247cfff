"""Random tables through FairKernelPCA and DeltaFairPCA: what they say of themselves is so.

`run(tries, seed)` returns failures by class.
"""

import numpy as np
from fuzzing import campaign, same

from fairpca import DeltaFairPCA, FairKernelPCA
from fairpca.metrics import cov_gap, mean_gap


def make_rows(rng):
    """Rows at any scale and offset, two or three groups, weights or None."""
    n, p = int(rng.integers(12, 60)), int(rng.integers(1, 6))
    z = rng.integers(0, rng.integers(2, 4), n)
    X = rng.normal(size=(n, p)) * (1.0 + 0.3 * z[:, None]) + z[:, None] * rng.normal(size=p)
    if rng.random() < 0.2:
        X[: n // 3] = X[0]  # repeated rows
    weights = rng.integers(0, 3, n).astype(float) if rng.random() < 0.3 else None
    return X, z, weights


def moments(U, w):
    share = w / w.sum()
    mean = share @ U
    return mean, ((U - mean).T * share) @ (U - mean)


def check_kernel(rng, X, z, weights):
    X = 10.0 ** rng.uniform(-4, 4) * (X + rng.choice([0.0, 0.0, 1.0, 1e4]) * rng.normal())
    settings = {
        "kernel": str(rng.choice(["rbf", "rbf", "linear", "laplacian"])),
        "gamma": None if rng.random() < 0.5 else float(1.0 / X.var(axis=0).sum()),
        "n_landmarks": 10 if rng.random() < 0.3 else None,
        "mean_tol": rng.choice([0.0, None]),
        "cov_weight": float(rng.choice([0.0, 1.0])),
        "min_group_size": 2,
    }
    fair = FairKernelPCA(1, **settings).fit(X, sensitive_features=z, sample_weight=weights)
    U = fair.transform(X)
    w = np.ones(len(X)) if weights is None else weights
    ratio = fair.explained_variance_ratio_.sum()
    # What is kept of a billionth of the variance has fewer digits than the variance.
    unit = fair.explained_variance_.sum() * (1.0 + 1e-7 / max(ratio, 1e-300))
    mean, covariance = moments(U, w)
    asked = {"compare": "one-vs-rest", "sample_weight": weights}
    same(mean, np.zeros(1), "kernel: scores are centred", 1e-6, np.sqrt(unit))
    same(np.diag(covariance), fair.explained_variance_, "kernel: explained_variance_", 1e-6, unit)
    same(fair.mean_gap_, mean_gap(U, z, **asked), "kernel: mean_gap_", 1e-6, np.sqrt(unit))
    same(fair.cov_gap_, cov_gap(U, z, **asked), "kernel: cov_gap_", 1e-6, unit)
    assert 0.0 <= ratio <= 1.0 + 1e-9, "kernel: explained_variance_ratio_"
    assert fair.certificate_.bound >= fair.certificate_.objective, "kernel: bound"


def check_delta(rng, X, z, weights):
    z = np.minimum(z, 1)
    fair = DeltaFairPCA(1, penalty=float(rng.choice([0.0, 0.5])), random_state=0)
    fair.fit(X, sensitive_features=z, sample_weight=weights)
    U, V = fair.transform(X), fair.components_
    mean, covariance = moments(X, np.ones(len(X)) if weights is None else weights)
    unit = np.trace(covariance)
    same(V @ V.T, np.eye(1), "delta: components_ orthonormal", 1e-9)
    same(fair.mean_, mean, "delta: mean_", 1e-9, np.abs(X).max())
    same(U, (X - mean) @ V.T, "delta: transform", 1e-9, np.abs(X).max())
    same(fair.explained_variance_, np.diag(V @ covariance @ V.T), "delta: variance", 1e-7, unit)


def attempt(rng):
    X, z, weights = make_rows(rng)
    if len(np.unique(z if weights is None else z[weights > 0])) < 2:
        return
    (check_delta if rng.random() < 0.1 else check_kernel)(rng, X, z, weights)


def run(tries, seed):
    return campaign(attempt, tries, seed)


def test_kernels():
    assert run(40, seed=1) == {}
