"""Figure 2: sensitivity to δ and μ on wine quality."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from fairpca.experiments._experiment import Cell, Experiment, Options, Row, Store
from fairpca.experiments._methods import (
    cov_weight_from_paper,
    make_split,
    representation,
    solve_as_the_authors,
)
from fairpca.metrics import delta_fairness
from fairpca.moments import GroupMoments
from fairpca.solvers import FairProblem, solve

COLUMNS = ("split", "method", "delta", "mu", "measure", "value")
DELTAS = (0.0, 0.1, 0.3, 0.5)
MUS = (0.0001, 0.001, 0.01, 0.1)
N_COMPONENTS = 3


def cells(options: Options) -> list[Cell]:
    """One cell for each split; the paper takes twice as many as in its tables."""
    return [
        Cell("figure2", f"split={split}", {"split": split}, cost=10.0)
        for split in range(2 * options.splits)
    ]


def compute(params: Mapping[str, Any], options: Options, store: Store) -> list[Row]:
    """Variance and linear Δ for every δ and μ."""
    split = make_split("wine_quality", params["split"])
    moments = GroupMoments.from_arrays(split.train, split.z_train)
    problem = FairProblem.from_moments(moments, N_COMPONENTS)
    covariance = problem.covariance
    rows: list[Row] = []
    for delta in DELTAS:
        for method, mu, solution in _solutions(split, replace(problem, mean_tol=delta)):
            V = solution.basis
            variance = 100.0 * float(np.sum(V * (covariance @ V)) / np.trace(covariance))
            linear = float(delta_fairness(representation(split.test, V), split.z_test))
            where = {**params, "method": method, "delta": delta, "mu": mu}
            rows += [
                {**where, "measure": "variance", "value": variance},
                {**where, "measure": "linear", "value": linear},
            ]
    return rows


def _solutions(split: Any, problem: FairProblem) -> Any:
    yield "mean", 0.0, solve(replace(problem, cov_weight=0.0))
    for mu in MUS:
        priced = replace(problem, cov_weight=cov_weight_from_paper(mu, *split.train.shape))
        yield "both", mu, solve_as_the_authors(priced)
        yield "refined", mu, solve(priced, "refined", certify=False)


EXPERIMENT = Experiment(
    name="figure2",
    columns=COLUMNS,
    cells=cells,
    compute=compute,
    datasets=("wine_quality",),
)
