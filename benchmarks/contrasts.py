"""Intersections of several attributes under a limit on covariances: basis, bound and time.

    python benchmarks/contrasts.py                     the 15 sets, COMPAS, German credit and Adult
    python benchmarks/contrasts.py --against old.json  next to the figures of another run
    python benchmarks/contrasts.py --out new.json      somewhere else; --names adult for some
    python benchmarks/contrasts.py --cost              up to 50 contrasts in fits with one contrast

FAIRPCA_DATA names the folder with the data. COMPAS, German credit and Adult have several
attributes. To the protected attribute of each of the 15 sets the first features that a median
splits into two parts of at least a quarter are added (two of them, from 20 features on, else one).
All rows, standardised, one BLAS thread, processor time. Means are equal from 20 features on, where
they leave a quarter of the dimensions: of fewer features they would leave none.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import results

from fairpca.datasets import fetch_adult, fetch_compas, fetch_german
from fairpca.exceptions import InfeasibleError
from fairpca.linalg import single_blas_thread
from fairpca.moments import GroupMoments
from fairpca.solvers import FairProblem, solve
from reproduction.datasets import UCI, load_dataset

LIMITS, COMPONENTS = (0.3, 0.05), (2, 5, 10)
# Features from which on means are equal, and two further attributes are made of features.
MANY = 20
# Rows of a cell whose covariance is compared: the same under every version.
LEAST_ROWS = 50
PUBLISHED = {
    "compas": (fetch_compas, ["race", "sex", "age_cat"]),
    "german": (fetch_german, ["personal_status_and_sex", "foreign_worker"]),
    "adult raw": (fetch_adult, ["sex", "race", "marital_status"]),
}


def table(name):
    """Features and at least two attributes."""
    if name in PUBLISHED:
        fetch, attributes = PUBLISHED[name]
        data = fetch()
        X = pd.get_dummies(data.data, dtype=float)
        return X.fillna(X.mean()), data.sensitive_features[attributes]
    data = load_dataset(name)
    X, groups = data.data.astype(float), data.sensitive_features.iloc[:, :1].copy()
    splits = [c for c in X if 0.25 <= (X[c] > X[c].median()).mean() <= 0.75]
    for column in splits[: 2 if X.shape[1] >= MANY else 1]:
        groups[f"large {column}"] = X[column] > X[column].median()
        X = X.drop(columns=column)
    return X, groups


def problems(name):
    """Yield the problems of one table."""
    X, groups = table(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # small cells are left out under every version alike
        moments = GroupMoments.from_arrays(X.to_numpy(float), groups.astype(str)).standardized()
        contrasts = moments.contrasts(joint=True, min_group_size=LEAST_ROWS)
    for d in COMPONENTS:
        for limit in LIMITS:
            if d < X.shape[1]:
                yield d, limit, contrasts, moments.pooled().covariance


def measure(name):
    """Rows of the table for one data set."""
    for d, limit, contrasts, covariance in problems(name):
        row = {"set": name, "p": len(covariance), "d": d, "cov_tol": limit}
        start = time.process_time()
        try:
            many = 4 * len(contrasts.mean_gaps) > 3 * len(covariance)
            mean_tol = 0.0 if len(covariance) >= MANY and not many else None
            limits = {"mean_tol": mean_tol, "cov_tol": limit}
            problem = FairProblem.from_contrasts(covariance, contrasts, d, **limits)
            row["contrasts"] = len(problem.cov_gaps)
            start = time.process_time()
            found = solve(problem)
        except InfeasibleError as error:
            is_proven = "by any basis found" not in str(error)
            yield row | {"gap": None, "proven": is_proven, "seconds": time.process_time() - start}
            continue
        certificate = found.certificate
        variances = np.einsum("ij,ij->j", found.basis, covariance @ found.basis)
        yield row | {
            "gap": certificate.gap,
            "objective": certificate.objective,
            "bound": certificate.bound,
            "empty": int(np.count_nonzero(variances <= 1e-9 * np.trace(covariance))),
            "seconds": time.process_time() - start,
        }


def key_of(row):
    return row["set"], row["d"], row["cov_tol"]


def shown(row):
    if row["gap"] is None:
        return "  infeasible" if row["proven"] else "  none found"
    return f"{row['objective']:>8.4f} {100 * row['gap']:>7.2f} {row['empty'] or '':>2}"


def compare(row, before):
    """What another run found, and where this one is worse or either bound is wrong."""
    if before is None:
        return ""
    mark = ""
    if before["gap"] is not None and row["gap"] is not None:
        slack = 1e-7 * abs(row["bound"])
        mark = "WORSE" if row["objective"] < before["objective"] - 10.0 * slack else ""
        if min(row["bound"] - before["objective"], before["bound"] - row["objective"]) < -slack:
            mark += " WRONG BOUND"
    elif row["gap"] is None and before["gap"] is not None:
        mark = "LOST"
    times = row["seconds"] / max(before["seconds"], 1e-9)
    return f"| {shown(before):<20} {times:>5.2f} {mark}"


def summarize(rows, known):
    """Median gap and time of what both runs solved, and answers without variance."""
    for label, source in (("now", {key_of(row): row for row in rows}), ("before", known)):
        mine = [source[key_of(row)] for row in rows if key_of(row) in source]
        if not mine:
            continue
        # A problem without a basis and without a proof that there is none: nothing is known.
        gaps = [1.0 if row["gap"] is None else row["gap"] for row in mine if not row.get("proven")]
        nothing = sum(row.get("objective", 1.0) < 1e-9 * row.get("bound", 0.0) for row in mine)
        print(
            f"{label}: median gap {100 * np.median(gaps):.2f} % of {len(gaps)} problems, "
            f"{sum(row['gap'] is None for row in mine)} without a basis, "
            f"{nothing} without variance, "
            f"{sum(row.get('empty', 0) > 0 for row in mine)} with an empty component, "
            f"{sum(row['seconds'] for row in mine):.0f} s"
        )
    times = [row["seconds"] / known[key_of(row)]["seconds"] for row in rows if key_of(row) in known]
    if times:
        print(f"time: median {np.median(times):.2f}, largest {max(times):.2f} times that before")


def made_problem(n_contrasts, n_components, size=60, rows=2000, **options):
    """Random groups, each with its own change of the features' scales."""
    rng = np.random.default_rng(1)
    loadings = rng.normal(size=(size, 8)) * np.linspace(1.5, 0.5, 8)
    X = rng.normal(size=(rows, 8)) @ loadings.T + rng.normal(size=(rows, size))
    groups = [rng.random(rows) < rng.uniform(0.2, 0.8) for _ in range(n_contrasts)]
    for group in groups:
        X[group] *= 1.0 + 0.3 * rng.random(size)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    cov_gaps = [np.cov(X[g].T, bias=True) - np.cov(X[~g].T, bias=True) for g in groups]
    no_means, covariance = np.zeros((0, size)), np.cov(X.T, bias=True)
    return FairProblem(covariance, no_means, np.array(cov_gaps), n_components, **options)


def measure_cost():
    """Print what 5, 20 and 50 contrasts cost at p = 60; 50 are to take at most 60 times one."""
    for form, options in (("penalty", {}), ("limit", {"cov_tol": 3.0})):
        for d in (2, 5):
            one = None
            for count in (1, 5, 20, 50):
                problem, spent = made_problem(count, d, **options), []
                for _ in range(3):
                    start = time.process_time()
                    certificate = solve(problem).certificate
                    spent.append(time.process_time() - start)
                one = one or np.median(spent)
                times = np.median(spent) / one
                print(f"{form:<8} {d} {count:>3} {times:>8.1f}   gap {100 * certificate.gap:.3f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--out", type=Path, help="a file instead of results/contrasts.json")
    parser.add_argument("--names", default="")
    parser.add_argument("--cost", action="store_true")
    arguments = parser.parse_args()
    with single_blas_thread():
        if arguments.cost:
            measure_cost()
            return
        names = arguments.names.split(",") if arguments.names else [*UCI, *PUBLISHED]
        earlier = json.loads(arguments.against.read_text()) if arguments.against else []
        earlier = earlier["rows"] if isinstance(earlier, dict) else earlier
        known, rows = {key_of(row): row for row in earlier}, []
        print("set                    p   C  d  tol objective   gap %  0   seconds")
        for row in (row for name in names for row in measure(name)):
            rows.append(row)
            print(
                f"{row['set']:<20} {row['p']:>3} {row.get('contrasts', 0):>3} {row['d']:>2} "
                f"{row['cov_tol']:.2f} {shown(row):<20} {row['seconds']:>7.2f} "
                f"{compare(row, known.get(key_of(row)))}",
                flush=True,
            )
    summarize(rows, known)
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=1) + "\n")
    elif not arguments.names:
        results.save("contrasts", rows)


if __name__ == "__main__":
    main()
