"""Values that are missing: where they are, and what is said of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from fairpca.exceptions import InvalidInputError
from fairpca.rows._checks import Floats, missing_values_error, weights_error
from fairpca.rows._columns import missing_groups_error

MISSING_GROUP = "missing"
"""Name of the group of rows whose group is missing, where they have one."""


def holds_nan(X: Any) -> bool:
    """Tell whether a matrix without infinite values has NaN; quick where it has none."""
    is_sparse = issparse(X)
    values = X.data if is_sparse else X
    return bool(np.isnan(values.sum(dtype=np.float64)))


def missing_error(
    counts: Mapping[str, int],
    incomplete: int,
    n_rows: int,
    arguments: Mapping[str, str],
    of: str = "missing",
) -> InvalidInputError:
    """Say what rows lack; `arguments` are those of the columns that are no features, in order."""
    given = {arguments.get(name) for name in counts}
    if given == {"sample_weight"}:
        return weights_error("not finite")
    if given <= {"sensitive_features", "control_features"}:
        first = next(name for name in arguments if name in counts)
        return missing_groups_error(first, counts[first], arguments[first])
    return missing_values_error(incomplete, n_rows, counts, of)


def no_rows_error(n_rows: int, incomplete: int, name: str = "X") -> InvalidInputError:
    """Say why there is no row to use."""
    if n_rows and not incomplete:
        return weights_error("zero", n_rows)
    why = "every row is incomplete or of weight zero" if n_rows else "there are no rows"
    return InvalidInputError(f"{name}: no row can be used ({n_rows:,} read): {why}.")


def imputed(found: str) -> str:
    """Say what counting missing values as the mean does."""
    return (
        f"{found}. They count as the mean of all rows: the variance of each of these columns is "
        "smaller by the share it lacks, and groups that lack more of it look more alike."
    )


def fill_means(X: Any, means: Floats) -> Any:
    """Put means in the places of NaN; the same matrix where there is none."""
    is_sparse = issparse(X)
    if not holds_nan(X):
        return X
    if is_sparse:
        values = np.where(np.isnan(X.data), means[X.indices], X.data)
        return csr_array((values.astype(X.dtype), X.indices, X.indptr), X.shape)
    return np.where(np.isnan(X), means.astype(X.dtype), X)


def known_means(X: NDArray[Any], weights: Floats | None) -> Floats:
    """Weighted mean of the known values of every column of a dense matrix."""
    known = ~np.isnan(X)
    w = known * (1.0 if weights is None else weights[:, None])
    total = w.sum(axis=0)
    if not total.all():
        raise InvalidInputError(
            f"column {int(np.argmin(total))} has no value in any row: leave it out.",
            parameter="features",
        )
    return np.asarray((np.where(known, X, 0.0) * w).sum(axis=0) / total)
