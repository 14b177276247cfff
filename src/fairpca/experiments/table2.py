"""Table 2: share of participants over 40 in clusters of activity profiles, NHANES."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.cluster import KMeans

from fairpca.datasets import load_dataset
from fairpca.experiments._experiment import Cell, Experiment, Options, Row, Store
from fairpca.experiments._methods import fit_bases, standardise

COLUMNS = ("description", "method", "seed", "cluster", "measure", "value")
DATASETS = ("nhanes_women", "nhanes_cycle1400")
DESCRIPTIONS = {"described": 0.1, "run": 0.1, "run_weaker": 0.01}
"""μ by description: as the paper describes it, as it was run, and the run at the μ of table 1."""
N_COMPONENTS, N_CLUSTERS = 5, 3
SEEDS = 5
_ZERO_MINUTES = 960  # 16 hours


def cells(experiment: str) -> list[Cell]:
    """One cell for each description of the data."""
    return [Cell(experiment, name, {"description": name}, cost=10.0) for name in DESCRIPTIONS]


def activity(description: str) -> tuple[Any, Any]:
    """Return activity rows and whether the participant is over 40."""
    if description == "described":
        data = load_dataset("nhanes_women")
        X, z = data.data.to_numpy(np.float64), data.sensitive_features["over_40"].to_numpy()
        return X, z.astype(np.intp)
    data = load_dataset("nhanes_cycle1400")
    X, z = data.data.to_numpy(np.float64), data.sensitive_features["over_40"].to_numpy()
    kept = data.other["zero_minutes_1400"].to_numpy() <= _ZERO_MINUTES
    total = X.sum(axis=1)
    kept &= total <= np.percentile(total, 99)  # the top 1 % of all, as the import script has it
    return X[kept], z[kept].astype(np.intp)


def clusters(description: str, store: Store, seeds: int = SEEDS) -> dict[str, Any]:
    """Cluster labels by method and seed, with the rows they belong to."""
    X, z = activity(description)
    (standard,) = standardise(X)
    key = f"fit-nhanes-{description}"
    found = store.read(key)
    if found is None:
        fits = fit_bases(standard, z, N_COMPONENTS, mu=DESCRIPTIONS[description])
        store.write(key, bases=fits)
    else:
        fits = found["bases"]
    rows = standard if description == "described" else X
    labels = {
        method: [
            KMeans(N_CLUSTERS, n_init=10, random_state=seed).fit_predict(
                rows @ np.asarray(fit["basis"])
            )
            for seed in range(seeds)
        ]
        for method, fit in fits.items()
    }
    return {"X": X, "z": z, "fits": fits, "labels": labels}


def by_share(labels: Any, z: Any) -> list[int]:
    """Clusters by falling share of z = 1."""
    shares = [float(z[labels == c].mean()) for c in range(N_CLUSTERS)]
    return sorted(range(N_CLUSTERS), key=lambda c: -shares[c])


def compute(params: Mapping[str, Any], options: Options, store: Store) -> list[Row]:
    """Shares of the clusters, by falling share, for every method and seed of k-means."""
    found = clusters(params["description"], store)
    z = found["z"]
    rows: list[Row] = [
        {**params, "method": "", "measure": "rows", "value": float(len(z))},
        {**params, "method": "", "measure": "over_40", "value": 100.0 * float(z.mean())},
    ]
    for method, fit in found["fits"].items():
        where = {**params, "method": method}
        rows.append({**where, "measure": "variance", "value": fit["variance"]})
        for seed, labels in enumerate(found["labels"][method]):
            order = by_share(labels, z)
            shares = [100.0 * float(z[labels == cluster].mean()) for cluster in order]
            for rank, (cluster, share) in enumerate(zip(order, shares, strict=True), start=1):
                at = {**where, "seed": seed, "cluster": rank}
                rows.append({**at, "measure": "share", "value": share})
                size = 100.0 * float(np.mean(labels == cluster))
                rows.append({**at, "measure": "size", "value": size})
            deviation = float(np.std(shares))
            rows.append({**where, "seed": seed, "measure": "std", "value": deviation})
    return rows


EXPERIMENT = Experiment(
    name="table2",
    columns=COLUMNS,
    cells=lambda options: cells("table2"),
    compute=compute,
    datasets=DATASETS,
)
