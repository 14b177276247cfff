"""FairKernelPCA: fair principal components in the feature space of a kernel."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import _fit_context
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning, PositiveSpectrumWarning
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from fairpca import kernels
from fairpca.estimators._base import FairnessEstimator
from fairpca.exceptions import FairnessWarning, InvalidInputError, LongFitWarning
from fairpca.tables import is_lazy

# Rows of a Dask collection from which landmarks are chosen, at least.
_DRAWN = 20000

_ROUGH = (
    "the kernel's values differ from each other in their last digits only, so that scores and gaps "
    "have few digits themselves: centre and scale the features, or choose another gamma."
)

# A fit of 1,000 rows at full rank on one core, and what is worth a word.
_SECONDS, _LONG = 6.0, 20.0


class FairKernelPCA(FairnessEstimator):
    """Fair principal components in the feature space of a kernel.

    Kernel PCA is linear PCA in the eigenspace of the centred kernel matrix. There the groups of
    every protected attribute get equal (or nearly equal) means, and covariances that differ as
    little as asked for, exactly as in `FairPCA`, and with the same certificate. `transform` never
    needs the protected attribute.

    Parameters
    ----------
    n_components : int, float or None, default=2
        Number of components to keep, as in `FairPCA`. A share is that of the variance in the
        eigenspace; None: as many as the kernel and the means leave room for.
    kernel : str or callable, default="rbf"
        A kernel of `sklearn.metrics.pairwise.pairwise_kernels`, a function of two rows, or
        "precomputed": then X is the kernel matrix.
    gamma : float or None, default=None
        Coefficient of the kernels that have one; None: 1 / n_features.
    degree : float, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=1
        Independent term of the polynomial and sigmoid kernels.
    kernel_params : dict or None, default=None
        Keyword arguments of a callable kernel.
    n_landmarks : int or None, default=None
        Number of landmarks of the Nyström approximation, which needs memory for the landmarks and
        a batch of rows only. None, or as many landmarks as rows: the exact form, which needs the
        n×n kernel matrix.
    landmarks : {"kmeans", "uniform"}, default="kmeans"
        Cluster centres or rows drawn at random, inside every combination of groups and strata, so
        that small groups are present. Rows of a precomputed kernel are always drawn.
    rank : int or None, default=None
        Number of eigenvalues of the kernel to keep; None: all that are not zero. Time and the
        certificate are those of a problem with `rank` features.
    formulation : {"feature", "paper"}, default="feature"
        "feature": orthonormal components in feature space. "paper": orthonormal coefficients of
        the training rows with the objective K² and the Q_k and f_k printed by Olfat and Aswani,
        K being centred as their data are.
    alpha : float, default=1.0
        Ridge of the inverse transform.
    fit_inverse_transform : bool, default=False
        Whether to learn the inverse transform, by kernel ridge regression as KernelPCA does; from
        the landmarks where there are any.
    max_memory : float or None, default=None
        Bytes that the n×n kernel matrix and its eigenvectors may take; None: the memory of the
        machine. More is an error before anything is computed.
    random_state : int, RandomState instance or None, default=0
        Choice of the landmarks, and start of the search for a few eigenpairs.
    mean_tol, cov_weight, cov_tol, solver, compare, joint, reference, numeric, min_group_size
        As in `FairPCA`.
    certify, cov_shift, whiten, tol, max_iter, missing_groups, verbose
        As in `FairPCA`. Nothing is scaled or imputed here: the rows are in memory anyway, so put a
        StandardScaler or SimpleImputer before. `tol` and `max_iter` are those of the relaxation;
        eigenpairs are always computed to rounding.

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
    explained_variance_ : ndarray of shape (n_components,)
        Variance of each component (divisor: the number or weight of the rows).
    explained_variance_ratio_ : ndarray of shape (n_components,)
        The same as a share of the total variance in feature space (of the landmarks' span).
    mean_gap_, cov_gap_ : float
        Largest distance between group means, and largest spectral norm of a difference of group
        covariances, after the projection. In the paper's form: the norms of αᵀf_k and αᵀQ_kα/n.
    contrasts_ : dict of lists
        One entry per contrast, as in `FairPCA`.
    certificate_ : Certificate
        Objective, proven bound within the eigenspace kept, and the gap between them.
    gamma_ : float
        The coefficient used.
    X_transformed_fit_, dual_coef_ : ndarray
        Regressors and coefficients of the inverse transform, where it was asked for.
    n_iter_, n_features_in_, feature_names_in_
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
        **FairnessEstimator._parameter_constraints,
        "kernel": [StrOptions({*PAIRWISE_KERNEL_FUNCTIONS, "precomputed"}), callable],
        "gamma": [Interval(Real, 0, None, closed="neither"), None],
        "degree": [Interval(Real, 0, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "kernel_params": [dict, None],
        "n_landmarks": [Interval(Integral, 2, None, closed="left"), None],
        "landmarks": [StrOptions({"kmeans", "uniform"})],
        "rank": [Interval(Integral, 1, None, closed="left"), None],
        "formulation": [StrOptions({"feature", "paper"})],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "fit_inverse_transform": ["boolean"],
        "max_memory": [Interval(Real, 0, None, closed="neither"), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_components=2,
        *,
        kernel="rbf",
        gamma=None,
        degree=3,
        coef0=1,
        kernel_params=None,
        n_landmarks=None,
        landmarks="kmeans",
        rank=None,
        formulation="feature",
        alpha=1.0,
        fit_inverse_transform=False,
        max_memory=None,
        random_state=0,
        mean_tol=0.0,
        cov_weight=None,
        cov_tol=None,
        solver="refined",
        compare="one-vs-rest",
        joint=False,
        reference=None,
        numeric=None,
        min_group_size=2,
        certify=True,
        cov_shift=None,
        whiten=False,
        tol=1e-4,
        max_iter=5000,
        missing_groups="raise",
        verbose=0,
    ):
        self._set_all(locals())

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, *, sensitive_features=None, control_features=None, sample_weight=None):
        """Fit from rows, or from a precomputed kernel matrix.

        Parameters
        ----------
        X : array-like, sparse matrix or Dask collection of shape (n_samples, n_features)
            Features; shape (n_samples, n_samples) for a precomputed kernel. A Dask collection needs
            `n_landmarks`; it is read three times, and its `transform` is lazy.
        y, sensitive_features, control_features, sample_weight
            As for `FairPCA.fit`.
        """
        self._check_price()
        self._check_form(sample_weight)
        X, *parts = self._split(X, sensitive_features, control_features, sample_weight)
        if is_lazy(X):
            return self._fit_lazy(X, *parts)
        # A copy: a precomputed kernel is overwritten, and the rows are kept for transform.
        X = self._features(X, self._beside(parts), copy=True, ensure_min_samples=2)
        return self._fit_rows(self._rows(X, *parts))

    def transform(self, X):
        """Return the component scores of rows, in the floating type of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features; kernel values against the training rows for a precomputed kernel.
        """
        check_is_fitted(self, "components_")
        X = self._without_others(X)
        if is_lazy(X):
            return self._lazy_transform(X, self._scores)
        return self._scores(self._features(X, reset=False))

    def _scores(self, X):
        scores = self._anchors.scores(X, self._shift, self.coefficients_, self._offset)
        return scores / self._whitening.astype(X.dtype) if self.whiten else scores

    def inverse_transform(self, X):
        """Map component scores back to the space of the features, approximately.

        X is as for `FairPCA.inverse_transform`; what is returned are the predictions of a kernel
        ridge regression of the training rows on their scores.
        """
        check_is_fitted(self, "components_")
        if not self.fit_inverse_transform:
            raise InvalidInputError(
                "the inverse transform was not learned; set fit_inverse_transform=True and fit.",
                parameter="fit_inverse_transform",
            )
        U = self._check_scores(X)
        values = self._anchors.kernel(U, self.X_transformed_fit_)
        return (values @ self.dual_coef_).astype(U.dtype)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self._is_precomputed
        return tags

    @property
    def _is_precomputed(self):
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _check_form(self, sample_weight):
        if self.fit_inverse_transform and self._is_precomputed:
            raise InvalidInputError(
                "fit_inverse_transform=True needs the features, which kernel='precomputed' hides.",
                parameter="fit_inverse_transform",
            )
        if self.formulation != "feature" and (
            self.n_landmarks is not None or sample_weight is not None
        ):
            raise InvalidInputError(
                f"formulation={self.formulation!r} has one coefficient for each row, and knows no "
                "n_landmarks and no sample_weight. Leave them out, or use formulation='feature'.",
                parameter="formulation",
            )

    def _fit_lazy(self, X, *parts):
        """Landmarks come from a sample of the rows; the features of all rows are summed."""
        if self.n_landmarks is None or self._is_precomputed:
            raise InvalidInputError(
                "X is a Dask collection, whose kernel matrix would not fit: set n_landmarks, with "
                "a kernel that is not precomputed.",
                parameter="n_landmarks",
            )
        _, rows, summed = self._lazy_parts(X, *parts, size=max(30 * self.n_landmarks, _DRAWN))
        return self._fit_rows(rows, summed)

    def _fit_rows(self, rows, summed=None):
        """Fit from rows; `summed` gives moments of the features of all where these are a sample."""
        self.gamma_ = 1.0 / rows.X.shape[1] if self.gamma is None else float(self.gamma)
        rows, anchors = kernels.all_rows(self._kernel_function(), rows)
        equivalent = kernels.equivalent_kernel(self.kernel, self.gamma_, rows.X)
        anchors = replace(anchors, equivalent=equivalent)
        self._anchors, space = self._build_space(rows, anchors, summed)
        if space.clipped is not None:
            warnings.warn(space.clipped.message, PositiveSpectrumWarning, stacklevel=4)
        if space.is_rough:
            warnings.warn(_ROUGH, FairnessWarning, stacklevel=4)
        covariance = np.diag(space.variances)
        problem = self._form_problem(covariance, space.contrasts, 1)
        solution = self._solve(replace(problem, n_components=self._count(problem)))
        basis = space.oriented(solution.basis)
        self.X_fit_ = self._anchors.rows
        self.eigenvalues_ = space.eigenvalues
        self._shift, self._offset = space.shift, space.offset @ basis
        self.coefficients_ = space.projection @ basis
        self._keep(covariance, space.contrasts, replace(solution, basis=basis), space.total)
        if self.fit_inverse_transform:
            scores = space.reference @ basis
            self.X_transformed_fit_ = scores / self._whitening if self.whiten else scores
            self.dual_coef_ = kernels.inverse_coefficients(
                self._anchors, self.X_transformed_fit_, rows.weights, self.alpha
            )
        return self

    def _kernel_function(self):
        if self._is_precomputed:
            return None
        params = {"gamma": self.gamma_, "degree": self.degree, "coef0": self.coef0}
        if callable(self.kernel):
            params = self.kernel_params or {}
        return partial(pairwise_kernels, metric=self.kernel, filter_params=True, **params)

    def _build_space(self, rows, anchors, summed):
        random = check_random_state(self.random_state)
        precision = np.finfo(rows.X.dtype if self._is_precomputed else np.float64).eps
        is_positive = kernels.is_positive(self.kernel, self.degree, self.coef0)
        options = kernels.SpectrumOptions(self.rank, is_positive, float(precision), random)
        if self.n_landmarks is not None and self.n_landmarks < len(rows):
            cluster = _cluster_centres if self.landmarks == "kmeans" else None
            few, K = kernels.few_rows(anchors, rows, self.n_landmarks, random, cluster)
            summed = summed or partial(kernels.sum_in_batches, rows)
            return few, kernels.landmark_space(summed, few, K, options, self._form_contrasts)
        kernels.check_gram_memory(
            len(rows),
            partial=self.rank is not None and self.rank < len(rows),
            inverse=self.fit_inverse_transform,
            limit=self.max_memory,
        )
        if self.rank is None:
            _warn_of_time(len(rows))
        is_feature = self.formulation == "feature"
        build = kernels.exact_space if is_feature else kernels.coefficient_space
        return anchors, build(rows, anchors.gram(rows.X), options, self._form_contrasts)

    def _count(self, problem):
        asked, size = super()._count(problem), len(problem.covariance)
        if asked > size:
            raise InvalidInputError(
                f"n_components={asked}, but the centred kernel matrix has {size} eigenvalues "
                "that are not zero or within rank. Lower n_components, raise rank, or set "
                "n_components=None for as many as there is room for.",
                parameter="n_components",
            )
        return asked


def _warn_of_time(n_rows):
    """Say how long all eigenvalues of so many rows take, before it starts."""
    seconds = _SECONDS * (n_rows / 1000.0) ** 3
    if seconds >= _LONG:
        minutes = seconds / 60.0
        shown = f"{minutes:.0f} minutes" if minutes >= 2.0 else f"{seconds:.0f} seconds"
        warnings.warn(
            f"{n_rows} rows at full rank will take about {shown}, or several times that with many "
            "groups. rank=200 keeps the largest eigenvalues, and n_landmarks=500 needs no matrix "
            "of all rows: either takes seconds.",
            LongFitWarning,
            stacklevel=6,
        )


def _cluster_centres(X, count, weights, random):
    means = KMeans(count, n_init=1, max_iter=25, random_state=random)
    with warnings.catch_warnings():
        # Fewer distinct rows than centres: repeated landmarks cost nothing but their place.
        warnings.simplefilter("ignore", ConvergenceWarning)
        means.fit(X.astype(np.float64, copy=False), sample_weight=weights)
    return means.cluster_centers_
