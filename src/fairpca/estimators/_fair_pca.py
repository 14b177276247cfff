"""FairPCA: fair principal component analysis in scikit-learn's interface."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone

from fairpca._choices import GROUPLESS, MISSING_GROUPS, OBJECTIVES
from fairpca.estimators._base import ROUTED
from fairpca.estimators._data_warnings import (
    hint_numeric_attribute,
    warn_of_empty_components,
    warn_of_features,
    warn_of_groups,
    warn_of_labels,
    warn_of_origin,
    warn_of_solve,
)
from fairpca.estimators._linear import FAMD, LinearEstimator, check_moments
from fairpca.estimators._sklearn import NON_NEGATIVE, fit_context, one_of
from fairpca.exceptions import (
    GroupsError,
    InfeasibleError,
    InvalidInputError,
    NotFittedYetWarning,
    warn_user,
)
from fairpca.linalg import Array
from fairpca.moments import ExpectedGaps, GroupMoments
from fairpca.rows import Rows
from fairpca.solvers import FairProblem, Solution
from fairpca.solvers._problem import count_components
from fairpca.solvers._solve import check_covariance_terms, check_objective


class FairPCA(LinearEstimator):
    """Principal components from which a protected attribute is hard to predict.

    Finds the orthonormal basis of largest variance in which the groups of every protected
    attribute have equal (or nearly equal) means and similar covariances, and proves how far from
    optimal that basis can be at most. `transform` never needs the protected attribute.

    Parameters
    ----------
    n_components : int, float or None, default=2
        Number of components. A share between 0 and 1: as many as plain PCA needs to hold that
        share of the variance. None: as many as vary without a difference of group means; a share
        never takes more than that.
    mean_tol : float or None, default=0.0
        Bound on the distance between group means after the projection. 0 makes them equal; None:
        no constraint.
    cov_weight : float or None, default=None
        Covariance penalty: variance to give up per unit of the largest covariance gap. None: 1.0,
        or no penalty if `cov_tol` is set. 0 constrains the means only.
    cov_tol : float or None, default=None
        Bound on the largest covariance gap, instead of a penalty on it.
    solver : {"refined", "deflation", "tight", "paper"}, default="refined"
        "refined": one component at a time, then local optimisation, bounded by the tight
        relaxation. "deflation": the first step only. Its components are nested: the space of
        n_components=2 lies in that of n_components=4, which is not so for "refined". "tight":
        rounding of the tight relaxation. "paper": the semidefinite program of Olfat and Aswani
        (2019) and its rounding. Without a covariance term the solution is exact for any solver.
    objective : {"total", "worst-variance", "worst-loss"}, default="total"
        What is maximised: the variance of all rows, the variance kept by the group that keeps the
        least, or the negative of the largest loss. The loss of a group is the extra variance it
        would keep with components fitted to it alone. With ``mean_tol=None, cov_weight=0`` the
        last two are the fair PCA of Samadi et al. (2018). Groups are the levels of every attribute,
        or the cells of their cross table under `joint`, in every stratum.
    compare : {"one-vs-rest", "pairs", "reference"}, default="one-vs-rest"
        Which groups are compared if an attribute has more than two.
    joint : bool, default=False
        Whether the intersections of several attributes are compared as well.
    reference : object or dict, default=None
        The reference group, or one for each attribute, for compare="reference".
    numeric : list of str or None, default=None
        Sensitive columns to treat as numbers whatever their type.
    min_group_size : int or None, default=None
        Rows a group needs for its covariance to be compared, and to count in `objective`; the
        means of all groups are compared. None: the smallest groups, which together have less
        than a tenth of the rows, are left out unless their means differ by more than chance
        (p < 0.05, or less where chance would cost variance), and their covariances are
        compared from 500 rows on; 2 rows count in `objective`.
    certify : bool, default=True
        Whether to compute the bound. Otherwise the certificate holds the variance of the problem
        without covariance term, which is valid but loose.
    cov_shift : float or None, default=None
        The paper's φ, for solver="paper" only; None: the smallest allowed.
    whiten : bool, default=False
        Whether to scale the components to unit variance.
    rotation : {"varimax"} or None, default=None
        "varimax" rotates the components inside the fair subspace, so that each has few large
        loadings. Gaps, total variance and certificate stay as they are; scores become correlated,
        so that `score`, `get_covariance` and `get_precision` are not available.
    standardize : bool or "famd", default=False
        Whether every feature is divided by its standard deviation over all rows (weights count; a
        constant feature keeps its unit), in `fit` and `transform`. "famd" divides the indicators
        of one-hot encoded columns by the square root of their share instead, as factor analysis
        of mixed data does.
    target_weight : float, default=0.0
        What keeping the direction that predicts y is worth: so many times the largest variance of a
        fair direction. 0: y is ignored. 1 is the value to try; it is closer to a switch than to a
        dial, since the kept share jumps somewhere between 0.3 and 1. See `target_kept_`.
    tol : float, default=1e-4
        Relative duality gap at which a relaxation counts as solved.
    max_iter : int, default=5000
        Limit on the iterations of a relaxation.
    missing : {"error", "drop-rows", "mean"}, default="error"
        What happens if a feature is NaN. "mean" counts the value as the mean of all rows that have
        one, never of a group. "drop-rows" fits without the rows that lack a feature or a group;
        `transform` then scores every row and counts the value as the mean of the rows used in
        `fit`, here and on the command line. Both warn.
    missing_groups : {"raise", "ignore", "own", "unlabelled"}, default="raise"
        What happens if groups are missing. "own": rows without a group (or stratum) are a group
        called missing. "unlabelled": rows without a group count in the variance, and only the
        others in the gaps; with few of those the gaps on new data are larger, as a warning says.
        "ignore": without `sensitive_features` the fit is plain PCA. Else an error.
    verbose : int, default=0
        Whether to print the certificate after fitting and, during a solve that takes longer than
        a second, bound and gap. scikit-learn's callbacks (`set_callbacks`) get them at every step.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Orthonormal rows, ordered by variance; the component scores are uncorrelated unless
        `rotation` is set. float32 if `fit` was given such rows.
    mean_, scale_ : ndarray of shape (n_features,)
        Mean of the features, and what they are divided by under `standardize` (else None).
        Components, variances and gaps are those of the features so divided.
    n_components_ : int
        Number of components.
    explained_variance_, explained_variance_ratio_ : ndarray of shape (n_components,)
        Variance of each component (divisor: weight of the rows), and its share of all variance.
        With `rotation` those of correlated scores: only their sum is what the subspace keeps.
    correlation_ : float
        With `rotation`, the largest correlation of two scores.
    singular_values_, noise_variance_, n_samples_
        As in scikit-learn's PCA: norms of the scores, average variance in the other directions
        (for `score`), number of rows.
    mean_gap_, cov_gap_ : float
        Largest distance between group means after the projection, and largest spectral norm of a
        difference of group covariances, over the contrasts of `compare` and before whitening.
    contrasts_ : dict of lists
        One entry per contrast: attribute, positive, negative, stratum, n_positive, n_negative,
        status, and the mean and covariance gap before and after. ``pandas.DataFrame(contrasts_)``.
    certificate_ : Certificate
        Objective, proven bound, and the gap between them.
    target_kept_ : float or None
        With `target_weight`, J = tr VᵀTV: how much of the fair direction that predicts y the
        components hold, 1 if it lies in their space. It never falls as `target_weight` rises
        where both bases are optimal; else by what their certificates leave open.
    target_information_ : dict or None
        With `target_weight`, the share of the variance of y that least squares explains from
        ``all`` features, from all ``fair`` directions and from the ``components``, on the fitted
        rows. ``held_out`` has the same on held-out rows, by five folds; it is measured when it is
        first read, which takes five fits. It needs rows that were fitted in memory, by a model
        that was not copied or saved since; `FairPCACV` has it in every case.
    group_variance_ : dict of lists, or None
        Unless objective="total", one entry per group: attribute, group, stratum, n_rows, total
        (its variance), variance (what it keeps of it), best (what its own best basis keeps), loss
        (the difference) and weight (in the bound of the certificate; None: does not count).
    moments_ : GroupMoments
        What was learned from the rows; `partial_fit` adds to it.
    effective_samples_ : ndarray of shape (n_components,), or None
        How many normal rows would know the variance of each component as well: 2n / (κ - 1), at
        most n, where κ is the kurtosis of its scores. None where rows were not in memory: streams,
        Dask, `partial_fit` and `fit_moments`.
    unit_noise_ : dict of lists, or None
        Where `units` were given, what `expected_gaps` needs to know of them.
    n_iter_, n_features_in_, feature_names_in_
        Iterations of the solver, at least 1; number and names of the features.
    other_columns_ : ndarray of str
        Columns of X that were named as groups, strata or weights, if there were any; `transform`
        leaves them out.

    See Also
    --------
    FairPCACV : Tolerances and penalties chosen on held-out rows.
    DeltaFairPCA : A limit on what classifiers of a family reach.
    SparseFairPCA : Components of a few features each.
    FairKernelPCA : The same in the feature space of a kernel.
    fairpca.metrics.audit : How well the groups are still predicted.

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
    >>> U = FairPCA(n_components=2).fit(X, sensitive_features=sex).transform(X)
    >>> bool(np.abs(U[sex == 1].mean(0) - U[sex == 0].mean(0)).max() < 1e-10)
    True
    """

    moments_: GroupMoments
    group_variance_: dict[str, list[Any]] | None = None
    effective_samples_: Array | None = None
    unit_noise_: dict[str, list[Any]] | None = None
    target_kept_: float | None = None
    target_information_: Any = None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LinearEstimator._parameter_constraints,
        "objective": [one_of(OBJECTIVES)],
        "missing_groups": [one_of({*MISSING_GROUPS, *GROUPLESS})],
        "cov_shift": [NON_NEGATIVE, None],
        "target_weight": [NON_NEGATIVE],
    }

    __metadata_request__partial_fit: ClassVar = ROUTED

    def __init__(
        self,
        n_components: float | None = 2,
        *,
        mean_tol: float | None = 0.0,
        cov_weight: float | None = None,
        cov_tol: float | None = None,
        solver: str = "refined",
        objective: str = "total",
        compare: str = "one-vs-rest",
        joint: bool = False,
        reference: Any = None,
        numeric: Sequence[str] | None = None,
        min_group_size: int | None = None,
        certify: bool = True,
        cov_shift: float | None = None,
        whiten: bool = False,
        rotation: str | None = None,
        standardize: bool | str = False,
        target_weight: float = 0.0,
        tol: float = 1e-4,
        max_iter: int = 5000,
        missing: str = "error",
        missing_groups: str = "raise",
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.mean_tol = mean_tol
        self.cov_weight = cov_weight
        self.cov_tol = cov_tol
        self.solver = solver
        self.objective = objective
        self.compare = compare
        self.joint = joint
        self.reference = reference
        self.numeric = numeric
        self.min_group_size = min_group_size
        self.certify = certify
        self.cov_shift = cov_shift
        self.whiten = whiten
        self.rotation = rotation
        self.standardize = standardize
        self.target_weight = target_weight
        self.tol = tol
        self.max_iter = max_iter
        self.missing = missing
        self.missing_groups = missing_groups
        self.verbose = verbose

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
        """Fit from rows; return the estimator.

        Parameters
        ----------
        X : array-like, data frame, sparse matrix, Dask collection or Arrow stream
            Features, of shape (n_samples, n_features). A sparse matrix is not filled; a Dask
            array or data frame is read in one pass by its scheduler, and so is what
            `fairpca.tables.moments_from_arrow` takes: readers, polars LazyFrames, DuckDB
            relations, ADBC cursors.
        y : array-like or data frame, one or more columns; or names, default=None
            What the components are to predict later, numbers or labels (more than 20 different
            whole numbers are numbers). Ignored unless `target_weight` is set, but a column of X
            that y names is never a feature. Rows without y count in everything but the target.
        sensitive_features : array-like or data frame, one or more columns; or names
            Protected attributes: groups (strings, categories, integers, booleans) or numbers.
            If X is a table, the name of one of its columns, or a list of names: those columns
            are the groups, and the others are the features. A list with as many texts as X has
            rows always holds labels. A stream knows names only.
        control_features : array-like or data frame, or names, default=None
            Strata inside which groups are compared.
        sample_weight : array-like of shape (n_samples,), or a name, default=None
            Weights of the rows.
        units : array-like of shape (n_samples,), or a name, default=None
            Persons, sites or households that rows belong to. The components do not depend on
            them; `expected_gaps` then counts units instead of rows.
        """
        rows: list[Rows] = []
        parts = (sensitive_features, control_features, sample_weight, units)
        self._fit_sums(self._sum_rows(X, *parts, keep=rows, y=y))
        if rows:
            self._set_dtype(rows[0])
            self.look_at_scores(rows[0])
            if self.target_weight:
                self.target_information_.by_folds(self, rows[0])
        return self

    @fit_context
    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        control_features: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Add a batch of rows and fit anew from all rows so far.

        While the rows so far do not allow a fit (a single row, a single group, a tolerance that
        so few rows cannot meet) every batch is kept and the components follow with the first
        batch that allows it. For many batches it is cheaper to add `GroupMoments` and call
        `fit_moments` once. Parameters are as for `fit`.

        Warns
        -----
        NotFittedYetWarning
            If the rows so far can be compared, but no basis meets the constraints.
        """
        if hasattr(self, "components_"):
            check_moments(self, "partial_fit")
        first = not hasattr(self, "moments_")
        parts = (sensitive_features, control_features, sample_weight)
        rows: list[Rows] = []
        batch = self._sum_rows(X, *parts, reset=first, least=1, keep=rows, y=y)
        self.moments_ = batch if first else self.moments_ + batch
        levels = [self.moments_.levels(name) for name in self.moments_.categorical_attributes]
        if self.moments_.n_samples < 2 or any(len(names) < 2 for names in levels):
            return self
        try:
            self._fit_sums(self.moments_, warn=False)
            if rows:
                self._set_dtype(rows[0])
        except (InfeasibleError, GroupsError) as error:
            self.__dict__.pop("components_", None)  # they are those of fewer rows
            warn_user(
                f"{self.moments_.n_samples} rows so far are kept, but do not allow a fit: {error}",
                NotFittedYetWarning,
            )
        return self

    @fit_context
    def fit_moments(self, moments: GroupMoments) -> Self:
        """Fit from moments, without any rows.

        Parameters
        ----------
        moments : GroupMoments
            For instance the sum of the moments of many batches, or of a distributed table.
        """
        return self._fit_moments(moments)

    def expected_gaps(
        self, n_new: int | None = None, confidence: float = 0.95, refits: int = 30
    ) -> ExpectedGaps:
        """Say what gaps to expect on new data, from `moments_` alone.

        The expected mean gap is a closed form. The bound on it holds for every subspace at once,
        and so for the components, although they were chosen by the same rows; it is for normal
        rows, or groups of many rows. The covariance gap is the average over fits to moments drawn
        around those at hand, measured on the latter; it is too small where rows have heavy tails.

        Parameters
        ----------
        n_new : int or None, default=None
            Rows of new data the mean gap will be measured on, which adds their noise.
        confidence : float, default=0.95
            Of the bound, over all contrasts together.
        refits : int, default=30
            Number of fits for the covariance gap; 0: it is not computed. Nor is it where `fit`
            was given units, since draws count rows.

        Examples
        --------
        >>> import numpy as np
        >>> from fairpca import FairPCA
        >>> rng = np.random.default_rng(0)
        >>> sex, X = np.arange(500) % 2, rng.normal(size=(500, 6))
        >>> gaps = FairPCA().fit(X, sensitive_features=sex).expected_gaps(refits=5)
        >>> bool(0.0 < gaps.features.mean_gap < gaps.features.mean_bound)
        True
        """
        from fairpca.estimators._comparison import forecast_gaps  # not needed by a fit

        return forecast_gaps(self, n_new, confidence, refits)

    def quick_copy(self, **options: Any) -> FairPCA:
        """Return a silent copy without bound, not fitted, with other options."""
        return clone(self).set_params(certify=False, verbose=0, **options)

    def _validate_params(self) -> None:
        """Check each parameter, and those that exclude each other."""
        super()._validate_params()
        check_covariance_terms(self.cov_weight, self.cov_tol)
        if self.objective != "total":
            check_objective(self.objective, self.solver)
            if self.target_weight:
                raise InvalidInputError(
                    f"target_weight={self.target_weight:g} needs objective='total': "
                    f"objective={self.objective!r} knows no target.",
                    parameter="target_weight",
                )

    def _fit_moments(self, moments: GroupMoments, **options: Any) -> Self:
        if not isinstance(moments, GroupMoments):
            raise InvalidInputError(
                f"moments is a {type(moments).__name__}; pass a GroupMoments, or rows to fit()."
            )
        if not moments.attributes:
            self._require_groups_optional()
        warn_of_origin(moments)
        self._learn_features(moments)
        return self._fit_sums(moments, **options)

    def _fit_sums(
        self,
        moments: GroupMoments,
        *,
        tabulate: bool = False,
        warn: bool = True,
    ) -> Self:
        """Scale, pose the problem, solve it, and set the attributes that end in an underscore."""
        famd = self.standardize == FAMD
        scaling = moments.standardization(famd=famd) if self.standardize else None
        scaled = moments.complete() if scaling is None else moments.standardized(scaling)
        inner, span = scaled.coordinates(), scaled.span  # the span of the rows, if X is wide
        _, mean, covariance = inner.pooled()
        contrasts = self._form_contrasts(inner)
        try:
            limits = {name: getattr(self, name) for name in ("mean_tol", "cov_weight", "cov_tol")}
            pose: Any = partial(FairProblem.from_contrasts, covariance, contrasts, **limits)
            count: Any = self.n_components
            if not isinstance(count, Integral):
                count = count_components(pose(1), count)
            # Directions outside the span are all alike: no basis needs more than d of them.
            padding = 0 if span is None else min(count, moments.n_features - len(span))
            problem = pose(count, padding=padding)
            solution = self._find_components(problem, inner, tabulate=tabulate, warn=warn)
        except InfeasibleError as error:
            raise hint_numeric_attribute(error, moments) from None
        mean = mean if span is None else span.place(mean)
        self.moments_, (self.mean_, self.scale_) = moments, scaling or (mean, None)
        self.effective_samples_ = self.unit_noise_ = None  # of rows that were fitted before
        total = float(np.trace(covariance))
        self._keep(covariance, contrasts, solution, total, span)
        self._set_model(moments, total)
        if warn:
            warn_of_features(moments, scaled=bool(self.standardize))
            basis, equal_means = solution.basis[: len(covariance)], self.mean_tol == 0
            if self.cov_weight != 0:
                warn_of_empty_components(basis, covariance, contrasts, equal_means=equal_means)
            if moments.n_labelled < moments.n_samples:
                warn_of_labels(moments, self.expected_gaps(refits=0).text())
            compared = self.mean_tol is not None or self.cov_weight != 0
            warn_of_groups(moments, self.contrasts_, self.n_components_, compared=compared)
        return self

    def _find_components(
        self, problem: FairProblem, moments: GroupMoments, *, tabulate: bool, warn: bool
    ) -> Solution:
        """Solve for the objective; set what only some objectives have."""
        size, n_gaps = moments.n_features, len(problem.cov_gaps)
        if warn and n_gaps and self.cov_weight != 0:
            is_limit = self.cov_tol is not None
            warn_of_solve(size, problem.n_components, n_gaps, is_limit=is_limit)
        self.group_variance_ = self.target_kept_ = self.target_information_ = None
        if tabulate or self.objective != "total":
            padding = len(problem.covariance) - size
            return self._solve_groups(problem, moments, padding)
        if self.target_weight:
            from fairpca.estimators._target import solve_with_target  # not needed by others

            return solve_with_target(self, problem, moments)
        return self._solve(problem)
