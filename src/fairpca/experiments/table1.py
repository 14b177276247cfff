"""Table 1: explained variance, linear and Gaussian Δ-fairness."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairpca.experiments._experiment import (
    Options,
    Row,
    Store,
    measures,
    representations,
    split_table,
)
from fairpca.experiments._methods import PAPER_METHODS, gaussian_released
from fairpca.metrics import delta_fairness

DIMENSIONS = (2, 5)
TUNED = ("both", "refined_gap", "refined_zero")
"""Methods whose two components the tuned Gaussian SVM sees; it takes most of the time."""


def compute(params: Mapping[str, Any], options: Options, store: Store) -> list[Row]:
    """Variance on the training rows, Δ-fairness on the test rows, for every method."""
    rows: list[Row] = []
    seed = params["split"]
    for d, method, split, fit, U in representations(params, DIMENSIONS, store):
        values = {
            "variance": fit["variance"],
            "cov_gap": fit["cov_gap"],
            **_linear(U, split.z_test, seed, options),
        }
        few = slice(options.kernel_rows)
        if d == 2 and method in TUNED:
            values["gaussian"] = delta_fairness(U[few], split.z_test[few], family="rbf").value
        if d == 2 and method in PAPER_METHODS:
            values["gaussian_released"] = gaussian_released(U[few], split.z_test[few], seed)
        rows += measures(values, **params, d=d, method=method)
    return rows


def _linear(U: Any, z: Any, seed: int, options: Options) -> dict[str, Any]:
    result = delta_fairness(U, z, n_permutations=options.permutations, random_state=seed)
    null = result.null
    return {
        "linear": result.value,
        "linear_null_mean": None if null is None else null.mean,
        "linear_null_q95": None if null is None else null.quantile,
        "linear_p": result.p_value,
    }


EXPERIMENT = split_table("table1", compute, DIMENSIONS)
