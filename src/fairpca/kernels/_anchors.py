"""Anchors: the rows that carry the coefficients of the components, and what they cost in memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import scipy.linalg
import scipy.spatial
from numpy.typing import NDArray

from fairpca.exceptions import InvalidInputError
from fairpca.linalg import Array, finite_scores
from fairpca.rows import Rows
from fairpca.rows._sampling import distinct_rows, smallest_keys

Cluster: TypeAlias = Callable[[Any, int, Array | None, np.random.RandomState], Array]
"""Centres of rows: of X, so many, with weights, from a random state."""

# Kernel values that differ from their transpose by more than this share are not of one kernel.
_ASYMMETRY = 1e-6
# k-means sees this many rows for each of its centres; more do not move the centres noticeably.
_ROWS_PER_CENTRE = 30
# Values of a kernel held at once: 32 MB of float64, so that rows can be streamed.
_BATCH_ELEMENTS = 1 << 22
# Beyond this γ‖x‖² the digits that ‖x‖² + ‖y‖² − 2x·y loses show in the kernel.
_FAR = 1e4
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


@dataclass(frozen=True, eq=False)
class Anchors:
    """Training rows, landmarks, or columns of a precomputed kernel."""

    # Kernel values of the rows of X against those of Y; None where they are precomputed.
    function: Callable[[Any, Any], Any] | None
    rows: Any  # (m, p); None where the kernel is precomputed
    columns: NDArray[np.intp] | None = None  # those of a precomputed kernel; None: all
    # Differs from `function` by what centring removes, and loses fewer digits to it.
    equivalent: Callable[[Array, Array], Array] | None = None

    def kernel(self, X: Any, Y: Any = None) -> Array:
        """Kernel values in float64 between the rows of X and of Y (of X itself where None)."""
        assert self.function is not None
        with np.errstate(over="ignore", invalid="ignore"):  # said in words instead
            values = self.function(X.astype(np.float64, copy=False), Y)
        return np.asarray(values, dtype=np.float64)

    def values(self, X: Any) -> Array:
        """Kernel values of rows against the anchors; may be X itself where it is precomputed."""
        if self.equivalent is not None:
            return self.equivalent(dense(X), dense(self.rows))
        if self.function is not None:
            return self.kernel(X, self.rows)
        return dense(X if self.columns is None else X[:, self.columns])

    def gram(self, X: Any) -> Array:
        """Kernel matrix of the anchors, X being their rows of the input table."""
        if self.equivalent is not None:
            return self.values(self.rows)
        return self.values(X) if self.function is None else self.kernel(self.rows)

    def scores(self, X: Any, shift: Array, coefficients: Array, offset: Array) -> NDArray[Any]:
        """(k(x) − shift)·coefficients − offset, batch by batch, in the floating type of X."""
        scores = np.empty((X.shape[0], len(offset)), dtype=X.dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            for batch in row_batches(X.shape[0], len(coefficients)):
                scores[batch] = (self.values(X[batch]) - shift) @ coefficients - offset
        return np.asarray(finite_scores(scores))


def equivalent_kernel(kernel: object, gamma: float, X: Any) -> Callable[[Any, Any], Any] | None:
    """Return a kernel that is the same once it is centred, and precise far from zero; or None."""
    # Rows are moved to their mean, which no distance notices, and of the Gaussian kernel one is
    # subtracted, next to which small distances would be lost.
    if not isinstance(X, np.ndarray) or kernel not in ("linear", "rbf"):
        return None
    origin = X.astype(np.float64).mean(axis=0)
    return partial(_linear if kernel == "linear" else partial(_gaussian, gamma), origin)


def _linear(origin: Array, X: Array, Y: Array) -> Array:
    return np.asarray((X - origin) @ (Y - origin).T)


def _gaussian(gamma: float, origin: Array, X: Array, Y: Array) -> Array:
    """exp(−γ‖x − y‖²) − 1."""
    X, Y = X - origin, Y - origin
    norms, others = np.einsum("ij,ij->i", X, X), np.einsum("ij,ij->i", Y, Y)
    if gamma * max(norms.max(initial=0.0), others.max(initial=0.0)) > _FAR:
        squares = scipy.spatial.distance.cdist(X, Y, "sqeuclidean")
    else:
        squares = X @ Y.T
        squares *= -2.0
        squares += norms[:, None]
        squares += others
        np.maximum(squares, 0.0, out=squares)
    squares *= -gamma
    return np.asarray(np.expm1(squares, out=squares))


def all_rows(function: Callable[[Any, Any], Any] | None, rows: Rows) -> tuple[Rows, Anchors]:
    """Make every row of positive weight an anchor; return those rows too."""
    if function is None:
        _check_precomputed(rows.X)
    columns = None
    if rows.weights is not None and not rows.weights.all():
        columns = np.flatnonzero(rows.weights)
        rows = rows.take(columns)
    return rows, Anchors(None, None, columns) if function is None else Anchors(function, rows.X)


def few_rows(
    anchors: Anchors,
    rows: Rows,
    count: int,
    random: np.random.RandomState,
    cluster: Cluster | None = None,
) -> tuple[Anchors, Array]:
    """Return landmarks and their kernel matrix: centres of clusters, or rows that are drawn."""
    if anchors.function is not None:
        landmarks, _ = choose_landmarks(rows, count, random, cluster)
        few = Anchors(anchors.function, landmarks, equivalent=anchors.equivalent)
        return few, few.gram(None)
    columns = np.arange(len(rows)) if anchors.columns is None else anchors.columns
    _, chosen = choose_landmarks(rows, count, random, None, columns)
    few = Anchors(None, None, columns[chosen])
    return few, few.gram(rows.X[chosen])


def landmark_quotas(sizes: NDArray[np.intp], weights: Array, count: int) -> NDArray[np.intp]:
    """Share landmarks out: by weight, but a quarter of an equal share to every group at least."""
    if count < len(sizes):
        raise InvalidInputError(
            f"n_landmarks={count} is below the number of groups ({len(sizes)} combinations of "
            "sensitive_features and control_features): give each at least one landmark."
        )
    count = min(count, int(sizes.sum()))
    share = count * weights / weights.sum()
    floor = np.minimum(sizes, max(1, count // (4 * len(sizes))))
    quotas: NDArray[np.intp] = np.minimum(sizes, np.maximum(floor, share.astype(np.intp)))
    while quotas.sum() > count:
        quotas[np.argmax(np.where(quotas > floor, quotas - share, -np.inf))] -= 1
    while quotas.sum() < count:
        quotas[np.argmax(np.where(quotas < sizes, share - quotas, -np.inf))] += 1
    return quotas


def choose_landmarks(
    rows: Rows,
    count: int,
    random: np.random.RandomState,
    cluster: Cluster | None,
    columns: NDArray[np.intp] | None = None,
) -> tuple[Any, NDArray[np.intp]]:
    """Choose landmarks in every combination of groups and strata; and the rows that were drawn.

    `columns` are those of the rows in a precomputed kernel.
    """
    # Distinct rows with their weights: a weight of two chooses the same as a row that occurs twice.
    # They are ordered by content, along a direction, which rounding of the features hardly changes.
    if columns is None:
        direction = random.standard_normal(rows.X.shape[1])
    else:  # the mean of kernel values, which repeat as rows do
        direction = np.zeros(rows.X.shape[1])
        direction[columns] = 1.0 if rows.weights is None else rows.weights
    distinct, weights = distinct_rows(rows)
    order = np.argsort(_along(rows.X, direction)[distinct], kind="stable")
    distinct, weights = distinct[order], weights[order]
    cells = rows.cells()[distinct]
    sizes, sums = np.bincount(cells), np.bincount(cells, weights).astype(np.float64)
    quotas = landmark_quotas(sizes, sums, count)
    keys = random.exponential(size=len(cells))
    if cluster is None:  # the smallest of these keys are a draw in proportion to the weights
        drawn = distinct[smallest_keys(keys / weights, cells, quotas)]
        return rows.X[drawn], drawn
    drawn = smallest_keys(keys, cells, np.maximum(_ROWS_PER_CENTRE * quotas, 1000))
    centres = []
    for cell, quota in enumerate(quotas.tolist()):
        inside = drawn[cells[drawn] == cell]
        X, is_all = rows.X[distinct[inside]], quota == len(inside)
        centres.append(dense(X) if is_all else cluster(X, quota, weights[inside], random))
    return np.concatenate(centres), distinct[drawn]


def _along(X: Any, direction: Array) -> Array:
    """Coordinates of rows along a direction; equal rows have equal ones, unlike from BLAS."""
    if hasattr(X, "toarray"):
        return np.asarray(X @ direction)
    batches = row_batches(len(X), X.shape[1])
    return np.concatenate([np.einsum("ij,j->i", X[batch], direction) for batch in batches])


def dense(values: Any) -> Array:
    """Return float64 values in rows; the same array where it is so already."""
    return np.ascontiguousarray(
        values.toarray() if hasattr(values, "toarray") else values, dtype=np.float64
    )


def inverse_coefficients(
    anchors: Anchors, scores: Array, weights: Array | None, alpha: float
) -> Array:
    """Kernel ridge regression of the anchors on their scores: coefficients of the scores."""
    K = anchors.kernel(scores)
    # Weights belong to the training rows; landmarks have none.
    has_weights = weights is not None and len(weights) == len(K)
    K[np.diag_indices_from(K)] += alpha / np.asarray(weights) if has_weights else alpha
    return np.asarray(scipy.linalg.solve(K, dense(anchors.rows), assume_a="pos", overwrite_a=True))


def row_batches(n_rows: int, width: int) -> list[slice]:
    """Split rows so that a batch of kernel values against `width` rows stays small."""
    step = max(64, _BATCH_ELEMENTS // max(width, 1))
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


def check_gram_memory(n_rows: int, *, partial: bool, inverse: bool) -> None:
    """Refuse a kernel matrix that does not fit into the memory of the machine, before it is built.

    With `partial` eigenvectors are computed inside it, with `inverse` a second matrix follows.
    """
    matrix = 8 * n_rows**2
    # LAPACK's divide and conquer holds the vectors and twice their size besides the matrix.
    needed = max(matrix * (2 if partial else 4), matrix * 3 if inverse else 0)
    allowed = machine_memory()
    if needed <= allowed:
        return
    raise InvalidInputError(
        f"the kernel matrix of {n_rows} rows takes {_readable(matrix)}, and {_readable(needed)} "
        f"with its eigenvectors, but the machine has {_readable(allowed)}. Set n_landmarks (500 "
        f"landmarks take {_readable(4 * 8 * 500**2 + 3 * 8 * _BATCH_ELEMENTS)}), "
        f"{'set rank, ' if not partial else ''}or fit on fewer rows."
    )


def machine_memory() -> float:
    """Bytes of memory of this machine or container; infinite where the system does not say."""
    try:
        total = float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        total = np.inf
    with suppress(OSError, ValueError):  # no such file, or the word "max"
        total = min(total, float(_CGROUP_LIMIT.read_text()))
    return total if total > 0.0 else np.inf


def _readable(size: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024.0:
            return f"{size:.4g} {unit}"
        size /= 1024.0
    return f"{size:.4g} TiB"


def _check_precomputed(K: Any) -> None:
    if K.shape[0] != K.shape[1]:
        raise InvalidInputError(
            "kernel='precomputed' takes the square kernel matrix of the training rows, but X has "
            f"shape {K.shape}."
        )
    if abs(K - K.T).max() > _ASYMMETRY * abs(K).max():
        raise InvalidInputError(
            "kernel='precomputed', but X is not symmetric: give the kernel matrix, not features."
        )
