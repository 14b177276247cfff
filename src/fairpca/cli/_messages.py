"""What the library says, in the words of the command line and on one line."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import click
from sklearn.exceptions import ConvergenceWarning

from fairpca.exceptions import (
    DroppedRowsWarning,
    NestedAttributeWarning,
    SmallGroupWarning,
)

_NOTABLE = (ConvergenceWarning, SmallGroupWarning, NestedAttributeWarning, DroppedRowsWarning)

_OPTION_OF = {
    "n_components": "--components",
    "sensitive_features": "--sensitive",
    "control_features": "--control",
    "sample_weight": "--weight",
    "mean_tol": "--mean-tol",
    "cov_weight": "--cov-weight",
    "cov_tol": "--cov-tol",
    "min_group_size": "--min-group-size",
    "max_iter": "--max-iter",
    "max_cells": "--max-cells",
    "tol": "--tol",
}
_WORDS = (
    "solver",
    "compare",
    "reference",
    "missing",
    "engine",
    "master",
    "checkpoint",
)  # these are options only where they have a value
# Not inside quotes, where it would be a column of the user's.
_PARAMETER = re.compile(
    rf"""(?<![\w'"-])(?:({"|".join(_OPTION_OF)})(?![\w'"])|({"|".join(_WORDS)})(?==))"""
)
_VALUE = re.compile(r"(--[a-z-]+=)'([^']*)'")


def as_options(message: str) -> str:
    r"""Put a message of the library on one line and call its parameters by their options.

    Parameters
    ----------
    message : str
        Text of an error or a warning.

    Returns
    -------
    str
        The same, for somebody at the command line.

    Examples
    --------
    >>> from fairpca.cli._messages import as_options
    >>> as_options("cov_tol=0 cannot be met. Raise cov_tol or\nlower n_components.")
    '--cov-tol=0 cannot be met. Raise --cov-tol or lower --components.'
    """
    text = " ".join(message.split()).replace("overwrite=True", "--force")
    text = _PARAMETER.sub(_option, text)
    return _VALUE.sub(r"\1\2", text)


def _option(match: re.Match[str]) -> str:
    return _OPTION_OF[match[1]] if match[1] else f"--{match[2]}"


@contextmanager
def collected_notes() -> Iterator[list[str]]:
    """Collect what the library warns of; other warnings pass through unchanged.

    Yields
    ------
    list of str
        Filled when the block ends, each note on one line and only once.
    """
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield notes
    for entry in caught:
        if issubclass(entry.category, _NOTABLE):
            text = as_options(str(entry.message))
            if text not in notes:
                notes.append(text)
        else:
            warnings.warn_explicit(entry.message, entry.category, entry.filename, entry.lineno)


def print_notes(notes: list[str]) -> None:
    """Print notes on standard error.

    Parameters
    ----------
    notes : list of str
        One line each.
    """
    for note in notes:
        click.echo(f"fairpca: note: {note}", err=True)
