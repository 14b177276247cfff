"""Table 2: share of participants over 40 in clusters of activity profiles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fairpca.experiments import _nhanes
from fairpca.experiments._experiment import Cell, Experiment, Options, Row
from fairpca.experiments._store import Store

COLUMNS = ("description", "method", "seed", "cluster", "measure", "value")


def cells(options: Options) -> list[Cell]:
    """One cell for each description of the data."""
    return [Cell("table2", name, {"description": name}, cost=10.0) for name in _nhanes.DESCRIPTIONS]


def compute(params: Mapping[str, Any], options: Options, store: Store) -> list[Row]:
    """Shares of the clusters, by falling share, for every method and seed of k-means.

    Parameters
    ----------
    params : mapping
        ``description``: "described" or "run".
    options : Options
        Not used.
    store : Store
        Cache of the bases.

    Returns
    -------
    list of dict
        Tidy rows.
    """
    found = _nhanes.clusters(params["description"], store)
    z = found["z"]
    rows: list[Row] = [
        {**params, "method": "", "measure": "rows", "value": float(len(z))},
        {**params, "method": "", "measure": "over_40", "value": 100.0 * float(z.mean())},
    ]
    for method, fit in found["fits"].items():
        where = {**params, "method": method}
        rows.append({**where, "measure": "variance", "value": fit["variance"]})
        for seed, labels in enumerate(found["labels"][method]):
            order = _nhanes.by_share(labels, z)
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
    title="NHANES: share over 40 in clusters of activity",
    columns=COLUMNS,
    cells=cells,
    compute=compute,
    datasets=("nhanes_women", "nhanes_cycle1400"),
)
