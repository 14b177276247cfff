"""Speed, memory and exactness of every door: one table by Parquet, polars, DuckDB, SQL and Spark.

What is compared takes turns within one run, and the best of the repeats counts: on a machine that
others use, the best is the least disturbed.

    python benchmarks/doors.py                       # 2 million rows × 50, minutes, 2 GB of disk
    python benchmarks/doors.py --rows 200000 --repeat 2 --without spark
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import numpy as np
import results
from scale import FEATURES, NAMES, best_of, parquet, write_table

ROWS = []


def polars(folder):
    import polars as pl

    from fairpca.tables import moments_from_arrow

    return moments_from_arrow(pl.scan_parquet(folder / "*.parquet"), ["g"], NAMES)


def duckdb(folder):
    import duckdb as engine

    from fairpca.tables import moments_from_arrow

    with engine.connect() as connection:
        relation = connection.sql(f"select * from '{folder}/*.parquet'")
        return moments_from_arrow(relation, ["g"], NAMES)


def reader(folder):
    import pyarrow.dataset as ds

    from fairpca.tables import moments_from_arrow

    return moments_from_arrow(ds.dataset(folder).scanner(columns=[*NAMES, "g"]).to_reader(), ["g"])


def query(uri):
    from fairpca.tables import moments_from_table, open_query

    table = open_query("select * from people", uri)
    return moments_from_table(table, table.assign(["g"], NAMES))


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


def report(title, rows, times, notes):
    ROWS.append({"table": title, "rows": rows, "seconds": times, **notes})
    print(f"\n{title}", flush=True)
    for name, seconds in times.items():
        print(f"  {name:44s} {seconds:8.2f} s {rows / seconds / 1e6:8.2f} million rows/s")
    for name, value in notes.items():
        print(f"  {name}: {value:.3g}", flush=True)


def bench_streams(folder, rows, repeat):
    doors = {"moments_from_parquet": parquet, "polars": polars, "DuckDB": duckdb, "reader": reader}
    times = best_of(repeat, {name: lambda run=run: run(folder) for name, run in doors.items()})
    expected = parquet(folder)
    ours = times["moments_from_parquet"]
    notes = {}
    for name in ("polars", "DuckDB", "reader"):
        notes[f"{name}: share of the rate of the Parquet pass"] = ours / times[name]
        notes[f"{name}: largest difference of the moments"] = difference(
            doors[name](folder), expected
        )
        notes[f"{name}: MB above the interpreter"] = peak_of(name, folder)
    report(f"streams, {FEATURES} float32 features", rows, times, notes)


PEAK = """
import sys
sys.path.insert(0, sys.argv[1])
import doors
from pathlib import Path
import duckdb, polars, adbc_driver_postgresql.dbapi
import fairpca.tables.sources
def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024
before = peak()
name = sys.argv[2]
getattr(doors, name.lower())(sys.argv[3] if name == "query" else Path(sys.argv[3]))
print(peak() - before)
"""


def peak_of(name, place):
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", PEAK, here, name, str(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])  # DuckDB draws a bar before it


def bench_postgresql(folder, rows, repeat):
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

        times = best_of(repeat, {"COPY alone": copy, "moments of a query": lambda: query(uri)})
        notes = {
            "share of the rate of COPY": times["COPY alone"] / times["moments of a query"],
            "largest difference of the moments": difference(query(uri), parquet(folder)),
            "MB above the interpreter": peak_of("query", uri),
        }
    report(f"PostgreSQL, {FEATURES} real columns", rows, times, notes)


def bench_spark(folder, rows, repeat):
    from pyspark.sql import SparkSession

    from fairpca.tables import moments_from_spark
    from fairpca.tables.spark import FairPCA

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.driver.memory", "2g").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    table = session.read.parquet(str(folder))
    stage = FairPCA(inputCols=NAMES, sensitiveCol="g", nComponents=2, covWeight=0.0)
    full = FairPCA(inputCols=NAMES, sensitiveCol="g", nComponents=2)
    times = best_of(
        repeat,
        {
            "moments_from_spark": lambda: moments_from_spark(table, ["g"], NAMES),
            "FairPCA of Spark ML": lambda: full.fit(table),
            "FairPCA of Spark ML, means only": lambda: stage.fit(table),
        },
    )
    found = moments_from_spark(table, ["g"], NAMES)
    notes = {
        "estimator against moments": times["FairPCA of Spark ML"] / times["moments_from_spark"],
        "largest difference of the moments": difference(found, parquet(folder)),
    }
    session.stop()
    report(f"Spark local[2], {FEATURES} float32 features", rows, times, notes)


BENCHES = {"streams": bench_streams, "postgresql": bench_postgresql, "spark": bench_spark}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--repeat", type=int, default=4)
    parser.add_argument("--without", nargs="*", default=[], choices=list(BENCHES))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "people"
        write_table(folder, given.rows, 4)
        for name, bench in BENCHES.items():
            if name not in given.without:
                bench(folder, given.rows, given.repeat)
                results.save("doors", ROWS)


if __name__ == "__main__":
    main()
