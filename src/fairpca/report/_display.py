"""What every display shares, and the plain components that fair ones are compared with."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from fairpca._look import draw_on, look, split
from fairpca.estimators import FairPCA
from fairpca.rows import encode_groups


class Display:
    """Data of a picture, drawn by `plot`.

    Every method that draws takes `ax`, the matplotlib Axes to draw on (a new figure without it),
    and returns the display; `ax_` and `figure_` are where it was drawn.
    """

    ax_: Any
    figure_: Any
    axes_: dict[str, Any]  # of displays with several panels, by their titles

    @contextmanager
    def _canvas(self, ax: Any, size: tuple[float, float]) -> Iterator[Any]:
        """Draw in our look on the axes, or on those of a new figure."""
        with look():
            self.ax_ = draw_on(ax, size)
            self.figure_ = self.ax_.figure
            yield self.ax_

    @contextmanager
    def _panels(self, ax: Any, size: tuple[float, float], count: int, gap: float) -> Iterator[Any]:
        """Divide the axes, or a new figure, into places for panels."""
        self.axes_ = {}
        with look():
            places = split(ax, size, 1, count, wspace=gap)
            self.figure_ = places.figure
            yield places
        self.ax_ = next(iter(self.axes_.values()))


def plain_model(
    estimator: Any, X: Any = None, sensitive_features: Any = None, moments: Any = None
) -> Any:
    """Fit plain components from moments, those kept or rows; None without any of them."""
    check_is_fitted(estimator)
    options = {"whiten": estimator.whiten, "missing_groups": "ignore", "certify": False}
    scaling = getattr(estimator, "standardize", False)
    d = len(estimator.components_)
    plain: Any = FairPCA(d, mean_tol=None, cov_weight=0.0, standardize=scaling, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about groups; the fair fit has said it already
        moments = getattr(estimator, "moments_", None) if moments is None else moments
        if moments is not None:
            plain = plain.fit_moments(moments)
            if not hasattr(estimator, "feature_names_in_") and hasattr(plain, "feature_names_in_"):
                del plain.feature_names_in_
            return plain
        if X is None:
            return None
        if hasattr(estimator, "kernel"):
            free = {"mean_tol": None, "cov_weight": 0.0, "cov_tol": None}
            plain = clone(estimator).set_params(**free, **options)
        return plain.fit(X, sensitive_features=sensitive_features)


def variance_bound(estimator: Any) -> float | None:
    """Largest share of the variance with gaps as small as these, None where it is not known."""
    # The objective is the variance less a penalty for the gap: what it can still gain is what the
    # variance can still gain without a larger gap.
    certificate = getattr(estimator, "certificate_", None)
    if certificate is None or getattr(estimator, "objective", "total") != "total":
        return None
    kept = float(np.sum(estimator.explained_variance_))
    share = float(np.sum(estimator.explained_variance_ratio_))
    if not kept or not np.isfinite(certificate.bound):
        return None
    return share * (kept + max(certificate.bound - certificate.objective, 0.0)) / kept


def name_groups(sensitive_features: Any, n_rows: int) -> tuple[tuple[str, ...], Any]:
    """Names of the groups that occur, intersections of several columns, and a code for each row."""
    groups = encode_groups(sensitive_features, n_rows=n_rows)
    columns = {c.name: (list(map(str, c.levels)), c.codes) for c in groups.categorical}
    for number in groups.numeric:
        middle = float(np.median(number.values))
        halves = [f"{number.name} ≤ {middle:.4g}", f"{number.name} > {middle:.4g}"]
        columns[number.name] = (halves, (number.values > middle).astype(np.intp))
    codes = np.zeros(n_rows, dtype=np.intp)
    names = [""]
    for levels, mine in (columns[name] for name in groups.names):
        codes = codes * len(levels) + mine
        names = [f"{a} × {b}" if a else b for a in names for b in levels]
    present, codes = np.unique(codes, return_inverse=True)
    return tuple(names[code] for code in present), codes


def feature_names(estimator: Any) -> list[str]:
    """Names of the features of a fitted estimator, numbered where it has none."""
    count = np.shape(estimator.components_)[1]
    names = getattr(estimator, "feature_names_in_", [f"x{index}" for index in range(count)])
    return [str(name) for name in names]


def same_sign(plain: Any, fair: Any) -> Any:
    """Plain components, each turned so that it does not point away from the fair one."""
    count = min(len(plain), len(fair))
    signs = np.where(np.sum(plain[:count] * fair[:count], axis=1) < 0.0, -1.0, 1.0)
    return plain[:count] * signs[:, None]
