"""Components with few non-zero loadings whose scores explain as much of the table as possible.

maximise tr[(VᵀSV)⁻¹VᵀS²V], the variance of all features that a regression on the scores explains,
subject to FV = 0, at most k non-zero entries in each column, VᵀSV diagonal and, with a limit,
max_c ‖GᵀQ_cG‖ ≤ limit for the whitened scores, G = V(VᵀSV)^-½. V itself is not orthonormal.
S: covariance (p, p), F: independent mean gaps (K, p), Q: covariance gaps (C, p, p), V: (p, d).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from fairpca.linalg import Array, spectral_norms, symmetrize, top_eigenpairs

# Eigenvalues of S below this share of the largest are rounding.
_RANK_FLOOR = 1e-12
_ROUNDING = 1e-13


@dataclass(frozen=True, eq=False)
class SparseProblem:
    """What is explained, by how many components of how many places, under which constraints."""

    S: Array
    F: Array
    Q: Array
    d: int
    k: int
    square: Array
    bound: float
    dense: Array
    limit: float | None = None
    places: Any = None

    @classmethod
    def pose(
        cls,
        S: Array,
        F: Array,
        Q: Array,
        d: int,
        k: int,
        limit: float | None = None,
        places: Any = None,
    ) -> SparseProblem:
        """Compute what every k shares: S², the bound, and dense components that attain it."""
        return cls(S, F, Q, d, k, S @ S, *explained_bound(S, F, d), limit, places)

    @property
    def is_uncorrelated(self) -> bool:
        """Whether a support always leaves room for scores without correlation."""
        sizes = np.ones(self.k, int)
        if self.places is not None:
            sizes = np.sort(np.sum(self.places < len(self.S), axis=1))[: self.k]
        return int(sizes.sum()) >= len(self.F) + self.d

    @property
    def is_plain(self) -> bool:
        """Whether many sets of supports can be solved at once."""
        return self.is_uncorrelated and self.limit is None and self.places is None

    @property
    def correlation_cost(self) -> float:
        """Cost of a squared correlation of two scores, where they cannot be uncorrelated."""
        return 0.0 if self.is_uncorrelated else self.bound / self.d

    def features(self, support: Any) -> Any:
        """Return the features of a support, rising."""
        return features_of(support, self.places, len(self.S))

    def excess(self, V: Array) -> float:
        """How far the whitened covariance gap lies above its limit."""
        return 0.0 if self.limit is None else max(whitened_gap(self.S, self.Q, V) - self.limit, 0.0)

    def value(self, V: Array) -> float:
        """Explained variance less what correlation and a broken limit cost."""
        # The correlation r of two scores costs the share r² of a component's worth. A gap above
        # its limit costs more than all that could be explained by breaking it.
        value = sum(explained_variances(self.S, V))
        if self.correlation_cost:
            value -= self.correlation_cost * np.sum(np.triu(correlations(self.S, V), 1) ** 2)
        return float(value - 10.0 * self.bound * self.excess(V))


class State(NamedTuple):
    """Components V (p, d) on supports, one row of places for each, and what they are worth."""

    value: float
    V: Array
    supports: Any


def explained_bound(S: Array, F: Array, d: int) -> tuple[float, Array]:
    """Return the most that d scores of equal means explain, and directions (p, d) that do.

    No set of d scores with FV = 0 explains more, however many features each of them uses.
    """
    # With v = UΛ^-½w the value is wᵀΛw/wᵀw, and the constraint FUΛ^-½w = 0.
    values, U = np.linalg.eigh(S)
    kept = values > _RANK_FLOOR * max(values[-1], 0.0)
    root = U[:, kept] / np.sqrt(values[kept])
    N = independent_rows(F @ root, 1e-12).T
    inner = np.diag(values[kept])
    inner = inner - N @ (N.T @ inner)
    count = min(d, int(kept.sum()) - N.shape[1])
    top, W = top_eigenpairs(symmetrize(inner - (inner @ N) @ N.T), count)
    return float(np.maximum(top, 0.0).sum()), root @ W


def independent_rows(rows: Array, floor: float) -> Array:
    """Orthonormal rows of the same span; smaller singular values than `floor` are rounding."""
    if not rows.size:
        return np.zeros((0, rows.shape[1]))
    _, sizes, right = np.linalg.svd(rows, full_matrices=False)
    return right[sizes > floor]


def explained_variances(S: Array, V: Array) -> list[float]:
    """Variance of all features that each score explains, given the scores before it."""
    # A triangular factor of VᵀSV makes each score uncorrelated with those before.
    SV = S @ V
    scale = np.sqrt(np.maximum(np.sum(V * SV, axis=0), np.finfo(float).tiny))
    M = (V.T @ SV) / np.outer(scale, scale)
    L = np.linalg.cholesky(M + _ROUNDING * np.eye(len(M)))
    return [
        float(x)
        for x in np.sum(scipy.linalg.solve_triangular(L, (SV / scale).T, lower=True) ** 2, axis=1)
    ]


def correlations(S: Array, V: Array) -> Array:
    """Correlation matrix of the scores."""
    C = V.T @ S @ V
    scale = np.sqrt(np.maximum(np.diag(C), np.finfo(float).tiny))
    return np.asarray(C / np.outer(scale, scale))


def whitened_gap(S: Array, Q: Array, V: Array) -> float:
    """Largest spectral norm of a covariance gap of the whitened scores."""
    scale = np.sqrt(np.maximum(np.sum(V * (S @ V), axis=0), np.finfo(float).tiny))
    L = np.linalg.cholesky(correlations(S, V) + _ROUNDING * np.eye(V.shape[1]))
    G = scipy.linalg.solve_triangular(L, (V / scale).T, lower=True).T
    return float(spectral_norms(symmetrize(G.T @ Q @ G)).max(initial=0.0))


def features_of(support: Any, places: Any, p: int) -> Any:
    """Return the features of a support, rising; `places` (U, w) has them, p: none."""
    chosen = support if places is None else places[support].ravel()
    return np.sort(chosen[chosen < p])
