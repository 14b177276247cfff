"""Which groups are too small to be compared; docs/design/small-groups.md has the measurements.

A constraint costs a direction, however small the difference that it removes. A group of a few
random rows would cost points of variance for nothing, so a small group is compared where its means
differ by more than chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

import numpy as np
from scipy.stats import f as f_distribution

from fairpca.moments._cells import Cell, mean_difference, merge
from fairpca.moments._table import Key

SMALL_SHARE = 0.1  # of the rows, of all small groups together
COVARIANCE_ROWS = 500  # from which on the covariance of a small group is compared
CHANCE = 0.0001  # p-value below which means differ by more than chance
COMPARED = "compared"
_ROUNDING = 1e-9


def small_groups(groups: Mapping[Key, Cell]) -> frozenset[Key]:
    """Return groups that, with all that are no larger, hold less than a tenth of the rows.

    So an attribute of many groups of a few rows, such as ages, is not left out one by one.
    """
    limit = SMALL_SHARE * sum(cell.n_rows for cell in groups.values())
    small, total = set[Key](), 0
    for _, ties in groupby(
        sorted(groups, key=lambda k: groups[k].n_rows), lambda k: groups[k].n_rows
    ):
        keys = list(ties)
        total += sum(groups[key].n_rows for key in keys)
        if total < limit:
            small.update(keys)
    return frozenset(small)


def comparison_status(plus: Cell, minus: Cell, min_group_size: int | None, *, small: bool) -> str:
    """Say what is compared of two sides; the rule of the module is for a side that is small."""
    least = min(plus.n_rows, minus.n_rows)
    needed = 2 if min_group_size is None else min_group_size
    if min_group_size is None and small:
        if not differ_beyond_chance(plus, minus):
            return "not compared: no difference beyond chance"
        needed = COVARIANCE_ROWS
    return COMPARED if least >= needed else f"mean only: fewer than {needed} rows"


def differ_beyond_chance(plus: Cell, minus: Cell) -> bool:
    """Whether Hotelling's T² of two means exceeds what a random choice of rows has.

    The covariance is that of all rows, since a small group has none of its own to rely on. With
    fewer rows than features there is no test, and the groups count as different.
    """
    whole = merge([plus, minus])
    if whole.n_rows - 2 < len(whole.mean):
        return True
    deviation = np.sqrt(np.diag(whole.covariance))
    scale = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 0.0)
    values, vectors = np.linalg.eigh(whole.covariance * np.outer(scale, scale))
    kept = values > _ROUNDING * values[-1]
    rank = int(np.count_nonzero(kept))
    free = whole.n_rows - 1 - rank
    if not rank:
        return True
    gap = (mean_difference(plus, minus) * scale) @ vectors[:, kept]
    # Share of the scatter, along the best direction, that lies between the two sides.
    between = plus.weight * minus.weight / whole.weight**2 * float(gap**2 @ (1.0 / values[kept]))
    ratio = between / max(1.0 - between, _ROUNDING) * free / rank
    return bool(f_distribution.sf(ratio, rank, free) < CHANCE)
