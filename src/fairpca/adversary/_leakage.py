"""The leakage: how much of the labels a kernel ridge regression reads from a representation.

X: rows (n, r), S: their covariance, V or Y: a basis (r, d), B = Y·chol(YᵀSY)⁻ᵀ: the same basis
whitened, Ω: frequencies (d, h), φ(u) = (cos Ωᵀu, sin Ωᵀu)/√h: random Fourier features.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from fairpca.exceptions import NestedAttributeWarning, SmallGroupWarning
from fairpca.linalg import Array
from fairpca.moments import ContrastSet, GroupMoments
from fairpca.rows import Groups, Rows
from fairpca.rows._sampling import draw

# Frequencies have lengths between these, in standard deviations of a whitened score: half a wave
# over the whole cloud, and several over a detail of it.
SLOWEST, FASTEST = 0.3, 6.0
# Ridge of the regression, as a share of the mean eigenvalue of the features' second moments.
RIDGE = 1e-2
# Sharpness of the smooth maximum over targets: it is within log(t)/SHARPNESS of the largest R².
SHARPNESS = 40.0


@dataclass(frozen=True, eq=False)
class Targets:
    """Labels to be predicted, with rows weighted so that both groups of a contrast weigh the same.

    Rows are sorted by cell (combination of groups and strata). A target gives every cell a share
    of its weight, and inside a cell all targets weight the rows alike: second moments of features
    are summed once for each cell, however many targets there are.
    """

    names: tuple[str, ...]  # as in ``contrasts_``
    is_number: NDArray[np.bool_]  # (t,): which targets are numeric attributes
    shares: Array  # (t, c): weight of each cell in each target; rows sum to one
    labels: Array  # (t, n): ±1 or the number; centred with unit variance under the weights
    weights: Array  # (n,): weight of each row inside its cell; sums to one in every cell
    cells: NDArray[np.intp]  # (n,): the cell of each row, in rising order

    def __len__(self) -> int:
        return len(self.names)

    @property
    def bounds(self) -> list[slice]:
        """Rows of each cell."""
        edges = np.searchsorted(self.cells, np.arange(self.shares.shape[1] + 1))
        return [slice(start, stop) for start, stop in pairwise(edges.tolist())]

    def row_weights(self) -> Array:
        """Weight of every row in every target, shape (t, n); rows sum to one."""
        return np.asarray(self.shares[:, self.cells] * self.weights)

    def binary(self) -> dict[str, tuple[NDArray[np.int8], Array]]:
        """Labels of two classes and weights by name; 0: left out. Numbers are cut at the median."""
        by_name = {}
        for name, is_number, label, weight in zip(
            self.names, self.is_number, self.labels, self.row_weights(), strict=True
        ):
            inside = weight > 0.0
            middle = np.median(label[inside]) if is_number else 0.0
            signs = np.where(inside, np.where(label > middle, 1, -1), 0).astype(np.int8)
            by_name[name] = signs, weight
        return by_name

    def take(self, rows: NDArray[np.intp]) -> Targets:
        """Return the targets of some rows, in rising order, with every cell's share kept."""
        cells, weights = self.cells[rows], self.weights[rows]
        total = np.bincount(cells, weights, minlength=self.shares.shape[1])
        some = replace(
            self, labels=self.labels[:, rows], weights=weights / total[cells], cells=cells
        )
        return replace(some, labels=_standardised(some.labels, some.row_weights()))

    def draw(self, count: int, random: np.random.Generator) -> NDArray[np.intp]:
        """Draw at most `count` rows, as many of every cell as there are where it is small."""
        return draw(self.cells, count, random, balanced=True)


def _standardised(labels: Array, weights: Array) -> Array:
    labels = labels - np.sum(labels * weights, axis=1, keepdims=True)
    variance = np.sum(labels**2 * weights, axis=1, keepdims=True)
    return labels / np.sqrt(np.where(variance > 0.0, variance, 1.0))


def form_targets(
    rows: Rows, form_contrasts: Callable[[GroupMoments], ContrastSet]
) -> tuple[Targets, NDArray[np.intp]]:
    """Make a target of every contrast that is compared; also return the order of the rows in it.

    The contrasts of indicators of the cells say which cells are compared: the difference of their
    means is the share of each cell in the positive group, minus that in the negative group.
    """
    assert rows.weights is None or rows.weights.all(), "rows of weight zero are left out before"
    cells = rows.cells()
    order = np.argsort(cells, kind="stable").astype(np.intp)
    rows, cells = rows.take(order), cells[order]
    indicators = np.eye(cells[-1] + 1)[cells]
    contrasts = form_silently(
        form_contrasts, GroupMoments.from_rows(rows.with_features(indicators))
    )
    weights = np.ones(len(cells)) if rows.weights is None else rows.weights
    total = np.bincount(cells, weights)
    names, numbers, shares, labels = [], [], [], []
    strata = _strata_names(rows.strata, len(rows))
    for contrast in contrasts:
        if contrast.mean_gap is None:
            continue
        is_number = not contrast.negative
        if is_number:
            inside = total * (np.bincount(cells, strata == (contrast.stratum or "")) > 0)
            share, label = inside / inside.sum(), _numbers(rows.groups, contrast.attribute)
        else:
            share, label = np.abs(contrast.mean_gap) / 2, np.sign(contrast.mean_gap)[cells]
        names.append(contrast.label)
        numbers.append(is_number)
        shares.append(share)
        labels.append(label)
    targets = Targets(
        tuple(names), np.array(numbers), np.array(shares), np.array(labels), weights, cells
    )
    return targets.take(np.arange(len(cells))), order


def form_silently(
    form_contrasts: Callable[[GroupMoments], ContrastSet], moments: GroupMoments
) -> ContrastSet:
    """Form contrasts without the warnings that were said when all rows were compared."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallGroupWarning)
        warnings.simplefilter("ignore", NestedAttributeWarning)
        return form_contrasts(moments.coordinates())


def _strata_names(strata: Groups | None, n_rows: int) -> NDArray[np.str_]:
    names = np.full(n_rows, "", dtype=object)
    for position, column in enumerate(() if strata is None else strata.categorical):
        levels = np.array([f"{column.name}={level}" for level in column.levels], dtype=object)
        names = names + (", " if position else "") + levels[column.codes]
    return names.astype(str)


def _numbers(groups: Groups | None, name: str) -> Array:
    assert groups is not None
    return next(column.values for column in groups.numeric if column.name == name)


def random_frequencies(n_components: int, n_features: int, random: np.random.Generator) -> Array:
    """Frequencies in all directions and of all lengths alike: kernels of all bandwidths, mixed."""
    directions = random.standard_normal((n_components, n_features // 2))
    lengths = np.exp(random.uniform(np.log(SLOWEST), np.log(FASTEST), n_features // 2))
    return np.asarray(directions / np.linalg.norm(directions, axis=0) * lengths)


class Leakage:
    """R² of ridge regressions of the targets on random features of whitened scores.

    Calling it with a basis Y returns the (smoothly) largest R² and its gradient. Every regression
    is solved exactly, so that by the envelope theorem its weights are constants in the gradient.
    """

    def __init__(
        self,
        X: NDArray[Any],
        covariance: Array,
        targets: Targets,
        frequencies: Array,
        dtype: type[np.floating[Any]] = np.float32,
    ) -> None:
        # Single precision: twice as fast, and far below the noise of random features.
        self.X = X.astype(dtype)
        self.S = covariance
        self.targets = targets
        self.frequencies = frequencies.astype(dtype)
        self.root = np.sqrt(targets.weights).astype(dtype)[:, None]
        self.shares = targets.shares
        self.row_shares = targets.shares[:, targets.cells].T.astype(dtype)
        self.labels = targets.labels.T.astype(dtype) * self.root

    def __call__(self, Y: Array) -> tuple[float, Array]:
        """Return the leakage of a basis and its gradient in Y."""
        B, inverse = whitened(Y, self.S)
        features = self._features(B)
        amounts, beta, residual = self._regress(features)
        share = np.exp(SHARPNESS * (amounts - amounts.max()))
        value = float(amounts.max() + np.log(share.mean()) / SHARPNESS)
        G = self._scores_gradient(features, beta, residual, share / share.sum())
        # From B to Y: chol is differentiated through the lower triangle of GᵀB.
        T = np.tril(G.T @ B)
        T[np.diag_indices(len(T))] *= 0.5
        return value, (G - self.S @ B @ (T + T.T)) @ inverse

    def amounts(self, Y: Array) -> Array:
        """R² of every target."""
        return self._regress(self._features(whitened(Y, self.S)[0]))[0]

    def adjusted(self, Y: Array) -> Array:
        """R² of every target less what labels without relation to the rows would give."""
        F = self._features(whitened(Y, self.S)[0])
        amounts = self._regress(F)[0]
        sizes = np.bincount(self.targets.cells, self.targets.weights**2)
        chance = np.empty(len(amounts))
        second, first = self._moments(F)
        for t, share in enumerate(self.shares):
            mean, part = share @ first, share**2 * sizes
            cross = np.outer(part @ first, mean)
            noise = (part @ second).reshape(cross.shape) - cross - cross.T
            noise += part.sum() * np.outer(mean, mean)
            M = self._system(second, mean, share)
            chance[t] = np.trace(scipy.linalg.solve(M, noise, assume_a="pos", check_finite=False))
        chance = np.minimum(chance, 0.99)
        return np.asarray((amounts - chance) / (1.0 - chance))

    def _features(self, B: Array) -> Array:
        """Features of every row, times the root of its weight."""
        angles = (self.X @ B.astype(self.X.dtype)) @ self.frequencies
        half = angles.shape[1]
        features = np.empty((len(angles), 2 * half), dtype=angles.dtype)
        np.cos(angles, out=features[:, :half])
        np.sin(angles, out=features[:, half:])
        features *= self.root / np.sqrt(half).astype(angles.dtype)
        return features

    def _regress(self, F: Array) -> tuple[Array, Array, Array]:
        """R² (t,), coefficients (D, t) and residuals (n, t) times the root of the weight."""
        second, first = self._moments(F)
        means = self.shares @ first
        right = (self.row_shares * self.labels).T @ F
        beta = np.empty((F.shape[1], len(means)))
        for t, mean in enumerate(means):
            M = self._system(second, mean, self.shares[t])
            factor = scipy.linalg.cho_factor(M, overwrite_a=True, check_finite=False)
            beta[:, t] = scipy.linalg.cho_solve(factor, right[t], check_finite=False)
        amounts = np.sum(right.T * beta, axis=0)
        beta32 = beta.astype(F.dtype)
        constant = np.sum(means.T * beta, axis=0).astype(F.dtype)
        return amounts, beta32, self.labels - F @ beta32 + self.root * constant

    def _moments(self, F: Array) -> tuple[Array, Array]:
        """Second moments (c, D·D) and means (c, D) of the features of every cell."""
        bounds = self.targets.bounds
        second = np.stack([F[rows].T @ F[rows] for rows in bounds])
        first = np.stack([self.root[rows, 0] @ F[rows] for rows in bounds])
        return second.reshape(len(bounds), -1), first

    def _system(self, second: Array, mean: Array, share: Array) -> Array:
        """Matrix of the ridge regression of a target."""
        M = (share @ second).reshape(len(mean), -1) - np.outer(mean, mean)
        M[np.diag_indices(len(M))] += RIDGE / len(M)
        return M

    def _scores_gradient(self, F: Array, beta: Array, residual: Array, weight: Array) -> Array:
        """Gradient in B, with the coefficients held."""
        half = F.shape[1] // 2
        pull = (self.row_shares * residual * (2.0 * weight).astype(F.dtype)) @ beta.T
        slope = F[:, :half] * pull[:, half:] - F[:, half:] * pull[:, :half]
        return np.asarray(self.X.T @ (slope @ self.frequencies.T), dtype=np.float64)


def whitened(Y: Array, covariance: Array) -> tuple[Array, Array]:
    """Return B = Y·L⁻ᵀ and L⁻¹ with LLᵀ = YᵀSY."""
    L = np.linalg.cholesky(Y.T @ covariance @ Y)
    inverse = scipy.linalg.solve_triangular(L, np.eye(len(L)), lower=True)
    return Y @ inverse.T, inverse
