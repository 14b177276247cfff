"""How well half-spaces can tell two normal distributions apart, from their moments."""

from __future__ import annotations

import math

import numpy as np

from fairpca.linalg._spectral import Array

_SLOPES = 64  # linearisations that the search for the worst direction starts from
_MAX_ITER = 200


def gaussian_delta(gap: Array, cov: Array, other: Array) -> float:
    """Bound Δ of half-spaces by Pinsker's inequality, the smaller of both ways; may be infinite."""
    ways = _divergence(gap, cov, other), _divergence(gap, other, cov)
    return 0.5 * math.sqrt(max(0.0, min(ways)))


def _divergence(gap: Array, cov: Array, reference: Array) -> float:
    """Return the supremum over w of r − log r − 1 + (wᵀgap)²/s, with r = wᵀcov w/s."""
    # s is the variance of `reference` along w; coordinates in which it is I make r and the last
    # term linear in wwᵀ, and the whole a convex function of wwᵀ. So the maximiser is the leading
    # eigenvector of its own linearisation ``(1 − 1/r) cov + gap gapᵀ``: a search over one number.
    scale = np.sqrt(np.diag(cov) + np.diag(reference) + gap**2)
    used = scale > 0
    if not used.any():
        return 0.0
    gap, outer = gap[used] / scale[used], np.outer(scale[used], scale[used])
    cov, reference = cov[np.ix_(used, used)] / outer, reference[np.ix_(used, used)] / outer
    values, vectors = np.linalg.eigh(reference)
    flat = values <= 1e-12 * max(1.0, values[-1])
    empty = vectors[:, flat]
    if empty.size and (np.abs(gap @ empty).max() > 1e-9 or np.trace(empty.T @ cov @ empty) > 1e-9):
        return math.inf
    root = vectors[:, ~flat] / np.sqrt(values[~flat])
    cov, gap = root.T @ cov @ root, root.T @ gap
    spread = np.linalg.eigvalsh(cov)
    if spread[0] <= 1e-12:
        return math.inf
    slopes = np.linspace(1.0 - 1.0 / spread[0], 1.0 - 1.0 / spread[-1], _SLOPES)
    return max(_ascend(cov, gap, float(slope)) for slope in slopes)


def _ascend(cov: Array, gap: Array, slope: float) -> float:
    """Climb from one linearisation; a convex function never falls on the way."""
    best = -math.inf
    for _ in range(_MAX_ITER):
        vector = np.linalg.eigh(slope * cov + np.outer(gap, gap))[1][:, -1]
        ratio = float(vector @ cov @ vector)
        value = ratio - math.log(ratio) - 1.0 + float(vector @ gap) ** 2
        if value <= best + 1e-13 * max(1.0, abs(best)):
            break
        best, slope = value, 1.0 - 1.0 / ratio
    return max(best, value)
