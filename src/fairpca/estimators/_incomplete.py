"""Rows that lack values: left out, or summed with the mean of all rows in their places."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.utils import _safe_indexing

from fairpca.exceptions import (
    DroppedRowsWarning,
    IdentifierWarning,
    ImputedValuesWarning,
    InvalidInputError,
)
from fairpca.moments import GroupMoments
from fairpca.rows._checks import describe_missing
from fairpca.rows._columns import missing_rows
from fairpca.rows._identifiers import find_identifiers, identifier_text, unique_columns
from fairpca.rows._missing import holds_nan, imputed, name_counts, nan_places


def complete_rows(model, X, *parts):
    """Return validated rows, without those that lack a value where they are to be dropped."""
    if model.missing == "drop-rows":
        X, *parts = _dropped(model, X, *parts)
    return model._rows(X, *parts)


def _dropped(model, X, sensitive_features, control_features, sample_weight):
    counts, absent = nan_places(X)
    missing = name_counts(counts, getattr(model, "feature_names_in_", None))
    groups = {"sensitive_features": sensitive_features, "control_features": control_features}
    for argument, values in groups.items() if model.missing_groups != "own" else ():
        if values is not None:
            masks = missing_rows(values, argument, X.shape[0])
            missing |= {name: int(mask.sum()) for name, mask in masks.items() if mask.any()}
            absent = np.logical_or.reduce([absent, *masks.values()])
    if not missing:
        return X, sensitive_features, control_features, sample_weight
    kept = np.flatnonzero(~absent)
    found = describe_missing(len(absent) - len(kept), len(absent), missing)
    if not len(kept):
        raise InvalidInputError(f"{found}: no row is left.", parameter="missing")
    warnings.warn(f"{found} and were left out.", DroppedRowsWarning, stacklevel=6)
    given = (X, sensitive_features, control_features, sample_weight)
    return [None if part is None else _safe_indexing(part, kept) for part in given]


def moments_of(model, rows, stacklevel=5):
    """Sum rows; what is missing counts as the mean where it is to."""
    names = rows.feature_names or tuple(f"x{i}" for i in range(rows.X.shape[1]))
    unique = find_identifiers(unique_columns(rows.X, names, None), len(rows))
    if unique:
        warnings.warn(identifier_text(unique), IdentifierWarning, stacklevel=stacklevel)
    if model.missing != "mean" or not holds_nan(rows.X):
        return GroupMoments.from_rows(rows)
    counts, absent = nan_places(rows.X)
    missing = name_counts(counts, rows.feature_names)
    found = describe_missing(int(absent.sum()), len(absent), missing)
    warnings.warn(imputed(found), ImputedValuesWarning, stacklevel=5)
    return GroupMoments.from_incomplete(rows)
