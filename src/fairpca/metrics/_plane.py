"""Exact supremum over half-planes in two dimensions, in O(n² log n).

Every set that a line cuts off is, for one of its points (the *anchor*), what lies strictly to the
left of a line through the anchor in a direction that meets no other point, plus the anchor. So it
is enough to turn a line around each anchor: points enter and leave its left side one *event* at
a time, and prefix sums over the sorted events give the mass of every such set. The complement of a
set has the same absolute mass, so half a turn with the anchor in and out covers a full turn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairpca.linalg import Array
from fairpca.metrics._rules import TIE_TOLERANCE, Fit, Signs, best_cut, half_space, masses
from fairpca.metrics._svm import whiten

_NUMBERS_AT_ONCE = 1 << 16  # anchors × points held at a time: half a megabyte an array
_PAIRS_AT_ONCE = 32  # pairs advanced together: their sums stay in the cache
_RUN = 64  # events summed one after the other; the runs are summed side by side
# Slopes closer than this are one event. Not evaluating between two events can miss a set but
# never invents one; slopes of points on a grid are separated by far more.
_SLOPE_TOLERANCE = 1e-12
_HORIZONTAL = -1e300  # slope key of a horizontal line, below every finite slope


@dataclass(frozen=True, eq=False)
class _Events:
    """Events of a batch of anchors; one row for each anchor, one column for each event."""

    order: NDArray[np.intp]  # point of each event, by rising angle
    leaves: NDArray[np.bool_]  # whether the point leaves the left side; it enters otherwise
    keys: Array  # the sorted slope keys
    unfinished: NDArray[np.bool_]  # the next event is at the same angle: no line fits between
    start: NDArray[np.bool_]  # points on the left before the first event, by point
    itself: NDArray[np.bool_]  # the anchor and what coincides with it, by point


@dataclass(frozen=True, eq=False)
class HalfPlane:
    """The half-plane that attains the supremum: its absolute mass, the normal of its boundary."""

    value: float
    normal: Array


def _events(x: Array, y: Array, anchors: NDArray[np.intp]) -> _Events:
    dx = x[None, :] - x[anchors, None]
    dy = y[None, :] - y[anchors, None]
    itself = (dx == 0) & (dy == 0)
    behind = (dy < 0) | ((dy == 0) & (dx < 0))
    # −cot of the angle rises with it. Division is correctly rounded, so points on one line
    # through the anchor get the same key wherever the coordinate differences are exact.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        keys = -dx / dy
    np.copyto(keys, _HORIZONTAL, where=(dy == 0) | (keys < _HORIZONTAL))
    order = np.argsort(keys, axis=1)
    keys = np.take_along_axis(keys, order, axis=1)
    with np.errstate(over="ignore"):
        gaps = np.diff(keys, axis=1)
    unfinished = np.zeros(order.shape, dtype=bool)
    np.less_equal(gaps, _SLOPE_TOLERANCE * np.abs(keys[:, 1:]), out=unfinished[:, :-1])
    leaves = np.take_along_axis(~behind, order, axis=1)
    return _Events(order, leaves, keys, unfinished, ~(behind | itself), itself)


def turn(
    x: Array, y: Array, mass: Array, anchors: NDArray[np.intp], least: float = 0.0
) -> HalfPlane:
    """Turn a line around each anchor and return the best half-plane met that exceeds the least."""
    events = _events(x, y, anchors)
    sums = mass[events.order]
    np.negative(sums, out=sums, where=events.leaves)
    # The anchor does not move while the line turns around it; it is added below.
    sums[np.take_along_axis(events.itself, events.order, axis=1)] = 0.0
    np.cumsum(sums, axis=1, out=sums)
    sums[events.unfinished] = 0.0  # the mass before the first event, always reachable
    sums += (events.start @ mass)[:, None]
    largest, place = least, -1
    for total in (sums, sums + (events.itself @ mass)[:, None]):
        size = np.abs(total)
        flat = int(np.argmax(size))
        if size.flat[flat] > largest:
            largest, place = float(size.flat[flat]), flat
    if place < 0:
        return HalfPlane(least, np.array([1.0, 0.0]))
    return HalfPlane(largest, _normal(events, *divmod(place, sums.shape[1])))


class PlaneSweep:
    """Half-planes of fixed points, for any number of pairs of their groups."""

    def __init__(self, points: Array) -> None:
        distinct, inverse = np.unique(points, axis=0, return_inverse=True)
        self._x = np.ascontiguousarray(distinct[:, 0])
        self._y = np.ascontiguousarray(distinct[:, 1])
        self._inverse = inverse.ravel()

    @property
    def _n_distinct(self) -> int:
        return len(self._x)

    def _aggregate(self, mass: Array) -> Array:
        """Sum the masses of equal points, which no half-plane separates."""
        if self._n_distinct == len(self._inverse):
            ordered = np.empty_like(mass)
            ordered[:, self._inverse] = mass
            return ordered
        return np.array(
            [np.bincount(self._inverse, row, minlength=self._n_distinct) for row in mass]
        )

    def _batches(self) -> list[NDArray[np.intp]]:
        size = max(1, _NUMBERS_AT_ONCE // self._n_distinct)
        indices = np.arange(self._n_distinct)
        return [indices[i : i + size] for i in range(0, self._n_distinct, size)]

    def best(self, mass: Array) -> HalfPlane:
        """Return the half-plane of largest absolute mass."""
        best = HalfPlane(0.0, np.array([1.0, 0.0]))
        if self._n_distinct < 2:
            return best
        point_mass = self._aggregate(mass[None])[0]
        for anchors in self._batches():
            candidate = turn(self._x, self._y, point_mass, anchors)
            if candidate.value > best.value:
                best = candidate
        return best

    def suprema(self, mass: Array) -> Array:
        """Return the largest absolute mass for many pairs; events are sorted once."""
        # Anchors stay out: a line that cuts a set off can be pushed away from it to the next point,
        # and of the set and its complement one is met so in half a turn around all the points.
        largest = np.zeros(len(mass))
        if self._n_distinct < 2:
            return largest
        point_mass = self._aggregate(mass)
        parts = [slice(i, i + _PAIRS_AT_ONCE) for i in range(0, len(mass), _PAIRS_AT_ONCE)]
        signed = [_both_signs(point_mass[part]) for part in parts]
        for anchors in self._batches():
            events = _events(self._x, self._y, anchors)
            sources = events.order + self._n_distinct * events.leaves
            # The anchor's own event is moot: the last row of the tables is zero.
            sources[events.order == anchors[:, None]] = 2 * self._n_distinct
            start = events.start @ point_mass.T
            for row in range(len(anchors)):
                last = np.flatnonzero(~events.unfinished[row])
                for part, table in zip(parts, signed, strict=True):
                    high, low = _extremes(table, sources[row], last)
                    for extreme in (high + start[row, part], low + start[row, part]):
                        np.maximum(largest[part], np.abs(extreme), out=largest[part])
        return largest


def _both_signs(point_mass: Array) -> NDArray[np.float64] | NDArray[np.int32]:
    """Stack masses, their negatives and a zero by point: an event then is one row to look up."""
    zero = np.zeros((1, len(point_mass)))
    table = np.concatenate([point_mass.T, -point_mass.T, zero])
    # Whole masses fit 32 bits up to tens of thousands of rows, and sum twice as fast there.
    whole = np.abs(table).sum(axis=0).max() < 2**30 and np.array_equal(table, np.rint(table))
    return table.astype(np.int32) if whole else table


def _extremes(
    table: NDArray[np.float64] | NDArray[np.int32],
    sources: NDArray[np.intp],
    last: NDArray[np.intp],
) -> tuple[Array, Array]:
    """Return the largest and smallest prefix sums over the events of one anchor, or zero."""
    # A running sum along the slow axis is what NumPy does worst. Cut into runs of equal
    # length, all runs advance together, and the sums before each are added to its extremes.
    n_rows = len(last)
    length = min(_RUN, n_rows)
    n_runs = -(-n_rows // length)
    padding = n_runs * length - n_rows
    if n_rows == len(sources):
        padded = np.append(sources, np.full(padding, len(table) - 1))
        sums = table.take(padded.reshape(n_runs, length).T, axis=0)
    else:  # events at one angle happen at once
        first = np.append(0, last[:-1] + 1)
        grouped = np.add.reduceat(table.take(sources, axis=0), first, axis=0)
        grouped = np.pad(grouped, ((0, padding), (0, 0)))
        sums = np.stack(np.split(grouped, n_runs), axis=1)
    for step in range(1, length):
        np.add(sums[step], sums[step - 1], out=sums[step])
    before = np.cumsum(sums[-1], axis=0) - sums[-1]
    high = (sums.max(axis=0) + before).max(axis=0, initial=0)
    low = (sums.min(axis=0) + before).min(axis=0, initial=0)
    return high.astype(float), low.astype(float)


def _normal(events: _Events, row: int, event: int) -> Array:
    """Return the normal of a line between an event (or the start) and the next one."""
    keys = events.keys[row]
    done = ~events.unfinished[row]
    # A masked sum stands for the mass before the first event, as after a full half turn.
    slopes = keys[done] if done[event] else keys
    directions = np.stack([-slopes, np.ones_like(slopes)], axis=1)
    horizontal = slopes <= _HORIZONTAL
    directions[horizontal] = [1.0, 0.0]
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    place = int(np.count_nonzero(done[: event + 1])) - 1 if done[event] else -1
    before = directions[place] if place >= 0 else -directions[-1]
    after = directions[place + 1] if place + 1 < len(directions) else -directions[0]
    middle = before + after
    if np.linalg.norm(middle) < 1e-9:  # opposite directions: all points on one line
        middle = np.array([-before[1], before[0]])
    middle /= np.linalg.norm(middle)
    return np.array([-middle[1], middle[0]])


class LineStatistic:
    """Half-spaces of a single component: a sort is exact."""

    def __init__(self, U: Array, weight: Array | None) -> None:
        self._U = U
        self._weight = weight

    def fit(self, signs: Signs) -> Fit:
        """Return the value of one pair, with its classifier."""
        mass = masses(signs[None], self._weight)
        cut = best_cut(self._U[:, 0], mass.values[0], tolerance=0.0)
        if cut.below_row < 0:
            return Fit(0.0, None)
        classifier = half_space(self._U, np.ones(1), mass.values[0], 0.0)
        return Fit(cut.value / float(mass.scale[0]), classifier)

    def null(self, signs: Signs) -> Array:
        """Return the values of many pairs."""
        order = np.argsort(self._U[:, 0])
        ordered = self._U[order, 0]
        mass = masses(signs, self._weight)
        sums = np.abs(np.cumsum(mass.values[:, order], axis=1)[:, :-1])
        sums[:, np.diff(ordered) == 0] = 0.0
        return sums.max(axis=1, initial=0.0) / mass.scale


class PlaneStatistic:
    """Half-planes, exactly; of components that depend on each other those of their line."""

    def __init__(self, U: Array, weight: Array | None) -> None:
        self._U = U
        self._weight = weight
        line, self._back = whiten(U, weight)
        self._line = LineStatistic(line, weight) if line.shape[1] == 1 else None
        self._sweep = PlaneSweep(U)

    def fit(self, signs: Signs) -> Fit:
        """Return the value of one pair as its classifier attains it, and the classifier."""
        mass = masses(signs[None], self._weight)
        if self._line is not None:
            normal = self._back[:, 0] if self._line.fit(signs).value else np.zeros(2)
        else:
            half_plane = self._sweep.best(mass.values[0])
            normal = half_plane.normal if half_plane.value else np.zeros(2)
        if not normal.any():
            return Fit(0.0, None)
        classifier = half_space(self._U, normal, mass.values[0], TIE_TOLERANCE)
        attained = abs(float(mass.values[0] @ classifier.predict(self._U)))
        return Fit(attained / float(mass.scale[0]), classifier)

    def null(self, signs: Signs) -> Array:
        """Return the values of many pairs."""
        if self._line is not None:
            return self._line.null(signs)
        mass = masses(signs, self._weight)
        return self._sweep.suprema(mass.values) / mass.scale
