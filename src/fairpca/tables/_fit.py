"""A fit from moments without an estimator of scikit-learn, for engines that have their own."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from fairpca._choices import OBJECTIVES, SOLVERS
from fairpca._models import ModelFile
from fairpca.exceptions import FairnessWarning, InvalidInputError
from fairpca.moments import GroupMoments
from fairpca.solvers import FairProblem, Solution, solve, solve_worst
from fairpca.solvers._problem import count_components
from fairpca.solvers._solve import check_covariance_terms, check_objective
from fairpca.tables._roles import check_choice


def fit_state(moments: GroupMoments, settings: dict[str, Any]) -> ModelFile:
    """Fit from moments, without an estimator of scikit-learn; return what a model file holds."""
    whole, standardize = moments.expanded(), settings["standardize"]
    scaling = moments.standardization(famd=standardize == "famd") if standardize else None
    scaled = whole if scaling is None else whole.standardized(scaling)
    names = ("compare", "joint", "reference", "min_group_size")
    contrasts = scaled.contrasts(*(settings[name] for name in names))
    _, mean, covariance = scaled.pooled()
    prices = {name: settings[name] for name in ("mean_tol", "cov_weight", "cov_tol")}
    problem = FairProblem.from_contrasts(covariance, contrasts, 1, **prices)
    count = count_components(problem, settings["n_components"])
    problem = replace(problem, n_components=count)
    solution = _solve(scaled, problem, settings)
    basis, certificate = solution.basis, solution.certificate
    variance = np.maximum(np.sum(basis * (covariance @ basis), axis=0), 0.0)
    state = {
        "components_": np.ascontiguousarray(basis.T),
        "n_components_": count,
        "mean_": mean if scaling is None else scaling.mean,
        "scale_": None if scaling is None else scaling.scale,
        "explained_variance_": variance,
        "explained_variance_ratio_": variance / (float(np.trace(covariance)) or 1.0),
        "certificate_": certificate,
        "mean_gap_": certificate.mean_gap,
        "cov_gap_": certificate.cov_gap,
        "contrasts_": dict(contrasts.as_table(basis)),
        "n_iter_": max(solution.n_iter, 1),
        "n_features_in_": whole.n_features,
        "feature_names_in_": np.array(whole.feature_names, dtype=object),
        "moments_": whole,
    }
    return ModelFile("FairPCA", settings, state)


def _solve(moments: GroupMoments, problem: FairProblem, settings: dict[str, Any]) -> Solution:
    """Solve for all rows, or for the worst-served of the groups that are large enough."""
    options = {name: settings[name] for name in ("certify", "tol", "max_iter")}
    objective, solver = settings["objective"], settings["solver"]
    if objective == OBJECTIVES[0]:
        solution = solve(problem, solver, cov_shift=settings["cov_shift"], **options)
    else:
        groups = moments.group_covariances(settings["joint"])
        counted = [i for i, n in enumerate(groups.n_rows) if n >= settings["min_group_size"]]
        best = groups.best(problem.n_components)[counted]
        offsets = best if objective == "worst-loss" else np.zeros(len(counted))
        served = (groups.covariances[counted], offsets, objective)
        solution = solve_worst(problem, *served, **options)
    if not solution.status.converged:
        warnings.warn(f"solver={solver!r} {solution.status.message}", FairnessWarning, stacklevel=5)
    return solution


def check_settings(settings: dict[str, Any]) -> None:
    """Refuse what `fairpca.FairPCA` refuses."""
    check_choice("solver", settings["solver"], SOLVERS)
    check_choice("objective", settings["objective"], OBJECTIVES)
    count = settings["n_components"]
    if count is not None and count <= 0:
        raise InvalidInputError(
            f"n_components={count}: give 1 or more, or a share below 1.", parameter="n_components"
        )
    check_covariance_terms(settings["cov_weight"], settings["cov_tol"])
    check_objective(settings["objective"], settings["solver"])
