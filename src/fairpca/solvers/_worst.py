"""The best basis for the worst-off group, and its certificate.

Without covariance term and bounded means the relaxation is solved to the last digits, and two
groups are exact. With them a basis is found by ascent, and the weights that the groups have there
make a problem with the single covariance Σw_gS_g, whose bound is a bound here too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fairpca.linalg import Array, orthonormalize, single_blas_thread, symmetrize
from fairpca.solvers._balance import balance
from fairpca.solvers._driver import Watch
from fairpca.solvers._exact import top_basis
from fairpca.solvers._feasibility import project_to_feasible
from fairpca.solvers._groups import (
    GroupObjectives,
    MinimaxWeights,
    solve_one_group,
    solve_two_groups,
)
from fairpca.solvers._problem import FairProblem, ReducedProblem, reduce_problem
from fairpca.solvers._solution import Certificate, Snapshot, Solution, Status, relative_gap
from fairpca.solvers._solve import (
    _basis_first,
    _check,
    _Found,
    _in_user_units,
    _Options,
    _ordered,
    _whole_space,
)
from fairpca.solvers._tight import solve_tight
from fairpca.solvers._weights import solve_minimax_weights

# Bases to ascend from, and ascents from each on a subspace that is extended after it.
_MOST_STARTS, _MOST_PASSES = 5, 3
# Values that differ by a smaller share are those of the same optimum.
_SAME = 1e-6
# Up to so many dimensions, ascent uses all of them.
_WHOLE_SPACE = 150
# What is smaller than this share of a group's own best is rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class _Answer:
    basis: Array
    weights: Array
    bound: float
    relaxed: float
    n_iter: int
    method: str
    status: Status = Status.CONVERGED


def solve_worst(
    problem: FairProblem,
    covariances: Array,
    offsets: Array,
    objective: str,
    *,
    certify: bool = True,
    tol: float = 1e-4,
    max_iter: int = 5000,
    callback: Callable[[Snapshot], None] | None = None,
) -> Solution:
    """Maximise the smallest group objective, and certify the basis.

    Parameters
    ----------
    problem : FairProblem
        Constraints and penalty; its covariance only orders the components.
    covariances : ndarray of shape (K, p, p)
        S_g, one for each group.
    offsets : ndarray of shape (K,)
        What is subtracted from the variance that a group keeps: its own best for the loss, zeros
        for the variance.
    objective : str
        What the certificate calls it.
    certify, tol, max_iter, callback
        As for `solve`. Without a covariance term the bound costs nothing, and is always computed.

    Returns
    -------
    Solution
        As of `solve`; `weights` are those of the groups in the bound. Its objective is
        min_g tr VᵀS_gV − offset_g, less the penalty of the covariance gap.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.solvers import FairProblem, solve_worst
    >>> groups = np.array([np.diag([4.0, 0.0, 1.0]), np.diag([0.0, 2.0, 1.0])])
    >>> problem = FairProblem(groups.mean(0), np.zeros((0, 3)), np.zeros((0, 3, 3)), 1)
    >>> found = solve_worst(problem, groups, np.zeros(2), "worst-variance")
    >>> round(found.certificate.objective, 6), found.weights.round(6).tolist()
    (1.333333, [0.333333, 0.666667])
    """
    with single_blas_thread():
        reduced = reduce_problem(problem, keeps_all=True)
        groups = _reduced_groups(reduced, covariances, offsets)
        watch = None if callback is None else _in_user_units(callback, reduced.scale)
        if reduced.d == reduced.size:
            found = _all_dimensions(reduced, groups)
        elif len(reduced.Q) or len(reduced.F):
            found = _constrained(reduced, groups, certify, tol, max_iter, watch)
        else:
            found = _pure(reduced, groups, tol, max_iter, watch)
        return _certified(problem, reduced, found, covariances, offsets, objective)


def _reduced_groups(reduced: ReducedProblem, covariances: Array, offsets: Array) -> GroupObjectives:
    N, scale = reduced.basis, reduced.scale
    if N.shape[0] == N.shape[1] and np.array_equal(N, np.eye(len(N))):
        return GroupObjectives(covariances / scale, offsets / scale, reduced.d)
    return GroupObjectives(symmetrize(N.T @ (covariances / scale) @ N), offsets / scale, reduced.d)


def _all_dimensions(reduced: ReducedProblem, groups: GroupObjectives) -> _Answer:
    V = _whole_space(reduced).basis
    values = groups.values(V)
    bound = float(values.min()) - reduced.penalty * reduced.cov_gap(V)
    weights = np.zeros(len(values))
    weights[np.argmin(values)] = 1.0
    return _Answer(V, weights, bound, bound, 0, "exact")


def _weigh(
    groups: GroupObjectives, tol: float, max_iter: int, watch: Watch | None
) -> MinimaxWeights:
    if len(groups.S) == 1:
        return solve_one_group(groups)
    if len(groups.S) == 2:
        return solve_two_groups(groups)
    return solve_minimax_weights(groups, tol=tol, max_iter=max_iter, watch=watch)


def _pure(
    reduced: ReducedProblem, groups: GroupObjectives, tol: float, max_iter: int, watch: Watch | None
) -> _Answer:
    """Solve the problem without covariance term and bounded means."""
    found = _weigh(groups, tol, max_iter, watch)
    total = top_basis(reduced)
    best = max(
        (*found.starts, total), key=lambda V: (groups.values(V).min(), np.vdot(V, reduced.S @ V))
    )
    ascent = _Ascents(reduced, groups, found, tol, best, watch)
    ascent.run()
    method = "exact" if len(groups.S) <= 2 else "weighted"
    status = Status.CONVERGED if found.is_solved else Status.ITERATION_LIMIT
    n_iter = found.n_iter + ascent.n_iter
    return _Answer(ascent.best, found.weights, found.bound, found.relaxed, n_iter, method, status)


class _Ascents:
    """Ascent from the rounded optimum and, where that is not enough, from random roundings."""

    def __init__(
        self,
        reduced: ReducedProblem,
        groups: GroupObjectives,
        found: MinimaxWeights,
        tol: float,
        best: Array,
        watch: Watch | None,
    ) -> None:
        self.problem, self.groups, self.found, self.watch = reduced, groups, found, watch
        self.best, self.value = best, float(groups.values(best).min())
        self.room = 0.1 * tol * abs(found.bound) + _ROUNDING * reduced.d
        self.n_iter = 0

    @property
    def is_certified(self) -> bool:
        return self.found.bound - self.value <= self.room

    def run(self) -> None:
        """Ascend until the bound is met, or the starts are used up."""
        random = np.random.default_rng([7, 20, 1018])
        start, reached = self.best, list[float]()
        for _ in range(_MOST_STARTS):
            if self.is_certified:
                return
            value = self._ascend(start)
            if any(abs(value - earlier) <= _SAME * abs(value) for earlier in reached):
                return  # where an ascent has been before
            reached.append(value)
            # A column of root·G has the relaxed point for its second moment.
            root = self.found.root
            start = orthonormalize(root @ random.normal(size=(root.shape[1], self.problem.d)))

    def _ascend(self, V: Array) -> float:
        """Ascend on a subspace around V, which is extended as long as that helps."""
        value = -np.inf
        for _ in range(_MOST_PASSES):
            T = _surroundings(self.groups, V, self.found)
            inner = self.problem.with_components(self.problem.d, T)
            found = balance(inner, self.groups.inside(T), T.T @ V, self.found.weights, self.watch)
            self.n_iter += found.refined.n_iter
            if found.basis is None or found.objective <= value + _SAME * abs(value):
                break
            V, value = T @ found.basis, found.objective
            if value > self.value:
                self.best, self.value = V, value
            if T.shape[1] == self.groups.size or self.is_certified:
                break
        return value


def _surroundings(groups: GroupObjectives, V: Array, found: MinimaxWeights) -> Array:
    """Return an orthonormal basis of where ascent from V leads, all of the space if it is small."""
    if groups.size <= _WHOLE_SPACE:
        return np.eye(groups.size)
    images = np.swapaxes(groups.S @ V, 0, 1).reshape(groups.size, -1)
    if images.shape[1] > _WHOLE_SPACE:
        images = np.linalg.svd(images, full_matrices=False)[0][:, :_WHOLE_SPACE]
    return np.asarray(np.linalg.qr(np.column_stack([V, *found.starts, images, found.root]))[0])


def _constrained(
    reduced: ReducedProblem,
    groups: GroupObjectives,
    certify: bool,
    tol: float,
    max_iter: int,
    watch: Watch | None,
) -> _Answer:
    """Ascend from the unconstrained optimum and from the best basis of its weighted problem."""
    free = _weigh(groups, tol, max_iter, watch)
    options = _Options(False, tol, max_iter, None, "at-most", watch)
    weighted = _basis_first(replace(reduced, S=groups.matrix(free.weights)), "refined", options)
    ascents = [
        balance(reduced, groups, start, free.weights, watch)
        for start in (weighted.basis, free.starts[0])
    ]
    best = max(ascents, key=lambda found: found.objective)
    assert best.basis is not None  # the first start meets the limits
    n_iter = free.n_iter + sum(found.refined.n_iter for found in ascents)
    bound, relaxed, status, weights = free.bound, free.relaxed, Status.CONVERGED, free.weights
    for w in (best.weights, free.weights) if certify else ():
        if bound - best.objective <= tol * abs(bound):
            break
        known = replace(best.refined, basis=best.basis)
        proven = solve_tight(
            replace(reduced, S=groups.matrix(w)),
            tol=tol,
            max_iter=max_iter,
            known=known,
            watch=watch,
        )
        n_iter += proven.n_iter
        value = proven.value - float(w @ groups.offsets)
        if value < bound:
            bound, weights, status = value, w, proven.status
            relaxed = proven.relaxed_value - float(w @ groups.offsets)
    basis = project_to_feasible(reduced, best.basis) if best.objective > bound else best.basis
    return _Answer(basis, weights, bound, relaxed, n_iter, "refined", status)


def _certified(
    problem: FairProblem,
    reduced: ReducedProblem,
    found: _Answer,
    covariances: Array,
    offsets: Array,
    objective: str,
) -> Solution:
    V = _ordered(reduced.basis @ found.basis, problem.covariance)
    kept = np.einsum("gij,ij->g", covariances @ V, V)
    cov_gaps = symmetrize(V.T @ problem.cov_gaps @ V)
    cov_gap = max((float(np.linalg.norm(gap, 2)) for gap in cov_gaps), default=0.0)
    penalty = 0.0 if problem.cov_tol is not None else problem.cov_weight
    rounding = _ROUNDING * float(np.max(np.maximum(np.abs(offsets), kept)))
    value = _without_rounding(float((kept - offsets).min()), rounding) - penalty * cov_gap
    bound = _without_rounding(found.bound * reduced.scale, rounding)
    size = float(kept.max()) + float(np.abs(offsets).max()) + penalty * cov_gap
    _check(reduced, _Found(found.basis, None, 0, found.method), value - bound, size)
    bound = max(bound, value)  # equal up to rounding where the solution is exact
    relaxed = min(found.relaxed * reduced.scale, bound)
    certificate = Certificate(
        objective=value,
        bound=bound,
        mean_gap=float(np.linalg.norm(problem.mean_gaps @ V, axis=1).max(initial=0.0)),
        cov_gap=cov_gap,
        relaxed_objective=relaxed,
        duality_gap=relative_gap(bound, relaxed),
        solver=found.method,
        converged=found.status.converged,
        criterion=objective,
    )
    return Solution(V, certificate, found.n_iter, found.status, found.weights)


def _without_rounding(value: float, rounding: float) -> float:
    # A loss of nothing must not be a loss of 1e-16, of which half could be saved.
    return 0.0 if abs(value) <= rounding else value
