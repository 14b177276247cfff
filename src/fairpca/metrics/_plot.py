"""Pictures of a `DeltaResult`; the only place that knows matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fairpca.exceptions import InvalidInputError

if TYPE_CHECKING:
    from fairpca.metrics._result import DeltaResult


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            "Plots need matplotlib: install it with pip install 'fairpca[plots]'."
        ) from error
    return pyplot.subplots(figsize=(6, 4), layout="constrained")[1]


def plot_groups(result: DeltaResult, ax: Any) -> Any:
    """Draw the cumulative shares of both groups over the classifier's score."""
    if result.scores is None:
        raise InvalidInputError(
            "There is nothing to draw: no classifier tells the groups apart at all."
        )
    ax = _axes(ax)
    for group, scores, colour in zip(result.groups, result.scores, ("C0", "C1"), strict=True):
        ordered = np.sort(scores)
        share = np.arange(1, len(ordered) + 1) / len(ordered)
        ax.step(ordered, share, where="post", color=colour, label=str(group))
    threshold = result.threshold if result.threshold is not None else 0.0
    ax.axvline(threshold, color="0.4", linestyle="--", linewidth=1)
    ax.set_xlabel("score of the classifier")
    ax.set_ylabel("cumulative share of the group")
    ax.set_title(f"Δ = {result.value:.3f} ({result.family}, {result.attribute})")
    ax.legend(title=result.attribute, frameon=False)
    return ax


def plot_null(result: DeltaResult, ax: Any) -> Any:
    """Draw the histogram of the permutation null with the observed value."""
    if result.null_values is None or result.null is None:
        raise InvalidInputError("There is no null to draw: ask for n_permutations.")
    ax = _axes(ax)
    ax.hist(result.null_values, bins="auto", color="0.75", label="permuted groups")
    ax.axvline(result.null.quantile, color="0.4", linestyle=":", label="95 % quantile")
    ax.axvline(result.value, color="C3", label="observed")
    ax.set_xlabel("Δ")
    ax.set_ylabel("permutations")
    ax.set_title(f"p = {result.null.p_value:.3g} ({result.family}, method {result.method})")
    ax.legend(frameon=False)
    return ax
