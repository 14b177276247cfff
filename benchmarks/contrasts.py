"""Cost of many contrasts: a certified fit at p = 60, as multiples of the fit with one contrast.

python benchmarks/contrasts.py
"""

import time

import numpy as np
import results

from fairpca.linalg import single_blas_thread
from fairpca.solvers import FairProblem, solve


def make_problem(n_contrasts, n_components, size=60, rows=2000, **options):
    """Random groups, each with its own change of the features' scales."""
    rng = np.random.default_rng(1)
    loadings = rng.normal(size=(size, 8)) * np.linspace(1.5, 0.5, 8)
    X = rng.normal(size=(rows, 8)) @ loadings.T + rng.normal(size=(rows, size))
    groups = [rng.random(rows) < rng.uniform(0.2, 0.8) for _ in range(n_contrasts)]
    for group in groups:
        X[group] *= 1.0 + 0.3 * rng.random(size)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    cov_gaps = [np.cov(X[g].T, bias=True) - np.cov(X[~g].T, bias=True) for g in groups]
    covariance = np.cov(X.T, bias=True)
    no_means = np.zeros((0, size))
    return FairProblem(covariance, no_means, np.array(cov_gaps), n_components, **options)


def median_seconds(problem, repetitions=3):
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        solution = solve(problem)
        times.append(time.perf_counter() - start)
    return float(np.median(times)), solution.certificate


def main():
    print("form         d  contrasts   seconds  times one   gap      target")
    rows = []
    with single_blas_thread():
        for form, options in (("penalized", {}), ("constrained", {"cov_tol": 3.0})):
            for d in (2, 5):
                one = None
                for n_contrasts in (1, 5, 20, 50):
                    spent, certificate = median_seconds(make_problem(n_contrasts, d, **options))
                    one = one or spent
                    target = "at most 60" if n_contrasts == 50 else ""
                    rows.append(
                        {
                            "form": form,
                            "d": d,
                            "contrasts": n_contrasts,
                            "seconds": spent,
                            "times_one": spent / one,
                            "gap": certificate.gap,
                        }
                    )
                    print(
                        f"{form:<12} {d}  {n_contrasts:>9} {spent:>9.2f} {spent / one:>10.1f}"
                        f"   {certificate.gap:.1e}  {target}"
                    )
    results.save("contrasts", rows)


if __name__ == "__main__":
    main()
