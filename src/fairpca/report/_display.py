"""What every display shares: its look, its base, and plain components for comparison."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from fairpca.estimators import FairPCA
from fairpca.exceptions import InvalidInputError
from fairpca.rows import encode_groups

# Okabe and Ito's palette without its yellow, which vanishes on white.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
MOST_DRAWN = len(COLOURS)  # groups that a picture can tell apart
_MARKERS = ("o", "^", "s", "D", "v", "P", "X", "*")
_LINES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))

FAIR, PLAIN, BOUND = "#0072b2", "0.45", "#000000"
ACCENT = "#d55e00"
SHADES = "Blues"  # white is nothing, and darker is more in grey as well

_RC = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.labelsize": 10,
    "axes.edgecolor": "0.4",
    "axes.grid": False,
    "font.size": 9.5,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "xtick.color": "0.25",
    "ytick.color": "0.25",
}


class Style(NamedTuple):
    """Colour, marker and line of a group."""

    colour: str
    marker: str
    line: Any


def group_style(index: int) -> Style:
    """Return the style of the group at a position; its parts have coprime periods."""
    return Style(
        COLOURS[index % len(COLOURS)],
        _MARKERS[index % len(_MARKERS)],
        _LINES[index % len(_LINES)],
    )


def _look() -> Any:
    """Return a context in which matplotlib draws in this look."""
    return _matplotlib().rc_context(_RC)


def _divide(ax: Any, size: tuple[float, float], n_rows: int, n_columns: int, **ratios: Any) -> Any:
    """Return a grid of places inside the axes, which vanish, or on a new figure."""
    if ax is None:
        return _new_figure(size).add_gridspec(n_rows, n_columns, **ratios)
    place = ax.get_subplotspec()
    if place is None:
        raise InvalidInputError(
            "ax has no place in a grid to be divided: make it with matplotlib.pyplot.subplots.",
            parameter="ax",
        )
    ax.set_axis_off()
    return place.subgridspec(n_rows, n_columns, **ratios)


def _new_figure(size: tuple[float, float]) -> Any:
    _matplotlib()
    from matplotlib import pyplot

    return pyplot.figure(figsize=size, layout="constrained")


def _matplotlib() -> Any:
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError(
            "Plots need matplotlib: install it with pip install 'fairpca[plots]'."
        ) from error
    return matplotlib


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
        with _look():
            self.ax_ = _new_figure(size).subplots() if ax is None else ax
            self.figure_ = self.ax_.figure
            yield self.ax_

    @contextmanager
    def _panels(
        self, ax: Any, size: tuple[float, float], n_rows: int, n_columns: int, **ratios: Any
    ) -> Iterator[Any]:
        """Divide the axes, or a new figure, into places for panels."""
        self.axes_ = {}
        with _look():
            places = _divide(ax, size, n_rows, n_columns, **ratios)
            self.figure_ = places.figure
            yield places
        self.ax_ = next(iter(self.axes_.values()))


def plain_model(
    estimator: Any, X: Any = None, sensitive_features: Any = None, moments: Any = None
) -> Any:
    """Fit plain components from moments, those kept or rows; None without any of them."""
    check_is_fitted(estimator)
    options: dict[str, Any] = {"missing_groups": "ignore", "certify": False}
    looks: dict[str, Any] = {
        name: getattr(estimator, name, False) for name in ("whiten", "standardize")
    }
    d = len(estimator.components_)
    plain: Any = FairPCA(d, mean_tol=None, cov_weight=0.0, **looks, **options)
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
