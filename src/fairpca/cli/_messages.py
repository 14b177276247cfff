"""What the library says, on one line, in the words of the command line, harmless to a terminal."""

from __future__ import annotations

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
    max_cells max_levels sensitive control weight numeric features categorical missing unknown
    keep sql database into engine scheduler master checkpoint separator confidence max_samples
    slow_permutations objective original
    min_group budget attackers decision score label positive
"""
_OPTION |= {name: f"--{name.replace('_', '-')}" for name in _SAME.split()}


def one_line(message: str) -> str:
    """Return a message without line breaks and control characters, and not endless."""
    return bounded(visible(" ".join(message.split())), LONGEST)


def in_options(error: InvalidInputError) -> str:
    """Put the option that sets the parameter concerned before the words of an error."""
    option = _OPTION.get(error.parameter or "")
    return str(error) if option is None or option in str(error) else f"{option}: {error}"


@contextmanager
def collected_notes(notes: list[str]) -> Iterator[None]:
    """Add what the library warns of to the notes, each once; other warnings pass through."""
    from sklearn.exceptions import ConvergenceWarning  # heavy, and help does without it

    notable = (ConvergenceWarning, FairnessWarning)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for entry in caught:
        if issubclass(entry.category, notable):
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
