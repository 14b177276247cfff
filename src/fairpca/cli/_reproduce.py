"""``fairpca reproduce``: the tables and figures of the paper, computed anew."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

NAMES = ("table1", "table2", "table3", "table4", "table5", "figure1", "figure2", "figure3", "all")
_EXAMPLES = """\b
Examples:
  fairpca reproduce all --splits 5 --out results --jobs 2
  fairpca reproduce table1 table2 --quick
"""


class Cells:
    """Shows which cells run and how many are done: a bar on a terminal, else a line for each."""

    def __init__(self, enabled: bool) -> None:
        self._bar: Progress | None = None
        self._enabled = enabled
        self._told: set[str] = set()
        if enabled and sys.stderr.isatty():
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._bar.add_task("starting", total=None)

    def __enter__(self) -> Cells:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, running: Sequence[Any], done: int, total: int) -> None:
        """Tell which cells are running and how many are done."""
        names = [cell.full_key for cell in running]
        if self._bar is not None:
            shown = ", ".join(names) or "writing"
            self._bar.update(self._task, completed=done, total=total, description=shown)
        elif self._enabled:
            for name in names:
                if name not in self._told:
                    click.echo(f"[{done}/{total} done] {name}", err=True)
            self._told.update(names)


@click.command(epilog=_EXAMPLES)
@click.argument("names", nargs=-1, required=True, type=click.Choice(NAMES))
@click.option("--splits", type=click.IntRange(min=1), help="Splits; 5, or 1 with --quick.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("reproduction"),
    show_default=True,
    help="Folder for tables, figures, manifest and finished cells.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=lambda: os.cpu_count() or 1,
    show_default="number of cores",
    help="Processes.",
)
@click.option("--quick", is_flag=True, help="A few minutes; coarser numbers.")
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the page with measured beside printed here [default: reproduction.md in --out].",
)
@click.option("--quiet", is_flag=True, help="No progress.")
def reproduce(
    names: tuple[str, ...],
    splits: int | None,
    out: Path,
    jobs: int,
    quick: bool,
    report: Path | None,
    quiet: bool,
) -> None:
    """Compute tables and figures of the paper beside its printed values.

    Finished cells are kept: a run that was stopped continues where it was. The data are looked
    for in the folder FAIRPCA_DATA; "fairpca datasets" lists what is present.
    """
    # Here, so that --help and the other commands do not wait for it.
    from fairpca.experiments import Options, run, write_report

    options = Options(splits=splits or (1 if quick else 5), quick=quick)
    try:
        with Cells(enabled=not quiet) as progress:
            files = run(names, options, out, jobs=jobs, progress=progress)
    except KeyboardInterrupt:
        click.echo(f"fairpca: stopped; the same command goes on from the cells in {out}.", err=True)
        raise
    files.append(write_report(out, report or out / "reproduction.md"))
    for path in files:
        click.echo(str(path))
