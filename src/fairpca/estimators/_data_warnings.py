"""Warnings about data that weaken a fit, from moments and contrasts alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairpca.exceptions import (
    DominantFeatureWarning,
    EmptyComponentWarning,
    FewRowsWarning,
    GroupFeatureWarning,
    IndexMismatchWarning,
    InfeasibleError,
    LongFitWarning,
    Setting,
    SmallGroupWarning,
    warn_user,
)
from fairpca.linalg import Array, complement_basis, spectral_norms, top_eigenpairs
from fairpca.moments import ContrastSet, FoldedMoments, GroupMoments
from fairpca.moments._cells import merge
from fairpca.moments._new_data import compared_contrasts
from fairpca.moments.contrasts import ContrastTable
from fairpca.rows import Rows

_ZERO = 1e-12  # of a variance: rounding
_DOMINANT = 0.9
_PER_COMPONENT = 3  # rows that a group needs for each component
_ENOUGH = 5  # rows of a group before a feature can be called constant in it
MANY_GROUPS = 20  # labels of more groups may be numbers, or identifiers
_TOY = 20  # rows of an example, of which nobody expects estimates
_SHOWN = 5
# Seconds from which on a fit is announced, and those that its quick variant may take.
LONG_FIT, _QUICK = 60.0, 10.0
# Of a solve whose penalty or limit binds, for every entry of the products of gaps with the basis:
# of one contrast and of several. And of an eigendecomposition, for the cube of its size.
_PER_ENTRY, _PER_ENTRY_OF_MANY, _PER_CUBE = 2e-4, 1e-3, 2e-9


def warn_of_features(moments: GroupMoments, *, scaled: bool) -> None:
    """Warn of features that are functions of the groups, or that hold nearly all the variance."""
    whole = moments.complete()
    names = whole.feature_names or tuple(f"x{i}" for i in range(whole.n_features))
    attributes = whole.table.attributes
    copies = [name for name in names if name in attributes]
    copies += [names[i] for i in _group_features(whole) if names[i] not in copies]
    if copies:
        groups = ", ".join(map(repr, attributes))
        warn_user(
            f"{_listed(copies)} is a function of the protected attribute ({groups}), or has its "
            "name: its variance is nothing but the groups, and new data reveal them by it. Leave "
            "it out of the features.",
            GroupFeatureWarning,
        )
    if scaled or whole.n_features < 2:
        return
    covariance = whole.coordinates().pooled().covariance
    variance = np.diag(covariance) if whole.span is None else whole.span.spread(covariance)
    total = float(variance.sum())
    if total and variance.max() > _DOMINANT * total:
        largest = int(variance.argmax())
        warn_user(
            f"{_listed([names[largest]])} holds {100 * variance[largest] / total:.0f} % of the "
            "total variance, so that the components are little else. Standardise the features "
            "unless all have the same unit.",
            DominantFeatureWarning,
        )


def warn_of_empty_components(
    basis: Array, covariance: Array, contrasts: ContrastSet, *, equal_means: bool
) -> None:
    """Warn of components without variance where directions with variance are left."""
    kept = np.einsum("ij,ij->j", basis, covariance @ basis) > _ZERO * np.trace(covariance)
    if kept.all():
        return
    compared = [contrast for contrast in contrasts if contrast.cov_gap is not None]
    if not compared:
        return
    taken = np.vstack([basis[:, kept].T, contrasts.mean_gaps[: len(contrasts) * equal_means]])
    free = complement_basis(taken, 1e-10 * float(np.linalg.norm(taken)))
    if not free.shape[1]:
        return
    values, vectors = top_eigenpairs(free.T @ covariance @ free, 1)
    if values[0] <= _ZERO * np.trace(covariance):
        return
    # The contrast with the largest gap, were the best direction that is left a component too.
    wider = np.column_stack([basis[:, kept], free @ vectors])
    sizes = spectral_norms(wider.T @ contrasts.cov_gaps @ wider)
    warn_user(
        f"{np.count_nonzero(~kept)} of {len(kept)} components have no variance: the limit on "
        f"covariances leaves them none, first of all {compared[int(sizes.argmax())].label!r} "
        f"(covariance gap {sizes.max():.4g} with one more direction). Lower n_components, raise "
        "cov_tol or lower cov_weight, or compare fewer groups.",
        EmptyComponentWarning,
    )


def warn_of_solve(size: int, d: int, contrasts: int, *, is_limit: bool) -> None:
    """Warn before a solve that may take long, with settings that are quick."""
    # Processor time by what others of this size took.
    start = _PER_CUBE * size**3
    each = (_PER_ENTRY_OF_MANY if contrasts > 1 else _PER_ENTRY) * contrasts * size
    if start + each * d < LONG_FIT:
        return
    few = int((_QUICK - start) / each)
    settings: list[Setting] = [("n_components", few)] if few > 0 else []
    if not is_limit:
        settings.append(("cov_weight", 0))
    what = f"{d} components, {contrasts} contrasts of covariances and {size} dimensions"
    warn_of_time(start + each * d, f"{what} may take about {{}}: compare fewer groups.", settings)


def warn_of_time(seconds: float, message: str, settings: Sequence[Setting]) -> None:
    """Say before a fit how long it may take (the message's {}), and which settings are quick."""
    about = f"{seconds / 60.0:.0f} minutes" if seconds >= 120.0 else f"{seconds:.0f} seconds"
    warn_user(LongFitWarning(message.format(about), settings=settings))


def warn_of_origin(moments: GroupMoments) -> None:
    """Say what was done to moments before they were written: noise, and cells that were merged."""
    if moments.noise is not None:
        epsilon, delta = moments.noise
        warn_user(
            f"noise hides single rows in the moments (epsilon {epsilon:g}, delta {delta:g}). Gaps "
            "on new data are larger than forecasts say, which count rows and not the noise.",
            FewRowsWarning,
        )
    if moments.merged:
        from fairpca.moments._release import OTHER

        warn_user(
            f"cells with few rows were added to {OTHER!r} before these moments were written: "
            f"{'; '.join(moments.merged)}. Their rows are compared as that group.",
            SmallGroupWarning,
        )


def warn_of_labels(moments: GroupMoments, forecast: str) -> None:
    """Warn of gaps that rest on the rows whose group is known."""
    warn_user(
        f"groups are known for {moments.n_labelled:,} of {moments.n_samples:,} rows. The gaps rest "
        f"on those alone: {forecast}.",
        FewRowsWarning,
    )


def warn_of_groups(
    moments: GroupMoments, contrasts: ContrastTable, n_components: int, *, compared: bool
) -> None:
    """Warn of compared groups with few rows for the components."""
    n_rows, least = moments.n_samples, _PER_COMPONENT * n_components
    small = {}
    for index, status in enumerate(contrasts["status"] if compared and n_rows >= _TOY else ()):
        for side in ("positive", "negative"):
            name, count = contrasts[side][index], contrasts[f"n_{side}"][index]
            if status == "compared" and name and name != "rest" and count < least:
                small[f"{contrasts['attribute'][index]}={name}"] = count
    if small:
        shown = ", ".join(f"{name!r} ({small[name]} rows)" for name in list(small)[:_SHOWN])
        more = f" and {len(small) - _SHOWN} more" if len(small) > _SHOWN else ""
        warn_user(
            f"groups with fewer than {least} rows, {_PER_COMPONENT} for each component: "
            f"{shown}{more}. Their means and covariances are mostly chance. Merge them with "
            "others, or keep fewer components.",
            FewRowsWarning,
        )
    # An attribute of many groups has nearly as many contrasts.
    many = small or len(contrasts["status"]) >= MANY_GROUPS
    for name in moments.categorical_attributes if many else ():
        if _is_numeric(moments, name) and (small or len(moments.levels(name)) > MANY_GROUPS):
            warn_user(FewRowsWarning(_many_numbers(moments, name), settings=_as_number(name)))


def warn_of_other_index(name: str, index: Any, other: Any) -> None:
    """Warn of groups whose pandas index is not that of X: position counts, not the index."""
    known = hasattr(index, "equals") and hasattr(other, "equals")
    if known and len(index) == len(other) and not index.equals(other):
        warn_user(
            f"{name} has another index than X, and is matched with it by position. If the "
            f"order differs, use {name}.loc[X.index]; if it is right, reset the index of both.",
            IndexMismatchWarning,
        )


def hint_numeric_attribute(error: InfeasibleError, moments: GroupMoments) -> InfeasibleError:
    """Return the error to raise: another one if groups are so many because they are numbers."""
    for name in moments.categorical_attributes if error.parameter == "n_components" else ():
        if _is_numeric(moments, name):
            message, settings = _many_numbers(moments, name), _as_number(name)
            return InfeasibleError(message, error.minimum, parameter="numeric", settings=settings)
    return error


def _many_numbers(moments: GroupMoments, name: str) -> str:
    levels = moments.levels(name)
    return (
        f"column {name!r} has {len(levels)} groups, whole numbers from {levels[0]} to "
        f"{levels[-1]}, which are compared one by one. Put its values into classes, or declare it "
        "a number if it is one."
    )


def _as_number(name: str) -> list[Setting]:
    return [("numeric", [name])]


def _is_numeric(moments: GroupMoments, name: str) -> bool:
    """Whether the groups of an attribute are many whole numbers."""
    levels = moments.levels(name)
    return len(levels) > MANY_GROUPS // 2 and all(type(level) is int for level in levels)


def _group_features(moments: GroupMoments) -> list[int]:
    """Positions of the features that vary, but not inside any group."""
    table, span = moments.table, moments.span
    if not table.attributes or not table.cells:
        return []
    width = len(table.categorical)
    diagonal: Any = np.diag if span is None else span.spread
    groups: dict[Any, list[Any]] = {}
    for key, cell in table.cells.items():
        groups.setdefault(key[:width], []).append(cell)
    merged = [merge(cells) for cells in groups.values()]
    pooled = moments.coordinates().pooled()
    total = pooled.weight * diagonal(pooled.covariance)
    constant = np.zeros(moments.n_features, dtype=bool)
    large = [cell for cell in merged if cell.n_rows >= _ENOUGH]
    if width and len(large) > 1:
        within = diagonal(sum(cell.scatter for cell in merged))
        between = total
        if len(large) < len(merged):
            inside = sum(cell.scatter for cell in large)
            between = diagonal(merge(large).scatter) - diagonal(inside)
        constant |= (within <= _ZERO * total) & (between > _ZERO * total)
    if not table.numeric:
        return np.flatnonzero(constant).tolist()
    # A numeric attribute z: what a regression of the feature on z leaves, total − cross²/scatter.
    everything = merge(merged)
    for cross, scatter in zip(everything.cross, everything.z_scatter, strict=True):
        cross = cross if span is None else cross @ span.basis
        residual = total - cross**2 / (scatter or np.inf)
        enough = everything.n_rows >= 2 * _ENOUGH
        constant |= (residual <= _ZERO * total) & (total > 0.0) & enough
    return np.flatnonzero(constant).tolist()


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_SHOWN])
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ("features " if len(names) > 1 else "feature ") + shown + more


_PARTS = 50  # of the units, each left out once


def unit_noise(scores: Rows, compare: str, joint: bool, reference: Any) -> dict[str, list[Any]]:
    """Covariance of the mean gap of every contrast by a jackknife over parts of the units.

    Rows of a unit are alike, so that the number of rows says little about the noise of a mean. The
    gaps are those of the component scores; `free` has the degrees of freedom.
    """
    folded = FoldedMoments.from_rows(scores, _PARTS)
    options = (compare, joint, reference, 2)
    gaps: dict[str, list[Array]] = {}
    for index in range(len(folded.folds)):
        for contrast in compared_contrasts(folded.train(index), *options):
            assert contrast.mean_gap is not None
            gaps.setdefault(contrast.label, []).append(contrast.mean_gap)
    noise = []
    for values in gaps.values():
        centred = np.array(values) - np.mean(values, axis=0)
        noise.append((centred.T @ centred * (len(values) - 1) / len(values)).tolist())
    free = [len(values) - 1 for values in gaps.values()]
    return {"contrast": list(gaps), "noise": noise, "free": free}
