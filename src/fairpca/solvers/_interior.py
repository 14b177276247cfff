"""A primal-dual interior-point method for linear matrix inequalities over a small Fantope.

    maximise ⟨S, Y⟩ − penalties·t   over 0 ⪯ Y ⪯ I, tr Y = rank, t ≥ 0
    caps_k + (cap_slopes_k·t)I − L_kᵀ Y L_k ⪰ 0   and   rooms_j + room_slopes_j·t − ⟨B_j, Y⟩ ≥ 0

Z, z: the slacks of all inequalities (those of Y and I − Y first, those of t last), X, x: their
multipliers, y: Y as a vector (svec) followed by t. It starts strictly inside on both sides, so
every iterate is feasible and the duality gap is ⟨X, Z⟩ + x·z.

The covariance gaps of a fair basis are cuts and rows with one slack, bounded means are rows with
another, and group objectives rows with a third (`_tight`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from fairpca.linalg import Array, symmetrize
from fairpca.solvers._solution import Snapshot, Status

_SHORTEST_STEP = 1e-8


@dataclass(frozen=True)
class ConicProblem:
    """The data of the problem above: n = len(S), K matrix cuts of size M, J linear rows, q slacks.

    L (K, n, M), caps (K, M, M), cap_slopes (K, q), B (J, n, n), rooms (J,), room_slopes (J, q),
    penalties (q,). Every slack appears in some inequality with a positive slope, in none with a
    negative one.
    """

    S: Array
    rank: int
    L: Array
    caps: Array
    cap_slopes: Array
    B: Array
    rooms: Array
    room_slopes: Array
    penalties: Array


class SymmetricVectors(NamedTuple):
    """Index arrays between symmetric matrices and their svec, and for symmetric Kronecker sums."""

    rows: Any
    columns: Any
    weights: Array
    straight: Any
    crossed: Any

    def svec(self, matrices: Array) -> Array:
        return np.asarray(matrices[..., self.rows, self.columns] * self.weights)

    def smat(self, vector: Array) -> Array:
        size = int(self.columns[-1]) + 1
        matrix = np.empty((*vector.shape[:-1], size, size))
        matrix[..., self.rows, self.columns] = vector / self.weights
        matrix[..., self.columns, self.rows] = vector / self.weights
        return matrix


@lru_cache(maxsize=8)
def symmetric_vectors(n: int) -> SymmetricVectors:
    i, j = np.triu_indices(n)
    weights = np.where(i == j, 1.0, np.sqrt(2.0))
    straight = (i[:, None] * n + i) * (n * n) + j[:, None] * n + j
    crossed = (i[:, None] * n + j) * (n * n) + j[:, None] * n + i
    return SymmetricVectors(i, j, weights, straight, crossed)


class ConePoint(NamedTuple):
    """Slacks or multipliers (or their changes): of the box (2, n, n), the cuts and the rows."""

    box: Array
    cuts: Array
    rows: Array

    def moved(self, step: float, by: ConePoint) -> ConePoint:
        return ConePoint(*(a + step * b for a, b in zip(self, by, strict=True)))

    def dot(self, other: ConePoint) -> float:
        return float(sum(np.vdot(a, b) for a, b in zip(self, other, strict=True)))


class InteriorPoint:
    """Mehrotra's iteration along the HKM direction, to a gap of `wanted(upper)` or to rounding."""

    def __init__(self, problem: ConicProblem, wanted: Callable[[float], float]) -> None:
        self.problem, self.wanted = problem, wanted
        self.newton: type[_ConeNewton] | type[_DenseNewton] = _ConeNewton
        n, self.n_slacks = len(problem.S), len(problem.penalties)
        self.vectors = symmetric_vectors(n)
        self.B = self.vectors.svec(problem.B)
        self.gradient = np.concatenate([self.vectors.svec(problem.S), -problem.penalties])
        self.normal = np.concatenate([self.vectors.svec(np.eye(n)), np.zeros(self.n_slacks)])
        self.value, size = -np.inf, len(self.normal)
        self.work: Array = np.empty(max(n**4, size**2))
        self.sums: Array = np.empty((2, size - self.n_slacks, size - self.n_slacks))
        self._start()

    def _start(self) -> None:
        """Set a point strictly inside on both sides, with multipliers of about one size."""
        # Y = (rank/n)·I, and t so large that every inequality has room. X ≈ level·Z⁻¹ for cuts and
        # rows; what they take from S is balanced by the multipliers of Y ⪰ 0 and I − Y ⪰ 0, whose
        # difference must be −G: a start without dual residual, which the bound would inherit.
        problem, n, q = self.problem, len(self.problem.S), self.n_slacks
        share = problem.rank / n
        self.Y, self.t = np.eye(n) * share, np.zeros(q)
        Z = self._slacks(self.Y, self.t)
        spread = float(np.ptp(np.linalg.eigvalsh(problem.S)))
        level = 0.5 * share * spread or 1e-3
        lowest = np.asarray(np.linalg.eigvalsh(Z.cuts), dtype=np.float64)[:, :1]
        # For every slack, what it must be at least for all inequalities it appears in.
        missing = np.concatenate([-lowest, -Z.rows[:, None]])
        slopes = np.concatenate([problem.cap_slopes, problem.room_slopes])
        ratios = np.where(slopes > 0.0, missing / np.where(slopes > 0.0, slopes, 1.0), 0.0)
        needed = ratios.max(axis=0, initial=0.0)
        sides = problem.caps.shape[-1] * (problem.cap_slopes > 0.0).sum(axis=0)
        sides = sides + (problem.room_slopes > 0.0).sum(axis=0)
        # Half of each penalty goes to the multipliers, so that the rest is left for t ≥ 0.
        self.t = 1.01 * needed + 2.0 * level * sides / problem.penalties
        self.Z = self._slacks(self.Y, self.t)
        cuts, rows = level * symmetrize(np.linalg.inv(self.Z.cuts)), level / self.Z.rows
        rows[len(rows) - q :] = 0.0
        taken, masses = self.adjoint(cuts, rows)
        rows[len(rows) - q :] = problem.penalties - masses
        G = problem.S - taken
        G -= np.eye(n) * (np.trace(G) / n)
        size = 0.6 * float(np.linalg.norm(G, 2))
        inside, outside = max(level / share, size), max(level / (1.0 - share), size)
        box = np.stack([inside * np.eye(n) - 0.5 * G, outside * np.eye(n) + 0.5 * G])
        self.X = ConePoint(box, cuts, rows)

    def _slacks(self, Y: Array, t: Array) -> ConePoint:
        problem, eye = self.problem, np.eye(self.problem.caps.shape[-1])
        cuts = problem.caps + (problem.cap_slopes @ t)[:, None, None] * eye
        cuts = cuts - np.swapaxes(problem.L, 1, 2) @ Y @ problem.L
        rows = problem.rooms + problem.room_slopes @ t - self.B @ self.vectors.svec(Y)
        return ConePoint(np.stack([Y, np.eye(len(Y)) - Y]), cuts, rows)

    def adjoint(self, cuts: Array, rows: Array) -> tuple[Array, Array]:
        """Return what multipliers take away from S, and what they spend of each penalty."""
        problem, L = self.problem, self.problem.L
        lifted = (L @ cuts @ np.swapaxes(L, 1, 2)).sum(axis=0)
        spent = problem.cap_slopes.T @ np.trace(cuts, axis1=-2, axis2=-1)
        matrix = lifted + self.vectors.smat(self.B.T @ rows)
        return matrix, np.asarray(spent + problem.room_slopes.T @ rows)

    def step(self, number: int) -> Status | None:
        """One iteration; end at the gap that is wanted, or where there is no way on."""
        try:
            self._move()
            status = None
        except np.linalg.LinAlgError:  # rounding has the last word
            status = Status.UNSETTLED
        # Objective of the current point, and its distance from the dual value, a bound on it.
        self.value = float(np.vdot(self.problem.S, self.Y) - self.problem.penalties @ self.t)
        gap = self.X.dot(self.Z)
        if gap <= self.wanted(self.value + gap):
            status = Status.CONVERGED
        if status is not None:
            self.work = self.sums = np.empty(0)  # the largest arrays there are; no step follows
        return status

    def snapshot(self, number: int) -> Snapshot:
        """Value of the relaxed point; what it proves is known after lifting only."""
        return Snapshot("bound", number, np.inf, self.value)

    def _move(self) -> None:
        """Predict, correct, and move as far as both sides stay inside."""
        X, Z = self.X, self.Z
        box, cuts = (symmetrize(np.linalg.inv(part)) for part in (Z.box, Z.cuts))
        inverse = ConePoint(box, cuts, 1.0 / Z.rows)
        newton = self.newton(self, inverse)
        parts = (Z.box, Z.cuts, X.box, X.cuts)
        roots = [np.linalg.inv(np.linalg.cholesky(part)) for part in parts]
        # Predict: as if X·Z = 0 could be had at once. How much of the gap is left after the longest
        # such step says how far to aim (Mehrotra): target = (left/gap)³ of the mean product.
        _, dZ, dX = newton.direction(ConePoint(*(-part for part in X)))
        primal = min(1.0, _longest(roots[:2], Z.rows, dZ))
        dual = min(1.0, _longest(roots[2:], X.rows, dX))
        gap = X.dot(Z)
        left = X.moved(dual, dX).dot(Z.moved(primal, dZ)) / gap
        count = Z.box[..., 0].size + Z.cuts[..., 0].size + Z.rows.size
        target = min(1.0, max(left, 1e-4) ** 3) * gap / count
        # Correct: aim at X·Z = target·I, less the product of the changes, which is of second order.
        corrected = ConePoint(
            target * inverse.box - X.box - symmetrize(dX.box @ dZ.box @ inverse.box),
            target * inverse.cuts - X.cuts - symmetrize(dX.cuts @ dZ.cuts @ inverse.cuts),
            target * inverse.rows - X.rows - dX.rows * dZ.rows * inverse.rows,
        )
        dy, dZ, dX = newton.direction(corrected)
        share = 0.9 + 0.09 * min(primal, dual)
        primal = min(1.0, share * _longest(roots[:2], Z.rows, dZ))
        dual = min(1.0, share * _longest(roots[2:], X.rows, dX))
        if not max(primal, dual) > _SHORTEST_STEP:
            raise np.linalg.LinAlgError("no way on")
        self._advance(primal * dy)
        moved = X.moved(dual, dX)
        self.X = ConePoint(symmetrize(moved.box), symmetrize(moved.cuts), moved.rows)

    def _advance(self, dy: Array) -> None:
        split = len(dy) - self.n_slacks
        self.Y = self.Y + self.vectors.smat(dy[:split])
        self.t = self.t + dy[split:]
        self.Z = self._slacks(self.Y, self.t)


class DensePoint(InteriorPoint):
    """The same iteration for one matrix Z ⪰ 0, with cuts and rows that are linear in it."""

    # maximise ⟨S, Z⟩ − cost·t with ⟨E_i, Z⟩ fixed and ⟨C_j, Z⟩ + slope_j·t inside. C_j (q, n, n)
    # are the entries (svec) of the cuts, then the rows; E_i (e, n, n) are orthonormal. It starts
    # inside with t = 0, and from multipliers of one size that need not be feasible yet.

    def __init__(
        self,
        start: ConePoint,
        objective: tuple[Array, float],
        forms: tuple[Array, Array, Array],
        accuracy: float,
    ) -> None:
        (self.S, self.cost), (self.C, self.slopes, self.E) = objective, forms
        self.Z, self.accuracy, self.newton = start, accuracy, _DenseNewton
        self.vectors = symmetric_vectors(start.cuts.shape[-1])
        self.both = np.concatenate([self.C, self.E])
        level = float(np.linalg.norm(np.append(self._free(self.S), self.cost)))
        box, cuts = (np.broadcast_to(np.eye(Z.shape[-1]), Z.shape) for Z in start[:2])
        self.X = ConePoint(level * box, level * cuts, level * np.ones(len(start.rows)))

    def step(self, number: int) -> Status | None:
        """One iteration; end where gap and dual residual are small, or where there is no way on."""
        R, rest = self.residual(self.X)
        residual = float(np.abs(np.append(self._free(R), rest)).max())
        try:
            self._move()
        except np.linalg.LinAlgError:
            return Status.UNSETTLED
        is_solved = self.X.dot(self.Z) <= self.accuracy and residual <= self.accuracy
        return Status.CONVERGED if is_solved else None

    def _free(self, R: Array) -> Array:
        return np.asarray(R - np.tensordot(np.tensordot(self.E, R, 2), self.E, 1))

    def residual(self, X: ConePoint) -> tuple[Array, float]:
        """Return what multipliers and the objective leave, of Z and of t."""
        weights = np.concatenate([self.vectors.svec(X.cuts).ravel(), X.rows])
        R = self.S + X.box[0] + np.tensordot(weights, self.C, 1)
        return R, float(self.slopes @ weights) - self.cost

    def change(self, dy: Array) -> ConePoint:
        """Return the changes of all slacks with those of Z and t."""
        along = self.C.reshape(len(self.C), -1) @ dy[:-1] + dy[-1] * self.slopes
        shape = len(self.Z.cuts), len(self.vectors.rows)  # there may be no cuts
        split = shape[0] * shape[1]
        cuts = self.vectors.smat(along[:split].reshape(shape))
        return ConePoint(dy[:-1].reshape(self.Z.box.shape), cuts, along[split:])

    def _advance(self, dy: Array) -> None:
        self.Z = self.Z.moved(1.0, self.change(dy))


class _DenseNewton:
    """The linearised optimality conditions of `DensePoint`, solved for the multipliers."""

    # With X = G⁻¹DG⁻ᵀ and Z⁻¹ = G⁻¹G⁻ᵀ the map dZ ↦ sym(X·dZ·Z⁻¹) of a block has the inverse
    # R ↦ Gᵀ[(GRGᵀ)_ij·2/(D_i + D_j)]G. That of the box takes dZ out, and what is left is one number
    # for every C_j and E_i, which are far fewer than the entries of Z.

    def __init__(self, at: Any, inverse: ConePoint) -> None:
        self.at, self.inverse = at, inverse
        (self.G,), (self.scale,) = _paired(at.X.box, inverse.box)
        images = self.G @ at.both @ self.G.T
        images *= self.scale
        self.images = images.reshape(len(images), -1)
        A = self.images @ self.images.T
        G, scale = _paired(at.X.cuts, inverse.cuts)
        entries = at.vectors.smat(np.eye(len(at.vectors.rows)))
        parts = G[:, None] @ entries @ np.swapaxes(G, 1, 2)[:, None] * scale[:, None]
        parts = parts.reshape(*parts.shape[:2], entries[0].size)
        for k, block in enumerate(parts @ np.swapaxes(parts, 1, 2)):
            mine = slice(k * len(block), (k + 1) * len(block))
            A[mine, mine] += block
        rows = np.arange(len(at.C) - len(at.X.rows), len(at.C))
        A[rows, rows] += 1.0 / (at.X.rows * inverse.rows)
        self.factor = scipy.linalg.cho_factor(A, overwrite_a=True, check_finite=False)
        self.slopes = np.append(at.slopes, np.zeros(len(at.E)))
        self.along = scipy.linalg.cho_solve(self.factor, self.slopes, check_finite=False)

    def direction(self, wish: ConePoint) -> tuple[Array, ConePoint, ConePoint]:
        """Return changes of y, slacks and multipliers; `wish`: the latter if slacks stood still."""
        at, G = self.at, self.G
        R, rest = at.residual(at.X.moved(1.0, wish))
        R = (G @ R @ G.T * self.scale).ravel()
        plain = scipy.linalg.cho_solve(self.factor, self.images @ R, check_finite=False)
        dt = (rest - self.slopes @ plain) / (self.slopes @ self.along)
        R = (R - (plain + dt * self.along) @ self.images).reshape(G.shape)
        dy = np.append(symmetrize(G.T @ (R * self.scale) @ G), dt)
        dZ = at.change(dy)
        return dy, dZ, _dual_change(wish, at.X, dZ, self.inverse)


def _paired(X: Array, inverse: Array) -> tuple[Array, Array]:
    """G with GXGᵀ = D and GZ⁻¹Gᵀ = I of every block, and √(2/(D_i + D_j))."""
    root = np.linalg.inv(np.linalg.cholesky(inverse))
    D, U = np.linalg.eigh(root @ X @ np.swapaxes(root, 1, 2))
    return np.swapaxes(U, 1, 2) @ root, np.sqrt(2.0 / (D[:, :, None] + D[:, None, :]))


def _dual_change(wish: ConePoint, X: ConePoint, dZ: ConePoint, inverse: ConePoint) -> ConePoint:
    """HKM: dX = wish − sym(X·dZ·Z⁻¹)."""
    box, cuts = (wish[i] - symmetrize(X[i] @ dZ[i] @ inverse[i]) for i in range(2))
    return ConePoint(box, cuts, wish.rows - X.rows * inverse.rows * dZ.rows)


def kronecker(
    vectors: SymmetricVectors, left: Array, right: Array, kron: Array, sums: Array
) -> Array:
    """Sum of symmetric Kronecker products of stacked matrices, in the arrays that are given."""
    straight, crossed = sums
    both = np.concatenate([left, right]).reshape(-1, len(kron))
    np.matmul(both.T, np.roll(both, len(left), axis=0), out=kron)
    np.take(kron.ravel(), vectors.straight, out=straight, mode="clip")
    np.take(kron.ravel(), vectors.crossed, out=crossed, mode="clip")
    straight += crossed
    straight *= vectors.weights
    straight *= 0.25 * vectors.weights[:, None]
    return np.asarray(straight)


class _ConeNewton:
    """The linearised optimality conditions at one point, factorised once for both directions."""

    # HKM: dX = wish − sym(X·dZ·Z⁻¹) turns the optimality conditions into H·dy = …, with
    # H = Σ of AᵀX ⊗ Z⁻¹A over all inequalities: symmetric and positive, so Cholesky factors it.

    def __init__(self, at: Any, inverse: ConePoint) -> None:
        self.at, self.inverse, problem = at, inverse, at.problem
        X, L = at.X, problem.L
        LT = np.swapaxes(L, 1, 2)
        left = np.concatenate([X.box, L @ X.cuts @ LT])
        right = np.concatenate([inverse.box, L @ inverse.cuts @ LT])
        n, q, vectors = len(problem.S), at.n_slacks, at.vectors
        # Σ of symmetric Kronecker products of all inequalities, by one product of stacked matrices.
        # New arrays of this size would cost more than what is computed in them, so they are kept.
        kron, size, crossed = at.work[: n**4].reshape(n * n, n * n), len(vectors.rows), at.sums[1]
        straight = kronecker(vectors, left, right, kron, at.sums)
        H = at.work[: (size + q) ** 2].reshape(size + q, size + q)  # nobody needs kron any more
        self.ratio = X.rows * inverse.rows
        H[:size, :size] = straight
        H[:size, :size] += np.matmul(at.B.T * self.ratio, at.B, out=crossed)
        if q:
            middle = vectors.svec(L @ symmetrize(X.cuts @ inverse.cuts) @ LT)
            coupling = -middle.T @ problem.cap_slopes
            coupling -= at.B.T @ (self.ratio[:, None] * problem.room_slopes)
            H[:size, size:], H[size:, :size] = coupling, coupling.T
            stiffness = np.einsum("kij,kij->k", X.cuts, inverse.cuts)
            H[size:, size:] = (problem.cap_slopes.T * stiffness) @ problem.cap_slopes
            H[size:, size:] += (problem.room_slopes.T * self.ratio) @ problem.room_slopes
        if not np.isfinite(H).all():
            raise np.linalg.LinAlgError("overflow")
        self.factor = scipy.linalg.cho_factor(H, overwrite_a=True, check_finite=False)
        self.along = scipy.linalg.cho_solve(self.factor, at.normal, check_finite=False)

    def direction(self, wish: ConePoint) -> tuple[Array, ConePoint, ConePoint]:
        """Return changes of y, slacks and multipliers; `wish`: the latter if slacks stood still."""
        at, problem = self.at, self.at.problem
        # H·dy = gradient − A*(X + wish) + θ·normal, with θ such that tr dY = 0.
        new = at.X.moved(1.0, wish)
        taken, masses = at.adjoint(new.cuts, new.rows)
        dual = np.concatenate([at.vectors.svec(new.box[0] - new.box[1] - taken), masses])
        plain = scipy.linalg.cho_solve(self.factor, at.gradient + dual, check_finite=False)
        dy = plain - (at.normal @ plain) / (at.normal @ self.along) * self.along
        size = len(dy) - at.n_slacks
        dY, dt = at.vectors.smat(dy[:size]), dy[size:]
        eye = np.eye(problem.caps.shape[-1])
        dZ = ConePoint(
            np.stack([dY, -dY]),
            (problem.cap_slopes @ dt)[:, None, None] * eye
            - np.swapaxes(problem.L, 1, 2) @ dY @ problem.L,
            problem.room_slopes @ dt - at.B @ dy[:size],
        )
        return dy, dZ, _dual_change(wish, at.X, dZ, self.inverse)


def _longest(roots: list[Array], rows: Array, change: ConePoint) -> float:
    """Return the step at which a point leaves the cone; `roots` are inverse Cholesky factors."""
    lowest = float((change.rows / rows).min(initial=0.0))
    for root, part in zip(roots, change[:2], strict=True):
        if len(part):
            values = np.linalg.eigvalsh(root @ part @ np.swapaxes(root, 1, 2))
            lowest = min(lowest, float(values[:, 0].min()))
    return -1.0 / lowest if lowest < 0.0 else np.inf
