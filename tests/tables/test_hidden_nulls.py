"""Values that are missing in a form of their own: nulls inside a dictionary, NaN as a category."""

import numpy as np
import pyarrow as pa
import pytest

from fairpca.exceptions import InvalidInputError
from fairpca.tables import moments_from_arrow

pytestmark = pytest.mark.filterwarnings("ignore:100 of 300 rows")
N = 300


def table(column):
    rng = np.random.default_rng(0)
    group = pa.array(["f", "m"] * (N // 2))
    return pa.table({"a": rng.normal(size=N), "b": rng.normal(size=N), "c": column, "g": group})


def spellings():
    codes = np.arange(N) % 3
    plain = pa.array([("x", "y", None)[code] for code in codes])
    coded = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(["x", "y", None]))
    return plain, coded


@pytest.mark.parametrize("missing", ["drop-rows", "mean"])
def test_nulls_of_a_dictionary_are_missing(missing):
    found = [
        moments_from_arrow(table(c), ["g"], ["a", "b"], categorical=["c"], missing=missing)
        for c in spellings()
    ]
    plain, coded = (one.pooled() for one in found)
    assert found[0].feature_names == found[1].feature_names == ("a", "b", "c=x", "c=y")
    np.testing.assert_array_equal(coded.covariance, plain.covariance)


def test_nulls_of_a_dictionary_are_counted():
    said = []
    for column in spellings():
        with pytest.raises(InvalidInputError) as error:
            moments_from_arrow(table(column), ["g"], ["a", "b"], categorical=["c"])
        said.append(str(error.value))
    assert said[0] == said[1]
    assert "100" in said[0]


def test_nan_is_no_category():
    values = np.where(np.arange(N) % 3 == 2, np.nan, np.arange(N) % 3)
    columns = pa.array(values), pa.array(values, from_pandas=True)  # NaN and null
    options = {"categorical": ["c"], "missing": "mean"}
    nan, null = (moments_from_arrow(table(c), ["g"], ["a", "b"], **options) for c in columns)
    assert nan.feature_names == null.feature_names == ("a", "b", "c=0", "c=1")
    np.testing.assert_array_equal(nan.pooled().covariance, null.pooled().covariance)
