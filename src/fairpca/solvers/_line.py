"""The one-dimensional dual search shared by deflation and the bounded mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fairpca.linalg import Array

_MAX_DOUBLINGS = 60
_MAX_STEPS = 60
_PRECISION = 1e-13


class DualPoint(NamedTuple):
    """A convex dual function at one weight: value, slope and the eigenvectors behind it."""

    weight: float
    value: float
    slope: float
    vectors: Array


def minimize_dual(
    evaluate: Callable[[float], DualPoint],
    *,
    first_step: float,
    largest: float = np.inf,
    slope_tol: float = 0.0,
) -> tuple[DualPoint, DualPoint]:
    """Minimise a convex function over [0, largest] from values and slopes."""
    # Returns the two ends of the final bracket: slope < 0 on the left, ≥ 0 on the right. Where the
    # minimum lies at an end of the interval, both are that end. A kink of the function (an
    # eigenvalue crossing) is met by intersecting tangents, a smooth minimum by the secant of the
    # slopes; the two take turns.
    left = evaluate(0.0)
    if left.slope >= 0.0:
        return left, left
    right = evaluate(min(first_step, largest))
    for _ in range(_MAX_DOUBLINGS):
        if right.slope >= 0.0:
            break
        if right.weight >= largest:
            return right, right
        left, right = right, evaluate(min(4.0 * right.weight, largest))
    else:
        return right, right
    for step in range(_MAX_STEPS):
        width = right.weight - left.weight
        floor = _tangent_floor(left, right)
        best = min(left.value, right.value)
        if width <= _PRECISION * right.weight or best - floor <= _PRECISION * abs(best):
            break
        middle = evaluate(left.weight + width * _next_share(left, right, step))
        if abs(middle.slope) <= slope_tol:
            return middle, middle
        left, right = (middle, right) if middle.slope < 0.0 else (left, middle)
    return left, right


def _crossing_share(left: DualPoint, right: DualPoint) -> float:
    # Where the tangents of both ends meet, as a share of the bracket.
    width = right.weight - left.weight
    return (right.value - left.value - right.slope * width) / (
        width * (left.slope - right.slope) or -1.0
    )


def _tangent_floor(left: DualPoint, right: DualPoint) -> float:
    width = right.weight - left.weight
    return left.value + left.slope * width * float(np.clip(_crossing_share(left, right), 0, 1))


def _next_share(left: DualPoint, right: DualPoint, step: int) -> float:
    if step % 3 == 2:
        return 0.5  # keeps the bracket shrinking where both rules stall at one end
    share = (
        -left.slope / (right.slope - left.slope) if step % 3 == 0 else _crossing_share(left, right)
    )
    return float(np.clip(share, 1e-3, 1.0 - 1e-3))


def rotation_angles(form: Array, target: float) -> list[float]:
    """Angles θ at which u = (cos θ, sin θ) gives uᵀ·form·u = target; empty where none does."""
    centre = 0.5 * (form[0, 0] + form[1, 1])
    cosine, sine = 0.5 * (form[0, 0] - form[1, 1]), form[0, 1]
    radius = np.hypot(cosine, sine)
    if radius == 0.0 or abs(target - centre) > radius * (1.0 + 1e-12):
        return []
    phase = np.arctan2(sine, cosine)
    spread = np.arccos(np.clip((target - centre) / radius, -1.0, 1.0))
    return [float(0.5 * (phase + spread)), float(0.5 * (phase - spread))]
