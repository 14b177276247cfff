"""scikit-learn's own checks on SparseFairPCA: plain path and fair path."""

import pytest
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    check_param_validation,
    check_parameters_default_constructible,
    check_set_output_transform_pandas,
    check_transformer_get_feature_names_out_pandas,
    parametrize_with_checks,
)
from support import GroupsFromRowsMixin, split_rows

from fairpca import SparseFairPCA


class SparseGroupsFromRows(GroupsFromRowsMixin, SparseFairPCA):
    """SparseFairPCA with groups read off each row."""

    def partial_fit(self, X, y=None, *, sensitive_features=None, **options):
        if sensitive_features is None:
            sensitive_features = split_rows(X)
        return super().partial_fit(X, y, sensitive_features=sensitive_features, **options)


EXTRA_CHECKS = [
    check_parameters_default_constructible,
    check_param_validation,
    check_set_output_transform_pandas,
    check_transformer_get_feature_names_out_pandas,
    check_dataframe_column_names_consistency,
]
PLAIN = SparseFairPCA(1, n_nonzero=2, missing_groups="ignore")
FAIR = SparseGroupsFromRows(1, n_nonzero=2)


@parametrize_with_checks([PLAIN])
def test_plain_path(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore::fairpca.exceptions.SmallGroupWarning")
@parametrize_with_checks([FAIR])
def test_fair_path(estimator, check):
    check(estimator)


SETTINGS = [
    {"standardize": True},
    {"n_nonzero": "path"},
    {"cov_tol": 1e3},
    {"mean_tol": None},
    {"whiten": True},
    {"missing_groups": "own"},
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fairpca.exceptions.FairnessWarning")
@parametrize_with_checks(
    [SparseGroupsFromRows(**{"n_components": 1, "n_nonzero": 2, **each}) for each in SETTINGS]
)
def test_parameter_settings(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore::fairpca.exceptions.SmallGroupWarning")
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.filterwarnings("ignore:X has feature names, but")
@pytest.mark.parametrize("check", EXTRA_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("estimator", [PLAIN, FAIR], ids=["plain", "fair"])
def test_checks_not_handed_to_third_parties(estimator, check):
    check(type(estimator).__name__, estimator)
