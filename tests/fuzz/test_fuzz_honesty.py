"""Promises about made populations whose truth is known: they hold as often as they say.

`run(tries, seed)` returns failures by class: a kind of promise that is broken more often than its
level allows, beyond what so many tries explain by chance.
"""

import warnings

import numpy as np
import pytest
from scipy.stats import binom

from fairpca import FairPCA
from fairpca.metrics import decision_rates

LEVEL = 0.95


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
    return (
        np.linalg.norm(fair.components_ @ gap) <= fair.expected_gaps(refits=0).features.mean_bound
    )


def interval_of_a_difference(rng):
    """Difference and ratio of decision rates of two groups."""
    rates = rng.uniform(0.1, 0.9, 2)
    sizes = rng.integers(40, 300, 2)
    z = np.repeat(["a", "b"], sizes)
    selected = (rng.random(len(z)) < np.repeat(rates, sizes)).astype(int)
    found = {rate.group: rate for rate in decision_rates(selected, z).rates}
    one = next(rate for rate in found.values() if rate.difference_low != rate.difference_high)
    true = dict(zip("ab", rates, strict=True))
    truth = true[one.group] - true["b" if one.group == "a" else "a"]
    return one.difference_low <= truth <= one.difference_high


PROMISES = (bound_on_new_data, interval_of_a_difference)


def run(tries, seed):
    failures = {}
    for promise in PROMISES:
        kept = []
        for number in range(tries):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                kept.append(bool(promise(np.random.default_rng([seed, number]))))
        if binom.cdf(sum(kept), tries, LEVEL) < 1e-4:
            broken = [number for number, is_kept in enumerate(kept) if not is_kept]
            failures[f"{promise.__name__}: kept in {sum(kept)} of {tries}"] = broken
    return failures


@pytest.mark.parametrize(
    ("tries", "seed"), [(40, 1), pytest.param(1000, 2, marks=pytest.mark.slow)]
)
def test_honesty(tries, seed):
    assert run(tries, seed) == {}
