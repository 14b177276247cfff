"""The second-order bound: projectors P = VVᵀ + X around a basis V, the gap t, and all products.

z = (1, x, t) with x the entries of X, and Z in place of zzᵀ. What holds for products of projectors
is linear in Z: P² = P, tP ∓ PQ_cP ⪰ 0, tr(Q_cP)² ≤ dt², and for the largest gap that can matter,
which is one here, t(I − P) ⪰ 0, (1 − t)(I − P) ⪰ 0, t² ≤ t. Under a limit t is the limit.

Every multiplier proves a bound: with M_k ⪰ 0, b ≥ 0 and any Λ the objective of a basis is at most
f(X, t) = objective + Σ⟨M_k, cut_k⟩ + Σb_j·row_j + ⟨Λ, P − P²⟩, a quadratic function. Where it is
concave its maximum is the bound, and ‖P‖², which is the same for all projectors, can always make it
concave.

Larger problems with a limit have it near V. In coordinates V, then directions of falling variance,
T is the first few and N the rest. Multipliers of cuts live on T. Λ on N, and between N and T next
to V, follows from the others: f has no slope there. Of X there is what V and T have in common with
T and N at first; the directions in which f is then not concave join it
(docs/design/tight-relaxation.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from fairpca.linalg import Array, complement_basis, symmetrize
from fairpca.solvers._interior import ConePoint, DensePoint, kronecker, symmetric_vectors
from fairpca.solvers._problem import ReducedProblem
from fairpca.solvers._solution import PROVEN, Status, relative_gap

_ACCURACY = 1e-5
# Products of two numbers in a step beyond which it is not worth its time: of the whole program (up
# to twelve dimensions with two signs of contrasts that bind, ten with seven, eight with 19, seven
# with 31), and of the one near V, which is solved up to three times.
MOST_WORK, MOST_WORK_NEAR = 1e9, 2.5e8
# Near V: dimensions that join V in T, those that multipliers of a cut live on, rounds, directions
# that may join in one, and the first accuracy.
_EXTRA, _RANK, _ROUNDS, _JOINING, _ROUGH = 5, 5, 3, 30, 1e-2
# Of K: eigenvectors of B_c nearest to the limit, and leading directions next to V, that come first.
_NEAREST, _LEADING = 3, 2
# What slack costs, in largest variances of all components: more than any limit is worth.
_SLACK = 30.0
_ROUNDING = 1e-11
# How far to go beyond the least shift that makes f concave, relative to it and to its size.
_SHIFTS = np.outer([1.02, 1.1, 1.3, 1.6, 2.0, 3.0, 4.0, 6.0, 9.0], [1.0, 0.0])
_FLOORS = np.array([_ROUNDING, 1e-8, 1e-6, 1e-5, 1e-4])
# Share of the largest gap below which the covariance gap of a sign does not bind.
_FAR, _FAR_NEAR = 0.5, 0.9
# Share of what is left that a step must gain where enough is proven already, and anywhere.
_LITTLE, _NOTHING = 0.5, 0.1
_NEAR = 10.0  # duality gaps, in those of a solved program, from which a still bound is the last
# A direction is missing where f curves up by this much of the largest variance, and if it is new.
_CURVED, _NEW = 1e-4, 1e-2


def lifted_bound(
    reduced: ReducedProblem,
    V: Array,
    tol: float,
    max_iter: int,
    known: float = np.inf,
    *,
    is_near: bool = False,
) -> tuple[float, Status]:
    """Bound all bases that are better than a feasible V; d < size, no group objectives."""
    # The whole program says all that the one near V can say: that is for where it is too large.
    lifted, incumbent = _choose(reduced, V), reduced.objective(V)
    if lifted is not None and lifted.is_whole == is_near:
        lifted = None
    if lifted is None:
        return np.inf, Status.ITERATION_LIMIT
    point, lowest, rounds = lifted.pose(), np.inf, 1
    wanted = np.inf if lifted.is_whole else _ROUGH * lifted.largest
    for number in range(max_iter):
        status = point.step(number)
        gap = point.X.dot(point.Z)
        if status is None and gap > wanted:
            continue
        bound, missing = lifted.prove(point)
        last, lowest, wanted = lowest, min(lowest, bound), 0.3 * wanted
        left, gain, open_ = relative_gap(lowest, incumbent), last - lowest, lowest - incumbent
        # The last steps lose digits of the multipliers: none is taken that the bound does not need.
        is_met = left <= tol or (left <= PROVEN and gain <= _LITTLE * open_)
        if is_met or (not lifted.is_whole and left <= PROVEN):
            return max(lowest, incumbent), Status.CONVERGED
        # Near V more of X can only raise what is relaxed, and no step proves less than that.
        relaxed = float(np.vdot(point.S, point.Z.box[0]))
        is_spent = not lifted.is_whole and relaxed >= min(known, lowest - _NOTHING * open_)
        if missing.shape[1] and rounds < _ROUNDS and relaxed < known:
            lifted.join(missing)
            point, rounds, wanted = lifted.pose(), rounds + 1, _ROUGH * lifted.largest
            continue
        is_still = gap <= _NEAR * point.accuracy and gain <= _ACCURACY * abs(lowest)
        if status is not None or is_still or is_spent:
            return max(lowest, incumbent), status or Status.CONVERGED
    return max(lowest, incumbent), Status.ITERATION_LIMIT


def _choose(reduced: ReducedProblem, V: Array) -> _Lifted | None:
    """Return the whole program, or the largest near V, whose steps are worth their time."""
    d, p, has_t = reduced.d, reduced.size, reduced.limit is None
    gap = reduced.limit or reduced.cov_gap(V)
    values = np.linalg.eigvalsh(symmetrize(V.T @ (reduced.Q @ V)))
    entries, gaps = p * (p + 1) // 2, np.stack([values[:, -1], -values[:, 0]])
    # Under a penalty the program near V never proved more than the relaxation.
    extras = [] if has_t else range(min(_EXTRA, p - d), 0, -1)
    near = [(d + extra, _RANK, _FAR_NEAR) for extra in extras]
    for m, rank, far in [(p, p, _FAR), *near]:
        is_whole, binding = rank == p, gaps >= far * gap
        # Entries of cuts, P² = P and pairs of products of P: what a step multiplies.
        pairs = m * (m + 1) // 2 + d * (p - m)
        cuts, rank = int(binding.sum()) + 2 * has_t, min(rank, m)
        q, n = pairs + cuts * rank * (rank + 1) // 2, pairs + _JOINING * (not is_whole)
        work = q * q * (q / 3 + n**2) + 4 * q * n**3 + (not is_whole) * entries**3 / 5
        if work <= (MOST_WORK if is_whole else MOST_WORK_NEAR):
            return _Lifted(reduced, V, m, rank, binding)
    return None


@dataclass
class _Terms:
    """const + ⟨L, X⟩ + t·(slope + ⟨T, X⟩) + bend·t² − tr ΛX² − Σtr G_cXQ_cX, with ⟨Λ, P − P²⟩."""

    const: float
    L: Array
    T: Array
    G: Array
    Lam: Array
    slope: float = 0.0
    bend: float = 0.0

    def add(self, share: float, other: _Terms) -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + share * value)


class _Lifted:
    """Forms (…, n, n) that take Z to what is zero or positive semidefinite."""

    def __init__(
        self, reduced: ReducedProblem, V: Array, m: int, rank: int, binding: NDArray[np.bool_]
    ) -> None:
        # Contrasts far from binding are left out: that can only raise the bound.
        self.problem, self.m, d, p = reduced, m, reduced.d, reduced.size
        self.is_whole, self.has_t = rank == p, int(reduced.limit is None and len(reduced.Q) > 0)
        unit = reduced.cov_scale or 1.0
        rest = complement_basis(V.T, 0.5)
        rest = rest @ np.linalg.eigh(rest.T @ reduced.S @ rest)[1][:, ::-1]
        self.turn = W = np.column_stack([V, rest])
        self.S, self.Q = symmetrize(W.T @ reduced.S @ W), symmetrize(W.T @ (reduced.Q / unit) @ W)
        self.largest = d * float(reduced.leading(1)[0][0])
        self.P0 = np.diag((np.arange(p) < d).astype(float))
        self.vectors = symmetric_vectors(p)
        eye = self.vectors.svec(np.eye(p))
        # Of X: what T shares with V and with itself; of the whole space what has no trace.
        i, j = self.vectors.rows, self.vectors.columns
        self.basis = np.eye(len(i))[:, (j < m) | (i < d)]
        if m == p:
            self.basis = scipy.linalg.null_space(eye[None])
        # A better basis has no larger gap than plain PCA, which keeps the most variance, nor one
        # that costs more than plain PCA is better than what is known.
        self.most = (reduced.limit or 0.0) / unit
        if self.has_t:
            values, top = reduced.leading(d)
            worth = (float(values.sum()) - reduced.objective(V)) / reduced.penalty
            self.most = min(reduced.cov_gap(top), worth) / unit
        self.cuts = [
            (c, sign, self._support(c, sign, rank))
            for c, signs in enumerate(binding.T)
            for sign in np.array([1.0, -1.0])[signs]
        ]
        self.rows = self._rows(np.flatnonzero(binding.any(axis=0)), unit)
        self.objective = self._terms(float(np.trace(self.S[:d, :d])), self.S)
        if self.has_t:
            self.objective.slope = -reduced.penalty * self.most * unit
        self._adapt(self.objective)

    def _support(self, c: int, sign: float, rank: int) -> Array:
        """Directions (p, rank) on which the multipliers of a cut live."""
        # What binds, the leading directions, where the contrast takes what binds, and the rest.
        d, m = self.problem.d, self.m
        B = np.eye(m)
        B[:d, :d] = np.linalg.eigh(-sign * self.Q[c, :d, :d])[1]
        nearest = B[:, : min(_NEAREST, d)]
        image = self.Q[c, :m, :m] @ nearest
        image[:d] = 0.0
        leading = B[:, d : d + _LEADING]
        K = np.linalg.qr(np.column_stack([nearest, leading, image, B[:, d:], B[:, :d]]))[0]
        return np.concatenate([K, np.zeros((len(self.S) - m, m))])[:, :rank]

    def _terms(self, const: float, L: Array) -> _Terms:
        zero = np.zeros_like(self.S)
        return _Terms(const, L, zero, np.zeros_like(self.Q), zero)

    def _times_t(self, M: Array) -> _Terms:
        """t⟨M, P⟩."""
        at, zero = self.most * float(np.vdot(M, self.P0)), self._terms(0.0, np.zeros_like(M))
        if self.has_t:
            zero.slope, zero.T = at, self.most * M
            return zero
        return self._terms(at, self.most * M)

    def _adapt(self, terms: _Terms) -> None:
        """Choose Λ so that there is no slope at V on N, and between N and T next to V."""
        rest, m = terms.L.copy(), self.m
        rest[: self.problem.d] = rest[:, : self.problem.d] = rest[:m, :m] = 0.0
        terms.Lam = terms.Lam - rest

    def _rows(self, contrasts: NDArray[np.intp], unit: float) -> list[_Terms]:
        reduced, P0, d, m, p = self.problem, self.P0, self.problem.d, self.m, len(self.S)
        rows = []
        for c in contrasts:
            # ‖VᵀQV‖²_F = tr QPQP: what the two cuts do not know of, and most of what is gained.
            Q, on_N = self.Q[c], np.zeros((p, p))
            on_N[m:, m:] = self.Q[c, m:, m:]
            values, vectors = np.linalg.eigh(on_N)
            # Less its part on N, which cuts there pay for: ⟨Q_N, PQP⟩ ≤ t⟨|Q_N|, P⟩.
            row = self._times_t((vectors * np.abs(values)) @ vectors.T)
            row.G[c] = Q - on_N
            row.const -= float(np.vdot(Q @ P0 @ Q, P0))
            row.L = row.L - 2.0 * Q @ P0 @ Q
            if self.has_t:
                row.bend = d * self.most**2
            else:
                row.const += d * self.most**2
            rows.append(row)
        limit, scale = reduced.mean_limit, reduced.mean_scale
        for f in reduced.F @ self.turn / np.sqrt(scale or 1.0):
            rows.append(self._terms(limit / scale - float(f @ P0 @ f), -np.outer(f, f)))
        for row in rows:
            self._adapt(row)
        if m < p:  # the trace of P − P² on N
            row = self._terms(0.0, -np.eye(p))
            row.Lam = np.diag((np.arange(p) >= m).astype(float))
            rows.append(row)
        if self.has_t:
            row = self._terms(0.0, np.zeros((p, p)))
            row.slope, row.bend = 1.0, -1.0
            rows.append(row)
        return rows

    def _form(self, terms: _Terms, basis: Array) -> Array:
        """Matrix of the terms for X in the span of a basis (svec), and t."""
        P0, p = self.P0, len(self.S)
        used = [c for c in range(len(self.Q)) if terms.G[c].any()]
        left = np.stack([terms.Lam, *terms.G[used]])
        right = np.stack([np.eye(p), *self.Q[used]])
        size = len(self.vectors.rows)
        kron, sums = np.empty((p * p, p * p)), np.empty((2, size, size))
        quadratic = kronecker(self.vectors, symmetrize(left), right, kron, sums)
        slope = terms.L + terms.Lam - terms.Lam @ P0 - P0 @ terms.Lam
        n = 1 + basis.shape[1]
        form = np.zeros((n + self.has_t, n + self.has_t))
        form[0, 0] = terms.const
        form[0, 1:n] = 0.5 * self.vectors.svec(symmetrize(slope)) @ basis
        form[1:n, 1:n] = -basis.T @ quadratic @ basis
        if self.has_t:
            form[0, n], form[n, n] = 0.5 * terms.slope, terms.bend
            form[1:n, n] = 0.5 * self.vectors.svec(terms.T) @ basis
            form[n] = form[:, n]
        form[:, 0] = form[0]
        return form

    def _cut_terms(self, c: int, sign: float, M: Array) -> _Terms:
        """⟨M, tP − sign·PQ_cP⟩ for M on T."""
        terms, image = self._times_t(M), sign * M @ self.P0 @ self.Q[c]
        terms.const -= float(np.trace(image @ self.P0))
        terms.L = terms.L - image - image.T
        terms.G[c] = sign * M
        self._adapt(terms)
        return terms

    def _box_terms(self, M: Array) -> tuple[_Terms, _Terms]:
        """⟨M, t(I − P)⟩ and ⟨M, (1 − t)(I − P)⟩."""
        at = float(np.trace(M) - np.vdot(M, self.P0))
        below, above = self._terms(0.0, np.zeros_like(M)), self._terms(at, -M)
        below.slope, below.T = at, -M
        above.slope, above.T = -at, M
        return below, above

    def _cut_forms(self, c: int, sign: float, K: Array, U: Array) -> Array:
        """Forms (rank, rank, n, n) of a cut on K: those of its terms, from products of rank one."""
        d, m, n = self.problem.d, self.m, len(U)
        forms = self._empty(K, n)
        KU = np.tensordot(K[:m], U[:, :m], (0, 1))
        KUQ, V = sign * KU @ self.Q[c], K[:d]
        # What Λ takes, of T next to V and of N.
        q = sign * self.Q[c][:, :d] @ V
        A, B = np.tensordot(K[d:m], U[:, d:m], (0, 1)), np.tensordot(q[m:], U[:, m:], (0, 1))
        left, right = np.concatenate([KUQ, 2.0 * A], axis=-1), np.concatenate([KU, B], axis=-1)
        forms[..., 1 : n + 1, 1 : n + 1] -= np.tensordot(left, right, (2, 2)).swapaxes(1, 2)
        forms[..., 0, 1 : n + 1] -= 2.0 * np.swapaxes(KUQ[..., :d] @ V - A[..., m:] @ q[m:], 1, 2)
        forms[..., 0, 0] -= V.T @ q[:d]
        products, limit = np.swapaxes(KU @ K, 1, 2), self.most
        if self.has_t:
            forms[..., 0, n + 1] += limit * V.T @ V
            forms[..., 1 : n + 1, n + 1] += limit * products
        else:
            forms[..., 0, 0] += limit * V.T @ V
            forms[..., 0, 1 : n + 1] += limit * products
        return _symmetric(forms)

    def _box_forms(self, U: Array) -> list[Array]:
        n, products, at = len(U), np.moveaxis(U, 0, -1), np.eye(len(self.S)) - self.P0
        below, above = self._empty(at, n), self._empty(at, n)
        below[..., 0, n + 1], below[..., 1 : n + 1, n + 1] = at, -products
        above[..., 0, 0], above[..., 0, 1 : n + 1] = at, -products
        below, above = _symmetric(below), _symmetric(above)
        return [below, above - below]

    def _empty(self, K: Array, n: int) -> Array:
        return np.zeros((K.shape[1], K.shape[1], n + 1 + self.has_t, n + 1 + self.has_t))

    def pose(self) -> DensePoint:
        """Return the interior-point method at the mean over all projectors, with room for cuts."""
        basis, p, d, m, vectors = self.basis, len(self.S), self.problem.d, self.m, self.vectors
        U, n = vectors.smat(basis.T), basis.shape[1]
        self.pairs = [(a, b) for a in range(m) for b in range(a, p if a < d else m)]
        fixed = np.zeros((len(self.pairs), n + 1 + self.has_t, n + 1 + self.has_t))
        for form, (a, b) in zip(fixed, self.pairs, strict=True):
            form[0, 1 : n + 1] = (0.5 - 0.5 * (a < d) - 0.5 * (b < d)) * U[:, a, b]
            form[1 : n + 1, 1 : n + 1] = -0.5 * U[:, a] @ U[:, b].T
            form += form.T
        forms = [self._cut_forms(*cut, U) for cut in self.cuts]
        forms += self._box_forms(U) if self.has_t else []
        rows = [self._form(row, basis) for row in self.rows]
        # The moments of x over all projectors. What T shares with N is spread over T instead.
        spread = (d - d * d / p) / (len(basis) - 1)
        eye = basis.T @ vectors.svec(np.eye(p))
        cov, shared = np.eye(n) - np.outer(eye, eye) / p, U[:, d:m, m:]
        lacking = 0.5 * (p - m) * np.eye(m - d)
        lacking -= np.einsum("iab,icb->ac", np.tensordot(cov, shared, 1), shared)
        values, turn = np.linalg.eigh(lacking)
        for value, v in zip(values, turn.T, strict=True):
            along = np.zeros((p, p))
            along[d:m, d:m] = np.sqrt(max(value, 0.0)) * np.outer(v, v)
            along = basis.T @ vectors.svec(along)
            cov += np.outer(along, along)
        start, unit = np.eye(n + 1 + self.has_t), np.eye(n + 1 + self.has_t)
        start[1 : n + 1, 1 : n + 1] = cov
        unit[1 : n + 1] *= np.sqrt(spread)
        unit[1 : n + 1, 0] = basis.T @ vectors.svec(np.eye(p) * d / p - self.P0)
        if self.has_t:
            start[0, -1] = start[-1, 0] = 0.5
            start[-1, -1] = 0.4
        return self._point(start, unit, forms, rows, fixed)

    def _point(
        self, start: Array, unit: Array, forms: list[Array], rows: list[Array], fixed: Array
    ) -> DensePoint:
        # In units in which the moments are about one. The last variable is the slack of all cuts
        # and rows, and the last row keeps it positive.
        self.fixed = unit.T @ fixed @ unit
        self.inverse = np.linalg.pinv(self.fixed.reshape(len(fixed), -1)[:, 1:].T)
        last = np.stack([*rows, np.zeros_like(start)])
        rank = forms[0].shape[0] if forms else 1
        svec = symmetric_vectors(rank).svec
        entries = [np.moveaxis(svec(np.moveaxis(form, (0, 1), (-2, -1))), -1, 0) for form in forms]
        C = unit.T @ np.concatenate([*entries, last]) @ unit
        at = np.tensordot(C, start, 2)
        split = len(at) - len(last)
        cuts, at_rows = at[:split].reshape(-1, rank * (rank + 1) // 2), at[split:]
        cuts = symmetric_vectors(rank).smat(cuts)
        lowest = min(float(np.linalg.eigvalsh(cuts).min(initial=0.0)), float(at_rows.min()))
        room = 0.1 - min(0.0, lowest)
        slopes = np.concatenate([*(svec(np.eye(rank)) for _ in forms), np.ones(len(last))])
        first = np.zeros_like(start)
        first[0, 0] = 1.0
        both = np.concatenate([self.fixed, first[None]])
        both = scipy.linalg.orth(both.reshape(len(both), -1).T).T.reshape(-1, *start.shape)
        objective = unit.T @ self._form(self.objective, self.basis) @ unit
        inside = ConePoint(start[None], cuts + room * np.eye(rank), at_rows + room)
        costs, accuracy = (objective, _SLACK * self.largest), _ACCURACY * self.largest
        return DensePoint(inside, costs, (C, slopes, both), accuracy)

    def prove(self, point: DensePoint) -> tuple[float, Array]:
        """Bound by the multipliers at hand, whatever they are, and directions that X lacks."""
        total = self._total(point)
        form = self._form(total, np.eye(len(self.basis)))
        curvature, slope = -form[1:, 1:], 2.0 * form[1:, 0]
        # ‖P‖² is the same for all projectors, t² ≤ t, and X has no trace.
        p, size = len(self.S), float(np.abs(form).max())
        eye = np.append(self.vectors.svec(np.eye(p)), np.zeros(self.has_t)) / np.sqrt(p)
        relief = np.append(self.vectors.svec(np.eye(p) - 2.0 * self.P0), np.ones(self.has_t))
        curvature, slope, relief = (
            a - np.multiply.outer(eye, eye @ a) for a in (curvature, slope, relief)
        )
        curvature = curvature - np.outer(curvature @ eye - size * eye, eye)
        values, vectors = np.linalg.eigh(symmetrize(curvature))
        slope, relief = vectors.T @ slope, vectors.T @ relief
        shifts = max(0.0, -float(values[0])) * _SHIFTS[:, :1] + size * _FLOORS
        shifts = shifts.reshape(-1, 1)
        bounds = form[0, 0] + 0.25 * np.sum(
            (slope + shifts * relief) ** 2 / (values + shifts), axis=1
        )
        upward = vectors[: len(self.basis), :_JOINING]
        upward = upward[:, values[:_JOINING] < -_CURVED * self.S.max()]
        upward = upward - self.basis @ (self.basis.T @ upward)
        left, sizes, _ = np.linalg.svd(upward, full_matrices=False)
        return float(bounds.min()), left[:, sizes > _NEW]

    def join(self, directions: Array) -> None:
        """Keep more of X."""
        self.basis = np.column_stack([self.basis, directions])

    def _total(self, point: DensePoint) -> _Terms:
        """Add up all terms by multipliers, with the Λ that is nearest to those of Z ⪰ 0."""
        X, p = point.X, len(self.S)
        R, _ = point.residual(X)
        total, left = self._terms(0.0, np.zeros((p, p))), -(self.inverse @ R.ravel()[1:])
        total.add(1.0, self.objective)
        for weight, (a, b) in zip(left, self.pairs, strict=True):
            total.Lam[a, b] += 0.5 * weight
            total.Lam[b, a] += 0.5 * weight
        for (c, sign, K), M in zip(self.cuts, X.cuts, strict=False):
            total.add(1.0, self._cut_terms(c, sign, symmetrize(K @ M @ K.T)))
        if self.has_t:
            total.add(1.0, self._box_terms(symmetrize(X.cuts[-2]))[0])
            total.add(1.0, self._box_terms(symmetrize(X.cuts[-1]))[1])
        for weight, row in zip(X.rows, self.rows, strict=False):
            total.add(float(weight), row)
        return total


def _symmetric(forms: Array) -> Array:
    """Symmetric in the entries of a cut and in those of z; off the diagonal they count once."""
    both = forms + np.swapaxes(forms, 0, 1)
    return np.asarray(0.25 * (both + np.swapaxes(both, -1, -2)))
