"""Table 1: explained variance, linear and Gaussian Δ-fairness."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sklearn.svm import SVC

from fairpca.experiments._bases import basis_cells, split_and_bases, table_cells
from fairpca.experiments._experiment import TABLE_COLUMNS, Cell, Experiment, Options, Row, measures
from fairpca.experiments._methods import representation
from fairpca.experiments._protocol import DATASETS
from fairpca.experiments._store import Store
from fairpca.metrics import delta_fairness

DIMENSIONS = (2, 5)
WITH_KERNEL_NULL = ("refined_gap",)


def cells(options: Options) -> list[Cell]:
    """One cell for each data set and split, and a cheap one for the machine without tuning."""
    tuned = table_cells("table1", options, labels=False)
    untuned = [
        replace(cell, key=f"untuned-{cell.key}", params={**cell.params, "untuned": True}, cost=0.1)
        for cell in tuned
    ]
    return [*tuned, *untuned]


def compute(params: Mapping[str, Any], options: Options, store: Store) -> list[Row]:
    """Variance on the training rows, Δ-fairness on the test rows, for every method.

    Parameters
    ----------
    params : mapping
        ``dataset``, ``label`` (None), ``split``, and ``untuned`` for the cheap cells.
    options : Options
        Permutations and rows of the Gaussian machine.
    store : Store
        Cache of the bases.

    Returns
    -------
    list of dict
        Tidy rows.
    """
    rows: list[Row] = []
    where = {name: params[name] for name in ("dataset", "label", "split")}
    for d in DIMENSIONS:
        split, bases = split_and_bases(**where, d=d, store=store)
        for method, fit in bases.items():
            U = representation(split.test, fit["basis"])
            if params.get("untuned"):
                values = {"gaussian_untuned": _untuned(U, split.z_test)}
            else:
                values = {
                    "variance": fit["variance"],
                    "cov_gap": fit["cov_gap"],
                    **_linear(U, split.z_test, params["split"], options),
                    **_kernel(U, split.z_test, params["split"], d, method, options),
                }
            rows += measures(values, **where, d=d, method=method)
    return rows


def _untuned(U: Any, z: Any) -> float:
    """Gaussian machine with scikit-learn's defaults: no cross-validation, groups as they are."""
    return float(delta_fairness(SVC().fit(U, z).decision_function(U), z))


def _linear(U: Any, z: Any, seed: int, options: Options) -> dict[str, Any]:
    result = delta_fairness(U, z, n_permutations=options.permutations, random_state=seed)
    null = result.null
    return {
        "linear": result.value,
        "linear_null_mean": None if null is None else null.mean,
        "linear_null_q95": None if null is None else null.quantile,
        "linear_p": result.p_value,
    }


def _kernel(U: Any, z: Any, seed: int, d: int, method: str, options: Options) -> dict[str, Any]:
    # Tuning is repeated for every permutation, so the null is taken on one split and method only.
    wanted = seed == 0 and d == 2 and method in WITH_KERNEL_NULL
    result = delta_fairness(
        U,
        z,
        family="rbf",
        max_samples=options.kernel_rows,
        n_permutations=options.kernel_permutations if wanted else 0,
        random_state=seed,
    )
    null = None if result.null_values is None else result.null_values
    return {
        "gaussian": result.value,
        "gaussian_null_mean": None if null is None else null.mean(),
        "gaussian_null_max": None if null is None else null.max(),
    }


EXPERIMENT = Experiment(
    name="table1",
    title="Explained variance and Δ-fairness of linear and Gaussian SVMs",
    columns=TABLE_COLUMNS,
    cells=cells,
    compute=compute,
    datasets=DATASETS,
    prepare=lambda options: basis_cells(options, labels=False, dimensions=DIMENSIONS),
)
