"""What nulls, cross-fitting and bounds promise, checked over many data sets."""

import numpy as np
import pytest
from scipy.stats import kstest, norm

from fairpca.metrics import delta_bound, delta_fairness

pytestmark = pytest.mark.slow

WAYS = [
    ({"method": "svm"}, 400, 2),
    ({"method": "search"}, 100, 2),
    ({"method": "exact"}, 300, 2),
    ({"method": "svm"}, 300, 4),
    ({"family": "rbf", "C": 1.0, "gamma": 0.5}, 200, 2),
    ({"family": "cdf", "method": "sample"}, 300, 3),
    ({"family": "cdf", "method": "search"}, 300, 3),
    ({"family": "cdf", "method": "exact"}, 300, 2),
]


def randomised(value, null, rng):
    """A p-value that is exactly uniform under the null whatever the ties."""
    above = np.count_nonzero(null > value + 1e-12)
    ties = np.count_nonzero(np.abs(null - value) <= 1e-12) + 1
    return (above + rng.random() * ties) / (len(null) + 1)


def assert_uniform(results, rng):
    exact = [randomised(r.value, r.null_values, rng) for r in results]
    assert kstest(exact, "uniform").pvalue > 0.001
    # What is reported counts ties against the observed value: valid, never too small.
    reported = np.array([r.null.p_value for r in results])
    for level in (0.05, 0.1, 0.25, 0.5):
        noise = 3.5 * np.sqrt(level * (1 - level) / len(reported))
        assert (reported <= level).mean() <= level + noise


@pytest.mark.parametrize(
    ("way", "repeats", "d"), WAYS, ids=[f"{'-'.join(map(str, w.values()))}-{d}" for w, _, d in WAYS]
)
def test_p_values_are_uniform_when_nothing_leaks(way, repeats, d):
    rng = np.random.default_rng(7)
    slow = (way.get("method") == "search" and d == 2) or way.get("family") == "rbf"
    results = []
    for seed in range(repeats):
        U = rng.standard_t(4, size=(60, d))
        z = rng.permutation(np.arange(60) < 25)
        permutations = 19 if slow else 39
        results.append(delta_fairness(U, z, n_permutations=permutations, random_state=seed, **way))
    assert_uniform(results, rng)


def test_p_values_are_uniform_with_tuning_by_cross_validation(monkeypatch):
    # The tuning is repeated on every permutation; a smaller grid keeps this to a minute or two.
    monkeypatch.setattr("fairpca.metrics._svm.C_GRID", (0.1, 10.0))
    monkeypatch.setattr("fairpca.metrics._svm.GAMMA_GRID", (0.3, 3.0))
    rng = np.random.default_rng(8)
    results = []
    for seed in range(120):
        U = rng.normal(size=(40, 2))
        z = rng.permutation(np.arange(40) < 18)
        results.append(delta_fairness(U, z, family="rbf", n_permutations=19, random_state=seed))
    assert_uniform(results, rng)


def test_p_values_of_the_largest_of_many_pairs_are_uniform():
    rng = np.random.default_rng(9)
    results = []
    for seed in range(300):
        U = rng.normal(size=(90, 2))
        groups = np.column_stack([rng.permutation(90) % 3, rng.permutation(90) % 2])
        groups[:, 1] = np.where(rng.random(90) < 0.5, groups[:, 0] > 0, groups[:, 1])
        strata = np.arange(90) % 2
        weight = rng.random(90) + 0.5
        results.append(
            delta_fairness(
                U,
                groups,
                control_features=strata,
                sample_weight=weight,
                n_permutations=39,
                random_state=seed,
            )
        )
    assert_uniform(results, rng)


@pytest.mark.parametrize("way", [{}, {"method": "search"}, {"family": "cdf"}])
def test_cross_fitted_values_are_zero_on_average_when_nothing_leaks(way):
    rng = np.random.default_rng(10)
    values = []
    for seed in range(200):
        U = rng.normal(size=(100, 2))
        z = rng.permutation(np.arange(100) < 50)
        values.append(
            delta_fairness(U, z, cross_fit=True, random_state=seed, **way).worst.held_out.estimate
        )
    assert abs(np.mean(values)) < 4 * np.std(values) / np.sqrt(len(values))


def true_delta(shift):
    """Two unit-variance normals: the best half-space is the one between the means."""
    return 2 * norm.cdf(shift / 2) - 1


def test_bounds_hold_and_cross_fitting_stays_below_on_average():
    rng = np.random.default_rng(11)
    shift = 0.8
    broken, sharp_broken, cross = 0, 0, []
    for seed in range(200):
        z = np.arange(400) % 2
        U = rng.normal(size=(400, 3)) + np.outer(z, [shift, 0.0, 0.0])
        result = delta_fairness(U, z, cross_fit=True, random_state=seed)
        cross.append(result.worst.held_out.estimate)
        exact = delta_fairness(U[:, :2], z, method="exact")
        broken += delta_bound(exact, 400, 2) < true_delta(shift)
        fixed = delta_fairness(U[:, 0], z)  # a direction chosen without the rows
        sharp_broken += delta_bound(fixed, (200, 200), method="dkw") < true_delta(shift)
    assert broken <= 0.05 * 200
    assert sharp_broken <= 0.05 * 200
    assert np.mean(cross) < true_delta(shift)
    assert np.mean(cross) > true_delta(shift) - 0.1
