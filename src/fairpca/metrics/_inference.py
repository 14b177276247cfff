"""Errors, simultaneous limits and chance levels of differences of rates on held-out rows.

A difference of the rates of two groups is a sum over rows, and so is its error: a row adds
``w (f − rate of its group)/W`` of its group, where f says how often it was flagged. These influence
values are summed by unit. Their squares add up to the variance, products of two columns to a
covariance, and differences of two columns belong to the paired difference of two representations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, t

from fairpca._choices import EFFORTS
from fairpca._present import points_text
from fairpca.exceptions import InvalidInputError
from fairpca.linalg import Array
from fairpca.metrics._rules import Signs


@dataclass(frozen=True)
class Effort:
    """Sizes and counts of an audit."""

    name: str
    rows: int  # drawn, halved and measured
    trained: int  # rows that an adversary is trained on at most
    repeats: int  # times that rows are halved
    null_rows: int  # drawn for in-sample values; searches and kernel SVMs take a quarter
    permutations: int
    slow_permutations: int  # of statistics that repeat a costly fit

    def shared(self, n_pairs: int) -> Effort:
        """Take fewer rows for each of many pairs of groups, all of which are measured.

        Kernel SVMs take the square of their rows, so that all pairs take as long as a few.
        """
        ratio = min(1.0, (_FULL_PAIRS / max(n_pairs, 1)) ** 0.5)
        trained, null_rows = (max(_FEWEST, int(ratio * n)) for n in (self.trained, self.null_rows))
        return replace(self, trained=trained, null_rows=null_rows)

    def text(self, n_pairs: int, n_adversaries: int) -> str:
        """Say how much was measured."""
        return (
            f"effort {self.name}: {n_pairs} pair{'s'[: n_pairs > 1]} of groups, {n_adversaries} "
            f"adversaries trained on at most {self.trained:,} rows each, {self.repeats} × 2 halves"
        )


_FULL_PAIRS = 2  # pairs of groups up to which the rows of the table are taken
_FEWEST = 300
_TABLE = (
    Effort("quick", 4_000, 1_500, 1, 800, 99, 19),
    Effort("standard", 12_000, 3_000, 2, 2_000, 199, 19),
    Effort("thorough", 40_000, 6_000, 5, 4_000, 999, 99),
)


def effort_of(name: str) -> Effort:
    """Return the row of the table that has this name."""
    for effort in _TABLE:
        if effort.name == name:
            return effort
    raise InvalidInputError(f"effort must be one of {EFFORTS}, not {name!r}.", parameter="effort")


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


# Estimate and upper limit below which a word is used. They are a convention, and pages say so.
_WORDS = (("little", 0.1, 0.2), ("some", 0.3, 0.4))
NEGLIGIBLE = 0.1  # upper limit below which nothing but chance is shown
_SPREAD = 0.3  # an interval from zero to this says nothing


class Verdict(NamedTuple):
    """A word, its level and the reason; levels are the keys of the page's sentences.

    "unknown" and "unclear" are grey: nothing is claimed either way.
    """

    word: str
    level: str
    reason: str


def verdict(
    estimate: float | None, low: float, high: float, *, missing: int = 0, small: bool = False
) -> Verdict:
    """Put the largest difference in selection rates into a word.

    We say "not enough was measured" when nothing was measured (`estimate` is None), when `missing`
    comparisons of the panel were not, when all groups are `small`, or when the interval reaches
    from 0 to 30 points or more. Where the interval includes 0 we say "no better than chance shown"
    when its upper limit is below 10 points, and "unclear" otherwise. Where it does not we say
    "little" when the estimate is below 10 points and the upper limit below 20, "some" when the
    estimate is below 30 and the upper limit below 40, and "much" otherwise.

    See Also
    --------
    AuditReport : Where it is found.

    Examples
    --------
    >>> from fairpca.metrics import verdict
    >>> verdict(0.15, 0.09, 0.21).word, verdict(0.05, -0.1, 0.2).word
    ('some', 'unclear')
    """
    if estimate is None:
        return _unknown("nothing was measured on held-out rows")
    if missing:
        return _unknown(f"the panel of adversaries did not run for {missing} comparisons")
    if small:
        return _unknown("all groups are too small to say")
    if low <= 0.0 and high >= _SPREAD:
        return _unknown(f"the interval includes 0 and {100 * _SPREAD:g} points")
    if low <= 0.0:
        least = f"{100 * NEGLIGIBLE:g} points"
        if high < NEGLIGIBLE:
            reason = f"the interval includes 0 and its upper limit is below {least}"
            return Verdict("no better than chance shown", "chance", reason)
        reason = f"the interval includes 0, but its upper limit is not below {least}"
        return Verdict("unclear", "unclear", reason)
    for word, below, limit in _WORDS:
        if estimate < below and high < limit:
            reason = f"the estimate is below {100 * below:g} points and the upper limit below "
            return Verdict(word, word, reason + f"{100 * limit:g}")
    _, below, limit = _WORDS[-1]
    reason = f"the estimate is at least {100 * below:g} points or the upper limit at least "
    return Verdict("much", "much", reason + f"{100 * limit:g}")


def _unknown(reason: str) -> Verdict:
    return Verdict("not enough was measured", "unknown", reason)
