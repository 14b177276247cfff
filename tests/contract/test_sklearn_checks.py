"""scikit-learn's own checks, on plain PCA and on the fair path."""

import numpy as np
import pytest
from scipy.sparse import issparse
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    check_global_output_transform_pandas,
    check_param_validation,
    check_parameters_default_constructible,
    check_set_output_transform,
    check_set_output_transform_pandas,
    check_set_output_transform_polars,
    check_transformer_get_feature_names_out,
    check_transformer_get_feature_names_out_pandas,
    parametrize_with_checks,
)

from fairpca import FairPCA


class GroupsFromRows(FairPCA):
    """FairPCA on the fair path without being handed groups.

    scikit-learn's checks call fit(X, y). The two groups are read off each row by itself, so that
    removing, repeating or reordering rows does not change them.
    """

    def _read_rows(self, X, sensitive_features, *parts, **checks):
        if sensitive_features is None:
            sensitive_features = self._split_rows(X)
        return super()._read_rows(X, sensitive_features, *parts, **checks)

    @staticmethod
    def _split_rows(X):
        try:
            values = X.toarray() if issparse(X) else np.asarray(X)
            values = values.astype(float) if values.dtype.kind in "fiuO" else None
        except (TypeError, ValueError):
            values = None
        if values is None or values.ndim != 2 or not np.isfinite(values).all():
            return None  # invalid X: leave it to the estimator to say so
        return np.sin(1e3 * values.sum(axis=1)) > 0.0


EXTRA_CHECKS = [
    check_parameters_default_constructible,
    check_param_validation,
    check_set_output_transform,
    check_set_output_transform_pandas,
    check_set_output_transform_polars,
    check_global_output_transform_pandas,
    check_transformer_get_feature_names_out,
    check_transformer_get_feature_names_out_pandas,
    check_dataframe_column_names_consistency,
]


@parametrize_with_checks([FairPCA(missing_groups="ignore")])
def test_plain_path(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore::fairpca.exceptions.SmallGroupWarning")
@parametrize_with_checks([GroupsFromRows(n_components=1)])
def test_fair_path(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore::fairpca.exceptions.SmallGroupWarning")
@parametrize_with_checks([GroupsFromRows(n_components=1, objective="worst-loss")])
def test_worst_group_path(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fairpca.exceptions.SmallGroupWarning")
@parametrize_with_checks(
    [
        GroupsFromRows(n_components=1, objective="worst-variance", cov_weight=0.0),
        GroupsFromRows(n_components=1, objective="worst-loss", mean_tol=None, cov_weight=0.0),
    ]
)
def test_other_worst_group_paths(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore::fairpca.exceptions.SmallGroupWarning")
# The set_output checks fit on a frame and transform an array on purpose.
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.filterwarnings("ignore:X has feature names, but")
@pytest.mark.parametrize("check", EXTRA_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(
    "estimator",
    [FairPCA(missing_groups="ignore"), GroupsFromRows(n_components=1)],
    ids=["plain", "fair"],
)
def test_checks_not_handed_to_third_parties(estimator, check):
    check(type(estimator).__name__, estimator)
