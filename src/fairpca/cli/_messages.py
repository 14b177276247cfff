"""What the library says, on one line, in the words of the command line, harmless to a terminal."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import click

from fairpca._text import visible
from fairpca.exceptions import FairnessWarning, InvalidInputError, bounded

LONGEST = 1000
"""Characters of one message; what is longer loses its middle."""

# The options that do not have the name of the parameter they set, and those that do.
_OPTION = {
    "n_components": "--components",
    "sensitive_features": "--sensitive",
    "control_features": "--control",
    "sample_weight": "--weight",
    "overwrite": "--force",
    "families": "--family",
    "family": "--adversary",
    "n_permutations": "--permutations",
    "random_state": "--seed",
}
_SAME = """
    mean_tol cov_weight cov_tol delta compare reference joint min_group_size solver tol max_iter
    max_cells max_levels sensitive control weight numeric features categorical missing
    missing_groups unknown keep sql database into engine scheduler master checkpoint separator
    confidence max_samples slow_permutations objective original
    min_group budget adversaries decision score label positive drop target
"""
_OPTION |= {name: f"--{name.replace('_', '-')}" for name in _SAME.split()}
_SETTING = re.compile(r"(?<!-)\b(missing|missing_groups|unknown|numeric)=\[?'([^']+)'\]?")


def one_line(message: str) -> str:
    """Return a message without line breaks and control characters, and not endless."""
    return bounded(visible(" ".join(message.split())), LONGEST)


def in_options(error: InvalidInputError) -> str:
    """Put the option that sets the parameter concerned before the words of an error."""
    option = _OPTION.get(error.parameter or "")
    text = str(error)
    if option is not None and text.startswith(f"{option.removeprefix('--')} names "):
        return as_typed(f"--{text}")
    return as_typed(text if option is None or option in text else f"{option}: {text}")


def as_typed(text: str) -> str:
    """Write settings of the library as they are typed.

    >>> from fairpca.cli._messages import as_typed
    >>> as_typed("use missing='mean', or numeric=['age']")
    'use --missing mean, or --numeric age'
    """
    text = _SETTING.sub(lambda found: f"{_OPTION[found[1]]} {found[2]}", text)
    text = text.replace("raise max_levels", "raise --max-levels")
    text = text.replace(": set separator.", ": see --separator.")
    text = text.replace("use force=True", "use --force")
    return text.replace("Use standardize=True unless", "Leave out --no-standardize unless")


@contextmanager
def collected_notes(notes: list[str]) -> Iterator[None]:
    """Add what the library warns of to the notes, each once; other warnings pass through."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for entry in caught:
        # scikit-learn's by its name: a projection of rows does not import it.
        name = entry.category.__name__
        if issubclass(entry.category, FairnessWarning) or name == "ConvergenceWarning":
            add_note(notes, str(entry.message))
        else:
            warnings.warn_explicit(entry.message, entry.category, entry.filename, entry.lineno)


def add_note(notes: list[str], text: str) -> None:
    """Add a note on one line, unless it is there."""
    note = one_line(as_typed(text))
    if note not in notes:
        notes.append(note)


def print_notes(notes: list[str]) -> None:
    """Print notes on standard error."""
    for note in notes:
        click.echo(f"fairpca: note: {note}", err=True)
