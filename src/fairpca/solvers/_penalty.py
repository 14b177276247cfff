"""What sticks out above the limits, as Newton's method sees it: directions and their weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from fairpca.linalg import Array


@dataclass(frozen=True)
class ActiveDirections:
    """Matrices T (t, d, d), the block each belongs to, σ, Ω, and what M misses along each."""

    T: Array
    block: Array
    step: Array
    omega: Array
    missed: Array

    @property
    def is_diagonal(self) -> Array:
        # What moves with the shared bound: eigenvalues, not what turns eigenvectors.
        return np.asarray(np.einsum("tii->t", self.T))


@lru_cache(maxsize=8)
def upper_pairs(d: int) -> Any:
    """Places of the upper triangle."""
    return np.triu_indices(d)


def slopes(values: Array) -> Array:
    """Divided differences of the positive part; its derivative where two values agree."""
    positive = np.maximum(values, 0.0)
    difference = values[:, None] - values[None, :]
    found = np.where(values[:, None] > 0.0, 1.0, 0.0) * np.ones_like(difference)
    apart = np.abs(difference) > 1e-14 * max(float(np.max(np.abs(values))), 1e-300)
    found[apart] = (positive[:, None] - positive[None, :])[apart] / difference[apart]
    return found
