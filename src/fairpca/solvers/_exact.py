"""Problems without a covariance term: solved by eigenvectors, with nothing left to certify."""

from __future__ import annotations

import numpy as np

from fairpca.linalg import Array, top_eigenpairs
from fairpca.solvers._line import DualPoint, minimize_dual, rotation_angles
from fairpca.solvers._problem import ReducedProblem

# Principal angles with cosines closer to one than this separate nothing.
_SAME_SUBSPACE = 1e-12


def top_basis(reduced: ReducedProblem) -> Array:
    """Return the basis of largest variance when nothing is constrained any more."""
    return reduced.leading(reduced.d)[1]


def bounded_mean_basis(reduced: ReducedProblem) -> tuple[Array, float]:
    """Maximise tr VᵀSV subject to ‖Vᵀf‖² ≤ limit for a single f; returns V and its proven bound."""
    # The dual is one-dimensional: minimise over λ ≥ 0 the sum of the d largest eigenvalues of
    # S − λffᵀ plus λ·limit. Where the optimal subspace jumps at the best λ, the two subspaces on
    # either side differ in one direction, and a rotation between them meets the limit exactly, so
    # there is no duality gap.
    f = reduced.F[0]
    outer = np.outer(f, f)

    def evaluate(weight: float) -> DualPoint:
        values, V = top_eigenpairs(reduced.S - weight * outer, reduced.d)
        used = float(np.sum((f @ V) ** 2))
        value = float(values.sum()) + weight * reduced.mean_limit
        return DualPoint(weight, value, reduced.mean_limit - used, V)

    start = np.trace(reduced.S) / reduced.size / max(float(f @ f), 1e-300)
    left, right = minimize_dual(evaluate, first_step=start)
    V = _meet_limit(left.vectors, right.vectors, f, reduced.mean_limit)
    return V, min(left.value, right.value)


def _meet_limit(outside: Array, inside: Array, f: Array, limit: float) -> Array:
    # Split both subspaces into what they share and the direction in which they differ.
    left, cosines, right = np.linalg.svd(outside.T @ inside)
    apart = int(np.argmin(cosines))
    if cosines[apart] > 1.0 - _SAME_SUBSPACE:
        return inside
    outside, inside = outside @ left, inside @ right.T
    shared = np.delete(inside, apart, axis=1)
    pair = np.linalg.qr(np.column_stack([inside[:, apart], outside[:, apart]]))[0]
    room = limit - float(np.sum((f @ shared) ** 2))
    projected = pair.T @ f
    best = inside[:, apart]
    for angle in rotation_angles(np.outer(projected, projected), room):
        candidate = pair @ np.array([np.cos(angle), np.sin(angle)])
        # Both angles meet the limit; the one closer to the infeasible side has more variance.
        if abs(candidate @ outside[:, apart]) > abs(best @ outside[:, apart]):
            best = candidate
    return np.column_stack([shared, best])
