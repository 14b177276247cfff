"""Every option once, the commands that have it, and types of values stricter than click's own."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from fairpca._choices import COMPARE, ENGINES, FAMILIES, MAX_CELLS, MAX_LEVELS, MISSING, SOLVERS

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class Number(click.ParamType):
    """A finite number between limits, or the word ``none`` where that has a meaning."""

    name = "number"

    def __init__(
        self, accepted: str, inside: Callable[[float], bool], *, optional: bool = False
    ) -> None:
        self.accepted = accepted + (", or none" if optional else "")
        self.inside, self.optional = inside, optional

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | None:
        """Read one value or fail with a message that says what is accepted."""
        if self.optional and str(value).lower() == "none":
            return None
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        # click's FloatRange lets nan and inf through.
        if not math.isfinite(number) or not self.inside(number):
            self.fail(f"{value!r} is not {self.accepted}.", param, ctx)
        return number


class Separator(click.ParamType):
    """One character of one byte, or the word ``tab``."""

    name = "separator"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Read one value or fail with a message that says what is accepted."""
        text = {"tab": "\t", "\\t": "\t"}.get(str(value), str(value))
        if len(text) != 1 or not text.isascii() or text in '\r\n"\0':
            self.fail(f"{value!r} is not one ASCII character, such as ';', or tab.", param, ctx)
        return text


_NOT_NEGATIVE = Number("a number, 0 or larger", lambda number: number >= 0)
_NOT_NEGATIVE_OR_NONE = Number(_NOT_NEGATIVE.accepted, _NOT_NEGATIVE.inside, optional=True)
_POSITIVE = Number("a number larger than 0", lambda number: number > 0)
_SHARE = Number("a number between 0 and 1", lambda number: 0 < number < 1)
_COUNT = click.IntRange(min=0)
_FILE = click.Path(path_type=Path)


def _columns(*names: str, help: str, one: bool = False) -> Decorator:
    """Return an option that names columns, several with commas or by repeating it."""
    return click.option(*names, metavar="COL" if one else "COL,…", multiple=not one, help=help)


def _valued(*names: str, metavar: str = "N", **about: Any) -> Decorator:
    """Return an option whose help shows its default."""
    return click.option(*names, metavar=metavar, show_default="default" in about, **about)


def _flag(*names: str, help: str) -> Decorator:
    return click.option(*names, is_flag=True, help=help)


def _choice(name: str, *names: str, among: Sequence[str], **about: Any) -> Decorator:
    return click.option(name, *names, type=click.Choice(list(among)), **about)


_SENSITIVE = _columns("-s", "--sensitive", help="Protected columns.")
_FEATURES = (
    _columns("--features", help="Feature columns. Default: all that have no other part."),
    _columns("--drop", help="Columns to leave out of the features."),
)
_GROUPS = (
    _columns("--control", help="Compare groups only within the strata of these columns."),
    _columns("--weight", help="Column of row weights.", one=True),
)
_ROWS = (
    _columns("--categorical", help="Features to be one-hot encoded; text always is."),
    _choice(
        "--missing",
        among=MISSING,
        default=MISSING[0],
        show_default=True,
        help="What happens to rows with missing values.",
    ),
    _valued(
        "--max-cells",
        type=click.IntRange(min=1),
        default=MAX_CELLS,
        help="Largest number of combinations of groups.",
    ),
    _valued(
        "--max-levels",
        type=click.IntRange(min=1),
        default=MAX_LEVELS,
        help="Largest number of values of a categorical feature.",
    ),
)
_SEPARATOR = _valued(
    "--separator",
    metavar="C",
    type=Separator(),
    default=",",
    help="Between the fields of a CSV file.",
)
_QUIET = _flag("-q", "--quiet", help="No tables and no progress; notes and errors only.")
AS_JSON = _flag("--json", "as_json", help="Print one JSON document instead of tables.")
_SHOWN = (_SEPARATOR, AS_JSON, _QUIET)

_PROBLEM = (
    _columns("--numeric", help="Protected columns that are numbers, not groups."),
    _valued(
        "--mean-tol",
        metavar="X",
        type=_NOT_NEGATIVE_OR_NONE,
        default=0.0,
        help="Largest distance between group means; none: any.",
    ),
    _valued(
        "--cov-weight",
        metavar="X",
        type=_NOT_NEGATIVE,
        help="Variance to give up per unit of covariance gap; 0: equal means only. Default: 1, "
        "or none with --cov-tol.",
    ),
    _valued(
        "--cov-tol",
        metavar="X",
        type=_NOT_NEGATIVE,
        help="Largest covariance gap, instead of a price on it.",
    ),
    _choice(
        "--compare",
        among=COMPARE,
        help=f"What faces what among three or more groups. Default: {COMPARE[0]}.",
    ),
    click.option(
        "--reference",
        metavar="[COL=]LEVEL",
        multiple=True,
        help="Reference group; implies --compare reference.",
    ),
    _flag("--joint", help="Compare the intersections of several attributes as well."),
    _valued(
        "--min-group-size",
        type=click.IntRange(min=2),
        default=2,
        help="Rows a group needs for its covariance.",
    ),
    _choice(
        "--solver",
        among=SOLVERS,
        default=SOLVERS[0],
        show_default=True,
        help="How the basis is found.",
    ),
    _flag("--no-standardize", help="Keep the units of the features; they are centred only."),
    _flag("--no-certify", help="Do not compute the bound: faster for many features."),
    _valued(
        "--tol",
        metavar="X",
        type=_POSITIVE,
        default=1e-4,
        help="Relative duality gap to solve relaxations to.",
    ),
    _valued(
        "--max-iter",
        type=click.IntRange(min=1),
        default=5000,
        help="Limit on their iterations.",
    ),
)
_OUTPUT = (
    click.option(
        "-o",
        "--out",
        metavar="FILE",
        type=_FILE,
        help="Write the reduced rows to a .csv, .csv.gz or .parquet file.",
    ),
    _columns("--keep", help="Columns to copy to --out."),
    click.option(
        "--save",
        metavar="MODEL",
        type=_FILE,
        help="Write the fitted model to an .npz file, for fairpca transform.",
    ),
    _flag("--force", help="Replace --out and --save if they exist."),
)
_ENGINE = (
    _choice(
        "--engine",
        among=ENGINES,
        help="Who sums the rows: this process (default), Dask or Spark.",
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
        "--checkpoint",
        metavar="DIR",
        type=_FILE,
        help="Keep the sums so far, so that an interrupted pass over Parquet goes on.",
    ),
)

FIT = (
    _SENSITIVE,
    _valued(
        "-d",
        "--components",
        type=click.IntRange(min=1),
        default=2,
        help="Components to keep.",
    ),
    *_FEATURES,
    _columns("--target", help="Columns to predict later: no features, copied to --out."),
    *_GROUPS,
    *_PROBLEM,
    *_OUTPUT,
    *_ROWS,
    *_ENGINE,
    *_SHOWN,
)
AUDIT = (
    _SENSITIVE,
    *_FEATURES,
    *_GROUPS,
    _choice(
        "--family",
        "families",
        among=FAMILIES,
        multiple=True,
        help="Classifiers to try: half-spaces, Gaussian-kernel SVM, orthants. Default: all.",
    ),
    _valued(
        "--permutations",
        type=_COUNT,
        default=200,
        help="Permutations for the null of fast statistics; 0: none.",
    ),
    _valued(
        "--slow-permutations",
        type=_COUNT,
        default=20,
        help="The same for statistics that repeat a costly fit.",
    ),
    _flag("--no-cross-fit", help="No values on rows not trained on."),
    _valued("--confidence", metavar="X", type=_SHARE, default=0.95, help="Of the bounds."),
    _valued(
        "--max-samples",
        type=click.IntRange(min=10),
        default=1000,
        help="Rows that Gaussian-kernel SVMs are trained on at most.",
    ),
    _valued(
        "--seed",
        type=click.IntRange(0, 2**32 - 1),
        default=0,
        help="Of the permutations and splits.",
    ),
    _flag("--standardize", help="Give every column unit variance first."),
    *_ROWS,
    *_SHOWN,
)
TRANSFORM = (
    _columns("--keep", help="Columns to copy."),
    _flag("--keep-all", help="Copy all columns."),
    _flag("--force", help="Replace OUT if it exists."),
    _SEPARATOR,
    _QUIET,
)
REPRODUCE = (
    _valued("--splits", type=click.IntRange(min=1), help="Splits; 5, or 1 with --quick."),
    _valued(
        "--out",
        metavar="DIR",
        type=click.Path(file_okay=False, path_type=Path),
        default=Path("reproduction"),
        help="Folder for tables, figures, manifest and finished cells.",
    ),
    click.option(
        "--jobs",
        metavar="N",
        type=click.IntRange(min=1),
        default=lambda: os.cpu_count() or 1,
        show_default="number of cores",
        help="Processes.",
    ),
    _flag("--quick", help="A few minutes; coarser numbers."),
    click.option(
        "--report",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Write the page with measured beside printed here [default: reproduction.md in "
        "--out].",
    ),
    _QUIET,
)


def with_options(options: Sequence[Decorator]) -> Decorator:
    """Combine options into one decorator, in the order in which the help shows them."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate
