"""Moments of targets: what the features of a cell have to do with what they are to predict.

A cell has one part for each combination of labels that occurs in it, so that a label may appear
late in a stream. Rows without a target are in no part. Letters: y a row of numeric targets, w a
weight, a and b the distance of a part's mean of x and of y from the mean of the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, issparse

from fairpca.linalg import symmetrize
from fairpca.moments._cells import FloatArray, common_mean, sum_exactly, take_rows
from fairpca.rows import Attribute, Level, Rows
from fairpca.rows.groups import combine

_GUESS_STRIDE = 128  # rows of which one is looked at for an origin
_PIECE_NUMBERS = 1 << 17  # a megabyte of float64: what is centred stays in the cache
_FEW_PARTS = 16  # of which a full matrix is multiplied faster than a sparse one
_RANK = 1e-10  # smaller shares of the largest variance of y are rounding


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

    @cached_property
    def root(self) -> FloatArray:
        """Y^-½ on the range of Y, the covariance of the targets, as columns (q, k)."""
        values, vectors = np.linalg.eigh(self.y_covariance)
        kept = values > _RANK * max(values[-1], 0.0)
        return np.asarray(vectors[:, kept] / np.sqrt(values[kept]))

    @cached_property
    def whitened(self) -> FloatArray:
        """Covariance of x with y·Y^-½, (p, k)."""
        return self.covariance @ self.root


def sum_targets(rows: Rows, columns: Sequence[Attribute]) -> dict[tuple[Level, ...], Targets]:
    """Sum the rows of every cell that `columns` make, apart by their labels, in one pass."""
    assert rows.targets is not None
    labels = rows.targets.categorical
    y = np.column_stack([np.empty((len(rows), 0)), *(c.values for c in rows.targets.numeric)])
    known = ~np.isnan(y).any(axis=1)
    if rows.weights is not None:
        known &= rows.weights > 0.0
    for column in labels:
        known &= column.codes >= 0
    used, every = np.flatnonzero(known), [*columns, *labels]
    if len(used) < len(rows):
        every = [replace(column, codes=column.codes[used]) for column in every]
    part = combine(every) if every else np.zeros(len(used), dtype=np.intp)
    first = np.zeros(int(part.max(initial=-1)) + 1, dtype=np.intp)
    first[part[::-1]] = used[::-1]
    w = np.ones(len(used)) if rows.weights is None else rows.weights[used]
    by_cell: dict[tuple[Level, ...], Targets] = {}
    for row, sums in zip(first, _sum_parts(rows.X, y, w, used, part, first), strict=True):
        key, own = (tuple(c.levels[c.codes[row]] for c in some) for some in (columns, labels))
        by_cell[key] = (*by_cell.get(key, ()), (own, sums))
    return by_cell


def _sum_parts(
    X: Any,
    y: FloatArray,
    w: FloatArray,
    used: NDArray[np.intp],
    part: NDArray[np.intp],
    first: NDArray[np.intp],
) -> list[TargetPart]:
    """Sum the rows `used` by the part that each belongs to; `first` has a row of every part."""
    count, q = len(first), y.shape[1]
    if not count:
        return []

    def totals(values: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(part, values, count), dtype=np.float64)

    weight, sizes = totals(w), np.bincount(part, minlength=count)
    y_mean, y_rest, scatter = np.empty((count, q)), np.empty((count, q)), np.empty((count, q, q))
    centred = y[used] - y[first][part]
    for k in range(q):  # in two rounds, as rows of a cell are centred
        steps = []
        for _ in range(2):
            steps.append(totals(w * centred[:, k]) / weight)
            centred[:, k] -= steps[-1][part]
        y_mean[:, k], y_rest[:, k] = sum_exactly(y[first, k] + steps[0], steps[1])
        for other in range(k + 1):
            scatter[:, k, other] = totals(w * centred[:, k] * centred[:, other])
            scatter[:, other, k] = scatter[:, k, other]
    columns = [w, *(w * centred[:, k] for k in range(q))]
    origin, sums = _sum_products(X, columns, used, part, count)
    mean, rest = sum_exactly(origin, sums[0] / weight[:, None])
    cross = np.moveaxis(sums[1:], 0, 1)  # centred y sum to zero: any origin will do
    parts = zip(mean, rest, y_mean, y_rest, scatter, cross, strict=True)
    return [TargetPart(int(sizes[k]), float(weight[k]), *one) for k, one in enumerate(parts)]


def _sum_products(
    X: Any,
    columns: Sequence[FloatArray],
    used: NDArray[np.intp],
    part: NDArray[np.intp],
    count: int,
) -> tuple[FloatArray, FloatArray]:
    """Return an origin, and the sums of columns times x − origin by part (columns, parts, p)."""
    p, is_sparse = X.shape[1], issparse(X)
    step, origin = max(_PIECE_NUMBERS // max(p, 1), 256), np.zeros(p)
    if not is_sparse:  # near the mean of all, which may be far larger than the deviation
        start = X[used[0]].astype(np.float64)
        origin = start + (take_rows(X, used[::_GUESS_STRIDE]) - start).mean(axis=0)
    sums = np.zeros((len(columns), count, p))
    for begin in range(0, len(used), step):
        some = slice(begin, begin + step)
        whole = used[some][-1] - used[begin] + 1 == len(used[some])  # rows in a piece: no copy
        x = X[used[begin] : used[some][-1] + 1] if whole else X[used[some]]
        x = x if is_sparse else x - origin
        for k, values in enumerate(columns):
            product = _by_part(values[some], part[some], count) @ x
            sums[k] += product if isinstance(product, np.ndarray) else product.toarray()
    return origin, sums


def _by_part(values: FloatArray, part: NDArray[np.intp], count: int) -> Any:
    """Matrix (count, rows) whose product with rows sums them by part, each times its value."""
    places = np.arange(len(part) + 1)
    if count > _FEW_PARTS:
        return csc_array((values, part, places), (count, len(part)))
    matrix = np.zeros((count, len(part)))
    matrix[part, places[:-1]] = values
    return matrix


def merge_targets(parts: Sequence[TargetPart], indicators: FloatArray | None = None) -> TargetPart:
    """Moments of the union of disjoint sets of rows.

    `indicators` (parts, k) are further numbers to predict, the same in every row of a part.
    """
    if indicators is None:
        if len(parts) == 1:
            return parts[0]
        indicators = np.zeros((len(parts), 0))
    w, q = np.array([part.weight for part in parts]), len(parts[0].y_mean)
    total = float(w.sum())
    mean, a = common_mean([(part.mean, part.mean_rest) for part in parts], w, total)
    y_mean, b = common_mean([(part.y_mean, part.y_mean_rest) for part in parts], w, total)
    shares = w @ indicators / total
    b = np.hstack([b, indicators - shares])
    y_mean = (np.append(y_mean[0], shares), np.append(y_mean[1], 0.0 * shares))
    weighted = (b * w[:, None]).T
    scatter, cross = weighted @ b, weighted @ a
    scatter[:q, :q] += sum(part.y_scatter for part in parts)
    cross[:q] += sum(part.cross for part in parts)
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
    keys, parts = zip(*(item for cell in targets for item in cell), strict=True)
    places = [(labels.index(name), level) for name, level in indicators]
    own = [[key[place] == level for place, level in places] for key in keys]
    whole = merge_targets(parts, np.array(own, dtype=np.float64).reshape(len(parts), -1))
    return TargetMoments(
        (*((name, None) for name in numeric), *indicators),
        whole.n_rows,
        whole.weight,
        whole.mean + whole.mean_rest,
        whole.y_mean + whole.y_mean_rest,
        whole.y_scatter / whole.weight,
        whole.cross.T / whole.weight,
    )
