"""Cost of a solve at every shape, in eigendecompositions of the same matrix in the same run.

    python benchmarks/shapes.py                       p = 100, 200, 400; some minutes
    python benchmarks/shapes.py --sizes 768,1000,2000 the large ones, a quarter of an hour
    python benchmarks/shapes.py --out shapes.json     the figures as JSON as well (default: build/)

Two families of problems: "factors" are rows of a factor model whose groups differ, "decaying" are
random covariances with a decaying spectrum. One BLAS thread, processor time.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import scipy.linalg

from fairpca.linalg import complement_basis, single_blas_thread
from fairpca.solvers import FairProblem, solve

FORMS = {
    "basis only": ({}, {"certify": False}),
    "priced": ({}, {}),
    "limited": ({"cov_tol": 0.05}, {}),
}


def factors(size, rng):
    """Covariances and means of two groups of rows from a factor model, standardised."""
    rows = 20 * size
    loadings = rng.normal(size=(size, 10)) * np.linspace(1.5, 0.5, 10)
    X = rng.normal(size=(rows, 10)) @ loadings.T + rng.normal(size=(rows, size))
    z = rng.random(rows) < 0.4
    X[z] = X[z] * (1.0 + 0.4 * rng.random(size)) + 0.3 * rng.normal(size=size)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    one, other = X[z], X[~z]
    gap = np.cov(one.T, bias=True) - np.cov(other.T, bias=True)
    return np.cov(X.T, bias=True), one.mean(axis=0) - other.mean(axis=0), gap


def decaying(size, rng):
    """Random covariances that share a part, with eigenvalues falling like a power."""

    def covariance():
        basis = np.linalg.qr(rng.normal(size=(size, size)))[0]
        return (basis / np.arange(1, size + 1) ** 0.7) @ basis.T

    shared = covariance()
    one, other = shared + 0.3 * covariance(), shared + 0.3 * covariance()
    scale = size / np.trace(0.5 * (one + other))
    mean_gap = 0.3 * rng.normal(size=size)
    pooled = 0.5 * scale * (one + other) + 0.25 * np.outer(mean_gap, mean_gap)
    return pooled, mean_gap, scale * (one - other)


def seconds(function, repetitions=1):
    """Median processor time, and the last result."""
    times = []
    for _ in range(repetitions):
        start = time.process_time()
        result = function()
        times.append(time.process_time() - start)
    return float(np.median(times)), result


def measure(family, size, d):
    """Rows of the table for one matrix."""
    S, mean_gap, cov_gap = family(size, np.random.default_rng(0))
    unit, _ = seconds(lambda: scipy.linalg.eigh(S), 9 if size < 500 else 2)
    for form, (limits, options) in FORMS.items():
        problem = FairProblem(S, mean_gap[None], cov_gap[None], d, **limits)
        spent, solution = seconds(lambda: solve(problem, **options), 3 if size < 500 else 1)  # noqa: B023
        yield row(family, size, d, form, spent, unit, solution.certificate)
    plain, mean_only = (
        FairProblem(S, mean_gap[None], cov_gap[None], d, mean_tol=tol, cov_weight=0.0)
        for tol in (None, 0.0)
    )
    for form, problem in (("plain PCA", plain), ("equal means only", mean_only)):
        spent, solution = seconds(lambda: solve(problem))  # noqa: B023
        yield row(family, size, d, form, spent, unit, solution.certificate)
    spent, _ = seconds(lambda: erase(S, mean_gap, d))
    yield row(family, size, d, "LEACE + PCA", spent, unit, None)


def erase(S, mean_gap, d):
    """Least-squares erasure of the group, then PCA of what is left."""
    values, vectors = scipy.linalg.eigh(S)
    root = np.sqrt(np.maximum(values, 0.0))
    whitened = (vectors.T @ mean_gap) / np.where(root > 1e-9, root, np.inf)
    N = complement_basis(whitened[None], 1e-12)
    left = (vectors * root) @ N
    return scipy.linalg.eigh(left @ left.T, subset_by_index=(len(S) - d, len(S) - 1))


def row(family, size, d, form, spent, unit, certificate):
    return {
        "family": family.__name__,
        "p": size,
        "d": d,
        "form": form,
        "eigendecompositions": spent / unit,
        "seconds": spent,
        "gap": None if certificate is None else certificate.gap,
        "cov_gap": None if certificate is None else certificate.cov_gap,
        "converged": None if certificate is None else certificate.converged,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="100,200,400")
    parser.add_argument("--components", default="5,10")
    parser.add_argument("--out", type=Path, default=Path("build/shapes.json"))
    arguments = parser.parse_args()
    sizes, components = (
        [int(text) for text in given.split(",")]
        for given in (arguments.sizes, arguments.components)
    )
    found = []
    print(f"{'family':<9} {'p':>5} {'d':>3} {'form':<17} {'eigh':>8} {'seconds':>8} {'gap':>9}")
    with single_blas_thread():
        for size in sizes:
            for d in components:
                for family in (factors, decaying):
                    for line in measure(family, size, d):
                        found.append(line)
                        gap = "" if line["gap"] is None else f"{line['gap']:9.2e}"
                        print(
                            f"{line['family']:<9} {size:>5} {d:>3} {line['form']:<17} "
                            f"{line['eigendecompositions']:>8.1f} {line['seconds']:>8.3f} {gap}",
                            flush=True,
                        )
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
