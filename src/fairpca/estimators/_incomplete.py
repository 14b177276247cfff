"""Rows in memory, of a stream or of Dask become moments, also where they lack values."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import validate_data

from fairpca.estimators._base import FLOATS
from fairpca.exceptions import (
    DroppedRowsWarning,
    IdentifierWarning,
    ImputedValuesWarning,
    InvalidInputError,
)
from fairpca.moments import FoldedMoments, GroupMoments
from fairpca.moments.folds import with_folds
from fairpca.rows._checks import find_identifiers, identifier_text, unique_columns
from fairpca.rows._missing import find_missing, holds_nan, no_rows_error
from fairpca.tables import is_lazy, is_stream


def summarise(model, X, *parts, reset=True, least=2, folds=0):
    """Moments of rows, by fold where there are any; `parts` are groups, strata and weights."""
    if is_stream(X):
        return _summarise_stream(model, X, *parts, folds=folds)
    X, *parts = model._split(X, *parts)
    if is_lazy(X):
        from fairpca.tables import lazy_moments, sample  # needs pyarrow

        if parts[0] is None:
            model._require_groups_optional()
        validate_data(model, sample(X), dtype=FLOATS, reset=reset, ensure_min_samples=0)
        about = {"names": getattr(model, "feature_names_in_", None), **model._table_options()}
        return lazy_moments(X, *parts, at_least=least, folds=folds, **about)
    X = model._features(X, model._beside(parts), reset=reset, ensure_min_samples=least)
    return moments_of(model, complete_rows(model, X, *parts), folds=folds)


def _summarise_stream(model, X, *names, folds):
    from fairpca.tables import moments_from_arrow  # needs pyarrow

    for argument, part in zip(("sensitive_features", "control_features"), names, strict=False):
        if not isinstance(part, str | list | tuple | None):
            raise InvalidInputError(
                f"{argument} is a {type(part).__name__}, but X is a stream: name its columns.",
                parameter=argument,
            )
    sensitive, control, weight = names
    if sensitive is None:
        model._require_groups_optional()
    about = {"folds": folds, **model._table_options()}
    moments = moments_from_arrow(X, sensitive, None, control, weight, **about)
    learn_features(model, moments)
    weights = () if weight is None else (weight,)
    whole = moments.total if folds else moments
    model._keep_others((*whole.attributes, *whole.controls, *weights))
    return moments


def learn_features(model, moments):
    """Take number and names of the features from moments."""
    model.n_features_in_ = moments.n_features
    model.__dict__.pop("feature_names_in_", None)
    if moments.feature_names is not None:
        model.feature_names_in_ = np.array(moments.feature_names, dtype=object)


def complete_rows(model, X, *parts):
    """Return validated rows, without those that lack a value where they are to be dropped."""
    if model.missing == "drop-rows":
        X, *parts = _dropped(model, X, *parts)
    return model._rows(X, *parts)


def _dropped(model, X, *parts):
    names = getattr(model, "feature_names_in_", None)
    report, incomplete = find_missing(X.shape[0], model._beside(parts), X, names)
    if not report.counts:
        return X, *parts
    kept = np.flatnonzero(~incomplete)
    if not len(kept):
        raise no_rows_error(report.n_rows, report.incomplete)
    warnings.warn(report.dropped, DroppedRowsWarning, stacklevel=6)
    return [None if part is None else _safe_indexing(part, kept) for part in (X, *parts)]


def moments_of(model, rows, stacklevel=5, folds=0):
    """Sum rows; what is missing counts as the mean where it is to."""
    names = rows.feature_names or tuple(f"x{i}" for i in range(rows.X.shape[1]))
    unique = find_identifiers(unique_columns(rows.X, names, None), len(rows))
    if unique:
        warnings.warn(identifier_text(unique), IdentifierWarning, stacklevel=stacklevel)
    if model.missing != "mean" or not holds_nan(rows.X):
        return FoldedMoments.from_rows(rows, folds) if folds else GroupMoments.from_rows(rows)
    report, _ = find_missing(len(rows), (), rows.X, rows.feature_names)
    warnings.warn(report.imputed, ImputedValuesWarning, stacklevel=5)
    if folds:
        return FoldedMoments(folds, GroupMoments.from_incomplete(with_folds(rows, folds)))
    return GroupMoments.from_incomplete(rows)
