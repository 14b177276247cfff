"""Moments with noise that hides any single row: what do fair components from them keep?

    python benchmarks/private.py      benchmarks/results/private.json; 10 minutes

Rows are measured in deviations that are known beforehand; `GroupMoments.privatized` clips them to
a length and adds noise. The length was chosen on made rows that are not reported; "made" and adult
are. FAIRPCA_DATA has adult.

Figures are of held-out rows: the variance kept as a share of what the fit without noise keeps,
and the gaps of both fits.
"""

import warnings

import numpy as np
import results

from fairpca import FairPCA, GroupMoments
from fairpca.moments import gap_statistics
from reproduction.datasets import load_dataset

EPSILONS, DELTA, D, REPEATS = (0.5, 1.0, 4.0), 1e-6, 5, 5
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
LENGTH = 1.3  # of a row, in √p deviations: the default of the library
KNOWN = {"groups": (0, 1), "center": 0.0, "scale": 1.0, "delta": DELTA, "bound": LENGTH}


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


def fit(moments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return FairPCA(D, certify=False, missing_groups="ignore").fit_moments(moments)


def measure(model, new):
    variance = np.trace(model.components_ @ new.pooled().covariance @ model.components_.T)
    gaps = gap_statistics(new, model.components_)
    return float(variance), gaps


def rows_of(name, p, draw, n, epsilons=EPSILONS, repeats=REPEATS):
    new = GroupMoments.from_arrays(*draw(None if name == "adult" else 100_000, 10**6))
    figures = {epsilon: [] for epsilon in epsilons}
    for repeat in range(repeats):
        rows = draw(n, repeat)
        if rows is None:
            return
        kept, plain = measure(fit(GroupMoments.from_arrays(*rows)), new)
        for epsilon in epsilons:
            random = np.random.default_rng([repeat, n])
            noisy = GroupMoments.privatized(*rows, **KNOWN, epsilon=epsilon, random_state=random)
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
    results.save("private", table, delta=DELTA, components=D, length=LENGTH)


if __name__ == "__main__":
    main()
