"""The augmented Lagrangian of a fair basis, as a function of V.

V: basis (r, d), B_c = VᵀQ_cV, M: positive semidefinite multipliers (2C, d, d) for +B_c and −B_c,
b: multipliers (m,) of the mean limits, s: the bound shared by all ±B_c.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairpca.linalg import Array, eigenvalue_excess, shared_level, symmetrize
from fairpca.solvers._problem import ReducedProblem


@dataclass(frozen=True)
class Multipliers:
    """Multipliers M (2C, d, d) of +B_c and −B_c, b (m,) of the means, and the bound s."""

    M: Array
    b: Array
    s: float

    @property
    def net(self) -> Array:
        """Weight G_c (C, d, d) of every B_c: its positive less its negative multiplier."""
        half = len(self.M) // 2
        return np.asarray(self.M[:half] - self.M[half:])


class Lagrangian:
    """Multipliers with steps σ; `slope`, `factors` and `shifts` are what Newton's method leaves."""

    def __init__(self, reduced: ReducedProblem, multipliers: Array) -> None:
        self.problem = reduced
        self.contrasts = len(reduced.Q)
        self.stack = reduced.Q.reshape(-1, reduced.size)
        self.M = multipliers
        self.b = np.zeros(len(reduced.F))
        self.unit = float(reduced.leading(1)[0][0]) or 1.0
        self.step = 2.0 * self.unit / (reduced.cov_scale or 1.0) ** 2
        self.mean_step = 2.0 * self.unit / (reduced.mean_scale or 1.0) ** 2
        self.slope = 0.0
        self.factors: list[Array] = []
        self.shifts = np.zeros(reduced.d)

    def products(self, V: Array) -> tuple[Array, Array, Array]:
        """SV, the stack of Q_cV, and the stack of B_c."""
        variances = self.problem.variances
        SV = self.problem.S @ V if variances is None else variances[:, None] * V
        QV = (self.stack @ V).reshape(self.contrasts, *V.shape)
        return SV, QV, symmetrize(V.T @ QV)

    def updated(self, B: Array, V: Array) -> Multipliers:
        """Multipliers after one step, with the shared bound."""
        # M₊ = (M + σ(±B − sI))₊. A limit is s itself. Under a penalty s is free, and its optimum is
        # where the clipped mass tr M₊ equals the penalty: one level for all blocks.
        M, level, b = self.M, 0.0, self.b
        if self.contrasts:
            values, vectors = np.linalg.eigh(self.M + self.step * np.concatenate([B, -B]))
            limit, penalty = self.problem.limit, self.problem.penalty
            level = shared_level(values.ravel(), penalty) if limit is None else self.step * limit
            M = eigenvalue_excess(values, vectors, level)[0]
        if len(b):
            used = np.sum((self.problem.F @ V) ** 2, axis=1)
            b = np.maximum(b + self.mean_step * (used - self.problem.mean_limit), 0.0)
        return Multipliers(M, b, level / self.step)

    def value(self, V: Array) -> float:
        """Value at an orthonormal basis."""
        SV, _, B = self.products(V)
        return self.value_of(V, SV, B, self.updated(B, V))

    def value_of(self, V: Array, SV: Array, B: Array, at: Multipliers) -> float:
        """Value from products at hand."""
        value = -float(np.vdot(V, SV)) + float(np.vdot(at.net, B))
        value -= float(np.sum((at.M - self.M) ** 2)) / (2.0 * self.step)
        if self.problem.limit is not None:
            value -= self.problem.limit * float(np.einsum("kii->", at.M))
        if len(at.b):
            used = np.sum((self.problem.F @ V) ** 2, axis=1)
            value += float(at.b @ (used - self.problem.mean_limit))
            value -= float(np.sum((at.b - self.b) ** 2)) / (2.0 * self.mean_step)
        return value

    def gradient(self, V: Array, SV: Array, QV: Array, at: Multipliers) -> Array:
        """Half the derivative by V, not yet made tangent."""
        F = self.problem.F
        return np.asarray((QV @ at.net).sum(axis=0) - SV + F.T @ (at.b[:, None] * (F @ V)))
