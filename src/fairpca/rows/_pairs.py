"""Who faces whom: the rule that contrasts and pairs share, and the pairs of groups themselves."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairpca._choices import COMPARE
from fairpca.exceptions import GroupsError, InvalidInputError, SmallGroupWarning, warn_user
from fairpca.rows._containers import no_groups_error
from fairpca.rows.groups import Attribute, Level, combine

if TYPE_CHECKING:
    from fairpca.rows.rows import Rows

# An attribute of more values gives thousands of pairs, and is rarely a group.
MAX_LEVELS = {"pairs": 50, "one-vs-rest": 1000, "reference": 1000}
MIN_ROWS = 2
REST = "rest"
UNKNOWN_GROUP = "(unknown)"


def check_compare(
    levels: Mapping[str, Sequence[Level]], compare: str, reference: Any
) -> dict[str, Level]:
    """Return the reference level of each attribute; none unless `compare` is "reference"."""
    if compare not in COMPARE:
        raise InvalidInputError(
            f"compare={compare!r} is unknown: use one of {list(COMPARE)}.", parameter="compare"
        )
    if compare != "reference":
        if reference is not None:
            raise InvalidInputError(
                f"reference={reference!r} has no meaning with compare={compare!r}: "
                "use compare='reference'.",
                parameter="reference",
            )
        return {}
    names = list(levels)
    if not isinstance(reference, Mapping):
        if len(names) > 1:
            raise GroupsError(
                f"reference={reference!r} does not say which attribute it belongs to: give a "
                f"dictionary with a level for each of {names}.",
                parameter="reference",
            )
        reference = dict.fromkeys(names, reference)
    unknown = [name for name in reference if name not in names]
    if unknown:
        raise GroupsError(
            f"reference names {unknown}, but the categorical attributes are {names}.",
            parameter="reference",
        )
    return {name: _find_level(name, reference.get(name), levels[name]) for name in names}


def _find_level(name: str, wanted: Any, levels: Sequence[Level]) -> Level:
    if wanted is None:
        raise GroupsError(
            f"compare='reference' needs the reference group of {name!r}: one of {list(levels)}.",
            parameter="compare",
        )
    if wanted in levels:
        return levels[levels.index(wanted)]
    for level in levels:  # a command line can only say "1" where the data hold 1
        if str(level) == str(wanted):
            return level
    raise GroupsError(
        f"reference={wanted!r} is not a level of {name!r}: use one of {list(levels)}.",
        parameter="reference",
    )


def face(
    compare: str, reference: Level | None, levels: Sequence[Level], present: Collection[Level]
) -> list[tuple[Level, Level | None]]:
    """List the level on each side, positive first; None is the rest of those present."""
    if compare == "reference" and reference is not None:
        return [(level, reference) for level in levels if level != reference]
    if compare == "pairs" or len(levels) == 2:
        return [(second, first) for first, second in combinations(levels, 2)]
    inside = [level for level in levels if level in present]
    if len(inside) == 2:
        # Of two groups one contrast says it all; the other would repeat it with the sign changed.
        absent = [(level, None) for level in levels if level not in present]
        return [(inside[1], inside[0]), *absent]
    return [(level, None) for level in levels]


@dataclass(frozen=True, eq=False)
class Pair:
    """Two groups of one attribute: codes of its rows, and which codes are the second, the first."""

    attribute: str
    groups: tuple[Level, Level]
    codes: NDArray[np.intp]  # below zero: on neither side
    plus: int
    minus: int | None  # None: all that are not `plus`

    @property
    def signs(self) -> NDArray[np.int8]:
        """+1 for rows of the second group, −1 for those of the first, 0 for others."""
        signs = np.full(len(self.codes), -1 if self.minus is None else 0, dtype=np.int8)
        if self.minus is not None:
            signs[self.codes == self.minus] = -1
        signs[self.codes == self.plus] = 1
        signs[self.codes < 0] = 0
        return signs


@dataclass(frozen=True, eq=False)
class Stratum:
    """Rows that are compared among themselves, the (column, level) pairs that name them, pairs."""

    name: tuple[tuple[str, Level], ...]
    rows: Rows
    pairs: tuple[Pair, ...]


def form_pairs(
    rows: Rows, *, compare: str, joint: bool, reference: Any, strict: bool
) -> tuple[Stratum, ...]:
    """Pair the groups of every attribute in every stratum; `Rows.pairs` says how."""
    if rows.groups is None:
        raise no_groups_error("X")
    attributes = rows.groups.labelled()
    references = check_compare({a.name: a.levels for a in attributes}, compare, reference)
    for attribute in attributes:
        _check_attribute(attribute, compare, strict)
    ways = [(attribute, compare, references.get(attribute.name)) for attribute in attributes]
    if joint and len(attributes) > 1:
        ways.append((intersection(attributes), "one-vs-rest", None))
    strata = []
    for name, index in _strata(rows):
        inside = rows if index is None else rows.take(index)
        where = " where " + ", ".join(f"{key}={value!r}" for key, value in name) if name else ""
        pairs: list[Pair] = []
        for attribute, how, level in ways:
            if index is not None:
                attribute = replace(attribute, codes=attribute.codes[index])
            pairs += _pairs_of(attribute, how, level, where if strict else "")
        if pairs:
            strata.append(Stratum(name, inside, tuple(pairs)))
    if not strata:
        where = "No stratum of control_features holds" if rows.strata else "There are not"
        raise GroupsError(
            f"{where} two groups of at least {MIN_ROWS} rows each to compare: "
            "use fewer control features, bin them more coarsely, or merge small groups."
        )
    return tuple(strata)


def intersection(columns: Sequence[Attribute]) -> Attribute:
    """Make the cross table of several attributes an attribute."""
    member = combine(columns)
    _, first = np.unique(member, return_index=True)
    levels = [" × ".join(str(c.levels[c.codes[row]]) for c in columns) for row in first]
    return Attribute(" × ".join(column.name for column in columns), tuple(levels), member)


def known_rows(column: Attribute) -> NDArray[np.bool_]:
    """Return which rows have a group that is not `UNKNOWN_GROUP`."""
    levels = column.levels
    code = levels.index(UNKNOWN_GROUP) if UNKNOWN_GROUP in levels else -1
    return np.asarray(column.codes != code)


def _check_attribute(attribute: Attribute, compare: str, strict: bool) -> None:
    """Refuse attributes that cannot be compared on any rows."""
    counts = np.bincount(attribute.codes, minlength=len(attribute.levels))
    present = int((counts > 0).sum())
    if present < 2:
        advice = "Check that it is the right column."
        if len(attribute.levels) > 1:
            advice = "sample_weight is zero for every row of the others."
        raise GroupsError(
            f"Attribute {attribute.name!r} has one group only: at least two are compared. {advice}",
            parameter="sensitive_features",
        )
    if present > MAX_LEVELS[compare]:
        other = ", or use compare='one-vs-rest'" if compare == "pairs" else ""
        raise GroupsError(
            f"Attribute {attribute.name!r} has {present} groups, more than {MAX_LEVELS[compare]}: "
            f"bin or merge its values first{other}.",
            parameter="sensitive_features",
        )
    single = np.flatnonzero((counts > 0) & (counts < MIN_ROWS))
    if strict and len(single):
        raise GroupsError(
            f"Group {attribute.levels[single[0]]!r} of attribute {attribute.name!r} has one row: "
            "a group needs at least two. Merge it with another group or drop it."
        )


def _strata(
    rows: Rows,
) -> Iterator[tuple[tuple[tuple[str, Level], ...], NDArray[np.intp] | None]]:
    """Yield the name and the rows of each stratum; None stands for all rows."""
    if rows.strata is None:
        yield (), None
        return
    columns = rows.strata.categorical
    member = combine(columns)
    _, first = np.unique(member, return_index=True)
    for number, row in enumerate(first):
        name = tuple((c.name, c.levels[c.codes[row]]) for c in columns)
        yield name, np.flatnonzero(member == number)


def _pairs_of(
    attribute: Attribute, compare: str, reference: Level | None, where: str
) -> Iterator[Pair]:
    """Pair the groups that have enough rows; say which have not."""
    levels, codes = attribute.levels, attribute.codes
    counts = np.bincount(codes, minlength=len(levels))
    for code in np.flatnonzero(counts < MIN_ROWS) if where else ():
        warn_user(
            f"Group {levels[code]!r} of attribute {attribute.name!r} has {counts[code]} rows"
            f"{where}: it is not compared there.",
            SmallGroupWarning,
        )
    place = {level: code for code, level in enumerate(levels)}
    present = [level for level, count in zip(levels, counts, strict=True) if count]
    for positive, negative in face(compare, reference, levels, present):
        plus, minus = place[positive], None if negative is None else place[negative]
        others = len(codes) - counts[plus] if minus is None else counts[minus]
        if min(counts[plus], others) >= MIN_ROWS:
            sides = (REST if negative is None else negative, positive)
            yield Pair(attribute.name, sides, codes, plus, minus)
