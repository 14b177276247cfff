"""How much an audit measures, and how long that takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import exp, log
from typing import Any

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


ALL_ORTHANTS = 3  # components up to which every orthant is tried
# In-sample: family, method, whether a permutation repeats a costly fit, and its seconds for n rows.
STATISTICS: tuple[tuple[str, str, bool, Callable[[int, int], float]], ...] = (
    ("linear", "svm", False, lambda n, d: 4e-8 * n * (d + 1)),
    ("linear", "search", True, lambda n, d: 4e-3 * (d - 1) * (1.0 + 2e-3 * n)),
    ("rbf", "svm", True, lambda n, d: 0.02 + 2e-7 * n**2),
    ("cdf", "search", False, lambda n, d: (2**d if d <= ALL_ORTHANTS else 3) * (4e-4 + 7e-7 * n)),
)
_UNLIKE = 4.0  # what a kind of steps says of another is cut to this factor


def seconds_left(
    remaining: Iterable[tuple[str, float, Any]],
    planned: Mapping[str, float],
    taken: Mapping[str, float],
) -> float:
    """Return how long steps will take, by what those of their kind took, or all others so far."""
    paces = {kind: taken[kind] / planned[kind] for kind in planned if planned[kind]}
    # A kind that takes ten times as long as planned (a linear SVM without a direction is replaced
    # by a search) says little of the others; the machine's pace is in the middle of them all.
    known = [log(min(max(pace, 1.0 / _UNLIKE), _UNLIKE)) for pace in paces.values()]
    pace = exp(sum(known) / (1 + len(known)))  # one more that is as planned
    return sum(expected * paces.get(kind, pace) for kind, expected, _ in remaining)
