"""Small symmetric matrices: eigenpairs, norms, subspaces, level searches; the BLAS guard."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
import scipy.linalg
import threadpoolctl
from numpy.typing import NDArray
from scipy.sparse import issparse

from fairpca.exceptions import InvalidInputError

__all__ = [
    "Array",
    "complement_basis",
    "eigenvalue_excess",
    "fantope_eigenvalues",
    "finite_scores",
    "fix_signs",
    "gaussian_delta",
    "ky_fan",
    "project",
    "shared_level",
    "shrink_means",
    "single_blas_thread",
    "spectral_norms",
    "symmetrize",
    "top_eigenpairs",
    "varimax",
]

_SLOPES = 64  # linearisations that the search for the worst direction starts from
_MAX_ITER = 200
# The BLAS limit belongs to the process: the first thread sets it, the last to leave lifts it.
_lock, _users = Lock(), 0
_limits: Any = None
# Lets any thread lift a limit; newer threadpoolctl lets only the one that set it.
release_control: Any = getattr(
    getattr(threadpoolctl, "OpenBLASController", None),
    "clear_controlling_thread",
    lambda force: None,
)


@cache
def _controller() -> threadpoolctl.ThreadpoolController:
    # Looking for libraries takes longer than a small fit; NumPy's and SciPy's are loaded by now.
    return threadpoolctl.ThreadpoolController()


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """Keep BLAS at one thread inside the block; blocks may nest and run in several threads."""
    # Handing a 50×50 product to a second thread costs more than the product, and where the cores
    # are busy the threads wait for each other.
    global _users, _limits
    with _lock:
        if not _users:
            _limits = _controller().limit(limits=1, user_api="blas")
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                release_control(force=True)
                _limits.restore_original_limits()
                release_control(force=True)


Array: TypeAlias = NDArray[np.float64]

# Entries of X that are centred at once in `project`.
_CACHED_ENTRIES = 1 << 16
# Below this size a full divide-and-conquer decomposition beats LAPACK's partial one.
_PARTIAL_FROM = 80


def symmetrize(matrices: NDArray[np.floating[Any]]) -> Array:
    """Return the symmetric part of a matrix or of every matrix of a stack."""
    return np.asarray(0.5 * (matrices + np.swapaxes(matrices, -1, -2)), dtype=np.float64)


def top_eigenpairs(matrix: Array, count: int) -> tuple[Array, Array]:
    """Return the `count` largest eigenvalues, falling, and their eigenvectors as columns."""
    size = len(matrix)
    if size < _PARTIAL_FROM or count > size // 4:
        values, vectors = np.linalg.eigh(matrix)
        return values[::-1][:count], vectors[:, ::-1][:, :count]
    values, vectors = scipy.linalg.eigh(
        matrix, subset_by_index=(size - count, size - 1), check_finite=False
    )
    return values[::-1], vectors[:, ::-1]


def ky_fan(matrix: Array, count: int, *, nonnegative: bool = False) -> float:
    """Largest ⟨matrix, P⟩ over the Fantope tr P = count, or tr P ≤ count where `nonnegative`."""
    top = np.linalg.eigvalsh(matrix)[len(matrix) - count :]
    return float(np.maximum(top, 0.0).sum() if nonnegative else top.sum())


def spectral_norms(matrices: Array) -> Array:
    """Spectral norm of every symmetric matrix of a stack (…, k, k)."""
    if matrices.shape[-1] == 0:
        return np.zeros(matrices.shape[:-2])
    values = np.linalg.eigvalsh(matrices)
    return np.asarray(np.maximum(-values[..., 0], values[..., -1]))


def eigenvalue_excess(values: Array, vectors: Array, level: float) -> Array:
    """Part of symmetric matrices above a level, from their `eigh`."""
    excess = np.maximum(values - level, 0.0)
    return np.asarray((vectors * excess[..., None, :]) @ np.swapaxes(vectors, -1, -2))


def complement_basis(vectors: Array, floor: float) -> Array:
    """Orthonormal basis (columns) of the complement of the rows of `vectors`, but for rounding."""
    # Directions whose singular value is at most `floor` count as zero, so dependent and zero rows
    # take no dimension away.
    size = vectors.shape[1]
    if not len(vectors):
        return np.eye(size)
    _, singular_values, right = np.linalg.svd(vectors)
    rank = int(np.count_nonzero(singular_values > floor))
    return np.ascontiguousarray(right[rank:].T)


def shrink_means(F: Array, limit: float, V: Array, least: float = 1e-3) -> Array:
    """Shrink what V has in the span of the rows of F until ‖Vᵀf‖² ≤ limit for all.

    V is returned as it is where less than the share `least` of a direction lies outside the span.
    """

    def is_within(V: Array) -> bool:
        return bool(np.sum((F @ V) ** 2, axis=1).max(initial=0.0) <= limit)

    if not len(F) or is_within(V):
        return V
    outside = complement_basis(F, 1e-10 * float(np.linalg.norm(F)))
    kept = outside @ (outside.T @ V)
    if outside.shape[1] < V.shape[1] or np.linalg.svd(kept, compute_uv=False)[-1] < least:
        return V
    low, high = 0.0, 1.0
    for _ in range(50):
        share = 0.5 * (low + high)
        inside = is_within(np.linalg.qr(kept + share * (V - kept))[0])
        low, high = (share, high) if inside else (low, share)
    return np.linalg.qr(kept + low * (V - kept))[0]


def fix_signs(basis: Array, scores: Array | None = None) -> Array:
    """Flip columns so that the largest entry of each, or of its scores, is positive."""
    if not basis.size:
        return basis
    scores = basis if scores is None else scores
    leading = scores[np.argmax(np.abs(scores), axis=0), np.arange(basis.shape[1])]
    return basis * np.where(leading < 0.0, -1.0, 1.0)


def varimax(loadings: Array, max_iter: int = 500, tol: float = 1e-10) -> Array:
    """Return the rotation (d, d) after which columns have few large and many small loadings."""
    d = loadings.shape[1]
    R, last = np.eye(d), 0.0
    for _ in range(max_iter if d > 1 else 0):
        L = loadings @ R
        left, sizes, right = np.linalg.svd(loadings.T @ (L**3 - L * np.mean(L**2, axis=0)))
        R = left @ right
        if sizes.sum() <= last * (1.0 + tol):
            break
        last = float(sizes.sum())
    return R


def project(X: Any, mean: Any, components: Any, scale: Any = None) -> Any:
    """Return (X - mean) componentsᵀ / scale in the floating type of X; sparse X is not filled."""
    with np.errstate(over="ignore", invalid="ignore"):  # said in words instead
        if issparse(X):
            directions = components.T.astype(np.float64)  # the difference needs its digits
            scores = X @ directions - mean @ directions
        else:
            # The mean is not rounded to single precision, which loses all digits of a large one.
            # Rows that are centred in the processor's cache cost a third of a copy of all of them.
            directions = np.ascontiguousarray(components.T.astype(X.dtype))
            scores = np.empty((len(X), directions.shape[1]), dtype=X.dtype)
            step = max(_CACHED_ENTRIES // max(X.shape[1], 1), 1)
            centred = np.empty((min(step, len(X)), X.shape[1]), dtype=X.dtype)
            for first in range(0, len(X), step):
                rows = X[first : first + step]
                part = np.subtract(rows, mean, out=centred[: len(rows)], casting="same_kind")
                np.matmul(part, directions, out=scores[first : first + step])
        scores = scores if scale is None else scores / scale
        scores = scores.astype(X.dtype, copy=False)
    return finite_scores(scores)


def finite_scores(scores: Any) -> Any:
    """Return scores, or refuse what made them too large to be numbers."""
    if not np.isfinite(scores).all():
        raise InvalidInputError(
            "X holds values so large that their scores are no numbers: drop those rows or rescale.",
            parameter="X",
        )
    return scores


def fantope_eigenvalues(values: Array, rank: float, *, at_most: bool = False) -> Array:
    """Eigenvalues of the projection onto the Fantope {0 ⪯ P ⪯ I, tr P = rank}.

    They are clip(values − θ, 0, 1) with θ such that they sum to `rank`; with `at_most` the set is
    tr P ≤ rank and θ is zero where the clipped values already sum to less.
    """
    if at_most and np.clip(values, 0.0, 1.0).sum() <= rank:
        return np.clip(values, 0.0, 1.0)
    # The sum is piecewise linear and falls with θ; its kinks are at values and values − 1.
    kinks = np.sort(np.concatenate([values, values - 1.0]))
    ordered = np.sort(values)
    cumulative = np.concatenate([[0.0], np.cumsum(ordered)])
    above_zero = np.searchsorted(ordered, kinks, side="right")
    above_one = np.searchsorted(ordered, kinks + 1.0, side="left")
    inside = cumulative[above_one] - cumulative[above_zero]
    sums = inside - kinks * (above_one - above_zero) + (len(values) - above_one)
    right = int(np.clip(np.searchsorted(-sums, -rank), 1, len(kinks) - 1))
    left = right - 1
    drop = sums[left] - sums[right]
    share = (sums[left] - rank) / drop if drop > 0.0 else 0.0
    theta = kinks[left] + share * (kinks[right] - kinks[left])
    return np.asarray(np.clip(values - theta, 0.0, 1.0))


def shared_level(values: Array, mass: float, growth: float = 0.0) -> float:
    """Level s ≥ 0 with Σ(values − s)₊ = mass + growth·s; 0 where even s = 0 leaves less.

    It is the multiplier of the shared bound in the proximal step of mass·max(values, 0), and with
    a growth of 2·penalty/step that of penalty·max(values, 0)².
    """
    ordered = np.sort(values)[::-1]
    levels = (np.cumsum(ordered) - mass) / (growth + np.arange(1, len(values) + 1))
    above = np.flatnonzero(ordered > levels)
    return max(float(levels[above[-1]]), 0.0) if len(above) else 0.0


def gaussian_delta(gap: Array, cov: Array, other: Array) -> float:
    """Bound Δ of half-spaces by Pinsker's inequality, the smaller of both ways; may be infinite."""
    ways = divergence(gap, cov, other), divergence(gap, other, cov)
    return 0.5 * math.sqrt(max(0.0, min(ways)))


def divergence(gap: Array, cov: Array, reference: Array) -> float:
    """Return the supremum over w of r − log r − 1 + (wᵀgap)²/s, with r = wᵀcov w/s."""
    # s is the variance of `reference` along w; coordinates in which it is I make r and the last
    # term linear in wwᵀ, and the whole a convex function of wwᵀ. So the maximiser is the leading
    # eigenvector of its own linearisation ``(1 − 1/r) cov + gap gapᵀ``: a search over one number.
    scale = np.sqrt(np.diag(cov) + np.diag(reference) + gap**2)
    used = scale > 0
    if not used.any():
        return 0.0
    gap, outer = gap[used] / scale[used], np.outer(scale[used], scale[used])
    cov, reference = cov[np.ix_(used, used)] / outer, reference[np.ix_(used, used)] / outer
    values, vectors = np.linalg.eigh(reference)
    flat = values <= 1e-12 * max(1.0, values[-1])
    empty = vectors[:, flat]
    if empty.size and (np.abs(gap @ empty).max() > 1e-9 or np.trace(empty.T @ cov @ empty) > 1e-9):
        return math.inf
    root = vectors[:, ~flat] / np.sqrt(values[~flat])
    cov, gap = root.T @ cov @ root, root.T @ gap
    spread = np.linalg.eigvalsh(cov)
    if spread[0] <= 1e-12:
        return math.inf
    slopes = np.linspace(1.0 - 1.0 / spread[0], 1.0 - 1.0 / spread[-1], _SLOPES)
    best = np.full(_SLOPES, -np.finfo(float).max)
    largest = -math.inf
    for _ in range(_MAX_ITER):  # all starts at once; a convex function never falls on the way
        linear = slopes[:, None, None] * cov + np.outer(gap, gap)
        leading = np.linalg.eigh(linear)[1][:, :, -1]
        ratios = np.sum((leading @ cov) * leading, axis=1)
        values = ratios - np.log(ratios) - 1.0 + (leading @ gap) ** 2
        largest = max(largest, float(values.max()))
        rising = values > best + 1e-13 * np.maximum(1.0, np.abs(best))
        if not rising.any():
            break
        best, slopes = values[rising], 1.0 - 1.0 / ratios[rising]
    return largest
