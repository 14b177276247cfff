"""Deliberate faults: ``python tests/mutants`` applies each of `faults.toml` and reports survivors.

Every fault is applied to a copy of `src`, never to the working tree, and the tests that it names
must fail there. Words after the command choose faults by a part of their names. A fault whose
line or test is no longer there is stale: it is listed at the end, and the command fails.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SECONDS = 180  # a fault that makes the tests hang is found, too
NEEDED = 0.95
PROCESSES = 2


@dataclass(frozen=True)
class Fault:
    """One small change of the source, and the tests that should miss what it takes away."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def apply(self, source):
        """Write the fault into a copy of the source."""
        path = source / "fairpca" / self.file
        path.write_text(path.read_text().replace(self.old, self.new))

    def stale(self, source=ROOT / "src"):
        """Why the fault no longer fits the source or the tests; empty where it does."""
        path = source / "fairpca" / self.file
        if not path.exists():
            return "no such file"
        text = path.read_text()
        if (count := text.count(self.old)) != 1:
            return f"the quoted lines occur {count} times"
        try:
            compile(text.replace(self.old, self.new), self.file, "exec")
        except SyntaxError:
            return "the changed file does not compile"
        for test in self.tests:
            file, _, name = test.partition("::")
            if not Path(ROOT, file).exists() or f"def {name}" not in Path(ROOT, file).read_text():
                return f"no such test: {test}"
        return ""


def read_faults():
    """The list; tests are named once for each package."""
    faults = []
    for package in tomllib.loads((HERE / "faults.toml").read_text())["package"]:
        for fault in package["fault"]:
            tests = tuple(fault.pop("tests", package["tests"]))
            faults.append(Fault(tests=tests, **fault))
    return faults


def run_tests(tests, seconds, fault=None):
    """Exit code of pytest on a copy of the source; None where it takes too long."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "src")
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        if fault is not None:
            fault.apply(source)
        environment = os.environ | {"PYTHONPATH": str(source), "CI": "1"}
        environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
        options = {"cwd": ROOT, "env": environment, "capture_output": True, "timeout": seconds}
        try:
            return subprocess.run(command, **options, check=False).returncode
        except subprocess.TimeoutExpired:
            return None


def try_fault(fault):
    """Return "killed", "hung", "SURVIVED" or what is wrong with the list, and its seconds."""
    start = time.monotonic()
    code = run_tests(fault.tests, SECONDS, fault)
    said = {0: "SURVIVED", 1: "killed", 2: "killed", None: "hung"}.get(code, "NO SUCH TEST")
    return said, time.monotonic() - start


def main(words):
    """Try all faults, or those whose names contain one of the words."""
    chosen = [f for f in read_faults() if not words or any(word in f.name for word in words)]
    stale = {fault: fault.stale() for fault in chosen}
    faults = [fault for fault in chosen if not stale[fault]]
    tests = sorted({test for fault in faults for test in fault.tests})
    if run_tests(tests, 10 * SECONDS) != 0:
        print("these tests fail without any fault: " + " ".join(tests))
        return 1
    killed = 0
    with ThreadPoolExecutor(PROCESSES) as pool:
        for fault, (said, seconds) in zip(faults, pool.map(try_fault, faults), strict=True):
            killed += said in ("killed", "hung")
            print(f"{said:<12} {seconds:5.0f} s  {fault.file}: {fault.name}", flush=True)
    print(f"{killed} of {len(faults)} faults killed")
    for fault in chosen:
        if stale[fault]:
            print(f"stale        {fault.file}: {fault.name} ({stale[fault]})")
    return 0 if killed >= NEEDED * len(faults) and len(faults) == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
