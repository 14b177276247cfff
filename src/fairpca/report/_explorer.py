"""A path of models as plain data, which the script of the page moves along by a slider."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from fairpca._present import number, percent, shorten
from fairpca.report._display import same_sign
from fairpca.report._summary import Fitted
from fairpca.rows import Rows

_POINTS = 400  # rows drawn: enough to see a shape, few enough to move at once
_GROUPS = 6  # groups of an attribute that a picture can tell apart
_LOADINGS = 8
_DIGITS = 4


@dataclass(frozen=True, eq=False)
class PathPoint:
    """A model on a path: its setting in words, its components, and figures as they are shown."""

    label: str
    components: Any
    shown: Mapping[str, str]
    chosen: bool = False


def path_of_penalties(fitted: Fitted, tradeoff: Sequence[Mapping[str, Any]]) -> list[PathPoint]:
    """Fit all rows along the penalties of a trade-off; its figures are of held-out rows."""
    points = []
    for entry in tradeoff:
        model = fitted.fair
        if not entry["chosen"]:
            settings = {"cov_weight": entry["penalty"], "cov_tol": None, "certify": False}
            settings["n_components"] = model.n_components_
            model = clone(model).set_params(**settings).fit_moments(model.moments_)
        shown = {
            "variance kept": percent(entry["variance"]),
            "mean gap": number(entry["mean_gap"]),
            "covariance gap": number(entry["cov_gap"]),
        }
        label = f"penalty {number(entry['penalty'])}"
        points.append(PathPoint(label, model.components_, shown, entry["chosen"]))
    return points


def explorer(
    rows: Rows, plain: Any, path: Sequence[PathPoint], names: Sequence[str], centre: Any, scale: Any
) -> dict[str, Any]:
    """Scores of some rows, ellipses of all rows and loadings, for every point of a path."""
    drawn = np.sort(rows.draw(_POINTS, 0))
    matrix = rows.X.toarray() if hasattr(rows.X, "toarray") else np.asarray(rows.X)
    matrix = (matrix - centre) / (1.0 if scale is None else scale)
    attributes = [_attribute(column) for column in rows.binarized_at_median().groups.categorical]  # type: ignore[union-attr]
    reference = plain.components_
    points = []
    for point in (PathPoint("plain PCA", plain.components_, {}), *path):
        components = same_sign(np.asarray(point.components), reference)
        reference = components  # so that no picture is turned over between two neighbours
        scores = matrix @ components[:2].T
        if scores.shape[1] == 1:
            scores = np.column_stack([scores, np.zeros(len(scores))])
        points.append(
            {
                "label": point.label,
                "chosen": point.chosen,
                "shown": dict(point.shown),
                "scores": _rounded(scores[drawn].T),
                "ellipses": [_ellipses(scores, codes, shown) for _, codes, shown in attributes],
                "loadings": [_loadings(component, names) for component in components[:2]],
            }
        )
    return {
        "plain": points[0],
        "points": points[1:],
        "attributes": [
            {**about, "codes": np.where(np.isin(codes, shown), codes, -1)[drawn].tolist()}
            for about, codes, shown in attributes
        ],
    }


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
