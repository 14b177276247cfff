"""Every option once, and the commands that have it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from fairpca._choices import (
    ADVERSARIES,
    COMPARE,
    DELTA_FAMILIES,
    ENGINES,
    FAMILIES,
    GROUPLESS,
    MAX_CELLS,
    MAX_LEVELS,
    MISSING,
    OBJECTIVES,
    SOLVERS,
    UNKNOWN,
)
from fairpca.cli._kinds import Components, Number, Separator

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

_NOT_NEGATIVE = Number("a number, 0 or larger", lambda number: number >= 0)
_NOT_NEGATIVE_OR_NONE = Number(_NOT_NEGATIVE.accepted, _NOT_NEGATIVE.inside, optional=True)
_POSITIVE = Number("a number larger than 0", lambda number: number > 0)
_SHARE = Number("a number between 0 and 1", lambda number: 0 < number < 1)
_MOST = 10**9
_COUNT, _ONE_OR_MORE = click.IntRange(0, _MOST), click.IntRange(1, _MOST)


def _columns(*names: str, help: str, one: bool = False) -> Decorator:
    """Return an option that names columns, several with commas or by repeating it."""
    return click.option(*names, metavar="COL" if one else "COL,…", multiple=not one, help=help)


def _value(name: str, kind: click.ParamType, default: Any, help: str, **about: Any) -> Decorator:
    """Return an option with a number, whose help shows its default."""
    about = {"metavar": "N" if isinstance(kind, click.IntRange) else "X", **about}
    shown = default is not None
    return click.option(
        *name.split(), type=kind, default=default, show_default=shown, help=help, **about
    )


def _choice(name: str, among: Sequence[str], help: str, **about: Any) -> Decorator:
    """Return an option with one of several words."""
    shown = "default" in about
    return click.option(
        *name.split(), type=click.Choice(list(among)), show_default=shown, help=help, **about
    )


def _path(name: str, metavar: str, help: str, **about: Any) -> Decorator:
    about = {"type": click.Path(path_type=Path), **about}
    return click.option(*name.split(), metavar=metavar, help=help, **about)


def _flag(name: str, help: str) -> Decorator:
    return click.option(*name.split(), is_flag=True, help=help)


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
        MISSING,
        "Missing features: refuse them, leave the rows out, or count them as the mean of all rows.",
        default=MISSING[0],
    ),
    _choice(
        "--missing-groups",
        GROUPLESS,
        "Missing groups: refuse them, or make them a group of their own.",
        default=GROUPLESS[0],
    ),
    _value("--max-cells", _ONE_OR_MORE, MAX_CELLS, "Largest number of combinations of groups."),
    _value("--max-levels", _ONE_OR_MORE, MAX_LEVELS, "The same for values of a text feature."),
)
_SEPARATOR = _value(
    "--separator", Separator(), ",", "Between the fields of a CSV file.", metavar="C"
)
_SAFE_CSV = _flag("--safe-csv", "Put an apostrophe before text that spreadsheets would run.")
_QUIET = _flag("-q --quiet", "No tables and no progress; notes and errors only.")
AS_JSON = _flag("--json as_json", "Print one JSON document instead of tables.")
_NO_NOTES = _flag("--no-notes", "Do not print notes.")
_SHOWN = (_SEPARATOR, AS_JSON, _QUIET, _NO_NOTES)

_NUMERIC = _columns("--numeric", help="Protected columns that are numbers, not groups.")
_REFERENCE = click.option(
    "--reference",
    metavar="[COL=]LEVEL",
    multiple=True,
    help="Reference group; implies --compare reference.",
)
_JOINT = _flag("--joint", "Compare the intersections of several attributes as well.")

_PROBLEM = (
    _NUMERIC,
    _value(
        "--mean-tol",
        _NOT_NEGATIVE_OR_NONE,
        0.0,
        "Largest distance between group means; none: any.",
    ),
    _value(
        "--cov-weight",
        _NOT_NEGATIVE,
        None,
        "Variance to give up per unit of covariance gap; 0: equal means only. Default: 1, or none "
        "with --cov-tol.",
    ),
    _value("--cov-tol", _NOT_NEGATIVE, None, "Largest covariance gap, instead of a penalty on it."),
    _choice(
        "--compare",
        COMPARE,
        f"What faces what among three or more groups. Default: {COMPARE[0]}.",
    ),
    _REFERENCE,
    _JOINT,
    _value(
        "--min-group-size", click.IntRange(2, _MOST), 2, "Rows a group needs for its covariance."
    ),
    _choice(
        "--objective",
        OBJECTIVES,
        "What is maximised: the variance of all rows, or what the worst-served group keeps or "
        "loses against its own best.",
        default=OBJECTIVES[0],
    ),
    _choice("--solver", SOLVERS, "How the basis is found.", default=SOLVERS[0]),
    _flag("--no-standardize", "Keep the units of the features; they are centred only."),
    _flag("--famd", "Divide indicators of text by the root of their share, not by the deviation."),
    _flag("--no-certify", "Do not compute the bound: faster for many features."),
    _value(
        "--folds",
        click.Choice(["0", *map(str, range(2, 21))]),
        "5",
        "Folds for the figures on new rows, up to 200 columns; 0: none.",
        metavar="N",
    ),
    _value("--tol", _POSITIVE, 1e-4, "Relative duality gap to solve relaxations to."),
    _value("--max-iter", _ONE_OR_MORE, 5000, "Limit on their iterations."),
)
_AGAINST = (
    _value(
        "--delta",
        _SHARE,
        None,
        "Largest difference that classifiers may find on unseen rows, 0 to 1: DeltaFairPCA, which "
        "reads the rows into memory.",
    ),
    _choice(
        "--adversary", DELTA_FAMILIES, f"Who they are, with --delta. Default: {DELTA_FAMILIES[0]}."
    ),
)
_LEAVE_OUT = _flag("--leave-out-unknown", "Count rows whose group is missing, and leave them out.")
_ORIGINAL = _columns(
    "--original", help="Columns that the features represent: what each group loses by it."
)
_DECISIONS = (
    _columns("--decision", help="Column that says who was selected.", one=True),
    _columns("--score", help="Column of scores: the share above the median is compared.", one=True),
    _columns("--label", help="Column of what was true, beside --decision.", one=True),
    click.option(
        "--positive",
        metavar="VALUE",
        help="Value of --decision and --label that means selected. Default: the larger one.",
    ),
)
_OUTPUT = (
    _path(
        "-o --out", "FILE", "Write the reduced rows to a .csv, .csv.gz, .parquet or .feather file."
    ),
    _columns("--keep", help="Columns to copy to --out."),
    _path("--save", "MODEL", "Write the fitted model to an .npz file, for fairpca transform."),
    _flag("--force", "Replace --out and --save if they exist."),
    _SAFE_CSV,
)
_ENGINE = (
    _choice("--engine", ENGINES, "Who sums the rows: this process (default), Dask or Spark."),
    click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Dask scheduler, such as tcp://head:8786. Default: threads of this process.",
    ),
    click.option(
        "--master", metavar="URL", help="Spark master, such as spark://head:7077. Default: local."
    ),
    _path(
        "--checkpoint",
        "DIR",
        "Keep the sums so far, so that an interrupted pass over Parquet goes on.",
    ),
)

_DATABASE = (
    click.option("--sql", metavar="SELECT", help="Read the rows of a query instead of files."),
    click.option(
        "--database",
        metavar="URI",
        envvar="FAIRPCA_DATABASE",
        help="Of --sql: postgresql://…, sqlite:FILE or duckdb:FILE. Default: the environment "
        "variable FAIRPCA_DATABASE, which keeps passwords out of the list of processes.",
    ),
)

_MEASURED = (
    _value(
        "--min-group",
        click.IntRange(2, _MOST),
        30,
        "Rows that both groups of a headline need; smaller groups are listed.",
    ),
    _value(
        "--budget",
        _NOT_NEGATIVE,
        60.0,
        "Seconds of processor time: what does not fit is done on a sample, or left out; 0: no "
        "limit.",
    ),
    _choice(
        "--adversaries",
        (*ADVERSARIES, "none"),
        "Classifiers to train on one half and measure on the other; repeat for several. "
        "Default: all.",
        multiple=True,
    ),
    *_DECISIONS,
    _choice(
        "--family families",
        FAMILIES,
        "Classifiers to try: half-spaces, Gaussian-kernel SVM, orthants. Default: all.",
        multiple=True,
    ),
    _value("--permutations", _COUNT, 200, "Permutations for the null of fast statistics; 0: none."),
    _value("--slow-permutations", _COUNT, 20, "The same for statistics that repeat a costly fit."),
    _flag("--no-cross-fit", "No values on rows not trained on."),
    _value("--confidence", _SHARE, 0.95, "Of the bounds and intervals."),
    _value(
        "--max-samples",
        click.IntRange(10, _MOST),
        1000,
        "Rows that Gaussian-kernel SVMs are trained on at most.",
    ),
    _value("--seed", click.IntRange(0, 2**32 - 1), 0, "Of the permutations and splits."),
)
_COMPONENTS = _value(
    "-d --components",
    Components(),
    2,
    "Components to keep: a number; a share such as 0.9: as many as plain PCA needs for that "
    "share of the variance; all: as many as equal means leave.",
)

FIT = (
    _SENSITIVE,
    _COMPONENTS,
    *_FEATURES,
    _columns("--target", help="Columns to predict later: no features, copied to --out."),
    *_GROUPS,
    *_PROBLEM,
    *_AGAINST,
    *_OUTPUT,
    *_ROWS,
    *_DATABASE,
    *_ENGINE,
    *_SHOWN,
)
AUDIT = (
    _SENSITIVE,
    *_FEATURES,
    *_GROUPS,
    _NUMERIC,
    _choice("--compare", COMPARE, "What faces what among three or more groups. Default: pairs."),
    _REFERENCE,
    _JOINT,
    *_MEASURED,
    _ORIGINAL,
    _LEAVE_OUT,
    _flag("--standardize", "Give every column unit variance first."),
    *_ROWS,
    *_SHOWN,
)
REPORT = (
    _SENSITIVE,
    _COMPONENTS,
    *_FEATURES,
    _columns("--target", help="Columns that are no features."),
    *_GROUPS,
    *_PROBLEM,
    *_MEASURED,
    _LEAVE_OUT,
    _flag("--as-is", "Audit the columns themselves, without a fit."),
    _path(
        "-o --out",
        "FILE",
        "Where the page goes; its figures go beside it as .json.",
        default=Path("report.html"),
        show_default=True,
    ),
    _path("--card", "FILE", "Write a model card in Markdown as well."),
    click.option("--title", metavar="TEXT", help="Title of the page."),
    _flag("--force", "Replace files that exist."),
    *_ROWS,
    _SEPARATOR,
    _QUIET,
    _NO_NOTES,
)
TRANSFORM = (
    _columns("--keep", help="Columns to copy."),
    _flag("--keep-all", "Copy all columns."),
    _choice("--missing", MISSING, "Missing features. Default: as in the fit."),
    _choice("--unknown", UNKNOWN, "Categories that MODEL has not seen.", default=UNKNOWN[0]),
    *_DATABASE,
    click.option("--into", metavar="TABLE", help="Write a table of --database instead of OUT."),
    _flag("--force", "Replace OUT, or the table, if it exists."),
    _SAFE_CSV,
    _SEPARATOR,
    _QUIET,
    _NO_NOTES,
)


def with_options(options: Sequence[Decorator]) -> Decorator:
    """Combine options into one decorator, in the order in which the help shows them."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate
