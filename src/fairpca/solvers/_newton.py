"""Newton's method on the optimality conditions: from a good basis to the last digits.

V: basis, N: its complement, K: a tangent step V + NK, Q_c: covariance gaps, M_k ⪰ 0: multiplier of
the slack Z_k = sI ∓ VᵀQ_cV ⪰ 0, b_j: multiplier of ‖Vᵀf_j‖² ≤ mean_limit. The conditions are
stationarity Nᵀ(−SV + Σ±Q_cVM_k + Σb_jf_jf_jᵀV) = 0 and complementarity M_k = (M_k − σZ_k)₊, whose
derivative in the eigenbasis W of M_k − σZ_k is an element-wise product with Ω.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from fairpca.linalg import Array, eigenvalue_excess, symmetrize
from fairpca.solvers._problem import ReducedProblem

_MAX_STEPS = 24
# A step that leaves more than this share of the residual is not worth taking again.
_WORTH_REUSING = 0.2
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
    """Return the optimal point next to V to rounding precision, or None if there is none."""
    # `unit` is the size of the covariance, against which residuals are judged. Factorising is what
    # costs, so a factorised system serves as long as its steps shrink the residual well.
    if (reduced.size - reduced.d) * reduced.d > _LARGEST_SYSTEM:
        return None
    last, best, system = np.inf, np.inf, None
    for _ in range(_MAX_STEPS):
        if system is None:
            system = _System(reduced, V, multipliers, unit)
        right, residual = system.residual(V, multipliers)
        if residual <= _SOLVED:
            return V, multipliers
        if not residual < 2.0 * best:
            return (V, multipliers) if best <= 100.0 * _SOLVED else None
        if residual > _WORTH_REUSING * last:
            last, system = np.inf, None
            continue
        last, best = residual, min(best, residual)
        step = system.step(right, V, multipliers)
        if step is None:
            return None
        V, multipliers = step
    return None


class _System:
    """The conditions linearised at one point, factorised once, for steps from there on."""

    def __init__(
        self, reduced: ReducedProblem, V: Array, multipliers: Multipliers, unit: float
    ) -> None:
        self.problem, self.V, self.at, self.unit = reduced, V, multipliers, unit
        self.N = np.linalg.qr(V, mode="complete")[0][:, reduced.d :]
        self.sigma = unit / (reduced.cov_scale or 1.0) ** 2
        contrasts = len(reduced.Q)
        self.QV = reduced.Q @ V
        values, self.vectors = np.linalg.eigh(self._shifted(V, self.QV, multipliers))
        self.active = np.flatnonzero(values[:, -1] > 0.0)
        self.contrast = self.active % max(contrasts, 1)
        self.sign = np.where(self.active < contrasts, 1.0, -1.0)
        self.W = self.vectors[self.active]
        slopes = [_projection_slopes(values[k]) for k in self.active]
        self.omega = np.array(slopes).reshape(-1, reduced.d, reduced.d)
        # A priced bound above zero uses up the whole price; at zero, or fixed, it does not move.
        self.moves_bound = reduced.limit is None and contrasts > 0 and multipliers.s > 0.0
        self.binding = np.flatnonzero(multipliers.b > 0.0)
        self.pairs = np.triu_indices(reduced.d)
        self.factor: Any = None

    def _shifted(self, V: Array, QV: Array, multipliers: Multipliers) -> Array:
        # M − σZ: its positive part is M at a solution.
        B = symmetrize(V.T @ QV)
        slack = multipliers.s * np.eye(self.problem.d) - np.concatenate([B, -B])
        return np.asarray(multipliers.M - self.sigma * slack)

    def _gradient(self, V: Array, QV: Array, multipliers: Multipliers) -> Array:
        reduced, contrasts = self.problem, len(self.problem.Q)
        G = multipliers.M[:contrasts] - multipliers.M[contrasts:]
        A = (QV @ G).sum(axis=0) - reduced.S @ V
        return np.asarray(A + reduced.F.T @ (multipliers.b[:, None] * (reduced.F @ V)))

    def residual(self, V: Array, multipliers: Multipliers) -> tuple[Array, float]:
        """Return what should vanish, as a right-hand side, and its size against the covariance."""
        reduced = self.problem
        QV = self.QV if V is self.V else reduced.Q @ V
        A = self._gradient(V, QV, multipliers)
        if V is not self.V:
            A -= V @ (V.T @ A)
        values, vectors = np.linalg.eigh(self._shifted(V, QV, multipliers))
        mismatch = (multipliers.M - eigenvalue_excess(values, vectors, 0.0)[0])[self.active]
        mismatch = np.swapaxes(self.W, 1, 2) @ mismatch @ self.W
        used = np.sum((reduced.F[self.binding] @ V) ** 2, axis=1)
        excess = used - reduced.mean_limit
        parts = [
            (self.N.T @ A).ravel(),
            mismatch[:, self.pairs[0], self.pairs[1]].ravel(),
            excess,
        ]
        if self.moves_bound:
            parts.append(np.array([np.einsum("kii->", multipliers.M) - reduced.price]))
        sizes = [float(np.max(np.abs(part), initial=0.0)) for part in parts]
        sizes[2] *= self.unit / (reduced.mean_scale or 1.0)
        return -np.concatenate(parts), max(sizes) / self.unit

    def step(
        self, right: Array, V: Array, multipliers: Multipliers
    ) -> tuple[Array, Multipliers] | None:
        """One Newton step, or None where it leads nowhere near."""
        if self.factor is None:
            matrix = self._assemble()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", scipy.linalg.LinAlgWarning)
                self.factor = scipy.linalg.lu_factor(matrix, overwrite_a=True, check_finite=False)
        step = scipy.linalg.lu_solve(self.factor, right, check_finite=False)
        d, tangent = self.problem.d, self.N.shape[1] * self.problem.d
        K = step[:tangent].reshape(-1, d)
        if not np.isfinite(step).all() or np.linalg.norm(K) > _LARGEST_TURN:
            return None
        M, b, s, at = multipliers.M.copy(), multipliers.b.copy(), multipliers.s, tangent
        rows, columns = self.pairs
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
        moved = Multipliers(M=M, b=np.maximum(b, 0.0), s=s)
        return _nearest_basis(V + self.N @ K), moved

    def _assemble(self) -> Array:
        d, rest, pairs = self.problem.d, self.N.shape[1], self.pairs
        tangent = rest * d
        size = tangent + len(self.active) * len(pairs[0]) + len(self.binding) + self.moves_bound
        matrix = np.zeros((size, size))
        matrix[:tangent, :tangent] = self._hessian()
        at = tangent
        for k in range(len(self.active)):
            block = slice(at, at + len(pairs[0]))
            self._add_block(matrix, block, k)
            at = block.stop
        for j in self.binding:
            f = self.problem.F[j]
            outward = np.outer(self.N.T @ f, f @ self.V).ravel()
            matrix[:tangent, at] = outward
            matrix[at, :tangent] = 2.0 * outward
            at += 1
        return matrix

    def _hessian(self) -> Array:
        # K ↦ −SK + ΣQ_cKG_c + Σb f fᵀK − KΛ on tangent steps, as a matrix on K.ravel().
        d, N = self.problem.d, self.N
        linear = -(N.T @ self.problem.S @ N)
        FN = self.problem.F @ N
        linear += FN.T @ (self.at.b[:, None] * FN)
        A = self._gradient(self.V, self.QV, self.at)
        hessian = np.kron(linear, np.eye(d)) - np.kron(np.eye(len(linear)), self.V.T @ A)
        for c in np.unique(self.contrast):
            G = self.at.M[c] - self.at.M[c + len(self.problem.Q)]
            hessian += np.kron(N.T @ self.problem.Q[c] @ N, G)
        return np.asarray(hessian)

    def _add_block(self, matrix: Array, block: slice, k: int) -> None:
        d, sign, W, omega = self.problem.d, self.sign[k], self.W[k], self.omega[k]
        EW = self.N.T @ self.QV[self.contrast[k]] @ W
        # Stationarity moves with the multiplier: sign·E W dM Wᵀ, entry by entry of dM.
        outer = np.einsum("ai,ej->ijae", EW, W).reshape(d, d, -1)
        both = outer + np.swapaxes(outer, 0, 1)
        rows, columns = self.pairs
        influence = both[rows, columns] * np.where(rows == columns, 0.5, 1.0)[:, None]
        tangent = outer.shape[-1]
        matrix[:tangent, block] = sign * influence.T
        # Complementarity: (1 − Ω)dM + σΩ dZ = −mismatch, with dZ = ds·I − sign·Wᵀ(dB)W.
        weight = omega[rows, columns]
        matrix[block, :tangent] = -(sign * self.sigma * weight)[:, None] * both[rows, columns]
        index = np.arange(block.start, block.stop)
        matrix[index, index] = 1.0 - weight + _REGULARIZATION
        if self.moves_bound:
            diagonal = rows == columns
            matrix[index[diagonal], -1] = self.sigma * weight[diagonal]
            matrix[-1, index[diagonal]] = 1.0


def _nearest_basis(matrix: Array) -> Array:
    # Polar, not QR: its columns stay where they were, which the factorised system relies on.
    left, _, right = np.linalg.svd(matrix, full_matrices=False)
    return np.asarray(left @ right)


def _projection_slopes(values: Array) -> Array:
    # Divided differences of the positive part; its derivative where two values agree.
    positive = np.maximum(values, 0.0)
    difference = values[:, None] - values[None, :]
    slopes = np.where(values[:, None] > 0.0, 1.0, 0.0) * np.ones_like(difference)
    apart = np.abs(difference) > 1e-14 * max(float(np.max(np.abs(values))), 1e-300)
    slopes[apart] = (positive[:, None] - positive[None, :])[apart] / difference[apart]
    return slopes
