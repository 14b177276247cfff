"""A limit on the number of groups, which tells a group from an identifier passed by mistake."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairpca._groups import Groups
from fairpca.exceptions import GroupsError
from fairpca.moments import GroupMoments

MAX_CELLS = 1000
"""Distinct combinations of groups that a pass accepts unless told otherwise."""


def check_cells(parts: Sequence[Groups], limit: int) -> None:
    """Refuse groups with more distinct combinations than a table of moments should hold.

    Parameters
    ----------
    parts : sequence of Groups
        Encoded columns of the same rows.
    limit : int
        The largest number of combinations allowed.

    Examples
    --------
    >>> from fairpca._groups import encode_groups
    >>> from fairpca.estimators._limits import check_cells
    >>> check_cells([encode_groups(["a", "b", "c"], n_rows=3)], limit=2)
    Traceback (most recent call last):
    fairpca.exceptions.GroupsError: column 'sensitive_feature' has more than 2 distinct values: ...
    """
    columns = [column for part in parts for column in part.categorical]
    for column in columns:
        if len(column.levels) > limit:
            raise too_many_cells({column.name: len(column.levels)}, limit)
    if np.prod([float(len(column.levels)) for column in columns], initial=1.0) <= limit:
        return
    seen = len(np.unique(np.column_stack([column.codes for column in columns]), axis=0))
    if seen > limit:
        raise too_many_cells({column.name: len(column.levels) for column in columns}, limit)


def too_many_cells(levels: dict[str, int], limit: int) -> GroupsError:
    """Say that there are too many groups, and which column has most of them.

    Parameters
    ----------
    levels : dict
        Number of distinct values seen, by column.
    limit : int
        The largest number of combinations allowed.

    Returns
    -------
    GroupsError
        The error to raise.
    """
    worst = max(levels, key=levels.__getitem__)
    if levels[worst] > limit:
        found = f"column {worst!r} has more than {limit} distinct values"
    else:
        counts = ", ".join(f"{name!r}: {count}" for name, count in levels.items())
        found = f"the group columns have more than {limit} distinct combinations ({counts})"
    return GroupsError(
        f"{found}: that is an identifier rather than a group. Leave the column out, put its values "
        "into classes, name it in numeric if it is a number, or raise max_cells (each combination "
        "holds a matrix of features × features)."
    )


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
