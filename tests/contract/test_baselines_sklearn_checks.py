"""scikit-learn's own checks on the baselines, without and with groups."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import (
    check_param_validation,
    check_parameters_default_constructible,
    check_set_output_transform,
    check_set_output_transform_pandas,
    check_transformer_get_feature_names_out,
    check_transformer_get_feature_names_out_pandas,
    parametrize_with_checks,
)

from fairpca.baselines import CalmonPreprocessor, FairSVC


def split_rows(X):
    """Read two groups off each row by itself; None where X is not usable."""
    try:
        values = np.asarray(X)
        values = values.astype(float) if values.dtype.kind in "fiuO" else None
    except (TypeError, ValueError):
        values = None
    if values is None or values.ndim != 2 or not np.isfinite(values).all():
        return None
    return np.sin(1e3 * values.sum(axis=1)) > 0.0


class FairSVCWithGroups(FairSVC):
    """FairSVC on the fair path without being handed groups."""

    def fit(self, X, y=None, *, sensitive_features=None, sample_weight=None):
        groups = split_rows(X) if sensitive_features is None else sensitive_features
        if groups is not None and len(np.unique(groups)) < 2:
            groups = None  # a handful of rows in one group: nothing to compare
        return super().fit(X, y, sensitive_features=groups, sample_weight=sample_weight)


@parametrize_with_checks([FairSVC(missing_groups="ignore")])
def test_svm_without_groups(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore::fairpca.exceptions.SmallGroupWarning")
@parametrize_with_checks(
    [FairSVCWithGroups(mean_tol=0.5, cov_weight=0.01, missing_groups="ignore")]
)
def test_svm_with_groups(estimator, check):
    check(estimator)


@parametrize_with_checks(
    [
        CalmonPreprocessor(version="expected", missing_groups="ignore"),
        CalmonPreprocessor(version="random", missing_groups="ignore"),
    ]
)
def test_calmon(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.filterwarnings("ignore:X has feature names, but")
@pytest.mark.parametrize(
    "check",
    [
        check_parameters_default_constructible,
        check_param_validation,
        check_set_output_transform,
        check_set_output_transform_pandas,
        check_transformer_get_feature_names_out,
        check_transformer_get_feature_names_out_pandas,
    ],
    ids=lambda check: check.__name__,
)
def test_calmon_checks_not_handed_to_third_parties(check):
    check("CalmonPreprocessor", CalmonPreprocessor(version="expected", missing_groups="ignore"))


@pytest.mark.parametrize("check", [check_parameters_default_constructible, check_param_validation])
def test_svm_checks_not_handed_to_third_parties(check):
    check("FairSVC", FairSVC(missing_groups="ignore"))


def test_groups_are_routed_through_a_search():
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(120, 3)), rng.integers(0, 2, 120)
    X[:, 0] += z
    y = (X.sum(axis=1) > 0).astype(int)
    with config_context(enable_metadata_routing=True):
        model = make_pipeline(StandardScaler(), FairSVC())
        search = GridSearchCV(model, {"fairsvc__alpha": [1e-3, 1e-1]}, cv=3)
        search.fit(X, y, sensitive_features=z)
    assert search.best_estimator_[-1].mean_gap_ < 1e-10
