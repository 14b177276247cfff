"""Which quick tests enter a line of the source, and what they say of a fault in it."""

import hashlib
import importlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from difflib import SequenceMatcher
from functools import cache, cached_property
from itertools import groupby
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTS = (3.0, 30.0, float("inf"))  # seconds of tests, after which a new process starts
# Imported once, before processes are forked: all that tests need and that holds no fault.
SHARED = (
    "scipy.stats", "scipy.optimize", "scipy.sparse.linalg", "sklearn.utils.estimator_checks",
    "sklearn.ensemble", "sklearn.linear_model", "sklearn.decomposition", "sklearn.svm",
    "pandas", "pyarrow.dataset", "narwhals", "click", "threadpoolctl", "hypothesis", "cvxpy",
)  # fmt: skip
_ALONE = 0.3  # seconds of processor time; shorter tests start no process and wait for nothing
OPTIONS = ("-q", "-p", "no:cacheprovider")


def _coverage(path):
    from coverage import CoverageData  # this file is collected where it is not installed

    data = CoverageData(str(path))
    data.read()
    return data


class Suite:
    """Quick tests with their seconds, and the lines of the source that each enters."""

    def __init__(self, folder, measured):
        self.seconds = {name: s for file in measured.values() for name, s in file["tests"].items()}
        self._measures = [
            (folder / source, {file for file, one in measured.items() if one["source"] == source})
            for source in sorted({one["source"] for one in measured.values()})
        ]
        for name in SHARED:
            importlib.import_module(name)

    @cached_property
    def _data(self):  # of each process its own: it holds connections to SQLite
        return {source: _coverage(source / "coverage") for source, _ in self._measures}

    def tests(self, fault):
        """Tests that enter the lines of a fault: the shortest first, others' after its own."""
        names = set()
        for source, files in self._measures:
            for file, line in fault.used:
                now, then = (place / "src" / "fairpca" / file for place in (ROOT, source))
                lines = self._data[source].contexts_by_lineno(str(now))
                for number in lines_then(now, then, line):
                    entered = {name.rpartition("|")[0] for name in lines.get(number, ())}
                    names |= {name for name in entered if name.split("::")[0] in files}
        own = (f"tests/{fault.file.split('/')[0]}/", "tests/oracle/", "tests/property/")
        cost = {name: s * (1 if name.startswith(own) else 3) for name, s in self.seconds.items()}
        return sorted(names & cost.keys(), key=lambda name: cost[name])

    def try_fault(self, fault, limit):
        """Return what became of a fault, how many tests ran, and the one that failed."""
        tests, done, spent = self.tests(fault), 0, 0.0
        verdict, failed = "NOT ENTERED", ""
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "src")
            shutil.copytree(ROOT / "src", source)  # with what is compiled, but of the changed file
            fault.apply(source / "fairpca")
            for seconds in PARTS:
                part, total = self._part(tests[done:], min(seconds, limit - spent))
                done, spent = done + len(part), spent + total
                while part:
                    verdict, failed = run_tests(source, part, total)
                    if failed == "exit 4":  # nothing could be imported: with a fault only
                        assert run_tests(ROOT / "src", part, total)[0] == "SURVIVED", part
                    if not self._is_by_chance(source, failed):
                        break
                    part = part[part.index(failed) + 1 :]  # go on behind it
                    verdict = "SURVIVED"
                if verdict not in ("SURVIVED", "NOT ENTERED"):
                    break
        return verdict, f"{done} of {len(tests)} tests", failed

    def _is_by_chance(self, source, failed):
        """Whether a test that failed passes the second time: one that waits for processes may."""
        seconds = self.seconds.get(failed, 0.0)
        return seconds > _ALONE and run_tests(source, [failed], seconds)[0] == "SURVIVED"

    def _part(self, tests, seconds):
        """The first tests, which take about so many seconds together."""
        part, total = [], 0.0
        while len(part) < len(tests) and total < seconds:
            part.append(tests[len(part)])
            total += self.seconds[part[-1]]
        return part, total


class _FirstFailure:
    """Write the name of the test that failed."""

    def __init__(self, file):
        self.file = file

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.file.write_text(report.nodeid)


def run_tests(source, tests, seconds):
    """Run tests on a source in a process of its own; return the verdict and what failed."""
    with tempfile.TemporaryDirectory() as folder:
        failed, listed = Path(folder, "failed"), Path(folder, "tests")
        failed.touch()
        listed.write_text("\n".join(tests))
        child = os.fork()
        if child == 0:
            _be_tested(source, [f"@{listed}"], 60 + int(5.0 * seconds), _FirstFailure(failed))
        status, deadline = None, time.monotonic() + 600.0 + 30.0 * seconds
        while status is None and time.monotonic() < deadline:
            done, code = os.waitpid(child, os.WNOHANG)
            status = os.waitstatus_to_exitcode(code) if done else None
            time.sleep(0.02)
        if status is None:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
        if status is None or status == -signal.SIGXCPU:
            return "hung", ""
        assert status != pytest.ExitCode.INTERNAL_ERROR, "pytest itself failed"
        return "killed" if status else "SURVIVED", failed.read_text() or f"exit {status}"


def _be_tested(source, arguments, seconds, plugin):
    """Become a run of pytest on another source, with a limit on processor time."""
    os.setsid()
    os.chdir(ROOT)
    # Plugins that are installed take a second, and no test needs one.
    os.environ.update(_environment(source), PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    sys.path.insert(0, str(source))
    sys.argv = ["pytest"]
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 10))
    try:
        os._exit(int(pytest.main(["-x", *OPTIONS, *arguments], plugins=[plugin])))
    finally:
        os._exit(3)


def _environment(source):
    return {
        "PYTHONPATH": str(source), "CI": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"
    }  # fmt: skip


def measured_suite(processes, folders=("",)):
    """Run the quick tests with coverage: those of files that changed since they last ran.

    Where only the source changed, tests enter the lines that they entered before. Without the
    folder build/mutants, all of them run.
    """
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    tests = {str(file.relative_to(ROOT)): _digest([file]) for file in files}
    wanted = [f"tests/{folder}" for folder in folders]
    tests = {file: tests[file] for start in wanted for file in tests if file.startswith(start)}
    source = _digest(sorted((ROOT / "src").rglob("*.py")))
    folder = ROOT / "build" / "mutants"
    if not (folder / source).exists():
        shutil.copytree(ROOT / "src", folder / source / "src", ignore=lambda *_: ["__pycache__"])
    listed = folder / "measured.json"
    measured = json.loads(listed.read_text()) if listed.exists() else {}
    changed = [file for file in tests if measured.get(file, {}).get("digest") != tests[file]]
    for _, files in groupby(changed, key=lambda file: file.split("/")[1]):  # what is done is kept
        for file, seconds in _measure(folder / source, list(files), processes).items():
            measured[file] = {"digest": tests[file], "source": source, "tests": seconds}
        listed.write_text(json.dumps(measured))
    return Suite(folder, {file: measured[file] for file in tests})


def lines_then(now, then, line):
    """Lines of an earlier file in place of one of today: its own, or those around the change."""
    for _, start, end, first, last in _changes(now, then):
        if start < line <= end:
            is_same = end - start == last - first
            return [first + line - start] if is_same else list(range(first, last + 2))
    return []


@cache
def _changes(now, then):
    texts = [path.read_text().splitlines() if path.exists() else [] for path in (now, then)]
    return SequenceMatcher(None, *texts, autojunk=False).get_opcodes()


def _measure(folder, files, processes):
    """Run test files with coverage; return the seconds of each test by file."""
    command = [
        sys.executable, "-m", "pytest", *OPTIONS, "-p", "processor_time",
        # With --dist and no process but this one, coverage forgets which test it is in.
        *(("-n", str(processes), "--dist", "worksteal") if processes > 1 else ("-n", "0")),
        "--cov=fairpca", "--cov-append", "--cov-context=test", "--cov-report=",
        f"--junitxml={folder}/tests.xml", *files,
    ]  # fmt: skip
    environment = os.environ | _environment(ROOT / "src")
    environment["PYTHONPATH"] += f"{os.pathsep}{Path(__file__).parent}"
    environment["COVERAGE_FILE"] = str(folder / "coverage")
    if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode not in (0, 5):
        sys.exit("the quick suite fails without any fault")
    seconds = {file: {} for file in files}
    for case in ElementTree.parse(folder / "tests.xml").iter("testcase"):
        file, name = node_name(case.attrib["classname"], case.attrib["name"])
        if file in seconds:
            noted = {one.get("name"): one.get("value") for one in case.iter("property")}
            seconds[file][name] = float(noted.get("processor_time", 0.0))  # 0: skipped
    known = {name for tests in seconds.values() for name in tests}
    data = _coverage(environment["COVERAGE_FILE"])
    entered = {name.rpartition("|")[0] for name in data.measured_contexts()}
    if entered == {""}:
        sys.exit("coverage does not say which test enters a line")
    if lacking := {name for name in entered if name.split("::")[0] in seconds} - known:
        print(f"{len(lacking)} tests have another name in the report: {sorted(lacking)[:3]}")
    return seconds


def node_name(place, test):
    """Return the file and the name of a test by what JUnit writes: folders, file and classes."""
    words = place.split(".")
    last = next((k for k, word in enumerate(words) if word.startswith("test_")), len(words) - 1)
    file = "/".join(words[: last + 1]) + ".py"
    return file, "::".join([file, *words[last + 1 :], test])


def _digest(files):
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
