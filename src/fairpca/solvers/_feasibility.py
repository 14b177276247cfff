"""Where no ascent met the limits: a basis that does, or an error that claims what is proven.

All limits together are one gap: with every form (Q_c, or f fᵀ of a bounded mean) divided by its own
limit, a basis is feasible where the largest ‖Vᵀ form V‖ is at most one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairpca.exceptions import InfeasibleError
from fairpca.linalg import Array, complement_basis
from fairpca.solvers._problem import FEASIBLE, ReducedProblem, unattainable_cov_tol
from fairpca.solvers._refinement import MOST_EVALUATIONS, Refined, nudge, refine
from fairpca.solvers._solution import Options
from fairpca.solvers._tight import solve_tight

# A limit of zero is aimed at as this share of the largest gap.
_SMALLEST_LIMIT = 1e-8
_PROOF_TOL = 1e-4
_PROOF_STEPS = 300
_RANDOM_STARTS = 8
# How far a basis may be turned to meet its limits exactly.
_SMALLEST_TURN, _LARGEST_TURN, _TURNS = 1e-12, 0.1, 37
_MOST_WORK = MOST_EVALUATIONS // 3


def restore_feasibility(reduced: ReducedProblem, closest: Refined) -> Refined:
    """Ascend from a basis of the smallest violation that can be found, or raise."""
    total = _as_one_gap(reduced)
    smallest = refine(total, closest.basis, most=_MOST_WORK)
    if reduced.violation(smallest.basis) > FEASIBLE:
        start = max_variance_feasible(total)
        ascent = refine(total, start, most=_MOST_WORK // 2)
        candidates = (smallest, ascent, replace(ascent, basis=start))
        # Inside the limits more variance is better, outside a smaller gap.
        smallest = min(candidates, key=lambda at: _rank(reduced, total, at.basis))
    if reduced.violation(smallest.basis) > FEASIBLE:
        bound = solve_tight(total, Options(tol=_PROOF_TOL, max_iter=_PROOF_STEPS), smallest)
        if -bound.value > 1.0 + 2.0 * _PROOF_TOL:
            raise _refusal(reduced, smallest.basis, is_proven=True)
        smallest = _search(reduced, total, smallest)
    if reduced.violation(smallest.basis) > FEASIBLE:
        raise _refusal(reduced, smallest.basis, is_proven=False)
    # What is inside by having no variance at all is stationary too.
    again = refine(reduced, nudge(smallest.basis), most=_MOST_WORK)
    return again if reduced.violation(again.basis) <= FEASIBLE else smallest


def _rank(reduced: ReducedProblem, total: ReducedProblem, V: Array) -> tuple[float, float]:
    gap = max(total.cov_gap(V), 1.0)
    return (gap, -reduced.objective(V)) if gap == 1.0 else (gap, 0.0)


def _search(reduced: ReducedProblem, total: ReducedProblem, smallest: Refined) -> Refined:
    """Look for a smaller gap from random starts, always the same ones, until one will do."""
    rng, known, spent = np.random.default_rng(0), [smallest.basis], 0
    for _ in range(_RANDOM_STARTS):
        start = np.linalg.qr(rng.normal(size=(reduced.size, reduced.d)))[0]
        ascent = refine(total, start, known=known, most=_MOST_WORK // 2)
        known.append(ascent.basis)
        spent += ascent.spent
        if total.cov_gap(ascent.basis) < total.cov_gap(smallest.basis):
            smallest = ascent
        if reduced.violation(smallest.basis) <= FEASIBLE or spent > 2 * _MOST_WORK:
            break
    return smallest


def low_gap_directions(total: ReducedProblem) -> Array:
    """Return all directions, smallest first, by the size of all forms whatever their signs."""
    values, vectors = np.linalg.eigh(total.Q)
    sizes = (vectors * np.abs(values)[:, None, :]) @ vectors.transpose(0, 2, 1)
    return np.asarray(np.linalg.eigh(sizes.sum(axis=0))[1])


def max_variance_feasible(total: ReducedProblem) -> Array:
    """Return the d consecutive directions of largest gap that are feasible, or the smallest d."""
    directions, d = low_gap_directions(total), total.d
    windows = (directions[:, first : first + d] for first in range(total.size - d, 0, -1))
    return next((V for V in windows if total.cov_gap(V) <= 1.0), directions[:, :d])


def project_to_feasible(reduced: ReducedProblem, V: Array) -> Array:
    """Turn a basis next to its limits towards directions of low gap until it meets them exactly."""
    if reduced.violation(V) == 0.0:
        return V
    low = low_gap_directions(_as_one_gap(reduced))[:, : reduced.d]
    left, _, right = np.linalg.svd(low.T @ V)
    for share in np.geomspace(_SMALLEST_TURN, _LARGEST_TURN, _TURNS):
        inside = np.linalg.qr(V + share * (low @ (left @ right) - V))[0]
        if reduced.violation(inside) == 0.0:
            return inside
    return V


def check_means(reduced: ReducedProblem) -> None:
    """Raise where it can be proven that no basis meets the limits of the means."""
    means_only = replace(reduced, Q=reduced.Q[:0], penalty=0.0, limit=None)
    free = complement_basis(reduced.F, 1e-10 * float(np.linalg.norm(reduced.F)))
    if free.shape[1] < reduced.d:
        restore_feasibility(means_only, refine(means_only, reduced.leading(reduced.d)[1]))


def shrink_means(reduced: ReducedProblem, V: Array) -> Array:
    """Shrink what V has in the span of the mean gaps until it meets their limits, if it can."""
    if not len(reduced.F) or reduced.mean_excess(V) <= 0.0:
        return V
    outside = complement_basis(reduced.F, 1e-10 * float(np.linalg.norm(reduced.F)))
    kept = outside @ (outside.T @ V)
    if outside.shape[1] < reduced.d or np.linalg.svd(kept, compute_uv=False)[-1] < 1e-3:
        return V
    low, high = 0.0, 1.0
    for _ in range(50):
        share = 0.5 * (low + high)
        is_inside = reduced.mean_excess(np.linalg.qr(kept + share * (V - kept))[0]) <= 0.0
        low, high = (share, high) if is_inside else (low, share)
    return np.linalg.qr(kept + low * (V - kept))[0]


def _as_one_gap(reduced: ReducedProblem) -> ReducedProblem:
    forms = []
    if reduced.limit is not None:
        forms.append(reduced.Q / max(reduced.limit, _SMALLEST_LIMIT * reduced.cov_scale))
    if len(reduced.F):
        limit = max(reduced.mean_limit, _SMALLEST_LIMIT * reduced.mean_scale)
        forms.append(reduced.F[:, :, None] * reduced.F[:, None, :] / limit)
    return replace(
        reduced,
        S=np.zeros_like(reduced.S),
        Q=np.concatenate(forms),
        F=reduced.F[:0],
        penalty=1.0,
        limit=None,
        mean_limit=0.0,
        groups=None,
    )


def _refusal(reduced: ReducedProblem, V: Array, *, is_proven: bool) -> InfeasibleError:
    if reduced.limit is None:
        return unattainable_mean_tol(reduced, V, is_proven=is_proven)
    gap = reduced.cov_gap(V)
    if not len(reduced.F):
        what = "the smallest covariance gap found is"
        return unattainable_cov_tol(reduced, gap, what, is_proven=is_proven)
    together = "cannot be met together" if is_proven else "were not met together by any basis found"
    return InfeasibleError(
        f"mean_tol={_mean_tol(reduced):.6g} and cov_tol={reduced.limit * reduced.scale:.6g} "
        f"{together} with n_components={reduced.d}. Raise one of them or lower n_components."
    )


def unattainable_mean_tol(
    reduced: ReducedProblem, V: Array | None = None, *, is_proven: bool = True
) -> InfeasibleError:
    """Return the error for a tolerance that no basis meets, or that none found does."""
    V = np.eye(reduced.size) if V is None else V
    smallest = np.sqrt((reduced.mean_excess(V) + reduced.mean_limit) * reduced.scale)
    verdict = "cannot be met" if is_proven else "was not met by any basis found"
    return InfeasibleError(
        f"mean_tol={_mean_tol(reduced):.6g} {verdict} with n_components={reduced.d}: the smallest "
        f"mean gap found is {smallest:.6g}. Raise mean_tol above that or lower n_components.",
        minimum=float(smallest),
    )


def _mean_tol(reduced: ReducedProblem) -> float:
    return float(np.sqrt(reduced.mean_limit * reduced.scale))
