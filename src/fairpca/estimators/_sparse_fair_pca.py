"""SparseFairPCA: components of few features, with equal group means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from fairpca._choices import PATH
from fairpca.estimators._base import UNCORRELATED, largest_correlation
from fairpca.estimators._data_warnings import LONG_FIT, warn_of_time
from fairpca.estimators._fair_pca import FairPCA
from fairpca.estimators._sklearn import AT_LEAST_ONE, one_of
from fairpca.exceptions import (
    CorrelatedScoresWarning,
    InfeasibleError,
    InvalidInputError,
    warn_user,
)
from fairpca.linalg import Array, spectral_norms
from fairpca.moments import ContrastSet, GroupMoments
from fairpca.solvers import Certificate, FairProblem, Solution
from fairpca.solvers._sparse import solve_path
from fairpca.solvers._sparse_problem import (
    SparseProblem,
    explained_variances,
    independent_rows,
    whitened_gap,
)

COLUMNS = "columns"
# Matrices of features × features of more would not fit into memory.
_MOST_FEATURES = 5000
# Seconds of a search by pairs of features, and by what the components of a limit have together.
_PER_PAIR, _PER_CUBE = 3e-6, 2e-5
# A mean gap this small against the spread of the features is rounding, not a difference.
_MEAN_FLOOR = 1e-11
# How much longer supports become from one point of the path to the next, and where it ends.
_PATH_STEP = 1.3
_PATH_END = 0.995
# Share of the best of the path that its chosen point explains at least.
_CHOSEN = 0.95
_INHERITED = (
    *("n_components", "cov_tol", "compare", "joint", "reference", "numeric", "min_group_size"),
    *("whiten", "standardize", "missing", "missing_groups", "verbose"),
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

    # What a dense fit may choose and this one does not.
    objective, solver, cov_weight, cov_shift = "total", "sparse", None, None
    certify, tol, max_iter = True, 1e-4, 5000
    _orthogonal = False

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **{name: FairPCA._parameter_constraints[name] for name in _INHERITED},
        "n_nonzero": [AT_LEAST_ONE, one_of({PATH})],
        "mean_tol": FairPCA._parameter_constraints["mean_tol"],
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
        self.n_components = n_components
        self.n_nonzero = n_nonzero
        self.mean_tol = mean_tol
        self.cov_tol = cov_tol
        self.feature_groups = feature_groups
        self.compare = compare
        self.joint = joint
        self.reference = reference
        self.numeric = numeric
        self.min_group_size = min_group_size
        self.whiten = whiten
        self.standardize = standardize
        self.missing = missing
        self.missing_groups = missing_groups
        self.verbose = verbose

    def to_sklearn(self) -> Any:
        """Refuse: the components are not orthogonal, as those of scikit-learn's PCA are."""
        raise InvalidInputError(
            "sparse components are not orthogonal, and sklearn.decomposition.PCA inverts its "
            "transform as if they were: use save and load_model, or to_onnx, instead."
        )

    def explained_share(self, moments: GroupMoments) -> float:
        """Return the share of the variance of other rows that the fitted regression explains.

        Parameters
        ----------
        moments : GroupMoments
            Of rows that are scaled as those of the fit.
        """
        S = moments.pooled().covariance  # a regression of few new rows would explain too much
        missed = np.eye(len(S)) - self.reconstruction_.T @ self.components_
        return 1.0 - float(np.sum((missed @ S) * missed)) / (float(np.trace(S)) or 1.0)

    def quick_copy(self, **options: Any) -> SparseFairPCA:
        """Return a silent copy, not fitted, with the number of loadings that a path has chosen."""
        if hasattr(self, "path_"):
            options["n_nonzero"] = self.path_["n_nonzero"][self.path_["chosen"].index(True)]
        return clone(self).set_params(verbose=0, **options)

    def _whole(self, moments: GroupMoments) -> GroupMoments:
        if moments.n_features > _MOST_FEATURES:
            raise InvalidInputError(
                f"X has {moments.n_features} features, and sparse components need a matrix of all "
                f"pairs of them: choose at most {_MOST_FEATURES}, or use FairPCA."
            )
        return moments.expanded()

    def _find_components(
        self, pose: Callable[..., FairProblem], moments: GroupMoments, *, tabulate: bool, warn: bool
    ) -> Solution:
        """Search the supports of each size; set the path, if there is one."""
        problem = pose()
        sparse = self._pose(problem, moments)
        sizes, S = self._sizes(sparse), sparse.S
        seconds = len(sizes) * _PER_PAIR * len(S) ** 2
        if sparse.limit is not None:
            seconds += sum(_PER_CUBE * (sparse.d * size) ** 3 for size in sizes)
        if warn and seconds > LONG_FIT:
            settings = [("n_nonzero", sizes[0])] if len(sizes) > 1 else []
            what = f"{sparse.d} components of at most {sizes[-1]} of {len(S)} features"
            warn_of_time(seconds, f"{what} may take about {{}}: choose fewer features.", settings)
        states = solve_path(sparse, sizes, _PATH_END)
        V, total = [state.V for state in states.values()], float(np.trace(S)) or 1.0
        path = {
            "n_nonzero": list(states),
            "explained_variance_ratio": [explained_variances(S, W).sum() / total for W in V],
            "whitened_cov_gap": [whitened_gap(S, sparse.Q, W) for W in V],
        }
        chosen = self._choose(sparse, V, path)
        for name in ("path_", "path_components_"):  # a fit of one size has none
            self.__dict__.pop(name, None)
        if self.n_nonzero == PATH:
            self.path_ = {**path, "chosen": [place == chosen for place in range(len(V))]}
            self.path_components_ = np.array([W.T for W in V])
        correlation = largest_correlation(V[chosen].T @ S @ V[chosen])
        if warn and correlation > UNCORRELATED:
            warn_user(
                f"two scores have a correlation of {correlation:.2f}: {sparse.d} components are "
                f"uncorrelated with n_nonzero={len(sparse.F) + sparse.d} or more.",
                CorrelatedScoresWarning,
            )
        explained = total * path["explained_variance_ratio"][chosen]
        mean_gaps = np.linalg.norm(problem.mean_gaps @ V[chosen], axis=1)
        cov_gaps = spectral_norms(V[chosen].T @ sparse.Q @ V[chosen])
        gaps = [float(some.max(initial=0.0)) for some in (mean_gaps, cov_gaps)]
        figures = (explained, sparse.bound, gaps[0], gaps[1], sparse.bound, 0.0, self.solver)
        return Solution(V[chosen], Certificate(*figures, True, True, "explained"), 1)

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

    def _places(self, moments: GroupMoments) -> list[Array] | None:
        """Features of each label; None: every feature counts by itself."""
        if self.feature_groups is None:
            return None
        p, labels = moments.n_features, self.feature_groups
        if isinstance(labels, str):
            names = moments.feature_names or [f"x{place}" for place in range(p)]
            labels = moments.columns or [str(name).split("=", 1)[0] for name in names]
        if len(labels) != p:
            raise InvalidInputError(
                f"feature_groups has {len(labels)} labels for {p} features: give one for each.",
                parameter="feature_groups",
            )
        members: dict[Any, list[int]] = {}
        for place, label in enumerate(labels):
            members.setdefault(label, []).append(place)
        return [np.array(some) for some in members.values()]

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

    def _choose(self, problem: SparseProblem, V: list[Array], path: dict[str, list[Any]]) -> int:
        """Return the place of the smallest size that explains enough within the limits."""
        shares, gaps = path["explained_variance_ratio"], path["whitened_cov_gap"]
        within = [place for place, W in enumerate(V) if not problem.excess(W)]
        if within:
            enough = _CHOSEN * max(shares[place] for place in within)
            return next(place for place in within if shares[place] >= enough)
        name, least = "mean_tol", None
        advice = "was not met by any components found. Raise mean_tol or n_nonzero."
        if not V:
            name = "n_nonzero"
            advice = "leaves no equal group means in so many components. Raise n_nonzero."
        elif problem.limit is not None and min(gaps) > problem.limit:
            name, least = "cov_tol", min(gaps)
            advice = (
                "was not met by any components found: the smallest whitened covariance gap is "
                f"{least:.4g}. Raise cov_tol or n_nonzero."
            )
        raise InfeasibleError(f"{name}={getattr(self, name)} {advice}", least, parameter=name)

    def _keep(
        self,
        covariance: Array,
        contrasts: ContrastSet,
        solution: Solution,
        total: float,
        span: Any = None,
    ) -> None:
        """Set the attributes of any components, and those of sparse ones."""
        super()._keep(covariance, contrasts, solution, total, span)
        S, V = covariance, solution.basis
        self.explained_variance_ratio_ = explained_variances(S, V) / (total or 1.0)
        self.reconstruction_ = np.linalg.solve(V.T @ S @ V, (S @ V).T)
        self.n_nonzero_ = np.count_nonzero(V, axis=0)
        self.balance_ = contrasts.mean_gaps[:, None, :] * self.components_
        self.whitened_cov_gap_ = whitened_gap(S, contrasts.cov_gaps, V)
        self.correlation_ = largest_correlation(V.T @ S @ V)

    def _written_state(self, min_rows: int) -> dict[str, Any]:
        """Leave out what balances the mean gap of a small group: it shows the gap itself."""
        gaps = self.contrasts_["mean_gap_before"]
        flags = zip(self.contrasts_.small(min_rows), gaps, strict=True)
        small = [flag for flag, gap in flags if gap is not None]
        kept = np.logical_not(small).reshape(-1, 1, 1)
        return {**super()._written_state(min_rows), "balance_": self.balance_ * kept}
