"""Confidence intervals of shares and their differences, and upper bounds of the true Δ."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from fairpca._choices import COMPARE
from fairpca.exceptions import InvalidInputError
from fairpca.linalg import Array, gaussian_delta
from fairpca.rows import Rows
from fairpca.rows._pairs import Stratum

_TINY = float(np.finfo(float).eps)
_LIMITS: dict[str, tuple[str, Any, float, float]] = {
    "min_group": ("a number of rows, at least 2", Real, 2.0, 1e18),
    "confidence": ("a number between 0 and 1", Real, _TINY, 1 - _TINY),
    "random_state": ("a whole number from 0 to 4294967295", Integral, 0, 2**32 - 1),
    "n_permutations": ("a whole number of at least 0", Integral, 0, math.inf),
    "C": ("a positive number or None", Real, sys.float_info.min, sys.float_info.max),
    "gamma": ("a positive number or None", Real, sys.float_info.min, sys.float_info.max),
    "max_samples": ("a whole number of at least 10", Integral, 10, math.inf),
}


def check_limits(**values: Any) -> None:
    """Refuse numbers that cannot be meant."""
    for name, value in values.items():
        what, kind, low, high = _LIMITS[name]
        if not isinstance(value, kind) or not low <= value <= high:
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
    def of(cls, flagged: NDArray[np.bool_], weights: Array | None, units: Any = None) -> Share:
        """Return the share of rows that are flagged; rows of one unit are not independent."""
        if weights is None and units is None:
            return cls(float(flagged.mean()), float(len(flagged)), len(flagged))
        share = np.ones(len(flagged)) if weights is None else weights
        share = share / share.sum()
        value = min(float(share[flagged].sum()), 1.0)
        if units is None:
            return cls(value, 1.0 / float(share @ share), len(flagged))
        by_unit = np.bincount(units, share)
        size, few = 1.0 / float(by_unit @ by_unit), int(np.count_nonzero(by_unit))
        error = np.bincount(units, share * (flagged - value))
        variance = few / max(few - 1, 1) * float(error @ error)
        # Where units are alike inside, so many independent rows have the same variance.
        return cls(value, value * (1 - value) / variance if variance > 0 else size, len(flagged))

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
    return Interval(gap - down, gap + up)  # within -1 and 1: not wider than the sum of the two


def ratio(plus: Share, minus: Share, confidence: float) -> Interval:
    """Return the interval of the ratio of two shares on the logarithmic scale."""
    # Half a row is added to every count, so that a share of zero has an interval, too.
    counts = [(s.value * s.size + 0.5, s.size + 0.5) for s in (plus, minus)]
    centre = math.log(counts[0][0] / counts[0][1]) - math.log(counts[1][0] / counts[1][1])
    variance = sum(1 / hits - 1 / size for hits, size in counts)
    half = _quantile(confidence) * math.sqrt(max(variance, 0.0))
    return Interval(math.exp(centre - half), math.exp(centre + half))


def _quantile(confidence: float) -> float:
    return float(norm.ppf(0.5 + 0.5 * confidence))


def delta_bound(
    value: Any,
    n_samples: int | Sequence[int],
    n_components: int | None = None,
    confidence: float = 0.95,
    *,
    method: str = "vc",
) -> float:
    """Bound the true Δ from its estimate.

    Parameters
    ----------
    value : float or DeltaResult
        The estimate Δ̂: the largest value over the family on these rows. A result says whether it
        is (`DeltaResult.supremum`) and is refused where it is not; of a number you have to know.
    n_samples : int or pair of int
        Number of rows; for method="dkw" the rows of the two groups.
    n_components : int, optional
        Number of components d, for method="vc".
    confidence : float, default 0.95
        Probability with which the bound holds.
    method : {"vc", "dkw"}, default "vc"
        "vc" holds for all half-spaces, or all orthants, at once (the paper's proposition with VC
        dimension d + 1). "dkw" is far sharper and holds for one score function that was chosen
        without these rows, such as a cross-fitted direction or the only component.

    Returns
    -------
    float
        Upper bound; 1 or more says nothing.

    See Also
    --------
    delta_fairness : The estimate that it bounds.
    gaussian_bound : From moments alone.

    Notes
    -----
    "vc": ``Δ̂ + 8 √((d + 1)/n) + √(2 log(1/α)/n)`` with ``α = 1 − confidence``. "dkw": the
    Dvoretzky–Kiefer–Wolfowitz inequality with Massart's constant for each group,
    ``Δ̂ + √(log(4/α)/2n₊) + √(log(4/α)/2n₋)``.

    Examples
    --------
    >>> from fairpca.metrics import delta_bound
    >>> round(delta_bound(0.1, 100_000, 2), 3)
    0.152
    >>> round(delta_bound(0.1, (1000, 1000), method="dkw"), 3)
    0.194
    """
    if hasattr(value, "supremum"):  # a DeltaResult; of a number nothing is known
        _check_supremum(value, method)
    estimate = float(value)
    sizes = np.atleast_1d(np.asarray(n_samples, dtype=float))
    _require(0.0 <= estimate <= 1.0, "value", value, "a number between 0 and 1")
    _require(0.0 < confidence < 1.0, "confidence", confidence, "a number between 0 and 1")
    good = np.isfinite(sizes).all() and (sizes >= 1).all()
    _require(bool(good), "n_samples", n_samples, "finite, positive numbers of rows")
    alpha = 1.0 - confidence
    if method == "vc":
        some = n_components is not None and n_components >= 1
        _require(some, "n_components", n_components, "at least 1 for method='vc'")
        n = float(sizes.sum())
        complexity = 8.0 * math.sqrt((float(n_components or 0) + 1.0) / n)
        return estimate + complexity + math.sqrt(2.0 * math.log(1.0 / alpha) / n)
    _require(method == "dkw", "method", method, "'vc' or 'dkw'")
    _require(len(sizes) == 2, "n_samples", n_samples, "a pair, the rows of both groups")
    return estimate + float(np.sqrt(math.log(4.0 / alpha) / (2.0 * sizes)).sum())


def _check_supremum(result: Any, method: str) -> None:
    """Refuse what a classifier attains that may not be the best of its family."""
    if result.supremum and (method == "vc" or result.n_components == 1):
        return
    raise InvalidInputError(
        f"value is what family={result.family!r}, method={result.method!r} found on "
        f"{result.n_components} components, and method={method!r} bounds a supremum only: use "
        "delta_fairness(..., method='exact') without weights, or read the interval of held_out.",
        parameter="value",
    )


def _require(good: bool, name: str, value: Any, what: str) -> None:
    if not good:
        raise InvalidInputError(f"{name} must be {what}, not {value!r}.", parameter=name)


def gaussian_bound(
    U: Any,
    sensitive_features: Any = None,
    *,
    compare: str = COMPARE[0],
    control_features: Any = None,
    sample_weight: Any = None,
) -> float:
    """Bound Δ of all half-spaces for groups that are Gaussian.

    Pinsker's inequality bounds Δ along a direction by the divergence of two normal distributions
    (the paper's equation 5); the bound is its supremum over all directions. The divergence is not
    symmetric, both ways bound Δ, and the smaller one is returned.

    Parameters
    ----------
    U, compare, control_features, sample_weight
        As in `delta_fairness`.
    sensitive_features : array-like or data frame
        Protected attributes; the largest bound over pairs of groups is returned.

    Returns
    -------
    float
        The bound; infinite where one group does not vary in a direction in which the other does.
        It bounds Δ of the fitted normal distributions, not of other distributions.

    See Also
    --------
    delta_fairness : Measured on rows, without the assumption.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.metrics import gaussian_bound
    >>> z = np.repeat([0, 1], 4)
    >>> U = np.tile([-1.0, -1.0, 1.0, 1.0], 2) + z
    >>> gaussian_bound(U, z)
    0.5
    """
    rows = Rows.read_dense(U, sensitive_features, control_features, sample_weight).counted()
    return largest_gaussian_bound(rows.pairs(compare))


def largest_gaussian_bound(strata: Sequence[Stratum]) -> float:
    """Return the largest bound over all pairs."""
    bounds = []
    for stratum in strata:
        U, weights = stratum.rows.X, stratum.rows.weights
        share = np.ones(len(U)) if weights is None else weights
        for signs in (pair.signs for pair in stratum.pairs):
            (mean_0, cov_0), (mean_1, cov_1) = (_moments(U, share, signs == s) for s in (-1, 1))
            bounds.append(gaussian_delta(mean_1 - mean_0, cov_0, cov_1))
    return max(bounds)


def _moments(U: Array, weight: Array, inside: Any) -> tuple[Array, Array]:
    """Return mean and covariance of some rows."""
    rows, share = U[inside], weight[inside] / weight[inside].sum()
    mean = share @ rows
    rows -= mean  # in place: the rows are a copy, and one is enough
    rows *= np.sqrt(share)[:, None]
    return mean, rows.T @ rows
