"""FairSVC: a linear support vector machine with mean and covariance constraints."""

from __future__ import annotations

import warnings
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from fairpca._choices import COMPARE, MISSING_GROUPS
from fairpca.baselines._hinge import HingeProblem, solve_hinge, with_linearisation
from fairpca.exceptions import GroupsError, InvalidInputError
from fairpca.linalg import complement_basis, eigenvalue_excess
from fairpca.moments import GroupMoments
from fairpca.rows import Rows


class FairSVC(ClassifierMixin, BaseEstimator):
    """Linear support vector machine whose scores differ little between groups.

    Minimises the mean hinge loss plus ``alpha`` ‖w‖² plus ``cov_weight max |wᵀQw|`` subject to
    ``|wᵀf| ≤ mean_tol``, where f is the difference of the group means and Q that of the group
    covariances (Olfat and Aswani 2018). The covariance term is not convex and is handled by the
    convex–concave procedure: Q = Q⁺ − Q⁻ and the concave half is replaced by its tangent, again
    and again. Each convex problem is solved by an interior-point method whose cost is linear in
    the rows. Features are used as they are: standardise them first.

    Parameters
    ----------
    alpha : float, default=1e-3
        Weight of ‖w‖². scikit-learn's C is 1 / (2 · alpha · n_samples).
    mean_tol : float or None, default=0.0
        Bound on the difference of the mean scores of two groups; None: no bound.
    cov_weight : float, default=0.1
        Price of the largest difference of the score variances; 0: none.
    compare : {"one-vs-rest", "pairs"}, default="one-vs-rest"
        What is compared in an attribute of more than two groups.
    tol : float, default=1e-5
        Relative decrease of the objective at which the convex–concave procedure stops.
    max_iter : int, default=100
        Limit on its rounds.
    missing_groups : {"raise", "ignore"}, default="raise"
        What to do when `sensitive_features` is not given; "ignore": an ordinary linear SVM.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The two labels.
    coef_ : ndarray of shape (1, n_features)
        Weights w.
    intercept_ : ndarray of shape (1,)
        Intercept, which is not penalised.
    objective_ : float
        Value of the objective.
    mean_gap_ : float
        Largest ``|wᵀf|`` on the training rows.
    cov_gap_ : float
        Largest ``|wᵀQw|`` on the training rows.
    n_iter_ : int
        Convex problems solved: the plain one, then one for each round.
    n_features_in_, feature_names_in_ : int and ndarray of str
        Number of features, and their names where X had any.

    References
    ----------
    M. Olfat and A. Aswani (2018). Spectral algorithms for computing fair support vector
    machines. AISTATS, PMLR 84, 1933-1942.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.baselines import FairSVC
    >>> rng = np.random.default_rng(0)
    >>> group = rng.integers(0, 2, 400)
    >>> X = rng.normal(size=(400, 4)) + np.outer(group, [1.0, 0, 0, 0])
    >>> y = (X[:, 0] + X[:, 1] > 0).astype(int)
    >>> fair = FairSVC().fit(X, y, sensitive_features=group)
    >>> score = fair.decision_function(X)
    >>> bool(abs(score[group == 1].mean() - score[group == 0].mean()) < 1e-8)
    True
    """

    __metadata_request__fit: ClassVar = {"sensitive_features": True}

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "mean_tol": [Interval(Real, 0, None, closed="left"), None],
        "cov_weight": [Interval(Real, 0, None, closed="left")],
        "compare": [StrOptions(set(COMPARE) - {"reference"})],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "missing_groups": [StrOptions(set(MISSING_GROUPS))],
    }

    def __init__(
        self,
        alpha=1e-3,
        *,
        mean_tol=0.0,
        cov_weight=0.1,
        compare="one-vs-rest",
        tol=1e-5,
        max_iter=100,
        missing_groups="raise",
    ):
        self.alpha = alpha
        self.mean_tol = mean_tol
        self.cov_weight = cov_weight
        self.compare = compare
        self.tol = tol
        self.max_iter = max_iter
        self.missing_groups = missing_groups

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, *, sensitive_features=None, sample_weight=None):
        """Fit the classifier.

        Parameters
        ----------
        X, y : array-like of shapes (n_samples, n_features) and (n_samples,)
            Features, and labels of two classes.
        sensitive_features, sample_weight
            As for `FairPCA.fit`.
        """
        X, y = validate_data(self, X, y, dtype=np.float64)
        signs = self._encode_labels(y)
        rows = Rows.attach(X, sensitive_features, None, sample_weight)
        mean_gaps, cov_gaps = self._contrasts(rows)
        weights = np.ones(len(X)) if rows.weights is None else rows.weights
        kept = weights > 0.0
        if len(np.unique(signs[kept])) < 2:
            raise InvalidInputError("the rows of positive weight hold one class only.")
        self._solve(X[kept], signs[kept], weights[kept], mean_gaps, cov_gaps)
        return self

    def decision_function(self, X):
        """Signed scores of the rows of X, as `fit` takes it; positive for ``classes_[1]``."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return X @ self.coef_[0] + self.intercept_[0]

    def predict(self, X):
        """Predict one of `classes_` for each row of X, as `decision_function` takes it."""
        positive = self.decision_function(X) > 0.0
        return self.classes_[positive.astype(int)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _encode_labels(self, y):
        check_classification_targets(y)
        kind = type_of_target(y, input_name="y", raise_unknown=True)
        classes, codes = np.unique(y, return_inverse=True)
        if kind != "binary" or len(classes) > 2:
            raise InvalidInputError(
                f"Only binary classification is supported. The type of the target is {kind}."
            )
        if len(classes) < 2:
            raise InvalidInputError("FairSVC needs labels of two classes; y holds one class only.")
        self.classes_ = classes
        return 2.0 * codes - 1.0

    def _contrasts(self, rows):
        if rows.groups is None:
            if self.missing_groups == "raise":
                raise GroupsError(
                    "sensitive_features was not given. Pass the protected attribute to fit, or "
                    "set missing_groups='ignore' for an ordinary linear SVM."
                )
            p = rows.X.shape[1]
            return np.empty((0, p)), np.empty((0, p, p))
        contrasts = GroupMoments.from_rows(rows).contrasts(self.compare)
        return np.asarray(contrasts.mean_gaps), np.asarray(contrasts.cov_gaps)

    def _solve(self, X, signs, weights, mean_gaps, cov_gaps):
        p = X.shape[1]
        mean_gaps, cov_gaps = mean_gaps.reshape(-1, p), cov_gaps.reshape(-1, p, p)
        exact = self.mean_tol == 0.0 and len(mean_gaps) > 0
        floor = 1e-12 * max(float(np.linalg.norm(mean_gaps)), 1e-300)  # dependent gaps are free
        basis = complement_basis(mean_gaps, floor) if exact else np.eye(p)
        rows = signs[:, None] * np.column_stack([X @ basis, np.ones(len(X))])
        bounded = mean_gaps if self.mean_tol is not None and not exact else mean_gaps[:0]
        reduced = np.matmul(np.matmul(basis.T, cov_gaps), basis)
        size = basis.shape[1]
        problem = HingeProblem(
            rows,
            weights / weights.sum(),
            float(self.alpha),
            0.0,
            np.empty((0, size, size)),
            np.empty((0, size)),
            np.empty(0),
            bounded @ basis,
            float(self.mean_tol or 0.0),
        )
        x = self._convex_concave(problem, reduced)
        self.coef_ = (basis @ x[:-1])[None, :]
        self.intercept_ = x[-1:].copy()
        self.objective_ = _objective(problem, reduced, self.cov_weight, x)
        self.mean_gap_ = float(np.max(np.abs(mean_gaps @ self.coef_[0]), initial=0.0))
        self.cov_gap_ = _largest_gap(cov_gaps, self.coef_[0])

    def _convex_concave(self, problem, gaps):
        """Plain solution first, then tangents at the last solution until nothing is gained."""
        solution = solve_hinge(problem)
        x, rounds, settled = solution.x, 1, solution.converged
        if self.cov_weight > 0.0 and len(gaps) and len(x) > 1:
            priced = replace(problem, price=float(self.cov_weight))
            positive, negative = _halves(gaps)
            best, settled = _objective(problem, gaps, self.cov_weight, x), False
            while rounds <= self.max_iter and not settled:
                rounds += 1
                tangent = with_linearisation(priced, positive, negative, x[:-1])
                solution = solve_hinge(tangent, tol=1e-9)
                value = _objective(problem, gaps, self.cov_weight, solution.x)
                gained = best - value
                if gained > 0.0:
                    best, x = value, solution.x
                settled = gained <= self.tol * abs(best) and solution.converged
        self.n_iter_ = rounds
        if not settled:
            warnings.warn(
                "FairSVC stopped before the objective settled; the classifier is usable. Raise "
                "max_iter or tol, or standardise the features.",
                ConvergenceWarning,
                stacklevel=4,
            )
        return x


def _halves(gaps):
    """Split Q = Q⁺ − Q⁻ into two positive semidefinite matrices, for every contrast."""
    values, vectors = np.linalg.eigh(gaps)
    return [eigenvalue_excess(sign * values, vectors, 0.0)[0] for sign in (1.0, -1.0)]


def _largest_gap(gaps, v):
    return float(np.max(np.abs(np.matmul(gaps, v) @ v), initial=0.0))


def _objective(problem, gaps, price, x):
    losses = np.maximum(1.0 - problem.rows @ x, 0.0)
    size = problem.alpha * float(x[:-1] @ x[:-1])
    return float(problem.weights @ losses) + size + price * _largest_gap(gaps, x[:-1])
