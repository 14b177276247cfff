"""The same rows by another input: files, streams, databases and Dask, for every estimator.

`run(tries, seed)` returns failures by class. Databases take part where their drivers are installed.
"""

import importlib.util
import sqlite3
import tempfile
from functools import partial
from pathlib import Path
from unittest import mock

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from fuzzing import campaign, same
from sklearn.base import clone
from test_fuzz_equivalences import figures, make_model, make_rows

from fairpca import DeltaFairPCA, FairKernelPCA, FairPCA
from fairpca.exceptions import InvalidInputError
from fairpca.tables import moments_from_files, open_query

BATCH_ROWS = "fairpca.tables._stream.batch_rows"  # so few that small tables have many batches
NAMES = {"sensitive": ["g"], "weight": "w"}
LABELS = (["b", "a", "c"], ["z ", "ä", "1"], [10, 7, 8])


def _parts(table, folder, rng):
    """Files of a table, some of which are short."""
    cuts = np.sort(rng.integers(0, len(table), 2))
    for number, (start, stop) in enumerate(zip([0, *cuts], [*cuts, len(table)], strict=True)):
        if stop > start:
            pq.write_table(table.slice(start, stop - start), folder / f"{number}.parquet")


def _reader(table, rng):
    batches = table.to_batches(max_chunksize=int(rng.integers(1, 20)))
    return lambda: pa.RecordBatchReader.from_batches(table.schema, batches)


def _dataset(table, folder, rng):
    _parts(table, folder, rng)
    return pa.dataset.dataset(folder)


def _csv(table, folder):
    pa.csv.write_csv(table, folder / "t.csv")
    return pa.dataset.dataset(folder / "t.csv", format="csv")


def _duckdb(table):
    import duckdb

    return duckdb.from_arrow(table)


def _dask(frame, rng):
    return dd.from_pandas(frame, npartitions=int(rng.integers(1, 4)), sort=False)


def _files(table, folder, rng):
    _parts(table, folder, rng)
    return partial(moments_from_files, folder, **NAMES)


def _query(table, folder, kind):
    """Write a table into a database, and open it as a query."""
    path = folder / "people.db"
    if kind == "sqlite":
        connection = sqlite3.connect(path)
        table.to_pandas().to_sql("t", connection, index=False)
    else:
        import duckdb

        connection = duckdb.connect(path)
        connection.register("containers", table)
        connection.execute("create table t as select * from containers")
    connection.commit()
    connection.close()
    opened = open_query("select * from t", f"{kind}:{path}")
    return lambda **options: opened.moments(opened.assign(**NAMES, **options))


def inputs(frame, rng):
    """Ways to give a table to `fit` from a folder, and ways to sum its moments."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    containers = {
        "pyarrow": lambda _: table,
        "polars": lambda _: pl.from_arrow(table),
        "lazy polars": lambda _: pl.from_arrow(table).lazy(),
        "reader": lambda _: _reader(table, rng),
        "dataset": lambda folder: _dataset(table, folder, rng),
        "CSV dataset": lambda folder: _csv(table, folder),
        "Dask": lambda _: _dask(frame, rng),
    }
    summed = {"files": lambda folder: _files(table, folder, rng)}
    if importlib.util.find_spec("duckdb"):
        containers["DuckDB relation"] = lambda _: _duckdb(table)
        summed["DuckDB"] = lambda folder: _query(table, folder, "duckdb")
    if importlib.util.find_spec("adbc_driver_sqlite"):
        summed["SQLite"] = lambda folder: _query(table, folder, "sqlite")
    return containers, summed


def attempt(rng):
    X, z, weights = make_rows(rng)
    model = make_model(rng, X.shape[1])
    if isinstance(model, FairKernelPCA):
        model = FairPCA(1, cov_weight=1.0, missing="mean")
        X[rng.random(X.shape) < 0.1] = np.nan
    features = [f"f{i}" for i in range(X.shape[1])]
    frame = pd.DataFrame(X, columns=features)
    frame["g"] = np.array(LABELS[int(rng.integers(len(LABELS)))])[z]
    names = {"sensitive_features": ["g"]}
    if not isinstance(model, DeltaFairPCA):
        frame["w"], names["sample_weight"] = weights, "w"
    expected = clone(model).fit(frame, **names)
    unit, small = max(np.nanmax(np.abs(X)) ** 2, 1.0), int(rng.integers(5, 30))
    with tempfile.TemporaryDirectory() as folder, mock.patch(BATCH_ROWS, return_value=small):
        containers, summed = inputs(frame, rng)
        ways = containers | (summed if type(model) is FairPCA else {})
        if isinstance(model, DeltaFairPCA):  # it takes no stream
            ways = {name: ways[name] for name in ("pyarrow", "polars", "Dask")}
        for name in rng.choice(list(ways), 3, replace=False):
            Path(folder, name).mkdir()
            source, where = ways[name](Path(folder, name)), f"{type(model).__name__}: {name}"
            try:
                if name in summed:
                    found = clone(model).fit_moments(source(missing=model.missing))
                else:
                    found = clone(model).fit(source, **names)
            except InvalidInputError as error:
                raise AssertionError(f"{where}: refused by one input only: {error}") from None
            rows = frame[features] if name in summed else frame  # sums know no other columns
            assert list(found.feature_names_in_) == features, f"{where}: features"
            for first, second in zip(figures(expected, frame), figures(found, rows), strict=True):
                same(second, first, where, 1e-6, unit)


def attempt_arrays(rng):
    """Chunks of a Dask array are those of NumPy."""
    X, z, weights = make_rows(rng)
    size = int(rng.integers(5, len(X)))
    lazy, groups, w = (
        da.from_array(part, chunks=(size, *part.shape[1:])) for part in (X, z, weights)
    )
    model = FairPCA(1, cov_weight=1.0, min_group_size=2)
    one = clone(model).fit(X, sensitive_features=z, sample_weight=weights)
    two = clone(model).fit(lazy, sensitive_features=groups, sample_weight=w)
    for first, second in zip(figures(one, X), figures(two, X), strict=True):
        same(second, first, "Dask array", 1e-6, max(np.abs(X).max() ** 2, 1.0))
    same(np.abs(two.transform(lazy).compute()), np.abs(one.transform(X)), "lazy scores", 1e-6)


def run(tries, seed):
    return campaign(
        lambda rng: (attempt_arrays if rng.random() < 0.1 else attempt)(rng), tries, seed, calls=2
    )


@pytest.mark.parametrize(("tries", "seed"), [(4, 1), pytest.param(200, 2, marks=pytest.mark.slow)])
def test_inputs(tries, seed):
    assert run(tries, seed) == {}
