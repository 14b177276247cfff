"""What a page about an audit says, as one dictionary of plain values."""

from __future__ import annotations

import hashlib
import platform
import warnings
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from fairpca._present import delta_request, records
from fairpca.estimators import FairPCA
from fairpca.estimators._comparison import (
    PARTS,
    fit_with_plain,
    held_out_summary,
    hold_out_summary,
    without_target,
)
from fairpca.estimators._data_warnings import look_at_scores
from fairpca.estimators._expected_gaps import expected_figures
from fairpca.exceptions import FairnessWarning
from fairpca.linalg import Array, project
from fairpca.metrics import AuditReport
from fairpca.moments import FoldedMoments, GroupMoments, Standardization
from fairpca.moments.contrasts import without_small_groups
from fairpca.report._display import feature_names, same_sign
from fairpca.report._loadings import largest_balance
from fairpca.rows import Rows

if TYPE_CHECKING:  # loaded only where it is fitted
    from fairpca.estimators import DeltaFairPCA

PENALTIES = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0)
_PACKAGES = ("fairpca", "numpy", "scipy", "scikit-learn")
_BLOCK = 4096
_LOADINGS = 8  # features named for each component


class PathPoint(NamedTuple):
    """Components on a path of penalties, and their figures."""

    components: Array
    figures: dict[str, Any]


class Fitted(NamedTuple):
    """A fair fit, plain components, moments of these rows, folds of them or of held-out rows."""

    fair: FairPCA | DeltaFairPCA
    plain: FairPCA
    moments: GroupMoments
    folded: FoldedMoments | None
    held_out: FoldedMoments | None = None
    path: tuple[PathPoint, ...] = ()

    def measured(self, model: Any) -> dict[str, float] | None:
        """Return figures of rows that a model was not fitted to, as ``fairpca fit`` has them."""
        if self.held_out is not None:
            return hold_out_summary(model, self.plain, self.held_out)
        return None if self.folded is None else held_out_summary(_unfitted(model), self.folded)


def fit_both(
    rows: Rows,
    model: FairPCA | DeltaFairPCA,
    folds: int = 5,
    held_out: Rows | None = None,
) -> Fitted:
    """Fit a model, a path of penalties and plain components to rows."""
    measured = None if held_out is None else FoldedMoments.from_rows(held_out, PARTS)
    fair = clone(model)
    if isinstance(fair, FairPCA):
        folded = FoldedMoments.from_rows(rows, folds) if folds and measured is None else None
        total = GroupMoments.from_rows(rows) if folded is None else folded.total
        plain = fit_with_plain(fair, total)
        plain.components_ = same_sign(plain.components_, fair.components_)
        fitted = Fitted(fair, plain, total, folded, measured)
        look_at_scores(fair, rows)
        return fitted._replace(path=_path(fitted) if folds else ())
    total = GroupMoments.from_rows(rows)
    fair.fit_sample(rows, total)
    shared = set(FairPCA().get_params()) & set(fair.get_params()) - {"mean_tol", "n_components"}
    settings = {name: getattr(fair, name) for name in shared}
    plain = FairPCA(fair.n_components_, mean_tol=None, cov_weight=0.0, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)  # the fair fit has said it
        plain.fit_moments(total)
    plain.components_ = same_sign(plain.components_, fair.components_)
    fitted = Fitted(fair, plain, total, None, measured)
    return fitted._replace(path=tuple(_points_of(fair, fitted)))


def _points_of(fair: Any, fitted: Fitted) -> Iterator[PathPoint]:
    """Yield the path of a `DeltaFairPCA`, with gaps and variance on rows that were held out."""
    for components, figures in zip(fair.path_components_, records(fair.path_), strict=True):
        point = copy(fair)
        point.components_ = components
        yield PathPoint(components, {**figures, **(fitted.measured(point) or {})})


def _path(fitted: Fitted) -> tuple[PathPoint, ...]:
    """Fit along penalties of the covariance gap, and measure rows that were not fitted."""
    fair: Any = fitted.fair
    if fair.objective != "total" or hasattr(fair, "balance_"):
        return ()
    penalties: Sequence[float] = PENALTIES
    chosen = 1.0 if fair.cov_weight is None and fair.cov_tol is None else fair.cov_weight
    if chosen is not None:
        penalties = sorted({*PENALTIES, float(chosen)})
    path = []
    for penalty in penalties:
        model = fair if penalty == chosen else at_penalty(fair, penalty, fitted.moments)
        if (figures := fitted.measured(model)) is not None:
            about = {"penalty": penalty, "chosen": penalty == chosen}
            path.append(PathPoint(model.components_, {**about, **figures}))
    return tuple(path)


def at_penalty(fair: Any, penalty: float, moments: GroupMoments) -> Any:
    """Fit a copy with another penalty on the covariance gap."""
    model = _unfitted(fair).set_params(cov_weight=penalty, cov_tol=None, certify=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        return model.fit_moments(moments)


def summarise(
    report: AuditReport,
    *,
    about: Mapping[str, Any],
    rows: Rows | None = None,
    fitted: Fitted | None = None,
) -> dict[str, Any]:
    """Gather all that a page or a model card says; `about` names the data and the options."""
    audit = report.to_dict()
    return {
        "title": about.get("title") or f"Audit of {about.get('name') or 'a representation'}",
        "data": _data(report, rows, about),
        "verdict": _verdict(audit),
        "audit": audit,
        "fit": None if fitted is None else _fit(fitted, rows),
        "record": {
            "date": about.get("date"),
            "versions": {
                **{name: version(name) for name in _PACKAGES},
                "python": platform.python_version(),
            },
            "options": dict(about.get("options") or {}),
            "files": list(about.get("files") or ()),
            "rows_sha256": None if rows is None else digest(rows),
        },
    }


def digest(rows: Rows) -> str:
    """Return the SHA-256 of rows as they were read: features, groups, strata and weights."""
    total = hashlib.sha256()
    for start in range(0, len(rows), _BLOCK):  # a copy of all rows would be felt in memory
        block = rows.X[start : start + _BLOCK]
        whole = block.toarray() if hasattr(block, "toarray") else block
        total.update(np.ascontiguousarray(whole, dtype="<f8").tobytes())
    for part in (rows.groups, rows.strata):
        for column in part.categorical if part is not None else ():
            total.update(repr((column.name, column.levels)).encode())
            total.update(column.codes.astype("<i8").tobytes())
        for numbers in part.numeric if part is not None else ():
            total.update(numbers.name.encode() + numbers.values.astype("<f8").tobytes())
    if rows.weights is not None:
        total.update(rows.weights.astype("<f8").tobytes())
    return total.hexdigest()


def _data(report: AuditReport, rows: Rows | None, about: Mapping[str, Any]) -> dict[str, Any]:
    """Say what was audited: rows, features, groups with their sizes, unknown ones."""
    groups, units = [], None if rows is None else rows.units
    numbers = rows.groups.numeric if rows is not None and rows.groups is not None else ()
    if rows is not None and rows.groups is not None:
        for column in rows.binarized_at_median().groups.categorical:  # type: ignore[union-attr]
            counts = np.bincount(column.codes, minlength=len(column.levels))
            for level, count in zip(column.levels, counts.tolist(), strict=True):
                entry = {"attribute": column.name, "group": level, "n_rows": count}
                if units is not None:
                    code = column.levels.index(level)
                    entry["n_units"] = len(np.unique(units[column.codes == code]))
                small = entry.get("n_units", count) < report.settings["min_group"]
                groups += [{**entry, "share": count / len(rows), "small": small}] if count else []
    return {
        "name": about.get("name") or "",
        "n_rows": report.n_rows,
        "n_units": report.n_units,
        "unit": about.get("unit") or "units",
        "n_components": report.representations[0].n_components,
        "features": list(about.get("features") or ()),
        "attributes": list(about.get("attributes") or ()),
        "strata": list(about.get("strata") or ()),
        "numbers": [column.name for column in numbers],
        "n_fitted": about.get("n_fitted"),
        "groups": groups,
        "min_group": report.settings["min_group"],
        "unknown": report.unknown,
    }


def _verdict(audit: Mapping[str, Any]) -> dict[str, Any]:
    """Return the verdict, its headline, the headline it is compared with, and the difference."""
    others, differences = audit["representations"][1:], audit["differences"]
    return {
        **audit["verdict"],
        "headline": audit["headline"],
        "undecided": audit["representations"][0]["undecided"],
        "confidence": audit["confidence"],
        "before": others[0]["headline"] if others else None,
        "difference": differences[0] if differences else None,
    }


def _fit(fitted: Fitted, rows: Rows | None) -> dict[str, Any]:
    """Gather variance, gaps, certificate, contrasts, loadings and the trade-off of a fit."""
    fair, plain, moments = fitted[:3]
    certificate, held_out = fair.certificate_.as_dict(), fitted.measured(fair)
    return {
        "n_components": int(fair.n_components_),
        "standardized": bool(fair.standardize),
        "fair": _figures(fair),
        "plain": _figures(plain),
        "held_out": held_out,
        "expected": expected_figures(fair, held_out),
        "target": target_figures(fair, plain, rows),
        "certificate": {**certificate, "certified": bool(fair.certify)},
        "contrasts": contrast_rows(fair),
        "groups": _groups(fair, plain, moments),
        "loadings": _loadings(fair, plain),
        "tradeoff": [point.figures for point in fitted.path],
        "request": delta_request(fair),
    }


def _figures(model: Any) -> dict[str, Any]:
    return {
        "variance": float(np.sum(model.explained_variance_ratio_)),
        "mean_gap": float(model.mean_gap_),
        "cov_gap": float(model.cov_gap_),
    }


def scores_of(model: Any, X: Any) -> Array:
    """Component scores of a matrix whose columns are known to be those of the model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a matrix has no names
        return np.asarray(model.transform(X), dtype=np.float64)


def _unfitted(model: Any) -> Any:
    """Return a copy with as many components as the model has."""
    return clone(model).set_params(n_components=model.n_components_)


def contrast_rows(model: Any) -> list[dict[str, Any]]:
    """Return one entry for each contrast, those with the largest gaps left first."""
    rows = records(model.contrasts_.without_small())
    return sorted(rows, key=lambda row: -(row["cov_gap"] or 0.0))


def _groups(fair: Any, plain: FairPCA, moments: GroupMoments) -> list[dict[str, Any]]:
    """Say what each group keeps and loses in plain and in fair components."""
    if moments.span is not None:  # covariances of whole groups would be far larger than the rows
        return []
    if fair.scale_ is not None:
        moments = moments.standardized(Standardization(fair.mean_, fair.scale_))
    groups = moments.group_covariances(fair.joint)
    best = groups.best(len(fair.components_))
    tables = [
        without_small_groups(groups.as_table(model.components_.T, best)) for model in (plain, fair)
    ]
    return [
        {
            "group": groups.label(place),
            "n_rows": groups.n_rows[place],
            "best": tables[0]["best"][place],
            **{
                f"{name}_{what}": table[what][place]
                for name, table in zip(("plain", "fair"), tables, strict=True)
                for what in ("variance", "loss")
            },
        }
        for place in range(len(groups))
    ]


def _loadings(fair: Any, plain: FairPCA) -> list[list[dict[str, Any]]]:
    """Name the features that each component is mostly made of, and what cancels a difference."""
    names, balance = feature_names(fair), largest_balance(fair)[0]
    components = []
    for j, (component, other) in enumerate(zip(fair.components_, plain.components_, strict=True)):
        largest = np.argsort(-np.abs(component), kind="stable")[:_LOADINGS]
        components.append(
            [
                {"feature": names[k], "fair": float(component[k]), "plain": float(other[k])}
                | ({} if balance is None else {"balance": float(balance[j, k])})
                for k in largest[component[largest] != 0.0]
            ]
        )
    return components


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
            from fairpca.metrics import decision_rates  # not needed by other pages

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
