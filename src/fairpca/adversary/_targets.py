"""What the adversary tries to predict: one target for each contrast of the groups."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fairpca.exceptions import NestedAttributeWarning, SmallGroupWarning
from fairpca.linalg import Array
from fairpca.moments import ContrastSet, GroupMoments
from fairpca.rows import Groups, Rows
from fairpca.rows._sampling import draw


@dataclass(frozen=True, eq=False)
class Targets:
    """Labels to be predicted, with rows weighted so that both groups of a contrast weigh the same.

    Rows are sorted by cell (combination of groups and strata). A target gives every cell a share
    of its weight, and inside a cell all targets weight the rows alike: second moments of features
    are summed once for each cell, however many targets there are.
    """

    names: tuple[str, ...]  # as in ``contrasts_``
    is_number: NDArray[np.bool_]  # (t,): which targets are numeric attributes
    shares: Array  # (t, c): weight of each cell in each target; rows sum to one
    labels: Array  # (t, n): ±1 or the number; centred with unit variance under the weights
    weights: Array  # (n,): weight of each row inside its cell; sums to one in every cell
    cells: NDArray[np.intp]  # (n,): the cell of each row, in rising order

    def __len__(self) -> int:
        return len(self.names)

    @property
    def bounds(self) -> list[slice]:
        """Rows of each cell."""
        edges = np.searchsorted(self.cells, np.arange(self.shares.shape[1] + 1))
        return [slice(start, stop) for start, stop in pairwise(edges.tolist())]

    def row_weights(self) -> Array:
        """Weight of every row in every target, shape (t, n); rows sum to one."""
        return np.asarray(self.shares[:, self.cells] * self.weights)

    def binary(self) -> dict[str, tuple[NDArray[np.int8], Array]]:
        """Labels of two classes and weights by name; 0: left out. Numbers are cut at the median."""
        by_name = {}
        for name, is_number, label, weight in zip(
            self.names, self.is_number, self.labels, self.row_weights(), strict=True
        ):
            inside = weight > 0.0
            middle = np.median(label[inside]) if is_number else 0.0
            signs = np.where(inside, np.where(label > middle, 1, -1), 0).astype(np.int8)
            by_name[name] = signs, weight
        return by_name

    def take(self, rows: NDArray[np.intp]) -> Targets:
        """Return the targets of some rows, in rising order, with every cell's share kept."""
        cells, weights = self.cells[rows], self.weights[rows]
        total = np.bincount(cells, weights, minlength=self.shares.shape[1])
        some = replace(
            self, labels=self.labels[:, rows], weights=weights / total[cells], cells=cells
        )
        return replace(some, labels=_standardised(some.labels, some.row_weights()))

    def draw(self, count: int, random: np.random.Generator) -> NDArray[np.intp]:
        """Draw at most `count` rows, as many of every cell as there are where it is small."""
        return draw(self.cells, count, random, balanced=True)


def _standardised(labels: Array, weights: Array) -> Array:
    labels = labels - np.sum(labels * weights, axis=1, keepdims=True)
    variance = np.sum(labels**2 * weights, axis=1, keepdims=True)
    return labels / np.sqrt(np.where(variance > 0.0, variance, 1.0))


def form_targets(
    rows: Rows, form_contrasts: Callable[[GroupMoments], ContrastSet]
) -> tuple[Targets, NDArray[np.intp]]:
    """Make a target of every contrast that is compared; also return the order of the rows in it.

    The contrasts of indicators of the cells say which cells are compared: the difference of their
    means is the share of each cell in the positive group, minus that in the negative group.
    """
    assert rows.weights is None or rows.weights.all(), "rows of weight zero are left out before"
    cells = rows.cells()
    order = np.argsort(cells, kind="stable").astype(np.intp)
    rows, cells = rows.take(order), cells[order]
    indicators = np.eye(cells[-1] + 1)[cells]
    contrasts = form_silently(
        form_contrasts, GroupMoments.from_rows(rows.with_features(indicators))
    )
    weights = np.ones(len(cells)) if rows.weights is None else rows.weights
    total = np.bincount(cells, weights)
    names, numbers, shares, labels = [], [], [], []
    strata = _strata_names(rows.strata, len(rows))
    for contrast in contrasts:
        if contrast.mean_gap is None:
            continue
        is_number = not contrast.negative
        if is_number:
            inside = total * (np.bincount(cells, strata == (contrast.stratum or "")) > 0)
            share, label = inside / inside.sum(), _numbers(rows.groups, contrast.attribute)
        else:
            share, label = np.abs(contrast.mean_gap) / 2, np.sign(contrast.mean_gap)[cells]
        names.append(contrast.label)
        numbers.append(is_number)
        shares.append(share)
        labels.append(label)
    targets = Targets(
        tuple(names), np.array(numbers), np.array(shares), np.array(labels), weights, cells
    )
    return targets.take(np.arange(len(cells))), order


def form_silently(
    form_contrasts: Callable[[GroupMoments], ContrastSet], moments: GroupMoments
) -> ContrastSet:
    """Form contrasts without the warnings that were said when all rows were compared."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallGroupWarning)
        warnings.simplefilter("ignore", NestedAttributeWarning)
        return form_contrasts(moments.coordinates())


def _strata_names(strata: Groups | None, n_rows: int) -> NDArray[np.str_]:
    names = np.full(n_rows, "", dtype=object)
    for position, column in enumerate(() if strata is None else strata.categorical):
        levels = np.array([f"{column.name}={level}" for level in column.levels], dtype=object)
        names = names + (", " if position else "") + levels[column.codes]
    return names.astype(str)


def _numbers(groups: Groups | None, name: str) -> Array:
    assert groups is not None
    return next(column.values for column in groups.numeric if column.name == name)
