"""Speed of the metrics against the obvious NumPy or scikit-learn way, in one run.

python benchmarks/metrics.py            a few minutes; slow rivals are timed on a part of their work
python benchmarks/metrics.py --full     the brute force over all pairs of points, all of it
"""

import argparse
import time
import tracemalloc

import numpy as np
import results
from sklearn.svm import SVC, LinearSVC

from fairpca.linalg import single_blas_thread
from fairpca.metrics import audit, delta_fairness
from fairpca.metrics._svm import PENALTIES


def seconds(function, repeats=3):
    """Processor time of the best of a few runs, and the result; others may use the machine."""
    best, result = np.inf, None
    for _ in range(repeats):
        start = time.process_time()
        result = function()
        best = min(best, time.process_time() - start)
    return best, result


def groups(n, d, seed=0, shift=0.2):
    rng = np.random.default_rng(seed)
    z = rng.random(n) < 0.4
    return rng.normal(size=(n, d)) + shift * z[:, None], z


def broadcast_orthants(U, z, chunk=100):
    """Compare all pairs of rows by broadcasting, a chunk at a time."""
    mass = np.where(z, 1 / z.sum(), -1 / (~z).sum())
    best = 0.0
    for start in range(0, len(U), chunk):
        inside = (U[None, :, :] <= U[start : start + chunk, None, :]).all(axis=2)
        best = max(best, np.abs(inside @ mass).max())
    return best


def brute_half_planes(U, z, anchors):
    """Lines through each anchor and every other point: which side is every point on?"""
    mass = np.where(z, 1 / z.sum(), -1 / (~z).sum())
    best = 0.0
    for i in anchors:
        direction = U - U[i]
        side = direction[:, :1] * direction[None, :, 1] - direction[:, 1:] * direction[None, :, 0]
        left = (side > 0) @ mass
        ends = mass[i] + mass
        best = max(best, np.abs(left).max(), np.abs(left + ends).max())
        best = max(best, np.abs(left + mass[i]).max(), np.abs(left + mass).max())
    return best


def ks(scores, z):
    order = np.argsort(scores)
    sums = np.cumsum(np.where(z[order], 1 / z.sum(), -1 / (~z).sum()))
    return np.abs(sums).max()


def scikit_learn_svm(U, z, machine):
    """The paper's estimate with scikit-learn: an SVM for each of our penalties, and the best."""
    rows = (U - U.mean(axis=0)) / U.std(axis=0)
    values = []
    for penalty in PENALTIES:
        C = 1 / (len(U) * penalty)
        if machine is SVC:
            model = SVC(kernel="linear", C=C, class_weight="balanced")
        else:
            model = LinearSVC(C=C, class_weight="balanced", max_iter=20_000)
        values.append(ks(rows @ model.fit(rows, z).coef_[0], z))
    return max(values)


def bench_orthants():
    U, z = groups(20_000, 5)
    ours, value = seconds(lambda: delta_fairness(U, z, family="cdf", method="sample").value)
    theirs, other = seconds(lambda: broadcast_orthants(U, z), 1)
    assert abs(value - other) < 1e-12
    tracemalloc.start()
    delta_fairness(U, z, family="cdf", method="sample")
    memory = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    yield "cdf at the rows, n=20,000 d=5", ours, "broadcasting", theirs, "≥ 10×", theirs / ours
    yield "   peak memory, MB", memory, "", None, "< 200", None


def bench_plane(full):
    n = 5000
    U, z = groups(n, 2)
    ours, result = seconds(lambda: delta_fairness(U, z, method="exact"), 2)
    anchors = range(n) if full else range(0, n, 100)
    part, other = seconds(lambda: brute_half_planes(U, z, anchors), 1)
    assert other <= result.value + 1e-12
    theirs = part * n / len(anchors)
    name = "all pairs" if full else "all pairs (1 % timed)"
    yield "exact half-planes, n=5,000", ours, name, theirs, "≥ 50×", theirs / ours
    many, _ = seconds(lambda: delta_fairness(U, z, method="exact", n_permutations=200), 1)
    yield "200 permutations, exact, n=5,000", many, "one evaluation", ours, "< 20", many / ours


def bench_svm():
    for n, d in ((1000, 2), (2000, 2), (2000, 5), (10_000, 5)):
        yield from bench_svm_at(n, d)


def bench_svm_at(n, d):
    U, z = groups(n, d)
    one, _ = seconds(lambda: delta_fairness(U, z))
    many, _ = seconds(lambda: delta_fairness(U, z, n_permutations=200), 2)
    libsvm, _ = seconds(lambda: scikit_learn_svm(U, z, SVC), 1)
    liblinear, _ = seconds(lambda: scikit_learn_svm(U, z, LinearSVC), 1)
    name = f"200 permutations, svm, n={n:,} d={d}"
    yield name, many, "one SVC evaluation", libsvm, "< 20", many / libsvm
    yield name, many, "one LinearSVC evaluation", liblinear, "", many / liblinear
    yield name, many, "one evaluation of ours", one, "< 20", many / one


def bench_search():
    U, z = groups(2000, 5)
    one, _ = seconds(lambda: delta_fairness(U, z, method="search"))
    svm, _ = seconds(lambda: delta_fairness(U, z))
    yield "search, n=2,000 d=5", one, "svm of ours", svm, "", one / svm


def bench_audit():
    """Whole audits with default options: rows whose means agree, as after a fit, and many rows."""
    U, z = groups(48_842, 2)
    U -= np.where(z[:, None], U[z].mean(axis=0), U[~z].mean(axis=0))
    fitted, _ = seconds(lambda: audit(U, z), 1)
    yield "audit, fitted rows, n=48,842 d=2", fitted, "limit", 60.0, "< 1", fitted / 60
    U, z = groups(1_000_000, 5)
    tracemalloc.start()
    many, _ = seconds(lambda: audit(U, z), 1)
    memory = tracemalloc.get_traced_memory()[1] / U.nbytes
    tracemalloc.stop()
    yield "audit, n=1,000,000 d=5", many, "limit", 60.0, "< 1", many / 60
    yield "   peak memory, times the rows", memory, "", None, "< 3", None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="run the brute force in full")
    full = parser.parse_args().full
    print(f"{'what':<38}{'CPU time':>9}   {'against':<26}{'CPU time':>10}{'ratio':>9}  target")
    rows = []
    with single_blas_thread():
        for bench in (
            bench_orthants,
            lambda: bench_plane(full),
            bench_svm,
            bench_search,
            bench_audit,
        ):
            for name, ours, rival, theirs, target, ratio in bench():
                rows.append(
                    {
                        "what": name,
                        "ours": ours,
                        "against": rival,
                        "theirs": theirs,
                        "ratio": ratio,
                        "target": target,
                    }
                )
                unit = "" if rival == "" else " s"
                other = "" if theirs is None else f"{theirs:.3f} s"
                shown = "" if ratio is None else f"{ratio:.1f}"
                cell = f"{ours:.3f}{unit}" if unit else f"{ours:.1f}"
                print(
                    f"{name:<38}{cell:>9}   {rival:<26}{other:>10}{shown:>9}  {target}", flush=True
                )
    results.save("metrics", rows)


if __name__ == "__main__":
    main()
