"""A fair fit and a plain one from the same moments, side by side, and their JSON documents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from fairpca._choices import DELTA_FAMILIES
from fairpca._progress import Progress
from fairpca.estimators import DeltaFairPCA, FairPCA
from fairpca.estimators._fair_pca import fit_with_plain, held_out_summary
from fairpca.moments import FoldedMoments, GroupMoments
from fairpca.rows import Rows


@dataclass(frozen=True, eq=False)
class Comparison:
    """The fit asked for, plain components, and figures of rows not fitted where they are known."""

    fair: FairPCA | DeltaFairPCA
    plain: FairPCA
    held_out: dict[str, Any] | None = None

    def group_table(self) -> dict[str, list[Any]]:
        """Join what each group keeps by both fits; empty where all rows count alike."""
        fair = getattr(self.fair, "group_variance_", None)
        plain = self.plain.group_variance_
        if fair is None or plain is None:
            return {}
        return {**fair, "variance_plain": plain["variance"], "loss_plain": plain["loss"]}


def compare(
    moments: GroupMoments | FoldedMoments,
    settings: dict[str, Any],
    on_problem_size: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Fit fair and plain components from moments, wherever the rows are."""
    fair = FairPCA(**settings)
    if isinstance(moments, GroupMoments):
        return Comparison(fair, plain=fit_with_plain(fair, moments, on_problem_size))
    plain = fit_with_plain(fair, moments.total, on_problem_size)
    model = clone(fair).set_params(n_components=fair.n_components_)
    return Comparison(fair, plain, held_out_summary(model, moments))


def against_classifiers(
    comparison: Comparison,
    rows: Rows,
    moments: GroupMoments,
    delta: float,
    family: str | None,
    progress: Progress,
) -> Comparison:
    """Replace the fair fit by one that holds classifiers below `delta`."""
    shared = set(DeltaFairPCA().get_params()) & set(FairPCA().get_params())
    settings = {name: getattr(comparison.fair, name) for name in shared}
    fair = DeltaFairPCA(delta=delta, family=family or DELTA_FAMILIES[0], **settings)
    fair.fit_sample(rows, moments, progress)
    return replace(comparison, fair=fair)


def path_document(fair: FairPCA | DeltaFairPCA) -> dict[str, Any]:
    """Gather the trade-off, where there is one."""
    if not isinstance(fair, DeltaFairPCA):
        return {}
    chosen = {"penalty": fair.penalty_, "leakage": fair.leakage_, "delta": fair.delta_}
    chosen |= {"delta_error": fair.delta_error_, "delta_chance": fair.delta_chance_}
    points = zip(*fair.path_.values(), strict=True)
    path = [dict(zip(fair.path_, point, strict=True)) for point in points]
    return {"adversary": {"family": fair.family, **chosen, "path": path}}


def fit_document(comparison: Comparison) -> dict[str, Any]:
    """Gather every figure of a fit."""
    fair, plain = comparison.fair, comparison.plain
    contrasts = {
        **fair.contrasts_,
        "mean_gap_plain": plain.contrasts_["mean_gap"],
        "cov_gap_plain": plain.contrasts_["cov_gap"],
    }
    return {
        "fair": {**_figures(fair), "n_iter": fair.n_iter_},
        "plain": _figures(plain),
        "held_out": comparison.held_out,
        "certificate": fair.certificate_.as_dict(),
        "contrasts": [
            dict(zip(contrasts, row, strict=True)) for row in zip(*contrasts.values(), strict=True)
        ],
        **_group_rows(comparison),
        "components": fair.components_,
        "center": fair.mean_,
        "scale": np.ones(fair.n_features_in_) if fair.scale_ is None else fair.scale_,
    }


def _group_rows(comparison: Comparison) -> dict[str, Any]:
    """Return how each group is served before and after, where the worst-served one counts."""
    table = comparison.group_table()
    rows = zip(*table.values(), strict=True)
    return {"groups": [dict(zip(table, row, strict=True)) for row in rows]} if table else {}


def _figures(fitted: FairPCA | DeltaFairPCA) -> dict[str, Any]:
    return {
        "variance_kept": float(fitted.explained_variance_ratio_.sum()),
        "explained_variance": fitted.explained_variance_,
        "explained_variance_ratio": fitted.explained_variance_ratio_,
        "mean_gap": fitted.mean_gap_,
        "cov_gap": fitted.cov_gap_,
    }
