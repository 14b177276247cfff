"""Multivariate Kolmogorov–Smirnov distance: lower-left orthants instead of half-spaces.

The difference of two empirical distribution functions is constant between the coordinates of the
rows, so its supremum over all of R^d is a maximum over the grid of coordinates. Three ways to
get at it: all grid points (d ≤ 3), the rows themselves, and coordinate ascent from the best rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairpca.exceptions import InvalidInputError
from fairpca.linalg import Array
from fairpca.metrics._rules import Fit, OrthantRule, Signs, masses

_PAIRS_AT_ONCE = 1 << 20  # pairs of rows compared at a time: a megabyte of flags
_CORNERS_AT_ONCE = 1 << 20  # corners of the two-dimensional grid held at a time
_MAX_TABLE = 40_000_000  # cells of the table that the three-dimensional grid needs: 320 MB
_STARTS = 8  # best rows that coordinate ascent starts from


@dataclass(frozen=True, eq=False)
class Corner:
    """The orthant that attains the value: its signed mass, the corner that no row in it exceeds."""

    value: float
    point: Array


class Orthants:
    """Lower-left orthants of fixed rows, for any number of pairs of their groups."""

    def __init__(self, U: Array) -> None:
        self._U = U
        self._levels = []
        self._rank = np.empty(U.shape, dtype=np.intp, order="F")  # coordinates are read one by one
        self._order = np.argsort(U, axis=0, kind="stable")
        for k in range(U.shape[1]):
            levels, rank = np.unique(U[:, k], return_inverse=True)
            self._levels.append(levels)
            self._rank[:, k] = rank.ravel()
        self._distinct = np.sort(np.unique(self._rank, axis=0, return_index=True)[1])

    # -- the rows themselves -------------------------------------------------------------------

    def _dominance(self) -> Iterator[tuple[slice, NDArray[np.bool_]]]:
        """Yield batches of rows with flags: which rows does each row of the batch dominate."""
        n, d = self._U.shape
        # Ranks compare as coordinates do, and many small integers compare in one instruction.
        kind = np.uint16 if n <= 2**16 else np.uint32
        rank = np.ascontiguousarray(self._rank.T, dtype=kind)
        size = max(1, _PAIRS_AT_ONCE // n)
        flags, more = np.empty((2, size, n), dtype=bool)
        for start in range(0, n, size):
            batch = slice(start, min(start + size, n))
            used = batch.stop - batch.start
            np.less_equal(rank[0], rank[0, batch, None], out=flags[:used])
            for k in range(1, d):
                np.less_equal(rank[k], rank[k, batch, None], out=more[:used])
                np.logical_and(flags[:used], more[:used], out=flags[:used])
            yield batch, flags[:used]

    def at_rows(self, signs: Signs, sample_weight: Array | None = None) -> Array:
        """Return the signed masses of the orthants at all rows, pairs × rows, not divided."""
        m, n = signs.shape
        if sample_weight is not None:
            mass = masses(signs, sample_weight).values
            return self._weighted(mass, np.float64)
        plus, minus = signs > 0, signs < 0
        if m < 8:
            counts = [self._popcounts(group) for group in (plus, minus)]
        else:
            # Counts of fewer than 2^24 rows are exact in single precision.
            kind = np.float32 if n < 2**24 else np.float64
            both = self._weighted(np.concatenate([plus, minus]), kind)
            counts = [both[:m], both[m:]]
        sizes = plus.sum(axis=1)[:, None], minus.sum(axis=1)[:, None]
        return counts[0] * sizes[1] - counts[1] * sizes[0]

    def _popcounts(self, groups: NDArray[np.bool_]) -> Array:
        counts = np.zeros(groups.shape)
        masks = _pack(groups)
        for batch, flags in self._dominance():
            bits = _pack(flags)
            for i, mask in enumerate(masks):
                counts[i, batch] = np.bitwise_count(bits & mask).sum(axis=1, dtype=np.int64)
        return counts

    def _weighted(self, weights: NDArray, kind: type) -> Array:
        """Multiply the 0/1 dominance matrix by many weight vectors."""
        weights = np.ascontiguousarray(weights, dtype=kind)
        total = np.empty(weights.shape)
        for batch, flags in self._dominance():
            total[:, batch] = weights @ flags.astype(kind).T
        return total

    def best_row(self, at_rows: Array) -> Corner:
        """Return the row whose orthant has the largest absolute mass."""
        best = int(np.argmax(np.abs(at_rows)))
        return Corner(float(at_rows[best]), self._U[best])

    # -- coordinate ascent ---------------------------------------------------------------------

    def ascend(self, at_rows: Array, mass: Array) -> Corner:
        """Improve the best rows one coordinate at a time."""
        best = self.best_row(at_rows)
        ranking = np.argsort(-np.abs(at_rows[self._distinct]), kind="stable")
        for row in self._distinct[ranking[:_STARTS]]:
            corner = self._ascend_from(self._rank[row].copy(), float(at_rows[row]), mass)
            if abs(corner.value) > abs(best.value):
                best = corner
        return best

    def _ascend_from(self, place: NDArray[np.intp], value: float, mass: Array) -> Corner:
        d = len(place)
        sign = 1.0 if value >= 0 else -1.0
        outside = self._rank > place
        n_outside = outside.sum(axis=1)
        stalled = 0
        k = 0
        while stalled < d:
            others = n_outside - outside[:, k]
            sums = np.bincount(
                self._rank[:, k], np.where(others == 0, mass, 0.0), minlength=len(self._levels[k])
            )
            np.cumsum(sums, out=sums)
            best = int(np.argmax(sign * sums))
            if sign * sums[best] > sign * value + 1e-12 * abs(value):
                value = float(sums[best])
                place[k] = best
                moved = self._rank[:, k] > best
                n_outside = others + moved
                outside[:, k] = moved
                stalled = 0
            stalled += 1
            k = (k + 1) % d
        return Corner(value, np.array([self._levels[j][place[j]] for j in range(d)]))

    # -- the whole grid ------------------------------------------------------------------------

    def on_grid(self, mass: Array) -> Corner:
        """Return the supremum over all of R^d, for d ≤ 3."""
        d = self._U.shape[1]
        if d == 1:
            sums = np.cumsum(np.bincount(self._rank[:, 0], mass))
            best = int(np.argmax(np.abs(sums)))
            return Corner(float(sums[best]), self._levels[0][[best]])
        if d == 2:
            return self._grid_2d(mass)
        if d > 3:
            raise InvalidInputError(
                f"family='cdf', method='exact' needs at most 3 components, but U has {d}: "
                "use method='search', a local search from the best rows."
            )
        return self._grid_3d(mass)

    def _grid_2d(self, mass: Array) -> Corner:
        rank_x, rank_y = self._rank.T
        levels_x, levels_y = self._levels
        rows = max(1, _CORNERS_AT_ONCE // len(levels_y))
        carry = np.zeros(len(levels_y))
        best = Corner(0.0, self._U.max(axis=0))
        sorted_x = rank_x[self._order[:, 0]]
        for start in range(0, len(levels_x), rows):
            stop = min(start + rows, len(levels_x))
            first, last = np.searchsorted(sorted_x, [start, stop])
            inside = self._order[first:last, 0]
            table = np.zeros((stop - start, len(levels_y)))
            np.add.at(table, (rank_x[inside] - start, rank_y[inside]), mass[inside])
            table[0] += carry
            np.cumsum(table, axis=0, out=table)
            carry = table[-1].copy()
            np.cumsum(table, axis=1, out=table)
            flat = int(np.argmax(np.abs(table)))
            if abs(table.flat[flat]) > abs(best.value):
                x, y = divmod(flat, len(levels_y))
                point = np.array([levels_x[start + x], levels_y[y]])
                best = Corner(float(table.flat[flat]), point)
        return best

    def _grid_3d(self, mass: Array) -> Corner:
        """Let the first coordinate grow; each row adds its mass to a quadrant of the others."""
        _, levels_y, levels_z = self._levels
        cells = len(levels_y) * len(levels_z)
        if cells > _MAX_TABLE:
            raise InvalidInputError(
                f"family='cdf', method='exact' in 3 dimensions needs a table of {cells:,} cells, "
                f"more than {_MAX_TABLE:,}: use method='search', or a sample of the rows."
            )
        table = np.zeros((len(levels_y), len(levels_z)))
        best = Corner(0.0, self._U.max(axis=0))
        order = self._order[:, 0]
        ends = np.flatnonzero(np.diff(self._rank[order, 0], append=-1)) + 1
        for rows in np.split(order, ends[:-1]):
            for row in rows:
                table[self._rank[row, 1] :, self._rank[row, 2] :] += mass[row]
            # Only what has changed can have become the maximum.
            corner_y, corner_z = self._rank[rows, 1].min(), self._rank[rows, 2].min()
            changed = table[corner_y:, corner_z:]
            if max(changed.max(), -changed.min()) > abs(best.value):
                flat = int(np.argmax(np.abs(changed)))
                y, z = divmod(flat, changed.shape[1])
                point = [self._U[rows[0], 0], levels_y[corner_y + y], levels_z[corner_z + z]]
                best = Corner(float(changed[y, z]), np.array(point))
        return best


def _pack(flags: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Pack rows of flags into 64-bit words, for counting them a word at a time."""
    packed = np.packbits(flags, axis=1)
    missing = -packed.shape[1] % 8
    return np.ascontiguousarray(np.pad(packed, ((0, 0), (0, missing)))).view(np.uint64)


class OrthantStatistic:
    """Orthants: at the rows, by ascent from the best rows, or on the whole grid."""

    def __init__(self, U: Array, weight: Array | None, method: str, orthants: str) -> None:
        self._weight = weight
        self._method = method
        d = U.shape[1]
        flips = [(1.0,) * d] if orthants == "one" else itertools.product((1.0, -1.0), repeat=d)
        self._parts = [(np.array(flip), Orthants(U * flip)) for flip in flips]

    def _corner(self, part: Orthants, at_rows: Array | None, mass: Array) -> Corner:
        if at_rows is None:
            return part.on_grid(mass)
        if self._method == "search":
            return part.ascend(at_rows, mass)
        return part.best_row(at_rows)

    def fit(self, signs: Signs) -> Fit:
        """Return the value of one pair, with its classifier."""
        mass = masses(signs[None], self._weight)
        best: tuple[Array, Corner] | None = None
        for flip, part in self._parts:
            rows = self._at_rows(part, signs[None])[0]
            corner = self._corner(part, rows, mass.values[0])
            if best is None or abs(corner.value) > abs(best[1].value):
                best = flip, corner
        assert best is not None  # there is at least one orthant
        flip, corner = best
        if corner.value == 0:
            return Fit(0.0, None)
        classifier = OrthantRule(corner.point * flip, flip, inside=corner.value > 0)
        return Fit(abs(corner.value) / float(mass.scale[0]), classifier)

    def _at_rows(self, part: Orthants, signs: Signs) -> Array | list[None]:
        """Return the masses at the rows, which the whole grid does not need."""
        if self._method == "exact":
            return [None] * len(signs)
        return part.at_rows(signs, self._weight)

    def null(self, signs: Signs) -> Array:
        """Return the values of many pairs."""
        mass = masses(signs, self._weight)
        largest = np.zeros(len(signs))
        for _, part in self._parts:
            at_rows = self._at_rows(part, signs)
            for i, (rows, row_mass) in enumerate(zip(at_rows, mass.values, strict=True)):
                largest[i] = max(largest[i], abs(self._corner(part, rows, row_mass).value))
        return largest / mass.scale
