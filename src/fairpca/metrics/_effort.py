"""How much an audit measures, and how long that takes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fairpca._choices import EFFORTS
from fairpca.exceptions import InvalidInputError


@dataclass(frozen=True)
class Effort:
    """Sizes and counts of an audit."""

    name: str
    rows: int  # drawn, halved and measured
    trained: int  # rows that an adversary is trained on at most
    repeats: int  # times that rows are halved
    null_rows: int  # drawn for in-sample values; searches and kernel SVMs take a quarter
    permutations: int
    slow_permutations: int  # of statistics that repeat a costly fit

    def shared(self, n_pairs: int) -> Effort:
        """Take fewer rows for each of many pairs of groups, all of which are measured.

        Kernel SVMs take the square of their rows, so that all pairs take as long as a few.
        """
        ratio = min(1.0, (_FULL_PAIRS / max(n_pairs, 1)) ** 0.5)
        trained, null_rows = (max(_FEWEST, int(ratio * n)) for n in (self.trained, self.null_rows))
        return replace(self, trained=trained, null_rows=null_rows)

    def text(self, n_pairs: int, n_adversaries: int) -> str:
        """Say how much was measured."""
        return (
            f"effort {self.name}: {n_pairs} pair{'s'[: n_pairs > 1]} of groups, {n_adversaries} "
            f"adversaries trained on at most {self.trained:,} rows each, {self.repeats} × 2 halves"
        )


_FULL_PAIRS = 2  # pairs of groups up to which the rows of the table are taken
_FEWEST = 300
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
