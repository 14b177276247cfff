"""From rows to observed cells and back."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from fairpca.baselines._transport import Cells


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
    """Probabilities of the allowed sources for each row, and whether the row's cell is seen.

    Returns the row, source and probability of each entry, and one flag for each row.
    """
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
