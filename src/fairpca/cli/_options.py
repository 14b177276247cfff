"""Every option once, the commands that have it, and help that shows the common ones in groups."""

from __future__ import annotations

import glob
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from fairpca._choices import (
    ADVERSARIES,
    COMPARE,
    DELTA_FAMILIES,
    EFFORTS,
    ENGINES,
    FAMILIES,
    GROUPLESS,
    MAX_CELLS,
    MAX_LEVELS,
    MIN_ROWS,
    MISSING,
    OBJECTIVES,
    PATH,
    ROTATIONS,
    SOLVERS,
    UNKNOWN,
)

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

DATA, GROUPS, FAIRNESS, AUDITING, OUTPUT = "Data", "Groups", "Fairness", "Audit", "Output"
_MOST = 10**9
_EXCLUDED = (
    *(("cov_tol", "cov_weight"), ("delta", "cov_weight"), ("delta", "cov_tol")),
    *(("nonzero", "cov_weight"), ("nonzero", "delta"), ("nonzero", "rotation")),
)
_OF_FITS = ("hold_out", "delta", "nonzero", "rotation", "cov_tol", "cov_weight")
# Options that --help leaves out and --help-all shows.
EXPERT = {
    "--adversaries", "--adversary", "--by-column", "--categorical", "--confidence", "--engine",
    "--decimal", "--famd", "--family", "--folds", "--master", "--max-cells", "--max-iter",
    "--max-levels", "--min-group", "--min-group-size", "--missing-groups", "--moments",
    "--no-certify", "--no-notes", "--only", "--positive", "--rotation", "--safe-csv", "--scheduler",
    "--seed", "--separator", "--solver", "--target-weight", "--title", "--tol",
}  # fmt: skip


class Option(click.Option):
    """An option with its group in the help."""

    def __init__(self, *names: Any, group: str, **about: Any) -> None:
        super().__init__(*names, **about)
        self.group = group


class Command(click.Command):
    """A command whose help shows the common options in groups; --help-all shows them all."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, group by group."""
        hidden = set() if ctx.meta.get("help_all") else EXPERT
        for group in (DATA, GROUPS, FAIRNESS, AUDITING, OUTPUT):
            shown = [
                record
                for option in self.get_params(ctx)
                if isinstance(option, click.Option)
                and getattr(option, "group", OUTPUT) == group
                and not hidden.intersection(option.opts)
                and (record := option.get_help_record(ctx))
            ]
            if shown:
                with formatter.section(group):
                    formatter.write_dl(shown, col_max=28)


def _number(
    accepted: str, inside: Callable[[float], bool], none: str = ""
) -> Callable[[Any], float | None]:
    """Return a reader of finite numbers inside limits, or of a word that stands for None."""

    def number(value: Any) -> float | None:
        if none and str(value).lower() == none:
            return None
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        # click's FloatRange lets nan and inf through.
        if not math.isfinite(number) or not inside(number):
            other = f", or {none}" if none else ""
            raise click.BadParameter(f"{value!r} is not {accepted}{other}.")
        return number

    return number


_NOT_NEGATIVE = _number("a number, 0 or larger", lambda x: x >= 0)
_NOT_NEGATIVE_OR_NONE = _number("a number, 0 or larger", lambda x: x >= 0, "none")
_POSITIVE = _number("a number larger than 0", lambda x: x > 0)
_SHARE = _number("a number between 0 and 1", lambda x: 0 < x < 1)
_COUNT_OR_SHARE = _number(
    "a whole number from 1 on, a share of the variance such as 0.9",
    lambda x: 0 < x < 1 or (x >= 1 and x.is_integer()),
    "all",
)


def _components(value: Any) -> int | float | None:
    number = _COUNT_OR_SHARE(value)
    return number if number is None or number < 1 else int(number)


def _nonzero(value: Any) -> int | str:
    if value == PATH:
        return PATH
    if not str(value).isdigit() or int(value) < 1:
        raise click.BadParameter(f"{value!r} is neither a number of loadings nor path.")
    return int(value)


def _separator(value: str) -> str:
    text = {"tab": "\t", "\\t": "\t"}.get(value, value)
    if len(text) != 1 or not text.isascii() or text in '\r\n"\0':
        raise click.BadParameter(f"{value!r} is not one ASCII character, such as ';', or tab.")
    return text


def _option(group: str, names: str, help: str, **about: Any) -> Decorator:
    return click.option(*names.split(), cls=Option, group=group, help=help, **about)


def _flag(group: str, names: str, help: str, **about: Any) -> Decorator:
    return _option(group, names, help, is_flag=True, **about)


def _columns(group: str, names: str, help: str, *, one: bool = False) -> Decorator:
    """Return an option that names columns, several with commas or by repeating it."""
    return _option(group, names, help, metavar="COL" if one else "COL,…", multiple=not one)


def _value(group: str, names: str, type: Any, default: Any, help: str, **about: Any) -> Decorator:
    """Return an option with a number, whose help shows its default."""
    shown: dict[str, Any] = {"metavar": "N" if isinstance(type, click.IntRange) else "X"}
    shown |= {"show_default": default is not None, **about}
    return _option(group, names, help, type=type, default=default, **shown)


def _choice(group: str, names: str, among: Sequence[str], help: str, **about: Any) -> Decorator:
    """Return an option with one of several words."""
    return _option(group, names, help, type=click.Choice(list(among)), metavar="WORD", **about)


def _count(least: int) -> click.IntRange:
    return click.IntRange(least, _MOST)


def _path(group: str, names: str, help: str, **about: Any) -> Decorator:
    return _option(group, names, help, type=click.Path(path_type=Path), metavar="FILE", **about)


def _help_all(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        ctx.meta["help_all"] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


# fmt: off
_HELP_ALL = _flag(OUTPUT, "--help-all", "Show all options and exit.", is_eager=True,
                  expose_value=False, callback=_help_all)


_GROUP_COLUMNS = (
    _columns(GROUPS, "-s --sensitive", "Protected columns."),
    _columns(GROUPS, "--control", "Compare groups within strata of these columns."),
    _columns(GROUPS, "--numeric", "Protected columns that are numbers, not groups."),
)
_SUMMED = _choice(GROUPS, "--missing-groups", GROUPLESS,
                  "Missing groups: raise (default), own or unlabelled (only the variance).",
                  default=GROUPLESS[0])
_MEASURED_GROUPS = _choice(GROUPS, "--missing-groups", GROUPLESS[:2],
                           "Missing groups: raise (default) or own.", default=GROUPLESS[0])


def _groups(compared: str) -> tuple[Decorator, ...]:
    """Return the options about groups; `compared` is the default of --compare."""
    words = [f"{word} (default)" if word == compared else word for word in COMPARE]
    return (
        *_GROUP_COLUMNS,
        _flag(GROUPS, "--joint", "Compare intersections of attributes too."),
        _choice(GROUPS, "--compare", COMPARE, "Compare {}, {} or {}.".format(*words)),
        _option(GROUPS, "--reference", "Reference group. Implies --compare reference.",
                metavar="[COL=]LEVEL", multiple=True),
    )


_MARKS = (
    _value(DATA, "--separator", _separator, ",", "Between the fields of a CSV file.", metavar="C"),
    _choice(DATA, "--decimal", (".", ","), "Decimal mark of a CSV file.", default=".",
            show_default=True),
)
_FEATURES = (
    _columns(DATA, "--features", "Feature columns. Default: every column not used elsewhere."),
    _columns(DATA, "--drop", "Columns to leave out of the features."),
)
_ROWS = (
    _columns(DATA, "--weight", "Column of row weights.", one=True),
    _columns(DATA, "--unit", "Column of persons or sites whose rows stay together.", one=True),
    _choice(DATA, "--missing", MISSING, "Missing features: error (default), drop-rows or mean.",
            default=MISSING[0]),
    _columns(DATA, "--categorical", "Features to one-hot encode. Text columns always are."),
    _value(DATA, "--max-levels", _count(1), MAX_LEVELS,
           "Largest number of values of a text feature."),
    _value(GROUPS, "--max-cells", _count(1), MAX_CELLS,
           "Largest number of combinations of groups."),
    *_MARKS,
)
_PROBLEM = (
    _value(FAIRNESS, "-d --components", _components, 2,
           "Components to keep: a number, a share of the variance such as 0.9, or all."),
    _value(FAIRNESS, "--mean-tol", _NOT_NEGATIVE_OR_NONE, 0.0, "Largest distance of group means."),
    _value(FAIRNESS, "--cov-weight", _NOT_NEGATIVE, None,
           "Penalty on the covariance gap, 0 or more. Default: 1."),
    _value(FAIRNESS, "--cov-tol", _NOT_NEGATIVE, None,
           "Largest covariance gap, instead of a penalty."),
    _choice(FAIRNESS, "--objective", OBJECTIVES,
            "total (default), worst-variance or worst-loss (groups).",
            default=OBJECTIVES[0]),
    _value(FAIRNESS, "--target-weight", _NOT_NEGATIVE, 0.0,
           "Worth of keeping what predicts --target: 1 is the value to try."),
    _choice(FAIRNESS, "--rotation", ROTATIONS,
            "varimax: rotate the components to few large loadings."),
    _flag(FAIRNESS, "--no-standardize", "Only centre the features; keep their units."),
    _flag(FAIRNESS, "--famd", "Scale indicators of text by their share, not their deviation."),
    _value(GROUPS, "--min-group-size", _count(2), None,
           "Rows a group needs for its covariance. Default: 500 for the smallest groups, a tenth "
           "of the rows, which are left out unless their means differ by more than chance."),
    _choice(FAIRNESS, "--solver", SOLVERS,
            f"Method that finds the components: {', '.join(SOLVERS)}.",
            default=SOLVERS[0], show_default=True),
    _flag(FAIRNESS, "--no-certify", "Do not compute the bound. Faster with many features."),
    _value(FAIRNESS, "--folds", click.Choice(["0", *map(str, range(2, 21))]), "5",
           "Folds for the figures on held-out rows, up to 200 columns. 0: none.", metavar="N"),
    _value(FAIRNESS, "--tol", _POSITIVE, 1e-4, "Relative duality gap to solve relaxations to."),
    _value(FAIRNESS, "--max-iter", _count(1), 5000,
           "Largest number of iterations of a relaxation."),
)
_HOLD_OUT = _value(FAIRNESS, "--hold-out", _SHARE, None,
                   "Share of the rows to measure on and not to fit.")
_ONLY = _option(DATA, "--only", "Audit only the rows that have this value in a column.",
                metavar="COL=VALUE", multiple=True)
_NONZERO = (
    _value(FAIRNESS, "--nonzero", _nonzero, None,
           "Sparse: non-zero loadings of each component, or path."),
    _flag(FAIRNESS, "--by-column", "Count the values of one column of text once in --nonzero."),
)
_DELTA = (
    _value(FAIRNESS, "--delta", _SHARE, None,
           "Largest difference in selection rates on held-out rows."),
    _choice(FAIRNESS, "--adversary", DELTA_FAMILIES,
            f"Classifier family used with --delta: {', '.join(DELTA_FAMILIES)}."),
)
_DATABASE = (
    _option(DATA, "--sql", "Read the rows of a query instead of files.", metavar="SELECT"),
    _option(DATA, "--database",
            "postgresql://…, sqlite:FILE or duckdb:FILE, for --sql. Default: the variable "
            "FAIRPCA_DATABASE.", metavar="URI", envvar="FAIRPCA_DATABASE"),
)
_ENGINE = (
    _choice(DATA, "--engine", ENGINES,
            "Sum the rows of files by dask or spark. Default: this process."),
    _option(DATA, "--scheduler",
            "Dask scheduler, such as tcp://head:8786. Default: threads of this process.",
            metavar="ADDRESS"),
    _option(DATA, "--master", "Spark master, such as spark://head:7077. Default: local.",
            metavar="URL"),
)
_MEASURED = (
    _path(AUDITING, "--against", "Table with other columns of the same rows, to compare with.",
          multiple=True),
    _columns(AUDITING, "--decision", "Column that says who was selected.", one=True),
    _columns(AUDITING, "--score", "Column of scores: compare shares above the median.", one=True),
    _columns(AUDITING, "--label", "Column of true outcomes, with --decision.", one=True),
    _option(AUDITING, "--positive",
            "Value of --decision and --label that means selected. Default: the larger one.",
            metavar="VALUE"),
    _choice(AUDITING, "--adversaries", (*ADVERSARIES, "none"),
            f"Classifiers measured on held-out rows: {', '.join(ADVERSARIES)} or none. Repeat for "
            "several. Default: all.", multiple=True),
    _choice(AUDITING, "--family families", FAMILIES,
            "Classifiers fitted to all rows: linear (half-spaces), rbf (Gaussian-kernel SVM), cdf "
            "(orthants). Default: all.", multiple=True),
    _choice(AUDITING, "--effort", EFFORTS,
            "How many rows, repeats and permutations are measured: "
            "{}, {} (default) or {}.".format(*EFFORTS), default=EFFORTS[1]),
    _value(AUDITING, "--min-group", _count(2), 30, "Rows that a group of the headline needs."),
    _flag(GROUPS, "--leave-out-unknown", "Count rows whose group is missing and leave them out."),
    _value(AUDITING, "--confidence", _SHARE, 0.95, "Of limits and intervals."),
    _value(AUDITING, "--seed", click.IntRange(0, 2**32 - 1), 0, "Of permutations and splits."),
)
_FORCE = _flag(OUTPUT, "--force", "Replace files that exist.")
_SAFE_CSV = _flag(OUTPUT, "--safe-csv",
                  "Put an apostrophe before text that spreadsheets would run.")
_JSON = _flag(OUTPUT, "--json as_json", "Print one JSON document instead of tables.")
_QUIET = (
    _flag(OUTPUT, "-q --quiet", "Print notes and errors only."),
    _flag(OUTPUT, "--no-notes", "Do not print notes."),
)

FIT = (
    *_groups(COMPARE[0]), _SUMMED, *_PROBLEM, _HOLD_OUT, *_NONZERO, *_DELTA, *_FEATURES,
    _columns(DATA, "--target", "Columns to predict later: not features, copied to --out."),
    *_ROWS, *_DATABASE, *_ENGINE,
    _flag(DATA, "--moments", "DATA are files that fairpca moments wrote, not rows."),
    _path(OUTPUT, "-o --out", "Write the reduced rows: .csv, .csv.gz, .parquet or .feather."),
    _columns(OUTPUT, "--keep", "Columns to copy to --out."),
    _path(OUTPUT, "--save", "Write the model to an .npz file, for fairpca transform."),
    _FORCE, _SAFE_CSV, _JSON, *_QUIET,
)
MOMENTS = (
    *_GROUP_COLUMNS, _SUMMED, *_FEATURES,
    _columns(DATA, "--target", "Columns to predict later: not features; their sums are written."),
    *_ROWS, *_DATABASE, *_ENGINE,
    _path(OUTPUT, "-o --out", "Write the moments to an .npz file, for fairpca fit --moments."),
    _path(OUTPUT, "--show", "Say what a file of moments holds."),
    _value(OUTPUT, "--min-rows", _count(1), MIN_ROWS, "Rows that a cell needs to be written."),
    _flag(OUTPUT, "--merge-small", "Add cells with fewer rows to a group called other."),
    _FORCE, *_QUIET,
)
AUDIT = (
    *_groups(COMPARE[0]), _MEASURED_GROUPS, *_MEASURED, *_FEATURES,
    _columns(DATA, "--original", "Columns that the features represent: adds the loss per group."),
    _flag(DATA, "--standardize", "Give every column unit variance first."),
    *_ROWS, _ONLY, _JSON, *_QUIET,
)
REPORT = (
    *_groups(COMPARE[0]), _MEASURED_GROUPS, *_PROBLEM, *_NONZERO, *_DELTA, *_MEASURED, *_FEATURES,
    _columns(DATA, "--target", "Columns to predict later: not features."),
    *_ROWS, _ONLY, _HOLD_OUT,
    _flag(FAIRNESS, "--as-is", "Audit the columns themselves, without a fit."),
    _path(OUTPUT, "-o --out", "The page; its figures go to a .json file of the same name.",
          default=Path("report.html"), show_default=True),
    _path(OUTPUT, "--card", "Write a model card in Markdown too."),
    _option(OUTPUT, "--title", "Title of the page.", metavar="TEXT"),
    _FORCE, *_QUIET,
)
TRANSFORM = (
    _choice(DATA, "--missing", MISSING, "Missing features. Default: as in the fit."),
    _choice(DATA, "--unknown", UNKNOWN, "Values of text that MODEL has not seen: error or ignore.",
            default=UNKNOWN[0]),
    *_MARKS, *_DATABASE,
    _columns(OUTPUT, "--keep", "Columns to copy."),
    _flag(OUTPUT, "--keep-all", "Copy all columns."),
    _option(OUTPUT, "--into", "Write a table of --database instead of OUT.", metavar="TABLE"),
    _FORCE, _SAFE_CSV, *_QUIET,
)
# fmt: on


def check_paths(data: Sequence[str | Path], settings: Mapping[str, Any]) -> None:
    """Refuse a path that leads nowhere before anything that takes long to load is."""
    for path in () if settings.get("sql") else data:
        is_there = os.path.exists(path) or any(glob.iglob(str(path), recursive=True))
        if not is_there and "://" not in str(path):
            raise click.ClickException(f"{path}: no such file.")


def check_model(settings: Mapping[str, Any]) -> None:
    """Refuse options of components that do not belong together."""
    pairs = [pair for pair in _EXCLUDED if None not in (settings[pair[0]], settings[pair[1]])]
    if settings["famd"] and settings["no_standardize"]:
        pairs.append(("famd", "no-standardize"))
    defaults = {"objective": OBJECTIVES[0], "solver": SOLVERS[0], "target_weight": 0.0}
    unknown = [name for name, default in defaults.items() if settings[name] != default]
    for name in ("delta", "nonzero"):
        pairs += [(name, other) for other in unknown if settings[name] is not None]
    if settings["nonzero"] is not None:  # its bound is one eigenproblem
        solved = {"tol": 1e-4, "max_iter": 5000, "no_certify": False}
        pairs += [("nonzero", name) for name in solved if settings[name] != solved[name]]
    if settings.get("as_is"):  # fits nothing
        pairs += [("as_is", name) for name in _OF_FITS if settings[name] is not None]
    for one, other in pairs:
        names = f"--{one} excludes --{other}".replace("_", "-")
        raise click.UsageError(f"{names}: give one of them.")
    if settings["delta"] is not None and settings["missing_groups"] == "unlabelled":
        raise click.UsageError("--delta trains on rows with their group: leave out unlabelled.")
    if settings["by_column"] and settings["nonzero"] is None:
        raise click.UsageError("--by-column says how --nonzero counts: give --nonzero too.")
    if settings["adversary"] is not None and settings["delta"] is None:
        raise click.UsageError("--adversary is the classifier family of --delta: give --delta too.")


def with_options(options: Sequence[Decorator]) -> Decorator:
    """Combine options into one decorator, in the order in which the help shows them."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed((*options, _HELP_ALL)):
            command = option(command)
        return command

    return decorate
