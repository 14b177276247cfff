"""The space in which a kernel problem is linear: exact, by landmarks, or the paper's coefficients.

ψ(x) = (k(x) − shift)·projection − offset are the coordinates of a row; its pooled second moments
are diagonal. K = UΛUᵀ is the centred kernel matrix (n, n), w the weights of its rows, n their
number (or weight), H = I − 1wᵀ/Σw what centres it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.linalg
import scipy.sparse.linalg

from fairpca.exceptions import InvalidInputError
from fairpca.kernels._anchors import Anchors, row_batches
from fairpca.linalg import Array, symmetrize
from fairpca.moments import Contrast, ContrastSet, GroupMoments
from fairpca.rows import Rows

# Eigenvalues, and variances of directions, below this share of the largest are rounding; it is
# scikit-learn's threshold for float64.
_ZERO = 1e-12
# Rounding of the kernel's values by this share of the largest eigenvalue is worth a word.
_ROUGH = 1e-9
# A kernel counts as not positive semidefinite from this share of the largest eigenvalue on.
_NEGATIVE = 1e-9
# Positive semidefinite whatever their parameters; additive_chi2 is so once it is centred.
_POSITIVE = frozenset({"linear", "rbf", "laplacian", "cosine", "chi2", "additive_chi2"})


def is_positive(kernel: object, degree: float, coef0: float) -> bool:
    """Whether a kernel's centred matrix is known to be positive semidefinite."""
    if not isinstance(kernel, str):
        return False
    is_whole = float(degree).is_integer() and coef0 >= 0.0
    return is_whole if kernel in ("poly", "polynomial") else kernel in _POSITIVE


@dataclass(frozen=True)
class SpectrumOptions:
    """How eigenpairs are computed."""

    rank: int | None  # number of the largest eigenpairs; None: all that are not zero
    is_positive: bool = False  # known to be positive semidefinite
    precision: float = float(np.finfo(np.float64).eps)  # relative rounding error of the kernel
    # Start of the iteration that finds a few eigenpairs.
    random: np.random.RandomState = field(default_factory=lambda: np.random.RandomState(0))


class Spectrum(NamedTuple):
    """Positive eigenpairs of √w·HKHᵀ·√w, in falling order."""

    values: Array  # (r,)
    vectors: Array  # (n, r)
    shift: Array  # (n,): weighted column means of K
    trace: float  # sum of all eigenvalues
    square: float  # sum of their squares
    warning: str | None  # what a kernel that is not positive semidefinite loses
    is_rough: bool  # whether centring took so many digits that scores have few


def centred_spectrum(K: Array, weights: Array | None, options: SpectrumOptions) -> Spectrum:
    """Return the eigenpairs of the centred matrix that are positive; `K` is overwritten."""
    size = float(np.abs(K).max(initial=0.0))
    if not np.isfinite(size):
        raise InvalidInputError(
            "the kernel has values that are not finite: rescale the features, or choose another "
            "kernel, degree or gamma."
        )
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
    warning = None
    if smallest < -max(_NEGATIVE, len(K) * options.precision) * largest:
        warning = (
            "the kernel is not positive semidefinite: the most negative eigenvalue of its centred "
            f"matrix is {smallest:.6g}, the largest {largest:.6g}. Negative eigenvalues are "
            "clipped to zero, so the fit is that of the nearest positive semidefinite kernel."
        )
    kept = values > max(max(_ZERO, options.precision) * largest, rounding)
    vectors = np.ascontiguousarray(vectors[:, kept])
    # Rounding mixes the direction that centring removed into eigenvectors of tiny eigenvalues,
    # whose coordinates are divided by the root of those: a constant of a row would come back.
    vectors -= np.outer(null, (null @ vectors) / (null @ null))
    is_rough = rounding > _ROUGH * largest
    return Spectrum(values[kept], vectors, shift, trace, square, warning, is_rough)


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


FormContrasts: TypeAlias = Callable[[GroupMoments], ContrastSet]


@dataclass(frozen=True, eq=False)
class KernelSpace:
    """The map from kernel values to coordinates, their second moments and the contrasts in them."""

    projection: Array  # (m, r)
    offset: Array  # (r,)
    variances: Array  # (r,): diagonal of the pooled covariance, in falling order
    eigenvalues: Array  # (r,): of the centred kernel matrix, or their estimate from the landmarks
    total: float  # all the variance there is, whatever the truncation
    contrasts: ContrastSet
    reference: Array  # (k, r): coordinates of the training rows or landmarks
    shift: Array  # (m,): subtracted from the kernel values of a row
    warning: str | None  # what a kernel that is not positive semidefinite lost
    is_rough: bool  # whether centring took so many digits that scores have few


def exact_space(
    rows: Rows, K: Array, options: SpectrumOptions, form_contrasts: FormContrasts
) -> KernelSpace:
    """Eigenspace of the centred kernel matrix, ψ(x) = Λ^{-½}Uᵀk(x); `K` is overwritten."""
    spectrum = centred_spectrum(K, rows.weights, options)
    projection, features = _whitened(spectrum, rows.weights)
    # With negative eigenvalues clipped the trace is too small, without truncation by rounding.
    total = max(spectrum.trace, float(spectrum.values.sum()))
    return KernelSpace(
        projection,
        np.zeros(len(spectrum.values)),
        spectrum.values / rows.weight,
        spectrum.values,
        total / rows.weight,
        form_contrasts(GroupMoments.from_rows(rows.with_features(features))),
        features,
        spectrum.shift,
        spectrum.warning,
        spectrum.is_rough,
    )


def _whitened(spectrum: Spectrum, weights: Array | None) -> tuple[Array, Array]:
    """Λ^{-½}U as columns, and the coordinates of the decomposed rows themselves."""
    root = np.sqrt(spectrum.values)
    projection, features = spectrum.vectors / root, spectrum.vectors * root
    if weights is None:
        return projection, features
    scale = np.sqrt(weights)[:, None]
    return projection * scale, features / scale


@dataclass(frozen=True, eq=False)
class LandmarkFeatures:
    """Features of rows in the span of centred landmarks; called with a batch of X."""

    anchors: Anchors
    shift: Array
    projection: Array

    def __call__(self, X: Any) -> Array:
        """Return the features (n, m) of rows (n, p)."""
        pieces = [
            (self.anchors.values(X[batch]) - self.shift) @ self.projection
            for batch in row_batches(X.shape[0], len(self.projection))
        ]
        return np.concatenate(pieces)


def sum_in_batches(rows: Rows, function: LandmarkFeatures) -> GroupMoments:
    """Sum the features of rows in memory, a batch at a time."""
    batches = row_batches(len(rows), len(function.projection))
    parts = (rows.take(batch) for batch in batches)
    return reduce(add, (GroupMoments.from_rows(p.with_features(function(p.X))) for p in parts))


def landmark_space(
    summed: Callable[[LandmarkFeatures], GroupMoments],
    anchors: Anchors,
    K: Array,
    options: SpectrumOptions,
    form_contrasts: FormContrasts,
) -> KernelSpace:
    """Span of the centred landmarks, rotated so that the covariance of the rows is diagonal."""
    # `summed` gives the moments of the features of all rows, such as `sum_in_batches` of some;
    # `rank` is applied to the rows' covariance, not to the landmarks' kernel matrix `K`, which is
    # overwritten.
    spectrum = centred_spectrum(K, None, replace(options, rank=None))
    projection, features = _whitened(spectrum, None)
    moments = summed(LandmarkFeatures(anchors, spectrum.shift, projection))
    _, mean, covariance = moments.pooled()
    variances, rotation = np.linalg.eigh(covariance)
    keep = len(variances) if options.rank is None else options.rank
    kept = np.flatnonzero(variances > _ZERO * variances[-1])[::-1][:keep]
    variances, rotation = variances[kept], rotation[:, kept]
    return KernelSpace(
        projection @ rotation,
        mean @ rotation,
        variances,
        variances * moments.weight,
        float(np.trace(covariance)),
        _rotated(form_contrasts(moments), rotation),
        (features - mean) @ rotation,
        spectrum.shift,
        spectrum.warning,
        spectrum.is_rough,
    )


def _rotated(contrasts: ContrastSet, rotation: Array) -> ContrastSet:
    def rotate(contrast: Contrast) -> Contrast:
        mean, cov = contrast.mean_gap, contrast.cov_gap
        return replace(
            contrast,
            mean_gap=None if mean is None else rotation.T @ mean,
            cov_gap=None if cov is None else symmetrize(rotation.T @ cov @ rotation),
            sides=(None, None),  # which are not rotated
        )

    # The notes were said when the contrasts were formed.
    return ContrastSet(tuple(map(rotate, contrasts)), rotation.shape[1])


def coefficient_space(
    rows: Rows, K: Array, options: SpectrumOptions, form_contrasts: FormContrasts
) -> KernelSpace:
    """Return the paper's coefficients α in the range of K, where alone they count; overwrites K."""
    # With α = Uβ the objective αᵀK²α/n is βᵀΛ²β/n and αᵀα = βᵀβ. Outside the range of K the
    # objective, f_k and Q_k all vanish. The rows have no weights.
    spectrum = centred_spectrum(K, None, options)
    features = spectrum.vectors * spectrum.values  # the rows of KU
    unit_vectors = rows.with_features(np.eye(len(rows)))
    return KernelSpace(
        spectrum.vectors,
        np.zeros(len(spectrum.values)),
        spectrum.values**2 / len(rows),
        spectrum.values,
        spectrum.square / len(rows),
        _printed_contrasts(form_contrasts(GroupMoments.from_rows(unit_vectors)), features),
        features,
        spectrum.shift,
        spectrum.warning,
        spectrum.is_rough,
    )


def _printed_contrasts(contrasts: ContrastSet, features: Array) -> ContrastSet:
    """f_k = K(X,X₊)e/#P − K(X,X₋)e/#N and Q_k = K(X,X₊)K(X₊,X) − K(X,X₋)K(X₋,X), over n."""
    # These contrasts are those of the unit vectors: their mean gap has one entry for each row,
    # 1/#P, −1/#N or 0, which says who is compared, whatever attribute or stratum the contrast is
    # of.
    n = len(features)

    def translate(contrast: Contrast) -> Contrast:
        share = contrast.mean_gap
        if share is None:
            return contrast
        side = np.where(np.abs(share) > 0.5 / n, np.sign(share), 0.0)
        if not contrast.negative:  # a number, whose sides have sizes: (z − mean)/deviation
            side = contrast.n_positive * share
        cov = None if contrast.cov_gap is None else (features.T * side) @ features / n
        return replace(contrast, mean_gap=features.T @ share, cov_gap=cov, sides=(None, None))

    return ContrastSet(tuple(map(translate, contrasts)), features.shape[1])
