"""A target through every input: the same moments, and never a feature."""

import numpy as np
import pytest

from fairpca import FairPCA, GroupMoments
from fairpca.exceptions import GroupsError, InvalidInputError
from fairpca.tables import (
    moments_from_arrow,
    moments_from_dask,
    moments_from_files,
    open_table,
)

pa = pytest.importorskip("pyarrow")
pandas = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def people():
    random = np.random.default_rng(0)
    sex = random.choice(["f", "m"], 400)
    X = random.normal(size=(400, 4)) + np.outer(sex == "m", [1.0, 0.5, 0.0, 0.0])
    income = np.where(X[:, 3] + random.normal(size=400) > 0, "high", "low").astype(object)
    income[::7] = None
    hours = X[:, 2] + random.normal(size=400)
    frame = pandas.DataFrame(X, columns=list("abcd"))
    return frame.assign(sex=sex, income=income, hours=hours)


def in_memory(people):
    return GroupMoments.from_arrays(
        people[list("abcd")], people["sex"], y=people[["income", "hours"]]
    )


def files(people, folder, kind):
    for number, start in enumerate(range(0, 400, 100)):
        part, path = people[start : start + 100], folder / f"{number}.{kind}"
        part.to_csv(path, index=False) if kind == "csv" else part.to_parquet(path)
    return moments_from_files(folder, "sex", target=["income", "hours"])


def same(first, second):
    assert first.feature_names == second.feature_names == tuple("abcd")
    assert first.targets == second.targets == ("hours", "income")
    ours, theirs = first.target_moments(), second.target_moments()
    assert first.table.targets == second.table.targets
    assert ours.n_rows == theirs.n_rows
    np.testing.assert_allclose(ours.covariance, theirs.covariance, atol=1e-12)
    np.testing.assert_allclose(first.pooled().covariance, second.pooled().covariance, atol=1e-12)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files(people, tmp_path, kind):
    same(files(people, tmp_path, kind), in_memory(people))


def test_arrow_stream_and_estimator(people):
    table = pa.Table.from_pandas(people)
    target = ["income", "hours"]
    same(moments_from_arrow(table.to_reader(50), "sex", target=target), in_memory(people))
    fair = FairPCA(2, target_weight=1.0)
    with pytest.warns(match="y is missing in 58 of 400"):
        fair.fit(table.to_reader(50), target, sensitive_features="sex")
    assert set(fair.other_columns_) == {"sex", "income", "hours"}
    with pytest.warns(match="y is missing in 58 of 400"):
        direct = FairPCA(2, target_weight=1.0).fit_moments(in_memory(people))
    np.testing.assert_allclose(fair.components_, direct.components_, atol=1e-8)


def test_dask(people):
    frames = pytest.importorskip("dask.dataframe")
    lazy = frames.from_pandas(people, npartitions=3)
    same(moments_from_dask(lazy, "sex", target=["income", "hours"]), in_memory(people))
    fair = FairPCA(2, target_weight=1.0)
    fair.fit(lazy[list("abcd")], lazy["hours"], sensitive_features=lazy["sex"])
    direct = FairPCA(2, target_weight=1.0)
    direct.fit(people[list("abcd")], people["hours"], sensitive_features=people["sex"])
    np.testing.assert_allclose(fair.components_, direct.components_, atol=1e-8)


@pytest.mark.spark
@pytest.mark.filterwarnings("default")
def test_spark(people, spark):
    from fairpca.tables import moments_from_spark

    rows = spark.createDataFrame(people)
    same(moments_from_spark(rows, "sex", target=["income", "hours"]), in_memory(people))


def test_one_column_plays_one_part(people):
    table = open_table(pa.Table.from_pandas(people))
    with pytest.raises(GroupsError, match="sensitive and target columns at the same time"):
        table.assign("sex", target="sex")
    with pytest.raises(
        InvalidInputError, match="cannot be features and groups, weights or targets"
    ):
        table.assign("sex", features=["a", "hours"], target="hours")
    with pytest.raises(InvalidInputError, match="'hour'"):
        table.assign("sex", target="hour")
    roles = table.assign("sex", features=["a", "b"], control="income", target="income",
                         missing="drop-rows")  # fmt: skip
    with pytest.warns(match="left out"):
        assert table.moments(roles).targets == ("income",)


def test_folds_by_files_are_those_of_rows(people, tmp_path):
    from fairpca.moments import FoldedMoments

    people.to_csv(tmp_path / "people.csv", index=False)
    target = {"target": ["income", "hours"]}
    folded = moments_from_files(tmp_path / "people.csv", "sex", **target, folds=3)
    direct = FoldedMoments.from_arrays(
        people[list("abcd")], people["sex"], y=people[["income", "hours"]], folds=3
    )
    for ours, theirs in zip(folded.folds, direct.folds, strict=True):
        same(ours, theirs)
