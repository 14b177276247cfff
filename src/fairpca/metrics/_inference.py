"""Errors, simultaneous limits and chance levels of differences of rates on held-out rows.

A difference of the rates of two groups is a sum over rows, and so is its error: a row adds
``w (f − rate of its group)/W`` of its group, where f says how often it was flagged. These influence
values are summed by unit. Their squares add up to the variance, products of two columns to a
covariance, and differences of two columns belong to the paired difference of two representations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, t

from fairpca._present import points_text
from fairpca.linalg import Array
from fairpca.metrics._rules import Signs

# Both ways of a split may be one number measured twice: where groups are nearly alike, the noise of
# either half times that of the other. Twice the variance of independent rows is always enough.
_BOTH_WAYS = 2.0
_DRAWS = 4000  # of normal vectors, for the quantile of the largest
_MOST_DRAWN = 400  # more columns have Šidák's quantile, which ignores how they depend
CHANCE = 0.95


@dataclass(frozen=True)
class HeldOut:
    """Difference in selection rates on held-out rows, with its error, interval and chance level.

    Parameters
    ----------
    estimate : float
        Rate at which the second group is flagged, less that of the first.
    error : float
        Its standard error.
    low, high : float
        Confidence interval for these classifiers on new data.
    chance : float
        What the estimate stays below in 95 of 100 cases where the groups have no relation to the
        rows.
    p_value : float
        Of the estimate, were the groups alike.
    rates : tuple of two float
        Rates of the two groups.
    n_rows, n_units : tuple of two int
        Held-out rows and units of the two groups; n_units is None without units.

    See Also
    --------
    AuditReport : Where it is found.

    Examples
    --------
    >>> from fairpca.metrics import HeldOut
    >>> HeldOut(0.4, 0.1, 0.2, 0.6, 0.16, 0.001, (0.3, 0.7), (50, 50)).low
    0.2
    """

    estimate: float
    error: float
    low: float
    high: float
    chance: float
    p_value: float
    rates: tuple[float, float]
    n_rows: tuple[int, int]
    n_units: tuple[int, int] | None = None

    @property
    def exceeds_chance(self) -> bool:
        """Whether the estimate is above what alike groups stay below in 95 of 100 cases."""
        return self.estimate > self.chance

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for a table or for JSON."""
        return asdict(self)

    def text(self) -> str:
        """Return the estimate with its interval, in percentage points."""
        return points_text(self.estimate, self.low, self.high)


class _Side(NamedTuple):
    """One group: how much of it each unit has, and how much of that is flagged."""

    shares: Array
    flagged: Array
    n_rows: int

    @classmethod
    def of(cls, flags: Array, weights: Array, units: NDArray[np.intp], n_units: int) -> _Side:
        share = weights / weights.sum()
        shares, flagged = np.zeros(n_units), np.zeros(n_units)
        np.add.at(shares, units, share)
        np.add.at(flagged, units, share * flags)
        return cls(shares, flagged, len(flags))

    @property
    def rate(self) -> float:
        return min(float(self.flagged.sum()), 1.0)

    @property
    def n_units(self) -> int:
        return int(np.count_nonzero(self.shares))

    @property
    def guard(self) -> float:
        """Variance that one more flagged and one more unflagged unit add to a rate."""
        size = 1.0 / float(self.shares @ self.shares)  # units of equal weight that say as much
        moved = (self.rate * size + 1.0) / (size + 2.0)
        return (moved * (1.0 - moved) - self.rate * (1.0 - self.rate)) / size


class Rates(NamedTuple):
    """A difference of rates, and what every unit adds to its error."""

    estimate: float
    rates: tuple[float, float]
    influence: Array  # by unit; zero for units of neither group
    error: float
    null_error: float  # of the same flags, were the groups alike
    freedom: int  # degrees of freedom
    n_rows: tuple[int, int]
    n_units: tuple[int, int] | None

    @classmethod
    def of(cls, flags: Array, signs: Signs, weights: Array | None, units: Any = None) -> Rates:
        """Compare how often rows of both groups are flagged; `flags` are from 0 to 1."""
        member = np.arange(len(signs)) if units is None else units
        weight = np.ones(len(signs)) if weights is None else weights
        parts = (
            (flags[inside], weight[inside], member[inside]) for inside in (signs < 0, signs > 0)
        )
        minus, plus = (_Side.of(*part, int(member.max()) + 1) for part in parts)
        pooled = 0.5 * (minus.rate + plus.rate)
        columns = (
            plus.flagged - one * plus.shares - (minus.flagged - other * minus.shares)
            for one, other in ((plus.rate, minus.rate), (pooled, pooled))
        )
        influence, alike = columns
        counts = (minus.n_units, plus.n_units)
        few = max(min(counts), 2)
        guard = minus.guard + plus.guard
        error, null_error = (
            float(np.sqrt(_BOTH_WAYS * (few / (few - 1) * float(column @ column) + guard)))
            for column in (influence, alike)
        )
        return cls(
            plus.rate - minus.rate,
            (minus.rate, plus.rate),
            influence,
            error,
            null_error,
            few - 1,
            (minus.n_rows, plus.n_rows),
            None if units is None else counts,
        )

    @property
    def exceeds_chance(self) -> bool:
        """Whether the estimate is above what alike groups stay below in 95 of 100 cases."""
        return self.estimate > float(t.ppf(CHANCE, self.freedom)) * self.null_error

    def limits(self, quantile: float) -> tuple[float, float]:
        """Return the limits for a quantile of the normal distribution."""
        reach = float(t.isf(norm.sf(quantile), self.freedom)) * self.error
        return self.estimate - reach, self.estimate + reach

    def described(self, quantile: float) -> HeldOut:
        """Return the figures of a table."""
        chance = float(t.ppf(CHANCE, self.freedom)) * self.null_error
        p_value = float(t.sf(self.estimate / self.null_error, self.freedom))
        low, high = self.limits(quantile)
        return HeldOut(
            self.estimate, self.error, max(low, -1.0), min(high, 1.0), min(chance, 1.0), p_value,
            self.rates, self.n_rows, self.n_units,
        )  # fmt: skip


class Difference(NamedTuple):
    """A difference with its interval."""

    estimate: float
    low: float
    high: float


def quantile_of_one(confidence: float) -> float:
    """Return the quantile of a single interval."""
    return float(norm.isf(0.5 * (1.0 - confidence)))


def normal_draws(columns: Sequence[Array], seed: int) -> Array | None:
    """Draw standard normal vectors with the correlations of some columns; None for too many."""
    if len(columns) > _MOST_DRAWN:
        return None
    matrix = np.column_stack(columns)
    matrix /= np.maximum(np.sqrt((matrix**2).sum(axis=0)), np.finfo(float).tiny)
    values, vectors = np.linalg.eigh(matrix.T @ matrix)
    normal = np.random.default_rng(seed).standard_normal((_DRAWS, len(columns)))
    return np.asarray(normal @ (np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T))


def simultaneous_quantile(columns: Sequence[Array], confidence: float, seed: int) -> float:
    """Return the quantile with which intervals of all columns hold together."""
    draws = normal_draws(columns, seed)
    if draws is None:
        return quantile_of_one(confidence ** (1.0 / len(columns)))
    largest = np.abs(draws).max(axis=1)
    return max(quantile_of_one(confidence), float(np.quantile(largest, confidence)))


def paired_differences(
    rates: Sequence[Rates], others: Sequence[Rates], confidence: float, seed: int
) -> list[Difference]:
    """Compare every value of two representations, with limits that hold together."""
    paired = [
        one._replace(
            estimate=one.estimate - other.estimate,
            influence=one.influence - other.influence,
            error=_paired_error(one, other),
        )
        for one, other in zip(rates, others, strict=True)
    ]
    quantile = simultaneous_quantile([one.influence for one in paired], confidence, seed)
    return [Difference(one.estimate, *one.limits(quantile)) for one in paired]


def difference_of_largest(
    rates: Sequence[Rates],
    others: Sequence[Rates],
    paired: Sequence[Difference],
    confidence: float,
    seed: int,
) -> Difference:
    """Compare the largest values of two representations."""
    both = (*rates, *others)
    draws = normal_draws([one.influence for one in both], seed)
    estimates = np.array([one.estimate for one in both])
    middle = float(estimates[: len(rates)].max() - estimates[len(rates) :].max())
    if draws is None:  # no difference of largest values exceeds the largest difference
        low, high = min(one.low for one in paired), max(one.high for one in paired)
        return Difference(middle, min(low, middle), max(high, middle))
    # Both largest values are drawn together, so that what they share cancels.
    drawn = estimates + draws * np.array([one.error for one in both])
    moved = drawn[:, : len(rates)].max(axis=1) - drawn[:, len(rates) :].max(axis=1) - middle
    few = min(one.freedom for one in both)
    heavier = t.isf(0.5 * (1.0 - confidence), few) / quantile_of_one(confidence)
    reach = float(np.quantile(np.abs(moved), confidence) * heavier)
    return Difference(middle, middle - reach, middle + reach)


def _paired_error(one: Rates, other: Rates) -> float:
    """Return the error of a paired difference; both guards count where rates are 0 or 1."""
    column = one.influence - other.influence
    few = one.freedom + 1
    squares = [few / one.freedom * float(c @ c) for c in (column, one.influence, other.influence)]
    guard = one.error**2 + other.error**2 - _BOTH_WAYS * (squares[1] + squares[2])
    return float(np.sqrt(_BOTH_WAYS * squares[0] + max(guard, 0.0)))
