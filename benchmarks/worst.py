"""The group that keeps the least: speed, credit data, and what each objective costs the other.

    python benchmarks/worst.py                  all that the data at hand allow, some minutes
    python benchmarks/worst.py speed credit sets  some of the three

Speed is process time in eigendecompositions (`numpy.linalg.eigh`) of the same p×p matrix, which are
timed in between, on one thread. The data sets are looked for in the folder FAIRPCA_DATA.
"""

import os
import sys
import time
from pathlib import Path

import numpy as np
import results

from fairpca import FairPCA, GroupMoments
from fairpca.linalg import single_blas_thread, top_eigenpairs
from fairpca.solvers import FairProblem, solve

UCI = (
    *("adult", "biodeg", "ecoli", "energy", "german_credit", "image_segmentation"),
    *("letter_recognition", "magic", "pima_diabetes", "recidivism", "skillcraft"),
    *("statlog_landsat", "steel_plates", "taiwanese_credit", "wine_quality"),
)
PURE = {"mean_tol": None, "cov_weight": 0.0}
MOST_STEPS = 200
ROWS = []


def note(**row):
    ROWS.append(row)
    shown = (f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
    print(", ".join(shown), flush=True)


def seconds(function, *arguments):
    start = time.process_time()
    found = function(*arguments)
    return time.process_time() - start, found


def make_groups(n_groups, size, seed=0):
    """Covariances of groups that share some of their ten factors."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(size, 10)) * np.linspace(2.0, 0.5, 10)
    found = np.empty((n_groups, size, size))
    for g in range(n_groups):
        loadings = common * rng.uniform(0.3, 1.5, 10) + 0.7 * rng.normal(size=(size, 10))
        X = rng.normal(size=(1500, 10)) @ loadings.T + rng.normal(size=(1500, size))
        X -= X.mean(axis=0)
        found[g] = X.T @ X / len(X)
    return found


def solve_groups(groups, d, objective):
    """Own bests and solution, as a fit from moments computes them."""
    size = groups.shape[-1]
    offsets = np.zeros(len(groups))
    if objective == "worst-loss":
        offsets = np.array([top_eigenpairs(S, d)[0].sum() for S in groups])
    empty = np.zeros((0, size)), np.zeros((0, size, size))
    objectives = {"group_covariances": groups, "group_offsets": offsets}
    return solve(FairProblem(groups.mean(axis=0), *empty, d, **PURE, **objectives)), offsets


def multiplicative_weights(groups, offsets, d, rate, most):
    """Eigendecompositions that multiplicative weights need for a duality gap of 0.1 %."""
    w, total = np.full(len(groups), 1.0 / len(groups)), np.zeros(len(groups))
    bound, width = np.inf, np.abs(np.trace(groups, axis1=1, axis2=2)).max()
    for step in range(1, most + 1):
        values, V = top_eigenpairs(np.tensordot(w, groups, 1), d)
        bound = min(bound, values.sum() - w @ offsets)
        kept = np.einsum("gij,ij->g", groups @ V, V) - offsets
        total += kept
        # The average of all projectors so far is a relaxed point, and linear in them.
        if bound - (total / step).min() <= 1e-3 * abs(bound):
            return step
        w = w * np.exp(-rate * (kept - kept.min()) / width)
        w /= w.sum()
    return None


def speed(size=1000):
    for n_groups, target in ((2, 15), (16, 60)):
        groups = make_groups(n_groups, size)
        for objective in ("worst-variance", "worst-loss"):
            units, times = [], []
            for _ in range(3):
                units.append(seconds(np.linalg.eigh, groups[0])[0])
                spent, (found, offsets) = seconds(solve_groups, groups, 3, objective)
                times.append(spent)
            certificate = found.certificate
            ratio = float(np.median(times) / np.median(units))
            row = {
                "case": "speed",
                "groups": n_groups,
                "size": size,
                "d": 3,
                "objective": objective,
                "eigendecompositions": ratio,
                "target": target,
                "seconds": float(np.median(times)),
                "eigh": float(np.median(units)),
                "gap": certificate.gap,
                "duality_gap": certificate.duality_gap,
                "steps": found.n_iter,
            }
            if n_groups > 2:
                row["multiplicative_weights"] = best_rate(groups, offsets)
            note(**row)


def best_rate(groups, offsets):
    """Fewest steps over learning rates; the peer is given its best one."""
    found, most = {}, MOST_STEPS
    for rate in (30.0, 100.0):
        steps = multiplicative_weights(groups, offsets, 3, rate, most)
        if steps is not None:
            found[rate] = most = steps
    return min(found.values()) if found else f"more than {MOST_STEPS}"


def read_credit(folder):
    """Scaled features and groups of the literature: its published losses come out to all digits.

    The six months of a quantity are divided by one number. Higher education (codes 0 to 2), high
    school (3) and others; four groups are the first two, others in the second, by sex.
    """
    import pandas as pd

    table = pd.read_csv(Path(folder, "raw", "credit_card_clients.csv.gz"))
    X = table.drop(columns=table.columns[-1]).astype(float)
    months = [f"PAY_{month}" for month in (0, 2, 3, 4, 5, 6)]
    blocks = [months, *([f"{name}_AMT{k}" for k in range(1, 7)] for name in ("BILL", "PAY"))]
    blocks += [[name] for name in X if not any(name in block for block in blocks)]
    for block in blocks:
        X[block] /= X[block].to_numpy().std(ddof=1)
    sex = table["SEX"].map({1: "men", 2: "women"})
    levels = dict.fromkeys((0, 1, 2), "higher") | {3: "high school"}
    school = table["EDUCATION"].map(levels).fillna("others")
    low = school.replace("others", "high school")
    return X, {2: sex, 3: school, 4: low + " × " + sex, 6: school + " × " + sex}


def credit(folder):
    X, cases = read_credit(folder)
    for n_groups, groups in cases.items():
        moments = GroupMoments.from_arrays(X, groups)
        groups = moments.group_covariances()
        for d in range(2, 11):
            fair = FairPCA(d, objective="worst-loss", **PURE).fit_moments(moments)
            plain = FairPCA(d, **PURE).fit_moments(moments).components_.T
            before = float((groups.best(d) - groups.kept(plain)).max())
            after = max(fair.group_variance_["loss"])
            row = {"case": "credit", "groups": n_groups, "d": d, "pca": before, "fair": after}
            note(**row, share=after / before, gap=fair.certificate_.gap)


def sets(folder):
    import pandas as pd

    for name in UCI:
        table = pd.read_csv(Path(folder, "uci", f"{name}.csv.gz")).to_numpy(dtype=float)
        moments = GroupMoments.from_arrays(table[:, :-2], table[:, -1].astype(int)).standardized()
        groups = moments.group_covariances()
        for d in (2, 5):
            row = {"case": "sets", "data": name, "d": d}
            for key, options in (
                ("pca", PURE),
                ("means", {"cov_weight": 0.0}),
                ("group", {**PURE, "objective": "worst-loss"}),
                ("both", {"cov_weight": 0.0, "objective": "worst-loss"}),
            ):
                fitted = FairPCA(d, **options).fit_moments(moments)
                loss = float((groups.best(d) - groups.kept(fitted.components_.T)).max())
                row[f"{key}_variance"] = 100 * float(fitted.explained_variance_ratio_.sum())
                row[f"{key}_loss"], row[f"{key}_mean_gap"] = max(loss, 0.0), fitted.mean_gap_
                row[f"{key}_gap"] = fitted.certificate_.gap
            note(**row)
    print_sets()


def print_sets():
    """The table of the guide."""
    for d in (2, 5):
        print(f"| d = {d} | PCA | equal means | worst loss | both |\n|---|---|---|---|---|")
        for row in ROWS:
            if row["case"] == "sets" and row["d"] == d:
                cells = [
                    f"{row[f'{key}_variance']:.1f} / {row[f'{key}_loss']:.2f} / "
                    f"{row[f'{key}_mean_gap']:.2f}"
                    for key in ("pca", "means", "group", "both")
                ]
                print(f"| {row['data'].replace('_', ' ')} | {' | '.join(cells)} |")


def main():
    chosen = sys.argv[1:] or ["speed", "credit", "sets"]
    folder = os.environ.get("FAIRPCA_DATA")
    with single_blas_thread():
        for name, part in (("sets", sets), ("credit", credit)):
            if name in chosen and folder:
                part(folder)
        if "speed" in chosen:
            speed()
    results.save("worst", ROWS)


if __name__ == "__main__":
    main()
