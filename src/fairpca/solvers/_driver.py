"""One driver for every iteration, and what the relaxations solved by ADMM share.

An iteration is made, stepped and asked whether it has ended; the driver counts, reports and stops.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np

from fairpca.linalg import Array
from fairpca.solvers._solution import Bound, Snapshot, Status, relative_gap

Watch: TypeAlias = Callable[[Snapshot], None]

RELAXATION = 1.6
_CHECK_EVERY = 5
_REBALANCE_UNTIL = 1000


class Iteration(Protocol):
    """What the driver needs to know of an iteration."""

    def step(self, number: int) -> None:
        """Make one step; `number` counts from 1."""

    def terminate(self) -> Status | None:
        """Why there is no next step, None while there is one."""

    def snapshot(self, number: int) -> Snapshot:
        """Say where it stands."""


def drive(iteration: Iteration, max_iter: int, watch: Watch | None) -> tuple[Status, int]:
    """Step until the iteration ends or the limit is met; return why it ended and the steps."""
    for number in range(1, max_iter + 1):
        iteration.step(number)
        if watch is not None:
            watch(iteration.snapshot(number))
        status = iteration.terminate()
        if status is not None:
            return status, number
    return Status.ITERATION_LIMIT, max_iter


@dataclass
class Progress:
    """Best bound and best relaxed value so far, and whether they are close enough.

    `incumbent` is the objective of a basis at hand. The bound can improve by at most the duality
    gap, so once that is a tenth of what separates bound and incumbent, more work certifies nothing.
    """

    tol: float
    incumbent: float | None = None
    bound: float = np.inf
    relaxed: float = -np.inf
    projector: Array = field(default_factory=lambda: np.zeros((0, 0)))

    def record(self, bound: float, relaxed: float, projector: Array) -> None:
        """Take in one check."""
        self.bound = min(self.bound, bound)
        if relaxed > self.relaxed:
            self.relaxed, self.projector = relaxed, projector

    @property
    def is_contradictory(self) -> bool:
        """Whether the relaxed value lies above the proven bound by more than the tolerance."""
        return self.relaxed > self.bound + self.tol * abs(self.bound)

    @property
    def solved(self) -> bool:
        """Whether another iteration would be wasted."""
        needed = self.tol
        if self.incumbent is not None:
            certified = relative_gap(self.bound, self.incumbent)
            if certified <= self.tol:
                return True
            needed = max(needed, 0.1 * certified)
        return self.bound - self.relaxed <= needed * abs(self.bound)


class Relaxation(ABC):
    """A relaxation solved by ADMM, with a proven bound at every check."""

    progress: Progress
    # Belongs to bound and value, but not to what the tolerance is relative to.
    constant = 0.0

    @abstractmethod
    def iterate(self) -> float:
        """One pass; returns the squared movement of the projected side."""

    @abstractmethod
    def check(self) -> None:
        """Record a proven bound and the value of the current relaxed point."""

    @abstractmethod
    def residual(self) -> float:
        """Squared primal residual."""

    @abstractmethod
    def rescale(self, factor: float) -> None:
        """Multiply the step size."""

    def step(self, number: int) -> None:
        """One pass, with a check and a new step size every few of them."""
        moved = self.iterate()
        if number > 1 and number % _CHECK_EVERY:
            return
        self.check()
        factor = _balance(self.residual(), moved) if number < _REBALANCE_UNTIL else 1.0
        if factor != 1.0 and not self.progress.solved:
            self.rescale(factor)

    def terminate(self) -> Status | None:
        """End once another iteration would be wasted."""
        return Status.CONVERGED if self.progress.solved else None

    def snapshot(self, number: int) -> Snapshot:
        """Bound so far against the basis at hand, or against the relaxed value."""
        found, known = self.progress, self.progress.incumbent
        objective = found.relaxed + self.constant if known is None else known
        return Snapshot("bound", number, found.bound + self.constant, objective)

    def solve(self, max_iter: int, watch: Watch | None) -> Bound:
        """Drive to the end."""
        status, n_iter = drive(self, max_iter, watch)
        found, added = self.progress, self.constant
        return Bound(found.bound + added, found.relaxed + added, found.projector, n_iter, status)


def _balance(primal: float, dual: float) -> float:
    # Factor for the step size from the squared residuals; 1.0 leaves it alone.
    factor = float(np.clip((primal / max(dual, 1e-300)) ** 0.25, 1.0 / 3.0, 3.0))
    return 1.0 if 2.0 / 3.0 < factor < 1.5 else factor
