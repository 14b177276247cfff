"""Table 5: a linear SVM for the main label on the reduced data."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from fairpca.baselines import FairSVC
from fairpca.experiments._experiment import (
    Options,
    Row,
    Store,
    measures,
    split_and_bases,
    split_table,
)
from fairpca.experiments._methods import representation, run_calmon
from fairpca.metrics import delta_fairness

DIMENSIONS = (2, 5)
ALPHAS = (1e-3, 1e-2, 1e-1)
FSVM_PRICE = 0.1


def compute(params: Mapping[str, Any], options: Options, store: Store) -> list[Row]:
    """AUC of the main label and Δ of the score, on the test rows."""
    rows: list[Row] = []
    how = (params["split"], options.folds)
    for d in DIMENSIONS:
        split, bases = split_and_bases(**params, d=d, store=store)
        y_train, y_test, z_test = _binary(split.y_train), _binary(split.y_test), split.z_test
        for method, fit in bases.items():
            train = representation(split.train, fit["basis"])
            test = representation(split.test, fit["basis"], scale_by=split.train)
            score = plain_svm(train, y_train, *how).decision_function(test)
            rows += measures(judge(score, y_test, z_test), **params, d=d, method=method)
    mapped = run_calmon(split, params["split"])
    labels = _binary(mapped.labels)
    if len(np.unique(labels)) == 2:
        model = plain_svm(mapped.train, labels, *how)
        values = judge(model.decision_function(mapped.test), y_test, z_test)
        rows += measures(values, **params, d=3, method="calmon")
    fair = fair_svm(split.train, y_train, split.z_train, *how)
    values = judge(fair.decision_function(split.test), y_test, z_test)
    return rows + measures(values, **params, d=split.train.shape[1], method="fsvm")


def _binary(labels: Any) -> Any:
    return (np.asarray(labels) == np.max(labels)).astype(np.intp)


def judge(score: Any, y: Any, z: Any) -> dict[str, float]:
    """AUC for the label and the largest difference of rates between the groups."""
    return {"auc": float(roc_auc_score(y, score)), "delta": float(delta_fairness(score, z))}


def plain_svm(X: Any, y: Any, seed: int, folds: int) -> FairSVC:
    """Ordinary linear SVM, penalty by cross-validation."""
    options = {"missing_groups": "ignore"}
    return _quietly(FairSVC(_choose(X, y, None, seed, folds, options), **options), X, y, None)


def fair_svm(X: Any, y: Any, z: Any, seed: int, folds: int) -> FairSVC:
    """Fair SVM with δ = 0 and μ = 0.1; its penalty is chosen with the mean constraint alone."""
    alpha = _choose(X, y, z, seed, folds, {"cov_weight": 0.0})
    return _quietly(FairSVC(alpha, cov_weight=FSVM_PRICE), X, y, z)


def _choose(X: Any, y: Any, z: Any, seed: int, folds: int, options: Mapping[str, Any]) -> float:
    parts = StratifiedKFold(folds, shuffle=True, random_state=seed)
    scores = np.zeros(len(ALPHAS))
    for inside, outside in parts.split(X, y):
        for i, alpha in enumerate(ALPHAS):
            groups = None if z is None else z[inside]
            model = _quietly(FairSVC(alpha, **options), X[inside], y[inside], groups)
            scores[i] += roc_auc_score(y[outside], model.decision_function(X[outside]))
    return ALPHAS[int(np.argmax(scores))]


def _quietly(model: FairSVC, X: Any, y: Any, z: Any) -> FairSVC:
    with warnings.catch_warnings():
        # At the limit of the convex-concave rounds the classifier is still a good one.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y, sensitive_features=z)


EXPERIMENT = split_table("table5", compute, DIMENSIONS)
