"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from fairpca.cli._options import Separator

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

SENSITIVE: Decorator = click.option(
    "-s",
    "--sensitive",
    metavar="COL",
    multiple=True,
    help="Protected column. Repeat for several.",
)
FEATURES: Decorator = click.option(
    "--features",
    metavar="COL,…",
    multiple=True,
    help="Feature columns. Default: all that have no other part.",
)
DROP: Decorator = click.option(
    "--drop", metavar="COL,…", multiple=True, help="Columns to leave out of the features."
)
CONTROL: Decorator = click.option(
    "--control",
    metavar="COL",
    multiple=True,
    help="Compare groups only within the strata of this column.",
)
WEIGHT: Decorator = click.option("--weight", metavar="COL", help="Column of row weights.")
SEPARATOR: Decorator = click.option(
    "--separator",
    metavar="C",
    type=Separator(),
    default=",",
    show_default=True,
    help="Between the fields of a CSV file.",
)
AS_JSON: Decorator = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document instead of tables."
)
QUIET: Decorator = click.option(
    "-q", "--quiet", is_flag=True, help="No tables and no progress; notes and errors only."
)


def with_options(options: Sequence[Decorator]) -> Decorator:
    """Combine options into one decorator.

    Parameters
    ----------
    options : sequence of click options
        In the order in which the help shows them.

    Returns
    -------
    callable
        The decorator.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate
