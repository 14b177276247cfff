"""Moments added up, with a limit on the number of their cells."""

from __future__ import annotations

from collections.abc import Sequence

from fairpca.moments import GroupMoments
from fairpca.rows import MAX_CELLS, check_cells, too_many_cells

__all__ = ["MAX_CELLS", "add_moments", "check_cells", "too_many_cells"]


def add_moments(parts: Sequence[GroupMoments], limit: int = MAX_CELLS) -> GroupMoments:
    """Merge moments from left to right, with a limit on the number of cells.

    Parameters
    ----------
    parts : sequence of GroupMoments
        At least one.
    limit : int, default MAX_CELLS
        The largest number of cells.

    Returns
    -------
    GroupMoments
        Their sum.
    """
    total = parts[0]
    for part in parts[1:]:
        total = total + part
        if len(total.table.cells) > limit:
            names = total.table.key_names
            raise too_many_cells({name: len(total.levels(name)) for name in names}, limit)
    return total
