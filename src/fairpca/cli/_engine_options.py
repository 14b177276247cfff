"""The options of ``fairpca fit`` for tables that are not held in memory."""

from __future__ import annotations

from pathlib import Path

import click

from fairpca.cli import _shared_options as shared

ENGINE_OPTIONS: tuple[shared.Decorator, ...] = (
    click.option(
        "--engine",
        type=click.Choice(["local", "dask", "spark"]),
        help="Sum the rows in one pass without holding them: in this process, by Dask or by "
        "Spark. Default for one file: read it into memory; for several: local.",
    ),
    click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Dask scheduler, such as tcp://head:8786. Default: threads of this process.",
    ),
    click.option(
        "--master", metavar="URL", help="Spark master, such as spark://head:7077. Default: local."
    ),
    click.option(
        "--categorical",
        metavar="COL,…",
        multiple=True,
        help="Features to be one-hot encoded (with --engine or several files).",
    ),
    click.option(
        "--missing",
        type=click.Choice(["error", "drop-rows"]),
        default="error",
        show_default=True,
        help="Rows with missing values (drop-rows: with --engine or several files).",
    ),
    click.option(
        "--max-cells",
        metavar="N",
        type=click.IntRange(min=1),
        default=1000,
        show_default=True,
        help="Largest number of combinations of groups in a pass.",
    ),
    click.option(
        "--checkpoint",
        metavar="DIR",
        type=click.Path(path_type=Path),
        help="Keep the sums so far, so that an interrupted pass over Parquet goes on.",
    ),
)
