"""Figure 3: mean activity through the day of the clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairpca.experiments import _nhanes
from fairpca.experiments._experiment import Cell, Experiment, Options, Row
from fairpca.experiments._methods import LABELS, METHODS
from fairpca.experiments._plots import new_figure, save_figure
from fairpca.experiments._store import Store

COLUMNS = ("description", "method", "cluster", "share", "bucket", "activity")


def cells(options: Options) -> list[Cell]:
    """One cell for each description of the data."""
    return [
        Cell("figure3", name, {"description": name}, cost=10.0) for name in _nhanes.DESCRIPTIONS
    ]


def compute(params: Mapping[str, Any], options: Options, store: Store) -> list[Row]:
    """Mean profile of every cluster, first seed of k-means.

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
        Tidy rows, one for each bucket of the day.
    """
    found = _nhanes.clusters(params["description"], store)
    # The 1400-minute features are sums of two ten-minute means; both are shown per minute.
    unit = 2.0 if params["description"] == "run" else 1.0
    rows: list[Row] = []
    for method, labels in found["labels"].items():
        for rank, cluster in enumerate(_nhanes.by_share(labels[0], found["z"]), start=1):
            members = labels[0] == cluster
            profile = found["X"][members].mean(axis=0) / unit
            share = 100.0 * float(found["z"][members].mean())
            where = {**params, "method": method, "cluster": rank, "share": share}
            rows += [
                {**where, "bucket": bucket, "activity": float(value)}
                for bucket, value in enumerate(profile)
            ]
    return rows


def plot(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw one panel for each description and method."""
    names = [name for name in _nhanes.DESCRIPTIONS if any(r["description"] == name for r in rows)]
    figure = new_figure(len(METHODS), max(len(names), 1), size=(3.1, 2.6))
    axes = figure.subplots(max(len(names), 1), len(METHODS), squeeze=False, sharey=True)
    for line, name in zip(axes, names, strict=False):
        for axis, method in zip(line, METHODS, strict=True):
            _panel(axis, [r for r in rows if r["description"] == name and r["method"] == method])
            axis.set_title(f"{LABELS[method]}\n({name})", fontsize=8)
        line[0].set_ylabel("counts per minute", fontsize=8)
    return save_figure(figure, folder, "figure3")


def _panel(axis: Any, rows: Sequence[Row]) -> None:
    for cluster in sorted({row["cluster"] for row in rows}):
        mine = sorted((r for r in rows if r["cluster"] == cluster), key=lambda r: r["bucket"])
        hours = np.array([row["bucket"] for row in mine]) / 3.0
        share = mine[0]["share"]
        axis.plot(hours, [row["activity"] for row in mine], label=f"{share:.1f} % over 40")
    axis.set_xlabel("hour", fontsize=8)
    axis.tick_params(labelsize=7)
    axis.legend(fontsize=6)


EXPERIMENT = Experiment(
    name="figure3",
    title="NHANES: activity profiles of the clusters",
    columns=COLUMNS,
    cells=cells,
    compute=compute,
    datasets=("nhanes_women", "nhanes_cycle1400"),
    plot=plot,
)
