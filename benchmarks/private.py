"""Moments with noise that hides any single row: what do fair components from them keep?

    python benchmarks/private.py      benchmarks/results/private.json; 10 minutes

Rows are measured in deviations that are known beforehand and clipped to a length. Each group
releases the scatter of (c, x), which holds its count, sum and scatter, with Gaussian noise by the
analytic mechanism (Balle and Wang 2018) for adding or removing one row. Length and c were chosen
on the set "choice" of made rows; "made" and adult are reported. FAIRPCA_DATA has adult.

Figures are of held-out rows: the variance kept as a share of what the fit without noise keeps,
and the gaps of both fits.
"""

import warnings

import numpy as np
import results
from scipy.optimize import brentq
from scipy.stats import norm

from fairpca import FairPCA, GroupMoments
from fairpca.moments import gap_statistics
from fairpca.moments._cells import Cell
from fairpca.moments._table import Table
from reproduction.datasets import load_dataset

EPSILONS, DELTA, D, REPEATS = (0.5, 1.0, 4.0), 1e-6, 5, 5
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
LENGTH, CORNER = 1.3, 1.0  # of a row, in √p deviations; c as a share of that length


def analytic_sigma(epsilon, delta):
    """Deviation of the noise for sensitivity 1."""

    def excess(sigma):
        a, b = 1 / (2 * sigma), epsilon * sigma
        return norm.cdf(a - b) - np.exp(epsilon) * norm.cdf(-a - b) - delta

    return brentq(excess, 1e-3, 1e4)


def made(p, seed):
    """A function that draws rows of two groups: five factors, differences in means and spreads."""
    random = np.random.default_rng(seed)
    loadings = random.normal(size=(5, p)) * np.array([1.0, 0.8, 0.7, 0.6, 0.5])[:, None]
    shift = random.normal(size=p) * (random.random(p) < 0.3)
    scale = np.sqrt((loadings**2).sum(axis=0) + 1.0 + 0.21 * shift**2)

    def draw(n, seed):
        random = np.random.default_rng(seed)
        z = random.random(n) < 0.3
        factors = random.normal(size=(n, 5))
        factors[z, 0] *= 1.5
        X = factors @ loadings + random.normal(size=(n, p)) + np.outer(z - 0.3, shift)
        return X / scale, z.astype(int)

    return draw


def adult(p):
    """A function that draws rows of adult in deviations; its held-out half gives the units."""
    data = load_dataset("adult")
    X, z = data.data.to_numpy(float), data.sensitive_features.to_numpy()[:, 0]
    z = (z == np.unique(z)[-1]).astype(int)
    order = np.random.default_rng(0).permutation(len(X))
    X, z = X[order], z[order]
    half = len(X) // 2
    spread = X[half:].std(axis=0)
    kept = np.argsort(-spread / (1 + abs(X[half:].mean(axis=0))), kind="stable")[:p]
    X = (X[:, kept] - X[half:, kept].mean(axis=0)) / spread[kept]

    def draw(n, seed):
        if n is None:
            return X[half:], z[half:]
        if n > half:
            return None
        rows = np.random.default_rng(seed).permutation(half)[:n]
        return X[rows], z[rows]

    return draw


def private_moments(X, z, epsilon, length, corner, random):
    """Moments of the groups 0 and 1, clipped and noisy; valid, since projected."""
    p = X.shape[1]
    limit = length * np.sqrt(p)
    X = X * np.minimum(1.0, limit / np.maximum(np.linalg.norm(X, axis=1), 1e-300))[:, None]
    c = corner * limit
    sigma = analytic_sigma(epsilon, DELTA) * (c**2 + limit**2)
    cells = {}
    for group in (0, 1):
        rows = np.column_stack([np.full((z == group).sum(), c), X[z == group]])
        noise = random.normal(size=(p + 1, p + 1)) * sigma
        # Off the diagonal an entry counts twice in the Frobenius norm, so half the variance each.
        whole = rows.T @ rows + (noise + noise.T) / 2
        np.fill_diagonal(whole, np.diag(rows.T @ rows) + np.diag(noise))
        weight = max(whole[0, 0] / c**2, 10.0)
        mean = whole[0, 1:] / c / weight
        values, vectors = np.linalg.eigh(whole[1:, 1:] - weight * np.outer(mean, mean))
        scatter = (vectors * np.maximum(values, 0.0)) @ vectors.T
        empty = (np.zeros(p), (scatter + scatter.T) / 2, *np.zeros((3, 0)))
        third = (np.zeros((0, p)), np.zeros((0, p, p)))
        cells[(group,)] = Cell(int(weight), weight, mean, *empty, *third)
    return GroupMoments(p, None, Table(("z",), (), (), cells))


def fit(moments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return FairPCA(D, certify=False, missing_groups="ignore").fit_moments(moments)


def measure(model, new):
    variance = np.trace(model.components_ @ new.pooled().covariance @ model.components_.T)
    gaps = gap_statistics(new, model.components_)
    return float(variance), gaps


def rows_of(name, p, draw, n, length=LENGTH, corner=CORNER, epsilons=EPSILONS, repeats=REPEATS):
    new = GroupMoments.from_arrays(*draw(None if name == "adult" else 100_000, 10**6))
    figures = {epsilon: [] for epsilon in epsilons}
    for repeat in range(repeats):
        rows = draw(n, repeat)
        if rows is None:
            return
        kept, plain = measure(fit(GroupMoments.from_arrays(*rows)), new)
        for epsilon in epsilons:
            random = np.random.default_rng([repeat, n])
            noisy = private_moments(*rows, epsilon, length, corner, random)
            share, gaps = measure(fit(noisy), new)
            figures[epsilon].append((share / kept, *map(largest, (gaps, plain))))
    for epsilon, values in figures.items():
        share, gaps, plain = zip(*values, strict=True)
        yield {
            "set": name,
            "p": p,
            "n": n,
            "epsilon": epsilon,
            "kept": round(float(np.median(share)), 4),
            "kept_least": round(float(min(share)), 4),
            "mean_gap": round(float(np.median([g[0] for g in gaps])), 4),
            "mean_gap_exact": round(float(np.median([g[0] for g in plain])), 4),
            "cov_gap": round(float(np.median([g[1] for g in gaps])), 4),
            "cov_gap_exact": round(float(np.median([g[1] for g in plain])), 4),
        }


def largest(gaps):
    """Largest mean and covariance gap over the contrasts."""
    return float(np.max(gaps.mean_gap)), float(np.max(gaps.cov_gap))


def main():
    table = []
    for p in (10, 40):
        for name, draw in (("made", made(p, 7)), ("adult", adult(p))):
            for n in SIZES:
                for row in rows_of(name, p, draw, n):
                    print(*row.values(), sep="\t", flush=True)
                    table.append(row)
    results.save("private", table, delta=DELTA, components=D, length=LENGTH, corner=CORNER)


if __name__ == "__main__":
    main()
