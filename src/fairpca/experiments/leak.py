"""What table 1 has not: DeltaFairPCA, and FairPCA where as much leaks."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fairpca import DeltaFairPCA, FairPCA
from fairpca.exceptions import FairnessWarning
from fairpca.experiments._experiment import (
    COLUMNS,
    Experiment,
    Options,
    Row,
    Store,
    measures,
    split_cells,
)
from fairpca.experiments._methods import DATASETS, Split, definitions, make_split, representation
from fairpca.metrics import delta_fairness

DIMENSIONS = (2, 5)
SPLITS = 2
DELTA = 0.2
PRICES = (0.0, 0.3, 1.0, 3.0, 10.0, 100.0)
"""Of covariance gaps: FairPCA at the first one where no more leaks than with DeltaFairPCA."""


def compute(params: Mapping[str, Any], options: Options, store: Store) -> list[Row]:
    """Variance on the training rows, linear and Gaussian Δ on the test rows."""
    split = make_split(params["dataset"], params["split"], params["definition"])
    rows: list[Row] = []
    for d in DIMENSIONS:
        size = min(d, split.train.shape[1] - 1)  # what equal means leave
        settings = {"max_rows": options.adversary_rows, "random_state": params["split"]}
        model = DeltaFairPCA(size, delta=DELTA, certify=False, **settings)
        leaks = _values(model, split, options)
        values: dict[str, dict[str, Any]] = {"delta": leaks | {"unseen": model.delta_}}
        values["same_leak"] = _as_fair(size, split, options, leaks["gaussian"])
        for method, found in values.items():
            rows += measures(found, **params, d=d, method=method)
    return rows


def _as_fair(size: int, split: Split, options: Options, gaussian: float) -> dict[str, float]:
    """FairPCA at the smallest price at which no more leaks, or at the one that leaks least."""
    tried = []
    for price in PRICES:
        found = _values(FairPCA(size, cov_weight=price, certify=False), split, options)
        tried.append(found)
        if found["gaussian"] <= gaussian + 0.005:  # two digits are printed
            return found
    return min(tried, key=lambda found: found["gaussian"])


def _values(model: Any, split: Split, options: Options) -> dict[str, float]:
    with warnings.catch_warnings():
        # A Δ that is not reached is in the table.
        warnings.simplefilter("ignore", FairnessWarning)
        model.fit(split.train, sensitive_features=split.z_train)
    U = representation(split.test, model.components_.T)
    few = slice(options.kernel_rows)
    return {
        "variance": 100.0 * float(model.explained_variance_ratio_.sum()),
        "linear": float(delta_fairness(U, split.z_test)),
        "gaussian": float(delta_fairness(U[few], split.z_test[few], family="rbf")),
    }


def _cells(options: Options) -> list[Any]:
    """Cells of the definition that is held against print, on few splits: these fits take long."""
    few = Options(min(SPLITS, options.splits), options.quick)
    return [
        replace(cell, cost=10.0 * cell.cost)
        for cell in split_cells("leak", few)
        if cell.params["definition"] == definitions(cell.params["dataset"])[-1]
    ]


EXPERIMENT = Experiment("leak", COLUMNS, _cells, compute, DATASETS)
