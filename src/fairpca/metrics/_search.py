"""Half-spaces in any dimension: by linear SVMs, and by ascent on the statistic from many starts.

The statistic is a step function of the half-space, so gradients say nothing. Two moves are exact
line searches instead: *slide* (all thresholds along a direction) and *tilt* (all half-spaces of a
plane of directions whose boundary passes a given point). Both cost one sort; neither can lose.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fairpca.linalg import Array
from fairpca.metrics._plane import turn
from fairpca.metrics._rules import (
    TIE_TOLERANCE,
    Cut,
    Fit,
    Signs,
    best_cut,
    half_space,
    masses,
    sup_over_thresholds,
)
from fairpca.metrics._svm import svm_directions, train_svms, whiten

# Below this norm (the whitened rows have unit variance) an SVM's weight vector is rounding.
ZERO_WEIGHT = 1e-6
_MAX_SWEEPS = 20
_MAX_AXES = 8  # axes and covariance-gap directions tried as starts
_PLANE_ANCHORS, _ANCHORS = 24, 6  # points a boundary is turned around in a tilt: d = 2, d > 2
_ASCENTS = 8  # starts that are improved; the others only count as they are


def search(
    U: Array, back: Array, signs: Signs, sample_weight: Array | None = None
) -> tuple[Array, Cut]:
    """Find a half-space with a large difference of group shares, in whitened coordinates."""
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


def _ascend(U: Array, direction: Array, mass: Array) -> tuple[Array, Cut]:
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
    U: Array, direction: Array, other: Array, cut: Cut, mass: Array
) -> tuple[Array, Cut] | None:
    """Return a better half-space of the plane of two directions, or None."""
    x, y = U @ direction, U @ other
    anchors = _anchors(x, mass, _PLANE_ANCHORS if U.shape[1] == 2 else _ANCHORS)
    half_plane = turn(x, y, mass, anchors, cut.value)
    if half_plane.value <= cut.value:
        return None
    new = half_plane.normal[0] * direction + half_plane.normal[1] * other
    new /= np.linalg.norm(new)
    # The slide decides: it knows ties that the tilt, on rounded coordinates, may not see.
    slid = best_cut(U @ new, mass)
    return (new, slid) if slid.value > cut.value else None


def _anchors(scores: Array, mass: Array, count: int) -> NDArray[np.intp]:
    """Return rows at the best thresholds of separate parts of the scores."""
    order = np.argsort(scores)
    sums = np.abs(np.cumsum(mass[order]))
    n_parts = min(4 * count, len(order))
    ends = len(order) * np.arange(1, n_parts + 1) // n_parts
    starts = np.concatenate([[0], ends[:-1]])
    # Parts differ by one row at most: the last row of a shorter one is counted twice.
    parts = np.minimum(starts[:, None] + np.arange((ends - starts).max()), ends[:, None] - 1)
    peaks = parts[np.arange(n_parts), np.argmax(sums[parts], axis=1)]
    highest = peaks[np.argsort(-sums[peaks], kind="stable")[:count]]
    return order[highest]


def _complement(direction: Array, seed: int) -> Array:
    """Return an orthonormal basis of the complement; a different one in each sweep."""
    d = len(direction)
    mix = np.eye(d) if seed == 0 else np.random.default_rng(seed).standard_normal((d, d))
    basis, _ = np.linalg.qr(np.column_stack([direction, mix]))
    return basis[:, 1:d].T


def _starts(U: Array, back: Array, signs: Signs, sample_weight: Array | None) -> Array:
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


def _logistic(U: Array, signs: Signs, weight: Array) -> Array:
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


class SVMStatistic:
    """Half-spaces by linear SVMs, a stiff and a loose one."""

    def __init__(self, U: Array, weight: Array | None) -> None:
        self._U = U
        self._weight = weight
        self._whitened, self._back = whiten(U, weight)

    def mean_shift(self, signs: Signs) -> float:
        """Return the squared distance of the group means in units of its sampling noise."""
        weight = np.ones(len(signs)) if self._weight is None else self._weight
        groups = [(self._whitened[signs == s], weight[signs == s]) for s in (1, -1)]
        means = [w @ rows / w.sum() for rows, w in groups]
        sizes = [w.sum() ** 2 / (w @ w) for _, w in groups]
        return float(((means[0] - means[1]) ** 2).sum() / (1 / sizes[0] + 1 / sizes[1]))

    @property
    def rank(self) -> int:
        """Number of independent components."""
        return self._whitened.shape[1]

    def fit(self, signs: Signs) -> Fit:
        """Return the value of one pair; no classifier where no SVM has a direction."""
        [(directions, values)] = self._evaluate(signs[None])
        best = int(np.argmax(values[0]))
        if not directions[0, best].any():
            return Fit(0.0, None)
        mass = masses(signs[None], self._weight)
        direction = self._back @ directions[0, best]
        classifier = half_space(self._U, direction, mass.values[0], TIE_TOLERANCE)
        return Fit(float(values[0, best]), classifier)

    def null(self, signs: Signs) -> Array:
        """Return the values of many pairs."""
        largest, start = np.empty(len(signs)), 0
        for directions, values in self._evaluate(signs):
            largest[start : start + len(values)] = values.max(axis=1)
            # What `delta_fairness` does where the value itself has no direction.
            for i in np.flatnonzero(~directions.any(axis=(1, 2))) if self.rank else ():
                row = signs[start + i]
                cut = search(self._whitened, self._back, row, self._weight)[1]
                largest[start + i] = cut.value / float(masses(row[None], self._weight).scale[0])
            start += len(values)
        return largest

    def _evaluate(self, signs: Signs) -> Iterator[tuple[Array, Array]]:
        """Yield directions, zero where a SVM has none, and values of the next pairs."""
        for svms, directions in train_svms(self._whitened, signs, self._weight):
            directions[np.linalg.norm(directions, axis=2) < ZERO_WEIGHT] = 0.0
            yield directions, svms.suprema(directions)


class SearchStatistic:
    """Half-spaces by ascent from many directions."""

    def __init__(self, U: Array, weight: Array | None) -> None:
        self._U = U
        self._weight = weight
        self._whitened, self._back = whiten(U, weight)

    def fit(self, signs: Signs) -> Fit:
        """Return the value of one pair, with its classifier."""
        if self._whitened.shape[1] == 0:
            return Fit(0.0, None)
        direction, cut = search(self._whitened, self._back, signs, self._weight)
        mass = masses(signs[None], self._weight)
        classifier = half_space(self._U, self._back @ direction, mass.values[0], TIE_TOLERANCE)
        return Fit(cut.value / float(mass.scale[0]), classifier)

    def null(self, signs: Signs) -> Array:
        """Return the values of many pairs."""
        if self._whitened.shape[1] == 0:
            return np.zeros(len(signs))
        scale = masses(signs, self._weight).scale
        values = [search(self._whitened, self._back, row, self._weight)[1].value for row in signs]
        return np.array(values) / scale
