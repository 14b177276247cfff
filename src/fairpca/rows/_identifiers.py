"""Features that are identifiers: whole numbers that are different in every row by design."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

MIN_ROWS = 20
_FIRST, _SAMPLE = 64, 1024
# So many pairs of equal values are expected of numbers drawn from their range, and none is there.
_EXPECTED = 5.0
_NAME = re.compile(r"(^|[^a-zA-Z])(id|ID|Id|uuid|index|key|unnamed: 0|Unnamed: 0)$|[a-z](Id|ID)$")


class Unique(NamedTuple):
    """Range of whole numbers that are all different, and how many pairs of them were compared."""

    low: float
    high: float
    pairs: float


def unique_columns(X: Any, names: Sequence[str], sample: int | None = _SAMPLE) -> dict[str, Unique]:
    """Find the columns whose values, in the first `sample` rows, are different whole numbers."""
    if issparse(X) or not len(X):
        return {}
    head = np.asarray(X[:_FIRST])
    found = {}
    for place in map(int, np.flatnonzero((head == np.rint(head)).all(axis=0))):
        if len(np.unique(head[:, place])) < len(head):
            continue
        values = np.asarray(X[:sample, place])
        if (values == np.rint(values)).all() and len(np.unique(values)) == len(values):
            whole = X[:, place]
            pairs = len(values) * (len(values) - 1) / 2
            found[names[place]] = Unique(float(whole.min()), float(whole.max()), pairs)
    return found


def merge_unique(parts: Iterable[Mapping[str, Unique]]) -> dict[str, Unique]:
    """Columns that are unique in every part."""
    rest = iter(parts)
    total = dict(next(rest, {}))  # no part at all: no rows
    for part in rest:
        total = {
            name: Unique(min(a.low, b.low), max(a.high, b.high), a.pairs + b.pairs)
            for name, a in total.items()
            if (b := part.get(name)) is not None
        }
    return total


def find_identifiers(found: Mapping[str, Unique], n_rows: int) -> list[str]:
    """Names of columns that are different in every row by design: by their range, or by name."""
    if n_rows < MIN_ROWS:
        return []
    return [
        name
        for name, (low, high, pairs) in found.items()
        # What is different in every batch may still come again: there must be room for all rows.
        if n_rows <= (room := high - low + 1.0)
        and (pairs / room >= _EXPECTED or _NAME.search(name))
    ]


def identifier_text(names: Sequence[str]) -> str:
    """Say that features are identifiers."""
    shown, many = ", ".join(map(repr, names)), len(names) > 1
    return (
        f"{'columns' if many else 'column'} {shown} {'have' if many else 'has'} another value in "
        "every row: that is an identifier, which says nothing about new rows. Leave it out of the "
        "features."
    )
