"""Rows that lack values: left out, or summed with the mean of all rows in their places."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.utils import _safe_indexing

from fairpca.exceptions import (
    DroppedRowsWarning,
    IdentifierWarning,
    ImputedValuesWarning,
)
from fairpca.moments import GroupMoments
from fairpca.rows._checks import describe_missing, missing_features
from fairpca.rows._identifiers import find_identifiers, identifier_text, unique_columns
from fairpca.rows._missing import holds_nan, imputed, no_rows_error


def complete_rows(model, X, *parts):
    """Return validated rows, without those that lack a value where they are to be dropped."""
    if model.missing == "drop-rows":
        X, *parts = _dropped(model, X, *parts)
    return model._rows(X, *parts)


def _dropped(model, X, *parts):
    found = missing_features(X, getattr(model, "feature_names_in_", None))
    found = found.beside(model._beside(parts))
    if not found.counts:
        return X, *parts
    n_rows, kept = len(found.rows), np.flatnonzero(~found.rows)
    if not len(kept):
        raise no_rows_error(n_rows, found.incomplete)
    words = describe_missing(found.incomplete, n_rows, found.counts)
    warnings.warn(f"{words} and were left out.", DroppedRowsWarning, stacklevel=6)
    return [None if part is None else _safe_indexing(part, kept) for part in (X, *parts)]


def moments_of(model, rows, stacklevel=5):
    """Sum rows; what is missing counts as the mean where it is to."""
    names = rows.feature_names or tuple(f"x{i}" for i in range(rows.X.shape[1]))
    unique = find_identifiers(unique_columns(rows.X, names, None), len(rows))
    if unique:
        warnings.warn(identifier_text(unique), IdentifierWarning, stacklevel=stacklevel)
    if model.missing != "mean" or not holds_nan(rows.X):
        return GroupMoments.from_rows(rows)
    found = missing_features(rows.X, rows.feature_names)
    words = describe_missing(found.incomplete, len(rows), found.counts)
    warnings.warn(imputed(words), ImputedValuesWarning, stacklevel=5)
    return GroupMoments.from_incomplete(rows)
