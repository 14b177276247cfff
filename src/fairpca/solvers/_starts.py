"""Which bases an ascent starts from, and which of its results is kept.

A solve is starts → ascent (`_refinement`) → bound (`_tight`) → certificate (`_solve`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from fairpca.linalg import Array
from fairpca.solvers._exact import deflate
from fairpca.solvers._feasibility import restore_feasibility, shrink_means
from fairpca.solvers._problem import FEASIBLE, ReducedProblem
from fairpca.solvers._refinement import MOST_EVALUATIONS, Refined, initial_multipliers, refine
from fairpca.solvers._solution import Bound, Options, Status, Watch, relative_gap
from fairpca.solvers._tight import solve_tight

# Share of the objective that must be left to gain for one more ascent of a large problem, and for
# one of a small problem from anywhere.
_WORTH_A_GUESS = 1e-2
# Evaluations that must be left for one more ascent.
_LEAST_WORK = 1000


@dataclass(frozen=True)
class Outcome:
    """A basis of the reduced problem, its bound (None: not computed), and its method."""

    basis: Array
    bound: Bound | None
    n_iter: int
    method: str
    status: Status = Status.CONVERGED


def refined_basis(reduced: ReducedProblem, solver: str, options: Options) -> Outcome:
    """Ascend from one start, bound the result, and ascend again where something is left to gain."""
    watch, tol = options.watch, options.tol
    candidates = [_first_basis(reduced, solver, watch)]
    if not options.certify:
        # A second ascent of a large problem costs as much as its certificate.
        if solver == "refined" and not reduced.is_large:
            guess = solve_tight(reduced, Options(tol=tol, max_iter=0), candidates[0])
            top = reduced.leading(reduced.d)[1]
            _ascend_again(reduced, candidates, guess, top, tol, watch)
        best = best_feasible(reduced, candidates)
        return Outcome(best.basis, None, best.n_iter, solver, best.status)
    bound = solve_tight(reduced, options, candidates[0])
    if solver == "refined":
        for start, worth in _more_starts(reduced, bound):
            _ascend_again(reduced, candidates, bound, start, max(tol, worth), watch)
        # Limits as narrow as rounding can defeat the ascent, but not the relaxation.
        candidates.append(replace(candidates[0], basis=bound.rounded, status=bound.status))
    best = best_feasible(reduced, candidates)
    status = best.status if bound.status.converged else bound.status
    return Outcome(best.basis, bound, best.n_iter + bound.n_iter, solver, status)


def _first_basis(reduced: ReducedProblem, solver: str, watch: Watch | None) -> Refined:
    """Ascend from deflation, or from plain PCA of a large problem; keep deflation itself as is."""
    values, top = reduced.leading(reduced.d)
    watch = _below(watch, float(values.sum()))
    if solver == "refined" and reduced.is_large and reduced.d > 1:
        # Newton's method gets from plain PCA to the same optimum in fewer steps than deflation has.
        return refine(reduced, top, watch=watch)
    V, multipliers = deflate(reduced)
    if solver == "deflation" and reduced.violation(V) <= FEASIBLE:
        M = initial_multipliers(reduced, multipliers)
        return Refined(V, M, np.zeros(len(reduced.F)), 0, Status.CONVERGED)
    return refine(reduced, V, multipliers, watch=watch)


def _more_starts(reduced: ReducedProblem, bound: Bound) -> Iterator[tuple[Array, float]]:
    """Other starts, and the share of the objective that must be left to gain for each."""
    yield bound.rounded, _WORTH_A_GUESS if reduced.is_large else 0.0
    if not reduced.is_large:
        yield reduced.leading(reduced.d)[1], 0.0
        random = np.random.default_rng(0).normal(size=(reduced.size, reduced.d))
        yield np.linalg.qr(random)[0], _WORTH_A_GUESS


def _ascend_again(
    reduced: ReducedProblem,
    candidates: list[Refined],
    bound: Bound,
    start: Array,
    worth: float,
    watch: Watch | None,
) -> None:
    """Ascend from another start where the bound leaves more than `worth` to gain, and work."""
    left = MOST_EVALUATIONS - sum(candidate.spent for candidate in candidates)
    if left > _LEAST_WORK and not is_certified(reduced, candidates, bound, worth):
        known = [candidate.basis for candidate in candidates if candidate.status.converged]
        watch, is_bold = _below(watch, bound.value), worth >= _WORTH_A_GUESS
        candidates.append(
            refine(reduced, start, known=known, is_bold=is_bold, most=left, watch=watch)
        )


def _below(watch: Watch | None, bound: float) -> Watch | None:
    """Report a basis with the bound that is known already."""
    return None if watch is None else lambda at: watch(replace(at, bound=bound))


def is_certified(
    reduced: ReducedProblem, candidates: list[Refined], bound: Bound, tol: float
) -> bool:
    """Whether a feasible candidate is within `tol` of the bound."""
    return any(
        reduced.violation(candidate.basis) <= FEASIBLE
        and relative_gap(bound.value, reduced.objective(candidate.basis)) <= tol
        for candidate in candidates
    )


def best_feasible(reduced: ReducedProblem, candidates: list[Refined]) -> Refined:
    """Return the best candidate that meets the limits, or one made to meet them, or raise."""
    inside = [replace(at, basis=shrink_means(reduced, at.basis)) for at in candidates]
    feasible = [at for at in inside if reduced.violation(at.basis) <= FEASIBLE]
    if feasible:
        return max(feasible, key=lambda at: reduced.objective(at.basis))
    closest = min(candidates, key=lambda at: reduced.violation(at.basis))
    return restore_feasibility(reduced, closest)
