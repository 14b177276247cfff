"""Generated faults: ``python tests/mutants --count 200 --seed 1`` and which of them tests miss.

Sites are drawn at random from the source and changed one at a time in a copy of it. The quick
suite runs once with coverage; then only the tests that enter a changed line run, the shortest
first. Faults that change no answer are listed in `equivalent.toml`, each with a reason.
"""

import argparse
import multiprocessing
import random
import sys
import time
import tomllib
from functools import partial
from pathlib import Path

from faults import find_faults, wilson
from suite import ROOT, measured_suite, run_tests

PACKAGES = (
    "solvers", "moments", "rows", "metrics", "tables", "adversary", "estimators", "kernels",
    "linalg.py",
)  # fmt: skip
# Their tests need drivers of databases, ONNX or Spark, and are not among the quick ones.
WITH_EXTRAS = ("tables/_sql.py", "tables/spark.py", "estimators/_export.py")
NEEDED = 0.90


def equivalents():
    """Reasons by file, line and change."""
    listed = tomllib.loads(Path(__file__).with_name("equivalent.toml").read_text())["fault"]
    return {(one["file"], one["line"], one["change"]): one["reason"] for one in listed}


def main():
    """Draw faults, try them, and print the share that was killed with its interval."""
    parser = argparse.ArgumentParser(prog="python tests/mutants")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=600.0, help="of tests for one fault")
    parser.add_argument("--tests", nargs="*", default=[""], help="folders of tests; all if none")
    parser.add_argument("--packages", nargs="+", default=PACKAGES, help="where faults are drawn")
    options = parser.parse_args()
    found = find_faults(ROOT / "src" / "fairpca", options.packages)
    sites = sorted((fault for fault in found if fault.file not in WITH_EXTRAS), key=repr)
    chosen = random.Random(options.seed).sample(sites, min(options.count, len(sites)))
    print(f"{len(chosen)} of {len(sites)} faults, seed {options.seed}", flush=True)
    known = {(fault.file, fault.line, fault.change) for fault in sites}
    listed = {key for key in equivalents() if key[0].split("/")[0] in options.packages}
    for file, line, change in listed - known:
        print(f"equivalent.toml: {file} has no longer {change} in {line!r}", flush=True)
    suite = measured_suite(options.processes, options.tests)
    reasons, verdicts, failed = equivalents(), [], set()
    with multiprocessing.get_context("fork").Pool(options.processes) as pool:
        tried = pool.imap(partial(suite.try_fault, limit=options.seconds), chosen)
        for fault, (verdict, count, test) in zip(chosen, tried, strict=True):
            reason = reasons.get((fault.file, fault.line, fault.change))
            verdicts.append(
                "equivalent" if verdict in ("SURVIVED", "NOT ENTERED") and reason else verdict
            )
            failed |= {test} if "::" in test else set()
            where = f"{fault.file}:{fault.place[0]}"
            print(f"{verdicts[-1]:<12}{count:>18}  {where}  {fault.change}  {test}", flush=True)
    if failed and (said := run_tests(ROOT / "src", sorted(failed), 1e4))[0] != "SURVIVED":
        sys.exit(f"{said[1]} fails without any fault")
    counted = len(verdicts) - verdicts.count("equivalent")
    killed = sum(verdict in ("killed", "hung") for verdict in verdicts)
    low, high = wilson(killed, counted)
    print(f"{killed} of {counted} faults killed: {killed / counted:.1%} ({low:.1%} to {high:.1%}), "
          f"{len(verdicts) - counted} change no answer; seed {options.seed}")  # fmt: skip
    return 0 if killed >= NEEDED * counted else 1


if __name__ == "__main__":
    sys.exit(main())
