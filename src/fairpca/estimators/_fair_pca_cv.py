"""FairPCACV: FairPCA whose tolerances are chosen by figures of rows not fitted on."""

from __future__ import annotations

import math
import warnings
from itertools import product
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from sklearn.base import _fit_context, clone
from sklearn.callback import with_callbacks
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions

from fairpca.estimators._base import LinearEstimator
from fairpca.estimators._fair_pca import FairPCA
from fairpca.estimators._incomplete import summarise
from fairpca.estimators._watch import fit_task, handed_on, tell
from fairpca.exceptions import FairnessWarning, GroupsError, InfeasibleError, InvalidInputError
from fairpca.moments import FoldedMoments, GapStatistics, Standardization, gap_statistics

_PASSED = (
    "solver",
    "compare",
    "joint",
    "reference",
    "numeric",
    "min_group_size",
    "whiten",
    "tol",
    "max_iter",
    "standardize",
    "missing",
    "missing_groups",
)
_WORST = GapStatistics(math.inf, math.inf, 0.0, math.inf)


class FairPCACV(LinearEstimator):
    """FairPCA with tolerances, penalties and a number of components chosen by held-out figures.

    All that `FairPCA` knows it knows from moments, so one pass over the rows gives the moments of
    every fold, and every setting is fitted to all folds but one and measured on that one without
    touching the rows again. The fold of a row follows from its values: batches, files, Dask and
    Spark give the same result, and copies of a row are in the same fold.

    Parameters
    ----------
    n_components : int or sequence of int, default=2
        Numbers of components to try.
    mean_tols : sequence of float or None, default=(0.0,)
        Values of `FairPCA(mean_tol=…)` to try.
    cov_weights : sequence of float, default=None
        Values of `cov_weight` to try; without `cov_tols` None stands for 0, 0.1, 0.3, 1, 3 and 10.
    cov_tols : sequence of float, default=None
        Values of `cov_tol` to try, instead of penalties.
    folds : int, default=5
        Number of folds.
    figure : {"gaussian_bound", "mean_gap", "cov_gap"}, default="gaussian_bound"
        What is to be small on held-out rows.
    at_most : float or None, default=None
        Largest mean of `figure` over the folds; among the settings that keep to it the one with
        the largest held-out variance is chosen. None: among the settings whose figure is within
        one standard error of the smallest.
    solver, compare, joint, reference, numeric, min_group_size, certify, whiten, tol, max_iter
        As in `FairPCA`.
    standardize : bool or "famd", default=False
        As in `FairPCA`; the scale is learned without the fold that is held out.
    missing : {"error", "drop-rows", "mean"}, default="error"
        As in `FairPCA`; the mean is that of the rows of all folds.
    missing_groups, verbose
        As in `FairPCA`.

    Attributes
    ----------
    cv_results_ : dict
        One entry for each setting: ``params``, ``param_…``, ``mean_test_…`` and ``std_test_…`` of
        ``mean_gap``, ``cov_gap``, ``variance`` and ``gaussian_bound`` on held-out rows, the same
        by fold as ``split0_test_…``, and ``status``, which says why a setting has no figures
        (gaps are infinite there).
    best_index_ : int
        The setting that was chosen.
    best_params_ : dict
        Its parameters.
    best_estimator_ : FairPCA
        Fitted to all rows with them.
    n_features_in_, feature_names_in_, components_, mean_, explained_variance_, \
explained_variance_ratio_, mean_gap_, cov_gap_, contrasts_, certificate_, moments_, n_iter_
        Those of `best_estimator_`.

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

    _parameter_constraints: ClassVar = {
        **LinearEstimator._parameter_constraints,
        "n_components": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "mean_tols": ["array-like"],
        "cov_weights": ["array-like", None],
        "cov_tols": ["array-like", None],
        "folds": [Interval(Integral, 2, 100, closed="both")],
        "figure": [StrOptions({"gaussian_bound", "mean_gap", "cov_gap"})],
        "at_most": [Interval(Real, 0, None, closed="left"), None],
    }

    def __init__(
        self,
        n_components=2,
        *,
        mean_tols=(0.0,),
        cov_weights=None,
        cov_tols=None,
        folds=5,
        figure="gaussian_bound",
        at_most=None,
        solver="refined",
        compare="one-vs-rest",
        joint=False,
        reference=None,
        numeric=None,
        min_group_size=2,
        certify=True,
        whiten=False,
        tol=1e-4,
        max_iter=5000,
        standardize=False,
        missing="error",
        missing_groups="raise",
        verbose=0,
    ):
        self._set_all(locals())

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, *, sensitive_features=None, control_features=None, sample_weight=None):
        """Choose and fit from rows; return the estimator.

        Parameters
        ----------
        X, y, sensitive_features, control_features, sample_weight
            As in `FairPCA.fit`.
        """
        parts = (sensitive_features, control_features, sample_weight)
        return self._choose(summarise(self, X, *parts, folds=self.folds))

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_moments(self, moments):
        """Choose and fit from moments by fold, without any rows.

        Parameters
        ----------
        moments : FoldedMoments
            From `moments_from_parquet(…, folds=5)` and its like, or the sum of many batches.
        """
        if not isinstance(moments, FoldedMoments):
            raise InvalidInputError(
                f"moments is a {type(moments).__name__}; pass FoldedMoments, which every "
                "moments_from_… returns with folds=5, or rows to fit()."
            )
        return self._choose(moments)

    @with_callbacks
    def _choose(self, folded):
        settings = self._settings()
        with fit_task(self, len(settings) + 1) as context:
            found, status = self._measure(settings, folded, context)
            self.cv_results_ = _as_table(settings, found, status)
            self.best_index_ = self._best(status)
            self.best_params_ = settings[self.best_index_]
            best = FairPCA(**self._shared(self.certify), verbose=self.verbose, **self.best_params_)
            with handed_on(self, context, "refit", best):
                self.best_estimator_ = best.fit_moments(folded.total)
        best._keep_others(getattr(self, "other_columns_", ()))
        for name, value in vars(best).items():
            if name.endswith("_") and not name.startswith("_"):
                setattr(self, name, value)
        return self

    def _measure(self, settings, folded, context):
        """Return the figures of every setting by fold, and why it has none."""
        found, status = [], []
        for setting in settings:
            try:
                found.append(held_out_figures(FairPCA(**self._shared(False), **setting), folded))
                status.append("")
            except InfeasibleError as error:
                found.append([_WORST] * len(folded.folds))
                status.append(f"infeasible: {error}")
            tell(self, context, "setting", setting)
        return found, status

    def _settings(self):
        """List the settings to try."""
        if self.cov_tols is not None and self.cov_weights is not None:
            raise InvalidInputError(
                "cov_weights and cov_tols are both set: give one of them.", parameter="cov_weights"
            )
        penalties = {"cov_weight": self.cov_weights}
        if self.cov_tols is not None:
            penalties = {"cov_tol": self.cov_tols}
        elif self.cov_weights is None:
            penalties = {"cov_weight": (0.0, 0.1, 0.3, 1.0, 3.0, 10.0)}
        counts = np.atleast_1d(self.n_components).tolist()
        grid = {"n_components": counts, "mean_tol": self.mean_tols, **penalties}
        found = [dict(zip(grid, chosen, strict=True)) for chosen in product(*grid.values())]
        for one, values in grid.items():
            name = one if one == "n_components" else f"{one}s"
            wrong = [value for value in values if not (value is None or isinstance(value, Real))]
            if wrong or not len(values):
                said = f"{name} holds {wrong[0]!r}" if wrong else "there is no setting to try"
                raise InvalidInputError(f"{said}: give numbers in {name}.", parameter=name)
        return found

    def _shared(self, certify):
        return {name: getattr(self, name) for name in _PASSED} | {"certify": certify}

    def _best(self, status):
        """Return the place of the setting with most variance among those that are fair enough."""
        table = self.cv_results_
        means, spread = table[f"mean_test_{self.figure}"], table[f"std_test_{self.figure}"]
        feasible = np.array([not reason for reason in status])
        if not feasible.any():
            raise InfeasibleError(f"no setting can be met on every fold; {status[0]}")
        limit = self.at_most
        if limit is None:
            smallest = int(np.argmin(np.where(feasible, means, np.inf)))
            limit = means[smallest] + spread[smallest] / math.sqrt(self.folds)
        allowed = feasible & (means <= limit)
        if not allowed.any():
            raise InfeasibleError(
                f"at_most={limit:g} is not reached: the smallest {self.figure} on held-out rows "
                f"is {means[feasible].min():.4g}.",
                float(means[feasible].min()),
                parameter="at_most",
            )
        return int(np.argmax(np.where(allowed, table["mean_test_variance"], -np.inf)))


def held_out_figures(model, folded):
    """Fit copies of a model to all folds but one, and measure each on that one."""
    question = (model.compare, model.joint, model.reference, model.min_group_size)
    found = []
    with warnings.catch_warnings():
        for category in (FairnessWarning, ConvergenceWarning):
            warnings.simplefilter("ignore", category)  # said once, of all rows
        for number, (train, test) in enumerate(folded.splits, start=1):
            fair = clone(model).set_params(certify=False, verbose=0)
            try:
                fair.fit_moments(train)
            except GroupsError as error:
                where = f"without the rows of fold {number} of {len(folded.folds)}: {error}"
                raise GroupsError(where, parameter="folds") from error
            if fair.scale_ is not None:
                test = test.standardized(Standardization(fair.mean_, fair.scale_))
            found.append(gap_statistics(test, fair.components_, *question))
    return found


def held_out_summary(model, folded):
    """Return means and deviations over the folds, None where a fold does not allow a fit."""
    try:
        found = held_out_means(held_out_figures(model, folded))
    except InvalidInputError:  # too few different rows, a group in one fold only
        return None
    summary = {"folds": len(folded.folds)}
    for name, (mean, spread) in found.items():
        summary |= {name: mean, f"{name}_std": spread}
    return summary


def held_out_means(found):
    """Average figures over folds; infinite where no fold has two groups to compare."""
    return {name: _spread([getattr(one, name) for one in found]) for name in GapStatistics._fields}


def _spread(values):
    """Return mean and standard deviation of those that are there."""
    known = [value for value in values if value is not None]
    if not known or math.inf in known:
        return math.inf, 0.0
    return float(np.mean(known)), float(np.std(known))


def _as_table(settings, found, status):
    """Arrange the figures of every setting as scikit-learn arranges scores."""
    table = {"params": settings, "status": status}
    for name in settings[0]:
        table[f"param_{name}"] = np.array([setting[name] for setting in settings], dtype=object)
    for name in GapStatistics._fields:
        summary = [held_out_means(folds)[name] for folds in found]
        table[f"mean_test_{name}"] = np.array([mean for mean, _ in summary])
        table[f"std_test_{name}"] = np.array([spread for _, spread in summary])
        for split in range(len(found[0])):
            values = [getattr(folds[split], name) for folds in found]
            table[f"split{split}_test_{name}"] = np.array(
                [math.inf if value is None else value for value in values]
            )
    return table
