"""Which features make a component."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from fairpca._look import ACCENT, FAIR, PLAIN, draw_on, group_style, look
from fairpca.exceptions import InvalidInputError
from fairpca.report.displays._base import Display, name_groups, plain_model


class LoadingsDisplay(Display):
    """Loadings of the features on fair components, beside those on plain ones.

    Parameters
    ----------
    components : ndarray of shape (d, p)
        Fair components.
    feature_names : sequence of str
        Names of the features.
    plain : ndarray of shape (d, p) or None
        Plain components, each turned to the side of the fair one.
    scores : ndarray of shape (n, d), optional
        Fair scores of rows, for the biplot.
    groups, codes : tuple of str and ndarray of shape (n,), optional
        Their groups.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.

    Examples
    --------
    >>> from fairpca import FairPCA
    >>> from fairpca.datasets import load_diabetes_sex
    >>> from fairpca.report import LoadingsDisplay
    >>> diabetes = load_diabetes_sex()
    >>> fair = FairPCA(2).fit(diabetes.data, sensitive_features=diabetes.sensitive_features)
    >>> display = LoadingsDisplay.from_estimator(fair, feature_names=diabetes.feature_names)
    >>> display.components.shape, len(display.ax_.get_yticks())
    ((2, 9), 9)
    """

    def __init__(
        self,
        components: NDArray[Any],
        feature_names: Any,
        plain: NDArray[Any] | None = None,
        scores: NDArray[Any] | None = None,
        groups: tuple[str, ...] = (),
        codes: NDArray[Any] | None = None,
    ) -> None:
        self.components, self.plain = components, plain
        self.feature_names = tuple(map(str, feature_names))
        self.scores, self.groups, self.codes = scores, groups, codes

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        *,
        sensitive_features: Any = None,
        plain: Any = None,
        feature_names: Any = None,
        ax: Any = None,
        **options: Any,
    ) -> LoadingsDisplay:
        """Draw the loadings of a fitted estimator.

        Parameters
        ----------
        estimator : FairPCA or DeltaFairPCA
            Fitted; the components of `FairKernelPCA` are not made of features.
        X, sensitive_features : array-like, optional
            Rows and their groups for the biplot, and for plain components where the estimator
            kept no moments.
        plain : fitted PCA, optional
            Plain components; None: of the fitted rows.
        feature_names : sequence of str, optional
            Names, where the estimator has none.
        ax : matplotlib Axes, optional
            Where to draw; a new figure without it.
        **options
            As for `plot`.

        Returns
        -------
        LoadingsDisplay
            The display, drawn.
        """
        check_is_fitted(estimator)
        components = np.asarray(estimator.components_)
        if components.shape[1] != estimator.n_features_in_:
            raise InvalidInputError(
                f"components of {type(estimator).__name__} are not directions of the features, "
                "so that there are no loadings to draw.",
                parameter="estimator",
            )
        if plain is None:
            plain = plain_model(estimator, X, sensitive_features)
        names = feature_names
        if names is None:
            default = [f"x{index}" for index in range(components.shape[1])]
            names = getattr(estimator, "feature_names_in_", default)
        if len(names) != components.shape[1]:
            raise InvalidInputError(
                f"feature_names has {len(names)} names for {components.shape[1]} features.",
                parameter="feature_names",
            )
        scores = None if X is None else np.asarray(estimator.transform(X))
        groups: Any = ((), None)
        if X is not None and sensitive_features is not None:
            groups = name_groups(sensitive_features, len(scores))  # type: ignore[arg-type]
        beside = None if plain is None else _same_side(plain.components_, components)
        return cls(components, names, beside, scores, *groups).plot(ax, **options)

    def plot(
        self, ax: Any = None, *, kind: str = "dots", component: int = 0, max_features: int = 15
    ) -> LoadingsDisplay:
        """Draw the largest loadings.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure without it.
        kind : {"dots", "biplot"}, default "dots"
            One component, feature by feature and sorted; or arrows in the plane of the first two,
            over the scores where there are any.
        component : int, default 0
            Which component the dots show.
        max_features : int, default 15
            Features to draw, those with the largest loadings.

        Returns
        -------
        LoadingsDisplay
            The display.
        """
        if kind not in ("dots", "biplot"):
            raise InvalidInputError(f"kind must be 'dots' or 'biplot', not {kind!r}.")
        with look():
            if kind == "biplot":
                return self._drawn(self._biplot(ax, max_features))
            return self._drawn(self._dots(ax, component, max_features))

    def _dots(self, ax: Any, component: int, max_features: int) -> Any:
        fair = self.components[component]
        plain = None if self.plain is None else self.plain[component]
        size = np.abs(fair) if plain is None else np.maximum(np.abs(fair), np.abs(plain))
        largest = np.argsort(-size, kind="stable")[:max_features]
        order = largest[np.argsort(np.abs(fair[largest]), kind="stable")]
        ax = draw_on(ax, (6.4, 1.3 + 0.27 * len(order)))
        place = np.arange(len(order))
        ax.axvline(0.0, color="0.6", linewidth=0.8, zorder=0)
        if plain is not None:
            ax.hlines(place, plain[order], fair[order], color="0.75", linewidth=1.2, zorder=1)
            ax.plot(
                plain[order], place, "s", markersize=6, color="white", markeredgecolor=PLAIN,
                markeredgewidth=1.4, label="plain PCA",
            )  # fmt: skip
        ax.plot(fair[order], place, "o", markersize=7, color=FAIR, label="fair", zorder=3)
        ax.set_yticks(place, [self.feature_names[index] for index in order])
        ax.tick_params(axis="y", length=0)
        left_out = self.components.shape[1] - len(order)
        more = f"; {left_out} features with smaller ones not drawn" if left_out else ""
        ax.set_xlabel(f"loading on component {component + 1}{more}")
        ax.set_title(f"What component {component + 1} is made of")
        ax.legend(loc="best")
        return ax

    def _biplot(self, ax: Any, max_features: int) -> Any:
        if len(self.components) < 2:
            raise InvalidInputError("a biplot needs two components, and there is one.")
        ax = draw_on(ax, (6.6, 5.6))
        reach = self._draw_scores(ax)
        arrows = self.components[:2].T
        length = np.linalg.norm(arrows, axis=1)
        chosen = np.argsort(-length, kind="stable")[: min(max_features, 10)]
        tips = arrows[chosen] * reach / max(length.max(), 1e-12)
        for tip in tips:
            arrow = {"arrowstyle": "-|>", "color": ACCENT, "linewidth": 1.4, "shrinkA": 0}
            ax.annotate("", xy=tip, xytext=(0.0, 0.0), arrowprops=arrow)
        for (x, y), index in zip(_spread(tips, 0.13 * reach), chosen, strict=True):
            align = "left" if x >= 0 else "right"
            box = {"facecolor": "white", "alpha": 0.75, "pad": 0.8, "linewidth": 0}
            ax.text(1.06 * x, y, self.feature_names[index], ha=align, va="center", bbox=box)
        ax.axhline(0.0, color="0.85", linewidth=0.8, zorder=0)
        ax.axvline(0.0, color="0.85", linewidth=0.8, zorder=0)
        ax.set(xlabel="component 1", ylabel="component 2")
        ax.set(xlim=(-1.5 * reach, 1.5 * reach), ylim=(-1.25 * reach, 1.25 * reach))
        ax.set_title("Features in the plane of the fair components")
        if self.groups:
            for handle in ax.legend(loc="best").legend_handles:
                handle.set(alpha=1.0, sizes=[30.0])
        return ax

    def _draw_scores(self, ax: Any) -> float:
        """Draw the rows by group; return how far arrows may reach."""
        if self.scores is None:
            return 1.0
        codes = np.zeros(len(self.scores), int) if self.codes is None else self.codes
        shown = np.random.default_rng(0).permutation(len(codes))[:2000]
        for index, name in enumerate(self.groups or ("",)):
            style, mine = group_style(index), shown[codes[shown] == index]
            ax.scatter(
                *self.scores[mine, :2].T, s=9, alpha=0.35, linewidths=0, color=style.colour,
                marker=style.marker, label=name or None,
            )  # fmt: skip
        return float(np.quantile(np.linalg.norm(self.scores[:, :2], axis=1), 0.97))


def _same_side(plain: Any, fair: Any) -> Any:
    """Plain components, each turned so that it does not point away from the fair one."""
    count = min(len(plain), len(fair))
    signs = np.where(np.sum(plain[:count] * fair[:count], axis=1) < 0.0, -1.0, 1.0)
    return plain[:count] * signs[:, None]


def _spread(tips: Any, least: float) -> Any:
    """Places of labels at the tips of arrows, moved up or down until they do not overlap."""
    places = np.array(tips, dtype=float)
    for side in (places[:, 0] >= 0, places[:, 0] < 0):
        order = np.flatnonzero(side)[np.argsort(places[side, 1], kind="stable")]
        before = places[order, 1].mean() if len(order) else 0.0
        for lower, upper in pairwise(order):
            places[upper, 1] = max(places[upper, 1], places[lower, 1] + least)
        if len(order):
            places[order, 1] += before - places[order, 1].mean()
    return places
