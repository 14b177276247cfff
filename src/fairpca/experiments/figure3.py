"""Figure 3: mean activity through the day of the clusters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairpca.experiments import table2
from fairpca.experiments._experiment import Experiment, Options, Row, Store

COLUMNS = ("description", "method", "cluster", "share", "bucket", "activity")


def compute(params: Mapping[str, Any], options: Options, store: Store) -> list[Row]:
    """Mean profile of every cluster, first seed of k-means."""
    found = table2.clusters(params["description"], store, seeds=1)
    # The 1400-minute features are sums of two ten-minute means; both are shown per minute.
    unit = 1.0 if params["description"] == "described" else 2.0
    rows: list[Row] = []
    for method, labels in found["labels"].items():
        for rank, cluster in enumerate(table2.by_share(labels[0], found["z"]), start=1):
            members = labels[0] == cluster
            profile = found["X"][members].mean(axis=0) / unit
            share = 100.0 * float(found["z"][members].mean())
            where = {**params, "method": method, "cluster": rank, "share": share}
            rows += [
                {**where, "bucket": bucket, "activity": float(value)}
                for bucket, value in enumerate(profile)
            ]
    return rows


EXPERIMENT = Experiment(
    name="figure3",
    columns=COLUMNS,
    cells=lambda options: table2.cells("figure3"),
    compute=compute,
    datasets=table2.DATASETS,
)
