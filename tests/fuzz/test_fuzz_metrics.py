"""Random small tables through every metric: oracles, invariances, one clear error, and time.

`run(tries, seed)` returns failures by class; the quick suite makes a few hundred tries.
"""

import itertools
import json
import time
import warnings
from collections import defaultdict

import numpy as np
import pytest
from fuzzing import TOO_LONG, ended_in_time

from fairpca.exceptions import InvalidInputError
from fairpca.metrics import (
    audit,
    cov_gap,
    delta_fairness,
    explained_variance,
    gaussian_bound,
    mean_gap,
    mmd2,
)

WAYS = (
    {"method": "svm"},
    {"method": "search"},
    {"family": "cdf", "method": "sample"},
    {"family": "cdf", "method": "search"},
    {"family": "rbf", "C": 1.0, "gamma": 0.5},
)


def make_table(rng):
    """Points with ties, constants and odd units; groups, strata and weights of any kind."""
    n, d = int(rng.integers(4, 41)), int(rng.integers(1, 4))
    grid = rng.integers(0, rng.choice([2, 4, 1000]), size=(n, d)).astype(float)
    U = grid if rng.random() < 0.5 else rng.standard_t(3, size=(n, d))
    if rng.random() < 0.15:
        U[:, 0] = U[0, 0]
    U = U * 10.0 ** rng.choice([0.0, 0.0, -6.0, 6.0]) + rng.choice([0.0, 0.0, 1e3])
    z = rng.integers(0, rng.integers(2, 5), n)
    options = {}
    if rng.random() < 0.3:
        options["control_features"] = rng.integers(0, 2, n)
    if rng.random() < 0.4:
        options["sample_weight"] = rng.choice([0.0, 0.5, 1.0, 2.0], n, p=[0.1, 0.2, 0.5, 0.2])
    return U, z, options


def strata_of(z, options):
    """Masks of the strata, of rows that count."""
    weight = options.get("sample_weight", np.ones(len(z)))
    strata = options.get("control_features", np.zeros(len(z)))
    return weight, [(strata == s) & (weight > 0) for s in np.unique(strata[weight > 0])]


def pairs_of(z, options):
    """Every pair of groups of two rows or more inside a stratum, and the weights."""
    weight, strata = strata_of(z, options)
    found = []
    for inside in strata:
        groups = [inside & (z == g) for g in np.unique(z[inside])]
        found += itertools.combinations([g for g in groups if g.sum() > 1], 2)
    return weight, found


def largest_half_line(u, weight, pairs):
    """Δ of thresholds by trying them all."""
    best = 0.0
    for a, b in pairs:
        for t in u:
            shares = [weight[g & (u <= t)].sum() / weight[g].sum() for g in (a, b)]
            best = max(best, abs(shares[0] - shares[1]))
    return best


def moments(U, weight, group):
    share = weight[group] / weight[group].sum()
    centred = U[group] - share @ U[group]
    return share @ U[group], (centred.T * share) @ centred


def attempt(call, failures, place):
    """Return a value, or None where one clear error says why there is none."""
    start = time.process_time()
    try:
        with warnings.catch_warnings(), ended_in_time():
            warnings.simplefilter("ignore")
            return call()
    except InvalidInputError as error:
        if "\n" in str(error) or not str(error).strip():
            failures["unclear error"].append(place)
        return None
    except Exception as error:
        failures[f"{type(error).__name__}"].append(place)
        return None
    finally:
        if time.process_time() - start > TOO_LONG:
            failures["slow"].append(place)


def check_delta(U, z, options, rng, failures, place):
    weight, pairs = pairs_of(z, options)
    values = {}
    for way in WAYS:
        result = attempt(
            lambda way=way: delta_fairness(
                U, z, compare="pairs", n_permutations=3, **way, **options
            ),
            failures,
            place,
        )
        if result is None:
            continue
        values[tuple(way.values())] = result.value
        if not (0 <= result.value <= 1 and 0 < result.null.p_value <= 1):
            failures["out of range"].append(place)
        if result.worst.classifier is not None:
            rates = list(result.worst.rates.values())
            if abs(rates[1] - rates[0] - result.value) > 1e-9:
                failures["classifier does not attain the value"].append(place)
    line = attempt(lambda: delta_fairness(U[:, 0], z, compare="pairs", **options), failures, place)
    if line is not None:
        expected = largest_half_line(U[:, 0], weight, pairs)
        if abs(line.value - expected) > 1e-9:
            failures["not the supremum on a line"].append(place)
        order = rng.permutation(len(z))
        again = {name: value[order] for name, value in options.items()}
        if abs(delta_quietly(U[order, 0], z[order], again) - line.value) > 1e-12:
            failures["depends on the order of rows"].append(place)
    if values.get(("svm",), 0) > values.get(("search",), 1) + 1e-12:
        failures["search below svm"].append(place)
    if values.get(("cdf", "sample"), 0) > values.get(("cdf", "search"), 1) + 1e-12:
        failures["ascent below its start"].append(place)


def delta_quietly(u, z, options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return delta_fairness(u, z, compare="pairs", **options).value


def check_gaps(U, z, options, failures, place):
    weight, strata = strata_of(z, options)
    means, covs = [0.0], [0.0]
    for inside in strata:
        groups = [inside & (z == g) for g in np.unique(z[inside])]
        for a, b in itertools.combinations(groups, 2):
            (mean_a, cov_a), (mean_b, cov_b) = (moments(U, weight, g) for g in (a, b))
            means.append(np.linalg.norm(mean_a - mean_b))
            if min(a.sum(), b.sum()) > 1:
                covs.append(np.linalg.norm(cov_a - cov_b, 2))
    size = np.abs(U).max() + 1e-300
    for measure, expected, unit in ((mean_gap, means, size), (cov_gap, covs, size**2)):
        found = attempt(lambda m=measure: m(U, z, compare="pairs", **options), failures, place)
        if found is not None and abs(found - max(expected)) > 1e-9 * unit:
            failures[measure.__name__].append(place)
    for measure in (mmd2, gaussian_bound):
        found = attempt(lambda m=measure: m(U, z, **options), failures, place)
        if found is not None and np.isnan(found):
            failures["NaN"].append(place)
    options = {"U": U[:, :1], "sample_weight": options.get("sample_weight")}
    share = attempt(lambda: explained_variance(U, **options), failures, place)
    if share is not None and not -1e-9 <= share <= 1 + 1e-9:
        failures["share of variance"].append(place)


def spoil(rng, U, z, options):
    """Break one argument; what comes out is an error, never a number."""
    n = len(z)
    which = rng.integers(0, 6)
    if which == 0:
        U = np.where(np.arange(U.size).reshape(U.shape) == rng.integers(U.size), np.nan, U)
    elif which == 1:
        z = z[:-1]
    elif which == 2:
        z = np.zeros(n)
    elif which == 3:
        options = {**options, "sample_weight": rng.choice([-1.0, np.inf, np.nan], n)}
    elif which == 4:
        options = {**options, "sample_weight": np.zeros(n)}
    else:
        z = rng.random(n)
    return U, z, options


def check_audit(U, z, options, failures, place):
    """An audit has an answer wherever one of its parts has, or says why not."""
    quick = {"adversaries": ("mlp",), "families": ("linear",), "effort": "quick"}
    report = attempt(lambda: audit(U, z, **quick, **options), failures, place)
    if report is not None:
        text = json.dumps(report.to_dict(), allow_nan=False)
        if "NaN" in text or not report.representations[0].in_sample:
            failures["audit"].append(place)


def check_spoilt(U, z, options, failures, place):
    # An audit takes numbers for groups: up to their median, and above.
    numbers = z.dtype.kind == "f" and (z != np.rint(z)).any()
    for measure in (delta_fairness, gaussian_bound, mmd2, *(() if numbers else (audit,))):
        if attempt(lambda m=measure: m(U, z, **options), failures, place) is not None:
            failures["accepted what is broken"].append(place)


def run(tries, seed):
    """Return the failures by class, each with the seeds that reproduce it."""
    failures = defaultdict(list)
    for number in range(tries):
        rng = np.random.default_rng([seed, number])
        table, place = make_table(rng), (seed, number)
        check_delta(*table, rng, failures, place)
        check_gaps(*table, failures, place)
        if number % 8 == 0:
            check_audit(*table, failures, place)
        check_spoilt(*spoil(rng, *table), failures, place)
    return dict(failures)


@pytest.mark.parametrize(("tries", "seed"), [(6, 0), pytest.param(100, 2, marks=pytest.mark.slow)])
def test_no_failures(tries, seed):
    assert run(tries, seed) == {}
