"""Moments in a line, and as a table for notebooks: who was summed, not the sums."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairpca._html import html_table
from fairpca.rows import Level

if TYPE_CHECKING:
    from fairpca.moments.group_moments import GroupMoments

_IN_A_LINE, _IN_A_TABLE, _FEATURES = 5, 60, 20


def in_words(moments: GroupMoments) -> list[str]:
    """Rows and features, then each attribute with its groups."""
    parts = [f"{moments.n_samples} rows, {moments.n_features} features"]
    for name in moments.categorical_attributes:
        counts = [f"{level!r} {count}" for level, count in moments.counts(name).items()]
        more = f", … ({len(counts)} groups)" if len(counts) > _IN_A_LINE else ""
        parts.append(f"{name}: {', '.join(counts[:_IN_A_LINE])}{more}")
    parts += [f"{name}: numeric" for name in moments.numeric_attributes]
    return parts + ([f"strata: {', '.join(moments.controls)}"] if moments.controls else [])


def as_html(moments: GroupMoments) -> str:
    """Tabulate the groups and strata with their rows."""
    rows: list[tuple[str, Level | None, int]] = []
    for name in moments.categorical_attributes + moments.controls:
        rows += [(name, level, count) for level, count in moments.counts(name).items()]
    rows += [(name, None, moments.n_samples) for name in moments.numeric_attributes]
    title = f"Moments of {moments.n_samples} rows and {moments.n_features} features"
    names = ", ".join((moments.feature_names or ())[:_FEATURES])
    note = names and f"features: {names}{', …' if moments.n_features > _FEATURES else ''}"
    return html_table(rows[:_IN_A_TABLE], head=("column", "group", "rows"), title=title, note=note)
