"""Table 4: clustering of the reduced data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.cluster import KMeans

from fairpca.experiments._experiment import (
    Options,
    Row,
    Store,
    measures,
    split_and_bases,
    split_table,
)
from fairpca.experiments._methods import run_calmon
from fairpca.metrics import cluster_parity_std

N_CLUSTERS = 5
"""The paper does not say how many clusters it uses here."""


def compute(params: Mapping[str, Any], options: Options, store: Store) -> list[Row]:
    """Distance of test rows to their centre, and how unevenly the clusters are made up."""
    split, bases = split_and_bases(**params, d=5, store=store)
    rows: list[Row] = []
    for method, fit in bases.items():
        V = np.asarray(fit["basis"])
        values = cluster(split.train @ V, split.test @ V, split.z_test, params["split"])
        rows += measures(values, **params, d=5, method=method)
    mapped = run_calmon(split, params["split"])
    values = cluster(mapped.train, mapped.test, split.z_test, params["split"])
    return rows + measures(values, **params, d=3, method="calmon")


def cluster(train: Any, test: Any, z: Any, seed: int) -> dict[str, float]:
    """Cluster training rows and judge the clusters by test rows."""
    # Preprocessed rows take few distinct values, and k-means needs as many as it has clusters.
    count = min(N_CLUSTERS, len(np.unique(train, axis=0)))
    model = KMeans(count, n_init=10, random_state=seed).fit(train)
    labels = model.predict(test)
    distance = float(np.sum((test - model.cluster_centers_[labels]) ** 2, axis=1).mean())
    total = float(np.sum(test.var(axis=0)))
    return {
        "distance": distance,
        "score": distance / total if total > 0.0 else 0.0,
        "std": cluster_parity_std(labels, z),
    }


EXPERIMENT = split_table("table4", compute, (5,))
