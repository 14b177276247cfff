"""Scores by group: plain components beside fair ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from fairpca._look import group_style, look, split
from fairpca.exceptions import InvalidInputError
from fairpca.metrics import cov_gap, mean_gap
from fairpca.report.displays._base import Display, name_groups, plain_model


class BeforeAfterDisplay(Display):
    """Scores of the groups on plain and on fair components, side by side.

    Points are rows, crosses the means of the groups and ellipses two standard deviations; beside
    them stand the distributions of the scores. Both panels have the same scale, so that lost
    variance shows as well.

    Parameters
    ----------
    scores : dict of str to ndarray of shape (n, d)
        Component scores by the title of their panel.
    groups : tuple of str
        Names of the groups.
    codes : ndarray of shape (n,)
        Position of each row's group in `groups`.
    captions : dict of str to str
        A line under each title.

    Attributes
    ----------
    axes_ : dict of str to matplotlib Axes
        The panel of each title.
    ax_ : matplotlib Axes
        The first panel.
    figure_ : matplotlib Figure
        The figure.

    Examples
    --------
    >>> from fairpca import FairPCA
    >>> from fairpca.datasets import load_diabetes_sex
    >>> from fairpca.report import BeforeAfterDisplay
    >>> diabetes = load_diabetes_sex()
    >>> fair = FairPCA(2).fit(diabetes.data, sensitive_features=diabetes.sensitive_features)
    >>> display = BeforeAfterDisplay.from_estimator(
    ...     fair, diabetes.data, sensitive_features=diabetes.sensitive_features
    ... )
    >>> list(display.axes_), display.groups
    (['Plain PCA', 'FairPCA'], ('sex 1', 'sex 2'))
    """

    axes_: dict[str, Any]

    def __init__(
        self,
        scores: dict[str, NDArray[Any]],
        groups: tuple[str, ...],
        codes: NDArray[Any],
        captions: dict[str, str],
    ) -> None:
        self.scores, self.groups, self.codes, self.captions = scores, groups, codes, captions

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        sensitive_features: Any,
        plain: Any = None,
        ax: Any = None,
        **options: Any,
    ) -> BeforeAfterDisplay:
        """Draw rows by a fitted estimator and by plain components.

        Parameters
        ----------
        estimator : FairPCA, FairKernelPCA, DeltaFairPCA or any fitted transformer
            Gives the fair scores.
        X : array-like of shape (n, p)
            Rows to draw, fitted or new.
        sensitive_features : array-like or data frame
            Their groups; of several columns the intersections.
        plain : fitted transformer, optional
            Gives the scores of the first panel. None: plain PCA of the rows that were fitted, as
            far as the estimator still knows them, or else of X.
        ax : matplotlib Axes, optional
            Where to draw; a new figure without it.
        **options
            As for `plot`.

        Returns
        -------
        BeforeAfterDisplay
            The display, drawn.
        """
        check_is_fitted(estimator)
        ours, other = type(estimator).__name__, "Plain PCA"
        if plain is None:
            plain = plain_model(estimator, X, sensitive_features)
        elif type(plain).__name__ != ours:
            other = type(plain).__name__
        models = {other: plain, ours: estimator}
        scores = {name: np.asarray(model.transform(X)) for name, model in models.items()}
        captions = {}
        for name, model in models.items():
            kept = getattr(model, "explained_variance_ratio_", None)
            kept = "" if kept is None else f"variance kept {100 * np.sum(kept):.0f} %, "
            captions[name] = kept + _gaps(scores[name], sensitive_features)
        return cls._of(scores, sensitive_features, captions).plot(ax, **options)

    @classmethod
    def from_scores(
        cls, before: Any, after: Any, *, sensitive_features: Any, ax: Any = None, **options: Any
    ) -> BeforeAfterDisplay:
        """Draw two representations of the same rows.

        Parameters
        ----------
        before, after : array-like of shape (n, d)
            The representations.
        sensitive_features : array-like or data frame
            Groups of the rows; of several columns the intersections.
        ax, **options
            As for `from_estimator`.

        Returns
        -------
        BeforeAfterDisplay
            The display, drawn.
        """
        scores = {"Before": np.asarray(before), "After": np.asarray(after)}
        sizes = [len(U) for U in scores.values()]
        if sizes[0] != sizes[1]:
            raise InvalidInputError(
                f"before has {sizes[0]} rows and after has {sizes[1]}: give the same rows twice.",
                parameter="after",
            )
        captions = {name: _gaps(U, sensitive_features) for name, U in scores.items()}
        return cls._of(scores, sensitive_features, captions).plot(ax, **options)

    @classmethod
    def _of(cls, scores: Any, sensitive_features: Any, captions: Any) -> BeforeAfterDisplay:
        groups, codes = name_groups(sensitive_features, len(next(iter(scores.values()))))
        return cls(scores, groups, codes, captions)

    def plot(
        self,
        ax: Any = None,
        *,
        components: tuple[int, int] = (0, 1),
        marginals: bool = True,
        max_points: int = 2000,
    ) -> BeforeAfterDisplay:
        """Draw the panels.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw: its place is divided. A new figure without it.
        components : tuple of two int, default (0, 1)
            Which components; with a single one its distributions are drawn.
        marginals : bool, default True
            Whether the distributions of single components are drawn at the edges.
        max_points : int, default 2000
            Points to draw; of more rows a sample is. Means and ellipses are of all rows.

        Returns
        -------
        BeforeAfterDisplay
            The display.
        """
        shown = np.random.default_rng(0).permutation(len(self.codes))[:max_points]
        self.axes_ = {}
        with look():
            places = split(ax, (10.4, 4.8), 1, len(self.scores), wspace=0.08)
            limits = [_common_limits(list(self.scores.values()), k) for k in components]
            for place, (title, U) in zip(places, self.scores.items(), strict=True):
                if U.shape[1] == 1:
                    main = places.figure.add_subplot(place)
                    self._distributions(main, U[shown, 0], shown, limits[0])
                    main.set(xlabel="component 1", ylabel="density")
                else:
                    main = self._panel(place, U[:, components], shown, limits, marginals)
                    main.set(xlabel=_axis(components[0]), ylabel=_axis(components[1]))
                self.axes_[title] = main
            self._say()
        return self._drawn(next(iter(self.axes_.values())))

    def _say(self) -> None:
        """Write titles above the panels, and a legend into the first."""
        for title, main in self.axes_.items():
            top = getattr(main, "fairpca_top_", main)
            # A long line must not push the panels apart.
            top.set_title(title, pad=20).set_in_layout(False)
            place = ((0, 1), (0, 7), "axes fraction", "offset points")
            top.annotate(self.captions[title], *place, color="0.25").set_in_layout(False)
        first = next(iter(self.axes_.values()))
        if len(self.groups) <= 12:
            first.legend(loc="best", ncols=1 if len(self.groups) <= 6 else 2)

    def _panel(self, place: Any, U: Any, shown: Any, limits: Any, marginals: bool) -> Any:
        """Draw one plane, with the distributions at its edges; return its axes."""
        figure = place.get_gridspec().figure
        if not marginals:
            main = figure.add_subplot(place)
        else:
            edges = {"width_ratios": (5, 1), "height_ratios": (1, 5), "hspace": 0.0, "wspace": 0.0}
            inner = place.subgridspec(2, 2, **edges)
            main = figure.add_subplot(inner[1, 0])
            top, right = figure.add_subplot(inner[0, 0]), figure.add_subplot(inner[1, 1])
            self._distributions(top, U[shown, 0], shown, limits[0])
            self._distributions(right, U[shown, 1], shown, limits[1], upright=True)
            top.set_axis_off()
            right.set_axis_off()
            main.fairpca_top_ = top
        for index, name in enumerate(self.groups):
            mine = U[self.codes == index]
            drawn = shown[self.codes[shown] == index]
            _draw_group(main, U[drawn], mine, name, index)
        main.set(xlim=limits[0], ylim=limits[1])
        return main

    def _distributions(
        self, ax: Any, values: Any, shown: Any, limits: Any, upright: bool = False
    ) -> None:
        """Draw a density for each group, along x or along y."""
        from scipy.stats import gaussian_kde

        grid = np.linspace(limits[0], limits[1], 160)
        for index, name in enumerate(self.groups):
            mine = values[self.codes[shown] == index]
            if len(mine) < 2 or np.ptp(mine) == 0.0:
                continue
            density = gaussian_kde(mine)(grid)
            line = (density, grid) if upright else (grid, density)
            style = group_style(index)
            ax.plot(*line, color=style.colour, linestyle=style.line, linewidth=1.4, label=name)
        ax.set(ylim=limits) if upright else ax.set(xlim=limits)


def _axis(component: int) -> str:
    return f"component {component + 1}"


def _gaps(U: Any, sensitive_features: Any) -> str:
    means, covariances = mean_gap(U, sensitive_features), cov_gap(U, sensitive_features)
    return f"mean gap {means:.2f}, covariance gap {covariances:.2f}"


def _common_limits(tables: list[Any], component: int) -> tuple[float, float]:
    """Limits that hold nearly all scores of every table; a few far rows may lie outside."""
    columns = [U[:, component] for U in tables if U.shape[1] > component]
    if not columns:
        return 0.0, 1.0
    low, high = (
        choose(np.quantile(c, q) for c in columns) for choose, q in ((min, 0.002), (max, 0.998))
    )
    room = 0.08 * (high - low) or 1.0
    return float(low - room), float(high + room)


def _draw_group(ax: Any, points: Any, rows: Any, name: str, index: int) -> None:
    """Draw points, and the mean and two standard deviations of all rows of a group."""
    from matplotlib.patches import Ellipse

    style = group_style(index)
    size = 12 if len(points) < 400 else 7
    ax.scatter(*points.T, s=size, color=style.colour, marker=style.marker, alpha=0.3, linewidths=0)
    mean = rows.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(rows.T, bias=True))
    angle = np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1]))
    width, height = 4 * np.sqrt(np.maximum(values[::-1], 0.0))
    outline = {"facecolor": "none", "linewidth": 2.0, "linestyle": style.line}
    ax.add_patch(Ellipse(mean, width, height, angle=angle, edgecolor=style.colour, **outline))
    ax.plot(
        *mean, style.marker, markersize=10 if index == 0 else 7, color=style.colour,
        markeredgecolor="white", markeredgewidth=1.2, linestyle="", label=name, zorder=4,
    )  # fmt: skip
