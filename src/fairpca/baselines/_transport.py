"""Optimised preprocessing: bins, observed cells, and the linear program over them.

A cell is a combination of bins with a label; a source is a cell with a group. Mass of a source
may stay or move to a neighbouring cell of the same label (distortion 0 or 0.5), or move anywhere
(distortion 1). All moves of distortion 1 cost the same wherever they go, so they need no variable
each: they pass through one pool per group, which deals its mass out to all cells. Every mapping
has such a form with the same objective, and every solution of this form is a mapping whose
distortion is no larger. So the program has 27 variables per source at most instead of one for
each pair of cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog
from scipy.spatial import cKDTree

from fairpca.exceptions import InfeasibleError
from fairpca.linalg import Array

Index: TypeAlias = NDArray[np.intp]

# Among mappings of equal deviation the one of least distortion is wanted. A unit of deviation is
# worth more than any chain of moves across the grid, so the order of the two aims is kept.
_DISTORTION_PRICE = 1e-4


@dataclass(frozen=True, eq=False)
class Cells:
    """Observed cells and sources."""

    bins: Index  # (n_cells, k)
    labels: Index  # (n_cells,): 0 or 1
    cell: Index  # (n_sources,): cell of each source
    group: Index  # (n_sources,)
    mass: Array  # (n_sources,): share of the rows, adding up to 1

    @property
    def n_groups(self) -> int:
        return int(self.group.max()) + 1

    @property
    def cell_mass(self) -> Array:
        return _sums(self.cell, self.mass, len(self.bins))


@dataclass(frozen=True, eq=False)
class Mapping:
    """A randomised mapping from sources to cells."""

    near: sparse.csr_array  # (n_sources, n_cells): short moves, staying included
    far: Array  # (n_sources,): probability of a move through the pool of the group
    pool: Array  # (n_groups, n_cells): where the pool of each group sends its mass
    deviation: float  # total variation between old and new distribution of the cells

    def expectation(self, values: Array, group: Index) -> Array:
        """Return the expected value of a function of the new cell, for each source."""
        return self.near @ values + self.far[:, None] * (self.pool @ values)[group]


@dataclass(frozen=True, eq=False)
class _Moves:
    """Short moves as pairs of a source and a cell."""

    source: Index
    cell: Index
    distortion: Array


def solve_mapping(cells: Cells, distortion_bound: float, parity_bound: float) -> Mapping:
    """Find the mapping of least deviation, and of least distortion among those."""
    moves = _short_moves(cells)
    result = _solve(cells, moves, parity_bound, distortion_bound)
    if result is None:
        smallest = float(_solve(cells, moves, parity_bound, None)[-1])
        # Rounded up: the number stated must itself be feasible in floating point.
        smallest = min(float(np.ceil(smallest * 1e4 + 1e-2)) / 1e4, 1.0)
        raise InfeasibleError(
            f"no mapping meets distortion_bound={distortion_bound:g} together with "
            f"parity_bound={parity_bound:g} on these data. The smallest feasible distortion_bound "
            f"is {smallest:g}: raise it to that, or raise parity_bound.",
            minimum=smallest,
        )
    return _as_mapping(cells, moves, result)


def _short_moves(cells: Cells) -> _Moves:
    # A label apart is further than any neighbour, so one search finds the allowed pairs.
    points = np.column_stack([cells.bins, 10.0 * cells.labels])
    tree = cKDTree(points)
    pairs = tree.query_pairs(1.0 + 1e-9, p=np.inf, output_type="ndarray")
    stay = np.arange(len(points))
    start = np.concatenate([stay, pairs[:, 0], pairs[:, 1]])
    end = np.concatenate([stay, pairs[:, 1], pairs[:, 0]])
    reach = sparse.csr_array((np.ones(len(start)), (start, end)))[cells.cell].tocoo()
    source, cell = (np.array(index, dtype=np.intp) for index in reach.coords)
    return _Moves(source, cell, np.where(cells.cell[source] == cell, 0.0, 0.5))


def _solve(cells, moves, parity_bound, distortion_bound):
    """Masses (moves, far, pool, ups, downs); without a bound the smallest one comes last."""
    n_sources, n_cells, n_groups = len(cells.mass), len(cells.bins), cells.n_groups
    sizes = (len(moves.source), n_sources, n_groups * n_cells, n_cells, n_cells)
    equal, right = _balance(cells, moves, sizes)
    label_upper, label_right = _parity(cells, moves, sizes, parity_bound)
    distortion = _distortion(cells, moves, sizes)
    if distortion_bound is None:
        distortion = sparse.hstack([distortion, sparse.csr_array(-cells.cell_mass[:, None])])
        equal = sparse.hstack([equal, sparse.csr_array((equal.shape[0], 1))])
        label_upper = sparse.hstack([label_upper, sparse.csr_array((label_upper.shape[0], 1))])
        bound = np.zeros(n_cells)
        cost = np.append(np.zeros(sum(sizes)), 1.0)
    else:
        bound = distortion_bound * cells.cell_mass
        price = [_DISTORTION_PRICE * moves.distortion, np.full(n_sources, _DISTORTION_PRICE)]
        cost = np.concatenate([*price, np.zeros(sizes[2]), np.full(2 * n_cells, 0.5)])
    result = linprog(
        cost,
        A_ub=sparse.vstack([distortion, label_upper]).tocsc(),
        b_ub=np.concatenate([bound, label_right]),
        A_eq=equal.tocsc(),
        b_eq=right,
        bounds=(0.0, None),
        method="highs",
    )
    if result.status == 2:
        return None
    if result.x is None:
        raise RuntimeError(f"the linear program could not be solved: {result.message}")
    return result.x


def _balance(cells, moves, sizes):
    """Mass is kept: of each source, of each pool, and of each cell up to the deviation."""
    n_sources, n_cells, n_groups = len(cells.mass), len(cells.bins), cells.n_groups
    ones = np.ones(len(moves.source))
    columns = np.arange(len(moves.source))
    leave = sparse.csr_array((ones, (moves.source, columns)), shape=(n_sources, sizes[0]))
    arrive = sparse.csr_array((ones, (moves.cell, columns)), shape=(n_cells, sizes[0]))
    into_pool = sparse.csr_array(
        (np.ones(n_sources), (cells.group, np.arange(n_sources))), shape=(n_groups, n_sources)
    )
    cell_eye = sparse.eye_array(n_cells)
    out_of_pool = sparse.kron(sparse.eye_array(n_groups), np.ones((1, n_cells)))
    dealt = sparse.hstack([cell_eye] * n_groups)
    blocks: Any = [
        [leave, sparse.eye_array(n_sources), None, None, None],
        [None, into_pool, -out_of_pool, None, None],
        [arrive, None, dealt, -cell_eye, cell_eye],
    ]
    matrix: Any = sparse.block_array(blocks)
    return matrix, np.concatenate([cells.mass, np.zeros(n_groups), cells.cell_mass])


def _parity(cells, moves, sizes, parity_bound):
    """|P(label | group) / P(label) − 1| <= parity_bound, as two rows for each pair."""
    n_groups = cells.n_groups
    group_mass = np.bincount(cells.group, cells.mass)
    label_mass = np.bincount(cells.labels, cells.cell_mass, minlength=2)
    rows, right = [], []
    for group in range(n_groups):
        for label in (0, 1):
            row = np.zeros(sum(sizes))
            row[: sizes[0]] = (cells.group[moves.source] == group) & (
                cells.labels[moves.cell] == label
            )
            pool = row[sizes[0] + sizes[1] :][: sizes[2]].reshape(n_groups, -1)
            pool[group] = cells.labels == label
            share = label_mass[label] * group_mass[group]
            rows += [row, -row]
            right += [(1.0 + parity_bound) * share, -(1.0 - parity_bound) * share]
    return sparse.csr_array(np.array(rows)), np.array(right)


def _distortion(cells, moves, sizes):
    """Sum the distortion of each cell, groups together."""
    n_cells, n_sources = len(cells.bins), len(cells.mass)
    columns = np.arange(len(moves.source))
    shape = (n_cells, sizes[0])
    short = sparse.csr_array((moves.distortion, (cells.cell[moves.source], columns)), shape=shape)
    far = sparse.csr_array(
        (np.ones(n_sources), (cells.cell, np.arange(n_sources))), shape=(n_cells, n_sources)
    )
    return sparse.hstack([short, far, sparse.csr_array((n_cells, sum(sizes[2:])))])


def _as_mapping(cells, moves, masses):
    n_sources, n_cells, n_groups = len(cells.mass), len(cells.bins), cells.n_groups
    ends = np.cumsum([len(moves.source), n_sources, n_groups * n_cells, n_cells, n_cells])
    short, far, pool, up, down = np.split(np.maximum(masses, 0.0), ends)[:5]
    pool = pool.reshape(n_groups, n_cells)
    # Rounding: what a source sends out must add up to one again.
    total = _sums(moves.source, short, n_sources) + far
    near = sparse.csr_array(
        (short / total[moves.source], (moves.source, moves.cell)), shape=(n_sources, n_cells)
    )
    near.eliminate_zeros()
    used = pool.sum(axis=1, keepdims=True)
    pool = np.where(used > 0.0, pool / np.where(used > 0.0, used, 1.0), 1.0 / n_cells)
    return Mapping(near, far / total, pool, 0.5 * float(np.sum(up + down)))


def _sums(index: Index, values: Array, length: int) -> Array:
    return np.bincount(index, values, minlength=length).astype(np.float64)


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
