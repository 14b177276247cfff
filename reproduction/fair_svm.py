"""The fair support vector machine of table 5 (Olfat and Aswani 2018), linear, for two groups.

Letters: B signed rows with a last column for the intercept, x = (v, b) weights and intercept,
t bound on the quadratic terms, u = (x, t) together, xi hinge losses, s slacks of the margins,
sigma slacks of the quadratic constraints; lam, eta, theta the multipliers of margins, xi >= 0
and the quadratic constraints.

    minimise    mean(xi) + alpha |v|^2 + penalty t
    subject to  B x + xi >= 1,  xi >= 0,
                v'A_k v - 2 l_k'v + k_k <= t    for every quadratic.

Only matrices of the size of x are factorised, so the cost of an iteration is linear in the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from fairpca.linalg import complement_basis
from fairpca.moments import GroupMoments

Array = NDArray[np.float64]

_FLOOR = 1e-7


@dataclass(frozen=True, eq=False)
class HingeProblem:
    """The convex problem; shapes with n rows, r features, m quadratics."""

    rows: Array  # B, (n, r + 1)
    alpha: float
    penalty: float  # of the largest quadratic; 0: none
    matrices: Array  # A, (m, r, r): positive semidefinite
    slopes: Array  # l, (m, r)
    constants: Array  # k, (m,)

    @property
    def n_quadratics(self) -> int:
        """Quadratic constraints that count."""
        return len(self.matrices) if self.penalty > 0.0 else 0


@dataclass(frozen=True, eq=False)
class HingeSolution:
    """Weights with intercept (last entry), and how the solver ended."""

    x: Array
    n_iter: int
    converged: bool


@dataclass(frozen=True, eq=False)
class _Point:
    """All variables; also used for a direction."""

    u: Array
    xi: Array
    s: Array
    sigma: Array
    lam: Array
    eta: Array
    theta: Array

    def moved(self, step: float, direction: _Point) -> _Point:
        pairs = zip(vars(self).values(), vars(direction).values(), strict=True)
        return _Point(*(a + step * d for a, d in pairs))

    def complementarity(self) -> float:
        """Sum of the products of slacks and multipliers, 0 at the optimum."""
        return float(self.s @ self.lam + self.xi @ self.eta + self.sigma @ self.theta)


def solve_hinge(problem: HingeProblem, tol: float = 1e-12, max_iter: int = 100) -> HingeSolution:
    """Solve by Mehrotra's predictor-corrector method; the residuals may be 1000 times `tol`."""
    point, before = _start(problem), np.inf
    for iteration in range(max_iter):
        residuals = _residuals(problem, point)
        gap = point.complementarity()
        worst = max(float(np.max(np.abs(r), initial=0.0)) for r in residuals)
        if gap <= tol and worst <= 1e3 * tol:
            return HingeSolution(point.u[: problem.rows.shape[1]], iteration, True)
        # Rounding sets a floor: near it, stop when an iteration no longer halves the gap.
        stalled = gap <= _FLOOR and gap > 0.5 * before
        direction = None if stalled else _direction(problem, point, residuals, gap)
        if direction is None:  # or the matrix is no longer definite in floating point
            break
        before = gap
        point = point.moved(_longest(point, direction, 0.995), direction)
    return HingeSolution(point.u[: problem.rows.shape[1]], iteration + 1, gap <= _FLOOR)


def _start(problem: HingeProblem) -> _Point:
    n, columns = problem.rows.shape
    m = problem.n_quadratics
    u, sigma, theta = np.zeros(columns + (m > 0)), np.empty(m), np.empty(m)
    if m:
        u[-1] = float(np.max(problem.constants)) + 1.0
        sigma[:] = u[-1] - problem.constants
        theta[:] = problem.penalty / m
    half = np.full(n, 0.5 / n)
    return _Point(u, np.full(n, 2.0), np.ones(n), sigma, half, half.copy(), theta)


def _quadratics(problem: HingeProblem, u: Array) -> tuple[Array, Array]:
    """Values and Jacobian of the quadratic constraints."""
    if not problem.n_quadratics:
        return np.empty(0), np.empty((0, len(u)))
    r = problem.rows.shape[1] - 1
    v = u[:r]
    products = problem.matrices @ v
    values = products @ v - 2.0 * problem.slopes @ v + problem.constants - u[-1]
    jacobian = np.zeros((problem.n_quadratics, len(u)))
    jacobian[:, :r] = 2.0 * (products - problem.slopes)
    jacobian[:, -1] = -1.0
    return values, jacobian


def _residuals(problem: HingeProblem, point: _Point) -> tuple[Array, Array, Array, Array]:
    n, columns = problem.rows.shape
    values, jacobian = _quadratics(problem, point.u)
    gradient = jacobian.T @ point.theta
    gradient[:columns] -= problem.rows.T @ point.lam
    gradient[: columns - 1] += 2.0 * problem.alpha * point.u[: columns - 1]
    if problem.n_quadratics:
        gradient[-1] += problem.penalty
    margins = problem.rows @ point.u[:columns] + point.xi - 1.0 - point.s
    return margins, 1.0 / n - point.eta - point.lam, gradient, values + point.sigma


def _direction(
    problem: HingeProblem,
    point: _Point,
    residuals: tuple[Array, Array, Array, Array],
    gap: float,
) -> _Point | None:
    """Predictor, then corrector, with one factorisation."""
    _, jacobian = _quadratics(problem, point.u)
    spread = point.xi / point.eta + point.s / point.lam
    matrix = _newton_matrix(problem, point, jacobian, spread)
    try:
        factor = cho_factor(matrix, lower=True, check_finite=True)
    except (np.linalg.LinAlgError, ValueError):
        return None

    def step(*targets: Array) -> _Point:
        return _back_substitute(problem, point, residuals, targets, jacobian, spread, factor)

    products = (point.s * point.lam, point.xi * point.eta, point.sigma * point.theta)
    predictor = step(*(-product for product in products))
    ahead = point.moved(_longest(point, predictor, 1.0), predictor)
    # Mehrotra's centring: the less the predictor gained, the further towards the central path.
    centre = (ahead.complementarity() / gap) ** 3 * gap / (2 * len(point.s) + len(point.sigma))
    return step(
        centre - products[0] - predictor.s * predictor.lam,
        centre - products[1] - predictor.xi * predictor.eta,
        centre - products[2] - predictor.sigma * predictor.theta,
    )


def _newton_matrix(problem: HingeProblem, point: _Point, jacobian: Array, spread: Array) -> Array:
    columns = problem.rows.shape[1]
    matrix = (jacobian.T * (point.theta / point.sigma)) @ jacobian
    scaled = problem.rows / np.sqrt(spread)[:, None]
    matrix[:columns, :columns] += scaled.T @ scaled
    inner = np.arange(columns - 1)
    matrix[inner, inner] += 2.0 * problem.alpha
    if problem.n_quadratics:
        hessian = np.tensordot(point.theta, problem.matrices, 1)
        matrix[: columns - 1, : columns - 1] += 2.0 * hessian
    # Far below the accuracy required; keeps the matrix definite in the last iterations.
    matrix[np.diag_indices_from(matrix)] += 1e-14 * float(np.trace(matrix)) / len(matrix)
    return matrix


def _back_substitute(
    problem: HingeProblem,
    point: _Point,
    residuals: tuple[Array, Array, Array, Array],
    targets: tuple[Array, ...],
    jacobian: Array,
    spread: Array,
    factor: Any,
) -> _Point:
    """Recover the full direction from the solution of the reduced system."""
    columns = problem.rows.shape[1]
    margins, losses, gradient, small = residuals
    e_margin, e_loss, e_small = targets
    # xi, eta and s are eliminated row by row, sigma and theta constraint by constraint.
    right = -margins - (e_loss - point.xi * losses) / point.eta + e_margin / point.lam
    rhs = -gradient - jacobian.T @ ((e_small + point.theta * small) / point.sigma)
    rhs[:columns] += problem.rows.T @ (right / spread)
    du = cho_solve(factor, rhs)
    dlam = (right - problem.rows @ du[:columns]) / spread
    deta = losses - dlam
    dxi = (e_loss - point.xi * deta) / point.eta
    ds = (e_margin - point.s * dlam) / point.lam
    dsigma = -small - jacobian @ du
    dtheta = (e_small - point.theta * dsigma) / point.sigma
    return _Point(du, dxi, ds, dsigma, dlam, deta, dtheta)


def _longest(point: _Point, direction: _Point, fraction: float) -> float:
    """Longest common step that keeps slacks and multipliers positive."""
    longest = 1.0
    for name in ("xi", "s", "sigma", "lam", "eta", "theta"):
        values, change = getattr(point, name), getattr(direction, name)
        falling = change < 0.0
        if falling.any():
            longest = min(longest, fraction * float(np.min(-values[falling] / change[falling])))
    return longest


def with_tangents(
    problem: HingeProblem, positive: Array, negative: Array, v: Array
) -> HingeProblem:
    """Majorise |v'Qv| at v, Q = positive - negative: the concave part of each side is a line."""
    against = np.stack([negative @ v, positive @ v])
    matrices = np.stack([positive, negative])
    return replace(problem, matrices=matrices, slopes=against, constants=against @ v)


class FairSVM:
    """Linear support vector machine whose scores have equal group means and close variances.

    Minimises the mean hinge loss plus ``alpha`` |w|² plus ``cov_weight`` |wᵀQw| subject to
    wᵀf = 0; f and Q are the differences of the group means and covariances. Without groups it is
    an ordinary linear SVM. The covariance term is not convex: in every round its concave part is
    replaced by its tangent, until a round gains less than `tol` of the objective.
    """

    def __init__(
        self, alpha: float, *, cov_weight: float = 0.1, tol: float = 1e-5, max_iter: int = 100
    ) -> None:
        self.alpha = alpha
        self.cov_weight = cov_weight
        self.tol = tol
        self.max_iter = max_iter

    def fit(self, X: Array, y: Any, z: Any = None) -> FairSVM:
        """Fit rows with labels and groups of 0 and 1."""
        p = X.shape[1]
        gap, cov_gap, basis = np.zeros(p), np.zeros((p, p)), np.eye(p)
        if z is not None:
            contrasts = GroupMoments.from_arrays(X, z).contrasts(min_group_size=2)
            gap, cov_gap = contrasts.mean_gaps[0], contrasts.cov_gaps[0]
            # Equal means are eliminated, not approximated: only directions orthogonal to f count.
            basis = complement_basis(gap[None], 1e-12 * max(float(np.linalg.norm(gap)), 1e-300))
        signs = 2.0 * (np.asarray(y) == 1) - 1.0
        rows = signs[:, None] * np.column_stack([X @ basis, np.ones(len(X))])
        size = basis.shape[1]
        empty = (np.empty((0, size, size)), np.empty((0, size)), np.empty(0))
        x = self._fit_rounds(HingeProblem(rows, self.alpha, 0.0, *empty), basis.T @ cov_gap @ basis)
        self.coef_, self.intercept_ = basis @ x[:-1], float(x[-1])
        self.mean_gap_ = abs(float(gap @ self.coef_))
        self.cov_gap_ = abs(float(self.coef_ @ cov_gap @ self.coef_))
        return self

    def decision_function(self, X: Array) -> Array:
        """Signed scores of the rows."""
        return X @ self.coef_ + self.intercept_

    def _fit_rounds(self, problem: HingeProblem, cov_gap: Array) -> Array:
        """Solve without the covariance term first, then with tangents at the last solution."""
        x = solve_hinge(problem).x
        self.objective_ = self._objective(problem, cov_gap, x)
        if self.cov_weight > 0.0 and cov_gap.any():
            penalised = replace(problem, penalty=self.cov_weight)
            values, vectors = np.linalg.eigh(cov_gap)
            positive, negative = (
                (vectors * np.maximum(sign * values, 0.0)) @ vectors.T for sign in (1.0, -1.0)
            )
            for _ in range(self.max_iter):
                tangent = with_tangents(penalised, positive, negative, x[:-1])
                solution = solve_hinge(tangent, tol=1e-9)
                value = self._objective(problem, cov_gap, solution.x)
                gain = self.objective_ - value
                if gain > 0.0:
                    self.objective_, x = value, solution.x
                if gain <= self.tol * abs(self.objective_) and solution.converged:
                    break
        return x

    def _objective(self, problem: HingeProblem, cov_gap: Array, x: Array) -> float:
        v = x[:-1]
        loss = float(np.maximum(1.0 - problem.rows @ x, 0.0).mean())
        return loss + self.alpha * float(v @ v) + self.cov_weight * abs(float(v @ cov_gap @ v))
