"""Ascent: the basis that keeps the most variance at a price on what leaks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fairpca._progress import Counter
from fairpca.adversary._leak import Leak, random_frequencies
from fairpca.adversary._targets import Targets
from fairpca.linalg import Array, orthonormalize

# Every step sees so many rows and features, drawn anew: a basis cannot learn to hide from what
# is never the same twice.
_ROWS, _FEATURES, _STEPS = 1000, 100, 150
# How far a step turns the basis at first, in root mean square of its entries.
_LENGTH = 0.04
# Few rows allow few features: an adversary that learns them by heart says nothing.
_ROWS_PER_FEATURE, _LEAST_FEATURES = 8, 16
_MEMORY, _SLOW_MEMORY = 0.9, 0.99
# The slope of the leak in a direction shrinks with the deviation of its rows, however much less
# leaks there: steps are longer by that ratio, up to this.
_LONGEST = 1e4
# In a hole with one aim the price rises by e to this power from end to end; more of them are as
# much steeper, each about its own share of the way.
_RISE = 6.0
# By what the bases found are compared with each other.
_TEST_ROWS, _TEST_FEATURES = 5000, 400


class Aim(NamedTuple):
    """What a unit of leak costs, in logarithms of the variance kept.

    With the variance itself, bases that leak little and keep little are never the best ones: their
    part of the trade-off is hollow. Where even that of the logarithm is, no price has its best
    point inside: there the price rises with the variance, by the power `rise`, and is `price` at
    the share `variance`.
    """

    price: float
    variance: float = 1.0
    rise: float = 0.0

    def price_at(self, variance: float) -> float:
        """Return the price for a basis that keeps a share of the variance."""
        return self.price * self._raised(variance, self.rise)

    def value(self, variance: float, leak: float) -> float:
        """Return what is maximised, a function of the variance whose slope has this price."""
        if not self.rise:
            return float(np.log(variance)) - self.price * leak
        return (1.0 - self._raised(variance, -self.rise)) / self.rise - self.price * leak

    def _raised(self, variance: float, power: float) -> float:
        return float(np.exp(np.clip(power * np.log(variance / self.variance), -100.0, 100.0)))


class Point(NamedTuple):
    """A point of the trade-off: its basis (r, d), the share of variance it keeps, and its leak."""

    aim: Aim
    basis: Array
    variance: float
    leak: float

    def hole(self, other: Point) -> float:
        """Return how much room there is to the next point, as a picture of both would show it."""
        apart = np.sqrt(max(self.leak, 0.0)) - np.sqrt(max(other.leak, 0.0))
        return float((self.variance - other.variance) * apart)

    def between(self, other: Point, count: int = 1) -> list[Aim]:
        """Aims on the way to the next point, with the price at which both are as good."""
        width = float(np.log(self.variance / other.variance))
        price = width / (self.leak - other.leak)
        shares = np.arange(1, count + 1) / (count + 1)
        kept = self.variance * np.exp(-width * shares)
        return [Aim(price, float(variance), _RISE * count / width) for variance in kept]


class Ascent:
    """Stochastic ascent of what an aim values, log variance − price · leak, over orthonormal bases.

    X (n, r): rows, in the order of the targets; S (r, r): their covariance, diagonal; total: what
    variances are a share of.
    """

    def __init__(
        self, X: Array, S: Array, total: float, targets: Targets, random: np.random.Generator
    ) -> None:
        # Single precision: twice as fast, and far below the noise of random features.
        self.X = X.astype(np.float32)
        self.S, self.total = S, total
        spread = np.sqrt(np.diag(S))[:, None]
        self.stretch = np.minimum(spread.max() / spread, _LONGEST)
        self.targets, self.random = targets, random

    def path(
        self,
        starts: Sequence[Array],
        aims: Sequence[Aim],
        feasible: Callable[[Array], Array],
        counter: Counter | None = None,
        *,
        holes: int = 0,
    ) -> list[Point]:
        """Return the best point for each aim, and those that are found in holes between them.

        Prices are expected to rise. Every second is ascended on the way up, the others on the way
        down, each from the best basis so far for its price; then what lies between them. In the
        end every aim chooses among all that were found. Points come in the order of the aims, or
        by falling variance if `holes` asks for more of them; their leak falls, too.
        """
        test = self._leak(starts[0].shape[1], _TEST_ROWS, _TEST_FEATURES)
        found = [self._point(feasible(V), test) for V in starts]

        def best(aim: Aim) -> Point:
            point = max(found, key=lambda point: aim.value(point.variance, point.leak))
            return point._replace(aim=aim)

        def ascend(aims: Sequence[Aim]) -> None:
            for aim in aims:
                found.append(self._point(feasible(self.climb(best(aim).basis, aim)), test))
                if counter is not None:
                    counter.add()

        prices = [aim for aim in aims if not aim.rise]
        ascend((*prices[::2], *prices[1::2][::-1], *(aim for aim in aims if aim.rise)))
        new = _in_holes([best(aim) for aim in aims], holes)
        ascend(new)
        points = [best(aim) for aim in aims]
        for point in map(best, new):
            if all(point.basis is not other.basis for other in points):
                points.append(point)
        if new:
            points.sort(key=lambda point: -point.variance)
        # Below zero is chance; but the least of it is what the highest prices go by.
        return [point._replace(leak=max(point.leak, 0.0)) for point in points]

    def climb(self, V: Array, aim: Aim) -> Array:
        """Ascend from a basis, with momentum and steps of one length that shrinks to zero."""
        momentum, size = np.zeros_like(V), 0.0
        for step in range(1, _STEPS + 1):
            slope = self.S @ V
            variance = float(np.sum(V * slope))
            price = aim.price_at(variance / self.total)
            slope *= 2.0 / variance
            slope -= price * self._leak(V.shape[1], _ROWS, _FEATURES)(V)[1]
            slope /= 1.0 + price  # one scale for the averages below, wherever the price is going
            slope = self.stretch * (slope - V @ (V.T @ slope))
            slope -= V @ (V.T @ slope)
            momentum = _MEMORY * momentum + (1.0 - _MEMORY) * slope
            momentum -= V @ (V.T @ momentum)
            size = _SLOW_MEMORY * size + (1.0 - _SLOW_MEMORY) * float(np.mean(slope**2))
            if size == 0.0:
                return V
            # Both averages start at zero, which is divided out.
            pace = momentum / (1.0 - _MEMORY**step) / np.sqrt(size / (1.0 - _SLOW_MEMORY**step))
            V = orthonormalize(V + 0.5 * _LENGTH * (1.0 + np.cos(np.pi * step / _STEPS)) * pace)
        return V

    def _point(self, V: Array, test: Leak) -> Point:
        variance = float(np.sum(V * (self.S @ V))) / self.total
        return Point(Aim(0.0), V, variance, float(test.adjusted(V).max()))

    def _leak(self, n_components: int, n_rows: int, n_features: int) -> Leak:
        rows = self.targets.draw(n_rows, self.random)
        n_features = min(n_features, max(_LEAST_FEATURES, len(rows) // _ROWS_PER_FEATURE))
        frequencies = random_frequencies(n_components, n_features, self.random)
        return Leak(self.X[rows], self.S, self.targets.take(rows), frequencies)


def _in_holes(points: Sequence[Point], count: int) -> list[Aim]:
    """So many aims between neighbours, most in the largest holes."""
    holes = np.array([max(a.hole(b), 0.0) for a, b in pairwise(points)])
    counts = np.zeros(len(holes), dtype=int)
    for _ in range(count if holes.any() else 0):
        # The room that is left when a hole is cut into equal parts, of which each has both sides.
        counts[np.argmax(holes / (counts + 1) ** 2)] += 1
    cut = zip(pairwise(points), counts.tolist(), strict=True)
    return [aim for (point, other), n in cut if n for aim in point.between(other, n)]
