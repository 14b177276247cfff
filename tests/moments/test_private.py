"""Moments with noise: the mechanism, its sensitivity, and what fits make of it."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from fairpca import FairPCA, GroupMoments
from fairpca.cli._moments import describe
from fairpca.exceptions import FewRowsWarning, InvalidInputError
from fairpca.moments._release import add_noise, clip_rows, noise_deviation, sum_squares

KNOWN = {"groups": (0, 1), "center": 0.0, "scale": 1.0}


def made(n, p=6, seed=0):
    random = np.random.default_rng(seed)
    z = random.integers(0, 2, n)
    X = random.normal(size=(n, p)) * np.linspace(1.4, 0.6, p)
    X[:, 0] += z
    return X, z


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 4.0, 30.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_the_noise_is_just_enough(epsilon, delta):
    sigma = noise_deviation(epsilon, delta)

    def lost(sigma):
        """By integration: the largest difference P(A) − exp(ε) Q(A), of N(1, σ²) and N(0, σ²)."""
        start = epsilon * sigma**2 + 0.5  # where the density of P is exp(ε) times that of Q

        def excess(x):
            return norm.pdf(x, 1.0, sigma) - np.exp(epsilon + norm.logpdf(x, 0.0, sigma))

        return quad(excess, start, start + 40.0 * sigma, epsabs=1e-13, limit=400)[0]

    assert lost(sigma) == pytest.approx(delta, rel=1e-4)
    assert lost(0.9 * sigma) > delta


def test_a_row_moves_the_sums_by_no_more_than_the_sensitivity():
    random, length = np.random.default_rng(0), 2.5
    rows = random.normal(size=(40, 4)) * 10.0 ** random.integers(-3, 200, size=(40, 1))
    rows[:3] = [[0.0], [1e300], [-1e308]]
    center, scale = random.normal(size=4), 10.0 ** random.integers(-30, 3, size=4)
    u = clip_rows(rows, center, scale, length)
    assert np.isfinite(u).all()
    assert np.linalg.norm(u, axis=1).max() <= length * (1 + 1e-12)
    for place in range(len(u)):
        change = sum_squares(u, length) - sum_squares(np.delete(u, place, axis=0), length)
        assert np.linalg.norm(change) <= 2 * length**2 * (1 + 1e-12)
    short = clip_rows(np.full((1, 4), 0.1), np.zeros(4), np.full(4, 2.0), length)
    np.testing.assert_allclose(short, 0.05)  # what is inside stays as it is


def test_noise_is_the_same_in_all_directions_of_the_norm():
    random = np.random.default_rng(0)
    draws = np.array([add_noise(np.zeros((3, 3)), 2.0, random) for _ in range(20_000)])
    assert (draws == draws.transpose(0, 2, 1)).all()
    upper = np.triu_indices(3)
    coordinates = draws[:, *upper] * np.where(upper[0] == upper[1], 1.0, np.sqrt(2.0))
    np.testing.assert_allclose(np.cov(coordinates.T), 4.0 * np.eye(6), atol=0.15)


def test_the_noise_is_that_of_the_sensitivity():
    X, z = made(2000, p=2)
    draws = [
        GroupMoments.privatized(X, z, **KNOWN, epsilon=1.0, random_state=k) for k in range(400)
    ]
    counts = [moments.table.cells[(1,)].weight for moments in draws]
    # The corner of the sums is L² times the count, and the sensitivity 2L².
    assert np.std(counts) == pytest.approx(2 * noise_deviation(1.0, 1e-6), rel=0.12)
    assert np.mean(counts) == pytest.approx((z == 1).sum(), abs=2.0)
    one, two = (np.array([m.table.cells[(g,)].weight for m in draws]) for g in (0, 1))
    assert abs(np.corrcoef(one, two)[0, 1]) < 0.2


def test_much_noise_is_drawn_and_little_is_lost_with_many_rows():
    X, z = made(30_000)
    exact = GroupMoments.from_arrays(X, z)
    X = X * np.arange(1, 7) + 100.0
    units = {"groups": (0, 1), "center": np.full(6, 100.0), "scale": np.arange(1, 7)}
    noisy = [GroupMoments.privatized(X, z, **units, epsilon=1.0, bound=4.0) for _ in range(2)]
    counts = [m.table.cells[(0,)].weight - (z == 0).sum() for m in noisy]
    assert counts[0] != counts[1]  # a new draw each time
    assert np.abs(counts).max() < 6 * 2 * noise_deviation(1.0, 1e-6)
    back = noisy[0].standardized((np.full(6, 100.0), np.arange(1.0, 7.0))).pooled()
    np.testing.assert_allclose(back.mean, exact.pooled().mean, atol=0.05)
    np.testing.assert_allclose(back.covariance, exact.pooled().covariance, atol=0.2)
    with pytest.warns(FewRowsWarning, match="count rows and not the noise"):
        fair = FairPCA(2, standardize=True).fit_moments(noisy[0])
    direct = FairPCA(2, standardize=True).fit(X, sensitive_features=z)
    C = direct.moments_.standardized().pooled().covariance
    kept, best = (np.trace(m.components_ @ C @ m.components_.T) for m in (fair, direct))
    assert kept > 0.95 * best


def test_few_rows_still_give_valid_moments(tmp_path):
    X, z = made(12, p=5)
    units = {"groups": ("a", "b", "c"), "center": 0.0, "scale": 1.0}
    noisy = GroupMoments.privatized(X, np.where(z, "a", "b"), **units, epsilon=0.1, random_state=1)
    assert noisy.levels("sensitive_feature") == ("a", "b", "c")  # also a group without rows
    for cell in noisy.table.cells.values():
        assert cell.n_rows >= 10
        assert np.linalg.norm(cell.mean) <= 1.3 * np.sqrt(5) * (1 + 1e-12)
        assert np.linalg.eigvalsh(cell.scatter)[0] > -1e-9
    again = GroupMoments.load(noisy.save(tmp_path / "m"))
    assert again.noise == (0.1, 1e-6)
    assert "Noise hides single rows: epsilon 0.1, delta 1e-06." in describe(again)
    other = GroupMoments.privatized(X, np.where(z, "a", "b"), **units, epsilon=2.0)
    assert (again + other).noise == (2.0, 1e-6)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"epsilon": 0.0}, "epsilon=0.0: give a number above 0"),
        ({"delta": 1.0}, "delta=1.0: give a number above 0 and below 1"),
        ({"bound": -1}, "bound=-1"),
        ({"groups": (0,)}, "are fewer than two"),
        ({"groups": (0, 2)}, "lack 1: name all groups that may occur"),
        ({"scale": [1.0, 0.0, 1.0, 1.0, 1.0, 1.0]}, "scale holds .*finite positive"),
        ({"center": [1.0]}, "center has shape"),
        ({"sensitive_features": np.arange(100) / 7}, "one attribute that names groups"),
        ({"sensitive_features": np.zeros((100, 2), int)}, "one attribute that names groups"),
        ({"X": np.full((100, 6), np.nan)}, "NaN"),
    ],
)
def test_what_is_not_supported_is_refused_in_words(change, words):
    X, z = made(100)
    options = {"X": X, "sensitive_features": z, **KNOWN, "epsilon": 1.0, **change}
    with pytest.raises(InvalidInputError, match=words):
        GroupMoments.privatized(**options)
