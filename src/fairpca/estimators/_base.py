"""What every fair estimator shares: its fairness parameters, the solve, and what is kept of it."""

from __future__ import annotations

import warnings
from functools import cache, partial
from importlib.metadata import metadata
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, RealNotInt, StrOptions
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from fairpca._choices import COMPARE, GROUPLESS, MISSING, MISSING_GROUPS, SOLVERS
from fairpca.estimators._caveats import compare_indexes, refuse_identifiers
from fairpca.estimators._watch import Watch, fit_task
from fairpca.exceptions import GroupsError, ImputedValuesWarning, InvalidInputError
from fairpca.linalg import project
from fairpca.moments import ContrastSet
from fairpca.rows import Rows
from fairpca.rows._checks import (
    check_container,
    check_finite,
    check_no_dates_or_masks,
    check_no_text,
)
from fairpca.rows._columns import PARTS, split_named, without_columns
from fairpca.rows._missing import (
    MISSING_GROUP,
    fill_means,
    find_missing,
    holds_nan,
    missing_in_parts,
)
from fairpca.solvers import FairProblem, solve, solve_worst
from fairpca.solvers._count import count_components
from fairpca.solvers._solve import check_covariance_terms
from fairpca.tables import is_lazy, is_stream

FLOATS = [np.float64, np.float32]
FAMD = "famd"


class FairnessEstimator(
    CallbackSupportMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """Base of the estimators; the parameters are documented where they are public."""

    missing = MISSING[0]  # of those that do not have the parameter
    _doc_link_module = "fairpca"

    @property
    def _doc_link_template(self):
        """Address of a class's page; none while the package names no address of its own."""
        site = documentation_address()
        return f"{site}/api/generated/fairpca.{{estimator_name}}.html" if site else ""

    # Groups belong to every fit: ask for them wherever metadata is routed.
    __metadata_request__fit: ClassVar = {"sensitive_features": True, "control_features": True}

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [
            Interval(Integral, 1, None, closed="left"),
            Interval(RealNotInt, 0, 1, closed="neither"),
            None,
        ],
        "mean_tol": [Interval(Real, 0, None, closed="left"), None],
        "cov_weight": [Interval(Real, 0, None, closed="left"), None],
        "cov_tol": [Interval(Real, 0, None, closed="left"), None],
        "solver": [StrOptions(set(SOLVERS))],
        "compare": [StrOptions(set(COMPARE))],
        "joint": ["boolean"],
        "reference": "no_validation",
        "numeric": ["array-like", None],
        "min_group_size": [Interval(Integral, 2, None, closed="left")],
        "certify": ["boolean"],
        "cov_shift": [Interval(Real, 0, None, closed="left"), None],
        "whiten": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "missing_groups": [StrOptions({*MISSING_GROUPS, *GROUPLESS})],
        "verbose": ["verbose"],
    }

    def _set_all(self, given):
        """Keep the parameters of `__init__`, each under its own name, as scikit-learn asks."""
        for name in self._get_param_names():
            setattr(self, name, given[name])

    @property
    def _n_features_out(self):
        return len(self.components_)

    @property
    def _whitening(self):
        deviation = np.sqrt(self.explained_variance_)
        return np.where(deviation > 0.0, deviation, 1.0)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _features(self, X, masks=(), **checks):
        """Return X as scikit-learn checks it; what is no number is refused as by every door."""
        checks = {"dtype": FLOATS, "accept_sparse": "csr", "ensure_all_finite": False, **checks}
        check_no_dates_or_masks(X)
        try:
            X = validate_data(self, X, **checks)
        except ValueError:
            check_no_text(X)
            if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind == "f":
                check_finite(X, None, missing=self.missing)  # said first, as scikit-learn does
            raise
        names = getattr(self, "feature_names_in_", None)
        check_finite(X, names, missing=self.missing, masks=masks)
        return X

    def _beside(self, parts):
        """Mark the rows that lack a group, a stratum or a weight, where that is a mistake."""
        own = self.missing_groups == "own"
        return missing_in_parts(*parts, own=own, numeric=self.numeric or ())

    def _check_scores(self, X):
        """Return component scores as floats, checked for their number."""
        check_is_fitted(self, "components_")
        scores = check_array(X, dtype=FLOATS)
        if scores.shape[1] != self._n_features_out:
            raise InvalidInputError(
                f"X has {scores.shape[1]} columns, but there are {self._n_features_out} components."
            )
        return scores

    def _check_price(self):
        check_covariance_terms(self.cov_weight, self.cov_tol)

    def _require_groups_optional(self):
        if self.missing_groups != "ignore":
            raise GroupsError(
                "sensitive_features was not given. Pass the protected attribute to fit, or set "
                "missing_groups='ignore' for plain PCA.",
                parameter="sensitive_features",
            )

    def _split(self, X, *parts):
        """Take groups, strata and weights that are named out of a table; return X and the parts."""
        self._check_in_memory(X)
        compare_indexes(X, dict(zip(PARTS, parts, strict=True)))
        X, found, others = split_named(X, dict(zip(PARTS, parts, strict=True)))
        self._keep_others(others)
        return X, *found.values()

    def _check_in_memory(self, X):
        if is_stream(X):
            how = "X.collect()" if hasattr(X, "collect") else "pyarrow.table(X)"
            raise InvalidInputError(
                f"X is a stream ({type(X).__name__}), and {type(self).__name__} looks at rows: "
                f"read it into memory first, for example with {how}.",
                parameter="X",
            )
        check_container(X)

    def _keep_others(self, names):
        self.__dict__.pop("other_columns_", None)
        if names:
            self.other_columns_ = np.array(names, dtype=object)

    def _without_others(self, X):
        """Leave out the columns that were named as groups, strata or weights in `fit`."""
        self._check_in_memory(X)
        others = getattr(self, "other_columns_", ())
        return without_columns(X, others) if len(others) else X

    def _lazy_parts(self, X, *parts, size):
        """Return moments and a sample of a Dask collection, and what sums features of its rows."""
        from fairpca.tables import lazy_feature_moments, lazy_moments, lazy_sample, sample

        if parts[0] is None:
            self._require_groups_optional()
            parts = (None, None, parts[2])
        validate_data(self, sample(X), dtype=FLOATS, ensure_min_samples=0)
        about = {"names": getattr(self, "feature_names_in_", None), **self._table_options()}
        moments = lazy_moments(X, *parts, at_least=2, **about)
        rows = lazy_sample((X, *parts), moments, size, **about)
        return moments, rows, partial(lazy_feature_moments, (X, *parts), **about)

    def _table_options(self):
        """Return what a pass over a table has to know."""
        groups = "own" if self.missing_groups == "own" else "raise"
        return {"missing": self.missing, "missing_groups": groups, "numeric": self.numeric}

    def _lazy_transform(self, X, function, means=None):
        from fairpca.tables import lazy_transform, sample

        like = validate_data(self, sample(X), dtype=FLOATS, reset=False, ensure_min_samples=0)
        return lazy_transform(X, function, list(self.get_feature_names_out()), like.dtype, means)

    def _rows(self, X, sensitive_features, control_features, sample_weight):
        """Return validated features with their groups, strata and weights."""
        if sensitive_features is None:
            self._require_groups_optional()
            control_features = None
        numeric = () if self.numeric is None else tuple(self.numeric)
        names = getattr(self, "feature_names_in_", None)
        parts = (sensitive_features, control_features, sample_weight)
        unknown = MISSING_GROUP if self.missing_groups == "own" else None
        return Rows.attach(
            X,
            *parts,
            numeric=numeric,
            feature_names=names,
            unknown=unknown,
            unknown_strata=unknown,
        )

    def _form_contrasts(self, moments):
        if not moments.attributes:
            return ContrastSet((), moments.n_features)
        refuse_identifiers(moments)
        return moments.contrasts(self.compare, self.joint, self.reference, self.min_group_size)

    def _form_problem(self, covariance, contrasts, n_components, padding=0):
        return FairProblem.from_contrasts(
            covariance,
            contrasts,
            n_components,
            mean_tol=self.mean_tol,
            cov_weight=self.cov_weight,
            cov_tol=self.cov_tol,
            padding=padding,
        )

    def _count(self, problem):
        return count_components(problem, self.n_components)

    @with_callbacks
    def _solve(self, problem, served=None):
        """Solve for all rows, or for the worst of groups: `served` are covariances and offsets."""
        options = {name: getattr(self, name) for name in ("certify", "tol", "max_iter")}
        with fit_task(self, None) as context:
            options["callback"] = Watch(self, context) if self.verbose or context else None
            if served is None:
                return solve(problem, self.solver, cov_shift=self.cov_shift, **options)
            covariances, offsets = served
            return solve_worst(problem, covariances, offsets, self.objective, **options)

    def _keep(self, covariance, contrasts, solution, total, span=None):
        """Set the attributes that follow from the solution; `total` is all the variance."""
        basis = solution.basis[: len(covariance)]  # what lies outside a span has no variance
        components = basis.T if span is None else span.lift(solution.basis)
        self.components_ = np.ascontiguousarray(components)
        self.n_components_ = len(components)
        self.explained_variance_ = np.maximum(np.sum(basis * (covariance @ basis), axis=0), 0.0)
        self.explained_variance_ratio_ = self.explained_variance_ / (total or 1.0)
        self.certificate_ = solution.certificate
        self.mean_gap_ = solution.certificate.mean_gap
        self.cov_gap_ = solution.certificate.cov_gap
        self.contrasts_ = contrasts.as_table(basis)
        self.n_iter_ = max(solution.n_iter, 1)
        if self.verbose:
            print(f"[{type(self).__name__}] {self.certificate_!r}")
        if not solution.status.converged:
            message = f"solver={self.solver!r} {solution.status.message}"
            warnings.warn(message, ConvergenceWarning, stacklevel=5)


class LinearEstimator(FairnessEstimator):
    """Base of the estimators whose components are directions of the features."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **FairnessEstimator._parameter_constraints,
        "standardize": ["boolean", StrOptions({FAMD})],
        "missing": [StrOptions(set(MISSING))],
    }

    @property
    def _directions(self):
        """Components for features in their own units."""
        return self.components_ if self.scale_ is None else self.components_ / self.scale_

    def _scaling(self, moments):
        """Return what features are centred and divided by; None where they keep their units."""
        return moments.standardization(famd=self.standardize == FAMD) if self.standardize else None

    def transform(self, X):
        """Return the component scores (n_samples, n_components) of rows, in the type of X.

        For a Dask array or data frame: the same with its partitions, not computed yet.

        Parameters
        ----------
        X : array-like, data frame, sparse matrix or Dask collection
            Features, of shape (n_samples, n_features). Columns that were named as groups, strata
            or weights in `fit` are left out where X has them.
        """
        check_is_fitted(self, "components_")
        scale = self._whitening if self.whiten else None
        X = self._without_others(X)
        if is_lazy(X):
            parts = {"mean": self.mean_, "components": self._directions, "scale": scale}
            means = None if self.missing == "error" else self.mean_
            return self._lazy_transform(X, partial(project, **parts), means)
        X = self._features(X, reset=False)
        if self.missing == "drop-rows" and holds_nan(X):
            incomplete = find_missing(X.shape[0], X=X)[0].incomplete
            warnings.warn(
                f"{incomplete} rows have missing values, which count as the mean "
                "of the rows fitted to: there is a score for every row.",
                ImputedValuesWarning,
                stacklevel=2,
            )
        X = X if self.missing == "error" else fill_means(X, self.mean_)
        return project(X, self.mean_, self._directions, scale)

    def inverse_transform(self, X):
        """Return the points (n_samples, n_features) of the fair subspace with given scores.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Component scores.
        """
        U = self._check_scores(X)
        if self.whiten:
            U = U * self._whitening.astype(U.dtype)
        back = U @ self.components_.astype(U.dtype)
        if self.scale_ is not None:
            back = back * self.scale_.astype(U.dtype)
        return back + self.mean_.astype(U.dtype)

    def to_sklearn(self):
        """Return a plain `sklearn.decomposition.PCA` with the same `transform`.

        For places that know nothing of this package. Its `inverse_transform` is the same where
        features keep their units (``standardize=False``) only: scikit-learn's PCA has no scale.

        Examples
        --------
        >>> import numpy as np
        >>> from fairpca import FairPCA
        >>> X = np.random.default_rng(0).normal(size=(50, 3))
        >>> fair = FairPCA(1, standardize=True).fit(X, sensitive_features=np.arange(50) % 2)
        >>> plain = fair.to_sklearn()
        >>> type(plain).__module__, bool(np.allclose(plain.transform(X), fair.transform(X)))
        ('sklearn.decomposition._pca', True)
        """
        check_is_fitted(self, "components_")
        pca = PCA(n_components=len(self.components_), whiten=self.whiten)
        pca.mean_, pca.components_ = self.mean_.copy(), self._directions.copy()
        # What whitening divides by; scikit-learn would divide by zero, or nearly.
        pca.explained_variance_ = self._whitening**2 if self.whiten else self.explained_variance_
        pca.explained_variance_ratio_ = self.explained_variance_ratio_
        pca.n_components_, pca.n_features_in_ = len(self.components_), self.n_features_in_
        if hasattr(self, "feature_names_in_"):
            pca.feature_names_in_ = self.feature_names_in_
        return pca

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing != "error"
        return tags


@cache
def documentation_address():
    """Address of the documentation as the package's metadata have it, or an empty text."""
    for entry in metadata("fairpca").get_all("Project-URL") or ():
        name, _, address = entry.partition(",")
        if name.strip() == "Documentation":
            return address.strip().rstrip("/")
    return ""
