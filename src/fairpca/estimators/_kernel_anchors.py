"""Anchors: the rows that carry the coefficients of the components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpca.estimators._kernel_functions import Kernel, dense
from fairpca.estimators._kernel_landmarks import choose_landmarks
from fairpca.estimators._kernel_rows import Rows
from fairpca.exceptions import InvalidInputError

# Kernel values that differ from their transpose by more than this share are not of one kernel.
_ASYMMETRY = 1e-6


@dataclass(frozen=True, eq=False)
class Anchors:
    """Training rows, landmarks, or columns of a precomputed kernel.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    rows : ndarray or sparse matrix, shape (m, p), or None
        The anchors themselves; None for a precomputed kernel.
    columns : ndarray of int, shape (m,), or None
        Their columns in a precomputed kernel; None: all.
    """

    kernel: Kernel
    rows: Any
    columns: NDArray[np.intp] | None = None

    def values(self, X: Any) -> NDArray[np.float64]:
        """Kernel values of rows against the anchors; may be X itself where it is precomputed."""
        if not self.kernel.is_precomputed:
            return self.kernel(X, self.rows)
        return dense(X if self.columns is None else X[:, self.columns])


def all_rows(kernel: Kernel, rows: Rows) -> tuple[Rows, Anchors]:
    """Make every row of positive weight an anchor.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    rows : Rows
        The training rows as given.

    Returns
    -------
    rows : Rows
        Those of positive weight.
    anchors : Anchors
        The same rows.
    """
    if kernel.is_precomputed:
        _check_precomputed(rows.X)
    if rows.weights is None or rows.weights.all():
        return rows, Anchors(kernel, None if kernel.is_precomputed else rows.X)
    kept = np.flatnonzero(rows.weights)
    rows = rows.take(kept)
    if kernel.is_precomputed:
        return rows, Anchors(kernel, None, kept)
    return rows, Anchors(kernel, rows.X)


def few_rows(
    anchors: Anchors, rows: Rows, count: int, method: str, random_state: Any
) -> tuple[Anchors, NDArray[np.float64]]:
    """Choose landmarks among the rows.

    Parameters
    ----------
    anchors, rows : Anchors and Rows
        As `all_rows` returns them.
    count, method, random_state
        As for `choose_landmarks`. Rows of a precomputed kernel are drawn, whatever the method.

    Returns
    -------
    anchors : Anchors
        The landmarks.
    gram : ndarray, shape (m, m)
        Their kernel matrix.
    """
    if not anchors.kernel.is_precomputed:
        landmarks, _ = choose_landmarks(rows, count, method, random_state)
        return Anchors(anchors.kernel, landmarks), anchors.kernel(landmarks)
    _, chosen = choose_landmarks(rows, count, "uniform", random_state)
    assert chosen is not None
    columns = chosen if anchors.columns is None else anchors.columns[chosen]
    few = Anchors(anchors.kernel, None, columns)
    return few, few.values(rows.X[chosen])


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
