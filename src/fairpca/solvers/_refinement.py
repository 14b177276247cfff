"""Local optimisation on the Grassmann manifold by an augmented Lagrangian.

Small problems ascend by L-BFGS, large ones by Newton's method, which takes over where L-BFGS gets
nowhere and finds the last digits. Bases of many columns ascend by L-BFGS in coordinates stretched
by the diagonal of the curvature: Newton's method would factorise one matrix for each column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.optimize
from scipy.linalg import lapack

from fairpca.linalg import Array, shrink_means
from fairpca.solvers._lagrangian import Lagrangian, Multipliers
from fairpca.solvers._newton import ascend, leading_span, polish, stretch
from fairpca.solvers._problem import FEASIBLE, ReducedProblem
from fairpca.solvers._solution import Snapshot, Status, Watch, drive

# What an ascent counts as satisfied, relative to the size of the gaps.
TIGHTLY_FEASIBLE = 1e-9
_SETTLED = 1e-7
# Multipliers changing by less than this are close enough for Newton's method.
_POLISH_FROM = 0.1
_LARGEST_TURN = 0.05
_FIRST_GRADIENT = 1e-3
_LAST_GRADIENT = 1e-8
# Where L-BFGS needs more than this the problem is ill-conditioned, and Newton's method takes over.
_INNER_ITERATIONS = 100
_OUTER_ITERATIONS = 40
# Of many columns: steps before they are stretched again, and the gain of a round, as a share of the
# objective, below which the rest is not worth its time. L-BFGS' memory costs more than evaluating.
_STRETCHED_ITERATIONS, _STRETCHED_MEMORY, _STRETCHED_GAIN = 40, 8, 5e-6
_STRETCHED_GRADIENT, _STRETCHED_ENTRIES = 1e-6, 15000
# The change of multipliers up to which such a basis counts as an optimum, and rounds without gain.
_STRETCHED_CHANGE, _STRETCHED_IDLE = 0.05, 2
# Evaluations, not iterations, are what costs: on kinks a line search takes many.
_INNER_EVALUATIONS = 200
# Of one ascent, and of all ascents of a solve together.
MOST_EVALUATIONS = 6000
_ENTRIES_PER_EVALUATION = 1500
# A violation that outlives so many raises of the penalty is there to stay.
_MOST_RAISES = 10
_MEMORY = 20
_NUDGE = 1e-3
# Of columns this close to dependent a Cholesky factor of their products leaves too few digits.
_DEPENDENT = 1e-4
# Groups with a weight are alike to this share of the largest eigenvalue.
_ALIKE = 1e-8
# Raises of the step of the weights; more of them only stiffen the ascent.
_MOST_WEIGHT_RAISES = 6


@dataclass(frozen=True)
class Refined:
    """A locally optimal basis with its multipliers (2C, d, d) of ±B_c and (m,) of the means."""

    basis: Array
    multipliers: Array
    mean_costs: Array
    n_iter: int
    status: Status
    spent: int = 0
    weights: Array | None = None


def refine(
    reduced: ReducedProblem,
    start: Array,
    multipliers: Array | None = None,
    *,
    weights: Array | None = None,
    known: Sequence[Array] = (),
    is_bold: bool = False,
    stiffness: float = 1.0,
    most: int = MOST_EVALUATIONS,
    watch: Watch | None = None,
    bound: float = np.inf,
) -> Refined:
    """Improve an orthonormal basis to a local optimum of the problem, feasible to 1e-9 relative."""
    # `multipliers` (d, n_contrasts) are a guess from deflation, one signed number per component and
    # contrast. With `weights` of the groups their smallest objective is maximised. Ascent that
    # comes close to one of the `known` optima stops there, and any after `most` evaluations. A bold
    # one is Newton's, whatever the size of the problem. A stiff one stays next to the limits. The
    # `bound` known so far is only reported.
    lagrangian = Lagrangian(reduced, multipliers, weights)
    lagrangian.step *= stiffness
    lagrangian.mean_step *= stiffness
    # What is next to something known already is not worth as much work.
    most = min(most, MOST_EVALUATIONS // (1 + len(known)))
    ascent = BasisAscent(lagrangian, start, known, most, is_newton=reduced.is_large or is_bold)
    ascent.bound = bound
    status, _ = drive(ascent, _OUTER_ITERATIONS, watch)
    if status is Status.ITERATION_LIMIT:
        status = ascent.status_at_limit
    V, M, b, (_, best, w) = ascent.V, lagrangian.M, lagrangian.b, ascent.best
    V = V if best is None else best
    return Refined(V, M, b, ascent.n_iter, status, ascent.spent, w)


class BasisAscent:
    """Multiplier updates, each after ascent to an accuracy that grows with their precision."""

    # With group objectives it is L-BFGS to the end, since Newton's method knows a single covariance
    # only, and the best feasible basis on the way is the result.

    def __init__(
        self,
        lagrangian: Lagrangian,
        start: Array,
        known: Sequence[Array] = (),
        most: int = MOST_EVALUATIONS,
        *,
        is_newton: bool,
    ) -> None:
        self.problem, self.lagrangian, self.V = lagrangian.problem, lagrangian, start
        self.known, self.most = known, most
        has_groups = lagrangian.w is not None
        self.may_turn = self.problem.suits_newton and not has_groups
        self.is_stretched = self.problem.has_many_columns
        self.is_newton = is_newton and not has_groups and not self.is_stretched
        self.next_polish = -np.inf if has_groups or self.is_stretched else _POLISH_FROM
        self.n_iter, self.spent, self.raised = 0, 0, 0
        self.accuracy, self.change, self.violation = _FIRST_GRADIENT, np.inf, np.inf
        self.ended: Status | None = None
        self.objective, self.idle, self.bound = -np.inf, 0, np.inf
        # Objective, basis and weights of the groups there.
        self.best: tuple[float, Array | None, Array | None] = (-np.inf, None, lagrangian.w)
        self.unlike, self.weight_raises = np.inf, 0
        if has_groups:
            self._keep()

    def step(self, number: int) -> Status | None:
        """Ascend, update the multipliers, and try Newton's method once they are close."""
        lagrangian, last, accuracy = self.lagrangian, self.violation, self.accuracy
        method = ascend if self.is_newton else _ascend_by_gradients
        left = self.most - self.spent
        self.V, steps, evaluations = method(lagrangian, self.V, self.accuracy, left)
        self.is_newton |= self.may_turn and steps >= _INNER_ITERATIONS
        self.n_iter, self.spent = self.n_iter + steps, self.spent + evaluations
        new = lagrangian.evaluate(self.V).multipliers
        self.change = 0.0
        for after, before in ((new.M, lagrangian.M), (new.b, lagrangian.b)):
            self.change += float(np.linalg.norm(after - before) / (np.linalg.norm(after) or 1.0))
        lagrangian.M, lagrangian.b = new.M, new.b
        self.violation = self.problem.violation(self.V)
        if self.problem.limit is None and len(self.problem.Q):
            # Under a penalty the shared bound s plays the limit's part: B_c may not exceed it.
            excess = max(self.problem.cov_gap(self.V) - new.s, 0.0)
            self.violation = max(excess / max(self.problem.cov_scale, 1e-300), self.violation)
        most_raises = 2 * _MOST_RAISES if self.is_stretched else _MOST_RAISES
        is_lost = self.raised > most_raises and self.violation > TIGHTLY_FEASIBLE
        end = self._end_stretched if self.is_stretched else self._end
        self.ended = end(new, is_spent=is_lost or self.spent > self.most)
        if self.violation > max((0.5 if self.is_stretched else 0.25) * last, TIGHTLY_FEASIBLE):
            self._press(steps)
        # Ascent closer than the multipliers are is wasted, and on kinks it takes forever.
        if self.is_newton:
            wanted = min(0.3 * self.accuracy, 0.01 * self.change)
            self.accuracy = max(wanted, 0.1 * _LAST_GRADIENT)
        elif self.is_stretched:
            wanted = min(0.3 * self.accuracy, 0.1 * self.change)
            self.accuracy = max(wanted, _STRETCHED_GRADIENT)
        else:
            wanted = max(0.1 * min(self.accuracy, self.change), _LAST_GRADIENT)
            self.accuracy = max(wanted, 0.01 * self.violation)
        if lagrangian.w is not None:
            self._weigh_groups(lagrangian.w, accuracy)
        return self.ended

    def _weigh_groups(self, before: Array, accuracy: float) -> None:
        """Update the weights; the ascent ends only where the groups that have one are alike."""
        lagrangian, last = self.lagrangian, self.unlike
        w, values, _ = lagrangian.weigh(self.V)
        lagrangian.w, change = w, float(np.abs(w - before).max())
        # At an optimum every group with a weight has the smallest value.
        self.unlike = float(w @ values - values.min()) / lagrangian.unit
        self._keep()
        if self.unlike > max(0.25 * last, _ALIKE):
            lagrangian.w_step *= 4.0
            self.weight_raises += 1
        if self.ended is Status.CONVERGED and self.unlike > _ALIKE:
            self.ended = None if self.weight_raises <= _MOST_WEIGHT_RAISES else Status.UNSETTLED
        wanted = 0.1 * max(min(self.change, 1.0), change)
        self.accuracy = max(min(0.1 * accuracy, wanted), _LAST_GRADIENT)

    def _keep(self) -> None:
        reduced, (best, kept, _) = self.problem, self.best
        V = shrink_means(reduced.F, reduced.mean_limit, self.V)
        objective = reduced.objective(V)
        # What sticks out is worth its multiplier; only for want of a better basis is it kept.
        allowed = FEASIBLE if kept is None else TIGHTLY_FEASIBLE
        if objective > best and reduced.violation(V) <= allowed:
            self.best = objective, V, self.lagrangian.w

    def _press(self, steps: int) -> None:
        """Leave a saddle, or raise the penalty step, where a violation stays."""
        lagrangian = self.lagrangian
        if steps == 0 and lagrangian.slope <= _LAST_GRADIENT and self.ended is None:
            # Stationary but infeasible: a saddle, which the gradient alone does not leave.
            self.V = nudge(self.V)
        if steps or not self.is_newton:
            self.raised += 1
            lagrangian.step *= 4.0
            lagrangian.mean_step *= 4.0

    def _end(self, multipliers: Multipliers, *, is_spent: bool) -> Status | None:
        # Where an ascent has been before, the last digits are known already.
        if any(_turn(self.V, optimum) <= _LARGEST_TURN for optimum in self.known):
            return Status.UNSETTLED
        if max(self.change, self.violation) <= self.next_polish:
            if self._polish(multipliers):
                return Status.CONVERGED
            self.next_polish *= 0.1
        if is_spent:
            return self.status_at_limit
        is_settled = self.violation <= TIGHTLY_FEASIBLE and self.change <= _SETTLED
        is_flat = max(self.accuracy, self.lagrangian.slope) <= _LAST_GRADIENT
        return Status.CONVERGED if is_settled and is_flat else None

    def _polish(self, multipliers: Multipliers) -> bool:
        """Find the last digits by Newton's method; False where it leads elsewhere."""
        polished = polish(self.lagrangian, self.V, multipliers)
        if polished is None:
            return False
        # Newton knows stationary points, not maxima: only one next to where ascent led will do. Of
        # a large basis every column may turn a little.
        reduced, (V, (M, b, _)) = self.problem, polished
        allowed = 4.0 * _LARGEST_TURN if reduced.is_large else _LARGEST_TURN
        is_near = reduced.violation(V) <= TIGHTLY_FEASIBLE and _turn(self.V, V) <= allowed
        if not is_near or np.linalg.eigvalsh(M).min(initial=0.0) < -1e-6:
            return False
        self.V, self.lagrangian.M, self.lagrangian.b = V, M, b
        return True

    def _end_stretched(self, multipliers: Multipliers, *, is_spent: bool) -> Status | None:
        """End where a round brings nothing that a certificate of so many columns could tell."""
        last, self.objective = self.objective, self.problem.objective(self.V)
        gain = abs(self.objective - last)
        is_inside = self.problem.violation(self.V) <= FEASIBLE
        if is_inside and gain <= _STRETCHED_GAIN * max(abs(self.objective), self.lagrangian.unit):
            # A stiff penalty makes every step short: only multipliers that stay show an optimum.
            is_settled = self.change <= _STRETCHED_CHANGE
            self.idle += 1
            if is_settled or (self.may_turn and self._polish(multipliers)):
                return Status.CONVERGED
            if self.idle > _STRETCHED_IDLE:
                return Status.UNSETTLED
        return Status.UNSETTLED if is_spent else None

    @property
    def status_at_limit(self) -> Status:
        """Without Newton's last digits the basis can be as good as any certificate can tell."""
        is_settled = self.violation <= 100.0 * TIGHTLY_FEASIBLE and self.change <= 1000.0 * _SETTLED
        is_flat = self.lagrangian.slope <= 1000.0 * _LAST_GRADIENT
        return Status.CONVERGED if is_settled and is_flat else Status.UNSETTLED

    def snapshot(self, number: int) -> Snapshot:
        """Objective of the basis at hand, and the bound that is known already."""
        return Snapshot("basis", number, self.bound, self.problem.objective(self.V))


def _ascend_by_gradients(
    lagrangian: Lagrangian, V: Array, accuracy: float, most: int
) -> tuple[Array, int, int]:
    """L-BFGS over all full-rank matrices Y, through their orthonormal factors V = Y·root⁻ᵀ."""
    # The function is constant along the orbit Y·R, so its gradient is (I − VVᵀ)·gradient(V)·root⁻¹
    # and needs no retraction. Y drifts away from orthonormal columns, which costs only digits.
    # Those of many columns cost more than calling them.
    memory, iterations, entries = _MEMORY, _INNER_ITERATIONS, _ENTRIES_PER_EVALUATION
    D: Array = np.ones(1)
    outer, T = lagrangian, None
    if lagrangian.problem.has_many_columns:
        T = leading_span(lagrangian, V)
        if T is not None:
            lagrangian, V = lagrangian.inside(T), T.T @ V
        (V, D), memory = stretch(lagrangian, V), _STRETCHED_MEMORY
        iterations, entries = _STRETCHED_ITERATIONS, _STRETCHED_ENTRIES
        outer.M, outer.slope = lagrangian.M, lagrangian.slope
    cost = 1 + lagrangian.contrasts * V.size // entries

    def evaluate(flat: Array) -> tuple[float, Array]:
        basis, inverse = orthonormal_factor(flat.reshape(V.shape) * D)
        at = lagrangian.evaluate(basis)
        gradient = 2.0 * (at.gradient - basis @ (basis.T @ at.gradient))
        return at.value, ((gradient @ inverse) * D).ravel()

    result = scipy.optimize.minimize(
        evaluate,
        (V / D).ravel(),
        jac=True,
        method="L-BFGS-B",
        options={
            "maxiter": iterations,
            "maxfun": min(_INNER_EVALUATIONS, 1 + max(most, 0) // cost),
            "maxcor": memory,
            "ftol": 0.0,
            "gtol": accuracy * lagrangian.unit * float(np.median(D)),
        },
    )
    V = orthonormal_factor(result.x.reshape(V.shape) * D)[0]
    return V if T is None else T @ V, int(result.nit), int(result.nfev) * cost


def orthonormal_factor(Y: Array) -> tuple[Array, Array]:
    """V = Y·inverseᵀ with orthonormal columns."""
    root, fault = lapack.dpotrf(Y.T @ Y, lower=1)
    sizes = np.diagonal(root)
    if fault or sizes.min() <= _DEPENDENT * sizes.max():  # a line search went too far out
        V, R = np.linalg.qr(Y)
        return V, np.linalg.pinv(R).T
    inverse = lapack.dtrtri(root, lower=1)[0]
    return Y @ inverse.T, inverse


def nudge(V: Array) -> Array:
    """Return a basis close by, always the same one."""
    return np.linalg.qr(V + _NUDGE * np.random.default_rng(0).normal(size=V.shape))[0]


def _turn(V: Array, other: Array) -> float:
    # Size of the principal angles between two subspaces.
    return float(np.linalg.norm(other - V @ (V.T @ other)))
