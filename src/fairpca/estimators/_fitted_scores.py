"""What a second look at rows in memory adds to a fit: heavy tails, and rows of one unit."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairpca.exceptions import ExtremeRowsWarning, warn_user
from fairpca.linalg import Array, project
from fairpca.moments import FoldedMoments
from fairpca.moments._new_data import compared_contrasts
from fairpca.rows import Rows
from fairpca.rows._columns import fill_means

_FEW = 100  # effective rows of a component that rests on extremes; rare in the 15 sets of the paper
_FEW_SHARE = 0.1
_PARTS = 50  # of the units, each left out once


def look_at_scores(model: Any, rows: Rows) -> None:
    """Set the effective samples of the components and, where there are units, noise by unit."""
    X = rows.X if model.missing == "error" else fill_means(rows.X, model.mean_)
    scores = project(X, model.mean_, model._directions, None).astype(np.float64, copy=False)
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    # 2n / (κ - 1) for the kurtosis κ of each component, at most n; unequal weights make n smaller.
    n = weights.sum() ** 2 / (weights**2).sum()
    centred = scores - weights @ scores / weights.sum()
    second, fourth = (weights @ centred**power / weights.sum() for power in (2, 4))
    kurtosis = np.divide(fourth, second**2, out=np.full_like(second, 3.0), where=second > 0.0)
    effective = 2.0 * n / np.maximum(kurtosis - 1.0, 2.0)
    few = np.flatnonzero((effective < _FEW) & (effective < _FEW_SHARE * len(rows)))
    if len(few):
        shown = ", ".join(f"component {i + 1} ({effective[i]:.0f} of {len(rows)})" for i in few)
        warn_user(
            f"a few extreme rows make most of the variance of {shown}: in brackets the number of "
            "normal rows that would say as much. Look for errors in those rows, take logarithms "
            "of skewed features, or keep fewer components.",
            ExtremeRowsWarning,
        )
    model.effective_samples_ = effective
    model.unit_noise_ = None
    if rows.units is not None:
        model.unit_noise_ = unit_noise(model, rows.with_features(scores))


def unit_noise(model: Any, scores: Rows) -> dict[str, list[Any]]:
    """Covariance of the mean gap of every contrast by a jackknife over parts of the units.

    Rows of a unit are alike, so that the number of rows says little about the noise of a mean. The
    gaps are those of the component scores; `free` has the degrees of freedom.
    """
    folded = FoldedMoments.from_rows(scores, _PARTS)
    options = (model.compare, model.joint, model.reference, 2)
    gaps: dict[str, list[Array]] = {}
    for index in range(len(folded.folds)):
        for contrast in compared_contrasts(folded.train(index), *options):
            assert contrast.mean_gap is not None
            gaps.setdefault(contrast.label, []).append(contrast.mean_gap)
    noise = []
    for values in gaps.values():
        centred = np.array(values) - np.mean(values, axis=0)
        noise.append((centred.T @ centred * (len(values) - 1) / len(values)).tolist())
    free = [len(values) - 1 for values in gaps.values()]
    return {"contrast": list(gaps), "noise": noise, "free": free}
