"""Sparse components in a terminal: their loadings, what cancels a group difference, the path."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fairpca._present import number, percent, records

_MOST_CONTRASTS = 3  # columns of balances


def print_sparse(fair: Any, out: Any, table: Callable[..., Any]) -> None:
    """Print the path, where there is one, and the loadings of every component."""
    if hasattr(fair, "path_"):
        path = records(fair.path_)
        rows = [
            (point["n_nonzero"], percent(point["explained_variance_ratio"]),
             number(point["whitened_cov_gap"]), "chosen" if point["chosen"] else "")
            for point in path
        ]  # fmt: skip
        head = ("loadings", "variance explained", "whitened covariance gap", "note")
        title = "What more non-zero loadings explain"
        out.print(table(title, head, rows, "", lambda place: bool(path[place]["chosen"])))
    labels = _balance_labels(fair)
    shown = [f"balance {label}" for label in labels]
    caption = "Balance: loading × group difference. It sums to zero in every component"
    if len(fair.balance_) > len(labels):
        caption += f"; {len(fair.balance_) - len(labels)} more contrasts are in the JSON document"
    head = ("component", "feature", "loading", *shown)
    out.print(
        table("What the components are made of", head, _loadings(fair, labels), f"{caption}.")
    )


def sparse_certificate(fair: Any) -> str:
    """Say what the scores explain, and what no others can exceed."""
    total = float(fair.explained_variance_ratio_.sum())
    bound = total * fair.certificate_.bound / (fair.certificate_.objective or 1.0)
    d, equal = fair.n_components_, "" if fair.mean_tol is None else " with equal group means"
    which = f"{d} scores{equal} explain" if d > 1 else f"score{equal} explains"
    return f"Certificate: explains {percent(total)}; no {which} more than {percent(bound)}."


def sparse_figures(fair: Any) -> dict[str, Any]:
    """Gather the figures that only sparse components have."""
    names = ("n_nonzero", "balance", "reconstruction", "whitened_cov_gap", "correlation")
    figures = {name: getattr(fair, f"{name}_") for name in names}
    return {**figures, "path": records(fair.path_) if hasattr(fair, "path_") else None}


def _balance_labels(fair: Any) -> list[str]:
    """Name the first contrasts that are compared."""
    compared = [entry for entry in records(fair.contrasts_) if entry["mean_gap"] is not None]
    return [f"{e['positive']} − {e['negative']}" for e in compared[:_MOST_CONTRASTS]]


def _loadings(fair: Any, labels: list[str]) -> Iterator[list[Any]]:
    """One row for each loading that is not zero, the largest first."""
    names = getattr(fair, "feature_names_in_", [f"x{i}" for i in range(fair.n_features_in_)])
    for j, component in enumerate(fair.components_):
        order = np.argsort(-np.abs(component), kind="stable")
        for place, feature in enumerate(order[: np.count_nonzero(component)]):
            share = percent(fair.explained_variance_ratio_[j])
            balances = fair.balance_[: len(labels), j, feature]
            yield [
                f"{j + 1} ({share})" if place == 0 else "",
                names[feature],
                f"{component[feature]:+.2f}",
                *(f"{balance:+.3f}" for balance in balances),
            ]
