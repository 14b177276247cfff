"""From a problem to an ordered basis with its certificate: chooses and combines the solvers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from fairpca._choices import OBJECTIVES, SOLVERS
from fairpca.exceptions import InvalidInputError
from fairpca.linalg import (
    Array,
    fix_signs,
    orthonormalize,
    single_blas_thread,
    symmetrize,
    top_eigenpairs,
)
from fairpca.solvers._deflation import deflate
from fairpca.solvers._driver import Watch
from fairpca.solvers._exact import bounded_mean_basis, top_basis
from fairpca.solvers._feasibility import (
    check_means,
    project_to_feasible,
    restore_feasibility,
    shrink_means,
    unattainable_mean_tol,
)
from fairpca.solvers._paper import solve_paper
from fairpca.solvers._problem import (
    FEASIBLE,
    FairProblem,
    ReducedProblem,
    reduce_problem,
)
from fairpca.solvers._refinement import (
    MOST_EVALUATIONS,
    Refined,
    initial_multipliers,
    refine,
)
from fairpca.solvers._solution import Bound, Certificate, Snapshot, Solution, Status, relative_gap
from fairpca.solvers._tight import solve_tight

# Share of the objective that must be left to gain for one more ascent of a large problem, and for
# one of a small problem from anywhere.
_WORTH_A_GUESS = 1e-2
# Evaluations that must be left for one more ascent.
_LEAST_WORK = 1000


@dataclass(frozen=True)
class _Options:
    certify: bool
    tol: float
    max_iter: int
    cov_shift: float | None
    trace: str
    watch: Watch | None


@dataclass(frozen=True)
class _Found:
    basis: Array
    bound: Bound | None
    n_iter: int
    method: str
    status: Status = Status.CONVERGED


def solve(
    problem: FairProblem,
    solver: str = "refined",
    *,
    certify: bool = True,
    tol: float = 1e-4,
    max_iter: int = 5000,
    cov_shift: float | None = None,
    trace: str = "at-most",
    callback: Callable[[Snapshot], None] | None = None,
) -> Solution:
    """Find a fair basis and certify it.

    Parameters
    ----------
    problem : FairProblem
    solver : {"refined", "deflation", "tight", "paper"}
        Without a covariance term the exact eigen-solution is used, whatever the solver.
    certify : bool
        Whether "refined" and "deflation" compute the bound of the tight relaxation. Without it
        the bound is the variance of the unconstrained problem: valid, but loose.
    tol : float
        Relative duality gap at which a relaxation counts as solved.
    max_iter : int
        Limit on the iterations of a relaxation.
    cov_shift : float or None
        The paper's φ; used by "paper" only. None: the smallest allowed.
    trace : {"at-most", "equal"}
        The paper's tr P ≤ d or its program's tr P = d; used by "paper" only.
    callback : callable or None
        Called with a `Snapshot` after every iteration, hundreds of times a second for small p.

    Returns
    -------
    Solution
        Basis ordered by variance with uncorrelated components and fixed signs, certificate,
        number of iterations, and the `Status` that says why it ended.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.solvers import FairProblem, solve
    >>> Q = np.diag([1.0, -1.0, 0.0, 0.0])
    >>> S, no_means = np.diag([4.0, 3.0, 2.0, 1.0]), np.zeros((0, 4))
    >>> problem = FairProblem(S, no_means, Q[None], 1, cov_tol=0)
    >>> round(solve(problem).certificate.objective, 6)
    3.5
    """
    if solver not in SOLVERS:
        raise InvalidInputError(
            f"solver={solver!r} is unknown; choose one of {', '.join(SOLVERS)}.",
            parameter="solver",
        )
    with single_blas_thread():
        reduced = reduce_problem(problem)
        watch = None if callback is None else _in_user_units(callback, reduced.scale)
        options = _Options(certify, tol, max_iter, cov_shift, trace, watch)
        found = _projected(reduced, _find(reduced, solver, options))
        return _finish(problem, reduced, found)


def _in_user_units(callback: Watch, scale: float) -> Watch:
    return lambda at: callback(replace(at, bound=at.bound * scale, objective=at.objective * scale))


def _find(reduced: ReducedProblem, solver: str, options: _Options) -> _Found:
    if not len(reduced.Q) and len(reduced.F) <= 1:
        return _exact(reduced)
    if solver == "paper" and reduced.limit is not None:
        raise InvalidInputError(
            "solver='paper' has no constrained form, but cov_tol was given. Use cov_weight, or "
            "another solver.",
            parameter="solver",
        )
    if reduced.d == reduced.size:
        return _whole_space(reduced)
    if solver == "paper" and len(reduced.Q):
        return _paper(reduced, options)
    if solver == "tight":
        return _tight(reduced, options)
    return _basis_first(reduced, solver, options)


def _exact(reduced: ReducedProblem) -> _Found:
    if len(reduced.F):
        if reduced.d == reduced.size:
            raise unattainable_mean_tol(reduced)
        V, value = bounded_mean_basis(reduced)
    else:
        V = top_basis(reduced)
        value = reduced.objective(V)
    return _Found(V, Bound(value, value, V, 0, Status.CONVERGED), 0, "exact")


def _whole_space(reduced: ReducedProblem) -> _Found:
    # As many components as dimensions: there is one subspace only, feasible or not.
    V = np.eye(reduced.size)
    if reduced.violation(V) > FEASIBLE and reduced.mean_excess(V) > 0.0:
        raise unattainable_mean_tol(reduced)
    value = reduced.objective(V)
    return _Found(V, Bound(value, value, V, 0, Status.CONVERGED), 0, "exact")


def _paper(reduced: ReducedProblem, options: _Options) -> _Found:
    if len(reduced.F):
        check_means(reduced)
    shift = None if options.cov_shift is None else options.cov_shift / reduced.scale
    bound = solve_paper(
        reduced,
        tol=options.tol,
        max_iter=options.max_iter,
        cov_shift=shift,
        trace=options.trace,
        watch=options.watch,
    )
    return _Found(_inside(reduced, bound), bound, bound.n_iter, "paper", bound.status)


def _tight(reduced: ReducedProblem, options: _Options) -> _Found:
    bound = solve_tight(reduced, tol=options.tol, max_iter=options.max_iter, watch=options.watch)
    return _Found(_inside(reduced, bound), bound, bound.n_iter, "tight", bound.status)


def _inside(reduced: ReducedProblem, bound: Bound) -> Array:
    # The rounded point meets the limits only by chance; the nearest local optimum does.
    rounded = shrink_means(reduced, bound.rounded)
    if reduced.violation(rounded) <= FEASIBLE:
        return rounded
    return _best_feasible(reduced, [refine(reduced, bound.rounded)]).basis


def _basis_first(reduced: ReducedProblem, solver: str, options: _Options) -> _Found:
    watch, tol = options.watch, options.tol
    largest = float(reduced.leading(reduced.d)[0].sum())
    candidates = [_first_basis(reduced, solver, _below(watch, largest))]
    if not options.certify:
        # A second ascent of a large problem costs as much as its certificate.
        if solver == "refined" and not reduced.is_large:
            guess = solve_tight(reduced, tol=tol, max_iter=0, known=candidates[0])
            _ascend_again(reduced, candidates, guess, top_basis(reduced), tol, options)
        best = _best_feasible(reduced, candidates)
        return _Found(best.basis, None, best.n_iter, solver, best.status)
    bound = solve_tight(
        reduced, tol=tol, max_iter=options.max_iter, known=candidates[0], watch=watch
    )
    if solver == "refined":
        for start, worth in _more_starts(reduced, bound):
            _ascend_again(reduced, candidates, bound, start, max(tol, worth), options)
        # Limits as narrow as rounding can defeat the ascent, but not the relaxation.
        candidates.append(replace(candidates[0], basis=bound.rounded, status=bound.status))
    best = _best_feasible(reduced, candidates)
    status = best.status if bound.status.converged else bound.status
    return _Found(best.basis, bound, best.n_iter + bound.n_iter, solver, status)


def _more_starts(reduced: ReducedProblem, bound: Bound) -> Iterator[tuple[Array, float]]:
    """Other starts, and the share of the objective that must be left to gain for each."""
    yield bound.rounded, _WORTH_A_GUESS if reduced.is_large else 0.0
    if not reduced.is_large:
        yield top_basis(reduced), 0.0
        random = np.random.default_rng(0).normal(size=(reduced.size, reduced.d))
        yield orthonormalize(random), _WORTH_A_GUESS


def _first_basis(reduced: ReducedProblem, solver: str, watch: Watch | None) -> Refined:
    if solver == "refined" and reduced.is_large and reduced.d > 1:
        # Newton's method gets from plain PCA to the same optimum in fewer steps than deflation has.
        return refine(reduced, top_basis(reduced), watch=watch)
    V, multipliers = deflate(reduced)
    if solver == "deflation" and reduced.violation(V) <= FEASIBLE:
        M = initial_multipliers(reduced, multipliers)
        return Refined(V, M, np.zeros(len(reduced.F)), 0, Status.CONVERGED)
    return refine(reduced, V, multipliers, watch=watch)


def _ascend_again(
    reduced: ReducedProblem,
    candidates: list[Refined],
    bound: Bound,
    start: Array,
    worth: float,
    options: _Options,
) -> None:
    """Ascend from another start where the bound leaves more than `worth` to gain, and work."""
    left = MOST_EVALUATIONS - sum(found.spent for found in candidates)
    if left > _LEAST_WORK and not _is_certified(reduced, candidates, bound, worth):
        known = [found.basis for found in candidates if found.status.converged]
        watch = _below(options.watch, bound.value)
        is_bold = worth >= _WORTH_A_GUESS
        candidates.append(
            refine(reduced, start, known=known, is_bold=is_bold, most=left, watch=watch)
        )


def _below(watch: Watch | None, bound: float) -> Watch | None:
    """Tell of a basis with the bound that is known already."""
    return None if watch is None else lambda at: watch(replace(at, bound=bound))


def _is_certified(
    reduced: ReducedProblem, candidates: list[Refined], bound: Bound, tol: float
) -> bool:
    return any(
        _is_feasible(reduced, found)
        and relative_gap(bound.value, reduced.objective(found.basis)) <= tol
        for found in candidates
    )


def _best_feasible(reduced: ReducedProblem, candidates: list[Refined]) -> Refined:
    inside = [replace(at, basis=shrink_means(reduced, at.basis)) for at in candidates]
    feasible = [found for found in inside if _is_feasible(reduced, found)]
    if feasible:
        return max(feasible, key=lambda found: reduced.objective(found.basis))
    closest = min(candidates, key=lambda found: reduced.violation(found.basis))
    return restore_feasibility(reduced, closest)


def _projected(reduced: ReducedProblem, found: _Found) -> _Found:
    # Where limits are narrow, a rounding outside of them is worth more than the bound forgives.
    is_above = found.bound is not None and reduced.objective(found.basis) > found.bound.value
    return replace(found, basis=project_to_feasible(reduced, found.basis)) if is_above else found


def _is_feasible(reduced: ReducedProblem, found: Refined) -> bool:
    return reduced.violation(found.basis) <= FEASIBLE


def _finish(problem: FairProblem, reduced: ReducedProblem, found: _Found) -> Solution:
    V = _ordered(reduced.basis @ found.basis, problem.covariance)
    scale = reduced.scale
    objective = float(np.sum(V * (problem.covariance @ V)))
    cov_gaps = symmetrize(V.T @ problem.cov_gaps @ V)
    cov_gap = max((float(np.linalg.norm(gap, 2)) for gap in cov_gaps), default=0.0)
    mean_gap = float(np.linalg.norm(problem.mean_gaps @ V, axis=1).max(initial=0.0))
    if problem.cov_tol is None:
        objective -= problem.cov_weight * cov_gap
    if found.bound is None:
        bound = relaxed = float(reduced.leading(reduced.d)[0].sum()) * scale
    else:
        bound, relaxed = found.bound.value * scale, found.bound.relaxed_value * scale
    rounding = 1e-12 * float(np.trace(problem.covariance))
    kept = replace(found, basis=reduced.basis.T @ V)
    _check(reduced, kept, objective - bound - rounding, abs(bound) + problem.cov_weight * cov_gap)
    bound = max(bound, objective)  # equal up to rounding where the solution is exact
    certificate = Certificate(
        objective=objective,
        bound=bound,
        mean_gap=mean_gap,
        cov_gap=cov_gap,
        relaxed_objective=relaxed,
        duality_gap=relative_gap(bound, relaxed),
        solver=found.method,
        converged=found.status.converged,
    )
    return Solution(V, certificate, found.n_iter, found.status)


def _check(reduced: ReducedProblem, found: _Found, above: float, size: float) -> None:
    # A certificate that is wrong must not leave the house, whatever went wrong before.
    if reduced.violation(found.basis) > 10.0 * FEASIBLE:
        raise RuntimeError(
            f"solver={found.method!r} found a basis outside its constraints; this is a fault of "
            "fairpca: please report it with the data, and use another solver."
        )
    if above > 1e-7 * size:
        raise RuntimeError(
            f"solver={found.method!r} found a basis better than its bound by {above:.3g}; this is "
            "a fault of fairpca: please report it with the data, and use another solver."
        )


def _ordered(V: Array, S: Array) -> Array:
    # Uncorrelated components, largest variance first, one sign convention.
    V = np.linalg.qr(V)[0]
    _, rotation = top_eigenpairs(symmetrize(V.T @ S @ V), V.shape[1])
    return fix_signs(V @ rotation)


def check_covariance_terms(cov_weight: float | None, cov_tol: float | None) -> None:
    """Refuse a penalty and a tolerance for the same covariance gap."""
    if cov_tol is not None and cov_weight is not None:
        raise InvalidInputError(
            f"cov_weight={cov_weight!r} and cov_tol={cov_tol!r} are both set; "
            "set one of them and leave the other None.",
            parameter="cov_weight",
        )


def check_objective(objective: str, solver: str) -> None:
    """Refuse a solver that does not know an objective."""
    if objective != OBJECTIVES[0] and solver != SOLVERS[0]:
        raise InvalidInputError(
            f"solver={solver!r} knows objective={OBJECTIVES[0]!r} only: use "
            f"solver={SOLVERS[0]!r} for objective={objective!r}.",
            parameter="solver",
        )
