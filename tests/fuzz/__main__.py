"""All campaigns: ``python tests/fuzz --tries 10000`` prints tries and failures by class."""

import argparse
import importlib
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

# The share of the tries: more where they are cheap. One of a solver takes half a second, one of
# metrics a quarter, of files and tables a hundredth; all together about 25 minutes on one core.
SHARES = {
    "estimators": 0.14,
    "solvers": 0.06,
    "worst": 0.05,
    "metrics": 0.09,
    "equivalences": 0.22,
    "inputs": 0.05,
    "processes": 0.03,
    "honesty": 0.02,
    "kernels": 0.05,
    "files": 0.14,
    "tables": 0.09,
    "cli": 0.05,
    "threads": 0.006,
    "faults": 0.004,
}
PIECE, WHOLE = 50, ("honesty",)  # a share of promises kept is that of all tries


def attempt_many(name, tries, seed):
    """Failures of some tries, and their seconds of processor time with those of children."""
    module, start = importlib.import_module(f"test_fuzz_{name}"), sum(os.times()[:4])
    return module.run(tries, seed), sum(os.times()[:4]) - start


def pieces(tries, seed):
    """Work for the processes: campaign, number of tries and a seed for each piece."""
    for name, share in SHARES.items():
        left, number = round(tries * share), 0
        piece = left if name in WHOLE else PIECE
        while left > 0:
            yield name, min(left, piece), seed * 100_000 + number
            left, number = left - piece, number + 1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    work = list(pieces(options.tries, options.seed))
    counts, seconds = dict.fromkeys(SHARES, 0), dict.fromkeys(SHARES, 0.0)
    failures = {}
    with ProcessPoolExecutor(options.processes) as pool:
        results = pool.map(attempt_many, *zip(*work, strict=True))
        for (name, tries, seed), (found, spent) in zip(work, results, strict=True):
            counts[name] += tries
            seconds[name] += spent
            for kind, numbers in found.items():
                failures.setdefault((name, kind), []).extend((seed, number) for number in numbers)
                print(f"{name}, seed {seed}: {kind}: {numbers}", file=sys.stderr, flush=True)
            done = sum(counts.values())
            if done % 500 < tries:
                print(f"{done} of {options.tries} tries", file=sys.stderr, flush=True)
    print(f"seed {options.seed}")
    for name, count in counts.items():
        bad = sum(len(found) for (owner, _), found in failures.items() if owner == name)
        print(f"{name:<12}{count:>8} tries {bad:>6} failures {seconds[name]:>8.0f} s")
    for (name, kind), found in sorted(failures.items()):
        print(f"{name}: {kind}: {len(found)}, such as (seed, number) {found[0]}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    sys.exit(main())
