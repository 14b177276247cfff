"""FairKernelPCA: fair principal components in the feature space of a kernel."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Self, cast

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning, NotFittedError, PositiveSpectrumWarning
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from fairpca import kernels
from fairpca.estimators._base import FairnessEstimator
from fairpca.estimators._data_warnings import LONG_FIT, warn_of_time
from fairpca.estimators._sklearn import (
    AT_LEAST_ONE,
    NON_NEGATIVE,
    POSITIVE,
    at_least,
    fit_context,
    one_of,
)
from fairpca.exceptions import (
    ApproximateKernelWarning,
    FairnessWarning,
    InvalidInputError,
    warn_user,
)
from fairpca.linalg import Array, fix_signs
from fairpca.rows import Rows
from fairpca.solvers import FairProblem
from fairpca.solvers._problem import count_components
from fairpca.solvers._solve import check_covariance_terms
from fairpca.tables import input_kind

# Rows of a Dask collection from which landmarks are chosen, at least.
_DRAWN = 20000
# A fit of 1,000 rows at full rank takes so many seconds on one core.
_SECONDS = 6.0
AUTO = "auto"
# Up to so many rows all eigenvalues are kept by default, and all rows; else so many.
_ALL_EIGENVALUES, _ALL_ROWS = 1000, 3000
_RANK, _LANDMARKS = 200, 500


class FairKernelPCA(FairnessEstimator):
    """Fair principal components in the feature space of a kernel.

    Kernel PCA is linear PCA in the eigenspace of the centred kernel matrix. There the groups of
    every protected attribute get equal (or nearly equal) means, and covariances whose difference
    is penalised or bounded, as in `FairPCA` and with the same certificate. `transform` never needs
    the protected attribute. `y` is ignored: only `FairPCA` knows a target.

    Parameters
    ----------
    n_components : int, float or None, default=2
        Number of components, as in `FairPCA`. A share is that of the variance in the eigenspace;
        None: as many as the kernel and the means leave room for.
    kernel : str or callable, default="rbf"
        A kernel of `sklearn.metrics.pairwise.pairwise_kernels`, a function of two rows, or
        "precomputed": then X is the kernel matrix.
    gamma : float or None, default=None
        Coefficient of the kernels that have one; None: 1 / n_features.
    kernel_params : dict or None, default=None
        Other arguments of the kernel, such as ``{"degree": 3, "coef0": 1}`` of "poly", or the
        keyword arguments of a callable.
    n_landmarks : int or None, default=None
        Number of landmarks of the Nyström approximation, which needs memory for the landmarks and
        a batch of rows only: cluster centres inside every combination of groups and strata (rows
        drawn from each for a precomputed kernel). A weight of k chooses the same landmarks as k
        copies of a row. None: the exact form with the n×n kernel matrix, unless `rank` says
        otherwise.
    rank : int, "auto" or None, default="auto"
        Number of eigenvalues of the kernel to keep; None: all that are not zero. Time and the
        certificate are those of a problem with `rank` features. "auto": all up to 1,000 rows, the
        200 largest of more, and above 3,000 rows 500 landmarks; a warning says what was chosen.
    formulation : {"feature", "paper"}, default="feature"
        "feature": orthonormal components in feature space. "paper": orthonormal coefficients of
        the training rows with the objective K² and the Q_k and f_k printed by Olfat and Aswani,
        K being centred as their data are.
    inverse_alpha : float or None, default=None
        Ridge of the inverse transform, a kernel ridge regression of the rows (or landmarks) on
        their scores as in scikit-learn's KernelPCA. None: no inverse transform.
    random_state : int, RandomState instance or None, default=0
        Choice of the landmarks, and start of the search for a few eigenpairs.
    solver_options : dict or None, default=None
        `tol`, `max_iter` and `cov_shift` of `fairpca.solvers.solve`. Eigenpairs of the kernel are
        always computed to rounding.
    mean_tol, cov_weight, cov_tol, solver, certify, verbose
        As in `FairPCA`.
    compare, joint, reference, numeric, min_group_size, missing_groups
        As in `FairPCA`. Features are neither scaled nor imputed: use a StandardScaler or
        SimpleImputer before.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_eigenvalues)
        Orthonormal rows in the coordinates of the kernel's eigenspace, ordered by variance.
    eigenvalues_ : ndarray of shape (n_eigenvalues,)
        Eigenvalues of the centred kernel matrix that were kept (their estimate under landmarks).
    coefficients_ : ndarray of shape (n_fit, n_components)
        Weights α of the training rows, or landmarks, in the components: scores are centred kernel
        values times this matrix.
    X_fit_ : ndarray or sparse matrix of shape (n_fit, n_features), or None
        Those rows; None for a precomputed kernel.
    explained_variance_, explained_variance_ratio_ : ndarray of shape (n_components,)
        As in `FairPCA`; a share is of the variance in feature space (of the landmarks' span).
    mean_gap_, cov_gap_ : float
        As in `FairPCA`. In the paper's form: the norms of αᵀf_k and αᵀQ_kα/n.
    certificate_ : Certificate
        Objective, proven bound within the eigenspace kept, and the gap between them.
    gamma_ : float
        The coefficient used.
    X_transformed_fit_, dual_coef_ : ndarray
        Regressors and coefficients of the inverse transform.
    contrasts_, n_iter_, n_features_in_, feature_names_in_
        As in `FairPCA`.

    See Also
    --------
    FairPCA : The same on the features themselves, with the reference.

    Examples
    --------
    >>> from fairpca import FairKernelPCA
    >>> from fairpca.datasets import load_diabetes_sex
    >>> diabetes = load_diabetes_sex()
    >>> X, sex = diabetes.data, diabetes.sensitive_features
    >>> fair = FairKernelPCA(rank=20, gamma=1e-4).fit(X, sensitive_features=sex)
    >>> fair.components_.shape, bool(fair.mean_gap_ < 1e-10)
    ((2, 20), True)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **{k: v for k, v in FairnessEstimator._parameter_constraints.items() if k != "rotation"},
        "kernel": [one_of({*PAIRWISE_KERNEL_FUNCTIONS, "precomputed"}), callable],
        "gamma": [POSITIVE, None],
        "kernel_params": [dict, None],
        "n_landmarks": [at_least(2), None],
        "rank": [AT_LEAST_ONE, one_of({AUTO}), None],
        "formulation": [one_of({"feature", "paper"})],
        "inverse_alpha": [NON_NEGATIVE, None],
        "random_state": ["random_state"],
        "solver_options": [dict, None],
    }

    def __init__(
        self,
        n_components: float | None = 2,
        *,
        kernel: str | Callable[..., float] = "rbf",
        gamma: float | None = None,
        kernel_params: dict[str, Any] | None = None,
        n_landmarks: int | None = None,
        rank: int | str | None = AUTO,
        formulation: str = "feature",
        inverse_alpha: float | None = None,
        random_state: int | np.random.RandomState | None = 0,
        mean_tol: float | None = 0.0,
        cov_weight: float | None = None,
        cov_tol: float | None = None,
        solver: str = "refined",
        solver_options: dict[str, Any] | None = None,
        compare: str = "one-vs-rest",
        joint: bool = False,
        reference: Any = None,
        numeric: Sequence[str] | None = None,
        min_group_size: int | None = None,
        certify: bool = True,
        missing_groups: str = "raise",
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.kernel_params = kernel_params
        self.n_landmarks = n_landmarks
        self.rank = rank
        self.formulation = formulation
        self.inverse_alpha = inverse_alpha
        self.random_state = random_state
        self.mean_tol = mean_tol
        self.cov_weight = cov_weight
        self.cov_tol = cov_tol
        self.solver = solver
        self.solver_options = solver_options
        self.compare = compare
        self.joint = joint
        self.reference = reference
        self.numeric = numeric
        self.min_group_size = min_group_size
        self.certify = certify
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
    ) -> Self:
        """Fit from rows, or from a precomputed kernel matrix.

        Parameters
        ----------
        X : array-like, sparse matrix or Dask collection of shape (n_samples, n_features)
            Features; shape (n_samples, n_samples) for a precomputed kernel. A Dask collection needs
            `n_landmarks`; it is read three times, and its `transform` is lazy.
        y, sensitive_features, control_features, sample_weight
            As for `FairPCA.fit`.
        """
        if self.formulation != "feature" and sample_weight is not None:
            raise InvalidInputError(
                "formulation='paper' knows no sample_weight: leave it out, or use "
                "formulation='feature'.",
                parameter="sample_weight",
            )
        self._refuse_stream(X)
        X, parts = self._split(X, (sensitive_features, control_features, sample_weight))
        if (
            input_kind(X) == "dask"
        ):  # landmarks come from a sample, and the features of all rows are summed
            if self.n_landmarks is None or self._is_precomputed:
                raise InvalidInputError(
                    "X is a Dask collection, whose kernel matrix would not fit: set n_landmarks, "
                    "with a kernel that is not precomputed.",
                    parameter="n_landmarks",
                )
            size = max(30 * self.n_landmarks, _DRAWN)
            _, rows, sum_features = self._lazy_parts(X, *parts, size=size)
            return self._fit_rows(rows, sum_features)
        # A copy: a precomputed kernel is overwritten, and the rows are kept for transform.
        return self._fit_rows(self._read_rows(X, *parts, copy=True, ensure_min_samples=2))

    def transform(self, X: Any) -> Any:
        """Return the component scores of rows, in the floating type of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features; kernel values against the training rows for a precomputed kernel.
        """
        check_is_fitted(self, "components_")
        X = self._without_others(X)
        if input_kind(X) == "dask":
            return self._lazy_transform(X, self._scores)
        return self._scores(self._features(X, reset=False))

    def _scores(self, X: Any) -> Array:
        return self._anchors.scores(X, self._shift, self.coefficients_, self._offset)

    def inverse_transform(self, X: Any) -> Array:
        """Map component scores back to the space of the features, approximately.

        X is as for `FairPCA.inverse_transform`; what is returned are the predictions of a kernel
        ridge regression of the training rows on their scores.
        """
        check_is_fitted(self, "components_")
        if self.inverse_alpha is None:
            raise NotFittedError(
                "the inverse transform was not learned: set inverse_alpha=1.0 and fit again."
            )
        U = self._check_scores(X)
        values = self._anchors.kernel(U, self.X_transformed_fit_)
        return (values @ self.dual_coef_).astype(U.dtype)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._is_precomputed
        tags.input_tags.sparse &= self.inverse_alpha is None
        return tags

    @property
    def _is_precomputed(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _validate_params(self) -> None:
        """Check each parameter, and those that exclude each other."""
        super()._validate_params()
        check_covariance_terms(self.cov_weight, self.cov_tol)
        if self.inverse_alpha is not None and self._is_precomputed:
            raise InvalidInputError(
                "inverse_alpha needs the features, which kernel='precomputed' hides.",
                parameter="inverse_alpha",
            )
        unknown = set(self.solver_options or ()) - {"tol", "max_iter", "cov_shift"}
        if unknown:
            raise InvalidInputError(
                f"solver_options has {sorted(unknown)}: it takes tol, max_iter and cov_shift.",
                parameter="solver_options",
            )
        if self.formulation != "feature" and self.n_landmarks is not None:
            raise InvalidInputError(
                "formulation='paper' has one coefficient for each row and knows no n_landmarks: "
                "leave them out, or use formulation='feature'.",
                parameter="n_landmarks",
            )

    def _fit_rows(self, rows: Rows, sum_features: Callable[..., Any] | None = None) -> Self:
        """Fit from rows; `sum_features` gives moments of all rows if these are a sample."""
        if self.inverse_alpha is not None and not isinstance(rows.X, np.ndarray):
            raise InvalidInputError(
                f"inverse_alpha={self.inverse_alpha:g} needs dense features, but X is sparse: pass "
                "X.toarray(), or leave inverse_alpha out.",
                parameter="inverse_alpha",
            )
        self.gamma_ = 1.0 / rows.X.shape[1] if self.gamma is None else float(self.gamma)
        rows, anchors = kernels.all_rows(self._kernel_function(), rows)
        equivalent = kernels.equivalent_kernel(self.kernel, self.gamma_, rows.X)
        anchors = replace(anchors, equivalent=equivalent)
        self._anchors, space = self._build_space(rows, anchors, sum_features)
        if space.warning is not None:
            warn_user(space.warning, PositiveSpectrumWarning)
        if space.is_rough:
            warn_user(
                "the kernel's values differ from each other in their last digits only, so that "
                "scores and gaps have few digits themselves: centre and scale the features, or "
                "choose another gamma.",
                FairnessWarning,
            )
        covariance = np.diag(space.variances)
        limits = {name: getattr(self, name) for name in ("mean_tol", "cov_weight", "cov_tol")}
        problem = FairProblem.from_contrasts(covariance, space.contrasts, 1, **limits)
        count = count_components(problem, self.n_components)
        if count > len(covariance):
            raise InvalidInputError(
                f"n_components={count}, but the centred kernel matrix has {len(covariance)} "
                "eigenvalues that are not zero or within rank. Lower n_components, raise rank, or "
                "set n_components=None for as many as there is room for.",
                parameter="n_components",
            )
        solution = self._solve(replace(problem, n_components=count), **(self.solver_options or {}))
        basis = fix_signs(solution.basis, space.reference @ solution.basis)
        self.X_fit_ = self._anchors.rows
        self.eigenvalues_ = space.eigenvalues
        self._shift, self._offset = space.shift, space.offset @ basis
        self.coefficients_ = space.projection @ basis
        self._keep(covariance, space.contrasts, replace(solution, basis=basis), space.total)
        if self.inverse_alpha is not None:
            self.X_transformed_fit_ = space.reference @ basis
            self.dual_coef_ = kernels.inverse_coefficients(
                self._anchors, self.X_transformed_fit_, rows.weights, self.inverse_alpha
            )
        return self

    def _kernel_function(self) -> Callable[..., Any] | None:
        if self._is_precomputed:
            return None
        params = self.kernel_params or {}
        if not callable(self.kernel):
            params = {"gamma": self.gamma_, "degree": 3, "coef0": 1, **params}
        return partial(pairwise_kernels, metric=self.kernel, filter_params=True, **params)

    def _build_space(
        self, rows: Rows, anchors: kernels.Anchors, sum_features: Callable[..., Any] | None
    ) -> tuple[kernels.Anchors, kernels.KernelSpace]:
        random = check_random_state(self.random_state)
        precision = np.finfo(rows.X.dtype if self._is_precomputed else np.float64).eps
        params = self.kernel_params or {}
        is_positive = kernels.is_positive(
            self.kernel, params.get("degree", 3), params.get("coef0", 1)
        )
        rank, n_landmarks = self._approximation(len(rows))
        options = kernels.SpectrumOptions(rank, is_positive, float(precision), random)
        if n_landmarks is not None and n_landmarks < len(rows):
            few, K = kernels.few_rows(anchors, rows, n_landmarks, random, cluster_centres)
            sum_features = sum_features or partial(kernels.sum_in_batches, rows)
            return few, kernels.landmark_space(sum_features, few, K, options, self._form_contrasts)
        kernels.check_gram_memory(
            len(rows),
            partial=rank is not None and rank < len(rows),
            inverse=self.inverse_alpha is not None,
        )
        seconds = _SECONDS * (len(rows) / 1000.0) ** 3
        if rank is None and seconds >= LONG_FIT:
            message = f"all eigenvalues of {len(rows):,} rows may take about {{}}: fit fewer rows."
            warn_of_time(seconds, message, [("rank", _RANK), ("n_landmarks", _LANDMARKS)])
        is_feature = self.formulation == "feature"
        build = kernels.exact_space if is_feature else kernels.coefficient_space
        return anchors, build(rows, anchors.gram(rows.X), options, self._form_contrasts)

    def _approximation(self, n_rows: int) -> tuple[int | None, int | None]:
        """Eigenvalues to keep and landmarks, None for all; says so where nobody chose."""
        if self.rank != AUTO:
            return cast("int | None", self.rank), self.n_landmarks
        if self.n_landmarks is not None or n_rows <= _ALL_EIGENVALUES:
            return None, self.n_landmarks
        count = self.n_components if isinstance(self.n_components, Integral) else 1
        rank: int | None = max(_RANK, 2 * int(count))
        n_landmarks, what = None, f"the {rank} largest eigenvalues of the kernel are kept"
        if n_rows > _ALL_ROWS and self.formulation == "feature":
            rank, n_landmarks = None, max(_LANDMARKS, 4 * int(count))
            what = f"{n_landmarks} landmarks stand for all rows"
        warn_user(
            f"{n_rows:,} rows: {what}, so that the fit is quick. rank=None keeps everything.",
            ApproximateKernelWarning,
        )
        return rank, n_landmarks


def cluster_centres(
    X: Any, count: int, weights: Array | None, random: np.random.RandomState
) -> Array:
    """Return the centres of k-means clusters of rows."""
    means = KMeans(count, max_iter=25, random_state=random)
    with warnings.catch_warnings():
        # Rows that differ by rounding alone: repeated landmarks cost nothing but their place.
        warnings.simplefilter("ignore", ConvergenceWarning)
        means.fit(X.astype(np.float64, copy=False), sample_weight=weights)
    return means.cluster_centers_
