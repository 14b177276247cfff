"""A limit on the number of groups, which tells a group from an identifier passed by mistake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fairpca._choices import MAX_CELLS
from fairpca.exceptions import GroupsError

if TYPE_CHECKING:
    from fairpca.rows.groups import Groups


def check_cells(parts: Sequence[Groups | None], limit: int = MAX_CELLS) -> None:
    """Refuse groups with more distinct combinations than a table of moments should hold."""
    columns = [column for part in parts if part is not None for column in part.categorical]
    for column in columns:
        if len(column.levels) > limit:
            raise too_many_cells({column.name: len(column.levels)}, limit)
    if np.prod([float(len(column.levels)) for column in columns], initial=1.0) <= limit:
        return
    seen = len(np.unique(np.column_stack([column.codes for column in columns]), axis=0))
    if seen > limit:
        raise too_many_cells({column.name: len(column.levels) for column in columns}, limit)


def too_many_cells(levels: Mapping[str, int], limit: int) -> GroupsError:
    """Say that there are too many groups; `levels` counts the distinct values of each column."""
    worst = max(levels, key=levels.__getitem__)
    if levels[worst] > limit:
        found = f"column {worst!r} has more than {limit} distinct values"
    else:
        counts = ", ".join(f"{name!r}: {count}" for name, count in levels.items())
        found = f"the group columns have more than {limit} distinct combinations ({counts})"
    return GroupsError(
        f"{found}: that is an identifier rather than a group. Leave the column out, put its values "
        "into classes, name it in numeric if it is a number, or raise max_cells (each combination "
        "holds a matrix of features × features).",
        parameter="sensitive_features",
    )
