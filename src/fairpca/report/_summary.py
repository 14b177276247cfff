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

from fairpca._choices import PENALTIES
from fairpca._present import (
    certificate_text,
    certificate_words,
    delta_request,
    is_sparse,
    records,
    share_of_variance,
    shorten,
)
from fairpca.estimators import FairPCA
from fairpca.estimators._comparison import (
    PARTS,
    expected_figures,
    fit_with_plain,
    held_out_summary,
    hold_out_summary,
)
from fairpca.exceptions import FairnessWarning
from fairpca.linalg import Array
from fairpca.metrics import AuditReport
from fairpca.moments import FoldedMoments, GroupMoments
from fairpca.moments._cells import Standardization
from fairpca.moments._form_contrasts import COMPARED, SMALL_GROUPS
from fairpca.moments.contrasts import without_small_groups
from fairpca.report._display import feature_names, same_sign
from fairpca.report._loadings import largest_balance
from fairpca.report._scores import counts_of, drawn_codes, protected_columns
from fairpca.rows import Rows

if TYPE_CHECKING:  # loaded only where it is fitted
    from fairpca.estimators import DeltaFairPCA

_PACKAGES = ("fairpca", "numpy", "scipy", "scikit-learn")
_BLOCK = 4096
_NAMED = 8  # groups of an attribute
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
    figures: dict[str, float] | None = None  # of the fair fit on rows that were held out

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
        fitted = fitted._replace(figures=fitted.measured(fair))
        fair.look_at_scores(rows)
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
    fitted = fitted._replace(figures=fitted.measured(fair))
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
    if fair.objective != "total" or is_sparse(fair):
        return ()
    penalties: Sequence[float] = PENALTIES
    chosen = 1.0 if fair.cov_weight is None and fair.cov_tol is None else fair.cov_weight
    if chosen is not None:
        penalties = sorted({*PENALTIES, float(chosen)})
    path = []
    for penalty in penalties:
        model = fair if penalty == chosen else at_penalty(fair, penalty, fitted.moments)
        figures = fitted.figures if model is fair else fitted.measured(model)
        if figures is not None:
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
        "data": _data(report, rows, about, fitted),
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


def _data(
    report: AuditReport, rows: Rows | None, about: Mapping[str, Any], fitted: Fitted | None
) -> dict[str, Any]:
    """Say what was audited: rows, features, groups with their sizes, unknown ones."""
    numbers = rows.groups.numeric if rows is not None and rows.groups is not None else ()
    least = report.settings["min_group"]
    groups = [] if rows is None else list(_group_sizes(rows, least, fitted))
    for group in groups:
        group["in_audit"] = _status_in_audit(report, group)
    is_said = any("small group" in group.get("in_fit", "") for group in groups)
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
        "protected": [_protected(name, groups) for name in about.get("attributes") or ()],
        "small_groups": SMALL_GROUPS if is_said else None,
        "min_group": least,
        "unknown": report.unknown,
    }


def _group_sizes(rows: Rows, least: int, fitted: Fitted | None) -> Iterator[dict[str, Any]]:
    """Yield each group with its rows, what the fit did with it, and whether it is drawn."""
    table = None if fitted is None else fitted.moments.table
    for column in protected_columns(rows):
        drawn, sizes = drawn_codes(column, rows, least), counts_of(column, rows)
        for code, level in enumerate(column.levels):
            n_rows = int(np.count_nonzero(column.codes == code))
            if not n_rows:
                continue
            entry = {"attribute": column.name, "group": level, "n_rows": n_rows}
            entry |= {} if rows.units is None else {"n_units": int(sizes[code])}
            if table is not None and fitted is not None:
                entry["in_fit"] = _status_in_fit(fitted.fair, column.name, str(level))
                if column.name in table.categorical:  # a number has no groups in the fit
                    place = table.categorical.index(column.name)
                    cells = (c for key, c in table.cells.items() if str(key[place]) == str(level))
                    entry["n_fitted"] = sum(cell.n_rows for cell in cells)
            small, share = bool(sizes[code] < least), n_rows / len(rows)
            yield {**entry, "share": share, "small": small, "drawn": code in drawn}


def _protected(attribute: str, groups: Sequence[Mapping[str, Any]]) -> str:
    """Name the groups of an attribute that were compared, then the others with their sizes."""
    names: dict[str, list[str]] = {}
    for group in (group for group in groups if group["attribute"] == attribute):
        status = group.get("in_fit", COMPARED)
        size = "" if status == COMPARED else f" ({group.get('n_fitted', group['n_rows']):,} rows)"
        names.setdefault(status, []).append(f"{shorten(group['group'])}{size}")
    shown = {}
    for status, some in names.items():
        more = f" and {len(some) - _NAMED} more" if len(some) > _NAMED else ""
        shown[status] = f"{', '.join(some[:_NAMED])}{more}"
    parts = [f"{attribute} ({shown.pop(COMPARED)})" if COMPARED in shown else attribute]
    for status, listed in sorted(shown.items()):  # means only, then nothing
        kind, _, reason = status.partition(": ")
        kind = kind.replace("mean only", "only means compared").capitalize()
        parts.append(f"{kind}{reason and f' ({reason})'}: {listed}")
    return ". ".join(parts)


def _status_in_fit(fair: Any, attribute: str, group: str) -> str:
    """Say how a fit compared a group: one status, or how many of its comparisons have which."""
    statuses = []
    for entry in records(fair.contrasts_):
        pair = (entry["positive"], entry["negative"])
        if entry["attribute"] == attribute and {group, "numeric"} & {*pair}:
            is_larger = (entry["n_positive"] > (entry["n_negative"] or 0)) == (pair[0] == group)
            small = "the other group is small" if is_larger else "small group"
            number = " as a number" if pair[0] == "numeric" else ""
            statuses.append(entry["status"].replace("small group", small) + number)
    counts = {status: statuses.count(status) for status in statuses}
    if len(counts) < 2:
        return statuses[0] if statuses else "compared in intersections only"
    return "; ".join(f"{count} of {len(statuses)} {status}" for status, count in counts.items())


def _status_in_audit(report: AuditReport, group: Mapping[str, Any]) -> str:
    """Say whether a group was compared on held-out rows."""
    audited, unit = report.representations[0], "rows" if report.n_units is None else "units"
    pairs = {row.comparison.label() for row in audited.held_out
             if row.comparison.attribute == group["attribute"]
             and str(group["group"]) in map(str, row.comparison.groups)}  # fmt: skip
    if audited.held_out and not pairs:
        return f"not measured: too few {unit}"
    if group["small"]:
        few = audited.headline is not None and audited.headline.comparison.small
        said = f"fewer than {report.settings['min_group']} {unit}"
        return said if few else f"{said}: never the headline"
    is_open = pairs and pairs <= {row.comparison.label() for row in audited.undecided()}
    return f"too few {unit} to say" if is_open else "compared"


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
    held_out = fitted.figures
    return {
        "n_components": int(fair.n_components_),
        "standardized": bool(fair.standardize),
        "fair": _figures(fair),
        "plain": _figures(plain),
        "held_out": held_out,
        "expected": expected_figures(fair, held_out),
        "target": _target(fair, plain, rows) if fair.target_weight else None,
        "share_of": share_of_variance(fair),
        "verb": "explain" if is_sparse(fair) else "keep",
        "certificate": {
            **fair.certificate_.as_dict(),
            "certified": bool(fair.certify),
            "text": certificate_text(fair),
            "words": certificate_words(fair),
        },
        "contrasts": contrast_rows(fair),
        "groups": _groups(fair, plain, moments),
        "loadings": _loadings(fair, plain),
        "tradeoff": [point.figures for point in fitted.path],
        "request": delta_request(fair),
    }


def _target(*parts: Any) -> dict[str, Any]:
    from fairpca.report._target import target_figures  # classifiers that other pages do not need

    return target_figures(*parts)


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
