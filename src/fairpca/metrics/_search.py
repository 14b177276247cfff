"""Half-spaces in any dimension: many starting directions, each with ascent on the statistic.

The statistic is a step function of the half-space, so gradients say nothing. Two moves are exact
line searches instead: *slide* (all thresholds along a direction) and *tilt* (all half-spaces of a
plane of directions whose boundary passes a given point). Both cost one sort; neither can lose.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairpca.metrics._plane import turn
from fairpca.metrics._svm import svm_directions
from fairpca.metrics._thresholds import (
    Cut,
    Floats,
    Signs,
    best_cut,
    masses,
    sup_over_thresholds,
)

_MAX_SWEEPS = 20
_MAX_AXES = 8  # axes and covariance-gap directions tried as starts
_PLANE_ANCHORS, _ANCHORS = 24, 6  # points a boundary is turned around in a tilt: d = 2, d > 2
_ASCENTS = 8  # starts that are improved; the others only count as they are


def search(
    U: Floats, back: Floats, signs: Signs, sample_weight: Floats | None = None
) -> tuple[Floats, Cut]:
    """Find a half-space with a large difference of group shares.

    Parameters
    ----------
    U : ndarray of shape (n, d)
        Whitened rows.
    back : ndarray of shape (original d, d)
        Map from whitened directions to directions of the representation.
    signs : ndarray of int8, shape (n,)
        +1, −1 or 0 for each row.
    sample_weight : ndarray of shape (n,), optional
        Row weights.

    Returns
    -------
    direction : ndarray of shape (d,)
        Unit vector in whitened coordinates.
    cut : Cut
        The best threshold along it.
    """
    mass = masses(signs[None], sample_weight).values[0]
    starts = _starts(U, back, signs, sample_weight)
    values = sup_over_thresholds(starts @ U.T, np.broadcast_to(mass, (len(starts), len(U))))
    ranking = np.argsort(-values, kind="stable")
    best_direction, best = starts[ranking[0]], best_cut(U @ starts[ranking[0]], mass)
    if U.shape[1] == 1:
        return best_direction, best
    for start in starts[ranking[:_ASCENTS]]:
        direction, cut = _ascend(U, start, mass)
        if cut.value > best.value:
            best_direction, best = direction, cut
    return best_direction, best


def _ascend(U: Floats, direction: Floats, mass: Floats) -> tuple[Floats, Cut]:
    """Tilt in every plane that holds the direction until no tilt helps."""
    cut = best_cut(U @ direction, mass)
    for sweep in range(_MAX_SWEEPS):
        improved = False
        for other in _complement(direction, seed=sweep):
            tilted = _tilt(U, direction, other, cut, mass)
            if tilted is not None:
                direction, cut = tilted
                improved = True
        if not improved:
            break
    return direction, cut


def _tilt(
    U: Floats, direction: Floats, other: Floats, cut: Cut, mass: Floats
) -> tuple[Floats, Cut] | None:
    """Return a better half-space of the plane of two directions, or None."""
    x, y = U @ direction, U @ other
    found = turn(x, y, mass, _anchors(x, mass, _PLANE_ANCHORS if U.shape[1] == 2 else _ANCHORS))
    if found.value <= cut.value:
        return None
    new = found.normal[0] * direction + found.normal[1] * other
    new /= np.linalg.norm(new)
    # The slide decides: it knows ties that the tilt, on rounded coordinates, may not see.
    slid = best_cut(U @ new, mass)
    return (new, slid) if slid.value > cut.value else None


def _anchors(scores: Floats, mass: Floats, count: int) -> NDArray[np.intp]:
    """Return rows at the best thresholds of separate stretches of the scores."""
    order = np.argsort(scores)
    sums = np.abs(np.cumsum(mass[order]))
    stretches = np.array_split(np.arange(len(order)), min(4 * count, len(order)))
    peaks = np.array([stretch[np.argmax(sums[stretch])] for stretch in stretches])
    highest = peaks[np.argsort(-sums[peaks], kind="stable")[:count]]
    return order[highest]


def _complement(direction: Floats, seed: int) -> Floats:
    """Return an orthonormal basis of the complement; a different one in each sweep."""
    d = len(direction)
    mix = np.eye(d) if seed == 0 else np.random.default_rng(seed).standard_normal((d, d))
    basis, _ = np.linalg.qr(np.column_stack([direction, mix]))
    return basis[:, 1:d].T


def _starts(U: Floats, back: Floats, signs: Signs, sample_weight: Floats | None) -> Floats:
    """Collect starting directions as unit rows; the SVM's come first."""
    d = U.shape[1]
    weight = np.ones(len(U)) if sample_weight is None else sample_weight
    means, covs = [], []
    for sign in (1, -1):
        rows, share = U[signs == sign], weight[signs == sign]
        mean = share @ rows / share.sum()
        centred = rows - mean
        means.append(mean)
        covs.append((centred.T * share) @ centred / share.sum())
    gap = means[0] - means[1]
    candidates = [svm_directions(U, signs[None], sample_weight)[0]]
    candidates.append(_logistic(U, signs, weight)[None])
    ridge = 1e-6 * np.eye(d)  # a group may not vary at all; the whitened rows have variance one
    for cov in (covs[0] + covs[1], covs[0], covs[1]):  # LDA, and with one group's covariance
        candidates.append(np.linalg.solve(cov + ridge, gap)[None])
    # Group means are apart by `gap` here; in the user's coordinates that is another direction.
    forth = np.linalg.pinv(back)
    forth /= np.linalg.norm(forth)  # or its length would be in the square of the user's units
    candidates.append((forth @ (forth.T @ gap))[None])
    values, vectors = np.linalg.eigh(covs[0] - covs[1])
    order = np.argsort(-np.abs(values))[:_MAX_AXES]
    candidates.append(vectors[:, order].T)
    candidates.append(np.eye(d)[:_MAX_AXES])
    if d == 2:
        angles = np.pi * np.arange(16) / 16
        candidates.append(np.column_stack([np.cos(angles), np.sin(angles)]))
    rows = np.vstack(candidates)
    length = np.linalg.norm(rows, axis=1)
    usable = length > 1e-12
    return rows[usable] / length[usable, None]


def _logistic(U: Floats, signs: Signs, weight: Floats) -> Floats:
    """Fit a lightly penalised logistic regression with balanced groups."""
    rows = signs != 0
    labels = (signs[rows] > 0).astype(float)
    share = np.where(labels > 0, 0.5 / weight[signs > 0].sum(), 0.5 / weight[signs < 0].sum())
    share *= weight[rows]
    design = np.column_stack([U[rows], np.ones(len(labels))])
    penalty = np.diag(np.append(np.full(U.shape[1], 1e-3), 1e-10))
    theta = np.zeros(design.shape[1])
    for _ in range(8):
        odds = np.clip(design @ theta, -30, 30)
        probability = 1.0 / (1.0 + np.exp(-odds))
        gradient = design.T @ (share * (probability - labels)) + penalty @ theta
        curvature = share * probability * (1 - probability)
        theta = theta - np.linalg.solve((design.T * curvature) @ design + penalty, gradient)
    return theta[:-1]
