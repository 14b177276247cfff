"""Weights of three or more groups: a path of central points, on a subspace that follows them.

Letters as in `_groups`; τ: the weight of the barriers log det P + log det(I − P) and Σ log w_g, f:
eigenvalues of the central P, which has the eigenvectors U of A(w). Newton's method in w alone has
as many unknowns as there are groups. On a subspace T the problem is the same with TᵀS_gT, and its
relaxed points are points of the whole problem; T holds the leading eigenvectors of A(w) and their
derivatives in w, so that the bound on T follows the true one to the third order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fairpca.linalg import Array
from fairpca.solvers._driver import Watch, drive
from fairpca.solvers._groups import GroupObjectives, MinimaxWeights
from fairpca.solvers._solution import Snapshot, Status

# Up to so many dimensions the whole space costs no more than choosing a part of it.
_WHOLE_SPACE = 60
# Derivatives that join the subspace at most.
_MOST_DERIVATIVES = 60
_MAX_ROUNDS = 40
_MAX_STEPS = 300
# Newton steps are whole, and the barrier is lowered, where they are shorter than these.
_WHOLE_STEP, _CENTRAL = 3.0, 1.0
_LOWER = 0.1
_TO_THE_EDGE = 0.9
# Differences below this are rounding: the mean variance of a reduced problem is one.
_ROUNDING = 1e-12
# Eigenvalues of P below this do not count as used.
_USED = 1e-5


def solve_minimax_weights(
    groups: GroupObjectives, *, tol: float, max_iter: int, watch: Watch | None
) -> MinimaxWeights:
    """Find the best weights of any number of groups, d < size; every iterate is a valid bound."""
    rounds = _WeightRounds(groups, tol)
    status, number = drive(rounds, min(max_iter, _MAX_ROUNDS), watch)
    P = rounds.point
    shares, vectors = np.linalg.eigh(P.matrix)
    vectors = P.basis @ vectors[:, ::-1]
    root = vectors * np.sqrt(np.maximum(shares[::-1], 0.0))
    starts = [vectors[:, : groups.d], rounds.leading[:, : groups.d]]
    is_solved = status is Status.CONVERGED
    return MinimaxWeights(rounds.weights, rounds.bound, P.value, starts, root, number, is_solved)


class _RelaxedPoint(NamedTuple):
    """A relaxed point T·matrix·Tᵀ and its value."""

    value: float
    basis: Array
    matrix: Array


class _WeightRounds:
    """Bound by the leading eigenvalues of A(w), solve on a subspace around them, and again."""

    def __init__(self, groups: GroupObjectives, tol: float) -> None:
        self.groups, self.tol = groups, tol
        self.weights = self.next = np.full(len(groups.S), 1.0 / len(groups.S))
        self.bound = np.inf
        self.point = _RelaxedPoint(-np.inf, np.zeros((groups.size, 0)), np.zeros((0, 0)))
        self.leading = np.zeros((groups.size, 0))

    @property
    def gap(self) -> float:
        """Distance between bound and relaxed value."""
        return self.bound - self.point.value

    @property
    def wanted(self) -> float:
        """Gap at which the weights are good enough."""
        return 0.1 * self.tol * abs(self.bound) + _ROUNDING * self.groups.d

    def step(self, number: int) -> None:
        """One eigendecomposition, and the central path on what it shows."""
        groups, d = self.groups, self.groups.d
        values, vectors = np.linalg.eigh(groups.matrix(self.next))
        self._record(float(values[-d:].sum() - self.next @ groups.offsets), self.next)
        self.leading = vectors[:, ::-1]
        is_whole = groups.size <= _WHOLE_SPACE
        T = vectors if is_whole else self._subspace(values[::-1])
        # What a subspace leaves open is not worth solving to the last digit.
        rough = 0.0 if is_whole or np.isinf(self.gap) else 0.02 * self.gap
        path = _CentralPath(groups.inside(T), max(0.2 * self.wanted, rough))
        drive(path, _MAX_STEPS, None)
        self.next = path.weights
        if is_whole:
            self._record(path.bound, path.weights)
        if path.value > self.point.value:
            self.point = _RelaxedPoint(path.value, T, path.point)

    def _record(self, bound: float, weights: Array) -> None:
        if bound < self.bound:
            self.bound, self.weights = bound, weights

    def _subspace(self, values: Array) -> Array:
        """Span leading eigenvectors, their derivatives in w, and the best relaxed point so far."""
        groups, U, d = self.groups, self.leading, self.groups.d
        lead = min(d + 3 + int(np.sqrt(2 * len(groups.S))), groups.size)
        V, rest = U[:, :d], U[:, lead:]
        turned = rest.T @ (groups.S @ V)
        rises = values[:d] - values[lead:, None]
        derivatives = turned / np.maximum(rises, 1e-12 * abs(values[0]) + 1e-300)
        flat = np.swapaxes(derivatives, 0, 1).reshape(rest.shape[1], -1)
        if flat.shape[1] > _MOST_DERIVATIVES:
            flat = np.linalg.svd(flat, full_matrices=False)[0][:, :_MOST_DERIVATIVES]
        used = np.zeros((groups.size, 0))
        if self.point.matrix.size:
            shares, vectors = np.linalg.eigh(self.point.matrix)
            used = self.point.basis @ vectors[:, shares > _USED]
        return np.asarray(np.linalg.qr(np.column_stack([U[:, :lead], used, rest @ flat]))[0])

    def terminate(self) -> Status | None:
        """End at the gap that is wanted."""
        return Status.CONVERGED if self.gap <= self.wanted else None

    def snapshot(self, number: int) -> Snapshot:
        """Bound and relaxed value so far."""
        return Snapshot("bound", number, self.bound, self.point.value)


@dataclass
class _WeightStep:
    """One Newton step at a height of the barrier: the change of w, its length, and P."""

    f: Array
    change: Array
    length: float
    values: Array
    smoothness: Array

    def point(self, U: Array, rotated: Array) -> Array:
        """P after the step, to first order; feasible where the step is shorter than one."""
        moved = self.smoothness * np.tensordot(self.change, rotated, 1)
        diagonal = np.diag(self.smoothness)
        moved -= np.diag(diagonal * (np.trace(moved) / diagonal.sum()))
        return np.asarray(U @ (np.diag(self.f) + moved) @ U.T)


class _CentralPath:
    """The whole problem by Newton's method on the barrier problem in w; ends at a gap."""

    def __init__(self, groups: GroupObjectives, wanted: float) -> None:
        self.groups, self.wanted = groups, wanted
        self.w = self.weights = np.full(len(groups.S), 1.0 / len(groups.S))
        self.unit = float(np.abs(np.einsum("gii->g", groups.S)).max()) / groups.size or 1.0
        self.height = 0.3 * self.unit
        self.bound, self.value, self.point = np.inf, -np.inf, np.zeros((0, 0))
        self.is_stuck = False

    def step(self, number: int) -> None:
        """One eigendecomposition: lower the barrier as far as the step stays short, and move."""
        groups, d = self.groups, self.groups.d
        self.levels, self.U = np.linalg.eigh(groups.matrix(self.w))
        self.rotated = self.U.T @ groups.S @ self.U
        bound = float(self.levels[-d:].sum() - self.w @ groups.offsets)
        if bound < self.bound:
            self.bound, self.weights = bound, self.w
        newton = self._newton()
        while newton.length < _CENTRAL and self.bound - self.value > self.wanted:
            if self.height <= 1e-15 * self.unit:
                self.is_stuck = True
                break
            self.height *= _LOWER
            newton = self._newton()
        ratio = float((newton.change / self.w).min())
        edge = -_TO_THE_EDGE / ratio if ratio < 0.0 else np.inf
        whole = 1.0 if newton.length <= _WHOLE_STEP else 1.5 / (1.0 + newton.length)
        w = np.maximum(self.w + min(whole, edge) * newton.change, 1e-300)
        self.w = w / w.sum()

    def _newton(self) -> _WeightStep:
        """Linearise at w; a short step also yields a relaxed point that is all but optimal."""
        w, height, offsets = self.w, self.height, self.groups.offsets
        f, e = _occupation(self.levels, self.groups.d, height)
        diagonals = np.einsum("gii->gi", self.rotated)
        values = diagonals @ f - offsets
        # Derivative of P along A, entry by entry in the eigenbasis.
        smoothness = np.outer(f, f) * np.outer(e, e)
        smoothness /= height * (np.outer(f, f) + np.outer(e, e))
        scaled = (self.rotated * np.sqrt(smoothness)).reshape(len(w), -1)
        own = np.diag(smoothness)
        moved = diagonals @ own
        H = scaled @ scaled.T - np.outer(moved, moved) / own.sum()
        # Unknowns are relative changes of w, whose sizes may differ by many orders.
        system = np.zeros((len(w) + 1, len(w) + 1))
        system[:-1, :-1] = H * np.outer(w, w) + height * np.eye(len(w))
        system[-1, :-1] = system[:-1, -1] = w * self.unit
        right = np.append(height - values * w, 0.0)
        relative = np.linalg.solve(system, right)[:-1]
        square = float(relative @ system[:-1, :-1] @ relative)
        length = np.sqrt(max(square, 0.0) / height)
        change = relative * w
        newton = _WeightStep(f, change, float(length), values + H @ change, smoothness)
        if length < _CENTRAL and newton.values.min() > self.value:
            self.value = float(newton.values.min())
            self.point = newton.point(self.U, self.rotated)
        return newton

    def terminate(self) -> Status | None:
        """End at the gap that is wanted, or where rounding leaves no barrier."""
        if self.bound - self.value <= self.wanted:
            return Status.CONVERGED
        return Status.STALLED if self.is_stuck else None

    def snapshot(self, number: int) -> Snapshot:
        """Bound and relaxed value so far."""
        return Snapshot("bound", number, self.bound, self.value)


def _occupation(levels: Array, d: int, height: float) -> tuple[Array, Array]:
    """Eigenvalues f of the central P and 1 − f, for rising eigenvalues of A; they sum to d."""
    # They solve 1/f − 1/(1 − f) = x with x = (threshold − level)/height, counted from the d-th
    # largest level so that small heights cost no digits.
    below = (levels[-d] - levels) / height

    def at(threshold: float) -> tuple[Array, Array]:
        x = threshold + below
        root = np.sqrt(x * x + 4.0)
        y = np.where(x > 0.0, x + root, 4.0 / (root + np.abs(x)))
        return 2.0 / (2.0 + y), y / (2.0 + y)

    high = 2.0 * len(levels)
    low = -high - float(below[-d - 1])
    for _ in range(200):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        f, e = at(middle)
        low, high = (middle, high) if f[:-d].sum() > e[-d:].sum() else (low, middle)
    return at(0.5 * (low + high))
