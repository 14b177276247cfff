"""Speed, memory and exactness of every input: one table by Parquet, polars, DuckDB, SQL and Spark.

Rates are compared by processor seconds, which neighbours on the machine disturb least: what is
compared takes turns in one process, in another order each time, and the best turn counts; beside
it stand the quartiles of what two of them took in the same turn. With one
thread for everything they are the seconds of a machine where all cores have work; with all cores,
those of a machine of our own are between that and a part of it. Memory is measured for tables of
three sizes, in a process of its own each, and once more for a reader that drops every batch after
a while: that is what the engine holds by itself, when it is faster than the sums.

    python benchmarks/inputs.py                  # minutes for each of the four, 3 GB of disk
    python benchmarks/inputs.py --rows 200000 --repeat 3 --only postgresql spark
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import numpy as np
import results
from scale import FEATURES, NAMES, write_table

COLUMNS = [*NAMES, "g"]


def summed(source, threads):
    from fairpca.tables import moments_from_arrow

    return moments_from_arrow(source, ["g"], NAMES, threads=threads)


def drained(source, threads):
    """Read what a pass would read, and do nothing with it."""
    from fairpca.tables import open_table

    for _ in open_table(source).batches(COLUMNS):
        pass


def dropped(source, threads):
    """Read what a pass would read, as slowly as sums on a busy machine, and keep nothing of it."""
    from fairpca.tables import open_table

    for _ in map(type, open_table(source).batches(COLUMNS)):
        time.sleep(0.02)


def parquet(folder, threads=None, work=summed):
    from fairpca.tables import moments_from_files

    if work is not summed:
        return work(folder, threads)
    return moments_from_files(folder, ["g"], NAMES, threads=threads)


def polars(folder, threads=None, work=summed):  # its threads are those of POLARS_MAX_THREADS
    import polars as pl

    return work(pl.scan_parquet(folder / "*.parquet"), threads)


def connect(threads):
    import duckdb as engine

    return engine.connect(config={} if threads is None else {"threads": threads})


kept_connection = cache(connect)


def duckdb(folder, threads=None, work=summed):
    """By a connection that stays open from turn to turn."""
    return work(kept_connection(threads).sql(f"select * from '{folder}/*.parquet'"), threads)


def duckdb_anew(folder, threads=None, work=summed):
    """By a connection of its own: what opening it and its first memory cost is counted too."""
    with connect(threads) as connection:
        return work(connection.sql(f"select * from '{folder}/*.parquet'"), threads)


def dataset(folder, threads=None, work=summed):
    import pyarrow.dataset as ds

    return work(ds.dataset(folder), threads)


def reader(folder, threads=None, work=summed):
    import pyarrow.dataset as ds

    return work(ds.dataset(folder).scanner(columns=COLUMNS).to_reader(), threads)


INPUTS = {
    "moments_from_files": parquet,
    "polars LazyFrame": polars,
    "DuckDB relation, connection kept open": duckdb,
    "DuckDB relation, connection opened for the pass": duckdb_anew,
    "pyarrow dataset": dataset,
    "pyarrow reader, as it reads ahead by itself": reader,
}


def query(uri):
    from fairpca.tables import open_query

    table = open_query("select * from people", uri)
    return table.moments(table.assign(["g"], NAMES))


def difference(found, expected):
    """Largest relative difference of the moments of any group, in units of their deviations."""
    worst = 0.0
    for key, cell in expected.table.cells.items():
        other = found.table.cells[key]
        assert other.n_rows == cell.n_rows
        scale = np.sqrt(np.diag(cell.scatter))
        worst = max(worst, np.abs((other.scatter - cell.scatter) / np.outer(scale, scale)).max())
        deviation = scale / np.sqrt(cell.n_rows)
        worst = max(worst, np.abs((other.mean - cell.mean) / deviation).max())
    return float(worst)


def in_turns(repeat, cases):
    """Wall and processor seconds of each case and turn, after a turn that only warms up."""
    times = {name: [] for name in cases}
    for turn in range(repeat + 1):
        names = list(cases) if turn % 2 else list(cases)[::-1]
        for name in names:
            start = time.perf_counter(), time.process_time()
            cases[name]()
            times[name].append((time.perf_counter() - start[0], time.process_time() - start[1]))
    return {name: np.array(found[1:]).T for name, found in times.items()}


def quartiles(ratios):
    return [float(value) for value in np.quantile(ratios, [0.25, 0.5, 0.75])]


def time_streams(folder, threads, repeat):
    """What a process of its own measures, whose engines have so many threads."""
    import pyarrow as pa

    pa.set_cpu_count(threads)
    folder, cases = Path(folder), {}
    for name, run in INPUTS.items():
        cases[name, "summed"] = lambda run=run: run(folder, threads)
        cases[name, "read only"] = lambda run=run: run(folder, threads, drained)
    times = in_turns(repeat, cases)
    expected = parquet(folder)
    ours = times["moments_from_files", "summed"][1]
    theirs = {name: times[name, "summed"][1] for name in INPUTS}
    return [
        {
            "table": "streams",
            "input": name,
            "threads": threads,
            "seconds": times[name, "summed"][0].min(),
            "processor_seconds": theirs[name].min(),
            "processor_seconds_to_read": times[name, "read only"][1].min(),
            "share_of_the_parquet_rate": ours.min() / theirs[name].min(),
            "share_in_turns": quartiles(ours / theirs[name]),
            "turns": repeat,
            "largest_difference": difference(run(folder), expected),
        }
        for name, run in INPUTS.items()
    ]


CHILD = """
import json, sys
sys.path.insert(0, sys.argv[1])
import inputs
from pathlib import Path
import duckdb, polars, pyarrow.dataset, adbc_driver_postgresql.dbapi
import fairpca.tables.table
print("found", json.dumps(getattr(inputs, sys.argv[2])(*json.loads(sys.argv[3]))))
"""


def in_a_process(function, *arguments, **environment):
    command = [sys.executable, "-c", CHILD, str(Path(__file__).parent), function]
    env = os.environ | {name: str(value) for name, value in environment.items()}
    done = subprocess.run(
        [*command, json.dumps(arguments)], capture_output=True, text=True, check=True, env=env
    )
    return json.loads(done.stdout.rpartition("found ")[2])  # DuckDB draws a bar before it


def peak_of(name, place, work="summed"):
    """Peak memory in MB of one pass above what the imports had taken."""

    def peak():
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024

    before = peak()
    query(place) if name == "query" else INPUTS[name](Path(place), work=globals()[work])
    return peak() - before


def shown(rows):
    for row in rows:
        words = (
            f"{value:.3g}" if isinstance(value, float) else str(value) for value in row.values()
        )
        print("  " + "  ".join(words), flush=True)
    return rows


def bench_streams(folder, args):
    found, place = [], folder.parent / "streams"
    write_table(place, args.stream_rows, 2)
    for threads in (1, os.cpu_count()):
        arguments = (str(place), threads, args.repeat)
        found += in_a_process("time_streams", *arguments, POLARS_MAX_THREADS=threads)
    return [row | {"rows": args.stream_rows} for row in found]


def bench_memory(folder, args):
    sizes = {}
    for rows in args.memory_rows:
        sizes[rows] = folder.parent / f"memory-{rows}"
        write_table(sizes[rows], rows, max(rows // 250_000, 1))
    return [
        {"table": "memory", "input": name, "rows": rows}
        | {"megabytes": in_a_process("peak_of", name, str(place))}
        | {"megabytes_of_reading": in_a_process("peak_of", name, str(place), "dropped")}
        for name in INPUTS
        for rows, place in sizes.items()
    ]


def bench_postgresql(folder, args):
    import pyarrow.dataset as ds
    from postgres_support import binaries, running_server

    from fairpca.tables import Database

    with running_server() as uri:
        with Database(uri).connection() as connection, connection.cursor() as cursor:
            cursor.adbc_ingest("people", ds.dataset(folder).scanner().to_reader())
            connection.commit()

        def copy():
            sql = "copy people to stdout (format binary)"
            psql = [str(binaries() / "psql"), uri, "-q", "-c", sql]
            subprocess.run(psql, stdout=subprocess.DEVNULL, check=True)

        # By the clock: most of the work is the server's, in a process of its own.
        times = in_turns(args.repeat, {"copy": copy, "query": lambda: query(uri)})
        alone, ours = times["copy"][0].min(), times["query"][0].min()
        row = {
            "table": "postgresql",
            "input": "PostgreSQL query",
            "rows": args.rows,
            "seconds": ours,
            "seconds_of_copy_alone": alone,
            "share_of_the_copy_rate": alone / ours,
            "largest_difference": difference(query(uri), parquet(folder)),
            "megabytes": in_a_process("peak_of", "query", uri),
        }
    return [row]


def bench_spark(folder, args):
    from pyspark.sql import SparkSession

    from fairpca.spark import FairPCA
    from fairpca.tables import moments_from_spark

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.driver.memory", "2g").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    table = session.read.parquet(str(folder))
    stage = FairPCA(inputCols=NAMES, sensitiveCol="g", nComponents=2)
    times = in_turns(
        args.repeat,
        {
            "moments": lambda: moments_from_spark(table, ["g"], NAMES),
            "stage": lambda: stage.fit(table),
        },
    )
    moments, fitted = times["moments"][0].min(), times["stage"][0].min()
    row = {
        "table": "spark",
        "input": "Spark ML stage, local[2]",
        "rows": args.rows,
        "seconds": fitted,
        "seconds_of_moments_from_spark": moments,
        "stage_against_moments": fitted / moments,
        "ratio_in_turns": quartiles(times["stage"][0] / times["moments"][0]),
        "turns": args.repeat,
        "largest_difference": difference(moments_from_spark(table, ["g"], NAMES), parquet(folder)),
    }
    session.stop()
    return [row]


BENCHES = {
    "streams": bench_streams,
    "memory": bench_memory,
    "postgresql": bench_postgresql,
    "spark": bench_spark,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--stream-rows", type=int, default=3_000_000)
    parser.add_argument(
        "--memory-rows", type=int, nargs="+", default=[1_000_000, 3_000_000, 6_000_000]
    )
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--only", nargs="*", default=list(BENCHES), choices=list(BENCHES))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "people"
        write_table(folder, args.rows, 2)
        for name in args.only:
            print(name, flush=True)
            found = shown(BENCHES[name](folder, args))
            load = round(os.getloadavg()[0], 1)
            others = [row for row in results.load("inputs") if row["table"] != name]
            found = [row | {"load": load} for row in found]
            results.save("inputs", others + found, features=FEATURES)


if __name__ == "__main__":
    main()
