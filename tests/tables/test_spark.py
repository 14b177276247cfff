"""Spark on a real local session; run by `make test-spark`."""

import os
import shutil
from functools import partial

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from column_cases import (
    CASES,
    GROUPS,
    N_ROWS,
    REFUSED,
    check_case,
    check_groups,
    check_refused,
    model,
    text_file,
)
from table_support import FEATURES, assert_same_moments, by_engine, in_memory, people

from fairpca import FairPCA
from fairpca.exceptions import InvalidInputError
from fairpca.moments import FoldedMoments
from fairpca.tables import moments_from_spark, transform_spark

pyspark = pytest.importorskip(
    "pyspark", reason="pyspark is not installed: pip install 'fairpca[spark]'"
)
pytestmark = [
    pytest.mark.spark,
    # pyspark itself uses what Python and pandas have deprecated.
    pytest.mark.filterwarnings("default"),
    pytest.mark.skipif(
        shutil.which("java") is None and "JAVA_HOME" not in os.environ,
        reason="Spark needs Java 17 or 21, and there is no java here",
    ),
]


def table(spark, frame, partitions=4):
    """A Spark table whose rows keep their order over the partitions."""
    return spark.createDataFrame(frame).coalesce(1).repartition(partitions)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_columns(spark, case):
    check_case(case, lambda frame, **asked: moments_from_spark(table(spark, frame), **asked))


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refused(spark, case):
    check_refused(case, lambda frame, **asked: moments_from_spark(table(spark, frame), **asked))


@pytest.mark.parametrize("case", GROUPS.values(), ids=GROUPS)
def test_typed_groups(spark, case):
    def by_spark(features, case):
        frame = features.assign(g=case.column(N_ROWS))
        return model().fit_moments(moments_from_spark(table(spark, frame, 2), "g"))

    check_groups(case, by_spark, "typed")


@pytest.mark.parametrize("case", GROUPS.values(), ids=GROUPS)
def test_text_groups(spark, case, tmp_path):
    def by_spark(features, case):
        path = text_file(features, case, tmp_path)
        return model().fit_moments(by_engine("spark", path, "g"))

    check_groups(case, by_spark, "text")


@pytest.mark.parametrize("mean", [0.0, 1e6])
def test_one_row_and_empty_partitions(spark, mean):
    frame = people(40, mean=mean)
    data = spark.createDataFrame(frame).repartition(100)  # most are empty, the others tiny
    found = moments_from_spark(data, ["sex", "age"], FEATURES, control="city", weight="w")
    assert_same_moments(found, in_memory(frame, ["sex", "age"], ["city"], "w"))


def test_a_group_in_one_partition_only(spark):
    frame = people(400)
    frame.loc[390:, "sex"] = "x"
    found = moments_from_spark(table(spark, frame, 8).sortWithinPartitions("sex"), "sex", FEATURES)
    assert found.levels("sex") == ("f", "m", "x")
    assert_same_moments(found, in_memory(frame, ["sex"]))


def test_no_partition_with_rows(spark):
    empty = spark.createDataFrame(people(10)).where("a > 1e9")
    with pytest.raises(InvalidInputError, match="no row can be used"):
        moments_from_spark(empty, "sex", FEATURES)


def test_names_with_dots_and_backticks(spark):
    frame = people(100).rename(columns={"a": "a.x", "b": "b`y"})
    data = spark.createDataFrame(frame)
    names = ["a.x", "b`y", "c"]
    found = moments_from_spark(data, "sex", names)
    assert_same_moments(found, in_memory(frame, ["sex"], features=names))
    fair = FairPCA(2).fit_moments(found)
    rows = transform_spark(data, fair).toPandas()
    np.testing.assert_allclose(rows[["fairpca0", "fairpca1"]], fair.transform(frame[names]))


def test_transform_appends_component_columns(spark, tmp_path):
    frame = people(300)
    data = table(spark, frame)
    fair = FairPCA(2, whiten=True).fit(frame[FEATURES], sensitive_features=frame["sex"])
    for either in (fair, fair.save(tmp_path / "model")):
        found = transform_spark(data, either)
        assert found.columns == [*frame.columns, "fairpca0", "fairpca1"]
        rows = found.toPandas().sort_values("age")
        expected = fair.transform(frame.sort_values("age")[FEATURES])
        np.testing.assert_allclose(rows[["fairpca0", "fairpca1"]], expected, atol=1e-12)
    with pytest.raises(InvalidInputError, match=r"has columns named \['fairpca0', 'fairpca1'\]"):
        transform_spark(transform_spark(data, fair), fair)
    with pytest.raises(InvalidInputError, match="no column 'b'"):
        transform_spark(data.drop("b"), fair)


def test_transform_of_standardised_and_categorical_features(spark, tmp_path):
    frame = people(300, mean=50.0)
    data = table(spark, frame)
    moments = moments_from_spark(data, "sex", FEATURES, categorical=["city"])
    fair = FairPCA(2, standardize=True).fit_moments(moments)
    path = fair.save(tmp_path / "model")
    wide = frame[FEATURES].assign(
        **{f"city={c}": (frame["city"] == c).astype(float) for c in ("north", "south")}
    )
    expected = fair.transform(wide)
    rows = transform_spark(data, path).toPandas().sort_values("age")
    np.testing.assert_allclose(
        rows[["fairpca0", "fairpca1"]], expected[np.argsort(frame["age"].to_numpy())], atol=1e-10
    )


@pytest.mark.parametrize("kind", ["csv", "parquet", "feather"])
def test_files_by_the_spark_engine(spark, tmp_path, kind):
    frame = people(200)
    for number, part in enumerate((frame.iloc[:120], frame.iloc[120:])):
        path = tmp_path / f"x{number}.{kind}"
        write = {"csv": partial(part.to_csv, index=False), "parquet": part.to_parquet}
        write.get(kind, part.reset_index(drop=True).to_feather)(path)
    found = by_engine("spark", sorted(tmp_path.glob(f"*.{kind}")), ["sex", "race"], FEATURES)
    assert_same_moments(found, in_memory(frame, ["sex", "race"]))


def test_columns_that_arrow_sees_differently_do_not_matter_unless_asked_for(spark):
    frame = people(300)
    data = table(spark, frame[["a", "b", "sex"]]).selectExpr(
        "*", "timestamp'2024-01-01' AS moment", "interval '1' month AS pause"
    )
    found = moments_from_spark(data, "sex", ["a", "b"])
    assert_same_moments(found, in_memory(frame, ["sex"], features=["a", "b"]))
    fair = FairPCA(1).fit_moments(found)
    scored = transform_spark(data.drop("pause"), fair)
    assert scored.columns[-2:] == ["moment", "fairpca0"]
    assert scored.count() == 300
    with pytest.raises(InvalidInputError, match="'moment'"):
        moments_from_spark(data, "sex", ["a", "moment"])


def test_mistakes_are_one_line(spark, tmp_path):
    with pytest.raises(InvalidInputError, match="give a Spark data frame"):
        moments_from_spark(people(20), "sex")
    frame = people(200)
    frame.to_csv(tmp_path / "one.csv", index=False)
    frame[frame.columns[::-1]].to_csv(tmp_path / "two.csv", index=False)
    found = by_engine("spark", tmp_path, "sex", FEATURES)  # columns are found by their names
    assert_same_moments(found, in_memory(pd.concat([frame, frame]), ["sex"]))
    frame.assign(b="text").to_csv(tmp_path / "two.csv", index=False)
    with pytest.raises(InvalidInputError, match=r"two\.csv: .*invalid value 'text'") as error:
        by_engine("spark", tmp_path, "sex", FEATURES)
    assert "\n" not in str(error.value)


def test_a_damaged_file_is_one_line(spark, tmp_path):
    path = tmp_path / "x.parquet"
    people(5000).to_parquet(path)
    start = pq.read_metadata(path).row_group(0).column(1).data_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + 20] = b"\xff" * 20  # the header of a page
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match=r"x\.parquet: the file cannot be read") as error:
        by_engine("spark", tmp_path, "sex", FEATURES)
    assert "\n" not in str(error.value)


def test_folds_are_those_of_the_rows_in_memory(spark):
    rows = people(500)
    data = spark.createDataFrame(rows).repartition(7)
    found = moments_from_spark(data, "sex", features=FEATURES, folds=4)
    expected = FoldedMoments.from_arrays(rows[list(FEATURES)], rows[["sex"]], folds=4)
    for one, other in zip(found.folds, expected.folds, strict=True):
        assert one.n_samples == other.n_samples
        np.testing.assert_allclose(one.pooled().covariance, other.pooled().covariance, atol=1e-9)
