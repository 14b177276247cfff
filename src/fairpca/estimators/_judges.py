"""Classifiers that try to tell groups apart on rows they were not fitted to."""

from __future__ import annotations

from functools import partial

from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from fairpca._choices import ADVERSARIES

# Divided by the number of components; scores have unit variance.
_GAMMAS = (0.5, 2.0, 8.0)


def _gaussian(U, side, new, seed):
    classifiers = [SVC(gamma=gamma / U.shape[1]) for gamma in _GAMMAS]
    return [
        classifier.fit(U, side.signs, sample_weight=_weights(side)).decision_function(new)
        for classifier in classifiers
    ]


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


_JUDGES = dict(zip(ADVERSARIES, (_gaussian, _linear, _trees), strict=True))


def judge_of(family, seed):
    """Return the judge of a family of classifiers."""
    return partial(_JUDGES[family], seed=seed)
