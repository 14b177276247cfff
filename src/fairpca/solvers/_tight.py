"""The tighter relaxation: P in the Fantope with R P R ⪯ (φ + s)I for every contrast and sign.

The shift φ of each sign is as small as positive semidefiniteness of φI ± Q_c allows: for a
projector the cut reads P^½QP^½ ⪯ sI + φ(I − P), so a smaller φ is always tighter
(docs/design/tight-relaxation.md). Solved by ADMM with one copy of P for every contrast, held in the
eigenbasis of Q_c, where R X R is an element-wise product and the linear step a division.
"""

from __future__ import annotations

import numpy as np

from fairpca.linalg import Array, fantope_eigenvalues, ky_fan, symmetrize, top_eigenpairs
from fairpca.solvers._cuts import CovarianceCopies, MeanCopy
from fairpca.solvers._driver import Progress, Relaxation, Watch
from fairpca.solvers._problem import ReducedProblem
from fairpca.solvers._solution import Bound

_FEW_CONTRASTS = 3
_LIKELY_TO_BIND = 1e-3


def solve_tight(
    reduced: ReducedProblem,
    *,
    tol: float,
    max_iter: int,
    incumbent: float | None = None,
    multipliers: Array | None = None,
    watch: Watch | None = None,
) -> Bound:
    """Bound a problem with at least one covariance gap or bounded mean gap.

    Of many contrasts only a few bind. Leaving contrasts out can only raise the bound, so it stays
    valid; those that the relaxed point then violates are put back until it violates none that
    matters. `multipliers` say what each contrast costs at the basis at hand, whose objective is
    `incumbent`: those that cost something are tried first.
    """

    def bounded(part: ReducedProblem) -> Bound:
        return _TightSdp(part, Progress(tol, incumbent), price_hint).solve(max_iter, watch)

    price_hint = 0.0 if multipliers is None else float(multipliers.sum())
    if len(reduced.Q) <= _FEW_CONTRASTS:
        return bounded(reduced)
    if multipliers is None or price_hint == 0.0:
        multipliers = reduced.cov_gaps(top_eigenpairs(reduced.S, reduced.d)[1])
    active = np.flatnonzero(multipliers >= _LIKELY_TO_BIND * multipliers.max())
    value, n_iter = np.inf, 0
    while True:
        part = bounded(reduced.with_contrasts(active))
        value, n_iter = min(value, part.value), n_iter + part.n_iter
        gaps = _cut_gaps(reduced, part.projector)
        level = max(float(gaps[active].max()), reduced.limit or 0.0)
        overlooked = np.flatnonzero(gaps > level * (1.0 + 1e-9))
        price = reduced.price or 2.0 * _least_price(reduced, price_hint)
        relaxed = part.relaxed_value - price * max(float(gaps.max()) - level, 0.0)
        is_solved = Progress(tol, incumbent, value, relaxed).solved
        if is_solved or not len(overlooked) or not part.status.converged:
            return Bound(value, relaxed, part.projector, n_iter, part.status)
        active = np.union1d(active, overlooked)


def _cut_gaps(reduced: ReducedProblem, P: Array) -> Array:
    # One contrast at a time: all at once would need several p×p matrices for each of them.
    return np.concatenate(
        [CovarianceCopies(reduced.with_contrasts([c]), P).gaps_of(P) for c in range(len(reduced.Q))]
    )


def _least_price(reduced: ReducedProblem, hint: float) -> float:
    """Return what a unit of violation costs at the least when a relaxed point is valued."""
    return max(hint, ky_fan(reduced.S, reduced.d) / (reduced.cov_scale or 1.0))


class _TightSdp(Relaxation):
    """The iteration; the Fantope projection couples all copies."""

    def __init__(self, reduced: ReducedProblem, progress: Progress, price_hint: float) -> None:
        self.problem, self.progress = reduced, progress
        start = np.eye(reduced.size) * (reduced.d / reduced.size)
        self.covariance = CovarianceCopies(reduced, start) if len(reduced.Q) else None
        self.mean = MeanCopy(reduced, start) if len(reduced.F) else None
        self.copies: list[CovarianceCopies | MeanCopy] = [
            part for part in (self.covariance, self.mean) if part is not None
        ]
        self.n_copies = len(reduced.Q) + (self.mean is not None)
        self.rho = 3.0 * float(np.trace(reduced.S)) / reduced.size or 1.0
        self.P = start
        self.price = _least_price(reduced, price_hint)
        self.mean_price = ky_fan(reduced.S, reduced.d)
        self.caution = 2.0

    def iterate(self) -> float:
        """One pass; returns the squared movement of the projected side."""
        problem = self.problem
        total = sum((part.linear_step() for part in self.copies), start=problem.S / self.rho)
        values, vectors = np.linalg.eigh(symmetrize(total / self.n_copies))
        kept = fantope_eigenvalues(values, problem.d)
        support = kept > 0.0
        self.P = (vectors[:, support] * kept[support]) @ vectors[:, support].T
        moved = sum(part.accept(self.P) for part in self.copies)
        if self.covariance is not None:
            mass = None if problem.limit is not None else problem.price / self.rho
            moved += self.covariance.cut_step(mass, problem.limit or 0.0)
        return moved

    def residual(self) -> float:
        """Squared primal residual."""
        return sum(part.residual() for part in self.copies)

    def rescale(self, factor: float) -> None:
        """Multiply the step size."""
        self.rho *= factor
        for part in self.copies:
            part.rescale(factor)

    def check(self) -> None:
        """Record a proven bound and the value of the current relaxed point."""
        problem, matrix, constant = self.problem, self.problem.S, 0.0
        value, penalty = float(np.vdot(problem.S, self.P)), 0.0
        if self.covariance is not None:
            removed, added, mass = self.covariance.dual(self.rho)
            matrix, constant = matrix - removed, constant + added
            gap = float(self.covariance.gaps_of(self.P).max())
            if problem.limit is None:
                value -= problem.price * gap
            else:
                constant += problem.limit * mass
                self.price = max(self.price, mass)
                penalty += self.price * max(gap - problem.limit, 0.0)
        if self.mean is not None:
            removed, added, mass = self.mean.cuts.dual(self.rho)
            matrix, constant = matrix - removed, constant + added
            self.mean_price = max(self.mean_price, mass)
            penalty += self.mean_price * self.mean.cuts.excess(self.P)
        self.progress.record(
            ky_fan(matrix, problem.d) + constant, value - self.caution * penalty, self.P
        )
        if problem.is_constrained and self.progress.is_contradictory:
            # Violations were valued too cheaply: forget what they led to and be stricter.
            self.caution *= 2.0
            self.progress.relaxed = -np.inf
