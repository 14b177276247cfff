"""Types of values on the command line that are stricter than click's own."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import click


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


class Components(click.ParamType):
    """A number of components, a share of the variance, or the word ``all``."""

    name = "components"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | float | None:
        """Read one value or fail with a message that says what is accepted."""
        if str(value).lower() == "all":
            return None
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        is_count = number >= 1 and number.is_integer()
        if not is_count and not 0.0 < number < 1.0:
            what = "a whole number from 1 on, a share of the variance such as 0.9, or all"
            self.fail(f"{value!r} is not {what}.", param, ctx)
        return int(number) if is_count else number


class Separator(click.ParamType):
    """One character of one byte, or the word ``tab``."""

    name = "separator"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Read one value or fail with a message that says what is accepted."""
        text = {"tab": "\t", "\\t": "\t"}.get(str(value), str(value))
        if len(text) != 1 or not text.isascii() or text in '\r\n"\0':
            self.fail(f"{value!r} is not one ASCII character, such as ';', or tab.", param, ctx)
        return text
