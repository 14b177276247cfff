"""``fairpca reproduce``: the tables and figures of the paper, computed anew."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from fairpca.experiments import NAMES

_EXAMPLES = """\b
Examples:
  fairpca reproduce all --splits 5 --out results --jobs 2
  fairpca reproduce table1 table2 --quick
  fairpca reproduce search
"""


@contextmanager
def _cells(enabled: bool) -> Iterator[Callable[[int, int, str], None]]:
    """Show which cells run and how many are done: a bar on a terminal, else a line for each."""
    told: set[str] = set()

    def tell(done: int, total: int, label: str) -> None:
        for name in label.split(", ") if enabled and label else ():
            if name not in told:
                click.echo(f"[{done}/{total} done] {name}", err=True)
                told.add(name)

    if not (enabled and sys.stderr.isatty()):
        yield tell
        return
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(
        *columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True
    ) as bar:
        task = bar.add_task("starting", total=None)
        yield lambda done, total, label: bar.update(
            task, completed=done, total=total, description=label or "writing"
        )


@click.command(epilog=_EXAMPLES)
@click.argument("names", nargs=-1, required=True, type=click.Choice((*NAMES, "all")))
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

    "search" looks for the protected labels that the paper evidently used.

    Finished cells are kept: a run that was stopped continues where it was. The data are looked
    for in the folder FAIRPCA_DATA; "fairpca datasets" lists what is present.
    """
    # Here, so that --help and the other commands do not wait for it.
    from fairpca.experiments import Options, run
    from fairpca.report import draw_figures, write_report

    options = Options(splits=splits or (1 if quick else 5), quick=quick)
    try:
        with _cells(enabled=not quiet) as progress:
            files = run(names, options, out, jobs=jobs, progress=progress)
    except KeyboardInterrupt:
        click.echo(f"fairpca: stopped; the same command goes on from the cells in {out}.", err=True)
        raise
    files += draw_figures(out)
    files.append(write_report(out, report or out / "reproduction.md"))
    for path in files:
        click.echo(str(path))
