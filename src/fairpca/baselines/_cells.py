"""From rows to bins and observed cells, and back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from fairpca.baselines._transport import Cells, Index
from fairpca.linalg import Array


@dataclass(frozen=True, eq=False)
class Binning:
    """Inner edges of the bins of each feature, and a value that stands for each bin."""

    edges: tuple[Array, ...]
    values: tuple[Array, ...]

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
            filled = mass > 0.0  # a bin without rows is stood for by its middle
            values.append(np.where(filled, sums / np.where(filled, mass, 1.0), middle))
            edges.append(inner)
        return cls(tuple(edges), tuple(values))

    def codes(self, X) -> Index:
        """Bin of each value; values beyond the training range fall into the outer bins."""
        return np.column_stack(
            [
                np.searchsorted(inner, column, side="right")
                for inner, column in zip(self.edges, X.T, strict=True)
            ]
        )

    def decode(self, codes) -> Array:
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


def most_correlated(X, labels, weights, count):
    """Features by falling absolute correlation with the label; constant ones come last."""
    share = weights / weights.sum()
    centred = X - share @ X
    target = labels - share @ labels
    spread = np.sqrt(share @ centred**2)
    usable = spread > 1e-12 * np.maximum(np.abs(share @ X), 1e-300)
    correlation = np.abs((share * target) @ centred) / np.where(usable, spread, 1.0)
    # Rounded, so that exact ties are broken by position and not by the last digit.
    order = np.argsort(-np.round(np.where(usable, correlation, 0.0), 12), kind="stable")
    return order[:count]


def observed_cells(codes, labels, groups, weights):
    """Cells and sources in which there are rows."""
    cells, cell = np.unique(np.column_stack([codes, labels]), axis=0, return_inverse=True)
    sources, source = np.unique(np.column_stack([cell, groups]), axis=0, return_inverse=True)
    mass = np.bincount(source, weights)
    return Cells(cells[:, :-1], cells[:, -1], sources[:, 0], sources[:, 1], mass / mass.sum())


def source_shares(codes, cells, allowed):
    """Entries (row, source, probability) over the allowed sources, and whether cells are seen."""
    bins, which = np.unique(cells.bins[cells.cell[allowed]], axis=0, return_inverse=True)
    mass = np.bincount(which, cells.mass[allowed])
    order = np.argsort(-mass, kind="stable")  # the most frequent first: it wins ties below
    asked, place = np.unique(codes, axis=0, return_inverse=True)
    apart = np.abs(bins[order][None] - asked[:, None]).sum(axis=2)
    nearest = order[np.argmin(apart, axis=1)]
    shares = sparse.csr_array(
        (cells.mass[allowed] / mass[which], (which, allowed)), shape=(len(bins), len(cells.mass))
    )
    entries = shares[nearest[place]].tocoo()
    return *entries.coords, entries.data, (apart.min(axis=1) == 0)[place]


def draw_from_rows(matrix, picks):
    """Column drawn from each row of a sparse matrix of probabilities."""
    columns = np.empty(len(picks), dtype=np.intp)
    for row, pick in enumerate(picks):
        start, end = matrix.indptr[row], matrix.indptr[row + 1]
        totals = np.cumsum(matrix.data[start:end])
        place = np.searchsorted(totals, pick * totals[-1], side="right")
        columns[row] = matrix.indices[start + min(place, end - start - 1)]
    return columns
