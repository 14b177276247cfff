"""A fit next to plain PCA of the same rows, and copies of both on held-out rows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fairpca.estimators._fair_pca import FairPCA
from fairpca.exceptions import FairnessWarning, GroupsError, InvalidInputError
from fairpca.linalg import Array
from fairpca.moments import (
    FoldedMoments,
    GapStatistics,
    GroupMoments,
    Standardization,
    gap_statistics,
)
from fairpca.moments._held_out import (
    Fold,
    HeldOutGap,
    align,
    chance_levels,
    measure_fold,
    summarise_cov,
    summarise_mean,
)
from fairpca.moments.folds import sum_moments

FIGURES = GapStatistics._fields


def fit_with_plain(
    model: FairPCA,
    moments: GroupMoments,
    on_problem_size: Callable[[int, int], None] | None = None,
) -> FairPCA:
    """Fit a model; return plain PCA with the gaps of the same contrasts.

    `on_problem_size` is called with the numbers of components and contrasts before the solve.
    """
    model._validate_params()
    model._fit_moments(moments, on_problem_size=on_problem_size)
    plain = plain_of(model).set_params(n_components=model.n_components_)
    with _silent():
        return plain._fit_moments(moments, tabulate=model.objective != "total")


@contextmanager
def _silent() -> Iterator[None]:
    """Ignore warnings about data: the fit to all rows has warned."""
    with warnings.catch_warnings():
        for category in (FairnessWarning, ConvergenceWarning):
            warnings.simplefilter("ignore", category)
        yield


class HeldOut(NamedTuple):
    """A model on all its folds: statistics with their noise, and what takes the noise off gaps."""

    statistics: list[GapStatistics]
    folds: list[Fold]
    with_cov: frozenset[str]  # contrasts whose covariances are compared

    def figures(self) -> dict[str, HeldOutGap]:
        """Gaps without noise; variance and Gaussian bound as the folds have them, averaged."""
        raw = {name: _average([getattr(one, name) for one in self.statistics]) for name in FIGURES}
        if self.folds:
            raw["mean_gap"] = summarise_mean(self.folds)
            raw["cov_gap"] = summarise_cov(self.folds, self.with_cov)
        return raw

    def chance(self) -> tuple[float, float]:
        """Mean and covariance gap that groups without any difference would show."""
        return chance_levels(self.folds, self.with_cov) if self.folds else (0.0, 0.0)


def _average(values: Sequence[float | None]) -> HeldOutGap:
    """Mean over folds and its standard error; infinite if no fold has two groups to compare."""
    known = [value for value in values if value is not None]
    by_fold = tuple(math.inf if value is None else value for value in values)
    if not known or math.inf in known:
        return HeldOutGap(math.inf, 0.0, by_fold)
    error = float(np.std(known, ddof=1)) / math.sqrt(len(known)) if len(known) > 1 else 0.0
    return HeldOutGap(float(np.mean(known)), error, by_fold)


def measure_held_out(model: FairPCA, folded: FoldedMoments) -> HeldOut:
    """Fit copies of a model to all folds but one, and measure each on that one."""
    count = getattr(model, "n_components_", model.n_components)
    fits = (
        (_fit(model, count, train, f"fold {number} of {len(folded.splits)}"), halves)
        for number, (train, halves) in enumerate(folded.splits, start=1)
    )
    return _measure(model, folded.total, fits, by_units=folded.by_units)


def _measure(
    model: Any,
    moments: GroupMoments,
    fits: Iterable[tuple[Any, tuple[GroupMoments, ...]]],
    *,
    by_units: bool,
) -> HeldOut:
    """Measure fitted models on the halves of folds; the contrasts are those of `moments`."""
    options = (model.compare, model.joint, model.reference)
    result = HeldOut([], [], frozenset())
    reference: Array | None = None
    with _silent():
        contrasts = model._form_contrasts(moments.coordinates())
        compared = {contrast.label for contrast in contrasts if contrast.mean_gap is not None}
        with_cov = frozenset(c.label for c in contrasts if c.cov_gap is not None)
        for fair, halves in fits:
            if fair.scale_ is not None:
                scaling = Standardization(fair.mean_, fair.scale_)
                halves = tuple(half.standardized(scaling) for half in halves)
            components = fair.components_
            reference = components if reference is None else reference
            if len(components) == len(reference):  # a share may take more on another fold
                components = align(components, reference)
            raw = gap_statistics(sum_moments(halves), components, *options, compared=compared)
            if hasattr(fair, "reconstruction_"):
                raw = raw._replace(variance=fair.explained_share(sum_moments(halves)))
            result.statistics.append(raw)
            if compared:
                how = {"by_units": by_units}
                result.folds.append(measure_fold(halves, components, options, compared, **how))
    return result._replace(with_cov=with_cov)


def _fit(model: FairPCA, count: Any, train: GroupMoments, fold: str) -> FairPCA:
    fair = model.quick_copy(n_components=count)
    try:
        return fair.fit_moments(train)
    except GroupsError as error:
        raise GroupsError(f"without the rows of {fold}: {error}", parameter="folds") from error


def plain_of(model: FairPCA) -> FairPCA:
    """Return plain PCA with the same options, not fitted."""
    unfair: dict[str, Any] = {"mean_tol": None, "cov_weight": 0.0, "cov_tol": None}
    unfair |= {"objective": "total", "rotation": None, "solver": "refined"}
    shared = {name: getattr(model, name) for name in FairPCA().get_params()}
    return FairPCA(**{**shared, **unfair})


def held_out_summary(model: FairPCA, folded: FoldedMoments) -> dict[str, float] | None:
    """Figures of the model, of plain PCA and of chance; None if a fold does not allow a fit."""
    try:
        fair = measure_held_out(model, folded)
        count = getattr(model, "n_components_", model.n_components)
        plain = measure_held_out(plain_of(model).set_params(n_components=count), folded)
    except InvalidInputError:  # too few different rows, a group in one fold only
        return None
    return {"folds": len(folded.folds), **_summarise(fair, plain)}


def hold_out_summary(fair: Any, plain: FairPCA, held_out: FoldedMoments) -> dict[str, float]:
    """Figures of two fitted models, and of chance, on rows that neither was fitted to."""
    measured = [
        _measure(
            model,
            plain.moments_,
            ((model, halves) for halves in held_out.halves),
            by_units=held_out.by_units,
        )
        for model in (fair, plain)
    ]
    return {"folds": 0, "n_rows": held_out.n_samples, **_summarise(*measured)}


def _summarise(fair: HeldOut, plain: HeldOut) -> dict[str, float]:
    summary: dict[str, float] = {}
    for prefix, measured in (("", fair), ("plain_", plain)):
        for name, gap in measured.figures().items():
            summary |= {f"{prefix}{name}": gap.value, f"{prefix}{name}_error": gap.error}
        mean_gap, cov_gap = measured.chance()
        summary |= {f"{prefix}chance_mean_gap": mean_gap, f"{prefix}chance_cov_gap": cov_gap}
    return summary
