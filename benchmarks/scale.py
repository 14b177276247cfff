"""Speed and memory of moments at scale: Parquet streaming, Dask with one and two workers, Spark.

Every ratio is taken within one run, alternating what is compared, and the best of the repeats of
each counts: on a machine that others use, the best is the least disturbed. Load averages are
printed, so that a reader can tell how far to trust the figures.

    python benchmarks/scale.py                  # 5 and 10 million rows × 50, minutes, 4 GB
    python benchmarks/scale.py --rows 500000 --dask-rows 1000000 --repeat 2 --without spark
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# One BLAS thread a process: the matrices are small, and the passes bring their own threads.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import results

FEATURES = 50
WIDE = 1000
NAMES = [f"x{index}" for index in range(FEATURES)]


def write_table(folder, rows, files, row_group=250_000, features=FEATURES, groups=3, seed=0):
    """Random float32 features and a group, over some files."""
    names = [f"x{index}" for index in range(features)]
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    for number in range(files):
        writer, left = None, rows // files
        while left:
            size = min(row_group, left)
            columns = {name: rng.standard_normal(size, dtype=np.float32) for name in names}
            columns["g"] = pa.array([f"g{value}" for value in rng.integers(0, groups, size)])
            table = pa.table(columns)
            path = folder / f"part-{number:02d}.parquet"
            # Random floats have no repeated values: a dictionary would only cost time and space.
            writer = writer or pq.ParquetWriter(path, table.schema, use_dictionary=["g"])
            writer.write_table(table, row_group_size=size)
            left -= size
        writer.close()


def gram_in_batches(folder, dtype):
    """The yardstick: read the files with pyarrow and sum XᵀX with NumPy, nothing else."""
    total = np.zeros((FEATURES, FEATURES))
    for path in sorted(folder.glob("*.parquet")):
        for batch in pq.ParquetFile(path).iter_batches(65536, columns=NAMES):
            columns = np.empty((FEATURES, batch.num_rows), dtype=dtype)
            for index, column in enumerate(batch.columns):
                columns[index] = column.to_numpy()
            total += columns @ columns.T
    return total


def read_only(folder):
    for path in sorted(folder.glob("*.parquet")):
        for _ in pq.ParquetFile(path).iter_batches(65536, columns=NAMES):
            pass


def parquet(folder, threads=None):
    from fairpca.tables import moments_from_files

    return moments_from_files(folder, ["g"], NAMES, threads=threads)


# Processor seconds of this process by case: what a busy machine disturbs least.
PROCESSOR = {}


def best_of(repeat, cases):
    """Best time of each case, taking turns so that all meet the same disturbances."""
    times = {name: [] for name in cases}
    for _ in range(repeat):
        for name, run in cases.items():
            start, processor = time.perf_counter(), time.process_time()
            run()
            times[name].append((time.perf_counter() - start, time.process_time() - processor))
    for name, values in times.items():
        PROCESSOR[name] = min(value[1] for value in values)
    return {name: min(value[0] for value in values) for name, values in times.items()}


ROWS = []


def report(title, rows, times, notes, in_process=False):
    for name, seconds in times.items():
        row = {"table": title, "what": name, "seconds": seconds, "rows": rows}
        ROWS.append(row | ({"processor": PROCESSOR[name]} if in_process else {}))
    ROWS.append({"table": title, "notes": list(notes)})
    print(f"\n{title}", flush=True)
    print(f"{'':44s} {'seconds':>9s} {'million rows/s':>15s}")
    for name, seconds in times.items():
        print(f"{name:44s} {seconds:9.2f} {rows / seconds / 1e6:15.2f}")
    for note in notes:
        print(f"  {note}", flush=True)


def bench_parquet(folder, rows, repeat):
    times = best_of(
        repeat,
        {
            "read only (pyarrow, its own threads)": lambda: read_only(folder),
            "read + XᵀX in batches, float32 sums": lambda: gram_in_batches(folder, np.float32),
            "read + XᵀX in batches, float64 sums": lambda: gram_in_batches(folder, np.float64),
            "moments_from_files, 1 thread": lambda: parquet(folder, 1),
            "moments_from_files": lambda: parquet(folder),
        },
    )
    ours = times["moments_from_files"]
    double = times["read + XᵀX in batches, float64 sums"] / ours
    single = times["read + XᵀX in batches, float32 sums"] / ours
    report(
        f"Parquet, {rows:,} × {FEATURES} float32, one attribute of three groups",
        rows,
        times,
        [
            f"against XᵀX in float64 (the precision of the moments): {double:.0%} of its speed",
            f"against XᵀX in float32: {single:.0%} (wanted: at least 60 %)",
        ],
        in_process=True,
    )


MEMORY = """
import sys
from fairpca.tables import moments_from_files
def peak():  # of this program; what resource.getrusage says can be that of its parent
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024
before = peak()
moments_from_files(sys.argv[1], ["g"])
print(f"{peak() - before:.0f}")
"""


def bench_memory(folders):
    print("\nPeak memory of the Parquet pass above the interpreter (wanted: under 600 MB)")
    for title, folder in folders.items():
        output = subprocess.run(
            [sys.executable, "-c", MEMORY, str(folder)], capture_output=True, text=True, check=True
        )
        ROWS.append({"table": "memory", "what": title, "megabytes": int(output.stdout)})
        print(f"{title:60s} {int(output.stdout):6d} MB", flush=True)


def bench_shapes(base, rows=100_000):
    """Processor time of the Parquet pass for a row, with one thread."""
    from fairpca.tables import moments_from_files

    for features, groups in ((50, 2), (200, 2), (500, 2), (50, 50), (50, 500)):
        folder = base / f"{features}-{groups}"
        if not folder.exists():
            write_table(folder, rows, 1, row_group=rows // 4, features=features, groups=groups)
        best_of(3, {"pass": lambda folder=folder: moments_from_files(folder, ["g"], threads=1)})
        row = {
            "features": features,
            "groups": groups,
            "microseconds": PROCESSOR["pass"] * 1e6 / rows,
        }
        ROWS.append({"table": "shapes", **row})
        print(f"{features} features, {groups} groups: {row['microseconds']:.1f} µs a row")


def dask_pass(folder, client):
    import dask.dataframe as dd

    from fairpca.tables import moments_from_dask

    return moments_from_dask(dd.read_parquet(folder), ["g"], NAMES)


def bench_dask(folder, rows, repeat):
    import logging

    from distributed import Client, LocalCluster

    logging.getLogger("distributed").setLevel(logging.ERROR)
    times = {}
    clusters = {
        f"Dask, {count} worker{'s' if count > 1 else ''} of one thread": LocalCluster(
            n_workers=count, threads_per_worker=1, dashboard_address=None, memory_limit=0
        )
        for count in (1, 2)
    }
    try:
        clients = {name: Client(cluster) for name, cluster in clusters.items()}
        for client in clients.values():  # imports and page cache
            client.run(pa.set_cpu_count, 1)  # or one worker would decode on every core
            with client.as_current():
                dask_pass(folder, client)
        cases = {}
        for name, client in clients.items():

            def run(client=client):
                with client.as_current():
                    dask_pass(folder, client)

            cases[name] = run
        times = best_of(repeat, cases)
        for client in clients.values():
            client.close()
    finally:
        for cluster in clusters.values():
            cluster.close()
    one, two = times.values()
    note = f"two workers against one: {one / two:.2f} times (wanted: at least 1.5)"
    report(f"Dask, {rows:,} × {FEATURES} float32", rows, times, [note])
    return two


def bench_spark(folder, rows, repeat, dask_seconds):
    from pyspark.sql import SparkSession

    from fairpca.tables import moments_from_spark

    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "50000")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")

    def run():
        moments_from_spark(session.read.parquet(str(folder)), ["g"], NAMES)

    run()  # the JVM compiles, the workers import
    times = best_of(repeat, {"Spark local[2], mapInArrow": run})
    session.stop()
    (seconds,) = times.values()
    notes = []
    if dask_seconds:
        notes = [f"{seconds / dask_seconds:.1f} times Dask with two workers (wanted: at most 6)"]
    report(f"Spark, {rows:,} × {FEATURES} float32", rows, times, notes)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--dask-rows", type=int, default=10_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--without", nargs="*", default=[], choices=["dask", "spark", "memory"])
    parser.add_argument("--folder", type=Path, help="keep the data here and use them again")
    args = parser.parse_args()
    print(f"{os.cpu_count()} cores, load average before: {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as temporary:
        base = args.folder or Path(temporary)
        small, large = base / f"{args.rows}", base / f"{args.dask_rows}"
        if not small.exists():
            write_table(small, args.rows, files=1)
        if not large.exists():
            write_table(large, args.dask_rows, files=20)
        bench_parquet(small, args.rows, args.repeat)
        if "memory" not in args.without:
            huge, wide = base / "one-row-group", base / "wide"
            if not huge.exists():
                write_table(huge, args.rows // 5, files=1, row_group=args.rows // 5)
            if not wide.exists():
                write_table(wide, args.rows // 25, files=1, row_group=100_000, features=WIDE)
            bench_memory(
                {
                    f"{args.rows:,} rows, row groups of 250,000": small,
                    f"{args.dask_rows:,} rows in 20 files": large,
                    f"{args.rows // 5:,} rows in one row group": huge,
                    f"{args.rows // 25:,} rows of {WIDE} features": wide,
                }
            )
        bench_shapes(base)
        seconds = None
        if "dask" not in args.without:
            seconds = bench_dask(large, args.dask_rows, args.repeat)
        if "spark" not in args.without:
            bench_spark(large, args.dask_rows, args.repeat, seconds)
    print(f"\nload average after: {os.getloadavg()[0]:.1f}")
    results.save("scale", ROWS, sizes={"parquet": args.rows, "dask": args.dask_rows})


if __name__ == "__main__":
    main()
