"""Linear maps of features: wide rows in their span, standardised features, imputed values.

Wide data: means and covariances of n rows live in the at most n − 1 directions in which the rows
differ, so that no matrix of features × features is formed.
Letters: x a row of features, y its coordinates: x = origin + Wᵀy with orthonormal rows W.

Missing values: the mean that stands for them is known at the end only. Until then a feature x holds
`fill` where its value is missing, and its indicator r, a feature after all others, is one there.
With m the mean of the known values x + (m − fill) r is the imputed feature: a linear function,
whose moments follow from those of x and r, exactly and in one pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack, issparse

from fairpca.moments._cells import (
    ROUNDING,
    FloatArray,
    Standardization,
    centre,
    map_features,
    merge,
)
from fairpca.moments._table import CellTable
from fairpca.rows._checks import no_value_error

# Below this many features a matrix of all of them is smaller than the bookkeeping of a span.
MIN_FEATURES = 128
# A direction that sticks out of a span by less than this is rounding.
_OUTSIDE = 1e-12
_CLOSE = 1e-9  # relative, of the variance of zeros and ones
_COLUMNS_AT_ONCE = 128  # so that only the basis is as large as the rows


@dataclass(frozen=True, eq=False)
class Span:
    """The points origin + Wᵀy: `origin` (p,) and `basis` W (r, p) with orthonormal rows."""

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
            diagonal = np.einsum("rp,rp->p", some, matrix @ some)
            sizes = np.abs(some)
            rounding = ROUNDING * np.einsum("rp,rp->p", sizes, entries @ sizes)
            spread[start : start + len(diagonal)] = np.where(
                np.abs(diagonal) > rounding, diagonal, 0.0
            )
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

    def expand(self, table: CellTable) -> CellTable:
        """Moments of the features themselves, with a matrix of p × p for every cell."""
        return move(table, self.basis.T, self.origin)

    def mapped(self, table: CellTable, origin: FloatArray, directions: FloatArray) -> Content:
        """Moments and span of other features, from what they make of origin and basis."""
        constant = ~directions.any(axis=0)
        basis, factor = _orthonormal_rows(directions)
        basis[:, constant] = 0.0
        return move(table, factor, np.zeros(len(basis))), Span(origin, basis)


Content: TypeAlias = tuple[CellTable, Span | None]
"""Cells, in the coordinates of a span where there is one."""


def find_span(X: Any) -> tuple[Span, FloatArray]:
    """Span of the rows of a matrix, and their coordinates."""
    is_sparse = issparse(X)
    rows = X.toarray() if is_sparse else X
    centred = np.array(rows, dtype=np.float64, order="C")  # its transpose is in LAPACK's order
    ones = np.ones(len(centred))
    origin, _ = centre(centred, ones, float(len(centred)))
    constant = ~centred.any(axis=0)
    basis, factor = _orthonormal_rows(centred)
    basis[:, constant] = 0.0  # exactly, so that the column is seen to be constant
    return Span(origin, basis), factor.T.copy()


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


def align_spans(left: Content, right: Content) -> tuple[Span | None, CellTable, CellTable]:
    """Bring two tables into the same coordinates; None stands for the features themselves."""
    (mine, old), (theirs, other) = left, right
    n_rows = sum(cell.n_rows for table in (mine, theirs) for cell in table.cells.values())
    if old is not None and other is not None and n_rows < old.basis.shape[1]:
        span = join(old, other)
        mine, theirs = (
            move(table, span.basis @ part.basis.T, span.basis @ (part.origin - span.origin))
            for table, part in ((mine, old), (theirs, other))
        )
        return span, mine, theirs
    mine = mine if old is None else old.expand(mine)
    return None, mine, theirs if other is None else other.expand(theirs)


def move(table: CellTable, T: FloatArray, t: FloatArray) -> CellTable:
    """Moments of Ty + t."""

    def place(mean: FloatArray, rest: FloatArray) -> FloatArray:
        return np.asarray(T @ mean + t)  # the rest is less than its rounding

    return table.map(lambda cell: map_features(cell, lambda values: values @ T.T, place))


def embed(content: Content, index: NDArray[np.intp], size: int) -> Content:
    """Move features to the places `index` among `size`, zero elsewhere."""

    def spread(values: FloatArray) -> FloatArray:
        among = np.zeros((*values.shape[:-1], size))
        among[..., index] = values
        return among

    table, span = content
    if span is not None:
        return table, Span(spread(span.origin), spread(span.basis))
    return table.map(lambda cell: map_features(cell, spread)), None


def rescale(content: Content, by: Standardization) -> Content:
    """Moments of (x − mean) / scale, feature by feature."""
    table, span = content
    centre, scale = by
    if span is not None:
        return span.mapped(table, (span.origin - centre) / scale, span.basis / scale)

    def place(mean: FloatArray, rest: FloatArray) -> FloatArray:
        return np.asarray(((mean - centre) + rest) / scale)

    # Products are divided by one scale after the other: the product of two may underflow.
    return table.map(lambda cell: map_features(cell, lambda values: values / scale, place)), None


def find_scaling(
    mean: FloatArray, covariance: FloatArray, span: Span | None, one_hot: Sequence[int] = ()
) -> Standardization:
    """Mean and deviation, 1 where constant; of the features in `one_hot` the root of the mean."""
    variance = np.diag(covariance)
    if span is not None:
        mean, variance = span.place(mean), span.spread(covariance)
    deviation = np.sqrt(np.maximum(variance, 0.0))
    scale = np.where(deviation <= ROUNDING * np.abs(mean), 1.0, deviation)
    indicators = list(one_hot)
    scale[indicators] = np.sqrt(mean[indicators])
    return Standardization(mean, scale)


def find_one_hot(mean: FloatArray, covariance: FloatArray, span: Span | None) -> tuple[int, ...]:
    """Find the features that are zeros and ones, of which two are never one together."""
    variance = np.diag(covariance)
    if span is not None:
        mean, variance = span.place(mean), span.spread(covariance)
    # Zeros and ones have the variance m(1 − m), the largest that values between them can have;
    # where two are never one together their covariance is −mn.
    inside = (mean > 0.0) & (mean < 1.0)
    allowed = mean * (1.0 - mean)
    binary = np.flatnonzero(inside & (np.abs(variance - allowed) <= _CLOSE * mean))
    if span is None:
        block = covariance[np.ix_(binary, binary)]
    else:
        block = span.basis[:, binary].T @ covariance @ span.basis[:, binary]
    product = np.outer(mean[binary], mean[binary])
    return tuple(binary[(np.abs(block + product) <= _CLOSE * product).any(axis=1)].tolist())


@dataclass(frozen=True, eq=False)
class MissingIndicators:
    """Columns with missing values, whose indicators follow the features, and what fills them."""

    columns: tuple[str, ...]  # (p,): the column that each feature comes from
    incomplete: tuple[str, ...]  # (q,): columns with missing values, sorted
    fill: FloatArray  # (p,)

    @property
    def features(self) -> NDArray[np.intp]:
        """Places of the features that have an indicator."""
        known = set(self.incomplete)
        return np.array([i for i, c in enumerate(self.columns) if c in known], dtype=np.intp)

    @property
    def places(self) -> NDArray[np.intp]:
        """Places of their indicators among all features."""
        place = {column: len(self.columns) + i for i, column in enumerate(self.incomplete)}
        return np.array([place[self.columns[i]] for i in self.features], dtype=np.intp)


def fill_missing(
    X: Any, columns: Sequence[str], masks: Mapping[str, NDArray[np.bool_]] | None = None
) -> tuple[Any, MissingIndicators]:
    """Fill NaN with the mean of the rows at hand (sparse: zero), and append indicators."""
    names, is_sparse = tuple(columns), issparse(X)
    if masks is None:
        by_column = X.tocsc() if is_sparse else X
        marks = (
            np.isnan(by_column[:, [i]].toarray()[:, 0] if is_sparse else X[:, i])
            for i in range(len(names))
        )
        masks = {name: mask for name, mask in zip(names, marks, strict=True) if mask.any()}
    indicators = MissingIndicators(names, tuple(sorted(masks)), np.zeros(len(names)))
    ones = [masks[column].astype(X.dtype)[:, None] for column in indicators.incomplete]
    if is_sparse:
        values = np.where(np.isnan(X.data), 0.0, X.data)
        filled = csr_array((values, X.indices, X.indptr), X.shape)
        return csr_array(hstack([filled, *map(csr_array, ones)])), indicators
    filled = X.copy(order="K")
    for index in indicators.features:
        mask = masks[names[index]]
        if not mask.all():
            indicators.fill[index] = X[~mask, index].mean(dtype=np.float64)
        filled[mask, index] = indicators.fill[index]
    return np.concatenate([filled, *ones], axis=1), indicators


def merge_indicators(
    left: tuple[Content, MissingIndicators | None], right: tuple[Content, MissingIndicators | None]
) -> tuple[Content, Content, MissingIndicators | None]:
    """Give both the indicators of either, and the same values in the places of missing ones."""
    some = right[1] if left[1] is None else left[1]
    if some is None:
        return left[0], right[0], None
    none = replace(some, incomplete=(), fill=np.zeros(len(some.columns)))
    before = [indicators or none for _, indicators in (left, right)]
    incomplete = tuple(sorted({*before[0].incomplete, *before[1].incomplete}))
    mine, ours = _with_indicators(left[0], before[0], incomplete)
    theirs, others = _with_indicators(right[0], before[1], incomplete)
    fill = np.where(_vote(mine, ours) >= _vote(theirs, others), ours.fill, others.fill)
    return _refill(mine, ours, fill), _refill(theirs, others, fill), replace(ours, fill=fill)


def complete(content: Content, indicators: MissingIndicators) -> Content:
    """Moments of the features, with the mean of the known values for missing ones."""
    mean, share = filled_means(content, indicators)
    if (share >= 1.0).any():
        raise no_value_error(indicators.incomplete[int(np.argmax(share))])
    fill = indicators.fill.copy()
    features = indicators.features
    known = 1.0 - share[indicators.places - len(indicators.columns)]
    fill[features] += (mean[features] - fill[features]) / known
    return _without_indicators(_refill(content, indicators, fill), len(indicators.columns))


def with_zeros(content: Content, indicators: MissingIndicators) -> Content:
    """Moments of the features, with zero for missing values: indicators stay zeros and ones."""
    filled = _refill(content, indicators, np.zeros_like(indicators.fill))
    return _without_indicators(filled, len(indicators.columns))


def _without_indicators(content: Content, p: int) -> Content:
    table, span = content
    if span is not None:
        return span.mapped(table, span.origin[:p], span.basis[:, :p])
    return table.map(lambda cell: map_features(cell, lambda values: values[..., :p].copy())), None


def filled_means(content: Content, indicators: MissingIndicators) -> tuple[FloatArray, FloatArray]:
    """Return the means of the features as they are filled, and of the indicators."""
    table, span = content
    whole = merge(list(table.cells.values()))
    mean = whole.mean if span is None else span.place(whole.mean)
    p = len(indicators.columns)
    share = mean[p:].copy()
    share[share > 1.0 - 1e-12] = 1.0
    return mean[:p], share


def _vote(content: Content, indicators: MissingIndicators) -> FloatArray:
    """Weight of the rows behind each fill value; −1 where no value is missing."""
    table, _ = content
    votes = np.full(len(indicators.columns), -1.0)
    if table.cells:
        weight = sum(cell.weight for cell in table.cells.values())
        share = filled_means(content, indicators)[1][indicators.places - len(indicators.columns)]
        votes[indicators.features] = np.where(share > 0.0, weight * (1.0 - share), -1.0)
    return votes


def _with_indicators(
    content: Content, indicators: MissingIndicators, incomplete: tuple[str, ...]
) -> tuple[Content, MissingIndicators]:
    """Add indicators that are zero in all rows, and bring all into one order."""
    if indicators.incomplete == incomplete:
        return content, indicators
    p = len(indicators.columns)
    places = [p + incomplete.index(column) for column in indicators.incomplete]
    index = np.array([*range(p), *places], dtype=np.intp)
    return embed(content, index, p + len(incomplete)), replace(indicators, incomplete=incomplete)


def _refill(content: Content, indicators: MissingIndicators, fill: FloatArray) -> Content:
    """Moments of features that hold another value where theirs is missing."""
    table, span = content
    features, places = indicators.features, indicators.places
    change = (fill - indicators.fill)[features]
    if not change.any():
        return content

    def added(values: FloatArray) -> FloatArray:
        moved = values.copy()
        moved[..., features] += change * moved[..., places]
        return moved

    if span is not None:
        return span.mapped(table, added(span.origin), added(span.basis))
    return table.map(lambda cell: map_features(cell, added)), None
