"""What features are divided by, and one-hot blocks, told by moments alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairpca.moments._cells import ROUNDING, FloatArray, Standardization
from fairpca.moments._span import Span

_CLOSE = 1e-9


def find_scaling(
    mean: FloatArray, covariance: FloatArray, span: Span | None, known: FloatArray | None
) -> Standardization:
    """Mean and deviation, 1 where constant; of indicators the root share if `known` (p,) is given.

    `known` is the share of the rows in which a feature is known.
    """
    variance = np.diag(covariance)
    if span is not None:
        mean, variance = span.place(mean), span.spread(covariance)
    deviation = np.sqrt(np.maximum(variance, 0.0))
    scale = np.where(deviation <= ROUNDING * np.abs(mean), 1.0, deviation)
    if known is not None:
        found = _find_indicators(mean, variance, covariance, span, known)
        scale[found] = np.sqrt(mean[found])
    return Standardization(mean, scale)


def _find_indicators(
    mean: FloatArray,
    variance: FloatArray,
    covariance: FloatArray,
    span: Span | None,
    known: FloatArray,
) -> NDArray[np.intp]:
    """Places of the zeros and ones of which two are never one together.

    Zeros and ones have the variance m(1 − m), the largest that values between them can have; where
    two are never one together their covariance is −mn. Where values are missing and count as the
    mean, both are smaller by the share that is `known` (p,).
    """
    inside = (mean > 0.0) & (mean < 1.0)
    allowed = known * mean * (1.0 - mean)
    found = np.flatnonzero(inside & (np.abs(variance - allowed) <= _CLOSE * mean))
    if span is None:
        block = covariance[np.ix_(found, found)]
    else:
        basis = span.basis[:, found]
        block = basis.T @ covariance @ basis
    product = np.outer(mean[found], known[found] * mean[found])
    apart = np.abs(block + product) <= _CLOSE * product
    return np.asarray(found[apart.any(axis=1)])
