"""SparseFairPCA: components of few features, with equal group means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone

from fairpca._choices import PATH
from fairpca.estimators._base import UNCORRELATED, largest_correlation
from fairpca.estimators._data_warnings import LONG_FIT, warn_of_time
from fairpca.estimators._fair_pca import FairPCA
from fairpca.estimators._sklearn import AT_LEAST_ONE, one_of
from fairpca.exceptions import (
    CorrelatedScoresWarning,
    FairnessWarning,
    InfeasibleError,
    InvalidInputError,
    warn_user,
)
from fairpca.linalg import Array, spectral_norms
from fairpca.moments import GroupMoments
from fairpca.solvers import Certificate, FairProblem, Solution
from fairpca.solvers._sparse import (
    SparseProblem,
    explained_variances,
    independent_rows,
    solve_path,
    whitened_gap,
)

COLUMNS = "columns"
# Matrices of features × features of more would not fit into memory.
_MOST_FEATURES = 5000
# Seconds of a search by pairs of features, and by what the components of a limit have together.
_PER_PAIR, _PER_CUBE = 3e-6, 2e-5
# A mean gap this small against the spread of the features is rounding, not a difference.
_MEAN_FLOOR = 1e-11
# How much longer supports become along the path, the share of the bound at which it ends, and the
# share of the best of the path that its chosen point explains at least.
_PATH_STEP, _PATH_END, _CHOSEN = 1.3, 0.995, 0.95
_SHARED = (
    *("n_components", "mean_tol", "cov_tol", "compare", "joint", "reference", "numeric"),
    *("min_group_size", "whiten", "standardize", "missing", "missing_groups", "verbose"),
)


class SparseFairPCA(FairPCA):
    """Components that are made of few features, with exactly equal group means.

    Each component has at most `n_nonzero` loadings that are not zero. The scores of the groups have
    equal means all the same. What is maximised is how much of the table a linear regression on the
    scores explains. Scores are uncorrelated, and components are not orthogonal. `y` is ignored:
    only `FairPCA` knows a target.

    Parameters
    ----------
    n_nonzero : int or "path", default=5
        Most loadings of a component that are not zero. "path" fits rising numbers of them, see
        `path_`, and chooses the smallest that explains 95 % of what the last one does.
    cov_tol : float or None, default=None
        Bound on the largest covariance gap of the whitened scores. None: no bound.
    feature_groups : array-like of shape (n_features,), "columns" or None, default=None
        A label for each feature: features of one label count once in `n_nonzero`. "columns": the
        features that one column of text was encoded to, named ``column=value``, count once.
    n_components, mean_tol, compare, joint, reference, numeric, min_group_size, whiten, \
standardize, missing, missing_groups, verbose
        As for `FairPCA`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Rows of unit length with exact zeros.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        Share of the total variance that a regression on the score explains, given those before it.
    reconstruction_ : ndarray of shape (n_components, n_features)
        Coefficients of that regression, which `inverse_transform` uses.
    n_nonzero_ : ndarray of shape (n_components,)
        Number of loadings that are not zero.
    balance_ : ndarray of shape (n_contrasts, n_components, n_features)
        Loading times group difference of the feature, for each contrast that is compared. Each row
        sums to zero under `mean_tol` = 0. It shows which loadings cancel a group difference.
    whitened_cov_gap_ : float
        Largest covariance gap of the whitened scores, which `cov_tol` bounds.
    correlation_ : float
        Largest correlation of two scores: 0 unless `n_nonzero` is smaller than the number of
        independent group differences plus `n_components`.
    path_, path_components_ : dict of lists, ndarray of shape (n_points, n_components, n_features)
        With n_nonzero="path": n_nonzero, explained_variance_ratio (of all components),
        whitened_cov_gap and chosen; and the components of each point.
    certificate_ : Certificate
        Explained variance and a bound: no scores of equal means explain more, sparse or not. For a
        positive `mean_tol` no scores at all do.
    explained_variance_, mean_, scale_, mean_gap_, cov_gap_, contrasts_, moments_, n_samples_, \
n_components_, n_features_in_, feature_names_in_, other_columns_
        As for `FairPCA`.

    See Also
    --------
    FairPCA : All features in every component; ``rotation="varimax"`` helps to read them.
    fairpca.report.LoadingsDisplay : Loadings and their balance as a picture.

    Examples
    --------
    >>> from fairpca import SparseFairPCA
    >>> from fairpca.datasets import load_diabetes_sex
    >>> diabetes = load_diabetes_sex()
    >>> fair = SparseFairPCA(1, n_nonzero=3, standardize=True)
    >>> fair = fair.fit(diabetes.data, sensitive_features=diabetes.sensitive_features)
    >>> fair.n_nonzero_.tolist(), bool(fair.mean_gap_ < 1e-12)
    ([3], True)
    """

    path_: dict[str, list[Any]]

    _orthogonal = False
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **{name: FairPCA._parameter_constraints[name] for name in _SHARED},
        "n_nonzero": [AT_LEAST_ONE, one_of({PATH})],
        "feature_groups": ["array-like", one_of({COLUMNS}), None],
    }

    def __init__(
        self,
        n_components: float | None = 2,
        *,
        n_nonzero: int | str = 5,
        mean_tol: float | None = 0.0,
        cov_tol: float | None = None,
        feature_groups: Any = None,
        compare: str = "one-vs-rest",
        joint: bool = False,
        reference: Any = None,
        numeric: Sequence[str] | None = None,
        min_group_size: int | None = None,
        whiten: bool = False,
        standardize: bool | str = False,
        missing: str = "error",
        missing_groups: str = "raise",
        verbose: int = 0,
    ) -> None:
        super().__init__(
            n_components,
            mean_tol=mean_tol,
            cov_tol=cov_tol,
            compare=compare,
            joint=joint,
            reference=reference,
            numeric=numeric,
            min_group_size=min_group_size,
            whiten=whiten,
            standardize=standardize,
            missing=missing,
            missing_groups=missing_groups,
            verbose=verbose,
        )
        self.n_nonzero, self.feature_groups, self.solver = n_nonzero, feature_groups, "sparse"

    def to_sklearn(self) -> Any:
        """Refuse: the components are not orthogonal, as those of scikit-learn's PCA are."""
        raise InvalidInputError(
            "sparse components are not orthogonal, and sklearn.decomposition.PCA inverts its "
            "transform as if they were: use save and load_model, or to_onnx, instead."
        )

    def quick_copy(self, **options: Any) -> SparseFairPCA:
        """Return a silent copy, not fitted, with the number of loadings that a path has chosen."""
        if hasattr(self, "path_"):
            options["n_nonzero"] = self.path_["n_nonzero"][self.path_["chosen"].index(True)]
        return clone(self).set_params(verbose=0, **options)

    def _fit_sums(self, moments: GroupMoments, **options: Any) -> Self:
        """Fit from all pairs of features, also where there are more of them than rows."""
        if moments.n_features > _MOST_FEATURES:
            raise InvalidInputError(
                f"X has {moments.n_features} features, and sparse components need a matrix of all "
                f"pairs of them: choose at most {_MOST_FEATURES}, or use FairPCA."
            )
        super()._fit_sums(moments.expanded(), **options)
        self.moments_ = moments
        return self

    def _find_components(
        self, problem: FairProblem, moments: GroupMoments, *, tabulate: bool, warn: bool
    ) -> Solution:
        """Search the supports of each size; set the path, if there is one."""
        sparse = self._pose(problem, moments)
        S, Q, bound, sizes = sparse.S, sparse.Q, sparse.bound, self._sizes(sparse)
        if warn:
            _warn_of_time(sparse, sizes)
            most = len(sparse.places)
            if self.n_nonzero != PATH and 1 < most < int(self.n_nonzero):
                what = "features" if self.feature_groups is None else "columns"
                text = f"n_nonzero={self.n_nonzero} leaves nothing out: there are {most} {what}."
                warn_user(text, FairnessWarning)
        states = solve_path(sparse, sizes, _PATH_END)
        found, total = [state.V for state in states.values()], float(np.trace(S)) or 1.0
        explained = [float(explained_variances(S, V).sum()) for V in found]
        path: dict[str, list[Any]] = {
            "n_nonzero": list(states),
            "explained_variance_ratio": [value / total for value in explained],
            "whitened_cov_gap": [whitened_gap(S, Q, V) for V in found],
        }
        chosen = self._choose(sparse, found, path)
        for name in ("path_", "path_components_"):  # a fit of one size has none
            self.__dict__.pop(name, None)
        if self.n_nonzero == PATH:
            self.path_ = {**path, "chosen": [place == chosen for place in range(len(found))]}
            self.path_components_ = np.array([V.T for V in found])
        V = found[chosen]
        correlation = largest_correlation(V.T @ S @ V)
        if warn and correlation > UNCORRELATED:
            warn_user(
                f"two scores have a correlation of {correlation:.2f}: {sparse.d} components are "
                f"uncorrelated with n_nonzero={len(sparse.F) + sparse.d} or more.",
                CorrelatedScoresWarning,
            )
        mean_gap = float(np.linalg.norm(problem.mean_gaps @ V, axis=1).max(initial=0.0))
        cov_gap = float(spectral_norms(V.T @ Q @ V).max(initial=0.0))
        figures = (explained[chosen], bound, mean_gap, cov_gap, bound, 0.0, self.solver)
        return Solution(V, Certificate(*figures, True, True, "explained"), 1)

    def _pose(self, problem: FairProblem, moments: GroupMoments) -> SparseProblem:
        """Pose the problem of all features, for any number of places."""
        S, gaps, Q = problem.covariance, problem.mean_gaps, problem.cov_gaps
        spread = np.sqrt(np.trace(S) / len(S)) or 1.0
        equal = gaps[: None if self.mean_tol == 0 else 0]
        F = independent_rows(equal / spread, _MEAN_FLOOR * np.sqrt(len(S)))
        bounded = {"means": gaps, "mean_limit": self.mean_tol} if self.mean_tol else {}
        limit, count = self.cov_tol if len(Q) else None, problem.n_components
        sparse = SparseProblem.pose(S, F, Q, count, 1, limit, self._places(moments), **bounded)
        if sparse.dense.shape[1] < count:
            raise InfeasibleError(
                f"n_components={count} is too many: with n_features={len(S)} there are "
                f"{sparse.dense.shape[1]} uncorrelated directions without a difference of group "
                "means. Lower n_components or compare fewer groups.",
                parameter="n_components",
            )
        return sparse

    def _places(self, moments: GroupMoments) -> Array | None:
        """Features of each label, of which short rows repeat one; None: each counts by itself."""
        labels, p = self.feature_groups, moments.n_features
        if labels is None:
            return None
        if isinstance(labels, str):
            names = map(str, moments.feature_names or range(p))
            labels = moments.columns or [name.split("=", 1)[0] for name in names]
        if len(labels) != p:
            raise InvalidInputError(
                f"feature_groups has {len(labels)} labels for {p} features: give one for each.",
                parameter="feature_groups",
            )
        members: dict[Any, list[int]] = {}
        for place, label in enumerate(labels):
            members.setdefault(label, []).append(place)
        most = max(map(len, members.values()))
        return np.array([[*some, *some[-1:] * (most - len(some))] for some in members.values()])

    def _sizes(self, problem: SparseProblem) -> list[int]:
        """Numbers of places to solve for; refuse those that cannot have equal means."""
        K, p, most = len(problem.F), len(problem.S), len(problem.places)
        if self.n_nonzero == PATH:
            sizes = [min(K + problem.d, most)]
            while sizes[-1] < most:
                sizes.append(min(max(sizes[-1] + 1, int(_PATH_STEP * sizes[-1])), most))
            return sizes
        size = min(int(self.n_nonzero), most)
        if most == p and size <= K:
            cause = "Raise n_nonzero" if p > K else f"There are n_features={p}: use more features"
            raise InfeasibleError(
                f"n_nonzero={self.n_nonzero} is too few: equal means over {K} independent group "
                f"difference(s) need n_nonzero={K + 1} or more. {cause} or compare fewer groups.",
                K + 1,
                parameter="n_nonzero",
            )
        return [size]

    def _choose(
        self, problem: SparseProblem, found: list[Array], path: dict[str, list[Any]]
    ) -> int:
        """Return the place of the smallest size that explains enough within the limits."""
        shares, gaps = path["explained_variance_ratio"], path["whitened_cov_gap"]
        within = [place for place, V in enumerate(found) if not problem.excess(V)]
        if within:
            enough = _CHOSEN * max(shares[place] for place in within)
            return next(place for place in within if shares[place] >= enough)
        name, least, cause = "n_nonzero", None, "leaves no equal group means in so many components"
        if found:
            name, cause = "mean_tol", "was not met by any components found"
            if problem.limit is not None and min(gaps) > problem.limit:
                name, least = "cov_tol", min(gaps)
                cause += f": the smallest whitened covariance gap is {least:.4g}"
        remedy = "n_nonzero" if name == "n_nonzero" else f"{name} or n_nonzero"
        message = f"{name}={getattr(self, name)} {cause}. Raise {remedy}."
        raise InfeasibleError(message, least, parameter=name)

    def _keep(self, covariance: Array, contrasts: Any, solution: Solution, *others: Any) -> None:
        """Set the attributes of any components, and those of sparse ones."""
        super()._keep(covariance, contrasts, solution, *others)
        S, V = covariance, solution.basis
        self.explained_variance_ratio_ = explained_variances(S, V) / (np.trace(S) or 1.0)
        self.reconstruction_ = np.linalg.solve(V.T @ S @ V, (S @ V).T)
        self.n_nonzero_ = np.count_nonzero(V, axis=0)
        self.balance_ = contrasts.mean_gaps[:, None, :] * self.components_
        self.whitened_cov_gap_ = whitened_gap(S, contrasts.cov_gaps, V)
        self.correlation_ = largest_correlation(V.T @ S @ V)

    def _written_state(self, min_rows: int) -> dict[str, Any]:
        """Leave out what balances the mean gap of a small group: it shows the gap itself."""
        small, gaps = self.contrasts_.small(min_rows), self.contrasts_["mean_gap_before"]
        kept = [not few for few, gap in zip(small, gaps, strict=True) if gap is not None]
        balance = self.balance_ * np.reshape(kept, (-1, 1, 1))
        return {**super()._written_state(min_rows), "balance_": balance}


def _warn_of_time(problem: SparseProblem, sizes: list[int]) -> None:
    """Warn before a search that may take long."""
    limited = sizes if problem.limit is not None else ()
    seconds = sum(_PER_CUBE * (problem.d * size) ** 3 for size in limited)
    seconds += len(sizes) * _PER_PAIR * len(problem.S) ** 2
    if seconds > LONG_FIT:
        settings = [("n_nonzero", sizes[0])] if len(sizes) > 1 else []
        what = f"{problem.d} components of at most {sizes[-1]} of {len(problem.S)} features"
        warn_of_time(seconds, f"{what} may take about {{}}: choose fewer features.", settings)
