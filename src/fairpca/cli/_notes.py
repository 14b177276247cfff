"""Warnings of the library become one-line notes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import click
from sklearn.exceptions import ConvergenceWarning

from fairpca.exceptions import NestedAttributeWarning, SmallGroupWarning

_NOTABLE = (ConvergenceWarning, SmallGroupWarning, NestedAttributeWarning)


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
            text = " ".join(str(entry.message).split())
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
