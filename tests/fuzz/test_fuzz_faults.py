"""What fails around a command: files that change, writers at once, memory, servers, workers.

A try ends with a whole result or with one line of error, and leaves no half a file and no litter.
`run(tries, seed)` returns failures by class.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fuzzing import Failures, same
from postgres_support import binaries, running_server

pytest.importorskip("click", reason="click is not installed")
pytest.importorskip("pyarrow", reason="pyarrow is not installed")

ROWS = 30_000
MAIN = "import sys; from fairpca.cli import main; main()"
# The limit begins after the imports: what they need is not what a table needs.
LIMITED = """
import resource, sys
import fairpca.cli._fit, fairpca.estimators, pyarrow.csv, pyarrow.dataset, pyarrow.parquet
from fairpca.cli import main
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
limit = used + int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
main()
"""


def make_frame(rng, n=ROWS):
    frame = pd.DataFrame(rng.normal(size=(n, 4)).round(4), columns=list("abcd"))
    return frame.assign(sex=rng.choice(["f", "m"], n))


def start(*words, code=MAIN, **options):
    command = [sys.executable, "-c", code, *map(str, words)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, **pipes, **options)


def check_end(process, out=None, n=None):
    """A whole file and code 0, or no file, one line of error and another code."""
    _, stderr = process.communicate(timeout=300)
    assert "Traceback" not in stderr, "traceback"
    assert "own defect" not in stderr, f"defect: {stderr.splitlines()[-1][:150]}"
    errors = [line for line in stderr.splitlines() if "error:" in line]
    assert len(errors) == (process.returncode != 0), f"{len(errors)} lines of error"
    if out is not None:
        assert (process.returncode == 0) == out.exists(), f"code {process.returncode} and a file"
        assert not out.exists() or len(pd.read_csv(out)) == n, "half a file"
        assert not [p.name for p in out.parent.iterdir() if p.name.startswith(".")], "litter"
    return process.returncode


def file_changes(rng, folder):
    """Rows are added, cut off or replaced at any moment of a fit."""
    data, out = folder / "t.csv", folder / "out.csv"
    frame = make_frame(rng)
    frame.to_csv(data, index=False)
    process = start("fit", data, "-s", "sex", "--out", out)
    time.sleep(float(rng.uniform(0.3, 3.0)))
    how = str(rng.choice(["grows", "is cut off", "is replaced", "is removed"]))
    if how == "grows":
        with data.open("a") as file:
            file.write("1,1,1,1,f\n" * int(rng.integers(1, 300)))
    elif how == "is cut off":
        os.truncate(data, int(rng.integers(1, data.stat().st_size)))
    elif how == "is replaced":
        frame[::2].to_csv(folder / "new.csv", index=False)
        os.replace(folder / "new.csv", data)
    else:
        data.unlink()
    _, stderr = process.communicate(timeout=300)
    assert "Traceback" not in stderr, f"a file that {how}: traceback"
    assert "own defect" not in stderr, f"a file that {how}: defect"
    if process.returncode == 0:
        written = len(pd.read_csv(out))
        # All steps saw the file before the change, or all of them after it.
        after = len(pd.read_csv(data)) if data.exists() else ROWS
        assert written in (ROWS, after), f"a file that {how}: {written} rows in silence"
    else:
        assert not out.exists(), f"a file that {how}: refused, and written"


def two_writers(rng, folder):
    """Two fits write one file: it is one of the two."""
    out, sizes = folder / "out.csv", rng.choice(np.arange(200, 3000), 2, replace=False)
    running = []
    for number, n in enumerate(sizes):
        data = folder / f"t{number}.csv"
        make_frame(rng, int(n)).to_csv(data, index=False)
        running.append(start("fit", data, "-s", "sex", "--out", out, "--force", "-q"))
        time.sleep(float(rng.uniform(0.0, 0.3)))
    codes = [check_end(process) for process in running]
    assert 0 in codes, "neither of two writers succeeds"
    assert len(pd.read_csv(out)) in sizes, "a mixture of two writers"
    assert sorted(p.name for p in folder.iterdir()) == ["out.csv", "t0.csv", "t1.csv"], "litter"


def read_only(rng, folder):
    """A folder in which nothing can be written, also not a temporary file: refused at once."""
    data = folder / "t.csv"
    make_frame(rng, 300).to_csv(data, index=False)
    command, option = [
        ("fit", "--out"), ("fit", "--save"), ("moments", "--out"), ("report", "--out")
    ][int(rng.integers(4))]  # fmt: skip
    place = f"/proc/self/{rng.choice(['o.csv', 'o.parquet', 'o.html', 'o.npz'])}"  # for root too
    process = start(command, data, "-s", "sex", option, place, "-q")
    assert check_end(process) == 2, f"{command} {option}: not refused"


def little_memory(rng, folder):
    """A limit on memory from far too little to enough."""
    data, out = folder / "t.parquet", folder / "out.csv"
    make_frame(rng, 10 * ROWS).to_parquet(data)
    limit = int(10 ** rng.uniform(7.0, 9.0))
    process = start(limit, "fit", data, "-s", "sex", "--out", out, "-q", code=LIMITED)
    _, stderr = process.communicate(timeout=300)
    assert "Traceback" not in stderr, "little memory: traceback"
    assert "own defect" not in stderr, f"little memory: {stderr.splitlines()[-1][:150]}"
    if process.returncode == 0:
        assert len(pd.read_csv(out)) == 10 * ROWS, "little memory: half a file"
    else:
        assert not out.exists(), "little memory: half a file"


def server_stops(rng, folder):
    """A PostgreSQL server is stopped in the middle of a read, or of a read and a write."""
    with ExitStack() as stack:
        uri = stack.enter_context(running_server())
        out = folder / "out.csv"
        query = (
            "select random() as a, random() as b, case when g % 3 = 0 then 'x' else 'y' end as sex "
            f"from generate_series(1, {10 * ROWS}) as g"
        )
        words = ("fit", "--sql", query, "--database", uri, "-s", "sex", "--out", out)
        process = start(*words)
        time.sleep(float(rng.uniform(0.5, 4.0)))
        stop = threading.Thread(target=stack.close)
        stop.start()
        try:
            check_end(process, out, 10 * ROWS)
        finally:
            stop.join()


def worker_dies(rng, folder):
    """A Dask worker is killed at any moment of a sum over partitions."""
    import dask
    import dask.dataframe as dd
    import distributed

    from fairpca import GroupMoments
    from fairpca.tables import moments_from_dask

    frame = make_frame(rng, 1200)
    parts = [frame.iloc[first : first + 100] for first in range(0, 1200, 100)]
    expected = GroupMoments.from_arrays(frame[list("abcd")], frame["sex"]).pooled().covariance
    dask.config.set({"distributed.scheduler.allowed-failures": 5})
    cluster = distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client:
        table = dd.from_map(_slowly, parts, meta=frame.iloc[:0])
        victim = next(iter(client.run(os.getpid).values()))
        timer = threading.Timer(rng.uniform(0.05, 0.8), os.kill, (victim, signal.SIGKILL))
        timer.start()
        found = moments_from_dask(table, "sex", list("abcd"))
        timer.join()
    same(found.pooled().covariance, expected, "a killed worker", 1e-10)


def _slowly(part):
    time.sleep(0.1)
    return part


def has_server():
    """Whether a PostgreSQL server and its driver are installed."""
    if binaries() is None:
        return False
    try:
        import adbc_driver_postgresql  # noqa: F401
    except ImportError:
        return False
    return True


FAULTS = [file_changes, file_changes, two_writers, read_only, little_memory, worker_dies]


def run(tries, seed, faults=None):
    failures = Failures()
    for number in range(tries):
        rng = np.random.default_rng([seed, number])
        kinds = faults or FAULTS + [server_stops] * has_server()
        fault = kinds[number % len(kinds)]
        folder = Path(tempfile.mkdtemp())
        try:
            fault(rng, folder)
        except AssertionError as error:
            failures[f"{fault.__name__}: {str(error).splitlines()[0]}"].append(number)
        except Exception as error:
            failures[f"{fault.__name__}: {type(error).__name__}: {error}"[:100]].append(number)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return dict(failures)


def test_two_writers_and_read_only_folders():
    assert run(1, 1, [two_writers, read_only]) == {}


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_faults():
    assert run(14, 2) == {}
