"""Interior-point solver of the convex problem inside the fair support vector machine.

Letters: B signed rows with a last column for the intercept, c weights of the hinge losses,
x = (v, b) weights and intercept, t bound on the quadratic terms, u = (x, t) together,
xi hinge losses, s slacks of the margins, sigma slacks of the few other constraints;
lam, eta, theta the multipliers of margins, xi >= 0 and the few others.

    minimise    c'xi + alpha |v|^2 + price t
    subject to  B x + xi >= 1,  xi >= 0,
                v'A_k v - 2 l_k'v + k_k <= t    for every quadratic,
                |f_j'v| <= delta                for every mean gap.

Only matrices of the size of x are factorised, so the cost of an iteration is linear in the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from fairpca.linalg import Array

_FLOOR = 1e-7


@dataclass(frozen=True, eq=False)
class HingeProblem:
    """Data of the convex problem; shapes with n rows, r features, m quadratics, j mean gaps."""

    rows: Array  # B, (n, r + 1)
    weights: Array  # c, (n,): positive, adding up to 1
    alpha: float
    price: float  # of the largest quadratic; 0: none
    matrices: Array  # A, (m, r, r): positive semidefinite
    slopes: Array  # l, (m, r)
    constants: Array  # k, (m,)
    gaps: Array  # f, (j, r); empty where they are met by construction
    delta: float

    @property
    def n_quadratics(self) -> int:
        return len(self.matrices) if self.price > 0.0 else 0


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


def solve_hinge(problem: HingeProblem, tol: float = 1e-12, max_iter: int = 100) -> HingeSolution:
    """Solve by Mehrotra's predictor-corrector method; the residuals may be 1000 times `tol`."""
    point, before = _start(problem), np.inf
    for iteration in range(max_iter):
        residuals = _residuals(problem, point)
        gap = float(point.s @ point.lam + point.xi @ point.eta + point.sigma @ point.theta)
        worst = max((float(np.max(np.abs(r), initial=0.0)) for r in residuals), default=0.0)
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
    quadratics, linear = problem.n_quadratics, 2 * len(problem.gaps)
    u = np.zeros(columns + (quadratics > 0))
    sigma = np.full(quadratics + linear, max(problem.delta, 1e-3))
    theta = np.full(quadratics + linear, 1e-2)
    if quadratics:
        u[-1] = float(np.max(problem.constants)) + 1.0
        sigma[:quadratics] = u[-1] - problem.constants
        theta[:quadratics] = problem.price / quadratics
    half = 0.5 * problem.weights
    return _Point(u, np.full(n, 2.0), np.ones(n), sigma, half, half.copy(), theta)


def _small_constraints(problem: HingeProblem, u: Array) -> tuple[Array, Array]:
    """Values and Jacobian of the quadratics and mean gaps."""
    r = problem.rows.shape[1] - 1
    v, values, blocks = u[:r], [], []
    if problem.n_quadratics:
        products = problem.matrices @ v
        values.append(products @ v - 2.0 * problem.slopes @ v + problem.constants - u[-1])
        jacobian = np.zeros((problem.n_quadratics, len(u)))
        jacobian[:, :r] = 2.0 * (products - problem.slopes)
        jacobian[:, -1] = -1.0
        blocks.append(jacobian)
    if len(problem.gaps):
        signed = np.vstack([problem.gaps, -problem.gaps])
        values.append(signed @ v - problem.delta)
        blocks.append(np.hstack([signed, np.zeros((len(signed), len(u) - r))]))
    if not values:
        return np.empty(0), np.empty((0, len(u)))
    return np.concatenate(values), np.vstack(blocks)


def _residuals(problem: HingeProblem, point: _Point) -> tuple[Array, Array, Array, Array]:
    columns = problem.rows.shape[1]
    values, jacobian = _small_constraints(problem, point.u)
    gradient = jacobian.T @ point.theta
    gradient[:columns] -= problem.rows.T @ point.lam
    gradient[: columns - 1] += 2.0 * problem.alpha * point.u[: columns - 1]
    if problem.n_quadratics:
        gradient[-1] += problem.price
    margins = problem.rows @ point.u[:columns] + point.xi - 1.0 - point.s
    return margins, problem.weights - point.eta - point.lam, gradient, values + point.sigma


def _direction(
    problem: HingeProblem,
    point: _Point,
    residuals: tuple[Array, Array, Array, Array],
    gap: float,
) -> _Point | None:
    """Predictor, then corrector, with one factorisation."""
    _, jacobian = _small_constraints(problem, point.u)
    spread = point.xi / point.eta + point.s / point.lam
    matrix = _newton_matrix(problem, point, jacobian, spread)
    try:
        factor = cho_factor(matrix, lower=True, check_finite=True)
    except (np.linalg.LinAlgError, ValueError):
        return None

    def step(margin: Array, loss: Array, small: Array) -> _Point:
        return _back_substitute(
            problem, point, residuals, (margin, loss, small), jacobian, spread, factor
        )

    products = (point.s * point.lam, point.xi * point.eta, point.sigma * point.theta)
    predictor = step(*(-product for product in products))
    ahead = point.moved(_longest(point, predictor, 1.0), predictor)
    after = float(ahead.s @ ahead.lam + ahead.xi @ ahead.eta + ahead.sigma @ ahead.theta)
    count = 2 * len(point.s) + len(point.sigma)
    centre = (after / gap) ** 3 * gap / count
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
        theta = point.theta[: problem.n_quadratics]
        matrix[: columns - 1, : columns - 1] += 2.0 * np.tensordot(theta, problem.matrices, 1)
    # Far below the accuracy asked for; keeps the factorisation alive in the last iterations.
    matrix[np.diag_indices_from(matrix)] += 1e-14 * float(np.trace(matrix)) / len(matrix)
    return matrix


def _back_substitute(problem, point, residuals, targets, jacobian, spread, factor) -> _Point:
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


def with_linearisation(
    problem: HingeProblem, positive: Array, negative: Array, v: Array
) -> HingeProblem:
    """Majorise the largest |v'Q_c v| at v: the concave half of each side becomes a line."""
    against = np.concatenate([negative @ v, positive @ v])
    return replace(
        problem,
        matrices=np.concatenate([positive, negative]),
        slopes=against,
        constants=against @ v,
    )
