"""From a problem to an ordered basis with its certificate: one driver for every objective."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fairpca._choices import OBJECTIVES, SOLVERS
from fairpca.exceptions import InvalidInputError
from fairpca.linalg import (
    Array,
    fix_signs,
    shrink_means,
    single_blas_thread,
    spectral_norms,
    symmetrize,
    top_eigenpairs,
)
from fairpca.solvers._exact import bounded_mean_basis
from fairpca.solvers._problem import FEASIBLE, FairProblem, ReducedProblem, reduce_problem
from fairpca.solvers._refinement import refine
from fairpca.solvers._solution import (
    PROVEN,
    Bound,
    Certificate,
    Options,
    Snapshot,
    Solution,
    Status,
    relative_gap,
)
from fairpca.solvers._starts import (
    Outcome,
    best_feasible,
    check_means,
    project_to_feasible,
    refined_basis,
    unattainable_mean_tol,
)
from fairpca.solvers._tight import solve_tight

# Smaller shares of the variance are rounding.
_ROUNDING = 1e-12


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
        "deflation" finds one component after the other, so that its components are nested: d = 2
        lies in d = 4. "refined" improves all of them together, keeps more variance, and is not
        nested. "tight" and "paper" round the point of a relaxation. Without a covariance term the
        exact eigen-solution is used, whatever the solver. Group objectives need "refined".
    certify : bool
        Whether "refined" and "deflation" compute the bound of the tight relaxation. Without it
        the bound is the variance of the unconstrained problem: valid, but loose. That of group
        objectives without a covariance term costs nothing, and is always computed.
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
        number of iterations, the `Status` that says why it ended, and the weights of the groups
        in the bound.

    See Also
    --------
    FairProblem : What is solved.
    fairpca.FairPCA : The same from rows.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.solvers import FairProblem, solve
    >>> Q = np.diag([1.0, -1.0, 0.0, 0.0])
    >>> S, no_means = np.diag([4.0, 3.0, 2.0, 1.0]), np.zeros((0, 4))
    >>> problem = FairProblem(S, no_means, Q[None], 1, cov_tol=0)
    >>> round(solve(problem).certificate.objective, 6)
    3.5

    The variance of the group that keeps least:

    >>> groups = np.array([np.diag([4.0, 0.0, 1.0]), np.diag([0.0, 2.0, 1.0])])
    >>> problem = FairProblem(
    ...     groups.mean(0), np.zeros((0, 3)), np.zeros((0, 3, 3)), 1, group_covariances=groups
    ... )
    >>> solution = solve(problem)
    >>> round(solution.certificate.objective, 6), solution.weights.round(6).tolist()
    (1.333333, [0.333333, 0.666667])
    """
    if solver not in SOLVERS:
        known = ", ".join(SOLVERS)
        raise InvalidInputError(
            f"solver={solver!r} is unknown; choose one of {known}.", parameter="solver"
        )
    if problem.group_covariances is not None:
        check_objective(problem.group_objectives.criterion, solver)
    options = Options(certify, tol, max_iter, cov_shift, trace)
    with single_blas_thread():
        reduced = reduce_problem(problem)
        if callback is not None:
            options = replace(options, watch=lambda at: callback(at.scaled(reduced.scale)))
        outcome = _find(reduced, solver, options)
        # Where limits are narrow, a rounding outside of them is worth more than the bound forgives.
        has_limits, bound = len(reduced.Q) + len(reduced.F) > 0, outcome.bound
        highest = np.inf if bound is None else bound.value + _ROUNDING * float(np.trace(reduced.S))
        if has_limits and reduced.objective(outcome.basis) > highest:
            outcome = replace(outcome, basis=project_to_feasible(reduced, outcome.basis))
        return _certify(problem, reduced, outcome, tol)


def _find(reduced: ReducedProblem, solver: str, options: Options) -> Outcome:
    """Choose the method: exact where it can be, otherwise as the solver says."""
    if solver == "paper" and reduced.limit is not None:
        raise InvalidInputError(
            "solver='paper' has no constrained form, but cov_tol was given. Use cov_weight, or "
            "another solver.",
            parameter="solver",
        )
    if reduced.d == reduced.size:
        return _whole_space(reduced)
    if reduced.groups is not None:
        from fairpca.solvers._groups import solve_groups  # not needed by other objectives

        return solve_groups(reduced, options)
    if not len(reduced.Q) and len(reduced.F) <= 1:
        if len(reduced.F):
            V, value = bounded_mean_basis(reduced)
        else:
            values, V = reduced.leading(reduced.d)
            value = float(values.sum())
        return Outcome(V, Bound(value, value, V), 0, "exact")
    if solver == "paper" and len(reduced.Q):
        from fairpca.solvers._paper import solve_paper  # not needed by other solvers

        if len(reduced.F):
            check_means(reduced)
        bound = solve_paper(reduced, options)
    elif solver == "tight":
        bound = solve_tight(reduced, options)
    else:
        return refined_basis(reduced, solver, options)
    return _round(reduced, bound, solver)


def _whole_space(reduced: ReducedProblem) -> Outcome:
    """As many components as dimensions: there is one subspace only, feasible or not."""
    V = np.eye(reduced.size)
    if reduced.violation(V) > FEASIBLE and reduced.mean_excess(V) > 0.0:
        raise unattainable_mean_tol(reduced)
    value, weights = reduced.objective(V), np.zeros(0)
    if reduced.groups is not None:
        values = reduced.groups.values(V)
        weights = np.eye(len(values))[np.argmin(values)]
    return Outcome(V, Bound(value, value, V, weights=weights), 0, "exact")


def _round(reduced: ReducedProblem, bound: Bound, solver: str) -> Outcome:
    # The rounded point meets the limits only by chance; the nearest local optimum does.
    rounded = shrink_means(reduced.F, reduced.mean_limit, bound.rounded)
    if reduced.violation(rounded) <= FEASIBLE:
        return Outcome(rounded, bound, bound.n_iter, solver)
    best = best_feasible(reduced, [refine(reduced, bound.rounded)])
    return Outcome(best.basis, bound, bound.n_iter, solver, best.status)


def _certify(
    problem: FairProblem, reduced: ReducedProblem, outcome: Outcome, tol: float
) -> Solution:
    """Order the components, and measure them and their bound in the user's units."""
    # Uncorrelated components, largest variance first, one sign convention.
    V = np.linalg.qr(reduced.basis @ outcome.basis)[0]
    V = fix_signs(V @ top_eigenpairs(symmetrize(V.T @ problem.covariance @ V), V.shape[1])[1])
    objectives = problem.group_objectives
    values, offsets = objectives.values(V), objectives.offsets
    cov_gap = float(spectral_norms(symmetrize(V.T @ problem.cov_gaps @ V)).max(initial=0.0))
    cov_term = 0.0 if problem.cov_tol is not None else problem.cov_weight * cov_gap
    size = float(max(np.trace(problem.covariance), np.abs(offsets).max(), (values + offsets).max()))
    bound = outcome.bound
    if bound is None:
        # Not certified: no basis has more variance than plain PCA.
        largest = float(reduced.leading(reduced.d)[0].sum())
        bound = Bound(largest, largest, V)
    # A loss of nothing must not be a loss of 1e-16, of which half could be saved.
    kept = None if problem.target is None else float(np.sum(V * (problem.target @ V)))
    reward = problem.target_weight * (kept or 0.0)
    exact = np.array([values.min() - cov_term, bound.value * reduced.scale - reward])
    objective, proven = np.where(np.abs(exact) <= _ROUNDING * size, 0.0, exact).tolist()
    _check(
        reduced, outcome.method, V, objective - proven - _ROUNDING * size, size + cov_term + reward
    )
    proven = max(proven, objective)  # equal up to rounding where the solution is exact
    relaxed = min(bound.relaxed_value * reduced.scale - reward, proven)
    settled = outcome.status
    if settled is Status.UNSETTLED and relative_gap(proven + reward, objective + reward) <= tol:
        settled = Status.CONVERGED  # an ascent has nothing left to gain
    certificate = Certificate(
        objective=objective,
        bound=proven,
        mean_gap=float(np.linalg.norm(problem.mean_gaps @ V, axis=1).max(initial=0.0)),
        cov_gap=cov_gap,
        relaxed_objective=relaxed,
        duality_gap=relative_gap(proven, relaxed),
        solver=outcome.method,
        basis_settled=settled.converged and outcome.method not in ("tight", "paper"),
        bound_solved=outcome.bound is not None and bound.status.converged,
        criterion=objectives.criterion,
        level=max(PROVEN, tol),
        target_kept=kept,
    )
    status = settled if bound.status.converged else bound.status
    weights = None if problem.group_covariances is None else bound.weights
    return Solution(V, certificate, outcome.n_iter, status, weights)


def _check(reduced: ReducedProblem, method: str, V: Array, above: float, size: float) -> None:
    """Raise instead of returning a wrong certificate, whatever went wrong before."""
    fault = ""
    if reduced.violation(reduced.basis.T @ V) > 10.0 * FEASIBLE:
        fault = "outside its constraints"
    if above > 1e-7 * size:
        fault = f"better than its bound by {above:.3g}"
    if fault:
        raise RuntimeError(
            f"solver={method!r} found a basis {fault}; this is a fault of fairpca: please report "
            "it with the data, and use another solver."
        )


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
