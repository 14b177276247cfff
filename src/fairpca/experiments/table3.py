"""Table 3: multivariate Kolmogorov–Smirnov distance between the groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fairpca.experiments._experiment import (
    Options,
    Row,
    Store,
    measures,
    representations,
    split_table,
)
from fairpca.experiments._methods import ks_released, run_calmon
from fairpca.metrics import delta_fairness

DIMENSIONS = (2, 5)


def compute(params: Mapping[str, Any], options: Options, store: Store) -> list[Row]:
    """Largest difference of the distribution functions on the test rows."""
    rows: list[Row] = []
    for d, method, split, _, U in representations(params, DIMENSIONS, store):
        values = _distance(U, split.z_test, params["split"], options)
        if U.shape[1] == 2:
            orders = ks_released(U, split.z_test)
            values |= {"ks_released": np.mean(orders), "ks_range": np.ptp(orders) / 2.0}
        rows += measures(values, **params, d=d, method=method)
    mapped = run_calmon(split, params["split"])
    values = _distance(mapped.test, split.z_test, params["split"], options)
    values["distortion_bound"] = mapped.distortion_bound
    return rows + measures(values, **params, d=3, method="calmon")


def _distance(U: Any, z: Any, seed: int, options: Options) -> dict[str, Any]:
    """At the sample points, as the printed values evidently are, and the true supremum."""
    result = delta_fairness(
        U, z, family="cdf", method="sample", n_permutations=options.permutations, random_state=seed
    )
    null = result.null
    return {
        "ks": result.value,
        "ks_null_mean": None if null is None else null.mean,
        "ks_null_q95": None if null is None else null.quantile,
        "ks_supremum": delta_fairness(U, z, family="cdf", method="search").value,
        # Signs of components are arbitrary: the largest value over all of them.
        "ks_any_sign": delta_fairness(U, z, family="cdf", method="sample", orthants="all").value,
    }


EXPERIMENT = split_table("table3", compute, DIMENSIONS)
