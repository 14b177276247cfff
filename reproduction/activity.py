"""Table 2 and figure 3: clusters of activity profiles of NHANES, and their share over 40."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.cluster import KMeans

from reproduction.datasets import load_dataset
from reproduction.methods import Effort, fit_bases, measures, standardise
from reproduction.tables import Cache, Rows

DATASETS = ("nhanes_women", "nhanes_cycle1400")
DESCRIPTIONS = {"described": 0.1, "run": 0.1, "run_weaker": 0.01}
"""μ by description: as the paper describes it, as it was run, and the run at the μ of table 1."""
N_COMPONENTS, N_CLUSTERS = 5, 3
SEEDS = 5
_ZERO_MINUTES = 960  # 16 hours

TABLE2_COLUMNS = ("description", "method", "seed", "cluster", "measure", "value")
FIGURE3_COLUMNS = ("description", "method", "cluster", "share", "bucket", "activity")


def cells(splits: int) -> list[dict[str, Any]]:
    """One cell for each description of the data; there are no splits."""
    return [{"description": name} for name in DESCRIPTIONS]


def activity(description: str) -> tuple[Any, Any]:
    """Return activity rows and whether the participant is over 40."""
    data = load_dataset("nhanes_women" if description == "described" else "nhanes_cycle1400")
    X, z = data.data.to_numpy(np.float64), data.sensitive_features["over_40"].to_numpy(np.intp)
    if description == "described":
        return X, z
    kept = data.frame["zero_minutes_1400"].to_numpy() <= _ZERO_MINUTES
    total = X.sum(axis=1)
    kept &= total <= np.percentile(total, 99)  # the top 1 % of all, as the import script has it
    return X[kept], z[kept]


def fit_activity(description: str) -> dict[str, dict[str, Any]]:
    """Fit all methods to standardised activity rows."""
    X, z = activity(description)
    (X,) = standardise(X)
    return fit_bases(X, z, N_COMPONENTS, mu=DESCRIPTIONS[description])


def cluster_labels(description: str, basis: Any, X: Any, seed: int) -> Any:
    """Cluster projections of the rows: standardised as described, raw as it was run."""
    rows = standardise(X)[0] if description == "described" else X
    return KMeans(N_CLUSTERS, n_init=10, random_state=seed).fit_predict(rows @ basis)


def by_share(labels: Any, z: Any) -> list[tuple[int, float]]:
    """Clusters with their share of z = 1 in percent, by falling share."""
    shares = [(c, 100.0 * float(z[labels == c].mean())) for c in range(N_CLUSTERS)]
    return sorted(shares, key=lambda pair: -pair[1])


def table2(description: str, effort: Effort, cache: Cache) -> Rows:
    """Shares of the clusters, by falling share, for every method and seed of k-means."""
    X, z = activity(description)
    where: dict[str, Any] = {"description": description}
    rows = measures({"rows": len(z), "over_40": 100.0 * z.mean()}, **where, method="")
    for method, fit in cache(fit_activity)(description).items():
        where["method"] = method
        rows += measures({"variance": fit["variance"]}, **where)
        for seed in range(SEEDS):
            labels = cluster_labels(description, fit["basis"], X, seed)
            ranked = by_share(labels, z)
            for rank, (cluster, share) in enumerate(ranked, start=1):
                size = 100.0 * float(np.mean(labels == cluster))
                values = {"share": share, "size": size}
                rows += measures(values, **where, seed=seed, cluster=rank)
            deviation = np.std([share for _, share in ranked])
            rows += measures({"std": deviation}, **where, seed=seed)
    return rows


def figure3(description: str, effort: Effort, cache: Cache) -> Rows:
    """Mean activity through the day of every cluster, first seed of k-means."""
    X, z = activity(description)
    # The 1400-minute features are sums of two ten-minute means; both are shown per minute.
    unit = 1.0 if description == "described" else 2.0
    rows: Rows = []
    for method, fit in cache(fit_activity)(description).items():
        labels = cluster_labels(description, fit["basis"], X, 0)
        for rank, (cluster, share) in enumerate(by_share(labels, z), start=1):
            where = {"description": description, "method": method, "cluster": rank, "share": share}
            profile = X[labels == cluster].mean(axis=0) / unit
            rows += [
                {**where, "bucket": bucket, "activity": float(value)}
                for bucket, value in enumerate(profile)
            ]
    return rows
