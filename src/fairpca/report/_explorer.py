"""A path of models as plain data, which the script of the page moves along by a slider."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from fairpca._present import interval, number, percent, points, shorten
from fairpca.metrics import audit
from fairpca.report._display import feature_names, same_sign
from fairpca.report._summary import Fitted
from fairpca.rows import Rows

_POINTS = 400  # rows drawn: enough to see a shape, few enough to move at once
_GROUPS = 6  # groups of an attribute that a picture can tell apart
_LOADINGS = 8
_ADVERSARY = "gaussian"
_DIGITS = 4


class PathPoint(NamedTuple):
    """A model on a path: its setting in words, its components, and figures as they are shown."""

    label: str
    components: Any
    shown: dict[str, str]
    chosen: bool = False


def explorer(
    rows: Rows, fitted: Fitted, tradeoff: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Scores of some rows, ellipses of all rows, loadings and figures, point by point."""
    fair, plain = fitted.fair, fitted.plain
    matrix = rows.X.toarray() if hasattr(rows.X, "toarray") else np.asarray(rows.X)
    matrix = (matrix - fair.mean_) / (1.0 if fair.scale_ is None else fair.scale_)
    path = [_point(fitted, place, entry) for place, entry in enumerate(tradeoff)]
    _add_delta(rows, matrix, path, settings)
    drawn = np.sort(rows.draw(_POINTS, 0))
    attributes = [_attribute(column) for column in rows.binarized_at_median().groups.categorical]  # type: ignore[union-attr]
    names, reference, drawings = feature_names(fair), plain.components_, []
    for point in (PathPoint("plain PCA", plain.components_, {}), *path):
        components = same_sign(np.asarray(point.components), reference)
        reference = components  # so that no picture is turned over between two neighbours
        scores = matrix @ components[:2].T
        if scores.shape[1] == 1:
            scores = np.column_stack([scores, np.zeros(len(scores))])
        drawings.append(
            {
                "label": point.label,
                "chosen": point.chosen,
                "shown": point.shown,
                "scores": _rounded(scores[drawn].T),
                "ellipses": [_ellipses(scores, codes, shown) for _, codes, shown in attributes],
                "loadings": [_loadings(component, names) for component in components[:2]],
            }
        )
    of_leakage = hasattr(fair, "leakage_")
    return {
        "slider": f"Penalty on the {'leakage' if of_leakage else 'covariance gap'}",
        "plain": drawings[0],
        "points": drawings[1:],
        "attributes": [
            {**about, "codes": np.where(np.isin(codes, shown), codes, -1)[drawn].tolist()}
            for about, codes, shown in attributes
        ],
    }


def _point(fitted: Fitted, place: int, entry: Mapping[str, Any]) -> PathPoint:
    """Return a point of a trade-off with its components; FairPCA is fitted to all rows again."""
    fair = fitted.fair
    if hasattr(fair, "path_components_"):
        components = fair.path_components_[place]
    elif entry["chosen"]:
        components = fair.components_
    else:
        settings = {"cov_weight": entry["penalty"], "cov_tol": None, "certify": False}
        model = clone(fair).set_params(n_components=fair.n_components_, **settings)
        components = model.fit_moments(fitted.moments).components_
    shown = {"variance kept": percent(entry["variance"])}
    for key, name in (("mean_gap", "mean gap"), ("cov_gap", "covariance gap")):
        if key in entry:
            shown[name] = number(entry[key])
    if entry.get("delta") is not None:
        error = f"± {points(entry['delta_error'])}"
        shown["Δ, components refitted to halves"] = f"{points(entry['delta'])} {error}"
    return PathPoint(f"penalty {entry['penalty']:.3g}", components, shown, entry["chosen"])


def _add_delta(rows: Rows, matrix: Any, path: list[PathPoint], settings: Mapping[str, Any]) -> None:
    """Measure every point on the same rows by one adversary; the panel would take minutes."""
    scores = {str(place): matrix @ point.components.T for place, point in enumerate(path)}
    kept = ("compare", "joint", "reference", "confidence", "min_group", "random_state")
    first = rows.with_features(scores.pop("0"))
    how = {name: settings[name] for name in kept}
    report = audit(
        first, against=scores, effort="quick", adversaries=(_ADVERSARY,), families=(), **how
    )
    for point, measured in zip(path, report.representations, strict=True):
        worst = measured.headline
        if worst is not None:
            span = interval(worst.low, worst.high, points)
            point.shown[f"Δ, {worst.comparison.adversary}"] = f"{points(worst.estimate)} ({span})"


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
