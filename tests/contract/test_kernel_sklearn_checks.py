"""scikit-learn's own checks on FairKernelPCA: plain path, fair path, precomputed kernels."""

import pytest
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
from support import GroupsFromRowsMixin

from fairpca import FairKernelPCA


class KernelGroupsFromRows(GroupsFromRowsMixin, FairKernelPCA):
    """FairKernelPCA with groups read off each row."""


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

PLAIN = FairKernelPCA(missing_groups="ignore")
# Without the bound: the checks are about the interface, and ask for hundreds of fits.
FAIR = KernelGroupsFromRows(n_components=1, rank=20)


@parametrize_with_checks(
    [
        PLAIN,
        FairKernelPCA(kernel="precomputed", missing_groups="ignore", n_components=None),
        FairKernelPCA(n_landmarks=20, missing_groups="ignore"),
    ]
)
def test_plain_path(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore::fairpca.exceptions.SmallGroupWarning")
@parametrize_with_checks([FAIR])
def test_fair_path(estimator, check):
    check(estimator)


NO_WEIGHTS = dict.fromkeys(
    (
        "check_all_zero_sample_weights_error",
        "check_sample_weights_list",
        "check_sample_weights_not_an_array",
        "check_sample_weights_not_overwritten",
        "check_sample_weights_pandas_series",
        "check_sample_weights_shape",
        "check_sample_weight_equivalence_on_dense_data",
        "check_sample_weight_equivalence_on_sparse_data",
    ),
    "the paper's form knows no weights, and refuses them",
)
SETTINGS = [
    {"kernel": "linear"},
    {"kernel": "poly", "kernel_params": {"degree": 2}},
    {"n_landmarks": 10},
    {"rank": None, "certify": False},
    {"formulation": "paper"},
    {"inverse_alpha": 1.0},
    {"cov_weight": 0.0, "n_components": None},
    {"cov_tol": 1e3},
    {"mean_tol": None},
    {"missing_groups": "own"},
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fairpca.exceptions.FairnessWarning")
@parametrize_with_checks(
    [KernelGroupsFromRows(**{"n_components": 1, "rank": 20, **each}) for each in SETTINGS],
    expected_failed_checks=lambda kernel: NO_WEIGHTS if kernel.formulation == "paper" else {},
)
def test_parameter_settings(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore::fairpca.exceptions.SmallGroupWarning")
# The set_output checks fit on a frame and transform an array on purpose.
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.filterwarnings("ignore:X has feature names, but")
@pytest.mark.parametrize("check", EXTRA_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("estimator", [PLAIN, FAIR], ids=["plain", "fair"])
def test_checks_not_handed_to_third_parties(estimator, check):
    check(type(estimator).__name__, estimator)


def test_precomputed_is_tagged_pairwise():
    assert FairKernelPCA(kernel="precomputed").__sklearn_tags__().input_tags.pairwise
    assert not FairKernelPCA().__sklearn_tags__().input_tags.pairwise
