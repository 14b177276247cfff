"""The linear estimators' way there and back: rows to scores, scores to rows."""

from __future__ import annotations

from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from fairpca.estimators._base import FLOATS, FairnessEstimator
from fairpca.exceptions import InvalidInputError
from fairpca.linalg import project
from fairpca.tables import is_lazy


class LinearEstimator(FairnessEstimator):
    """Base of the estimators whose components are directions of the features."""

    def transform(self, X):
        """Project rows onto the components.

        Parameters
        ----------
        X : array-like, data frame, sparse matrix or Dask collection
            Features, of shape (n_samples, n_features).

        Returns
        -------
        U : ndarray of shape (n_samples, n_components)
            Component scores, in the floating type of X. For a Dask array or data frame: the same
            with its partitions, not computed yet.
        """
        check_is_fitted(self, "components_")
        scale = self._whitening if self.whiten else None
        if is_lazy(X):
            return self._lazy_transform(X, scale)
        X = validate_data(self, X, dtype=FLOATS, accept_sparse="csr", reset=False)
        return project(X, self.mean_, self.components_, scale)

    def inverse_transform(self, X):
        """Map component scores back to the space of the features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Component scores.

        Returns
        -------
        X_original : ndarray of shape (n_samples, n_features)
            The points of the fair subspace with these scores.
        """
        check_is_fitted(self, "components_")
        U = check_array(X, dtype=FLOATS)
        if U.shape[1] != len(self.components_):
            raise InvalidInputError(
                f"X has {U.shape[1]} columns, but there are {len(self.components_)} components."
            )
        if self.whiten:
            U = U * self._whitening.astype(U.dtype)
        return U @ self.components_.astype(U.dtype) + self.mean_.astype(U.dtype)

    def _lazy_transform(self, X, scale):
        from fairpca.tables import lazy_transform, sample

        like = validate_data(self, sample(X), dtype=FLOATS, reset=False, ensure_min_samples=0)
        names = list(self.get_feature_names_out())
        return lazy_transform(X, self.mean_, self.components_, scale, names, like.dtype)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
