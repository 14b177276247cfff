"""Search for sparse components: exchanges of single features, from the largest dense loadings.

S: covariance (p, p), F: independent mean gaps (K, p), V: components (p, d), k: places in each
support, T: features (n, m) of supports. Exchanges are chosen by what one direction v adds to the
others, vᵀAv / vᵀSv, where A charges for mean gaps and correlations. Sets of supports are then
solved together, with exact constraints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairpca.linalg import Array, fix_signs, single_blas_thread, symmetrize, varimax
from fairpca.solvers._sparse_problem import SparseProblem, State, independent_rows, solve_sets

# Entries of matrices that are solved at each exchange, from the best sets of supports: many small
# ones, which have more local optima, or few long ones. The least number of sets without and with a
# limit, which is often met by few of them.
_SHORTLIST, _WIDTH, _LEAST = 2500, 360, (1, 12)
_MOST_SWAPS = 50
# Cost of a squared mean gap, in units of what a component explains.
_MEANS = 30.0
_SECULAR_STEPS = 4
# Relative to the largest variance: less is a direction in which nothing varies.
_FLAT = 1e-10

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
        best = max([*starts, _exchange(problem, starts)], key=lambda state: state.value)
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
        if state is None:
            continue
        states[size] = state
        if state.value >= enough * problem.bound:
            break
    return states


def _largest_loadings(problem: SparseProblem) -> list[tuple[Any, Array]]:
    """Supports of the largest loadings of the dense components, rotated and not."""
    scale, starts = np.sqrt(np.diag(problem.S))[:, None], []
    for V in (problem.dense, problem.dense @ varimax(scale * problem.dense)):
        size = np.array([np.abs(scale * V)[place].max(axis=0) for place in problem.places])
        starts.append((np.argsort(-size, axis=0, kind="stable")[: problem.k].T, V))
    return starts


def _exchange(problem: SparseProblem, before: Sequence[State]) -> State:
    """Exchange one feature of one component at a time, from the best few sets of supports."""
    known: _Known = {}
    expanded: set[Any] = set()
    size = (problem.d * problem.k) ** 2
    least = _LEAST[problem.limit is not None]
    shortlist, width = max(2, _SHORTLIST // size // problem.d), max(least, _WIDTH // size)
    starts = _largest_loadings(problem)
    for _, V, supports in before:
        # A place of fewer that repeats adds nothing until it is exchanged.
        more = ((0, 0), (0, problem.k - supports.shape[1]))
        starts.append((np.pad(supports, more, mode="edge"), V))
    for _ in range(_MOST_SWAPS):
        if starts:
            _solve_all(problem, known, starts)
        best = sorted(known, key=lambda key: -known[key].value)[:width]
        fresh = [key for key in best if key not in expanded]
        if not fresh:
            break
        expanded.update(fresh)
        starts = [
            (supports, known[key].V)
            for key in fresh
            for supports in _swapped(problem, known[key], shortlist)
            if _key(supports) not in known
        ]
    return max(known.values(), key=lambda state: state.value)


def _key(supports: Any) -> Any:
    return tuple(sorted(map(tuple, np.sort(supports, axis=1).tolist())))


def _solve_all(problem: SparseProblem, known: _Known, starts: list[tuple[Any, Array]]) -> None:
    """Solve sets of supports from components near their own, and keep what is better than known."""
    supports, V = (np.array(some) for some in zip(*starts, strict=True))
    for state in solve_sets(problem, supports, V):
        key = _key(state.supports)
        if key not in known or state.value > known[key].value:
            known[key] = state


def _swapped(problem: SparseProblem, state: State, shortlist: int) -> list[Any]:
    """Promising sets of supports (d, k) with one place of one component exchanged."""
    chosen = []
    for j, support in enumerate(state.supports):
        smaller = np.array([np.delete(support, i) for i in range(problem.k)])
        values = addition_values(problem, np.delete(state.V, j, 1), smaller)
        count = min(shortlist, np.count_nonzero(np.isfinite(values)))
        for flat in np.argsort(-values, axis=None, kind="stable")[:count]:
            supports = state.supports.copy()
            supports[j, flat // values.shape[1]] = flat % values.shape[1]
            chosen.append(supports)
    return chosen


def addition_values(problem: SparseProblem, others: Array, supports: Any) -> Array:
    """Value of the best direction on each support with one more place, (n, U); −inf inside it."""
    # A correlation costs, in place of a ban: under a ban nothing can move where each support has
    # just enough features. So does a mean gap, which then needs no basis for each new feature.
    S, worth = problem.S, problem.bound / problem.d
    SV = S @ others
    SV = SV / np.sqrt(np.maximum(np.sum(others * SV, axis=0), np.finfo(float).tiny))
    means = _MEANS * float(np.diag(S).mean()) * problem.F.T @ problem.F
    A = symmetrize(problem.square - worth * (SV @ SV.T + means))
    values = _add_feature(A, S, problem.features(supports), problem)
    # A place is worth its best feature at least.
    starts = np.cumsum([0, *map(len, problem.places)])[:-1]
    values = np.maximum.reduceat(values[:, np.concatenate(problem.places)], starts, axis=1)
    np.put_along_axis(values, supports, -np.inf, axis=1)
    return np.asarray(values)


def _add_feature(A: Array, S: Array, T: Any, problem: SparseProblem) -> Array:
    """Largest eigenvalue of (A, S) on each support and one more feature, for all features."""
    # In the eigenvectors W on the support, WᵀSW = I, and the new feature made uncorrelated with
    # them, A is an arrow: diag(λ), squared border b, corner c. Its eigenvalues are the roots of
    # x = c + Σ b/(x − λ).
    N, at = problem.bases(T, problem.F[:0]), (T[:, :, None], T[:, None, :])
    poles, vectors = np.linalg.eigh(symmetrize(np.swapaxes(N, -1, -2) @ A[at] @ N))
    W, poles = np.swapaxes(N @ vectors, -1, -2), poles[..., None]
    g, h = W @ S[T], W @ A[T]
    size = np.diag(S) - np.sum(g * g, axis=1)
    varies = size > _FLAT * float(np.diag(S).max())
    size = np.where(varies, size, 1.0)
    corner = (np.diag(A) - np.sum(g * (2.0 * h - poles * g), axis=1)) / size
    if not T.shape[1]:
        return np.asarray(corner)
    border, top = (h - poles * g) ** 2 / size[:, None], poles[:, -1]
    # The last pole and the corner alone are below the root, and Newton's method never passes it.
    root = (top + corner) / 2.0 + np.sqrt((top - corner) ** 2 / 4.0 + border[:, -1])
    for _ in range(_SECULAR_STEPS):
        away = np.maximum(root[:, None] - poles, 1e-12 * (problem.bound or 1.0))
        lacking = corner + np.sum(border / away, axis=1) - root
        root = root + lacking / (1.0 + np.sum(border / away**2, axis=1))
    return np.where(varies, root, top)
