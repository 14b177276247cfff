"""How many components a share of the variance needs, and how many there is room for."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral

import numpy as np

from fairpca.solvers._problem import FairProblem, reduce_problem

_NO_VARIANCE = 1e-12  # of the total: rounding


def count_components(problem: FairProblem, asked: float | None) -> int:
    """Return the number of components: as asked, or for a share, or all that there is room for.

    Room is what varies without a difference of group means.
    """
    if isinstance(asked, Integral):
        return int(asked)
    mean_tol = None if problem.mean_tol is None else 0.0
    equal = replace(problem, n_components=1, mean_tol=mean_tol, cov_tol=None, cov_weight=0.0)
    reduced = reduce_problem(equal)
    left = np.linalg.eigvalsh(reduced.S) * reduced.scale
    values = np.maximum(np.linalg.eigvalsh(problem.covariance)[::-1], 0.0)
    room = max(int(np.count_nonzero(left > _NO_VARIANCE * values.sum())), 1)
    if asked is None or not values.any():
        return room
    held = np.cumsum(values) / values.sum()
    return min(int(np.searchsorted(held, asked)) + 1, room)
