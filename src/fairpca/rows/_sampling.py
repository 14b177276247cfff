"""Which rows are drawn, and which half or fold they belong to.

Draws and halves are random, cell by cell. A fold is decided by the values of a row alone, or by the
label of its unit, wherever and in what order it is read. So batches, files, threads and engines
agree without knowing of each other, a weight of two is a row that occurs twice, and copies of a row
share a fold. Rows of one unit are never separated.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

if TYPE_CHECKING:
    from fairpca.rows.groups import Level
    from fairpca.rows.rows import Rows

Words = NDArray[np.uint64]
Index: TypeAlias = NDArray[np.intp]
Seed: TypeAlias = int | tuple[int, ...] | np.random.Generator
MIN_DRAWN = 100  # rows that a cell keeps in a proportional draw, if it has so many
_BLOCK = 1 << 16  # numbers hashed at once, few enough for the cache


def draw(cells: Index, size: int, seed: Seed = 0, *, balanced: bool = False) -> Index:
    """Draw at most `size` positions without replacement, rising; `Rows.draw` says how."""
    n = len(cells)
    if n <= size:
        return np.arange(n)
    counts, random = np.bincount(cells), np.random.default_rng(seed)
    if not balanced:
        return smallest_keys(random.random(n), cells, _proportional_quotas(counts, size))
    # Repeated at every step of an ascent: choosing positions costs less than a key for each row.
    order = np.argsort(cells, kind="stable")
    chosen = [
        order[end - count + random.choice(count, quota, replace=False)]
        for end, count, quota in zip(
            np.cumsum(counts), counts, _equal_quotas(counts, size), strict=True
        )
    ]
    return np.sort(np.concatenate(chosen))


def draw_units(
    cells: Index, units: Index, size: int, seed: Seed = 0, *, balanced: bool = False
) -> Index:
    """Draw whole units, at most `size` rows beyond one unit of every cell; positions, rising."""
    if len(cells) <= size:
        return np.arange(len(cells))
    _, first, unit = np.unique(units, return_index=True, return_inverse=True)
    home, sizes = cells[first], np.bincount(unit)
    counts = np.bincount(home, sizes, minlength=cells.max() + 1).astype(np.intp)
    quotas = (_equal_quotas if balanced else _proportional_quotas)(counts, size)
    order = np.lexsort((np.random.default_rng(seed).random(len(first)), home))
    rows_before = np.cumsum(sizes[order]) - sizes[order] - (np.cumsum(counts) - counts)[home[order]]
    fits = rows_before + sizes[order] <= quotas[home[order]]
    drawn = np.zeros(len(first), dtype=bool)
    drawn[order[fits | (rows_before == 0)]] = True
    for cell in np.setdiff1d(cells, cells[drawn[unit]]):  # of units that begin in another cell
        drawn[unit[np.argmax(cells == cell)]] = True
    return np.flatnonzero(drawn[unit])


def smallest_keys(keys: NDArray[np.float64], cells: Index, quotas: Index) -> Index:
    """Return the positions of the smallest keys of every cell, as many as its quota, rising.

    Keys are random and belong to their rows, so that draws of parts can be merged to one of all.
    """
    counts = np.bincount(cells, minlength=len(quotas))
    order = np.lexsort((keys, cells))
    place = np.arange(len(cells)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.sort(order[place < np.repeat(quotas, counts)])


def _equal_quotas(counts: Index, size: int) -> Index:
    """Share a draw among cells as equally as their sizes allow."""
    quotas = np.zeros_like(counts)
    for done, cell in enumerate(np.argsort(counts)):
        quotas[cell] = min(counts[cell], (size - quotas.sum()) // (len(counts) - done))
    return quotas


def _proportional_quotas(counts: Index, size: int) -> Index:
    """Share a draw in proportion; cells that get their least leave fewer rows for the others."""
    least = np.minimum(counts, max(1, min(MIN_DRAWN, size // (2 * len(counts)))))
    quotas, few = least, np.zeros(len(counts), dtype=bool)
    for _ in range(len(counts)):
        rest = (size - least[few].sum()) / max(counts[~few].sum(), 1)
        quotas = np.maximum(least, np.floor(rest * counts).astype(np.intp))
        if (few == (rest * counts <= least)).all():
            break
        few = rest * counts <= least
    return quotas


def halves(
    cells: NDArray[np.integer[Any]], seed: Seed, units: Index | None = None
) -> tuple[Index, Index]:
    """Split positions at random into two halves, every cell by itself; units stay whole."""
    if units is not None:  # a unit counts in the cell of its first row
        _, first, unit = np.unique(units, return_index=True, return_inverse=True)
        inside = np.isin(unit, halves(cells[first], seed)[0])
        return np.flatnonzero(inside), np.flatnonzero(~inside)
    order = np.random.default_rng(seed).permutation(len(cells))
    order = order[np.argsort(cells[order], kind="stable")]
    return np.sort(order[::2]), np.sort(order[1::2])


def fold_of(rows: Rows, n_folds: int, *, apart: bool = False) -> NDArray[np.intp]:
    """Return the fold of each row, 0 to n_folds - 1; `Rows.folds` says how.

    `apart` gives folds that are independent of those without it.
    """
    if rows.units is not None:
        keys = np.arange(rows.units.max(initial=0) + 1, dtype=np.uint64)
        words = (keys if rows.unit_keys is None else rows.unit_keys)[rows.units]
    else:
        words = hash_rows(rows.X) if rows.keys is None else rows.keys
    words = _mixed(words, 0xFF51AFD7ED558CCD)
    if apart:
        words = _mixed(words, 0xC4CEB9FE1A85EC53)
    return ((words >> np.uint64(32)) * np.uint64(n_folds) >> np.uint64(32)).astype(np.intp)


def hash_rows(X: Any, columns: Sequence[int | str] | None = None) -> Words:
    """Hash the features of rows; `columns` says what stands for each feature, if not its place.

    A batch of a stream has indicators of the levels that it holds: they go by their levels.
    """
    # Names are not hashed: an array and a frame of the same numbers have the same folds. Nor are
    # groups: of rows that repeat, all groups are held out together. Else a held-out part would have
    # copies of one group only, and a gap that nobody has.
    places = range(X.shape[1]) if columns is None else columns
    keys = np.array([_key(f"x{place}") for place in places], dtype=np.uint64)
    return _sparse_words(X, keys) if issparse(X) else _words(X, keys)


def distinct_rows(rows: Rows) -> tuple[Index, NDArray[np.float64]]:
    """Return the first position of each distinct row of a cell, and the weight of its copies."""
    cells, words = rows.cells(), hash_rows(rows.X)
    order = np.lexsort((words, cells))
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = (np.diff(words[order]) != 0) | (np.diff(cells[order]) != 0)
    starts = np.flatnonzero(is_new)
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    return order[starts], np.add.reduceat(weights[order], starts)


def _mixed(words: Words, factor: int) -> Words:
    words = (words ^ (words >> np.uint64(33))) * np.uint64(factor)
    return words ^ (words >> np.uint64(33))


def _words(matrix: Any, keys: Words) -> Words:
    """Hash the rows of a matrix, adding up its columns; zeros add nothing."""
    # So that an indicator that a batch does not know, and was zero, changes nothing.
    n_rows = len(matrix)
    words = np.zeros(n_rows, dtype=np.uint64)
    step = max(_BLOCK // max(len(keys), 1), 1)
    for start in range(0, n_rows, step):
        part = slice(start, start + step)
        words[part] = np.einsum("ij,j->i", _bits(matrix[part]), keys)
    return words


def _bits(values: Any) -> Words:
    """Return the bits of numbers, whatever their type; all zeros have none."""
    floats = np.asarray(values, dtype=np.float64) + 0.0  # -0.0 becomes 0.0
    floats[np.isnan(floats)] = 0.0  # a batch may not know all indicators of a missing category
    bits: Words = floats.view(np.uint64)
    bits ^= bits >> np.uint64(32)  # whole numbers use the upper half only
    return bits


def _sparse_words(matrix: Any, keys: Words) -> Words:
    """Hash the rows of a CSR matrix by its non-zeros; wrapped sums have the right differences."""
    sums = np.zeros(len(matrix.data) + 1, dtype=np.uint64)
    np.cumsum(_bits(matrix.data) * keys[matrix.indices], out=sums[1:])
    words: Words = sums[matrix.indptr[1:]] - sums[matrix.indptr[:-1]]
    return words


def label_keys(labels: Sequence[Level], place: str) -> Words:
    """Hash labels; a number is hashed as it would be in a column of numbers."""
    key = np.uint64(_key(place))
    keys = np.zeros(len(labels), dtype=np.uint64)
    for index, label in enumerate(labels):
        if isinstance(label, str):
            keys[index] = _key(f"{place}={label}")
        else:
            keys[index : index + 1] = _bits([float(label)]) * key
    return keys


def _key(text: str) -> int:
    """Return an odd number of 64 bits that belongs to a text."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") | 1
