"""Scores of rows on components."""

from __future__ import annotations

from typing import Any

from scipy.sparse import issparse


def project(X: Any, mean: Any, components: Any, scale: Any = None) -> Any:
    """Return (X - mean) componentsᵀ / scale in the floating type of X; sparse X is not filled."""
    mean, basis = mean.astype(X.dtype), components.T.astype(X.dtype)
    scores = X @ basis - mean @ basis if issparse(X) else (X - mean) @ basis
    return scores if scale is None else scores / scale.astype(X.dtype)
