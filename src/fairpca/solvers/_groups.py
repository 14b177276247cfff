"""The best basis for the group with the smallest objective: its bound and its starts.

S_g: covariance of group g, β_g: its offset, w: weights on the simplex. For every w the d largest
eigenvalues of Σw_gS_g, less w·β, bound min_g ⟨S_g, P⟩ − β_g.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairpca.linalg import Array, top_eigenpairs
from fairpca.solvers._exact import solve_two_groups
from fairpca.solvers._problem import FEASIBLE, GroupObjectives, ReducedProblem
from fairpca.solvers._refinement import refine
from fairpca.solvers._solution import Bound, Options
from fairpca.solvers._starts import Outcome, refined_basis
from fairpca.solvers._tight import solve_tight

# Bases to ascend from.
_MOST_STARTS = 5
# Values that differ by a smaller share are those of the same optimum.
_SAME = 1e-6
_SMALLEST_TOL = 1e-8
# Differences below this are rounding: the mean variance of a reduced problem is one.
_ROUNDING = 1e-12


def solve_groups(reduced: ReducedProblem, options: Options) -> Outcome:
    """Maximise the smallest group objective of a problem with d < size."""
    assert reduced.groups is not None
    # Without limits and penalty: its weights are where the constrained problem starts.
    free = replace(reduced, Q=reduced.Q[:0], F=reduced.F[:0], penalty=0.0, limit=None)
    bound = _relax(free, reduced.groups, options)
    if len(reduced.Q) or len(reduced.F):
        return _constrained(reduced, reduced.groups, bound, options)
    basis, n_iter = _ascend_all(reduced, reduced.groups, bound, options)
    method = "exact" if len(reduced.groups.S) <= 2 else "weighted"
    return Outcome(basis, bound, bound.n_iter + n_iter, method)


def _relax(free: ReducedProblem, groups: GroupObjectives, options: Options) -> Bound:
    """Bound the problem without limits: exactly for one and two groups, by the relaxation else."""
    if len(groups.S) == 1:
        values, V = top_eigenpairs(groups.S[0], free.d)
        value = float(values.sum() - groups.offsets[0])
        return Bound(value, value, V, weights=np.ones(1), root=V)
    if len(groups.S) == 2:
        return solve_two_groups(groups, free.d)
    # A part of the tolerance, down to what rounding leaves: everything that follows starts here.
    return solve_tight(free, replace(options, tol=max(0.02 * options.tol, _SMALLEST_TOL)))


def _ascend_all(
    reduced: ReducedProblem, groups: GroupObjectives, bound: Bound, options: Options
) -> tuple[Array, int]:
    """Ascend from the rounded optimum and, where that is not enough, from random roundings."""
    leading = top_eigenpairs(groups.matrix(bound.weights), reduced.d)[1]
    total = reduced.leading(reduced.d)[1]
    best = max(
        (bound.rounded, leading, total),
        key=lambda V: (groups.values(V).min(), np.vdot(V, reduced.S @ V)),
    )
    value, n_iter = reduced.objective(best), 0
    # A column of root·G, with normal G, has the relaxed point for its second moment.
    random, start = np.random.default_rng([7, 20, 1018]), best
    enough = bound.value - 0.1 * options.tol * abs(bound.value) - _ROUNDING * reduced.d
    reached: list[float] = []
    for _ in range(_MOST_STARTS):
        if value >= enough:
            break
        ascent = refine(reduced, start, weights=bound.weights, watch=options.watch)
        n_iter, new = n_iter + ascent.n_iter, reduced.objective(ascent.basis)
        if new > value:
            best, value = ascent.basis, new
        if any(abs(new - earlier) <= _SAME * abs(new) for earlier in reached):
            break  # where an ascent has been before
        reached.append(new)
        start = np.linalg.qr(bound.root @ random.normal(size=(bound.root.shape[1], reduced.d)))[0]
    return best, n_iter


def _constrained(
    reduced: ReducedProblem, groups: GroupObjectives, free: Bound, options: Options
) -> Outcome:
    """Ascend from the unconstrained optimum and from the best basis of its weighted problem."""
    weighted = replace(reduced, S=groups.matrix(free.weights), groups=None)
    first = refined_basis(weighted, "refined", replace(options, certify=False))
    ascents = [
        refine(reduced, start, weights=free.weights, watch=options.watch)
        for start in (first.basis, free.rounded)
    ]
    # The first start meets the limits, and what it leads to does.
    feasible = [ascent for ascent in ascents if reduced.violation(ascent.basis) <= FEASIBLE]
    best = max(feasible, key=lambda ascent: reduced.objective(ascent.basis))
    n_iter = free.n_iter + sum(ascent.n_iter for ascent in ascents)
    bound, left = free, free.value - reduced.objective(best.basis)
    if options.certify and left > options.tol * abs(free.value):
        proven = solve_tight(reduced, options, best)
        n_iter += proven.n_iter
        bound = min(proven, free, key=lambda at: at.value)
    return Outcome(best.basis, bound, n_iter, "refined", best.status)
