"""FairKernelPCA and DeltaFairPCA fit from Dask: a sample in memory, sums of all rows."""

import os
import signal
import threading
import time

import numpy as np
import pytest
from sklearn.base import clone
from table_support import FEATURES, people

from fairpca import DeltaFairPCA, FairKernelPCA, GroupMoments
from fairpca.exceptions import (
    DroppedRowsWarning,
    GroupsError,
    ImputedValuesWarning,
    InvalidInputError,
)
from fairpca.tables import DaskRows

dask = pytest.importorskip("dask", reason="dask is not installed")
dd = pytest.importorskip("dask.dataframe", reason="dask[dataframe] is not installed")
da = pytest.importorskip("dask.array", reason="dask[array] is not installed")
# dask calls pandas in ways that pandas has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:.*inplace keyword:DeprecationWarning")
MODELS = {
    "kernel": FairKernelPCA(2, n_landmarks=25, cov_weight=0.0),
    "delta": DeltaFairPCA(2, penalty=1.0),
}


@pytest.fixture
def frame():
    return people(800)


def groups_of(table):
    return {
        "sensitive_features": table["sex"],
        "control_features": table["city"],
        "sample_weight": table["w"],
    }


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_collections_that_fit_memory_give_the_model_of_memory(model, frame):
    expected = model.fit(frame[FEATURES], **groups_of(frame)).transform(frame[FEATURES])
    table = dd.from_pandas(frame, npartitions=5)
    fitted = model.fit(table[FEATURES], **groups_of(table))
    assert fitted.feature_names_in_.tolist() == FEATURES
    scores = fitted.transform(table[FEATURES])
    assert hasattr(scores, "dask")
    np.testing.assert_allclose(scores.compute(), expected, atol=1e-9)
    values = frame[FEATURES].to_numpy()
    array = da.from_array(values, chunks=(170, 2))
    held = {name: part.to_numpy() for name, part in groups_of(frame).items()}
    fitted = model.fit(array, **held)
    np.testing.assert_allclose(fitted.transform(array).compute(), expected, atol=1e-9)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_rows_without_a_group_are_a_group_of_their_own(model, frame):
    frame["sex"] = frame["sex"].astype(object).where(frame.index % 9 > 0, None)
    frame.loc[:30, "city"] = None
    # Strata of three groups would leave no direction of four features.
    parts = ["sensitive_features", "control_features"][: 1 if model is MODELS["delta"] else 2]

    def groups(table):
        return {name: groups_of(table)[name] for name in parts}

    own = clone(model).set_params(missing_groups="own")
    expected = own.fit(frame[FEATURES], **groups(frame)).transform(frame[FEATURES])
    table = dd.from_pandas(frame, npartitions=5)
    with pytest.raises(GroupsError, match="missing_groups='own'"):
        model.fit(table[FEATURES], **groups(table))
    fitted = own.fit(table[FEATURES], **groups(table))
    np.testing.assert_allclose(fitted.transform(frame[FEATURES]), expected, atol=1e-9)


@pytest.mark.parametrize("missing", ["drop-rows", "mean"])
@pytest.mark.parametrize("max_rows", [20_000, 300])
def test_missing_values_are_dropped_or_imputed_as_in_memory(missing, max_rows, frame):
    frame.loc[[3, 70, 400], FEATURES[0]] = np.nan
    frame.loc[[70, 700], FEATURES[1]] = np.nan
    frame["sex"] = frame["sex"].astype(object)
    frame.loc[::50, "sex"] = None
    about = {"missing": missing, "missing_groups": "own", "standardize": True, "min_group_size": 2}
    model = DeltaFairPCA(2, penalty=1.0, max_rows=max_rows, **about)
    kind = {"drop-rows": DroppedRowsWarning, "mean": ImputedValuesWarning}[missing]
    with pytest.warns(kind, match="4 of 800"):
        expected = clone(model).fit(frame[FEATURES], sensitive_features=frame["sex"])
    table = dd.from_pandas(frame, npartitions=5)
    with pytest.warns(kind, match="4 of 800"):
        fitted = clone(model).fit(table[FEATURES], sensitive_features=table["sex"])
    np.testing.assert_allclose(fitted.mean_, expected.mean_)
    np.testing.assert_allclose(fitted.scale_, expected.scale_)
    assert np.isfinite(fitted.components_).all()
    if max_rows > len(frame):
        np.testing.assert_allclose(fitted.components_, expected.components_, atol=1e-8)
    strict = clone(model).set_params(missing="error")
    with pytest.raises(InvalidInputError, match="4 of 800 rows have missing values"):
        strict.fit(table[FEATURES], sensitive_features=table["sex"])


def drawn(frame, size, partitions=7):
    table = dd.from_pandas(frame, npartitions=partitions)
    parts = (table[FEATURES], table[["sex", "race"]], table["city"], table["w"])
    rows = DaskRows(*parts, names=FEATURES)
    moments = rows.moments()
    return moments, rows.sample(moments, size)


def test_a_sample_has_rows_of_the_table_and_the_weight_of_every_cell(frame):
    frame.loc[:3, "sex"] = "x"  # a cell that a plain draw would miss
    moments, rows = drawn(frame, 120)
    assert 120 <= len(rows) < 250
    known = {tuple(row) for row in frame[FEATURES].to_numpy()}
    assert all(tuple(row) in known for row in rows.X)
    of_sample = GroupMoments.from_rows(rows)
    assert list(of_sample.table.cells) == list(moments.table.cells)
    for key, cell in moments.table.cells.items():
        assert of_sample.table.cells[key].weight == pytest.approx(cell.weight)


def test_a_sample_is_fair_over_partitions_and_of_all_rows_where_they_are_few(frame):
    counts = np.zeros(len(frame))
    known = frame[FEATURES[0]].to_numpy()
    for shift in range(10):  # other content, other lots
        moved = frame.assign(w=1.0, race=0)
        moved[FEATURES] = moved[FEATURES] + shift
        rows = drawn(moved, 200)[1].X[:, 0] - shift
        counts[np.abs(known - rows[:, None]).argmin(axis=1)] += 1  # each at most once
    by_part = counts.reshape(8, 100).sum(axis=1) / counts.sum()
    assert np.abs(by_part - 1 / 8).max() < 0.03
    _, rows = drawn(frame, 5000)
    used = frame[frame["w"] > 0]
    np.testing.assert_array_equal(rows.X, used[FEATURES].to_numpy())


def test_mistakes(frame):
    table = dd.from_pandas(frame, npartitions=3)
    for model in (FairKernelPCA(2), FairKernelPCA(2, n_landmarks=5, kernel="precomputed")):
        with pytest.raises(InvalidInputError, match="set n_landmarks"):
            model.fit(table[FEATURES], sensitive_features=table["sex"])
    for model in MODELS.values():
        with pytest.raises(GroupsError, match="sensitive_features was not given"):
            model.fit(table[FEATURES])
    holes = dd.from_pandas(frame.assign(a=frame["a"].mask(frame.index == 5)), npartitions=3)
    for model in MODELS.values():
        with pytest.raises(InvalidInputError, match=r"'a' 1"):
            model.fit(holes[FEATURES], sensitive_features=holes["sex"])


def slow_part(part, seconds):
    time.sleep(seconds)
    return part


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_killed_worker_changes_nothing(frame, monkeypatch):
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    monkeypatch.setattr("fairpca.estimators._fair_kernel_pca._DRAWN", 300)  # a true sample
    parts = [frame.iloc[start : start + 50] for start in range(0, 800, 50)]
    table = dd.from_map(slow_part, parts, seconds=0.05, meta=frame.iloc[:0])
    given = {"sensitive_features": table["sex"], "sample_weight": table["w"]}
    models = (
        FairKernelPCA(2, n_landmarks=8, cov_weight=0.0),
        DeltaFairPCA(2, penalty=1.0, max_rows=300),
    )
    undisturbed = [model.fit(table[FEATURES], **given).components_ for model in models]
    made = {"n_workers": 2, "threads_per_worker": 1, "host": "127.0.0.1"}
    with (
        distributed.LocalCluster(**made, processes=True, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        victims = list(client.run(os.getpid).values())
        killer = threading.Timer(0.6, os.kill, (victims[0], signal.SIGKILL))
        killer.start()
        found = [model.fit(table[FEATURES], **given).components_ for model in models]
        killer.join()
    for one, other in zip(found, undisturbed, strict=True):
        np.testing.assert_array_equal(one, other)
