"""Problems with one multiplier: eigenvectors and a search along a line, without a duality gap.

These are a single bounded mean, the weight between two groups, and each component of a deflation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.optimize

from fairpca.linalg import Array, complement_basis, symmetrize, top_eigenpairs
from fairpca.solvers._problem import GroupObjectives, ReducedProblem
from fairpca.solvers._refinement import MOST_EVALUATIONS, refine
from fairpca.solvers._solution import Bound

_MAX_DOUBLINGS = 60
_MAX_STEPS = 60
_PRECISION = 1e-13
# Principal angles with smaller sines separate nothing.
_SAME_DIRECTION = 1e-14
# Two groups are balanced to this share of the mean variance.
_BALANCED = 1e-12
# Directions closer to dependent than this, relative to the largest, cost no dimension.
_RANK_FLOOR = 1e-10
# Multiples of the covariance that cost `eigh` digits which a certificate needs.
_LARGE_MULTIPLIER = 1e3


class _DualValue(NamedTuple):
    """The dual function at one multiplier: value, slope and the eigenvectors behind it."""

    weight: float
    value: float
    slope: float
    vectors: Array


def solve_dual(
    eigenpairs: Callable[[float], tuple[Array, Array]],
    excess: Callable[[Array], float],
    *,
    target: float,
    offset: float = 0.0,
    first_step: float,
    largest: float = np.inf,
    slope_tol: float = 0.0,
) -> tuple[Array, float, float]:
    """Maximise ⟨S, P⟩ − offset over projectors of rank d with ⟨form, P⟩ ≥ target.

    `eigenpairs` returns the d largest of S + t·form, `excess` is ⟨form, P⟩ − target, both to all
    digits. With a finite `largest` multiplier, what is missing to the target costs that much
    instead. Returns the basis, its proven bound and the multiplier.
    """
    # The dual, the d largest eigenvalues of S + t·form less t·target, is convex in t ≥ 0.

    def evaluate(t: float) -> _DualValue:
        values, V = eigenpairs(t)
        return _DualValue(t, float(values.sum() - offset - t * target), excess(V), V)

    left, right = _bracket(evaluate, first_step, largest, slope_tol)
    best = min(left, right, key=lambda point: point.value)
    return _between(left.vectors, right.vectors, excess), best.value, best.weight


def _bracket(
    evaluate: Callable[[float], _DualValue], first_step: float, largest: float, slope_tol: float
) -> tuple[_DualValue, _DualValue]:
    """Minimise a convex function over [0, largest]; return the ends of the final bracket."""
    # The slope is negative at the left end and not at the right one. Where the minimum lies at an
    # end of the interval, both are that end.
    left = evaluate(0.0)
    if left.slope >= 0.0:
        return left, left
    right = evaluate(min(first_step, largest))
    for _ in range(_MAX_DOUBLINGS):
        if right.slope >= 0.0:
            break
        if right.weight >= largest:
            return right, right
        left, right = right, evaluate(min(4.0 * right.weight, largest))
    else:
        return right, right
    for step in range(_MAX_STEPS):
        width, rise = right.weight - left.weight, right.slope - left.slope
        # Where the tangents of both ends meet, as a share of the bracket; no value is lower.
        crossing = (left.value - right.value + right.slope * width) / (width * rise or 1.0)
        floor = left.value + left.slope * width * float(np.clip(crossing, 0, 1))
        best = min(left.value, right.value)
        if width <= _PRECISION * right.weight or best - floor <= _PRECISION * abs(best):
            break
        # A smooth minimum is met by the secant of the slopes, a kink (an eigenvalue crossing) by
        # the tangents. Halving in turn keeps the bracket shrinking where both stall at one end.
        share = (-left.slope / (rise or 1.0), crossing, 0.5)[step % 3]
        middle = evaluate(left.weight + width * float(np.clip(share, 1e-3, 1.0 - 1e-3)))
        if abs(middle.slope) <= slope_tol:
            return middle, middle
        left, right = (middle, right) if middle.slope < 0.0 else (left, middle)
    return left, right


def _between(left: Array, right: Array, excess: Callable[[Array], float]) -> Array:
    """Go from one subspace to the other by the shortest way, until ⟨form, P⟩ = target."""
    # Where the optimal subspace jumps at the best multiplier, those on either side are both
    # optimal, and so is what lies between them and satisfies the constraint with equality.
    turn, cosines, back = np.linalg.svd(left.T @ right)
    start, end = left @ turn, right @ back.T
    side = end - start * cosines
    sines = np.linalg.norm(side, axis=0)
    apart = sines > _SAME_DIRECTION
    if not apart.any():
        return right
    side = side / np.where(apart, sines, 1.0)
    angles = np.where(apart, np.arctan2(sines, cosines), 0.0)

    def turned(share: float) -> Array:
        return np.asarray(start * np.cos(share * angles) + side * np.sin(share * angles))

    if not excess(start) < 0.0 < excess(end):
        return right if abs(excess(end)) <= abs(excess(start)) else left
    # Near a flat root the bracket shrinks slowly; what a hundred steps leave of it is rounding.
    between = scipy.optimize.brentq(
        lambda share: excess(turned(share)), 0.0, 1.0, xtol=1e-15, disp=False
    )
    return turned(float(between))


def bounded_mean_basis(reduced: ReducedProblem) -> tuple[Array, float]:
    """Maximise tr VᵀSV subject to ‖Vᵀf‖² ≤ limit for a single f; returns V and its proven bound."""
    f, limit = reduced.F[0], reduced.mean_limit
    return solve_dual(
        lambda t: _eigenpairs_below(reduced.S, f, reduced.d, t),
        lambda V: limit - float(np.sum((f @ V) ** 2)),
        target=-limit,
        first_step=float(np.trace(reduced.S)) / reduced.size / max(float(f @ f), 1e-300),
    )[:2]


def _eigenpairs_below(S: Array, f: Array, d: int, t: float) -> tuple[Array, Array]:
    """Return the d < p largest eigenpairs of S − t·f fᵀ to all digits, however large t is."""
    # A tolerance of 1e-10‖f‖ makes t‖f‖² about 1e10‖S‖, and `eigh` rounds to the size of that. So
    # the one eigenvector that is so large, (S − xI)⁻¹f at its eigenvalue x, is taken out first. An
    # angle η between it and what is taken out costs t‖f‖²η², less than rounding.
    size, largest = float(f @ f), float(np.trace(S))
    if t * size <= _LARGE_MULTIPLIER * largest:
        return top_eigenpairs(S - t * np.outer(f, f), d)
    x = float(f @ S @ f) / size - t * size
    bottom = np.asarray(np.linalg.solve(S - x * np.eye(len(S)), f), dtype=np.float64)
    rest = complement_basis(bottom[None], 0.0)
    inside = f @ rest
    values, V = top_eigenpairs(symmetrize(rest.T @ S @ rest) - t * np.outer(inside, inside), d)
    return values, rest @ V


def solve_two_groups(groups: GroupObjectives, d: int) -> Bound:
    """Maximise the smaller of two group objectives: the first, less what the second lacks to it."""
    first, change = groups.S[0], groups.S[1] - groups.S[0]
    offset, rise = groups.offsets[0], groups.offsets[1] - groups.offsets[0]
    V, value, weight = solve_dual(
        lambda t: top_eigenpairs(first + t * change, d),
        lambda V: float(np.vdot(V, change @ V)) - rise,
        target=rise,
        offset=offset,
        first_step=0.5,
        largest=1.0,
        slope_tol=_BALANCED,
    )
    return Bound(value, value, V, weights=np.array([1.0 - weight, weight]), root=V)


def deflate(reduced: ReducedProblem) -> tuple[Array, Array]:
    """One component at a time: a basis, and one multiplier per component and contrast."""
    # Component j maximises vᵀSv with |vᵀQ_cv| bounded (by the limit, or penalised above the largest
    # gap so far) inside the complement of all earlier v_i and Q_cv_i. Orthogonality to Q_cv_i makes
    # every VᵀQ_cV diagonal, so what holds for each component holds for the basis. Component j does
    # not depend on those after it, so bases are nested as long as there is room for all images.
    V = np.zeros((reduced.size, 0))
    multipliers = np.zeros((reduced.d, len(reduced.Q)))
    spent = 0.0
    for j in range(reduced.d):
        N = complement_for_next(reduced, V)
        inner = reduced.inside(N, 1)
        if len(inner.Q) == 1 and not len(inner.F):
            v, multipliers[j, 0] = _single_component(inner, spent)
        else:
            # Several quadratic constraints have no exact one-dimensional dual: ascend from the top.
            # Of many components none is worth many digits: together they are a start only.
            most = MOST_EVALUATIONS // (2 * reduced.d)
            v = refine(inner, top_eigenpairs(inner.S, 1)[1], most=most).basis[:, 0]
        V = np.column_stack([V, N @ (v / np.linalg.norm(v))])
        spent = max(spent, reduced.cov_gap(V[:, -1:]))
    return V, multipliers


def complement_for_next(reduced: ReducedProblem, V: Array) -> Array:
    """Directions orthogonal to the components so far and, where there is room, to their images."""
    left = reduced.d - V.shape[1]
    if not V.shape[1]:
        return np.eye(reduced.size)
    images = (reduced.Q @ V).transpose(0, 2, 1).reshape(-1, reduced.size)
    taken = np.vstack([V.T, images / max(reduced.cov_scale, 1e-300)])
    free = complement_basis(taken, _RANK_FLOOR)
    # The images of many contrasts would take most of the space, and its variance, away.
    needed = left if len(reduced.Q) == 1 else max(left, reduced.size // 2)
    # Without them the basis is only a start for refinement.
    return free if free.shape[1] >= needed else complement_basis(V.T, _RANK_FLOOR)


def _single_component(inner: ReducedProblem, spent: float) -> tuple[Array, float]:
    """Maximise vᵀSv with |vᵀQv| ≤ limit, or penalised above what is spent: no duality gap."""
    Q = inner.Q[0]
    allowed = inner.limit if inner.limit is not None else spent
    top = top_eigenpairs(inner.S, 1)[1][:, 0]
    sign = 1.0 if top @ Q @ top >= 0.0 else -1.0
    V, _, weight = solve_dual(
        lambda t: top_eigenpairs(inner.S - t * sign * Q, 1),
        lambda V: allowed - sign * float(V[:, 0] @ Q @ V[:, 0]),
        target=-allowed,
        first_step=float(np.trace(inner.S)) / inner.size / max(inner.cov_scale, 1e-300),
        largest=np.inf if inner.limit is not None else inner.penalty,
        slope_tol=1e-10 * inner.cov_scale,
    )
    return V[:, 0], sign * weight
