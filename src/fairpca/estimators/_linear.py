"""Estimators whose components are directions of the features: sums of rows, scores, files."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from fairpca._choices import MIN_ROWS, MISSING
from fairpca.estimators._base import FairnessEstimator
from fairpca.estimators._data_warnings import unit_noise
from fairpca.estimators._sklearn import AT_LEAST_ONE, POSITIVE, one_of
from fairpca.exceptions import (
    ExtremeRowsWarning,
    ImputedValuesWarning,
    InvalidInputError,
    warn_user,
)
from fairpca.linalg import Array, project
from fairpca.moments import FoldedMoments, GroupMoments
from fairpca.moments.contrasts import without_small_groups
from fairpca.moments.folds import with_folds
from fairpca.rows import Rows
from fairpca.rows._checks import fill_means, find_missing, holds_nan, scored_text
from fairpca.rows._containers import PARTS
from fairpca.rows._identifiers import unique_columns, warn_of_identifiers
from fairpca.tables import input_kind


def _has_model(estimator: Any) -> bool:
    """Whether there is a likelihood: correlated scores, rotated or sparse, have none."""
    return bool(estimator._orthogonal) and estimator.rotation is None


FAMD = "famd"
_FEW = 100  # effective rows of a component that rests on extremes; rare in the 15 sets of the paper
_FEW_SHARE = 0.1
_AT_ONCE = 64  # components whose scores are held at once, next to rows in single precision


class LinearEstimator(FairnessEstimator):
    """Base of the estimators whose components are directions of the features."""

    mean_: Array
    scale_: Array | None
    n_samples_: int
    singular_values_: Array
    noise_variance_: float
    effective_samples_: Array | None
    unit_noise_: dict[str, list[Any]] | None
    _orthogonal = True

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **FairnessEstimator._parameter_constraints,
        "tol": [POSITIVE],
        "max_iter": [AT_LEAST_ONE],
        "whiten": ["boolean"],
        "standardize": ["boolean", one_of({FAMD})],
        "missing": [one_of(MISSING)],
    }

    @property
    def _whitening(self) -> Array:
        deviation = np.sqrt(self.explained_variance_)
        return np.where(deviation > 0.0, deviation, 1.0)

    @property
    def _directions(self) -> Array:
        """Components for features in their own units."""
        return self.components_ if self.scale_ is None else self.components_ / self.scale_

    def _set_dtype(self, rows: Rows) -> None:
        """Keep the components in single precision where the rows are, as scikit-learn does."""
        if rows.X.dtype == np.float32:
            self.components_ = self.components_.astype(np.float32)

    def look_at_scores(self, rows: Rows) -> None:
        """Set the effective samples of the components and, where there are units, noise by unit."""
        X = rows.X if self.missing == "error" else fill_means(rows.X, self.mean_)
        weights = np.ones(len(rows)) if rows.weights is None else rows.weights
        # 2n / (κ - 1) for the kurtosis κ of a component, at most n; unequal weights make n smaller.
        n = weights.sum() ** 2 / (weights**2).sum()
        kurtosis, shares = np.full(self.n_components_, 3.0), weights / weights.sum()
        for first in range(0, self.n_components_, _AT_ONCE):
            some = slice(first, first + _AT_ONCE)
            scores = project(X, self.mean_, self._directions[some]).astype(np.float64, copy=False)
            squares = (scores - shares @ scores) ** 2
            second, fourth = shares @ squares, shares @ squares**2
            # 3, as of normal rows, where a component is constant.
            np.divide(fourth, second**2, out=kurtosis[some], where=second > 0.0)
        effective = 2.0 * n / np.maximum(kurtosis - 1.0, 2.0)
        few = np.flatnonzero((effective < _FEW) & (effective < _FEW_SHARE * len(rows)))
        if len(few):
            shown = ", ".join(f"component {i + 1} ({effective[i]:.0f} of {len(rows)})" for i in few)
            warn_user(
                f"a few extreme rows make most of the variance of {shown}: in brackets the number "
                "of normal rows that would say as much. Look for errors in those rows, take "
                "logarithms of skewed features, or keep fewer components.",
                ExtremeRowsWarning,
            )
        self.effective_samples_ = effective
        self.unit_noise_ = None
        if rows.units is not None:
            scores = project(X, self.mean_, self._directions).astype(np.float64, copy=False)
            self.unit_noise_ = unit_noise(
                rows.with_features(scores), self.compare, self.joint, self.reference
            )

    def _sum_rows(
        self,
        X: Any,
        *parts: Any,
        reset: bool = True,
        least: int = 2,
        folds: int = 0,
        keep: list[Rows] | None = None,
        y: Any = None,
    ) -> Any:
        """Sum rows in memory, of an Arrow stream or of Dask; by fold if there are any.

        Rows in memory are added to `keep`.
        """
        *groups, units = (*parts, None)[: len(PARTS) + 1]
        kind = input_kind(X)
        if kind != "memory":
            self._refuse_units(X, units)
        if self.target_weight and y is None:
            raise InvalidInputError(
                f"target_weight={self.target_weight:g} requires y to be passed, but the target y "
                "is None: pass what is to be predicted to fit, or set target_weight=0.",
                parameter="y",
            )
        if not self.target_weight and not isinstance(y, str | list):
            y = None  # a name is taken out of the features all the same
        if kind == "stream":
            return self._sum_stream(X, *groups, y, folds=folds)
        X, (*others, y) = self._split(X, (*groups, units, y))
        y = y if self.target_weight else None
        if kind == "dask":
            lazy = self._dask_rows(X, *others[: len(PARTS)], reset=reset, folds=folds, y=y)
            return lazy.moments(least)
        rows = self._read_rows(X, *others, y, reset=reset, ensure_min_samples=least)
        if keep is not None:
            keep.append(rows)
        return sum_in_memory(rows, impute=self.missing == "mean", folds=folds)

    def _refuse_units(self, X: Any, units: Any) -> None:
        if units is not None:
            raise InvalidInputError(
                f"units need rows in memory, but X is a {type(X).__name__}: read it into memory, "
                "or leave units out.",
                parameter="units",
            )

    def _sum_stream(self, X: Any, *names: Any, folds: int) -> Any:
        from fairpca.tables import moments_from_arrow  # needs pyarrow

        sensitive, control, weight, y = names
        for argument, part in zip((*PARTS[:2], "y"), (sensitive, control, y), strict=True):
            if not isinstance(part, str | list | tuple | None):
                raise InvalidInputError(
                    f"{argument} is a {type(part).__name__}, but X is a stream: name its columns.",
                    parameter=argument,
                )
        if sensitive is None:
            self._require_groups_optional()
        options = {"folds": folds, "target": y, **self._table_options()}
        moments = moments_from_arrow(X, sensitive, None, control, weight, **options)
        self._learn_features(moments)
        whole = moments.total if folds else moments
        weights = () if weight is None else (weight,)
        self._set_other_columns((*whole.attributes, *whole.controls, *weights, *whole.targets))
        return moments

    def _learn_features(self, moments: GroupMoments | FoldedMoments) -> None:
        """Take number and names of the features from moments."""
        self.n_features_in_ = moments.n_features
        self.__dict__.pop("feature_names_in_", None)
        if moments.feature_names is not None:
            self.feature_names_in_ = np.array(moments.feature_names, dtype=object)

    def transform(self, X: Any) -> Any:
        """Return the component scores (n_samples, n_components) of rows, in the type of X.

        For a Dask array or data frame: the same with its partitions, not computed yet.

        Parameters
        ----------
        X : array-like, data frame, sparse matrix or Dask collection
            Features, of shape (n_samples, n_features). Columns that were named as groups, strata
            or weights in `fit` are left out if X has them.
        """
        check_is_fitted(self, "components_")
        scale = self._whitening if self.whiten else None
        X = self._without_others(X)
        if input_kind(X) == "dask":
            parts = {"mean": self.mean_, "components": self._directions, "scale": scale}
            means = None if self.missing == "error" else self.mean_
            return self._lazy_transform(X, partial(project, **parts), means)
        X = self._features(X, reset=False)
        if self.missing == "drop-rows" and holds_nan(X):
            incomplete = find_missing(X.shape[0], X=X)[0].incomplete
            warn_user(scored_text(incomplete), ImputedValuesWarning)
        X = X if self.missing == "error" else fill_means(X, self.mean_)
        return project(X, self.mean_, self._directions, scale)

    def inverse_transform(self, X: Any) -> Array:
        """Return the points (n_samples, n_features) of the fair subspace that have these scores.

        For sparse components: what a linear regression on the scores predicts of the features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Component scores.
        """
        U = self._check_scores(X)
        if self.whiten:
            U = U * self._whitening.astype(U.dtype)
        back = U @ getattr(self, "reconstruction_", self.components_).astype(U.dtype)
        if self.scale_ is not None:
            back = back * self.scale_.astype(U.dtype)
        return back + self.mean_.astype(U.dtype)

    @available_if(_has_model)
    def get_covariance(self) -> Array:
        """Return the covariance (n_features, n_features) of rows under the model.

        The model is the probabilistic PCA of Tipping and Bishop (1999) with the fair components in
        the place of the leading ones: all other directions have the variance `noise_variance_`,
        and a component of less variance counts as one of them.
        """
        V, variances, scale = self._model()
        within = (V.T * (variances - self.noise_variance_)) @ V
        return (within + self.noise_variance_ * np.eye(len(within))) * np.outer(scale, scale)

    @available_if(_has_model)
    def get_precision(self) -> Array:
        """Return the inverse (n_features, n_features) of `get_covariance`."""
        V, variances, scale = self._model()
        complete = len(V) == V.shape[1]
        if not variances.all() or not (complete or self.noise_variance_):
            raise InvalidInputError(
                "the rows do not vary in all directions, so that their covariance has no inverse "
                "and they have no density: leave out features that others determine."
            )
        noise = 0.0 if complete else 1.0 / self.noise_variance_
        within = (V.T * (1.0 / variances - noise)) @ V
        return (within + noise * np.eye(len(within))) / np.outer(scale, scale)

    @available_if(_has_model)
    def score_samples(self, X: Any) -> Array:
        """Return the log-likelihood of each row under the model of `get_covariance`.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Features.
        """
        precision = self.get_precision()
        X = self._features(self._without_others(X), reset=False, accept_sparse=False)
        X = X if self.missing == "error" else fill_means(X, self.mean_)
        centred = X - self.mean_
        distances = np.sum(centred * (centred @ precision), axis=1)
        constant = len(precision) * np.log(2.0 * np.pi) - np.linalg.slogdet(precision)[1]
        return -0.5 * (distances + constant)

    @available_if(_has_model)
    def score(self, X: Any, y: Any = None) -> float:
        """Return the average log-likelihood of the rows, by which scikit-learn compares settings.

        It knows nothing of groups: searches over penalties or tolerances need a scorer of
        `fairpca.metrics`, or `FairPCACV`.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Features.
        y : Ignored
        """
        return float(np.mean(self.score_samples(X)))

    def _set_model(self, moments: GroupMoments, total: float) -> None:
        """Set PCA's attributes; `total` is all the variance, with the divisor n as everywhere."""
        variances, self.n_samples_ = self.explained_variance_, moments.n_samples
        if not self._orthogonal:
            return
        self.singular_values_ = np.sqrt(variances * moments.coordinates().pooled().weight)
        others = min(self.n_samples_, moments.n_features) - len(variances)
        rest = total - float(variances.sum())
        self.noise_variance_ = rest / others if others > 0 and rest > 1e-13 * total else 0.0

    def _model(self) -> tuple[Array, Array, Array]:
        """Return components, their variances (at least the noise) and the scale of the features."""
        check_is_fitted(self, "components_")
        scale = np.ones(self.n_features_in_) if self.scale_ is None else self.scale_
        V = self.components_.astype(np.float64, copy=False)
        return V, np.maximum(self.explained_variance_, self.noise_variance_), scale

    def to_sklearn(self) -> Any:
        """Return a plain `sklearn.decomposition.PCA` with the same `transform`.

        For programs that do not have this package. Its `inverse_transform`, covariance and score
        are the same only if features keep their units (``standardize=False``): scikit-learn's PCA
        has no scale. Nor is its score the same where it whitens or scores are rotated. A component
        of less variance than `noise_variance_` gets a little more than that, so that it can score.

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
        from sklearn.decomposition import PCA

        check_is_fitted(self, "components_")
        pca = PCA(n_components=len(self.components_), whiten=self.whiten)
        pca.mean_, pca.components_ = self.mean_.copy(), self._directions.copy()
        # scikit-learn's precision divides by what the variances exceed the noise by.
        least = (1.0 + 1e-9) * getattr(self, "noise_variance_", 0.0)
        variances = np.maximum(self.explained_variance_, least)
        # Its whitening would divide by zero, or nearly, where a component has no variance.
        pca.explained_variance_ = self._whitening**2 if self.whiten else variances
        pca.explained_variance_ratio_ = self.explained_variance_ratio_
        pca.n_components_, pca.n_features_in_ = len(self.components_), self.n_features_in_
        for name in ("singular_values_", "noise_variance_", "n_samples_"):
            if hasattr(self, name):  # sparse components have no likelihood
                setattr(pca, name, getattr(self, name))
        if hasattr(self, "feature_names_in_"):
            pca.feature_names_in_ = self.feature_names_in_
        return pca

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        with_moments: bool = False,
        min_rows: int = MIN_ROWS,
    ) -> Path:
        """Write the fitted model to a file, without pickle; return its path.

        Parameters
        ----------
        path : str or path
            Where to; ``.npz`` is added if it is missing.
        with_moments : bool, default=False
            Whether to keep the moments, which `partial_fit` and `expected_gaps` need. They hold
            means and covariances of the groups, and are most of the file.
        min_rows : int, default=10
            Figures of groups with fewer rows are not written, and moments with such a cell are
            refused; see `GroupMoments.save`.

        Examples
        --------
        >>> import os, tempfile
        >>> import numpy as np
        >>> from fairpca import FairPCA, load_model
        >>> X = np.random.default_rng(0).normal(size=(50, 3))
        >>> fair = FairPCA(1).fit(X, sensitive_features=np.arange(50) % 2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     again = load_model(fair.save(os.path.join(folder, "model")))
        >>> bool((again.transform(X) == fair.transform(X)).all())
        True
        """
        from fairpca._models import ModelFile, write_model

        check_is_fitted(self, "components_")
        state = self._written_state(min_rows)
        moments = state.pop("moments_", None)
        if with_moments and moments is not None:
            from fairpca.moments._release import release  # not needed by a fit

            state["moments_"] = release(moments, min_rows)
        parameters = self.get_params(deep=False)
        return write_model(path, ModelFile(type(self).__name__, parameters, state))

    def _written_state(self, min_rows: int) -> dict[str, Any]:
        """Return the fitted attributes, without figures of groups that have fewer rows."""
        state = {
            name: value
            for name, value in sorted(vars(self).items())
            if name.endswith("_") and not name.startswith("_")
        }
        if state.get("group_variance_") is not None:
            state["group_variance_"] = without_small_groups(state["group_variance_"], min_rows)
        return {**state, "contrasts_": self.contrasts_.without_small(min_rows)}


def check_moments(model: Any, user: str) -> None:
    """Refuse what needs moments where a model was saved without them."""
    if getattr(model, "moments_", None) is None:
        raise InvalidInputError(
            f"this model was saved without its moments, which {user} needs: fit it again, or save "
            "it with with_moments=True."
        )


def sum_in_memory(rows: Rows, *, impute: bool = False, folds: int = 0) -> Any:
    """Sum rows; NaN counts as the mean of all rows if `impute`."""
    names = rows.feature_names or tuple(f"x{i}" for i in range(rows.X.shape[1]))
    if unique := unique_columns(rows.X, names, None):
        warn_of_identifiers(unique, len(rows), of_table=False)
    if not impute or not holds_nan(rows.X):
        return FoldedMoments.from_rows(rows, folds) if folds else GroupMoments.from_rows(rows)
    report, _ = find_missing(len(rows), (), rows.X, rows.feature_names)
    warn_user(report.imputed, ImputedValuesWarning)
    if folds:
        moments = GroupMoments.from_incomplete(with_folds(rows, folds))
        return FoldedMoments(folds, moments, rows.units is not None)
    return GroupMoments.from_incomplete(rows)
