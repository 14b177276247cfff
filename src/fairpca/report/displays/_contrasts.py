"""What is left of every contrast."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from fairpca._look import SHADES, look, split
from fairpca.exceptions import InvalidInputError
from fairpca.report.displays._base import Display

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

    Attributes
    ----------
    axes_ : dict of str to matplotlib Axes
        The panels of "mean gap" and "covariance gap".
    ax_, figure_ : matplotlib Axes and Figure
        The first panel, and the figure.

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

    axes_: dict[str, Any]

    def __init__(self, labels: Any, gaps: NDArray[Any]) -> None:
        self.labels, self.gaps = tuple(map(str, labels)), np.asarray(gaps, dtype=float)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **options: Any) -> ContrastsDisplay:
        """Draw the contrasts of a fitted estimator.

        Parameters
        ----------
        estimator : FairPCA, FairKernelPCA or DeltaFairPCA
            Fitted.
        ax : matplotlib Axes, optional
            Where to draw; a new figure without it.
        **options
            As for `plot`.

        Returns
        -------
        ContrastsDisplay
            The display, drawn.
        """
        check_is_fitted(estimator)
        return cls.from_table(estimator.contrasts_, ax=ax, **options)

    @classmethod
    def from_table(cls, table: Any, *, ax: Any = None, **options: Any) -> ContrastsDisplay:
        """Draw a table of contrasts.

        Parameters
        ----------
        table : dict of lists
            As `contrasts_` of an estimator.
        ax, **options
            As for `from_estimator`.

        Returns
        -------
        ContrastsDisplay
            The display, drawn.
        """
        count = len(table["attribute"])
        if not count:
            raise InvalidInputError("there are no contrasts to draw: the fit had no groups.")
        gaps = np.array([table[name] for name in _COLUMNS], dtype=float).T
        labels = [_label({name: table[name][i] for name in table}) for i in range(count)]
        return cls(labels, gaps).plot(ax, **options)

    def plot(self, ax: Any = None, *, max_rows: int = 30) -> ContrastsDisplay:
        """Draw the gaps, those that are largest afterwards first.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw: its place is divided. A new figure without it.
        max_rows : int, default 30
            Contrasts to draw one by one; of the others the largest values stand in a last row.

        Returns
        -------
        ContrastsDisplay
            The display.
        """
        labels, gaps = self._shown(max_rows)
        width = min(0.075 * max(map(len, labels)), 4.5)
        self.axes_ = {}
        with look():
            places = split(ax, (4.6 + width, 1.5 + 0.3 * len(labels)), 1, 2, wspace=0.04)
            for index, (place, name) in enumerate(zip(places, _MEASURES, strict=True)):
                panel = places.figure.add_subplot(place)
                _heat(panel, gaps[:, 2 * index : 2 * index + 2])
                panel.set_title(name)
                panel.set_xticks([0, 1], ["features", "components"])
                panel.set_yticks(np.arange(len(labels)), labels if index == 0 else [])
                panel.tick_params(length=0)
                panel.spines[:].set_visible(False)
                self.axes_[name] = panel
        return self._drawn(self.axes_[_MEASURES[0]])

    def _shown(self, max_rows: int) -> tuple[list[str], NDArray[Any]]:
        """Labels and gaps of the rows drawn, with one for all that are left out."""
        after = np.nan_to_num(self.gaps[:, [3, 1, 2, 0]], nan=-1.0)
        order = np.lexsort(-after.T[::-1])
        first, rest = order[:max_rows], order[max_rows:]
        labels, gaps = [_short(self.labels[index]) for index in first], self.gaps[first]
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
        text = _digits(value)
        ax.text(column, row, text, ha="center", va="center", color="white" if dark else "0.1")


def _digits(value: float) -> str:
    if not np.isfinite(value):
        return "–"
    return "0" if abs(value) < 1e-9 else f"{value:.2f}" if value >= 0.005 else f"{value:.0e}"


def _short(label: str) -> str:
    return label if len(label) <= 60 else label[:59] + "…"


def _label(row: dict[str, Any]) -> str:
    sides = f"{row['positive']} vs {row['negative']}" if row["negative"] else row["positive"]
    stratum = f" | {row['stratum']}" if row["stratum"] else ""
    return f"{row['attribute']}: {sides}{stratum}"
