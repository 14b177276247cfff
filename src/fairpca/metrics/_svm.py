"""SVMs as the families of Δ use them: linear for many label vectors at once, and Gaussian.

Permutation nulls need the same SVM for hundreds of label vectors on the same rows. In the primal
an SVM on d components has d + 1 unknowns, so Newton's method costs a few passes over the rows an
iteration; label vectors are worked on together, as many as stay in the cache. The hinge is rounded
off over a short range, which makes the minimiser unique and Newton's method applicable; each group
has total weight one half, because Δ does not depend on how large the groups are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC

from fairpca.exceptions import InvalidInputError
from fairpca.linalg import Array
from fairpca.metrics._rules import (
    Fit,
    KernelRule,
    Signs,
    best_cut,
    kernel_sums,
    masses,
    sup_between_groups,
    sup_over_thresholds,
)

# Per unit of total weight: nearly the difference of means, and nearly no regularisation.
PENALTIES = (1.0, 0.001)
_ROUNDING = 0.5  # margin over which the hinge turns from slope 0 to slope 1
_CURVED_FROM = 1.0 - _ROUNDING  # margins from here to 1 are where the loss is curved
_NUMBERS_AT_ONCE = 1 << 17  # in the designs worked on together, so that they stay in the cache
_START = 0.4  # norm of a weight vector with which some rows are on the curved part of their loss
_MAX_ITER = 100
_MAX_CUTS = 40
_STEEP = 0.5  # slope at the end of a step, as a share of that at its start, that is too much
_NOISE = 1e-10  # gradients below it are rounding
TOLERANCE = 1e-2  # of the gradient at zero; tighter than the stopping rule of usual SVM solvers


_ROUNDINGS = 4.0  # a component smaller than so many roundings of the rows is none


def whiten(U: Array, sample_weight: Array | None = None) -> tuple[Array, Array]:
    """Map rows to uncorrelated components of unit variance, fewer where components depend."""
    # Half-spaces are the same sets in any coordinates, and in these an SVM does not depend on
    # scales and correlations. Column j of the second result maps the j-th direction back.
    weight = np.ones(len(U)) if sample_weight is None else sample_weight
    share = weight / weight.sum()
    # Measured from one row, equal values are exactly zero; from the mean they might not be.
    centred = U - U[0]
    centred -= share @ centred
    scale = np.sqrt(share @ centred**2)
    scale[np.ptp(U, axis=0) == 0] = 0.0
    used = scale > 0
    standard = centred[:, used] / scale[used]
    # The triangle has the singular values of the rows, and their left vectors are not needed.
    triangle = np.linalg.qr(np.sqrt(share)[:, None] * standard, mode="r")
    _, singular, right = np.linalg.svd(triangle, full_matrices=False)
    # Next to a large offset the digits of a row end early: what is left of a component that
    # depends on others is then no direction, but rounding.
    rounding = np.max(np.abs(U[:, used]).max(axis=0) / scale[used], initial=0.0)
    least = max(1e-10 * singular.max(initial=0.0), _ROUNDINGS * np.finfo(np.float64).eps * rounding)
    kept = singular > least
    turned = right[kept].T / singular[kept]
    back = np.zeros((U.shape[1], int(kept.sum())))
    back[used] = turned / scale[used][:, None]
    return standard @ turned, back


def svm_directions(
    U: Array, signs: Signs, sample_weight: Array | None = None, *, tolerance: float = TOLERANCE
) -> Array:
    """Return the weight vectors, label vectors × penalties × components, of whitened rows."""
    directions = [batch for _, batch in train_svms(U, signs, sample_weight, tolerance=tolerance)]
    return np.concatenate(directions)


def train_svms(
    U: Array, signs: Signs, sample_weight: Array | None = None, *, tolerance: float = TOLERANCE
) -> Iterator[tuple[LinearSVMs, Array]]:
    """Train as `svm_directions` does, and hand out SVMs and weight vectors a few at a time."""
    columns = np.ascontiguousarray(U.T)
    size = max(1, _NUMBERS_AT_ONCE // (len(U) * (U.shape[1] + 1)))
    counts = np.stack([(signs > 0).sum(axis=1), (signs < 0).sum(axis=1)])
    # Label vectors are stacked, so those worked on together have groups of the same sizes.
    changes = 1 + np.flatnonzero((counts[:, 1:] != counts[:, :-1]).any(axis=0))
    for batch in np.split(signs, changes):
        for start in range(0, len(batch), size):
            svms = LinearSVMs.of(columns, batch[start : start + size], sample_weight)
            yield svms, svms.train(tolerance)


@dataclass(frozen=True, eq=False)
class LinearSVMs:
    """SVMs that are trained together, one for each label vector."""

    design: Array  # SVMs × (components and a one) × rows, the first group's, then minus the rest
    weight: Array  # SVMs × rows (one row if not `weighted`), one half in total for each group
    weighted: bool
    n_plus: int  # rows of the first group

    @classmethod
    def of(cls, columns: Array, signs: Signs, sample_weight: Array | None) -> LinearSVMs:
        """Sort the rows of every label vector by group, and weigh them."""
        groups = [np.flatnonzero(signs == sign).reshape(len(signs), -1) for sign in (1, -1)]
        rows = np.concatenate(groups, axis=1)
        rows -= signs.shape[1] * np.arange(len(signs))[:, None]
        n_plus, n = groups[0].shape[1], rows.shape[1]
        design = np.empty((len(signs), len(columns) + 1, n))
        for part, order in zip(design, rows, strict=True):
            np.take(columns, order, axis=1, out=part[:-1], mode="clip")
        design[:, -1] = 1.0
        design[:, :, n_plus:] *= -1.0
        weight = np.ones((1, n)) if sample_weight is None else sample_weight[rows]
        for group in (weight[:, :n_plus], weight[:, n_plus:]):
            group *= 0.5 / group.sum(axis=1, keepdims=True)
        return cls(design, weight, sample_weight is not None, n_plus)

    def train(self, tolerance: float) -> Array:
        """Return the weight vectors along the path of penalties."""
        m, k, _ = self.design.shape
        directions = np.zeros((m, len(PENALTIES), k - 1))
        if k == 1:
            return directions
        # At zero every row is on the straight part of its loss: no curvature, one pull for all.
        slope = -np.matmul(self.design, self.weight[:, :, None])[:, :, 0]
        margins = np.full((m, self.design.shape[2]), _CURVED_FROM)
        state = _State(np.zeros((m, k)), margins, slope)
        stop = np.maximum(tolerance * np.abs(slope).max(axis=1), _NOISE)
        for j, penalty in enumerate(PENALTIES):
            if j:
                state = self._lengthened(state)
            _newton(self, state, penalty, stop)
            directions[:, j] = state.theta[:, :-1]
        return directions

    def _lengthened(self, state: _State) -> _State:
        """Start where losses are curved: from shorter weight vectors a Newton step flies off."""
        norm = np.linalg.norm(state.theta[:, :-1], axis=1)
        factor = np.where(norm > _NOISE, np.maximum(1.0, _START / np.maximum(norm, _NOISE)), 1.0)
        theta = factor[:, None] * state.theta
        return _State(theta, *self.evaluate(theta))

    def suprema(self, directions: Array) -> Array:
        """Return the suprema over thresholds along directions of shape (m, any number, d)."""
        scores = np.matmul(directions, self.design[:, :-1])
        scores[:, :, self.n_plus :] *= -1.0  # the second group's rows are stored as negatives
        weight = 2.0 * self.weight[:, None] if self.weighted else None
        return sup_between_groups(scores, self.n_plus, weight)

    def take(self, chosen: NDArray[np.intp]) -> LinearSVMs:
        """Return some of the SVMs."""
        weight = self.weight[chosen] if self.weighted else self.weight
        return replace(self, design=self.design[chosen], weight=weight)

    def evaluate(self, theta: Array) -> tuple[Array, Array]:
        """Return the margins, cut to where losses are curved, and the slopes of the losses."""
        clipped = np.matmul(theta[:, None, :], self.design)[:, 0]
        np.clip(clipped, _CURVED_FROM, 1.0, out=clipped)
        pull = clipped - 1.0
        pull *= self.weight
        slope = np.matmul(self.design, pull[:, :, None])[:, :, 0]
        slope *= 1.0 / _ROUNDING
        return clipped, slope

    def curvature(self, clipped: Array) -> Array:
        """Return the Hessians of the losses."""
        curved = (clipped > _CURVED_FROM) & (clipped < 1.0)
        pull = np.where(curved, self.weight / _ROUNDING, 0.0)
        return np.matmul(self.design * pull[:, None, :], self.design.transpose(0, 2, 1))


@dataclass(frozen=True, eq=False)
class _State:
    """Where SVMs are: parameters, margins cut to the curved part, slopes of the losses."""

    theta: Array
    clipped: Array
    slope: Array

    def take(self, chosen: NDArray[np.intp]) -> _State:
        return _State(self.theta[chosen], self.clipped[chosen], self.slope[chosen])

    def put(self, chosen: NDArray[np.intp], other: _State) -> None:
        self.theta[chosen] = other.theta
        self.clipped[chosen] = other.clipped
        self.slope[chosen] = other.slope

    def gradient(self, penalty: float) -> Array:
        ridge = penalty * self.theta
        ridge[:, -1] = 0.0  # the intercept is free
        return self.slope + ridge


def _newton(svms: LinearSVMs, state: _State, penalty: float, stop: Array) -> None:
    """Minimise from `state`, in place; SVMs that have converged are not moved any more."""
    k = state.theta.shape[1]
    # A trace of ridge keeps the intercept's entry regular where no row is curved.
    ridge = np.diag(np.append(np.full(k - 1, penalty), 1e-10))
    for _ in range(_MAX_ITER):
        gradient = state.gradient(penalty)
        open_ = np.flatnonzero(np.abs(gradient).max(axis=1) > stop)
        if not open_.size:
            return
        if 2 * open_.size <= len(stop):
            part = state.take(open_)
            _newton(svms.take(open_), part, penalty, stop[open_])
            state.put(open_, part)
            return
        hessian = svms.curvature(state.clipped) + ridge
        step = np.asarray(-np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0], dtype=float)
        moved = _line_search(svms, state, step, gradient, penalty)
        state.put(open_, moved.take(open_))


def _line_search(
    svms: LinearSVMs, state: _State, step: Array, gradient: Array, penalty: float
) -> _State:
    """Shorten the steps that go too far."""
    # The objective is convex, so its slope along a step grows: a step whose end slopes down has
    # gained, and one whose end slopes up steeply is cut where the slope is expected to vanish.
    descent = np.einsum("md,md->m", step, gradient)
    length = np.ones(len(step))
    moved = _State(state.theta + step, *svms.evaluate(state.theta + step))
    for _ in range(_MAX_CUTS):
        ahead = np.einsum("md,md->m", step, moved.gradient(penalty))
        far = np.flatnonzero(ahead > -_STEEP * descent)
        if not far.size:
            break
        length[far] *= np.maximum(0.1, descent[far] / (descent[far] - ahead[far]))
        trial = state.theta[far] + length[far, None] * step[far]
        moved.put(far, _State(trial, *svms.take(far).evaluate(trial)))
    return moved


C_GRID = (0.1, 1.0, 10.0)
GAMMA_GRID = (0.1, 0.3, 1.0, 3.0)  # divided by the number of components
N_FOLDS = 5


class KernelStatistic:
    """Gaussian-kernel SVMs on standardised rows."""

    def __init__(
        self,
        U: Array,
        sample_weight: Array | None,
        C: float | None,
        gamma: float | None,
        trained: NDArray[np.intp],
        seed: int,
    ) -> None:
        self._weight = np.ones(len(U)) if sample_weight is None else sample_weight
        self._sample_weight = sample_weight
        self._seed = seed
        varies = np.ptp(U, axis=0) > 0
        share = self._weight / self._weight.sum()
        self._mean = share @ U
        self._scale = np.full(U.shape[1], np.inf)  # constant columns become zero
        self._scale[varies] = np.sqrt(share @ (U[:, varies] - self._mean[varies]) ** 2)
        self._n_varying = int(varies.sum())
        # Equal rows get one score: two computed ones could differ in the last bits.
        distinct, inverse = np.unique(U, axis=0, return_inverse=True)
        self._inverse = inverse.ravel()
        self._rows = (distinct - self._mean) / self._scale
        self._train = trained  # positions of the rows that SVMs are trained on; all are scored
        self._Cs = C_GRID if C is None else (C,)
        widths = tuple(g / max(1, self._n_varying) for g in GAMMA_GRID)
        self._gammas = widths if gamma is None else (gamma,)
        self._kernels: dict[float, Array] = {}

    def _kernel(self, gamma: float) -> Array:
        """Return the kernel between training rows, computed once for all label vectors."""
        if gamma not in self._kernels:
            rows = self._rows[self._inverse[self._train]]
            self._kernels[gamma] = rbf_kernel(rows, gamma=gamma)
        return self._kernels[gamma]

    def _usable(self, signs: Signs) -> NDArray[np.intp]:
        """Return positions, among the training rows, of those in the pair."""
        labels = signs[self._train]
        smallest = min(int((labels > 0).sum()), int((labels < 0).sum()))
        if smallest < 2:
            raise InvalidInputError(
                f"The sample of {len(self._train)} rows that the Gaussian SVM is trained on "
                f"holds {smallest} rows of a group: raise max_samples."
            )
        return np.flatnonzero(labels)

    def _svm(self, rows: NDArray[np.intp], labels: Signs, gamma: float, C: float) -> SVC:
        weight = self._weight[self._train[rows]].copy()
        for sign in (1, -1):  # groups count equally, whatever their size
            weight[labels == sign] *= 0.5 * len(rows) / weight[labels == sign].sum()
        kernel = self._kernel(gamma)[np.ix_(rows, rows)]
        # Thousands of small SVMs: most of the time of each would be checks of what is known here.
        with config_context(assume_finite=True, skip_parameter_validation=True):
            return SVC(C=C, kernel="precomputed").fit(kernel, labels, sample_weight=weight)

    def _choose(self, rows: NDArray[np.intp], labels: Signs) -> tuple[float, float]:
        """Return the smoothest (gamma, C) within one standard error of the best held out."""
        # Where groups are alike the held-out statistics differ by chance only, and the largest of
        # twelve would often be that of the wiggliest SVM.
        pairs = [(gamma, C) for gamma in self._gammas for C in self._Cs]
        if len(pairs) == 1:
            return pairs[0]
        n_folds = min(N_FOLDS, int((labels > 0).sum()), int((labels < 0).sum()))
        folds = StratifiedKFold(n_folds, shuffle=True, random_state=self._seed)
        splits = list(folds.split(rows, labels))
        results = []
        for gamma, C in pairs:
            kernel = self._kernel(gamma)
            held_out = []
            for inside, outside in splits:
                svm = self._svm(rows[inside], labels[inside], gamma, C)
                support = rows[inside][svm.support_]
                scores = kernel[np.ix_(rows[outside], support)] @ svm.dual_coef_[0]
                mass = masses(labels[outside][None], self._weight_of(rows[outside]))
                sup = sup_over_thresholds(scores[None], mass.values)
                held_out.append(float(sup[0] / mass.scale[0]))
            results.append(held_out)
        means = np.mean(results, axis=1)
        best = int(np.argmax(means))
        error = np.std(results[best], ddof=1) / np.sqrt(n_folds)
        return pairs[int(np.argmax(means >= means[best] - error))]

    def _weight_of(self, rows: NDArray[np.intp]) -> Array | None:
        return None if self._sample_weight is None else self._weight[self._train[rows]]

    def fit(self, signs: Signs) -> Fit:
        """Return the value of one pair, with its classifier."""
        if not self._n_varying:
            return Fit(0.0, None)
        rows = self._usable(signs)
        labels = signs[self._train[rows]]
        gamma, C = self._choose(rows, labels)
        svm = self._svm(rows, labels, gamma, C)
        coefficients, intercept = svm.dual_coef_[0], float(svm.intercept_[0])
        support = self._rows[self._inverse[self._train[rows[svm.support_]]]]
        scores = kernel_sums(self._rows, support, coefficients, gamma)[self._inverse] + intercept
        mass = masses(signs[None], self._sample_weight)
        cut = best_cut(scores, mass.values[0])
        if cut.below_row < 0:
            return Fit(0.0, None)
        classifier = KernelRule(
            support=support,
            coefficients=coefficients,
            intercept=intercept,
            gamma=gamma,
            C=C,
            mean=self._mean,
            scale=self._scale,
            threshold=cut.threshold,
            above=cut.above,
        )
        return Fit(cut.value / float(mass.scale[0]), classifier)

    def null(self, signs: Signs) -> Array:
        """Return the values of many pairs; tuning is repeated, kernels are not."""
        return np.array([self.fit(row).value for row in signs])
