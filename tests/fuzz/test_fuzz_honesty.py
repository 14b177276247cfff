"""Promises about made populations whose truth is known: they hold as often as they say.

`run(tries, seed)` returns failures by class: a kind of promise that is broken more often than its
level allows, beyond what so many tries explain by chance.
"""

import warnings
from collections import defaultdict
from unittest import mock

import numpy as np
import pytest
from scipy.stats import binom, norm

from fairpca import DeltaFairPCA, FairPCA
from fairpca.estimators._comparison import measure_held_out
from fairpca.metrics import audit, audits, decision_rates, delta_bound, delta_fairness
from fairpca.metrics._cross_fit import CLASSIFIERS, Labelled, largest_delta
from fairpca.moments import FoldedMoments
from fairpca.rows import Rows

ERRORS = 2.0  # standard errors on both sides, of few folds: t with 4 degrees of freedom has 88 %
LEVELS = defaultdict(
    lambda: 0.95, {"certificate": 1.0, "held-out gap": 0.85, "delta_ of DeltaFairPCA": 0.85}
)


def bound_on_new_data(rng):
    """The uniform bound on the mean gap, also where most of the variance is along it."""
    n, p, d = int(rng.integers(60, 600)), int(rng.integers(3, 9)), int(rng.integers(1, 3))
    scales = 10.0 ** rng.uniform(-0.5, 0.5, p)
    gap = rng.normal(size=p) * rng.choice([0.0, 0.3, 2.0])
    if rng.random() < 0.3:
        gap = 3.0 * scales * (scales == scales.max())
    z = rng.random(n) < rng.uniform(0.2, 0.8)
    X = rng.normal(size=(n, p)) * scales + np.outer(z, gap)
    fair = FairPCA(d, cov_weight=0.0, certify=False).fit(X, sensitive_features=z)
    bound = fair.expected_gaps(refits=0).features.mean_bound
    return {"expected_gaps": np.linalg.norm(fair.components_ @ gap) <= bound}


def certificate(rng):
    """No ascent from a random start gets above the bound."""
    p, d = int(rng.integers(3, 7)), int(rng.integers(1, 3))
    z = rng.integers(0, rng.integers(2, 4), 120)
    X = rng.normal(size=(120, p)) * (0.5 + rng.random((4, p)))[z] + rng.normal(size=(4, p))[z]
    weight = 10.0 ** rng.uniform(-1, 1)
    fair = FairPCA(d, cov_weight=weight, mean_tol=None, compare="pairs").fit(
        X, sensitive_features=z
    )
    S, gaps = np.cov(X.T, bias=True), [c.cov_gap for c in fair.moments_.contrasts("pairs")]
    best = -np.inf
    for _ in range(4):
        V = np.linalg.qr(rng.normal(size=(p, d)))[0]
        for step in range(40):
            values, vectors = zip(*(np.linalg.eigh(V.T @ Q @ V) for Q in gaps), strict=True)
            most = np.unravel_index(np.abs(values).argmax(), (len(gaps), d))
            best = max(best, np.trace(V.T @ S @ V) - weight * abs(values[most[0]][most[1]]))
            u = vectors[most[0]][:, [most[1]]]
            slope = S @ V - weight * np.sign(values[most[0]][most[1]]) * gaps[most[0]] @ V @ u @ u.T
            V = np.linalg.qr(V + 0.5 / (1 + step) / np.linalg.norm(S, 2) * slope)[0]
    return {"certificate": best <= fair.certificate_.bound * (1 + 1e-9)}


def intervals_of_rates(rng):
    """Decision rates of two groups, their difference and their ratio, of rows or of units."""
    rates, sizes = rng.uniform(0.1, 0.9, 2), rng.integers(60, 300, 2)
    z = np.repeat(["a", "b"], sizes)
    selected = (rng.random(len(z)) < np.repeat(rates, sizes)).astype(int)
    each = int(rng.choice([1, 4]))
    units = None if each == 1 else np.repeat(np.arange(len(z)), each)
    report = decision_rates(np.repeat(selected, each), np.repeat(z, each), units=units)
    one = min(report.rates, key=lambda rate: rate.rate)
    true = dict(zip("ab", rates, strict=True))
    mine, other = true[one.group], true["b" if one.group == "a" else "a"]
    return {
        "rate": one.rate_low <= mine <= one.rate_high,
        "difference of rates": one.difference_low <= mine - other <= one.difference_high,
        "impact ratio": one.ratio_low <= mine / other <= one.ratio_high,
    }


def two_normals(rng, n, d=2, shift=None):
    z = np.arange(n) % 2
    shift = rng.choice([0.0, 0.5, 1.5]) if shift is None else shift
    return rng.normal(size=(n, d)) + np.outer(z, [shift] + [0.0] * (d - 1)), z, shift


def values_of_delta(rng):
    """The upper limit of Δ of thresholds, and p-values of groups that do not differ."""
    n = int(rng.integers(60, 400))
    U, z, shift = two_normals(rng, n, 1)
    counts = (int((z == 0).sum()), int((z == 1).sum()))
    limit = delta_bound(delta_fairness(U, z, n_permutations=0).value, counts, method="dkw")
    U, z, _ = two_normals(rng, n, 2, 0.0)
    null = delta_fairness(U, z, n_permutations=19, random_state=int(rng.integers(1000))).null
    return {"delta_bound": 2 * norm.cdf(shift / 2) - 1 <= limit, "p-value": null.p_value > 0.05}


def intervals_of_an_audit(rng):
    """The headline and its difference, against what the trained classifiers attain on new rows."""
    (U, z, shift), kept = two_normals(rng, int(rng.integers(150, 400))), []
    (new, labels, _), names = two_normals(rng, 4000, shift=shift), ("linear", "gaussian")
    plain, new_plain = (rows + np.outer(groups, [0.5, 0.0]) for rows, groups in
                        ((U, z), (new, labels)))  # fmt: skip

    def keeping(entry):
        def train(part, seed):
            kept.append(entry.train(part, seed))
            return kept[-1]

        return type(entry)(train, entry.seconds)

    replaced = {name: keeping(CLASSIFIERS[name]) for name in names}
    with mock.patch.dict(audits.CLASSIFIERS, replaced):
        report = audit(U, z, against=plain, adversaries=names, families=(), effort="quick",
                       random_state=int(rng.integers(1000)))  # fmt: skip
    each = len(kept) // 2
    rates = [one.predict(new if place < each else new_plain) for place, one in enumerate(kept)]
    values = [rate[labels == 1].mean() - rate[labels == 0].mean() for rate in rates]
    mine, other = np.reshape(values, (2, len(names), -1)).mean(axis=2).max(axis=1)
    [difference], headline = report.differences, report.headline
    return {
        "headline of an audit": headline.low <= mine <= headline.high,
        "paired difference of an audit": difference.low <= mine - other <= difference.high,
    }


def held_out_gap(rng):
    """Gaps on held-out rows within two of their errors, where the folds' components are alike."""
    n, scales = int(rng.integers(200, 800)), np.array([5.0, 4.0, 1.0, 0.5])
    gap = scales * rng.choice([0.0, 0.3, 1.0]) * np.array([1.0, 0.5, 0.0, 0.0])
    z = np.arange(n) % 2
    X = rng.normal(size=(n, 4)) * scales + np.outer(z, gap)
    model = FairPCA(2, mean_tol=None, cov_weight=0.0, certify=False)
    folded = FoldedMoments.from_arrays(X, z)
    found = measure_held_out(model, folded).figures()["mean_gap"]
    truth = np.linalg.norm(model.fit_moments(folded.total).components_ @ gap)
    error = (found.value + found.error) ** 2 - found.value**2  # of the square
    return {"held-out gap": abs(found.value**2 - truth**2) <= ERRORS * error}


def delta_of_a_fit(rng):
    """Δ of DeltaFairPCA within two of its errors of what its family reaches on new rows."""
    z, new_z = np.arange(400) % 2, np.arange(4000) % 2
    spread = 1.0 + np.array([1.5, 0.6, 0.3, 0.0, 0.0])
    X, new = (rng.normal(size=(len(g), 5)) * spread ** g[:, None] for g in (z, new_z))
    fair = DeltaFairPCA(2, delta=0.3, certify=False, random_state=int(rng.integers(1000)))
    fair.fit(X, sensitive_features=z)
    U, V = fair.transform(X), fair.transform(new)
    parts = [
        Labelled(Rows(scores / U.std(axis=0)), np.where(groups, 1, -1).astype(np.int8))
        for scores, groups in ((U, z), (V, new_z))
    ]
    trained = CLASSIFIERS["gaussian-widths"].trainer(0)(parts[0])
    truth = largest_delta(trained.scores(parts[1].rows.X), parts[1]).value
    return {"delta_ of DeltaFairPCA": abs(fair.delta_ - truth) <= ERRORS * fair.delta_error_}


# Of how many tries one is made: a fit with a limit on Δ takes seconds.
PROMISES = {
    bound_on_new_data: 1,
    certificate: 1,
    intervals_of_rates: 1,
    values_of_delta: 1,
    intervals_of_an_audit: 1,
    held_out_gap: 1,
    delta_of_a_fit: 20,
}


def run(tries, seed):
    kept = defaultdict(dict)
    for promise, every in PROMISES.items():
        for number in range(every - 1, tries, every):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for name, is_kept in promise(np.random.default_rng([seed, number])).items():
                    kept[name][number] = bool(is_kept)
    failures = {}
    for name, by_number in kept.items():
        if binom.cdf(sum(by_number.values()), len(by_number), LEVELS[name]) < 1e-4:
            broken = [number for number, is_kept in by_number.items() if not is_kept]
            kind = f"{name}: kept in {len(by_number) - len(broken)} of {len(by_number)}"
            failures[kind] = broken
    return failures


@pytest.mark.parametrize(("tries", "seed"), [(8, 1), pytest.param(400, 2, marks=pytest.mark.slow)])
def test_honesty(tries, seed):
    assert run(tries, seed) == {}
