"""What scikit-learn's PCA has besides components: a probabilistic model and its attributes."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from fairpca.exceptions import InvalidInputError
from fairpca.linalg import Array
from fairpca.moments import GroupMoments
from fairpca.rows._columns import fill_means


def _has_model(estimator: Any) -> bool:
    return bool(estimator._orthogonal)


class PCAInterfaceMixin:
    """Covariance and likelihood of rows, where the fair components stand for the leading ones.

    The model is that of Tipping and Bishop (1999): rows are normal, with the variance of each
    component along it and one variance, `noise_variance_`, in all other directions. A component of
    less variance than that counts as one of them.
    """

    n_samples_: int
    singular_values_: Array
    noise_variance_: float
    _orthogonal = True  # without it there is no such model

    @available_if(_has_model)
    def get_covariance(self) -> Array:
        """Return the covariance (n_features, n_features) of rows under the model.

        The model is the probabilistic PCA of Tipping and Bishop (1999) with the fair components in
        the place of the leading ones: all other directions have the variance `noise_variance_`.
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
        model: Any = self
        precision = self.get_precision()
        X = model._features(model._without_others(X), reset=False, accept_sparse=False)
        X = X if model.missing == "error" else fill_means(X, model.mean_)
        centred = X - model.mean_
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
        model: Any = self
        variances, self.n_samples_ = model.explained_variance_, moments.n_samples
        self.singular_values_ = np.sqrt(variances * moments.coordinates().pooled().weight)
        others = min(self.n_samples_, moments.n_features) - len(variances)
        rest = total - float(variances.sum())
        self.noise_variance_ = rest / others if others > 0 and rest > 1e-13 * total else 0.0

    def _model(self) -> tuple[Array, Array, Array]:
        """Return components, their variances (at least the noise) and the scale of the features."""
        model: Any = self
        check_is_fitted(model, "components_")
        if not hasattr(self, "noise_variance_"):
            raise InvalidInputError("the file of this model is of an older version: fit it again.")
        scale = np.ones(model.n_features_in_) if model.scale_ is None else model.scale_
        V = model.components_.astype(np.float64, copy=False)
        return V, np.maximum(model.explained_variance_, self.noise_variance_), scale
