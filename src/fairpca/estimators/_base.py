"""What every fair estimator shares: reading rows, posing and solving the problem, its results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from fairpca._choices import COMPARE, GROUPLESS, MISSING, MISSING_GROUPS, ROTATIONS, SOLVERS
from fairpca.estimators._data_warnings import MANY_GROUPS, warn_of_other_index
from fairpca.estimators._sklearn import (
    AT_LEAST_ONE,
    NON_NEGATIVE,
    SHARE,
    CallbackSupportMixin,
    at_least,
    fit_task,
    one_of,
    safe_indexing,
    solve_callback,
    with_callbacks,
)
from fairpca.exceptions import (
    DroppedRowsWarning,
    GroupsError,
    InvalidInputError,
    SmallGroupWarning,
    warn_user,
)
from fairpca.linalg import Array, fix_signs, varimax
from fairpca.moments import ContrastSet, GroupMoments
from fairpca.moments._maps import Span
from fairpca.moments.contrasts import ContrastTable, GroupCovariances
from fairpca.rows import UNKNOWN_GROUP, Rows
from fairpca.rows._checks import (
    MISSING_GROUP,
    check_container,
    check_finite,
    check_no_dates_or_masks,
    find_missing,
    missing_in_parts,
    no_rows_error,
)
from fairpca.rows._containers import ALIGNED, PARTS, split_named, without_columns
from fairpca.rows._identifiers import check_no_text, warn_of_units
from fairpca.solvers import Certificate, FairProblem, Solution, solve
from fairpca.tables import input_kind

FLOATS = [np.float64, np.float32]
UNCORRELATED = 1e-6  # correlations below this are rounding
# Groups belong to every fit: request them wherever metadata is routed.
ROUTED = {"sensitive_features": True, "control_features": True}


class FairnessEstimator(
    CallbackSupportMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """Base of the estimators; their parameters are documented in each of them."""

    components_: Array
    n_components_: int
    explained_variance_: Array
    explained_variance_ratio_: Array
    certificate_: Certificate
    mean_gap_: float
    cov_gap_: float
    contrasts_: ContrastTable
    n_iter_: int
    n_features_in_: int
    group_variance_: dict[str, list[Any]] | None

    # Of those that do not have the parameter.
    missing: str = MISSING[0]
    rotation: str | None = None
    target_weight: float = 0.0

    __metadata_request__fit: ClassVar = ROUTED

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [AT_LEAST_ONE, SHARE, None],
        "mean_tol": [NON_NEGATIVE, None],
        "cov_weight": [NON_NEGATIVE, None],
        "cov_tol": [NON_NEGATIVE, None],
        "solver": [one_of(SOLVERS)],
        "compare": [one_of(COMPARE)],
        "joint": ["boolean"],
        "reference": "no_validation",
        "numeric": ["array-like", None],
        "min_group_size": [at_least(2), None],
        "certify": ["boolean"],
        "rotation": [one_of(ROTATIONS), None],
        "missing_groups": [one_of({*MISSING_GROUPS, *GROUPLESS} - {"unlabelled"})],
        "verbose": ["verbose"],
    }

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing != "error"
        tags.target_tags.required = self.target_weight > 0
        return tags

    def _split(self, X: Any, parts: Sequence[Any]) -> tuple[Any, tuple[Any, ...]]:
        """Take groups, strata, weights, units and targets that are named out of a table."""
        check_container(X)
        named = dict(zip(ALIGNED, parts, strict=False))
        for name, part in named.items():
            if hasattr(X, "index") and hasattr(part, "index"):
                warn_of_other_index(name, X.index, part.index)
        X, columns, others = split_named(X, named)
        if others or hasattr(self, "other_columns_"):  # of a fit before
            self._set_other_columns(others)
        return X, tuple(columns.values())

    def _set_other_columns(self, names: Sequence[str]) -> None:
        self.__dict__.pop("other_columns_", None)
        if len(names):
            self.other_columns_ = np.array(names, dtype=object)

    def _refuse_stream(self, X: Any) -> None:
        if input_kind(X) == "stream":
            how = "X.collect()" if hasattr(X, "collect") else "pyarrow.table(X)"
            raise InvalidInputError(
                f"X is a stream ({type(X).__name__}), and {type(self).__name__} looks at rows: "
                f"read it into memory first, for example with {how}.",
                parameter="X",
            )

    def _without_others(self, X: Any) -> Any:
        """Leave out the columns that were named as groups, strata or weights in `fit`."""
        self._refuse_stream(X)
        check_container(X)
        others = getattr(self, "other_columns_", ())
        return without_columns(X, others) if len(others) else X

    def _features(self, X: Any, masks: Any = tuple, **checks: Any) -> Any:
        """Return X as scikit-learn validates it; `masks` finds rows without a group."""
        checks = {"dtype": FLOATS, "accept_sparse": "csr", "ensure_all_finite": False, **checks}
        check_no_dates_or_masks(X)
        try:
            X = validate_data(self, X, **checks)
        except ValueError:
            check_no_text(X)
            if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind == "f":
                check_finite(X, None, missing=self.missing)  # reported first, as scikit-learn does
            raise
        names = getattr(self, "feature_names_in_", None)
        check_finite(X, names, missing=self.missing, masks=masks)
        return X

    def _read_rows(self, X: Any, *parts: Any, **checks: Any) -> Rows:
        """Validate features and what goes with them; drop incomplete rows if so set."""
        own = {"own": PARTS[:2], "unlabelled": PARTS[:1]}.get(self.missing_groups, ())
        numeric = () if self.numeric is None else tuple(self.numeric)
        masks = partial(missing_in_parts, *parts[:3], own=own, numeric=numeric)
        frame, X = X, self._features(X, masks, **checks)
        names = getattr(self, "feature_names_in_", None)
        if self.missing == "drop-rows":
            report, incomplete = find_missing(X.shape[0], masks(), X, names)
            if report.counts:
                kept = np.flatnonzero(~incomplete)
                if not len(kept):
                    raise no_rows_error(report.n_rows, report.incomplete)
                warn_user(report.dropped, DroppedRowsWarning)
                X = safe_indexing(X, kept)
                parts = tuple(p if p is None else safe_indexing(p, kept) for p in parts)
        sensitive_features, control_features, sample_weight, units, y = (*parts, None, None)[:5]
        if sensitive_features is None:
            self._require_groups_optional()
            control_features = None
        unknown = {"own": MISSING_GROUP, "unlabelled": UNKNOWN_GROUP}.get(self.missing_groups)
        rows = Rows.attach(
            X,
            sensitive_features,
            control_features,
            sample_weight,
            numeric=numeric,
            feature_names=names,
            unknown=unknown,
            unknown_strata=unknown if PARTS[1] in own else None,
            units=units,
            y=y,
        )
        warn_of_units(frame, rows)
        return rows

    def _require_groups_optional(self) -> None:
        if self.missing_groups != "ignore":
            raise GroupsError(
                "sensitive_features was not given. Pass the protected attribute to fit, or set "
                "missing_groups='ignore' for plain PCA.",
                parameter="sensitive_features",
            )

    def _table_options(self) -> dict[str, Any]:
        """Return what a pass over a table has to know."""
        groups = self.missing_groups if self.missing_groups in GROUPLESS else "raise"
        return {"missing": self.missing, "missing_groups": groups, "numeric": self.numeric}

    def _dask_rows(
        self, X: Any, *parts: Any, reset: bool = True, folds: int = 0, y: Any = None
    ) -> Any:
        """Check a Dask collection by its first rows; return its rows, of which none is read yet."""
        from fairpca.tables import DaskRows, sample  # needs pyarrow

        if parts[0] is None:
            self._require_groups_optional()
        validate_data(self, sample(X), dtype=FLOATS, reset=reset, ensure_min_samples=0)
        names = getattr(self, "feature_names_in_", None)
        return DaskRows(X, *parts, names=names, folds=folds, y=y, **self._table_options())

    def _lazy_parts(self, X: Any, *parts: Any, size: int) -> tuple[GroupMoments, Rows, Callable]:
        """Return moments and a sample of a Dask collection, and what sums features of its rows."""
        rows = self._dask_rows(X, *parts)
        moments = rows.moments(at_least=2)
        return moments, rows.sample(moments, size), rows.feature_moments

    def _lazy_transform(self, X: Any, function: Callable, means: Array | None = None) -> Any:
        from fairpca.tables import lazy_transform, sample

        like = validate_data(self, sample(X), dtype=FLOATS, reset=False, ensure_min_samples=0)
        return lazy_transform(X, function, list(self.get_feature_names_out()), like.dtype, means)

    def _form_contrasts(self, moments: GroupMoments) -> ContrastSet:
        table, n_rows = moments.table, moments.n_samples
        if not table.attributes:
            return ContrastSet((), moments.n_features)
        for position, name in enumerate(table.categorical):
            count = len(table.levels(position))
            if count > MANY_GROUPS and n_rows < 2 * count:
                raise GroupsError(
                    f"column {name!r} has {count} groups in {n_rows} rows: that is an identifier "
                    "rather than a group. Leave the column out, put its values into classes, or "
                    "declare it a number if it is one.",
                    parameter="sensitive_features",
                    settings=[("numeric", [name])],
                )
        return moments.contrasts(self.compare, self.joint, self.reference, self.min_group_size)

    @with_callbacks
    def _solve(self, problem: FairProblem, **options: Any) -> Solution:
        """Solve the problem; steps go to `verbose` and callbacks."""
        for name in ("certify", "tol", "max_iter", "cov_shift"):
            if hasattr(self, name):
                options.setdefault(name, getattr(self, name))
        with fit_task(self, None) as context:
            if self.verbose or context is not None:
                options["callback"] = solve_callback(self, context)
            return solve(problem, self.solver, **options)

    def _solve_groups(self, problem: FairProblem, moments: GroupMoments, padding: int) -> Solution:
        """Solve, and tabulate what each group keeps; the last `padding` directions are constant."""
        groups = moments.group_covariances(self.joint)
        best = groups.best(problem.n_components)
        weights: dict[int, float] = {}
        if self.objective == "total":  # plain PCA next to a model with another objective
            solution = self._solve(problem)
        else:
            least = self.min_group_size or 2
            counted = large_groups(moments, groups, self.objective, least)
            covariances = groups.covariances[counted]
            if padding:
                covariances = np.pad(covariances, ((0, 0), (0, padding), (0, padding)))
            offsets = best[counted] if self.objective == "worst-loss" else None
            problem = replace(problem, group_covariances=covariances, group_offsets=offsets)
            solution = self._solve(problem)
            assert solution.weights is not None
            weights = dict(zip(counted, solution.weights.tolist(), strict=True))
        table = groups.as_table(solution.basis[: groups.covariances.shape[1]], best)
        share = [weights.get(place) for place in range(len(groups))]
        self.group_variance_ = {**table, "weight": share}
        return solution

    def _keep(
        self,
        covariance: Array,
        contrasts: ContrastSet,
        solution: Solution,
        total: float,
        span: Span | None = None,
    ) -> None:
        """Set the attributes that follow from the solution; `total` is all the variance."""
        basis = solution.basis[: len(covariance)]  # what lies outside a span has no variance
        components = basis.T if span is None else span.lift(solution.basis)
        self.__dict__.pop("correlation_", None)  # of a fit before, with a rotation
        if self.rotation is not None:
            # The subspace stays, and with it all gaps ‖Vᵀf‖ and ‖VᵀQV‖ and the total variance.
            turn = varimax(components.T)
            variances = np.sum((basis @ turn) * (covariance @ basis @ turn), axis=0)
            turn = turn[:, np.argsort(-variances, kind="stable")]
            rotated = components.T @ turn
            components, basis = fix_signs(rotated).T, fix_signs(basis @ turn, rotated)
            self.correlation_ = largest_correlation(basis.T @ covariance @ basis)
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
            warn_user(f"solver={self.solver!r} {solution.status.message}", ConvergenceWarning)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """Say of a rotated or a sparse fit whether its scores are correlated."""
        largest = getattr(self, "correlation_", 0.0)
        note = f"  # scores are correlated, up to {largest:.2f}" if largest > UNCORRELATED else ""
        return super().__repr__(N_CHAR_MAX) + note

    def _check_scores(self, X: Any) -> Array:
        """Return component scores as floats, checked for their number."""
        check_is_fitted(self, "components_")
        scores = check_array(X, dtype=FLOATS)
        if scores.shape[1] != self._n_features_out:
            raise InvalidInputError(
                f"X has {scores.shape[1]} columns, but there are {self._n_features_out} components."
            )
        return scores


def large_groups(
    moments: GroupMoments, groups: GroupCovariances, objective: str, least: int
) -> list[int]:
    """Return the positions of groups with enough rows, and name the others in a warning."""
    if moments.attributes and not moments.categorical_attributes:
        raise GroupsError(
            f"objective={objective!r} is about groups, but all sensitive_features are "
            "numbers: bin one of them, or use objective='total'.",
            parameter="objective",
        )
    sizes = groups.n_rows
    counted = [place for place, n_rows in enumerate(sizes) if n_rows >= least]
    if not counted:
        raise GroupsError(
            f"no group has min_group_size={least} rows: lower min_group_size or merge groups.",
            parameter="min_group_size",
        )
    if len(counted) < len(groups):
        small = [f"{groups.label(i)} ({n})" for i, n in enumerate(sizes) if n < least]
        warn_user(
            f"objective={objective!r} does not count groups with fewer than "
            f"min_group_size={least} rows: {', '.join(small)}.",
            SmallGroupWarning,
        )
    return counted


def largest_correlation(covariance: Array) -> float:
    """Largest absolute correlation of two scores, from their covariance."""
    scale = np.sqrt(np.maximum(np.diag(covariance), np.finfo(float).tiny))
    return float(np.abs(np.triu(covariance / np.outer(scale, scale), 1)).max(initial=0.0))
