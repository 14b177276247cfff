"""A path of models as plain data, which the script of the page moves along by a slider."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fairpca._choices import PANEL
from fairpca._present import NOTHING, number, percent, points, shorten, with_error
from fairpca.estimators import FairPCA
from fairpca.exceptions import InvalidInputError
from fairpca.metrics import audit
from fairpca.moments import GroupMoments
from fairpca.report._display import feature_names, same_sign
from fairpca.report._summary import Fitted, PathPoint, at_penalty, scores_of
from fairpca.rows import Rows

_POINTS = 400  # rows drawn: enough to see a shape, few enough to move at once
_GROUPS = 6  # groups of an attribute that a picture can tell apart
_LOADINGS = 8
_ADVERSARY = "gaussian"
_DIGITS = 4


def explorer(rows: Rows, fitted: Fitted, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Scores of some rows, ellipses of all rows, loadings and figures, point by point."""
    fair, plain = fitted.fair, fitted.plain
    matrix = rows.X.toarray() if hasattr(rows.X, "toarray") else np.asarray(rows.X)
    matrix = (matrix - fair.mean_) / (1.0 if fair.scale_ is None else fair.scale_)
    shown = [_shown(point.figures) for point in fitted.path]
    if isinstance(fair, FairPCA):
        deltas = _deltas(rows, matrix, fitted, settings)
        for figures, delta in zip(shown, deltas, strict=True):
            figures[f"Δ on held-out rows, {PANEL[_ADVERSARY]}"] = delta
    drawn = np.sort(rows.draw(_POINTS, 0))
    attributes = [_attribute(column) for column in rows.binarized_at_median().groups.categorical]  # type: ignore[union-attr]
    names, drawings = feature_names(fair), []
    start = PathPoint(plain.components_, {"penalty": None, "chosen": False})
    for point, figures in zip((start, *fitted.path), ({}, *shown), strict=True):
        components = same_sign(np.asarray(point.components), fair.components_)  # none turned over
        scores = matrix @ components[:2].T
        if scores.shape[1] == 1:
            scores = np.column_stack([scores, np.zeros(len(scores))])
        drawings.append(
            {
                "label": f"penalty {point.figures['penalty']:.3g}" if figures else "plain PCA",
                "chosen": point.figures["chosen"],
                "shown": figures,
                "scores": _rounded(scores[drawn].T),
                "ellipses": [_ellipses(scores, codes, shown) for _, codes, shown in attributes],
                "loadings": [_loadings(component, names) for component in components[:2]],
            }
        )
    return {
        "slider": f"Penalty on the {'covariance gap' if isinstance(fair, FairPCA) else 'leakage'}",
        "halves": fitted.held_out is None,
        "plain": drawings[0],
        "points": drawings[1:],
        "attributes": [
            {**about, "codes": np.where(np.isin(codes, shown), codes, -1)[drawn].tolist()}
            for about, codes, shown in attributes
        ],
    }


def _shown(figures: Mapping[str, Any]) -> dict[str, str]:
    """Figures of a point as they are shown."""
    shown = {"variance kept": percent(figures["variance"])}
    for key, name in (("mean_gap", "mean gap"), ("cov_gap", "covariance gap")):
        if key in figures:
            shown[name] = number(figures[key])
    if figures.get("delta") is not None:
        delta = with_error(figures["delta"], figures["delta_error"], points)
        shown["Δ, estimated for new data"] = f"{delta} points"
    return shown


def _deltas(rows: Rows, matrix: Any, fitted: Fitted, settings: Mapping[str, Any]) -> list[str]:
    """Audit every point by one adversary, on rows that its components were not fitted to."""
    path = fitted.path
    if fitted.held_out is not None:
        scores = [matrix @ point.components.T for point in path]
    else:  # the rows were fitted: fit again to one half, and audit the other
        half = rows.folds(2) == 0
        moments = GroupMoments.from_rows(rows.take(np.flatnonzero(~half)))
        rows = rows.take(np.flatnonzero(half))
        try:
            models = [at_penalty(fitted.fair, one.figures["penalty"], moments) for one in path]
        except InvalidInputError:  # a group in one half only
            return [NOTHING] * len(path)
        scores = [scores_of(model, rows.X) for model in models]
    kept = ("compare", "joint", "reference", "effort", "confidence", "min_group", "random_state")
    how = {name: settings[name] for name in kept}
    how |= {"adversaries": (_ADVERSARY,), "families": ()}
    others = {str(place): some for place, some in enumerate(scores[1:])}
    report = audit(rows.with_features(scores[0]), against=others, **how)
    headlines = [one.headline for one in report.representations]
    return [
        f"{with_error(worst.estimate, worst.error, points)} points" if worst else NOTHING
        for worst in headlines
    ]


def _attribute(column: Any) -> tuple[dict[str, Any], Any, Any]:
    """Name of an attribute and of its largest groups, the codes of its rows, the codes shown."""
    sizes = np.bincount(column.codes, minlength=len(column.levels))
    shown = np.sort(np.argsort(-sizes, kind="stable")[:_GROUPS])
    groups = {int(code): shorten(column.levels[code], 40) for code in shown if sizes[code]}
    return {"name": shorten(column.name, 40), "groups": groups}, column.codes, shown


def _ellipses(scores: Any, codes: Any, shown: Any) -> dict[int, Any]:
    """Mean and covariance of every group that is drawn, of all its rows."""
    shapes = {}
    for code in shown:
        part = scores[codes == code]
        if len(part) > 1:
            covariance = np.cov(part.T, bias=True)
            shape = [*part.mean(axis=0), covariance[0, 0], covariance[0, 1], covariance[1, 1]]
            shapes[int(code)] = _rounded(shape)
    return shapes


def _loadings(component: Any, names: Sequence[str]) -> list[list[Any]]:
    largest = np.argsort(-np.abs(component), kind="stable")[:_LOADINGS]
    return [[shorten(names[k], 40), _rounded(component[k])] for k in largest]


def _rounded(values: Any) -> Any:
    """Numbers with few digits, as lists: the page needs no more, and the file stays small."""
    if isinstance(values, np.ndarray | list):
        return [_rounded(value) for value in values]
    return None if values is None else float(f"{float(values):.{_DIGITS}g}")
