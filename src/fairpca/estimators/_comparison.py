"""A fit next to plain PCA: on the same rows, on held-out rows, and expected on new data."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from fairpca.estimators._fair_pca import FairPCA
from fairpca.estimators._linear import check_moments, sum_in_memory
from fairpca.exceptions import (
    FairnessWarning,
    FewRowsWarning,
    GroupsError,
    InfeasibleError,
    InvalidInputError,
    warn_user,
)
from fairpca.linalg import Array, single_blas_thread
from fairpca.moments import ExpectedGaps, FoldedMoments, GroupMoments, gap_statistics
from fairpca.moments._cells import Standardization
from fairpca.moments._held_out import (
    Fold,
    HeldOutGap,
    align_components,
    chance_levels,
    measure_fold,
    summarise_cov,
    summarise_mean,
)
from fairpca.moments._new_data import (
    compared_contrasts,
    cov_gap_on,
    draw_moments,
    forecast_means,
    in_deviations,
)
from fairpca.moments.folds import GapStatistics, Split, sum_moments
from fairpca.rows import Rows

FIGURES = GapStatistics._fields
TARGET = "target_r2"
"""Figure of a target: its share of variance that the components explain."""
ROUNDS = 3  # divisions into folds that gaps are averaged over
_FAR = 2.0  # times the forecast, and standard errors, by which held-out rows exceed it
PARTS = 5  # folds of rows that were held out, whose differences give the errors


def fit_with_plain(model: FairPCA, moments: GroupMoments) -> FairPCA:
    """Fit a model; return plain PCA with the gaps of the same contrasts."""
    model._validate_params()
    model._fit_moments(moments)
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


class HeldOutFit(NamedTuple):
    """A model on all its folds: statistics with their noise, and what takes the noise off gaps."""

    statistics: list[GapStatistics]
    folds: list[Fold]
    with_cov: frozenset[str]  # contrasts whose covariances are compared
    target: list[dict[str, float | None]]  # R² of y, where there is a target
    pooled: bool = False  # one model, and not one for each fold

    def figures(self) -> dict[str, HeldOutGap]:
        """Gaps without noise; variance and Gaussian bound as the folds have them, averaged."""
        raw = {name: _average([getattr(one, name) for one in self.statistics]) for name in FIGURES}
        if self.folds:
            raw["mean_gap"] = summarise_mean(self.folds, self.pooled)
            raw["cov_gap"] = summarise_cov(self.folds, self.with_cov, self.pooled)
        if self.target:
            raw[TARGET] = self.information()["components"]
        return raw

    def information(self) -> dict[str, HeldOutGap]:
        """R² of y from the components, from all features and from all fair directions."""
        names = self.target[0] if self.target else ()
        return {name: _average([fold[name] for fold in self.target]) for name in names}

    def shares(self) -> dict[str, float]:
        """Mean of each R² of y over the folds, where it is known."""
        known = self.information().items()
        return {name: gap.value for name, gap in known if math.isfinite(gap.value)}

    def chance(self) -> tuple[float, float]:
        """Mean and covariance gap that groups without any difference would show."""
        if not self.folds:
            return 0.0, 0.0
        return chance_levels(self.folds, self.with_cov, self.pooled)


def _average(values: Sequence[float | None]) -> HeldOutGap:
    """Mean over folds and its standard error; infinite if no fold has two groups to compare."""
    known = [value for value in values if value is not None]
    by_fold = tuple(math.inf if value is None else value for value in values)
    if not known or math.inf in known:
        return HeldOutGap(math.inf, 0.0, by_fold)
    error = float(np.std(known, ddof=1)) / math.sqrt(len(known)) if len(known) > 1 else 0.0
    return HeldOutGap(float(np.mean(known)), error, by_fold)


@single_blas_thread()
def measure_held_out(model: FairPCA, folded: FoldedMoments, rounds: int = 1) -> HeldOutFit:
    """Fit copies of a model to all folds but one, and measure each on that one.

    In further rounds the halves of the folds are paired anew, which gaps are averaged over.
    """
    count = getattr(model, "n_components_", model.n_components)

    def fits() -> Iterator[tuple[FairPCA, Split]]:
        for split in folded.repeated_splits(rounds):
            fold = f"fold {split.places[0] // 2 + 1} of {folded.n_folds}"
            try:
                yield _fit(model, count, split.train(), fold), split
            except InvalidInputError:
                if not split.round:
                    raise  # without, there would be no figures of one division into folds

    return _measure(model, folded.total, fits(), by_units=folded.by_units)


def measure_target(model: FairPCA, rows: Rows) -> dict[str, float]:
    """R² of y on folds of rows in memory, by name; none where a fold does not allow a fit."""
    try:
        with _silent():
            folded = sum_in_memory(rows, impute=model.missing == "mean", folds=PARTS)
        return measure_held_out(model, folded).shares()
    except InvalidInputError as error:
        warn_user(f"there is no R² of held-out rows: {error}", FewRowsWarning)
        return {}


def _measure(
    model: Any,
    moments: GroupMoments,
    fits: Iterable[tuple[Any, Split]],
    *,
    by_units: bool,
) -> HeldOutFit:
    """Measure fitted models on the halves of folds; the contrasts are those of `moments`."""
    options = (model.compare, model.joint, model.reference)
    result = HeldOutFit([], [], frozenset(), [])
    reference: Array | None = None
    with _silent():
        contrasts = model._form_contrasts(moments.coordinates())
        compared = {contrast.label for contrast in contrasts if contrast.mean_gap is not None}
        with_cov = frozenset(c.label for c in contrasts if c.cov_gap is not None)
        for fair, split in fits:
            halves = unscaled = split.halves
            if fair.scale_ is not None:
                scaling = Standardization(fair.mean_, fair.scale_)
                halves = tuple(half.standardized(scaling) for half in halves)
            components = fair.components_
            reference = components if reference is None else reference
            if len(components) == len(reference):  # a share may take more on another fold
                components = align_components(components, reference)
            if compared:
                how: dict[str, Any] = {"by_units": by_units, "again": split.round > 0}
                how["places"] = split.places
                result.folds.append(measure_fold(halves, components, options, compared, **how))
            if split.round:
                continue
            raw = gap_statistics(sum_moments(halves), components, *options, compared=compared)
            if hasattr(fair, "reconstruction_"):
                raw = raw._replace(variance=_explained_share(fair, sum_moments(halves)))
            result.statistics.append(raw)
            if moments.targets:
                from fairpca.estimators._target import held_out_information

                result.target.append(held_out_information(fair, sum_moments(unscaled)))
    return result._replace(with_cov=with_cov)


def _explained_share(fair: Any, moments: GroupMoments) -> float:
    """Share of the variance of other rows that the regression of the fit explains."""
    S = moments.pooled().covariance  # a regression of few new rows would explain too much
    missed = np.eye(len(S)) - fair.reconstruction_.T @ fair.components_
    return 1.0 - float(np.sum((missed @ S) * missed)) / (float(np.trace(S)) or 1.0)


def _fit(model: FairPCA, count: Any, train: GroupMoments, fold: str) -> FairPCA:
    fair = model.quick_copy(n_components=count)
    try:
        return fair.fit_moments(train)
    except GroupsError as error:
        raise GroupsError(f"without the rows of {fold}: {error}", parameter="folds") from error


def plain_of(model: FairPCA) -> FairPCA:
    """Return plain PCA with the same options, not fitted."""
    unfair: dict[str, Any] = {"mean_tol": None, "cov_weight": 0.0, "cov_tol": None}
    unfair |= {"objective": "total", "rotation": None, "solver": "refined", "target_weight": 0.0}
    shared = {name: getattr(model, name) for name in FairPCA().get_params()}
    return FairPCA(**{**shared, **unfair})


def held_out_summary(model: FairPCA, folded: FoldedMoments) -> dict[str, Any] | None:
    """Figures of the model, of plain PCA and of chance; None if a fold does not allow a fit."""
    try:
        fair = measure_held_out(model, folded, ROUNDS)
        count = getattr(model, "n_components_", model.n_components)
        plain = measure_held_out(plain_of(model).set_params(n_components=count), folded, ROUNDS)
        without = measure_held_out(without_target(model), folded) if model.target_weight else None
    except InvalidInputError as error:  # too few different rows, a group in one fold only
        warn_user(f"there are no figures of held-out rows: {error}", FewRowsWarning)
        return None
    return {"folds": len(folded.folds), "rounds": ROUNDS, **_summarise(fair, plain, without)}


def without_target(model: FairPCA) -> FairPCA:
    """Return a copy of a model that does not know its target, not fitted."""
    count = getattr(model, "n_components_", model.n_components)
    return model.quick_copy(n_components=count, target_weight=0.0)


def hold_out_summary(fair: Any, plain: FairPCA, held_out: FoldedMoments) -> dict[str, Any]:
    """Figures of two fitted models, and of chance, on rows that neither was fitted to."""
    models = [fair, plain]
    if fair.target_weight:
        with _silent():
            models.append(without_target(fair).fit_moments(plain.moments_))
    measured = [
        _measure(
            model,
            plain.moments_,
            ((model, split) for split in held_out.repeated_splits(1)),
            by_units=held_out.by_units,
        )._replace(pooled=True)
        for model in models
    ]
    return {"folds": 0, "n_rows": held_out.n_samples, **_summarise(*measured)}


def _summarise(
    fair: HeldOutFit, plain: HeldOutFit, without: HeldOutFit | None = None
) -> dict[str, Any]:
    summary: dict[str, Any] = {}
    if without is not None:  # R² of y from all that there is to compare
        known = {"plain": plain, "without_target": without}
        shares = {name: measured.information()["components"] for name, measured in known.items()}
        shares = {**fair.information(), **shares}
        summary["target"] = {k: {"r2": s.value, "error": s.error} for k, s in shares.items()}
    for prefix, measured in (("", fair), ("plain_", plain)):
        for name, gap in measured.figures().items():
            error = gap.error if len(gap.by_fold) > 1 else math.inf  # of one part it is not known
            summary |= {f"{prefix}{name}": gap.value, f"{prefix}{name}_error": error}
        mean_gap, cov_gap = measured.chance()
        summary |= {f"{prefix}chance_mean_gap": mean_gap, f"{prefix}chance_cov_gap": cov_gap}
    return summary


# New data: what moments alone promise.


@single_blas_thread()
def forecast_gaps(
    model: FairPCA, n_new: int | None, confidence: float, refits: int
) -> ExpectedGaps:
    """Forecast the gaps on new data; `FairPCA.expected_gaps` says how."""
    _check(model, n_new, confidence, refits)
    moments, directions = _in_coordinates(model)
    options = (model.compare, model.joint, model.reference, model.min_group_size)
    contrasts = compared_contrasts(moments, *options)
    covariance = moments.pooled().covariance
    share = None if n_new is None else n_new / moments.n_labelled
    constrained = model.mean_tol is not None
    same = np.eye(len(directions))
    turns = (same, in_deviations(same, directions @ covariance @ directions.T))
    by_unit = _noise_by_unit(model)
    features, deviations = (
        forecast_means(contrasts, directions, turn, constrained, share, confidence, by_unit)
        for turn in turns
    )
    if by_unit is not None:  # drawn covariances would be those of as many rows
        refits = 0
    if refits:
        drawn = [] if not contrasts else _refit(model, moments, refits)
        gaps = [cov_gap_on(contrasts, basis) for basis in drawn]
        relative = [cov_gap_on(contrasts, in_deviations(basis, covariance)) for basis in drawn]
        features = features._replace(cov_gap=float(np.mean(gaps or [0.0])))
        deviations = deviations._replace(cov_gap=float(np.mean(relative or [0.0])))
    counted = "rows" if by_unit is None else "units"
    return ExpectedGaps(features, deviations, n_new, confidence, refits, counted)


def _check(model: Any, n_new: Any, confidence: Any, refits: Any) -> None:
    check_is_fitted(model, "components_")
    check_moments(model, "expected_gaps")
    if n_new is not None and not (isinstance(n_new, int | np.integer) and n_new >= 1):
        raise InvalidInputError(
            f"n_new={n_new!r}: give a whole number of at least 1, or None.", parameter="n_new"
        )
    if not (isinstance(confidence, int | float) and 0.0 < confidence < 1.0):
        raise InvalidInputError(
            f"confidence={confidence!r}: give a number between 0 and 1.", parameter="confidence"
        )
    if isinstance(refits, bool) or not (isinstance(refits, int | np.integer) and refits >= 0):
        raise InvalidInputError(
            f"refits={refits!r}: give a whole number of at least 0.", parameter="refits"
        )


def _noise_by_unit(model: Any) -> dict[str, tuple[Array, int]] | None:
    table = model.unit_noise_
    if table is None:
        return None
    columns = zip(table["contrast"], table["noise"], table["free"], strict=True)
    return {name: (np.array(noise), int(free)) for name, noise, free in columns}


def _in_coordinates(model: Any) -> tuple[GroupMoments, Array]:
    """Moments of scaled features, in the span of the rows if they are wide, and the components."""
    moments = model.moments_
    if model.scale_ is not None:
        moments = moments.standardized(Standardization(model.mean_, model.scale_))
    moments = moments.complete()
    span = moments.span
    directions = model.components_ if span is None else model.components_ @ span.basis.T
    return moments.coordinates(), directions


def _refit(model: Any, moments: GroupMoments, refits: int) -> list[Array]:
    """Components of fits to moments drawn around those at hand, where they allow a fit."""
    random, fitted = np.random.default_rng(0), []
    options = {"n_components": model.n_components_, "standardize": False, "whiten": False}
    again = model.quick_copy(**options, missing="error")
    with _silent():
        for _ in range(refits):
            try:
                fitted.append(again.fit_moments(draw_moments(moments, random)).components_)
            except (InfeasibleError, GroupsError):
                continue
    return fitted


def expected_figures(model: Any, held_out: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the forecast of the mean gap as plain values and as a sentence; None without one.

    It is too small where the gap lies along the strongest direction, which held-out rows show.
    """
    if not hasattr(model, "expected_gaps") or getattr(model, "moments_", None) is None:
        return None
    forecast: ExpectedGaps = model.expected_gaps(refits=0)
    gap, bound = forecast.features.mean_gap, forecast.features.mean_bound
    text = forecast.text()
    text = f"{text[0].upper()}{text[1:]}, by the number of {forecast.counted} alone."
    shown = held_out or {"mean_gap": 0.0, "mean_gap_error": 0.0}
    exceeds = _FAR * gap < shown["mean_gap"] - _FAR * shown["mean_gap_error"] < np.inf
    return {
        "mean_gap": gap,
        "mean_bound": bound if np.isfinite(bound) else None,
        "confidence": forecast.confidence,
        "counted": forecast.counted,
        "text": f"{text} Held-out rows show far more: rely on them." if exceeds else text,
    }
