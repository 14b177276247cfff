"""From the cell table to contrasts: which groups face each other, in which stratum."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from math import prod, sqrt
from numbers import Integral
from typing import Any

from fairpca.exceptions import (
    GroupsError,
    InvalidInputError,
    NestedAttributeWarning,
    SmallGroupWarning,
)
from fairpca.moments._cells import ROUNDING, Cell, FloatArray, mean_difference, merge
from fairpca.moments._table import Key, Table
from fairpca.moments.contrasts import Contrast, ContrastSet, Note
from fairpca.rows import Level
from fairpca.rows._pairs import check_compare, face

# A cross table with more combinations than this has its empty cells counted, not listed.
MAX_LISTED_CELLS = 1000
MAX_NAMED_IN_WARNING = 50


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
    """Check what the user asks to have compared against what the table holds."""
    levels = {name: table.levels(position) for position, name in enumerate(table.categorical)}
    references = check_compare(levels, compare, reference)
    if not isinstance(min_group_size, Integral) or min_group_size < 2:
        raise InvalidInputError(
            f"min_group_size={min_group_size!r}: give a whole number of at least 2, since a single "
            "row has no covariance.",
            parameter="min_group_size",
        )
    return Question(compare, bool(joint), references, int(min_group_size))


@dataclass(frozen=True, eq=False)
class _Side:
    """One side of a contrast: its label, its name in a warning and its moments."""

    label: str
    name: str
    cell: Cell | None

    @property
    def n_rows(self) -> int:
        return 0 if self.cell is None else self.cell.n_rows


@dataclass(eq=False)
class _Builder:
    """Collects contrasts, and what is too small to compare, while they are formed."""

    min_group_size: int
    contrasts: list[Contrast] = field(default_factory=list)
    small: dict[str, str] = field(default_factory=dict)
    sides: list[tuple[Cell, Cell]] | None = None  # where they are wanted: what was compared in full

    def compare(self, attribute: str, stratum: str | None, plus: _Side, minus: _Side) -> None:
        """Record one contrast, as far as the sizes of its sides allow."""
        mean_gap: FloatArray | None = None
        cov_gap: FloatArray | None = None
        status = "not compared: empty"
        if plus.cell is not None and minus.cell is not None:
            mean_gap = mean_difference(plus.cell, minus.cell)
            status = self._mean_only
            if min(plus.n_rows, minus.n_rows) >= self.min_group_size:
                cov_gap = plus.cell.covariance - minus.cell.covariance
                status = "compared"
                if self.sides is not None:
                    self.sides.append((plus.cell, minus.cell))
        for side in (plus, minus):
            if side.n_rows < self.min_group_size:
                self._note(side.name, stratum, _count(side.n_rows))
        self._add(attribute, stratum, plus, minus, (mean_gap, cov_gap), status)

    def correlate(self, attribute: str, stratum: str | None, position: int, cell: Cell) -> None:
        """Record how the features move with one numeric attribute."""
        mean_gap: FloatArray | None = None
        cov_gap: FloatArray | None = None
        deviation = numeric_deviation(cell, position)
        status = "not compared: constant"
        if deviation > 0:
            mean_gap = cell.cross[position] / cell.weight / deviation
            status = self._mean_only
            if cell.n_rows >= self.min_group_size:
                cov_gap = cell.third[position] / cell.weight / deviation
                status = "compared"
        if status != "compared":
            self._note(attribute, stratum, _count(cell.n_rows) if deviation > 0 else "constant")
        sides = _Side("numeric", attribute, cell), _Side("", attribute, None)
        self._add(attribute, stratum, *sides, (mean_gap, cov_gap), status)

    @property
    def _mean_only(self) -> str:
        return f"mean only: fewer than {self.min_group_size} rows"

    def _note(self, name: str, stratum: str | None, reason: str) -> None:
        place = name if stratum is None else f"{name} in {stratum}"
        self.small[place] = reason

    def _add(
        self,
        attribute: str,
        stratum: str | None,
        plus: _Side,
        minus: _Side,
        gaps: tuple[FloatArray | None, FloatArray | None],
        status: str,
    ) -> None:
        for gap in gaps:
            if gap is not None:
                gap.flags.writeable = False
        sides = (plus.label, minus.label, stratum, plus.n_rows, minus.n_rows)
        self.contrasts.append(Contrast(attribute, *sides, *gaps, status))


def form_contrasts(
    table: Table,
    n_features: int,
    question: Question,
    sides: list[tuple[Cell, Cell]] | None = None,
) -> ContrastSet:
    """Form every contrast of a question; what needs saying is returned as notes."""
    # The groups that are compared in full are added to `sides`.
    _check_attributes(table)
    builder = _Builder(question.min_group_size, sides=sides)
    joint = question.joint and len(table.categorical) > 1
    for stratum, cells in _strata(table):
        for position, name in enumerate(table.categorical):
            groups = _groups(cells, position)
            reference = question.references.get(name)
            pairs = face(question.compare, reference, table.levels(position), groups)
            _compare_levels(builder, name, stratum, groups, pairs)
        if joint:
            _compare_cells(builder, table, stratum, cells)
        for position, name in enumerate(table.numeric):
            builder.correlate(name, stratum, position, merge(list(cells.values())))
    if joint:
        _record_empty_cells(builder, table)
    _check_each_compared(table, builder.contrasts)
    notes = (*_nesting_notes(table), *_small_notes(builder))
    return ContrastSet(tuple(builder.contrasts), n_features, notes)


def numeric_deviation(cell: Cell, position: int) -> float:
    """Return the standard deviation of a numeric attribute, zero where it is only rounding."""
    deviation = sqrt(max(float(cell.z_scatter[position]) / cell.weight, 0.0))
    return deviation if deviation > ROUNDING * abs(float(cell.z_mean[position])) else 0.0


def _check_attributes(table: Table) -> None:
    """Refuse attributes with nothing to compare anywhere."""
    if not table.cells:
        raise GroupsError("the moments hold no rows: nothing can be compared.")
    n_rows = sum(cell.n_rows for cell in table.cells.values())
    for position, name in enumerate(table.categorical):
        levels = table.levels(position)
        if len(levels) == 1:
            raise GroupsError(
                f"sensitive_features column {name!r} has a single group: {levels[0]!r} in all "
                f"{n_rows} rows. Two groups are needed; leave the column out or add rows.",
                parameter="sensitive_features",
            )
    whole = merge(list(table.cells.values()))
    for position, name in enumerate(table.numeric):
        if numeric_deviation(whole, position) == 0:
            raise GroupsError(
                f"sensitive_features column {name!r} is numeric and constant "
                f"({whole.z_mean[position]:g} in all {n_rows} rows): leave it out or add rows.",
                parameter="sensitive_features",
            )


def _check_each_compared(table: Table, contrasts: Sequence[Contrast]) -> None:
    """Refuse an attribute that no stratum can compare: it would go unprotected in silence."""
    compared = {contrast.attribute for contrast in contrasts if contrast.is_compared}
    for name in table.attributes:
        if name not in compared:
            raise GroupsError(
                f"sensitive_features column {name!r} cannot be compared in any stratum of "
                f"{list(table.controls)}: every stratum holds only one of its values. Use coarser "
                "control_features.",
                parameter="sensitive_features",
            )


def _strata(table: Table) -> Iterator[tuple[str | None, dict[Key, Cell]]]:
    """Yield the name of each stratum and its cells, by the levels of the attributes alone."""
    width = len(table.categorical)
    strata: dict[Key, dict[Key, Cell]] = {}
    for key, cell in table.cells.items():
        strata.setdefault(key[width:], {})[key[:width]] = cell
    places = [table.levels(width + index).index for index in range(len(table.controls))]
    for levels in sorted(
        strata, key=lambda levels: [f(v) for f, v in zip(places, levels, strict=True)]
    ):
        yield _name(table.controls, levels) or None, strata[levels]


def _name(columns: Sequence[str], levels: Sequence[Level]) -> str:
    return ", ".join(f"{name}={level}" for name, level in zip(columns, levels, strict=True))


def _groups(cells: Mapping[Key, Cell], position: int) -> dict[Level, Cell]:
    """Merge the cells of a stratum by their level of one attribute."""
    gathered: dict[Level, list[Cell]] = {}
    for key, cell in cells.items():
        gathered.setdefault(key[position], []).append(cell)
    return {level: merge(parts) for level, parts in gathered.items()}


def _compare_levels(
    builder: _Builder,
    name: str,
    stratum: str | None,
    groups: Mapping[Level, Cell],
    pairs: Sequence[tuple[Level, Level | None]],
) -> None:
    for positive, negative in pairs:
        plus = _Side(str(positive), f"{name}={positive}", groups.get(positive))
        if negative is None:
            minus = _rest(groups, positive, f"{name}={positive}")
        else:
            minus = _Side(str(negative), f"{name}={negative}", groups.get(negative))
        builder.compare(name, stratum, plus, minus)


def _rest(groups: Mapping[Level, Cell] | Mapping[Key, Cell], left_out: object, name: str) -> _Side:
    others = [cell for level, cell in groups.items() if level != left_out]
    return _Side("rest", f"all but {name}", merge(others) if others else None)


def _compare_cells(
    builder: _Builder, table: Table, stratum: str | None, cells: Mapping[Key, Cell]
) -> None:
    """Compare every intersection that occurs in the table with the rest of its stratum."""
    names = table.categorical
    for key in dict.fromkeys(key[: len(names)] for key in table.cells):
        name = _name(names, key)
        plus = _Side(" × ".join(map(str, key)), name, cells.get(key))
        builder.compare(" × ".join(names), stratum, plus, _rest(cells, key, name))


def _record_empty_cells(builder: _Builder, table: Table) -> None:
    """Say which intersections no row belongs to."""
    names = table.categorical
    levels = [table.levels(position) for position in range(len(names))]
    present = {key[: len(names)] for key in table.cells}
    total = prod(len(choices) for choices in levels)
    if total > MAX_LISTED_CELLS:
        if total > len(present):
            empty = total - len(present)
            builder.small[f"{empty} of {total} cells of {' × '.join(names)}"] = "no rows"
        return
    everyone = _Side("rest", "", merge(list(table.cells.values())))
    for key in product(*levels):
        if key not in present:
            plus = _Side(" × ".join(map(str, key)), _name(names, key), None)
            builder.compare(" × ".join(names), None, plus, everyone)


def _count(n_rows: int) -> str:
    return {0: "no rows", 1: "1 row"}.get(n_rows, f"{n_rows} rows")


def _small_notes(builder: _Builder) -> list[Note]:
    if not builder.small:
        return []
    named = [f"{name} ({reason})" for name, reason in builder.small.items()]
    if len(named) > MAX_NAMED_IN_WARNING:
        left = len(named) - MAX_NAMED_IN_WARNING
        named = [*named[:MAX_NAMED_IN_WARNING], f"and {left} more (see the contrasts)"]
    message = (
        f"Too small to be compared in full (min_group_size={builder.min_group_size}): "
        f"{'; '.join(named)}. Too few rows: only the means are compared; no rows, or a constant: "
        "nothing is. Merge small groups or use coarser strata to compare them."
    )
    return [Note(SmallGroupWarning, message)]


def _nesting_notes(table: Table) -> list[Note]:
    """Say which attributes are determined by another one, in one note."""
    found = []
    for first, second in combinations(range(len(table.categorical)), 2):
        names = table.categorical[first], table.categorical[second]
        pairs = {(key[first], key[second]) for key in table.cells}
        first_decides = len(pairs) == len(table.levels(first))
        second_decides = len(pairs) == len(table.levels(second))
        if first_decides and second_decides:
            found.append(f"{names[0]!r} and {names[1]!r} name the same groups")
        elif first_decides:
            found.append(f"{names[0]!r} determines {names[1]!r}")
        elif second_decides:
            found.append(f"{names[1]!r} determines {names[0]!r}")
    if not found:
        return []
    message = f"Nested sensitive_features: {'; '.join(found)}. Their contrasts overlap."
    return [Note(NestedAttributeWarning, message)]
