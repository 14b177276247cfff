"""What one part of a pass has found, and how the parts are put together."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fairpca.distributed._plan import Plan
from fairpca.estimators._limits import add_moments
from fairpca.exceptions import DroppedRowsWarning, InvalidInputError
from fairpca.moments import GroupMoments
from fairpca.moments._cells import Cell

Levels = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, eq=False)
class Partial:
    """The moments of some rows, and what was met on the way.

    Parameters
    ----------
    moments : GroupMoments or None
        Sums of the complete rows; None where nothing was summed.
    levels : mapping
        Values of each categorical feature seen so far, sorted; they name the last features.
    n_rows : int
        Rows read.
    incomplete : int
        Rows with a missing value.
    missing : mapping
        Number of missing values by column.
    """

    moments: GroupMoments | None = None
    levels: Levels = field(default_factory=dict)
    n_rows: int = 0
    incomplete: int = 0
    missing: Mapping[str, int] = field(default_factory=dict)


def indicator_names(levels: Levels) -> list[str]:
    """Names of the indicator features.

    Parameters
    ----------
    levels : mapping
        Values by column.

    Returns
    -------
    list of str
        ``column=value`` for each.

    Examples
    --------
    >>> from fairpca.distributed._partial import indicator_names
    >>> indicator_names({"colour": ("blue", "red")})
    ['colour=blue', 'colour=red']
    """
    return [f"{name}={level}" for name, values in levels.items() for level in values]


def merge_partials(parts: Sequence[Partial], plan: Plan) -> Partial:
    """Put parts together, from left to right.

    Parameters
    ----------
    parts : sequence of Partial
        At least one.
    plan : Plan
        The plan of the pass.

    Returns
    -------
    Partial
        All of them. An indicator feature that a part does not know was zero in all its rows.
    """
    levels = {
        name: tuple(sorted(set().union(*(part.levels.get(name, ()) for part in parts))))
        for name in plan.categorical
    }
    for name, values in levels.items():
        if len(values) > plan.max_levels:
            raise too_many_levels(name, plan.max_levels)
    names = [*plan.features, *indicator_names(levels)]
    _check_distinct(names)
    aligned = [_align(part.moments, names) for part in parts if part.moments is not None]
    missing: dict[str, int] = {}
    for part in parts:
        for name, count in part.missing.items():
            missing[name] = missing.get(name, 0) + count
    return Partial(
        moments=add_moments(aligned, plan.max_cells) if aligned else None,
        levels=levels,
        n_rows=sum(part.n_rows for part in parts),
        incomplete=sum(part.incomplete for part in parts),
        missing=missing,
    )


def _check_distinct(names: Sequence[str]) -> None:
    """Refuse an indicator that is called like another feature: their sums would be mixed up."""
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise InvalidInputError(
            f"the indicators of the categorical columns give two features the name {twice[0]!r}: "
            "rename a column."
        )


def too_many_levels(name: str, limit: int) -> InvalidInputError:
    """Say that a categorical feature has too many values.

    Parameters
    ----------
    name : str
        The column.
    limit : int
        Values allowed.

    Returns
    -------
    InvalidInputError
        The error to raise.
    """
    return InvalidInputError(
        f"categorical column {name!r} has more than {limit} distinct values, each of which would "
        "become a feature: leave it out, put its values into classes, or raise max_levels."
    )


def _align(moments: GroupMoments, names: list[str]) -> GroupMoments:
    """Give the moments all features in `names`; those they lack have been zero in every row."""
    if moments.feature_names == tuple(names):
        return moments
    place = {name: index for index, name in enumerate(names)}
    index = np.array([place[name] for name in moments.feature_names or ()], dtype=np.intp)
    cells = {key: _spread(cell, index, len(names)) for key, cell in moments.table.cells.items()}
    return GroupMoments(len(names), tuple(names), replace(moments.table, cells=cells))


def _spread(cell: Cell, index: Any, p: int) -> Cell:
    """Move the features of a cell to the places `index` among `p`, zero elsewhere."""
    m = len(cell.z_mean)
    mean, rest, cross = np.zeros(p), np.zeros(p), np.zeros((m, p))
    scatter, third = np.zeros((p, p)), np.zeros((m, p, p))
    mean[index], rest[index], cross[:, index] = cell.mean, cell.mean_rest, cell.cross
    block = np.ix_(index, index)
    scatter[block] = cell.scatter
    for position in range(m):
        third[position][block] = cell.third[position]
    return replace(cell, mean=mean, mean_rest=rest, scatter=scatter, cross=cross, third=third)


def finish(total: Partial, plan: Plan, *, named: bool = True) -> GroupMoments:
    """Turn the sum of a pass into moments, or say why there are none.

    Parameters
    ----------
    total : Partial
        Everything that was read.
    plan : Plan
        The plan of the pass.
    named : bool, default True
        Whether the features keep their names.

    Returns
    -------
    GroupMoments
        The moments of all rows.
    """
    if total.missing:
        counts = ", ".join(f"{name!r} {count:,}" for name, count in total.missing.items())
        found = (
            f"{total.incomplete:,} of {total.n_rows:,} rows have missing values "
            f"(by column: {counts})"
        )
        if plan.missing == "error":
            raise InvalidInputError(
                f"{found}: fill them in, leave the columns out, or use missing='drop-rows'."
            )
        warnings.warn(f"{found} and were left out.", DroppedRowsWarning, stacklevel=3)
    if total.moments is None or not total.moments.table.cells:
        raise InvalidInputError(
            f"no row can be used ({total.n_rows:,} read): every row is incomplete or of weight "
            "zero, or there are none."
        )
    return total.moments if named else replace(total.moments, feature_names=None)
