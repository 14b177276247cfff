"""NHANES as the paper describes it and as it was evidently run: rows, clusters and profiles."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.cluster import KMeans

from fairpca.datasets import load_dataset
from fairpca.experiments._methods import METHODS, fit_bases
from fairpca.experiments._protocol import standardise
from fairpca.experiments._store import Store

DESCRIPTIONS = {
    "described": "women from 12 on, 72 buckets of 20 minutes, clusters of standardised components",
    "run": "both sexes, all ages, 1400-minute cycle, clusters of unstandardised projections",
}
N_COMPONENTS, N_CLUSTERS, MU = 5, 3, 0.1
SEEDS = 5
_ZERO_MINUTES = 960  # 16 hours


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


def clusters(description: str, store: Store) -> dict[str, Any]:
    """Cluster labels by method and seed, with the rows they belong to.

    Returns
    -------
    dict
        ``X``, ``z``, ``fits`` (by method) and ``labels`` (by method: one array for each seed).
    """
    X, z = activity(description)
    (standard,) = standardise(X)
    key = f"fit-nhanes-{description}"
    found = store.read(key)
    if found is None:
        fits = fit_bases(standard, z, N_COMPONENTS, mu=MU, methods=METHODS)
        store.write(key, bases=fits)
    else:
        fits = found["bases"]
    rows = standard if description == "described" else X
    labels = {
        method: [
            KMeans(N_CLUSTERS, n_init=10, random_state=seed).fit_predict(
                rows @ np.asarray(fit["basis"])
            )
            for seed in range(SEEDS)
        ]
        for method, fit in fits.items()
    }
    return {"X": X, "z": z, "fits": fits, "labels": labels}


def by_share(labels: Any, z: Any) -> list[int]:
    """Clusters by falling share of z = 1."""
    shares = [float(z[labels == c].mean()) for c in range(N_CLUSTERS)]
    return sorted(range(N_CLUSTERS), key=lambda c: -shares[c])
