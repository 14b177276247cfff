"""FairPCACV: FairPCA whose tolerances are chosen by gaps on held-out rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from numbers import Integral, Real
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from fairpca._choices import PENALTIES
from fairpca.estimators._base import FairnessEstimator
from fairpca.estimators._comparison import FIGURES, TARGET, measure_held_out, plain_of
from fairpca.estimators._fair_pca import FairPCA
from fairpca.estimators._sklearn import (
    AT_LEAST_ONE,
    NON_NEGATIVE,
    Interval,
    fit_context,
    fit_task,
    one_of,
    propagate_callbacks,
    report_step,
    with_callbacks,
)
from fairpca.exceptions import InfeasibleError, InvalidInputError
from fairpca.linalg import Array
from fairpca.moments import FoldedMoments
from fairpca.moments._held_out import HeldOutGap
from fairpca.rows import Rows

Figures: TypeAlias = dict[str, HeldOutGap]
_ROUNDING = 1e-7  # of the largest held-out figure: batches round otherwise than rows in memory


class FairPCACV(FairnessEstimator):
    """FairPCA with tolerances, penalties and a number of components chosen on held-out rows.

    `FairPCA` needs moments only, so one pass over the rows gives the moments of every fold, and
    every setting is fitted to all folds but one and measured on that one without touching the rows
    again. The fold of a row follows from its values: batches, files, Dask and Spark give the same
    result, and copies of a row are in the same fold.

    Parameters
    ----------
    n_components : int or sequence of int, default=2
        Numbers of components to try.
    mean_tols : sequence of float or None, default=(0.0,)
        Values of `FairPCA(mean_tol=…)` to try.
    cov_weights : sequence of float, default=None
        Values of `cov_weight` to try; without `cov_tols` None stands for 0, 0.1, 0.3, 1, 3 and 10.
    cov_tols : sequence of float, default=None
        Values of `cov_tol` to try; with `cov_weights` as well, each is tried without the other.
    target_weights : sequence of float, default=None
        Values of `target_weight` to try, which need y. If one is above 0, the setting is chosen
        by the held-out R² of y instead of the variance.
    estimator : FairPCA or None, default=None
        Has all other parameters, such as ``FairPCA(standardize=True)``; None: the defaults. Scales
        are learned without the fold that is held out.
    folds : int, default=5
        Number of folds.
    figure : {"gaussian_bound", "mean_gap", "cov_gap"}, default="gaussian_bound"
        What is to be small on held-out rows.
    at_most : float or None, default=None
        Largest value of `figure` on held-out rows; among the settings that keep to it the one with
        the largest held-out variance is chosen. None: among the settings whose figure is within
        one standard error of the smallest.

    Attributes
    ----------
    cv_results_ : dict
        One entry for each setting: ``params``, ``param_…``, ``mean_test_…`` and ``error_test_…``
        (one standard error) of ``mean_gap``, ``cov_gap``, ``variance`` and ``gaussian_bound`` on
        held-out rows, the same by fold as ``split0_test_…``, those of plain PCA with as many
        components as ``plain_test_…``, and ``status``, which says why a setting could not be
        measured (gaps are infinite there). The gaps are without the noise of the folds: the root
        of the average of their squares less that noise, which may be negative on a single fold
        and has the sign there. The Gaussian bound has the noise. With a target also
        ``target_r2``, the share of the variance of y that the components explain.
    best_index_ : int
        The setting that was chosen.
    best_params_ : dict
        Its parameters.
    best_estimator_ : FairPCA
        Fitted to all rows with them.
    components_, mean_, explained_variance_, certificate_, …
        Every fitted attribute of `best_estimator_`.

    See Also
    --------
    FairPCA : One setting.
    fairpca.metrics.FairScorer : The same choice by GridSearchCV.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.estimators import FairPCACV
    >>> rng = np.random.default_rng(0)
    >>> sex = rng.integers(0, 2, 600)
    >>> X = rng.normal(size=(600, 5)) + np.outer(sex, np.arange(5))
    >>> chosen = FairPCACV(mean_tols=(0.0, None), cov_weights=(0, 1)).fit(X, sensitive_features=sex)
    >>> chosen.best_params_["mean_tol"], len(chosen.cv_results_["params"])
    (0.0, 4)
    """

    best_estimator_: FairPCA

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [AT_LEAST_ONE, "array-like"],
        "mean_tols": ["array-like"],
        "cov_weights": ["array-like", None],
        "cov_tols": ["array-like", None],
        "target_weights": ["array-like", None],
        "estimator": [FairPCA, None],
        "folds": [Interval(Integral, 2, 100, closed="both")],
        "figure": [one_of({"gaussian_bound", "mean_gap", "cov_gap"})],
        "at_most": [NON_NEGATIVE, None],
    }

    def __init__(
        self,
        n_components: int | Sequence[int] = 2,
        *,
        mean_tols: Sequence[float | None] = (0.0,),
        cov_weights: Sequence[float] | None = None,
        cov_tols: Sequence[float] | None = None,
        target_weights: Sequence[float] | None = None,
        estimator: FairPCA | None = None,
        folds: int = 5,
        figure: str = "gaussian_bound",
        at_most: float | None = None,
    ) -> None:
        self.n_components = n_components
        self.mean_tols = mean_tols
        self.cov_weights = cov_weights
        self.cov_tols = cov_tols
        self.target_weights = target_weights
        self.estimator = estimator
        self.folds = folds
        self.figure = figure
        self.at_most = at_most

    @fit_context
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        control_features: Any = None,
        sample_weight: Any = None,
        units: Any = None,
    ) -> Self:
        """Choose and fit from rows; return the estimator.

        Parameters
        ----------
        X, y, sensitive_features, control_features, sample_weight
            As in `FairPCA.fit`.
        units : array-like of shape (n_samples,), or a name, default=None
            Persons, sites or households: rows of one unit stay together in folds.
        """
        settings, weight = self._settings(), self._largest_target_weight()
        reader = self._new_estimator(target_weight=weight)
        parts = (sensitive_features, control_features, sample_weight, units)
        rows: list[Rows] = []
        folded = reader._sum_rows(X, *parts, folds=self.folds, keep=rows, y=y)
        self._choose(folded, settings, getattr(reader, "other_columns_", ()))
        if rows:
            self.best_estimator_._set_dtype(rows[0])
            self.components_ = self.best_estimator_.components_
        return self

    @fit_context
    def fit_moments(self, moments: FoldedMoments) -> Self:
        """Choose and fit from moments by fold, without any rows.

        Parameters
        ----------
        moments : FoldedMoments
            From `moments_from_files(…, folds=5)` and its like, or the sum of many batches.
        """
        if not isinstance(moments, FoldedMoments):
            raise InvalidInputError(
                f"moments is a {type(moments).__name__}; pass FoldedMoments, which every "
                "moments_from_… returns with folds=5, or rows to fit()."
            )
        return self._choose(moments, self._settings())

    def transform(self, X: Any) -> Any:
        """Return the component scores of `best_estimator_`; X is as for `FairPCA.transform`."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.transform(X)

    def inverse_transform(self, X: Any) -> Any:
        """Return the points that have these scores, as `FairPCA.inverse_transform`."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.inverse_transform(X)

    def to_sklearn(self) -> Any:
        """Return a plain `sklearn.decomposition.PCA`, as `FairPCA.to_sklearn`."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.to_sklearn()

    def get_covariance(self) -> Array:
        """Return the covariance of rows under the model of `best_estimator_`."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.get_covariance()

    def get_precision(self) -> Array:
        """Return the inverse of `get_covariance`."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.get_precision()

    def score_samples(self, X: Any) -> Array:
        """Return the log-likelihood of each row; X is as for `FairPCA.score_samples`."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.score_samples(X)

    def score(self, X: Any, y: Any = None) -> float:
        """Return the average log-likelihood of the rows, as `FairPCA.score`."""
        return float(np.mean(self.score_samples(X)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._new_estimator().missing != "error"
        tags.target_tags.required = self._largest_target_weight() > 0
        return tags

    def _largest_target_weight(self) -> float:
        own = 0.0 if self.estimator is None else self.estimator.target_weight
        return float(own if self.target_weights is None else max(self.target_weights, default=0.0))

    def _new_estimator(self, **parameters: Any) -> FairPCA:
        estimator = FairPCA() if self.estimator is None else clone(self.estimator)
        return estimator.set_params(**parameters)

    @with_callbacks
    def _choose(
        self, folded: FoldedMoments, settings: list[dict[str, Any]], others: Sequence[str] = ()
    ) -> Self:
        """Measure every setting, and fit the best one to all rows."""
        with fit_task(self, len(settings) + 1) as context:
            measured, plain, status, shares = [], [], [], []
            names = (*FIGURES, TARGET) if folded.cells.targets else FIGURES
            plain_by_size: dict[Any, Figures] = {}
            for setting in settings:
                model, size = self._new_estimator(**setting), setting["n_components"]
                try:
                    held_out = measure_held_out(model, folded)
                    shares.append(held_out.shares())
                    measured.append(held_out.figures())
                    status.append("")
                except InfeasibleError as error:
                    shares.append({})
                    measured.append(_worst(len(folded.folds), names))
                    status.append(f"infeasible: {error}")
                if size not in plain_by_size:
                    plain_by_size[size] = measure_held_out(plain_of(model), folded).figures()
                plain.append(plain_by_size[size])
                report_step(self, context, "setting", setting)
            self.cv_results_ = _as_table(settings, measured, plain, status)
            self.best_index_ = self._best(status)
            self.best_params_ = settings[self.best_index_]
            best = self._new_estimator(**self.best_params_)
            with propagate_callbacks(self, context, "refit", best):
                self.best_estimator_ = best.fit_moments(folded.total)
            if best.target_information_ is not None:
                best.target_information_["held_out"] = shares[self.best_index_]
        best._set_other_columns(others)
        for name, value in vars(best).items():
            if name.endswith("_"):
                setattr(self, name, value)
        return self

    def _settings(self) -> list[dict[str, Any]]:
        """List the settings to try."""
        both = self.cov_tols is not None and self.cov_weights is not None
        grid: dict[str, Any] = {
            "n_components": np.atleast_1d(self.n_components).tolist(),
            "mean_tol": self.mean_tols,
        }
        if self.cov_tols is not None:
            grid["cov_tol"] = self.cov_tols
        if self.cov_weights is not None or self.cov_tols is None:
            grid["cov_weight"] = PENALTIES if self.cov_weights is None else self.cov_weights
        if self.target_weights is not None:
            grid["target_weight"] = self.target_weights
        for parameter, values in grid.items():
            name = parameter if parameter == "n_components" else f"{parameter}s"
            wrong = [value for value in values if not (value is None or isinstance(value, Real))]
            if wrong or not len(values):
                problem = f"{name} holds {wrong[0]!r}" if wrong else "there is no setting to try"
                raise InvalidInputError(f"{problem}: give numbers in {name}.", parameter=name)
        if both:  # each without the other
            grid |= {name: [*grid[name], None] for name in ("cov_weight", "cov_tol")}
        settings = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
        if both:
            settings = [s for s in settings if (s["cov_weight"] is None) != (s["cov_tol"] is None)]
        for setting in settings:
            self._new_estimator(**setting)._validate_params()
        return settings

    def _best(self, status: Sequence[str]) -> int:
        """Return the position of the setting with most variance among those that are fair."""
        table = self.cv_results_
        means, error = table[f"mean_test_{self.figure}"], table[f"error_test_{self.figure}"]
        feasible = np.array([not reason for reason in status])
        if not feasible.any():
            raise InfeasibleError(f"no setting can be met on every fold; {status[0]}")
        limit = self.at_most
        if limit is None:
            smallest = _first_largest(np.where(feasible, -means, -np.inf))
            limit = (1.0 + _ROUNDING) * (means[smallest] + error[smallest])
        allowed = feasible & (means <= limit)
        if not allowed.any():
            raise InfeasibleError(
                f"at_most={limit:g} is not reached: the smallest {self.figure} on held-out rows "
                f"is {means[feasible].min():.4g}.",
                float(means[feasible].min()),
                parameter="at_most",
            )
        kept = TARGET if self._largest_target_weight() > 0 else "variance"
        return _first_largest(np.where(allowed, table[f"mean_test_{kept}"], -np.inf))


def _first_largest(values: Array) -> int:
    """Return the place of the largest value; rounding does not decide between equal ones."""
    scale = np.abs(values[np.isfinite(values)]).max(initial=0.0)
    return int(np.argmax(values >= values.max() - _ROUNDING * scale))


def _worst(n_folds: int, names: Sequence[str]) -> Figures:
    """Figures of a setting that cannot be met."""
    gap, nothing = (HeldOutGap(value, 0.0, (value,) * n_folds) for value in (math.inf, 0.0))
    return {name: nothing if name in ("variance", TARGET) else gap for name in names}


def _as_table(
    settings: list[dict[str, Any]], measured: list[Figures], plain: list[Figures], status: list[str]
) -> dict[str, Any]:
    """Arrange the statistics of every setting as scikit-learn arranges scores."""
    table: dict[str, Any] = {"params": settings, "status": status}
    for name in settings[0]:
        table[f"param_{name}"] = np.array([setting[name] for setting in settings], dtype=object)
    for name in measured[0]:
        table[f"mean_test_{name}"] = np.array([figures[name].value for figures in measured])
        table[f"error_test_{name}"] = np.array([figures[name].error for figures in measured])
        table[f"plain_test_{name}"] = np.array([figures[name].value for figures in plain])
        for split in range(len(measured[0]["variance"].by_fold)):
            values = [figures[name].by_fold for figures in measured]
            table[f"split{split}_test_{name}"] = np.array(
                [folds[split] if split < len(folds) else math.inf for folds in values]
            )
    return table
