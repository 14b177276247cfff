"""Upper bounds of the true Δ: from samples, and from moments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fairpca.exceptions import InvalidInputError
from fairpca.linalg import Array, gaussian_delta
from fairpca.metrics._result import DeltaResult
from fairpca.rows import Rows, Stratum


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
    if isinstance(value, DeltaResult):
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


def _check_supremum(result: DeltaResult, method: str) -> None:
    """Refuse what a classifier attains that may not be the best of its family."""
    if result.supremum and (method == "vc" or result.n_components == 1):
        return
    raise InvalidInputError(
        f"value is what family={result.family!r}, method={result.method!r} found on "
        f"{result.n_components} components, and method={method!r} bounds a supremum only: use "
        "delta_fairness(..., method='exact') without weights, or read the interval of held_out.",
        parameter="value",
    )


def _require(good: bool, name: str, given: Any, what: str) -> None:
    if not good:
        raise InvalidInputError(f"{name} must be {what}, not {given!r}.", parameter=name)


def gaussian_bound(
    U: Any,
    sensitive_features: Any = None,
    *,
    control_features: Any = None,
    sample_weight: Any = None,
) -> float:
    """Bound Δ of all half-spaces for groups that are Gaussian.

    Pinsker's inequality bounds Δ along a direction by the divergence of two normal distributions
    (the paper's equation 5); the bound is its supremum over all directions. The divergence is not
    symmetric, both ways bound Δ, and the smaller one is returned.

    Parameters
    ----------
    U, control_features, sample_weight
        As in `delta_fairness`.
    sensitive_features : array-like or data frame
        Protected attributes; the largest bound over pairs of groups is returned.

    Returns
    -------
    float
        The bound; infinite where one group does not vary in a direction in which the other does.
        It bounds Δ of the fitted normal distributions, not of other distributions.

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
    return largest_gaussian_bound(rows.pairs())


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
