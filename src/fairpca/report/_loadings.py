"""What components are made of: loadings with their balance, and arrows over the scores."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from fairpca._present import number, records
from fairpca.exceptions import InvalidInputError
from fairpca.report._display import (
    ACCENT,
    FAIR,
    PLAIN,
    Display,
    feature_names,
    name_groups,
    plain_model,
    same_sign,
)
from fairpca.report._scores import draw_groups

_PANELS = 4  # components in one picture


class LoadingsDisplay(Display):
    """Loadings of the features on fair components, those on plain ones, and their balance.

    Parameters
    ----------
    components : ndarray of shape (d, p)
        Fair components.
    feature_names : sequence of str
        Names of the features.
    plain : ndarray of shape (d, p) or None
        Plain components, each turned to the side of the fair one.
    balance : ndarray of shape (d, p), optional
        Loading times group difference, for sparse components: it sums to zero where group means are
        equal, and shows which loadings cancel a difference.
    balance_of : str
        The groups that the balance compares.

    See Also
    --------
    BiplotDisplay : Loadings as arrows over scores.
    fairpca.SparseFairPCA : Components with few loadings.

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
        balance: NDArray[Any] | None = None,
        balance_of: str = "",
    ) -> None:
        self.components, self.plain = components, plain
        self.feature_names = tuple(map(str, feature_names))
        self.balance, self.balance_of = balance, balance_of

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
        estimator : FairPCA, SparseFairPCA or DeltaFairPCA
            Fitted; the components of `FairKernelPCA` are not made of features.
        X, sensitive_features : array-like, optional
            Rows and their groups, for plain components where the estimator kept no moments.
        plain : fitted PCA, optional
            Plain components; None: of the fitted rows. Sparse components are drawn alone.
        feature_names : sequence of str, optional
            Names, where the estimator has none.
        ax, **options
            As for `plot`.
        """
        components, names = _loadings(estimator, feature_names)
        if hasattr(estimator, "balance_"):
            return cls(components, names, None, *largest_balance(estimator)).plot(ax, **options)
        if plain is None:
            plain = plain_model(estimator, X, sensitive_features)
        other = None if plain is None else same_sign(plain.components_, components)
        return cls(components, names, other).plot(ax, **options)

    def plot(
        self, ax: Any = None, *, component: int | None = 0, max_features: int = 15
    ) -> LoadingsDisplay:
        """Draw the largest loadings of one component or of each, feature by feature and sorted.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure without it. Its place is divided for several components.
        component : int or None, default 0
            Which component. None: the first four, one above the other.
        max_features : int, default 15
            Features to draw, those with the largest loadings.
        """
        shown = range(len(self.components))[:_PANELS] if component is None else (component,)
        orders = [self._largest(j, max_features) for j in shown]
        heights = [1.4 + 0.3 * len(order) for order in orders]
        if component is not None:
            with self._canvas(ax, (6.4, heights[0])) as ax:
                self._draw(ax, component, orders[0])
            return self
        size = (6.4, sum(heights))
        with self._panels(ax, size, len(orders), 1, height_ratios=heights) as places:
            for j, order in enumerate(orders):
                panel = self.axes_[f"component {j + 1}"] = self.figure_.add_subplot(places[j])
                self._draw(panel, j, order)
        return self

    def _size(self, component: int) -> NDArray[Any]:
        """Larger of the fair and the plain loading of each feature."""
        plain = 0.0 if self.plain is None else np.abs(self.plain[component])
        return np.maximum(np.abs(self.components[component]), plain)

    def _largest(self, component: int, count: int) -> NDArray[Any]:
        """Features to draw, the largest fair loading last."""
        fair = self.components[component]
        largest = np.argsort(-self._size(component), kind="stable")[:count]
        if self.balance is not None:
            largest = largest[fair[largest] != 0.0]
        return np.asarray(largest[np.argsort(np.abs(fair[largest]), kind="stable")])

    def _draw(self, ax: Any, component: int, order: NDArray[Any]) -> None:
        fair, place = self.components[component, order], np.arange(len(order))
        ax.axvline(0.0, color="0.6", linewidth=0.8, zorder=0)
        if self.plain is not None:
            plain = self.plain[component, order]
            ax.hlines(place, plain, fair, color="0.75", linewidth=1.2, zorder=1)
            ax.plot(
                plain, place, "s", markersize=6, color="white", markeredgecolor=PLAIN,
                markeredgewidth=1.4, label="plain PCA",
            )  # fmt: skip
        ax.plot(fair, place, "o", markersize=7, color=FAIR, label="fair", zorder=3)
        ax.set_yticks(place, [self.feature_names[index] for index in order])
        ax.tick_params(axis="y", length=0)
        left_out = np.count_nonzero(self._size(component)) - len(order)
        more = f"; {left_out} features with smaller ones not drawn" if left_out else ""
        ax.set_xlabel(f"loading on component {component + 1}{more}")
        ax.set_title(f"What component {component + 1} is made of")
        if self.balance is None:
            ax.legend(loc="best")
        else:
            self._draw_balance(ax, self.balance[component, order])

    def _draw_balance(self, ax: Any, balance: NDArray[Any]) -> None:
        """Draw bars behind the loadings, and the legend under them."""
        what = f"balance: loading × ({self.balance_of}), sums to {number(balance.sum(), 1.0)}"
        place = np.arange(len(balance))
        ax.barh(place, balance, 0.45, color=ACCENT, alpha=0.35, zorder=1, label=what)
        below = -0.5 / (0.4 + 0.3 * len(balance))  # half an inch, under the label
        ax.legend(loc="upper left", bbox_to_anchor=(0.0, below), ncols=2)


class BiplotDisplay(Display):
    """Loadings as arrows in the plane of two components, over the scores of rows.

    Parameters
    ----------
    components, feature_names
        As for `LoadingsDisplay`; at least two components.
    scores : ndarray of shape (n, d)
        Fair scores of rows.
    groups, codes : tuple of str and ndarray of shape (n,)
        Their groups.

    See Also
    --------
    LoadingsDisplay : Loadings alone, of any number of components.

    Examples
    --------
    >>> from fairpca import SparseFairPCA
    >>> from fairpca.datasets import load_diabetes_sex
    >>> from fairpca.report import BiplotDisplay
    >>> diabetes = load_diabetes_sex()
    >>> X, sex = diabetes.data, diabetes.sensitive_features
    >>> fair = SparseFairPCA(2, n_nonzero=3, standardize=True).fit(X, sensitive_features=sex)
    >>> BiplotDisplay.from_estimator(fair, X, sensitive_features=sex).ax_.get_xlabel()
    'component 1'
    """

    def __init__(
        self,
        components: Any,
        feature_names: Any,
        scores: Any,
        groups: Any,
        codes: Any,
    ) -> None:
        self.components, self.feature_names = components, tuple(map(str, feature_names))
        self.scores, self.groups, self.codes = scores, groups, codes

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        sensitive_features: Any = None,
        feature_names: Any = None,
        ax: Any = None,
        **options: Any,
    ) -> BiplotDisplay:
        """Draw the loadings of a fitted estimator over the scores of rows.

        Parameters
        ----------
        estimator, X, sensitive_features, feature_names
            As for `LoadingsDisplay.from_estimator`; X are the rows to draw.
        ax, **options
            As for `plot`.
        """
        components, names = _loadings(estimator, feature_names)
        scores = np.asarray(estimator.transform(X))
        groups: Any = (("all rows",), np.zeros(len(scores), int))
        if sensitive_features is not None:
            groups = name_groups(sensitive_features, len(scores))
        return cls(components, names, scores, *groups).plot(ax, **options)

    def plot(self, ax: Any = None, *, max_features: int = 10) -> BiplotDisplay:
        """Draw the arrows of the first two components.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure without it.
        max_features : int, default 10
            Arrows to draw, the longest.
        """
        if len(self.components) < 2:
            raise InvalidInputError("a biplot needs two components, and there is one.")
        arrows = self.components[:2].T
        length = np.linalg.norm(arrows, axis=1)
        chosen = np.argsort(-length, kind="stable")[:max_features]
        chosen = chosen[length[chosen] > 0.0]
        with self._canvas(ax, (6.6, 5.6)) as ax:
            U = self.scores[:, :2]
            shown = np.random.default_rng(0).permutation(len(U))[:2000]
            draw_groups(ax, U, self.groups, self.codes, shown)
            ax.legend(loc="best")
            reach = float(np.quantile(np.linalg.norm(U, axis=1), 0.97))
            tips = arrows[chosen] * reach / max(length.max(), 1e-12)
            for tip, (x, y), index in zip(tips, _spread(tips, 0.13 * reach), chosen, strict=True):
                arrow = {"arrowstyle": "-|>", "color": ACCENT, "linewidth": 1.4, "shrinkA": 0}
                ax.annotate("", xy=tip, xytext=(0.0, 0.0), arrowprops=arrow)
                box = {"facecolor": "white", "alpha": 0.75, "pad": 0.8, "linewidth": 0}
                style = {"ha": "left" if x >= 0 else "right", "va": "center", "bbox": box}
                ax.text(1.06 * x, y, self.feature_names[index], zorder=5, **style)
            ax.axhline(0.0, color="0.85", linewidth=0.8, zorder=0)
            ax.axvline(0.0, color="0.85", linewidth=0.8, zorder=0)
            ax.set(xlim=(-1.5 * reach, 1.5 * reach), ylim=(-1.25 * reach, 1.25 * reach))
            ax.set(xlabel="component 1", ylabel="component 2")
            ax.set_title("Features in the plane of the fair components")
        return self


def _loadings(estimator: Any, names: Any) -> tuple[NDArray[Any], Any]:
    """Components of a fitted estimator and the names of its features."""
    check_is_fitted(estimator)
    components = np.asarray(estimator.components_)
    if components.shape[1] != estimator.n_features_in_:
        raise InvalidInputError(
            f"components of {type(estimator).__name__} are not directions of the features, "
            "so that there are no loadings to draw.",
            parameter="estimator",
        )
    if names is not None and len(names) != components.shape[1]:
        problem = f"feature_names has {len(names)} names for {components.shape[1]} features."
        raise InvalidInputError(problem, parameter="feature_names")
    return components, feature_names(estimator) if names is None else names


def largest_balance(estimator: Any) -> tuple[NDArray[Any] | None, str]:
    """Balance of the contrast with the largest differences to cancel, and its groups; or None."""
    if not hasattr(estimator, "balance_"):
        return None, ""
    compared = [e for e in records(estimator.contrasts_) if e["mean_gap"] is not None]
    if not compared:
        return np.zeros_like(estimator.components_), "no groups"
    largest = int(np.argmax(np.abs(estimator.balance_).sum(axis=(1, 2))))
    entry = compared[largest]
    return estimator.balance_[largest], f"{entry['positive']} − {entry['negative']}"


def _spread(tips: Any, least: float) -> Any:
    """Places of labels at the tips of arrows, moved up or down until they do not overlap."""
    places = np.array(tips)
    for side in (places[:, 0] >= 0, places[:, 0] < 0):
        order = np.flatnonzero(side)[np.argsort(places[side, 1], kind="stable")]
        for lower, upper in pairwise(order):
            places[upper, 1] = max(places[upper, 1], places[lower, 1] + least)
        places[order, 1] += np.sum(tips[order, 1] - places[order, 1]) / max(len(order), 1)
    return places
