"""What the two ADMM solvers share: constants, step balancing and the record of bounds."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fairpca.linalg._spectral import Array
from fairpca.solvers._solution import relative_gap

RELAXATION = 1.6
CHECK_EVERY = 5
_REBALANCE_UNTIL = 1000


@dataclass
class Progress:
    """Best bound and best relaxed value so far, and whether they are close enough.

    Parameters
    ----------
    tol : float
        Relative duality gap that counts as solved.
    incumbent : float or None
        Objective of a basis at hand. The bound can improve by at most the duality gap, so once
        that is a tenth of what separates bound and incumbent, more work certifies nothing new.
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


def rebalanced(iteration: int, primal: float, dual: float) -> float:
    """Factor for the step size from the squared residuals; 1.0 leaves it alone."""
    if iteration >= _REBALANCE_UNTIL:
        return 1.0
    factor = float(np.clip((primal / max(dual, 1e-300)) ** 0.25, 1.0 / 3.0, 3.0))
    return 1.0 if 2.0 / 3.0 < factor < 1.5 else factor
