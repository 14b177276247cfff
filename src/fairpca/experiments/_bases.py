"""Bases of a data set and split, computed once for all tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairpca.experiments._experiment import TABLE_COLUMNS, Cell, Experiment, Options, Row, measures
from fairpca.experiments._methods import fit_bases
from fairpca.experiments._protocol import (
    DATASETS,
    PAPER_MU,
    Split,
    alternative_label,
    binary_label,
    make_split,
)
from fairpca.experiments._store import Store

COSTS = {
    "adult": 9.0,
    "taiwanese_credit": 7.0,
    "wine_quality": 8.0,
    "recidivism": 5.0,
    "statlog_landsat": 8.0,
    "letter_recognition": 4.0,
    "magic": 4.0,
    "steel_plates": 3.0,
}
"""Rough cost of a cell by data set, so that the dear ones start first."""


def split_and_bases(
    dataset: str, label: str | None, split: int, d: int, store: Store
) -> tuple[Split, dict[str, dict[str, Any]]]:
    """Return the rows of a split and the bases of all methods with d components."""
    rows = make_split(dataset, split, label)
    # Only the alternative label takes a feature away; all others share their bases.
    used = label if label == alternative_label(dataset) else None
    key = f"fit-{dataset}-{used}-split={split}-d={d}"
    found = store.read(key)
    if found is None:
        bases = fit_bases(rows.train, rows.z_train, d, mu=PAPER_MU)
        store.write(key, bases=bases)
        return rows, bases
    return rows, found["bases"]


def table_params(options: Options, *, labels: bool) -> list[dict[str, Any]]:
    """Parameters of the cells of a table: data set, label and split.

    With `labels` the sets whose label is a coin flip come twice, with a real label as well.
    """
    params = []
    for dataset in DATASETS:
        choices = [binary_label(dataset) if labels else None]
        if labels and (other := alternative_label(dataset)):
            choices.append(other)
        params += [
            {"dataset": dataset, "label": label, "split": split}
            for label in choices
            for split in range(options.splits)
        ]
    return params


def table_cells(experiment: str, options: Options, *, labels: bool) -> list[Cell]:
    """Make the cells of a table: one for each data set, label and split."""
    return [
        Cell(
            experiment,
            f"{params['dataset']}-{params['label']}-split={params['split']}",
            params,
            COSTS.get(params["dataset"], 1.0),
        )
        for params in table_params(options, labels=labels)
    ]


def basis_cells(options: Options, *, labels: bool, dimensions: tuple[int, ...]) -> list[Cell]:
    """Make the cells that fit the bases a table needs."""
    cells = {}
    for params in table_params(options, labels=labels):
        dataset, split = params["dataset"], params["split"]
        label = params["label"] if params["label"] == alternative_label(dataset) else None
        for d in dimensions:
            key = f"{dataset}-{label}-split={split}-d={d}"
            values = {"dataset": dataset, "label": label, "split": split, "d": d}
            cells[key] = Cell("bases", key, values, COSTS.get(dataset, 1.0))
    return list(cells.values())


def compute(params: Mapping[str, Any], options: Options, store: Store) -> list[Row]:
    """Fit all methods and report what the fits say of themselves."""
    _, bases = split_and_bases(
        params["dataset"], params["label"], params["split"], params["d"], store
    )
    names = ("variance", "cov_gap", "mean_gap", "cov_tol", "converged")
    rows: list[Row] = []
    for method, basis in bases.items():
        rows += measures({name: basis[name] for name in names}, **params, method=method)
    return rows


EXPERIMENT = Experiment(
    name="bases",
    title="Bases of all methods",
    columns=TABLE_COLUMNS,
    cells=lambda options: [],
    compute=compute,
    datasets=DATASETS,
)
