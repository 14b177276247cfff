"""Certified gaps over the paper's 15 data sets, and what they were under another version.

    python benchmarks/sets.py                     table and benchmarks/results/sets.json; 20 s
    python benchmarks/sets.py --against old.json  with the figures of another run in the next column
    python benchmarks/sets.py --out new.json      somewhere else

FAIRPCA_DATA names the folder with the data. All rows, standardised, one BLAS thread. To compare two
versions run this file under both, each in its own environment.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import results

from fairpca.exceptions import InfeasibleError
from fairpca.linalg import single_blas_thread
from fairpca.solvers import FairProblem, solve
from reproduction.datasets import UCI, load_dataset

OPTIONS = ({"cov_weight": 1.0}, {"cov_tol": 0.3}, {"cov_tol": 0.05})
COMPONENTS = (2, 5)


def covariances(name):
    """Pooled covariance, mean gap and covariance gap of the standardised rows."""
    data = load_dataset(name)
    X, z = data.data.to_numpy(float), data.sensitive_features.to_numpy()[:, 0]
    spread = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    one, other = X[z == np.unique(z)[-1]], X[z != np.unique(z)[-1]]
    gap = np.cov(one.T, bias=True) - np.cov(other.T, bias=True)
    return np.cov(X.T, bias=True), one.mean(axis=0) - other.mean(axis=0), gap


def measure(name):
    """Rows of the table for one data set."""
    S, mean_gap, cov_gap = covariances(name)
    for d in COMPONENTS:
        for options in OPTIONS:
            form = " ".join(f"{key}={value:g}" for key, value in options.items())
            row = {"set": name, "p": len(S), "d": d, "form": form}
            start = time.process_time()
            try:
                found = solve(FairProblem(S, mean_gap[None], cov_gap[None], d, **options))
            except InfeasibleError:
                yield row | {"gap": None}
                continue
            certificate = found.certificate
            yield row | {
                "gap": certificate.gap,
                "objective": certificate.objective,
                "bound": certificate.bound,
                "seconds": time.process_time() - start,
            }


def key_of(row):
    return row["set"], row["d"], row["form"]


def compare(row, before):
    """What another run found: its gap, whether ours is larger, and whether bounds contradict."""
    if before is None or row["gap"] is None:
        return ""
    if before["gap"] is None:
        return "infeasible before"
    mark = "LARGER" if row["gap"] > before["gap"] + 1e-6 else ""
    # Every bound is one for every basis, whoever found either.
    slack = 1e-7 * abs(row["bound"])
    if min(row["bound"] - before["objective"], before["bound"] - row["objective"]) < -slack:
        mark += " WRONG BOUND"
    change = row["objective"] - before["objective"]
    return f"{100 * before['gap']:>9.4f} {change:>+10.1e} {mark}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--out", type=Path, help="a file instead of results/sets.json")
    parser.add_argument("--names", default="")
    arguments = parser.parse_args()
    names = arguments.names.split(",") if arguments.names else []
    earlier = json.loads(arguments.against.read_text()) if arguments.against else []
    earlier = earlier["rows"] if isinstance(earlier, dict) else earlier
    known = {key_of(row): row for row in earlier}
    rows = []
    print(f"{'set':<20} {'p':>3} {'d':>2} {'form':<13} {'gap %':>9} {'s':>6} {'before':>9} basis")
    with single_blas_thread():
        for name in names or UCI:
            for row in measure(name):
                rows.append(row)
                shown = "infeasible" if row["gap"] is None else f"{100 * row['gap']:>9.4f}"
                print(
                    f"{name:<20} {row['p']:>3} {row['d']:>2} {row['form']:<13} {shown} "
                    f"{row.get('seconds', 0.0):>6.2f} {compare(row, known.get(key_of(row)))}",
                    flush=True,
                )
    summarize(rows, known)
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=1) + "\n")
    elif not names:
        results.save("sets", rows)


def summarize(rows, known):
    for label, source in (("now", {key_of(row): row for row in rows}), ("before", known)):
        gaps = [source[key_of(row)]["gap"] for row in rows if key_of(row) in source]
        gaps = [gap for gap in gaps if gap is not None]
        if gaps:
            print(f"{label}: median gap {100 * np.median(gaps):.4f} %, {len(gaps)} problems")


if __name__ == "__main__":
    main()
