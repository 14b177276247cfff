"""How much an audit measures: sizes and counts, the same on every machine."""

from __future__ import annotations

from dataclasses import dataclass

from fairpca._choices import EFFORTS
from fairpca.exceptions import InvalidInputError


@dataclass(frozen=True)
class Effort:
    """Sizes and counts of an audit."""

    name: str
    rows: int  # drawn, halved and measured
    trained: int  # rows that an adversary is trained on at most
    repeats: int  # times that rows are halved
    null_rows: int  # drawn for in-sample values; kernel SVMs and searches take half of them
    permutations: int
    slow_permutations: int  # of statistics that repeat a costly fit


_TABLE = (
    Effort("quick", 4_000, 1_500, 1, 800, 99, 19),
    Effort("standard", 12_000, 3_000, 2, 2_000, 199, 19),
    Effort("thorough", 40_000, 6_000, 5, 4_000, 999, 99),
)


def effort_of(name: str) -> Effort:
    """Return the row of the table that has this name."""
    for effort in _TABLE:
        if effort.name == name:
            return effort
    raise InvalidInputError(f"effort must be one of {EFFORTS}, not {name!r}.", parameter="effort")
