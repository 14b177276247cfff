"""Components with few non-zero loadings whose scores explain as much of the table as possible.

maximise tr[(VᵀSV)⁻¹VᵀS²V], the variance of all features that a regression on the scores explains,
subject to FV = 0, at most k non-zero entries in each column, VᵀSV diagonal and, with a limit,
max_c ‖GᵀQ_cG‖ ≤ limit for the whitened scores, G = V(VᵀSV)^-½. V itself is not orthonormal.
S: covariance (p, p), F: independent mean gaps (K, p), Q: covariance gaps (C, p, p), V: (p, d).
Mean gaps f that need not be zero are bounded for components v of unit length: |fᵀv| ≤ τ/√d.

From the largest dense loadings on, single features are exchanged. They are chosen by what one
direction v adds to the others, vᵀAv / vᵀSv, where A charges for mean gaps and correlations. Sets of
supports are then solved together, with exact constraints.

On given supports V = EY: E (n, p, q) holds bases of the directions of equal means on each support,
in which a coordinate vector of unit length is a score of unit variance; Y has one block for each
column. M = EᵀSE, A = EᵀS²E. Maximised is Φ = Σ_j y_jᵀA_jjy_j − c Σ_{i<j} (y_iᵀM_ijy_j)² over
y_jᵀy_j = 1, what uncorrelated scores explain. c is infinite where supports leave room for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from fairpca.linalg import (
    Array,
    complement_basis,
    fix_signs,
    single_blas_thread,
    spectral_norms,
    symmetrize,
    top_eigenpairs,
    varimax,
)

# Entries of matrices that are solved at each exchange, from the best sets of supports: many small
# ones, which have more local optima, or few long ones. The least number of sets without and with a
# limit, which is often met by few of them.
_SHORTLIST, _WIDTH, _LEAST = 2500, 360, (1, 12)
# Cost of a squared mean gap in the choice of features, in units of what a component explains.
_MEANS = 30.0
_SECULAR_STEPS = 4
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


class State(NamedTuple):
    """Components V (p, d) on supports (d, k) of places, and what they are worth."""

    value: float
    V: Array
    supports: Any


@dataclass(frozen=True, eq=False)
class SparseProblem:
    """What is explained, by how many components of how many places, under which constraints.

    A place is a feature, or a set of features that enter together: a row of `places`, in which
    short sets repeat a feature, which adds nothing.
    """

    S: Array
    F: Array
    Q: Array
    d: int
    k: int
    places: Any
    square: Array
    bound: float
    dense: Array
    limit: float | None = None
    means: Any = ()  # f (C, p) that τ bounds
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
        if len(self.means):
            gaps = np.linalg.norm(self.means @ (V / np.linalg.norm(V, axis=0)), axis=1)
            over = max(over, float(gaps.max()) - self.mean_limit)
        return max(over, 0.0)

    @property
    def is_uncorrelated(self) -> bool:
        """Whether a support always leaves room for scores without correlation."""
        sizes = sorted(len(set(place)) for place in self.places.tolist())
        return sum(sizes[: self.k]) >= len(self.F) + self.d

    def bases(self, supports: Any, F: Array) -> tuple[Any, Array]:
        """Features T (n, m) of supports (n, k), and directions (n, m, r) on them with Fv = 0.

        Their scores have unit variance, and are uncorrelated. Where nothing varies in a direction
        there is a zero in its place.
        """
        T = self.places[supports].reshape(len(supports), -1)
        _, sizes, met = np.linalg.svd(F[:, T].transpose(1, 0, 2), full_matrices=False)
        met = met * (sizes > _UNMET * np.maximum(sizes[:, :1], _UNMET))[..., None]
        P = np.eye(T.shape[1]) - np.swapaxes(met, -1, -2) @ met
        values, vectors = np.linalg.eigh(symmetrize(P @ self.S[T[:, :, None], T[:, None, :]] @ P))
        varies = values > _RANK * float(np.diag(self.S).max())
        kept = np.flatnonzero(varies.any(axis=0) | (np.arange(T.shape[1]) == T.shape[1] - 1))
        scale = varies / np.sqrt(np.where(varies, values, 1.0))
        return T, (P @ vectors * scale[:, None])[..., kept]


def explained_bound(S: Array, F: Array, d: int) -> tuple[float, Array]:
    """Return the most that d scores of equal means explain, and directions (p, d) that do.

    No set of d scores with FV = 0 explains more, however many features each of them uses.
    """
    # With v = UΛ^-½w the value is wᵀΛw/wᵀw, and the constraint FUΛ^-½w = 0.
    values, U = np.linalg.eigh(S)
    kept = values > _RANK_FLOOR * max(values[-1], 0.0)
    root = U[:, kept] / np.sqrt(values[kept])
    N = complement_basis(F @ root, 1e-12)
    top, W = top_eigenpairs(symmetrize((N.T * values[kept]) @ N), min(d, N.shape[1]))
    return float(np.maximum(top, 0.0).sum()), root @ (N @ W)


def independent_rows(rows: Array, floor: float) -> Array:
    """Orthonormal rows of the same span; smaller singular values than `floor` are rounding."""
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
    V = V / np.sqrt(np.maximum(np.sum(V * (S @ V), axis=0), np.finfo(float).tiny))
    L = np.linalg.cholesky(V.T @ S @ V + 1e-13 * np.eye(V.shape[1]))
    return np.asarray(scipy.linalg.solve_triangular(L, V.T, lower=True).T)


def solve_sparse(problem: SparseProblem, starts: Sequence[State] = ()) -> State | None:
    """Return the best components found, ordered by what they explain; None if there are none.

    `starts` are components with at most as many places, such as those of a smaller k.
    """
    if len(problem.means):  # equal means are within every bound, and found more surely
        F = independent_rows(problem.means, 1e-11 * float(np.linalg.norm(problem.means)))
        equal = solve_sparse(replace(problem, F=F, means=()))
        starts = [*starts, *([] if equal is None else [equal])]
    with single_blas_thread():
        best = max([*starts, _exchange(problem, starts)], key=itemgetter(0))
    if best.value == -np.inf:
        return None
    V = best.V / np.linalg.norm(best.V, axis=0)
    SV = problem.S @ V
    order = np.argsort(-np.sum(SV**2, axis=0) / np.sum(V * SV, axis=0), kind="stable")
    # Adding zero turns −0 into 0.
    return State(best.value, fix_signs(V[:, order]) + 0.0, best.supports[order])


def solve_path(
    problem: SparseProblem, sizes: Sequence[int], enough: float = 1.0
) -> dict[int, State]:
    """Solve for rising numbers of places, each from the last, which is kept where it is better.

    The path ends where that share of the bound is explained.
    """
    states: dict[int, State] = {}
    for size in sizes:
        state = solve_sparse(replace(problem, k=size), list(states.values())[-1:])
        if state is not None:
            states[size] = state
            if state.value >= enough * problem.bound:
                break
    return states


def _largest_loadings(problem: SparseProblem) -> Iterator[tuple[Any, Array]]:
    """Supports of the largest loadings of the dense components, rotated and not."""
    scale = np.sqrt(np.diag(problem.S))[:, None]
    for V in (problem.dense, problem.dense @ varimax(scale * problem.dense)):
        size = np.abs(scale * V)[problem.places].max(axis=1)
        yield np.argsort(-size, axis=0, kind="stable")[: problem.k].T, V


def _exchange(problem: SparseProblem, before: Sequence[State]) -> State:
    """Exchange one feature of one component at a time, from the best few sets of supports."""
    known: dict[Any, State] = {}
    expanded: set[Any] = set()
    entries = (problem.d * problem.k) ** 2
    width = max(_LEAST[problem.limit is not None], _WIDTH // entries)
    shortlist = max(2, _SHORTLIST // entries // problem.d)
    starts = list(_largest_loadings(problem))
    for _, V, supports in before:
        # A place of fewer that repeats adds nothing until it is exchanged.
        more = ((0, 0), (0, problem.k - supports.shape[1]))
        starts.append((np.pad(supports, more, mode="edge"), V))
    while starts:
        for state in _solve_sets(problem, *map(np.array, zip(*starts, strict=True))):
            key = _key(state.supports)
            known[key] = max(state, known.get(key, state), key=itemgetter(0))
        best = sorted(known, key=lambda key: -known[key].value)[:width]
        fresh = [key for key in best if key not in expanded]
        expanded.update(fresh)
        starts = [
            (supports, known[key].V)
            for key in fresh
            for supports in _swapped(problem, known[key], shortlist)
            if _key(supports) not in known
        ]
    return max(known.values(), key=itemgetter(0))


def _key(supports: Any) -> Any:
    return tuple(sorted(map(tuple, np.sort(supports, axis=1).tolist())))


def _swapped(problem: SparseProblem, state: State, shortlist: int) -> Iterator[Any]:
    """Promising sets of supports (d, k) with one place of one component exchanged."""
    for j, support in enumerate(state.supports):
        smaller = np.array([np.delete(support, i) for i in range(problem.k)])
        values = addition_values(problem, np.delete(state.V, j, 1), smaller)
        for flat in np.argsort(-values, axis=None, kind="stable")[:shortlist]:
            supports = state.supports.copy()
            supports[j, flat // values.shape[1]] = flat % values.shape[1]
            yield supports


def addition_values(problem: SparseProblem, others: Array, supports: Any) -> Array:
    """Value of the best direction on each support with one more place, (n, U); −inf inside it."""
    # A correlation costs, in place of a ban: under a ban nothing can move where each support has
    # just enough features. So does a mean gap, which then needs no basis for each new feature.
    S, worth = problem.S, problem.bound / problem.d
    SV = S @ others
    SV = SV / np.sqrt(np.maximum(np.sum(others * SV, axis=0), np.finfo(float).tiny))
    means = _MEANS * float(np.diag(S).mean()) * problem.F.T @ problem.F
    A = symmetrize(problem.square - worth * (SV @ SV.T + means))
    # A place is worth its best feature at least.
    values = _add_feature(problem, A, supports)[:, problem.places].max(axis=2)
    np.put_along_axis(values, supports, -np.inf, axis=1)
    return np.asarray(values)


def _add_feature(problem: SparseProblem, A: Array, supports: Any) -> Array:
    """Largest eigenvalue of (A, S) on each support and one more feature, for all features."""
    # In the eigenvectors W on the support, WᵀSW = I, and the new feature made uncorrelated with
    # them, A is an arrow: diag(λ), squared border b, corner c. Its eigenvalues are the roots of
    # x = c + Σ b/(x − λ).
    S, (T, N) = problem.S, problem.bases(supports, problem.F[:0])
    inside = np.swapaxes(N, -1, -2) @ A[T[:, :, None], T[:, None, :]] @ N
    poles, vectors = np.linalg.eigh(symmetrize(inside))
    W, poles = np.swapaxes(N @ vectors, -1, -2), poles[..., None]
    g, h = W @ S[T], W @ A[T]
    size = np.diag(S) - np.sum(g * g, axis=1)
    varies = size > _RANK * float(np.diag(S).max())
    size = np.where(varies, size, 1.0)
    corner = (np.diag(A) - np.sum(g * (2.0 * h - poles * g), axis=1)) / size
    if not T.shape[1]:
        return np.asarray(corner)
    border, top = (h - poles * g) ** 2 / size[:, None], poles[:, -1]
    # The last pole and the corner alone are below the root, and Newton's method never passes it.
    root = (top + corner) / 2.0 + np.sqrt((top - corner) ** 2 / 4.0 + border[:, -1])
    for _ in range(_SECULAR_STEPS):
        away = np.maximum(root[:, None] - poles, 1e-12 * problem.bound)
        lacking = corner + np.sum(border / away, axis=1) - root
        root = root + lacking / (1.0 + np.sum(border / away**2, axis=1))
    return np.where(varies, root, top)


def _solve_sets(problem: SparseProblem, supports: Any, V: Array) -> Iterator[State]:
    """Solve sets of supports (n, d, k) from components (n, p, d) near their own."""
    sets = _SupportSets(problem, supports)
    starts = [sets.near(V)]
    if problem.k <= len(problem.F) + problem.d:
        # Uncorrelated scores leave one direction on a support: there are many local optima.
        count = min(_RANDOM_STARTS, _RANDOM_ENTRIES // (problem.d * problem.k) ** 2)
        starts += list(np.random.default_rng(0).normal(size=(count, *starts[0].shape)))
    y, values = sets.solve(np.stack(starts))
    best = np.argmax(values, axis=0), np.arange(len(supports))
    for value, W, some in zip(values[best], sets.lift(y[best]), supports, strict=True):
        # Nothing above a limit is worth as much as anything within it.
        if np.isfinite(value) and (excess := problem.excess(W)):
            value -= (1.0 + 10.0 * excess) * problem.bound
        yield State(float(value), W, some)


class _SupportSets:
    """Bases on n sets of supports (n, d, k), and the problem in their coordinates (n, q)."""

    def __init__(self, problem: SparseProblem, supports: Any) -> None:
        (n, self.d, k), p = supports.shape, len(problem.S)
        self.problem, (T, N) = problem, problem.bases(supports.reshape(-1, k), problem.F)
        E = np.zeros((n * self.d, p, N.shape[2]))
        np.add.at(E, (np.arange(n * self.d)[:, None], T), N)
        self.E = np.concatenate(E.reshape(n, self.d, p, -1).swapaxes(0, 1), axis=2)
        self.column = np.repeat(np.arange(self.d), N.shape[2])
        self.one_hot = np.eye(self.d)[self.column]
        # In units of what a component explains, so that objective and constraints are comparable.
        self.worth = problem.bound / problem.d
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
        for f in problem.means:
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


def _solve(matrices: Array, right: Array) -> Array:
    """Solve many systems, with a ridge of the size of rounding against singular ones."""
    ridge = 1e-14 * np.abs(matrices).max(axis=(-2, -1), keepdims=True) + np.finfo(float).tiny
    matrices = matrices + ridge * np.eye(matrices.shape[-1])
    return np.asarray(np.linalg.solve(matrices, right[..., None])[..., 0])
