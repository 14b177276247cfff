"""How much variance the components keep."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from fairpca._look import BOUND, FAIR, PLAIN, draw_on, look
from fairpca.report.displays._base import Display, plain_model


class ScreeDisplay(Display):
    """Variance kept by the components, one after the other, plain and fair, with its bound.

    The bound is on all components together: no basis of as many components with gaps no larger
    than those found keeps more on the rows that were fitted.

    Parameters
    ----------
    fair : ndarray of shape (d,)
        Share of the variance that each fair component keeps.
    plain : ndarray of shape (d,) or None
        The same of plain components.
    bound : float or None
        Largest share that the components together could keep.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.

    Examples
    --------
    >>> from fairpca import FairPCA
    >>> from fairpca.datasets import load_diabetes_sex
    >>> from fairpca.report import ScreeDisplay
    >>> diabetes = load_diabetes_sex()
    >>> fair = FairPCA(3).fit(diabetes.data, sensitive_features=diabetes.sensitive_features)
    >>> display = ScreeDisplay.from_estimator(fair)
    >>> bool(display.fair.sum() <= display.bound <= display.plain.sum() + 1e-9)
    True
    """

    def __init__(
        self,
        fair: NDArray[Any],
        plain: NDArray[Any] | None = None,
        bound: float | None = None,
    ) -> None:
        self.fair, self.plain, self.bound = fair, plain, bound

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        *,
        sensitive_features: Any = None,
        plain: Any = None,
        ax: Any = None,
        **options: Any,
    ) -> ScreeDisplay:
        """Draw the variance of a fitted estimator.

        Parameters
        ----------
        estimator : FairPCA, FairKernelPCA or DeltaFairPCA
            Fitted.
        X, sensitive_features : array-like, optional
            Rows for plain components, where the estimator kept no moments.
        plain : fitted PCA, optional
            Plain components; None: of the fitted rows.
        ax : matplotlib Axes, optional
            Where to draw; a new figure without it.
        **options
            As for `plot`.

        Returns
        -------
        ScreeDisplay
            The display, drawn.
        """
        check_is_fitted(estimator)
        if plain is None:
            plain = plain_model(estimator, X, sensitive_features)
        before = None if plain is None else np.asarray(plain.explained_variance_ratio_)
        fair = np.asarray(estimator.explained_variance_ratio_)
        return cls(fair, before, variance_bound(estimator)).plot(ax, **options)

    def plot(self, ax: Any = None, *, cumulative: bool = True) -> ScreeDisplay:
        """Draw shares of the variance.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure without it.
        cumulative : bool, default True
            Whether lines of the variance kept so far, and its bound, are drawn over the bars.

        Returns
        -------
        ScreeDisplay
            The display.
        """
        with look():
            ax = draw_on(ax, (6.4, 4.2))
            count = np.arange(1, len(self.fair) + 1)
            both = self.plain is not None
            if self.plain is not None:
                ax.bar(count - 0.19, 100 * self.plain, 0.36, facecolor="0.88", edgecolor=PLAIN,
                       hatch="///", linewidth=0.8, label="plain PCA")  # fmt: skip
            ax.bar(count + 0.19 * both, 100 * self.fair, 0.36, color=FAIR, label="fair")
            if cumulative:
                self._draw_sums(ax, count)
            ax.set_xticks(count)
            ax.set_xlim(0.4, count[-1] + 0.6)
            ax.set(xlabel="component", ylabel="share of the variance, %")
            ax.set_title("Variance kept")
            ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
        return self._drawn(ax)

    def _draw_sums(self, ax: Any, count: Any) -> None:
        if self.plain is not None:
            sums = 100 * np.cumsum(self.plain)
            ax.plot(count, sums, "s--", color=PLAIN, markersize=5, label="plain PCA, sum")
        ax.plot(
            count, 100 * np.cumsum(self.fair), "o-", color=FAIR, markersize=6, label="fair, sum"
        )
        if self.bound is not None:
            ends = (count[-1] - 0.4, count[-1] + 0.4)
            label = f"bound on the sum: {100 * self.bound:.1f} %"
            ax.hlines(100 * self.bound, *ends, color=BOUND, linestyle=":", linewidth=2, label=label)


def variance_bound(estimator: Any) -> float | None:
    """Largest share of the variance with gaps as small as those found, None where not known."""
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
