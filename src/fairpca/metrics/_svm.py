"""Linear support vector machines for many label vectors at once.

Permutation nulls need the same SVM for hundreds of label vectors on the same rows. In the primal
an SVM on d components has d + 1 unknowns, so Newton's method on all label vectors together costs a
few matrix products an iteration. The hinge is rounded off on a short stretch, which makes the
minimiser unique and Newton's method applicable; each group has total weight one half, because Δ
does not depend on how large the groups are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairpca.metrics._thresholds import Floats, Signs, masses

# From nearly the difference of means to nearly no regularisation, per unit of total weight.
PENALTIES = (1.0, 0.1, 0.01, 0.001)
_ROUNDING = 0.5  # margin over which the hinge turns from slope 0 to slope 1
_CHUNK_CELLS = 1 << 17  # label vectors × rows worked on together, so that they stay in the cache
_DENSE_HESSIAN = 16  # components up to which products of columns are kept for the Hessians
_MAX_ITER = 100
_GRADIENT_TOLERANCE = 1e-7


def whiten(U: Floats, sample_weight: Floats | None = None) -> tuple[Floats, Floats]:
    """Map rows to uncorrelated components of unit variance.

    Half-spaces are the same sets in any coordinates, and in these an SVM does not depend on
    scales and correlations of the representation.

    Parameters
    ----------
    U : ndarray of shape (n, d)
        The representation.
    sample_weight : ndarray of shape (n,), optional
        Row weights.

    Returns
    -------
    whitened : ndarray of shape (n, r)
        Centred, with covariance I; r < d where components depend on each other.
    back : ndarray of shape (d, r)
        Column j maps the j-th whitened direction to a direction of `U`.
    """
    weight = np.ones(len(U)) if sample_weight is None else sample_weight
    share = weight / weight.sum()
    # Measured from one row, equal values are exactly zero; from the mean they might not be.
    centred = U - U[0]
    centred -= share @ centred
    scale = np.sqrt(share @ centred**2)
    scale[np.ptp(U, axis=0) == 0] = 0.0
    used = scale > 0
    standard = centred[:, used] / scale[used]
    _, singular, right = np.linalg.svd(np.sqrt(share)[:, None] * standard, full_matrices=False)
    kept = singular > 1e-10 * singular.max(initial=0.0)
    turned = right[kept].T / singular[kept]
    back = np.zeros((U.shape[1], int(kept.sum())))
    back[used] = turned / scale[used][:, None]
    return standard @ turned, back


def svm_directions(U: Floats, signs: Signs, sample_weight: Floats | None = None) -> Floats:
    """Train one linear SVM for each label vector and penalty.

    Parameters
    ----------
    U : ndarray of shape (n, d)
        Whitened rows.
    signs : ndarray of int8, shape (m, n)
        Label vectors: +1, −1, or 0 for rows to leave out.
    sample_weight : ndarray of shape (n,), optional
        Row weights.

    Returns
    -------
    ndarray of shape (m, len(PENALTIES), d)
        Weight vectors, by falling penalty.
    """
    n, d = U.shape
    directions = np.zeros((len(signs), len(PENALTIES), d))
    if d == 0:
        return directions
    design = np.column_stack([U, np.ones(n)])
    products = None
    if d <= _DENSE_HESSIAN:
        rows, columns = np.triu_indices(d + 1)
        products = design[:, rows] * design[:, columns]
    size = max(1, _CHUNK_CELLS // n)
    for i in range(0, len(signs), size):
        chunk = signs[i : i + size]
        mass = masses(chunk, sample_weight)
        weight = 0.5 * np.abs(mass.values) / mass.scale[:, None]
        problem = _Problem(design, products, chunk.astype(float), weight)
        theta = np.zeros((len(chunk), d + 1))
        for j, penalty in enumerate(PENALTIES):
            theta = _newton(problem, theta, penalty)
            directions[i : i + size, j] = theta[:, :d]
    return directions


@dataclass(frozen=True, eq=False)
class _Problem:
    """SVMs on the same rows: design with a constant column, labels and loss weights."""

    design: Floats
    products: Floats | None
    labels: Floats
    weight: Floats

    def take(self, active: NDArray[np.bool_] | NDArray[np.intp]) -> _Problem:
        return _Problem(self.design, self.products, self.labels[active], self.weight[active])

    def objective(self, theta: Floats, penalty: float) -> tuple[Floats, Floats]:
        """Return the objective and the shortfall of each row, cut at the rounding."""
        short = theta @ self.design.T
        short *= self.labels
        np.subtract(1.0, short, out=short)
        np.maximum(short, 0.0, out=short)
        cut = np.minimum(short, _ROUNDING)
        # Loss: cut²/2r + (short − cut) = cut·(cut/2r − 1) + short.
        loss = cut * (0.5 / _ROUNDING)
        loss -= 1.0
        loss *= cut
        loss += short
        value = np.einsum("mn,mn->m", self.weight, loss)
        return value + 0.5 * penalty * np.einsum("md,md->m", theta[:, :-1], theta[:, :-1]), cut

    def gradient(self, theta: Floats, cut: Floats, penalty: float) -> Floats:
        pull = cut * self.weight
        pull *= self.labels
        slope = pull @ self.design
        slope *= -1.0 / _ROUNDING
        slope[:, :-1] += penalty * theta[:, :-1]
        return slope

    def hessian(self, cut: Floats, penalty: float) -> Floats:
        curved = self.weight * ((cut > 0) & (cut < _ROUNDING))
        curved *= 1.0 / _ROUNDING
        k = self.design.shape[1]
        if self.products is None:
            matrices = np.stack([(self.design.T * row) @ self.design for row in curved])
        else:
            rows, columns = np.triu_indices(k)
            matrices = np.empty((len(cut), k, k))
            matrices[:, rows, columns] = curved @ self.products
            matrices[:, columns, rows] = matrices[:, rows, columns]
        # The intercept is free; a trace of ridge keeps the matrix regular where no row is curved.
        diagonal = np.append(np.full(k - 1, penalty), 1e-10)
        matrices[:, np.arange(k), np.arange(k)] += diagonal
        return matrices


def _newton(problem: _Problem, theta: Floats, penalty: float) -> Floats:
    """Minimise from `theta`; label vectors that have converged drop out."""
    theta = theta.copy()
    active = np.arange(len(theta))
    value, cut = problem.objective(theta, penalty)
    for _ in range(_MAX_ITER):
        gradient = problem.gradient(theta[active], cut, penalty)
        open_ = np.abs(gradient).max(axis=1) > _GRADIENT_TOLERANCE
        if not open_.all():
            active, problem = active[open_], problem.take(open_)
            gradient, value, cut = gradient[open_], value[open_], cut[open_]
        if not active.size:
            break
        hessian = problem.hessian(cut, penalty)
        step = np.asarray(-np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0], dtype=float)
        theta[active], value, cut = _line_search(
            problem, theta[active], step, gradient, value, penalty
        )
    return theta


def _line_search(
    problem: _Problem,
    theta: Floats,
    step: Floats,
    gradient: Floats,
    value: Floats,
    penalty: float,
) -> tuple[Floats, Floats, Floats]:
    """Halve the steps that do not descend enough."""
    slope = np.einsum("md,md->m", step, gradient)
    length = np.ones(len(theta))
    trial = theta + step
    new_value, cut = problem.objective(trial, penalty)
    for _ in range(40):
        short = np.flatnonzero(new_value > value + 1e-4 * length * slope + 1e-14)
        if not short.size:
            break
        length[short] *= 0.5
        trial[short] = theta[short] + length[short, None] * step[short]
        new_value[short], cut[short] = problem.take(short).objective(trial[short], penalty)
    return trial, new_value, cut
