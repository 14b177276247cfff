"""The second-order bound: projectors, the gap t and all their products, for a few dimensions.

z = (1, x, t) with P = (d/m)I + Σx_iT_i for orthonormal traceless T_i, and Z in place of zzᵀ. What
holds for products of projectors is linear in Z: P² = P, tP ∓ PQ_cP ⪰ 0, tr(Q_cP)² ≤ dt², and for
the largest gap u that can matter t(I − P) ⪰ 0, (u − t)(I − P) ⪰ 0, t² ≤ ut. Under a
limit t is no variable but the limit.

Every multiplier proves a bound: with M_k ⪰ 0, b ≥ 0 and any Λ the objective of a basis is at most
zᵀGz = objective + Σ⟨M_k, cut_k⟩ + Σb_j·row_j + ⟨Λ, P − P²⟩, a quadratic function of x and t. Where
it is concave its maximum is the bound, and ‖x‖², which is the same for all projectors, can always
make it concave (docs/design/tight-relaxation.md).
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from fairpca.linalg import Array, symmetrize
from fairpca.solvers._interior import ConePoint, DensePoint
from fairpca.solvers._problem import ReducedProblem
from fairpca.solvers._solution import PROVEN, Status, relative_gap

_ACCURACY, _MOST_STEPS = 1e-5, 60
# Products of two numbers in a step beyond which it is not worth its time: up to twelve dimensions
# with two signs of contrasts that bind, ten with seven, eight with 19, seven with 31.
MOST_WORK = 1e9
# What slack costs, in largest variances of all components: more than any limit is worth.
_SLACK = 30.0
_ROUNDING = 1e-11
# Share of the largest gap below which the covariance gap of a sign does not bind.
_FAR = 0.5
# Share of what is left that a step must gain where enough is proven already.
_LITTLE = 0.5
_NEAR = 10.0  # duality gaps, in those of a solved program, from which a still bound is the last


def lifted_bound(
    reduced: ReducedProblem, V: Array, tol: float, max_iter: int
) -> tuple[float, Status]:
    """Bound all bases that are better than a feasible V; d < size, no group objectives."""
    # Contrasts far from binding are left out: that can only raise the bound.
    gap, incumbent = reduced.limit or reduced.cov_gap(V), reduced.objective(V)
    values = np.linalg.eigvalsh(symmetrize(V.T @ (reduced.Q @ V)))
    binding = np.stack([values[:, -1], -values[:, 0]]) >= _FAR * gap
    # Entries of cuts, P² = P and pairs of products of P: what a step multiplies.
    entries = reduced.size * (reduced.size + 1) // 2
    q = entries * (1 + int(binding.sum()) + 2 * (reduced.limit is None))
    if q * q * (q / 3 + entries**2) + 4 * q * entries**3 > MOST_WORK:
        return np.inf, Status.ITERATION_LIMIT
    lifted = _Lifted(reduced, incumbent, binding)
    point, lowest, status = lifted.pose(), np.inf, None
    for number in range(min(max_iter, _MOST_STEPS)):
        status = point.step(number)
        last, lowest = lowest, min(lowest, lifted.prove(point))
        # The last steps lose digits of the multipliers: none is taken that the bound does not need.
        left, gain = relative_gap(lowest, incumbent), last - lowest
        is_met = left <= tol or (left <= PROVEN and gain <= _LITTLE * (lowest - incumbent))
        is_near = point.X.dot(point.Z) <= _NEAR * point.accuracy
        if is_met or (is_near and gain <= _ACCURACY * abs(lowest)):
            status = Status.CONVERGED
        if status is not None:
            break
    return max(lowest, incumbent), status or Status.ITERATION_LIMIT


class _Lifted:
    """Forms (n, n, ·, ·) that take Z to the matrices that are zero or positive semidefinite."""

    def __init__(
        self, reduced: ReducedProblem, incumbent: float, binding: NDArray[np.bool_]
    ) -> None:
        self.problem, m, d = reduced, reduced.size, reduced.d
        T = _traceless(m)
        # Of projectors ‖P − (d/m)I‖² = d − d²/m: with this scale ‖x‖² is the number of entries.
        self.k = len(T)
        E = np.concatenate([np.eye(m)[None] * d / m, np.sqrt((d - d * d / m) / self.k) * T])
        has_t = reduced.limit is None and len(reduced.Q) > 0
        self.n = self.k + 1 + has_t
        self.E = np.concatenate([E, np.zeros((int(has_t), m, m))])  # t is no part of P
        unit = reduced.cov_scale or 1.0
        P = self._linear(self.E, 0)
        self.zero = P - self._product(np.eye(m))
        self.products = _entries_of(self.zero).reshape(-1, self.n**2)
        self.inverse = np.linalg.pinv(self.products[:, 1:].T)
        most = (reduced.limit or 0.0) / unit
        bounds, self.cuts = most * P, []
        if has_t:
            # A better basis has no larger gap than plain PCA, which keeps the most variance, nor
            # one that costs more than plain PCA is better than what is known.
            values, V = reduced.leading(d)
            most = min(reduced.cov_gap(V), (values.sum() - incumbent) / reduced.penalty) / unit
            tI, bounds = self._linear(np.eye(m)[None], -1), self._linear(self.E, -1)
            whole = self._linear(np.eye(m)[None], 0)
            self.cuts = [tI - bounds, whole - tI - P + bounds]
            bounds = most * bounds
        self.S = np.einsum("ab,ijab->ij", reduced.S, P)
        self.rows, square = [], d * most**2 * self._entries(-1 if has_t else 0)
        for Q, signs in zip(reduced.Q / unit, binding.T, strict=True):
            if not signs.any():
                continue
            PQP = self._product(Q)
            self.cuts += [bounds - sign * PQP for sign in np.array([1.0, -1.0])[signs]]
            # ‖VᵀQV‖²_F = tr QPQP: what the two cuts do not know of, and most of what is gained.
            self.rows.append(square - np.einsum("ab,ijab->ij", Q, PQP))
        for f in reduced.F / np.sqrt(reduced.mean_scale):
            limit = reduced.mean_limit / reduced.mean_scale
            self.rows.append(limit * self._entries(0) - np.einsum("a,b,ijab->ij", f, f, P))
        if has_t:
            t = 0.5 * (self._entries(0, -1) + self._entries(-1, 0))
            self.rows.append(t - self._entries(-1))
            self.S -= reduced.penalty * most * unit * t

    def _entries(self, row: int, column: int | None = None) -> Array:
        form = np.zeros((self.n, self.n))
        form[row, row if column is None else column] = 1.0
        return form

    def _linear(self, E: Array, with_entry: int) -> Array:
        # z_a·Σz_iE_i, for one entry a.
        form = np.zeros((self.n, self.n, *E.shape[1:]))
        form[with_entry, : len(E)] += 0.5 * E
        form[: len(E), with_entry] += 0.5 * E
        return form

    def _product(self, Q: Array) -> Array:
        return symmetrize(np.einsum("iab,bc,jcd->ijad", self.E, Q, self.E, optimize=True))

    def pose(self) -> DensePoint:
        """Return the interior-point method at the mean over all projectors, with room for cuts."""
        n, m = self.n, self.problem.size
        start = np.eye(n)
        if n > self.k + 1:
            start[0, -1], start[-1, 0], start[-1, -1] = 0.5, 0.5, 0.4
        cuts = np.zeros((len(self.cuts), m, m))
        for k, form in enumerate(self.cuts):
            cuts[k] = np.tensordot(start, form, 2)
        last = np.stack([*self.rows, np.zeros((n, n))])
        rows = np.tensordot(last, start, 2)
        lowest = min(float(np.linalg.eigvalsh(cuts).min(initial=0.0)), float(rows.min()))
        room = 0.1 - min(0.0, lowest)
        # The last variable is the slack of all cuts and rows, and the last row keeps it positive.
        forms = np.concatenate([*(_entries_of(form) for form in self.cuts), last])
        slopes = np.concatenate([*(_entries_of(np.eye(m)) for _ in cuts), np.ones(len(rows))])
        fixed = np.concatenate([_entries_of(self.zero), self._entries(0)[None]])
        fixed = scipy.linalg.orth(fixed.reshape(len(fixed), -1).T).T.reshape(-1, n, n)
        largest = self.problem.d * float(self.problem.leading(1)[0][0])
        inside = ConePoint(start[None], cuts + room * np.eye(m), rows + room)
        objective, linear = (self.S, _SLACK * largest), (forms, slopes, fixed)
        return DensePoint(inside, objective, linear, _ACCURACY * largest)

    def prove(self, point: DensePoint) -> float:
        """Return the bound of the multipliers at hand, valid whatever they are."""
        # Λ makes βe₀e₀ᵀ − G as close as it can be to the multipliers of Z ⪰ 0.
        R, _ = point.residual(point.X)
        weights = -(self.inverse @ R.ravel()[1:])
        G = R - point.X.box[0] + (weights @ self.products).reshape(R.shape)
        G = symmetrize(G)
        curvature = -G[1:, 1:]
        lowest, size = float(np.linalg.eigvalsh(curvature)[0]), float(np.abs(G).max())
        # ‖x‖² = k for all projectors, and t² ≤ t.
        shift = max(0.0, -lowest) + _ROUNDING * size
        slope, constant = G[1:, 0].copy(), G[0, 0] + shift * self.k
        slope[self.k :] += 0.5 * shift
        curvature += shift * np.eye(self.n - 1)
        return float(constant + slope @ np.linalg.solve(curvature, slope))


def _entries_of(form: Array) -> Array:
    """Entries (svec) of matrices (…, m, m) that depend on Z, first."""
    i, j = np.triu_indices(form.shape[-1])
    return np.moveaxis(form[..., i, j] * np.where(i == j, 1.0, np.sqrt(2.0)), -1, 0)


def _traceless(m: int) -> Array:
    """Orthonormal symmetric matrices without trace (k, m, m)."""
    i, j = np.triu_indices(m, 1)
    off = np.zeros((len(i), m, m))
    off[np.arange(len(i)), i, j] = off[np.arange(len(i)), j, i] = np.sqrt(0.5)
    diagonals = scipy.linalg.null_space(np.ones((1, m))).T
    return np.concatenate([off, diagonals[:, :, None] * np.eye(m)])
