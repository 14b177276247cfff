"""What is maximised: the variance of all rows, or how the worst-served group is served."""

from __future__ import annotations

import warnings

import numpy as np

from fairpca.exceptions import GroupsError, InvalidInputError, SmallGroupWarning


def groups_of(model, moments):
    """Return the groups of moments, of which the worst-served one counts."""
    if model.solver != "refined":
        raise InvalidInputError(
            f"solver={model.solver!r} knows objective='total' only: use solver='refined' for "
            f"objective={model.objective!r}.",
            parameter="solver",
        )
    if moments.attributes and not moments.categorical_attributes:
        raise GroupsError(
            f"objective={model.objective!r} is about groups, but all sensitive_features are "
            "numbers: bin one of them, or use objective='total'.",
            parameter="objective",
        )
    return moments.group_covariances(model.joint)


def solve_for(model, problem, groups, padding):
    """Solve, and say how each group is served; nothing varies in the last `padding` directions."""
    if groups is None:
        return model._solve(problem), None
    best = groups.best(problem.n_components)
    weights: list[float | None] = [None] * len(groups)
    if model.objective == "total":
        solution = model._solve(problem)
    else:
        counted = _large_enough(model, groups)
        covariances = groups.covariances[counted]
        if padding:
            covariances = np.pad(covariances, ((0, 0), (0, padding), (0, padding)))
        offsets = best[counted] if model.objective == "worst-loss" else np.zeros(len(counted))
        solution = model._solve(problem, (covariances, offsets))
        for place, weight in zip(counted, solution.weights, strict=True):
            weights[place] = float(weight)
    table = groups.as_table(solution.basis[: groups.covariances.shape[1]], best)
    return solution, {**table, "weight": weights}


def _large_enough(model, groups):
    """Return the places of groups with enough rows, and name the others in a warning."""
    least = model.min_group_size
    counted = [place for place, n_rows in enumerate(groups.n_rows) if n_rows >= least]
    if not counted:
        raise GroupsError(
            f"no group has min_group_size={least} rows, so none can be served: lower "
            "min_group_size or merge groups.",
            parameter="min_group_size",
        )
    small = [
        f"{groups.label(place)} ({n_rows})"
        for place, n_rows in enumerate(groups.n_rows)
        if n_rows < least
    ]
    if small:
        warnings.warn(
            f"objective={model.objective!r} does not count groups with fewer than "
            f"min_group_size={least} rows: {', '.join(small)}.",
            SmallGroupWarning,
            stacklevel=5,
        )
    return counted
