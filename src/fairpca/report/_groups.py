"""Gaps of every contrast, and losses of every group."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpca._present import label, number, records, shorten
from fairpca.estimators._linear import check_moments
from fairpca.exceptions import InvalidInputError
from fairpca.report._display import FAIR, PLAIN, SHADES, Display, plain_model

_COLUMNS = ("mean_gap_before", "mean_gap", "cov_gap_before", "cov_gap")
_MEASURES = ("mean gap", "covariance gap")


class ContrastsDisplay(Display):
    """Gaps of every contrast in the features and in the components, as a heat map.

    Parameters
    ----------
    labels : sequence of str
        Names of the contrasts.
    gaps : ndarray of shape (C, 4)
        Mean gap before and after, covariance gap before and after; NaN: not compared.

    See Also
    --------
    DeltaDisplay : What classifiers make of the gaps.

    Examples
    --------
    >>> from fairpca import FairPCA
    >>> from fairpca.datasets import load_diabetes_sex
    >>> from fairpca.report import ContrastsDisplay
    >>> diabetes = load_diabetes_sex()
    >>> fair = FairPCA(2).fit(diabetes.data, sensitive_features=diabetes.sensitive_features)
    >>> ContrastsDisplay.from_estimator(fair).labels
    ('sensitive_feature: sex 2 vs sex 1',)
    """

    def __init__(self, labels: Any, gaps: NDArray[Any]) -> None:
        self.labels, self.gaps = tuple(map(str, labels)), np.asarray(gaps, dtype=float)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **options: Any) -> ContrastsDisplay:
        """Draw the contrasts of a fitted estimator; `ax` and options as for `plot`."""
        return cls.from_table(estimator.contrasts_, ax=ax, **options)

    @classmethod
    def from_table(cls, table: Any, *, ax: Any = None, **options: Any) -> ContrastsDisplay:
        """Draw a table of contrasts, as `contrasts_` of an estimator; options as for `plot`."""
        if not len(table["attribute"]):
            raise InvalidInputError("there are no contrasts to draw: the fit had no groups.")
        gaps = np.array([table[name] for name in _COLUMNS], dtype=float).T
        labels = [
            label(row["attribute"], row["positive"], row["negative"], row["stratum"])
            for row in records(table)
        ]
        return cls(labels, gaps).plot(ax, **options)

    def plot(self, ax: Any = None, *, max_rows: int = 30) -> ContrastsDisplay:
        """Draw the gaps, those that are largest afterwards first.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw: its place is divided. A new figure without it.
        max_rows : int, default 30
            Contrasts to draw one by one; of the others the largest values stand in a last row.
        """
        labels, gaps = self._shown(max_rows)
        size = (4.6 + min(0.075 * max(map(len, labels)), 4.5), 1.5 + 0.3 * len(labels))
        with self._panels(ax, size, 1, 2, wspace=0.04) as places:
            for index, (place, name) in enumerate(zip(places, _MEASURES, strict=True)):
                panel = self.axes_[name] = places.figure.add_subplot(place)
                _heat(panel, gaps[:, 2 * index : 2 * index + 2])
                panel.set_title(name)
                panel.set_xticks([0, 1], ["features", "components"])
                panel.set_yticks(np.arange(len(labels)), labels if index == 0 else [])
                panel.tick_params(length=0)
                panel.spines[:].set_visible(False)
        return self

    def _shown(self, max_rows: int) -> tuple[list[str], NDArray[Any]]:
        """Labels and gaps of the rows drawn, with one for all that are left out."""
        after = np.nan_to_num(self.gaps[:, [3, 1, 2, 0]], nan=-1.0)
        order = np.lexsort(-after.T[::-1])
        first, rest = order[:max_rows], order[max_rows:]
        labels, gaps = [shorten(self.labels[index], 60) for index in first], self.gaps[first]
        if len(rest):
            filled = np.where(np.isnan(self.gaps[rest]), -np.inf, self.gaps[rest]).max(axis=0)
            gaps = np.vstack([gaps, np.where(np.isinf(filled), np.nan, filled)])
            labels.append(f"largest of {len(rest)} others")
        return labels, gaps


def _heat(ax: Any, gaps: Any) -> None:
    """Draw two columns of gaps, each cell with its value."""
    from matplotlib import colormaps

    top = np.nanmax(gaps, initial=0.0) or 1.0
    shades = colormaps[SHADES].with_extremes(bad="0.93")
    ax.imshow(gaps, cmap=shades, vmin=0.0, vmax=top, aspect="auto", interpolation="none")
    ax.set_yticks(np.arange(1, len(gaps)) - 0.5, minor=True)
    ax.set_xticks([0.5], minor=True)
    ax.grid(which="minor", color="white", linewidth=1.5)
    for (row, column), value in np.ndenumerate(gaps):
        dark = np.isfinite(value) and value > 0.55 * top
        style = {"ha": "center", "va": "center", "color": "white" if dark else "0.1"}
        ax.text(column, row, number(value, top), **style)


class GroupLossDisplay(Display):
    """Variance that each group loses against components fitted to it alone, before and after.

    Parameters
    ----------
    labels : sequence of str
        Names of the groups.
    losses : dict of str to array-like
        Losses of the groups, for each of the bases that are compared.

    See Also
    --------
    fairpca.metrics.group_loss : The figures.

    Examples
    --------
    >>> from fairpca import FairPCA
    >>> from fairpca.datasets import load_diabetes_sex
    >>> from fairpca.report import GroupLossDisplay
    >>> diabetes = load_diabetes_sex()
    >>> X, sex = diabetes.data, diabetes.sensitive_features
    >>> fair = FairPCA(2, objective="worst-loss").fit(X, sensitive_features=sex)
    >>> GroupLossDisplay.from_estimator(fair).labels
    ('sex 1 (235)', 'sex 2 (207)')
    """

    def __init__(self, labels: Any, losses: Any) -> None:
        self.labels = tuple(map(str, labels))
        self.losses = {str(name): np.asarray(values, float) for name, values in losses.items()}

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> GroupLossDisplay:
        """Draw the losses of a fitted `FairPCA`, and those of plain components of its moments."""
        check_moments(estimator, "this picture of the groups")
        moments = estimator.moments_
        if estimator.scale_ is not None:
            moments = moments.standardized((estimator.mean_, estimator.scale_))
        groups = moments.expanded().group_covariances(estimator.joint)
        plain = plain_model(estimator, moments=moments)
        best = groups.best(len(estimator.components_))
        losses = {
            name: groups.as_table(model.components_.T, best)["loss"]
            for name, model in (("plain PCA", plain), ("fair PCA", estimator))
        }
        labels = [
            f"{label('', name, '', stratum)} ({n})"
            for name, stratum, n in zip(groups.groups, groups.strata, groups.n_rows, strict=True)
        ]
        return cls(labels, losses).plot(ax)

    def plot(self, ax: Any = None) -> GroupLossDisplay:
        """Draw a bar for each group and basis; the line is the largest loss of each basis."""
        places, count = np.arange(len(self.labels)), len(self.losses)
        colours = (PLAIN, FAIR, *(f"C{k}" for k in range(2, 2 + count)))
        with self._canvas(ax, (2.6 + 0.9 * len(self.labels), 3.6)) as ax:
            for index, (name, values) in enumerate(self.losses.items()):
                shift = (index - 0.5 * (count - 1)) * 0.8 / count
                style = {"color": colours[index], "hatch": "//" if index == 0 else None}
                ax.bar(places + shift, values, 0.76 / count, label=name, **style)
                ax.axhline(values.max(), color=colours[index], linewidth=1, linestyle="--")
            ax.set_xticks(places, [text.replace(" × ", " ×\n") for text in self.labels])
            ax.set_ylabel("loss of variance")
            ax.tick_params(axis="x", length=0)
            ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
        return self
