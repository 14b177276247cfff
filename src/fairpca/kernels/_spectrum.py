"""Eigenpairs of a centred kernel matrix.

K: kernel matrix (n, n), w: weights of its rows, H = I − 1wᵀ/Σw: what centres it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse.linalg

from fairpca.exceptions import InvalidInputError
from fairpca.linalg import Array

# Eigenvalues below this share of the largest are rounding: scikit-learn's threshold for float64.
_ZERO = 1e-12
# Rounding of the kernel's values by this share of the largest eigenvalue is worth a word.
_ROUGH = 1e-9
# A kernel counts as not positive semidefinite from this share of the largest eigenvalue on.
_NEGATIVE = 1e-9
# Positive semidefinite whatever their parameters; additive_chi2 is so once it is centred.
_POSITIVE = frozenset({"linear", "rbf", "laplacian", "cosine", "chi2", "additive_chi2"})


def is_positive(kernel: object, degree: float, coef0: float) -> bool:
    """Whether a kernel's centred matrix is known to be positive semidefinite.

    Examples
    --------
    >>> from fairpca.kernels import is_positive
    >>> is_positive("rbf", 3, 1), is_positive("sigmoid", 3, 1)
    (True, False)
    """
    if not isinstance(kernel, str):
        return False
    is_whole = float(degree).is_integer() and coef0 >= 0.0
    return is_whole if kernel in ("poly", "polynomial") else kernel in _POSITIVE


@dataclass(frozen=True)
class SpectrumOptions:
    """How eigenpairs are computed; the example is that of `KernelSpace`."""

    rank: int | None  # number of the largest eigenpairs; None: all that are not zero
    is_positive: bool = False  # known to be positive semidefinite
    precision: float = float(np.finfo(np.float64).eps)  # relative rounding error of the kernel
    # Start of the iteration that finds a few eigenpairs.
    random: np.random.RandomState = field(default_factory=lambda: np.random.RandomState(0))


class Clipped(NamedTuple):
    """What a kernel that is not positive semidefinite loses."""

    most_negative: float
    largest: float

    @property
    def message(self) -> str:
        """What to tell the user."""
        return (
            "the kernel is not positive semidefinite: the most negative eigenvalue of its centred "
            f"matrix is {self.most_negative:.6g}, the largest {self.largest:.6g}. Negative "
            "eigenvalues are clipped to zero, so the fit is that of the nearest positive "
            "semidefinite kernel."
        )


class Spectrum(NamedTuple):
    """Positive eigenpairs of √w·HKHᵀ·√w, in falling order.

    values (r,), vectors (n, r), shift (n,): weighted column means of K, trace and square: sums of
    all eigenvalues and of their squares, clipped: what was negative, where there was any, is_rough:
    whether centring took so many digits that scores have few.
    """

    values: Array
    vectors: Array
    shift: Array
    trace: float
    square: float
    clipped: Clipped | None
    is_rough: bool


def centred_spectrum(K: Array, weights: Array | None, options: SpectrumOptions) -> Spectrum:
    """Return the eigenpairs of the centred matrix that are positive; `K` is overwritten."""
    size = float(np.abs(K).max(initial=0.0))
    shift = K.mean(axis=0) if weights is None else (weights @ K) / weights.sum()
    K -= shift
    # What is left to subtract is the row mean of what was just centred by columns.
    K -= (K.mean(axis=1) if weights is None else (K @ weights) / weights.sum())[:, None]
    null = np.ones(len(K)) if weights is None else np.sqrt(weights)
    if weights is not None:
        K *= null
        K *= null[:, None]
    trace, square = float(np.trace(K)), float(np.vdot(K, K))
    values, vectors, smallest = _eigenpairs(K, options)
    largest = float(values[0])
    rounding = len(K) * float(np.finfo(np.float64).eps) * size
    if largest <= rounding:
        raise InvalidInputError(
            "the centred kernel matrix is zero: to this kernel all rows are alike. Give rows that "
            "differ, or another kernel or gamma."
        )
    is_negative = smallest < -max(_NEGATIVE, len(K) * options.precision) * largest
    kept = values > max(max(_ZERO, options.precision) * largest, rounding)
    vectors = np.ascontiguousarray(vectors[:, kept])
    # Rounding mixes the direction that centring removed into eigenvectors of tiny eigenvalues,
    # whose coordinates are divided by the root of those: a constant of a row would come back.
    vectors -= np.outer(null, (null @ vectors) / (null @ null))
    clipped = Clipped(smallest, largest) if is_negative else None
    is_rough = rounding > _ROUGH * largest
    return Spectrum(values[kept], vectors, shift, trace, square, clipped, is_rough)


def _eigenpairs(K: Array, options: SpectrumOptions) -> tuple[Array, Array, float]:
    """Largest eigenvalues, falling, their vectors, and the smallest (0: of no interest)."""
    n = len(K)
    rank = n if options.rank is None else min(options.rank, n)
    if rank == n:
        values, vectors = np.linalg.eigh(K)
        return values[::-1], vectors[:, ::-1], 0.0 if options.is_positive else float(values[0])
    smallest = 0.0
    if not options.is_positive:
        # A partial decomposition never sees the negative end.
        smallest = float(scipy.linalg.eigvalsh(K, subset_by_index=(0, 0), check_finite=False)[0])
    if n > 200 and rank < 10:
        start = options.random.uniform(-1.0, 1.0, n)
        values, vectors = scipy.sparse.linalg.eigsh(K, rank, which="LA", v0=start)
    else:
        # The transpose is the same matrix in LAPACK's order, so that nothing is copied.
        values, vectors = scipy.linalg.eigh(
            K.T, subset_by_index=(n - rank, n - 1), overwrite_a=True, check_finite=False
        )
    order = np.argsort(values)[::-1]
    return values[order], vectors[:, order], smallest
