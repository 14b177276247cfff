"""How much an audit measures; errors, simultaneous limits and p-values on held-out rows.

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
    C: float | None = None  # of in-sample Gaussian SVMs; None chooses it for every permutation

    def shared(self, n_pairs: int) -> Effort:
        """Take fewer rows for each of many pairs of groups, all of which are measured.

        Kernel SVMs take the square of their rows, so that all pairs take as long as a few.
        """
        ratio = min(1.0, (_FULL_PAIRS / max(n_pairs, 1)) ** 0.5)
        trained, null_rows = (max(_FEWEST, int(ratio * n)) for n in (self.trained, self.null_rows))
        return replace(self, trained=trained, null_rows=null_rows)

    def permuted(self, is_slow: bool) -> tuple[int, int]:
        """Return how many rows are permuted, and how often."""
        if is_slow:
            return max(_FEWEST // 2, self.null_rows // 4), self.slow_permutations
        return self.null_rows, self.permutations

    def text(self, n_pairs: int, n_adversaries: int) -> str:
        """Say how much was measured."""
        return (
            f"effort {self.name}: {n_pairs} pair{'s'[: n_pairs > 1]} of groups, {n_adversaries} "
            f"adversaries trained on at most {self.trained:,} rows each, {self.repeats} × 2 halves"
        )


_FULL_PAIRS = 2  # pairs of groups up to which the rows of the table are taken
_FEWEST = 300
_TABLE = (
    Effort("quick", 4_000, 1_500, 1, 800, 99, 19, 1.0),
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
_MOST_DRAWN = 400  # more values have Šidák's or Bonferroni's quantile, whatever their correlations
_LEFT_OUT = 0.1  # share of the risk of a difference that goes to leaving out the largest value


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
        Confidence interval for these classifiers on new data. Those of all comparisons that were
        made hold together.
    chance : float
        Were all groups alike, all comparisons would stay below theirs as often as intervals hold.
    p_value : float
        How often one of all comparisons would be as far from 0, were all groups alike. It is below
        0.05 exactly where the estimate is above `chance` and the 95 % interval is above 0.
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
    guard: float  # variance that `_Side.guard` adds
    null_error: float  # of the same flags, were the groups alike; never below `error`
    bend: float  # a difference of δ has the variance null_error² − bend·δ²
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
        estimate, pooled = plus.rate - minus.rate, 0.5 * (minus.rate + plus.rate)
        influence, alike = (
            plus.flagged - one * plus.shares - (minus.flagged - other * minus.shares)
            for one, other in ((plus.rate, minus.rate), (pooled, pooled))
        )
        counts = (minus.n_units, plus.n_units)
        freedom, guard = max(min(counts), 2) - 1, minus.guard + plus.guard
        own, null, most = (
            float(_variance(squares, freedom, added))
            for squares, added in (
                (influence @ influence, guard),
                (alike @ alike, guard),
                (minus.shares @ minus.shares + plus.shares @ plus.shares, 0.0),
            )
        )
        null = max(null, own)
        # Of two shares with a given mean, p(1 − p) + q(1 − q) falls by half the square of q − p.
        bend = min(0.25 * most, (null - own) / estimate**2) if estimate else 0.25 * most
        return cls(
            estimate, (minus.rate, plus.rate), influence, guard, float(np.sqrt(null)), bend,
            freedom, (minus.n_rows, plus.n_rows), None if units is None else counts,
        )  # fmt: skip

    @property
    def error(self) -> float:
        """Standard error."""
        squares = self.influence @ self.influence
        return float(np.sqrt(_variance(squares, self.freedom, self.guard)))

    def described(self, family: Family, confidence: float) -> HeldOut:
        """Return the figures of a table: limits, chance level and p-value of one (score) test.

        A difference δ is inside the limits where (estimate − δ)² is at most q² times the variance
        that δ has. So 0 is outside exactly where the estimate exceeds q times its error at 0.
        """
        q = float(_student(family.quantile(confidence), self.freedom))
        shrunk, null = 1.0 + q**2 * self.bend, self.null_error**2
        reach = q * np.sqrt(max(null * shrunk - self.bend * self.estimate**2, 0.0))
        low, high = ((self.estimate + side * reach) / shrunk for side in (-1.0, 1.0))
        beyond = float(norm.isf(t.sf(self.estimate / self.null_error, self.freedom)))
        return HeldOut(
            self.estimate, self.error, max(float(low), -1.0), min(float(high), 1.0),
            min(q * self.null_error, 1.0), family.p_value(beyond),
            self.rates, self.n_rows, self.n_units,
        )  # fmt: skip


def _variance(squares: Any, freedom: Any, guard: Any) -> Any:
    return _BOTH_WAYS * ((freedom + 1) / freedom * squares + guard)


def _student(quantile: Any, freedom: Any) -> Any:
    """Turn a quantile of the normal distribution into one of Student's."""
    return t.isf(norm.sf(quantile), freedom)


class Family(NamedTuple):
    """Comparisons that were made together; without `largest`, nothing is known of how they depend.

    Šidák's inequality holds for all correlations, and is sharper than draws far out.
    """

    size: int = 1
    largest: Array | None = None  # of the absolute values of correlated normal vectors; rising

    @classmethod
    def of(cls, columns: Sequence[Array], seed: int) -> Family:
        """Draw normal vectors with the correlations of influence values."""
        if len(columns) > _MOST_DRAWN:
            return cls(len(columns))
        draws, spread = _draws(_gram(columns), seed)
        return cls(len(columns), np.sort(np.abs(draws / spread).max(axis=1)))

    def p_value(self, beyond: float) -> float:
        """Return how often the largest is so far from zero; 1 for what is not above zero."""
        if beyond <= 0.0:
            return 1.0
        one = 2.0 * float(norm.sf(beyond))
        together = float(-np.expm1(self.size * np.log1p(-one)))
        if self.largest is not None:
            above = len(self.largest) - np.searchsorted(self.largest, beyond)
            together = min(together, float(above) / len(self.largest))
        return max(one, together)

    def quantile(self, confidence: float) -> float:
        """Return the point beyond which p-values are below 1 − confidence."""
        one, together = (
            float(norm.isf(0.5 * (1.0 - level)))
            for level in (confidence, confidence ** (1.0 / self.size))
        )
        if self.largest is not None:
            above = max(int(np.ceil((1.0 - confidence) * len(self.largest) - 1e-9)), 1)
            together = min(together, float(self.largest[-above]))
        return max(one, together)


def _gram(columns: Sequence[Array]) -> Array:
    matrix = np.column_stack(columns)
    return np.asarray(matrix.T @ matrix)


def _draws(gram: Array, seed: int) -> tuple[Array, Array]:
    """Draw normal vectors with these covariances; return their deviations, infinite for none."""
    values, vectors = np.linalg.eigh(gram)
    normal = np.random.default_rng(seed).standard_normal((_DRAWS, len(gram)))
    draws = normal @ (np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T)
    return draws, _finite(np.sqrt(np.diag(gram)))


def _finite(spread: Array) -> Array:
    """Make deviations infinite where nothing varies, up to rounding."""
    return np.where(spread > 1e-7 * spread.max(initial=0.0), spread, np.inf)


class Difference(NamedTuple):
    """A difference with its interval."""

    estimate: float
    low: float
    high: float

    def around(self, estimate: float) -> Difference:
        """Return the interval with another estimate, which it includes."""
        return Difference(estimate, min(self.low, estimate), max(self.high, estimate))


class _Joint:
    """Values of the same units, and how far the difference of any two of them may be off."""

    def __init__(self, rates: Sequence[Rates], seed: int) -> None:
        gram = _gram([one.influence for one in rates])
        self.estimates = np.array([one.estimate for one in rates])
        self._draws = _draws(gram, seed)[0] if len(rates) <= _MOST_DRAWN else None
        squares = np.diag(gram)[:, None] + np.diag(gram) - 2.0 * gram
        np.maximum(squares, 0.0, out=squares)
        self._spread = _finite(np.sqrt(squares))
        guard = np.array([one.guard for one in rates])
        freedom = np.array([one.freedom for one in rates])
        self._freedom = np.minimum(freedom[:, None], freedom)
        # Guards do not cancel: where both rates are 0 or 1 they are all there is.
        self._errors = np.sqrt(_variance(squares, self._freedom, guard[:, None] + guard))

    def margins(self, places: Places, others: Places, risk: float, *, drawn: bool = True) -> Array:
        """Return by how much differences of `places` and any one of `others` may be exceeded.

        For each of `others` they hold for all `places` together, on one side.
        """
        quantiles = np.full(len(others), norm.isf(risk / len(places)))
        if drawn and self._draws is not None:
            rows = self._draws[:, places]
            for k, other in enumerate(others):
                moved = (rows - self._draws[:, [other]]) / self._spread[places, other]
                quantiles[k] = np.quantile(moved.max(axis=1), 1.0 - risk)
        pairs = np.ix_(places, others)
        reach = _student(np.maximum(quantiles, norm.isf(risk)), self._freedom[pairs])
        return np.asarray(reach * self._errors[pairs])

    def may_be_largest(self, places: Places, risk: float) -> Places:
        """Return the places of values that are not clearly below another one."""
        behind = self.estimates[places][:, None] - self.estimates[places]
        return places[(behind <= self.margins(places, places, risk, drawn=False)).all(axis=0)]

    def paired(self, n: int, confidence: float) -> list[Difference]:
        """Compare the first n values with the others, one by one; limits hold together."""
        one, other = np.arange(n), np.arange(n, 2 * n)
        family = Family(n)
        if self._draws is not None:
            moved = (self._draws[:, one] - self._draws[:, other]) / self._spread[one, other]
            family = Family(n, np.sort(np.abs(moved).max(axis=1)))
        apart = self.estimates[one] - self.estimates[other]
        quantiles = _student(family.quantile(confidence), self._freedom[one, other])
        reach = quantiles * self._errors[one, other]
        return [
            Difference(float(a), float(a - r), float(a + r))
            for a, r in zip(apart, reach, strict=True)
        ]


Places = NDArray[np.intp]


def paired_differences(
    rates: Sequence[Rates], others: Sequence[Rates], confidence: float, seed: int
) -> list[Difference]:
    """Compare every value of two representations, with limits that hold together."""
    return _Joint((*rates, *others), seed).paired(len(rates), confidence)


def difference_of_largest(
    rates: Sequence[Rates], others: Sequence[Rates], confidence: float, seed: int
) -> Difference:
    """Compare the largest values of two representations.

    The difference is the largest, over the first, of the smallest, over the second, of all their
    differences, and so are its limits: the lower one needs limits that hold for all of the first
    and whichever of the second is the largest, the upper one the other way round. Values that are
    clearly not the largest are left out first, so that they do not widen the interval.
    """
    joint, n = _Joint((*rates, *others), seed), len(rates)
    every = np.arange(n + len(others))
    missed = 1.0 - confidence
    one, other = (
        joint.may_be_largest(some, 0.5 * _LEFT_OUT * missed) for some in (every[:n], every[n:])
    )
    risk = 0.5 * (1.0 - _LEFT_OUT) * missed
    apart = joint.estimates[one][:, None] - joint.estimates[other]
    low = (apart - joint.margins(one, other, risk)).min(axis=1).max()
    high = (apart + joint.margins(other, one, risk).T).min(axis=1).max()
    return Difference(float(apart.min(axis=1).max()), float(low), float(high))
