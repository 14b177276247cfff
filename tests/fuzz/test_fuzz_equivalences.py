"""The same rows written in another way: every estimator and metric gives the same answer.

`run(tries, seed)` returns failures by class.
"""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from fuzzing import campaign, same
from scipy.sparse import csr_array, csr_matrix
from threadpoolctl import threadpool_limits

from fairpca import DeltaFairPCA, FairKernelPCA, FairPCA, FairPCACV, GroupMoments, SparseFairPCA
from fairpca.metrics import cov_gap, decision_rates, delta_fairness, gaussian_bound, mean_gap, mmd2

# Numbers that float32 has too, so that no presentation rounds them.
STEP = 1.0 / 64.0


def make_rows(rng):
    """Features, groups and whole weights."""
    n, p = int(rng.integers(12, 70)), int(rng.integers(2, 6))
    X = np.round(rng.normal(size=(n, p)) * rng.choice([1.0, 3.0], p) / STEP) * STEP
    z = rng.integers(0, rng.integers(2, 4), n)
    X[:, 0] += z
    X[rng.random((n, p)) < 0.2] = 0.0
    return X, z, rng.integers(1, 4, n).astype(float)


def make_model(rng, p):
    """An estimator with settings that matter, not fitted."""
    d = int(rng.integers(1, p))
    shared = {"standardize": bool(rng.random() < 0.4), "min_group_size": 2}
    form = {"cov_weight": float(rng.choice([0.0, 1.0, 4.0]))}
    kind = int(rng.choice([0, 0, 0, 1, 2, 3, 4]))
    if kind == 0:
        how = {"objective": "worst-loss"} if rng.random() < 0.2 else {}
        return FairPCA(d, **form, **how, **shared)
    if kind == 1:
        return SparseFairPCA(1, n_nonzero=p, **shared)
    if kind == 2:
        return FairKernelPCA(1, kernel="rbf", gamma=0.3, min_group_size=2, **form)
    if kind == 3:
        return FairPCACV(d, cov_weights=(0.0, 1.0), folds=2, estimator=FairPCA(**shared))
    return DeltaFairPCA(1, penalty=1.0, **shared)


def figures(model, X):
    """What is compared: gaps, variances, scores up to sign."""
    found = [model.mean_gap_, model.cov_gap_, *model.explained_variance_]
    return np.array(found), np.abs(model.transform(X))


def containers(rng, X):
    """The same matrix in another container, with the name of what changed."""
    names = [f"f{i}" for i in range(X.shape[1])]
    frozen = X.copy()
    frozen.flags.writeable = False
    wide = np.zeros((len(X), 2 * X.shape[1]))
    wide[:, ::2] = X
    ways = {
        "Fortran order": np.asfortranarray(X),
        "read-only": frozen,
        "strides": wide[:, ::2],
        "lists": X.tolist(),
        "csr_array": csr_array(X),
        "csr_matrix": csr_matrix(X),
        "csc": csr_array(X).tocsc(),
        "pandas": pd.DataFrame(X, columns=names),
        "pandas, other index": pd.DataFrame(X, columns=names, index=rng.permutation(len(X))),
        "polars": pl.DataFrame(X, schema=names),
        "pyarrow": pa.table(dict(zip(names, X.T, strict=True))),
        "float32": X.astype(np.float32),
        "big-endian": X.astype(">f8"),
    }
    name = str(rng.choice(list(ways)))
    return name, ways[name]


def check_container(rng, model, X, z, weights):
    """Bits are the same, so that the answer is the same to rounding."""
    name, other = containers(rng, X)
    z_other = pd.Series(z, index=other.index) if hasattr(other, "index") and name[0] == "p" else z
    one = fit(model, X, z, weights)
    two = fit(model, other, z_other, weights)
    unit = max(np.abs(X).max() ** 2, 1.0)
    tolerance = 1e-4 if name == "float32" else 1e-7
    for first, second in zip(figures(one, X), figures(two, other), strict=True):
        same(second, first, f"{type(model).__name__}: {name}", tolerance, unit)


def check_process(rng, model, X, z, weights):
    """A copy by pickle, and other numbers of threads."""
    one = fit(model, X, z, weights)
    again = pickle.loads(pickle.dumps(one))
    same(again.transform(X), one.transform(X), f"{type(model).__name__}: pickled", 0.0)
    with threadpool_limits(2):
        two = fit(model, X, z, weights)
    for first, second in zip(figures(one, X), figures(two, X), strict=True):
        same(
            second, first, f"{type(model).__name__}: threads", 1e-9, max(np.abs(X).max() ** 2, 1.0)
        )


def fit(model, X, z, weights):
    from sklearn.base import clone

    weight = {} if isinstance(model, FairKernelPCA | DeltaFairPCA) else {"sample_weight": weights}
    return clone(model).fit(X, sensitive_features=z, **weight)


def check_problem(rng, model, X, z, weights):
    """Other problems with the same optimum: no objective is above the bound of the other."""
    if type(model) is not FairPCA:
        return
    one = fit(model, X, z, weights).certificate_
    turn = np.linalg.qr(rng.normal(size=(X.shape[1],) * 2))[0]
    ways = {
        "labels": (X, np.array(["b", "a", "c"])[z], weights),
        "columns": (X[:, rng.permutation(X.shape[1])], z, weights),
        "weights scaled": (X, z, weights * 1e-3),
        "weights repeated": (
            np.repeat(X, weights.astype(int), 0),
            np.repeat(z, weights.astype(int)),
            None,
        ),
    }
    if model.standardize:
        ways["units"] = (X * 10.0 ** rng.uniform(-3, 3, X.shape[1]) + 5.0, z, weights)
    else:
        ways["rotation"] = (X @ turn, z, weights)
        ways["offset"] = (X + 1e4, z, weights)
    name = str(rng.choice(list(ways)))
    two = fit(model, *ways[name]).certificate_
    slack = 1e-6 * max(abs(one.bound), abs(two.bound), 1e-12) + 1e-9 * np.abs(X).max() ** 2
    assert two.bound >= one.objective - slack, f"{name}: bound below the other objective"
    assert one.bound >= two.objective - slack, f"{name}: objective above the other bound"


def check_batches(rng, model, X, z, weights):
    """Moments of batches in any order, and the fit from them."""
    parts = np.array_split(rng.permutation(len(X)), int(rng.integers(2, 5)))
    moments = [GroupMoments.from_arrays(X[part], z[part], None, weights[part]) for part in parts]
    total = sum(moments[1:], start=moments[0])
    whole = GroupMoments.from_arrays(X, z, None, weights)
    same(total.pooled().covariance, whole.pooled().covariance, "batches", 1e-12)
    if type(model) is FairPCA:
        one, two = (FairPCA(**model.get_params()).fit_moments(m) for m in (whole, total))
        same(
            two.certificate_.objective,
            one.certificate_.objective,
            "batches: fit",
            1e-6,
            np.abs(X).max() ** 2,
        )


def check_metrics(rng, model, X, z, weights):
    """Metrics do not see order, names, units of weights, and linear ones no invertible map."""
    U = X[:, :2] if rng.random() < 0.7 else np.c_[X[:, 0], 2.0 * X[:, 0] - 0.3]
    order = rng.permutation(len(z))
    map_ = rng.normal(size=(2, 2)) + 2.0 * np.eye(2)
    far = U * 10.0 ** rng.uniform(-3, 3) + 10.0 ** rng.choice([0, 2, 4, 6])
    one = delta_fairness(U, z, compare="pairs", method="exact", sample_weight=weights)
    for name, other in (("order", U[order]), ("far", far), ("map", U @ map_)):
        groups, w = (z[order], weights[order]) if name == "order" else (z, weights * 3.0)
        two = delta_fairness(other, groups, compare="pairs", method="exact", sample_weight=w)
        same(two.value, one.value, f"exact Δ: {name}", 1e-9, 1.0)
        if two.worst.classifier is not None:
            low, high = two.worst.rates.values()
            same(abs(high - low), two.value, f"exact Δ: {name} is not attained", 1e-9, 1.0)
    for metric in (mean_gap, cov_gap, mmd2, gaussian_bound):
        first = metric(U, z)
        second = metric(U[order], np.array(["x", "k", "m"])[z[order]])
        if first == second == np.inf:  # no Gaussian bound where a covariance is singular
            continue
        same(second, first, metric.__name__, 1e-8, max(abs(first), np.abs(U).max() ** 2 * 1e-3))
    chosen = (U[:, 0] > 0).astype(int)
    first = decision_rates(chosen, z, sample_weight=weights).rates
    second = decision_rates(chosen[order], z[order], sample_weight=weights[order] * 7.0).rates
    for rate, other in zip(first, second, strict=True):
        same([other.rate or 0.0], [rate.rate or 0.0], "decision rates", 1e-12, 1.0)


CHECKS = (
    check_container,
    check_container,
    check_process,
    check_problem,
    check_batches,
    check_metrics,
)


def attempt(rng):
    X, z, weights = make_rows(rng)
    CHECKS[int(rng.integers(len(CHECKS)))](rng, make_model(rng, X.shape[1]), X, z, weights)


def run(tries, seed):
    return campaign(attempt, tries, seed, calls=2)


@pytest.mark.parametrize(("tries", "seed"), [(20, 1), pytest.param(400, 2, marks=pytest.mark.slow)])
def test_equivalences(tries, seed):
    assert run(tries, seed) == {}
