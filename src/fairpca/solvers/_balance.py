"""Local ascent of the smallest group objective: refinement with a weight for each group.

The smallest of the groups' values is the augmented Lagrangian's minimum over weights w on the
simplex, so that S of `_refinement` becomes Σw_gS_g with weights that follow the basis.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairpca.linalg import Array, shared_level
from fairpca.solvers._driver import Watch, drive
from fairpca.solvers._feasibility import shrink_means
from fairpca.solvers._groups import GroupObjectives
from fairpca.solvers._lagrangian import Lagrangian, Multipliers
from fairpca.solvers._problem import FEASIBLE, ReducedProblem
from fairpca.solvers._refinement import _FEASIBLE, Refined, _Ascent, initial_multipliers
from fairpca.solvers._solution import Status

_MOST_UPDATES = 40
# Groups with a weight are alike to this share of the largest eigenvalue.
_ALIKE = 1e-8
# Raises of the step of the weights; more of them only stiffen the ascent.
_MOST_RAISES = 6
_LAST_GRADIENT = 1e-8


class Balanced(NamedTuple):
    """The best feasible basis of an ascent with its objective, and where the ascent ended."""

    basis: Array | None
    objective: float
    weights: Array
    refined: Refined


def balance(
    reduced: ReducedProblem,
    groups: GroupObjectives,
    start: Array,
    weights: Array,
    watch: Watch | None,
) -> Balanced:
    """Ascend to a local optimum of min_g values − penalty·gap under the limits of the problem."""
    ascent = _BalancedAscent(reduced, groups, start, weights)
    status, _ = drive(ascent, _MOST_UPDATES, watch)
    lagrangian = ascent.lagrangian
    refined = Refined(ascent.V, lagrangian.M, lagrangian.b, ascent.n_iter, status)
    return Balanced(ascent.best, ascent.objective, ascent.weights, refined)


class _BalancedLagrangian(Lagrangian):
    """The augmented Lagrangian with S = Σw_gS_g, where w is the simplex point next to V's."""

    def __init__(self, reduced: ReducedProblem, groups: GroupObjectives, weights: Array) -> None:
        super().__init__(reduced, initial_multipliers(reduced, None))
        self.groups, self.w = groups, weights
        self.group_rows = groups.S.reshape(-1, groups.size)
        self.w_step = 4.0 / self.unit
        self.now = self.values = weights

    def weigh(self, V: Array) -> Array:
        """Set the values of the groups and the weights they call for; return Σw_gS_gV."""
        images = (self.group_rows @ V).reshape(len(self.w), *V.shape)
        self.values = np.einsum("gij,ij->g", images, V) - self.groups.offsets
        self.now = _onto_simplex(self.w - self.w_step * self.values)
        return np.asarray(np.tensordot(self.now, images, 1))

    def products(self, V: Array) -> tuple[Array, Array, Array]:
        """ΣwSV, the stack of Q_cV, and the stack of B_c."""
        return (self.weigh(V), *super().products(V)[1:])

    def value_of(self, V: Array, SV: Array, B: Array, at: Multipliers) -> float:
        """Value from the products made last."""
        value = super().value_of(V, SV, B, at) + float(self.now @ self.groups.offsets)
        return value - float(np.sum((self.now - self.w) ** 2)) / (2.0 * self.w_step)


class _BalancedAscent(_Ascent):
    """Multiplier updates that include the weights of the groups."""

    lagrangian: _BalancedLagrangian

    def __init__(
        self, reduced: ReducedProblem, groups: GroupObjectives, start: Array, weights: Array
    ) -> None:
        super().__init__(reduced, start, None, ())
        self.lagrangian = _BalancedLagrangian(reduced, groups, weights)
        # Newton's method there knows a single covariance only.
        self.is_newton, self.may_turn, self.next_polish = False, False, -1.0
        self.best: Array | None = None
        self.objective, self.weights = -np.inf, weights
        self.unlike, self.w_raises = np.inf, 0
        self._keep(start, groups.values(start))

    def _keep(self, V: Array, values: Array) -> None:
        reduced = self.problem
        if reduced.mean_excess(V) > 0.0:
            V = shrink_means(reduced, V)
            values = self.lagrangian.groups.values(V)
        objective = float(values.min()) - reduced.penalty * reduced.cov_gap(V)
        # What sticks out is worth its multiplier; only for want of a better basis is it kept.
        allowed = FEASIBLE if self.best is None else _FEASIBLE
        if objective > self.objective and reduced.violation(V) <= allowed:
            self.best, self.objective, self.weights = V, objective, self.lagrangian.w

    def step(self, number: int) -> None:
        """Ascend, then update the multipliers and the weights."""
        lagrangian, last, accuracy = self.lagrangian, self.unlike, self.accuracy
        super().step(number)
        lagrangian.weigh(self.V)
        change = float(np.abs(lagrangian.now - lagrangian.w).max())
        lagrangian.w = lagrangian.now
        values = lagrangian.values
        self.unlike = float(lagrangian.w @ values - values.min()) / lagrangian.unit
        self._keep(self.V, values)
        if self.unlike > max(0.25 * last, _ALIKE):
            lagrangian.w_step *= 4.0
            self.w_raises += 1
        if self.ended is Status.CONVERGED and self.unlike > _ALIKE:
            self.ended = None if self.w_raises <= _MOST_RAISES else Status.UNSETTLED
        aim = 0.1 * max(min(self.change, 1.0), change)
        self.accuracy = max(min(0.1 * accuracy, aim), _LAST_GRADIENT)


def _onto_simplex(values: Array) -> Array:
    """Return the closest point with entries ≥ 0 that sum to one."""
    shifted = values - values.min() + 1.0 / len(values)
    return np.asarray(np.maximum(shifted - shared_level(shifted, 1.0), 0.0))
