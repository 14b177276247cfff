"""`audit_report`: rows, or a model and its rows, become a page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fairpca._progress import Progress
from fairpca.estimators import FairPCA
from fairpca.exceptions import InvalidInputError
from fairpca.metrics import AuditReport, audit
from fairpca.report._page import AuditPage
from fairpca.report._pictures import draw_pictures, scores_of
from fairpca.report._summary import Fitted, fit_both, summarise
from fairpca.rows import UNKNOWN_GROUP, Rows

_BEFORE = 0.25  # of the budget, for the components that the fair ones are compared with


def audit_report(
    X: Any,
    sensitive_features: Any = None,
    *,
    model: FairPCA | None = None,
    control_features: Any = None,
    sample_weight: Any = None,
    numeric: Iterable[str] = (),
    budget: float = 60.0,
    folds: int = 5,
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
    sensitive_features, control_features, sample_weight, numeric
        As in `fairpca.metrics.audit`.
    model : FairPCA, optional
        Fitted to the rows, whatever it was fitted to before; its components are audited beside
        plain ones. None: the columns of X are what is audited.
    budget : float, default 60
        Seconds of processor time for the audit, and a quarter of it for plain components.
    folds : int, default 5
        For the figures on new rows; 0: none, and no trade-off.
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

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca import FairPCA
    >>> from fairpca.report import audit_report
    >>> rng = np.random.default_rng(0)
    >>> sex = np.repeat(["f", "m"], 100)
    >>> X = rng.normal(size=(200, 4)) + 2 * (sex == "m")[:, None]
    >>> page = audit_report(X, sex, model=FairPCA(2), families=("linear",), adversaries=())
    >>> page.summary["verdict"]["before"]["held_out"]["value"] > 0.8
    True
    """
    rows = X
    if not isinstance(X, Rows):
        unknown = UNKNOWN_GROUP if options.get("missing_groups") == "leave-out" else None
        beside = (sensitive_features, control_features, sample_weight)
        rows = Rows.read(X, *beside, numeric=numeric, unknown=unknown)
    said = {
        "name": name,
        "title": title,
        "features": list(rows.feature_names or [f"x{k}" for k in range(rows.X.shape[1])]),
        "attributes": list(rows.groups.names) if rows.groups is not None else [],
        "strata": list(rows.strata.names) if rows.strata is not None else [],
        "options": {"budget": budget, "folds": folds, **_without_columns(options)},
        **(about or {}),
    }
    known = rows.of_known_group()  # the others are counted by the audit, and nothing else
    fitted = before = None
    scores = rows
    if model is not None:
        if not isinstance(model, FairPCA):
            raise InvalidInputError(
                f"model is a {type(model).__name__}: give a FairPCA, or the representation as X.",
                parameter="model",
            )
        fitted = fit_both(known, model, folds)
        scores = _scores(rows, fitted.fair)
        without = {key: value for key, value in options.items() if key != "decisions"}
        less = {**without, "n_permutations": 0, "slow_permutations": 0}
        before = audit(_scores(rows, fitted.plain), budget=_BEFORE * budget, **less)
    report = audit(scores, budget=budget, progress=progress, **options)
    return make_page(report, about=said, rows=known, fitted=fitted, before=before)


def _without_columns(options: Mapping[str, Any]) -> dict[str, Any]:
    """Name decisions among the options, without their values."""
    named = dict.fromkeys(options.get("decisions") or (), "given")
    return {key: value for key, value in options.items() if key != "decisions"} | named


def _scores(rows: Rows, model: FairPCA) -> Rows:
    return rows.with_features(scores_of(model, rows.X))


def make_page(
    report: AuditReport,
    *,
    about: Mapping[str, Any],
    rows: Rows | None = None,
    fitted: Fitted | None = None,
    before: AuditReport | None = None,
) -> AuditPage:
    """Summarise an audit and draw its pictures."""
    summary = summarise(report, about=about, rows=rows, fitted=fitted, before=before)
    tradeoff = [] if fitted is None else summary["fit"]["tradeoff"]
    pictures = draw_pictures(report, rows, fitted, tradeoff)
    notes = dict.fromkeys(result.worst.note for result in report.results if result.worst.note)
    return AuditPage(summary, pictures, tuple(notes))
