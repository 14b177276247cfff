"""One driver for every iteration, and the record that the relaxations keep.

An iteration is made, stepped and asked whether it has ended; the driver counts, reports and stops.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np

from fairpca.linalg import Array
from fairpca.solvers._solution import Snapshot, Status

Watch: TypeAlias = Callable[[Snapshot], None]

# Differences below this are rounding: the mean variance of a reduced problem is one.
_ROUNDING = 1e-11


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
    """Best bound, relaxed value and point so far, and whether they are close enough."""

    # The bound can improve by at most the duality gap. Once that is a small `share` of what
    # separates it from the objective of the basis at hand, more work certifies nothing new.

    tol: float
    share: float = 0.001
    incumbent: float | None = None
    bound: float = np.inf
    relaxed: float = -np.inf
    point: Array = field(default_factory=lambda: np.zeros((0, 0)))

    def record(self, bound: float, relaxed: float, point: Array) -> None:
        """Take in one check."""
        self.bound = min(self.bound, bound)
        if relaxed > self.relaxed or not self.point.size:
            self.relaxed, self.point = relaxed, point

    def needed(self, bound: float) -> float:
        """Duality gap below which a bound of this size need not be improved."""
        if self.incumbent is None:
            return self.tol * abs(bound) + _ROUNDING
        room = max(0.02 * self.tol * abs(bound), self.share * (bound - self.incumbent))
        return room + _ROUNDING

    @property
    def solved(self) -> bool:
        """Whether another iteration would be wasted."""
        if not np.isfinite(self.bound):
            return False
        known = self.relaxed if self.incumbent is None else self.incumbent
        if self.bound - known <= self.tol * abs(self.bound) + _ROUNDING:
            return True
        return self.bound - self.relaxed <= self.needed(self.bound)
