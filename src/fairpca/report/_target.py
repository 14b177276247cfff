"""What components with a target are worth to a model, and how it decides by group."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from fairpca.estimators import FairPCA
from fairpca.estimators._comparison import without_target
from fairpca.linalg import Array, project
from fairpca.metrics import decision_rates
from fairpca.rows import Rows


def target_figures(fair: Any, plain: FairPCA, rows: Rows | None) -> dict[str, Any] | None:
    """Gather R² of y and, for a target of two labels, decisions of logistic models by group."""
    if not fair.target_weight:
        return None
    figures = {"names": list(fair.moments_.targets), "kept": fair.target_kept_, "models": []}
    columns = () if rows is None or rows.targets is None else rows.targets.categorical
    if rows is None or len(columns) != 1 or len(columns[0].levels) != 2:
        return figures
    groups = rows.groups is not None and not rows.groups.numeric
    rows = rows.take(np.flatnonzero(columns[0].codes >= 0))
    assert rows.targets is not None
    y = rows.targets.categorical[0].codes
    without = without_target(fair).fit_moments(plain.moments_)
    names = ("plain PCA", "fair PCA without target", "fair PCA with target")
    for name, model in zip(names, (plain, without, fair), strict=True):
        score = _cross_fitted(project(rows.X, model.mean_, model._directions), y, rows)
        entry: dict[str, Any] = {"name": name, "auc": float(roc_auc_score(y, score))}
        if groups:
            rates = decision_rates(score > 0.5, rows, label=y, joint=False).to_dict()["rates"]
            entry["parity"] = _spread(rates, "selection")
            entry["odds"] = max(_spread(rates, f"{what} positives") for what in ("true", "false"))
            entry["rates"] = rates
        figures["models"].append(entry)
    figures["positive"] = columns[0].levels[1]
    return figures


def _cross_fitted(U: Array, y: Any, rows: Rows) -> Array:
    """Probability of the second label, by a logistic model of the other half of the rows."""
    U = U / np.where((spread := U.std(axis=0)) > 0.0, spread, 1.0)
    score = np.empty(len(y))
    first, second = rows.halves()
    for train, test in ((first, second), (second, first)):
        score[test] = y[train].mean()
        if np.ptp(y[train]):
            model = LogisticRegression(max_iter=1000).fit(U[train], y[train])
            score[test] = model.predict_proba(U[test])[:, 1]
    return score


def _spread(rates: list[dict[str, Any]], measure: str) -> float:
    """Largest difference of a rate between groups that are compared."""
    return max((-r["difference"] for r in rates if r["measure"] == measure and r["difference"]),
               default=0.0)  # fmt: skip
