"""What the moments of all rows together say."""

from __future__ import annotations

from typing import NamedTuple

from fairpca.moments._cells import FloatArray


class Pooled(NamedTuple):
    """Moments of all rows together.

    Parameters
    ----------
    weight : float
        Sum of the weights.
    mean : ndarray, shape (p,)
        Mean of the features.
    covariance : ndarray, shape (p, p)
        Covariance with the weight as divisor; exactly symmetric.
    """

    weight: float
    mean: FloatArray
    covariance: FloatArray


class Standardization(NamedTuple):
    """What `GroupMoments.standardized` subtracts and divides by.

    Parameters
    ----------
    mean : ndarray, shape (p,)
        Pooled mean.
    scale : ndarray, shape (p,)
        Pooled standard deviation; 1 for a constant column.
    """

    mean: FloatArray
    scale: FloatArray
