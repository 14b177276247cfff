"""How well components predict a target, and how models on them decide by group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from fairpca.estimators import FairPCA
from fairpca.estimators._comparison import without_target
from fairpca.linalg import Array, project
from fairpca.metrics.decisions import MEASURES, decision_rates
from fairpca.rows import Rows

_OF_RATE = ("measure", "attribute", "group", "n_rows", "rate", "rate_low", "rate_high", "left_out")


def target_figures(fair: Any, plain: FairPCA, rows: Rows | None) -> dict[str, Any]:
    """Gather R² of y and, for a target of two labels, decisions of logistic models by group."""
    figures: dict[str, Any] = {
        "names": list(fair.moments_.targets),
        "kept": fair.target_kept_,
        "models": [],
    }
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
        entry: dict[str, Any] = {"name": name, "auc": float(roc_auc_score(y, score)), "rates": []}
        if groups:
            rates = decision_rates(score > 0.5, rows, label=y, joint=False).to_dict()["rates"]
            compared = {measure: _compared(rates, measure) for measure in MEASURES}
            spreads = {m: _spread(some) for m, some in compared.items() if some}
            odds = {m: spread for m, spread in spreads.items() if m.endswith("positives")}
            entry["parity"] = spreads.get("selection")
            entry["odds"], entry["odds_of"] = max(odds.values(), default=None), list(odds)
            sizes = [rate["n_rows"] for measure in odds for rate in compared[measure]]
            figures["odds_rest_on"] = _rest_on(list(odds), sizes)  # the same for all models
            entry["rates"] = list(_against_one_group(rates))
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


def _compared(rates: list[dict[str, Any]], measure: str) -> list[dict[str, Any]]:
    """Rates of the groups of an attribute that have enough rows, where two have."""
    known = [r for r in rates if r["measure"] == measure and r["rate"] is not None
             and not r["left_out"].startswith("fewer")]  # fmt: skip
    attributes = [rate["attribute"] for rate in known]
    return [rate for rate in known if attributes.count(rate["attribute"]) > 1]


def _spread(rates: list[dict[str, Any]]) -> float:
    """Largest difference of a rate between groups of one attribute."""
    values = [(rate["attribute"], rate["rate"]) for rate in rates]
    return max(one - other for name, one in values for same, other in values if same == name)


def _rest_on(measures: list[str], sizes: list[int]) -> str:
    """Say how many rows and groups equalised odds differences are of."""
    if not measures:
        return "It was not measured: fewer than two groups have enough rows."
    only = f"Of {measures[0]} only, since fewer than two groups have enough rows for the other rate"
    begin = f"{only}, it" if len(measures) == 1 else "It"
    of = f"{min(sizes):,} to {max(sizes):,} rows"
    return f"{begin} compares {len(sizes)} rates, each of a group of {of}."


def _against_one_group(rates: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Compare every rate of an attribute with one group: the one that is selected most often."""
    references = {r["attribute"]: r["group"] for r in rates
                  if r["measure"] == "selection" and r["impact_ratio"] == 1.0}  # fmt: skip
    base = {(r["measure"], r["attribute"]): r for r in rates
            if references.get(r["attribute"]) == r["group"]}  # fmt: skip
    for rate in rates:
        shown = {name: rate[name] for name in _OF_RATE}
        other = base.get((rate["measure"], rate["attribute"]))
        if other is None or other["left_out"] or rate["left_out"]:
            yield {**shown, "difference": None}
        else:
            yield {**shown, "difference": rate["rate"] - other["rate"], "reference": other["group"]}
