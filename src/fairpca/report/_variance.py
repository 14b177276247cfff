"""Variance that the components keep, and the steps of their solve."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from fairpca._present import optimality, percent
from fairpca.exceptions import InvalidInputError
from fairpca.report._display import ACCENT, BOUND, FAIR, PLAIN, Display, plain_model, variance_bound


class ScreeDisplay(Display):
    """Variance kept by the components, one after the other, plain and fair, with its bound.

    The bound is on all components together: no basis of as many components with gaps no larger
    than these keeps more on the rows that were fitted.

    Parameters
    ----------
    fair : ndarray of shape (d,)
        Share of the variance that each fair component keeps.
    plain : ndarray of shape (d,) or None
        The same of plain components.
    bound : float or None
        Largest share that the components together could keep.

    See Also
    --------
    CertificateDisplay : Objective and bound, step by step.

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
        self, fair: NDArray[Any], plain: NDArray[Any] | None = None, bound: float | None = None
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
        ax, **options
            As for `plot`.
        """
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
        """
        count = np.arange(1, len(self.fair) + 1)
        with self._canvas(ax, (6.4, 4.2)) as ax:
            shift = 0.0
            if self.plain is not None:
                shift = 0.19
                ax.bar(count - shift, 100 * self.plain, 0.36, facecolor="0.88", edgecolor=PLAIN,
                       hatch="///", linewidth=0.8, label="plain PCA")  # fmt: skip
            ax.bar(count + shift, 100 * self.fair, 0.36, color=FAIR, label="fair")
            if cumulative:
                self._draw_sums(ax, count)
            ax.set_xticks(count)
            ax.set_xlim(0.4, count[-1] + 0.6)
            ax.set(xlabel="component", ylabel="share of the variance, %")
            ax.set_title("Variance kept")
            ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
        return self

    def _draw_sums(self, ax: Any, count: Any) -> None:
        if self.plain is not None:
            sums = 100 * np.cumsum(self.plain)
            ax.plot(count, sums, "s--", color=PLAIN, markersize=5, label="plain PCA, sum")
        sums = 100 * np.cumsum(self.fair)
        ax.plot(count, sums, "o-", color=FAIR, markersize=6, label="fair, sum")
        if self.bound is not None:
            ends = (count[-1] - 0.4, count[-1] + 0.4)
            label = f"bound on the sum: {percent(self.bound)}"
            ax.hlines(100 * self.bound, *ends, color=BOUND, linestyle=":", linewidth=2, label=label)


class SolveHistory:
    """A callback that keeps the state of the solve after every step.

    Attributes
    ----------
    steps : list of dict
        stage ("basis" or "bound"), iteration, objective, bound and gap of each step.

    See Also
    --------
    CertificateDisplay : Draws it.

    Examples
    --------
    >>> from fairpca import FairPCA
    >>> from fairpca.datasets import load_diabetes_sex
    >>> from fairpca.report import SolveHistory
    >>> diabetes, history = load_diabetes_sex(), SolveHistory()
    >>> X, sex = diabetes.data, diabetes.sensitive_features
    >>> fair = FairPCA(2).set_callbacks(history).fit(X, sensitive_features=sex)
    >>> history.steps[0]["stage"], history.steps[0]["iteration"]
    ('basis', 1)
    """

    max_propagation_depth = None  # pipelines and searches hand it on to what they fit

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []

    def setup(self, estimator: Any, context: Any) -> None:
        """Forget an earlier fit."""
        self.steps = []

    def on_fit_task_begin(self, estimator: Any, context: Any, **details: Any) -> None:
        """Nothing is known before a step."""

    def on_fit_task_end(
        self, estimator: Any, context: Any, *, metadata: Any = None, **details: Any
    ) -> None:
        """Keep one step."""
        if metadata and "bound" in metadata:
            self.steps.append({"stage": context.task_name, **metadata})

    def teardown(self, estimator: Any, context: Any) -> None:
        """Nothing is left to do after a fit."""


class CertificateDisplay(Display):
    """Objective and proven bound over the steps of a solve.

    Parameters
    ----------
    steps : list of dict
        As `SolveHistory.steps`.
    certificate : Certificate or None
        What the solve ended with.

    See Also
    --------
    SolveHistory : Keeps the steps that it draws.
    fairpca.Certificate : What is proven.

    Examples
    --------
    >>> from fairpca import FairPCA
    >>> from fairpca.datasets import load_diabetes_sex
    >>> from fairpca.report import CertificateDisplay
    >>> diabetes = load_diabetes_sex()
    >>> display = CertificateDisplay.from_estimator(
    ...     FairPCA(2), diabetes.data, sensitive_features=diabetes.sensitive_features
    ... )
    >>> display.steps[-1]["bound"] >= display.certificate.objective
    True
    """

    def __init__(self, steps: list[dict[str, Any]], certificate: Any = None) -> None:
        self.steps, self.certificate = list(steps), certificate

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, *, ax: Any = None, **fit_params: Any
    ) -> CertificateDisplay:
        """Fit a copy of an estimator, and draw the steps of its solve.

        Parameters
        ----------
        estimator : FairPCA or FairKernelPCA
            Fitted or not; it is not changed.
        X, **fit_params
            Rows, sensitive_features and the other arguments of `fit`.
        ax : matplotlib Axes, optional
            Where to draw; a new figure without it.
        """
        history = SolveHistory()
        fitted = clone(estimator).set_callbacks(history).fit(X, **fit_params)
        return cls(history.steps, fitted.certificate_).plot(ax)

    @classmethod
    def from_history(
        cls, history: SolveHistory, certificate: Any = None, *, ax: Any = None
    ) -> CertificateDisplay:
        """Draw the steps that a callback has kept, and `certificate_` of the fitted estimator."""
        return cls(history.steps, certificate).plot(ax)

    def plot(self, ax: Any = None) -> CertificateDisplay:
        """Draw the steps on `ax`, or on a new figure."""
        if not self.steps:
            raise InvalidInputError(
                "there are no steps to draw: the problem was solved exactly, without iterations "
                "(for instance with cov_weight=0)."
            )
        with self._canvas(ax, (7.0, 4.2)) as ax:
            self._draw_steps(ax)
            self._draw_end(ax, len(self.steps))
            ax.xaxis.get_major_locator().set_params(integer=True)
            ax.set(xlabel="step", ylabel="variance less penalty of the gap")
            ax.set_title("Objective and bound during the solve")
            ax.legend(loc="best")
        return self

    def _draw_steps(self, ax: Any) -> None:
        """Draw what was tried, and the best of it so far."""
        bound, tried = self._series("bound", "bound"), self._series("objective", "basis")
        relaxed, place = self._series("objective", "bound"), np.arange(1, len(self.steps) + 1)
        steps = {"drawstyle": "steps-post", "linewidth": 1.6}
        if np.isfinite(bound).any():
            least = np.fmin.accumulate(bound)
            ax.plot(place, least, "--", color=BOUND, label="bound, proven so far", **steps)
            ax.plot(place, relaxed, ":", color="0.5", label="relaxed objective")
        if np.isfinite(tried).any():
            best = np.fmax.accumulate(tried)
            ax.plot(place, best, "-", color=FAIR, label="objective, best so far", **steps)
            ax.plot(place, tried, "o", color=FAIR, markersize=4, alpha=0.6, label="bases tried")

    def _series(self, name: str, stage: str) -> Any:
        """Figures of the steps of one stage, NaN at those of the other."""
        figures = [step[name] if step["stage"] == stage else np.nan for step in self.steps]
        values = np.array(figures, dtype=float)
        return np.where(np.isfinite(values), values, np.nan)

    def _draw_end(self, ax: Any, last: float) -> None:
        """Mark what is left between the basis and its bound."""
        if self.certificate is None:
            return
        bound, objective = self.certificate.bound, self.certificate.objective
        label = f"basis returned: {optimality(self.certificate.gap)}"
        ax.plot(last, objective, "*", color=ACCENT, markersize=12, label=label, zorder=4)
        ax.fill_between([1, last], objective, bound, color=ACCENT, alpha=0.12, linewidth=0)
