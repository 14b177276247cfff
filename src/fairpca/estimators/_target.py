"""A target in the objective: the fair predictor of y, and what components keep of it.

All of it follows from moments. Letters: S covariance of x (p, p), Y of y (q, q), C covariance of x
with y·Y^-½ (p, k), F mean gaps (c, p), V a basis (p, d). A predictor is a column of
(S + λI + κFᵀF)⁻¹C: λ has the least error of generalised cross-validation, and κ is the smallest
that keeps |uᵀf| ≤ mean_tol along the unit vector u of every predictor. T = Σρ²uuᵀ, scaled to
largest eigenvalue 1, where ρ² is the variance of the target that u explains.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from fairpca.exceptions import (
    DroppedRowsWarning,
    GroupsError,
    SmallGroupWarning,
    TargetWarning,
    warn_user,
)
from fairpca.linalg import Array, complement_basis, fix_signs, symmetrize, top_eigenpairs
from fairpca.moments import GroupCovariances, GroupMoments, Standardization
from fairpca.moments._targets import TargetMoments
from fairpca.solvers import FairProblem, Solution
from fairpca.solvers._solution import relative_gap

_GRID = 10.0 ** np.arange(-4, 5)  # ridge penalties, in units of the mean variance
_RANK = 1e-10  # smaller shares of the largest eigenvalue are rounding
_BISECTIONS = 50
_SMALLEST_TOL = 1e-9
_MOSTLY_LOST = 0.5  # of what all features say about y
_NOTHING = 0.01  # an R² of which no share is worth a word


@dataclass(frozen=True, eq=False)
class FairTarget:
    """T, its unit (the largest variance of a fair direction), and R² of all and fair directions.

    `directions` (p, k) are the fair ones that the second R² is of.
    """

    T: Array
    unit: float
    all: float
    fair: float
    directions: Array


def root_inverse(Y: Array) -> Array:
    """Y^-½ on the range of Y, as columns (q, k)."""
    values, vectors = np.linalg.eigh(Y)
    kept = values > _RANK * max(values[-1], 0.0)
    return np.asarray(vectors[:, kept] / np.sqrt(values[kept]))


def linear_r2(V: Array, S: Array, C: Array) -> float:
    """Share of the variance of whitened targets that least squares on the scores xV explains."""
    values, vectors = np.linalg.eigh(symmetrize(V.T @ S @ V))
    kept = values > _RANK * max(values.max(initial=0.0), np.finfo(float).tiny)
    H = (vectors[:, kept] / np.sqrt(values[kept])).T @ V.T @ C
    return min(float(np.sum(H**2)) / C.shape[1], 1.0)


def ridge(values: Array, G: Array, count: float) -> float:
    """Penalty of least generalised cross-validation error, for variances (r,) and C (r, k)."""

    def error(share: float) -> float:
        shrunk = values + share * values.mean()
        B = G / shrunk[:, None]
        residual = np.sum(1.0 - 2.0 * np.sum(G * B, axis=0) + values @ B**2)
        free = 1.0 - (1.0 + np.sum(values / shrunk)) / count
        return float(residual / free**2) if free > 0.0 else np.inf

    return float(min(_GRID, key=error) * values.mean())


def fair_target(S: Array, target: TargetMoments, F: Array, mean_tol: float | None) -> FairTarget:
    """Find the directions that predict the target as well as equal (or near) means allow."""
    C = target.covariance @ root_inverse(target.y_covariance)
    F = F if mean_tol is not None else F[:0]
    size = np.sqrt(max(np.trace(S), 0.0))
    equal = complement_basis(F, 1e-11 * float(max(size, np.linalg.norm(F))))
    N = equal if mean_tol == 0.0 else np.eye(len(S))
    values, vectors = np.linalg.eigh(symmetrize(N.T @ S @ N))
    kept = values > _RANK * values.max(initial=0.0)
    values, E = values[kept], N @ vectors[:, kept]
    fair, every = linear_r2(equal, S, C), linear_r2(np.eye(len(S)), S, C)
    unit = np.linalg.eigvalsh(symmetrize(equal.T @ S @ equal)).max(initial=0.0)
    if not len(values):
        return FairTarget(np.zeros_like(S), float(unit), every, fair, equal)
    strength, D = _bounded(values, E.T @ C, F @ E, mean_tol or None, target.count)
    D = E @ D
    T = symmetrize((D * strength) @ D.T)
    largest = np.linalg.eigvalsh(T)[-1]
    if mean_tol and D.shape[1] and (bounded := linear_r2(D, S, C)) > fair:
        fair, equal = bounded, D
    return FairTarget(T / (largest if largest > 0.0 else 1.0), float(unit), every, fair, equal)


def _bounded(
    values: Array, G: Array, F: Array, limit: float | None, count: float
) -> tuple[Array, Array]:
    """Strengths and unit directions (r, k) of the predictors whose mean gaps keep to the limit."""
    shrunk = np.diag(values + ridge(values, G, count))

    def at(kappa: float) -> tuple[Array, Array]:
        B = np.linalg.solve(shrunk + kappa * F.T @ F, G)
        strength, turn = np.linalg.eigh(symmetrize(B.T @ (values[:, None] * B)))
        kept = strength > 1e-12 * max(strength.max(initial=0.0), np.finfo(float).tiny)
        D = B @ turn[:, kept]
        return strength[kept], D / np.linalg.norm(D, axis=0)

    def excess(kappa: float) -> bool:
        return limit is not None and bool(np.abs(F @ at(kappa)[1]).max(initial=0.0) > limit)

    if not excess(0.0):
        return at(0.0)
    low, high = -6.0, 12.0  # κ is 10^x largest variances
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if excess(10.0**middle * values.max()) else (low, middle)
    return at(10.0**high * values.max())


def solve_with_target(model: Any, problem: FairProblem, moments: GroupMoments) -> Solution:
    """Maximise the variance of all rows, and what predicts the target.

    wλ₁J is taken off objective and bound: no fair basis that keeps at least J of the target has a
    larger objective than the bound.
    """
    target, S, d = read_target(moments), problem.covariance, problem.n_components
    size = len(target.covariance)  # the rest is padding
    term = fair_target(S[:size, :size], target, problem.mean_gaps[:, :size], model.mean_tol)
    warn_of_target(term, moments, model.mean_tol)
    paid, ends = model.target_weight * term.unit, (0, len(S) - size)
    T = np.pad(term.T, (ends, ends))
    plain = float(np.linalg.eigvalsh(S)[-d:].sum())
    # The target's part of the objective must not buy tolerance for the rest.
    tol = max(model.tol * plain / (plain + paid or 1.0), _SMALLEST_TOL)
    solution = model._solve(replace(problem, covariance=S + paid * T), tol=tol)
    V, certificate = solution.basis, solution.certificate
    V = fix_signs(V @ top_eigenpairs(symmetrize(V.T @ S @ V), d)[1])
    model.target_kept_ = kept = float(np.sum(V * (T @ V)))
    C = target.covariance @ root_inverse(target.y_covariance)
    share = linear_r2(V[:size], S[:size, :size], C)
    model.target_information_ = {"all": term.all, "fair": term.fair, "components": share}
    values = {
        name: getattr(certificate, name) - paid * kept
        for name in ("objective", "bound", "relaxed_objective")
    }
    duality_gap = relative_gap(values["bound"], values["relaxed_objective"])
    certificate = replace(certificate, **values, duality_gap=duality_gap, target_kept=kept)
    return cast(Solution, replace(solution, basis=V, certificate=certificate))


def read_target(moments: GroupMoments) -> TargetMoments:
    """Return the moments of the target, or say why there is nothing to keep."""
    target = moments.target_moments()
    if target is None or not np.trace(target.y_covariance) > 0.0:
        problem = "the moments hold no y: sum the rows with y, or with target=… for a table"
        if moments.targets:
            problem = "y has one value only, or none: give what differs between rows"
        raise GroupsError(f"{problem}, or set target_weight to 0.", parameter="y")
    missing = moments.n_samples - target.n_rows
    if missing:
        warn_user(
            f"y is missing in {missing:,} of {moments.n_samples:,} rows, which count in everything "
            "but the target.",
            DroppedRowsWarning,
        )
    return target


def warn_of_target(term: FairTarget, moments: GroupMoments, mean_tol: float | None) -> None:
    """Warn where fairness takes most of what predicts y, and where strata are y itself."""
    if term.all > _NOTHING and term.fair < _MOSTLY_LOST * term.all:
        warn_user(
            f"all features explain {100 * term.all:.1f} % of the variance of y, directions that "
            f"keep to mean_tol={mean_tol:g} explain {100 * term.fair:.1f} %: most of what predicts "
            "y is the difference between the groups, which no target_weight brings back. A larger "
            "mean_tol allows more of it.",
            TargetWarning,
        )
    width = len(moments.categorical_attributes)
    for position, name in enumerate(moments.controls, start=width):
        cells = moments.table.cells.items()
        pairs = {(key[position], labels) for key, cell in cells for labels, _ in cell.targets or ()}
        is_function = len({level for level, _ in pairs}) == len(pairs) > 1
        if name in moments.targets or (moments.table.label_targets and is_function):
            warn_user(
                f"the strata of {name!r} are the target itself: groups are compared among people "
                "with the same y, so that a bias in y is handed on to the components.",
                TargetWarning,
            )


def held_out_information(model: Any, held_out: GroupMoments) -> dict[str, float]:
    """R² on other rows of predictions that the moments of a fitted model make of y.

    From the components, and where features are not more than rows from all features and all fair
    directions; the penalty of each ridge regression is chosen on the fitted rows.
    """
    fitted = model.moments_.complete()
    if model.scale_ is not None:
        scaling = Standardization(model.mean_, model.scale_)
        fitted, held_out = fitted.standardized(scaling), held_out.standardized(scaling)
    known = {"components": model.components_}
    target = fitted.target_moments()
    if fitted.span is None and target is not None:
        F = model._form_contrasts(fitted).mean_gaps
        term = fair_target(fitted.pooled().covariance, target, F, model.mean_tol)
        known |= {"all": np.eye(fitted.n_features), "fair": term.directions.T}
    parts = {name: (fitted.projected(V), held_out.projected(V)) for name, V in known.items()}
    return {name: _predicted(*moments) for name, moments in parts.items()}


def _predicted(train: GroupMoments, test: GroupMoments) -> float:
    """R² on test rows of the ridge regression of y on all features; NaN where y is constant."""
    target = train.target_moments()
    other = None if target is None else test.target_moments(target.columns)
    if target is None or other is None:
        return np.nan
    W = root_inverse(target.y_covariance)
    values, vectors = np.linalg.eigh(train.pooled().covariance)
    kept = values > _RANK * values.max(initial=0.0)
    values, vectors = values[kept], vectors[:, kept]
    total = float(np.trace(W.T @ other.y_covariance @ W))
    if not len(values) or not total > 0.0:
        return np.nan
    G = vectors.T @ target.covariance @ W
    B = vectors @ (G / (values + ridge(values, G, target.count))[:, None])
    shift = (other.y_mean - target.y_mean) @ W - (other.mean - target.mean) @ B
    explained = 2.0 * np.sum(B * (other.covariance @ W))
    explained -= np.sum(B * (test.pooled().covariance @ B))
    return float((explained - np.sum(shift**2)) / total)


def solve_groups(
    model: Any, problem: FairProblem, moments: GroupMoments, padding: int
) -> tuple[Solution, dict[str, list[Any]]]:
    """Solve, and tabulate what each group keeps; the last `padding` directions are constant."""
    groups = moments.group_covariances(model.joint)
    best = groups.best(problem.n_components)
    weights: dict[int, float] = {}
    if model.objective == "total":  # plain PCA next to a model with another objective
        solution = model._solve(problem)
    else:
        counted = large_groups(model, moments, groups)
        covariances = groups.covariances[counted]
        if padding:
            covariances = np.pad(covariances, ((0, 0), (0, padding), (0, padding)))
        offsets = best[counted] if model.objective == "worst-loss" else None
        problem = replace(problem, group_covariances=covariances, group_offsets=offsets)
        solution = model._solve(problem)
        assert solution.weights is not None
        weights = dict(zip(counted, solution.weights.tolist(), strict=True))
    table = groups.as_table(solution.basis[: groups.covariances.shape[1]], best)
    return solution, {**table, "weight": [weights.get(i) for i in range(len(groups))]}


def large_groups(model: Any, moments: GroupMoments, groups: GroupCovariances) -> list[int]:
    """Return the positions of groups with enough rows, and name the others in a warning."""
    if moments.attributes and not moments.categorical_attributes:
        raise GroupsError(
            f"objective={model.objective!r} is about groups, but all sensitive_features are "
            "numbers: bin one of them, or use objective='total'.",
            parameter="objective",
        )
    least, sizes = model.min_group_size or 2, groups.n_rows
    counted = [place for place, n_rows in enumerate(sizes) if n_rows >= least]
    if not counted:
        raise GroupsError(
            f"no group has min_group_size={least} rows: lower min_group_size or merge groups.",
            parameter="min_group_size",
        )
    if len(counted) < len(groups):
        small = [f"{groups.label(i)} ({n})" for i, n in enumerate(sizes) if n < least]
        warn_user(
            f"objective={model.objective!r} does not count groups with fewer than "
            f"min_group_size={least} rows: {', '.join(small)}.",
            SmallGroupWarning,
        )
    return counted
