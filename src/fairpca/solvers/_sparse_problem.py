"""Components with few non-zero loadings whose scores explain as much of the table as possible.

maximise tr[(VᵀSV)⁻¹VᵀS²V], the variance of all features that a regression on the scores explains,
subject to FV = 0, at most k non-zero entries in each column, VᵀSV diagonal and, with a limit,
max_c ‖GᵀQ_cG‖ ≤ limit for the whitened scores, G = V(VᵀSV)^-½. V itself is not orthonormal.
S: covariance (p, p), F: independent mean gaps (K, p), Q: covariance gaps (C, p, p), V: (p, d).
Mean gaps f that need not be zero are bounded for components v of unit length: |fᵀv| ≤ τ/√d.

On given supports V = EY: E (n, p, q) holds bases of the directions of equal means on each support,
in which a coordinate vector of unit length is a score of unit variance; Y has one block for each
column. M = EᵀSE, A = EᵀS²E. Maximised is Φ = Σ_j y_jᵀA_jjy_j − c Σ_{i<j} (y_iᵀM_ijy_j)² over
y_jᵀy_j = 1, what uncorrelated scores explain. c is infinite where supports leave room for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from fairpca.linalg import Array, spectral_norms, symmetrize, top_eigenpairs

# Relative to the largest variance: less is a direction in which nothing varies.
_RANK_FLOOR, _RANK = 1e-12, 1e-9
# Relative: what a support cannot contribute to a constraint.
_UNMET = 1e-13
_ROUNDING, _FEASIBLE = 1e-12, 1e-9
# Longest step of Newton's method, whose scores have unit variance, and the number of steps.
_LONGEST, _STEPS, _RESTORATIONS = 0.5, 6, 3
# Random starts, and entries of their matrices: small problems get more of them.
_RANDOM_STARTS, _RANDOM_ENTRIES = 8, 2000
# Under a limit: penalties on the square of what exceeds it, in units of what a component explains,
# and the share of the limit that is aimed at, so that what is left to converge does not exceed it.
_PENALTIES, _INSIDE = np.geomspace(3.0, 1000.0, 18), 0.98
_DUAL_STEPS = 3  # at the same multipliers


@dataclass(frozen=True, eq=False)
class SparseProblem:
    """What is explained, by how many components of how many places, under which constraints.

    A place is a feature, or a set of features that enter together.
    """

    S: Array
    F: Array
    Q: Array
    d: int
    k: int
    places: Sequence[Any]
    square: Array
    bound: float
    dense: Array
    limit: float | None = None
    means: Array | None = None  # f (C, p) that τ bounds
    mean_limit: float = 0.0  # τ

    @classmethod
    def pose(
        cls, S: Array, F: Array, Q: Array, d: int, k: int, limit: Any = None, places: Any = None,
        **means: Any,
    ) -> SparseProblem:  # fmt: skip
        """Compute what every k shares: S², the bound, and dense components that attain it."""
        places = np.arange(len(S))[:, None] if places is None else places
        return cls(S, F, Q, d, k, places, S @ S, *explained_bound(S, F, d), limit, **means)

    def excess(self, V: Array) -> float:
        """How far the gaps of components lie above their limits."""
        over = 0.0 if self.limit is None else whitened_gap(self.S, self.Q, V) - self.limit
        if self.means is not None:
            gaps = np.linalg.norm(self.means @ (V / np.linalg.norm(V, axis=0)), axis=1)
            over = max(over, float(gaps.max()) - self.mean_limit)
        return max(over, 0.0)

    @property
    def is_uncorrelated(self) -> bool:
        """Whether a support always leaves room for scores without correlation."""
        return sum(sorted(map(len, self.places))[: self.k]) >= len(self.F) + self.d

    def features(self, supports: Any) -> Any:
        """Features (n, m) of supports (n, k); short ones repeat a feature, which adds nothing."""
        if len(self.places) == len(self.S):
            return supports
        chosen = [np.concatenate([self.places[place] for place in some]) for some in supports]
        width = max(map(len, chosen))
        return np.array([np.pad(some, (0, width - len(some)), mode="edge") for some in chosen])

    def bases(self, T: Any, F: Array) -> Array:
        """Directions (n, m, r) on features (n, m) with Fv = 0, of unit variance, uncorrelated.

        Where nothing varies in a direction there is a zero in its place.
        """
        P = _complement(F[:, T].transpose(1, 0, 2))
        values, vectors = np.linalg.eigh(symmetrize(P @ self.S[T[:, :, None], T[:, None, :]] @ P))
        varies = values > _RANK * float(np.diag(self.S).max())
        kept = np.flatnonzero(varies.any(axis=0) | (np.arange(T.shape[1]) == T.shape[1] - 1))
        scale = varies / np.sqrt(np.where(varies, values, 1.0))
        return np.asarray((P @ vectors * scale[:, None])[..., kept])


class State(NamedTuple):
    """Components V (p, d) on supports (d, k) of places, and what they are worth."""

    value: float
    V: Array
    supports: Any


def explained_bound(S: Array, F: Array, d: int) -> tuple[float, Array]:
    """Return the most that d scores of equal means explain, and directions (p, d) that do.

    No set of d scores with FV = 0 explains more, however many features each of them uses.
    """
    # With v = UΛ^-½w the value is wᵀΛw/wᵀw, and the constraint FUΛ^-½w = 0.
    values, U = np.linalg.eigh(S)
    kept = values > _RANK_FLOOR * max(values[-1], 0.0)
    root = U[:, kept] / np.sqrt(values[kept])
    N = independent_rows(F @ root, 1e-12).T
    inner = np.diag(values[kept])
    inner = inner - N @ (N.T @ inner)
    count = min(d, int(kept.sum()) - N.shape[1])
    top, W = top_eigenpairs(symmetrize(inner - (inner @ N) @ N.T), count)
    return float(np.maximum(top, 0.0).sum()), root @ W


def independent_rows(rows: Array, floor: float) -> Array:
    """Orthonormal rows of the same span; smaller singular values than `floor` are rounding."""
    if not rows.size:
        return np.zeros((0, rows.shape[1]))
    _, sizes, right = np.linalg.svd(rows, full_matrices=False)
    return right[sizes > floor]


def explained_variances(S: Array, V: Array) -> Array:
    """Variance of all features that each score explains, given the scores before it."""
    return np.asarray(np.sum((S @ _whitened(S, V)) ** 2, axis=0))


def whitened_gap(S: Array, Q: Array, V: Array) -> float:
    """Largest spectral norm of a covariance gap of the whitened scores."""
    G = _whitened(S, V)
    return float(spectral_norms(symmetrize(G.T @ Q @ G)).max(initial=0.0))


def _whitened(S: Array, V: Array) -> Array:
    """Directions of unit variance, each uncorrelated with those before it."""
    scale = np.sqrt(np.maximum(np.sum(V * (S @ V), axis=0), np.finfo(float).tiny))
    V = V / scale
    L = np.linalg.cholesky(V.T @ S @ V + 1e-13 * np.eye(V.shape[1]))
    return np.asarray(scipy.linalg.solve_triangular(L, V.T, lower=True).T)


def solve_sets(problem: SparseProblem, supports: Any, V: Array) -> list[State]:
    """Solve sets of supports (n, d, k) from components (n, p, d) near their own."""
    sets = _SupportSets(problem, supports)
    starts = [sets.near(V)]
    if problem.k <= len(problem.F) + problem.d:
        # Uncorrelated scores leave one direction on a support: there are many local optima.
        count = min(_RANDOM_STARTS, _RANDOM_ENTRIES // (problem.d * problem.k) ** 2)
        starts += list(np.random.default_rng(0).normal(size=(count, *starts[0].shape)))
    y, values = sets.solve(np.stack(starts))
    best = np.argmax(values, axis=0), np.arange(len(supports))
    states = []
    for value, W, some in zip(values[best], sets.lift(y[best]), supports, strict=True):
        # Nothing above a limit is worth as much as anything within it.
        if np.isfinite(value) and (excess := problem.excess(W)):
            value -= (1.0 + 10.0 * excess) * problem.bound
        states.append(State(float(value), W, some))
    return states


class _SupportSets:
    """Bases on n sets of supports (n, d, k), and the problem in their coordinates (n, q)."""

    def __init__(self, problem: SparseProblem, supports: Any) -> None:
        (n, self.d, k), p = supports.shape, len(problem.S)
        self.problem, T = problem, problem.features(supports.reshape(-1, k))
        N = problem.bases(T, problem.F)
        E = np.zeros((n * self.d, p, N.shape[2]))
        np.add.at(E, (np.arange(n * self.d)[:, None], T), N)
        self.E = np.concatenate(E.reshape(n, self.d, p, -1).swapaxes(0, 1), axis=2)
        self.column = np.repeat(np.arange(self.d), N.shape[2])
        self.one_hot = np.eye(self.d)[self.column]
        # In units of what a component explains, so that objective and constraints are comparable.
        self.worth = problem.bound / problem.d or 1.0
        self.M, A = (self._inside(C) for C in (problem.S, problem.square / self.worth))
        self.B = self._limits()
        # A direction in which nothing varies is zero in E, and must not be taken for a free one.
        self.flat = 1.0 - np.diagonal(self.M, axis1=-2, axis2=-1)
        self.M = self.M + np.eye(len(self.column)) * self.flat[..., None]
        self.inner = A * (self.one_hot @ self.one_hot.T)
        self.pairs: Any = np.triu_indices(self.d)
        # 1/c of each pair: scores of unit variance always, uncorrelated ones where there is room.
        cost = 0.0 if problem.is_uncorrelated else 1.0 / self.d
        self.slack = np.where(self.pairs[0] == self.pairs[1], 0.0, cost)

    def _inside(self, C: Array) -> Array:
        return symmetrize(np.swapaxes(self.E, -1, -2) @ (C @ self.E))

    def _limits(self) -> Array:
        """Matrices B (C, 1, n, q, q): within the limits no eigenvalue of YᵀBY is positive."""
        # |eigenvalues| ≤ limit of the gaps of whitened scores: Yᵀ(±EᵀQE − limit·M)Y ≼ 0.
        B, problem = [], self.problem
        if problem.limit is not None:
            most = _INSIDE * problem.limit * self.M
            B += [side for Q in map(self._inside, problem.Q) for side in (Q - most, -Q - most)]
        # |fᵀv| ≤ τ/√d for v of unit length: vᵀ(ffᵀ − τ²/d)v ≤ 0 for each component by itself.
        square = (_INSIDE * problem.mean_limit) ** 2 / self.d * np.eye(len(problem.S))
        for f in () if problem.means is None else problem.means:
            B.append(self._inside(np.outer(f, f) - square) * (self.one_hot @ self.one_hot.T))
        return np.array(B).reshape(len(B), 1, *self.M.shape)

    def near(self, V: Array) -> Array:
        """Coordinates (n, q) of the directions nearest to components (n, p, d)."""
        return self._unit(np.sum(self.E * (self.problem.S @ V)[..., self.column], axis=-2))

    def _unit(self, y: Array) -> Array:
        blocks = y.reshape(*y.shape[:-1], self.d, -1)
        length = np.maximum(np.linalg.norm(blocks, axis=-1, keepdims=True), _ROUNDING)
        return np.asarray((blocks / length).reshape(y.shape))

    def lift(self, y: Array) -> Array:
        """Components (…, p, d) of coordinates (…, q), zero outside their supports."""
        return np.asarray(self.E @ (y[..., None] * self.one_hot))

    def value(self, y: Array) -> Array:
        """Φ of scores of unit variance; −inf where they are correlated and need not be."""
        own = np.sum(y * (self.inner @ y[..., None])[..., 0], axis=-1)
        residual = np.abs(self.constraints(y)[1])
        feasible = np.all(residual < np.where(self.slack, 1.0 - 1e-6, _FEASIBLE), axis=-1)
        feasible &= np.abs(y * self.flat).max(axis=-1) < _FEASIBLE
        explained = self.worth * (own - self.d * np.sum(residual**2, axis=-1))
        return np.where(feasible, explained, -np.inf)

    def solve(self, y: Array) -> tuple[Array, Array]:
        """Return coordinates (s, n, q) from starts, and Φ; −inf where it fails."""
        # Newton's method on the Lagrangian, constraint g_ij = y_iᵀM_ijy_j − δ_ij. A finite c gives
        # the same equations with g_ij = multiplier/c. Any feasible point counts, maximum or not.
        (i, j), size, at = self.pairs, len(self.column), (..., self.column[:, None], self.column)
        slack = np.diag(self.slack + _ROUNDING)
        duals: Any = 0.0
        for step, penalty in enumerate(_PENALTIES if len(self.B) else np.zeros(_STEPS), 1):
            y = self._unit(y)
            J, residual = self.constraints(y)
            gradient, H = (self.inner @ y[..., None])[..., 0], self.inner
            if len(self.B):
                new, slope, curvature = self._penalised(y, duals, penalty)
                gradient, H = gradient - slope, H - curvature
                duals = duals if step % _DUAL_STEPS else new
            transposed = np.swapaxes(J, -1, -2)
            L = np.zeros((*y.shape[:-1], self.d, self.d))
            L[..., i, j] = L[..., j, i] = _solve(
                J @ transposed + slack, (J @ gradient[..., None])[..., 0]
            )
            H = L[at] * self.M - H
            if len(self.B):
                # Uphill along directions of positive curvature too: else many steps end in saddles.
                curvatures, X = np.linalg.eigh(H)
                H = (X * np.abs(curvatures)[..., None, :]) @ np.swapaxes(X, -1, -2)
            corner = np.broadcast_to(-slack, (*y.shape[:-1], len(i), len(i)))
            system = np.block([[H, transposed], [J, corner]])
            move = _solve(system, np.concatenate([gradient, -residual], axis=-1))[..., :size]
            length = np.linalg.norm(move, axis=-1, keepdims=True)
            y = y + move * (_LONGEST / np.maximum(length, _LONGEST))
        y = self._unit(y)
        for _ in range(_RESTORATIONS * self.problem.is_uncorrelated):
            J, residual = self.constraints(y)
            JJ = J @ np.swapaxes(J, -1, -2) + slack
            y = y - (_solve(JJ, residual)[..., None, :] @ J)[..., 0, :]
        return y, self.value(y)

    def _penalised(self, y: Array, duals: Any, penalty: float) -> tuple[Array, Array, Array]:
        """Multipliers (C, …, d, d) of the limits, the gradient, and a matrix above the Hessian.

        Of penalty/4 Σ_c ‖max(YᵀB_cY + duals_c/penalty, 0)‖², an augmented Lagrangian.
        """
        Y = y[..., None] * self.one_hot
        BY = self.B @ Y
        z, X = np.linalg.eigh(symmetrize(np.swapaxes(Y, -1, -2) @ BY) + duals / penalty)
        excess = np.maximum(z, 0.0)
        duals = penalty * (X * excess[..., None, :]) @ np.swapaxes(X, -1, -2)
        gradient = np.sum((BY @ duals) * self.one_hot, axis=(0, -1))
        # In the basis of eigenvectors: all products with one of those that exceed.
        over = excess > 0.0
        D = penalty / 2.0 * (over[..., :, None] | over[..., None, :])
        K = X[..., self.column, :, None] * (BY @ X)[..., None, :]
        K = (K + np.swapaxes(K, -1, -2)).reshape(*BY.shape[:-1], -1)
        curvature = duals[..., self.column[:, None], self.column] * self.B
        curvature = curvature + K * D.reshape(*D.shape[:-2], 1, -1) @ np.swapaxes(K, -1, -2)
        return duals, gradient, curvature.sum(axis=0)

    def constraints(self, y: Array) -> tuple[Array, Array]:
        """Gradients (…, c, q) of y_iᵀM_ijy_j, half of it for i = j, and what they lack of δ_ij."""
        i, j = self.pairs
        half = np.where(i == j, 0.5, 1.0)
        Y = y[..., None] * self.one_hot
        MY = np.swapaxes(self.M @ Y, -1, -2)
        J = np.where(self.column == i[:, None], MY[..., j, :], 0.0)
        J = J + np.where(self.column == j[:, None], MY[..., i, :], 0.0)
        return J * half[:, None], half * ((MY @ Y)[..., i, j] - (i == j))


def _complement(C: Array) -> Array:
    """Projectors (n, m, m) to the directions that constraints (n, r, m) leave."""
    if not C.size:
        return np.broadcast_to(np.eye(C.shape[2]), (len(C), C.shape[2], C.shape[2]))
    _, sizes, right = np.linalg.svd(C, full_matrices=False)
    right = right * (sizes > _UNMET * np.maximum(sizes[:, :1], _UNMET))[..., None]
    return np.asarray(np.eye(C.shape[2]) - np.swapaxes(right, -1, -2) @ right)


def _solve(matrices: Array, right: Array) -> Array:
    """Solve many systems, with a ridge of the size of rounding against singular ones."""
    ridge = 1e-14 * np.abs(matrices).max(axis=(-2, -1), keepdims=True) + np.finfo(float).tiny
    matrices = matrices + ridge * np.eye(matrices.shape[-1])
    return np.asarray(np.linalg.solve(matrices, right[..., None])[..., 0])
