"""The best basis for the group with the smallest objective: its bound, its starts, its ascent.

S_g: covariance of group g, β_g: its offset, w: weights on the simplex. For every w the d largest
eigenvalues of Σw_gS_g, less w·β, bound min_g ⟨S_g, P⟩ − β_g. Ascent is that of `_refinement` with
S = Σw_gS_g, where w follows the basis: the minimum over groups is a minimum over the simplex.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairpca.linalg import Array, shared_level, shrink_means, top_eigenpairs
from fairpca.solvers._exact import solve_two_groups
from fairpca.solvers._lagrangian import Evaluation, Lagrangian, Multipliers
from fairpca.solvers._problem import FEASIBLE, GroupObjectives, ReducedProblem
from fairpca.solvers._refinement import TIGHTLY_FEASIBLE, Ascent, Refined, initial_multipliers
from fairpca.solvers._solution import Bound, Options, Snapshot, Status, Watch, drive
from fairpca.solvers._starts import Outcome, refined_basis
from fairpca.solvers._tight import solve_tight

# Bases to ascend from, and ascents from each on a subspace that is extended after it.
_MOST_STARTS, _MOST_PASSES = 5, 3
# Values that differ by a smaller share are those of the same optimum.
_SAME = 1e-6
# Up to so many dimensions, ascent uses all of them.
_WHOLE_SPACE = 150
# Differences below this are rounding: the mean variance of a reduced problem is one.
_ROUNDING = 1e-12
_MOST_UPDATES = 40
# Groups with a weight are alike to this share of the largest eigenvalue.
_ALIKE = 1e-8
# Raises of the step of the weights; more of them only stiffen the ascent.
_MOST_RAISES = 6
_LAST_GRADIENT = 1e-8


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
    return Outcome(basis, bound, bound.n_iter + n_iter, method, bound.status)


def _relax(free: ReducedProblem, groups: GroupObjectives, options: Options) -> Bound:
    """Bound the problem without limits: exactly for one and two groups, by the relaxation else."""
    if len(groups.S) == 1:
        values, V = top_eigenpairs(groups.S[0], free.d)
        value = float(values.sum() - groups.offsets[0])
        return Bound(value, value, V, weights=np.ones(1), root=V)
    if len(groups.S) == 2:
        return solve_two_groups(groups, free.d)
    # A tenth of the tolerance: the weights are the start of everything that follows.
    return solve_tight(free, replace(options, tol=0.02 * options.tol))


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
        V, new, steps = _ascend(reduced, groups, start, bound, leading, enough, options.watch)
        n_iter += steps
        if new > value:
            best, value = V, new
        if any(abs(new - earlier) <= _SAME * abs(new) for earlier in reached):
            break  # where an ascent has been before
        reached.append(new)
        start = np.linalg.qr(bound.root @ random.normal(size=(bound.root.shape[1], reduced.d)))[0]
    return best, n_iter


def _ascend(
    reduced: ReducedProblem,
    groups: GroupObjectives,
    V: Array,
    bound: Bound,
    leading: Array,
    enough: float,
    watch: Watch | None,
) -> tuple[Array, float, int]:
    """Ascend on a subspace around V, which is extended as long as that helps."""
    value, n_iter = -np.inf, 0
    for _ in range(_MOST_PASSES):
        T = np.eye(reduced.size)
        if reduced.size > _WHOLE_SPACE:
            # Where the gradient of any group leads, and where the relaxed point is.
            images = np.swapaxes(groups.S @ V, 0, 1).reshape(reduced.size, -1)
            if images.shape[1] > _WHOLE_SPACE:
                images = np.linalg.svd(images, full_matrices=False)[0][:, :_WHOLE_SPACE]
            spanning = np.column_stack([V, bound.rounded, leading, images, bound.root])
            T = np.linalg.qr(spanning)[0]
        ascent = ascend_groups(reduced.inside(T, reduced.d), T.T @ V, bound.weights, watch)
        n_iter += ascent.ascent.n_iter
        if ascent.best is None or ascent.objective <= value + _SAME * abs(value):
            break
        V, value = T @ ascent.best, ascent.objective
        if T.shape[1] == reduced.size or value >= enough:
            break
    return V, value, n_iter


def _constrained(
    reduced: ReducedProblem, groups: GroupObjectives, free: Bound, options: Options
) -> Outcome:
    """Ascend from the unconstrained optimum and from the best basis of its weighted problem."""
    weighted = replace(reduced, S=groups.matrix(free.weights), groups=None)
    first = refined_basis(weighted, "refined", replace(options, certify=False))
    ascents = [
        ascend_groups(reduced, start, free.weights, options.watch)
        for start in (first.basis, free.rounded)
    ]
    best = max(ascents, key=lambda ascent: ascent.objective)
    assert best.best is not None  # the first start meets the limits
    n_iter = free.n_iter + sum(ascent.ascent.n_iter for ascent in ascents)
    bound = free
    if options.certify and free.value - best.objective > options.tol * abs(free.value):
        proven = solve_tight(reduced, options, best.refined)
        n_iter += proven.n_iter
        bound = min(proven, free, key=lambda at: at.value)
    return Outcome(best.best, bound, n_iter, "refined", bound.status)


def ascend_groups(
    reduced: ReducedProblem, start: Array, weights: Array, watch: Watch | None
) -> GroupAscent:
    """Ascend to a local optimum of the smallest group objective, less penalty, within limits."""
    ascent = GroupAscent(reduced, start, weights)
    ascent.status, _ = drive(ascent, _MOST_UPDATES, watch)
    return ascent


class _GroupLagrangian(Lagrangian):
    """The augmented Lagrangian with S = Σw_gS_g, where w is the simplex point next to V's."""

    # min_g v_g is the minimum of w·v over the simplex. Its augmented form moves w from the current
    # weights to Π(w − σv), the projection onto the simplex, and charges ‖Δw‖²/2σ for it.

    def __init__(self, reduced: ReducedProblem, groups: GroupObjectives, weights: Array) -> None:
        super().__init__(reduced, initial_multipliers(reduced, None))
        self.groups, self.w = groups, weights
        self.group_rows = groups.S.reshape(-1, reduced.size)
        self.w_step = 4.0 / self.unit
        self.now = self.values = weights

    def weigh(self, V: Array) -> Array:
        """Set the values of the groups and the weights they call for; return Σw_gS_gV."""
        images = (self.group_rows @ V).reshape(len(self.w), *V.shape)
        self.values = np.einsum("gij,ij->g", images, V) - self.groups.offsets
        shifted = self.w - self.w_step * self.values
        shifted += 1.0 / len(shifted) - shifted.min()
        self.now = np.maximum(shifted - shared_level(shifted, 1.0), 0.0)
        return np.asarray(np.tensordot(self.now, images, 1))

    def products(self, V: Array) -> tuple[Array, Array, Array]:
        """ΣwSV, the stack of Q_cV, and the stack of B_c."""
        return (self.weigh(V), *super().products(V)[1:])

    def evaluate(self, V: Array, multipliers: Multipliers | None = None) -> Evaluation:
        """Evaluate with the weights that V calls for, and what their change costs."""
        at = super().evaluate(V, multipliers)
        value = at.value + float(self.now @ self.groups.offsets)
        change = float(np.sum((self.now - self.w) ** 2))
        return at._replace(value=value - change / (2.0 * self.w_step))


class GroupAscent:
    """An ascent whose updates include the weights of the groups; it keeps the best basis."""

    def __init__(self, reduced: ReducedProblem, start: Array, weights: Array) -> None:
        assert reduced.groups is not None
        self.lagrangian = _GroupLagrangian(reduced, reduced.groups, weights)
        # Newton's method knows a single covariance only.
        self.ascent = Ascent(self.lagrangian, start, is_newton=None)
        self.best: Array | None = None
        self.objective, self.weights, self.status = -np.inf, weights, Status.UNSETTLED
        self.unlike, self.w_raises = np.inf, 0
        self._keep(start)

    @property
    def refined(self) -> Refined:
        """The best basis with the multipliers of the last one."""
        assert self.best is not None
        M, b = self.lagrangian.M, self.lagrangian.b
        return Refined(self.best, M, b, self.ascent.n_iter, self.status, weights=self.weights)

    def _keep(self, V: Array) -> None:
        reduced = self.ascent.problem
        V = shrink_means(reduced.F, reduced.mean_limit, V)
        objective = reduced.objective(V)
        # What sticks out is worth its multiplier; only for want of a better basis is it kept.
        allowed = FEASIBLE if self.best is None else TIGHTLY_FEASIBLE
        if objective > self.objective and reduced.violation(V) <= allowed:
            self.best, self.objective, self.weights = V, objective, self.lagrangian.w

    def step(self, number: int) -> Status | None:
        """Ascend, then update the multipliers and the weights."""
        ascent, lagrangian = self.ascent, self.lagrangian
        last, accuracy = self.unlike, ascent.accuracy
        ascent.step(number)
        lagrangian.weigh(ascent.V)
        change = float(np.abs(lagrangian.now - lagrangian.w).max())
        lagrangian.w, values = lagrangian.now, lagrangian.values
        # At an optimum every group with a weight has the smallest value.
        self.unlike = float(lagrangian.w @ values - values.min()) / lagrangian.unit
        self._keep(ascent.V)
        if self.unlike > max(0.25 * last, _ALIKE):
            lagrangian.w_step *= 4.0
            self.w_raises += 1
        if ascent.ended is Status.CONVERGED and self.unlike > _ALIKE:
            ascent.ended = None if self.w_raises <= _MOST_RAISES else Status.UNSETTLED
        wanted = 0.1 * max(min(ascent.change, 1.0), change)
        ascent.accuracy = max(min(0.1 * accuracy, wanted), _LAST_GRADIENT)
        return ascent.ended

    def snapshot(self, number: int) -> Snapshot:
        """No bound yet, and the objective of the basis at hand."""
        return self.ascent.snapshot(number)
