"""Table 4: clustering of the reduced data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.cluster import KMeans

from fairpca.experiments._bases import basis_cells, split_and_bases, table_cells
from fairpca.experiments._calmon import run_calmon
from fairpca.experiments._experiment import TABLE_COLUMNS, Cell, Experiment, Options, Row, measures
from fairpca.experiments._protocol import DATASETS
from fairpca.experiments._store import Store
from fairpca.metrics import cluster_parity_std

DIMENSIONS = (5,)
N_CLUSTERS = 5
"""The paper does not say how many clusters it uses here."""


def cells(options: Options) -> list[Cell]:
    """One cell for each data set, label and split."""
    return table_cells("table4", options, labels=True)


def compute(params: Mapping[str, Any], options: Options, store: Store) -> list[Row]:
    """Distance of test rows to their centre, and how unevenly the clusters are made up.

    Parameters
    ----------
    params : mapping
        ``dataset``, ``label`` and ``split``.
    options : Options
        Not used.
    store : Store
        Cache of the bases.

    Returns
    -------
    list of dict
        Tidy rows.
    """
    split, bases = split_and_bases(params["dataset"], params["label"], params["split"], 5, store)
    rows: list[Row] = []
    for method, fit in bases.items():
        V = np.asarray(fit["basis"])
        values = cluster(split.train @ V, split.test @ V, split.z_test, params["split"])
        rows += measures(values, **params, d=5, method=method)
    mapped = run_calmon(split, params["split"])
    values = cluster(mapped.train, mapped.test, split.z_test, params["split"])
    return rows + measures(values, **params, d=3, method="calmon")


def cluster(train: Any, test: Any, z: Any, seed: int) -> dict[str, float]:
    """Cluster training rows and judge the clusters by test rows.

    Parameters
    ----------
    train, test : ndarray
        Reduced rows.
    z : ndarray
        Protected label of the test rows.
    seed : int
        Seed of k-means.

    Returns
    -------
    dict
        ``distance``: mean squared distance to the closest centre; ``score``: the same as a share
        of the variance of the test rows; ``std``: standard deviation over clusters of the share
        with z = 1, in points.
    """
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


EXPERIMENT = Experiment(
    name="table4",
    title="Clustering: closeness and make-up of the clusters",
    columns=TABLE_COLUMNS,
    cells=cells,
    compute=compute,
    datasets=DATASETS,
    prepare=lambda options: basis_cells(options, labels=True, dimensions=DIMENSIONS),
)
