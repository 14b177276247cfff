"""The objective of each group, and the group weights that bound the smallest of them.

S_g: covariance of group g (K, r, r), β_g: what is subtracted from the variance it keeps (its own
best for the loss, zero for the variance), w: weights on the simplex, A(w) = Σw_gS_g, P: a point of
the Fantope. The sum of the d largest eigenvalues of A(w), less w·β, bounds min_g ⟨S_g, P⟩ − β_g for
every w.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy.optimize

from fairpca.linalg import Array, symmetrize, top_eigenpairs
from fairpca.solvers._line import DualPoint, minimize_dual

# Two groups are balanced to this share of the mean variance.
_BALANCED = 1e-12
# Principal angles with sines smaller than this separate nothing.
_SAME_DIRECTION = 1e-14


@dataclass(frozen=True)
class GroupObjectives:
    """The matrices S_g (K, r, r) and numbers β_g (K,) of a problem with d components."""

    S: Array
    offsets: Array
    d: int

    @property
    def size(self) -> int:
        """Number of dimensions."""
        return len(self.S[0])

    def matrix(self, w: Array) -> Array:
        """A(w)."""
        return np.asarray(np.tensordot(w, self.S, 1))

    def values(self, V: Array) -> Array:
        """Return what each group keeps of its variance, less its offset."""
        return np.asarray(np.einsum("gij,ij->g", self.S @ V, V) - self.offsets)

    def inside(self, T: Array) -> GroupObjectives:
        """Return the same on the span of orthonormal columns T."""
        return replace(self, S=symmetrize(T.T @ (self.S @ T)))


class MinimaxWeights(NamedTuple):
    """Weights with the bound they prove, the best relaxed value, and bases to ascend from.

    `root` (r, m) is a factor of the relaxed point: P = root·rootᵀ.
    """

    weights: Array
    bound: float
    relaxed: float
    starts: list[Array]
    root: Array
    n_iter: int
    is_solved: bool


def solve_one_group(groups: GroupObjectives) -> MinimaxWeights:
    """Return the answer where there is a single group: its own principal components."""
    values, V = top_eigenpairs(groups.S[0], groups.d)
    bound = float(values.sum() - groups.offsets[0])
    return MinimaxWeights(np.ones(1), bound, bound, [V], V, 0, True)


def solve_two_groups(groups: GroupObjectives) -> MinimaxWeights:
    """Solve the problem of two groups exactly, by a search along the one weight there is."""
    # Where the subspace jumps at the best weight, the subspaces of either side span one in which
    # every rotation between them is optimal, and one of them has the same value for both groups.
    first, step = groups.S[0], groups.S[1] - groups.S[0]
    offset, rise = groups.offsets[0], groups.offsets[1] - groups.offsets[0]
    count = 0

    def evaluate(t: float) -> DualPoint:
        nonlocal count
        count += 1
        values, V = top_eigenpairs(first + t * step, groups.d)
        slope = float(np.vdot(V, step @ V)) - rise
        return DualPoint(t, float(values.sum() - offset - t * rise), slope, V)

    left, right = minimize_dual(evaluate, first_step=0.5, largest=1.0, slope_tol=_BALANCED)
    best = min(left, right, key=lambda point: point.value)
    V = _balance(left.vectors, right.vectors, step, rise)
    weights = np.array([1.0 - best.weight, best.weight])
    return MinimaxWeights(weights, best.value, best.value, [V, best.vectors], V, count, True)


def _balance(left: Array, right: Array, step: Array, rise: float) -> Array:
    """Go from one subspace to the other by the shortest way, until ⟨step, P⟩ = rise."""
    turn, cosines, back = np.linalg.svd(left.T @ right)
    start, end = left @ turn, right @ back.T
    side = end - start * cosines
    sines = np.linalg.norm(side, axis=0)
    apart = sines > _SAME_DIRECTION
    if not apart.any():
        return right
    side = side / np.where(apart, sines, 1.0)
    angles = np.where(apart, np.arctan2(sines, cosines), 0.0)

    def between(share: float) -> Array:
        return np.asarray(start * np.cos(share * angles) + side * np.sin(share * angles))

    def excess(share: float) -> float:
        V = between(share)
        return float(np.vdot(V, step @ V)) - rise

    if not excess(0.0) < 0.0 < excess(1.0):
        return right if abs(excess(1.0)) <= abs(excess(0.0)) else left
    share = scipy.optimize.brentq(excess, 0.0, 1.0, xtol=1e-15)
    return between(float(share))
