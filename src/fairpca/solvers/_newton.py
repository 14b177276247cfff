"""Newton's method on the optimality conditions: from a good basis to the last digits.

V: basis, N: its complement, K: a tangent step V + NK, Q_c: covariance gaps, M_k ⪰ 0: multiplier of
the slack Z_k = sI ∓ VᵀQ_cV ⪰ 0, b_j: multiplier of ‖Vᵀf_j‖² ≤ mean_limit. The conditions are
stationarity Nᵀ(−SV + Σ±Q_cVM_k + Σb_jf_jf_jᵀV) = 0 and complementarity M_k = (M_k − σZ_k)₊, whose
derivative in the eigenbasis W of M_k − σZ_k is an element-wise product with Ω.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fairpca.linalg import Array, orthonormalize, symmetrize
from fairpca.solvers._problem import ReducedProblem

Pairs: TypeAlias = tuple[NDArray[np.intp], NDArray[np.intp]]

_MAX_STEPS = 12
_SOLVED = 1e-12
_LARGEST_TURN = 0.5
_LARGEST_SYSTEM = 1300
# Keeps the system regular where multipliers are not unique, as for VᵀQV = 0.
_REGULARIZATION = 1e-9


@dataclass(frozen=True)
class Multipliers:
    """Multipliers M (2C, d, d) of +B_c and −B_c, b (m,) of the means, and the bound s."""

    M: Array
    b: Array
    s: float


def polish(
    reduced: ReducedProblem, V: Array, multipliers: Multipliers, unit: float
) -> tuple[Array, Multipliers] | None:
    """Return the optimal point next to V to rounding precision, or None if there is none.

    `unit` is the size of the covariance, against which residuals are judged.
    """
    if (reduced.size - reduced.d) * reduced.d > _LARGEST_SYSTEM:
        return None
    best = np.inf
    for _ in range(_MAX_STEPS):
        system = _System(reduced, V, multipliers, unit)
        residual = system.residual
        if residual <= _SOLVED:
            return V, multipliers
        if not residual < 2.0 * best:
            return (V, multipliers) if best <= 100.0 * _SOLVED else None
        best = min(best, residual)
        step = system.solve()
        if step is None:
            return None
        V, multipliers = step
    return None


class _System:
    """The linearised conditions at one point."""

    def __init__(
        self, reduced: ReducedProblem, V: Array, multipliers: Multipliers, unit: float
    ) -> None:
        self.problem, self.V, self.at, self.unit = reduced, V, multipliers, unit
        self.N = np.linalg.qr(V, mode="complete")[0][:, reduced.d :]
        self.sigma = unit / (reduced.cov_scale or 1.0) ** 2
        contrasts = len(reduced.Q)
        self.QV = reduced.Q @ V
        B = symmetrize(V.T @ self.QV)
        slack = multipliers.s * np.eye(reduced.d) - np.concatenate([B, -B])
        values, vectors = np.linalg.eigh(multipliers.M - self.sigma * slack)
        projected = (vectors * np.maximum(values, 0.0)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
        self.active = np.flatnonzero(values[:, -1] > 0.0)
        self.contrast = self.active % max(contrasts, 1)
        self.sign = np.where(self.active < contrasts, 1.0, -1.0)
        self.W = vectors[self.active]
        self.omega = (
            np.stack([_projection_slopes(values[k]) for k in self.active])
            if len(self.active)
            else np.zeros((0, reduced.d, reduced.d))
        )
        self.mismatch = (
            np.swapaxes(self.W, 1, 2) @ (multipliers.M - projected)[self.active] @ self.W
        )
        # A priced bound above zero uses up the whole price; at zero, or fixed, it does not move.
        self.moves_bound = reduced.limit is None and contrasts > 0 and multipliers.s > 0.0
        self.G = multipliers.M[:contrasts] - multipliers.M[contrasts:]
        self.FV = reduced.F @ V
        self.binding = np.flatnonzero(multipliers.b > 0.0)
        self.A = (self.QV @ self.G).sum(axis=0) - reduced.S @ V
        self.A += reduced.F.T @ (multipliers.b[:, None] * self.FV)

    @property
    def spent(self) -> float:
        """Price not yet distributed over the multipliers."""
        return (
            float(np.einsum("kii->", self.at.M)) - self.problem.price if self.moves_bound else 0.0
        )

    @property
    def mean_excess(self) -> Array:
        """Binding mean limits' violations."""
        return np.asarray(np.sum(self.FV[self.binding] ** 2, axis=1) - self.problem.mean_limit)

    @property
    def residual(self) -> float:
        """Size of everything that should vanish, relative to the covariance."""
        parts = [self.N.T @ self.A, self.mismatch, np.array([self.spent])]
        if len(self.binding):
            parts.append(self.mean_excess * self.unit / self.problem.mean_scale)
        return max(float(np.max(np.abs(part), initial=0.0)) for part in parts) / self.unit

    def solve(self) -> tuple[Array, Multipliers] | None:
        """One Newton step."""
        matrix, right, pairs = self._assemble()
        try:
            step = np.linalg.solve(matrix, right)
        except np.linalg.LinAlgError:
            return None
        d, tangent = self.problem.d, self.N.shape[1] * self.problem.d
        K = step[:tangent].reshape(-1, d)
        if not np.isfinite(step).all() or np.linalg.norm(K) > _LARGEST_TURN:
            return None
        M, b, s, at = self.at.M.copy(), self.at.b.copy(), self.at.s, tangent
        rows, columns = pairs
        inactive = np.setdiff1d(np.arange(len(M)), self.active)
        M[inactive] = 0.0
        for k, block in enumerate(self.active):
            change = np.zeros((d, d))
            change[rows, columns] = change[columns, rows] = step[at : at + len(rows)]
            M[block] = symmetrize(M[block] + self.W[k] @ change @ self.W[k].T)
            at += len(rows)
        b[self.binding] += step[at : at + len(self.binding)]
        if self.moves_bound:
            s = max(s + float(step[-1]), 0.0)
        return orthonormalize(self.V + self.N @ K), replace(self.at, M=M, b=np.maximum(b, 0.0), s=s)

    def _assemble(self) -> tuple[Array, Array, Pairs]:
        d, rest = self.problem.d, self.N.shape[1]
        tangent, pairs = rest * d, np.triu_indices(d)
        size = tangent + len(self.active) * len(pairs[0]) + len(self.binding) + self.moves_bound
        matrix, right = np.zeros((size, size)), np.zeros(size)
        matrix[:tangent, :tangent] = self._hessian()
        right[:tangent] = -(self.N.T @ self.A).ravel()
        at = tangent
        for k in range(len(self.active)):
            block = slice(at, at + len(pairs[0]))
            self._add_block(matrix, right, block, k, pairs)
            at = block.stop
        for j in self.binding:
            outward = np.outer(self.N.T @ self.problem.F[j], self.FV[j]).ravel()
            matrix[:tangent, at] = outward
            matrix[at, :tangent] = 2.0 * outward
            at += 1
        right[at - len(self.binding) : at] = -self.mean_excess
        if self.moves_bound:
            right[at] = -self.spent
        return matrix, right, pairs

    def _hessian(self) -> Array:
        # K ↦ −SK + ΣQ_cKG_c + Σb f fᵀK − KΛ on tangent steps, as a matrix on K.ravel().
        d, N = self.problem.d, self.N
        linear = -(N.T @ self.problem.S @ N)
        FN = self.problem.F @ N
        linear += FN.T @ (self.at.b[:, None] * FN)
        hessian = np.kron(linear, np.eye(d)) - np.kron(np.eye(len(linear)), self.V.T @ self.A)
        for c in np.unique(self.contrast):
            hessian += np.kron(N.T @ self.problem.Q[c] @ N, self.G[c])
        return hessian

    def _add_block(self, matrix: Array, right: Array, block: slice, k: int, pairs: Pairs) -> None:
        d, sign, W, omega = self.problem.d, self.sign[k], self.W[k], self.omega[k]
        EW = self.N.T @ self.QV[self.contrast[k]] @ W
        # Stationarity moves with the multiplier: sign·E W dM Wᵀ, entry by entry of dM.
        outer = np.einsum("ai,ej->ijae", EW, W).reshape(d, d, -1)
        both = outer + np.swapaxes(outer, 0, 1)
        rows, columns = pairs
        influence = both[rows, columns] * np.where(rows == columns, 0.5, 1.0)[:, None]
        tangent = outer.shape[-1]
        matrix[:tangent, block] = sign * influence.T
        # Complementarity: (1 − Ω)dM + σΩ dZ = −mismatch, with dZ = ds·I − sign·Wᵀ(dB)W.
        weight = omega[rows, columns]
        matrix[block, :tangent] = -(sign * self.sigma * weight)[:, None] * both[rows, columns]
        index = np.arange(block.start, block.stop)
        matrix[index, index] = 1.0 - weight + _REGULARIZATION
        right[block] = -self.mismatch[k][rows, columns]
        if self.moves_bound:
            diagonal = rows == columns
            matrix[index[diagonal], -1] = self.sigma * weight[diagonal]
            matrix[-1, index[diagonal]] = 1.0


def _projection_slopes(values: Array) -> Array:
    # Divided differences of the positive part; its derivative where two values agree.
    positive = np.maximum(values, 0.0)
    difference = values[:, None] - values[None, :]
    slopes = np.where(values[:, None] > 0.0, 1.0, 0.0) * np.ones_like(difference)
    apart = np.abs(difference) > 1e-14 * max(float(np.max(np.abs(values))), 1e-300)
    slopes[apart] = (positive[:, None] - positive[None, :])[apart] / difference[apart]
    return slopes
