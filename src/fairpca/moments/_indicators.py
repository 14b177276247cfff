"""One-hot blocks, told by moments alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairpca.moments._cells import FloatArray
from fairpca.moments._span import Span

_ROUNDING = 1e-9


def find_indicators(
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
    found = np.flatnonzero(inside & (np.abs(variance - allowed) <= _ROUNDING * mean))
    if span is None:
        block = covariance[np.ix_(found, found)]
    else:
        basis = span.basis[:, found]
        block = basis.T @ covariance @ basis
    product = np.outer(mean[found], known[found] * mean[found])
    apart = np.abs(block + product) <= _ROUNDING * product
    return np.asarray(found[apart.any(axis=1)])
