"""Wide data: moments in the span of the rows, so that no matrix of features × features is formed.

Means and covariances of n rows live in the at most n − 1 directions in which the rows differ.
Letters: x a row of features, y its coordinates: x = origin + Wᵀy with orthonormal rows W.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse import issparse

from fairpca.linalg import symmetrize
from fairpca.moments._cells import ROUNDING, Cell, FloatArray, centre
from fairpca.moments._table import Table

# Below this many features a matrix of all of them is smaller than the bookkeeping of a span.
MIN_FEATURES = 128
# A direction that sticks out of a span by less than this is rounding.
_OUTSIDE = 1e-12
_COLUMNS_AT_ONCE = 128  # so that nothing beside the basis is as large as the rows


@dataclass(frozen=True, eq=False)
class Span:
    """The points origin + Wᵀy: `origin` (p,) and `basis` W (r, p) with orthonormal rows.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.moments import Span
    >>> Span(np.zeros(3), np.eye(3)[:1]).place(np.array([2.0]))
    array([2., 0., 0.])
    """

    origin: FloatArray
    basis: FloatArray

    def __len__(self) -> int:
        return len(self.basis)

    def place(self, y: FloatArray) -> FloatArray:
        """Return the point with the coordinates y."""
        return self.origin + y @ self.basis

    def spread(self, matrix: FloatArray) -> FloatArray:
        """Diagonal of WᵀMW, feature by feature; zero where there is nothing but rounding."""
        # A feature that only left-out rows made vary leaves what its coordinates do not cancel.
        spread, entries = np.empty(self.basis.shape[1]), np.abs(matrix)
        for start in range(0, len(spread), _COLUMNS_AT_ONCE):
            some = self.basis[:, start : start + _COLUMNS_AT_ONCE]
            found = np.einsum("rp,rp->p", some, matrix @ some)
            sizes = np.abs(some)
            rounding = ROUNDING * np.einsum("rp,rp->p", sizes, entries @ sizes)
            spread[start : start + len(found)] = np.where(np.abs(found) > rounding, found, 0.0)
        return spread

    def lift(self, basis: FloatArray) -> FloatArray:
        """Directions as rows (d, p) from a basis (r + k, d) of the span and k directions outside.

        Which directions outside does not matter: nothing is known of them but zeros.
        """
        inside, outside = basis[: len(self)], basis[len(self) :]
        lifted: FloatArray = inside.T @ self.basis
        if np.linalg.norm(outside) <= _OUTSIDE:
            return lifted
        # A seed that no one's data have: rows drawn by the same numbers lie in the span already.
        start = np.random.default_rng([7, 20, 1018]).normal(
            size=(len(outside), self.basis.shape[1])
        )
        for _ in range(2):
            start = start - (start @ self.basis.T) @ self.basis
        outer: FloatArray = np.linalg.qr(start.T)[0].T
        return lifted + outside.T @ outer

    def embed(self, index: NDArray[np.intp], n_features: int) -> Span:
        """Return the span among more features, zero in all but those at `index`."""
        origin, basis = np.zeros(n_features), np.zeros((len(self), n_features))
        origin[index], basis[:, index] = self.origin, self.basis
        return Span(origin, basis)

    def expand(self, table: Table) -> Table:
        """Moments of the features themselves, with a matrix of p × p for every cell."""
        return move(table, self.basis.T, self.origin)

    def rescale(self, table: Table, mean: FloatArray, scale: FloatArray) -> tuple[Span, Table]:
        """Span and moments of (x − mean) / scale."""
        return self.mapped(table, (self.origin - mean) / scale, self.basis / scale)

    def mapped(
        self, table: Table, origin: FloatArray, directions: FloatArray
    ) -> tuple[Span, Table]:
        """Span and moments of other features, given what they make of origin and basis."""
        constant = ~directions.any(axis=0)
        basis, factor = _orthonormal_rows(directions)
        basis[:, constant] = 0.0
        return Span(origin, basis), move(table, factor, np.zeros(len(basis)))


def find_span(X: Any) -> tuple[Span, FloatArray]:
    """Span of the rows of a matrix, and their coordinates."""
    is_sparse = issparse(X)
    rows = X.toarray() if is_sparse else X
    centred = np.array(rows, dtype=np.float64, order="C")  # its transpose is in LAPACK's order
    ones = np.ones(len(centred))
    origin, rest = centre(centred, ones, float(len(centred)))
    constant = ~centred.any(axis=0)
    basis, factor = _orthonormal_rows(centred)
    basis[:, constant] = 0.0  # exactly, so that the column is seen to be constant
    return Span(origin + rest, basis), factor.T.copy()


def _orthonormal_rows(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Orthonormal rows W of full rank and T with matrix = TᵀW; `matrix` may be overwritten."""
    factors: Any = scipy.linalg.qr(matrix.T, mode="economic", overwrite_a=True, check_finite=False)
    q, r = factors
    left, values, right = np.linalg.svd(r)
    floor = max(matrix.shape) * float(np.finfo(np.float64).eps) * values.max(initial=0.0)
    rank = int(np.count_nonzero(values > floor))
    if rank == len(r):
        return q.T, r
    return (q @ left[:, :rank]).T, values[:rank, None] * right[:rank]


def join(left: Span, right: Span) -> Span:
    """Smallest span that holds both, with the origin and the first directions of `left`."""
    shift = right.origin - left.origin
    length = float(np.linalg.norm(shift))
    others = right.basis if length == 0.0 else np.vstack([right.basis, shift / length])
    for _ in range(2):  # the second round removes what rounding left of the first
        others = others - (others @ left.basis.T) @ left.basis
    _, values, directions = np.linalg.svd(others, full_matrices=False)
    outside = directions[values > _OUTSIDE]
    outside = outside - (outside @ left.basis.T) @ left.basis
    new = np.linalg.qr(outside.T)[0].T if len(outside) else outside
    basis = np.vstack([left.basis, new])
    basis[:, ~(left.basis.any(axis=0) | right.basis.any(axis=0) | (shift != 0.0))] = 0.0
    return Span(left.origin, basis)


def align(
    left: tuple[Table, Span | None], right: tuple[Table, Span | None]
) -> tuple[Span | None, Table, Table]:
    """Bring two tables into the same coordinates; None stands for the features themselves."""
    (mine, old), (theirs, other) = left, right
    n_rows = mine.n_rows + theirs.n_rows
    if old is not None and other is not None and n_rows < old.basis.shape[1]:
        span = join(old, other)
        return span, _move_into(mine, old, span), _move_into(theirs, other, span)
    mine = mine if old is None else old.expand(mine)
    return None, mine, theirs if other is None else other.expand(theirs)


def _move_into(table: Table, old: Span, new: Span) -> Table:
    """Moments in the coordinates of a span that holds the old one."""
    return move(table, new.basis @ old.basis.T, new.basis @ (old.origin - new.origin))


def move(table: Table, T: FloatArray, t: FloatArray) -> Table:
    """Moments of Ty + t."""
    return replace(table, cells={key: _move_cell(cell, T, t) for key, cell in table.cells.items()})


def _move_cell(cell: Cell, T: FloatArray, t: FloatArray) -> Cell:
    return replace(
        cell,
        mean=T @ (cell.mean + cell.mean_rest) + t,
        mean_rest=np.zeros(len(t)),
        scatter=symmetrize(T @ cell.scatter @ T.T),
        cross=cell.cross @ T.T,
        third=symmetrize(T @ cell.third @ T.T),
    )
