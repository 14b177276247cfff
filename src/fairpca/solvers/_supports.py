"""Which features a sparse direction is made of: supports grown and swapped, scored many at once.

A direction v with few non-zero entries and Cv = 0 has the value vᵀAv / vᵀMv. A: numerators
(t, p, p), of which the smallest value counts; M: denominator (p, p); C: constraints (r, p);
T: supports (n, m), rows of places. A place is a feature, or a set of features that enter together.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fairpca.linalg import Array, complement_basis, symmetrize
from fairpca.solvers._sparse_problem import features_of

# Relative to the largest variance: less is a direction in which nothing varies.
_FLAT = 1e-10
# Relative to unit rows: what is left of a constraint that the features of a support cannot meet.
_UNMET = 1e-7
_RANK = 1e-9
# Steps of Newton's method on the secular equation; it converges from below, quadratically.
_NEWTON_STEPS = 6
# Features that pairs start from.
_MOST_FIRST = 100
_SWAP_ROUNDS = 30
_IMPROVEMENT = 1e-9
# Values that are computed at once, so that memory stays small.
_AT_ONCE = 2_000_000


class Quotient(NamedTuple):
    """vᵀA_tv / vᵀMv under Cv = 0; `places` (U, w) has the features of each place, p: none."""

    A: Array
    M: Array
    C: Array
    places: Any = None

    @property
    def n_places(self) -> int:
        """Number of places to choose from."""
        return len(self.M) if self.places is None else len(self.places)


def search_supports(
    quotient: Quotient, size: int, n_starts: int, starts: Any = None
) -> tuple[Any, Array]:
    """Return supports of so many places and their values, the best first.

    Supports grow from the best pairs, then places are swapped while that helps. `starts` (n, size)
    are swapped as well.
    """
    supports = _grow(quotient, size, n_starts)
    if starts is not None:
        supports = np.concatenate([supports, starts])
    supports, values = _swap(quotient, np.unique(np.sort(supports, axis=1), axis=0))
    supports, first = np.unique(supports, axis=0, return_index=True)
    order = np.argsort(-values[first], kind="stable")
    return supports[order], values[first][order]


def best_directions(quotient: Quotient, support: Any) -> Array:
    """Return the best direction on a support for each numerator, as columns (p, t) of unit length.

    There are no columns where the constraints leave no direction.
    """
    chosen = features_of(support, quotient.places, len(quotient.M))
    N = complement_basis(quotient.C[:, chosen], 1e-12)
    if not N.shape[1]:
        return np.zeros((len(quotient.M), 0))
    at = np.ix_(chosen, chosen)
    root = unit_variance(N.T @ quotient.M[at] @ N, _scale(quotient.M))
    N = N @ root[:, root.any(axis=0)]
    if not N.shape[1]:
        return np.zeros((len(quotient.M), 0))
    A = symmetrize(N.T @ quotient.A[:, at[0], at[1]] @ N)
    directions = np.zeros((len(quotient.M), len(A)))
    directions[chosen] = N @ np.linalg.eigh(A)[1][:, :, -1].T
    return np.asarray(directions / np.linalg.norm(directions, axis=0))


def _grow(quotient: Quotient, size: int, n_starts: int) -> Any:
    """Add the best place again and again, from pairs that share few places."""
    # A support of m places meets m − 1 constraints at most, so that those come in one by one.
    p, r = quotient.n_places, len(quotient.C)
    single = np.diagonal(quotient.A[0]) / np.maximum(
        np.diag(quotient.M), _scale(quotient.M) * _FLAT
    )
    if quotient.places is not None:
        single = np.append(single, -np.inf)[quotient.places].max(axis=1)
    first = np.argsort(-single, kind="stable")[:_MOST_FIRST, None]
    if size == 1 or p == 1:
        return first[:n_starts]
    values = _addition_values(quotient._replace(C=quotient.C[: min(r, 1)]), first)
    pairs, used = [], np.zeros(p, int)
    for flat in np.argsort(-values, axis=None, kind="stable"):
        one, other = int(first[flat // p, 0]), int(flat % p)
        if max(used[one], used[other]) < 2 and {one, other} not in pairs and one != other:
            pairs.append({one, other})
            used[[one, other]] += 1
        if len(pairs) == n_starts:
            break
    supports = np.array([sorted(pair) for pair in pairs])
    while supports.shape[1] < min(size, p):
        m = supports.shape[1]
        best = np.argmax(
            _addition_values(quotient._replace(C=quotient.C[: min(r, m)]), supports), 1
        )
        supports = np.column_stack([supports, best])
    return supports


def _swap(quotient: Quotient, supports: Any) -> tuple[Any, Array]:
    """Exchange one place of each support for the best other, while that helps."""
    n, m = supports.shape
    p = quotient.n_places
    values = np.full(n, -np.inf)
    active = np.arange(n)
    for _ in range(_SWAP_ROUNDS):
        swapped = swap_values(quotient, supports[active]).reshape(len(active), m * p)
        best = np.argmax(swapped, axis=1)
        value = swapped[np.arange(len(active)), best]
        better = value > values[active] + _IMPROVEMENT * np.abs(value)
        active, best = active[better], best[better]
        values[active] = value[better]
        if not len(active) or m == p:
            break
        supports[active, best // p] = best % p
    return np.sort(supports, axis=1), values


def swap_values(quotient: Quotient, supports: Any) -> Array:
    """Value of each support (n, m) with one place exchanged for another, (n, m, U)."""
    n, m = supports.shape
    kept = np.array([np.delete(np.arange(m), i) for i in range(m)], dtype=int).reshape(m, m - 1)
    smaller = supports[:, kept].reshape(n * m, m - 1)
    return _addition_values(quotient, smaller).reshape(n, m, quotient.n_places)


def _addition_values(quotient: Quotient, T: Any) -> Array:
    """Value of the best direction on each support with one more place, (n, U); −inf inside it."""
    n, m = T.shape
    step = max(1, _AT_ONCE // (max(m, 1) * quotient.n_places))
    add = _add_feature if quotient.places is None else _add_places
    parts = []
    for start in range(0, n, step):
        some = T[start : start + step]
        parts.append(np.min([add(quotient, A, some) for A in quotient.A], axis=0))
        np.put_along_axis(parts[-1], some, -np.inf, axis=1)
    return np.concatenate(parts)


def _add_feature(quotient: Quotient, A: Array, T: Any) -> Array:
    """Rayleigh-Ritz on each support and one more feature, for all features at once."""
    # W: M-orthonormal eigenvectors on the support, eigenvalues λ. Feature j brings one direction
    # n_j = e_j + x_j that meets the constraints, x_j on the support. In the basis of W and of
    # n_j made M-orthogonal to it A is an arrow: diag(λ), border b, corner c.
    M, C, scale = quotient.M, quotient.C, _scale(quotient.M)
    if not T.shape[1]:
        return np.tile(np.diag(A) / np.maximum(np.diag(M), scale * _FLAT), (len(T), 1))
    at = T[:, :, None], T[:, None, :]
    C_T = C[:, T].transpose(1, 0, 2)
    inverse = np.linalg.pinv(C_T, rcond=_RANK) if len(C) else np.zeros((*T.shape, 0))
    X = -inverse @ C
    met = np.abs(C + C_T @ X).max(axis=1, initial=0.0) < _UNMET
    P = np.eye(T.shape[1]) - inverse @ C_T
    W, values = _eigenvectors(P, A[at], M[at], scale)
    MX, AX = M[at] @ X, A[at] @ X
    WP = W.transpose(0, 2, 1) @ P
    g, h = WP @ (M[T] + MX), WP @ (A[T] + AX)
    size = np.diag(M) + np.sum(X * (2.0 * M[T] + MX) - g * g, axis=1)
    corner = np.diag(A) + np.sum(
        X * (2.0 * A[T] + AX) - g * (2.0 * h - values[..., None] * g), axis=1
    )
    moves = met & (size > _FLAT * scale)
    size = np.where(moves, size, 1.0)
    border = (h - values[..., None] * g) / np.sqrt(size)[:, None]
    return np.where(moves, _largest_root(values, border, corner / size), values[:, -1:])


def _eigenvectors(P: Array, A: Array, M: Array, scale: float) -> tuple[Array, Array]:
    """M-orthonormal eigenvectors and eigenvalues of A in the range of P, (n, m, m) and (n, m)."""
    # Directions outside the range get an eigenvalue below all others, so that all shapes agree.
    outside = np.eye(P.shape[-1]) - P
    lowest = 10.0 * (np.abs(A).max(initial=0.0) / scale + scale)
    inverse = whitening(P @ M @ P + scale * outside, scale)
    back = inverse.transpose(0, 2, 1)
    values, vectors = np.linalg.eigh(
        symmetrize(inverse @ (P @ A @ P - lowest * scale * outside) @ back)
    )
    return back @ vectors, values


def _largest_root(values: Array, border: Array, corner: Array) -> Array:
    """Largest eigenvalue of arrow matrices: diagonal (n, m), border (n, m, p), corner (n, p)."""
    # Above the poles μ − c − Σb²/(μ − λ) is concave and rises, and the first value, of the
    # last pole alone, is below the root: so is every step of Newton's method.
    top, square = values[:, -1:], border**2
    half = (top - corner) / 2.0
    root = (top + corner) / 2.0 + np.sqrt(half**2 + square[:, -1])
    tiny = 1e-14 * (np.abs(values).max() + np.abs(corner).max())
    for _ in range(_NEWTON_STEPS if values.shape[1] > 1 else 0):
        distance = np.maximum(root[:, None] - values[..., None], tiny)
        share = square / distance
        slope = 1.0 + np.sum(share / distance, axis=1)
        root = root - (root - corner - np.sum(share, axis=1)) / slope
    return root


def _add_places(quotient: Quotient, A: Array, T: Any) -> Array:
    """Value of each support with each further place, by eigenproblems padded to one size."""
    places, scale = quotient.places, _scale(quotient.M)
    assert places is not None
    U = len(places)
    both = np.concatenate([np.repeat(T, U, axis=0), np.tile(np.arange(U), len(T))[:, None]], axis=1)
    chosen = places[both].reshape(len(both), -1)
    at = chosen[:, :, None], chosen[:, None, :]
    # A feature that does not exist has no variance and no constraint.
    M, A = (np.pad(matrix, (0, 1))[at] for matrix in (quotient.M, A))
    C = np.pad(quotient.C, ((0, 0), (0, 1)))[:, chosen].transpose(1, 0, 2)
    P = np.eye(chosen.shape[1]) - (np.linalg.pinv(C, rcond=_RANK) @ C if C.size else 0.0)
    return _eigenvectors(np.broadcast_to(P, M.shape), A, M, scale)[1][:, -1].reshape(len(T), U)


def unit_variance(M: Array, scale: float) -> Array:
    """Return B with BᵀMB = I, but for zero columns where nothing varies, as with all levels."""
    values, vectors = np.linalg.eigh(symmetrize(M))
    flat = values <= _RANK * scale
    return np.asarray(vectors * (~flat / np.sqrt(np.where(flat, 1.0, values)))[..., None, :])


def whitening(M: Array, scale: float) -> Array:
    """Return L⁻¹ with LLᵀ = M, which is lifted by rounding so that it has one."""
    return np.asarray(
        np.linalg.inv(np.linalg.cholesky(symmetrize(M) + _FLAT * scale * np.eye(M.shape[-1])))
    )


def _scale(M: Array) -> float:
    return float(np.diag(M).max(initial=0.0)) or 1.0
