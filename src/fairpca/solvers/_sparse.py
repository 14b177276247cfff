"""Search for sparse components: several supports at a time, then exchanges of single features.

S: covariance (p, p), F: independent mean gaps (K, p), Q: covariance gaps (C, p, p), V: components
(p, d), k: places in each support.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from fairpca.linalg import Array, fix_signs, single_blas_thread, symmetrize, varimax
from fairpca.solvers._joint import SupportSets, refine
from fairpca.solvers._sparse_problem import SparseProblem, State, explained_variances
from fairpca.solvers._supports import Quotient, best_directions, search_supports, swap_values

# Supports that are followed from one component to the next, and starts of each search.
_BEAM, _WIDE_BEAM = 2, 4
_STARTS, _WIDE_STARTS = 4, 8
_SWEEPS = 3
# Supports of one component that are refined together with the others in a sweep.
_CANDIDATES = 3
# Share of the bound that refinement is not expected to add.
_HOPELESS = 0.05
# Share of S in the denominator where scores cannot be uncorrelated: a direction that the others
# explain nearly has little variance of its own, and would be worth much without it.
_BLEND = 0.1
# Penalties on the covariance gap at which supports are scored, in units of a component's worth.
_PENALTIES = (0.5, 2.0)
_IMPROVEMENT = 1e-7
# Sets of supports that are solved together at each exchange of a feature, and where it starts.
_SHORTLIST = 32
_BEAM_SWAPS = 4
_MOST_SWAPS = 50
# Entries of their matrices, so that long supports do not take long.
_ENTRIES = 200_000
# Up to so many supports there are, all of them are tried.
_FEW_SUPPORTS = 250
_PAIRS = 200
# Up to so many components local optima are worth several starts: more have better ones near them.
_FEW_COMPONENTS = 3
_NARROW = 2


def solve_sparse(problem: SparseProblem, starts: Sequence[State] = ()) -> State | None:
    """Return the best components found, ordered by what they explain; None if there are none.

    `starts` are components with at most as many places, such as those of a smaller k.
    """
    with single_blas_thread():
        climb = _ascend if problem.is_plain else _sweep
        # Apart from each other: good starts would crowd out what leads further.
        sets = [[*_beam(problem), *_rotated(problem)], [_widen(problem, one) for one in starts]]
        states = [*starts, *(climb(problem, some) for some in sets if some)]
        best = max(states, key=lambda state: state.value, default=None)
    if best is None or best.value == -np.inf:
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
    """Pose what one more direction is worth beside others."""
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
    # Exchanges follow where only means count, unless there is a single component.
    is_wide = problem.d == 1 or (problem.limit is not None and problem.d <= _FEW_COMPONENTS)
    width, n_starts = (_WIDE_BEAM, _WIDE_STARTS) if is_wide else (_BEAM, _STARTS)
    for _ in range(problem.d):
        grown: dict[Any, State] = {}
        for state in states:
            quotient = _quotient(problem, state.V)
            supports, _ = search_supports(quotient, problem.k, n_starts)
            for support in supports[:width]:
                for new in _with_direction(problem, quotient, state, support):
                    key = _key(new.supports)
                    if key not in grown or new.value > grown[key].value:
                        grown[key] = new
        states = sorted(grown.values(), key=lambda state: -state.value)[:width]
    return states


def _with_direction(
    problem: SparseProblem, quotient: Quotient, state: State, support: Any
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
        states.append(State(-np.inf, V, supports))
    return states


def _ascend(problem: SparseProblem, states: Sequence[State]) -> State:
    """Exchange one feature of one component at a time, from the best few sets of supports."""
    if problem.d == 1:
        return max(states, key=lambda state: state.value)
    known = {_key(state.supports): state for state in states if state.value > -np.inf}
    starts = np.array([state.V for state in states])
    _solve_many(problem, known, np.array([state.supports for state in states]), starts)
    if problem.d == 2 and comb(len(problem.S), problem.k) <= _FEW_SUPPORTS:
        supports = _promising_pairs(problem)
        dense = np.broadcast_to(problem.dense, (len(supports), *problem.dense.shape))
        _solve_many(problem, known, supports, dense)
    expanded: set[Any] = set()
    shortlist = min(_SHORTLIST, max(2 * problem.d, _ENTRIES // (problem.d * problem.k) ** 2))
    width = _BEAM_SWAPS if problem.d <= _FEW_COMPONENTS else _NARROW
    for _ in range(_MOST_SWAPS):
        best = sorted(known, key=lambda key: -known[key].value)[:width]
        fresh = [key for key in best if key not in expanded]
        if not fresh:
            break
        expanded.update(fresh)
        swapped = [_swapped(problem, known[key], known, shortlist) for key in fresh]
        starts = np.repeat([known[key].V for key in fresh], [len(some) for some in swapped], axis=0)
        if len(starts):
            _solve_many(problem, known, np.concatenate([some for some in swapped if some]), starts)
    return max(known.values(), key=lambda state: state.value)


def _promising_pairs(problem: SparseProblem) -> Array:
    """Pairs of all supports whose own best directions explain most, correlation deducted."""
    supports = np.array(list(combinations(range(len(problem.S)), problem.k)))
    sets = SupportSets(problem, supports[:, None])
    y = sets.deflated([0])
    values, W = sets.explained(y), sets.lift(y)[:, :, 0]
    shared = problem.bound / 2.0 * (W @ problem.S @ W.T) ** 2
    one, other = np.triu_indices(len(supports))
    order = np.argsort(shared[one, other] - values[one] - values[other], kind="stable")[:_PAIRS]
    return np.stack([supports[one[order]], supports[other[order]]], axis=1)


def _key(supports: Any) -> Any:
    return tuple(sorted(map(tuple, supports.tolist())))


def _solve_many(problem: SparseProblem, known: dict[Any, State], supports: Any, V: Array) -> None:
    """Solve sets of supports (n, d, k), and keep what is better than is known of them."""
    sets, order = SupportSets(problem, supports), list(range(problem.d))
    starts = [sets.near(V)]
    if problem.d <= _FEW_COMPONENTS:
        starts += [sets.deflated(order), sets.deflated(order[::-1])]
    y, values = sets.solve(np.stack(starts))
    best = np.argmax(values, axis=0)
    chosen = best, np.arange(len(supports))
    for some, W, value in zip(supports, sets.lift(y[chosen]), values[chosen], strict=True):
        key = _key(some)
        if key not in known or value > known[key].value:
            known[key] = State(float(value), W, some)


def _swapped(
    problem: SparseProblem, state: State, known: dict[Any, State], shortlist: int
) -> list[Array]:
    """Promising sets of supports with one feature of one component exchanged, (n, d, k)."""
    # Scored one by one with the others fixed, at a penalty on correlation in place of a ban:
    # under a ban nothing can move where each support has just enough features.
    SV = problem.S @ state.V
    SV = SV / np.sqrt(np.sum(state.V * SV, axis=0))
    worth = problem.bound / problem.d
    chosen = []
    for j in range(problem.d):
        others = np.delete(SV, j, 1)
        A = problem.square - worth * others @ others.T
        quotient = Quotient(A[None], problem.S, problem.F)
        values = swap_values(quotient, state.supports[j : j + 1])[0]
        count = min(shortlist // problem.d, np.count_nonzero(np.isfinite(values)))
        for flat in np.argsort(-values, axis=None, kind="stable")[:count]:
            supports = state.supports.copy()
            supports[j, flat // len(SV)] = flat % len(SV)
            supports = np.sort(supports, axis=1)
            if _key(supports) not in known:
                chosen.append(supports)
    return chosen


def _better(problem: SparseProblem, state: State) -> State:
    """Refine all components together, if that helps."""
    if problem.d == 1 and problem.limit is None:
        return state
    V = refine(problem, state.supports, state.V)
    value = -np.inf if V is None else problem.value(V)
    return state if V is None or value < state.value else State(value, V, state.supports)


def _sweep(problem: SparseProblem, states: Sequence[State]) -> State:
    """Choose the support of one component after the other anew while the value rises."""
    best = max((_better(problem, state) for state in states), key=lambda state: state.value)
    for _ in range(_SWEEPS if problem.d > 1 or problem.limit is not None else 0):
        before = best.value
        for j in range(problem.d):
            others = State(0.0, np.delete(best.V, j, 1), np.delete(best.supports, j, 0))
            quotient = _quotient(problem, others.V)
            supports, _ = search_supports(
                quotient, problem.k, _WIDE_STARTS, best.supports[j : j + 1]
            )
            for support in supports[:_CANDIDATES]:
                for new in _with_direction(problem, quotient, others, support):
                    if problem.limit is None and new.value < best.value - _HOPELESS * problem.bound:
                        continue
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
    return State(problem.value(state.V), state.V, np.array(supports))


def _explained_order(S: Array, V: Array) -> list[int]:
    """Order in which each next component explains most, given those before it."""
    order: list[int] = []
    while len(order) < V.shape[1]:
        rest = [j for j in range(V.shape[1]) if j not in order]
        order.append(max(rest, key=lambda j: explained_variances(S, V[:, [*order, j]])[-1]))
    return order
