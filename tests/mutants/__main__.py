"""Generated faults: ``python tests/mutants --count 200 --seed 1`` and which of them tests miss.

Sites are drawn at random from the source and changed one at a time in a copy of it. The quick
suite runs once with coverage; then only the tests that enter a changed line run, the shortest
first. Faults that change no answer are listed in `equivalent.toml`, each with a reason.
"""

import argparse
import hashlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from coverage import CoverageData
from faults import Fault, find_faults, wilson

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACKAGES = ("solvers", "moments", "rows", "metrics", "tables", "adversary", "estimators")
PROCESSES = 2
NEEDED = 0.90
FIRST_SECONDS = 60  # of tests by the clock of the covered run; survivors get all tests


class Suite:
    """Which quick tests enter a line, and how long each takes."""

    def __init__(self, folder):
        self.data = CoverageData(str(folder / "coverage"))
        self.data.read()
        cases = ElementTree.parse(folder / "tests.xml").iter("testcase")
        self.seconds = {_key(case.attrib): float(case.attrib["time"]) for case in cases}

    def tests(self, fault: Fault):
        """Tests that enter the lines of a fault, the shortest first."""
        names = set()
        for file, line in fault.used:
            lines = self.data.contexts_by_lineno(str(ROOT / "src" / "fairpca" / file))
            names |= {name.split("|")[0] for name in lines.get(line, ())}
        return sorted(filter(None, names), key=lambda name: self.seconds.get(_plain(name), 1.0))

    def quick_part(self, tests):
        """The first tests that take about a minute together."""
        total, part = 0.0, []
        for test in tests:
            total += self.seconds.get(_plain(test), 1.0)
            if part and total > FIRST_SECONDS:
                break
            part.append(test)
        return part


def _key(case):
    return f"{case['classname']}::{case['name']}"


def _plain(test):
    file, _, name = test.partition("::")
    return f"{file.removesuffix('.py').replace('/', '.')}::{name}"


def measured_suite():
    """Run the quick suite with coverage, unless nothing has changed since it last ran."""
    files = [file for part in ("src", "tests") for file in sorted((ROOT / part).rglob("*.py"))]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
    folder = ROOT / "build" / "mutants" / digest
    if not (folder / "tests.xml").exists():
        folder.mkdir(parents=True, exist_ok=True)
        environment = _environment(ROOT / "src") | {"COVERAGE_FILE": str(folder / "coverage")}
        command = [
            sys.executable, "-m", "pytest", "-q", "-n", str(PROCESSES), "--dist", "worksteal",
            "--cov=fairpca", "--cov-context=test", "--cov-report=", f"--junitxml={folder}/part.xml",
        ]  # fmt: skip
        if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:
            sys.exit("the quick suite fails without any fault")
        (folder / "part.xml").rename(folder / "tests.xml")
    return Suite(folder)


def _environment(source):
    return os.environ | {
        "PYTHONPATH": str(source), "CI": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"
    }  # fmt: skip


def run_tests(fault, tests, seconds):
    """Tell whether tests fail on a copy of the source with the fault, or hang."""
    with tempfile.TemporaryDirectory() as folder:
        source, listed = Path(folder, "src"), Path(folder, "tests.txt")
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        fault.apply(source / "fairpca")
        listed.write_text("\n".join(tests))
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        options = {"cwd": ROOT, "env": _environment(source), "capture_output": True}
        try:
            run = subprocess.run([*command, f"@{listed}"], **options, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            return "hung"
    return {0: "SURVIVED", 1: "killed", 2: "killed"}.get(run.returncode, f"exit {run.returncode}")


def try_fault(suite, fault):
    """Return what became of a fault, by how many tests, and its seconds."""
    start, tests = time.monotonic(), suite.tests(fault)
    if not tests:
        return "NOT ENTERED", 0, 0.0
    for part in (suite.quick_part(tests), tests):
        known = sum(suite.seconds.get(_plain(test), 1.0) for test in part)
        said = run_tests(fault, part, 120.0 + 5.0 * known)
        if said != "SURVIVED" or len(part) == len(tests):
            break
    return said, len(tests), time.monotonic() - start


def main():
    """Draw faults, try them, and print the share that was killed with its interval."""
    parser = argparse.ArgumentParser(prog="python tests/mutants")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    source = ROOT / "src" / "fairpca"
    sites = sorted(find_faults(source, PACKAGES), key=repr)
    chosen = random.Random(options.seed).sample(sites, min(options.count, len(sites)))
    equivalent = tomllib.loads((HERE / "equivalent.toml").read_text())["fault"]
    reasons = {(entry["file"], entry["change"]): entry["reason"] for entry in equivalent}
    print(f"{len(chosen)} of {len(sites)} faults, seed {options.seed}", flush=True)
    suite, said = measured_suite(), []
    with ThreadPoolExecutor(PROCESSES) as pool:
        tried = pool.map(lambda fault: try_fault(suite, fault), chosen)
        for fault, (verdict, tests, seconds) in zip(chosen, tried, strict=True):
            reason = reasons.get((fault.file, fault.change))
            said.append("equivalent" if verdict == "SURVIVED" and reason else verdict)
            where = f"{fault.file}:{fault.place[0]}"
            print(
                f"{said[-1]:<12}{seconds:5.0f} s {tests:5} tests  {where}  {fault.change}",
                flush=True,
            )
    counted = len(said) - said.count("equivalent")
    killed = sum(verdict in ("killed", "hung") for verdict in said)
    low, high = wilson(killed, counted)
    print(f"{killed} of {counted} faults killed: {killed / counted:.1%} ({low:.1%} to {high:.1%}), "
          f"{len(said) - counted} change no answer; seed {options.seed}")  # fmt: skip
    return 0 if killed >= NEEDED * counted else 1


if __name__ == "__main__":
    sys.exit(main())
