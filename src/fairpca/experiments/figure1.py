"""Figure 1: two Gaussian clouds, reduced to the plane, with SVM boundaries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fairpca.datasets import make_two_gaussians
from fairpca.experiments._experiment import Cell, Experiment, Options, Row, Store
from fairpca.experiments._methods import cov_weight_from_paper, standardise
from fairpca.metrics import delta_fairness
from fairpca.moments import GroupMoments
from fairpca.solvers import FairProblem, solve

COLUMNS = ("method", "measure", "value")
MEAN_TOL = 0.3
"""With three features and two components δ = 0 leaves one plane only, and nothing to choose."""
PANELS = ("pca", "mean", "both")


def planes() -> tuple[Any, Any, dict[str, Any]]:
    """Return standardised points, their population and the plane of each method."""
    X, z = make_two_gaussians()
    (X,) = standardise(X)
    moments = GroupMoments.from_arrays(X, z)
    weight = cov_weight_from_paper(0.01, *X.shape)
    both = FairProblem.from_moments(moments, 2, mean_tol=MEAN_TOL, cov_weight=weight)
    mean = replace(both, cov_weight=0.0)
    problems = {"pca": replace(mean, mean_tol=None), "mean": mean, "both": both}
    return X, z, {name: solve(problem).basis for name, problem in problems.items()}


def cells(options: Options) -> list[Cell]:
    """Make the single cell."""
    return [Cell("figure1", "all", {})]


def compute(params: Mapping[str, Any], options: Options, store: Store) -> list[Row]:
    """Variance and Δ of each panel."""
    X, z, found = planes()
    rows: list[Row] = []
    for method, V in found.items():
        U = X @ V
        values = {
            "variance": 100.0 * float((U.var(axis=0).sum()) / X.var(axis=0).sum()),
            "linear": float(delta_fairness(U, z)),
            "gaussian": float(delta_fairness(U, z, family="rbf", max_samples=options.kernel_rows)),
        }
        rows += [
            {"method": method, "measure": name, "value": value} for name, value in values.items()
        ]
    return rows


EXPERIMENT = Experiment(
    name="figure1",
    columns=COLUMNS,
    cells=cells,
    compute=compute,
)
