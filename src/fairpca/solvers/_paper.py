"""The paper's semidefinite program (7), with a proven bound at every check.

Maximise ⟨S,P⟩ − price·max_k ‖P L_k‖² over P ⪰ 0, P ⪯ I, tr P ≤ d (or = d), where
L_k L_kᵀ = φI ± Q_c. The L_k come from eigendecompositions: at φ = ‖Q_c‖ a Cholesky factor is
singular. Σ L_k L_kᵀ = 2Cφ·I for any number C of contrasts, so the P-step of ADMM is a single
Fantope projection. U: scaled duals of Y_k = P L_k. The bounded mean (mean_tol > 0) needs a linear
step of its own and is split off through a copy X of P.
"""

from __future__ import annotations

import numpy as np

from fairpca.exceptions import InvalidInputError
from fairpca.linalg import clipping_level, fantope_eigenvalues, ky_fan, symmetrize
from fairpca.solvers._cuts import MeanCuts
from fairpca.solvers._driver import RELAXATION, Progress, Relaxation, Watch
from fairpca.solvers._problem import ReducedProblem
from fairpca.solvers._solution import Bound


def solve_paper(
    reduced: ReducedProblem,
    *,
    tol: float,
    max_iter: int,
    cov_shift: float | None = None,
    trace: str = "at-most",
    watch: Watch | None = None,
) -> Bound:
    """Solve the paper's SDP of a priced problem; the bound includes the constant price·φ."""
    return _PaperSdp(reduced, Progress(tol), cov_shift, trace).solve(max_iter, watch)


class _PaperSdp(Relaxation):
    def __init__(
        self, reduced: ReducedProblem, progress: Progress, cov_shift: float | None, trace: str
    ) -> None:
        self.problem, self.progress = reduced, progress
        self.at_most = trace == "at-most"
        smallest = reduced.cov_scale
        self.phi = smallest if cov_shift is None else cov_shift
        if self.phi < smallest * (1.0 - 1e-12):
            raise InvalidInputError(
                f"cov_shift={self.phi * reduced.scale:.6g} is below the largest covariance gap "
                f"{smallest * reduced.scale:.6g}; the paper's factors need at least that.",
                parameter="cov_shift",
            )
        # The SDP itself, without the constant, is what is solved to the tolerance.
        self.constant = reduced.price * self.phi
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
        self.cuts = MeanCuts(reduced) if len(reduced.F) else None
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

    def _clip_step(self) -> float:
        # Clip all singular values of P L + U at one level. They come from the Gram matrices:
        # only values above the level matter, and those are accurate there.
        T = RELAXATION * (self.P @ self.L) + (1.0 - RELAXATION) * self.Y + self.U
        squares, vectors = np.linalg.eigh(np.swapaxes(T, 1, 2) @ T)
        sigma = np.sqrt(np.maximum(squares, 0.0))
        level = clipping_level(sigma.ravel(), self.problem.price, self.rho)
        excess = np.maximum(sigma - level, 0.0)
        shares = excess / np.maximum(sigma, 1e-300)
        self.U = T @ ((vectors * shares[:, None, :]) @ np.swapaxes(vectors, 1, 2))
        self.nuclear = float(excess.sum())
        previous, self.Y = self.Y, T - self.U
        return float(np.sum((self.Y - previous) ** 2))

    def _mean_step(self, cuts: MeanCuts) -> float:
        relaxed = RELAXATION * self.P + (1.0 - RELAXATION) * self.X + self.V
        previous, self.X = self.X, cuts.project(relaxed)
        self.V = relaxed - self.X
        return self.weight * float(np.sum((self.X - previous) ** 2))

    def residual(self) -> float:
        """Squared primal residual."""
        residual = float(np.sum((self.P @ self.L - self.Y) ** 2))
        if self.cuts is not None:
            residual += self.weight * float(np.sum((self.P - self.X) ** 2))
        return residual

    def rescale(self, factor: float) -> None:
        """Multiply the step size."""
        self.rho *= factor
        self.U, self.V, self.nuclear = self.U / factor, self.V / factor, self.nuclear / factor
        if self.cuts is not None:
            self.cuts.b /= factor

    def check(self) -> None:
        """Record a proven bound and the value of the current relaxed point."""
        self.progress.record(self.bound(), self.value(), self.P)

    def bound(self) -> float:
        """Dual value for the current duals: valid whatever they are."""
        matrix = self.problem.S - self.rho * symmetrize((self.U @ self.L).sum(axis=0))
        constant = (self.rho * self.nuclear) ** 2 / (4.0 * self.problem.price)
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
        value = float(np.vdot(self.problem.S, P)) - self.problem.price * largest
        if self.cuts is not None and not self.at_most:
            value -= 2.0 * self.cuts.dual(self.rho * self.weight)[2] * self.cuts.excess(P)
        return value
