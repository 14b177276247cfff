"""Rows with their groups, strata and weights: cut into blocks, summed into moments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpca._groups import Groups
from fairpca.moments import GroupMoments


@dataclass(frozen=True, eq=False)
class Rows:
    """Validated rows; what has no groups, strata or weights holds None."""

    X: Any
    groups: Groups | None
    strata: Groups | None
    weights: NDArray[np.float64] | None

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def weight(self) -> float:
        """Sum of the weights."""
        return float(len(self) if self.weights is None else self.weights.sum())

    def take(self, rows: NDArray[np.intp]) -> Rows:
        """Return some of the rows."""
        weights = None if self.weights is None else self.weights[rows]
        return Rows(self.X[rows], _take(self.groups, rows), _take(self.strata, rows), weights)

    def moments(self, features: NDArray[np.float64], rows: slice = slice(None)) -> GroupMoments:
        """Moments of features of the rows, or of a block of them."""
        weights = None if self.weights is None else self.weights[rows]
        return GroupMoments.from_groups(
            features, _take(self.groups, rows), _take(self.strata, rows), weights
        )

    def cells(self) -> NDArray[np.intp]:
        """Return the number of the combination of groups and strata that each row belongs to."""
        parts = [part for part in (self.groups, self.strata) if part is not None]
        columns = [attribute.codes for part in parts for attribute in part.categorical]
        if not columns:
            return np.zeros(len(self), dtype=np.intp)
        return np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)[1].ravel()


def _take(groups: Groups | None, rows: slice | NDArray[np.intp]) -> Groups | None:
    if groups is None:
        return None
    categorical = tuple(replace(column, codes=column.codes[rows]) for column in groups.categorical)
    numeric = tuple(replace(column, values=column.values[rows]) for column in groups.numeric)
    n_rows = len(categorical[0].codes if categorical else numeric[0].values)
    return replace(groups, categorical=categorical, numeric=numeric, n_rows=n_rows)
