"""Gaussian-kernel SVMs, tuned by cross-validation as in the paper."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC

from fairpca.exceptions import InvalidInputError
from fairpca.linalg import Array
from fairpca.metrics._classifiers import Fit, KernelRule, kernel_sums
from fairpca.metrics._thresholds import (
    Signs,
    best_cut,
    masses,
    sup_over_thresholds,
)

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
        self._given_weight = sample_weight
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
        return SVC(C=C, kernel="precomputed").fit(kernel, labels, sample_weight=weight)

    def _choose(self, rows: NDArray[np.intp], labels: Signs) -> tuple[float, float]:
        """Return the smoothest (gamma, C) within one standard error of the best held out.

        Where little leaks the held-out statistics differ by chance only, and the largest of
        twelve would often be that of the wiggliest SVM.
        """
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
        return None if self._given_weight is None else self._weight[self._train[rows]]

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
        mass = masses(signs[None], self._given_weight)
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
