"""Figure 2: sensitivity to δ and μ on wine quality."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fairpca.experiments._experiment import Cell, Experiment, Options, Row
from fairpca.experiments._methods import LABELS, representation, solve_as_the_authors
from fairpca.experiments._plots import new_figure, save_figure
from fairpca.experiments._protocol import cov_weight_from_paper, make_split
from fairpca.experiments._store import Store
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
    """Variance and linear Δ for every δ and μ.

    Parameters
    ----------
    params : mapping
        ``split``.
    options : Options
        Not used.
    store : Store
        Not used.

    Returns
    -------
    list of dict
        Tidy rows for the mean constraint, the paper's SDP, and ours at the same prices.
    """
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


def plot(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw variance and Δ against δ, averaged over the splits."""
    figure = new_figure(2, 2)
    axes = figure.subplots(2, 2, sharex=True)
    panels = (("both", LABELS["both"]), ("refined", "refined, same price"))
    for column, (method, title) in enumerate(panels):
        for line, (measure, text) in enumerate(
            (("variance", "variance, %"), ("linear", "Δ, linear"))
        ):
            axis = axes[line][column]
            _curve(axis, rows, "mean", 0.0, measure, "red", "-", "mean constraint")
            for i, mu in enumerate(MUS):
                shade = (0.0, 0.0, 1.0, 0.35 + 0.65 * i / (len(MUS) - 1))
                _curve(axis, rows, method, mu, measure, shade, ":", f"μ = {mu:g}")
            axis.set_ylabel(text, fontsize=8)
            axis.tick_params(labelsize=7)
        axes[0][column].set_title(title, fontsize=9)
        axes[1][column].set_xlabel("δ", fontsize=8)
    axes[0][0].legend(fontsize=6)
    return save_figure(figure, folder, "figure2")


def _curve(axis, rows, method, mu, measure, color, style, label):
    means = []
    for delta in DELTAS:
        values = [
            row["value"]
            for row in rows
            if (row["method"], row["measure"], row["delta"], row["mu"])
            == (method, measure, delta, mu)
        ]
        means.append(float(np.mean(values)))
    axis.plot(DELTAS, means, color=color, linestyle=style, marker="o", markersize=2, label=label)


EXPERIMENT = Experiment(
    name="figure2",
    title="Sensitivity to δ and μ on wine quality",
    columns=COLUMNS,
    cells=cells,
    compute=compute,
    datasets=("wine_quality",),
    plot=plot,
)
