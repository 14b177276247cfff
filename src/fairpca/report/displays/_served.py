"""How well each group is served."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from fairpca._look import FAIR, PLAIN, draw_on, look
from fairpca.exceptions import InvalidInputError
from fairpca.report.displays._base import Display, plain_model


class GroupLossDisplay(Display):
    """What each group loses against its own best components, before and after.

    Parameters
    ----------
    labels : sequence of str
        Names of the groups.
    losses : dict of str to array-like
        Losses of the groups, for each of the bases that are compared.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it is drawn.

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
        """Draw the losses of a fitted estimator, and those of plain components of its moments.

        Parameters
        ----------
        estimator : FairPCA
            Fitted; its moments are needed.
        ax : matplotlib Axes, optional
            Where to draw; a new figure without it.

        Returns
        -------
        GroupLossDisplay
            The display, drawn.
        """
        check_is_fitted(estimator)
        moments = getattr(estimator, "moments_", None)
        if moments is None:
            raise InvalidInputError("the groups are known from moments, and this model has none.")
        if estimator.scale_ is not None:
            moments = moments.standardized((estimator.mean_, estimator.scale_))
        groups = moments.expanded().group_covariances(estimator.joint)
        plain = plain_model(estimator, moments=moments)
        best = groups.best(len(estimator.components_))
        losses = {
            name: groups.as_table(model.components_.T, best)["loss"]
            for name, model in (("plain PCA", plain), ("fair PCA", estimator))
        }
        names = [
            name if stratum is None else f"{name} | {stratum}"
            for name, stratum in zip(groups.groups, groups.strata, strict=True)
        ]
        labels = [f"{name} ({n})" for name, n in zip(names, groups.n_rows, strict=True)]
        return cls(labels, losses).plot(ax)

    def plot(self, ax: Any = None) -> GroupLossDisplay:
        """Draw a bar for each group and basis; the line is the worst of each basis.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure without it.

        Returns
        -------
        GroupLossDisplay
            The display.
        """
        places, count = np.arange(len(self.labels)), len(self.losses)
        colours = (PLAIN, FAIR, *(f"C{k}" for k in range(2, 2 + count)))
        with look():
            ax = draw_on(ax, (2.6 + 0.9 * len(self.labels), 3.6))
            for index, (name, values) in enumerate(self.losses.items()):
                shift = (index - 0.5 * (count - 1)) * 0.8 / count
                look_of = {"color": colours[index], "hatch": "//" if index == 0 else None}
                ax.bar(places + shift, values, 0.76 / count, label=name, **look_of)
                ax.axhline(values.max(), color=colours[index], linewidth=1, linestyle="--")
            ax.set_xticks(places, [label.replace(" × ", " ×\n") for label in self.labels])
            ax.set_ylabel("loss against own best")
            ax.tick_params(axis="x", length=0)
            ax.legend()
        return self._drawn(ax)
