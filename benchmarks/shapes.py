"""Cost of a solve at every shape, in eigendecompositions of the same matrix in the same run.

    python benchmarks/shapes.py                 everything, about five minutes
    python benchmarks/shapes.py --table         only the tables of docs/design, from the last run
    python benchmarks/shapes.py --quick         p = 100 and 200 and the wide tables, a minute
    python benchmarks/shapes.py --sizes 400     other sizes; --components 5,10 other numbers

Two families of problems: "decaying" are random covariances with a decaying spectrum, "factors" are
covariances of rows of a factor model whose groups differ. One BLAS thread, processor time; an
eigendecomposition is timed before and after every solve, and the medians of both are divided, so
that what else the machine does matters little. The figures are in benchmarks/results/shapes.json,
and a whole run writes them into the tables of docs/design.
"""

import argparse
import time
import tracemalloc
import warnings

import numpy as np
import results
import scipy.linalg
import shapes_table
from sklearn.decomposition import PCA

from fairpca import FairPCA
from fairpca.linalg import complement_basis, single_blas_thread
from fairpca.solvers import FairProblem, solve
from fairpca.solvers._problem import reduce_problem

FORMS = {
    "basis only": ({}, {"certify": False}),
    "penalized": ({}, {}),
    "limited": ({"cov_tol": 0.05}, {}),
}
LARGE = 500


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


def factors(size, rng):
    """Covariances and means of two groups of rows from a factor model, standardised."""
    X, z = factor_rows(20 * size, size, rng)
    one, other = X[z], X[~z]
    gap = np.cov(one.T, bias=True) - np.cov(other.T, bias=True)
    return np.cov(X.T, bias=True), one.mean(axis=0) - other.mean(axis=0), gap


def factor_rows(rows, size, rng):
    loadings = rng.normal(size=(size, 10)) * np.linspace(1.5, 0.5, 10)
    X = rng.normal(size=(rows, 10)) @ loadings.T + rng.normal(size=(rows, size))
    z = rng.random(rows) < 0.4
    X[z] = X[z] * (1.0 + 0.4 * rng.random(size)) + 0.3 * rng.normal(size=size)
    return (X - X.mean(axis=0)) / X.std(axis=0), z


def seconds(function):
    start = time.process_time()
    result = function()
    return time.process_time() - start, result


def ratio(function, reference, repetitions):
    """Median time of a function over that of a reference, in turns; seconds; the last result."""
    spent, unit = [], []
    if repetitions > 1:
        reference()  # the first call of anything is slow
    for _ in range(repetitions):
        unit.append(seconds(reference)[0])
        took, result = seconds(function)
        spent.append(took)
        unit.append(seconds(reference)[0])
    return float(np.median(spent) / np.median(unit)), float(np.median(spent)), result


def row(family, size, d, form, measured, certificate=None):
    line = {"family": family, "p": size, "d": d, "form": form}
    line |= {"ratio": round(measured[0], 2), "seconds": round(measured[1], 4)}
    if certificate is not None:
        line |= {"gap": certificate.gap, "settled": certificate.basis_settled}
    gap = "" if certificate is None else f"{100 * certificate.gap:8.4f}"
    print(
        f"{family:<9} {size:>6} {d:>3} {form:<28} {measured[0]:>8.1f} {measured[1]:>8.3f} {gap}",
        flush=True,
    )
    return line


def dense(family, size, d):
    """Rows of the table for one covariance matrix, in eigendecompositions of it."""
    S, mean_gap, cov_gap = family(size, np.random.default_rng(0))
    repetitions = 5 if size < LARGE else 1
    options = {
        form: (FairProblem(S, mean_gap[None], cov_gap[None], d, **limits), how)
        for form, (limits, how) in FORMS.items()
    }
    means = FairProblem(S, mean_gap[None], cov_gap[None], d, cov_weight=0.0)
    options["equal means only"] = (means, {})
    for form, (problem, how) in options.items():
        measured = ratio(
            lambda problem=problem, how=how: solve(problem, **how),
            lambda: scipy.linalg.eigh(S),
            repetitions,
        )
        yield row(family.__name__, size, d, form, measured, measured[2].certificate)
    measured = ratio(lambda: erase(S, mean_gap, d), lambda: scipy.linalg.eigh(S), repetitions)
    yield row(family.__name__, size, d, "LEACE + PCA", measured)
    top = (size - d, size - 1)
    measured = ratio(
        lambda: scipy.linalg.eigh(S, subset_by_index=top), lambda: scipy.linalg.eigh(S), repetitions
    )
    yield row(family.__name__, size, d, "PCA", measured)


# What fifty components may cost, in eigendecompositions: basis and certificate under a penalty, the
# ascent alone under a limit of a fifth of the largest gap.
TARGETS = {("penalized", 50): 40, ("ascent, limit 20 %", 10): 150, ("ascent, limit 20 %", 50): 450}


def many(family, size, d):
    """Rows of many components, each next to its target."""
    S, mean_gap, cov_gap = family(size, np.random.default_rng(0))
    limit = 0.2 * float(np.linalg.norm(cov_gap, 2))
    forms = {
        "penalized": (FairProblem(S, mean_gap[None], cov_gap[None], d), {}),
        "ascent, limit 20 %": (
            FairProblem(S, mean_gap[None], cov_gap[None], d, cov_tol=limit),
            {"certify": False},
        ),
    }
    for form, (problem, how) in forms.items():
        if (form, d) in TARGETS:
            measured = ratio(
                lambda problem=problem, how=how: solve(problem, **how),
                lambda: scipy.linalg.eigh(S),
                1,
            )
            line = row(family.__name__, size, d, form, measured, measured[2].certificate)
            line["target"] = TARGETS[form, d]
            met = "met" if line["ratio"] <= line["target"] else "missed"
            print(f"{'':<20} target {line['target']}: {met}")
            yield line


def few_rows(rows=200, size=20000, d=50):
    """Many components of few rows, in eigendecompositions of a matrix of their size."""
    X, z = factor_rows(rows, size, np.random.default_rng(0))
    fair, gram = FairPCA(d), X @ X.T
    measured = ratio(lambda: fair.fit(X, sensitive_features=z), lambda: scipy.linalg.eigh(gram), 1)
    line = row("rows", size, d, f"n = {rows}, in eigh of {rows}", measured, fair.certificate_)
    yield line | {"target": 600}


def erase(S, mean_gap, d):
    """Least-squares erasure of the group, then PCA of what is left."""
    values, vectors = scipy.linalg.eigh(S)
    root = np.sqrt(np.maximum(values, 0.0))
    whitened = (vectors.T @ mean_gap) / np.where(root > 1e-9, root, np.inf)
    N = complement_basis(whitened[None], 1e-12)
    left = (vectors * root) @ N
    return scipy.linalg.eigh(left @ left.T, subset_by_index=(len(S) - d, len(S) - 1))


def wide(size, rows=100, d=5):
    """A certified fit of few rows, in fits of scikit-learn's PCA of the same rows."""
    X, z = factor_rows(rows, size, np.random.default_rng(0))
    fair, plain = FairPCA(d), PCA(d, svd_solver="full")
    measured = ratio(lambda: fair.fit(X, sensitive_features=z), lambda: plain.fit(X), 5)
    line = row("rows", size, d, f"n = {rows}, fit over PCA", measured, fair.certificate_)
    tracemalloc.start()
    FairPCA(d).fit(X, sensitive_features=z)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    line["memory"] = round((X.nbytes + peak) / X.nbytes, 2)
    print(f"{'':<20} peak memory {line['memory']} times the rows ({X.nbytes / 1e6:.1f} MB)")
    yield line


def conic(size, d, solver):
    """The relaxation behind a certificate in a general solver, in our certified solves."""
    import cvxpy as cp

    S, mean_gap, cov_gap = decaying(size, np.random.default_rng(0))
    problem = FairProblem(S, mean_gap[None], cov_gap[None], d)
    reduced = reduce_problem(problem)
    P, s = cp.Variable((reduced.size, reduced.size), symmetric=True), cp.Variable(nonneg=True)
    eye = np.eye(reduced.size)
    limits = [P >> 0, eye - P >> 0, cp.trace(P) == d]
    for Q in (reduced.Q[0], -reduced.Q[0]):
        values, vectors = np.linalg.eigh(Q)
        shift = max(0.0, -values[0])
        R = (vectors * np.sqrt(np.maximum(values + shift, 0.0))) @ vectors.T
        limits += [(shift + s) * eye - R @ P @ R >> 0, cp.trace(Q @ P) <= d * s]
    whole = cp.Problem(cp.Maximize(cp.trace(reduced.S @ P) - reduced.penalty * s), limits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spent, _ = seconds(lambda: whole.solve(solver=solver))
    ours, found = seconds(lambda: solve(problem))
    bound, other = found.certificate.bound, whole.value * reduced.scale
    line = row("decaying", size, d, f"{solver} over ours", (spent / ours, spent))
    yield line | {"status": whole.status, "difference": abs(other - bound) / bound}


def chosen(arguments):
    """What to measure: functions that yield rows."""
    numbers = [int(text) for text in arguments.components.split(",")]
    if arguments.sizes:
        sizes = [int(text) for text in arguments.sizes.split(",")]
    else:
        sizes = [100, 200] if arguments.quick else [100, 200, 400, 768, 1000, 2000]
    for size in sizes:
        for d in numbers if size < LARGE else [max(numbers)]:
            for family in (decaying, factors) if size <= 1000 else (decaying,):
                yield dense(family, size, d)
    if not (arguments.sizes or arguments.quick):
        for size in (400, 768):
            for family in (decaying, factors):
                yield from (many(family, size, d) for d in (10, 50))
        yield few_rows()
    if not arguments.sizes:
        for size in (1000, 3000, 50000):
            yield wide(size)
        for size in (10, 20) if arguments.quick else (10, 20, 30):
            for solver in ("CLARABEL", "SCS"):
                yield conic(size, 2, solver)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the small ones only")
    parser.add_argument("--sizes", default="", help="numbers of features, instead of everything")
    parser.add_argument("--components", default="5,10")
    parser.add_argument("--table", action="store_true", help="write the tables of the last run")
    arguments = parser.parse_args()
    if arguments.table:
        shapes_table.write()
        return
    print(f"{'family':<9} {'p':>6} {'d':>3} {'form':<28} {'ratio':>8} {'seconds':>8} {'gap %':>8}")
    with single_blas_thread():
        found = [line for lines in chosen(arguments) for line in lines]
    if not (arguments.quick or arguments.sizes):
        results.save("shapes", found)
        shapes_table.write()


if __name__ == "__main__":
    main()
