"""The tight relaxation: P in the Fantope with R P R ⪯ (φ + s)I for every contrast and sign.

R² = φI ± Q_c with the smallest φ that keeps it positive semidefinite: for a projector the cut reads
P^½QP^½ ⪯ sI + φ(I − P), so a smaller φ is always tighter. P has little more than d eigenvalues that
are not zero, so the relaxation is solved on a subspace T of a few more dimensions, where it is the
same program with R²_T = TᵀR²T. Its multipliers W lift to W' = R T R_T⁻¹ W R_T⁻¹ TᵀR of the same
trace, and one eigendecomposition of the p×p matrix S − ΣRW'R − … makes a bound on all of it.
Its leading eigenvectors are the directions that T lacks (docs/design/tight-relaxation.md).

With group objectives ⟨S_g, P⟩ − β_g the smallest of them is maximised. Its multipliers are weights
w on the simplex, and Σw_gS_g takes the place of S (docs/design/group-objectives.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fairpca.linalg import Array, eigenvalue_excess, spectral_norms, symmetrize, top_eigenpairs
from fairpca.solvers._interior import ConicProblem, InteriorPoint
from fairpca.solvers._problem import FEASIBLE, ReducedProblem
from fairpca.solvers._refinement import Refined
from fairpca.solvers._solution import Bound, Options, Progress, Snapshot, Status, drive

_FEW_CONTRASTS = 3
_LIKELY_TO_BIND = 1e-3
_MAX_ROUNDS = 30
# Eigenvectors beyond the d-th that join the subspace.
_EXTRA = 3
# Up to so many dimensions the whole space costs no more than choosing a part of it.
_WHOLE_SPACE, _WHOLE_SPACE_OF_GROUPS = 12, 25
# Free dimensions of the subspace; the cost of a step grows with their sixth power in the end. Many
# components need more, up to a limit beyond which the leading ones are fixed.
_MANY_FREE, _MOST_FREE = 40, 64
# The same of group objectives at first; they have no cuts and need more rounds.
_FEW_FREE = 20
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
_NO_WEIGHT = 1e-6


def solve_tight(reduced: ReducedProblem, options: Options, known: Refined | None = None) -> Bound:
    """Bound a problem with gaps, bounded means or group objectives, and with d < size."""
    # `known` is the basis to certify: its multipliers are the first guess, and solving stops where
    # it would certify nothing new. Of many contrasts only a few bind. Leaving some out can only
    # raise the bound, so it stays valid; those that the relaxed point then violates are put back.
    rounds = _SubspaceRounds(reduced, options, known)
    status = rounds.status()
    if status is None:
        status, _ = drive(rounds, _MAX_ROUNDS, options.watch)
    best = rounds.progress
    proof = rounds.n_iter, status, rounds.weights, rounds.root
    return Bound(best.bound, best.relaxed, best.point, *proof)


@dataclass(frozen=True)
class _TightDual:
    """Multipliers of the whole problem: any of them prove a bound."""

    factors: list[Array]  # A_k (p, ·), whose products A_kA_kᵀ = RW'R come off S
    traces: Array  # of the W'
    shifts: Array  # φ of each of them
    a: Array  # of ±⟨Q_c, P⟩ for `contrasts`
    contrasts: NDArray[np.intp]
    b: Array  # of the means
    weights: Array | None  # of the groups


class _SubspaceRounds:
    """Solve on a subspace, lift, extend the subspace and the contrasts, and again."""

    def __init__(self, reduced: ReducedProblem, options: Options, known: Refined | None) -> None:
        share = _SHARE_OF_GAP if reduced.is_large else 0.01 * _SHARE_OF_GAP
        self.progress = progress = Progress(options.tol, share)
        self.problem, self.watch, self.left = reduced, options.watch, options.max_iter
        self.n_iter, self.extra = 0, _EXTRA
        # Weights of groups lose digits when they are lifted: a step more saves a second solve.
        self.share = _INNER_SHARE if reduced.groups is None else 0.4 * _INNER_SHARE
        self.idle, self.weights, self.root = 0, np.zeros(0), np.zeros((0, 0))
        self.guess: _TightDual | None = None
        values = reduced.cov_values
        self.shifts = np.maximum(np.stack([-values[:, 0], values[:, -1]]), 0.0)
        K = 0 if reduced.groups is None else len(reduced.groups.S)
        uniform = np.full(K, 1.0 / K) if K else None
        none, no_means = np.zeros(0), np.zeros(len(reduced.F))
        leading = self._record(_TightDual([], none, none, none, np.arange(0), no_means, uniform))
        # The largest variance there is: what slack costs at first is in units of it.
        self.largest = progress.bound + reduced.mixture(uniform)[1]
        costs = np.zeros(len(reduced.Q))
        if known is not None:  # what each contrast costs, both signs together
            costs = np.einsum("kii->k", known.multipliers).reshape(2, -1).sum(axis=0)
        spent = 4.0 * float(costs.sum()) or self.largest / (reduced.cov_scale or 1.0) or 1.0
        self.penalty = spent if reduced.limit is not None else min(reduced.penalty, spent)
        spent = 0.0 if known is None else float(known.mean_costs @ np.sum(reduced.F**2, axis=1))
        self.mean_penalty = 4.0 * spent or self.largest or 1.0
        self.active: NDArray[np.intp] = np.arange(len(reduced.Q))
        if len(reduced.Q) > _FEW_CONTRASTS:
            if not costs.any():
                V = reduced.leading(reduced.d)[1]
                costs = spectral_norms(symmetrize(V.T @ (reduced.Q @ V)))
            self.active = np.flatnonzero(costs >= _LIKELY_TO_BIND * costs.max())
        if known is not None:
            if reduced.violation(known.basis) <= FEASIBLE:
                progress.incumbent = progress.relaxed = reduced.objective(known.basis)
            progress.point, self.guess = known.basis, self._guess(known, uniform)
            leading = self._record(self.guess)
        self._choose_subspace(leading, None if known is None else known.basis)

    def _guess(self, known: Refined, uniform: Array | None) -> _TightDual:
        """Multipliers of a basis: W = R V M VᵀR/(φ + s), optimal where the relaxation is tight."""
        reduced, V = self.problem, known.basis
        s = reduced.cov_gap(V) if reduced.limit is None else reduced.limit
        M = eigenvalue_excess(*np.linalg.eigh(known.multipliers), 0.0)
        mass = float(np.einsum("kii->", M))
        # More than the penalty is no dual point and would prove nothing.
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
        none, weights = np.zeros(0), uniform if known.weights is None else known.weights
        shifts = self.shifts.ravel()
        return _TightDual(factors, traces, shifts, none, np.arange(0), known.mean_costs, weights)

    def _record(self, dual: _TightDual) -> Array:
        """Bound the problem by multipliers; returns the leading eigenvectors of what is left."""
        # bound = Σ of the d largest eigenvalues of S(w) − ΣRW'R − Σa_cQ_c − Σb_jf_jf_jᵀ
        #         + Σ(φ_k + limit)·tr W'_k + limit·d·Σ|a_c| + mean limit·Σb_j − w·β
        reduced = self.problem
        matrix, offset = reduced.mixture(dual.weights)
        matrix = matrix - (reduced.F.T * dual.b) @ reduced.F
        for a, c in zip(dual.a, dual.contrasts, strict=True):
            matrix = matrix - a * reduced.Q[c]
        for factor in dual.factors:
            matrix -= factor @ factor.T
        # Of groups the derivatives below say more than further eigenvectors.
        extra = self.extra if reduced.groups is None else min(self.extra, 2 * _EXTRA)
        count = min(reduced.d + extra, reduced.size)
        values, vectors = top_eigenpairs(symmetrize(matrix), count)
        rises = values[: reduced.d] - values[-1]
        self.rises = np.maximum(rises, 1e-3 * abs(values[0]) + 1e-300)
        limit = reduced.limit or 0.0
        constant = float((dual.shifts + limit) @ dual.traces)
        constant += limit * reduced.d * float(np.abs(dual.a).sum())
        constant += reduced.mean_limit * float(dual.b.sum())
        bound = float(values[: reduced.d].sum()) + constant - offset
        if bound < self.progress.bound:
            self.progress.bound = bound
            self.weights = np.zeros(0) if dual.weights is None else dual.weights
        return vectors

    def _choose_subspace(self, leading: Array, inside: Array | None) -> None:
        """Span leading eigenvectors and other directions; far-leading ones belong to P for sure."""
        size, d, groups = leading.shape[0], self.problem.d, self.problem.groups
        self.n_fixed = 0
        whole = _WHOLE_SPACE if groups is None else _WHOLE_SPACE_OF_GROUPS
        if size <= max(whole, min(2 * d + 2 * _EXTRA, _MANY_FREE)):
            self.T = np.eye(size)
            return
        most = min(max(2 * (d + 2 * _EXTRA), _MANY_FREE), _MOST_FREE)
        if 2 * d + _EXTRA > most:
            self.n_fixed = max(d - _FREE_COMPONENTS, 0)
            most = _MANY_FREE
        others = [] if inside is None else [inside]
        if groups is not None:
            # Where the leading eigenvectors of Σw_gS_g turn as the weights change: without these
            # directions nearly every direction of the simplex takes a round of its own.
            images = np.swapaxes(groups.S @ leading[:, :d] / self.rises, 0, 1)
            others.append(images.reshape(size, -1))
            most = min(most, max(d + 3 * self.extra + _EXTRA, _FEW_FREE))
        for block in others:
            room = most + self.n_fixed - leading.shape[1]
            if room > 0:
                rest = block - leading @ (leading.T @ block)
                left, sizes, _ = np.linalg.svd(rest, full_matrices=False)
                leading = np.column_stack([leading, left[:, sizes > 1e-6][:, :room]])
        self.T = np.linalg.qr(leading)[0]

    def step(self, number: int) -> Status | None:
        """One round."""
        reduced, progress = self.problem, self.progress
        if self.n_fixed and self.guess is not None and reduced.groups is None:
            return self._halve(self.guess)
        before, is_part = progress.bound - progress.relaxed, self.T.shape[1] < reduced.size
        # What a part of the space leaves open is not worth solving to the last digit.
        rough = _ROUGH_SHARE * before if is_part and before < np.inf else 0.0
        face = _Face(reduced, self.active, self.shifts, self.T, self.n_fixed)
        interior = InteriorPoint(
            face.conic(self.penalty, self.mean_penalty),
            lambda upper: max(self.share * progress.needed(upper), rough),
        )
        watch, done = self.watch, self.n_iter
        inner = None if watch is None else lambda at: watch(self.snapshot(0, done + at.iteration))
        _, n_iter = drive(interior, max(self.left, 1), inner)
        self.left, self.n_iter = self.left - n_iter, self.n_iter + n_iter
        leading = self._record(face.lift(interior))
        value, overlooked = face.constant + interior.value, np.zeros(0, dtype=np.intp)
        if len(self.active) < len(reduced.Q):
            value, overlooked = self._overlooked(face, interior.Y, value)
        V, used, root = face.split(interior.Y)
        is_short = self._raise_penalties(interior)
        if not progress.point.size or (not is_short and value > progress.relaxed):
            progress.point, self.root = V, root
            progress.relaxed = progress.relaxed if is_short else value
        # A subspace that brings too little is kept and gets more company.
        after = progress.bound - progress.relaxed
        is_new = len(overlooked) > 0 or is_short
        if not is_new:
            self.idle = self.idle + 1 if after > 0.99 * before else 0
            is_new = after <= 0.3 * before
            self.extra = self.extra if is_new else min(2 * self.extra, _MANY_FREE // 2)
        self.active = np.union1d(self.active, overlooked)
        if not is_part and not len(overlooked) and not is_short:
            self.share *= 0.1  # nothing to add: lifting lost what was left, so solve more closely
        is_new = is_new or (reduced.groups is not None and self.idle > 0)
        if self.n_fixed and before == progress.bound - progress.relaxed:
            return Status.STALLED  # the leading directions do not belong to P: more of them neither
        self._choose_subspace(leading, np.column_stack([used, V]) if is_new else self.T)
        return self.status()

    def _halve(self, dual: _TightDual) -> Status:
        """Halve the multipliers of a basis as long as that lowers the bound."""
        # Where both signs bind they take too much together. Of so many components a relaxation with
        # fixed directions never proved more than these multipliers.
        last = np.inf
        while self.progress.bound < last:
            last = self.progress.bound
            factors = [np.sqrt(0.5) * factor for factor in dual.factors]
            dual = replace(dual, factors=factors, traces=0.5 * dual.traces)
            self._record(dual)
        return Status.CONVERGED if self.progress.solved else Status.STALLED

    def _overlooked(self, face: _Face, Y: Array, value: float) -> tuple[float, NDArray[np.intp]]:
        """Value of the relaxed point with all contrasts, and those it overlooks."""
        gaps = face.gaps(Y, self.problem.Q, self.shifts)
        level = max(float(gaps[self.active].max(initial=0.0)), self.problem.limit or 0.0)
        overlooked = np.flatnonzero(gaps > level * (1.0 + 1e-6))
        penalty = self.problem.penalty or 2.0 * self.penalty
        return value - penalty * max(float(gaps.max()) - level, 0.0), overlooked

    def _raise_penalties(self, interior: InteriorPoint) -> bool:
        """Raise a penalty that is spent to the last bit: the true multipliers may be larger."""
        # A limit is a penalty that is high enough, so that the start is always strictly feasible.
        reduced, left = self.problem, interior.X.rows[len(interior.X.rows) - len(interior.t) :]
        is_spent = left < 0.05 * interior.problem.penalties
        most = np.inf if reduced.limit is not None else reduced.penalty
        raised, mean = False, 1 if len(reduced.Q) else 0
        if len(reduced.Q) and is_spent[0] and self.penalty < most:
            self.penalty, raised = min(10.0 * self.penalty, most), True
        if len(reduced.F) and is_spent[mean]:
            self.mean_penalty, raised = 10.0 * self.mean_penalty, True
        return raised

    def status(self) -> Status | None:
        """Why there is nothing left to prove; None while there is something."""
        reduced, progress = self.problem, self.progress
        floor = -reduced.penalty * reduced.cov_scale  # no basis has less than no variance
        if reduced.groups is not None:
            floor -= float(reduced.groups.offsets.max())
        if progress.bound < floor - 1e-6 * self.largest:
            return Status.INFEASIBLE
        if progress.solved:
            return Status.CONVERGED
        if self.left > 0 and self.share > _SMALLEST_SHARE and self.idle <= _MOST_IDLE:
            return None
        # A part of the tolerance was aimed at; the whole of it will do.
        is_close = progress.bound - progress.relaxed <= progress.tol * abs(progress.bound)
        return Status.CONVERGED if is_close else Status.ITERATION_LIMIT

    def snapshot(self, number: int, done: int | None = None) -> Snapshot:
        """Bound so far against the basis at hand, or against the relaxed value."""
        progress, iteration = self.progress, self.n_iter if done is None else done
        known = progress.relaxed if progress.incumbent is None else progress.incumbent
        return Snapshot("bound", iteration, progress.bound, known)


class _Face:
    """The relaxation on span T, where the first `n_fixed` columns belong to P."""

    def __init__(
        self,
        reduced: ReducedProblem,
        active: NDArray[np.intp],
        shifts: Array,
        T: Array,
        n_fixed: int,
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
        self.S, offset = symmetrize(T.T @ reduced.S @ T), 0.0
        self.group_forms, self.group_rooms = np.zeros((0, *self.S.shape)), np.zeros(0)
        if reduced.groups is not None:
            # min_g ⟨S_g, Y⟩ − β_g = ⟨S̄, Y⟩ − β̄ − t with t ≥ ⟨S̄ − S_g, Y⟩ − (β̄ − β_g) for all g.
            inside = reduced.groups.inside(T)
            self.S, offset = inside.S.mean(axis=0), float(inside.offsets.mean())
            self.group_forms, self.group_rooms = self.S - inside.S, offset - inside.offsets
        self.group_unit = float(np.abs(self.group_forms).max(initial=0.0)) or 1.0
        self.constant = float(np.trace(self.S[:n_fixed, :n_fixed])) - offset

    def conic(self, penalty: float, mean_penalty: float) -> ConicProblem:
        """Pose it for the interior-point method, in units of the largest gaps."""
        reduced, k, unit = self.problem, self.n_fixed, self.problem.cov_scale or 1.0
        C, m, limit = len(self.active), len(reduced.F), reduced.limit or 0.0
        L = self.E * self.roots[:, None, :]
        caps = ((self.shifts + limit) / self.sizes)[:, None, None] * np.eye(len(self.S))
        caps = caps - np.swapaxes(L[:, :k], 1, 2) @ L[:, :k]
        norms = np.linalg.norm(reduced.F, axis=1)
        f = (reduced.F / norms[:, None]) @ self.T
        # Rows of traces, ±⟨Q_c, P⟩/d ≤ s, of means and of groups, with a slack for each kind.
        traces = np.concatenate([self.Q, -self.Q]) / (reduced.d * unit)
        means, groups = f[:, :, None] * f[:, None, :], self.group_forms / self.group_unit
        forms = np.concatenate([traces, means, groups])
        trace_rooms, mean_rooms = np.full(2 * C, limit / unit), reduced.mean_limit / norms**2
        rooms = np.concatenate([trace_rooms, mean_rooms, self.group_rooms / self.group_unit])
        rooms -= np.einsum("jii->j", forms[:, :k, :k])
        counts = np.array([2 * C, m, len(groups)])
        penalties = np.array([penalty * unit, mean_penalty, self.group_unit])[counts > 0]
        q = len(penalties)
        slopes = np.repeat(np.eye(q), counts[counts > 0], axis=0)
        cap_slopes = np.zeros((2 * C, q))
        cap_slopes[:, :1] = (unit / self.sizes)[:, None]
        S = self.S[k:, k:]
        return ConicProblem(
            S=S,
            rank=reduced.d - k,
            L=L[:, k:],
            caps=caps,
            cap_slopes=cap_slopes,
            B=np.concatenate([forms[:, k:, k:], np.zeros((q, *S.shape))]),
            rooms=np.concatenate([rooms, np.zeros(q)]),
            room_slopes=np.concatenate([slopes, np.eye(q)]),
            penalties=penalties,
        )

    def lift(self, interior: InteriorPoint) -> _TightDual:
        """Multipliers of the whole problem with the same trace as those on the subspace."""
        reduced, C, m = self.problem, len(self.active), len(self.problem.F)
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
        b = rows[2 * C : 2 * C + m] / np.sum(reduced.F**2, axis=1)
        weights, K = None, len(self.group_forms)
        if K:
            # The multipliers of the groups and of t ≥ 0 sum to a unit; t's share goes to all alike.
            mine = slice(2 * C + m, 2 * C + m + K)
            weights = (rows[mine] + rows[-1] / K) / self.group_unit
            # Any weights prove a bound. A group that is not the smallest has none at the optimum;
            # what the interior leaves it would keep a bound of zero from being zero.
            is_idle = (interior.Z.rows[mine] > rows[mine]) & (weights < _NO_WEIGHT)
            weights = np.where(is_idle, 0.0, weights)
            weights = weights / weights.sum()
        traces, a = share * traces, share * (a[:C] - a[C:])
        return _TightDual(factors, traces, self.shifts, a, self.active, b, weights)

    def split(self, Y: Array) -> tuple[Array, Array, Array]:
        """Round P to d columns; directions in which it is not zero; a factor A with P = AAᵀ."""
        values, vectors = np.linalg.eigh(Y)
        values, vectors = values[::-1], self.T[:, self.n_fixed :] @ vectors[:, ::-1]
        fixed, rank = self.T[:, : self.n_fixed], self.problem.d - self.n_fixed
        root = np.column_stack([fixed, vectors * np.sqrt(np.maximum(values, 0.0))])
        return np.column_stack([fixed, vectors[:, :rank]]), vectors[:, values > _USED], root

    def gaps(self, Y: Array, Q: Array, shifts: Array) -> Array:
        """Smallest s for which P satisfies the cuts of each contrast."""
        k, d = self.n_fixed, self.problem.d
        P = np.eye(len(self.S))
        P[k:, k:] = Y
        forms = symmetrize(self.T.T @ (Q @ self.T))
        root = _root(P)
        gaps = np.abs(np.einsum("cij,ij->c", forms, P)) / d
        for sign, shift in zip((1.0, -1.0), shifts, strict=True):
            inside = root.T @ (sign * forms + shift[:, None, None] * np.eye(len(P))) @ root
            gaps = np.maximum(gaps, np.linalg.eigvalsh(inside)[:, -1] - shift)
        return np.asarray(np.maximum(gaps, 0.0))


def _root(matrix: Array) -> Array:
    # A with A Aᵀ = matrix, for a positive semidefinite matrix.
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
