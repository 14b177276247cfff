"""What the user asks to have compared, checked against what the table holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from fairpca._choices import COMPARE
from fairpca.exceptions import GroupsError, InvalidInputError
from fairpca.moments._table import Table
from fairpca.rows import Level


@dataclass(frozen=True, eq=False)
class Question:
    """Checked options of `GroupMoments.contrasts`.

    Parameters
    ----------
    compare : str
        One of `COMPARE`.
    joint : bool
        Whether the intersections are compared too.
    references : mapping
        Reference level of each categorical attribute; empty unless `compare` is "reference".
    min_group_size : int
        Rows that a side needs for a covariance.
    """

    compare: str
    joint: bool
    references: Mapping[str, Level]
    min_group_size: int


def check_question(
    table: Table, compare: str, joint: bool, reference: Any, min_group_size: int
) -> Question:
    """Check the options."""
    if compare not in COMPARE:
        raise InvalidInputError(
            f"compare={compare!r} is unknown: use one of {list(COMPARE)}.", parameter="compare"
        )
    if not isinstance(min_group_size, Integral) or min_group_size < 2:
        raise InvalidInputError(
            f"min_group_size={min_group_size!r}: give a whole number of at least 2, since a single "
            "row has no covariance.",
            parameter="min_group_size",
        )
    if compare != "reference":
        if reference is not None:
            raise InvalidInputError(
                f"reference={reference!r} has no meaning with compare={compare!r}: "
                "use compare='reference'.",
                parameter="reference",
            )
        return Question(compare, bool(joint), {}, int(min_group_size))
    references = _check_references(table, reference)
    return Question(compare, bool(joint), references, int(min_group_size))


def _check_references(table: Table, reference: Any) -> dict[str, Level]:
    """Find the reference level of every categorical attribute."""
    names = table.categorical
    if not isinstance(reference, Mapping):
        if len(names) > 1:
            raise GroupsError(
                f"reference={reference!r} does not say which attribute it belongs to: give a "
                f"dictionary with a level for each of {list(names)}.",
                parameter="reference",
            )
        reference = dict.fromkeys(names, reference)
    unknown = [name for name in reference if name not in names]
    if unknown:
        raise GroupsError(
            f"reference names {unknown}, but the categorical attributes are {list(names)}.",
            parameter="reference",
        )
    return {
        name: _find_level(name, reference.get(name), table.levels(position))
        for position, name in enumerate(names)
    }


def _find_level(name: str, wanted: Any, levels: Sequence[Level]) -> Level:
    if wanted is None:
        raise GroupsError(
            f"compare='reference' needs the reference group of {name!r}: one of {list(levels)}.",
            parameter="compare",
        )
    for level in levels:
        if level == wanted:
            return level
    # A command line or a column name can only say "1" where the data hold 1.
    for level in levels:
        if str(level) == str(wanted):
            return level
    raise GroupsError(
        f"reference={wanted!r} is not a level of {name!r}: use one of {list(levels)}.",
        parameter="reference",
    )
