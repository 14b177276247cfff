"""The space in which a kernel problem is linear: exact, by landmarks, or the paper's coefficients.

ψ(x) = (k(x) − shift)·projection − offset are the coordinates of a row; its pooled second moments
are diagonal. K = UΛUᵀ is the centred kernel matrix, n the number (or weight) of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from fairpca.kernels._anchors import Anchors, row_blocks
from fairpca.kernels._spectrum import Clipped, Spectrum, SpectrumOptions, centred_spectrum
from fairpca.linalg import Array, symmetrize
from fairpca.moments import Contrast, ContrastSet, GroupMoments
from fairpca.rows import Rows

FormContrasts: TypeAlias = Callable[[GroupMoments], ContrastSet]

# Directions of the landmarks' span in which the rows do not vary, as a share of the largest.
_ZERO = 1e-12


@dataclass(frozen=True, eq=False)
class KernelSpace:
    """The map from kernel values to coordinates, their second moments and the contrasts in them.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.kernels import SpectrumOptions, exact_space
    >>> from fairpca.moments import ContrastSet
    >>> from fairpca.rows import Rows
    >>> X = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 2.0], [0.0, -2.0]])
    >>> options = SpectrumOptions(rank=2, is_positive=True)
    >>> space = exact_space(Rows(X), X @ X.T, options, lambda moments: ContrastSet((), 2))
    >>> space.variances.round(12).tolist()
    [2.0, 0.5]
    """

    shift: Array  # (m,)
    projection: Array  # (m, r)
    offset: Array  # (r,)
    variances: Array  # (r,): diagonal of the pooled covariance, in falling order
    eigenvalues: Array  # (r,): of the centred kernel matrix, or their estimate from the landmarks
    total: float  # all the variance there is, whatever the truncation
    contrasts: ContrastSet
    reference: Array  # (k, r): coordinates of the training rows or landmarks
    clipped: Clipped | None  # what a kernel that is not positive semidefinite lost

    def oriented(self, basis: Array) -> Array:
        """Flip columns of a basis so that the row farthest out is on the positive side."""
        # Eigenvectors have no sign of their own.
        scores = self.reference @ basis
        leading = scores[np.argmax(np.abs(scores), axis=0), np.arange(basis.shape[1])]
        return basis * np.where(leading < 0.0, -1.0, 1.0)


def exact_space(
    rows: Rows, K: Array, options: SpectrumOptions, form_contrasts: FormContrasts
) -> KernelSpace:
    """Eigenspace of the centred kernel matrix, ψ(x) = Λ^{-½}Uᵀk(x); `K` is overwritten."""
    spectrum = centred_spectrum(K, rows.weights, options)
    projection, features = _whitened(spectrum, rows.weights)
    # With negative eigenvalues clipped the trace is too small, without truncation by rounding.
    total = max(spectrum.trace, float(spectrum.values.sum()))
    return KernelSpace(
        spectrum.shift,
        projection,
        np.zeros(len(spectrum.values)),
        spectrum.values / rows.weight,
        spectrum.values,
        total / rows.weight,
        form_contrasts(GroupMoments.from_rows(rows.with_features(features))),
        features,
        spectrum.clipped,
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
    """Features of rows in the span of centred landmarks; called with a block of X."""

    anchors: Anchors
    shift: Array
    projection: Array

    def __call__(self, X: Any) -> Array:
        """Return the features (n, m) of rows (n, p)."""
        pieces = [
            (self.anchors.values(X[block]) - self.shift) @ self.projection
            for block in row_blocks(X.shape[0], len(self.projection))
        ]
        return np.concatenate(pieces)


def sum_in_blocks(rows: Rows, function: LandmarkFeatures) -> GroupMoments:
    """Sum the features of rows in memory, a block at a time."""
    blocks = row_blocks(len(rows), len(function.projection))
    parts = (rows.take(block) for block in blocks)
    return reduce(add, (GroupMoments.from_rows(p.with_features(function(p.X))) for p in parts))


def landmark_space(
    summed: Callable[[LandmarkFeatures], GroupMoments],
    anchors: Anchors,
    K: Array,
    options: SpectrumOptions,
    form_contrasts: FormContrasts,
) -> KernelSpace:
    """Span of the centred landmarks, rotated so that the covariance of the rows is diagonal.

    `summed` gives the moments of the features of all rows, such as `sum_in_blocks` of some rows;
    `rank` is applied to the rows' covariance, not to the landmarks' kernel matrix `K`, which is
    overwritten.
    """
    spectrum = centred_spectrum(K, None, replace(options, rank=None))
    projection, features = _whitened(spectrum, None)
    moments = summed(LandmarkFeatures(anchors, spectrum.shift, projection))
    _, mean, covariance = moments.pooled()
    variances, rotation = np.linalg.eigh(covariance)
    keep = len(variances) if options.rank is None else options.rank
    kept = np.flatnonzero(variances > _ZERO * variances[-1])[::-1][:keep]
    variances, rotation = variances[kept], rotation[:, kept]
    return KernelSpace(
        spectrum.shift,
        projection @ rotation,
        mean @ rotation,
        variances,
        variances * moments.weight,
        float(np.trace(covariance)),
        _rotated(form_contrasts(moments), rotation),
        (features - mean) @ rotation,
        spectrum.clipped,
    )


def _rotated(contrasts: ContrastSet, rotation: Array) -> ContrastSet:
    def rotate(contrast: Contrast) -> Contrast:
        mean, cov = contrast.mean_gap, contrast.cov_gap
        return replace(
            contrast,
            mean_gap=None if mean is None else rotation.T @ mean,
            cov_gap=None if cov is None else symmetrize(rotation.T @ cov @ rotation),
        )

    # The notes were said when the contrasts were formed.
    return ContrastSet(tuple(map(rotate, contrasts)), rotation.shape[1])


def coefficient_space(
    rows: Rows, K: Array, options: SpectrumOptions, form_contrasts: FormContrasts
) -> KernelSpace:
    """Return the paper's coefficients α, restricted to the range of K, where alone they count.

    With α = Uβ the objective αᵀK²α/n is βᵀΛ²β/n and αᵀα = βᵀβ. Outside the range of K the
    objective, f_k and Q_k all vanish. `K` is overwritten; the rows have no weights.
    """
    spectrum = centred_spectrum(K, None, options)
    features = spectrum.vectors * spectrum.values  # the rows of KU
    return KernelSpace(
        spectrum.shift,
        spectrum.vectors,
        np.zeros(len(spectrum.values)),
        spectrum.values**2 / len(rows),
        spectrum.values,
        spectrum.square / len(rows),
        _printed_contrasts(
            form_contrasts(GroupMoments.from_rows(rows.with_features(np.eye(len(rows))))), features
        ),
        features,
        spectrum.clipped,
    )


def _printed_contrasts(contrasts: ContrastSet, features: Array) -> ContrastSet:
    """f_k = K(X,X₊)e/#P − K(X,X₋)e/#N and Q_k = K(X,X₊)K(X₊,X) − K(X,X₋)K(X₋,X), over n.

    The contrasts given are those of the unit vectors: their mean gap has one entry for each row,
    1/#P, −1/#N or 0, which says who is compared, whatever attribute or stratum the contrast is of.
    """
    n = len(features)

    def translate(contrast: Contrast) -> Contrast:
        share = contrast.mean_gap
        if share is None:
            return contrast
        side = np.where(np.abs(share) > 0.5 / n, np.sign(share), 0.0)
        if not contrast.negative:  # a number, whose sides have sizes: (z − mean)/deviation
            side = contrast.n_positive * share
        cov = None if contrast.cov_gap is None else (features.T * side) @ features / n
        return replace(contrast, mean_gap=features.T @ share, cov_gap=cov)

    return ContrastSet(tuple(map(translate, contrasts)), features.shape[1])
