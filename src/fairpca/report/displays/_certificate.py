"""How a basis and its bound were found."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from fairpca._look import ACCENT, BOUND, FAIR, draw_on, look
from fairpca.exceptions import InvalidInputError
from fairpca.report.displays._base import Display


class SolveHistory:
    """A callback that keeps where the solve stood after every step.

    Attributes
    ----------
    steps : list of dict
        stage ("basis" or "bound"), iteration, objective, bound and gap of each step.

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
        """Forget what an earlier fit told."""
        self.steps = []

    def on_fit_task_begin(self, estimator: Any, context: Any, **given: Any) -> None:
        """Nothing is known before a step."""

    def on_fit_task_end(
        self, estimator: Any, context: Any, *, metadata: Any = None, **given: Any
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

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.

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
        """Fit a copy of an estimator, and draw how it went.

        Parameters
        ----------
        estimator : FairPCA or FairKernelPCA
            Fitted or not; it is not changed.
        X : array-like of shape (n, p)
            Rows.
        ax : matplotlib Axes, optional
            Where to draw; a new figure without it.
        **fit_params
            sensitive_features and the other arguments of `fit`.

        Returns
        -------
        CertificateDisplay
            The display, drawn.
        """
        history = SolveHistory()
        fitted = clone(estimator).set_callbacks(history).fit(X, **fit_params)
        return cls.from_history(history, fitted.certificate_, ax=ax)

    @classmethod
    def from_history(
        cls, history: SolveHistory, certificate: Any = None, *, ax: Any = None
    ) -> CertificateDisplay:
        """Draw what a callback has kept.

        Parameters
        ----------
        history : SolveHistory
            The callback, after a fit.
        certificate : Certificate, optional
            `certificate_` of the fitted estimator.
        ax : matplotlib Axes, optional
            Where to draw; a new figure without it.

        Returns
        -------
        CertificateDisplay
            The display, drawn.
        """
        return cls(history.steps, certificate).plot(ax)

    def plot(self, ax: Any = None) -> CertificateDisplay:
        """Draw the steps.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure without it.

        Returns
        -------
        CertificateDisplay
            The display.
        """
        if not self.steps:
            raise InvalidInputError(
                "there are no steps to draw: the problem was solved exactly, without iterations "
                "(for instance with cov_weight=0)."
            )
        with look():
            ax = draw_on(ax, (7.0, 4.2))
            self._draw_steps(ax)
            self._draw_end(ax, len(self.steps))
            ax.xaxis.get_major_locator().set_params(integer=True)
            ax.set(xlabel="step", ylabel="variance less penalty of the gap")
            ax.set_title("How basis and bound were found")
            ax.legend(loc="best")
        return self._drawn(ax)

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
        found = [step[name] if step["stage"] == stage else np.nan for step in self.steps]
        values = np.array(found, dtype=float)
        return np.where(np.isfinite(values), values, np.nan)

    def _draw_end(self, ax: Any, last: float) -> None:
        """Mark what is left between the basis and its bound."""
        if self.certificate is None:
            return
        bound, objective = self.certificate.bound, self.certificate.objective
        label = f"basis returned: within {100 * self.certificate.gap:.2f} % of optimal"
        ax.plot(last, objective, "*", color=ACCENT, markersize=12, label=label, zorder=4)
        ax.fill_between([1, last], objective, bound, color=ACCENT, alpha=0.12, linewidth=0)
