"""scikit-learn's own checks, on plain PCA and on the fair path."""

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
from support import GroupsFromRowsMixin, split_rows

from fairpca import FairPCA


class GroupsFromRows(GroupsFromRowsMixin, FairPCA):
    """FairPCA with groups read off each row."""

    def partial_fit(self, X, y=None, *, sensitive_features=None, **options):
        if sensitive_features is None:
            sensitive_features = split_rows(X)
        return super().partial_fit(X, y, sensitive_features=sensitive_features, **options)


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


@pytest.mark.filterwarnings("ignore::fairpca.exceptions.FairnessWarning")
@parametrize_with_checks([GroupsFromRows(n_components=1, target_weight=1)])
def test_target_path(estimator, check):
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


SETTINGS = [
    {"standardize": True},
    {"standardize": "famd"},
    {"whiten": True},
    {"rotation": "varimax"},
    {"missing_groups": "own"},
    {"solver": "deflation"},
    {"solver": "tight"},
    {"solver": "paper"},
    {"certify": False},
    {"cov_weight": 0.0},
    {"cov_tol": 1e3},
    {"mean_tol": None},
    {"compare": "pairs"},
    {"joint": True},
    {"min_group_size": 2},
    {"n_components": None, "cov_weight": 0.0},
    {"n_components": 0.5, "cov_weight": 0.0},
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fairpca.exceptions.FairnessWarning")
@parametrize_with_checks(
    [
        *(GroupsFromRows(**{"n_components": 1, **each}) for each in SETTINGS),
        *(FairPCA(missing=each, missing_groups="ignore") for each in ("mean", "drop-rows")),
    ]
)
def test_parameter_settings(estimator, check):
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
