"""The options of ``fairpca fit``."""

from __future__ import annotations

from pathlib import Path

import click

from fairpca.cli import _shared_options as shared
from fairpca.cli._engine_options import ENGINE_OPTIONS
from fairpca.cli._options import Number
from fairpca.solvers import SOLVERS

_FILE = click.Path(path_type=Path)

FIT_OPTIONS: tuple[shared.Decorator, ...] = (
    shared.SENSITIVE,
    click.option(
        "-d",
        "--components",
        metavar="N",
        type=click.IntRange(min=1),
        default=2,
        show_default=True,
        help="Components to keep.",
    ),
    shared.FEATURES,
    shared.DROP,
    click.option(
        "--target",
        metavar="COL",
        multiple=True,
        help="Column to predict later: no feature, copied to --out.",
    ),
    shared.CONTROL,
    click.option(
        "--numeric",
        metavar="COL",
        multiple=True,
        help="Protected column that is a number, not a group.",
    ),
    shared.WEIGHT,
    click.option(
        "--mean-tol",
        metavar="X",
        type=Number(optional=True),
        default=0.0,
        show_default=True,
        help="Largest distance between group means; none: any.",
    ),
    click.option(
        "--cov-weight",
        metavar="X",
        type=Number(),
        help="Variance to give up per unit of covariance gap; 0: equal means only. Default: 1, "
        "or none with --cov-tol.",
    ),
    click.option(
        "--cov-tol",
        metavar="X",
        type=Number(),
        help="Largest covariance gap, instead of a price on it.",
    ),
    click.option(
        "--compare",
        "comparison",
        type=click.Choice(["one-vs-rest", "pairs", "reference"]),
        help="What faces what among three or more groups. Default: one-vs-rest.",
    ),
    click.option(
        "--reference",
        metavar="[COL=]LEVEL",
        multiple=True,
        help="Reference group; implies --compare reference.",
    ),
    click.option(
        "--joint", is_flag=True, help="Compare the intersections of several attributes as well."
    ),
    click.option(
        "--min-group-size",
        metavar="N",
        type=click.IntRange(min=2),
        default=2,
        show_default=True,
        help="Rows a group needs for its covariance.",
    ),
    click.option(
        "--solver",
        type=click.Choice(SOLVERS),
        default="refined",
        show_default=True,
        help="How the basis is found.",
    ),
    click.option(
        "--no-standardize",
        is_flag=True,
        help="Keep the units of the features; they are centred only.",
    ),
    click.option(
        "--no-certify", is_flag=True, help="Do not compute the bound: faster for many features."
    ),
    click.option(
        "--tol",
        metavar="X",
        type=Number(positive=True),
        default=1e-4,
        show_default=True,
        help="Relative duality gap to solve relaxations to.",
    ),
    click.option(
        "--max-iter",
        metavar="N",
        type=click.IntRange(min=1),
        default=5000,
        show_default=True,
        help="Limit on their iterations.",
    ),
    click.option(
        "-o",
        "--out",
        metavar="FILE",
        type=_FILE,
        help="Write the reduced rows to a .csv, .csv.gz or .parquet file.",
    ),
    click.option("--keep", metavar="COL", multiple=True, help="Column to copy to --out."),
    click.option(
        "--save",
        metavar="MODEL",
        type=_FILE,
        help="Write the fitted model to an .npz file, for fairpca transform.",
    ),
    click.option("--force", is_flag=True, help="Replace --out and --save if they exist."),
    *ENGINE_OPTIONS,
    shared.SEPARATOR,
    shared.AS_JSON,
    shared.QUIET,
)
