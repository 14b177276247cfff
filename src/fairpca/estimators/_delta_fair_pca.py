"""DeltaFairPCA: the most variance at a limit on what classifiers predict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.utils import check_random_state

from fairpca import adversary
from fairpca._choices import DELTA_FAMILIES
from fairpca._present import Counter, Progress, delta_request
from fairpca.estimators._data_warnings import hint_numeric_attribute, warn_of_features
from fairpca.estimators._linear import FAMD, LinearEstimator, sum_in_memory
from fairpca.estimators._path_delta import ASCENTS, PENALTIES, DeltaSearch
from fairpca.estimators._sklearn import (
    NON_NEGATIVE,
    Interval,
    at_least,
    fit_context,
    fit_task,
    one_of,
    report_step,
    with_callbacks,
)
from fairpca.exceptions import DeltaNotReachedWarning, InfeasibleError, InvalidInputError, warn_user
from fairpca.linalg import Array
from fairpca.metrics._cross_fit import HeldOutDelta
from fairpca.moments import ContrastSet, GroupMoments
from fairpca.moments._cells import Standardization
from fairpca.moments._maps import Span
from fairpca.rows import Rows
from fairpca.rows._checks import fill_means
from fairpca.solvers import FairProblem
from fairpca.solvers._problem import count_components
from fairpca.tables import input_kind

# Shares of a single `penalty` that are ascended first: local optima are many.
_BEFORE = (0.1, 0.3)
_INHERITED = (
    *("n_components", "mean_tol", "compare", "joint", "reference", "numeric", "min_group_size"),
    *("certify", "whiten", "rotation", "standardize", "missing", "missing_groups", "verbose"),
)


class DeltaFairPCA(LinearEstimator):
    """Principal components of the most variance from which groups are hard to predict.

    `FairPCA` makes means and covariances of the groups alike, which stops linear and quadratic
    classifiers. Here an adversary is part of the objective: a kernel ridge regression of the groups
    on the component scores, solved anew at every step. Its R² (the leakage) is penalised. Of the
    bases found, the one of the most variance is chosen whose Δ, estimated for classifiers of
    `family` on new data, is at most `delta`; most of the search is spent around `delta`. `y` is
    ignored: only `FairPCA` knows a target.

    Parameters
    ----------
    n_components : int, float or None, default=2
        Number of components to keep, as in `FairPCA`.
    delta : float or None, default=None
        Largest Δ (of 0 to 1: difference between the groups in the rate of any decision) that
        classifiers of `family`, trained on as many rows, may reach. None: as low as chance allows.
    family : {"rbf", "linear", "trees", "panel"}, default="rbf"
        Classifiers: Gaussian-kernel support vector machines, logistic regression, boosted trees; or
        the largest of support vector machines, trees and a small network, which takes longer.
    penalty : float or None, default=None
        What a unit of leakage costs, in logarithms of the variance: at a penalty of 2 a fall of the
        leakage by 0.05 is worth a tenth of the variance kept. Skips the search: nothing is measured
        on held-out rows, and `delta` and `family` have no effect.
    mean_tol, compare, joint, reference, numeric, min_group_size
        As in `FairPCA`. Every contrast is a target of its own; the worst one counts.
    max_rows : int, default=20000
        Rows that the adversary sees: more are sampled, each combination of groups and strata by
        itself. All rows count for means and variance.
    certify : bool, default=True
        Whether to prove a bound on the variance with covariances as close as those found; without
        it the bound is that of the means alone.
    whiten, rotation, standardize, missing, missing_groups, verbose
        As in `FairPCA`.
    random_state : int, RandomState instance or None, default=0
        Random features, rows of each step, halves.

    Attributes
    ----------
    path_ : dict of lists
        The trade-off: penalty, variance (share kept), leakage (adjusted R² of the adversary), delta
        (Δ), delta_error (its standard error) and chosen, by falling variance. Points that were
        found around `delta` get a penalty between those of their neighbours.
    path_components_ : ndarray of shape (n_points, n_components, n_features)
        Components of every point of the path.
    penalty_ : float
        Penalty of the point chosen; 0 for plain PCA.
    leakage_ : float
        Leakage of the components.
    delta_, delta_error_ : float or None
        Δ of the components and its standard error: classifiers cross-fitted on the rows, by splits
        that did not serve to choose, and a share of the optimism that halves of the rows show. An
        estimate, not a proof for every classifier. None where nothing was measured.
    delta_chance_ : float or None
        What Δ stays below in 95 of 100 cases by chance alone, with as many rows.
    delta_verified_ : bool or None
        Whether `delta_` is at most `delta`, and `delta` (None: chance) is no less than
        `delta_chance_`: below it, nothing can be verified with so few rows.
    certificate_ : Certificate
        The variance kept, and a bound on it: no basis with means and covariances as close keeps
        more. It says nothing about classifiers.
    n_iter_ : int
        Points of the path.
    components_, mean_, explained_variance_, explained_variance_ratio_, mean_gap_, cov_gap_
        As in `FairPCA`, and so are `scale_`, `n_components_`, `contrasts_`, `n_features_in_` and
        `feature_names_in_`.

    See Also
    --------
    FairPCA : Equal means and close covariances, from moments alone.
    fairpca.metrics.delta_fairness : The measure that is limited.
    fairpca.report.TradeoffDisplay : `path_` as a picture.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca import DeltaFairPCA
    >>> rng = np.random.default_rng(0)
    >>> group = rng.integers(0, 2, 400)
    >>> X = rng.normal(size=(400, 5)) * (1.0 + np.outer(group, [2.0, 0, 0, 0, 0]))
    >>> fair = DeltaFairPCA(n_components=2, penalty=5.0).fit(X, sensitive_features=group)
    >>> bool(np.abs(fair.components_[:, 0]).max() < 0.5)  # the feature whose spread differs
    True
    """

    solver = "adversary"
    path_: dict[str, list[Any]]
    path_components_: Array
    penalty_: float
    leakage_: float
    delta_: float | None
    delta_error_: float | None
    delta_chance_: float | None
    delta_verified_: bool | None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **{name: LinearEstimator._parameter_constraints[name] for name in _INHERITED},
        "delta": [Interval(Real, 0, 1, closed="both"), None],
        "family": [one_of(DELTA_FAMILIES)],
        "penalty": [NON_NEGATIVE, None],
        "max_rows": [at_least(100)],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_components: float | None = 2,
        *,
        delta: float | None = None,
        family: str = "rbf",
        penalty: float | None = None,
        mean_tol: float | None = 0.0,
        compare: str = "one-vs-rest",
        joint: bool = False,
        reference: Any = None,
        numeric: Sequence[str] | None = None,
        min_group_size: int | None = None,
        max_rows: int = 20000,
        certify: bool = True,
        whiten: bool = False,
        rotation: str | None = None,
        standardize: bool | str = False,
        missing: str = "error",
        missing_groups: str = "raise",
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.delta = delta
        self.family = family
        self.penalty = penalty
        self.mean_tol = mean_tol
        self.compare = compare
        self.joint = joint
        self.reference = reference
        self.numeric = numeric
        self.min_group_size = min_group_size
        self.max_rows = max_rows
        self.certify = certify
        self.whiten = whiten
        self.rotation = rotation
        self.standardize = standardize
        self.missing = missing
        self.missing_groups = missing_groups
        self.random_state = random_state
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
        """Fit from rows.

        Parameters
        ----------
        X : array-like, data frame, sparse matrix or Dask collection
            Features, of shape (n_samples, n_features). Of a Dask collection all rows are summed,
            and at most `max_rows` of them, of every combination of groups, are read into memory.
        y, sensitive_features, control_features, sample_weight
            As for `FairPCA.fit`.
        units : array-like of shape (n_samples,), or a name, default=None
            Persons, sites or households: rows of one unit are fitted or held out together.

        Warns
        -----
        DeltaNotReachedWarning
            If `delta` is not reached, or so small that it cannot be verified.
        """
        self._refuse_stream(X)
        X, parts = self._split(X, (sensitive_features, control_features, sample_weight, units))
        if input_kind(X) == "dask":
            self._refuse_units(X, units)
            moments, rows, _ = self._lazy_parts(X, *parts[:-1], size=self.max_rows)
        else:
            rows = self._read_rows(X, *parts, ensure_min_samples=2)
            moments = sum_in_memory(rows, impute=self.missing == "mean")
        moments = moments.complete()
        warn_of_features(moments, scaled=bool(self.standardize))
        if self.missing == "mean":
            rows = replace(rows, X=fill_means(rows.X, moments.pooled().mean))
        return self._fit_rows(rows, moments)

    @fit_context
    def fit_sample(
        self, rows: Rows, moments: GroupMoments, progress: Progress | None = None
    ) -> Self:
        """Fit from moments of all rows and a sample of them.

        Parameters
        ----------
        rows : Rows
            The rows that the adversary sees, or a sample of them; see `fairpca.rows.Rows`.
        moments : GroupMoments
            Of all rows, for means and variance.
        progress : callable, optional
            Called with the ascents done and their number.

        Returns
        -------
        self : DeltaFairPCA
            The fitted estimator.

        Examples
        --------
        >>> import numpy as np
        >>> from fairpca import DeltaFairPCA, GroupMoments
        >>> from fairpca.rows import Rows
        >>> X, group = np.random.default_rng(0).normal(size=(500, 4)), np.arange(500) % 2
        >>> moments = GroupMoments.from_arrays(X, group)
        >>> sample = Rows.read(X[:200], group[:200])
        >>> DeltaFairPCA(penalty=1.0).fit_sample(sample, moments).components_.shape
        (2, 4)
        """
        self._learn_features(moments)
        return self._fit_rows(rows, moments, progress)

    def _validate_params(self) -> None:
        """Check each parameter, and those that exclude each other."""
        super()._validate_params()
        if self.delta is not None and self.penalty is not None:
            raise InvalidInputError(
                f"delta={self.delta!r} and penalty={self.penalty!r} are both set; set one of them.",
                parameter="penalty",
            )

    def _fit_rows(
        self, rows: Rows, moments: GroupMoments, progress: Progress | None = None
    ) -> Self:
        if rows.weights is not None:
            rows = rows.take(np.flatnonzero(rows.weights))
        famd = self.standardize == FAMD
        scaling = moments.standardization(famd=famd) if self.standardize else None
        if scaling is not None:
            rows, moments = _standardized(rows, moments, scaling)
        contrasts = self._form_contrasts(moments.coordinates())
        random = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        _, _, covariance = moments.coordinates().pooled()
        _check_range(float(np.sqrt(np.trace(covariance))))
        problem = FairProblem.from_contrasts(covariance, contrasts, 1, mean_tol=self.mean_tol)
        try:
            self.n_components_ = count_components(problem, self.n_components)
            space = adversary.find_space(moments, contrasts, self.n_components_, self.mean_tol)
        except InfeasibleError as error:
            raise hint_numeric_attribute(error, moments) from None
        self.mean_, self.scale_ = (space.mean, None) if scaling is None else scaling
        if rows.groups is None:
            points, deltas, chosen = [space.plain()], None, 0
        else:
            sample = rows.sample(self.max_rows, random)
            points, deltas, chosen = self._fit_path(space, sample, random, progress)
        point, self.path_ = points[chosen], _path_table(points, deltas, chosen)
        self.penalty_, self.leakage_ = self.path_["penalty"][chosen], max(point.leakage, 0.0)
        delta: Any = (None, None, None) if deltas is None else deltas[chosen]
        self.delta_, self.delta_error_, self.delta_chance_ = delta
        self.delta_verified_ = self._verify()
        bases, span = [space.ordered(point.basis) for point in points], moments.span
        lifted = [basis.T if span is None else span.lift(basis) for basis in bases]
        self.path_components_ = np.stack(lifted)
        self._keep_basis(space, contrasts, span, bases[chosen])
        self._set_model(moments, space.total)
        self._set_dtype(rows)
        return self

    @with_callbacks
    def _fit_path(
        self,
        space: adversary.Space,
        rows: Rows,
        random: np.random.Generator,
        progress: Progress | None,
    ) -> tuple[list[adversary.Point], list[HeldOutDelta] | None, int]:
        """Return the points of the path, Δ of each (None: not measured) and the one chosen."""
        ascents = 3 * len(PENALTIES) + ASCENTS if self.penalty is None else 1 + len(_BEFORE)
        shown = Counter(ascents, progress)
        with fit_task(self, ascents) as context:

            def listen(done: int, total: int | None) -> None:
                shown.add()
                report_step(self, context, "ascent")

            how = (space, rows, self._form_contrasts)
            counter = Counter(ascents, listen)
            if self.penalty is not None:
                path = adversary.Path(*how, random, counter)
                points = path.fit([self.penalty * share for share in (*_BEFORE, 1.0)])
                return points, None, len(points) - 1
            search = DeltaSearch(*how, self.mean_tol, self.family, random, counter)
            return search.search(self.delta)

    def _verify(self) -> bool | None:
        """Say whether Δ is at most `delta`; warn if it is not, or cannot be known."""
        if self.delta_ is None or self.delta_chance_ is None:
            return None
        limit = self.delta_chance_ if self.delta is None else self.delta
        verified = self.delta_ <= limit and limit >= self.delta_chance_
        if self.delta is not None and not verified:
            hint = "The components are the best found. Lower n_components, or raise delta."
            warn_user(f"{delta_request(self)} {hint}", DeltaNotReachedWarning)
        return verified

    def _keep_basis(
        self, space: adversary.Space, contrasts: ContrastSet, span: Span | None, basis: Array
    ) -> None:
        gaps = contrasts.projected_gaps(basis)
        mean_gap = max((gap for gap in gaps.mean if gap is not None), default=0.0)
        cov_gap = max((gap for gap in gaps.cov if gap is not None), default=0.0)
        solution = space.bounded(basis, mean_gap, cov_gap, certify=self.certify)
        solution = replace(solution, n_iter=len(self.path_["penalty"]))
        self._keep(space.problem.covariance, contrasts, solution, space.total, span)


def _standardized(
    rows: Rows, moments: GroupMoments, scaling: Standardization
) -> tuple[Rows, GroupMoments]:
    """Scale rows and moments alike; sparse rows are not centred, which would fill them."""
    if issparse(rows.X):
        scaling = scaling._replace(mean=np.zeros_like(scaling.mean))
        X: Any = rows.X  # * of a csr_matrix would be a matrix product
        scaled = csr_array(X.multiply(1.0 / scaling.scale))
    else:
        scaled = (rows.X - scaling.mean) / scaling.scale
    return rows.with_features(scaled), moments.standardized(scaling)


def _check_range(spread: float) -> None:
    if spread and not 1e-15 < spread < 1e15:
        raise InvalidInputError(
            f"the rows spread by {spread:.3g}, out of reach of the single precision that the "
            "adversary works in: rescale X, or set standardize=True.",
            parameter="X",
        )


def _path_table(
    points: Sequence[adversary.Point], deltas: Sequence[HeldOutDelta] | None, chosen: int
) -> dict[str, list[Any]]:
    nothing = [None] * len(points)
    return {
        "penalty": _rising_penalties(points),
        "variance": [float(point.variance) for point in points],
        "leakage": [max(float(point.leakage), 0.0) for point in points],  # below zero is chance
        "delta": nothing if deltas is None else [delta.value for delta in deltas],
        "delta_error": nothing if deltas is None else [delta.error for delta in deltas],
        "chosen": [place == chosen for place in range(len(points))],
    }


def _rising_penalties(points: Sequence[adversary.Point]) -> list[float]:
    """Penalties of points; one that was found for none of them gets one between its neighbours'."""
    penalties = np.array([point.target.penalty for point in points], dtype=float)
    between = np.array([point.target.rise > 0.0 for point in points]) | (penalties == 0.0)
    if between.all():
        return penalties.tolist()
    places = np.arange(len(points))
    known = np.log(np.maximum.accumulate(penalties[~between]))
    return np.exp(np.interp(places, places[~between], known)).tolist()
