"""Sparse components in a terminal: their loadings, what cancels a group difference, the path."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairpca._present import number, percent, records

_MOST_CONTRASTS = 3  # columns of balances


def sparse_path(fair: Any) -> tuple[Any, ...] | None:
    """Title, head, rows, caption and marked rows of the path; None where there is none."""
    if "n_nonzero" not in getattr(fair, "path_", ()):  # DeltaFairPCA has another path
        return None
    path = records(fair.path_)
    rows = [
        (point["n_nonzero"], percent(point["explained_variance_ratio"]),
         number(point["whitened_cov_gap"]), "chosen" if point["chosen"] else "")
        for point in path
    ]  # fmt: skip
    head = ("loadings", "variance explained", "whitened covariance gap", "note")
    title = "What more non-zero loadings explain"
    return title, head, rows, None, lambda place: bool(path[place]["chosen"])


def loadings_table(fair: Any) -> tuple[Any, ...] | None:
    """Title, head, rows and caption of the loadings that are not zero; None if all may be."""
    if not hasattr(fair, "balance_"):
        return None
    compared = [entry for entry in records(fair.contrasts_) if entry["mean_gap"] is not None]
    labels = [f"balance {e['positive']} − {e['negative']}" for e in compared[:_MOST_CONTRASTS]]
    names = getattr(fair, "feature_names_in_", [f"x{i}" for i in range(fair.n_features_in_)])
    rows = []
    for j, component in enumerate(fair.components_):
        order = np.argsort(-np.abs(component), kind="stable")[: np.count_nonzero(component)]
        for place, feature in enumerate(order):
            first = f"{j + 1} ({percent(fair.explained_variance_ratio_[j])})"
            balances = (f"{x:+.3f}" for x in fair.balance_[: len(labels), j, feature])
            loading = f"{component[feature]:+.2f}"
            rows.append(("" if place else first, names[feature], loading, *balances))
    caption = "Balance: loading × group difference. It sums to zero where group means are equal."
    if len(compared) > len(labels):
        caption += f" {len(compared) - len(labels)} more contrasts are in the JSON document."
    return (
        "What the components are made of",
        ("component", "feature", "loading", *labels),
        rows,
        caption,
    )


def sparse_figures(fair: Any) -> dict[str, Any]:
    """Gather the figures that only sparse components have."""
    names = ("n_nonzero", "balance", "reconstruction", "whitened_cov_gap", "correlation")
    figures = {name: getattr(fair, f"{name}_") for name in names}
    return {**figures, "path": records(fair.path_) if hasattr(fair, "path_") else None}
