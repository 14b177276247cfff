"""Objectives about the worst group: what each group keeps, and which groups count."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fairpca.exceptions import GroupsError, SmallGroupWarning, warn_user
from fairpca.moments import GroupCovariances, GroupMoments
from fairpca.solvers import FairProblem, Solution


def solve_groups(
    model: Any, problem: FairProblem, moments: GroupMoments, padding: int
) -> tuple[Solution, dict[str, list[Any]]]:
    """Solve, and tabulate what each group keeps; the last `padding` directions are constant."""
    groups = moments.group_covariances(model.joint)
    best = groups.best(problem.n_components)
    weights: dict[int, float] = {}
    if model.objective == "total":  # plain PCA next to a model with another objective
        solution = model._solve(problem)
    else:
        counted = large_groups(model, moments, groups)
        covariances = groups.covariances[counted]
        if padding:
            covariances = np.pad(covariances, ((0, 0), (0, padding), (0, padding)))
        offsets = best[counted] if model.objective == "worst-loss" else None
        problem = replace(problem, group_covariances=covariances, group_offsets=offsets)
        solution = model._solve(problem)
        assert solution.weights is not None
        weights = dict(zip(counted, solution.weights.tolist(), strict=True))
    table = groups.as_table(solution.basis[: groups.covariances.shape[1]], best)
    return solution, {**table, "weight": [weights.get(i) for i in range(len(groups))]}


def large_groups(model: Any, moments: GroupMoments, groups: GroupCovariances) -> list[int]:
    """Return the positions of groups with enough rows, and name the others in a warning."""
    if moments.attributes and not moments.categorical_attributes:
        raise GroupsError(
            f"objective={model.objective!r} is about groups, but all sensitive_features are "
            "numbers: bin one of them, or use objective='total'.",
            parameter="objective",
        )
    least, sizes = model.min_group_size or 2, groups.n_rows
    counted = [place for place, n_rows in enumerate(sizes) if n_rows >= least]
    if not counted:
        raise GroupsError(
            f"no group has min_group_size={least} rows: lower min_group_size or merge groups.",
            parameter="min_group_size",
        )
    if len(counted) < len(groups):
        small = [f"{groups.label(i)} ({n})" for i, n in enumerate(sizes) if n < least]
        warn_user(
            f"objective={model.objective!r} does not count groups with fewer than "
            f"min_group_size={least} rows: {', '.join(small)}.",
            SmallGroupWarning,
        )
    return counted
