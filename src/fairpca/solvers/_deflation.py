"""One component at a time: each solved exactly, inside the complement of those before it."""

from __future__ import annotations

import numpy as np

from fairpca.linalg import Array, complement_basis, top_eigenpairs
from fairpca.solvers._line import DualPoint, minimize_dual, rotation_angles
from fairpca.solvers._problem import ReducedProblem
from fairpca.solvers._refinement import MOST_EVALUATIONS, refine

# Directions closer to dependent than this, relative to the largest, cost no dimension.
_RANK_FLOOR = 1e-10


def deflate(reduced: ReducedProblem) -> tuple[Array, Array]:
    """Return a basis found greedily, and one multiplier per component and contrast."""
    # Component j maximises vᵀSv with |vᵀQ_cv| bounded (by the limit, or penalised above the largest
    # gap so far) inside the complement of all earlier v_i and Q_cv_i. Orthogonality to Q_cv_i makes
    # every VᵀQ_cV diagonal, so what holds for each component holds for the basis. Where that would
    # leave too few dimensions for the components still to come, only the v_i are kept out and the
    # basis is left for refinement to mend.
    V = np.zeros((reduced.size, 0))
    multipliers = np.zeros((reduced.d, len(reduced.Q)))
    spent = 0.0
    for j in range(reduced.d):
        N = _room_for_next(reduced, V)
        inner = reduced.with_components(1, N)
        if len(inner.Q) == 1 and not len(inner.F):
            v, multipliers[j, 0] = _single_component(inner, spent)
        else:
            # Of many components none is worth many digits: together they are a start only.
            v = _many_contrast_component(inner, MOST_EVALUATIONS // (2 * reduced.d))
        V = np.column_stack([V, N @ (v / np.linalg.norm(v))])
        spent = max(spent, reduced.cov_gap(V[:, -1:]))
    return V, multipliers


def _room_for_next(reduced: ReducedProblem, V: Array) -> Array:
    chosen = V.shape[1]
    still_to_come = reduced.d - chosen
    if not chosen:
        return np.eye(reduced.size)
    images = (reduced.Q @ V).transpose(0, 2, 1).reshape(-1, reduced.size)
    taken = np.vstack([V.T, images / max(reduced.cov_scale, 1e-300)])
    room = complement_basis(taken, _RANK_FLOOR)
    # The images of many contrasts would take most of the space, and its variance, away.
    needed = still_to_come if len(reduced.Q) == 1 else max(still_to_come, reduced.size // 2)
    if room.shape[1] >= needed:
        return room
    return complement_basis(V.T, _RANK_FLOOR)


def _single_component(inner: ReducedProblem, spent: float) -> tuple[Array, float]:
    """Maximise vᵀSv with |vᵀQv| ≤ limit, or at a penalty above what is spent: no duality gap."""
    Q, constrained = inner.Q[0], inner.limit is not None
    allowed = inner.limit if inner.limit is not None else spent
    top = top_eigenpairs(inner.S, 1)[1][:, 0]
    sign = 1.0 if top @ Q @ top >= 0.0 else -1.0

    def evaluate(weight: float) -> DualPoint:
        values, vectors = top_eigenpairs(inner.S - (weight * sign) * Q, 1)
        gap = sign * float(vectors[:, 0] @ Q @ vectors[:, 0])
        return DualPoint(weight, float(values[0]) + weight * allowed, allowed - gap, vectors)

    left, right = minimize_dual(
        evaluate,
        first_step=float(np.trace(inner.S)) / inner.size / max(inner.cov_scale, 1e-300),
        largest=np.inf if constrained else inner.penalty,
        slope_tol=1e-10 * inner.cov_scale,
    )
    v = _meet_gap(left.vectors[:, 0], right.vectors[:, 0], Q, sign * allowed)
    return v, sign * right.weight


def _meet_gap(outside: Array, inside: Array, Q: Array, target: float) -> Array:
    # At an eigenvalue crossing the optimum is a rotation between the two eigenvectors.
    if abs(outside @ inside) > 1.0 - 1e-12:
        return inside
    pair = np.linalg.qr(np.column_stack([inside, outside]))[0]
    rotated = [
        pair @ np.array([np.cos(angle), np.sin(angle)])
        for angle in rotation_angles(pair.T @ Q @ pair, target)
    ]
    return max(rotated, key=lambda v: abs(float(v @ outside)), default=inside)


def _many_contrast_component(inner: ReducedProblem, most: int) -> Array:
    # Several quadratic constraints have no exact one-dimensional dual; ascend from the top.
    start = top_eigenpairs(inner.S, 1)[1]
    return refine(inner, start, most=most).basis[:, 0]
