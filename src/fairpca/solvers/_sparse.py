"""Search for sparse components: supports grown one after the other, then single exchanges.

S: covariance (p, p), F: independent mean gaps (K, p), Q: covariance gaps (C, p, p), V: components
(p, d), k: places in each support. A direction v with few non-zero entries and Cv = 0 has the value
vᵀAv / vᵀMv. A: numerators (t, p, p), of which the smallest value counts; M: denominator (p, p);
C: constraints (r, p); T: supports (n, m), rows of features.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from math import comb
from typing import Any, NamedTuple

import numpy as np

from fairpca.linalg import Array, fix_signs, single_blas_thread, symmetrize, varimax
from fairpca.solvers._sparse_problem import (
    FEW_COMPONENTS,
    SparseProblem,
    State,
    explained_variances,
    solve_sets,
    whitening,
)

# Starts of each support that is grown.
_STARTS = 4
# Sets of supports that are solved at each exchange, with a limit of each component, and from how
# many they come.
_SHORTLIST, _LIMITED = 16, 4
_WIDTH, _NARROW = 3, 2
_MOST_SWAPS = 50
# Up to so many supports there are, all of them are tried, and so many of their pairs.
_FEW_SUPPORTS, _PAIRS = 250, 200
# Entries of their matrices, so that long supports do not take long.
_ENTRIES = 200_000
# Penalties on the covariance gap at which supports are scored, in units of a component's worth.
_PENALTIES = (0.5, 2.0)

# Relative to the largest variance: less is a direction in which nothing varies.
_FLAT = 1e-10
# Relative to unit rows: what is left of a constraint that the features of a support cannot meet.
_UNMET, _RANK = 1e-7, 1e-9
# Steps of Newton's method on the secular equation; it converges from below, quadratically.
_NEWTON_STEPS = 4
# Features that pairs start from.
_MOST_FIRST = 100
# Values that are computed at once, so that memory stays small.
_AT_ONCE = 2_000_000

_Known = dict[Any, State]


def solve_sparse(problem: SparseProblem, starts: Sequence[State] = ()) -> State | None:
    """Return the best components found, ordered by what they explain; None if there are none.

    `starts` are components with at most as many places, such as those of a smaller k.
    """
    with single_blas_thread():
        states = list(starts)
        # Apart from each other: good starts would crowd out what leads further.
        for sets in (
            [_grow(problem), *_rotated(problem), *_pairs(problem)],
            [_widen(problem, s) for s in starts],
        ):
            states += [_ascend(problem, sets)] if sets else []
    best = max(states, key=lambda state: state.value)
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


def _quotient(problem: SparseProblem, others: Array) -> Quotient:
    """Pose what one more direction is worth next to others."""
    # A correlation costs, in place of a ban: under a ban nothing can move where each support has
    # just enough features.
    S, worth = problem.S, problem.bound / problem.d
    SV = S @ others
    SV = SV / np.sqrt(np.maximum(np.sum(others * SV, axis=0), np.finfo(float).tiny))
    A = problem.square - worth * SV @ SV.T
    numerators = [A]
    if problem.limit is not None:
        # t(|vᵀQv| − limit·vᵀSv) ≤ 0 for a direction within the limit: any t ≥ 0 bounds its value.
        for t in _PENALTIES:
            for sign in (1.0, -1.0):
                numerators += [A - t * worth * (sign * q - problem.limit * S) for q in problem.Q]
    return Quotient(symmetrize(np.array(numerators)), S, problem.F, problem)


def _grow(problem: SparseProblem) -> State:
    """Add one component after the other to those before it."""
    best = State(0.0, np.zeros((len(problem.S), 0)), np.zeros((0, problem.k), int))
    for _ in range(problem.d):
        grown = grow_supports(_quotient(problem, best.V), problem.k, _STARTS)
        V = np.column_stack([best.V, np.zeros(len(problem.S))])
        known: _Known = {}
        _add(problem, known, [(np.vstack([best.supports, support]), V) for support in grown])
        best = _best(known)
    return best


def _pairs(problem: SparseProblem) -> list[State]:
    """Pairs of all supports whose own best directions explain most, correlation deducted."""
    if (
        problem.d != 2
        or problem.limit is not None
        or comb(problem.n_places, problem.k) > _FEW_SUPPORTS
    ):
        return []
    supports = np.array(list(combinations(range(problem.n_places), problem.k)))
    single = solve_sets(problem, supports[:, None], np.zeros((len(supports), len(problem.S), 1)))
    values, W = np.array([s.value for s in single]), np.hstack([s.V for s in single])
    shared = problem.bound / 2.0 * (W.T @ problem.S @ W) ** 2
    one, other = np.triu_indices(len(supports))
    order = np.argsort(shared[one, other] - values[one] - values[other], kind="stable")[:_PAIRS]
    return [
        State(-np.inf, W[:, [i, j]], supports[[i, j]])
        for i, j in zip(one[order], other[order], strict=True)
    ]


def _rotated(problem: SparseProblem) -> list[State]:
    """Supports of the largest loadings of the dense components, rotated and not."""
    scale = np.sqrt(np.diag(problem.S))[:, None]
    states = []
    for V in (problem.dense, problem.dense @ varimax(scale * problem.dense)):
        size = np.abs(scale * V)
        if problem.places is not None:
            size = np.array([size[place].max(axis=0) for place in problem.places])
        supports = np.sort(np.argsort(-size, axis=0, kind="stable")[: problem.k], axis=0).T
        states.append(State(-np.inf, V, supports))
    return states


def _ascend(problem: SparseProblem, states: Sequence[State]) -> State:
    """Exchange one feature of one component at a time, from the best few sets of supports."""
    known: _Known = {}
    _add(problem, known, [(state.supports, state.V) for state in states])
    expanded: set[Any] = set()
    shortlist = min(
        _SHORTLIST * (1 + problem.is_tight),
        max(2 * problem.d, _ENTRIES // (problem.d * problem.k) ** 2),
    )
    width = _WIDTH if problem.d <= FEW_COMPONENTS else _NARROW
    if problem.limit is not None:
        shortlist, width = _LIMITED * problem.d, 1
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
    starts = list(starts)
    if not starts:
        return
    supports, V = (np.array(some) for some in zip(*starts, strict=True))
    for state in solve_sets(problem, supports, V):
        key = _key(state.supports)
        if key not in known or state.value > known[key].value:
            known[key] = state


def _swapped(problem: SparseProblem, state: State, known: _Known, shortlist: int) -> list[Array]:
    """Promising sets of supports with one place of one component exchanged, (n, d, k)."""
    chosen = []
    for j in range(problem.d):
        quotient = _quotient(problem, np.delete(state.V, j, 1))
        values = swap_values(quotient, state.supports[j : j + 1])[0]
        count = min(shortlist // problem.d, np.count_nonzero(np.isfinite(values)))
        for flat in np.argsort(-values, axis=None, kind="stable")[:count]:
            supports = state.supports.copy()
            supports[j, flat // values.shape[1]] = flat % values.shape[1]
            supports = np.sort(supports, axis=1)
            if _key(supports) not in known:
                chosen.append(supports)
    return chosen


def _widen(problem: SparseProblem, state: State) -> State:
    """Components of fewer places: the smallest of the other places are added to their supports."""
    supports = []
    for support in state.supports:
        rest = np.setdiff1d(np.arange(problem.n_places), support)[: problem.k - len(support)]
        supports.append(np.sort(np.concatenate([support, rest])))
    return State(state.value, state.V, np.array(supports))


def _explained_order(S: Array, V: Array) -> list[int]:
    """Order in which each next component explains most, given those before it."""
    order: list[int] = []
    while len(order) < V.shape[1]:
        rest = [j for j in range(V.shape[1]) if j not in order]
        order.append(max(rest, key=lambda j: explained_variances(S, V[:, [*order, j]])[-1]))
    return order


class Quotient(NamedTuple):
    """vᵀA_tv / vᵀMv under Cv = 0 on the places of a problem."""

    A: Array
    M: Array
    C: Array
    problem: SparseProblem

    @property
    def scale(self) -> float:
        """Largest variance."""
        return float(np.diag(self.M).max(initial=0.0)) or 1.0


def grow_supports(quotient: Quotient, size: int, n_starts: int) -> Any:
    """Add the best place again and again, from pairs that share few places."""
    # A support of m places meets m − 1 constraints at most, so that those come in one by one.
    U, r = quotient.problem.n_places, len(quotient.C)
    single = addition_values(quotient._replace(C=quotient.C[:0]), np.zeros((1, 0), int))[0]
    first = np.argsort(-single, kind="stable")[:_MOST_FIRST, None]
    if size == 1 or U == 1:
        return first[:n_starts]
    values = addition_values(quotient._replace(C=quotient.C[: min(r, 1)]), first)
    pairs, used = [], np.zeros(U, int)
    for flat in np.argsort(-values, axis=None, kind="stable"):
        one, other = int(first[flat // U, 0]), int(flat % U)
        if max(used[one], used[other]) < 2 and {one, other} not in pairs and one != other:
            pairs.append({one, other})
            used[[one, other]] += 1
        if len(pairs) == n_starts:
            break
    supports = np.array([sorted(pair) for pair in pairs])
    while supports.shape[1] < size:
        few = quotient._replace(C=quotient.C[: min(r, supports.shape[1])])
        supports = np.column_stack([supports, np.argmax(addition_values(few, supports), axis=1)])
    return np.sort(supports, axis=1)


def swap_values(quotient: Quotient, supports: Any) -> Array:
    """Value of each support (n, k) with one place exchanged for another, (n, k, U)."""
    n, k = supports.shape
    kept = np.array([np.delete(np.arange(k), i) for i in range(k)], dtype=int).reshape(k, k - 1)
    smaller = supports[:, kept].reshape(n * k, k - 1)
    return addition_values(quotient, smaller).reshape(n, k, -1)


def addition_values(quotient: Quotient, supports: Any) -> Array:
    """Value of the best direction on each support with one more place, (n, U); −inf inside it."""
    places = quotient.problem.places
    step = max(1, _AT_ONCE // (max(supports.shape[1], 1) * len(quotient.M)))
    parts = []
    for start in range(0, len(supports), step):
        some = supports[start : start + step]
        T = quotient.problem.features(some) if some.shape[1] else some
        values = np.min([_add_feature(quotient, A, T) for A in quotient.A], axis=0)
        if places is not None:  # a place is worth its best feature at least
            starts = np.cumsum([0, *map(len, places)])[:-1]
            values = np.maximum.reduceat(values[:, np.concatenate(places)], starts, axis=1)
        np.put_along_axis(values, some, -np.inf, axis=1)
        parts.append(values)
    return np.concatenate(parts)


def _add_feature(quotient: Quotient, A: Array, T: Any) -> Array:
    """Rayleigh-Ritz on each support and one more feature, for all features at once."""
    # W: M-orthonormal eigenvectors on the support, eigenvalues λ. Feature j brings one direction
    # n_j = e_j + x_j that meets the constraints, x_j on the support. In the basis of W and of
    # n_j made M-orthogonal to it A is an arrow: diag(λ), border b, corner c.
    M, C, scale = quotient.M, quotient.C, quotient.scale
    if not T.shape[1]:
        return np.tile(np.diag(A) / np.maximum(np.diag(M), scale * _FLAT), (len(T), 1))
    at = T[:, :, None], T[:, None, :]
    C_T = C[:, T].transpose(1, 0, 2)
    inverse = np.linalg.pinv(C_T, rcond=_RANK) if len(C) else np.zeros((*T.shape, 0))
    X = -inverse @ C
    met = np.abs(C + C_T @ X).max(axis=1, initial=0.0) < _UNMET
    P = np.eye(T.shape[1]) - inverse @ C_T
    W, values = _eigenvectors(P, A[at], M[at], scale)
    MX, AX = M[at] @ X, A[at] @ X
    WP = W.transpose(0, 2, 1) @ P
    g, h = WP @ (M[T] + MX), WP @ (A[T] + AX)
    size = np.diag(M) + np.sum(X * (2.0 * M[T] + MX) - g * g, axis=1)
    corner = np.diag(A) + np.sum(
        X * (2.0 * A[T] + AX) - g * (2.0 * h - values[..., None] * g), axis=1
    )
    moves = met & (size > _FLAT * scale)
    size = np.where(moves, size, 1.0)
    border = (h - values[..., None] * g) / np.sqrt(size)[:, None]
    return np.where(moves, _largest_root(values, border, corner / size), values[:, -1:])


def _eigenvectors(P: Array, A: Array, M: Array, scale: float) -> tuple[Array, Array]:
    """M-orthonormal eigenvectors and eigenvalues of A in the range of P, (n, m, m) and (n, m)."""
    # Directions outside the range get an eigenvalue below all others, so that all shapes agree.
    outside = np.eye(P.shape[-1]) - P
    lowest = 10.0 * (np.abs(A).max(initial=0.0) / scale + scale)
    inverse = whitening(P @ M @ P + scale * outside, scale)
    back = inverse.transpose(0, 2, 1)
    values, vectors = np.linalg.eigh(
        symmetrize(inverse @ (P @ A @ P - lowest * scale * outside) @ back)
    )
    return back @ vectors, values


def _largest_root(values: Array, border: Array, corner: Array) -> Array:
    """Largest eigenvalue of arrow matrices: diagonal (n, m), border (n, m, p), corner (n, p)."""
    # Above the poles μ − c − Σb²/(μ − λ) is concave and rises, and the first value, of the
    # last pole alone, is below the root: so is every step of Newton's method.
    top, square = values[:, -1:], border**2
    half = (top - corner) / 2.0
    root = (top + corner) / 2.0 + np.sqrt(half**2 + square[:, -1])
    tiny = 1e-14 * (np.abs(values).max() + np.abs(corner).max())
    for _ in range(_NEWTON_STEPS if values.shape[1] > 1 else 0):
        distance = np.maximum(root[:, None] - values[..., None], tiny)
        share = square / distance
        slope = 1.0 + np.sum(share / distance, axis=1)
        root = root - (root - corner - np.sum(share, axis=1)) / slope
    return root
