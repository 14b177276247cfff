"""The methods that are compared, as bases of standardised training rows."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpca.exceptions import InfeasibleError
from fairpca.experiments._protocol import cov_weight_from_paper
from fairpca.moments import GroupMoments
from fairpca.solvers import FairProblem, Solution, solve

METHODS = ("pca", "mean", "both", "refined_gap", "refined_zero")
LABELS = {
    "pca": "PCA",
    "mean": "mean constraint",
    "both": "both, paper's SDP",
    "refined_gap": "refined, same covariance gap",
    "refined_zero": "refined, cov_tol = 0",
    "calmon": "Calmon et al.",
    "fsvm": "fair SVM",
}


def fit_bases(
    X: NDArray[np.float64],
    z: NDArray[np.intp],
    n_components: int,
    *,
    mu: float,
    methods: Sequence[str] = METHODS,
) -> dict[str, dict[str, Any]]:
    """Fit all methods on the same rows.

    Parameters
    ----------
    X, z : ndarray
        Standardised training rows and their protected label.
    n_components : int
        Number of components.
    mu : float
        The paper's μ for "both".
    methods : sequence of str
        Names out of `METHODS`, "both" before "refined_gap".

    Returns
    -------
    dict of dict
        For each method: basis (lists, for JSON), variance in percent, cov_gap, mean_gap,
        cov_tol, converged and seconds.
    """
    moments = GroupMoments.from_arrays(X, z)
    problem = FairProblem.from_moments(moments, 1)
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


def _describe(solution: Solution, problem: FairProblem, tolerance: float | None) -> dict[str, Any]:
    basis, covariance, certificate = solution.basis, problem.covariance, solution.certificate
    return {
        "basis": basis.tolist(),
        "variance": 100.0 * float(np.sum(basis * (covariance @ basis)) / np.trace(covariance)),
        "cov_gap": certificate.cov_gap,
        "mean_gap": certificate.mean_gap,
        "cov_tol": tolerance,
        "converged": certificate.converged,
    }


def representation(rows: Any, basis: Any, *, scale_by: Any = None) -> NDArray[np.float64]:
    """Project rows and scale each component to unit variance.

    Parameters
    ----------
    rows : ndarray of shape (n, p)
        Standardised rows.
    basis : list or ndarray of shape (p, d)
        Orthonormal columns.
    scale_by : ndarray, default=None
        Rows whose projection gives the scale; None: the rows themselves, as the authors do.

    Returns
    -------
    ndarray of shape (n, d)
        Component scores.
    """
    V = np.asarray(basis)
    U = rows @ V
    deviation = (U if scale_by is None else scale_by @ V).std(axis=0)
    return U / np.where(deviation > 1e-12, deviation, 1.0)
