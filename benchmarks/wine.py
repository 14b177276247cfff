"""The paper's semidefinite program and the refined basis on wine quality, two components.

The protected attribute is the colour of the wine. Prints variance, gaps and time from all rows,
then how well classifiers predict the group on held-out rows, over random splits (minutes).

Run: FAIRPCA_DATA=<folder with uci/wine_quality.csv.gz> python benchmarks/wine.py [SPLITS]
"""

import sys
import time

import numpy as np
import pandas as pd
import results

from fairpca import FairPCA, GroupMoments
from fairpca.metrics import delta_fairness
from reproduction.datasets import load_dataset

PAPER_MU = 0.01


def fit_all(X, z):
    """Fit every method; the refined basis gets the covariance gap of the paper's as its limit."""
    moments = GroupMoments.from_arrays(X, z)
    # The paper's program divides the covariance by the norm of the data, √(np) if standardised.
    penalty = PAPER_MU * np.sqrt(X.size)
    fits, seconds = {}, {}

    def fit(name, **settings):
        start = time.perf_counter()
        fits[name] = FairPCA(2, **settings).fit_moments(moments)
        seconds[name] = time.perf_counter() - start

    fit("plain PCA", mean_tol=None, cov_weight=0.0)
    fit("equal means only", cov_weight=0.0)
    fit("paper's SDP", solver="paper", cov_weight=penalty)
    fit("refined, same covariance gap", cov_tol=fits["paper's SDP"].cov_gap_)
    return fits, seconds


def all_rows(X, z):
    fits, seconds = fit_all((X - X.mean(0)) / X.std(0), z)
    return pd.DataFrame(
        {
            name: {
                "variance kept, %": 100 * fitted.explained_variance_ratio_.sum(),
                "mean gap": fitted.mean_gap_,
                "covariance gap": fitted.cov_gap_,
                "certified gap, %": 100 * fitted.certificate_.gap,
                "milliseconds": 1000 * seconds[name],
            }
            for name, fitted in fits.items()
        }
    ).T


def held_out(X, z, generator):
    """Fit on 70 % of the rows and let classifiers guess the group on the others."""
    order = generator.permutation(len(X))
    train, test = np.split(order, [int(0.7 * len(X))])
    mean, scale = X[train].mean(0), X[train].std(0)
    fits, _ = fit_all((X[train] - mean) / scale, z[train])
    rows = {}
    for name, fitted in fits.items():
        U = fitted.transform((X[test] - mean) / scale)
        rows[name] = {
            "variance kept, %": 100 * fitted.explained_variance_ratio_.sum(),
            "delta, linear SVM": float(delta_fairness(U, z[test])),
            "delta, Gaussian SVM": float(delta_fairness(U, z[test], family="rbf", random_state=0)),
        }
    return pd.DataFrame(rows).T


def main(n_splits):
    wine = load_dataset("wine_quality")
    X, z = wine.data.to_numpy(dtype=float), wine.sensitive_features["white"].to_numpy()
    print(f"{len(X)} wines, {X.shape[1]} features, d = 2\n\nall rows")
    everything = all_rows(X, z)
    print(everything.round(4).to_string())
    generator = np.random.default_rng(0)
    splits = [held_out(X, z, generator) for _ in range(n_splits)]
    print(f"\nheld-out rows, mean of {n_splits} splits")
    averages = sum(splits) / n_splits
    print(averages.round(3).to_string())
    deltas = averages.drop(columns="variance kept, %")
    table = everything.join(deltas).rename_axis("method").reset_index()
    note = (
        f"variance, gaps and times of all rows; delta on held-out rows, mean of {n_splits} splits"
    )
    results.save("wine", table.to_dict("records"), note=note)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
