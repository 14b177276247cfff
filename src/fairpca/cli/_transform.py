"""``fairpca transform``: a saved model and Parquet rows in, component columns out."""

from __future__ import annotations

from pathlib import Path

import click

from fairpca.cli import _shared_options as shared
from fairpca.cli._engine import load_distributed, show_bar

_EXAMPLES = """\b
Examples:
  fairpca fit table/ --sensitive sex --engine local --save model.npz
  fairpca transform model.npz table/ reduced/ --keep id
  fairpca transform model.npz new.parquet reduced.parquet
"""


@click.command(epilog=_EXAMPLES)
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("source", metavar="IN")
@click.argument("target", metavar="OUT")
@click.option("--keep", metavar="COL", multiple=True, help="Column to copy. Repeat for several.")
@click.option("--keep-all", is_flag=True, help="Copy all columns.")
@click.option("--force", is_flag=True, help="Replace OUT if it exists.")
@shared.QUIET
def transform(
    model: Path,
    source: str,
    target: str,
    keep: tuple[str, ...],
    keep_all: bool,
    force: bool,
    quiet: bool,
) -> None:
    """Project the rows of IN (Parquet) on the components of MODEL and write them to OUT.

    MODEL is a file written by fairpca fit --save. The protected columns are not needed. IN is
    read and OUT written a batch at a time, so their size does not matter; a directory becomes a
    directory with the same files. OUT appears complete or not at all.
    """
    if keep and keep_all:
        raise click.UsageError("--keep and --keep-all exclude each other: give one of them.")
    if not model.is_file():
        raise click.ClickException(f"{model}: no such file.")
    rows = load_distributed().transform_parquet(
        model,
        source,
        target,
        keep="*" if keep_all else keep,
        overwrite=force,
        progress=show_bar(quiet),
    )
    if not quiet:
        click.echo(f"{rows} rows written to {target}")
