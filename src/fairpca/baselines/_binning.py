"""Bins of a few features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Binning:
    """Bins of each feature and a value that stands for each bin.

    Parameters
    ----------
    edges : tuple of ndarray
        Inner edges of the bins of each feature.
    values : tuple of ndarray
        Mean of the training rows in each bin; the middle of a bin without rows.
    """

    edges: tuple[NDArray[np.float64], ...]
    values: tuple[NDArray[np.float64], ...]

    @classmethod
    def fit(cls, X, n_bins, strategy, weights):
        """Learn bins from rows."""
        edges, values = [], []
        for column in X.T:
            inner = _inner_edges(column, n_bins, strategy, weights)
            codes = np.searchsorted(inner, column, side="right")
            mass = np.bincount(codes, weights, minlength=len(inner) + 1)
            sums = np.bincount(codes, weights * column, minlength=len(inner) + 1)
            bounds = np.concatenate([[column.min()], inner, [column.max()]])
            middle = 0.5 * (bounds[1:] + bounds[:-1])
            filled = mass > 0.0
            values.append(np.where(filled, sums / np.where(filled, mass, 1.0), middle))
            edges.append(inner)
        return cls(tuple(edges), tuple(values))

    def codes(self, X) -> NDArray[np.intp]:
        """Bin of each value; values beyond the training range fall into the outer bins."""
        return np.column_stack(
            [
                np.searchsorted(inner, column, side="right")
                for inner, column in zip(self.edges, X.T, strict=True)
            ]
        )

    def decode(self, codes) -> NDArray[np.float64]:
        """Value that stands for each bin."""
        columns = zip(self.values, codes.T, strict=True)
        return np.column_stack([values[column] for values, column in columns])


def _inner_edges(column, n_bins, strategy, weights):
    if strategy == "uniform":
        low, high = column.min(), column.max()
        edges = np.linspace(low, high, n_bins + 1)[1:-1]
    elif len(distinct := np.unique(column)) <= n_bins:
        edges = distinct[1:]  # quantiles would merge the rare values
    else:
        order = np.argsort(column, kind="stable")
        share = np.cumsum(weights[order]) / weights.sum()
        places = np.searchsorted(share, np.arange(1, n_bins) / n_bins - 1e-12)
        edges = column[order][np.minimum(places, len(column) - 1)]
    edges = np.unique(edges)
    return edges[(edges > column.min()) & (edges <= column.max())]
