"""Tables over data sets and splits: their cells, and the bases that they share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fairpca.experiments._experiment import Cell, Experiment, Options, Row
from fairpca.experiments._methods import fit_bases, representation
from fairpca.experiments._protocol import DATASETS, PAPER_MU, Split, definitions, make_split
from fairpca.experiments._store import Store

COLUMNS = ("dataset", "definition", "split", "d", "method", "measure", "value")

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


def split_table(
    name: str,
    compute: Callable[[Mapping[str, Any], Options, Store], list[Row]],
    dimensions: tuple[int, ...],
) -> Experiment:
    """Make a table with a cell for each data set, definition and split."""
    return Experiment(
        name=name,
        columns=COLUMNS,
        cells=lambda options: _cells(name, options),
        compute=compute,
        datasets=DATASETS,
        prepare=lambda options: [c for d in dimensions for c in _cells("bases", options, d=d)],
    )


def _cells(experiment: str, options: Options, **more: Any) -> list[Cell]:
    return [
        Cell(
            experiment,
            "-".join(
                [dataset, definition, f"split={split}", *(f"{k}={v}" for k, v in more.items())]
            ),
            {"dataset": dataset, "definition": definition, "split": split, **more},
            COSTS.get(dataset, 1.0),
        )
        for dataset in DATASETS
        for definition in definitions(dataset)
        for split in range(options.splits)
    ]


def split_and_bases(
    dataset: str, definition: str, split: int, d: int, store: Store
) -> tuple[Split, dict[str, dict[str, Any]]]:
    """Return the rows of a split and the bases of all methods with d components."""
    rows = make_split(dataset, split, definition)
    key = f"fit-{dataset}-{definition}-split={split}-d={d}"
    found = store.read(key)
    if found is None:
        bases = fit_bases(rows.train, rows.z_train, d, mu=PAPER_MU)
        store.write(key, bases=bases)
        return rows, bases
    return rows, found["bases"]


def representations(
    params: Mapping[str, Any], dimensions: tuple[int, ...], store: Store
) -> Iterator[tuple[int, str, Split, dict[str, Any], Any]]:
    """Yield d, method, split, fit and the scaled scores of the test rows."""
    for d in dimensions:
        split, bases = split_and_bases(**params, d=d, store=store)
        for method, fit in bases.items():
            yield d, method, split, fit, representation(split.test, fit["basis"])


def _compute(params: Mapping[str, Any], options: Options, store: Store) -> list[Row]:
    """Fit all methods, for the tables to find."""
    split_and_bases(**params, store=store)
    return []


BASES = Experiment("bases", COLUMNS, lambda options: [], _compute, DATASETS)
