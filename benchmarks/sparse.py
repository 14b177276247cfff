"""Sparse components next to FairPCA on the paper's 15 data sets, their speed, and their leakage.

    python benchmarks/sparse.py             all of it, and results/sparse*.json; 2 minutes
    python benchmarks/sparse.py sets        quality: two components of five and of ten loadings
    python benchmarks/sparse.py speed       means only, next to the certified FairPCA
    python benchmarks/sparse.py leakage     how well boosted trees predict the group, wine quality

FAIRPCA_DATA names the folder with the data. All rows, standardised, one BLAS thread. The limit on
the whitened covariance gap is that of FairPCA plus 0.02. The constants of the search were chosen
on random problems of other seeds: small ones for which all supports can be tried (those of
tests/oracle/test_sparse_supports.py have seeds of their own), larger ones next to a wider search,
and random tables for speed. None was chosen on these 15 sets. One step was added after a first
run on them: under a limit Newton's method ended in saddle points with ten loadings (5 of 9 sets).
It now goes uphill along directions of positive curvature, which helps on random tables too. And a
run of a simpler search on these sets showed that the random tables had no narrow limits. Some were
added (4 % of the gap of dense components), and multipliers of the limits are kept because of them.
"""

import argparse
import os
import time
from functools import partial

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import results
from frontier import distance, rows_of
from sets import covariances
from sklearn.ensemble import HistGradientBoostingClassifier

from fairpca import FairPCA, SparseFairPCA
from fairpca.exceptions import InfeasibleError
from fairpca.linalg import single_blas_thread
from fairpca.solvers import FairProblem, solve
from fairpca.solvers._sparse import (
    SparseProblem,
    explained_variances,
    independent_rows,
    solve_sparse,
    whitened_gap,
)
from reproduction.datasets import UCI

SLACK = 0.02
SIZES = (5, 10)
SHAPES = ((30, 2), (100, 2), (100, 5), (500, 5))


def score_gap(f, S, V):
    """Largest mean gap of a score, in its standard deviations."""
    return float(np.max(np.abs(f @ V) / np.sqrt(np.sum(V * (S @ V), axis=0))))


def thresholded(V, k):
    """The k largest loadings of each dense component, all others zero."""
    kept = np.zeros_like(V)
    for j, order in enumerate(np.argsort(-np.abs(V), axis=0)[:k].T):
        kept[order, j] = V[order, j]
    return kept


def compare(name, d=2):
    """Rows of the table for one data set."""
    S, f, Q = covariances(name)
    dense = solve(FairProblem(S, f[None], Q[None], d)).basis
    explained, gap = sum(explained_variances(S, dense)), whitened_gap(S, Q[None], dense)
    F = independent_rows(f[None], 1e-11)
    for k in SIZES:
        if k > len(S):
            continue
        problem = SparseProblem.pose(S, F, Q[None], d, k, gap + SLACK)
        start = time.process_time()
        state = solve_sparse(problem)
        naive = thresholded(dense, k)
        row = {"set": name, "p": len(S), "loadings": k, "FairPCA": explained / np.trace(S)}
        yield row | {
            "sparse": sum(explained_variances(S, state.V)) / np.trace(S),
            "share of FairPCA": sum(explained_variances(S, state.V)) / explained,
            "share of the bound": sum(explained_variances(S, state.V)) / problem.bound,
            "covariance gap, FairPCA": gap,
            "covariance gap, sparse": whitened_gap(S, Q[None], state.V),
            "mean gap, sparse": score_gap(f, S, state.V),
            "mean gap, thresholded": score_gap(f, S, naive),
            "seconds": time.process_time() - start,
        }


def sets():
    rows = [row for name in UCI for row in compare(name)]
    for row in rows:
        print("  ".join(f"{v:.3f}" if isinstance(v, float) else f"{v!s:>4}" for v in row.values()))
    for k in SIZES:
        of_size = [row for row in rows if row["loadings"] == k and (k == 5 or row["p"] >= 15)]
        good = [
            row for row in of_size
            if row["share of FairPCA"] >= 0.95
            and row["covariance gap, sparse"] <= row["covariance gap, FairPCA"] + SLACK + 1e-6
        ]  # fmt: skip
        print(f"{k} loadings: {len(good)} of {len(of_size)} sets explain 95 % of what FairPCA does")
    print("largest mean gap:", max(row["mean gap, sparse"] for row in rows))
    results.save(
        "sparse",
        rows,
        command="sparse.py sets",
        note="two components; gaps of whitened scores; all rows",
    )


def random_covariances(p, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2000, p // 3 + 2)) @ rng.normal(size=(p // 3 + 2, p))
    X, z = X + rng.normal(size=(2000, p)), rng.integers(0, 2, 2000)
    X[z == 1] += 0.5 * rng.normal(size=p)
    X[z == 1, : p // 2] *= 1.2
    X = (X - X.mean(0)) / X.std(0)
    one, other = X[z == 1], X[z == 0]
    gap = np.cov(one.T, bias=True) - np.cov(other.T, bias=True)
    return np.cov(X.T, bias=True), one.mean(0) - other.mean(0), gap


def seconds(function, repeats=3):
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def speed():
    rows = []
    for p, d in SHAPES:
        S, f, Q = random_covariances(p)
        F, fair = independent_rows(f[None], 1e-11), FairProblem(S, f[None], Q[None], d)
        dense = seconds(partial(solve, fair))
        for k in (5, 8):
            pose = seconds(partial(SparseProblem.pose, S, F, Q[None], d, k))
            problem = SparseProblem.pose(S, F, Q[None], d, k)
            sparse = pose + seconds(partial(solve_sparse, problem))
            row = {"p": p, "d": d, "loadings": k, "FairPCA": dense, "sparse": sparse}
            rows.append(row | {"ratio": sparse / dense})
            print(f"p {p} d {d} k {k}: {1e3 * dense:.0f} and {1e3 * sparse:.0f} ms, ", end="")
            print(f"{sparse / dense:.1f} times as long")
    results.save(
        "sparse_speed",
        rows,
        command="sparse.py speed",
        note="seconds of processor time, means only, random tables",
    )


def leakage(name="wine_quality", d=5, splits=3):
    rows = []
    models = {"FairPCA": FairPCA(d), "FairPCA, means only": FairPCA(d, cov_weight=0.0)} | {
        f"{k} loadings{', limited' if limit else ''}": SparseFairPCA(d, n_nonzero=k, cov_tol=limit)
        for k in (6, 8) for limit in (None, 0.1)
    }  # fmt: skip
    for label, model in models.items():
        figures = []
        for seed in range(splits):
            X, z, new, z_new = rows_of(name, seed)
            try:
                model.fit(X, sensitive_features=z)
            except InfeasibleError:
                continue
            trees = HistGradientBoostingClassifier(random_state=0).fit(model.transform(X), z)
            figures.append(distance(trees.predict_proba(model.transform(new))[:, 1], z_new))
        mean = float(np.mean(figures)) if figures else None
        rows.append({"method": label, "splits": len(figures), "delta, boosted trees": mean})
        print(rows[-1])
    results.save(
        "sparse_leakage",
        rows,
        command="sparse.py leakage",
        note=f"{name}, {d} components, held-out rows",
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="?", choices=("sets", "speed", "leakage"))
    part = parser.parse_args().part
    with single_blas_thread():
        for name, run in (("sets", sets), ("speed", speed), ("leakage", leakage)):
            if part in (None, name):
                run()


if __name__ == "__main__":
    main()
