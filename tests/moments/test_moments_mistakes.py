"""What moments refuse, and in which words."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from fairpca.exceptions import GroupsError, InvalidInputError
from fairpca.moments import GroupMoments
from fairpca.rows import Rows, encode_groups
from fairpca.rows import _checks as validation

X3 = np.arange(6.0).reshape(3, 2)
ERRORS = {
    "nan": ({"X": [[1.0, np.nan], [0, 0], [0, 0]]}, "1 of 3 rows .*'x1' 1.*NaN"),
    "infinity": ({"X": pd.DataFrame({"a": [0.0, 0.0, np.inf]})}, "column 'a' holds inf"),
    "sparse nan": ({"X": sparse.csr_array(np.diag([1.0, np.nan]))}, "1 of 2 rows .*'x1' 1"),
    "sparse complex": ({"X": sparse.csr_matrix(np.eye(3) * 1j)}, "real numbers"),
    "vector": ({"X": X3[:, 0]}, r"X has shape \(3,\)"),
    "no columns": ({"X": X3[:, :0]}, r"X has shape \(3, 0\)"),
    "text": ({"X": [["a", "b"]] * 3}, r"not numbers: 'x0' \(text\), 'x1' \(text"),
    "complex": ({"X": X3 * 1j}, "complex numbers"),
    "too large": ({"X": X3 * 1e200}, "too large to be squared"),
    "names": ({"feature_names": ["a"]}, "feature_names has 1 names but X has 2 columns"),
    "weight length": ({"sample_weight": [1, 1]}, r"sample_weight has shape \(2,\)"),
    "weight shape": ({"sample_weight": 1.0}, r"sample_weight has shape \(\)"),
    "weight text": ({"sample_weight": ["a", "b", "c"]}, "sample_weight cannot be read"),
    "weight nan": ({"sample_weight": [1, 1, np.nan]}, "sample_weight holds NaN"),
    "weight infinite": ({"sample_weight": [1, 1, np.inf]}, "sample_weight holds NaN or infinite"),
    "weight negative": ({"sample_weight": [1, 1, -1]}, "sample_weight holds negative"),
    "weight zero": ({"sample_weight": [0, 0, 0]}, "sample_weight is zero for every row"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_unusable_features_and_weights_are_refused(case):
    options, message = ERRORS[case]
    options = {"X": X3, "sensitive_features": [0, 1, 1], **options}
    with pytest.raises(InvalidInputError, match=message):
        GroupMoments.from_arrays(**options)


GROUP_ERRORS = {
    "no groups": ({"sensitive_features": None}, "sensitive_features is None"),
    "group length": ({"sensitive_features": [0, 1]}, "sensitive_features has 2 rows"),
    "control length": ({"control_features": [0, 1]}, "control_features has 2 rows"),
    "control missing": ({"control_features": ["a", None, "b"]}, "control_features column"),
    "control numbers": ({"control_features": [0.5, 1.5, 2.5]}, "strata need groups"),
    "numeric": ({"numeric": ["age"]}, "is not among the columns"),
}


@pytest.mark.parametrize("case", GROUP_ERRORS)
def test_unusable_groups_are_refused(case):
    options, message = GROUP_ERRORS[case]
    options = {"sensitive_features": [0, 1, 1], **options}
    with pytest.raises(GroupsError, match=message):
        GroupMoments.from_arrays(X3, **options)


def test_a_bad_value_is_found_in_any_batch(monkeypatch):
    monkeypatch.setattr(validation, "ELEMENTS_AT_ONCE", 1)
    X = np.zeros((1000, 2))
    X[700, 1] = np.inf
    with pytest.raises(InvalidInputError, match="column 'x1' holds infinite values"):
        GroupMoments.from_arrays(X, np.arange(1000) % 2)


def test_encoded_groups_of_another_length_are_refused():
    with pytest.raises(GroupsError, match="groups of 2 rows for 3 rows"):
        Rows(X3, encode_groups([0, 1], n_rows=2))


def test_nan_reaching_the_sums_is_refused():
    with pytest.raises(InvalidInputError, match="X holds NaN"):
        GroupMoments.from_rows(Rows(X3 * [1, np.nan]))


def test_empty_moments_say_so():
    empty = GroupMoments.from_arrays(np.empty((0, 2)), [])
    assert (empty.n_samples, empty.weight) == (0, 0.0)
    with pytest.raises(InvalidInputError, match="hold no rows"):
        empty.pooled()
    with pytest.raises(GroupsError, match="hold no rows"):
        empty.contrasts()


def test_levels_of_an_unknown_column_name_the_known_ones():
    moments = GroupMoments.from_arrays(X3, pd.Series([0, 1, 1], name="sex"))
    assert moments.levels("sex") == (0, 1)
    with pytest.raises(GroupsError, match=r"'age' is not a column with groups: .*\['sex'\]"):
        moments.levels("age")


def test_groups_too_far_apart_to_be_squared_are_refused():
    X = np.array([[1e200, 1.0], [1e200, 2.0], [-1e200, 1.5], [-1e200, 1.0]])
    with pytest.raises(InvalidInputError, match="too large to be squared"):
        GroupMoments.from_arrays(X, [0, 0, 1, 1]).pooled()
