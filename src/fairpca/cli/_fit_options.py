"""The options of ``fairpca fit``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from fairpca.cli._options import Number, Separator
from fairpca.solvers import SOLVERS

_FILE = click.Path(path_type=Path)

_OPTIONS = (
    click.option(
        "-s",
        "--sensitive",
        metavar="COL",
        multiple=True,
        help="Protected column. Repeat for several.",
    ),
    click.option(
        "-d",
        "--components",
        metavar="N",
        type=click.IntRange(min=1),
        default=2,
        show_default=True,
        help="Components to keep.",
    ),
    click.option(
        "--features",
        metavar="COL,…",
        multiple=True,
        help="Feature columns. Default: all that have no other part.",
    ),
    click.option(
        "--drop", metavar="COL,…", multiple=True, help="Columns to leave out of the features."
    ),
    click.option(
        "--target",
        metavar="COL",
        multiple=True,
        help="Column to predict later: no feature, copied to --out.",
    ),
    click.option(
        "--control",
        metavar="COL",
        multiple=True,
        help="Compare groups only within the strata of this column.",
    ),
    click.option(
        "--numeric",
        metavar="COL",
        multiple=True,
        help="Protected column that is a number, not a group.",
    ),
    click.option("--weight", metavar="COL", help="Column of row weights."),
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
    click.option("--force", is_flag=True, help="Replace --out if it exists."),
    click.option(
        "--separator",
        metavar="C",
        type=Separator(),
        default=",",
        show_default=True,
        help="Between the fields of a CSV file.",
    ),
    click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON document instead of tables."
    ),
    click.option(
        "-q", "--quiet", is_flag=True, help="No tables and no progress; notes and errors only."
    ),
)


def fit_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function with all options, in the order in which the help shows them."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
