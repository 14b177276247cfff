"""Columns of a table are named as groups, strata and weights; the others are the features."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from table_support import FEATURES, people

from fairpca import DeltaFairPCA, FairKernelPCA, FairPCA
from fairpca.estimators import load_model
from fairpca.exceptions import GroupsError, InvalidInputError

NAMED = {"sensitive_features": ["sex", "race"], "control_features": "city", "sample_weight": "w"}
TABLES = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "pyarrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "reader": lambda frame: pa.Table.from_pandas(frame, preserve_index=False).to_reader(),
    "polars lazy": lambda frame: pl.from_pandas(frame).lazy(),
    "dask": lambda frame: dd.from_pandas(frame, npartitions=3),
}
pytestmark = pytest.mark.filterwarnings("ignore:.*inplace keyword:DeprecationWarning")


def plain():
    return FairPCA(2, mean_tol=None, cov_weight=0.0)


@pytest.fixture
def table():
    return people(300).drop(columns="age")


@pytest.mark.parametrize("door", TABLES.values(), ids=TABLES)
def test_names_are_the_columns_themselves(door, table):
    expected = plain().fit(
        table[FEATURES],
        sensitive_features=table[["sex", "race"]],
        control_features=table["city"],
        sample_weight=table["w"],
    )
    fair = plain().fit(door(table), **NAMED)
    assert fair.feature_names_in_.tolist() == FEATURES
    assert fair.other_columns_.tolist() == ["sex", "race", "city", "w"]
    assert fair.contrasts_["attribute"] == expected.contrasts_["attribute"]
    np.testing.assert_allclose(fair.components_, expected.components_, atol=1e-8)


@pytest.mark.parametrize("door", ["pandas", "polars", "pyarrow", "dask"])
def test_transform_leaves_out_what_was_named(door, table, tmp_path):
    given = TABLES[door](table)
    fair = plain().fit(given, **NAMED)
    expected = fair.transform(table[FEATURES])
    saved = load_model(fair.save(tmp_path / "model"))
    for model in (fair, saved):
        np.testing.assert_allclose(np.asarray(model.transform(given)), expected, atol=1e-12)
    assert fair.transform(table.iloc[:1]).shape == (1, 2)
    again = fair.fit(table[FEATURES], sensitive_features=table["sex"])
    assert not hasattr(again, "other_columns_")
    with pytest.raises(ValueError, match="unseen at fit time"):
        again.transform(table[[*FEATURES, "w"]])


def test_fit_transform_and_the_other_estimators(table):
    assert plain().fit_transform(table, **NAMED).shape == (300, 2)
    kernel = FairKernelPCA(2, mean_tol=None, cov_weight=0.0, n_landmarks=20)
    assert kernel.fit_transform(table, **NAMED).shape == (300, 2)
    delta = DeltaFairPCA(2, penalty=1.0, mean_tol=None).fit(table, **NAMED)
    assert delta.feature_names_in_.tolist() == FEATURES
    for model in (kernel, delta):
        with pytest.raises(InvalidInputError, match=r"X is a stream \(LazyFrame\)"):
            model.fit(pl.from_pandas(table).lazy(), **NAMED)


def test_partial_fit_adds_tables(table):
    fair = plain().fit(table, **NAMED)
    parts = plain()
    for start in range(0, 300, 100):
        parts.partial_fit(pl.from_pandas(table.iloc[start : start + 100]).lazy(), **NAMED)
    np.testing.assert_allclose(parts.components_, fair.components_, atol=1e-8)


def test_a_list_as_long_as_the_table_holds_labels():
    columns = {"a": [1.0, 2.0, 4.0, 0.0], "b": [1.0, 0.0, 1.0, 1.0], "c": [0.0, 0.0, 1.0, 2.0]}
    two = pd.DataFrame(columns)
    fair = plain().fit(two, sensitive_features=["a", "b", "a", "b"])  # four rows: labels
    assert fair.feature_names_in_.tolist() == ["a", "b", "c"]
    assert fair.moments_.levels("sensitive_feature") == ("a", "b")


def test_names_that_are_none(table):
    with pytest.raises(
        GroupsError,
        match=r"sensitive_features names \['sxe'\], which is not among the columns: .*'sex'\?",
    ):
        FairPCA().fit(table, sensitive_features="sxe")
    with pytest.raises(
        GroupsError, match=r"sensitive_features names \['sxe'\], which is not among the columns"
    ):
        FairPCA().fit(table, sensitive_features=["sex", "sxe"])
    with pytest.raises(GroupsError, match="X has no named columns"):
        FairPCA().fit(table[FEATURES].to_numpy(), sensitive_features="sex")
    with pytest.raises(GroupsError, match="has 2 rows"):  # labels, too few of them
        FairPCA().fit(table[FEATURES], sensitive_features=["f", "m"])
    with pytest.raises(InvalidInputError, match="sample_weight names"):
        FairPCA().fit(table, sensitive_features="sex", sample_weight=["w", "race"])
    with pytest.raises(InvalidInputError, match="but X is a stream: name its columns"):
        FairPCA().fit(pl.from_pandas(table).lazy(), sensitive_features=table["sex"])
    with pytest.raises(InvalidInputError, match=r"features that are not numbers: 'city'"):
        FairPCA().fit(pl.from_pandas(table).lazy(), sensitive_features="sex")


def test_an_attribute_in_order_of_the_names(table):
    backwards = plain().fit(table, **{**NAMED, "sensitive_features": ("race", "sex")})
    assert backwards.moments_.attributes == ("race", "sex")
