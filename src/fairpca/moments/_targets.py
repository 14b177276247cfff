"""Moments of targets: what the features of a cell have to do with what they are to predict.

A target is a column of numbers, or one column of zeros and ones for each of its labels: a label
that comes late in a stream was zero until then. Rows without a target are left out. Letters: x a
row of features, y of targets, w a weight, a and b the distance of a part's mean of x and of y from
the mean of the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpca.exceptions import InvalidInputError
from fairpca.linalg import symmetrize
from fairpca.moments._cells import Cell, FloatArray, common_mean, merge, sum_cell
from fairpca.moments._table import CellTable, TargetColumn, widest
from fairpca.rows import Rows
from fairpca.rows.groups import is_number, labels_are_numbers, sort_levels

_RANK = 1e-10  # smaller shares of the largest variance of y are rounding


@dataclass(frozen=True, eq=False)
class TargetMoments:
    """Weighted moments of rows with p features and q targets."""

    n_rows: int
    weight: float
    mean: FloatArray  # (p,)
    mean_rest: FloatArray
    y_mean: FloatArray  # (q,)
    y_mean_rest: FloatArray
    y_scatter: FloatArray  # (q, q): sum of w (y - y_mean)(y - y_mean)ᵀ
    cross: FloatArray  # (q, p): sum of w (y - y_mean)(x - mean)

    @property
    def count(self) -> float:
        """Rows that an estimate rests on: weights up to ten on average count repetitions."""
        return self.weight if self.n_rows <= self.weight <= 10 * self.n_rows else self.n_rows

    @property
    def y_covariance(self) -> FloatArray:
        """Covariance of the targets, (q, q)."""
        return self.y_scatter / self.weight

    @property
    def covariance(self) -> FloatArray:
        """Covariance of features and targets, (p, q)."""
        return self.cross.T / self.weight

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

    def flat(self) -> FloatArray:
        """All numbers in a row, for a file."""
        return np.hstack([np.ravel(getattr(self, name)) for name in self.__dataclass_fields__])

    @classmethod
    def from_flat(cls, row: FloatArray, p: int, q: int) -> TargetMoments:
        """Return what `flat` was made of; ValueError where no rows can have it."""
        shapes = ((), (), (p,), (p,), (q,), (q,), (q, q), (q, p))
        sizes = [int(np.prod(shape)) for shape in shapes]
        if len(row) != sum(sizes) or not np.isfinite(row).all() or not (row[:2] > 0).all():
            raise ValueError("a target has other numbers, or no rows")
        split = np.split(row, np.cumsum(sizes)[:-1])
        n_rows, weight, *arrays = (a.reshape(s) for a, s in zip(split, shapes, strict=True))
        return cls(int(n_rows), float(weight), *arrays)


def sum_with_targets(
    rows: Rows, numeric: FloatArray, members: NDArray[np.intp], known: NDArray[np.bool_]
) -> Cell:
    """Sum the rows of a cell with their targets; those that are not `known` have none."""
    p, parts = rows.X.shape[1], []
    lack = members[~known[members]]
    have = members[known[members]] if len(lack) else members
    if len(have):  # targets are further features, until all is summed
        whole = sum_cell(rows.X, numeric, rows.weights, have, rows.targets)
        count, x = (whole.n_rows, whole.weight), (whole.mean[:p], whole.mean_rest[:p])
        of_y = (whole.mean[p:], whole.mean_rest[p:], whole.scatter[p:, p:], whole.scatter[p:, :p])
        z = (whole.z_mean, whole.z_mean_rest, whole.z_scatter, whole.cross[:, :p])
        own = (*count, whole.heaviest, *x, whole.scatter[:p, :p], *z, whole.third[:, :p, :p])
        parts.append(Cell(*own, targets=TargetMoments(*count, *x, *of_y)))
    if len(lack):
        parts.append(sum_cell(rows.X, numeric, rows.weights, lack))
    return replace(merge(parts), targets=parts[0].targets) if len(parts) > 1 else parts[0]


def merge_targets(parts: Sequence[TargetMoments | None]) -> TargetMoments | None:
    """Moments of the union of disjoint sets of rows; None stands for no rows."""
    some = [part for part in parts if part is not None]
    if len(some) < 2:
        return some[0] if some else None
    w = np.array([part.weight for part in some])
    total = float(w.sum())
    mean, a = common_mean([(part.mean, part.mean_rest) for part in some], w, total)
    y_mean, b = common_mean([(part.y_mean, part.y_mean_rest) for part in some], w, total)
    weighted = (b * w[:, None]).T
    scatter = weighted @ b + sum(part.y_scatter for part in some)
    cross = weighted @ a + sum(part.cross for part in some)
    n_rows = sum(part.n_rows for part in some)
    return TargetMoments(n_rows, total, *mean, *y_mean, symmetrize(scatter), cross)


def join_columns(left: CellTable, right: CellTable) -> tuple[TargetColumn, ...]:
    """Columns that the targets of both tables together have: numbers, then labels."""
    labels_of: dict[str, list[Any]] = {}
    for name, label in sorted(left.targets + right.targets, key=itemgetter(0)):
        labels_of.setdefault(name, []).append(label)
    numbers: list[TargetColumn] = []
    indicators: list[TargetColumn] = []
    for name, labels in labels_of.items():
        if None in labels or labels_are_numbers(name, tuple(widest(labels).values())):
            numbers.append((name, None))
        else:
            indicators += [(name, label) for label in sort_levels(widest(labels).values())]
    return (*numbers, *indicators)


def align_targets(table: CellTable, columns: Sequence[TargetColumn]) -> CellTable:
    """Give the targets other columns: zeros for labels not seen, and numbers of number labels."""
    if tuple(columns) == table.targets:
        return table
    A = np.zeros((len(columns), len(table.targets)))
    place = {column: i for i, column in enumerate(columns)}
    for j, (name, label) in enumerate(table.targets):
        if (name, label) in place:
            A[place[name, label], j] = 1.0
        elif (name, None) in place and label is not None:
            if not is_number(label):
                raise InvalidInputError(
                    f"the target {name!r} is a number in some moments and a label in others (for "
                    f"example {label!r}): give it the same type in every batch.",
                    parameter="y",
                )
            A[place[name, None], j] = label

    def aligned(cell: Cell) -> Cell:
        if (part := cell.targets) is None:
            return cell
        y = (A @ part.y_mean, A @ part.y_mean_rest, symmetrize(A @ part.y_scatter @ A.T))
        x = (part.mean, part.mean_rest)
        targets = TargetMoments(part.n_rows, part.weight, *x, *y, A @ part.cross)
        return replace(cell, targets=targets)

    return replace(table.map(aligned), targets=tuple(columns))
