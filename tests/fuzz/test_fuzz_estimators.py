"""Random tables through FairPCA: every attribute against NumPy, and what must not matter.

`run(tries, seed)` returns failures by class.
"""

import numpy as np
import pytest
from fuzzing import campaign, same

from fairpca import FairPCA, GroupMoments


def make_rows(rng):
    """Rows, groups, strata or None, weights or None."""
    n, p = int(rng.integers(6, 80)), int(rng.integers(1, 9))
    if rng.random() < 0.02:
        n, p = int(rng.integers(60, 300)), int(rng.integers(10, 51))
    X = rng.normal(size=(n, p)) * 10.0 ** rng.uniform(-2, 2, p)
    X += 10.0 ** rng.choice([0, 3, 6]) * rng.normal(size=p) * (rng.random() < 0.5)
    if rng.random() < 0.2:
        X[:, int(rng.integers(p))] = 1.0
    if rng.random() < 0.2 and p > 1:
        X[:, 0] = X[:, 1]
    if rng.random() < 0.1:
        X = X.astype(np.float32)
    groups = rng.integers(0, rng.integers(2, 4), size=(n, int(rng.integers(1, 3))))
    X = X + (groups[:, :1] * rng.normal(size=p)).astype(X.dtype)
    strata = rng.integers(0, 2, n) if rng.random() < 0.2 else None
    weights = rng.integers(0, 4, n).astype(float) if rng.random() < 0.3 else None
    return X, groups, strata, weights


def make_settings(rng, p):
    settings = {"n_components": int(rng.integers(1, p + 1))}
    form = rng.integers(4)
    if form == 0:
        settings["cov_weight"] = float(10.0 ** rng.uniform(-3, 3))
    elif form == 1:
        settings["cov_tol"] = float(10.0 ** rng.uniform(-2, 3))
    elif form == 2:
        settings["cov_weight"] = 0.0
    settings["mean_tol"] = rng.choice([0.0, 0.0, None, float(10.0 ** rng.uniform(-2, 2))])
    settings["solver"] = str(rng.choice(["refined", "refined", "deflation", "tight"]))
    settings["compare"] = str(rng.choice(["one-vs-rest", "pairs"]))
    settings["min_group_size"] = 2
    settings["joint"] = bool(rng.random() < 0.2)
    settings["certify"] = bool(rng.random() < 0.8)
    return settings


def moments_of(X, weights):
    share = weights / weights.sum()
    mean = share @ X
    return mean, ((X - mean).T * share) @ (X - mean)


def largest_gaps(U, groups, strata, weights, settings):
    """Largest distance of means and of covariances of scores, straight from the definition."""
    mean_gap = cov_gap = 0.0
    joint = settings["joint"] and groups.shape[1] > 1
    columns = [*groups.T, *([groups[:, 0] * 10 + groups[:, 1]] if joint else [])]
    for stratum in [None] if strata is None else np.unique(strata[weights > 0]):
        inside = weights > 0 if stratum is None else (strata == stratum) & (weights > 0)
        for number, z in enumerate(columns):
            levels = np.unique(z[inside])
            rest = settings["compare"] == "one-vs-rest" or number == groups.shape[1]
            pairs = [(z == g, z != g) for g in levels] if rest else []
            if not rest:
                pairs = [(z == g, z == h) for g in levels for h in levels if g < h]
            for one, other in pairs:
                one, other = one & inside, other & inside
                if not one.any() or not other.any():
                    continue
                a, b = moments_of(U[one], weights[one]), moments_of(U[other], weights[other])
                mean_gap = max(mean_gap, np.linalg.norm(a[0] - b[0]))
                if min(one.sum(), other.sum()) >= 2:
                    cov_gap = max(cov_gap, np.linalg.norm(a[1] - b[1], 2))
    return mean_gap, cov_gap


def fit(settings, X, groups, strata, weights):
    return FairPCA(**settings).fit(
        X, sensitive_features=groups, control_features=strata, sample_weight=weights
    )


def check_attributes(fair, settings, X, groups, strata, weights):
    """Everything that a fit says of itself, computed again from the rows in float64."""
    X = np.asarray(X, dtype=float)
    w = np.ones(len(X)) if weights is None else weights
    mean, covariance = moments_of(X, w)
    V = np.asarray(fair.components_.T, dtype=float)
    # Components of float32 rows are rounded to float32.
    single = fair.components_.dtype == np.float32
    digits = 1e-6 if single else 1e-7
    unit = max(np.trace(covariance), 1e-300)
    spread = np.sqrt(unit) + 1e-9 * np.abs(X).max()
    same(fair.mean_, mean, "mean_", 1e-9, np.abs(X).max() + 1e-300)
    same(V.T @ V, np.eye(V.shape[1]), "components_ orthonormal", digits if single else 1e-9)
    same(
        fair.explained_variance_,
        np.diag(V.T @ covariance @ V),
        "explained_variance_",
        digits,
        unit + 1e-12 * np.abs(X).max() ** 2,
    )
    ratio = fair.explained_variance_ / np.trace(covariance) if np.trace(covariance) else [0.0]
    same(fair.explained_variance_ratio_, ratio, "explained_variance_ratio_", 1e-6, 1.0)
    assert (np.diff(fair.explained_variance_) <= 1e-9 * unit).all(), "order of components"
    inside = V.T @ covariance @ V
    same(inside, np.diag(np.diag(inside)), "correlated components", digits, unit)
    U = (X - mean) @ V
    mean_gap, cov_gap = largest_gaps(U, groups, strata, w, settings)
    same(fair.mean_gap_, mean_gap, "mean_gap_", digits, spread)
    same(fair.cov_gap_, cov_gap, "cov_gap_", digits, unit + 1e-12 * np.abs(X).max() ** 2)
    certificate = fair.certificate_
    penalty = settings.get("cov_weight", 1.0) if settings.get("cov_tol") is None else 0.0
    value = fair.explained_variance_.sum() - penalty * cov_gap
    same(certificate.objective, value, "objective", 1e-6, unit * (1 + penalty))
    assert certificate.bound >= certificate.objective, "bound below the objective"
    if settings["mean_tol"] is not None:
        assert mean_gap <= settings["mean_tol"] + 1e-6 * spread, "mean_tol not kept"
    if settings.get("cov_tol") is not None:
        assert cov_gap <= settings["cov_tol"] + 1e-6 * unit, "cov_tol not kept"
    return U, unit


def check_what_must_not_matter(rng, fair, settings, X, groups, strata, weights, unit):
    """Order of rows and columns, names of groups, repetition for weights, batches."""
    order, turn = rng.permutation(len(X)), rng.permutation(X.shape[1])
    again = fit(
        settings,
        X[order][:, turn],
        groups[order] * 7 + 3,
        None if strata is None else strata[order],
        None if weights is None else weights[order],
    )
    # The bound is solved to a relative gap, so that equal problems agree to that.
    slack = 1e-6 * unit + 2e-4 * abs(fair.certificate_.bound)
    assert again.certificate_.bound >= fair.certificate_.objective - slack, "permuted bound"
    assert fair.certificate_.bound >= again.certificate_.objective - slack, "permuted objective"
    cut = int(rng.integers(1, len(X)))
    halves = [
        GroupMoments.from_arrays(
            X[part],
            groups[part],
            None if strata is None else strata[part],
            None if weights is None else weights[part],
        )
        for part in (slice(cut), slice(cut, None))
        if weights is None or weights[part].any()
    ]
    total = sum(halves[1:], start=halves[0])
    same(total.pooled().covariance, fair.moments_.pooled().covariance, "split", 1e-6, unit)
    if weights is not None:
        repeated = np.repeat(np.arange(len(X)), weights.astype(int))
        plain = GroupMoments.from_arrays(X[repeated], groups[repeated])
        same(plain.pooled().covariance, fair.moments_.pooled().covariance, "weights", 1e-6, unit)


def check_scaling(rng, fair, settings, X, groups, strata, weights, unit):
    """Other units of the features: everything in those units, and nothing else."""
    factor = 10.0 ** rng.uniform(-6, 6)
    other = dict(settings)
    if other["mean_tol"] is not None:
        other["mean_tol"] = float(other["mean_tol"] * factor)
    if other.get("cov_tol") is not None:
        other["cov_tol"] = float(other["cov_tol"] * factor**2)
    again = fit(other, X.astype(float) * factor, groups, strata, weights).certificate_
    was, squared = fair.certificate_, factor**2
    slack = 1e-6 * unit + 2e-4 * abs(was.bound)
    assert again.bound / squared >= was.objective - slack, "scaled bound"
    assert was.bound >= again.objective / squared - slack, "scaled objective"


def attempt(rng):
    X, groups, strata, weights = make_rows(rng)
    settings = make_settings(rng, X.shape[1])
    if weights is not None and not weights.any():
        return
    fair = fit(settings, X, groups, strata, weights)
    U, unit = check_attributes(fair, settings, X, groups, strata, weights)
    tolerance = 1e-4 if X.dtype == np.float32 else 1e-9
    same(fair.transform(X), U, "transform", tolerance, np.abs(X).max())
    what = (settings, X, groups, strata, weights, unit)
    (check_what_must_not_matter if rng.random() < 0.7 else check_scaling)(rng, fair, *what)


def run(tries, seed):
    return campaign(attempt, tries, seed, calls=2)  # a fit, and one that must agree with it


@pytest.mark.parametrize(("tries", "seed"), [(20, 1), pytest.param(300, 2, marks=pytest.mark.slow)])
def test_tables(tries, seed):
    assert run(tries, seed) == {}


@pytest.mark.filterwarnings("ignore")
def test_a_basis_a_rounding_outside_a_narrow_limit_is_not_better_than_its_bound():
    attempt(np.random.default_rng([2026111800019, 11]))
