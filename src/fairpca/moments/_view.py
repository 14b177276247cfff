"""Who was summed, not the sums: names and counts of moments, in a line and as a table."""

from __future__ import annotations

from fairpca._present import html_table
from fairpca.exceptions import GroupsError
from fairpca.moments._table import Table
from fairpca.rows import Level

_IN_A_LINE, _IN_A_TABLE, _FEATURES = 5, 60, 20


class MomentsReprMixin:
    """Names, levels and counts of the rows behind moments."""

    n_features: int
    feature_names: tuple[str, ...] | None
    table: Table

    def __repr__(self) -> str:
        return f"GroupMoments({'; '.join(_in_words(self))})"

    def _repr_html_(self) -> str:
        return _as_html(self)

    def counts(self, name: str) -> dict[Level, int]:
        """Rows of each level of a categorical attribute or control, by its name.

        Examples
        --------
        >>> import numpy as np
        >>> from fairpca import GroupMoments
        >>> GroupMoments.from_arrays(np.eye(3), ["a", "b", "a"])
        GroupMoments(3 rows, 3 features; sensitive_feature: 'a' 2, 'b' 1)
        >>> GroupMoments.from_arrays(np.eye(3), ["a", "b", "a"]).counts("sensitive_feature")
        {'a': 2, 'b': 1}
        """
        counts = dict.fromkeys(self.levels(name), 0)
        position = self.table.key_names.index(name)
        for key, cell in self.table.cells.items():
            counts[key[position]] += cell.n_rows
        return counts

    @property
    def attributes(self) -> tuple[str, ...]:
        """Names of the protected attributes, in the order of their columns."""
        return self.table.attributes

    @property
    def categorical_attributes(self) -> tuple[str, ...]:
        """Names of the attributes that name groups."""
        return self.table.categorical

    @property
    def numeric_attributes(self) -> tuple[str, ...]:
        """Names of the attributes that are numbers."""
        return self.table.numeric

    @property
    def controls(self) -> tuple[str, ...]:
        """Names of the control columns."""
        return self.table.controls

    @property
    def n_samples(self) -> int:
        """Number of rows with a positive weight."""
        return self.table.n_rows

    @property
    def weight(self) -> float:
        """Sum of the weights."""
        return float(sum(cell.weight for cell in self.table.cells.values()))

    def levels(self, name: str) -> tuple[Level, ...]:
        """Levels of a categorical attribute or control, by its name, that occur, sorted."""
        if name not in self.table.key_names:
            raise GroupsError(
                f"{name!r} is not a column with groups: those are {list(self.table.key_names)}."
            )
        return self.table.levels(self.table.key_names.index(name))


def _in_words(moments: MomentsReprMixin) -> list[str]:
    """Rows and features, then each attribute with its groups."""
    parts = [f"{moments.n_samples} rows, {moments.n_features} features"]
    for name in moments.categorical_attributes:
        counts = [f"{level!r} {count}" for level, count in moments.counts(name).items()]
        more = f", … ({len(counts)} groups)" if len(counts) > _IN_A_LINE else ""
        parts.append(f"{name}: {', '.join(counts[:_IN_A_LINE])}{more}")
    parts += [f"{name}: numeric" for name in moments.numeric_attributes]
    return parts + ([f"strata: {', '.join(moments.controls)}"] if moments.controls else [])


def _as_html(moments: MomentsReprMixin) -> str:
    """Tabulate the groups and strata with their rows."""
    rows: list[tuple[str, Level | None, int]] = []
    for name in moments.categorical_attributes + moments.controls:
        rows += [(name, level, count) for level, count in moments.counts(name).items()]
    rows += [(name, None, moments.n_samples) for name in moments.numeric_attributes]
    title = f"Moments of {moments.n_samples} rows and {moments.n_features} features"
    names = ", ".join((moments.feature_names or ())[:_FEATURES])
    note = names and f"features: {names}{', …' if moments.n_features > _FEATURES else ''}"
    return html_table(rows[:_IN_A_TABLE], head=("column", "group", "rows"), title=title, note=note)
