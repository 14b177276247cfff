"""Command line: ``python -m reproduction all --splits 5 --out results``."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from reproduction.datasets import describe, find_file, registry
from reproduction.figures import draw_figures
from reproduction.page import write_page
from reproduction.run import EXPERIMENTS, run


def main(arguments: list[str] | None = None) -> int:
    """Compute, draw and write what the arguments say; return the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.data is not None:
        print(_list_data() if options.data == "all" else describe(options.data))
        return 0
    if not options.names or not {*options.names} <= {*EXPERIMENTS, "all"}:
        parser.error(f"name what to compute: {', '.join(EXPERIMENTS)} or all.")
    out: Path = options.out
    try:
        files = run(
            list(EXPERIMENTS) if "all" in options.names else options.names,
            out,
            splits=options.splits or (1 if options.quick else 5),
            quick=options.quick,
            jobs=options.jobs,
            verbose=0 if options.quiet else 10,
        )
    except FileNotFoundError as error:
        print(f"reproduction: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"reproduction: stopped; run it again to continue from {out}.", file=sys.stderr)
        return 130
    files += draw_figures(out)
    files += write_page(out, options.report or out / "reproduction.md")
    print("\n".join(str(path) for path in files))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m reproduction",
        description="Compute tables and figures of the paper next to its printed values. The data "
        "are in the folder FAIRPCA_DATA. Finished cells are kept: a run that was stopped continues "
        'where it was. "search" looks for the protected labels that the paper evidently used, '
        '"definitions" for what the columns of its table 4 are.',
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(EXPERIMENTS)} or all")
    parser.add_argument("--splits", type=_at_least_one, help="default: 5, or 1 with --quick")
    parser.add_argument(
        "--out", type=Path, default=Path("build/reproduction"), help="folder for all results"
    )
    parser.add_argument("--report", type=Path, help="page; default: reproduction.md in --out")
    parser.add_argument("--jobs", type=_at_least_one, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--quick", action="store_true", help="a few minutes: less of everything")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.add_argument(
        "--data", nargs="?", const="all", choices=["all", *registry()], metavar="SET",
        help="list the data sets and whether their files are there, or describe one",
    )  # fmt: skip
    return parser


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def _list_data() -> str:
    lines = []
    for name, entry in registry().items():
        missing = f"missing: put it at $FAIRPCA_DATA/{entry['file']}"
        lines.append(
            f"{name:20}{entry['rows']:>6} rows  {'present' if find_file(name) else missing}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
