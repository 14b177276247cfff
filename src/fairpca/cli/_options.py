"""Types and readers of option values, stricter than click's own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import click


class Number(click.ParamType):
    """A finite number with a lower limit, or the word ``none`` where that has a meaning.

    Parameters
    ----------
    positive : bool, default False
        Whether 0 is refused as well.
    optional : bool, default False
        Whether ``none`` is accepted.
    """

    name = "number"

    def __init__(self, *, positive: bool = False, optional: bool = False) -> None:
        self.positive, self.optional = positive, optional

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
        if not math.isfinite(number) or number < 0 or (self.positive and number == 0):
            accepted = "a number larger than 0" if self.positive else "a number, 0 or larger"
            suffix = ", or none" if self.optional else ""
            self.fail(f"{value!r} is not {accepted}{suffix}.", param, ctx)
        return number


class Probability(click.ParamType):
    """A number between 0 and 1, both excluded."""

    name = "probability"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read one value or fail with a message that says what is accepted."""
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not 0 < number < 1:
            self.fail(f"{value!r} is not a number between 0 and 1.", param, ctx)
        return number


class Separator(click.ParamType):
    """One character, or the word ``tab``."""

    name = "separator"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Read one value or fail with a message that says what is accepted."""
        text = {"tab": "\t", "\\t": "\t"}.get(str(value), str(value))
        if len(text) != 1 or text in '\r\n"':
            self.fail(f"{value!r} is not one character, such as ';', or tab.", param, ctx)
        return text


def split_names(values: Sequence[str], known: Sequence[str]) -> list[str]:
    """Read ``a,b,c`` options into column names.

    Parameters
    ----------
    values : sequence of str
        What was given, one entry for each time the option was used.
    known : sequence of str
        Columns of the table: a name that contains a comma is taken whole.

    Returns
    -------
    list of str
        The names, each once, in the order given.

    Examples
    --------
    >>> from fairpca.cli._options import split_names
    >>> split_names(["a,b", "height, cm", "a"], ["a", "b", "height, cm"])
    ['a', 'b', 'height, cm']
    """
    names: list[str] = []
    for value in values:
        names += [value] if value in known else [part.strip() for part in value.split(",")]
    return list(dict.fromkeys(name for name in names if name))


def read_reference(values: Sequence[str], sensitive: Sequence[str]) -> str | dict[str, str] | None:
    """Read ``LEVEL`` or ``COLUMN=LEVEL`` options.

    Parameters
    ----------
    values : sequence of str
        What was given.
    sensitive : sequence of str
        Protected columns. Text before ``=`` that is none of them belongs to the level.

    Returns
    -------
    str, dict of str to str, or None
        What `FairPCA` takes as `reference`.

    Examples
    --------
    >>> from fairpca.cli._options import read_reference
    >>> read_reference(["white"], ["race"]), read_reference(["race=white"], ["race", "sex"])
    ('white', {'race': 'white'})
    """
    if not values:
        return None
    pairs: dict[str, str] = {}
    for value in values:
        column, _, level = value.partition("=")
        if column in sensitive and level:
            pairs[column] = level
        elif len(values) == 1 and len(sensitive) == 1:
            return value
        else:
            raise click.BadParameter(
                f"{value!r} does not say which attribute it belongs to: write COLUMN=LEVEL with "
                f"a column of --sensitive ({', '.join(sensitive)}).",
                param_hint="'--reference'",
            )
    return pairs
