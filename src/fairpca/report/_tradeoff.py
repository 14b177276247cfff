"""What fairness costs: variance kept against what is left of the groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import train_test_split
from sklearn.utils.validation import check_is_fitted

from fairpca._choices import PENALTIES
from fairpca._present import penalty_text
from fairpca.exceptions import InvalidInputError
from fairpca.metrics import cov_gap, delta_fairness, mean_gap
from fairpca.report._display import (
    ACCENT,
    BOUND,
    FAIR,
    PLAIN,
    Display,
    name_groups,
    plain_model,
    variance_bound,
)
from fairpca.rows import Rows
from fairpca.rows._checks import check_matrix


class _Point(NamedTuple):
    leakage: float
    variance: float


def _delta(family: str) -> Callable[[Any, Any], float]:
    return lambda U, groups: float(delta_fairness(U, groups, family=family, random_state=0))


_MEASURES: dict[str, tuple[str, Callable[[Any, Any], float]]] = {
    "mean_gap": ("mean gap", mean_gap),
    "cov_gap": ("covariance gap", cov_gap),
    "linear": ("Δ, linear classifiers", _delta("linear")),
    "rbf": ("Δ, Gaussian-kernel SVM", _delta("rbf")),
}


class TradeoffDisplay(Display):
    """Variance kept against what is left of the groups, along penalties.

    Parameters
    ----------
    leakage : ndarray of shape (k,)
        Gap or Δ at every penalty, on held-out rows.
    variance : ndarray of shape (k,)
        Share of the variance kept.
    penalty : ndarray of shape (k,)
        The penalties.
    measure : str, default "Δ"
        Name of what `leakage` is.
    error : ndarray of shape (k,), optional
        Standard errors of `leakage`.
    bound : ndarray of shape (k,), optional
        Largest share of the variance with gaps as small as these; NaN: not known.
    plain : tuple of two float, optional
        Leakage and variance of plain components.
    chosen : int, optional
        Position of the penalty that was chosen.
    chance : float, optional
        What `leakage` stays below when the group cannot be predicted.

    See Also
    --------
    fairpca.DeltaFairPCA, fairpca.FairPCACV : What find the penalties.

    Examples
    --------
    >>> from fairpca import FairPCA
    >>> from fairpca.datasets import load_diabetes_sex
    >>> from fairpca.report import TradeoffDisplay
    >>> diabetes = load_diabetes_sex()
    >>> X, sex = diabetes.data, diabetes.sensitive_features
    >>> display = TradeoffDisplay.from_penalties(
    ...     FairPCA(2), X, sensitive_features=sex, penalties=(0.0, 1.0, 10.0)
    ... )
    >>> bool(display.variance[0] > display.variance[-1]), display.measure
    (True, 'covariance gap')
    """

    def __init__(
        self,
        leakage: Any,
        variance: Any,
        penalty: Any,
        *,
        measure: str = "Δ",
        error: Any = None,
        bound: Any = None,
        plain: tuple[float, float] | None = None,
        chosen: int | None = None,
        chance: float | None = None,
    ) -> None:
        self.leakage, self.variance, self.penalty = map(_floats, (leakage, variance, penalty))
        self.measure = measure
        self.error = None if error is None else _floats(error)
        self.bound = None if bound is None else _floats(bound)
        self.plain = None if plain is None else _Point(*plain)
        self.chosen, self.chance = chosen, chance

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        *,
        sensitive_features: Any = None,
        control_features: Any = None,
        ax: Any = None,
        **options: Any,
    ) -> TradeoffDisplay:
        """Draw the path of a fitted `DeltaFairPCA`.

        Parameters
        ----------
        estimator : DeltaFairPCA
            Fitted. Δ is on held-out rows; with a fixed penalty the leakage is drawn.
        X, sensitive_features, control_features : array-like, optional
            The rows that were fitted: plain PCA is then measured in the same way.
        ax, **options
            As for `plot`.
        """
        check_is_fitted(estimator)
        path = getattr(estimator, "path_", None)
        if path is None:
            raise InvalidInputError(
                f"{type(estimator).__name__} has no path of penalties: use "
                "TradeoffDisplay.from_penalties.",
                parameter="estimator",
            )
        measured = path["delta"][0] is not None
        chosen = path["chosen"].index(True)
        bound = np.full(len(path["penalty"]), np.nan)
        bound[chosen] = variance_bound(estimator) or np.nan
        plain = None
        if X is not None and measured:
            plain = _plain_on_path(estimator, X, sensitive_features, control_features)
        return cls(
            path["delta"] if measured else path["leakage"],
            path["variance"],
            path["penalty"],
            measure=f"Δ, {estimator.family}" if measured else "leakage (R² of the adversary)",
            error=path["delta_error"] if measured else None,
            bound=bound,
            plain=plain,
            chosen=chosen,
            chance=estimator.delta_chance_ if measured else None,
        ).plot(ax, **options)

    @classmethod
    def from_penalties(
        cls,
        estimator: Any,
        X: Any,
        *,
        sensitive_features: Any,
        penalties: Sequence[float] = PENALTIES,
        measure: str | Callable[[Any, Any], float] = "cov_gap",
        test_size: float = 0.4,
        random_state: int = 0,
        ax: Any = None,
        **options: Any,
    ) -> TradeoffDisplay:
        """Fit along penalties of the covariance gap, and measure held-out rows.

        Parameters
        ----------
        estimator : FairPCA or FairKernelPCA
            Fitted or not; copies are fitted with every `cov_weight`.
        X, sensitive_features : array-like or data frame
            Rows and their groups.
        penalties : sequence of float
            Values of `cov_weight`.
        measure : {"cov_gap", "mean_gap", "linear", "rbf"} or callable, default "cov_gap"
            What is measured: a gap, Δ of a family, or a function of scores and groups.
        test_size : float, default 0.4
            Share of the rows that is held out, of every group.
        random_state : int, default 0
            Which rows.
        ax, **options
            As for `plot`.
        """
        if isinstance(measure, str):
            name, function = _MEASURES.get(measure, ("", None))
        else:
            name, function = getattr(measure, "__name__", "measure"), measure
        if function is None:
            raise InvalidInputError(
                f"measure must be one of {list(_MEASURES)} or a function, not {measure!r}.",
                parameter="measure",
            )
        codes = name_groups(sensitive_features, len(X))[1]
        train, test, z_train, z_test = train_test_split(
            X, sensitive_features, test_size=test_size, stratify=codes, random_state=random_state
        )
        points, bounds = [], []
        for penalty in penalties:
            fair = clone(estimator).set_params(cov_weight=penalty, cov_tol=None)
            fair.fit(train, sensitive_features=z_train)
            points.append(_measured(fair, test, z_test, function))
            bounds.append(variance_bound(fair) or np.nan)
        plain = _measured(plain_model(fair, train, z_train), test, z_test, function)
        leakage, variance = zip(*points, strict=True)
        drawn = cls(leakage, variance, penalties, measure=name, bound=bounds, plain=plain)
        return drawn.plot(ax, **options)

    def plot(self, ax: Any = None, *, penalties: bool = True) -> TradeoffDisplay:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure without it.
        penalties : bool, default True
            Whether each point gets its penalty.
        """
        with self._canvas(ax, (7.4, 4.4)) as ax:
            if self.chance is not None:
                ax.axvspan(
                    0.0, self.chance, color="0.93", linewidth=0, label="chance alone", zorder=0
                )
            if self.error is not None:
                ax.errorbar(self.leakage, 100 * self.variance, xerr=self.error, fmt="none",
                            ecolor="0.7", elinewidth=1, zorder=1)  # fmt: skip
            ax.plot(self.leakage, 100 * self.variance, "o-", color=FAIR, markersize=6, label="fair")
            self._draw_marks(ax)
            ax.margins(x=0.08, y=0.1)
            if penalties:
                self._write_penalties(ax)
            ax.set(xlabel=f"{self.measure}, held-out rows", ylabel="variance kept, %")
            ax.set_title("What fairness costs")
            ax.legend(loc="lower right")
        return self

    def _draw_marks(self, ax: Any) -> None:
        """Draw the bound, plain components and the penalty that was chosen."""
        if self.bound is not None and np.isfinite(self.bound).any():
            ax.plot(self.leakage, 100 * self.bound, "_", color=BOUND, markersize=13,
                    markeredgewidth=1.6, label="bound for such gaps")  # fmt: skip
        if self.plain is not None:
            ax.plot(self.plain.leakage, 100 * self.plain.variance, "s", color=PLAIN, markersize=8,
                    label="plain PCA")  # fmt: skip
        if self.chosen is not None:
            place = self.leakage[self.chosen], 100 * self.variance[self.chosen]
            ax.plot(*place, "*", color=ACCENT, markersize=15, label="chosen", zorder=4)

    def _write_penalties(self, ax: Any) -> None:
        """Write penalties next to points; those of points that coincide as a range."""
        points = np.column_stack([self.leakage, 100 * self.variance])
        scale = np.diff(np.array([ax.get_xlim(), ax.get_ylim()])).T[0]
        runs = [[0]]
        for index in range(1, len(points)):
            near = np.abs((points[index] - points[runs[-1][0]]) / scale).max() < 0.06
            runs[-1].append(index) if near else runs.append([index])
        for run in runs:
            ends = dict.fromkeys(penalty_text(self.penalty[index]) for index in (run[0], run[-1]))
            text = ("penalty " if run[0] == 0 else "") + " to ".join(ends)
            place = {"textcoords": "offset points", "color": "0.25", "fontsize": 8.5}
            ax.annotate(text, points[run].mean(axis=0), (8, -13), **place)


def _floats(values: Any) -> NDArray[np.float64]:
    return np.asarray(values, dtype=np.float64)


def _measured(model: Any, test: Any, groups: Any, function: Callable[[Any, Any], float]) -> _Point:
    leakage = float(function(np.asarray(model.transform(test)), groups))
    return _Point(leakage, float(np.sum(model.explained_variance_ratio_)))


def _plain_on_path(estimator: Any, X: Any, groups: Any, strata: Any) -> _Point | None:
    """Plain components, measured on the rows that were fitted by classifiers cross-fitted there."""
    from fairpca.adversary import form_targets
    from fairpca.estimators._path_delta import own_delta, trainer

    matrix = check_matrix(X)[0]
    if getattr(estimator, "scale_", None) is not None:
        matrix = matrix / estimator.scale_
    rows = Rows.attach(matrix, groups, strata, numeric=estimator.numeric or ())
    random = np.random.default_rng(0)
    sample = rows.sample(estimator.max_rows, random)
    targets, order = form_targets(sample, estimator._form_contrasts)
    sample, plain = sample.take(order), plain_model(estimator, X, groups)
    scores = np.asarray(sample.X @ plain.components_.T)
    train = trainer(estimator.family, 0)
    delta = own_delta(scores, sample, targets.binary(), train, random)
    if delta is None:  # groups too small to cut in two
        return None
    return _Point(delta.value, float(np.sum(plain.explained_variance_ratio_)))
