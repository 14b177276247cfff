"""Shares of rows, their differences and ratios, with confidence intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from fairpca.exceptions import InvalidInputError
from fairpca.linalg import Array
from fairpca.metrics._classifiers import Signs

_TINY = float(np.finfo(float).eps)
_LIMITS = {
    "min_group": ("a number of rows, at least 2", 2.0, 1e18),
    "budget": ("a number of seconds, or 0 for no limit", 0.0, 1e18),
    "confidence": ("a number between 0 and 1", _TINY, 1 - _TINY),
}


def check_limits(**given: Any) -> None:
    """Refuse numbers that cannot be meant."""
    for name, value in given.items():
        what, low, high = _LIMITS[name]
        if not isinstance(value, Real) or not low <= float(value) <= high:
            raise InvalidInputError(f"{name} must be {what}, not {value!r}.", parameter=name)


class Interval(NamedTuple):
    """Ends of a confidence interval."""

    low: float
    high: float


@dataclass(frozen=True)
class Share:
    """A share of some rows: its value, and how many rows of equal weight say as much."""

    value: float
    size: float
    n_rows: int

    @classmethod
    def of(cls, flagged: NDArray[np.bool_], weights: Array | None) -> Share:
        """Return the share of rows that are flagged."""
        if weights is None:
            return cls(float(flagged.mean()), float(len(flagged)), len(flagged))
        total = float(weights.sum())
        size = total**2 / float(weights @ weights)
        return cls(float(weights[flagged].sum()) / total, size, len(flagged))

    def interval(self, confidence: float) -> Interval:
        """Return Wilson's interval."""
        z = _quantile(confidence)
        middle = (self.value + z * z / (2 * self.size)) / (1 + z * z / self.size)
        spread = self.value * (1 - self.value) / self.size + z * z / (4 * self.size**2)
        half = z * math.sqrt(spread) / (1 + z * z / self.size)
        return Interval(max(0.0, middle - half), min(1.0, middle + half))


def difference(plus: Share, minus: Share, confidence: float) -> Interval:
    """Return Newcombe's interval of the difference of two shares, from Wilson's of each."""
    gap = plus.value - minus.value
    one, other = plus.interval(confidence), minus.interval(confidence)
    down = math.hypot(plus.value - one.low, other.high - minus.value)
    up = math.hypot(one.high - plus.value, minus.value - other.low)
    return Interval(max(-1.0, gap - down), min(1.0, gap + up))


def ratio(plus: Share, minus: Share, confidence: float) -> Interval:
    """Return the interval of the ratio of two shares on the logarithmic scale."""
    # Half a row is added to every count, so that a share of zero has an interval, too.
    counts = [(s.value * s.size + 0.5, s.size + 0.5) for s in (plus, minus)]
    centre = math.log(counts[0][0] / counts[0][1]) - math.log(counts[1][0] / counts[1][1])
    variance = sum(1 / hits - 1 / size for hits, size in counts)
    half = _quantile(confidence) * math.sqrt(max(variance, 0.0))
    return Interval(math.exp(centre - half), math.exp(centre + half))


def p_value_of_difference(plus: Share, minus: Share) -> float:
    """Return the p-value of a share that is no larger than another, by the pooled normal test."""
    size = plus.size + minus.size
    pooled = (plus.value * plus.size + minus.value * minus.size) / size
    variance = pooled * (1 - pooled) * (1 / plus.size + 1 / minus.size)
    if variance <= 0:
        return 1.0
    return float(norm.sf((plus.value - minus.value) / math.sqrt(variance)))


def _quantile(confidence: float) -> float:
    return float(norm.ppf(0.5 + 0.5 * confidence))


@dataclass(frozen=True)
class HeldOut:
    """What a classifier that was trained on some rows attains on others.

    Parameters
    ----------
    value : float
        Difference of the rates at which it flags the two groups.
    low, high : float
        Confidence interval of the difference of rates of this very classifier. Its lower end is
        one of the true Δ of the family as well, which is never smaller.
    confidence : float
        Probability with which the interval holds.
    p_value : float
        Of the difference, were the groups alike.
    n_rows : tuple of two int
        Rows of the two groups that it was measured on.
    shares : tuple of two Share, or None
        Shares of the two groups that it flags, in the order of `n_rows`.

    Examples
    --------
    >>> from fairpca.metrics import HeldOut
    >>> found = HeldOut(0.4, 0.2, 0.6, 0.95, 0.001, (50, 50))
    >>> found.low, found.high
    (0.2, 0.6)
    """

    value: float
    low: float
    high: float
    confidence: float
    p_value: float
    n_rows: tuple[int, int]
    shares: tuple[Share, Share] | None = None

    @classmethod
    def of(
        cls, flagged: NDArray[np.bool_], signs: Signs, weights: Array | None, confidence: float
    ) -> HeldOut:
        """Measure what a classifier flags on rows it has not seen."""
        minus, plus = (
            Share.of(flagged[signs == sign], None if weights is None else weights[signs == sign])
            for sign in (-1, 1)
        )
        return cls(
            plus.value - minus.value,
            *difference(plus, minus, confidence),
            confidence,
            p_value_of_difference(plus, minus),
            (minus.n_rows, plus.n_rows),
            (minus, plus),
        )

    def worst_of(self, count: int) -> HeldOut:
        """Widen the interval, so that it and `count` − 1 others hold together (Bonferroni)."""
        if self.shares is None or count < 2:
            return self
        minus, plus = self.shares
        low, high = difference(plus, minus, 1.0 - (1.0 - self.confidence) / count)
        return replace(self, low=low, high=high)

    def text(self) -> str:
        """Return the value with its interval."""
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"
