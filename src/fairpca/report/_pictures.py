"""Pictures for a page: drawn by the displays, handed over as text that a page can hold."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fairpca._present import visible
from fairpca.estimators import FairPCA
from fairpca.metrics import AuditReport
from fairpca.report._summary import Fitted
from fairpca.report.displays import (
    BeforeAfterDisplay,
    DeltaDisplay,
    LoadingsDisplay,
    TradeoffDisplay,
)
from fairpca.rows import Rows

_DPI = 110
_POINTS = 1500  # rows that are drawn
_GROUPS = 8  # groups that are told apart in a picture


class Picture(NamedTuple):
    """A PNG as base64, and its size in CSS pixels."""

    data: str
    width: int
    height: int


def draw_pictures(
    report: AuditReport, rows: Rows | None, fitted: Fitted | None, tradeoff: list[dict[str, Any]]
) -> dict[str, Picture]:
    """Draw what there are data for; a picture that cannot be drawn is left out."""
    drawings: dict[str, Callable[[], Any]] = {}
    if report.results or report.adversaries:
        drawings["delta"] = lambda: DeltaDisplay.from_audit(report)
    if fitted is not None:
        drawings["loadings"] = lambda: _loadings(fitted)
        if rows is not None:
            drawings["before_after"] = lambda: _before_after(report, rows, fitted)
        if len(tradeoff) > 1:
            drawings["tradeoff"] = lambda: _tradeoff(tradeoff)
    return {name: _as_text(draw) for name, draw in drawings.items()}


def _as_text(draw: Callable[[], Any]) -> Picture:
    from matplotlib import rc_context

    buffer = io.BytesIO()
    # Names are no formulas, and a letter that a font lacks is no reason to stop.
    with warnings.catch_warnings(), rc_context({"text.parse_math": False}):
        warnings.simplefilter("ignore")
        look: Any = {"dpi": _DPI, "bbox_inches": "tight", "metadata": {"Software": None}}
        draw().figure_.savefig(buffer, format="png", **look)
    content = buffer.getvalue()
    # The first block of a PNG says how large it is.
    width, height = (int.from_bytes(content[at : at + 4]) * 96 // _DPI for at in (16, 20))
    return Picture(base64.b64encode(content).decode(), width, height)


def scores_of(model: FairPCA, X: Any) -> Any:
    """Return component scores of a matrix whose columns are known to be those of the model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a matrix has no names
        return np.asarray(model.transform(X), dtype=np.float64)


def _before_after(report: AuditReport, rows: Rows, fitted: Fitted) -> Any:
    """Draw the attribute of the worst pair, or the first one."""
    groups = rows.binarized_at_median().groups
    columns = groups.categorical if groups is not None else ()
    pairs: Any = (
        *report.adversaries,
        *(pair for result in report.results for pair in result.pairs),
    )
    label = None if report.headline is None else report.headline.pair
    worst = next((pair.attribute for pair in pairs if pair.label() == label), "")
    column = next((c for c in columns if c.name == worst), columns[0])
    sizes = np.bincount(column.codes, minlength=len(column.levels))
    shown = np.sort(np.argsort(-sizes, kind="stable")[:_GROUPS])
    inside = np.isin(column.codes, shown)
    codes = np.searchsorted(shown, column.codes[inside])
    names = tuple(visible(str(column.levels[index])) for index in shown)
    models = {"Plain PCA": fitted.plain, "Fair PCA": fitted.fair}
    scores = {name: scores_of(model, rows.X)[inside] for name, model in models.items()}
    captions = {
        name: f"variance kept {100 * np.sum(model.explained_variance_ratio_):.0f} %, mean gap "
        f"{model.mean_gap_:.2f}, covariance gap {model.cov_gap_:.2f}"
        for name, model in models.items()
    }
    return BeforeAfterDisplay(scores, names, codes, captions).plot(max_points=_POINTS)


def _loadings(fitted: Fitted) -> Any:
    fair, plain = fitted.fair, fitted.plain
    count = fair.components_.shape[1]
    names = getattr(fair, "feature_names_in_", [f"x{index}" for index in range(count)])
    shown = [visible(str(name))[:40] for name in names]
    return LoadingsDisplay.from_estimator(fair, plain=plain, feature_names=shown)


def _tradeoff(points: list[dict[str, Any]]) -> Any:
    chosen = [index for index, point in enumerate(points) if point["chosen"]]
    return TradeoffDisplay(
        [point["cov_gap"] for point in points],
        [point["variance"] for point in points],
        [point["penalty"] for point in points],
        measure="covariance gap",
        error=[point["cov_gap_std"] for point in points],
        chosen=chosen[0] if chosen else None,
    ).plot()
