"""Which fold a row belongs to: decided by its values alone, wherever and in what order it is read.

So batches, files, threads and engines agree without knowing of each other, a weight of two is a row
that occurs twice, and copies of a row are never on both sides of a split.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

if TYPE_CHECKING:
    from fairpca.rows.groups import Attribute
    from fairpca.rows.rows import Rows

Words = NDArray[np.uint64]
_BLOCK = 1 << 16  # numbers hashed at once, few enough for the cache


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
    found: Words = sums[matrix.indptr[1:]] - sums[matrix.indptr[:-1]]
    return found


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
