"""The augmented Lagrangian of a fair basis, as a function of V.

V: basis (r, d), B_c = VᵀQ_cV, M: positive semidefinite multipliers (2C, d, d) for +B_c and −B_c,
b: multipliers (m,) of the mean limits, s: the bound shared by all ±B_c, w: weights of the groups.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fairpca.linalg import Array, eigenvalue_excess, shared_level, symmetrize
from fairpca.solvers._problem import ReducedProblem


class Multipliers(NamedTuple):
    """Multipliers M (2C, d, d) of +B_c and −B_c, b (m,) of the means, and the bound s."""

    M: Array
    b: Array
    s: float


class Evaluation(NamedTuple):
    """Value, half the derivative by V (not yet tangent), the Q_cV, the B_c, and the multipliers."""

    value: float
    gradient: Array
    QV: Array
    B: Array
    multipliers: Multipliers


class Lagrangian:
    """Multipliers with steps σ; `slope`, `factors` and `shifts` are what Newton's method leaves."""

    def __init__(
        self, reduced: ReducedProblem, guess: Array | None = None, weights: Array | None = None
    ) -> None:
        self.problem, self.w = reduced, weights
        self.contrasts, d = len(reduced.Q), reduced.d
        self.stack = reduced.Q.reshape(-1, reduced.size)
        self.M = np.zeros((2 * self.contrasts, d, d))
        if guess is not None:  # (d, C): one signed number per component and contrast
            signed = np.concatenate([guess.T, -guess.T])
            self.M[:, np.arange(d), np.arange(d)] = np.maximum(signed, 0.0)
        self.b = np.zeros(len(reduced.F))
        self.unit = float(reduced.leading(1)[0][0]) or 1.0
        self.step = 2.0 * self.unit / (reduced.cov_scale or 1.0) ** 2
        self.mean_step = 2.0 * self.unit / (reduced.mean_scale or 1.0) ** 2
        self.w_step = 4.0 / self.unit
        self.slope = 0.0
        self.factors: list[Array] = []
        self.shifts = np.zeros(d)

    def inside(self, T: Array) -> Lagrangian:
        """Return the same on the span of orthonormal columns T, in which S is diagonal."""
        inner, problem = copy(self), self.problem.inside(T, self.problem.d)
        inner.problem = replace(problem, S=np.diag(np.diag(problem.S)))
        inner.stack = inner.problem.Q.reshape(-1, T.shape[1])
        return inner

    def products(self, V: Array) -> tuple[Array, Array, Array]:
        """SV, the stack of Q_cV, and the stack of B_c."""
        variances = self.problem.variances
        SV = self.problem.S @ V if variances is None else variances[:, None] * V
        QV = (self.stack @ V).reshape(self.contrasts, *V.shape)
        return SV, QV, symmetrize(V.T @ QV)

    def evaluate(self, V: Array, multipliers: Multipliers | None = None) -> Evaluation:
        """Evaluate at an orthonormal basis, with the multipliers after one step or with others."""
        problem, F = self.problem, self.problem.F
        SV, QV, B = self.products(V)
        offset = change = 0.0
        if self.w is not None and problem.groups is not None:
            w, _, images = self.weigh(V)
            SV, offset = np.tensordot(w, images, 1), float(w @ problem.groups.offsets)
            change = float(np.sum((w - self.w) ** 2)) / (2.0 * self.w_step)
        used = np.sum((F @ V) ** 2, axis=1) - problem.mean_limit
        if multipliers is None:
            # M₊ = (M + σ(±B − sI))₊. A limit is s itself. Under a penalty s is free, and its
            # optimum is where the clipped mass tr M₊ equals the penalty: one level for all blocks.
            M, level = self.M, self.step * (problem.limit or 0.0)
            if self.contrasts:
                values, vectors = np.linalg.eigh(M + self.step * np.concatenate([B, -B]))
                if problem.limit is None:
                    level = shared_level(values.ravel(), problem.penalty)
                M = eigenvalue_excess(values, vectors, level)
            b = np.maximum(self.b + self.mean_step * used, 0.0)
            multipliers = Multipliers(M, b, level / self.step)
        M, b, _ = multipliers
        G = M[: self.contrasts] - M[self.contrasts :]
        # −tr VᵀSV + ΣG_c·B_c + b·(‖Vᵀf‖² − limit), less what the change of the multipliers costs:
        # that makes it differentiable where eigenvalues of B_c enter and leave the limit.
        value = -float(np.vdot(V, SV)) + float(np.vdot(G, B))
        value -= float(np.sum((M - self.M) ** 2)) / (2.0 * self.step)
        if problem.limit is not None:
            value -= problem.limit * float(np.einsum("kii->", M))
        if len(b):
            value += float(b @ used) - float(np.sum((b - self.b) ** 2)) / (2.0 * self.mean_step)
        gradient = (QV @ G).sum(axis=0) - SV + F.T @ (b[:, None] * (F @ V))
        return Evaluation(value + offset - change, gradient, QV, B, multipliers)

    def weigh(self, V: Array) -> tuple[Array, Array, Array]:
        """Weights of the groups after one step, their objectives, and the S_gV."""
        # min_g v_g is the minimum of w·v over the simplex. Its augmented form moves w from the
        # current weights to Π(w − σv), the projection onto the simplex, and charges ‖Δw‖²/2σ.
        groups = self.problem.groups
        assert groups is not None
        images = (groups.S.reshape(-1, len(V)) @ V).reshape(len(groups.S), *V.shape)
        values = np.einsum("gij,ij->g", images, V) - groups.offsets
        shifted = self.w - self.w_step * values
        shifted += 1.0 / len(shifted) - shifted.min()
        return np.maximum(shifted - shared_level(shifted, 1.0), 0.0), values, images
