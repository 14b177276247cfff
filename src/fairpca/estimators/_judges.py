"""Classifiers that try to tell groups apart on rows they were not fitted to."""

from __future__ import annotations

from functools import partial

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC
from sklearn.utils import gen_batches

from fairpca._choices import DELTA_FAMILIES

# The widest kernel, divided by the number of components; scores have unit variance.
_GAMMA = 0.5
# So many, each narrower by half: the fourth power of the one before, so that one is enough.
_WIDTHS = 3
# Rows whose kernels are held at a time.
_BLOCK = 4096


def _gaussian(U, side, new, seed):
    gamma = _GAMMA / U.shape[1]
    machines = [
        SVC(kernel="precomputed").fit(kernel, side.signs, sample_weight=_weights(side))
        for kernel in _widths(rbf_kernel(U, gamma=gamma))
    ]
    blocks = (rbf_kernel(new[part], U, gamma=gamma) for part in gen_batches(len(new), _BLOCK))
    scores = [
        [machine.decision_function(k) for machine, k in zip(machines, _widths(block), strict=True)]
        for block in blocks
    ]
    return [np.concatenate(parts) for parts in zip(*scores, strict=True)]


def _widths(kernel):
    yield kernel
    for _ in range(_WIDTHS - 1):
        np.square(kernel, out=kernel)
        yield np.square(kernel, out=kernel)


def _linear(U, side, new, seed):
    classifier = LogisticRegression().fit(U, side.signs, sample_weight=_weights(side))
    return [classifier.decision_function(new)]


def _trees(U, side, new, seed):
    classifier = HistGradientBoostingClassifier(
        max_iter=100, early_stopping=False, random_state=seed
    )
    return [classifier.fit(U, side.signs, sample_weight=_weights(side)).decision_function(new)]


def _weights(side):
    return side.weights * (len(side.weights) / side.weights.sum())


_JUDGES = dict(zip(DELTA_FAMILIES, (_gaussian, _linear, _trees), strict=True))


def judge_of(family, seed):
    """Return the judge of a family of classifiers."""
    return partial(_JUDGES[family], seed=seed)
