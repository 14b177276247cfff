"""Eigenpairs of a centred kernel matrix.

K: kernel matrix (n, n), w: weights of its rows, H = I − 1wᵀ/Σw: what centres it.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse.linalg
from numpy.typing import NDArray
from sklearn.exceptions import PositiveSpectrumWarning
from sklearn.utils import check_random_state
from sklearn.utils.extmath import _randomized_eigsh

from fairpca.exceptions import InvalidInputError

Array = NDArray[np.float64]

# Eigenvalues below this share of the largest are rounding: scikit-learn's threshold for float64.
_ZERO = 1e-12
# A kernel counts as not positive semidefinite from this share of the largest eigenvalue on.
_NEGATIVE = 1e-9


@dataclass(frozen=True)
class SpectrumOptions:
    """How eigenpairs are computed.

    Parameters
    ----------
    rank : int or None
        Number of the largest eigenpairs; None: all that are not zero.
    eigen_solver : {"auto", "dense", "arpack", "randomized"}
        As in scikit-learn's KernelPCA.
    iterated_power : int or "auto"
        Power iterations of the randomized solver.
    random_state : int, RandomState or None
        Start of the iterative solvers.
    is_positive : bool
        Whether the matrix is known to be positive semidefinite.
    precision : float
        Relative rounding error of the kernel values.
    """

    rank: int | None
    eigen_solver: str = "auto"
    iterated_power: Any = "auto"
    random_state: Any = 0
    is_positive: bool = False
    precision: float = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Positive eigenpairs of √w·HKHᵀ·√w, in falling order.

    Parameters
    ----------
    values : ndarray, shape (r,)
        Eigenvalues.
    vectors : ndarray, shape (n, r)
        Orthonormal eigenvectors.
    shift : ndarray, shape (n,)
        Weighted column means of K, zero where it was not centred.
    trace, square : float
        Sum of the eigenvalues of the whole matrix, and of their squares.
    """

    values: Array
    vectors: Array
    shift: Array
    trace: float
    square: float


def centred_spectrum(
    K: Array, weights: Array | None, options: SpectrumOptions, *, center: bool = True
) -> Spectrum:
    """Decompose a kernel matrix; `K` is overwritten.

    Parameters
    ----------
    K : ndarray, shape (n, n)
        Symmetric kernel matrix.
    weights : ndarray, shape (n,), or None
        Positive weights of the rows.
    options : SpectrumOptions
        How.
    center : bool, default=True
        Whether the rows are centred in feature space first.

    Returns
    -------
    Spectrum
        The eigenpairs that are not zero.

    Warns
    -----
    PositiveSpectrumWarning
        If the kernel is not positive semidefinite; what is negative is left out.
    """
    size = float(np.abs(K).max(initial=0.0))
    shift = np.zeros(len(K))
    if center:
        shift = K.mean(axis=0) if weights is None else (weights @ K) / weights.sum()
        K -= shift
        # What is left to subtract is the row mean of what was just centred by columns.
        K -= (K.mean(axis=1) if weights is None else (K @ weights) / weights.sum())[:, None]
    if weights is not None:
        root = np.sqrt(weights)
        K *= root
        K *= root[:, None]
    trace, square = float(np.trace(K)), float(np.vdot(K, K))
    values, vectors, smallest = _eigenpairs(K, options)
    largest = float(values[0])
    if largest <= len(K) * np.finfo(np.float64).eps * size:
        raise InvalidInputError(
            "the centred kernel matrix is zero: to this kernel all rows are alike. Give rows that "
            "differ, or another kernel or gamma."
        )
    if smallest is not None:
        _warn_negative(smallest, largest, len(K), options.precision)
    kept = values > max(_ZERO, options.precision) * largest
    vectors = np.ascontiguousarray(vectors[:, kept])
    if center:
        # Rounding mixes the direction that centring removed into eigenvectors of tiny eigenvalues,
        # whose coordinates are divided by the root of those: a constant of a row would come back.
        null = np.ones(len(K)) if weights is None else np.sqrt(weights)
        vectors -= np.outer(null, (null @ vectors) / (null @ null))
    return Spectrum(values[kept], vectors, shift, trace, square)


def _eigenpairs(K: Array, options: SpectrumOptions) -> tuple[Array, Array, float | None]:
    """Largest eigenvalues, falling, their vectors, and the smallest one where it is of interest."""
    n = len(K)
    rank = n if options.rank is None else min(options.rank, n)
    solver = options.eigen_solver
    if solver == "auto":
        solver = "arpack" if n > 200 and rank < 10 else "dense"
    if solver == "dense" and rank == n:
        values, vectors = np.linalg.eigh(K)
        return values[::-1], vectors[:, ::-1], None if options.is_positive else float(values[0])
    smallest = None
    if not options.is_positive:
        # A partial decomposition never sees the negative end.
        smallest = float(scipy.linalg.eigvalsh(K, subset_by_index=(0, 0), check_finite=False)[0])
    if solver == "dense" or rank == n:
        # The transpose is the same matrix in LAPACK's order, so that nothing is copied.
        values, vectors = scipy.linalg.eigh(
            K.T, subset_by_index=(n - rank, n - 1), overwrite_a=True, check_finite=False
        )
    elif solver == "arpack":
        start = check_random_state(options.random_state).uniform(-1.0, 1.0, n)
        values, vectors = scipy.sparse.linalg.eigsh(K, rank, which="LA", v0=start)
    else:
        values, vectors = _randomized_eigsh(
            K,
            n_components=rank,
            n_iter=options.iterated_power,
            random_state=options.random_state,
            selection="module",
        )
    order = np.argsort(values)[::-1]
    return values[order], vectors[:, order], smallest


def _warn_negative(smallest: float, largest: float, n: int, precision: float) -> None:
    if smallest < -max(_NEGATIVE, n * precision) * largest:
        warnings.warn(
            "the kernel is not positive semidefinite: the most negative eigenvalue of its centred "
            f"matrix is {smallest:.6g}, the largest {largest:.6g}. Negative eigenvalues are "
            "clipped to zero, so the fit is that of the nearest positive semidefinite kernel.",
            PositiveSpectrumWarning,
            stacklevel=8,
        )
