"""Figure 1: two Gaussian clouds, reduced to the plane, with SVM boundaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.svm import SVC

from fairpca.datasets import make_two_gaussians
from fairpca.experiments._experiment import Cell, Experiment, Options, Row
from fairpca.experiments._methods import LABELS
from fairpca.experiments._plots import new_figure, save_figure
from fairpca.experiments._protocol import cov_weight_from_paper, standardise
from fairpca.experiments._store import Store
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
    """Variance and Δ of each panel.

    Parameters
    ----------
    params : mapping
        Empty.
    options : Options
        Rows of the Gaussian machine.
    store : Store
        Not used.

    Returns
    -------
    list of dict
        Tidy rows.
    """
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


def plot(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the cloud and the three planes with linear (solid) and Gaussian (dotted) boundaries."""
    X, z, found = planes()
    figure = new_figure(4)
    axis = figure.add_subplot(1, 4, 1, projection="3d")
    for group, color in ((0, "tab:blue"), (1, "tab:orange")):
        axis.scatter(*X[z == group].T, s=1, color=color)
    axis.set_title("original data", fontsize=9)
    for place, method in enumerate(PANELS, start=2):
        axis = figure.add_subplot(1, 4, place)
        values = {r["measure"]: r["value"] for r in rows if r["method"] == method}
        _panel(axis, X @ found[method], z)
        name = "both constraints" if method == "both" else LABELS[method]
        text = f"Δ {values['linear']:.2f} / {values['gaussian']:.2f}"
        axis.set_title(f"{name}\n{text}", fontsize=9)
    return save_figure(figure, folder, "figure1")


def _panel(axis: Any, U: Any, z: Any) -> None:
    for group, color in ((0, "tab:blue"), (1, "tab:orange")):
        axis.scatter(*U[z == group].T, s=1, color=color)
    low, high = U.min(axis=0), U.max(axis=0)
    grid = np.meshgrid(*(np.linspace(a, b, 80) for a, b in zip(low, high, strict=True)))
    points = np.column_stack([side.ravel() for side in grid])
    for kernel, style, width in (("linear", "-", 2.0), ("rbf", ":", 1.2)):
        machine = SVC(kernel=kernel, class_weight="balanced").fit(U, z)
        scores = machine.decision_function(points).reshape(grid[0].shape)
        if scores.min() < 0.0 < scores.max():
            axis.contour(
                *grid, scores, levels=[0.0], colors="red", linestyles=style, linewidths=width
            )
    axis.tick_params(labelsize=7)


EXPERIMENT = Experiment(
    name="figure1",
    title="Two Gaussian clouds with SVM boundaries",
    columns=COLUMNS,
    cells=cells,
    compute=compute,
    plot=plot,
)
