"""`audit_report`: rows, or a model and its rows, become a page with pictures."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fairpca._choices import PANEL
from fairpca._present import (
    NOTHING,
    Progress,
    number,
    penalty_text,
    percent,
    points,
    shorten,
    with_error,
)
from fairpca.estimators import FairPCA
from fairpca.exceptions import InvalidInputError
from fairpca.linalg import single_blas_thread
from fairpca.metrics import AuditReport, audit
from fairpca.moments import GroupMoments
from fairpca.report._delta import DeltaDisplay
from fairpca.report._display import COLOURS, feature_names, same_sign
from fairpca.report._loadings import LoadingsDisplay
from fairpca.report._page import AuditPage, Picture
from fairpca.report._scores import BeforeAfterDisplay, caption_of, drawn_codes, protected_columns
from fairpca.report._summary import Fitted, PathPoint, at_penalty, fit_both, scores_of, summarise
from fairpca.report._tradeoff import TradeoffDisplay
from fairpca.rows import UNKNOWN_GROUP, Rows
from fairpca.rows._identifiers import warn_of_units
from fairpca.rows.groups import Attribute

if TYPE_CHECKING:  # loaded only where it is fitted
    from fairpca.estimators import DeltaFairPCA

PLAIN = "plain PCA"  # what fair components are compared with
_DPI = 110
_EXPLORER_POINTS = 400  # rows drawn: enough to see a shape, few enough to move at once
_LOADINGS = 8
_ADVERSARY = "gaussian"
_DIGITS = 4
_POINTS = 1500  # rows that are drawn
_ATTRIBUTES = 6  # protected attributes that have a picture of their own


@single_blas_thread()
def audit_report(
    X: Any,
    sensitive_features: Any = None,
    *,
    model: FairPCA | DeltaFairPCA | None = None,
    control_features: Any = None,
    sample_weight: Any = None,
    numeric: Iterable[str] = (),
    units: Any = None,
    y: Any = None,
    effort: str = "standard",
    folds: int = 5,
    hold_out: float = 0.0,
    name: str = "",
    title: str = "",
    about: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> AuditPage:
    """Audit rows, or what a fair PCA makes of them, and put it on a page that people can read.

    Parameters
    ----------
    X : array-like of shape (n, p), data frame, or Rows
        Features for `model`, or the representation itself.
    sensitive_features, control_features, sample_weight, numeric, units, effort
        As in `fairpca.metrics.audit`.
    model : FairPCA or DeltaFairPCA, optional
        Fitted to the rows, whatever it was fitted to before; its components are audited, and
        compared with plain ones on the same rows. None: the columns of X are what is audited.
    folds : int, default 5
        For the figures on held-out rows; 0: none, and no trade-off.
    hold_out : float, default 0
        Share of the rows that the model is not fitted to. They are the ones that are audited, so
        that the figures are of new data; 0 audits the rows that were fitted.
    y : array-like, optional
        What a model with `target_weight` is to predict: the page then has the AUC of logistic
        models on the components, and how they decide by group.
    name, title : str
        What the data are called, and the title of the page.
    about : mapping, optional
        More for the record: "date", "files", "options".
    progress : callable, optional
        Called with the number of steps that are done, and of all steps.
    **options
        As in `fairpca.metrics.audit`.

    Returns
    -------
    AuditPage
        Its `to_html`, `to_markdown` and `json` give the page, a model card and the figures.

    See Also
    --------
    fairpca.metrics.audit : The figures without a page.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca import FairPCA
    >>> from fairpca.report import audit_report
    >>> rng = np.random.default_rng(0)
    >>> sex = np.repeat(["f", "m"], 100)
    >>> X = rng.normal(size=(200, 4)) + 2 * (sex == "m")[:, None]
    >>> page = audit_report(X, sex, model=FairPCA(2), families=(), effort="quick")
    >>> page.summary["verdict"]["difference"]["estimate"] < -0.5
    True
    """
    rows = X
    if not isinstance(X, Rows):
        unknown = UNKNOWN_GROUP if options.get("missing_groups") == "leave-out" else None
        parts = (sensitive_features, control_features, sample_weight)
        rows = Rows.read(X, *parts, numeric=numeric, unknown=unknown, units=units, y=y)
        warn_of_units(X, rows)
    details = {
        "name": name,
        "title": title,
        "features": list(rows.feature_names or [f"x{k}" for k in range(rows.X.shape[1])]),
        "attributes": list(rows.groups.names) if rows.groups is not None else [],
        "strata": list(rows.strata.names) if rows.strata is not None else [],
        "options": {
            "effort": effort,
            "folds": folds,
            "hold_out": hold_out,
            **_without_columns(options),
        },
        **(about or {}),
    }
    known = rows.of_known_group()  # the others are counted by the audit, and nothing else
    if model is None:
        report = audit(rows, effort=effort, progress=progress, **options)
        return make_page(report, details, known)
    if not (isinstance(model, FairPCA) or hasattr(model, "fit_sample")):
        raise InvalidInputError(
            f"model is a {type(model).__name__}: give a FairPCA or DeltaFairPCA, or the "
            "representation as X.",
            parameter="model",
        )
    compared = {name: getattr(model, name) for name in ("compare", "joint", "reference")}
    options = compared | options
    if hold_out:
        held_out = rows.held_out(hold_out)
        known = rows.take(np.flatnonzero(~held_out)).of_known_group()
        rows, options = rows.take(np.flatnonzero(held_out)), _of_rows(options, held_out)
        details["n_fitted"] = len(known)
    measured = rows.of_known_group() if hold_out else None
    fitted = fit_both(known, model, folds, measured)
    known = known if measured is None else measured
    plain, fair = (scores_of(fit, rows.X) for fit in (fitted.plain, fitted.fair))
    options["against"] = {PLAIN: plain, **(options.get("against") or {})}
    report = audit(rows.with_features(fair), effort=effort, progress=progress, **options)
    return make_page(report, details, known, fitted)


def _of_rows(options: Mapping[str, Any], kept: Any) -> dict[str, Any]:
    """Keep what the options hold of some rows only: decisions, scores, labels, features."""
    chosen = dict(options)
    if (decisions := options.get("decisions")) is not None:
        chosen["decisions"] = {
            name: values if name == "positive" or values is None else np.asarray(values)[kept]
            for name, values in decisions.items()
        }
    if (original := options.get("original")) is not None:
        chosen["original"] = np.asarray(original)[kept]
    others = (options.get("against") or {}).items()
    chosen["against"] = {name: np.asarray(matrix)[kept] for name, matrix in others}
    return chosen


def _without_columns(options: Mapping[str, Any]) -> dict[str, Any]:
    """Name decisions among the options, without their values."""
    named = dict.fromkeys(options.get("decisions") or (), "given")
    columns = ("decisions", "original", "against")
    return {key: value for key, value in options.items() if key not in columns} | named


def make_page(
    report: AuditReport,
    about: Mapping[str, Any],
    rows: Rows | None = None,
    fitted: Fitted | None = None,
) -> AuditPage:
    """Summarise an audit and draw its pictures."""
    summary = summarise(report, about=about, rows=rows, fitted=fitted)
    drawings: dict[str, Callable[[], Any]] = {}
    if report.representations[0].held_out:
        audited = "audited" if fitted is None else "fair PCA"
        drawings["delta"] = lambda: DeltaDisplay.from_audit(report, name=audited)
    path = None
    if fitted is not None and rows is not None:
        drawings["loadings"] = lambda: _loadings(fitted)
        for column in protected_columns(rows)[:_ATTRIBUTES]:
            drawings[f"before_after {column.name}"] = partial(
                _before_after, column, rows, fitted, report.settings["min_group"]
            )
        if len(fitted.path) > 1:
            drawings["tradeoff"] = lambda: _tradeoff(summary["fit"]["tradeoff"])
            path = explorer(rows, fitted, report.settings)
    pictures = {name: _as_png(draw) for name, draw in drawings.items()}
    return AuditPage(summary, pictures, report.notes, path)


def _as_png(draw: Callable[[], Any]) -> Picture:
    from matplotlib import pyplot, rc_context

    buffer = io.BytesIO()
    # Names are no formulas, and a letter that a font lacks is no reason to stop.
    with warnings.catch_warnings(), rc_context({"text.parse_math": False}):
        warnings.simplefilter("ignore")
        options: Any = {"dpi": _DPI, "bbox_inches": "tight", "metadata": {"Software": None}}
        figure = draw().figure_
        figure.savefig(buffer, format="png", **options)
        pyplot.close(figure)
    content = buffer.getvalue()
    # The first block of a PNG says how large it is.
    width, height = (int.from_bytes(content[at : at + 4]) * 96 // _DPI for at in (16, 20))
    return Picture(base64.b64encode(content).decode(), width, height)


def _before_after(column: Attribute, rows: Rows, fitted: Fitted, least: int) -> Any:
    """Draw the largest groups of an attribute on plain and on fair components."""
    drawn = drawn_codes(column, rows, least)
    shown = np.isin(column.codes, drawn)
    codes = np.searchsorted(drawn, column.codes[shown])
    names = tuple(shorten(column.levels[index]) for index in drawn)
    of = "" if fitted.held_out is None else " (figures of the fitted rows)"
    models = {f"Plain PCA{of}": fitted.plain, f"Fair PCA{of}": fitted.fair}
    scores = {name: scores_of(model, rows.X)[shown] for name, model in models.items()}
    captions = {name: caption_of(model, column.name) for name, model in models.items()}
    return BeforeAfterDisplay(scores, names, codes, captions).plot(max_points=_POINTS)


def _loadings(fitted: Fitted) -> Any:
    names = [shorten(name, 40) for name in feature_names(fitted.fair)]
    options: Any = {"feature_names": names, "component": None, "max_features": _LOADINGS}
    return LoadingsDisplay.from_estimator(fitted.fair, plain=fitted.plain, **options)


def _tradeoff(points: list[dict[str, Any]]) -> Any:
    """Draw the variance against Δ along the path of DeltaFairPCA, else against the gap."""
    of_delta = points[0].get("delta") is not None
    value, error = ("delta", "delta_error") if of_delta else ("cov_gap", "cov_gap_error")
    chosen = [index for index, point in enumerate(points) if point["chosen"]]
    return TradeoffDisplay(
        [point[value] for point in points],
        [point["variance"] for point in points],
        [point["penalty"] for point in points],
        measure="Δ" if of_delta else "covariance gap",
        error=[point[error] for point in points],
        chosen=chosen[0] if chosen else None,
    ).plot()


def explorer(rows: Rows, fitted: Fitted, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Scores of some rows, ellipses of all rows, loadings and figures, point by point."""
    fair, plain = fitted.fair, fitted.plain
    matrix = rows.X.toarray() if hasattr(rows.X, "toarray") else np.asarray(rows.X)
    matrix = (matrix - fair.mean_) / (1.0 if fair.scale_ is None else fair.scale_)
    shown = [_shown(point.figures) for point in fitted.path]
    if isinstance(fair, FairPCA) or fitted.held_out is not None:
        deltas = _deltas(rows, matrix, fitted, settings)
        for figures, (delta, pair) in zip(shown, deltas, strict=True):
            figures[f"Δ on held-out rows, {PANEL[_ADVERSARY]}"] = delta
            figures["largest for"] = pair
    drawn = np.sort(rows.draw(_EXPLORER_POINTS, 0))
    attributes = [
        _attribute(column, drawn_codes(column, rows, settings["min_group"]))
        for column in protected_columns(rows)
    ]
    names, drawings = feature_names(fair), []
    start = PathPoint(plain.components_, {"penalty": None, "chosen": False})
    for point, figures in zip((start, *fitted.path), ({}, *shown), strict=True):
        components = same_sign(np.asarray(point.components), fair.components_)  # none turned over
        scores = matrix @ components[:2].T
        if scores.shape[1] == 1:
            scores = np.column_stack([scores, np.zeros(len(scores))])
        drawings.append(
            {
                "label": f"penalty {penalty_text(point.figures['penalty'])}"
                if figures
                else "plain PCA",
                "chosen": point.figures["chosen"],
                "shown": figures,
                "scores": _rounded(scores[drawn].T),
                "ellipses": [_ellipses(scores, codes, shown) for _, codes, shown in attributes],
                "loadings": [_largest_loadings(component, names) for component in components[:2]],
            }
        )
    return {
        "slider": f"Penalty on the {'covariance gap' if isinstance(fair, FairPCA) else 'leakage'}",
        "halves": fitted.held_out is None,
        "colours": COLOURS,
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
        shown["Δ of the worst groups, estimated for new data"] = f"{delta} points"
    return shown


def _deltas(
    rows: Rows, matrix: Any, fitted: Fitted, settings: Mapping[str, Any]
) -> list[tuple[str, str]]:
    """Audit every point by one adversary, on rows that its components were not fitted to.

    Return Δ with its error and the groups that it is of.
    """
    path = fitted.path
    if fitted.held_out is not None:
        scores = [matrix @ point.components.T for point in path]
    else:  # the rows were fitted: fit again to one half, and audit the other
        half = rows.folds(2) == 0
        moments = GroupMoments.from_rows(rows.take(np.flatnonzero(~half)))
        rows = rows.binarized_at_median().take(np.flatnonzero(half))  # cut as in the tables
        try:
            models = [at_penalty(fitted.fair, one.figures["penalty"], moments) for one in path]
        except InvalidInputError:  # a group in one half only
            return [(NOTHING, NOTHING)] * len(path)
        scores = [scores_of(model, rows.X) for model in models]
    kept = ("compare", "joint", "reference", "effort", "confidence", "min_group", "random_state")
    how = {name: settings[name] for name in kept}
    how |= {"adversaries": (_ADVERSARY,), "families": ()}
    others = {str(place): some for place, some in enumerate(scores[1:])}
    report = audit(rows.with_features(scores[0]), against=others, **how)
    headlines = [one.headline for one in report.representations]
    return [
        (
            f"{with_error(worst.estimate, worst.error, points)} points",
            shorten(worst.comparison.label(), 60),
        )
        if worst
        else (NOTHING, NOTHING)
        for worst in headlines
    ]


def _attribute(column: Attribute, shown: Sequence[int]) -> tuple[dict[str, Any], Any, Any]:
    """Name of an attribute and of the groups drawn, the codes of its rows, the codes drawn."""
    groups = {code: shorten(column.levels[code], 40) for code in shown}
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


def _largest_loadings(component: Any, names: Sequence[str]) -> list[list[Any]]:
    largest = np.argsort(-np.abs(component), kind="stable")[:_LOADINGS]
    return [[shorten(names[k], 40), _rounded(component[k])] for k in largest]


def _rounded(values: Any) -> Any:
    """Numbers with few digits, as lists: the page needs no more, and the file stays small."""
    if isinstance(values, np.ndarray | list):
        return [_rounded(value) for value in values]
    return None if values is None else float(f"{float(values):.{_DIGITS}g}")
