"""The tighter relaxation: P in the Fantope with R P R ⪯ (φ + s)I for every contrast and sign.

R² = φI ± Q_c with the smallest φ that keeps it positive semidefinite: for a projector the cut reads
P^½QP^½ ⪯ sI + φ(I − P), so a smaller φ is always tighter. P has little more than d eigenvalues that
are not zero, so the relaxation is solved on a subspace T of a few more dimensions, where it is the
same program with R²_T = TᵀR²T. Its multipliers W lift to W' = R T R_T⁻¹ W R_T⁻¹ TᵀR of the same
trace, and one eigendecomposition of the p×p matrix S − ΣRW'R − … makes a bound on all of it.
Its leading eigenvectors are the directions that T lacks (docs/design/tight-relaxation.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fairpca.linalg import Array, eigenvalue_excess, symmetrize, top_eigenpairs
from fairpca.solvers._driver import Progress, Watch, drive
from fairpca.solvers._interior import ConicProblem, InteriorPoint
from fairpca.solvers._problem import FEASIBLE, ReducedProblem
from fairpca.solvers._refinement import Refined
from fairpca.solvers._solution import Bound, Snapshot, Status

Indices: TypeAlias = NDArray[np.intp]

_FEW_CONTRASTS = 3
_LIKELY_TO_BIND = 1e-3
_MAX_ROUNDS = 30
# Eigenvectors beyond the d-th that join the subspace.
_EXTRA = 3
# Up to so many dimensions the whole space costs no more than choosing a part of it.
_WHOLE_SPACE = 12
# Free dimensions of the subspace; the cost of a step grows with their sixth power in the end. Many
# components need more, up to a limit beyond which the leading ones are fixed.
_MANY_FREE = 40
_MOST_FREE = 64
# Rounds in a row that may bring nothing.
_MOST_IDLE = 2
_FREE_COMPONENTS = 10
# Directions with a smaller eigenvalue of P are left out of the next subspace.
_USED = 1e-3
# A relaxed problem is solved on its subspace to this share of the gap wanted on the whole space.
_INNER_SHARE = 0.25
# Nor more closely than this share of what separated bound and relaxed value a round ago.
_ROUGH_SHARE = 0.03
# Share of the certified gap that may be left unproven where proving costs something.
_SHARE_OF_GAP = 0.01
_SMALLEST_SHARE = 1e-5


def solve_tight(
    reduced: ReducedProblem,
    *,
    tol: float,
    max_iter: int,
    known: Refined | None = None,
    watch: Watch | None = None,
) -> Bound:
    """Bound a problem with at least one covariance gap or bounded mean gap, and with d < size."""
    # `known` is the basis to certify: its multipliers are the first guess, and solving stops where
    # it would certify nothing new. Of many contrasts only a few bind. Leaving some out can only
    # raise the bound, so it stays valid; those that the relaxed point then violates are put back.
    share = _SHARE_OF_GAP if reduced.is_large else 0.01 * _SHARE_OF_GAP
    rounds = _SubspaceRounds(reduced, Progress(tol, share), known, max_iter, watch)
    status = rounds.terminate()
    if status is None:
        status, _ = drive(rounds, _MAX_ROUNDS, watch)
    found = rounds.progress
    return Bound(found.bound, found.relaxed, found.point, rounds.n_iter, status)


@dataclass(frozen=True)
class _LiftedMultipliers:
    """Factors whose products W_k = A_kA_kᵀ come off S (K, p, ·), and a, b of traces and means."""

    factors: list[Array]
    traces: Array
    a: Array
    b: Array
    contrasts: Indices

    def matrix(self, reduced: ReducedProblem) -> Array:
        """S less everything that the multipliers take away."""
        matrix = reduced.S - (reduced.F.T * self.b) @ reduced.F
        for a, c in zip(self.a, self.contrasts, strict=True):
            matrix = matrix - a * reduced.Q[c]
        for factor in self.factors:
            matrix -= factor @ factor.T
        return symmetrize(matrix)


class _SubspaceRounds:
    """Solve on a subspace, lift, extend the subspace and the contrasts, and again."""

    def __init__(
        self,
        reduced: ReducedProblem,
        progress: Progress,
        known: Refined | None,
        max_iter: int,
        watch: Watch | None,
    ) -> None:
        self.problem, self.progress, self.watch = reduced, progress, watch
        self.left, self.n_iter, self.extra, self.share = max_iter, 0, _EXTRA, _INNER_SHARE
        self.rough, self.idle = 0.0, 0
        values = reduced.cov_values
        self.shifts = np.maximum(np.stack([-values[:, 0], values[:, -1]]), 0.0)
        self.largest = progress.bound = float(reduced.leading(reduced.d)[0].sum())
        costs = self._start_penalties(known)
        self.active: Indices = np.arange(len(reduced.Q))
        if len(reduced.Q) > _FEW_CONTRASTS:
            self.active = np.flatnonzero(costs >= _LIKELY_TO_BIND * costs.max())
        if known is None:
            self._choose_subspace(reduced.leading(self._count)[1], None)
        else:
            self._start_from(known)

    @property
    def _count(self) -> int:
        return min(self.problem.d + self.extra, self.problem.size)

    def _start_penalties(self, known: Refined | None) -> Array:
        """Set what slack costs at first, and return what each contrast may cost."""
        reduced = self.problem
        costs = np.zeros(len(reduced.Q)) if known is None else known.costs
        spent = 4.0 * float(costs.sum()) or self.largest / (reduced.cov_scale or 1.0) or 1.0
        self.penalty = spent if reduced.limit is not None else min(reduced.penalty, spent)
        squares = np.sum(reduced.F**2, axis=1)
        spent = 0.0 if known is None else float(known.mean_costs @ squares)
        self.mean_penalty = 4.0 * spent or self.largest or 1.0
        if not costs.any() and len(reduced.Q):
            return reduced.cov_gaps(reduced.leading(reduced.d)[1])
        return costs

    def _start_from(self, known: Refined) -> None:
        """Bound by the multipliers of a basis; where the relaxation is tight that is all."""
        reduced, V = self.problem, known.basis
        if reduced.violation(V) <= FEASIBLE:
            self.progress.incumbent = self.progress.relaxed = reduced.objective(V)
        self.progress.point = V
        s = reduced.cov_gap(V) if reduced.limit is None else reduced.limit
        M = eigenvalue_excess(*np.linalg.eigh(known.multipliers), 0.0)[0]
        mass = float(np.einsum("kii->", M))
        if reduced.limit is None and mass > reduced.penalty:
            M *= reduced.penalty / mass
        factors, traces = [], np.zeros(2 * len(reduced.Q))
        for k in range(2 * len(reduced.Q)):
            sign, c = divmod(k, len(reduced.Q))
            room = self.shifts[sign, c] + s
            if M[k].any() and room > 1e-9 * reduced.cov_scale:
                image = self.shifts[sign, c] * V + (1.0 - 2.0 * sign) * (reduced.Q[c] @ V)
                factors.append(image @ _root(M[k]) / np.sqrt(room))
                traces[k] = np.vdot(M[k], V.T @ image) / room
        none = np.zeros(0)
        guess = _LiftedMultipliers(factors, traces, none, known.mean_costs, np.arange(0))
        vectors = self._record(guess, self.shifts.ravel())
        self._choose_subspace(vectors, V)

    def _record(self, found: _LiftedMultipliers, shifts: Array) -> Array:
        """Bound the problem by multipliers; returns the leading eigenvectors of what is left."""
        reduced = self.problem
        values, vectors = top_eigenpairs(found.matrix(reduced), self._count)
        limit = reduced.limit or 0.0
        constant = float((shifts + limit) @ found.traces)
        constant += limit * reduced.d * float(np.abs(found.a).sum())
        constant += reduced.mean_limit * float(found.b.sum())
        self.progress.bound = min(self.progress.bound, float(values[: reduced.d].sum()) + constant)
        return vectors

    def _choose_subspace(self, leading: Array, inside: Array | None) -> None:
        """Span leading eigenvectors and other directions; far-leading ones belong to P for sure."""
        size, d = leading.shape[0], self.problem.d
        self.n_fixed = 0
        if size <= max(_WHOLE_SPACE, min(2 * d + 2 * _EXTRA, _MANY_FREE)):
            self.T = np.eye(size)
            return
        most = min(max(2 * (d + 2 * _EXTRA), _MANY_FREE), _MOST_FREE)
        if 2 * d + _EXTRA > most:
            self.n_fixed = max(d - _FREE_COMPONENTS, 0)
            most = _MANY_FREE
        room = most + self.n_fixed - leading.shape[1]
        if inside is not None and room > 0:
            rest = inside - leading @ (leading.T @ inside)
            left, sizes, _ = np.linalg.svd(rest, full_matrices=False)
            leading = np.column_stack([leading, left[:, sizes > 1e-6][:, :room]])
        self.T = np.linalg.qr(leading)[0]

    def step(self, number: int) -> None:
        """One round."""
        reduced, progress = self.problem, self.progress
        before = progress.bound - progress.relaxed
        self.rough = (
            _ROUGH_SHARE * before if self.T.shape[1] < reduced.size and before < np.inf else 0.0
        )
        face = _Face(reduced, self.active, self.shifts, self.T, self.n_fixed)
        interior = InteriorPoint(face.conic(self.penalty, self.mean_penalty), self._wanted)
        _, n_iter = drive(interior, max(self.left, 1), self._inner_watch())
        interior.work = interior.sums = np.empty(0)  # lifting needs room too
        self.left, self.n_iter = self.left - n_iter, self.n_iter + n_iter
        leading = self._record(face.lift(interior), face.shifts)
        value, overlooked = self._value(face, interior)
        V, used = face.split(interior.Y)
        is_short = self._raise_penalties(interior)
        if not is_short or not progress.point.size:
            progress.record(np.inf, -np.inf if is_short else value, V)
        grown = [used, V] if len(overlooked) or is_short or self._improved(before) else [self.T]
        self.active = np.union1d(self.active, overlooked)
        if self.T.shape[1] == reduced.size and not len(overlooked) and not is_short:
            self.share *= 0.1  # nothing to add: lifting lost what was left, so solve more closely
        self._choose_subspace(leading, np.column_stack(grown))

    def _inner_watch(self) -> Watch | None:
        watch, done = self.watch, self.n_iter
        return None if watch is None else lambda at: watch(self.snapshot(0, done + at.iteration))

    def _wanted(self, upper: float) -> float:
        return max(self.share * self.progress.needed(upper), self.rough)

    def _improved(self, before: float) -> bool:
        # A subspace that brings too little is kept and gets more company.
        after = self.progress.bound - self.progress.relaxed
        self.idle = self.idle + 1 if after > 0.99 * before else 0
        if after <= 0.3 * before:
            return True
        self.extra = min(2 * self.extra, _MANY_FREE // 2)
        return False

    def _value(self, face: _Face, interior: InteriorPoint) -> tuple[float, Indices]:
        """Value of the relaxed point with all contrasts, and those it overlooks."""
        value = face.constant + interior.value
        if len(self.active) == len(self.problem.Q):
            return value, np.zeros(0, dtype=np.intp)
        gaps = face.gaps(interior.Y, self.problem.Q, self.shifts)
        level = max(float(gaps[self.active].max(initial=0.0)), self.problem.limit or 0.0)
        overlooked = np.flatnonzero(gaps > level * (1.0 + 1e-6))
        penalty = self.problem.penalty or 2.0 * self.penalty
        return value - penalty * max(float(gaps.max()) - level, 0.0), overlooked

    def _raise_penalties(self, interior: InteriorPoint) -> bool:
        """Raise a penalty that is spent to the last bit: the true multipliers may be larger."""
        reduced, left = self.problem, interior.X.rows[len(interior.X.rows) - len(interior.t) :]
        is_spent = left < 0.05 * interior.problem.penalties
        most = np.inf if reduced.limit is not None else reduced.penalty
        raised = False
        if len(reduced.Q) and is_spent[0] and self.penalty < most:
            self.penalty, raised = min(10.0 * self.penalty, most), True
        if len(reduced.F) and is_spent[-1]:
            self.mean_penalty, raised = 10.0 * self.mean_penalty, True
        return raised

    def terminate(self) -> Status | None:
        """End where nothing is left to prove."""
        reduced = self.problem
        floor = -reduced.penalty * reduced.cov_scale  # no basis has less than no variance
        if self.progress.bound < floor - 1e-6 * self.largest:
            return Status.INFEASIBLE
        if self.progress.solved:
            return Status.CONVERGED
        if self.left > 0 and self.share > _SMALLEST_SHARE and self.idle <= _MOST_IDLE:
            return None
        # What was aimed at is less than what was asked for.
        found = self.progress
        is_close = found.bound - found.relaxed <= found.tol * abs(found.bound)
        return Status.CONVERGED if is_close else Status.ITERATION_LIMIT

    def snapshot(self, number: int, done: int | None = None) -> Snapshot:
        """Bound so far against the basis at hand, or against the relaxed value."""
        found = self.progress
        known = found.relaxed if found.incumbent is None else found.incumbent
        return Snapshot("bound", self.n_iter if done is None else done, found.bound, known)


class _Face:
    """The relaxation on span T, where the first `n_fixed` columns belong to P."""

    def __init__(
        self, reduced: ReducedProblem, active: Indices, shifts: Array, T: Array, n_fixed: int
    ) -> None:
        self.problem, self.active, self.T, self.n_fixed = reduced, active, T, n_fixed
        self.shifts = shifts[:, active].ravel()
        self.images = reduced.Q[active] @ T
        self.Q = symmetrize(T.T @ self.images)
        values, E = np.linalg.eigh(self.Q)
        squares = self.shifts[:, None] + np.concatenate([values, -values])
        roots = np.sqrt(np.maximum(squares, 0.0))
        sizes = roots.max(axis=1, initial=0.0) ** 2
        # Each cut is scaled to size one. A cut with R = 0 says nothing and stays as it is.
        self.sizes = np.where(sizes > 0.0, sizes, 1.0)
        self.roots = roots / np.sqrt(self.sizes)[:, None]
        self.E = np.concatenate([E, E])
        self.S = symmetrize(T.T @ reduced.S @ T)
        self.constant = float(np.trace(self.S[:n_fixed, :n_fixed]))

    def conic(self, penalty: float, mean_penalty: float) -> ConicProblem:
        """Pose it for the interior-point method, in units of the largest gaps."""
        reduced, k = self.problem, self.n_fixed
        C, m, unit = len(self.active), len(reduced.F), reduced.cov_scale or 1.0
        L = self.E * self.roots[:, None, :]
        limit = reduced.limit or 0.0
        caps = ((self.shifts + limit) / self.sizes)[:, None, None] * np.eye(len(self.S))
        caps = caps - np.swapaxes(L[:, :k], 1, 2) @ L[:, :k]
        norms = np.linalg.norm(reduced.F, axis=1)
        f = (reduced.F / norms[:, None]) @ self.T
        forms = np.concatenate([self.Q, -self.Q]) / (reduced.d * unit)
        forms = np.concatenate([forms, f[:, :, None] * f[:, None, :]])
        rooms = np.concatenate([np.full(2 * C, limit / unit), reduced.mean_limit / norms**2])
        rooms -= np.einsum("jii->j", forms[:, :k, :k])
        slopes = np.zeros((2 * C + m, (C > 0) + (m > 0)))
        slopes[: 2 * C, :1] = 1.0
        slopes[2 * C :, -1:] = 1.0
        q = slopes.shape[1]
        cap_slopes = np.zeros((2 * C, q))
        cap_slopes[:, :1] = (unit / self.sizes)[:, None]
        n = len(self.S) - k
        penalties = [penalty * unit] * (C > 0) + [mean_penalty] * (m > 0)
        return ConicProblem(
            S=self.S[k:, k:],
            rank=reduced.d - k,
            L=L[:, k:],
            caps=caps,
            cap_slopes=cap_slopes,
            B=np.concatenate([forms[:, k:, k:], np.zeros((q, n, n))]),
            rooms=np.concatenate([rooms, np.zeros(q)]),
            room_slopes=np.concatenate([slopes, np.eye(q)]),
            penalties=np.array(penalties),
        )

    def lift(self, interior: InteriorPoint) -> _LiftedMultipliers:
        """Multipliers of the whole problem with the same trace as those on the subspace."""
        reduced, C = self.problem, len(self.active)
        rows, W = interior.X.rows, interior.X.cuts
        traces = np.einsum("kii->k", W) / self.sizes
        a = rows[: 2 * C] / (reduced.d * (reduced.cov_scale or 1.0))
        mass = float(traces.sum() + reduced.d * a.sum())
        # Rounding may leave a little more than the penalty.
        share = min(1.0, reduced.penalty / mass) if reduced.limit is None and mass > 0.0 else 1.0
        used = self.roots > 1e-7
        inverse = np.where(used, 1.0 / np.where(used, self.roots, 1.0), 0.0) / self.sizes[:, None]
        factors = []
        for k in range(2 * C):
            sign, c = (1.0, k) if k < C else (-1.0, k - C)
            image = self.shifts[k] * self.T + sign * self.images[c]
            factors.append(np.sqrt(share) * ((image @ self.E[k]) * inverse[k]) @ _root(W[k]))
        norms = np.sum(reduced.F**2, axis=1)
        b = rows[2 * C : 2 * C + len(reduced.F)] / norms
        return _LiftedMultipliers(factors, share * traces, share * (a[:C] - a[C:]), b, self.active)

    def split(self, Y: Array) -> tuple[Array, Array]:
        """Round P to d columns; and the directions in which it is not zero."""
        values, vectors = np.linalg.eigh(Y)
        vectors = self.T[:, self.n_fixed :] @ vectors[:, ::-1]
        rank = self.problem.d - self.n_fixed
        V = np.column_stack([self.T[:, : self.n_fixed], vectors[:, :rank]])
        return V, vectors[:, values[::-1] > _USED]

    def gaps(self, Y: Array, Q: Array, shifts: Array) -> Array:
        """Smallest s for which P satisfies the cuts of each contrast."""
        k, d = self.n_fixed, self.problem.d
        P = np.eye(len(self.S))
        P[k:, k:] = Y
        forms = symmetrize(self.T.T @ (Q @ self.T))
        root = _root(P)
        found = np.abs(np.einsum("cij,ij->c", forms, P)) / d
        for sign, shift in zip((1.0, -1.0), shifts, strict=True):
            inside = root.T @ (sign * forms + shift[:, None, None] * np.eye(len(P))) @ root
            found = np.maximum(found, np.linalg.eigvalsh(inside)[:, -1] - shift)
        return np.asarray(np.maximum(found, 0.0))


def _root(matrix: Array) -> Array:
    # A with A Aᵀ = matrix, for a positive semidefinite matrix.
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
