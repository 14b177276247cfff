"""All sparse components together on their supports.

V = EY: E (n, p, q) holds bases of the directions of equal means on each support, in which a
coordinate vector of unit length is a score of unit variance; Y has one block for each column.
M = EᵀSE, A = EᵀS²E. n sets of supports are solved at once where only means count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import minimize

from fairpca.linalg import Array, complement_basis, symmetrize
from fairpca.solvers._sparse_problem import SparseProblem
from fairpca.solvers._supports import unit_variance, whitening

_RANK = 1e-9
_ROUNDING = 1e-12
# Longest step of Newton's method, whose scores have unit variance, and the number of steps.
_LONGEST = 0.5
_STEPS = 6
_FEASIBLE = 1e-9
# Share of the limit by which the soft maximum of the gaps may exceed their maximum.
_SOFTNESS = 0.05


class SupportSets:
    """Bases on n sets of supports, all of one size, or on one set of supports of any size."""

    def __init__(self, problem: SparseProblem, supports: Any) -> None:
        blocks = (_blocks_of_one if supports.ndim < 3 else _blocks)(problem, supports)
        self.problem, self.d = problem, len(blocks)
        widths = [block.shape[2] for block in blocks]
        self.E, self.starts = np.concatenate(blocks, axis=2), np.cumsum([0, *widths])[:-1]
        self.column = np.repeat(np.arange(self.d), widths)
        back = np.swapaxes(self.E, -1, -2)
        self.M, self.A = (symmetrize(back @ (C @ self.E)) for C in (problem.S, problem.square))
        # A direction in which nothing varies is zero in E, and must not be taken for a free one.
        lacking = 1.0 - np.diagonal(self.M, axis1=-2, axis2=-1)
        self.M = self.M + np.eye(len(self.column)) * lacking[..., None]
        self.inner = np.where(self.column[:, None] == self.column, self.A, 0.0)
        self.pairs: Any = np.triu_indices(self.d)

    def near(self, V: Array) -> Array:
        """Coordinates (n, q) of the directions nearest to components (n, p, d)."""
        SV = (self.problem.S @ V)[..., self.column]
        return np.asarray(np.sum(self.E * SV, axis=-2))

    def deflated(self, order: Sequence[int]) -> Array:
        """Coordinates (n, q): the best direction on one support, then on the next beside it."""
        y = np.zeros(self.inner.shape[:2])
        for count, j in enumerate(order):
            block = np.flatnonzero(self.column == j)
            A = self.inner[:, block[:, None], block]
            if count:
                Y = y[..., None] * np.eye(self.d)[self.column][:, list(order[:count])]
                C = np.swapaxes(self.M[:, block] @ Y, -1, -2)
                P = np.eye(len(block)) - np.linalg.pinv(C, rcond=_RANK) @ C
                A = P @ A @ P
            y[:, block] = np.linalg.eigh(A)[1][:, :, -1]
        return y

    def lift(self, y: Array) -> Array:
        """Components (…, p, d) of coordinates (…, q), zero outside their supports."""
        return np.asarray(self.E @ (y[..., None] * np.eye(self.d)[self.column]))

    def explained(self, y: Array) -> Array:
        """Explained variance of uncorrelated scores."""
        return np.asarray(np.sum(y * (self.inner @ y[..., None])[..., 0], axis=-1))

    def solve(self, y: Array) -> tuple[Array, Array]:
        """Return coordinates (…, n, q) from a start, and what they explain; −inf where it fails."""
        # Newton's method on the Lagrangian of max Σ y_jᵀA_jjy_j subject to y_iᵀM_ijy_j = δ_ij.
        # Any feasible point is a valid score, whether it is a maximum or not.
        (i, j), size = self.pairs, len(self.column)
        multipliers = None
        for _ in range(_STEPS):
            y = y / np.sqrt(np.add.reduceat(y**2, self.starts, axis=-1))[..., self.column]
            J, residual = self.constraints(y)
            gradient = (self.inner @ y[..., None])[..., 0]
            if multipliers is None:
                JJ = J @ np.swapaxes(J, -1, -2) + _ROUNDING * np.eye(len(i))
                multipliers = _solve(JJ, (J @ gradient[..., None])[..., 0])
            L = np.zeros((*y.shape[:-1], self.d, self.d))
            L[..., i, j] = L[..., j, i] = multipliers
            H = self.inner - L[..., self.column[:, None], self.column] * self.M
            slack = np.broadcast_to(_ROUNDING * np.eye(len(i)), (*y.shape[:-1], len(i), len(i)))
            slope = (multipliers[..., None, :] @ J)[..., 0, :] - gradient
            system = np.block([[H, -np.swapaxes(J, -1, -2)], [J, slack]])
            move = _solve(system, np.concatenate([slope, -residual], axis=-1))
            length = np.linalg.norm(move[..., :size], axis=-1, keepdims=True)
            move = move * np.minimum(1.0, _LONGEST / np.maximum(length, _LONGEST))
            y, multipliers = y + move[..., :size], multipliers + move[..., size:]
        y = self.restore(y)
        feasible = np.abs(self.constraints(y)[1]).max(axis=-1) < _FEASIBLE
        return y, np.where(feasible, self.explained(y), -np.inf)

    def restore(self, y: Array, steps: int = 3) -> Array:
        """Move to the nearest point at which scores are uncorrelated."""
        for _ in range(steps):
            J, residual = self.constraints(y)
            JJ = J @ np.swapaxes(J, -1, -2) + _ROUNDING * np.eye(residual.shape[-1])
            y = y - (_solve(JJ, residual)[..., None, :] @ J)[..., 0, :]
        return y

    def constraints(self, y: Array) -> tuple[Array, Array]:
        """Gradients (…, c, q) of y_iᵀM_ijy_j, half of it for i = j, and what they lack of δ_ij."""
        i, j = self.pairs
        half = np.where(i == j, 0.5, 1.0)
        Y = y[..., None] * np.eye(self.d)[self.column]
        MY = np.swapaxes(self.M @ Y, -1, -2)
        J = np.where(self.column == i[:, None], MY[..., j, :], 0.0)
        J = J + np.where(self.column == j[:, None], MY[..., i, :], 0.0)
        return J * half[:, None], half * ((MY @ Y)[..., i, j] - (i == j))


def refine(problem: SparseProblem, supports: Any, V: Array) -> Array | None:
    """Improve components V (p, d) on their supports together, with a limit too; None: it fails."""
    sets = SupportSets(problem, supports)
    if not problem.is_uncorrelated:
        sets.pairs = np.diag_indices(problem.d)
    if len(np.unique(sets.column)) < problem.d or len(sets.column) < len(sets.pairs[0]):
        return None
    constraints = [
        {
            "type": "eq",
            "fun": lambda y: sets.constraints(y)[1][0],
            "jac": lambda y: sets.constraints(y)[0][0],
        }
    ]
    if problem.limit is not None:
        constraints.append(_limit(sets, problem.limit))
    y = sets.near(V[None])[0]
    start = y / np.sqrt(np.add.reduceat(y**2, sets.starts))[sets.column]
    how: Any = {"jac": True, "constraints": constraints, "options": {"maxiter": 100, "ftol": 1e-9}}
    try:
        y = minimize(_loss, start, (sets,), "SLSQP", **how).x
        y = sets.restore(y[None], 10)
    except (np.linalg.LinAlgError, ValueError):
        return None
    if not np.isfinite(y).all() or np.abs(sets.constraints(y)[1]).max() > _FEASIBLE:
        return None
    return np.asarray(sets.lift(y)[0])


def _loss(y: Array, sets: SupportSets) -> tuple[float, Array]:
    """Negative explained variance, plus the cost of correlation, as shares, and its gradient."""
    problem, Y = sets.problem, y[:, None] * np.eye(sets.d)[sets.column]
    MY, AY = sets.M[0] @ Y, sets.A[0] @ Y
    C = Y.T @ MY
    inverse = np.linalg.inv(C + _ROUNDING * np.eye(len(C)))
    explained = inverse @ (Y.T @ AY)
    G = AY @ inverse - MY @ (explained @ inverse)
    off = problem.correlation_cost * (C - np.diag(np.diag(C)))
    value = np.trace(explained) - 0.5 * np.sum(off * C)
    G = 2.0 * (G - MY @ off) / problem.bound
    return -float(value / problem.bound), -G[np.arange(len(y)), sets.column]


def _limit(sets: SupportSets, limit: float) -> dict[str, Any]:
    """Constraint on a soft maximum of the whitened covariance gaps, which is above the maximum."""
    Q = symmetrize(sets.E[0].T @ sets.problem.Q @ sets.E[0])
    softness = _SOFTNESS * max(limit, 1e-3) / np.log(2.0 * len(Q) * sets.d + 1.0)

    def soft_gap(y: Array) -> tuple[float, Array]:
        Y = y[:, None] * np.eye(sets.d)[sets.column]
        MY, QY = sets.M[0] @ Y, Q @ Y
        inverse = whitening(Y.T @ MY, 1.0)
        values, X = np.linalg.eigh(symmetrize(inverse @ (Y.T @ QY) @ inverse.T))
        both = np.stack([values, -values]) / softness
        weights = np.exp(both - both.max())
        shares = ((weights[0] - weights[1]) / weights.sum())[:, None]
        U = inverse.T @ X
        back = U.transpose(0, 2, 1)
        G = np.einsum("cnd,cde->ne", QY, (U * shares) @ back)
        G = G - MY @ ((U * (shares * values[:, None])) @ back).sum(axis=0)
        top = softness * (both.max() + np.log(weights.sum()))
        return float(top), 2.0 * G[np.arange(len(y)), sets.column]

    return {
        "type": "ineq",
        "fun": lambda y: limit - soft_gap(y)[0],
        "jac": lambda y: -soft_gap(y)[1],
    }


def _blocks(problem: SparseProblem, supports: Any) -> list[Array]:
    """Bases (n, p, m − K) of each component, for sets of supports (n, d, m)."""
    S, F, (n, d, m) = problem.S, problem.F, supports.shape
    single = supports.reshape(n * d, m)
    right = np.linalg.svd(F[:, single].transpose(1, 0, 2))[2] if len(F) else np.eye(m)
    N = np.broadcast_to(np.swapaxes(right, -1, -2)[..., len(F) :], (n * d, m, m - len(F)))
    inner = np.swapaxes(N, -1, -2) @ S[single[:, :, None], single[:, None, :]] @ N
    N = N @ unit_variance(inner, float(np.diag(S).max()))
    E = np.zeros((n * d, len(S), N.shape[2]))
    np.put_along_axis(E, single[:, :, None], N, axis=1)
    return [E[j::d] for j in range(d)]


def _blocks_of_one(problem: SparseProblem, supports: Any) -> list[Array]:
    """Bases (1, p, q) of each component, for one set of supports (d, k) of places."""
    blocks = []
    for support in supports:
        chosen = problem.features(support)
        N = complement_basis(problem.F[:, chosen], 1e-13)
        inner = N.T @ problem.S[np.ix_(chosen, chosen)] @ N
        E = np.zeros((1, len(problem.S), N.shape[1]))
        E[0, chosen] = N @ unit_variance(inner, float(np.diag(problem.S).max()))
        blocks.append(E)
    return blocks


def _solve(matrices: Array, right: Array) -> Array:
    """Solve many systems; a singular one moves nothing."""
    try:
        return np.asarray(np.linalg.solve(matrices, right[..., None])[..., 0])
    except np.linalg.LinAlgError:
        regular = np.linalg.slogdet(matrices)[0] != 0.0
        moves = np.zeros_like(right)
        moves[regular] = np.linalg.solve(matrices[regular], right[regular][..., None])[..., 0]
        return moves
