"""Dask: one pass on any scheduler, exact whatever the partitions, lazy on the way back."""

import os
import signal
import threading
import time

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from table_support import FEATURES, assert_same_moments, in_memory, people

from fairpca import FairPCA
from fairpca.exceptions import DroppedRowsWarning, GroupsError, InvalidInputError
from fairpca.moments import GroupMoments
from fairpca.tables import moments_from_dask

dask = pytest.importorskip("dask", reason="dask is not installed: pip install 'fairpca[dask]'")
dd = pytest.importorskip("dask.dataframe", reason="dask[dataframe] is not installed")
da = pytest.importorskip("dask.array")
# dask calls pandas in ways that pandas has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:.*inplace keyword:DeprecationWarning")


def partitioned(frame, sizes):
    """A Dask frame with partitions of the sizes given, which may be zero or one."""
    ends = np.cumsum(sizes)
    parts = [frame.iloc[end - size : end] for end, size in zip(ends, sizes, strict=True)]
    return dd.from_map(lambda part: part, parts, meta=frame.iloc[:0])


@pytest.mark.parametrize("mean", [0.0, 1e6])
@pytest.mark.parametrize("scheduler", ["threads", "synchronous"])
def test_partitions_of_any_size(mean, scheduler, monkeypatch):
    monkeypatch.setattr("fairpca.tables.dask.FAN_IN", 2)
    frame = people(600, mean=mean)
    table = partitioned(frame, [0, 200, 1, 0, 1, 300, 98, 0])
    with dask.config.set(scheduler=scheduler):
        found = moments_from_dask(
            table, ["sex", "race", "age"], FEATURES, control="city", weight="w"
        )
    assert_same_moments(found, in_memory(frame, ["sex", "race", "age"], ["city"], "w"))


def test_one_row_partitions():
    frame = people(30, mean=1e6)
    found = moments_from_dask(partitioned(frame, [1] * 30), ["sex", "age"], FEATURES, weight="w")
    assert_same_moments(found, in_memory(frame, ["sex", "age"], weight="w"))


def test_a_group_in_one_partition_only():
    frame = people(400)
    frame.loc[395:, "sex"] = "x"
    found = moments_from_dask(dd.from_pandas(frame, npartitions=8), "sex", FEATURES)
    assert found.levels("sex") == ("f", "m", "x")
    assert_same_moments(found, in_memory(frame, ["sex"]))


def test_a_float_column_is_judged_by_all_its_values():
    frame = people(400)
    frame["z"] = np.r_[np.zeros(100), np.resize([0.0, 1.0], 100), np.linspace(0, 1, 200)]
    found = moments_from_dask(partitioned(frame, [100, 100, 100, 100]), "z", FEATURES)
    assert found.numeric_attributes == ("z",)
    assert_same_moments(found, in_memory(frame, ["z"]))


def test_partitions_take_the_types_of_the_table():
    # Whole numbers that came as floats in one partition, as pandas makes them around a hole.
    frame = people(200)
    odd = frame.copy()
    odd["race"] = odd["race"].astype(float)
    parts = [frame.iloc[:100], odd.iloc[100:]]
    table = dd.from_map(lambda part: part, parts, meta=frame.iloc[:0])
    found = moments_from_dask(table, "race", FEATURES)
    assert_same_moments(found, in_memory(frame, ["race"]))
    fair = FairPCA(2).fit(table[FEATURES], sensitive_features=table["race"])
    assert fair.moments_.levels("race") == (0, 1, 2)


def test_only_the_columns_needed_are_loaded(tmp_path):
    frame = people(200)
    frame["junk"] = "x"
    frame.to_parquet(tmp_path / "x.parquet")
    table = dd.read_parquet(tmp_path)
    found = moments_from_dask(table, "sex", FEATURES)
    assert_same_moments(found, in_memory(frame, ["sex"]))


@pytest.mark.parametrize("lazy_groups", [True, False])
def test_arrays(lazy_groups):
    frame = people(500, mean=1e6)
    X = da.from_array(frame[FEATURES].to_numpy(), chunks=(70, 2))
    groups, weights = frame["race"].to_numpy(), frame["w"].to_numpy()
    if lazy_groups:
        groups, weights = da.from_array(groups, chunks=90), da.from_array(weights, chunks=500)
    found = moments_from_dask(X, groups, weight=weights, control=frame["city"].to_numpy())
    expected = GroupMoments.from_arrays(
        frame[FEATURES].to_numpy(),
        frame["race"].to_numpy(),
        frame["city"].to_numpy(),
        frame["w"],
    )
    assert_same_moments(found, expected)
    many = moments_from_dask(X, frame[["race", "age"]].to_numpy(), numeric=["sensitive_feature_0"])
    assert many.attributes == ("sensitive_feature_0", "sensitive_feature_1")
    assert many.numeric_attributes == many.attributes


def test_arrays_count_missing_values():
    X = np.random.default_rng(0).normal(size=(100, 3))
    X[[3, 50], 1] = np.nan
    lazy = da.from_array(X, chunks=(40, 3))
    groups = np.arange(100) % 2
    with pytest.raises(InvalidInputError, match=r"2 of 100 rows .*\(by column: 'x1' 2\)"):
        moments_from_dask(lazy, groups)
    with pytest.warns(DroppedRowsWarning, match="2 of 100 rows"):
        found = moments_from_dask(lazy, groups, missing="drop-rows")
    whole = ~np.isnan(X).any(axis=1)
    assert_same_moments(found, GroupMoments.from_arrays(X[whole], groups[whole]))


def test_what_is_not_dask_is_refused():
    with pytest.raises(InvalidInputError, match=r"data is a DataFrame: give a Dask array"):
        moments_from_dask(people(20), "sex")
    X = da.ones((10, 2), chunks=5)
    with pytest.raises(InvalidInputError, match="an array has no names"):
        moments_from_dask(X, np.arange(10) % 2, features=["a"])
    with pytest.raises(InvalidInputError, match="has 9 rows but X has 10"):
        moments_from_dask(X, np.arange(9) % 2)
    with pytest.raises(InvalidInputError, match="1 dimensions"):
        moments_from_dask(X[:, 0], np.arange(10) % 2)


# --- FairPCA on Dask collections ------------------------------------------------------------


def same_space(one, other):
    np.testing.assert_allclose(
        one.components_.T @ one.components_, other.components_.T @ other.components_, atol=1e-7
    )


def test_fit_on_a_frame():
    frame = people(600)
    table = partitioned(frame, [200, 0, 399, 1])
    fair = FairPCA(2, mean_tol=None).fit(
        table[FEATURES],
        sensitive_features=table[["sex", "age"]],
        control_features=table["city"],
        sample_weight=table["w"],
    )
    whole = FairPCA(2, mean_tol=None).fit(
        frame[FEATURES],
        sensitive_features=frame[["sex", "age"]],
        control_features=frame["city"],
        sample_weight=frame["w"],
    )
    assert list(fair.feature_names_in_) == FEATURES
    assert fair.n_features_in_ == 4
    assert_same_moments(fair.moments_, whole.moments_)
    same_space(fair, whole)


def test_fit_on_an_array_with_groups_of_any_kind():
    frame = people(500)
    X, groups = frame[FEATURES].to_numpy(), frame["race"].to_numpy()
    whole = FairPCA(2).fit(X, sensitive_features=groups)
    lazy = da.from_array(X, chunks=(128, 3))
    kinds = [groups, list(groups), frame["race"], da.from_array(groups, chunks=100)]
    for kind in kinds:
        fair = FairPCA(2).fit(lazy, sensitive_features=kind)
        same_space(fair, whole)
    plain = FairPCA(2, missing_groups="ignore").fit(lazy)
    same_space(plain, FairPCA(2, missing_groups="ignore").fit(X))


def test_sparse_partitions():
    X = sparse.random_array((300, 6), density=0.2, rng=np.random.default_rng(0), format="csr")
    groups = np.arange(300) % 2
    blocks = [dask.delayed(X[start : start + 100]) for start in (0, 100, 200)]
    lazy = da.concatenate(
        [da.from_delayed(block, (100, 6), dtype=float, meta=X[:0]) for block in blocks]
    )
    same_space(
        FairPCA(2).fit(lazy, sensitive_features=groups),
        FairPCA(2).fit(X, sensitive_features=groups),
    )


def test_partial_fit_adds_collections():
    frame = people(600)
    table = dd.from_pandas(frame, npartitions=3)
    fair = FairPCA(2).fit(frame[FEATURES], sensitive_features=frame["sex"])
    twice = FairPCA(2)
    for _ in range(2):
        twice.partial_fit(table[FEATURES], sensitive_features=table["sex"])
    assert twice.moments_.n_samples == 1200
    same_space(twice, fair)


def test_fit_refuses_what_cannot_be_aligned():
    frame = people(100)
    table = dd.from_pandas(frame, npartitions=2)
    with pytest.raises(InvalidInputError, match="sensitive_features is in memory"):
        FairPCA().fit(table[FEATURES], sensitive_features=frame["sex"])
    with pytest.raises(InvalidInputError, match="has 4 partitions but X has 2"):
        FairPCA().fit(
            table[FEATURES], sensitive_features=dd.from_pandas(frame["sex"], npartitions=4)
        )
    with pytest.raises(GroupsError, match="was not given"):
        FairPCA().fit(table[FEATURES])
    big = dd.from_pandas(people(3000).assign(id=np.arange(3000)), npartitions=6)
    with pytest.raises(GroupsError, match="more than 1000 distinct values"):
        FairPCA().fit(big[FEATURES], sensitive_features=big["id"])
    holes = dd.from_pandas(frame.assign(a=np.nan), npartitions=2)
    with pytest.raises(ValueError, match="NaN"):
        FairPCA().fit(holes[FEATURES], sensitive_features=holes["sex"])


@pytest.fixture
def fair():
    frame = people(300)
    return FairPCA(2, whiten=True).fit(frame[FEATURES], sensitive_features=frame["sex"]), frame


def test_transform_of_a_frame_stays_lazy(fair):
    model, frame = fair
    seen = []

    def load(part):
        seen.append(len(part))
        return part

    frame.index = frame.index + 1000
    parts = [frame.iloc[:100], frame.iloc[100:100], frame.iloc[100:]]
    table = dd.from_map(load, parts, meta=frame.iloc[:0])
    lazy = model.transform(table[FEATURES])
    assert isinstance(lazy, dd.DataFrame)
    assert seen == []
    assert lazy.npartitions == 3
    assert list(lazy.columns) == ["fairpca0", "fairpca1"]
    scores = lazy.compute()
    assert list(scores.index) == list(frame.index)
    np.testing.assert_allclose(scores, model.transform(frame[FEATURES]), atol=1e-12)
    assert list(scores.columns) == list(lazy.columns)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_transform_of_an_array_stays_lazy(fair, dtype):
    model = FairPCA(2).fit_moments(
        GroupMoments.from_arrays(fair[1][FEATURES].to_numpy(), fair[1]["sex"])
    )
    X = fair[1][FEATURES].to_numpy().astype(dtype)
    lazy = model.transform(da.from_array(X, chunks=(70, 3)))
    assert isinstance(lazy, da.Array)
    assert lazy.chunks == ((70, 70, 70, 70, 20), (2,))
    assert lazy.dtype == dtype
    scores = lazy.compute()
    assert scores.dtype == dtype
    np.testing.assert_allclose(scores, model.transform(X), rtol=1e-5, atol=1e-5)


def test_transform_checks_names_and_values(fair):
    model, frame = fair
    table = dd.from_pandas(frame, npartitions=2)
    with pytest.raises(ValueError, match="feature names"):
        model.transform(table[["a", "b", "c", "age"]])
    nameless = FairPCA(2).fit(frame[FEATURES].to_numpy(), sensitive_features=frame["sex"])
    with pytest.raises(ValueError, match="3 features"):
        nameless.transform(da.ones((10, 3)))
    lazy = model.transform(dd.from_pandas(frame.assign(a=np.nan), npartitions=2)[FEATURES])
    with pytest.raises(ValueError, match="NaN"):
        lazy.compute()


def test_fit_transform_of_a_frame(fair):
    _, frame = fair
    table = dd.from_pandas(frame, npartitions=3)
    scores = FairPCA(2).fit_transform(table[FEATURES], sensitive_features=table["sex"])
    assert isinstance(scores, dd.DataFrame)
    gap = scores.compute().groupby(frame["sex"]).mean()
    np.testing.assert_allclose(gap.loc["f"], gap.loc["m"], atol=1e-9)


# --- a real cluster -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    with dask.config.set({"distributed.worker.daemon": False}):
        made = distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            host="127.0.0.1",
        )
    with made, distributed.Client(made) as client:
        yield client


def slow_part(part, seconds=0.0):
    time.sleep(seconds)
    return part


@pytest.mark.filterwarnings("default")
def test_two_worker_processes(cluster):
    frame = people(1000, mean=1e6)
    assert len(set(cluster.run(os.getpid).values()) - {os.getpid()}) == 2
    found = moments_from_dask(
        dd.from_pandas(frame, npartitions=20), ["sex", "age"], FEATURES, control="city", weight="w"
    )
    assert_same_moments(found, in_memory(frame, ["sex", "age"], ["city"], "w"))
    with pytest.raises(GroupsError, match="column 'id' has more than"):
        moments_from_dask(
            dd.from_pandas(frame.assign(id=range(1000)), npartitions=4),
            "id",
            FEATURES,
            max_cells=100,
        )


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_worker_killed_during_the_pass_changes_nothing(cluster, monkeypatch):
    monkeypatch.setattr("fairpca.tables.dask.FAN_IN", 3)
    frame = people(1200, mean=1e6)
    parts = [frame.iloc[start : start + 50] for start in range(0, 1200, 50)]
    table = dd.from_map(slow_part, parts, seconds=0.15, meta=frame.iloc[:0])
    undisturbed = moments_from_dask(table, ["sex", "age"], FEATURES, weight="w")
    victim = next(iter(cluster.run(os.getpid).values()))
    killed = []

    def kill():
        time.sleep(0.8)
        os.kill(victim, signal.SIGKILL)
        killed.append(victim)

    killer = threading.Thread(target=kill)
    killer.start()
    start = time.monotonic()
    found = moments_from_dask(table, ["sex", "age"], FEATURES, weight="w")
    assert time.monotonic() - start > 0.8  # the pass was still under way
    killer.join()
    assert killed
    for key, cell in undisturbed.table.cells.items():
        np.testing.assert_array_equal(found.table.cells[key].scatter, cell.scatter)
    assert_same_moments(found, in_memory(frame, ["sex", "age"], weight="w"))


@pytest.mark.filterwarnings("default")
def test_fair_pca_on_the_cluster(cluster):
    frame = people(400)
    table = dd.from_pandas(frame, npartitions=6)
    fair = FairPCA(2).fit(table[FEATURES], sensitive_features=table["sex"])
    same_space(fair, FairPCA(2).fit(frame[FEATURES], sensitive_features=frame["sex"]))
    scores = fair.transform(table[FEATURES]).compute()
    assert isinstance(scores, pd.DataFrame)
    np.testing.assert_allclose(scores, fair.transform(frame[FEATURES]), atol=1e-12)


def test_frames_that_dask_would_join_differently(tmp_path):
    # Few small columns of many files are read together, and how many files depends on the columns.
    frame = people(900)
    frame["note"] = "a long text that is not read" * 20
    for number in range(9):
        frame.iloc[100 * number : 100 * number + 100].to_parquet(tmp_path / f"{number}.parquet")
    table = dd.read_parquet(tmp_path)
    fair = FairPCA(2).fit(
        table[FEATURES], sensitive_features=table["sex"], sample_weight=table["w"]
    )
    assert_same_moments(fair.moments_, in_memory(frame, ["sex"], weight="w"))
    same_space(
        fair,
        FairPCA(2).fit(frame[FEATURES], sensitive_features=frame["sex"], sample_weight=frame["w"]),
    )


def test_an_array_with_columns_of_a_frame():
    frame = people(500)
    table = dd.from_pandas(frame, npartitions=4)
    lazy = table[FEATURES].to_dask_array()  # chunks of unknown length
    given = {"sensitive_features": table["sex"], "sample_weight": table["w"]}
    fair = FairPCA(2).fit(lazy, **given)
    found = moments_from_dask(lazy, table["sex"], weight=table["w"])
    expected = GroupMoments.from_arrays(
        frame[FEATURES].to_numpy(), frame["sex"], sample_weight=frame["w"]
    )
    assert_same_moments(fair.moments_, expected)
    assert_same_moments(found, expected)
