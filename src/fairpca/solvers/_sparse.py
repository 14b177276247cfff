"""Components with few non-zero loadings whose scores explain as much of the table as possible.

maximise tr[(VᵀSV)⁻¹VᵀS²V], the variance of all features that a regression on the scores explains,
subject to FV = 0, at most k non-zero entries in each column, VᵀSV diagonal and, with a limit,
max_c ‖GᵀQ_cG‖ ≤ limit for the whitened scores, G = V(VᵀSV)^-½. V itself is not orthonormal.
S: covariance (p, p), F: independent mean gaps (K, p), Q: covariance gaps (C, p, p), V: (p, d).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from scipy.optimize import minimize

from fairpca.linalg import (
    Array,
    complement_basis,
    fix_signs,
    single_blas_thread,
    spectral_norms,
    symmetrize,
    top_eigenpairs,
)
from fairpca.solvers._supports import Quotient, best_directions, search_supports

# A mean gap this small against the spread of the features is rounding, not a difference.
_MEAN_FLOOR = 1e-11
# Eigenvalues of S below this share of the largest are rounding.
_RANK_FLOOR = 1e-12
# Supports that are followed from one component to the next, and starts of each search.
_BEAM = 4
_STARTS = 6
_SWEEPS = 4
# Supports of one component that are refined together with the others in a sweep.
_CANDIDATES = 3
# Share of S in the denominator where scores cannot be uncorrelated: a direction that the others
# explain nearly has little variance of its own, and would be worth much without it.
_BLEND = 0.1
# Penalties on the covariance gap at which supports are scored, in units of a component's worth.
_PENALTIES = (0.5, 2.0)
_IMPROVEMENT = 1e-7


@dataclass(frozen=True, eq=False)
class SparseProblem:
    """What is explained, by how many components of how many places, under which constraints."""

    S: Array
    F: Array
    Q: Array
    d: int
    k: int
    limit: float | None = None
    places: Array | None = None

    square: Array = field(init=False, repr=False)
    bound: float = field(init=False)
    dense: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        bound, dense = explained_bound(self.S, self.F, self.d)
        values = {"square": self.S @ self.S, "bound": bound, "dense": dense}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def is_uncorrelated(self) -> bool:
        """Whether a support always leaves room for scores without correlation."""
        sizes = np.ones(self.k, int)
        if self.places is not None:
            sizes = np.sort(np.sum(self.places < len(self.S), axis=1))[: self.k]
        return int(sizes.sum()) >= len(self.F) + self.d

    def excess(self, V: Array) -> float:
        """How far the whitened covariance gap lies above its limit."""
        return 0.0 if self.limit is None else max(whitened_gap(self.S, self.Q, V) - self.limit, 0.0)

    def value(self, V: Array) -> float:
        """Explained variance less what correlation and a broken limit cost."""
        # The correlation r of two scores costs the share r² of a component's worth. A gap above
        # its limit costs more than all that could be explained by breaking it.
        value = sum(explained_variances(self.S, V))
        if not self.is_uncorrelated:
            value -= self.bound / self.d * np.sum(np.triu(correlations(self.S, V), 1) ** 2)
        excess = self.excess(V)
        return float(value - 10.0 * self.bound * excess if excess > 0.0 else value)


class State(NamedTuple):
    """Components V (p, d) on supports, one row of places for each, and what they are worth."""

    value: float
    V: Array
    supports: Array


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
    count = min(d, int(kept.sum()))
    top, W = top_eigenpairs(symmetrize(inner - (inner @ N) @ N.T), count)
    return float(np.maximum(top, 0.0).sum()), root @ W


def independent_rows(rows: Array, floor: float) -> Array:
    """Orthonormal rows of the same span; smaller singular values than `floor` are rounding."""
    if not rows.size:
        return np.zeros((0, rows.shape[1]))
    _, sizes, right = np.linalg.svd(rows, full_matrices=False)
    return right[sizes > floor]


def explained_variances(S: Array, V: Array) -> list[float]:
    """Variance of all features that each score explains, given the scores before it."""
    # A triangular factor of VᵀSV makes each score uncorrelated with those before.
    SV = S @ V
    scale = np.sqrt(np.maximum(np.sum(V * SV, axis=0), np.finfo(float).tiny))
    M = (V.T @ SV) / np.outer(scale, scale)
    L = np.linalg.cholesky(M + 1e-13 * np.eye(len(M)))
    return [float(x) for x in np.sum(scipy.linalg.solve_triangular(L, (SV / scale).T, lower=True) ** 2, axis=1)]


def correlations(S: Array, V: Array) -> Array:
    """Correlation matrix of the scores."""
    C = V.T @ S @ V
    scale = np.sqrt(np.maximum(np.diag(C), np.finfo(float).tiny))
    return np.asarray(C / np.outer(scale, scale))


def whitened_gap(S: Array, Q: Array, V: Array) -> float:
    """Largest spectral norm of a covariance gap of the whitened scores."""
    scale = np.sqrt(np.maximum(np.sum(V * (S @ V), axis=0), np.finfo(float).tiny))
    L = np.linalg.cholesky(correlations(S, V) + 1e-13 * np.eye(V.shape[1]))
    G = scipy.linalg.solve_triangular(L, (V / scale).T, lower=True).T
    return float(spectral_norms(symmetrize(G.T @ Q @ G)).max(initial=0.0))


def solve_sparse(problem: SparseProblem, starts: Sequence[State] = ()) -> State | None:
    """Return the best components found, ordered by what they explain; None if there are none.

    `starts` are components with at most as many places, such as those of a smaller k.
    """
    with single_blas_thread():
        states = [*_beam(problem), *_rotated(problem)]
        states = [_better(problem, state) for state in states]
        states += [_widen(problem, state) for state in starts]
        if not states:
            return None
        best = _sweep(problem, max(states, key=lambda state: state.value))
    order = _explained_order(problem.S, best.V)
    V = fix_signs(best.V[:, order])
    return State(best.value, V, best.supports[order])


def _quotient(problem: SparseProblem, others: Array) -> Quotient:
    """What one more direction is worth beside others."""
    S, SV = problem.S, problem.S @ others
    if problem.is_uncorrelated:
        # Without correlation the others explain nothing of the score: the residual is S itself.
        A, M = problem.square, S
        C = np.concatenate([problem.F, (SV / np.linalg.norm(SV, axis=0)).T])
    else:
        M = S - SV @ np.linalg.solve(others.T @ SV, SV.T) if others.shape[1] else S
        A, C = M @ M, problem.F
        M = symmetrize((1.0 - _BLEND) * M + _BLEND * S)
    numerators = [A]
    if problem.limit is not None:
        # t(|vᵀQv| − limit·vᵀMv) ≤ 0 for a direction within the limit: any t ≥ 0 bounds its value.
        worth = problem.bound / problem.d
        for t in _PENALTIES:
            for sign in (1.0, -1.0):
                numerators += [A - t * worth * (sign * q - problem.limit * M) for q in problem.Q]
    return Quotient(symmetrize(np.array(numerators)), M, C, problem.places)


def _beam(problem: SparseProblem) -> list[State]:
    """Add one component after the other, and follow several supports at a time."""
    empty = State(0.0, np.zeros((len(problem.S), 0)), np.zeros((0, problem.k), int))
    states = [empty]
    for _ in range(problem.d):
        grown: dict[Any, State] = {}
        for state in states:
            quotient = _quotient(problem, state.V)
            supports, _ = search_supports(quotient, problem.k, _STARTS)
            for support in supports[:_BEAM]:
                for new in _with_direction(problem, quotient, state, support):
                    key = tuple(sorted(map(tuple, new.supports.tolist())))
                    if key not in grown or new.value > grown[key].value:
                        grown[key] = new
        states = sorted(grown.values(), key=lambda state: -state.value)[:_BEAM]
    return states


def _with_direction(
    problem: SparseProblem, quotient: Quotient, state: State, support: Array
) -> Iterator[State]:
    """Append the best direction on a support for the value of all components, if there is one."""
    V = [np.column_stack([state.V, v]) for v in best_directions(quotient, support).T]
    if V:
        supports = np.concatenate([state.supports, support[None]])
        yield max((State(problem.value(W), W, supports) for W in V), key=lambda new: new.value)


def _rotated(problem: SparseProblem) -> list[State]:
    """Supports of the largest loadings of the dense components, rotated and not."""
    scale = np.sqrt(np.diag(problem.S))[:, None]
    states = []
    if problem.dense.shape[1] < problem.d:
        return []
    for V in (problem.dense, problem.dense @ varimax(scale * problem.dense)):
        size = np.abs(scale * V)
        if problem.places is not None:
            size = np.pad(size, ((0, 1), (0, 0)))[problem.places].max(axis=1)
        supports = np.sort(np.argsort(-size, axis=0, kind="stable")[: problem.k], axis=0).T
        state = _refine(problem, State(-np.inf, V, supports))
        states += [] if state is None else [state]
    return states


def varimax(loadings: Array, max_iter: int = 500, tol: float = 1e-10) -> Array:
    """Rotation (d, d) after which each column has few large loadings and many small ones."""
    p, d = loadings.shape
    R, last = np.eye(d), 0.0
    for _ in range(max_iter if d > 1 else 0):
        L = loadings @ R
        left, sizes, right = np.linalg.svd(loadings.T @ (L**3 - L * np.mean(L**2, axis=0)))
        R = left @ right
        if sizes.sum() <= last * (1.0 + tol):
            break
        last = float(sizes.sum())
    return R


def _better(problem: SparseProblem, state: State) -> State:
    """Refine all components together, if that helps."""
    if problem.d == 1 and problem.limit is None:
        return state
    refined = _refine(problem, state)
    return state if refined is None or refined.value < state.value else refined


def _sweep(problem: SparseProblem, best: State) -> State:
    """Choose the support of one component after the other anew while the value rises."""
    for _ in range(_SWEEPS if problem.d > 1 or problem.limit is not None else 0):
        before = best.value
        for j in range(problem.d):
            others = State(0.0, np.delete(best.V, j, 1), np.delete(best.supports, j, 0))
            quotient = _quotient(problem, others.V)
            supports, _ = search_supports(quotient, problem.k, _STARTS, best.supports[j : j + 1])
            for support in supports[:_CANDIDATES]:
                for new in _with_direction(problem, quotient, others, support):
                    refined = _better(problem, new)
                    if refined.value > best.value + _IMPROVEMENT * abs(best.value):
                        best = refined
        if best.value <= before + 1e-5 * abs(before):
            break
    return best


def _widen(problem: SparseProblem, state: State) -> State:
    """Components of fewer places: the smallest of the other places are added to their supports."""
    n_places = len(problem.S) if problem.places is None else len(problem.places)
    supports = []
    for support in state.supports:
        rest = np.setdiff1d(np.arange(n_places), support)[: problem.k - len(support)]
        supports.append(np.sort(np.concatenate([support, rest])))
    widened = State(problem.value(state.V), state.V, np.array(supports))
    return _better(problem, widened)


def _explained_order(S: Array, V: Array) -> list[int]:
    """Order in which each next component explains most, given those before it."""
    order: list[int] = []
    while len(order) < V.shape[1]:
        rest = [j for j in range(V.shape[1]) if j not in order]
        order.append(max(rest, key=lambda j: explained_variances(S, V[:, [*order, j]])[-1]))
    return order


class _Blocks:
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
        Q = problem.Q[:, at[0], at[1]] if problem.limit is not None else np.zeros((0, *at[0].shape[:1], len(self.rows)))
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
        one, other = (U * w) @ U.transpose(0, 2, 1), (U * (w * values[:, None])) @ U.transpose(0, 2, 1)
        G = 2.0 * (np.einsum("cnd,cde->ne", QY, one) - self.M @ Y @ other.sum(axis=0))
        return float(softness * (top + np.log(total))), self.gather(G)


def _refine(problem: SparseProblem, state: State) -> State | None:
    """Improve all components on their supports together; None where that fails."""
    blocks = _Blocks(problem, state.supports)
    if len(np.unique(blocks.column)) < problem.d or len(blocks.column) < len(blocks.pairs[0]):
        return None
    constraints: list[dict[str, Any]] = [
        {"type": "eq", "fun": blocks.residual, "jac": blocks.jacobian}
    ]
    if problem.limit is not None:
        # The soft maximum is at most softness·log(2Cd) too large.
        softness = max(problem.limit, 1e-3) / (20.0 * np.log(2.0 * len(problem.Q) * problem.d + 1.0))
        constraints.append({
            "type": "ineq",
            "fun": lambda y: problem.limit - blocks.soft_gap(y, softness)[0],
            "jac": lambda y: -blocks.soft_gap(y, softness)[1],
        })
    y = blocks.unknowns(state.V)
    scale = 1.0 / max(problem.bound, np.finfo(float).tiny)
    try:
        y = minimize(
            lambda y: tuple(scale * part for part in blocks.loss(y)), y, jac=True, method="SLSQP",
            constraints=constraints, options={"maxiter": 100, "ftol": 1e-9},
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
