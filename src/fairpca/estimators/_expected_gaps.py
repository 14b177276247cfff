"""What a fitted FairPCA expects of new data."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from fairpca.exceptions import FairnessWarning, GroupsError, InfeasibleError, InvalidInputError
from fairpca.linalg import Array
from fairpca.moments import ExpectedGaps, GroupMoments, Standardization
from fairpca.moments._new_data import (
    compared_pairs,
    cov_gap_on,
    draw_moments,
    forecast_means,
    in_deviations,
)


def expected_gaps(model: Any, n_new: int | None, confidence: float, refits: int) -> ExpectedGaps:
    """Compute what `FairPCA.expected_gaps` describes."""
    _check(model, n_new, confidence, refits)
    moments, directions = _in_coordinates(model)
    options = (model.compare, model.joint, model.reference, model.min_group_size)
    pairs = compared_pairs(moments, *options)
    covariance = moments.pooled().covariance
    share = None if n_new is None else n_new / moments.n_samples
    constrained = model.mean_tol is not None
    same = np.eye(len(directions))
    turns = (same, in_deviations(same, directions @ covariance @ directions.T))
    by_unit = _noise_by_unit(model)
    features, deviations = (
        forecast_means(pairs, directions, turn, constrained, share, confidence, by_unit)
        for turn in turns
    )
    if by_unit is not None:  # drawn covariances would be those of as many rows
        refits = 0
    if refits:
        drawn = [] if not pairs else _refit(model, moments, refits)
        gaps = [cov_gap_on(pairs, basis) for basis in drawn]
        relative = [cov_gap_on(pairs, in_deviations(basis, covariance)) for basis in drawn]
        features = features._replace(cov_gap=float(np.mean(gaps or [0.0])))
        deviations = deviations._replace(cov_gap=float(np.mean(relative or [0.0])))
    return ExpectedGaps(features, deviations, n_new, confidence, refits)


def _check(model: Any, n_new: Any, confidence: Any, refits: Any) -> None:
    check_is_fitted(model, "components_")
    if getattr(model, "moments_", None) is None:
        raise InvalidInputError(
            "the model was saved without its moments, which expected_gaps needs: fit it again, or "
            "save it with moments=True."
        )
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
    with warnings.catch_warnings():
        for category in (FairnessWarning, ConvergenceWarning):
            warnings.simplefilter("ignore", category)
        for _ in range(refits):
            try:
                fitted.append(again.fit_moments(draw_moments(moments, random)).components_)
            except (InfeasibleError, GroupsError):
                continue
    return fitted
