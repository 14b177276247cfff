"""The command on real data, where it is: stopping half way, and NHANES as it was run."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from reproduction.results import cluster_shares, printed_clusters
from reproduction.run import run

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.skipif(not os.environ.get("FAIRPCA_DATA"), reason="FAIRPCA_DATA is not set"),
    pytest.mark.slow,
]


def contents(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}


def command(folder):
    options = ["figure2", "figure1", "--quick", "--splits", "2", "--jobs", "2", "--out", folder]
    return [sys.executable, "-m", "reproduction", *map(str, options)]


def finished(folder):
    """Cells in the cache, and when they were written."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("output.pkl")}


def test_an_interrupt_loses_nothing(tmp_path):
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": ROOT}
    subprocess.run(command(tmp_path / "straight"), check=True, **quiet)
    stopped = subprocess.Popen(command(tmp_path / "stopped"), **quiet)
    deadline = time.monotonic() + 300
    while not finished(tmp_path / "stopped") and time.monotonic() < deadline:
        time.sleep(0.1)
    stopped.send_signal(signal.SIGINT)
    assert stopped.wait(60) == 130
    done = finished(tmp_path / "stopped")
    assert 0 < len(done) < 5
    subprocess.run(command(tmp_path / "stopped"), check=True, **quiet)
    assert done.items() <= finished(tmp_path / "stopped").items()
    assert contents(tmp_path / "straight") == contents(tmp_path / "stopped")


def test_nhanes_as_it_was_run(tmp_path):
    run(["table2"], tmp_path, quick=True)
    shares = cluster_shares(tmp_path / "table2.csv")
    for method in ("pca", "mean", "both"):
        ours = [np.mean(shares["run_weaker", method, rank]) for rank in (1, 2, 3)]
        np.testing.assert_allclose(ours, printed_clusters()[method], atol=2.0)
