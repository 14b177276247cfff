"""Ascent: the basis that keeps the most variance at a price on what leaks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
# By what the bases found are compared with each other.
_TEST_ROWS, _TEST_FEATURES = 5000, 400


class Point(NamedTuple):
    """A point of the trade-off: its basis (r, d), the share of variance it keeps, and its leak."""

    price: float
    basis: Array
    variance: float
    leak: float

    def objective(self, price: float) -> float:
        """Logarithm of the variance kept, less the price of the leak.

        With the variance itself, bases that leak little and keep little are never the best ones:
        their part of the trade-off is hollow.
        """
        return float(np.log(self.variance)) - price * self.leak


class Ascent:
    """Stochastic ascent of log variance − price · leak over orthonormal bases.

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
        prices: Sequence[float],
        feasible: Callable[[Array], Array],
        counter: Counter | None = None,
    ) -> list[Point]:
        """Return the best point at each of the rising prices.

        Every second price is ascended on the way up, the others on the way down, each from the
        best basis so far for its price. In the end every price chooses among all that were found,
        so that variance and leak fall from point to point.
        """
        test = self._leak(starts[0].shape[1], _TEST_ROWS, _TEST_FEATURES)
        found = [self._point(feasible(V), test) for V in starts]

        def best(price: float) -> Point:
            return max(found, key=lambda point: point.objective(price))

        for price in (*prices[::2], *prices[1::2][::-1]):
            found.append(self._point(feasible(self.climb(best(price).basis, price)), test))
            if counter is not None:
                counter.add()
        # Below zero is chance; but the least of it is what the highest prices go by.
        return [
            point._replace(price=price, leak=max(point.leak, 0.0))
            for price, point in ((price, best(price)) for price in prices)
        ]

    def climb(self, V: Array, price: float) -> Array:
        """Ascend from a basis, with momentum and steps of one length that shrinks to zero."""
        momentum, size = np.zeros_like(V), 0.0
        for step in range(1, _STEPS + 1):
            slope = self.S @ V
            slope *= 2.0 / float(np.sum(V * slope))
            slope -= price * self._leak(V.shape[1], _ROWS, _FEATURES)(V)[1]
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
        return Point(0.0, V, variance, float(test.adjusted(V).max()))

    def _leak(self, n_components: int, n_rows: int, n_features: int) -> Leak:
        rows = self.targets.draw(n_rows, self.random)
        n_features = min(n_features, max(_LEAST_FEATURES, len(rows) // _ROWS_PER_FEATURE))
        frequencies = random_frequencies(n_components, n_features, self.random)
        return Leak(self.X[rows], self.S, self.targets.take(rows), frequencies)
