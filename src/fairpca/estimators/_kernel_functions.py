"""Kernel evaluation, and the memory that a kernel matrix would take."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels

from fairpca.exceptions import InvalidInputError

KERNELS = frozenset(PAIRWISE_KERNEL_FUNCTIONS) | {"precomputed"}

# Values of a kernel block held at once: 32 MB of float64, so that rows can be streamed.
_BLOCK_ELEMENTS = 1 << 22
# Positive semidefinite whatever their parameters; additive_chi2 is so once it is centred.
_POSITIVE = frozenset({"linear", "rbf", "laplacian", "cosine", "chi2", "additive_chi2"})
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel with its parameters, evaluated in float64.

    Parameters
    ----------
    metric : str or callable
        As for `sklearn.metrics.pairwise.pairwise_kernels`.
    params : mapping
        Its keyword arguments.
    n_jobs : int or None
        As for `pairwise_kernels`.
    """

    metric: str | Callable[..., float]
    params: Mapping[str, Any]
    n_jobs: int | None = None

    @property
    def is_precomputed(self) -> bool:
        """Whether the rows are kernel values already."""
        return isinstance(self.metric, str) and self.metric == "precomputed"

    @property
    def is_positive(self) -> bool:
        """Whether the centred kernel matrix is known to be positive semidefinite."""
        if callable(self.metric):
            return False
        if self.metric in ("poly", "polynomial"):
            whole = float(self.params["degree"]).is_integer()
            return whole and self.params["coef0"] >= 0.0
        return self.metric in _POSITIVE

    def __call__(self, X: Any, Y: Any = None) -> NDArray[np.float64]:
        """Kernel values between the rows of X and of Y (of X itself where None)."""
        X = X.astype(np.float64, copy=False)
        values = pairwise_kernels(
            X, Y, metric=self.metric, filter_params=True, n_jobs=self.n_jobs, **self.params
        )
        return np.asarray(values, dtype=np.float64)


def dense(values: Any) -> NDArray[np.float64]:
    """Return float64 values in rows; the same array where it is so already."""
    return np.ascontiguousarray(
        values.toarray() if hasattr(values, "toarray") else values, dtype=np.float64
    )


def row_blocks(n_rows: int, width: int) -> list[slice]:
    """Split rows so that a block of kernel values against `width` rows stays small."""
    step = max(64, _BLOCK_ELEMENTS // max(width, 1))
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


def check_gram_memory(n_rows: int, *, partial: bool, inverse: bool, limit: float | None) -> None:
    """Refuse a kernel matrix that does not fit, before it is built.

    Parameters
    ----------
    n_rows : int
        Its size.
    partial : bool
        Whether some eigenvectors are computed only, which works inside the matrix.
    inverse : bool
        Whether a second matrix follows for the inverse transform.
    limit : float or None
        Bytes allowed; None: the memory of the machine.
    """
    matrix = 8 * n_rows**2
    # LAPACK's divide and conquer holds the vectors and twice their size beside the matrix.
    needed = max(matrix * (2 if partial else 4), matrix * 3 if inverse else 0)
    allowed = machine_memory() if limit is None else limit
    if needed <= allowed:
        return
    kind = "the machine has" if limit is None else "max_memory allows"
    raise InvalidInputError(
        f"the kernel matrix of {n_rows} rows takes {_readable(matrix)}, and {_readable(needed)} "
        f"with its eigenvectors, but {kind} {_readable(allowed)}. Set n_landmarks (500 "
        f"landmarks take {_readable(4 * 8 * 500**2 + 3 * 8 * _BLOCK_ELEMENTS)}), "
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
