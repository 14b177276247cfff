"""All sparse components together on their supports.

V = EY: E holds a basis of the directions of equal means on each support, in which that component's
score has unit variance for a coordinate vector of unit length; Y (n, d) has one block a column.
M = EᵀSE, A = EᵀS²E. `SupportSets` solves many sets of supports at once where only means count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.linalg
from scipy.optimize import minimize

from fairpca.linalg import Array, complement_basis, symmetrize
from fairpca.solvers._sparse_problem import SparseProblem, State
from fairpca.solvers._supports import Quotient

_FLAT = 1e-10
_RANK = 1e-9
_LONGEST = 0.5
_FEASIBLE = 1e-9


class SupportSets:
    """Many sets of supports (n, d, m), solved at once for uncorrelated components."""

    def __init__(self, S: Array, square: Array, F: Array, supports: Array) -> None:
        n, d, m = supports.shape
        self.S, self.supports, self.d = S, supports, d
        self.E, self.A, self.M = _blocks(S, square, F, supports)
        self.q = self.E.shape[2] // d
        self.column = np.repeat(np.arange(d), self.q)
        self.A = np.where(self.column[:, None] == self.column, self.A, 0.0)

    def near(self, V: Array) -> Array:
        """Coordinates (n, dq) of the directions nearest to components (n, p, d)."""
        n, d, m = self.supports.shape
        SV = np.take_along_axis((self.S @ V).transpose(0, 2, 1), self.supports, axis=2)
        return np.einsum("nmq,nm->nq", self.E, SV.reshape(n, d * m))

    def deflated(self, order: Sequence[int]) -> Array:
        """Coordinates (n, dq): the best direction on one support, then on the next beside it."""
        y = np.zeros(self.A.shape[:2])
        taken: list[Array] = []
        for j in order:
            block = np.flatnonzero(self.column == j)
            A = self.A[:, block[:, None], block]
            rows = [np.einsum("nqr,nr->nq", self.M[:, block], z) for z in taken]
            if rows:
                C = np.stack(rows, axis=1)
                P = np.eye(self.q) - np.linalg.pinv(C, rcond=_RANK) @ C
                A = P @ A @ P
            y[:, block] = np.linalg.eigh(A)[1][:, :, -1]
            taken.append(np.where(self.column == j, y, 0.0))
        return y

    def single(self) -> tuple[Array, Array]:
        """What the best direction on each support explains, and it (n, p), where d = 1."""
        y = self.deflated([0])
        return np.einsum("nq,nqr,nr->n", y, self.A, y), self._lift(y)[:, :, 0]

    def solve(self, y: Array, steps: int = 8) -> tuple[Array, Array]:
        """Return components (s, n, p, d) from starts (s, n, dq), and what they explain, (s, n).

        That is −inf where Newton's method ends nowhere.
        """
        # Newton's method on the Lagrangian of max Σ y_jᵀA_jjy_j subject to y_iᵀM_ijy_j = δ_ij.
        # Any feasible point is a valid score, whether it is a maximum or not.
        A, M, column, q = self.A, self.M, self.column, self.q
        i, j = np.triu_indices(self.d)
        multipliers = None
        for step in range(steps + 3):
            squares = np.add.reduceat(y**2, np.arange(0, len(column), q), axis=-1)
            y = y / np.sqrt(squares)[..., column]
            J, residual = self._constraints(y)
            JJ = J @ np.swapaxes(J, -1, -2) + 1e-12 * np.eye(len(i))
            if step >= steps:  # back onto the constraints
                y = y - np.einsum("...cq,...c->...q", J, _solve(JJ, residual))
                continue
            gradient = (A @ y[..., None])[..., 0]
            if multipliers is None:
                multipliers = _solve(JJ, (J @ gradient[..., None])[..., 0])
            L = np.zeros((*y.shape[:-1], self.d, self.d))
            L[..., i, j] = L[..., j, i] = multipliers
            H = A - L[..., column[:, None], column] * M
            slack = np.broadcast_to(1e-10 * np.eye(len(i)), JJ.shape)
            system = np.block([[H, -np.swapaxes(J, -1, -2)], [J, slack]])
            slope = (multipliers[..., None, :] @ J)[..., 0, :] - gradient
            move = _solve(system, np.concatenate([slope, -residual], axis=-1))
            length = np.linalg.norm(move[..., : len(column)], axis=-1, keepdims=True)
            damped = move * np.minimum(1.0, _LONGEST / np.maximum(length, 1e-300))
            y, multipliers = y + damped[..., : len(column)], multipliers + damped[..., len(column) :]
        feasible = np.abs(self._constraints(y)[1]).max(axis=-1) < _FEASIBLE
        values = np.sum(y * (A @ y[..., None])[..., 0], axis=-1)
        return self._lift(y), np.where(feasible, values, -np.inf)

    def _constraints(self, y: Array) -> tuple[Array, Array]:
        """Gradients (n, c, dq) of y_iᵀM_ijy_j, half of it for i = j, and what they lack of δ_ij."""
        i, j = np.triu_indices(self.d)
        half = np.where(i == j, 0.5, 1.0)
        Y = y[..., None] * np.eye(self.d)[self.column]
        MY = self.M @ Y
        back = np.swapaxes(MY, -1, -2)
        J = np.where(self.column == i[:, None], back[..., j, :], 0.0)
        J = J + np.where(self.column == j[:, None], back[..., i, :], 0.0)
        return J * half[:, None], half * ((back @ Y)[..., i, j] - (i == j))

    def _lift(self, y: Array) -> Array:
        """Components (…, n, p, d) of coordinates (…, n, dq)."""
        shape = (*y.shape[:-1], *self.supports.shape[1:])
        V = np.zeros((*shape[:-1], len(self.S)))
        parts = (self.E @ y[..., None])[..., 0].reshape(shape)
        np.put_along_axis(V, np.broadcast_to(self.supports, shape), parts, axis=-1)
        return np.swapaxes(V, -1, -2)


def _solve(matrices: Array, right: Array) -> Array:
    """Solve many systems; a singular one moves nothing."""
    try:
        return np.asarray(np.linalg.solve(matrices, right[..., None])[..., 0])
    except np.linalg.LinAlgError:
        good = np.linalg.slogdet(matrices)[0] != 0.0
        moves = np.zeros_like(right)
        moves[good] = np.linalg.solve(matrices[good], right[good][..., None])[..., 0]
        return moves


def _blocks(S: Array, square: Array, F: Array, supports: Array) -> tuple[Array, Array, Array]:
    """E (n, dm, dq), EᵀS²E and EᵀSE (n, dq, dq)."""
    n, d, m = supports.shape
    single = supports.reshape(n * d, m)
    at = single[:, :, None], single[:, None, :]
    F_T = F[:, single].transpose(1, 0, 2)
    N = (
        np.linalg.svd(F_T, full_matrices=True)[2][:, len(F) :].transpose(0, 2, 1)
        if len(F)
        else np.broadcast_to(np.eye(m), (n * d, m, m))
    )
    q = N.shape[2]
    inner = symmetrize(N.transpose(0, 2, 1) @ S[at] @ N) + _FLAT * np.diag(S).max() * np.eye(q)
    N = N @ np.linalg.inv(np.linalg.cholesky(inner)).transpose(0, 2, 1)
    E = np.zeros((n, d, m, d, q))
    E[:, np.arange(d), :, np.arange(d)] = N.reshape(n, d, m, q).transpose(1, 0, 2, 3)
    E = E.reshape(n, d * m, d * q)
    flat = supports.reshape(n, d * m)
    at = flat[:, :, None], flat[:, None, :]
    back = E.transpose(0, 2, 1)
    return E, symmetrize(back @ square[at] @ E), symmetrize(back @ S[at] @ E)


class Blocks:
    """All components on their supports: V = EY, Y (n, d) with one block of unknowns a column."""

    def __init__(self, problem: SparseProblem, supports: Array) -> None:
        quotient = Quotient(np.zeros((0, 0, 0)), problem.S, problem.F, problem.places)
        chosen = [quotient.features(support) for support in supports]
        bases = [complement_basis(problem.F[:, some], 1e-13) for some in chosen]
        self.problem, self.chosen = problem, chosen
        self.column = np.repeat(np.arange(problem.d), [N.shape[1] for N in bases])
        self.E, self.rows = scipy.linalg.block_diag(*bases), np.concatenate(chosen)
        at = np.ix_(self.rows, self.rows)
        self.M = symmetrize(self.E.T @ problem.S[at] @ self.E)
        self.A = symmetrize(self.E.T @ problem.square[at] @ self.E)
        Q = (
            problem.Q[:, at[0], at[1]]
            if problem.limit is not None
            else np.zeros((0, *at[0].shape[:1], len(self.rows)))
        )
        self.Q = symmetrize(self.E.T @ Q @ self.E) if len(Q) else Q
        self.worth = 0.0 if problem.is_uncorrelated else problem.bound / problem.d
        pairs = np.triu_indices(problem.d)
        self.pairs = pairs if problem.is_uncorrelated else np.diag_indices(problem.d)

    def unknowns(self, V: Array) -> Array:
        """Coordinates of components, each scaled to a score of unit variance."""
        parts = np.concatenate([V[some, j] for j, some in enumerate(self.chosen)])
        y = self.E.T @ parts
        sizes = np.sqrt(np.maximum(np.diag(self.spread(y).T @ self.M @ self.spread(y)), 1e-300))
        return np.asarray(y / sizes[self.column])

    def spread(self, y: Array) -> Array:
        Y = np.zeros((len(y), self.problem.d))
        Y[np.arange(len(y)), self.column] = y
        return Y

    def gather(self, G: Array) -> Array:
        return np.asarray(G[np.arange(len(G)), self.column])

    def lift(self, y: Array) -> Array:
        """Components of unit length, exactly zero outside their supports."""
        parts, V = self.E @ self.spread(y), np.zeros((len(self.problem.S), self.problem.d))
        place = 0
        for j, some in enumerate(self.chosen):
            V[some, j] = parts[place : place + len(some), j]
            place += len(some)
        return V / np.linalg.norm(V, axis=0)

    def loss(self, y: Array) -> tuple[float, Array]:
        """Negative explained variance, plus the cost of correlation, and its gradient."""
        Y = self.spread(y)
        MY, AY = self.M @ Y, self.A @ Y
        C = Y.T @ MY
        inverse = np.linalg.inv(C + 1e-12 * np.eye(len(C)))
        explained = inverse @ (Y.T @ AY)
        G = 2.0 * (AY @ inverse - MY @ (explained @ inverse))
        off = C - np.diag(np.diag(C))
        value = np.trace(explained) - 0.5 * self.worth * np.sum(off**2)
        return -float(value), -self.gather(G - 2.0 * self.worth * MY @ off)

    def residual(self, y: Array) -> Array:
        """What the scores' covariances lack of the identity; their variances only if need be."""
        Y = self.spread(y)
        return np.asarray((Y.T @ self.M @ Y - np.eye(self.problem.d))[self.pairs])

    def jacobian(self, y: Array) -> Array:
        MY = self.M @ self.spread(y)
        i, j = self.pairs
        rows = np.zeros((len(i), len(y)))
        for one, other in ((i, j), (j, i)):
            rows += np.where(self.column == one[:, None], MY[:, other].T, 0.0)
        return rows

    def soft_gap(self, y: Array, softness: float) -> tuple[float, Array]:
        """Soft maximum of the whitened covariance gaps, from above, and its gradient."""
        Y = self.spread(y)
        C = Y.T @ self.M @ Y
        inverse = np.linalg.inv(np.linalg.cholesky(symmetrize(C) + 1e-12 * np.eye(len(C))))
        QY = self.Q @ Y
        values, X = np.linalg.eigh(symmetrize(inverse @ (Y.T @ QY) @ inverse.T))
        both = np.stack([values, -values]) / softness
        top = both.max()
        weights = np.exp(both - top)
        total = weights.sum()
        w = ((weights[0] - weights[1]) / total)[:, None]
        U = inverse.T @ X
        one, other = (
            (U * w) @ U.transpose(0, 2, 1),
            (U * (w * values[:, None])) @ U.transpose(0, 2, 1),
        )
        G = 2.0 * (np.einsum("cnd,cde->ne", QY, one) - self.M @ Y @ other.sum(axis=0))
        return float(softness * (top + np.log(total))), self.gather(G)


def refine(problem: SparseProblem, state: State) -> State | None:
    """Improve all components on their supports together; None where that fails."""
    blocks = Blocks(problem, state.supports)
    if len(np.unique(blocks.column)) < problem.d or len(blocks.column) < len(blocks.pairs[0]):
        return None
    constraints: list[dict[str, Any]] = [
        {"type": "eq", "fun": blocks.residual, "jac": blocks.jacobian}
    ]
    if problem.limit is not None:
        # The soft maximum is at most softness·log(2Cd) too large.
        softness = max(problem.limit, 1e-3) / (
            20.0 * np.log(2.0 * len(problem.Q) * problem.d + 1.0)
        )
        constraints.append(
            {
                "type": "ineq",
                "fun": lambda y: problem.limit - blocks.soft_gap(y, softness)[0],
                "jac": lambda y: -blocks.soft_gap(y, softness)[1],
            }
        )
    y = blocks.unknowns(state.V)
    scale = 1.0 / max(problem.bound, np.finfo(float).tiny)
    try:
        y = minimize(
            lambda y: tuple(scale * part for part in blocks.loss(y)),
            y,
            jac=True,
            method="SLSQP",
            constraints=constraints,
            options={"maxiter": 100, "ftol": 1e-9},
        ).x
        for _ in range(20):
            residual = blocks.residual(y)
            if np.abs(residual).max() < 1e-14:
                break
            y = y - np.linalg.lstsq(blocks.jacobian(y), residual, rcond=None)[0]
        if not np.isfinite(y).all() or np.abs(blocks.residual(y)).max() > 1e-11:
            return None
        V = blocks.lift(y)
        return State(problem.value(V), V, state.supports)
    except (np.linalg.LinAlgError, ValueError):
        return None
