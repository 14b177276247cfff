"""The command on real data, where it is: stopping half way, and NHANES as it was run."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from fairpca.experiments import Options, run
from fairpca.experiments._experiment import printed_clusters, read_csv

pytestmark = [
    pytest.mark.skipif(not os.environ.get("FAIRPCA_DATA"), reason="FAIRPCA_DATA is not set"),
    pytest.mark.slow,
]


def contents(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}


def command(folder):
    options = ["figure2", "figure1", "--quick", "--splits", "2", "--jobs", "2", "--out", folder]
    return [sys.executable, "-m", "fairpca.cli", "reproduce", *map(str, options)]


def test_an_interrupt_loses_nothing(tmp_path):
    subprocess.run(command(tmp_path / "straight"), check=True, capture_output=True)
    stopped = subprocess.Popen(
        command(tmp_path / "stopped"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    cells = tmp_path / "stopped" / "cells"
    deadline = time.monotonic() + 300
    while not (cells.is_dir() and any(cells.glob("*.json"))) and time.monotonic() < deadline:
        time.sleep(0.1)
    stopped.send_signal(signal.SIGINT)
    assert stopped.wait(60) == 130
    done = {path.name: path.stat().st_mtime_ns for path in cells.glob("*.json")}
    assert 0 < len(done) < 5
    subprocess.run(command(tmp_path / "stopped"), check=True, capture_output=True)
    for name, when in done.items():
        assert (cells / name).stat().st_mtime_ns == when
    assert contents(tmp_path / "straight") == contents(tmp_path / "stopped")


def test_nhanes_as_it_was_run(tmp_path):
    run(["table2"], Options(quick=True), tmp_path)
    shares = {}
    for row in read_csv(tmp_path / "table2.csv"):
        if row["description"] == "run_weaker" and row["measure"] == "share":
            key = (row["method"], int(row["cluster"]))
            shares.setdefault(key, []).append(float(row["value"]))
    for method in ("pca", "mean", "both"):
        found = [np.mean(shares[method, rank]) for rank in (1, 2, 3)]
        np.testing.assert_allclose(found, printed_clusters()[method], atol=2.0)
