"""The paper's semidefinite program (7), with a proven bound at every check.

Maximise ⟨S,P⟩ − penalty·max_k ‖P L_k‖² over P ⪰ 0, P ⪯ I, tr P ≤ d (or = d), where
L_k L_kᵀ = φI ± Q_c. The L_k come from eigendecompositions: at φ = ‖Q_c‖ a Cholesky factor is
singular. Σ L_k L_kᵀ = 2Cφ·I for any number C of contrasts, so the P-step of ADMM is a single
Fantope projection. U: scaled duals of Y_k = P L_k. The bounded mean (mean_tol > 0) needs a linear
step of its own and is split off through a copy X of P.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairpca.exceptions import InvalidInputError
from fairpca.linalg import (
    Array,
    fantope_eigenvalues,
    ky_fan,
    shared_level,
    symmetrize,
    top_eigenpairs,
)
from fairpca.solvers._exact import bounded_mean_basis
from fairpca.solvers._problem import FEASIBLE, ReducedProblem
from fairpca.solvers._refinement import refine
from fairpca.solvers._solution import Bound, Options, Progress, Snapshot, Status, drive

_RELAXATION = 1.6
_CHECK_EVERY = 5
_REBALANCE_UNTIL = 1000
_PATIENCE = 300
_PROJECTION_SWEEPS = 10


def solve_paper(reduced: ReducedProblem, options: Options) -> Bound:
    """Solve the paper's SDP of a penalised problem; the bound includes the constant penalty·φ."""
    sdp = _PaperSdp(reduced, options)
    status, n_iter = drive(sdp, options.max_iter, options.watch)
    best, constant = sdp.progress, sdp.constant
    rounded = _round(reduced, best.point)
    return Bound(best.bound + constant, best.relaxed + constant, rounded, n_iter, status)


def _round(reduced: ReducedProblem, P: Array) -> Array:
    """Leading eigenvectors of P; where they miss a mean limit, the basis nearest to P inside."""
    V = top_eigenpairs(P, reduced.d)[1]
    if reduced.violation(V) <= FEASIBLE:
        return V
    means_only = replace(reduced, S=P, Q=reduced.Q[:0], penalty=0.0)
    return bounded_mean_basis(means_only)[0] if len(reduced.F) == 1 else refine(means_only, V).basis


class _PaperSdp:
    """The iteration: ADMM with over-relaxation, a proven bound at every check."""

    def __init__(self, reduced: ReducedProblem, options: Options) -> None:
        self.problem, self.progress = reduced, Progress(options.tol)
        self.at_most = options.trace == "at-most"
        smallest, shift = reduced.cov_scale, options.cov_shift
        self.phi = smallest if shift is None else shift / reduced.scale
        if self.phi < smallest * (1.0 - 1e-12):
            raise InvalidInputError(
                f"cov_shift={self.phi * reduced.scale:.6g} is below the largest covariance gap "
                f"{smallest * reduced.scale:.6g}; the paper's factors need at least that.",
                parameter="cov_shift",
            )
        # The SDP itself, without the constant, is what is solved to the tolerance.
        self.constant = reduced.penalty * self.phi
        values, E = np.linalg.eigh(reduced.Q)
        roots = np.sqrt(np.maximum(self.phi + np.concatenate([values, -values]), 0.0))
        E = np.concatenate([E, E])
        self.L = symmetrize((E * roots[:, None, :]) @ np.swapaxes(E, 1, 2))
        self.weight = len(self.L) * self.phi  # Σ L Lᵀ = weight · I
        self.rho = 3.0 * float(np.trace(reduced.S)) / reduced.size / (2.0 * self.phi)
        self.P = np.eye(reduced.size) * (reduced.d / reduced.size)
        self.Y = self.P @ self.L
        self.U = np.zeros_like(self.Y)
        self.nuclear = 0.0
        self.gap, self.improved_at = np.inf, 0
        self.cuts = _MeanCuts(reduced) if len(reduced.F) else None
        self.X, self.V = self.P, np.zeros_like(self.P)  # copy of P inside the mean cuts, its dual

    def iterate(self) -> float:
        """One pass; returns the squared movement of the clipped side."""
        total, weight = self.problem.S / self.rho + ((self.Y - self.U) @ self.L).sum(0), self.weight
        if self.cuts is not None:
            total, weight = total + self.weight * (self.X - self.V), 2.0 * weight
        values, vectors = np.linalg.eigh(symmetrize(total / weight))
        kept = fantope_eigenvalues(values, self.problem.d, at_most=self.at_most)
        support = kept > 0.0
        self.P = (vectors[:, support] * kept[support]) @ vectors[:, support].T
        moved = self._clip_step()
        return moved if self.cuts is None else moved + self._mean_step(self.cuts)

    def step(self, number: int) -> Status | None:
        """One pass, with a check and a new step size every few of them."""
        moved, progress = self.iterate(), self.progress
        if number > 1 and number % _CHECK_EVERY:
            return None
        progress.bound = min(progress.bound, self.bound())
        value = self.value()
        if value > progress.relaxed or not progress.point.size:
            progress.relaxed, progress.point = value, self.P
        if progress.solved:
            return Status.CONVERGED
        if progress.bound - progress.relaxed < 0.8 * self.gap:
            self.gap, self.improved_at = progress.bound - progress.relaxed, number
        if number < _REBALANCE_UNTIL:
            self._rebalance(moved)
        return Status.STALLED if number - self.improved_at > _PATIENCE else None

    def snapshot(self, number: int) -> Snapshot:
        """Bound so far and the best relaxed value."""
        progress, constant = self.progress, self.constant
        return Snapshot("bound", number, progress.bound + constant, progress.relaxed + constant)

    def _clip_step(self) -> float:
        # Clip all singular values of P L + U at one level. They come from the Gram matrices:
        # only values above the level matter, and those are accurate there.
        T = _RELAXATION * (self.P @ self.L) + (1.0 - _RELAXATION) * self.Y + self.U
        squares, vectors = np.linalg.eigh(np.swapaxes(T, 1, 2) @ T)
        sigma = np.sqrt(np.maximum(squares, 0.0))
        level = shared_level(sigma.ravel(), 0.0, 2.0 * self.problem.penalty / self.rho)
        excess = np.maximum(sigma - level, 0.0)
        shares = excess / np.maximum(sigma, 1e-300)
        self.U = T @ ((vectors * shares[:, None, :]) @ np.swapaxes(vectors, 1, 2))
        self.nuclear = float(excess.sum())
        previous, self.Y = self.Y, T - self.U
        return float(np.sum((self.Y - previous) ** 2))

    def _mean_step(self, cuts: _MeanCuts) -> float:
        relaxed = _RELAXATION * self.P + (1.0 - _RELAXATION) * self.X + self.V
        previous, self.X = self.X, cuts.project(relaxed)
        self.V = relaxed - self.X
        return self.weight * float(np.sum((self.X - previous) ** 2))

    def _rebalance(self, moved: float) -> None:
        """Change the step size where the primal residual and the movement differ in size."""
        residual = float(np.sum((self.P @ self.L - self.Y) ** 2))
        if self.cuts is not None:
            residual += self.weight * float(np.sum((self.P - self.X) ** 2))
        # Both are squared.
        factor = float(np.clip((residual / max(moved, 1e-300)) ** 0.25, 1.0 / 3.0, 3.0))
        if 2.0 / 3.0 < factor < 1.5:
            return
        self.rho *= factor
        self.U, self.V, self.nuclear = self.U / factor, self.V / factor, self.nuclear / factor
        if self.cuts is not None:
            self.cuts.b /= factor

    def bound(self) -> float:
        """Dual value for the current duals: valid whatever they are."""
        matrix = self.problem.S - self.rho * symmetrize((self.U @ self.L).sum(axis=0))
        constant = (self.rho * self.nuclear) ** 2 / (4.0 * self.problem.penalty)
        if self.cuts is not None:
            removed, added, _ = self.cuts.dual(self.rho * self.weight)
            matrix, constant = matrix - removed, constant + added
        return ky_fan(matrix, self.problem.d, nonnegative=self.at_most) + constant

    def value(self) -> float:
        """Objective of the SDP at the current P, drawn inside the mean cuts by shrinking it."""
        P = self.P
        if self.cuts is not None:
            over = float(np.max(self.cuts.used(P) / self.cuts.limits))
            P = P / max(over, 1.0) if self.at_most else P
        largest = float(np.linalg.eigvalsh(self.L @ (P @ P) @ self.L)[:, -1].max())
        value = float(np.vdot(self.problem.S, P)) - self.problem.penalty * largest
        if self.cuts is not None and not self.at_most:
            value -= 2.0 * self.cuts.dual(self.rho * self.weight)[2] * self.cuts.excess(P)
        return value


class _MeanCuts:
    """The half-spaces fᵀPf ≤ mean_limit and the projection onto all of them."""

    def __init__(self, reduced: ReducedProblem) -> None:
        norms = np.linalg.norm(reduced.F, axis=1)
        self.F = reduced.F / norms[:, None]
        self.limits = reduced.mean_limit / norms**2
        self.overlaps = (self.F @ self.F.T) ** 2
        self.b = np.zeros(len(self.F))

    def used(self, X: Array) -> Array:
        """fᵀXf for the mean gaps scaled to length one."""
        return np.asarray(np.sum((self.F @ X) * self.F, axis=1))

    def excess(self, X: Array) -> float:
        """Largest violation."""
        return max(float(np.max(self.used(X) - self.limits)), 0.0)

    def project(self, A: Array) -> Array:
        """Project onto the half-spaces; their multipliers stay in `b` for the next call."""
        excess = self.used(A) - self.limits
        for _ in range(_PROJECTION_SWEEPS):
            before = self.b.copy()
            for j in range(len(self.b)):  # coordinate descent on the dual, a handful of cuts
                self.b[j] = max(0.0, self.b[j] + excess[j] - self.overlaps[j] @ self.b)
            if np.max(np.abs(self.b - before)) <= 1e-12 * max(np.max(self.b), 1e-300):
                break
        return np.asarray(A - (self.F.T * self.b) @ self.F)

    def dual(self, rho: float) -> tuple[Array, float, float]:
        """Matrix to subtract from S, constant to add, and total dual mass."""
        b = rho * self.b
        return (self.F.T * b) @ self.F, float(b @ self.limits), float(b.sum())
