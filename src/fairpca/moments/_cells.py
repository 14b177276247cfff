"""Moments of one set of rows about its own mean, dense or sparse, and their exact merging.

Centring would fill a sparse matrix, and without centring a large mean costs digits. Both are
avoided by looking at how full a column is. In a column that is at most half full the zeros
themselves keep the variance above half the mean square, so subtracting the mean afterwards costs
one bit at most. A column that is more than half full is centred as a dense one, which at most
doubles its storage.

Letters: x a row of features, z a row of numeric attributes, w a weight (of a row, or the sum of a
part), a and b the distance of a part's mean of x and of z from the mean of the whole, u the weight
times a centred numeric attribute.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array, diags_array, hstack, issparse

from fairpca.exceptions import InvalidInputError
from fairpca.linalg import symmetrize
from fairpca.rows import Groups
from fairpca.rows._checks import rows_at_once

if TYPE_CHECKING:
    from fairpca.moments._targets import TargetMoments

FloatArray: TypeAlias = NDArray[np.float64]

# A deviation below this share of the mean is rounding, not variation.
ROUNDING = 16 * float(np.finfo(np.float64).eps)
_GUESS_STRIDE = 128
_PIECE_NUMBERS = 1 << 19  # four megabytes of float64


class Pooled(NamedTuple):
    """Moments of all rows together; the covariance is exactly symmetric, its divisor the weight."""

    weight: float
    mean: FloatArray
    covariance: FloatArray


class Standardization(NamedTuple):
    """Pooled mean, and pooled standard deviation (1 for a constant column), of every feature."""

    mean: FloatArray
    scale: FloatArray


@dataclass(frozen=True, eq=False)
class Cell:
    """Weighted central moments of one set of rows with p features and m numeric attributes.

    A `…_rest` is what rounding took off a mean. Without it a mean of 1e8 costs the covariance
    digits at every merge.
    """

    n_rows: int  # of positive weight
    weight: float
    heaviest: float  # weight of a single row
    mean: FloatArray  # (p,)
    mean_rest: FloatArray
    scatter: FloatArray  # (p, p): sum of w (x - mean)(x - mean)ᵀ
    z_mean: FloatArray  # (m,)
    z_mean_rest: FloatArray
    z_scatter: FloatArray  # (m,): sum of w (z - z_mean)², each attribute on its own
    cross: FloatArray  # (m, p): sum of w (z - z_mean)(x - mean)
    third: FloatArray  # (m, p, p): sum of w (z - z_mean)(x - mean)(x - mean)ᵀ
    targets: TargetMoments | None = None  # of the rows that have them

    def __post_init__(self) -> None:
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    @property
    def covariance(self) -> FloatArray:
        """Covariance of the features, with the weight sum as divisor."""
        return self.scatter / self.weight


def sum_cell(
    matrix: Any,
    attributes: FloatArray,
    weights: FloatArray | None,
    rows: NDArray[np.intp],
    further: Groups | None = None,
) -> Cell:
    """Compute the moments of some rows of a matrix, dense or sparse, a batch at a time.

    Numbers and indicators of labels that are `further` features follow those of the matrix.
    """
    is_sparse = issparse(matrix)

    def take(part: NDArray[np.intp]) -> Any:
        if is_sparse:
            x: Any = matrix[part]
        elif matrix.flags.f_contiguous:  # columns of a data frame: six times faster along them
            x = matrix.T.take(part, axis=1).T
        else:
            x = matrix.take(part, axis=0)
        x = x.astype(np.float64, copy=False)
        if further is None:
            return x
        y = further.as_numbers(part)
        return (
            csr_array(hstack([x, *map(csr_array, y)]))
            if is_sparse
            else np.concatenate([x, *y], axis=1)
        )

    if weights is None and attributes.shape[1] == 0 and not is_sparse:
        return _summarise_plain(take, rows, matrix.shape[1])
    step = rows_at_once(matrix.shape[1])
    if is_sparse:
        filled = max(matrix.nnz / (matrix.shape[0] * matrix.shape[1]), 1e-3)
        step = max(int(step / filled), 1)
    parts = []
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        x = take(part)
        z, w = attributes.take(part, axis=0), None if weights is None else weights.take(part)
        parts.append(_summarise_sparse(x, z, w) if is_sparse else _summarise_batch(x, z, w))
    return merge(parts)


def _summarise_plain(
    take: Callable[[NDArray[np.intp]], Any], rows: NDArray[np.intp], p: int
) -> Cell:
    """Moments of rows that count the same, with few passes over memory."""
    # Rows are centred at the mean of every so manieth, and the sums are moved to the mean of all at
    # the end. That costs few digits whatever the values: if d is the distance of the two means, n
    # d² is at most `_GUESS_STRIDE` times the scatter, because the rows sampled are part of it.
    n, step = len(rows), max(_PIECE_NUMBERS // max(p, 1), 4 * p)
    x = take(rows[:step])
    sampled = x[::_GUESS_STRIDE] if n <= step else take(rows[::_GUESS_STRIDE])
    # Distances from a row, so that a constant column is exactly constant.
    guess = sampled[0] + (sampled - sampled[0]).mean(axis=0)
    shift, scatter = np.zeros(x.shape[1]), np.zeros((x.shape[1], x.shape[1]))
    for start in range(0, n, step):
        x = take(rows[start : start + step]) if start else x
        x -= guess
        shift += np.ones(len(x)) @ x
        scatter += x.T @ x
    shift /= n
    scatter -= n * np.outer(shift, shift)
    no_attributes = (*np.zeros((3, 0)), np.zeros((0, len(shift))), np.zeros((0, *scatter.shape)))
    return Cell(n, float(n), 1.0, *sum_exactly(guess, shift), symmetrize(scatter), *no_attributes)


def _summarise_batch(x: FloatArray, z: FloatArray, weights: FloatArray | None) -> Cell:
    """Two passes over one batch; `x` and `z` are copies and are centred in place."""
    n = len(x)
    w = np.ones(n) if weights is None else weights
    total = float(w.sum())
    mean, z_mean = centre(x, w, total), centre(z, w, total)
    weighted_z = z * w[:, None]
    third = np.empty((z.shape[1], x.shape[1], x.shape[1]))
    for index in range(z.shape[1]):
        third[index] = (x * weighted_z[:, index, None]).T @ x
    cross = weighted_z.T @ x
    z_scatter = np.einsum("ij,ij->j", weighted_z, z)
    if weights is not None:
        x *= np.sqrt(w)[:, None]  # after the mixed moments, which take the weight once
    features, attributes = (*mean, symmetrize(x.T @ x)), (*z_mean, z_scatter)
    return Cell(n, total, float(w.max()), *features, *attributes, cross, symmetrize(third))


def centre(x: FloatArray, w: FloatArray, total: float) -> tuple[FloatArray, FloatArray]:
    """Subtract the weighted mean in place; return it and what rounding took off it."""
    # Averaging the distances from the first row makes a constant column exactly constant; the
    # second round removes what rounding left of the mean, which counts when the mean is far larger
    # than the deviation, or the first row far from the others.
    origin = x[0]
    centre = origin + (w @ (x - origin)) / total
    x -= centre
    rest = (w @ x) / total
    x -= rest
    return sum_exactly(centre, rest)


def sum_exactly(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the rounded sum and its rounding error (Knuth)."""
    total = a + b
    b_used = total - a
    return total, (a - (total - b_used)) + (b - b_used)


def check_sums(cell: Cell) -> None:
    """Catch values so large that their squares are not numbers any more."""
    arrays = [value for value in vars(cell).values() if isinstance(value, np.ndarray)]
    if not np.isfinite(cell.weight) or not all(np.isfinite(value).all() for value in arrays):
        raise InvalidInputError(
            "X holds NaN or infinite values, or values too large to be squared: drop those rows or "
            "rescale the columns.",
            parameter="X",
        )


def merge(cells: Sequence[Cell]) -> Cell:
    """Moments of the union of disjoint sets of rows, from their moments alone, without targets."""
    # Every part is moved to the common mean (Chan, Golub and LeVeque for the second order; the
    # third order follows from expanding (z + b)(x + a)(x + a)ᵀ, where single deviations sum to
    # zero).
    if len(cells) == 1:
        return cells[0]
    w = np.array([cell.weight for cell in cells])
    total = float(w.sum())
    with np.errstate(over="ignore", invalid="ignore"):  # said in words instead
        mean, a = common_mean([(cell.mean, cell.mean_rest) for cell in cells], w, total)
        z_mean, b = common_mean([(cell.z_mean, cell.z_mean_rest) for cell in cells], w, total)
        scatter = (a * w[:, None]).T @ a
        cross = (b * w[:, None]).T @ a
        third = np.einsum("gm,gi,gj->mij", b * w[:, None], a, a)
        z_scatter = np.einsum("gm,gm->m", b * w[:, None], b)
        for index, cell in enumerate(cells):
            scatter += cell.scatter
            z_scatter += cell.z_scatter
            cross += cell.cross
            if b.size:
                mixed = cell.cross[:, :, None] * a[index]
                third += cell.third + mixed + mixed.transpose(0, 2, 1)
                third += b[index][:, None, None] * cell.scatter
        n_rows = sum(cell.n_rows for cell in cells)
        heaviest = max(cell.heaviest for cell in cells)
        features, attributes = (*mean, symmetrize(scatter)), (*z_mean, z_scatter)
        union = Cell(n_rows, total, heaviest, *features, *attributes, cross, symmetrize(third))
    check_sums(union)
    return union


def common_mean(
    means: Sequence[tuple[FloatArray, FloatArray]], w: FloatArray, total: float
) -> tuple[tuple[FloatArray, FloatArray], FloatArray]:
    """Return the mean of the union with its rest, and the distance of each part's mean from it."""
    origin, origin_rest = means[0]
    distance = np.stack([(mean - origin) + (rest - origin_rest) for mean, rest in means])
    step = (w @ distance) / total
    return sum_exactly(origin, origin_rest + step), distance - step


def mean_difference(plus: Cell, minus: Cell) -> FloatArray:
    """Return the mean of one cell minus that of another, to the last digit."""
    return (plus.mean - minus.mean) + (plus.mean_rest - minus.mean_rest)


def map_features(
    cell: Cell,
    linear: Callable[[FloatArray], FloatArray],
    place: Callable[[FloatArray, FloatArray], FloatArray] | None = None,
) -> Cell:
    """Moments of a linear function of the features, which `linear` applies along the last axis.

    Where the function has a constant, `place` returns the new mean from a mean and its rest.
    """

    def both(matrices: FloatArray) -> FloatArray:  # L M Lᵀ
        return symmetrize(linear(linear(matrices).swapaxes(-1, -2)))

    def first_order(part: Any) -> Any:
        mean, rest = linear(part.mean), linear(part.mean_rest)
        if place is not None:
            mean, rest = place(part.mean, part.mean_rest), np.zeros_like(mean)
        return replace(part, mean=mean, mean_rest=rest, cross=linear(part.cross))

    targets = None if cell.targets is None else first_order(cell.targets)
    second = {"scatter": both(cell.scatter), "third": both(cell.third)}
    return cast(Cell, replace(first_order(cell), **second, targets=targets))


_BY_ATTRIBUTE = ("z_mean", "z_mean_rest", "z_scatter", "cross", "third")


def with_attribute(cell: Cell, position: int, value: float) -> Cell:
    """Add a numeric attribute that has the same value in every row of the cell."""
    parts = {n: np.insert(getattr(cell, n), position, 0.0, axis=0) for n in _BY_ATTRIBUTE}
    parts["z_mean"][position] = value
    return replace(cell, **parts)


def permute_attributes(cell: Cell, order: Sequence[int]) -> Cell:
    """Put the numeric attributes in another order."""
    index = np.array(order, dtype=np.intp)
    return replace(cell, **{name: getattr(cell, name)[index] for name in _BY_ATTRIBUTE})


# Above this share of non-zeros a column is centred as a dense one.
DENSE_SHARE = 0.5


def _summarise_sparse(x: Any, z: FloatArray, weights: FloatArray | None) -> Cell:
    """Moments of one sparse batch; the columns are split by how full they are."""
    w = np.ones(x.shape[0]) if weights is None else weights
    total = float(w.sum())
    z_mean = centre(z, w, total)
    u = z * w[:, None]
    columns = csc_array(x)
    # Columns whose non-zeros hold more than half the rows or half the weight.
    present = csc_array((np.ones_like(columns.data), columns.indices, columns.indptr), x.shape)
    full = np.diff(columns.indptr) > DENSE_SHARE * len(w)
    full |= present.T @ w > DENSE_SHARE * total
    thin = np.flatnonzero(~full)
    dense = np.asfortranarray(columns[:, np.flatnonzero(full)].toarray())
    means = centre(dense, w, total)
    mean, mean_rest = np.zeros(x.shape[1]), np.zeros(x.shape[1])
    mean[full], mean_rest[full] = means
    sparse = columns[:, thin]
    mean[thin] = sparse.T @ w / total

    scatter = _second_moments(dense, sparse, w, np.flatnonzero(full), thin)
    scatter[np.ix_(thin, thin)] -= total * np.outer(mean[thin], mean[thin])
    cross = np.zeros((z.shape[1], x.shape[1]))
    cross[:, full], cross[:, thin] = u.T @ dense, (sparse.T @ u).T
    third = np.empty((z.shape[1], x.shape[1], x.shape[1]))
    offset = np.where(full, 0.0, mean)  # what has not been subtracted yet; u sums to zero
    for index in range(z.shape[1]):
        moved = np.outer(cross[index], offset)
        third[index] = _second_moments(dense, sparse, u[:, index], np.flatnonzero(full), thin)
        third[index] -= moved + moved.T
    z_scatter = np.einsum("ij,ij->j", u, z)
    features = (float(w.max()), mean, mean_rest, symmetrize(scatter))
    return Cell(x.shape[0], total, *features, *z_mean, z_scatter, cross, symmetrize(third))


def _second_moments(
    dense: FloatArray,
    sparse: Any,
    w: FloatArray,
    full: NDArray[np.intp],
    thin: NDArray[np.intp],
) -> FloatArray:
    """Sum of w x xᵀ with the dense columns in places `full` and the sparse ones in `thin`."""
    p = len(full) + len(thin)
    sums = np.zeros((p, p))
    weighted = dense * w[:, None]
    sums[np.ix_(full, full)] = weighted.T @ dense
    mixed = (sparse.T @ weighted).T
    sums[np.ix_(full, thin)] = mixed
    sums[np.ix_(thin, full)] = mixed.T
    sums[np.ix_(thin, thin)] = (sparse.T @ (diags_array(w) @ sparse)).toarray()
    return sums
