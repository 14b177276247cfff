"""Optimised preprocessing (Calmon et al. 2017) with the choices of the paper: tables 3, 4 and 5.

The features most correlated with the label are cut into bins. A cell is a combination of bins with
a label; a source is a cell with a group. A linear program finds the randomised mapping of sources
to cells that changes the distribution of the cells least, such that the label depends little on
the group and no cell is distorted much. Distortion is 0 where nothing changes, 0.5 where the label
is kept and no feature moves by more than one bin, else 1.

All moves of distortion 1 cost the same wherever they go, so they need no variable each: they pass
through one pool per group, which deals its mass out to all cells. Every mapping has such a form
with the same objective, and every solution of this form is a mapping whose distortion is no
larger. So the program has 27 variables per source at most instead of one for each pair of cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog
from scipy.spatial import cKDTree

Array = NDArray[np.float64]
Index = NDArray[np.intp]

N_SELECTED, N_BINS = 3, 8
PARITY_BOUND = 0.3

# Among mappings of equal deviation the one of least distortion is wanted. A unit of deviation is
# worth more than any chain of moves across the grid, so the order of the two aims is kept.
_DISTORTION_PENALTY = 1e-4


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
        """Number of groups."""
        return int(self.group.max()) + 1

    @property
    def cell_mass(self) -> Array:
        """Share of the rows in each cell."""
        return np.bincount(self.cell, self.mass, len(self.bins)).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Mapping:
    """A randomised mapping from sources to cells."""

    near: Any  # sparse, (n_sources, n_cells): short moves, staying included
    far: Array  # (n_sources,): probability of a move through the pool of the group
    pool: Array  # (n_groups, n_cells): where the pool of each group sends its mass
    deviation: float  # total variation between old and new distribution of the cells


@dataclass(frozen=True, eq=False)
class _Moves:
    """Short moves as pairs of a source and a cell."""

    source: Index
    cell: Index
    distortion: Array


def solve_mapping(
    cells: Cells, distortion_bound: float, parity_bound: float
) -> tuple[Mapping, float]:
    """Find the mapping of least deviation; the bound on distortion is raised where it must be."""
    moves = _short_moves(cells)
    result = _solve(cells, moves, parity_bound, distortion_bound)
    if result is None:
        smallest = float(_solve(cells, moves, parity_bound, None)[-1])
        # Rounded up: the bound must itself be feasible in floating point.
        distortion_bound = min(float(np.ceil(smallest * 1e4 + 1e-2)) / 1e4, 1.0)
        result = _solve(cells, moves, parity_bound, distortion_bound)
    return _as_mapping(cells, moves, result), distortion_bound


def _short_moves(cells: Cells) -> _Moves:
    # A label apart is further than any neighbour, so one search finds the allowed pairs.
    points = np.column_stack([cells.bins, 10.0 * cells.labels])
    pairs = cKDTree(points).query_pairs(1.0 + 1e-9, p=np.inf, output_type="ndarray")
    stay = np.arange(len(points))
    start = np.concatenate([stay, pairs[:, 0], pairs[:, 1]])
    end = np.concatenate([stay, pairs[:, 1], pairs[:, 0]])
    reach = sparse.csr_array((np.ones(len(start)), (start, end)))[cells.cell].tocoo()
    source, cell = (np.array(index, dtype=np.intp) for index in reach.coords)
    return _Moves(source, cell, np.where(cells.cell[source] == cell, 0.0, 0.5))


def _solve(cells: Cells, moves: _Moves, parity_bound: float, distortion_bound: Any) -> Any:
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
        moved = _DISTORTION_PENALTY * np.append(moves.distortion, np.ones(n_sources))
        cost = np.concatenate([moved, np.zeros(sizes[2]), np.full(2 * n_cells, 0.5)])
    result = linprog(
        cost,
        A_ub=sparse.vstack([distortion, label_upper]).tocsc(),
        b_ub=np.concatenate([bound, label_right]),
        A_eq=equal.tocsc(),
        b_eq=right,
        bounds=(0.0, None),
        method="highs",
    )
    if result.x is None and result.status != 2:
        raise RuntimeError(f"the linear program could not be solved: {result.message}")
    return result.x  # None where no mapping meets the bounds


def _balance(cells: Cells, moves: _Moves, sizes: tuple[int, ...]) -> tuple[Any, Array]:
    """Mass is kept: of each source, of each pool, and of each cell up to the deviation."""
    n_sources, n_cells, n_groups = len(cells.mass), len(cells.bins), cells.n_groups
    ones, columns = np.ones(len(moves.source)), np.arange(len(moves.source))
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


def _parity(
    cells: Cells, moves: _Moves, sizes: tuple[int, ...], parity_bound: float
) -> tuple[Any, Array]:
    """|P(label | group) / P(label) − 1| <= parity_bound, as two rows for each pair."""
    group_mass = np.bincount(cells.group, cells.mass)
    label_mass = np.bincount(cells.labels, cells.cell_mass, minlength=2)
    rows, right = [], []
    for group in range(cells.n_groups):
        for label in (0, 1):
            row = np.zeros(sum(sizes))
            row[: sizes[0]] = (cells.group[moves.source] == group) & (
                cells.labels[moves.cell] == label
            )
            pool = row[sizes[0] + sizes[1] :][: sizes[2]].reshape(cells.n_groups, -1)
            pool[group] = cells.labels == label
            share = label_mass[label] * group_mass[group]
            rows += [row, -row]
            right += [(1.0 + parity_bound) * share, -(1.0 - parity_bound) * share]
    return sparse.csr_array(np.array(rows)), np.array(right)


def _distortion(cells: Cells, moves: _Moves, sizes: tuple[int, ...]) -> Any:
    """Sum the distortion of each cell, groups together."""
    n_cells, n_sources = len(cells.bins), len(cells.mass)
    places = (cells.cell[moves.source], np.arange(len(moves.source)))
    short = sparse.csr_array((moves.distortion, places), shape=(n_cells, sizes[0]))
    far = sparse.csr_array(
        (np.ones(n_sources), (cells.cell, np.arange(n_sources))), shape=(n_cells, n_sources)
    )
    return sparse.hstack([short, far, sparse.csr_array((n_cells, sum(sizes[2:])))])


def _as_mapping(cells: Cells, moves: _Moves, masses: Array) -> Mapping:
    n_sources, n_cells, n_groups = len(cells.mass), len(cells.bins), cells.n_groups
    ends = np.cumsum([len(moves.source), n_sources, n_groups * n_cells, n_cells, n_cells])
    short, far, pool, up, down = np.split(np.maximum(masses, 0.0), ends)[:5]
    pool = pool.reshape(n_groups, n_cells)
    # Rounding: what a source sends out must add up to one again.
    total = np.bincount(moves.source, short, minlength=n_sources) + far
    near = sparse.csr_array(
        (short / total[moves.source], (moves.source, moves.cell)), shape=(n_sources, n_cells)
    )
    near.eliminate_zeros()
    used = pool.sum(axis=1, keepdims=True)
    pool = np.where(used > 0.0, pool / np.where(used > 0.0, used, 1.0), 1.0 / n_cells)
    return Mapping(near, far / total, pool, 0.5 * float(np.sum(up + down)))


@dataclass(frozen=True, eq=False)
class Binning:
    """Inner edges of bins of equal width, and the mean of the rows in each bin."""

    edges: list[Array]
    values: list[Array]

    @classmethod
    def fit(cls, X: Array, n_bins: int) -> Binning:
        """Learn bins from rows."""
        edges, values = [], []
        for column in X.T:
            inner = np.unique(np.linspace(column.min(), column.max(), n_bins + 1)[1:-1])
            inner = inner[inner > column.min()]  # none where the column is constant
            codes = np.searchsorted(inner, column, side="right")
            mass = np.bincount(codes, minlength=len(inner) + 1)
            sums = np.bincount(codes, column, minlength=len(inner) + 1)
            bounds = np.concatenate([[column.min()], inner, [column.max()]])
            middle = 0.5 * (bounds[1:] + bounds[:-1])
            values.append(np.where(mass > 0, sums / np.maximum(mass, 1), middle))
            edges.append(inner)
        return cls(edges, values)

    def codes(self, X: Array) -> Index:
        """Bin of each value; values beyond the training range fall into the outer bins."""
        columns = zip(self.edges, X.T, strict=True)
        return np.column_stack([np.searchsorted(e, column, side="right") for e, column in columns])

    def decode(self, codes: Index) -> Array:
        """Value that stands for each bin."""
        columns = zip(self.values, codes.T, strict=True)
        return np.column_stack([values[column] for values, column in columns])


class CalmonPreprocessor:
    """Map rows at random so that the label depends less on the group; see the module.

    The bound on distortion is 0.1, or the smallest feasible one (`distortion_bound_`).
    """

    def __init__(
        self,
        *,
        n_bins: int = N_BINS,
        distortion_bound: float = 0.1,
        parity_bound: float = PARITY_BOUND,
        seed: int = 0,
    ) -> None:
        self.n_bins = n_bins
        self.distortion_bound = distortion_bound
        self.parity_bound = parity_bound
        self.seed = seed

    def fit(self, X: Array, y: Any, z: Index) -> CalmonPreprocessor:
        """Learn the mapping from rows, labels of two classes, and groups 0, 1, …."""
        self.classes_, labels = np.unique(y, return_inverse=True)
        self.selected_ = _most_correlated(X, labels, N_SELECTED)
        X = X[:, self.selected_]
        self.binning_ = Binning.fit(X, self.n_bins)
        self.cells_ = _observed_cells(self.binning_.codes(X), labels, z)
        self.mapping_, self.distortion_bound_ = solve_mapping(
            self.cells_, self.distortion_bound, self.parity_bound
        )
        return self

    def transform(self, X: Array, z: Index) -> Array:
        """Map rows whose label is not known: it is averaged over, as it occurred in that cell."""
        return self._map(X, None, z)[0]

    def transform_pairs(self, X: Array, y: Any, z: Index) -> tuple[Array, Any]:
        """Map training rows together with their labels."""
        values, labels = self._map(X, np.searchsorted(self.classes_, y), z)
        return values, self.classes_[labels]

    def _map(self, X: Array, labels: Index | None, z: Index) -> tuple[Array, Index]:
        codes = self.binning_.codes(X[:, self.selected_])
        cell = self._draw(self._sources(codes, labels, z))
        return self.binning_.decode(self.cells_.bins)[cell], self.cells_.labels[cell]

    def _sources(self, codes: Index, labels: Index | None, z: Index) -> Any:
        """For each row the probabilities of the sources it may be."""
        cells, entries = self.cells_, []
        known = np.zeros(len(codes), dtype=np.intp) if labels is None else labels
        for label, group in np.unique(np.column_stack([known, z]), axis=0):
            rows = np.flatnonzero((known == label) & (z == group))
            allowed = np.ones(len(cells.mass), dtype=bool)
            if labels is not None:
                allowed &= cells.labels[cells.cell] == label
            if (allowed & (cells.group == group)).any():
                allowed &= cells.group == group
            row, source, share = _source_shares(codes[rows], cells, np.flatnonzero(allowed))
            entries.append((rows[row], source, share))
        row, source, share = (np.concatenate(parts) for parts in zip(*entries, strict=True))
        return sparse.csr_array((share, (row, source)), shape=(len(codes), len(cells.mass)))

    def _draw(self, mixture: Any) -> Index:
        """Draw a source for each row, then a cell from its short moves or its pool."""
        picks = np.random.RandomState(self.seed).uniform(size=(mixture.shape[0], 2))
        source = _draw_from_rows(mixture, picks[:, 0])
        near, far = self.mapping_.near, self.mapping_.far
        cell = np.empty(len(source), dtype=np.intp)
        pooled = picks[:, 1] < far[source]
        scaled = (picks[:, 1] - far[source]) / np.where(pooled, 1.0, 1.0 - far[source])
        cell[~pooled] = _draw_from_rows(near[source[~pooled]], scaled[~pooled])
        share = picks[pooled, 1] / far[source[pooled]]
        totals = np.cumsum(self.mapping_.pool, axis=1)
        pairs = zip(self.cells_.group[source[pooled]], share, strict=True)
        places = [np.searchsorted(totals[group], u, side="right") for group, u in pairs]
        cell[pooled] = np.minimum(np.array(places, dtype=np.intp), totals.shape[1] - 1)
        return cell


def _most_correlated(X: Array, labels: Index, count: int) -> Index:
    """Features by falling absolute correlation with the label; constant ones come last."""
    centred, target = X - X.mean(axis=0), labels - labels.mean()
    spread = np.sqrt((centred**2).mean(axis=0))
    usable = spread > 1e-12 * np.maximum(np.abs(X.mean(axis=0)), 1e-300)
    correlation = np.abs(target @ centred) / len(X) / np.where(usable, spread, 1.0)
    # Rounded, so that exact ties are broken by position and not by the last digit.
    order = np.argsort(-np.round(np.where(usable, correlation, 0.0), 12), kind="stable")
    return order[:count]


def _observed_cells(codes: Index, labels: Index, groups: Index) -> Cells:
    """Cells and sources in which there are rows."""
    cells, cell = np.unique(np.column_stack([codes, labels]), axis=0, return_inverse=True)
    sources, source = np.unique(np.column_stack([cell, groups]), axis=0, return_inverse=True)
    mass = np.bincount(source)
    return Cells(cells[:, :-1], cells[:, -1], sources[:, 0], sources[:, 1], mass / mass.sum())


def _source_shares(codes: Index, cells: Cells, allowed: Index) -> tuple[Any, Any, Any]:
    """Entries (row, source, probability) over the allowed sources of the nearest observed bins."""
    bins, which = np.unique(cells.bins[cells.cell[allowed]], axis=0, return_inverse=True)
    mass = np.bincount(which, cells.mass[allowed])
    order = np.argsort(-mass, kind="stable")  # the most frequent first: it wins ties below
    distinct, place = np.unique(codes, axis=0, return_inverse=True)
    apart = np.abs(bins[order][None] - distinct[:, None]).sum(axis=2)
    nearest = order[np.argmin(apart, axis=1)]
    shares = sparse.csr_array(
        (cells.mass[allowed] / mass[which], (which, allowed)), shape=(len(bins), len(cells.mass))
    )
    entries = shares[nearest[place]].tocoo()
    return *entries.coords, entries.data


def _draw_from_rows(matrix: Any, picks: Array) -> Index:
    """Column drawn from each row of a sparse matrix of probabilities."""
    columns = np.empty(len(picks), dtype=np.intp)
    for row, pick in enumerate(picks):
        start, end = matrix.indptr[row], matrix.indptr[row + 1]
        totals = np.cumsum(matrix.data[start:end])
        place = np.searchsorted(totals, pick * totals[-1], side="right")
        columns[row] = matrix.indices[start + min(place, end - start - 1)]
    return columns
