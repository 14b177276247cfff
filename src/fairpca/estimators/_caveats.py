"""What moments show of data that make a fit mean less than it seems; each is said once."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import Any

import numpy as np

from fairpca.exceptions import (
    DominantFeatureWarning,
    FewRowsWarning,
    GroupFeatureWarning,
    GroupsError,
    IndexMismatchWarning,
    InfeasibleError,
)
from fairpca.moments._cells import merge

_ZERO = 1e-12  # of a variance: rounding
_DOMINANT = 0.9
_PER_COMPONENT = 3  # rows that a group needs for each component
_ENOUGH = 5  # rows of a group by which a feature is judged
_MANY_GROUPS = 20
_TOY = 20  # rows of which nobody expects figures
_SHOWN = 5


def warn_of_features(model, moments, stacklevel=5):
    """Warn of features that are functions of the groups, or that hold all the variance."""
    whole = moments.complete()
    names = whole.feature_names or tuple(f"x{i}" for i in range(whole.n_features))
    told = [name for name in names if name in whole.attributes]
    told += [names[i] for i in _group_features(whole) if names[i] not in told]
    if told:
        groups = ", ".join(map(repr, whole.attributes))
        warnings.warn(
            f"{_listed(told)} is a function of the protected attribute ({groups}), or has its "
            "name: it adds variance that is nothing but the groups, and gives them away on new "
            "rows. Leave it out of the features.",
            GroupFeatureWarning,
            stacklevel=stacklevel,
        )
    if model.standardize or whole.n_features < 2:
        return
    variance = _spread(whole, whole.coordinates().pooled().covariance)
    total = float(variance.sum())
    if total and variance.max() > _DOMINANT * total:
        place = int(variance.argmax())
        warnings.warn(
            f"{_listed([names[place]])} holds {100 * variance[place] / total:.0f} % of the total "
            "variance, so that the components are little else. Standardise the features unless "
            "all have the same unit.",
            DominantFeatureWarning,
            stacklevel=stacklevel,
        )


def warn_of_groups(model, stacklevel=5):
    """Warn of groups that have few rows for so many components."""
    table, least = model.contrasts_, _PER_COMPONENT * model.n_components_
    unfair = model.mean_tol is None and model.cov_weight == 0
    if unfair or model.moments_.n_samples < _TOY:
        return
    small = {}
    for index, status in enumerate(table["status"]):
        for side in ("positive", "negative"):
            name, count = table[side][index], table[f"n_{side}"][index]
            if status == "compared" and name and name != "rest" and count < least:
                small[f"{table['attribute'][index]}={name}"] = count
    if small:
        shown = ", ".join(
            f"{name!r} ({count} rows)" for name, count in list(small.items())[:_SHOWN]
        )
        more = f" and {len(small) - _SHOWN} more" if len(small) > _SHOWN else ""
        numbers, settings = _numbers_hint(model.moments_)
        warnings.warn(
            FewRowsWarning(
                f"groups with fewer than {least} rows, {_PER_COMPONENT} for each component: "
                f"{shown}{more}. Their means and covariances are mostly chance. Merge them with "
                f"others, or keep fewer components.{numbers}",
                settings=settings,
            ),
            stacklevel=stacklevel,
        )


def compare_indexes(X, parts):
    """Warn of groups whose pandas index is not that of X: position counts, not the index."""
    index: Any = getattr(X, "index", None)
    for name, part in parts.items():
        other: Any = getattr(part, "index", None)
        both = hasattr(index, "equals") and hasattr(other, "equals")
        if both and len(index) == len(other) and not index.equals(other):
            warnings.warn(
                f"{name} has another index than X, and is matched with it by position. If the "
                f"order differs, use {name}.loc[X.index]; if it is right, reset the index of both.",
                IndexMismatchWarning,
                stacklevel=6,
            )


def _numbers_hint(moments):
    """Ask whether an attribute of many whole numbers is a number."""
    for name in moments.categorical_attributes:
        if _looks_numeric(moments.levels(name)):
            return f" {name!r} may be a number and not a group.", [("numeric", [name])]
    return "", ()


def _looks_numeric(levels):
    return len(levels) > _MANY_GROUPS // 2 and all(type(level) is int for level in levels)


def refuse_identifiers(moments):
    """Refuse an attribute that has a group for nearly every row."""
    n_rows = moments.n_samples
    for name in moments.categorical_attributes:
        count = len(moments.levels(name))
        if count > _MANY_GROUPS and n_rows < 2 * count:
            raise GroupsError(
                f"column {name!r} has {count} groups in {n_rows} rows: that is an identifier "
                "rather than a group. Leave the column out, put its values into classes, or "
                "declare it a number if it is one.",
                parameter="sensitive_features",
                settings=[("numeric", [name])],
            )


@contextmanager
def advised(moments):
    """Say of a fit that so many groups leave no room for that whole numbers may be numbers."""
    try:
        yield
    except InfeasibleError as error:
        for name in moments.categorical_attributes if error.parameter == "n_components" else ():
            levels = moments.levels(name)
            if _looks_numeric(levels):
                raise InfeasibleError(
                    f"column {name!r} has {len(levels)} groups, whole numbers from {levels[0]} to "
                    f"{levels[-1]}, whose means cannot all be equal. Put its values into "
                    "classes, or declare it a number if it is one.",
                    error.minimum,
                    parameter="numeric",
                    settings=[("numeric", [name])],
                ) from None
        raise


def _group_features(whole):
    """Places of the features that vary, but not inside any group."""
    if not whole.attributes or not whole.table.cells:
        return []
    width = len(whole.categorical_attributes)
    groups: dict[Any, list[Any]] = {}
    for key, cell in whole.table.cells.items():
        groups.setdefault(key[:width], []).append(cell)
    merged = [merge(cells) for cells in groups.values()]
    everything = merge(merged)
    total = _spread(whole, everything.scatter)
    found = np.zeros(whole.n_features, dtype=bool)
    large = [cell for cell in merged if cell.n_rows >= _ENOUGH]
    if width and len(large) > 1:
        within = _spread(whole, sum(cell.scatter for cell in merged))
        between = total - within
        if len(large) < len(merged):
            inside = sum(cell.scatter for cell in large)
            between = _spread(whole, merge(large).scatter) - _spread(whole, inside)
        found |= (within <= _ZERO * total) & (between > _ZERO * total)
    for cross, scatter in zip(everything.cross, everything.z_scatter, strict=True):
        cross = cross if whole.span is None else cross @ whole.span.basis
        rest = total - cross**2 / (scatter or np.inf)
        found |= (rest <= _ZERO * total) & (total > 0.0) & (everything.n_rows >= 2 * _ENOUGH)
    return [int(place) for place in np.flatnonzero(found)]


def _spread(whole, matrix):
    return np.diag(matrix) if whole.span is None else whole.span.spread(matrix)


def _listed(names):
    shown = ", ".join(repr(name) for name in names[:_SHOWN])
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ("features " if len(names) > 1 else "feature ") + shown + more
