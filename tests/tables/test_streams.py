"""Arrow streams: the same moments by every input, in one pass."""

import os
import threading

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from table_support import FEATURES, assert_same_moments, in_memory

from fairpca.exceptions import InvalidInputError
from fairpca.tables import input_kind, moments_from_arrow, moments_from_files, open_table
from fairpca.tables._stream import MAX_THREADS, equal_batches, in_order

ASKED = {"sensitive": ["sex", "age"], "features": FEATURES, "control": "city", "weight": "w"}
SMALL = "fairpca.tables._stream.batch_rows"


OPENED: list = []


@pytest.fixture(autouse=True)
def close():
    yield
    while OPENED:
        OPENED.pop(0).close()


def arrow(frame):
    return pa.Table.from_pandas(frame, preserve_index=False)


def cursor(frame):
    sqlite = pytest.importorskip("adbc_driver_sqlite.dbapi", reason="needs fairpca[sql]")
    connection = sqlite.connect()
    found = connection.cursor()
    OPENED.extend([found, connection])
    found.adbc_ingest("people", arrow(frame))
    found.execute("select * from people")
    return found


def relation(frame):
    duckdb = pytest.importorskip("duckdb", reason="needs fairpca[sql]")
    table = arrow(frame)
    connection = duckdb.connect()
    connection.register("people", table)
    return connection.sql("select * from people")


INPUTS = {
    "pandas": lambda frame: frame,
    "table": arrow,
    "record batch": lambda frame: arrow(frame).to_batches()[0],
    "reader": lambda frame: arrow(frame).to_reader(max_chunksize=37),
    "function": lambda frame: lambda: arrow(frame).to_reader(max_chunksize=37),
    "dataset in memory": lambda frame: ds.dataset(arrow(frame)),
    "polars": pl.from_pandas,
    "polars lazy": lambda frame: pl.from_pandas(frame).lazy(),
    "duckdb": relation,
    "adbc cursor": cursor,
}


@pytest.mark.parametrize("source", INPUTS.values(), ids=INPUTS)
@pytest.mark.parametrize("size", [100, 32768])
def test_moments_are_those_of_rows_in_memory(source, size, frame, monkeypatch):
    monkeypatch.setattr(SMALL, lambda _: size)
    found = moments_from_arrow(source(frame), **ASKED)
    expected = in_memory(frame, ["sex", "age"], ["city"], "w")
    assert_same_moments(found, expected, rtol=1e-12)


def test_bits_do_not_depend_on_how_a_stream_is_cut(frame, monkeypatch):
    monkeypatch.setattr(SMALL, lambda _: 64)
    bits = set()
    for size in (1, 7, 64, 500):
        for threads in (1, 3):
            reader = arrow(frame).to_reader(max_chunksize=size)
            bits.add(
                moments_from_arrow(reader, "sex", FEATURES, threads=threads).pooled()[2].tobytes()
            )
    assert len(bits) == 1


def test_a_batch_larger_than_ours_is_cut_without_a_copy():
    """Of the large batch only what completes the rows left over from the small one is copied."""
    small, large = (pa.record_batch({"a": np.arange(float(size))}) for size in (10, 500))
    found = list(equal_batches([small, large], 100))
    assert [batch.num_rows for batch in found] == [100] * 5 + [10]
    place = large.column(0).buffers()[1].address
    shared = [batch.column(0).buffers()[1].address == place for batch in found]
    assert shared == [False] + [True] * 5


@pytest.mark.parametrize("size", [1000, 2000])
def test_nothing_is_held_while_the_engine_makes_the_next_batch(size, monkeypatch):
    monkeypatch.setattr(SMALL, lambda _: 1000)
    schema = pa.schema({"a": pa.float64(), "b": pa.float64(), "g": pa.int64()})
    held = []

    def batches():
        before = pa.total_allocated_bytes()
        for _ in range(5):
            held.append(pa.total_allocated_bytes() - before)
            made = [pa.array([row % 7 for row in range(size)], field.type) for field in schema]
            yield pa.record_batch(made, schema=schema)
            del made

    source = pa.RecordBatchReader.from_batches(schema, batches())
    moments_from_arrow(source, "g", ["a", "b"], numeric=["g"], threads=1)
    assert max(held) < 8 * size, held


def test_types_of_other_engines_mean_what_they_hold():
    frame = pl.DataFrame(
        {
            "a": [1.0, 2.0, 4.0, 3.0],
            "view": ["x", "y", "x", "y"],
            "category": pl.Series(["u", "v", "u", "v"], dtype=pl.Categorical),
            "enum": pl.Series(["u", "v", "u", "v"], dtype=pl.Enum(["v", "u"])),
            "dec": pl.Series([1, 2, 3, 4], dtype=pl.Decimal(10, 2)),
        }
    )
    for source in (frame, frame.lazy(), pa.RecordBatchReader.from_stream(frame)):
        found = moments_from_arrow(source, ["view", "category", "enum"], ["a", "dec"])
        assert [found.levels(name) for name in found.attributes] == [
            ("x", "y"),
            ("u", "v"),
            ("u", "v"),
        ]
        assert found.pooled()[1].tolist() == [2.5, 2.5]


def test_dictionaries_that_change_between_batches(monkeypatch):
    monkeypatch.setattr(SMALL, lambda _: 5)
    parts = [
        pa.record_batch({"a": [1.0, 2.0], "g": pa.array(["x", "y"]).dictionary_encode()}),
        pa.record_batch({"a": [3.0, 5.0], "g": pa.array(["y", "x"]).dictionary_encode()}),
        pa.record_batch({"a": [0.0, 1.0, 9.0], "g": pa.array(["z", "x", "x"]).dictionary_encode()}),
    ]
    found = moments_from_arrow(pa.RecordBatchReader.from_batches(parts[0].schema, parts), "g")
    assert found.levels("g") == ("x", "y", "z")
    assert found.n_samples == 7


def test_a_reader_is_read_once(frame):
    table = open_table(arrow(frame).to_reader())
    roles = table.assign("sex", FEATURES)
    assert table.moments(roles).n_samples == len(frame)
    with pytest.raises(InvalidInputError, match="has been read already"):
        table.moments(roles)


def test_a_lazy_query_of_a_polars_that_loses_errors_is_refused(frame, monkeypatch):
    monkeypatch.setattr(pl, "__version__", "1.37.1")
    with pytest.raises(InvalidInputError, match=r"use polars 1\.38 or newer, or call \.collect"):
        moments_from_arrow(pl.from_pandas(frame).lazy(), "sex")


def test_lazy_queries_read_the_columns_asked_for_only(frame, tmp_path):
    frame.to_parquet(tmp_path / "x.parquet", row_group_size=100)
    query = pl.scan_parquet(tmp_path / "x.parquet").with_columns(bad=pl.col("sex").cast(pl.Int64))
    found = moments_from_arrow(query, "sex", FEATURES)  # the column bad cannot be computed
    expected = moments_from_files(tmp_path / "x.parquet", "sex", FEATURES)
    assert_same_moments(found, expected, rtol=1e-12)
    with pytest.raises(InvalidInputError, match="the polars query cannot be read") as error:
        moments_from_arrow(query, "sex", ["a", "bad"])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", ["parquet", "csv", "feather"])
def test_datasets_of_files_and_filtered_ones(frame, tmp_path, monkeypatch, kind):
    monkeypatch.setattr(SMALL, lambda _: 64)
    for part in range(3):
        rows = arrow(frame.iloc[part::3])
        ds.write_dataset(
            rows,
            tmp_path / "people",
            format=kind,
            basename_template=f"{part}-{{i}}.x",
            existing_data_behavior="overwrite_or_ignore",
        )
    people = ds.dataset(tmp_path / "people", format=kind)
    assert input_kind(people) == "stream"
    ordered = pd.concat([frame.iloc[part::3] for part in range(3)])
    expected = in_memory(ordered, ["sex", "age"], ["city"], "w")
    assert_same_moments(moments_from_arrow(people, **ASKED), expected, rtol=1e-9)
    kept = ordered[ordered["a"] > 0.0]
    found = moments_from_arrow(people.filter(ds.field("a") > 0.0), **ASKED)
    assert_same_moments(found, in_memory(kept, ["sex", "age"], ["city"], "w"), rtol=1e-9)


def test_missing_values_are_counted_over_the_whole_stream(frame, monkeypatch):
    monkeypatch.setattr(SMALL, lambda _: 50)
    frame.loc[[3, 70, 400], "a"] = np.nan
    words = r"3 of 500 rows have missing values \(by column: 'a' 3\)"
    with pytest.raises(InvalidInputError, match=words):
        moments_from_arrow(arrow(frame).to_reader(), "sex", FEATURES)


def test_what_is_no_stream(tmp_path):
    for wrong in ("x.parquet", tmp_path, [[1.0]], np.eye(2), 3):
        with pytest.raises(InvalidInputError, match="give what has __arrow_c_stream__"):
            moments_from_arrow(wrong, "sex")
    twice = pa.Table.from_arrays([pa.array([1.0])] * 2, names=["a", "a"])
    with pytest.raises(InvalidInputError, match="occur more than once: 'a'"):
        moments_from_arrow(twice, "a")


@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows():
    drawn, held = np.random.default_rng(0), []

    def batches():
        for _ in range(300):
            held.append(pa.total_allocated_bytes())
            values = pa.array(drawn.normal(size=50_000))
            yield pa.record_batch({"a": values, "g": pa.array(np.arange(50_000) % 2)})

    schema = pa.schema({"a": pa.float64(), "g": pa.int64()})
    reader = pa.RecordBatchReader.from_batches(schema, batches())
    assert moments_from_arrow(reader, "g").n_samples == 15_000_000
    assert max(held) < 30e6


def test_streams_are_told_from_frames(frame):
    streams = {"reader", "dataset in memory", "polars lazy", "duckdb", "adbc cursor", "function"}
    for name, source in INPUTS.items():
        kind = "stream" if name in streams else "memory"
        assert input_kind(source(frame)) == kind, name


@pytest.mark.parametrize("n_cores", [1, 3, 64])
def test_as_many_threads_as_cores_and_no_more_than_eight(n_cores, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(n_cores), raising=False)
    n_threads = min(n_cores, MAX_THREADS)
    barrier, names = threading.Barrier(n_threads, timeout=10.0), set()

    def work(item):
        if item < n_threads:
            barrier.wait()  # all threads are at work at once, or it breaks
        names.add(threading.current_thread().name)
        return item

    assert list(in_order(work, range(200))) == list(range(200))
    assert len(names) == n_threads <= 8
