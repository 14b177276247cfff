"""The commands, and the guard that turns every failure into one line and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import Any, NoReturn

import click

from fairpca import __version__
from fairpca.cli import BAD_INPUT, FAILURE, INTERRUPTED
from fairpca.cli import _options as options
from fairpca.cli._console import error_message, one_line
from fairpca.exceptions import InvalidInputError


class GuardedGroup(click.Group):
    """A group whose failures are one line on standard error, never a traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of use."""
        return list(self.commands)

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Run a command and exit with its code."""
        kwargs["standalone_mode"] = False
        try:
            code = super().main(*args, **kwargs)
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            sys.exit(BAD_INPUT)
        except (click.Abort, KeyboardInterrupt):
            sys.exit(INTERRUPTED)
        except Exception as error:
            if os.environ.get("FAIRPCA_DEBUG"):
                traceback.print_exc()
            message, code = explain(error)
            click.echo(f"fairpca: error: {one_line(message)}", err=True)
            sys.exit(code)
        sys.exit(code if isinstance(code, int) else 0)


def known_options() -> set[str]:
    """Return the names of all options of all commands."""
    return {name for command in app.commands.values() for o in command.params for name in o.opts}


def explain(error: Exception) -> tuple[str, int]:
    """Return what to say of a failure, and the exit code."""
    if isinstance(error, click.ClickException):
        return error.format_message(), BAD_INPUT
    if isinstance(error, InvalidInputError):
        return error_message(error, known_options()), BAD_INPUT
    # An extra that is not installed; the message names it.
    if isinstance(error, ImportError) and not str(error.name or "").startswith("fairpca"):
        return str(error), BAD_INPUT
    # A thread needs memory too, and Python says so by a RuntimeError.
    if isinstance(error, MemoryError) or "can't start new thread" in str(error):
        return "not enough memory for this table: use fewer rows or columns.", FAILURE
    if isinstance(error, OSError):
        reason = error.strerror or str(error) or type(error).__name__
        return f"{reason}: {error.filename}" if error.filename else reason, FAILURE
    return (
        f"fairpca failed, which is its own defect ({type(error).__name__}: {str(error)[:300]}). "
        "Please report it, with the command and what it prints with FAIRPCA_DEBUG=1 set.",
        FAILURE,
    )


@click.group(
    cls=GuardedGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="fairpca", message="%(prog)s %(version)s")
def app() -> None:
    """Reduce a table to a few components from which protected attributes are hard to predict.

    Start with "fairpca fit", then "fairpca audit". Without a file they run on embedded data.
    """


# The commands import what they need when they run: help and version do not wait for numbers.


@app.command(
    cls=options.Command,
    epilog="""\b
Examples:
  fairpca fit                                       embedded data, sex protected
  fairpca fit people.csv --sensitive sex -d 3
  fairpca fit people.csv -s sex,race --joint --cov-tol 0.05 --out reduced.csv
  fairpca fit --sql "select * from people" --database sqlite:people.db -s sex
""",
)
@click.argument("data", nargs=-1, metavar="[DATA]...")
@options.with_options(options.FIT)
def fit(data: tuple[str, ...], **settings: Any) -> None:
    """Reduce DATA (CSV, Parquet or Arrow files) to a few fair components.

    The result is compared with plain PCA, and a certificate bounds how far it is from optimal.
    DATA may be several files, globs and directories of one table, of any size.
    """
    options.check_paths(data, settings)
    from fairpca.cli._fit import run_fit

    run_fit(data, settings)


@app.command(
    cls=options.Command,
    epilog="""\b
Examples:
  fairpca fit table/ --sensitive sex --save model.npz
  fairpca transform model.npz table/ reduced/ --keep id
  fairpca transform model.npz new.parquet reduced.csv
  fairpca transform model.npz --sql "select * from people" --database sqlite:people.db --into fair
""",
)
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("paths", nargs=-1, metavar="[IN] [OUT]")
@options.with_options(options.TRANSFORM)
def transform(model: Path, paths: tuple[str, ...], **settings: Any) -> None:
    """Project the rows of IN on the components of MODEL and write them to OUT.

    MODEL is a file written by fairpca fit --save. The protected columns are not needed. Rows are
    read and written a batch at a time. A directory becomes a directory with the same files. OUT
    appears complete or not at all. A query (--sql) can replace IN, a table (--into) OUT.
    """
    options.check_paths([model], {})
    from fairpca.cli._transform import run_transform

    run_transform(model, paths, settings)


@app.command(
    cls=options.Command,
    epilog="""\b
Examples:
  fairpca moments people.csv -s sex --out site_a.npz
  fairpca moments --show site_a.npz
  fairpca fit --moments site_a.npz site_b.npz --save model.npz
""",
)
@click.argument("data", nargs=-1, metavar="[DATA]...")
@options.with_options(options.MOMENTS)
def moments(data: tuple[str, ...], **settings: Any) -> None:
    """Write the sums of DATA that a fit needs, and no row, to a file.

    Files of several holders, added by fairpca fit --moments, give the fit of all their rows. A
    cell (a group in a stratum) with few rows is refused: its sums are nearly the rows themselves.
    """
    options.check_paths(data, settings)
    from fairpca.cli._moments import run_moments

    run_moments(data, settings)


@app.command(
    cls=options.Command,
    epilog="""\b
Examples:
  fairpca audit                                     embedded data, sex protected
  fairpca audit reduced.csv --sensitive sex --features fairpca0,fairpca1
  fairpca audit people.csv --sensitive sex,race --joint --decision hired --label qualified
""",
)
@click.argument("data", nargs=-1, metavar="[DATA]...")
@options.with_options(options.AUDIT)
def audit(data: tuple[str, ...], **settings: Any) -> int:
    """Measure how well classifiers predict protected groups from the columns of DATA.

    The columns may be raw features or a representation. A classifier selects some rows. The audit
    reports the difference between the selection rates of two groups (0: equal, 1: the groups are
    separated), with its value under permuted groups and on held-out rows. After Ctrl-C it prints
    what is ready.
    """
    options.check_paths(data, settings)
    from fairpca.cli._audit import run_audit

    return run_audit(data, settings)


@app.command(
    cls=options.Command,
    epilog="""\b
Examples:
  fairpca report                                    embedded data, sex protected
  fairpca report people.csv --sensitive sex,race -d 3 --out report.html --card card.md
  fairpca report reduced.csv --sensitive sex --features fairpca0,fairpca1 --as-is
""",
)
@click.argument("data", nargs=-1, metavar="[DATA]...")
@options.with_options(options.REPORT)
def report(data: tuple[str, ...], **settings: Any) -> None:
    """Fit, audit, and write a page about it that people can read.

    The page is one HTML file that loads nothing. It is not a finding of compliance with any rule
    or law.
    """
    options.check_paths(data, settings)
    from fairpca.cli._report import run_report

    run_report(data, settings)
