"""What the library says, on one line, in the words of the command line, harmless to a terminal."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import click

from fairpca._present import visible
from fairpca.exceptions import FairnessWarning, InvalidInputError, bounded

LONGEST = 1000
"""Characters of one message; what is longer loses its middle."""

# The options that do not have the name of the parameter they set.
RENAMED = {
    "n_components": "components",
    "sensitive_features": "sensitive",
    "control_features": "control",
    "sample_weight": "weight",
    "overwrite": "force",
    "families": "family",
    "family": "adversary",
    "n_permutations": "permutations",
    "random_state": "seed",
}


def one_line(message: str) -> str:
    """Return a message without line breaks and control characters, and not endless."""
    return bounded(visible(" ".join(message.split())), LONGEST)


def in_options(error: InvalidInputError, options: Collection[str]) -> str:
    """Put the option that sets the parameter concerned before the words of an error."""
    option = option_of(error.parameter or "")
    text = error.advice(as_typed)
    return f"{option}: {text}" if option in options else text


def option_of(parameter: str) -> str:
    """Return the name of the option that sets a parameter."""
    return f"--{RENAMED.get(parameter, parameter).replace('_', '-')}"


def as_typed(parameter: str, value: Any) -> str:
    """Write a setting of the library as an option.

    >>> from fairpca.cli._messages import as_typed
    >>> as_typed("missing", "mean"), as_typed("numeric", ["age"]), as_typed("force", True)
    ('--missing mean', '--numeric age', '--force')
    """
    values = [] if value is True else value if isinstance(value, list) else [value]
    return " ".join([option_of(parameter), *(shlex.quote(str(part)) for part in values)])


@contextmanager
def collected_notes(notes: list[str]) -> Iterator[None]:
    """Add what the library warns of to the notes, each once; other warnings pass through."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for entry in caught:
        # scikit-learn's by its name: a projection of rows does not import it.
        name = entry.category.__name__
        if isinstance(entry.message, FairnessWarning):
            add_note(notes, entry.message.advice(as_typed))
        elif name == "ConvergenceWarning":
            add_note(notes, str(entry.message))
        else:
            warnings.warn_explicit(entry.message, entry.category, entry.filename, entry.lineno)


def add_note(notes: list[str], text: str) -> None:
    """Add a note on one line, unless it is there."""
    note = one_line(text)
    if note not in notes:
        notes.append(note)


def print_notes(notes: list[str]) -> None:
    """Print notes on standard error."""
    for note in notes:
        click.echo(f"fairpca: note: {note}", err=True)
