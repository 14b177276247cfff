"""Rows in the plane of the components: scores by group, before and after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from fairpca._present import number, percent
from fairpca.exceptions import InvalidInputError
from fairpca.metrics import cov_gap, mean_gap
from fairpca.report._display import (
    MOST_DRAWN,
    Display,
    group_style,
    name_groups,
    plain_model,
)
from fairpca.rows import Rows
from fairpca.rows.groups import Attribute


class BeforeAfterDisplay(Display):
    """Scores of the groups on plain and on fair components, side by side.

    Points are rows, crosses the means of the groups and ellipses two standard deviations; the
    distributions of the scores are at the edges. Both panels have the same scale, so that lost
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

    See Also
    --------
    BiplotDisplay : Loadings and scores in one picture.

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
        ax, **options
            As for `plot`.
        """
        check_is_fitted(estimator)
        ours, other = type(estimator).__name__, "Plain PCA"
        if plain is None:
            plain = plain_model(estimator, X, sensitive_features)
        elif type(plain).__name__ != ours:
            other = type(plain).__name__
        models = {other: plain, ours: estimator}
        scores = {name: np.asarray(model.transform(X)) for name, model in models.items()}
        groups, codes = name_groups(sensitive_features, len(scores[ours]))
        captions = {}
        for name, model in models.items():
            kept = getattr(model, "explained_variance_ratio_", None)
            variance = None if kept is None else float(np.sum(kept))
            captions[name] = caption(variance, *_gaps(scores[name], sensitive_features))
        return cls(scores, groups, codes, captions).plot(ax, **options)

    @classmethod
    def from_scores(
        cls, before: Any, after: Any, *, sensitive_features: Any, ax: Any = None, **options: Any
    ) -> BeforeAfterDisplay:
        """Draw two representations of the same rows.

        Parameters
        ----------
        before, after : array-like of shape (n, d)
            The representations.
        sensitive_features, ax, **options
            As for `from_estimator`.
        """
        scores = {"Before": np.asarray(before), "After": np.asarray(after)}
        sizes = [len(U) for U in scores.values()]
        if sizes[0] != sizes[1]:
            raise InvalidInputError(
                f"before has {sizes[0]} rows and after has {sizes[1]}: give the same rows twice.",
                parameter="after",
            )
        captions = {
            name: caption(None, *_gaps(U, sensitive_features)) for name, U in scores.items()
        }
        groups, codes = name_groups(sensitive_features, sizes[0])
        return cls(scores, groups, codes, captions).plot(ax, **options)

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
        """
        shown = np.random.default_rng(0).permutation(len(self.codes))[:max_points]
        limits = [_common_limits(list(self.scores.values()), k) for k in components]
        with self._panels(ax, (10.4, 4.8), 1, len(self.scores), wspace=0.08) as places:
            for place, (title, U) in zip(places, self.scores.items(), strict=True):
                if U.shape[1] == 1:
                    main = top = places.figure.add_subplot(place)
                    self._distributions(main, U[shown, 0], shown, limits[0])
                    main.set(xlabel="component 1", ylabel="density")
                else:
                    main, top = self._panel(place, U[:, components], shown, limits, marginals)
                    x, y = (f"component {k + 1}" for k in components)
                    main.set(xlabel=x, ylabel=y)
                self.axes_[title] = main
                # A long line must not push the panels apart.
                top.set_title(title, pad=20).set_in_layout(False)
                where = ((0, 1), (0, 7), "axes fraction", "offset points")
                top.annotate(self.captions[title], *where, color="0.25").set_in_layout(False)
            if len(self.groups) <= 12:
                first = next(iter(self.axes_.values()))
                first.legend(loc="best", ncols=1 if len(self.groups) <= 6 else 2)
        return self

    def _panel(
        self, place: Any, U: Any, shown: Any, limits: Any, marginals: bool
    ) -> tuple[Any, Any]:
        """Draw one plane with distributions at its edges; return its axes and the uppermost."""
        figure = place.get_gridspec().figure
        if not marginals:
            main = top = figure.add_subplot(place)
        else:
            edges = {"width_ratios": (5, 1), "height_ratios": (1, 5), "hspace": 0.0, "wspace": 0.0}
            inner = place.subgridspec(2, 2, **edges)
            main = figure.add_subplot(inner[1, 0])
            top, right = figure.add_subplot(inner[0, 0]), figure.add_subplot(inner[1, 1])
            self._distributions(top, U[shown, 0], shown, limits[0])
            self._distributions(right, U[shown, 1], shown, limits[1], upright=True)
            top.set_axis_off()
            right.set_axis_off()
        draw_groups(main, U, self.groups, self.codes, shown)
        main.set(xlim=limits[0], ylim=limits[1])
        return main, top

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


def protected_columns(rows: Rows) -> Sequence[Attribute]:
    """Return the protected attributes as groups; those that are numbers are cut at the median."""
    return () if rows.groups is None else rows.binarized_at_median().groups.categorical  # type: ignore[union-attr]


def counts_of(column: Attribute, rows: Rows) -> NDArray[Any]:
    """Return how many rows, or units, each level of an attribute has."""
    if rows.units is None:
        return np.bincount(column.codes, minlength=len(column.levels))
    codes = range(len(column.levels))
    return np.array([len(np.unique(rows.units[column.codes == code])) for code in codes])


def drawn_codes(column: Attribute, rows: Rows, least: int) -> list[int]:
    """Return the codes of the groups that every picture of a page shows, the same in all.

    They are the largest with `least` rows or units: an ellipse of fewer is mostly chance, and
    their points would be persons. Where no two groups have so many, all are shown.
    """
    sizes = counts_of(column, rows)
    enough = np.flatnonzero(sizes >= least)
    enough = enough if len(enough) > 1 else np.flatnonzero(sizes > 1)
    largest = enough[np.argsort(-sizes[enough], kind="stable")][:MOST_DRAWN]
    return sorted(largest.tolist())


def caption(variance: float | None, means: float | None, covariances: float | None) -> str:
    """Write the figures of a representation in a line."""
    kept = "" if variance is None else f"variance kept {percent(variance)}, "
    return f"{kept}mean gap {number(means, 1.0)}, covariance gap {number(covariances, 1.0)}"


def caption_of(model: Any, attribute: str) -> str:
    """Write the variance that a model keeps, and its largest gaps for one attribute."""
    gaps = []
    for name in ("mean_gap", "cov_gap"):
        table = zip(model.contrasts_["attribute"], model.contrasts_[name], strict=True)
        gaps.append(
            max((gap for of, gap in table if of == attribute and gap is not None), default=None)
        )
    return caption(float(np.sum(model.explained_variance_ratio_)), *gaps)


def _gaps(U: Any, sensitive_features: Any) -> tuple[float, float]:
    return mean_gap(U, sensitive_features), cov_gap(U, sensitive_features)


def _common_limits(tables: list[Any], component: int) -> tuple[float, float]:
    """Limits that hold nearly all scores of every table; a few far rows may lie outside."""
    columns = [U[:, component] for U in tables if U.shape[1] > component]
    if not columns:
        return 0.0, 1.0
    low = min(np.quantile(column, 0.002) for column in columns)
    high = max(np.quantile(column, 0.998) for column in columns)
    margin = 0.08 * (high - low) or 1.0
    return float(low - margin), float(high + margin)


def draw_groups(ax: Any, U: Any, groups: Sequence[str], codes: Any, shown: Any) -> None:
    """Draw those rows that are shown, and the mean and spread of all rows, of each group."""
    for index, name in enumerate(groups):
        drawn = shown[codes[shown] == index]
        _draw_group(ax, U[drawn], U[codes == index], name, index)


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
