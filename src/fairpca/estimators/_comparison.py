"""A fit next to plain PCA of the same rows, and copies of it on held-out rows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from fairpca.estimators._fair_pca import FairPCA
from fairpca.estimators._sparse_fair_pca import SparseFairPCA
from fairpca.exceptions import FairnessWarning, GroupsError, InvalidInputError
from fairpca.moments import (
    FoldedMoments,
    GapStatistics,
    GroupMoments,
    Standardization,
    gap_statistics,
)


def fit_with_plain(
    model: FairPCA,
    moments: GroupMoments,
    on_problem_size: Callable[[int, int], None] | None = None,
) -> FairPCA:
    """Fit a model; return plain PCA with the gaps of the same contrasts.

    `on_problem_size` is called with the numbers of components and contrasts before the solve.
    """
    model._validate_params()
    model._fit_moments(moments, on_problem_size=on_problem_size)
    unfair: dict[str, Any] = {"mean_tol": None, "cov_weight": 0.0, "cov_tol": None}
    unfair |= {"objective": "total", "rotation": None, "solver": "refined"}
    shared = {name: getattr(model, name) for name in FairPCA().get_params()}
    plain = FairPCA(**{**shared, **unfair, "n_components": model.n_components_})
    with _silent():
        return plain._fit_moments(moments, tabulate=model.objective != "total")


def held_out_statistics(model: FairPCA, folded: FoldedMoments) -> list[GapStatistics]:
    """Fit copies of a model to all folds but one, and measure each on that one."""
    contrasts = (model.compare, model.joint, model.reference, model.min_group_size)
    options = {"n_components": getattr(model, "n_components_", model.n_components), "verbose": 0}
    if "certify" in model.get_params():
        options["certify"] = False
    if hasattr(model, "path_components_"):  # the chosen point of the path
        options["n_nonzero"] = model.path_["n_nonzero"][model.path_["chosen"].index(True)]
    measured = []
    for number, (train, test) in enumerate(folded.splits, start=1):
        fair = clone(model).set_params(**options)
        with _silent():
            try:
                fair.fit_moments(train)
            except GroupsError as error:
                where = f"without the rows of fold {number} of {len(folded.folds)}: {error}"
                raise GroupsError(where, parameter="folds") from error
            if fair.scale_ is not None:
                test = test.standardized(Standardization(fair.mean_, fair.scale_))
            statistics = gap_statistics(test, fair.components_, *contrasts)
            if isinstance(fair, SparseFairPCA):
                statistics = statistics._replace(variance=fair.explained_share(test))
            measured.append(statistics)
    return measured


@contextmanager
def _silent() -> Iterator[None]:
    """Ignore warnings about data: the fit to all rows has warned."""
    with warnings.catch_warnings():
        for category in (FairnessWarning, ConvergenceWarning):
            warnings.simplefilter("ignore", category)
        yield


def held_out_summary(model: FairPCA, folded: FoldedMoments) -> dict[str, float] | None:
    """Return means and deviations over the folds; None if a fold does not allow a fit."""
    try:
        means = held_out_means(held_out_statistics(model, folded))
    except InvalidInputError:  # too few different rows, a group in one fold only
        return None
    summary: dict[str, float] = {"folds": len(folded.folds)}
    for name, (mean, deviation) in means.items():
        summary |= {name: mean, f"{name}_std": deviation}
    return summary


def held_out_means(measured: Sequence[GapStatistics]) -> dict[str, tuple[float, float]]:
    """Mean and deviation over folds; infinite if no fold has two groups to compare."""
    summary = {}
    for name in GapStatistics._fields:
        known = [value for one in measured if (value := getattr(one, name)) is not None]
        if not known or math.inf in known:
            summary[name] = (math.inf, 0.0)
        else:
            summary[name] = (float(np.mean(known)), float(np.std(known)))
    return summary
