"""Which rows are drawn, and which half or fold they belong to.

Draws and halves are random, cell by cell. A fold is decided by the values of a row alone, wherever
and in what order it is read. So batches, files, threads and engines agree without knowing of each
other, a weight of two is a row that occurs twice, and copies of a row share a fold.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

if TYPE_CHECKING:
    from fairpca.rows.groups import Attribute
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


def halves(cells: NDArray[np.integer[Any]], seed: Seed = 0) -> tuple[Index, Index]:
    """Split positions at random into two halves, every cell by itself."""
    order = np.random.default_rng(seed).permutation(len(cells))
    order = order[np.argsort(cells[order], kind="stable")]
    return np.sort(order[::2]), np.sort(order[1::2])


def fold_of(rows: Rows, n_folds: int) -> NDArray[np.intp]:
    """Return the fold of each row, 0 to n_folds - 1."""
    names = rows.feature_names or tuple(f"x{index}" for index in range(rows.X.shape[1]))
    keys = np.array([_key(name) for name in names], dtype=np.uint64)
    words = _sparse_words(rows.X, keys) if issparse(rows.X) else _words(rows.X, keys)
    for part in (rows.groups, rows.strata):
        for column in part.categorical if part is not None else ():
            words += _level_words(column)[column.codes]
        for numbers in part.numeric if part is not None else ():
            words += _words(numbers.values[:, None], np.array([_key(numbers.name)], dtype="u8"))
    words ^= words >> np.uint64(33)
    words *= np.uint64(0xFF51AFD7ED558CCD)
    words ^= words >> np.uint64(33)
    return ((words >> np.uint64(32)) * np.uint64(n_folds) >> np.uint64(32)).astype(np.intp)


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
    bits: Words = (np.asarray(values, dtype=np.float64) + 0.0).view(np.uint64)  # -0.0 becomes 0.0
    bits ^= bits >> np.uint64(32)  # whole numbers use the upper half only
    return bits


def _sparse_words(matrix: Any, keys: Words) -> Words:
    """Hash the rows of a CSR matrix by its non-zeros; wrapped sums have the right differences."""
    sums = np.zeros(len(matrix.data) + 1, dtype=np.uint64)
    np.cumsum(_bits(matrix.data) * keys[matrix.indices], out=sums[1:])
    words: Words = sums[matrix.indptr[1:]] - sums[matrix.indptr[:-1]]
    return words


def _level_words(column: Attribute) -> Words:
    """Hash the levels of a group; a number is hashed as it would be in a numeric attribute."""
    key = np.uint64(_key(column.name))
    words = np.zeros(len(column.levels), dtype=np.uint64)
    for index, level in enumerate(column.levels):
        if isinstance(level, str):
            words[index] = _key(f"{column.name}={level}")
        else:
            words[index : index + 1] = _bits([float(level)]) * key
    return words


def _key(text: str) -> int:
    """Return an odd number of 64 bits that belongs to a text."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") | 1
