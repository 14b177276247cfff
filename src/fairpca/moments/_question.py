"""What the user asks to have compared, checked against what the table holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from fairpca.exceptions import InvalidInputError
from fairpca.moments._table import Table
from fairpca.rows import Level, check_compare


@dataclass(frozen=True, eq=False)
class Question:
    """Checked options of `GroupMoments.contrasts`."""

    compare: str
    joint: bool
    references: Mapping[str, Level]
    min_group_size: int


def check_question(
    table: Table, compare: str, joint: bool, reference: Any, min_group_size: int
) -> Question:
    """Check the options."""
    levels = {name: table.levels(position) for position, name in enumerate(table.categorical)}
    references = check_compare(levels, compare, reference)
    if not isinstance(min_group_size, Integral) or min_group_size < 2:
        raise InvalidInputError(
            f"min_group_size={min_group_size!r}: give a whole number of at least 2, since a single "
            "row has no covariance.",
            parameter="min_group_size",
        )
    return Question(compare, bool(joint), references, int(min_group_size))
