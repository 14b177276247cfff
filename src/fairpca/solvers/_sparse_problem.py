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
_LONGEST, _STEPS = 0.5, 6
# Cost of a squared correlation in a start, as a share of all that can be explained.
_DEFLATION = 10.0
# Under a limit: penalties on the square of what exceeds it, in units of what a component explains,
# steps at each of them, and the share of the limit that is aimed at, so that what is left to
# converge does not exceed it.
_PENALTIES, _LIMITED_STEPS, _INSIDE = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0), 4, 0.98


@dataclass(frozen=True, eq=False)
class SparseProblem:
    """What is explained, by how many components of how many places, under which constraints.

    A place is a feature, or with `places` a set of features that enter together.
    """

    S: Array
    F: Array
    Q: Array
    d: int
    k: int
    square: Array
    bound: float
    dense: Array
    limit: float | None = None
    places: Sequence[Any] | None = None
    means: Array | None = None  # f (C, p) that τ bounds
    mean_limit: float = 0.0  # τ

    @classmethod
    def pose(
        cls, S: Array, F: Array, Q: Array, d: int, k: int, limit: Any = None, places: Any = None,
        **means: Any,
    ) -> SparseProblem:  # fmt: skip
        """Compute what every k shares: S², the bound, and dense components that attain it."""
        return cls(S, F, Q, d, k, S @ S, *explained_bound(S, F, d), limit, places, **means)

    def bounded(self) -> tuple[Array, Array, Array]:
        """Return matrices G (C, p, p) and the least and largest eigenvalues that VᵀGV may have."""
        Q = self.Q[: 0 if self.limit is None else None]
        F = np.zeros((0, len(self.S))) if self.means is None else self.means
        # |fᵀv| ≤ τ/√d for v of unit length: vᵀ(ffᵀ − τ²/d)v ≤ 0 for any v.
        square = (_INSIDE * self.mean_limit) ** 2 / self.d
        G = F[:, :, None] * F[:, None, :] - square * np.eye(len(self.S))
        most = np.repeat([self.limit or 0.0, 0.0], [len(Q), len(F)])
        least = np.where(np.arange(len(most)) < len(Q), -most, -np.inf)
        return np.concatenate([Q, G]), least, most

    def excess(self, V: Array) -> float:
        """How far the gaps of components lie above their limits."""
        over = 0.0 if self.limit is None else whitened_gap(self.S, self.Q, V) - self.limit
        if self.means is not None:
            gaps = np.linalg.norm(self.means @ (V / np.linalg.norm(V, axis=0)), axis=1)
            over = max(over, float(gaps.max()) - self.mean_limit)
        return max(over, 0.0)

    @property
    def n_places(self) -> int:
        """Number of places to choose from."""
        return len(self.S) if self.places is None else len(self.places)

    @property
    def is_uncorrelated(self) -> bool:
        """Whether a support always leaves room for scores without correlation."""
        sizes = [1] * self.k if self.places is None else sorted(map(len, self.places))[: self.k]
        return sum(sizes) >= len(self.F) + self.d

    def features(self, supports: Any) -> Any:
        """Features (…, m) of supports (…, k); short ones repeat a feature, which adds nothing."""
        if self.places is None:
            return supports
        chosen = [
            np.concatenate([self.places[place] for place in support])
            for support in supports.reshape(-1, supports.shape[-1])
        ]
        width = max(map(len, chosen))
        padded = [np.pad(some, (0, width - len(some)), mode="edge") for some in chosen]
        return np.array(padded).reshape(*supports.shape[:-1], width)

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
    sets, order = _SupportSets(problem, supports), range(supports.shape[1])
    starts = [sets.near(V)]
    if not V[..., -1].any():
        starts = [sets.deflated(order[-1:], starts[0])]
    if problem.k <= len(problem.F) + problem.d:
        # Uncorrelated scores leave one direction on a support: there are many local optima.
        starts += [sets.deflated(order), sets.deflated(order[::-1])]
    y, values = sets.solve(np.stack(starts))
    best = np.argmax(values, axis=0), np.arange(len(supports))
    states = []
    for value, W, some in zip(values[best], sets.lift(y[best]), supports, strict=True):
        # A gap above its limit costs more than all that could be explained by breaking it.
        excess = problem.excess(W) if np.isfinite(value) else 0.0
        states.append(State(float(value) - 10.0 * problem.bound * excess, W, some))
    return states


class _SupportSets:
    """Bases on n sets of supports (n, d, k), and the problem in their coordinates (n, q)."""

    def __init__(self, problem: SparseProblem, supports: Any) -> None:
        (n, self.d, _), p = supports.shape, len(problem.S)
        self.problem, T = problem, problem.features(supports).reshape(n * self.d, -1)
        N = problem.bases(T, problem.F)
        E = np.zeros((n * self.d, p, N.shape[2]))
        np.add.at(E, (np.arange(n * self.d)[:, None], T), N)
        self.E = np.concatenate(E.reshape(n, self.d, p, -1).swapaxes(0, 1), axis=2)
        self.column = np.repeat(np.arange(self.d), N.shape[2])
        self.one_hot = np.eye(self.d)[self.column]
        self.M, A = (self._inside(C) for C in (problem.S, problem.square))
        # A direction in which nothing varies is zero in E, and must not be taken for a free one.
        self.flat = 1.0 - np.diagonal(self.M, axis1=-2, axis2=-1)
        self.M = self.M + np.eye(len(self.column)) * self.flat[..., None]
        same = self.column[:, None] == self.column
        self.inner = np.where(same, A, 0.0)
        self.pairs: Any = np.triu_indices(self.d)
        # 1/c of each pair: scores of unit variance always, uncorrelated ones where there is room.
        cost = 0.0 if problem.is_uncorrelated else 1.0 / (problem.bound or 1.0)
        self.slack = np.where(self.pairs[0] == self.pairs[1], 0.0, cost)
        G, self.least, self.most = problem.bounded()
        self.G = np.array([self._inside(C) for C in G]).reshape(len(G), 1, *self.M.shape)
        # Means are bounded component by component: only the diagonal of YᵀGY counts.
        self.G = np.where(same | np.isfinite(self.least)[:, None, None, None, None], self.G, 0.0)

    def _inside(self, C: Array) -> Array:
        return symmetrize(np.swapaxes(self.E, -1, -2) @ (C @ self.E))

    def near(self, V: Array) -> Array:
        """Coordinates (n, q) of the directions nearest to components (n, p, d)."""
        return self._unit(np.sum(self.E * (self.problem.S @ V)[..., self.column], axis=-2))

    def _unit(self, y: Array) -> Array:
        blocks = y.reshape(*y.shape[:-1], self.d, -1)
        length = np.maximum(np.linalg.norm(blocks, axis=-1, keepdims=True), _ROUNDING)
        return np.asarray((blocks / length).reshape(y.shape))

    def deflated(self, order: Sequence[int], y: Any = None) -> Array:
        """Coordinates (n, q): the best directions on some supports in turn, next to those in y."""
        y = np.zeros(self.inner.shape[:2]) if y is None else y.copy()
        cost = _DEFLATION * self.problem.bound
        for j in order:
            block = np.flatnonzero(self.column == j)
            C = self.M[:, block] @ (y[..., None] * self.one_hot)
            A = self.inner[:, block[:, None], block] - cost * C @ np.swapaxes(C, -1, -2)
            y[:, block] = np.linalg.eigh(A)[1][:, :, -1]
        return np.asarray(y)

    def lift(self, y: Array) -> Array:
        """Components (…, p, d) of coordinates (…, q), zero outside their supports."""
        return np.asarray(self.E @ (y[..., None] * self.one_hot))

    def value(self, y: Array) -> Array:
        """Φ of scores of unit variance; −inf where they are correlated and need not be."""
        own = np.sum(y * (self.inner @ y[..., None])[..., 0], axis=-1)
        residual, hard = self.constraints(y)[1], self.slack == 0.0
        soft = np.sum(residual[..., ~hard] ** 2 / self.slack[~hard], axis=-1)
        feasible = np.abs(residual[..., hard]).max(axis=-1) < _FEASIBLE
        feasible &= np.abs(residual[..., ~hard]).max(axis=-1, initial=0.0) < 1.0 - 1e-6
        feasible &= np.abs(y * self.flat).max(axis=-1) < _FEASIBLE
        return np.where(feasible, own - soft, -np.inf)

    def solve(self, y: Array) -> tuple[Array, Array]:
        """Return coordinates (s, n, q) from starts, and Φ; −inf where it fails."""
        # Newton's method on the Lagrangian, constraint g_ij = y_iᵀM_ijy_j − δ_ij. A finite c gives
        # the same equations with g_ij = multiplier/c. Any feasible point counts, maximum or not.
        (i, j), size, at = self.pairs, len(self.column), (..., self.column[:, None], self.column)
        multipliers, slack = None, -np.diag(self.slack + _ROUNDING)
        duals: Any = 0.0
        worth = self.problem.bound / self.problem.d
        penalties = np.repeat(_PENALTIES, _LIMITED_STEPS) * worth if len(self.G) else [0.0] * _STEPS
        for step, penalty in enumerate(penalties, 1):
            y = self._unit(y)
            J, residual = self.constraints(y)
            gradient, H, new = (self.inner @ y[..., None])[..., 0], self.inner, duals
            if len(self.G):
                new, slope, curvature = self._penalised(y, duals, penalty)
                gradient, H = gradient - slope, H - curvature
            if multipliers is None:
                multipliers = _solve(
                    J @ np.swapaxes(J, -1, -2) - slack, (J @ gradient[..., None])[..., 0]
                )
            L = np.zeros((*y.shape[:-1], self.d, self.d))
            L[..., i, j] = L[..., j, i] = multipliers
            slope = (multipliers[..., None, :] @ J)[..., 0, :] - gradient
            corner = np.broadcast_to(slack, (*y.shape[:-1], len(i), len(i)))
            H = H - L[at] * self.M
            if len(self.G):
                # Uphill along directions of positive curvature too: else many steps end in saddles.
                curvatures, X = np.linalg.eigh(H)
                H = -(X * np.abs(curvatures)[..., None, :]) @ np.swapaxes(X, -1, -2)
            system = np.block([[H, -np.swapaxes(J, -1, -2)], [J, corner]])
            lacking = self.slack * multipliers - residual
            move = _solve(system, np.concatenate([slope, lacking], axis=-1))
            length = np.linalg.norm(move[..., :size], axis=-1, keepdims=True)
            move = move * (_LONGEST / np.maximum(length, _LONGEST))
            y, multipliers = y + move[..., :size], multipliers + move[..., size:]
            duals = duals if step % _LIMITED_STEPS else new
        y = self._restore(y)
        return y, self.value(y)

    def _penalised(self, y: Array, duals: Any, penalty: float) -> tuple[Array, Array, Array]:
        """Augmented Lagrangian of the limits: multipliers (C, …, d, d), gradient and Hessian.

        penalty/4 Σ_c ‖Z_c − clip(Z_c)‖², where Z_c = YᵀG_cY + duals_c/penalty and clip moves
        eigenvalues to the nearest that are allowed.
        """
        Y, bounds = y[..., None] * self.one_hot, (_INSIDE * self.least, _INSIDE * self.most)
        GY = self.G @ Y
        z, X = np.linalg.eigh(symmetrize(np.swapaxes(Y, -1, -2) @ GY) + duals / penalty)
        excess = z - np.clip(z, *(ends[:, None, None, None] for ends in bounds))
        duals = penalty * (X * excess[..., None, :]) @ np.swapaxes(X, -1, -2)
        gradient = np.sum((GY @ duals) * self.one_hot, axis=(0, -1))
        # Derivative of the excess in the basis of eigenvectors: quotients of differences.
        apart = z[..., :, None] - z[..., None, :]
        equal = np.abs(apart) < _FEASIBLE
        D = (excess[..., :, None] - excess[..., None, :]) / np.where(equal, 1.0, apart)
        D = penalty / 2.0 * np.where(equal, (excess != 0.0)[..., None], D)
        K = X[..., self.column, :, None] * (GY @ X)[..., None, :]
        K = (K + np.swapaxes(K, -1, -2)).reshape(*GY.shape[:-1], -1)
        curvature = duals[..., self.column[:, None], self.column] * self.G
        curvature = curvature + K * D.reshape(*D.shape[:-2], 1, -1) @ np.swapaxes(K, -1, -2)
        return duals, gradient, curvature.sum(axis=0)

    def _restore(self, y: Array, steps: int = 3) -> Array:
        """Move to the nearest point at which scores are uncorrelated, if there is room."""
        hard = self.slack == 0.0
        for _ in range(steps):
            J, residual = self.constraints(y)
            J = J[..., hard, :]
            JJ = J @ np.swapaxes(J, -1, -2) + _ROUNDING * np.eye(J.shape[-2])
            y = y - (_solve(JJ, residual[..., hard])[..., None, :] @ J)[..., 0, :]
        return y

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
    """Solve many systems; a singular one moves nothing."""
    try:
        return np.asarray(np.linalg.solve(matrices, right[..., None])[..., 0])
    except np.linalg.LinAlgError:
        regular = np.linalg.slogdet(matrices)[0] != 0.0
        moves = np.zeros_like(right)
        moves[regular] = np.linalg.solve(matrices[regular], right[regular][..., None])[..., 0]
        return moves
