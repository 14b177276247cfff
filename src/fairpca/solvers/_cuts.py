"""The cuts of the tight relaxation, each with its copy of P and its dual variables.

Q_c: covariance gaps, P: relaxed projector, X: a copy of it, φ: shift of one sign of one contrast,
R = (φI ± Q_c)^½, W: dual of R X R ⪯ (φ + s)I, a: dual of |⟨Q_c, X⟩| ≤ d·s, b: dual of
fᵀXf ≤ mean_limit, U: dual of X = P. Duals are scaled by the step size.
"""

from __future__ import annotations

import numpy as np

from fairpca.linalg import Array, eigenvalue_excess, shared_level, symmetrize
from fairpca.solvers._driver import RELAXATION
from fairpca.solvers._problem import ReducedProblem

_PROJECTION_SWEEPS = 200


class CovarianceCopies:
    """Copies X_c of P in the eigenbases of Q_c, with matrix and trace cuts. Scaled duals: U."""

    def __init__(self, reduced: ReducedProblem, start: Array) -> None:
        d = reduced.d
        values, self.E = np.linalg.eigh(reduced.Q)
        self.phi = np.stack([np.maximum(-values[:, 0], 0.0), np.maximum(values[:, -1], 0.0)], 1)
        signed = np.stack([values, -values], axis=1)
        roots = np.sqrt(np.maximum(self.phi[..., None] + signed, 0.0))
        self.weights = roots[..., :, None] * roots[..., None, :]  # RXR = weights ∘ X
        # Each cut is scaled to size one, so that one step size fits all.
        # A cut with R = 0 says nothing and stays as it is.
        sizes = roots.max(axis=-1) ** 2
        self.unit = 1.0 / np.where(sizes > 0.0, sizes, 1.0)
        self.scaled = self.unit[..., None, None] * self.weights
        self.trace_unit = 1.0 / np.maximum(np.abs(values).max(axis=1), 1e-300)
        self.trace = values / d  # ⟨Q, P⟩/d = trace · diag(X)
        self.scaled_trace = self.trace_unit[:, None] * self.trace
        self.divisor = 1.0 + (self.scaled**2).sum(axis=1)
        diagonal = np.einsum("cii->ci", self.divisor)
        self.trace_inverse = self.scaled_trace / diagonal
        self.trace_gain = 2.0 / (1.0 + 2.0 * np.sum(self.scaled_trace * self.trace_inverse, axis=1))
        self.diagonal = np.arange(reduced.size)
        self.X = self.P = self.rotate(start)
        self.U = np.zeros_like(self.X)
        self.Y = self.scaled * self.X[:, None]
        self.W = np.zeros_like(self.Y)
        used = np.sum(self.scaled_trace * self.X[:, self.diagonal, self.diagonal], axis=1)
        self.y = np.stack([used, -used], axis=1)
        self.a = np.zeros_like(self.y)

    def rotate(self, P: Array) -> Array:
        """P in the eigenbasis of every contrast."""
        return np.asarray(np.swapaxes(self.E, 1, 2) @ P @ self.E)

    def unrotate(self, X: Array) -> Array:
        """Sum over the contrasts, back in the common basis."""
        return symmetrize((self.E @ X @ np.swapaxes(self.E, 1, 2)).sum(axis=0))

    def linear_step(self) -> Array:
        """Update X_c and return Σ(relaxed X_c + U_c) for the Fantope projection."""
        i = self.diagonal
        right = self.P - self.U + (self.scaled * (self.Y - self.W)).sum(axis=1)
        pull = (self.y - self.a) @ np.array([1.0, -1.0])
        right[:, i, i] += self.scaled_trace * pull[:, None]
        self.X = right / self.divisor
        diagonal = self.X[:, i, i]
        along = self.trace_gain * np.sum(self.scaled_trace * diagonal, axis=1)
        self.X[:, i, i] = diagonal - along[:, None] * self.trace_inverse
        self.U += RELAXATION * self.X + (1.0 - RELAXATION) * self.P
        return self.unrotate(self.U)

    def accept(self, P: Array) -> float:
        """Take the projected P; returns the squared movement."""
        previous, self.P = self.P, self.rotate(P)
        self.U -= self.P
        return float(np.sum((self.P - previous) ** 2))

    def cut_step(self, mass: float | None, limit: float) -> float:
        """Proximal step of the cuts with a shared bound priced by `mass`, or fixed at `limit`."""
        relaxed = RELAXATION * self.scaled * self.X[:, None] + (1.0 - RELAXATION) * self.Y + self.W
        used = np.sum(self.scaled_trace * self.X[:, self.diagonal, self.diagonal], axis=1)
        trace = RELAXATION * np.stack([used, -used], 1) + (1.0 - RELAXATION) * self.y + self.a
        values, vectors = np.linalg.eigh(relaxed)
        s = limit if mass is None else self._shared_bound(values, trace, mass)
        self.W, _ = eigenvalue_excess(values, vectors, (self.unit * (self.phi + s))[..., None])
        self.a = np.maximum(trace - self.trace_unit[:, None] * s, 0.0)
        previous, self.Y = self.Y, relaxed - self.W
        self.y = trace - self.a
        return float(np.sum((self.Y - previous) ** 2))

    def _shared_bound(self, values: Array, trace: Array, mass: float) -> float:
        unit = np.broadcast_to(self.unit[..., None], values.shape)
        trace_unit = np.broadcast_to(self.trace_unit[:, None], trace.shape)
        levels = np.concatenate(
            [(values / unit - self.phi[..., None]).ravel(), (trace / trace_unit).ravel()]
        )
        return shared_level(
            levels, mass, np.concatenate([unit.ravel() ** 2, trace_unit.ravel() ** 2])
        )

    def residual(self) -> float:
        """Squared distance between the two sides of the splitting."""
        return float(
            np.sum((self.X - self.P) ** 2) + np.sum((self.scaled * self.X[:, None] - self.Y) ** 2)
        )

    def rescale(self, factor: float) -> None:
        """Divide the scaled duals after the step size grew by `factor`."""
        self.U, self.W, self.a = self.U / factor, self.W / factor, self.a / factor

    def gaps_of(self, P: Array) -> Array:
        """Smallest s for which P satisfies the cuts of each contrast."""
        X = self.rotate(P)
        cuts = (np.linalg.eigvalsh(self.weights * X[:, None])[..., -1] - self.phi).max(axis=1)
        traces = np.abs(np.sum(self.trace * X[:, self.diagonal, self.diagonal], axis=1))
        return np.asarray(np.maximum(np.maximum(cuts, traces), 0.0))

    def dual(self, rho: float) -> tuple[Array, float, float]:
        """Matrix to subtract from S, constant to add, and total dual mass Σtr W + Σa."""
        W = rho * self.unit[..., None, None] * self.W
        a = rho * self.trace_unit[:, None] * self.a
        D = (self.weights * W).sum(axis=1)
        D[:, self.diagonal, self.diagonal] += self.trace * (a @ np.array([1.0, -1.0]))[:, None]
        masses = np.einsum("ckii->ck", W)
        return self.unrotate(D), float(np.sum(self.phi * masses)), float(masses.sum() + a.sum())


class MeanCuts:
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


class MeanCopy:
    """A copy of P inside the mean cuts."""

    def __init__(self, reduced: ReducedProblem, start: Array) -> None:
        self.cuts = MeanCuts(reduced)
        self.X = self.P = start
        self.U = np.zeros_like(start)

    def linear_step(self) -> Array:
        """Update X and return the relaxed X + U for the Fantope projection."""
        self.X = self.cuts.project(self.P - self.U)
        self.U = self.U + RELAXATION * self.X + (1.0 - RELAXATION) * self.P
        return self.U

    def accept(self, P: Array) -> float:
        """Take the projected P; returns the squared movement."""
        previous, self.P = self.P, P
        self.U = self.U - P
        return float(np.sum((P - previous) ** 2))

    def residual(self) -> float:
        """Squared distance between the two sides of the splitting."""
        return float(np.sum((self.X - self.P) ** 2))

    def rescale(self, factor: float) -> None:
        """Divide the scaled duals after the step size grew by `factor`."""
        self.U = self.U / factor
        self.cuts.b /= factor
