"""Components with few non-zero loadings whose scores explain as much of the table as possible.

maximise tr[(VᵀSV)⁻¹VᵀS²V], the variance of all features that a regression on the scores explains,
subject to FV = 0, at most k non-zero entries in each column, VᵀSV diagonal and, with a limit,
max_c ‖GᵀQ_cG‖ ≤ limit for the whitened scores, G = V(VᵀSV)^-½. V itself is not orthonormal.
S: covariance (p, p), F: independent mean gaps (K, p), Q: covariance gaps (C, p, p), V: (p, d).

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
from scipy.optimize import minimize

from fairpca.linalg import Array, spectral_norms, symmetrize, top_eigenpairs

# Eigenvalues of S below this share of the largest are rounding.
_RANK_FLOOR = 1e-12
# Relative: less is no variance, or what a support cannot contribute to a constraint.
_RANK, _UNMET = 1e-9, 1e-13
_ROUNDING = 1e-12
# Longest step of Newton's method, whose scores have unit variance, and the number of steps.
_LONGEST = 0.5
_STEPS = 6
# Cost of a squared correlation in a start, as a share of all that can be explained.
_DEFLATION = 10.0
_FEASIBLE = 1e-9
# Share of the limit by which the soft maximum of the gaps may exceed their maximum.
_SOFTNESS = 0.05
# Up to so many components local optima are worth several starts: more have better ones near them.
FEW_COMPONENTS = 3


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

    @classmethod
    def pose(
        cls, S: Array, F: Array, Q: Array, d: int, k: int, limit: Any = None, places: Any = None
    ) -> SparseProblem:
        """Compute what every k shares: S², the bound, and dense components that attain it."""
        return cls(S, F, Q, d, k, S @ S, *explained_bound(S, F, d), limit, places)

    @property
    def n_places(self) -> int:
        """Number of places to choose from."""
        return len(self.S) if self.places is None else len(self.places)

    @property
    def is_uncorrelated(self) -> bool:
        """Whether a support always leaves room for scores without correlation."""
        sizes = [1] * self.k if self.places is None else sorted(map(len, self.places))[: self.k]
        return sum(sizes) >= len(self.F) + self.d

    @property
    def is_tight(self) -> bool:
        """Whether uncorrelated scores leave one direction on a support: none moves alone."""
        return self.k <= len(self.F) + self.d

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

    def excess(self, V: Array) -> float:
        """How far the whitened covariance gap lies above its limit."""
        return 0.0 if self.limit is None else max(whitened_gap(self.S, self.Q, V) - self.limit, 0.0)


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


def correlations(S: Array, V: Array) -> Array:
    """Correlation matrix of the scores."""
    C = V.T @ S @ V
    scale = np.sqrt(np.maximum(np.diag(C), np.finfo(float).tiny))
    return np.asarray(C / np.outer(scale, scale))


def whitened_gap(S: Array, Q: Array, V: Array) -> float:
    """Largest spectral norm of a covariance gap of the whitened scores."""
    G = _whitened(S, V)
    return float(spectral_norms(symmetrize(G.T @ Q @ G)).max(initial=0.0))


def _whitened(S: Array, V: Array) -> Array:
    """Directions of unit variance, each uncorrelated with those before it."""
    scale = np.sqrt(np.maximum(np.sum(V * (S @ V), axis=0), np.finfo(float).tiny))
    L = np.linalg.cholesky(correlations(S, V) + 1e-13 * np.eye(V.shape[1]))
    return np.asarray(scipy.linalg.solve_triangular(L, (V / scale).T, lower=True).T)


def solve_sets(problem: SparseProblem, supports: Any, V: Array) -> list[State]:
    """Solve sets of supports (n, d, k) from components (n, p, d) near their own."""
    sets, order = _SupportSets(problem, supports), range(supports.shape[1])
    starts = [sets.near(V)]
    if not V[..., -1].any():
        starts = [sets.deflated(order[-1:], starts[0])]
    if len(order) <= FEW_COMPONENTS and problem.is_tight:
        starts += [sets.deflated(order), sets.deflated(order[::-1])]
    y, values = sets.solve(np.stack(starts))
    best = np.argmax(values, axis=0), np.arange(len(supports))
    solved = zip(values[best], sets.lift(y[best]), supports, V, strict=True)
    if problem.limit is None:
        return [State(float(value), W, some) for value, W, some, _ in solved]
    states = []
    for _, W, some, near in solved:
        one = _SupportSets(problem, some[None])
        state = _solve_limited(one, near) if near[:, -1].any() else None
        if state is None or state.value < 0.0:  # the limit is not met from there
            other = _solve_limited(one, W)
            state = other if state is None else max(state, other, key=lambda each: each.value)
        states.append(state)
    return states


class _SupportSets:
    """Bases on n sets of supports (n, d, k), and the problem in their coordinates (n, q)."""

    def __init__(self, problem: SparseProblem, supports: Any) -> None:
        self.problem, self.supports, self.d = problem, supports, supports.shape[1]
        self.E, width = _bases(problem, supports)
        self.column = np.repeat(np.arange(self.d), width)
        self.one_hot = np.eye(self.d)[self.column]
        back = np.swapaxes(self.E, -1, -2)
        self.M, A = (symmetrize(back @ (C @ self.E)) for C in (problem.S, problem.square))
        # A direction in which nothing varies is zero in E, and must not be taken for a free one.
        self.flat = 1.0 - np.diagonal(self.M, axis1=-2, axis2=-1)
        self.M = self.M + np.eye(len(self.column)) * self.flat[..., None]
        self.inner = np.where(self.column[:, None] == self.column, A, 0.0)
        self.pairs: Any = np.triu_indices(self.d)
        # 1/c of each pair: scores of unit variance always, uncorrelated ones where there is room.
        cost = 0.0 if problem.is_uncorrelated else 1.0 / (problem.bound or 1.0)
        self.slack = np.where(self.pairs[0] == self.pairs[1], 0.0, cost)

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
        residual = self.constraints(y)[1]
        hard = self.slack == 0.0
        soft = np.sum(residual[..., ~hard] ** 2 / self.slack[~hard], axis=-1)
        feasible = np.abs(residual[..., hard]).max(axis=-1) < _FEASIBLE
        feasible &= np.abs(residual[..., ~hard]).max(axis=-1, initial=0.0) < 1.0 - 1e-6
        feasible &= np.abs(y * self.flat).max(axis=-1) < _FEASIBLE
        return np.where(feasible, own - soft, -np.inf)

    def solve(self, y: Array) -> tuple[Array, Array]:
        """Return coordinates (…, n, q) from a start, and Φ; −inf where it fails."""
        # Newton's method on the Lagrangian, constraint g_ij = y_iᵀM_ijy_j − δ_ij. A finite c gives
        # the same equations with g_ij = multiplier/c. Any feasible point counts, maximum or not.
        (i, j), size = self.pairs, len(self.column)
        multipliers = None
        slack = -np.diag(self.slack + _ROUNDING)
        for _ in range(_STEPS):
            y = self._unit(y)
            J, residual = self.constraints(y)
            gradient = (self.inner @ y[..., None])[..., 0]
            if multipliers is None:
                multipliers = _solve(
                    J @ np.swapaxes(J, -1, -2) - slack, (J @ gradient[..., None])[..., 0]
                )
            L = np.zeros((*y.shape[:-1], self.d, self.d))
            L[..., i, j] = L[..., j, i] = multipliers
            H = self.inner - L[..., self.column[:, None], self.column] * self.M
            slope = (multipliers[..., None, :] @ J)[..., 0, :] - gradient
            corner = np.broadcast_to(slack, (*y.shape[:-1], len(i), len(i)))
            system = np.block([[H, -np.swapaxes(J, -1, -2)], [J, corner]])
            lacking = self.slack * multipliers - residual
            move = _solve(system, np.concatenate([slope, lacking], axis=-1))
            length = np.linalg.norm(move[..., :size], axis=-1, keepdims=True)
            move = move * np.minimum(1.0, _LONGEST / np.maximum(length, _LONGEST))
            y, multipliers = y + move[..., :size], multipliers + move[..., size:]
        y = self.restore(y)
        return y, self.value(y)

    def restore(self, y: Array, steps: int = 3) -> Array:
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


def _solve_limited(sets: _SupportSets, V: Array) -> State:
    """Solve one set of supports from components (p, d), with a limit on the covariance gap."""
    problem, hard = sets.problem, sets.slack == 0.0
    scale = problem.bound or 1.0

    def loss(y: Array) -> tuple[float, Array]:
        J, residual = (some[0] for some in sets.constraints(y))
        excess = np.where(hard, 0.0, residual) / np.where(hard, 1.0, sets.slack)
        gradient = sets.inner[0] @ y - excess @ J
        return -float(y @ sets.inner[0] @ y - excess @ residual) / scale, -2.0 * gradient / scale

    soft_gap = _soft_gap(sets)
    rules = [
        {"type": "eq", "fun": lambda y: sets.constraints(y)[1][0, hard],
         "jac": lambda y: sets.constraints(y)[0][0, hard]},
        {"type": "ineq", "fun": lambda y: problem.limit - soft_gap(y)[0],
         "jac": lambda y: -soft_gap(y)[1]},
    ]  # fmt: skip
    how: Any = {"jac": True, "constraints": rules, "options": {"maxiter": 100, "ftol": 1e-9}}
    try:
        y = sets.restore(minimize(loss, sets.near(V[None])[0], (), "SLSQP", **how).x[None], 10)
        W = sets.lift(y)[0]
        # A gap above its limit costs more than all that could be explained by breaking it.
        value = float(sets.value(y)[0]) - 10.0 * problem.bound * problem.excess(W)
    except (np.linalg.LinAlgError, ValueError):
        value = np.nan
    if not np.isfinite(value):
        return State(-np.inf, V, sets.supports[0])
    return State(value, W, sets.supports[0])


def _soft_gap(sets: _SupportSets) -> Any:
    """Soft maximum of the whitened covariance gaps, which is above the maximum, and gradient."""
    Q = symmetrize(sets.E[0].T @ sets.problem.Q @ sets.E[0])
    limit = max(sets.problem.limit or 0.0, 1e-3)
    softness = _SOFTNESS * limit / np.log(2.0 * len(Q) * sets.d + 1.0)

    def soft_gap(y: Array) -> tuple[float, Array]:
        Y = y[:, None] * sets.one_hot
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

    return soft_gap


def _bases(problem: SparseProblem, supports: Any) -> tuple[Array, int]:
    """Bases (n, p, q) of all components of sets of supports (n, d, k), and columns of each."""
    (n, d, _), S = supports.shape, problem.S
    T = problem.features(supports).reshape(n * d, -1)
    P = _complement(problem.F[:, T].transpose(1, 0, 2), _UNMET)
    values, vectors = np.linalg.eigh(symmetrize(P @ S[T[:, :, None], T[:, None, :]] @ P))
    varies = values > _RANK * float(np.diag(S).max())
    kept = np.flatnonzero(varies.any(axis=0) | (np.arange(T.shape[1]) == T.shape[1] - 1))
    N = (P @ vectors * (varies / np.sqrt(np.where(varies, values, 1.0)))[:, None])[..., kept]
    E = np.zeros((n * d, len(S), len(kept)))
    np.add.at(E, (np.arange(n * d)[:, None], T), N)
    return np.concatenate(E.reshape(n, d, len(S), -1).swapaxes(0, 1), axis=2), len(kept)


def _complement(C: Array, floor: float) -> Array:
    """Projectors (n, m, m) to the directions that constraints (n, r, m) leave."""
    if not C.size:
        return np.broadcast_to(np.eye(C.shape[2]), (len(C), C.shape[2], C.shape[2]))
    _, sizes, right = np.linalg.svd(C, full_matrices=False)
    right = right * (sizes > floor * np.maximum(sizes[:, :1], floor))[..., None]
    return np.asarray(np.eye(C.shape[2]) - np.swapaxes(right, -1, -2) @ right)


def whitening(M: Array, scale: float) -> Array:
    """Return L⁻¹ with LLᵀ = M, which is lifted by rounding so that it has one."""
    return np.asarray(
        np.linalg.inv(np.linalg.cholesky(symmetrize(M) + 1e-10 * scale * np.eye(M.shape[-1])))
    )


def _solve(matrices: Array, right: Array) -> Array:
    """Solve many systems; a singular one moves nothing."""
    try:
        return np.asarray(np.linalg.solve(matrices, right[..., None])[..., 0])
    except np.linalg.LinAlgError:
        regular = np.linalg.slogdet(matrices)[0] != 0.0
        moves = np.zeros_like(right)
        moves[regular] = np.linalg.solve(matrices[regular], right[regular][..., None])[..., 0]
        return moves
