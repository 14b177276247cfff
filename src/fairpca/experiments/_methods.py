"""The methods that are compared: bases of standardised training rows, and mapped rows."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpca.baselines import CalmonPreprocessor
from fairpca.exceptions import InfeasibleError
from fairpca.experiments._protocol import Split, cov_weight_from_paper
from fairpca.moments import GroupMoments
from fairpca.solvers import FairProblem, Solution, solve

PAPER_METHODS = ("pca", "mean", "both")
METHODS = (*PAPER_METHODS, "refined_gap", "refined_zero")
"""In this order: the gap of "both" is what "refined_gap" is held to."""


def fit_bases(
    X: NDArray[np.float64],
    z: NDArray[np.intp],
    n_components: int,
    *,
    mu: float,
    methods: Sequence[str] = METHODS,
) -> dict[str, dict[str, Any]]:
    """Fit methods on standardised rows at the paper's μ; JSON values by method."""
    problem = FairProblem.from_moments(GroupMoments.from_arrays(X, z), 1)
    used = int(np.sum(np.diag(problem.covariance) > 0.5))
    problem = replace(problem, cov_weight=cov_weight_from_paper(mu, len(X), used))
    found: dict[str, dict[str, Any]] = {}
    for method in methods:
        start = time.perf_counter()
        # No more components than the features can give once the means are equal.
        size = min(n_components, X.shape[1] - (method != "pca"))
        solution, tolerance = _fit(method, replace(problem, n_components=size), found)
        found[method] = _describe(solution, problem, tolerance)
        found[method]["seconds"] = time.perf_counter() - start
    return found


def _fit(
    method: str, problem: FairProblem, found: Mapping[str, Mapping[str, Any]]
) -> tuple[Solution, float | None]:
    if method == "pca":
        return solve(replace(problem, mean_tol=None, cov_weight=0.0)), None
    if method == "mean":
        return solve(replace(problem, cov_weight=0.0)), None
    if method == "both":
        return solve_as_the_authors(problem), None
    # The SDP's own basis meets its gap up to rounding; so much slack keeps it feasible.
    tolerance = 0.0 if method == "refined_zero" else found["both"]["cov_gap"] * (1.0 + 1e-6)
    try:
        return solve(replace(problem, cov_tol=tolerance), certify=False), tolerance
    except InfeasibleError as error:
        if error.minimum is None:
            raise
        tolerance = error.minimum * (1.0 + 1e-6) + 1e-9
        return solve(replace(problem, cov_tol=tolerance), certify=False), tolerance


def solve_as_the_authors(problem: FairProblem) -> Solution:
    """Solve the paper's SDP with the choices of its released program: tr P = d, φ = ‖Q‖ + 0.5."""
    shift = max(float(np.linalg.norm(gap, 2)) for gap in problem.cov_gaps) + 0.5
    return solve(problem, "paper", cov_shift=shift, trace="equal", max_iter=20000)


def variance_share(basis: Any, covariance: Any) -> float:
    """Share of the variance that a basis keeps, in percent."""
    return 100.0 * float(np.sum(basis * (covariance @ basis)) / np.trace(covariance))


def _describe(solution: Solution, problem: FairProblem, tolerance: float | None) -> dict[str, Any]:
    certificate = solution.certificate
    return {
        "basis": solution.basis.tolist(),
        "variance": variance_share(solution.basis, problem.covariance),
        "cov_gap": certificate.cov_gap,
        "mean_gap": certificate.mean_gap,
        "cov_tol": tolerance,
        "converged": certificate.converged,
    }


def representation(rows: Any, basis: Any, *, scale_by: Any = None) -> NDArray[np.float64]:
    """Project rows and scale to unit variance: their own, as the authors do, or that of others."""
    V = np.asarray(basis)
    U = rows @ V
    deviation = (U if scale_by is None else scale_by @ V).std(axis=0)
    return U / np.where(deviation > 1e-12, deviation, 1.0)


@dataclass(frozen=True, eq=False)
class CalmonRows:
    """Mapped training rows with their mapped labels, mapped test rows, and the bound used."""

    train: NDArray[np.float64]
    labels: NDArray[Any]
    test: NDArray[np.float64]
    distortion_bound: float


def run_calmon(split: Split, seed: int) -> CalmonRows:
    """Optimised preprocessing with c = 0.1, or the smallest feasible c."""
    model = CalmonPreprocessor(random_state=seed)
    groups = {"sensitive_features": split.z_train}
    try:
        model.fit(split.train, split.y_train, **groups)
    except InfeasibleError as error:
        model.set_params(distortion_bound=error.minimum)
        model.fit(split.train, split.y_train, **groups)
    train, labels = model.transform_pairs(split.train, split.y_train, **groups)
    # Without their labels, which are not known when a classifier is used.
    test = model.transform(split.test, sensitive_features=split.z_test)
    return CalmonRows(train, labels, test, float(model.distortion_bound))
