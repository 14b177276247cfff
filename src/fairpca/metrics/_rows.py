"""The way in: a representation with its groups, or rows that are ready, become rows to measure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import issparse

from fairpca.exceptions import GroupsError, InvalidInputError
from fairpca.linalg import Array
from fairpca.rows import Rows
from fairpca.rows._checks import Mask, check_matrix
from fairpca.rows._columns import missing_beside
from fairpca.rows._pairs import known_rows

_LARGEST = 1e150  # whose square is a number


def read_rows(
    U: Any, sensitive_features: Any = None, control_features: Any = None, sample_weight: Any = None
) -> Rows:
    """Return rows of positive weight and known group with a dense float64 representation."""
    return counted(read_all(U, sensitive_features, control_features, sample_weight))


def read_all(
    U: Any,
    sensitive_features: Any,
    control_features: Any,
    sample_weight: Any,
    numeric: Iterable[str] = (),
    unknown: str | None = None,
) -> Rows:
    """Return rows as they are given; missing groups are refused unless `unknown` names them."""
    if not isinstance(U, Rows):
        given = (sensitive_features, control_features, sample_weight)
        known = sensitive_features if unknown is None else None
        masks = missing_beside(known, control_features, sample_weight)
        matrix = read_matrix(U, "U", masks)
        if sensitive_features is None:
            raise _no_groups()
        return Rows.attach(matrix, *given, numeric=numeric, of="U", unknown=unknown)
    beside = {
        "sensitive_features": sensitive_features,
        "control_features": control_features,
        "sample_weight": sample_weight,
        "numeric": tuple(numeric) or None,
    }
    extra = [name for name, value in beside.items() if value is not None]
    if extra:
        raise InvalidInputError(
            f"U is Rows, which has groups, strata and weights of its own: leave out {extra}.",
            parameter=extra[0],
        )
    if U.groups is None:
        raise _no_groups()
    return U.with_features(_settled(U.X, "U"))


def _no_groups() -> GroupsError:
    return GroupsError(
        "sensitive_features is None: give one group value for each row of U.",
        parameter="sensitive_features",
    )


def read_matrix(values: Any, of: str, beside: Iterable[Mask] = ()) -> Array:
    """Return a finite, dense float64 matrix; a vector is one column."""
    return _settled(check_matrix(_as_columns(values), of, beside)[0], of)


def _as_columns(values: Any) -> Any:
    """Make a vector a column; whatever else it is, the validator of rows judges it."""
    if getattr(values, "ndim", 1) != 1 or hasattr(values, "columns") or issparse(values):
        return values
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths
        return values
    return array[:, None] if array.ndim == 1 else array


def _settled(matrix: Any, of: str) -> Array:
    """Refuse what cannot be measured, and make columns constant that vary by rounding alone."""
    if issparse(matrix):
        raise InvalidInputError(f"{of} is a sparse matrix: give {of}.toarray().", parameter=of)
    array: Array = np.asarray(matrix, dtype=np.float64)
    if not len(array):
        raise InvalidInputError(f"{of} has no rows: give at least one.", parameter=of)
    low, high = array.min(axis=0), array.max(axis=0)
    spread, size = high - low, np.maximum(-low, high)
    if (size > _LARGEST).any() or ((spread > 0.0) & (spread < 1.0 / _LARGEST)).any():
        raise InvalidInputError(
            f"{of} holds values too large or differences too small to be squared: rescale it.",
            parameter=of,
        )
    # A projection of equal rows may differ in the last bits; that is not a difference.
    noise = spread <= 16 * np.finfo(float).eps * size
    if noise.any():
        array = np.where(noise, array[0], array)
    return array


def of_known_group(rows: Rows) -> Rows:
    """Leave out rows of unknown group."""
    known = np.ones(len(rows), dtype=bool)
    for column in rows.groups.categorical if rows.groups is not None else ():
        known &= known_rows(column)
    return rows if known.all() else rows.take(np.flatnonzero(known))


def counted(rows: Rows) -> Rows:
    """Leave out rows of unknown group or weight zero, and equal weights: then counts are exact."""
    rows = of_known_group(rows)
    if rows.weights is None:
        return rows
    kept = np.flatnonzero(rows.weights)
    found = rows if len(kept) == len(rows) else rows.take(kept)
    return replace(found, weights=None) if np.ptp(rows.weights[kept]) == 0 else found
