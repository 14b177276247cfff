"""Moments of targets: what the features of a cell have to do with what they are to predict.

A cell has one part for each combination of labels that occurs in it, so that a label may appear
late in a stream. Rows without a target are in no part. Letters: y a row of numeric targets, w a
weight, a and b the distance of a part's mean of x and of y from the mean of the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from fairpca.linalg import symmetrize
from fairpca.moments._cells import FloatArray, centre, common_mean, take_rows
from fairpca.rows import Level, Rows
from fairpca.rows._checks import rows_at_once
from fairpca.rows.groups import combine


@dataclass(frozen=True, eq=False)
class TargetPart:
    """Weighted moments of rows that have the same labels, with p features and q numbers."""

    n_rows: int
    weight: float
    mean: FloatArray  # (p,)
    mean_rest: FloatArray
    y_mean: FloatArray  # (q,)
    y_mean_rest: FloatArray
    y_scatter: FloatArray  # (q, q): sum of w (y - y_mean)(y - y_mean)ᵀ
    cross: FloatArray  # (q, p): sum of w (y - y_mean)(x - mean)

    def flat(self) -> FloatArray:
        """All numbers in a row, for a file."""
        return np.concatenate([np.ravel(value) for value in vars(self).values()])

    @classmethod
    def from_flat(cls, row: FloatArray, p: int, q: int) -> TargetPart:
        """Return the part that `flat` was made of; ValueError where no rows can have it."""
        shapes = ((), (), (p,), (p,), (q,), (q,), (q, q), (q, p))
        sizes = [int(np.prod(shape)) for shape in shapes]
        if len(row) != sum(sizes) or not np.isfinite(row).all() or not (row[:2] > 0).all():
            raise ValueError("a target has other numbers, or no rows")
        split = np.split(row, np.cumsum(sizes)[:-1])
        n_rows, weight, *arrays = (a.reshape(s) for a, s in zip(split, shapes, strict=True))
        return cls(int(n_rows), float(weight), *arrays)


Targets: TypeAlias = tuple[tuple[tuple[Level, ...], TargetPart], ...]
"""Parts by labels, in the order of the columns that are not numbers."""


@dataclass(frozen=True, eq=False)
class TargetMoments:
    """Moments of all rows that have targets, with an indicator for each label.

    `columns` are the names of numbers, and names and labels of indicators.
    """

    columns: tuple[tuple[str, Level | None], ...]
    n_rows: int
    weight: float
    mean: FloatArray  # of x, (p,)
    y_mean: FloatArray  # (q,)
    y_covariance: FloatArray  # (q, q)
    covariance: FloatArray  # of x and y, (p, q)

    @property
    def count(self) -> float:
        """Rows that an estimate rests on: weights up to ten on average count repetitions."""
        return self.weight if self.n_rows <= self.weight <= 10 * self.n_rows else self.n_rows


def sum_targets(rows: Rows, members: NDArray[np.intp]) -> Targets:
    """Sum the rows of a cell, apart by their labels."""
    assert rows.targets is not None
    numeric = rows.targets.numeric
    y = np.column_stack([np.empty((len(rows), 0)), *(column.values for column in numeric)])
    known = ~np.isnan(y[members]).any(axis=1)
    for column in rows.targets.categorical:
        known &= column.codes[members] >= 0
    members = members[known]
    columns = rows.targets.take(members).categorical
    label = combine(columns) if columns else np.zeros(len(members), dtype=np.intp)
    parts = []
    for place in range(int(label.max(initial=-1)) + 1):
        same = np.flatnonzero(label == place)
        key = tuple(column.levels[column.codes[same[0]]] for column in columns)
        parts.append((key, _sum_part(rows.X, y, rows.weights, members[same])))
    return tuple(parts)


def _sum_part(
    X: Any, y: FloatArray, weights: FloatArray | None, rows: NDArray[np.intp]
) -> TargetPart:
    """Sum some rows of a matrix, dense or sparse, a batch at a time."""
    step, is_sparse = rows_at_once(X.shape[1]), issparse(X)
    parts = []
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        w = np.ones(len(some)) if weights is None else weights[some]
        total, numbers = float(w.sum()), y[some]
        y_mean = centre(numbers, w, total)
        weighted = numbers * w[:, None]
        if is_sparse:  # not centred, which would fill it: weighted y sum to zero
            x = X[some]
            mean = (x.T @ w / total, np.zeros(X.shape[1]))
        else:
            x = take_rows(X, some).astype(np.float64, copy=False)
            mean = centre(x, w, total)
        scatter = symmetrize(weighted.T @ numbers)
        cross = np.asarray((x.T @ weighted).T)
        parts.append(TargetPart(len(some), total, *mean, *y_mean, scatter, cross))
    return merge_targets(parts)


def merge_targets(parts: Sequence[TargetPart]) -> TargetPart:
    """Moments of the union of disjoint sets of rows."""
    if len(parts) == 1:
        return parts[0]
    w = np.array([part.weight for part in parts])
    total = float(w.sum())
    mean, a = common_mean([(part.mean, part.mean_rest) for part in parts], w, total)
    y_mean, b = common_mean([(part.y_mean, part.y_mean_rest) for part in parts], w, total)
    weighted = (b * w[:, None]).T
    scatter = weighted @ b + sum(part.y_scatter for part in parts)
    cross = weighted @ a + sum(part.cross for part in parts)
    n_rows = sum(part.n_rows for part in parts)
    return TargetPart(n_rows, total, *mean, *y_mean, symmetrize(scatter), cross)


def with_number(part: TargetPart, place: int, value: float) -> TargetPart:
    """Add a number that is the same in every row."""
    filled = {
        name: np.insert(getattr(part, name), place, 0.0, axis=0)
        for name in ("y_mean", "y_mean_rest", "y_scatter", "cross")
    }
    filled["y_scatter"] = np.insert(filled["y_scatter"], place, 0.0, axis=1)
    filled["y_mean"][place] = value
    return replace(part, **filled)


def pool_targets(
    targets: Sequence[Targets],
    labels: Sequence[str],
    numeric: Sequence[str],
    indicators: Sequence[tuple[str, Level]],
) -> TargetMoments:
    """Put the targets of all cells together; a label becomes a number that is zero or one."""
    parts = []
    for key, part in (item for cell in targets for item in cell):
        own = dict(zip(labels, key, strict=True))
        for name, level in reversed(indicators):
            part = with_number(part, len(numeric), float(own[name] == level))
        parts.append(part)
    whole = merge_targets(parts)
    return TargetMoments(
        (*((name, None) for name in numeric), *indicators),
        whole.n_rows,
        whole.weight,
        whole.mean + whole.mean_rest,
        whole.y_mean + whole.y_mean_rest,
        whole.y_scatter / whole.weight,
        whole.cross.T / whole.weight,
    )
