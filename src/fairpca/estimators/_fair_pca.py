"""FairPCA: fair principal component analysis in scikit-learn's interface."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import _fit_context, clone
from sklearn.utils._param_validation import StrOptions

from fairpca._choices import OBJECTIVES
from fairpca.estimators._base import LinearEstimator
from fairpca.estimators._caveats import advised, warn_of_features, warn_of_groups
from fairpca.estimators._incomplete import learn_features, summarise
from fairpca.estimators._objective import groups_of, solve_for
from fairpca.estimators._persistence import SavedModelMixin
from fairpca.exceptions import (
    GroupsError,
    InfeasibleError,
    InvalidInputError,
    NotFittedYetWarning,
)
from fairpca.moments import (
    ContrastSet,
    GroupCovariances,
    GroupMoments,
    Pooled,
    Span,
    Standardization,
)


class FairPCA(SavedModelMixin, LinearEstimator):
    """Principal components that do not give protected attributes away.

    Finds the orthonormal basis of largest variance in which the groups of every protected
    attribute have equal (or nearly equal) means, and covariances that differ as little as asked
    for, and proves how far from optimal that basis can be at most. `transform` never needs the
    protected attribute. Features are centred; `standardize` scales them too.

    Parameters
    ----------
    n_components : int, float or None, default=2
        Number of components to keep. A share between 0 and 1: as many as plain PCA needs to hold
        that share of the variance. None: as many as vary without a difference of group means. A
        share is never more than that.
    mean_tol : float or None, default=0.0
        Bound on the distance between group means after the projection. 0 makes them equal;
        None leaves them alone.
    cov_weight : float or None, default=None
        Variance to give up per unit of the largest covariance gap. None means 1.0, or no penalty
        where `cov_tol` is given; 0 constrains the means only.
    cov_tol : float or None, default=None
        Bound on the largest covariance gap, instead of a penalty on it.
    solver : {"refined", "deflation", "tight", "paper"}, default="refined"
        "refined": one component at a time, then local optimisation to the last digit, bounded by
        the tight relaxation. "deflation": the first step only. "tight": rounding of the tight
        relaxation. "paper": the semidefinite program of Olfat and Aswani (2019) and its rounding.
        Without a covariance term the exact solution is used, whatever the solver.
    objective : {"total", "worst-variance", "worst-loss"}, default="total"
        What is maximised: the variance of all rows, the variance kept by the group that keeps the
        least, or the negative of the largest loss of a group, which is what its own best
        `n_components` directions of all features would keep more. The last two are the fair PCA
        of Samadi et al. (2018) and Tantipongpipat et al. (2019), with ``mean_tol=None,
        cov_weight=0`` exactly; with constraints they are both senses at once. Groups are the
        levels of every attribute, or the cells of their cross table under `joint`, in every
        stratum; those with fewer than `min_group_size` rows do not count.
    compare : {"one-vs-rest", "pairs", "reference"}, default="one-vs-rest"
        What is compared in an attribute of more than two groups.
    joint : bool, default=False
        Whether the intersections of several attributes are compared as well.
    reference : object or dict, default=None
        The reference group, or one for each attribute, for compare="reference".
    numeric : list of str or None, default=None
        Sensitive columns to treat as numbers whatever their type.
    min_group_size : int, default=2
        Rows a group needs for its covariance to be compared.
    certify : bool, default=True
        Whether to compute the bound. Without it the certificate holds the variance of the problem
        without covariance term, which is valid but loose.
    cov_shift : float or None, default=None
        The paper's φ, for solver="paper" only; None: the smallest allowed.
    whiten : bool, default=False
        Whether to scale the components to unit variance.
    standardize : bool or "famd", default=False
        Whether every feature is divided by its standard deviation over all rows (weights count;
        a constant feature is left as it is), which the model learns and `transform` applies.
        "famd" divides the indicators of one-hot encoded columns by the square root of their share
        instead, as factor analysis of mixed data does: no direction of such a column then has
        more variance than a number has.
    tol : float, default=1e-4
        Relative duality gap at which a relaxation counts as solved.
    max_iter : int, default=5000
        Limit on the iterations of a relaxation.
    missing : {"error", "drop-rows", "mean"}, default="error"
        What happens where a feature is NaN. "error" names columns and counts. "mean" counts the
        value as the mean of all rows that have one, never of a group, in `fit` and `transform`.
        "drop-rows" fits without the rows that lack a feature or a group; `transform`, which has
        a score for every row, counts the value as the mean of the rows fitted to. Each says what
        it does, as a FairnessWarning.
    missing_groups : {"raise", "ignore", "own"}, default="raise"
        What happens where groups are missing. "own": rows without a group (or stratum) are a group
        called missing. "ignore": without `sensitive_features` the fit is plain PCA. Else an error.
    verbose : int, default=0
        Whether to print the certificate after fitting and, during a solve that takes longer than
        a second, the bound and the gap so far. scikit-learn's callbacks (`set_callbacks`) get
        them at every step.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Orthonormal rows, ordered by variance; the component scores are uncorrelated.
    mean_ : ndarray of shape (n_features,)
        Mean of the features.
    scale_ : ndarray of shape (n_features,), or None
        What the features are divided by, under `standardize`; None: nothing. Components,
        variances and gaps are those of the features so divided.
    n_components_ : int
        Number of components.
    explained_variance_ : ndarray of shape (n_components,)
        Variance of each component (divisor: the number or weight of the rows).
    explained_variance_ratio_ : ndarray of shape (n_components,)
        The same as a share of the total variance.
    mean_gap_ : float
        Largest distance between group means after the projection, over the contrasts that
        `compare` asks for; `fairpca.metrics.mean_gap` of the scores, with the same `compare`
        (of scores that are not whitened: `whiten` comes after the gaps).
    cov_gap_ : float
        Largest spectral norm of a difference of group covariances after the projection, likewise.
    contrasts_ : dict of lists
        One entry per contrast: attribute, positive, negative, stratum, n_positive, n_negative,
        status, and the mean and covariance gap before and after. ``pandas.DataFrame(contrasts_)``
        makes a table of it.
    certificate_ : Certificate
        Objective, proven bound, and the gap between them.
    group_variance_ : dict of lists, or None
        Unless objective="total", one entry per group: attribute, group, stratum, n_rows, total
        (its variance), variance (what it keeps of it), best (what its own best basis keeps), loss
        (the difference) and weight (in the bound of the certificate; None: does not count).
    moments_ : GroupMoments
        What was learned from the rows; `partial_fit` adds to it.
    n_iter_ : int
        Iterations of the solver, at least 1.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, where X had any.
    other_columns_ : ndarray of str
        Columns of X that were named as groups, strata or weights, where there were any;
        `transform` leaves them out.

    References
    ----------
    M. Olfat and A. Aswani (2019). Convex formulations for fair principal component analysis.
    Proceedings of the AAAI Conference on Artificial Intelligence 33, 663-670.

    S. Samadi, U. Tantipongpipat, J. Morgenstern, M. Singh and S. Vempala (2018). The price of fair
    PCA: one extra dimension. Advances in Neural Information Processing Systems 31.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca import FairPCA
    >>> rng = np.random.default_rng(0)
    >>> sex = rng.integers(0, 2, 500)
    >>> X = rng.normal(size=(500, 6)) + np.outer(sex, [2.0, 1.0, 0, 0, 0, 0])
    >>> fair = FairPCA(n_components=2).fit(X, sensitive_features=sex)
    >>> U = fair.transform(X)
    >>> bool(np.abs(U[sex == 1].mean(0) - U[sex == 0].mean(0)).max() < 1e-10)
    True
    """

    moments_: GroupMoments
    scale_: Any
    group_variance_: dict[str, list[Any]] | None = None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LinearEstimator._parameter_constraints,
        "objective": [StrOptions(set(OBJECTIVES))],
    }

    def __init__(
        self,
        n_components=2,
        *,
        mean_tol=0.0,
        cov_weight=None,
        cov_tol=None,
        solver="refined",
        objective="total",
        compare="one-vs-rest",
        joint=False,
        reference=None,
        numeric=None,
        min_group_size=2,
        certify=True,
        cov_shift=None,
        whiten=False,
        standardize=False,
        tol=1e-4,
        max_iter=5000,
        missing="error",
        missing_groups="raise",
        verbose=0,
    ):
        self._set_all(locals())

    __metadata_request__partial_fit: ClassVar = {
        "sensitive_features": True,
        "control_features": True,
    }

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, *, sensitive_features=None, control_features=None, sample_weight=None):
        """Fit from rows; return the estimator.

        Parameters
        ----------
        X : array-like, data frame, sparse matrix, Dask collection or Arrow stream
            Features, of shape (n_samples, n_features). A sparse matrix is not filled; a Dask
            array or data frame is read in one pass by its scheduler, and so is what
            `fairpca.tables.moments_from_arrow` takes: readers, polars LazyFrames, DuckDB
            relations, ADBC cursors.
        y : Ignored
            Present for API consistency.
        sensitive_features : array-like or data frame, one or more columns; or names
            Protected attributes: groups (strings, categories, integers, booleans) or numbers.
            Where X is a table, the name of one of its columns, or a list of names: those columns
            are the groups, and the others are the features. A list with as many texts as X has
            rows always holds labels. A stream knows names only.
        control_features : array-like or data frame, or names, default=None
            Strata inside which groups are compared.
        sample_weight : array-like of shape (n_samples,), or a name, default=None
            Weights of the rows.
        """
        self._check_price()
        moments = summarise(self, X, sensitive_features, control_features, sample_weight)
        return self._warned(self._fit(moments))

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self, X, y=None, *, sensitive_features=None, control_features=None, sample_weight=None
    ):
        """Add a batch of rows and fit anew from all rows so far.

        While the rows so far do not allow a fit (a single row, a single group, a tolerance that
        so few rows cannot meet) every batch is kept and the components follow with the first
        batch that allows it. For many batches it is cheaper to add `GroupMoments` and call
        `fit_moments` once. Parameters are as for `fit`.

        Warns
        -----
        NotFittedYetWarning
            If the rows so far can be compared, but no basis meets what is asked.
        """
        self._check_price()
        first = not hasattr(self, "moments_")
        parts = (sensitive_features, control_features, sample_weight)
        moments = summarise(self, X, *parts, reset=first, least=1)
        self.moments_ = moments if first else self.moments_ + moments
        levels = [self.moments_.levels(name) for name in self.moments_.categorical_attributes]
        if self.moments_.n_samples < 2 or any(len(found) < 2 for found in levels):
            return self
        try:
            return self._fit(self.moments_)
        except (InfeasibleError, GroupsError) as error:
            self.__dict__.pop("components_", None)  # they are those of fewer rows
            warnings.warn(
                f"{self.moments_.n_samples} rows so far are kept, but do not allow a fit: {error}",
                NotFittedYetWarning,
                stacklevel=2,
            )
            return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_moments(self, moments):
        """Fit from moments, without any rows.

        Parameters
        ----------
        moments : GroupMoments
            For instance the sum of the moments of many batches, or of a distributed table.
        """
        self._take(moments)
        return self._warned(self._fit(moments))

    def _warned(self, _, stacklevel=5):
        """Say what makes the fit mean less than it seems; return the estimator."""
        warn_of_features(self, self.moments_, stacklevel)
        warn_of_groups(self, stacklevel)
        return self

    def _take(self, moments):
        """Check moments and learn the features they are of."""
        self._check_price()
        if not isinstance(moments, GroupMoments):
            raise InvalidInputError(
                f"moments is a {type(moments).__name__}; pass a GroupMoments, or rows to fit()."
            )
        if not moments.attributes:
            self._require_groups_optional()
        learn_features(self, moments)

    def _fit(self, moments):
        return self._fit_summary(moments, self._summary(moments))

    def _summary(self, moments):
        """Pooled moments and contrasts of scaled features, in the span of the rows if wide."""
        scaling = self._scaling(moments)
        scaled = moments.complete() if scaling is None else moments.standardized(scaling)
        inner = scaled.coordinates()
        groups = None if self.objective == "total" else groups_of(self, inner)
        return Summary(inner.pooled(), self._form_contrasts(inner), scaled.span, scaling, groups)

    def _fit_summary(self, moments, summary):
        (_, mean, covariance), contrasts, span, scaling, groups = summary
        outside = 0
        with advised(moments):
            count = self._count(self._form_problem(covariance, contrasts, 1))
        if span is not None:
            mean = span.place(mean)
            # Directions outside the span are all alike, so that no basis needs more than d of them.
            outside = min(count, moments.n_features - len(span))
        problem = self._form_problem(covariance, contrasts, count, outside)
        with advised(moments):
            solution, self.group_variance_ = solve_for(self, problem, groups, outside)
        self.moments_ = moments
        self.mean_, self.scale_ = (mean, None) if scaling is None else scaling
        self._keep(covariance, contrasts, solution, float(np.trace(covariance)), span)
        return self


class Summary(NamedTuple):
    """What a fit needs to know of moments; None: no scaling, no group that counts by itself."""

    pooled: Pooled
    contrasts: ContrastSet
    span: Span | None
    scaling: Standardization | None
    groups: GroupCovariances | None


def fit_with_plain(model, moments, foretell=None):
    """Fit a model, and return plain PCA with the gaps of the same contrasts beside it.

    `foretell` is told the numbers of components and contrasts before the solve.
    """
    model._validate_params()
    model._take(moments)
    summary = model._summary(moments)
    if foretell is not None:
        problem = model._form_problem(summary.pooled.covariance, summary.contrasts, 1)
        with advised(moments):
            foretell(model._count(problem), len(summary.contrasts))
    model._fit_summary(moments, summary)._warned(model)
    unfair = {"mean_tol": None, "cov_weight": 0.0, "cov_tol": None, "objective": "total"}
    plain = clone(model).set_params(n_components=model.n_components_, **unfair)
    plain._take(moments)
    return plain._fit_summary(moments, summary)
