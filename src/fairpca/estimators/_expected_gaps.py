"""What a fitted FairPCA expects of new data."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from fairpca.exceptions import FairnessWarning, GroupsError, InfeasibleError, InvalidInputError
from fairpca.linalg import Array
from fairpca.moments import ExpectedGaps, GroupMoments, Standardization
from fairpca.moments._new_data import (
    compared_contrasts,
    cov_gap_on,
    draw_moments,
    forecast_means,
    in_deviations,
)

_FAR = 2.0  # times the forecast, and standard errors, by which held-out rows exceed it


class ExpectedGapsMixin:
    """What a fitted estimator knows about rows that it has not seen."""

    def expected_gaps(
        self, n_new: int | None = None, confidence: float = 0.95, refits: int = 30
    ) -> ExpectedGaps:
        """Say what gaps to expect on new data, from `moments_` alone.

        The expected mean gap is a closed form. The bound on it holds for every subspace at once,
        and so for the components, although they were chosen by the same rows; it is for normal
        rows, or groups of many rows. The covariance gap is the average over fits to moments drawn
        around those at hand, measured on the latter; it is too small where rows have heavy tails.

        Parameters
        ----------
        n_new : int or None, default=None
            Number of new rows the mean gap will be measured on, which adds their noise.
        confidence : float, default=0.95
            Of the bound, over all contrasts together.
        refits : int, default=30
            Number of fits for the covariance gap; 0: it is not computed. Nor is it where `fit`
            was given units, since draws count rows.

        Examples
        --------
        >>> import numpy as np
        >>> from fairpca import FairPCA
        >>> rng = np.random.default_rng(0)
        >>> sex, X = np.arange(500) % 2, rng.normal(size=(500, 6))
        >>> gaps = FairPCA().fit(X, sensitive_features=sex).expected_gaps(refits=5)
        >>> bool(0.0 < gaps.features.mean_gap < gaps.features.mean_bound)
        True
        """
        model: Any = self
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


def check_moments(model: Any, user: str) -> None:
    """Refuse what needs moments where a model was saved without them."""
    if getattr(model, "moments_", None) is None:
        raise InvalidInputError(
            f"this model was saved without its moments, which {user} needs: fit it again, or save "
            "it with with_moments=True."
        )


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
    with warnings.catch_warnings():
        for category in (FairnessWarning, ConvergenceWarning):
            warnings.simplefilter("ignore", category)
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
