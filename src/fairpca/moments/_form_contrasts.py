"""From the cell table to contrasts: which groups face each other, in which stratum."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, groupby, product
from math import prod, sqrt
from numbers import Integral
from typing import Any

import numpy as np
from scipy.stats import f as f_distribution

from fairpca._present import levels_text
from fairpca.exceptions import (
    FairnessWarning,
    GroupsError,
    InvalidInputError,
    NestedAttributeWarning,
    SmallGroupWarning,
)
from fairpca.moments._cells import ROUNDING, Cell, FloatArray, mean_difference, merge
from fairpca.moments._table import CellTable, Key
from fairpca.moments.contrasts import Contrast, ContrastSet, GroupCovariances
from fairpca.rows import UNKNOWN_GROUP, Level
from fairpca.rows._pairs import check_compare, face

# A cross table with more combinations than this has its empty cells counted, not listed.
MAX_LISTED_CELLS = 1000
MAX_NAMED_IN_WARNING = 50
# Which groups are small; docs/design/small-groups.md has the measurements.
SMALL_SHARE = 0.1  # of the rows, of all small groups together
SMALL_GROUPS = f"less than {100 * SMALL_SHARE:.0f} % of the rows"
COVARIANCE_ROWS = 500  # from which on the covariance of a small group is compared
CHANCE = 0.05  # p-value below which means may differ by more than chance, if that costs little:
# p times the share of the variance along the gap, which is about what a comparison costs, is what
# chance may cost on average. Few rows have heavier tails than the test knows of.
COST, COST_OF_FEW, FEW = 0.002, 0.0002, 50
COMPARED = "compared"
_RANK = 1e-9  # smaller shares of the largest eigenvalue are rounding


def form_contrasts(
    table: CellTable,
    n_features: int,
    compare: str,
    joint: bool,
    reference: Any,
    min_group_size: int | None,
) -> ContrastSet:
    """Form every contrast that `GroupMoments.contrasts` describes; warnings are its notes."""
    levels = {
        name: tuple(level for level in table.levels(position) if level != UNKNOWN_GROUP)
        for position, name in enumerate(table.categorical)
    }
    references = check_compare(levels, compare, reference)
    _check_attributes(table, levels, min_group_size)
    builder = _Builder(min_group_size)
    joint = joint and len(levels) > 1
    keys = (key[: len(levels)] for key in table.cells)
    present = dict.fromkeys(key for key in keys if UNKNOWN_GROUP not in key)
    for stratum, cells in strata_of(table):
        for position, (name, choices) in enumerate(levels.items()):
            groups = groups_of(cells, position)
            inside = [level for (level,) in groups]
            small, kept = builder.find_small(groups)
            for plus, minus in face(compare, references.get(name), choices, inside):
                negative = None if minus is None else (minus,)
                among = kept if minus is None and (plus,) in kept else groups
                builder.compare((name,), stratum, among, (plus,), negative, small)
        known = {key: cell for key, cell in cells.items() if UNKNOWN_GROUP not in key}
        small, kept = builder.find_small(known) if joint else (set(), {})
        for key in present if joint else ():
            among = kept if key in kept else known
            builder.compare(table.categorical, stratum, among, key, None, small)
        for position, name in enumerate(table.numeric):
            builder.correlate(name, stratum, position, merge(list(cells.values())))
    if joint:
        _record_empty_cells(builder, table, levels, present)
    compared = set()
    for contrast in builder.contrasts:
        for gap in (contrast.mean_gap, contrast.cov_gap):
            if gap is not None:
                gap.flags.writeable = False
                compared.add(contrast.attribute)
        if contrast.n_positive and contrast.n_negative:  # a note says why it is not compared
            compared.add(contrast.attribute)
    for name in table.attributes:
        if name not in compared:  # it would go unprotected in silence
            raise GroupsError(
                f"sensitive_features column {name!r} cannot be compared in any stratum of "
                f"{list(table.controls)}: every stratum holds only one of its values. Use coarser "
                "control_features.",
                parameter="sensitive_features",
            )
    notes = list(_nesting_notes(table, levels)) if len(levels) > 1 else []
    if builder.small:
        notes.append(builder.note())
    return ContrastSet(tuple(builder.contrasts), n_features, tuple(notes))


@dataclass(eq=False)
class _Builder:
    """Collects contrasts, and what is too small to compare, while they are formed."""

    min_group_size: int | None
    contrasts: list[Contrast] = field(default_factory=list)
    small: dict[str, str] = field(default_factory=dict)

    def compare(
        self,
        names: Sequence[str],
        stratum: str | None,
        groups: Mapping[Key, Cell],
        positive: Key,
        negative: Key | None,
        small: Container[Key] = (),
    ) -> None:
        """Record the contrast of two groups, by their levels of `names`; None is all others."""
        plus, label = groups.get(positive), " × ".join(map(str, positive))
        if negative is None:
            others = [cell for key, cell in groups.items() if key != positive]
            minus, other = merge(others) if others else None, "rest"
            facing = [key for key in groups if key != positive]
        else:
            facing = [negative]
            minus, other = groups.get(negative), " × ".join(map(str, negative))
        n_plus, n_minus = (0 if side is None else side.n_rows for side in (plus, minus))
        mean_gap = cov_gap = None
        status = "not compared: empty"
        if plus is not None and minus is not None:
            is_small = positive in small or all(key in small for key in facing)
            is_small = is_small and self.min_group_size is None
            needed = COVARIANCE_ROWS if is_small else self.min_group_size or 2
            if is_small and not differ_beyond_chance(plus, minus):
                status = "not compared: small group, no difference beyond chance"
            else:
                status, mean_gap = COMPARED, mean_difference(plus, minus)
                if min(n_plus, n_minus) < needed:
                    small_words = "small group, " if is_small else ""
                    status = f"mean only: {small_words}fewer than {needed} rows"
            if status == COMPARED:
                cov_gap = plus.covariance - minus.covariance
        if status != COMPARED:
            least = self.min_group_size or min(n_plus, n_minus) + 1
            chance = (
                ", no difference beyond chance" if n_plus and n_minus and mean_gap is None else ""
            )
            if n_plus < least:
                self._note(levels_text(names, positive), stratum, n_plus, chance)
            if n_minus < least:
                name = f"all but {levels_text(names, positive)}" if negative is None else ""
                self._note(name or levels_text(names, negative or ()), stratum, n_minus, chance)
        gaps = (n_plus, n_minus, mean_gap, cov_gap, status, (plus, minus))
        self.contrasts.append(Contrast(" × ".join(names), label, other, stratum, *gaps))

    def find_small(self, groups: Mapping[Key, Cell]) -> tuple[set[Key], Mapping[Key, Cell]]:
        """Return small groups, and all groups but the small ones that do not differ from the rest.

        A constraint costs a direction, however small the difference that it removes: in the rest
        of another group, a few random rows would turn its mean gap, which is one more to give up.
        """
        small, total = set[Key](), 0
        if self.min_group_size is not None:
            return small, groups
        # A group is small where all that are no larger hold less than a tenth of the rows. So an
        # attribute of many groups of a few rows, such as ages, is not left out one by one.
        sizes = {key: cell.n_rows for key, cell in groups.items()}
        for size, keys in groupby(sorted(sizes, key=sizes.__getitem__), sizes.__getitem__):
            ties = list(keys)
            total += size * len(ties)
            if total < SMALL_SHARE * sum(sizes.values()):
                small.update(ties)
        kept = dict(groups)
        for key in small if len(groups) > 2 else ():
            rest = merge([other for level, other in groups.items() if level != key])
            if not differ_beyond_chance(groups[key], rest):
                del kept[key]
        return small, kept if len(kept) > 1 else groups

    def correlate(self, attribute: str, stratum: str | None, position: int, cell: Cell) -> None:
        """Record how the features move with one numeric attribute."""
        mean_gap: FloatArray | None = None
        cov_gap: FloatArray | None = None
        deviation = numeric_deviation(cell, position)
        status = "not compared: constant"
        if deviation > 0:
            mean_gap = cell.cross[position] / cell.weight / deviation
            status = f"mean only: fewer than {self.min_group_size or 2} rows"
            if cell.n_rows >= (self.min_group_size or 2):
                cov_gap = cell.third[position] / cell.weight / deviation
                status = COMPARED
        if status != COMPARED:
            self._note(attribute, stratum, cell.n_rows if deviation > 0 else "constant")
        gaps = (cell.n_rows, 0, mean_gap, cov_gap, status, (cell, None))
        self.contrasts.append(Contrast(attribute, "numeric", "", stratum, *gaps))

    def _note(self, name: str, stratum: str | None, reason: int | str, more: str = "") -> None:
        if not isinstance(reason, str):
            reason = {0: "no rows", 1: "1 row"}.get(reason, f"{reason} rows")
        self.small[name if stratum is None else f"{name} in {stratum}"] = reason + more

    def note(self) -> FairnessWarning:
        """Return what is said of sides that are too small."""
        named = [f"{name} ({reason})" for name, reason in self.small.items()]
        if len(named) > MAX_NAMED_IN_WARNING:
            left = len(named) - MAX_NAMED_IN_WARNING
            named = [*named[:MAX_NAMED_IN_WARNING], f"and {left} more (see the contrasts)"]
        rule = f"A group is small where it and all smaller ones hold {SMALL_GROUPS}"
        if self.min_group_size is not None:
            rule = f"Covariances are compared from {self.min_group_size} rows on"
        return SmallGroupWarning(
            f"Too small to be compared in full: {'; '.join(named)}. Too few rows: only the means "
            "are compared; no rows, a constant or no difference beyond chance: nothing is. "
            f"{rule}. Merge small groups or use coarser strata to compare them.",
            settings=[("min_group_size", 2)] if self.min_group_size is None else (),
        )


def differ_beyond_chance(plus: Cell, minus: Cell) -> bool:
    """Whether means differ by more than chance, so that a group of random rows costs little."""
    p_value, share = mean_test(plus, minus)
    few = min(plus.n_rows, minus.n_rows) < FEW
    return p_value < CHANCE and p_value * share < (COST_OF_FEW if few else COST)


def mean_test(plus: Cell, minus: Cell) -> tuple[float, float]:
    """Return the p-value of Hotelling's T² of two means, and the share of variance along the gap.

    With fewer rows than features there is no test, and p is 0.
    """
    # The covariance is that of all rows, since a small group has none of its own to rely on.
    whole = merge([plus, minus])
    if whole.n_rows - 2 < len(whole.mean):
        return 0.0, 1.0
    deviation = np.sqrt(np.diag(whole.covariance))
    scale = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 0.0)
    values, vectors = np.linalg.eigh(whole.covariance * np.outer(scale, scale))
    kept = values > _RANK * values[-1]
    rank = int(np.count_nonzero(kept))
    free = whole.n_rows - 1 - rank
    gap = mean_difference(plus, minus)
    square = float(gap @ gap)
    if not rank or not square:
        return float(rank > 0), 1.0
    share = float(gap @ whole.covariance @ gap) / square / float(np.trace(whole.covariance))
    scores = (gap * scale) @ vectors[:, kept]
    # Share of the scatter, along the best direction, that lies between the two sides.
    weight = plus.weight * minus.weight / whole.weight**2
    between = weight * float(scores**2 @ (1.0 / values[kept]))
    ratio = between / max(1.0 - between, _RANK) * free / rank
    return float(f_distribution.sf(ratio, rank, free)), share


def numeric_deviation(cell: Cell, position: int) -> float:
    """Return the standard deviation of a numeric attribute, zero where it is only rounding."""
    deviation = sqrt(max(float(cell.z_scatter[position]) / cell.weight, 0.0))
    return deviation if deviation > ROUNDING * abs(float(cell.z_mean[position])) else 0.0


def _check_attributes(
    table: CellTable, levels: Mapping[str, Sequence[Level]], min_group_size: Any
) -> None:
    """Refuse attributes with nothing to compare anywhere, and groups of one row."""
    if min_group_size is not None and (
        not isinstance(min_group_size, Integral) or min_group_size < 2
    ):
        raise InvalidInputError(
            f"min_group_size={min_group_size!r}: give a whole number of at least 2, since a single "
            "row has no covariance, or None.",
            parameter="min_group_size",
        )
    if not table.cells:
        raise GroupsError("the moments hold no rows: nothing can be compared.")
    n_rows = sum(cell.n_rows for cell in table.cells.values())
    for name, choices in levels.items():
        if len(choices) == 1:
            raise GroupsError(
                f"sensitive_features column {name!r} has a single group: {choices[0]!r} in all "
                f"{n_rows} rows. Two groups are needed; leave the column out or add rows.",
                parameter="sensitive_features",
            )
    whole = merge(list(table.cells.values())) if table.numeric else None
    for position, name in enumerate(table.numeric):
        if whole is not None and numeric_deviation(whole, position) == 0:
            raise GroupsError(
                f"sensitive_features column {name!r} is numeric and constant "
                f"({whole.z_mean[position]:g} in all {n_rows} rows): leave it out or add rows.",
                parameter="sensitive_features",
            )


def strata_of(table: CellTable) -> Iterator[tuple[str | None, dict[Key, Cell]]]:
    """Yield the name of each stratum and its cells, by the levels of the attributes alone."""
    width = len(table.categorical)
    strata: dict[Key, dict[Key, Cell]] = {}
    for key, cell in table.cells.items():
        strata.setdefault(key[width:], {})[key[:width]] = cell
    places = [table.levels(width + index).index for index in range(len(table.controls))]
    for levels in sorted(
        strata, key=lambda levels: [f(v) for f, v in zip(places, levels, strict=True)]
    ):
        yield levels_text(table.controls, levels) if levels else None, strata[levels]


def groups_of(cells: Mapping[Key, Cell], position: int) -> dict[Key, Cell]:
    """Merge the cells of a stratum by their level of one attribute, where it is known."""
    gathered: dict[Key, list[Cell]] = {}
    for key, cell in cells.items():
        if key[position] == UNKNOWN_GROUP:
            continue
        gathered.setdefault((key[position],), []).append(cell)
    return {level: merge(parts) for level, parts in gathered.items()}


def _record_empty_cells(
    builder: _Builder,
    table: CellTable,
    levels: Mapping[str, Sequence[Level]],
    present: Collection[Key],
) -> None:
    """Say which intersections no row belongs to."""
    names = table.categorical
    total = prod(len(choices) for choices in levels.values())
    empty = total - len(present)
    if empty and total > MAX_LISTED_CELLS:
        builder.small[f"{empty} of {total} cells of {' × '.join(names)}"] = "no rows"
        return
    everyone: dict[Key, Cell] = {(): merge(list(table.cells.values()))}
    for key in product(*levels.values()):
        if key not in present:
            builder.compare(names, None, everyone, key, None)


def _nesting_notes(
    table: CellTable, levels: Mapping[str, Sequence[Level]]
) -> Iterator[FairnessWarning]:
    """Say which attributes are determined by another one, in one note."""
    nested = []
    for (first, one), (second, other) in combinations(enumerate(levels), 2):
        keys = ((key[first], key[second]) for key in table.cells)
        pairs = {key for key in keys if UNKNOWN_GROUP not in key}
        first_decides = len(pairs) == len(levels[one])
        second_decides = len(pairs) == len(levels[other])
        if first_decides and second_decides:
            nested.append(f"{one!r} and {other!r} name the same groups")
        elif first_decides:
            nested.append(f"{one!r} determines {other!r}")
        elif second_decides:
            nested.append(f"{other!r} determines {one!r}")
    if nested:
        message = f"Nested sensitive_features: {'; '.join(nested)}. Their contrasts overlap."
        yield NestedAttributeWarning(message)


def group_covariances(table: CellTable, n_features: int, *, joint: bool) -> GroupCovariances:
    """Gather the levels of every attribute, or the cells of their cross table, in every stratum."""
    entries: list[tuple[str, str, str | None, Cell]] = []
    names = table.categorical
    for stratum, cells in strata_of(table):
        if joint and len(names) > 1:
            attribute = " × ".join(names)
            entries += [
                (attribute, " × ".join(map(str, key)), stratum, cell)
                for key, cell in cells.items()
                if UNKNOWN_GROUP not in key
            ]
            continue
        for position, attribute in enumerate(names):
            groups = groups_of(cells, position)
            entries += [
                (attribute, str(level), stratum, groups[level,])
                for level in table.levels(position)
                if (level,) in groups
            ]
        if not names:
            entries.append(("", "all rows", stratum, merge(list(cells.values()))))
    attributes, labels, strata, parts = zip(*entries, strict=True)
    covariances = np.array([cell.covariance for cell in parts])
    n_rows = tuple(cell.n_rows for cell in parts)
    shape = (len(parts), n_features, n_features)
    return GroupCovariances(attributes, labels, strata, n_rows, covariances.reshape(shape))
