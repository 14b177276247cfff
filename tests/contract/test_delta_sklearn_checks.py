"""scikit-learn's own checks on DeltaFairPCA: plain path and fair path."""

import pytest
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    check_dict_unchanged,
    check_estimators_dtypes,
    check_estimators_pickle,
    check_fit_idempotent,
    check_methods_subset_invariance,
    check_param_validation,
    check_parameters_default_constructible,
    check_set_output_transform_pandas,
    check_transformer_general,
    check_transformer_get_feature_names_out_pandas,
    parametrize_with_checks,
)
from support import GroupsFromRowsMixin

from fairpca import DeltaFairPCA


class DeltaGroupsFromRows(GroupsFromRowsMixin, DeltaFairPCA):
    """DeltaFairPCA with groups read off each row."""


EXTRA_CHECKS = [
    check_parameters_default_constructible,
    check_param_validation,
    check_set_output_transform_pandas,
    check_transformer_get_feature_names_out_pandas,
    check_dataframe_column_names_consistency,
]
# Those that see what a fit with groups does; the others look at the interface.
OF_FITS = [
    check_dict_unchanged,
    check_estimators_dtypes,
    check_estimators_pickle,
    check_fit_idempotent,
    check_methods_subset_invariance,
    check_transformer_general,
]
PLAIN = DeltaFairPCA(1, missing_groups="ignore")
# With a penalty: the checks have too few rows for groups to be measured on halves of them.
FAIR = DeltaGroupsFromRows(1, penalty=0.05, certify=False)
# A weight of two is two rows in the leakage (tests/adversary), but not in the
# number of random features, which follows the number of rows, nor in the draws of an ascent.
RANDOM = dict.fromkeys(
    (
        "check_sample_weight_equivalence_on_dense_data",
        "check_sample_weight_equivalence_on_sparse_data",
    ),
    "the ascent is random",
)


@parametrize_with_checks([PLAIN])
def test_plain_path(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore::fairpca.exceptions.SmallGroupWarning")
@pytest.mark.parametrize("check", OF_FITS, ids=lambda check: check.__name__)
def test_fits_with_groups(check):
    check(type(FAIR).__name__, FAIR)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fairpca.exceptions.SmallGroupWarning")
@parametrize_with_checks([FAIR], expected_failed_checks=lambda estimator: RANDOM)
def test_fair_path(estimator, check):
    check(estimator)


SETTINGS = [
    {"standardize": True},
    {"whiten": True},
    {"rotation": "varimax"},
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fairpca.exceptions.FairnessWarning")
@parametrize_with_checks(
    [
        DeltaGroupsFromRows(**{"n_components": 1, "penalty": 0.05, "certify": False, **each})
        for each in SETTINGS
    ],
    expected_failed_checks=lambda estimator: RANDOM,
)
def test_parameter_settings(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore::fairpca.exceptions.SmallGroupWarning")
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.filterwarnings("ignore:X has feature names, but")
@pytest.mark.parametrize("check", EXTRA_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(
    "estimator",
    [pytest.param(PLAIN, id="plain"), pytest.param(FAIR, id="fair", marks=pytest.mark.slow)],
)
def test_checks_not_handed_to_third_parties(estimator, check):
    check(type(estimator).__name__, estimator)
