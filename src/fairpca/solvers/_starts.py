"""Which bases an ascent starts from, which result is kept, and what happens where none is feasible.

A solve is starts → ascent (`_refinement`) → bound (`_tight`) → certificate (`_solve`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from fairpca.exceptions import InfeasibleError
from fairpca.linalg import Array, complement_basis, shrink_means
from fairpca.solvers._exact import deflate
from fairpca.solvers._lagrangian import Lagrangian
from fairpca.solvers._problem import FEASIBLE, ReducedProblem, unattainable_cov_tol
from fairpca.solvers._refinement import MOST_EVALUATIONS, Refined, nudge, refine
from fairpca.solvers._solution import PROVEN, Bound, Options, Snapshot, Status, Watch, relative_gap
from fairpca.solvers._tight import solve_tight

# Share of the objective that must be left to gain for one more ascent of a large problem, and for
# one of a small problem from anywhere.
_WORTH_A_GUESS = 1e-2
# The same for a search that takes about as long as all ascents before it.
_WORTH_A_SEARCH = 5e-2
# How much larger the first steps of the multipliers are in an ascent that stays next to the limits.
_STIFF = 1000.0
# Shares at which gaps count on a path from plain PCA to the problem, and evaluations for each.
_PATH, _PATH_WORK = (0.02, 0.05, 0.1, 0.2, 0.5), 300
# Evaluations of a search, as a share of those before it; few dimensions cost little.
_SEARCH_SHARE, _FEW_DIMENSIONS, _SEARCHES_OF_FEW = 0.5, 10, 2
# Evaluations that must be left for one more ascent.
_LEAST_WORK = 1000
# A limit of zero is aimed at as this share of the largest gap.
_SMALLEST_LIMIT = 1e-8
_PROOF_TOL = 1e-4
_PROOF_STEPS = 300
_RANDOM_STARTS = 8
# How far a basis may be turned to meet its limits exactly.
_SMALLEST_TURN, _TURNS = 1e-12, 41
_MOST_WORK = MOST_EVALUATIONS // 3


@dataclass(frozen=True)
class Outcome:
    """A basis of the reduced problem, its bound (None: not computed), method and status."""

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
        # Other starts, and the share of the objective that must be left to gain for each.
        starts = [(bound.rounded, _WORTH_A_GUESS if reduced.is_large else tol)]
        if not reduced.is_large:
            random = np.random.default_rng(0).normal(size=(reduced.size, reduced.d))
            starts.append((reduced.leading(reduced.d)[1], tol))
            starts.append((np.linalg.qr(random)[0], _WORTH_A_GUESS))
        for start, worth in starts:
            _ascend_again(reduced, candidates, bound, start, max(tol, worth), watch)
        # Limits as narrow as rounding can defeat the ascent, but not the relaxation.
        candidates.append(replace(candidates[0], basis=bound.rounded, status=bound.status, spent=0))
    best = best_feasible(reduced, candidates)
    if not is_certified(reduced, [best], bound, max(PROVEN, tol)):
        bound = _lower(reduced, best, bound, options)
        if solver == "refined":
            best = _search_further(reduced, [*candidates, best], bound, watch)
        if not is_certified(reduced, [best], bound, max(PROVEN, tol)):
            bound = _lower(reduced, best, bound, options, is_near=True)
    return Outcome(best.basis, bound, best.n_iter + bound.n_iter, solver, best.status)


def _lower(
    reduced: ReducedProblem, best: Refined, bound: Bound, options: Options, *, is_near: bool = False
) -> Bound:
    """Lower the bound of a small problem by that of products, of all or of those near a basis."""
    known = reduced.objective(best.basis)
    from fairpca.solvers._lifted import lifted_bound  # not needed by other problems

    limits = options.tol, options.max_iter, bound.value
    value, status = lifted_bound(reduced, best.basis, *limits, is_near=is_near)
    if value >= bound.value:
        return bound
    if options.watch is not None:
        options.watch(Snapshot("bound", bound.n_iter, value, known))
    return replace(bound, value=value, relaxed_value=value, status=status)


def _first_basis(reduced: ReducedProblem, solver: str, watch: Watch | None) -> Refined:
    """Ascend from deflation, or from plain PCA of a large problem; keep deflation itself as is."""
    values, top = reduced.leading(reduced.d)
    bound = float(values.sum())
    if solver == "refined" and reduced.is_large and reduced.d > 1:
        # Newton's method gets from plain PCA to the same optimum in fewer steps than deflation has.
        return refine(reduced, top, watch=watch, bound=bound)
    V, multipliers = deflate(reduced)
    if solver == "deflation" and reduced.violation(V) <= FEASIBLE:
        at = Lagrangian(reduced, multipliers)
        return Refined(V, at.M, at.b, 0, Status.CONVERGED)
    ascent = refine(reduced, V, multipliers, watch=watch, bound=bound)
    lost = reduced.objective(V) - reduced.objective(ascent.basis)
    if reduced.violation(V) > FEASIBLE or lost <= FEASIBLE:
        return ascent
    # The first steps lost what deflation had found: a stiff ascent stays next to it.
    return refine(reduced, V, multipliers, stiffness=_STIFF, watch=watch, bound=bound)


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
    if any(start is candidate.basis for candidate in candidates):
        return  # the relaxation brought nothing to start from
    if left > _LEAST_WORK and not is_certified(reduced, candidates, bound, worth):
        known = [candidate.basis for candidate in candidates if candidate.status.converged]
        candidates.append(
            refine(
                reduced,
                start,
                known=known,
                is_bold=worth >= _WORTH_A_GUESS,
                most=left,
                watch=watch,
                bound=bound.value,
            )
        )


def _search_further(
    reduced: ReducedProblem, candidates: list[Refined], bound: Bound, watch: Watch | None
) -> Refined:
    """Ascend again from the best, the last, and from others while much is left to gain."""
    left = sum(at.spent for at in candidates[:-1])
    if reduced.size <= _FEW_DIMENSIONS:
        left = _SEARCHES_OF_FEW * left
    elif not reduced.has_many_columns:
        left = int(_SEARCH_SHARE * left)
    starts = _further_starts(reduced, candidates[-1].basis)
    while left > 0 and not is_certified(reduced, candidates, bound, _WORTH_A_SEARCH):
        start, stiffness, spent = next(starts)
        # A stiff ascent goes on from what is known already.
        known = [at.basis for at in candidates if at.status.converged and stiffness == 1.0]
        ascent = refine(
            reduced,
            start,
            known=known,
            stiffness=stiffness,
            most=left,
            watch=watch,
            bound=bound.value,
        )
        candidates.append(ascent)
        left -= 1 + spent + ascent.spent
    return best_feasible(reduced, candidates)


def _further_starts(reduced: ReducedProblem, best: Array) -> Iterator[tuple[Array, float, int]]:
    """Yield starts, how stiff their ascents are, and evaluations that they took."""
    # A basis without variance is stationary: the way up begins next to it.
    yield nudge(best), _STIFF, 0
    V, spent = reduced.leading(reduced.d)[1], 0
    for share in _PATH:
        milder = replace(reduced, Q=share * reduced.Q, F=np.sqrt(share) * reduced.F)
        step = refine(milder, V, most=_PATH_WORK)
        V, spent = step.basis, spent + step.spent
    yield V, 1.0, spent
    rng, spread = np.random.default_rng(1), np.sqrt(np.abs(np.diag(reduced.S)))[:, None]
    while True:
        # A stiff ascent ends in an optimum close by, where others pass by those without a gap.
        for stiffness in (1.0, _STIFF, _STIFF):
            start = np.linalg.qr(spread * rng.normal(size=(reduced.size, reduced.d)))[0]
            yield start, stiffness, 0


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
    F, limit = reduced.F, reduced.mean_limit
    inside = [replace(at, basis=shrink_means(F, limit, at.basis)) for at in candidates]
    if not any(reduced.violation(at.basis) <= FEASIBLE for at in inside):
        closest = min(candidates, key=lambda at: reduced.violation(at.basis))
        inside.append(restore_feasibility(reduced, closest))
    # What was turned to meet its limits is no optimum, but may be better than those there are.
    inside += [
        replace(at, basis=project_to_feasible(reduced, at.basis), status=Status.UNSETTLED)
        for at in inside
        if reduced.violation(at.basis) > FEASIBLE
    ]
    feasible = [at for at in inside if reduced.violation(at.basis) <= FEASIBLE]
    return max(feasible, key=lambda at: reduced.objective(at.basis))


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
    return best_feasible(reduced, [again, replace(smallest, status=Status.UNSETTLED)])


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
    for share in np.geomspace(_SMALLEST_TURN, 1.0, _TURNS):
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


def _as_one_gap(reduced: ReducedProblem) -> ReducedProblem:
    """Pose all limits together as one gap, which is at most one where a basis is feasible."""
    # Every form (Q_c, or f fᵀ of a bounded mean) is divided by its own limit.
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
