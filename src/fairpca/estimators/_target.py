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

from fairpca.exceptions import WITH, DroppedRowsWarning, GroupsError, TargetWarning, warn_user
from fairpca.linalg import Array, complement_basis
from fairpca.moments import GroupMoments
from fairpca.moments._cells import Standardization
from fairpca.moments._targets import TargetMoments
from fairpca.rows import Rows
from fairpca.solvers import FairProblem, Solution

_GRID = 10.0 ** np.arange(-4, 5)  # ridge penalties, in units of the mean variance
_RANK = 1e-10  # smaller shares of the largest eigenvalue are rounding
_TINY = float(np.finfo(float).tiny)
_BISECTIONS = 50
_SMALLEST_TOL = 1e-9
_MOSTLY_LOST = 0.5  # of what all features say about y
_NOTHING = 0.01  # an R² of which no share is worth a word


@dataclass(frozen=True, eq=False)
class FairTarget:
    """T, R² of all directions and of the fair ones, and variances of those with equal means."""

    T: Array
    all: float
    fair: float
    directions: Array  # (p, k), the fair ones
    variances: Array


def _principal(S: Array, N: Array) -> tuple[Array, Array]:
    """Variances above rounding of the principal directions in the span of N, and these."""
    values, vectors = np.linalg.eigh(N.T @ S @ N)
    kept = values > _RANK * max(values.max(initial=0.0), _TINY)
    return values[kept], N @ vectors[:, kept]


def _explained(values: Array, E: Array, C: Array) -> float:
    """Share of the variance of whitened targets that principal directions explain."""
    return min(float(np.sum((E.T @ C) ** 2 / values[:, None])) / C.shape[1], 1.0)


def ridge(values: Array, G: Array, count: float) -> float:
    """Penalty of least generalised cross-validation error, for variances (r,) and C (r, k)."""
    penalties = _GRID * values.mean()
    shares = values / (values + penalties[:, None])  # what is left of each coefficient
    signal = np.sum(G**2, axis=1) / values
    residual = G.shape[1] - (2.0 * shares - shares**2) @ signal
    free = 1.0 - (1.0 + shares.sum(axis=1)) / count
    errors = np.where(free > 0.0, residual / np.maximum(free, _RANK) ** 2, np.inf)
    return float(penalties[np.argmin(errors)])


def fair_target(S: Array, target: TargetMoments, F: Array, mean_tol: float | None) -> FairTarget:
    """Find the directions that predict the target as well as equal (or near) means allow."""
    C = target.whitened
    F = F if mean_tol is not None else F[:0]
    size = np.sqrt(max(np.trace(S), 0.0))
    equal = complement_basis(F, 1e-11 * float(max(size, np.linalg.norm(F))))
    values, E = inside = _principal(S, equal)
    fair, T = _explained(*inside, C), np.zeros_like(S)
    every = min(fair + _added(S, C, *inside, F), 1.0)
    if mean_tol:
        values, E = _principal(S, np.eye(len(S)))
    if len(values):
        strength, D = _bounded(values, E.T @ C, F @ E, mean_tol or None, target.count)
        D = E @ D
        if mean_tol and D.shape[1] and (bounded := _explained(*_principal(S, D), C)) > fair:
            fair, equal = bounded, D
        R = D * np.sqrt(strength)
        T = R @ R.T / max(np.linalg.eigvalsh(R.T @ R).max(initial=0.0), _TINY)
    return FairTarget(T, every, fair, equal, inside[0])


def _added(S: Array, C: Array, values: Array, E: Array, F: Array) -> float:
    """R² that the rows of F add to that of principal directions, from what these leave of them."""
    across = S @ F.T
    cross, own = E.T @ across, F @ across
    known = cross / values[:, None]
    left, excess = np.linalg.eigh(own - cross.T @ known)
    kept = left > _RANK * max(np.trace(own), _TINY)
    H = excess[:, kept].T @ (F @ C - known.T @ (E.T @ C))
    return float(np.sum(H**2 / left[kept, None])) / C.shape[1]


def _bounded(
    values: Array, G: Array, F: Array, limit: float | None, count: float
) -> tuple[Array, Array]:
    """Strengths and unit directions (r, k) of the predictors whose mean gaps keep to the limit."""
    shrunk = values + ridge(values, G, count)

    def at(kappa: float) -> tuple[Array, Array]:
        B = G / shrunk[:, None]
        if kappa:
            B = np.asarray(np.linalg.solve(np.diag(shrunk) + kappa * F.T @ F, G), dtype=float)
        strength, turn = np.linalg.eigh(B.T @ (values[:, None] * B))
        kept = strength > 1e-12 * max(strength.max(initial=0.0), _TINY)
        D = B @ turn[:, kept]
        return strength[kept], D / np.linalg.norm(D, axis=0)

    def excess(kappa: float) -> bool:
        return limit is not None and bool(np.abs(F @ at(kappa)[1]).max(initial=0.0) > limit)

    if not excess(0.0):
        return at(0.0)
    unit = values.max() / float(np.sum(F**2, axis=1).max())
    low, high = -6.0, 12.0  # κ is 10^x units
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if excess(10.0**middle * unit) else (low, middle)
    return at(10.0**high * unit)


def solve_with_target(model: Any, problem: FairProblem, moments: GroupMoments) -> Solution:
    """Maximise the variance of all rows, and what predicts the target."""
    target, S = read_target(moments), moments.pooled().covariance
    F = problem.mean_gaps[:, : len(S)]
    term = fair_target(S, target, F, model.mean_tol)
    warn_of_target(term, moments, F, model.mean_tol)
    weight = model.target_weight * float(term.variances.max(initial=0.0))
    padding = len(problem.covariance) - len(S)
    T = np.pad(term.T, (0, padding)) if padding else term.T
    problem = replace(problem, target=T, target_weight=weight)
    # The target's part of the objective must not buy tolerance for the rest.
    plain = float(term.variances[-problem.n_components :].sum())
    tol = max(model.tol * plain / (plain + weight or 1.0), _SMALLEST_TOL)
    solution: Solution = model._solve(problem, tol=tol)
    V = solution.basis[: len(S)]  # the rest is padding
    variances = np.sum(V * (S @ V), axis=0)  # components are uncorrelated
    known = variances > _RANK * max(variances[0], _TINY)
    share = _explained(variances[known], V[:, known], target.whitened)
    model.target_kept_ = solution.certificate.target_kept
    model.target_information_ = TargetInformation(all=term.all, fair=term.fair, components=share)
    return solution


class TargetInformation(dict[str, Any]):
    """R² of y on the fitted rows; that on held-out rows is measured when it is first read.

    Until then the rows of the fit are kept, but in no copy and in no file.
    """

    _fitted: tuple[Any, Rows] | None = None

    def by_folds(self, model: Any, rows: Rows) -> None:
        """Measure a copy of a model on folds of the rows it was fitted to, once that is asked."""
        fitted = object.__new__(type(model))  # as `copy` makes it, at a tenth of the time
        vars(fitted).update(vars(model), target_information_=None)  # no cycle keeps the rows
        self._fitted = fitted, rows

    def __missing__(self, key: str) -> dict[str, float]:
        if key != "held_out":
            raise KeyError(key)
        if self._fitted is None:
            raise KeyError(
                "held_out: the model has no rows to hold out. Fit rows in memory and read it "
                "before the model is copied or saved, or fit FairPCACV, which also takes moments "
                "by fold."
            )
        from fairpca.estimators._comparison import measure_target  # which fits, so needs this

        self["held_out"], self._fitted = measure_target(*self._fitted), None
        return cast(dict[str, float], self["held_out"])

    def __repr__(self) -> str:
        return repr({**self, "held_out": "measured when first read"} if self._fitted else {**self})

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)  # without the rows


def read_target(moments: GroupMoments) -> TargetMoments:
    """Return the moments of the target, or say why there is nothing to keep."""
    target = moments.target_moments()
    if target is None or not np.trace(target.y_covariance) > 0.0:
        problem = "the moments hold no y: sum rows whose y is known, with target=… for a table"
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


def warn_of_target(
    term: FairTarget, moments: GroupMoments, F: Array, mean_tol: float | None
) -> None:
    """Warn where fairness takes most of what predicts y, and where strata are y itself."""
    if term.all > _NOTHING and term.fair < _MOSTLY_LOST * term.all:
        message = (
            f"all features explain {100 * term.all:.1f} % of the variance of the target, "
            f"directions whose group means differ by at most {mean_tol:g} explain "
            f"{100 * term.fair:.1f} %: most of what predicts the target is the difference between "
            f"the groups, which no weight of the target brings back. Let the means differ{WITH}, "
            "or go without it."
        )
        larger = max(2.0 * (mean_tol or 0.0), 0.5 * float(np.linalg.norm(F, axis=1).max()))
        warn_user(TargetWarning(message, settings=[("mean_tol", float(f"{larger:.1g}"))]))
    cells = moments.table.cells.items()
    known = [(key, cell.targets.y_mean) for key, cell in cells if cell.targets is not None]
    labels = {i: name for i, (name, label) in enumerate(moments.table.targets) if label is not None}
    for position, name in enumerate(moments.controls, start=len(moments.categorical_attributes)):
        pairs = {(key[position], i) for key, share in known for i in labels if share[i] > 0.0}
        levels = {level for level, _ in pairs}
        if name in moments.targets or len(levels) * len({*labels.values()}) == len(pairs) > 1:
            warn_user(
                f"the strata of {name!r} are the target itself: groups are compared among people "
                "with the same y, so that a bias in y is handed on to the components.",
                TargetWarning,
            )


def held_out_information(model: Any, held_out: GroupMoments) -> dict[str, float | None]:
    """R² on other rows of predictions that the moments of a fitted model make of y, if it varies.

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
    return {n: _predicted(fitted.projected(V), held_out.projected(V)) for n, V in known.items()}


def _predicted(train: GroupMoments, test: GroupMoments) -> float | None:
    """R² on test rows of the ridge regression of y on all features; None where y is constant."""
    target = train.target_moments()
    other = None if target is None else test.target_moments(train.table.targets)
    if target is None or other is None:
        return None
    W = target.root
    values, E = _principal(train.pooled().covariance, np.eye(train.n_features))
    total = float(np.trace(W.T @ other.y_covariance @ W))
    if not len(values) or not total > 0.0:
        return None
    G = E.T @ target.whitened
    B = E @ (G / (values + ridge(values, G, target.count))[:, None])
    shift = (other.y_mean - target.y_mean) @ W - (other.mean - target.mean) @ B
    explained = 2.0 * np.sum(B * (other.covariance @ W))
    explained -= np.sum(B * (test.pooled().covariance @ B))
    return float((explained - np.sum(shift**2)) / total)
