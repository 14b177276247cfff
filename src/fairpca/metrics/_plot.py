"""Pictures of a `DeltaResult`, for its own `plot`; those of the house stand in `report`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fairpca._look import ACCENT, draw_on, group_style, look
from fairpca.exceptions import InvalidInputError

if TYPE_CHECKING:
    from fairpca.metrics._result import DeltaResult


def plot_groups(result: DeltaResult, ax: Any) -> Any:
    """Draw the cumulative shares of both groups over the classifier's score."""
    if result.scores is None:
        raise InvalidInputError(
            "There is nothing to draw: no classifier tells the groups apart at all."
        )
    with look():
        ax = draw_on(ax)
        for index, (group, scores) in enumerate(zip(result.groups, result.scores, strict=True)):
            ordered, style = np.sort(scores), group_style(index)
            share = np.arange(1, len(ordered) + 1) / len(ordered)
            line = {"color": style.colour, "linestyle": style.line}
            ax.step(ordered, share, where="post", label=str(group), **line)
        threshold = result.threshold if result.threshold is not None else 0.0
        ax.axvline(threshold, color="0.4", linestyle=":", linewidth=1)
        ax.set_xlabel("score of the classifier")
        ax.set_ylabel("cumulative share of the group")
        ax.set_title(f"Δ = {result.value:.3f} ({result.family}, {result.attribute})", loc="center")
        ax.legend(title=result.attribute)
    return ax


def plot_null(result: DeltaResult, ax: Any) -> Any:
    """Draw the histogram of the permutation null with the observed value."""
    if result.null_values is None or result.null is None:
        raise InvalidInputError("There is no null to draw: ask for n_permutations.")
    with look():
        ax = draw_on(ax)
        ax.hist(result.null_values, bins="auto", color="0.8", label="permuted groups")
        ax.axvline(result.null.quantile, color="0.4", linestyle=":", label="95 % quantile")
        ax.axvline(result.value, color=ACCENT, linewidth=2, label="observed")
        ax.set_xlabel("Δ")
        ax.set_ylabel("permutations")
        title = f"p = {result.null.p_value:.3g} ({result.family}, method {result.method})"
        ax.set_title(title, loc="center")
        ax.legend()
    return ax
