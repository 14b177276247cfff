"""Search for sparse components: supports grown one after the other, then single exchanges.

S: covariance (p, p), F: independent mean gaps (K, p), Q: covariance gaps (C, p, p), V: components
(p, d), k: places in each support. A direction v with few non-zero entries and Fv = 0 has the value
vᵀAv / vᵀSv. A: numerators (t, p, p), of which the smallest value counts; T: features (n, m) of
supports.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairpca.linalg import Array, fix_signs, single_blas_thread, symmetrize, varimax
from fairpca.solvers._sparse_problem import (
    SparseProblem,
    State,
    explained_variances,
    independent_rows,
    solve_sets,
)

# Starts of each support that is grown.
_STARTS = 4
# Entries of matrices that are solved at each exchange, from the best sets of supports: many small
# ones, which have more local optima, or few long ones; and the least number of sets.
_SHORTLIST, _WIDTH, _LEAST = 2500, 360, 3
_MOST_SWAPS = 50
# Penalties on gaps at which supports are scored, in units of a component's worth.
_PENALTIES = (0.5, 2.0)
# Relative to the largest variance: less is a direction in which nothing varies.
_FLAT = 1e-10
# Relative to unit rows: what is left of a constraint that the features of a support cannot meet.
_UNMET, _RANK = 1e-7, 1e-9

_Known = dict[Any, State]


def solve_sparse(problem: SparseProblem, starts: Sequence[State] = ()) -> State | None:
    """Return the best components found, ordered by what they explain; None if there are none.

    `starts` are components with at most as many places, such as those of a smaller k.
    """
    if problem.means is not None:  # equal means are within every bound, and found more surely
        F = independent_rows(problem.means, 1e-11 * float(np.linalg.norm(problem.means)))
        equal = solve_sparse(replace(problem, F=F, means=None))
        starts = [*starts, *([] if equal is None else [equal])]
    with single_blas_thread():
        known = _grow(problem)
        _add(problem, known, [*_rotated(problem), *(_widen(problem, state) for state in starts)])
        best = max([*starts, _ascend(problem, known)], key=lambda state: state.value)
    if best.value == -np.inf:
        return None
    order = _explained_order(problem.S, best.V)
    # Adding zero turns −0 into 0.
    V = fix_signs(best.V[:, order] / np.linalg.norm(best.V[:, order], axis=0)) + 0.0
    return State(best.value, V, best.supports[order])


def solve_path(
    problem: SparseProblem, sizes: Sequence[int], enough: float = 1.0
) -> dict[int, State]:
    """Solve for rising numbers of places, each from the last, which is kept where it is better.

    The path ends where that share of the bound is explained.
    """
    states: dict[int, State] = {}
    for size in sizes:
        state = solve_sparse(replace(problem, k=size), list(states.values())[-1:])
        if state is None:
            continue
        states[size] = state
        if state.value >= enough * problem.bound:
            break
    return states


def _numerators(problem: SparseProblem, others: Array) -> Array:
    """Matrices of what one more direction is worth next to others."""
    # A correlation costs, in place of a ban: under a ban nothing can move where each support has
    # just enough features.
    S, worth = problem.S, problem.bound / problem.d
    SV = S @ others
    SV = SV / np.sqrt(np.maximum(np.sum(others * SV, axis=0), np.finfo(float).tiny))
    A = problem.square - worth * SV @ SV.T
    numerators = [A]
    # t(vᵀGv − most·vᵀSv) ≤ 0 for a direction within a limit: any t ≥ 0 bounds its value.
    for G, least, most in zip(*problem.bounded(), strict=True):
        for t in _PENALTIES:
            numerators.append(A - t * worth * (G - most * S))
            if np.isfinite(least):
                numerators.append(A - t * worth * (least * S - G))
    return symmetrize(np.array(numerators))


def _grow(problem: SparseProblem) -> _Known:
    """Add one component after the other to those before it, from several places each."""
    best = State(0.0, np.zeros((len(problem.S), 0)), np.zeros((0, problem.k), int))
    known: _Known = {}
    for _ in range(problem.d):
        A, supports = _numerators(problem, best.V), np.zeros((1, 0), int)
        for size in range(problem.k):
            # A support of m places meets m − 1 constraints at most: those come in one by one.
            values = addition_values(problem, A, supports, problem.F[:size])
            if size:
                supports = np.column_stack([supports, np.argmax(values, axis=1)])
            else:
                supports = np.argsort(-values[0], kind="stable")[:_STARTS, None]
        V, known = np.column_stack([best.V, np.zeros(len(problem.S))]), {}
        grown = np.sort(supports, axis=1)
        _add(problem, known, [(np.vstack([best.supports, support]), V) for support in grown])
        best = _best(known)
    return known


def _rotated(problem: SparseProblem) -> Iterator[tuple[Any, Array]]:
    """Supports of the largest loadings of the dense components, rotated and not."""
    scale = np.sqrt(np.diag(problem.S))[:, None]
    for V in (problem.dense, problem.dense @ varimax(scale * problem.dense)):
        size = np.abs(scale * V)
        if problem.places is not None:
            size = np.array([size[place].max(axis=0) for place in problem.places])
        yield np.sort(np.argsort(-size, axis=0, kind="stable")[: problem.k], axis=0).T, V


def _widen(problem: SparseProblem, state: State) -> tuple[Any, Array]:
    """Components of fewer places: the first of the other places are added to their supports."""
    supports = []
    for support in state.supports:
        rest = np.setdiff1d(np.arange(problem.n_places), support)[: problem.k - len(support)]
        supports.append(np.sort(np.concatenate([support, rest])))
    return np.array(supports), state.V


def _ascend(problem: SparseProblem, known: _Known) -> State:
    """Exchange one feature of one component at a time, from the best few sets of supports."""
    expanded: set[Any] = set()
    size = (problem.d * problem.k) ** 2
    least = _LEAST * (1 + (problem.limit is not None))  # a limit is often met by few of them
    shortlist, width = max(2 * problem.d, _SHORTLIST // size), max(least, _WIDTH // size)
    for _ in range(_MOST_SWAPS):
        best = sorted(known, key=lambda key: -known[key].value)[:width]
        fresh = [key for key in best if key not in expanded]
        if not fresh:
            break
        expanded.update(fresh)
        _add(problem, known, [
            (supports, known[key].V)
            for key in fresh for supports in _swapped(problem, known[key], known, shortlist)
        ])  # fmt: skip
    return _best(known)


def _best(known: _Known) -> State:
    return max(known.values(), key=lambda state: state.value)


def _key(supports: Any) -> Any:
    return tuple(sorted(map(tuple, supports.tolist())))


def _add(problem: SparseProblem, known: _Known, starts: Iterable[tuple[Any, Array]]) -> None:
    """Solve sets of supports from components near their own, and keep what is better than known."""
    if not (starts := list(starts)):
        return
    supports, V = (np.array(some) for some in zip(*starts, strict=True))
    for state in solve_sets(problem, supports, V):
        key = _key(state.supports)
        if key not in known or state.value > known[key].value:
            known[key] = state


def _swapped(problem: SparseProblem, state: State, known: _Known, shortlist: int) -> list[Array]:
    """Promising sets of supports with one place of one component exchanged, (n, d, k)."""
    chosen = []
    for j, support in enumerate(state.supports):
        A = _numerators(problem, np.delete(state.V, j, 1))
        smaller = np.array([np.delete(support, i) for i in range(problem.k)])
        values = addition_values(problem, A, smaller, problem.F)
        count = min(shortlist // problem.d, np.count_nonzero(np.isfinite(values)))
        for flat in np.argsort(-values, axis=None, kind="stable")[:count]:
            supports = state.supports.copy()
            supports[j, flat // values.shape[1]] = flat % values.shape[1]
            supports = np.sort(supports, axis=1)
            if _key(supports) not in known:
                chosen.append(supports)
    return chosen


def _explained_order(S: Array, V: Array) -> list[int]:
    """Order in which each next component explains most, given those before it."""
    order: list[int] = []
    while len(order) < V.shape[1]:
        rest = [j for j in range(V.shape[1]) if j not in order]
        order.append(max(rest, key=lambda j: explained_variances(S, V[:, [*order, j]])[-1]))
    return order


def addition_values(problem: SparseProblem, A: Array, supports: Any, F: Array) -> Array:
    """Value of the best direction on each support with one more place, (n, U); −inf inside it."""
    T = problem.features(supports) if supports.shape[1] else supports
    values = np.min([_add_feature(problem, C, T, F) for C in A], axis=0)
    if problem.places is not None:  # a place is worth its best feature at least
        starts = np.cumsum([0, *map(len, problem.places)])[:-1]
        values = np.maximum.reduceat(values[:, np.concatenate(problem.places)], starts, axis=1)
    np.put_along_axis(values, supports, -np.inf, axis=1)
    return np.asarray(values)


def _add_feature(problem: SparseProblem, A: Array, T: Any, F: Array) -> Array:
    """Rayleigh-Ritz on each support and one more feature, for all features at once."""
    # W: eigenvectors on the support, WᵀSW = I, eigenvalues λ. Feature j brings one direction
    # n_j = e_j + x_j that meets the constraints, x_j on the support. In the basis of W and of
    # n_j made uncorrelated with it A is an arrow: diag(λ), border b, corner c.
    S = problem.S
    least = _FLAT * (float(np.diag(S).max(initial=0.0)) or 1.0)
    if not T.shape[1]:
        return np.tile(np.diag(A) / np.maximum(np.diag(S), least), (len(T), 1))
    at = T[:, :, None], T[:, None, :]
    F_T = F[:, T].transpose(1, 0, 2)
    X = -np.linalg.pinv(F_T, rcond=_RANK) @ F if len(F) else np.zeros((*T.shape, len(S)))
    met = np.abs(F + F_T @ X).max(axis=1, initial=0.0) < _UNMET
    N = problem.bases(T, F)
    flat = np.where(np.any(N, axis=1, keepdims=True), 0.0, np.eye(N.shape[2]))
    values, vectors = np.linalg.eigh(
        symmetrize(N.transpose(0, 2, 1) @ A[at] @ N) - 10.0 * problem.bound * flat
    )
    W = (N @ vectors).transpose(0, 2, 1)
    SX, AX = S[at] @ X, A[at] @ X
    g, h = W @ (S[T] + SX), W @ (A[T] + AX)
    size = np.diag(S) + np.sum(X * (2.0 * S[T] + SX), axis=1) - np.sum(g * g, axis=1)
    corner = np.diag(A) + np.sum(X * (2.0 * A[T] + AX), axis=1)
    corner = corner - np.sum(g * (2.0 * h - values[..., None] * g), axis=1)
    moves = met & (size > least)
    size = np.where(moves, size, 1.0)
    border = (h - values[..., None] * g)[:, -1] / np.sqrt(size)
    # The largest eigenvalue of the last pole and the corner alone.
    top, corner = values[:, -1:], corner / size
    root = (top + corner) / 2.0 + np.hypot((top - corner) / 2.0, border)
    return np.where(moves, root, top)
