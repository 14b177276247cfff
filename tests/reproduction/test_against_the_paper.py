"""On the paper's 15 data sets: more variance than its SDP at the same covariance gap."""

import numpy as np
import pytest
from support import problem_from_rows, standardized_uci

from fairpca.solvers import solve
from reproduction.datasets import UCI

PAPER_MU = 0.01


def variance_share(solution, problem):
    V, S = solution.basis, problem.covariance
    return float(np.trace(V.T @ S @ V) / np.trace(S))


def paper_and_refined(name, d):
    X, z = standardized_uci(name)
    # The paper's μ belongs to a covariance divided by the norm of the standardised data.
    penalised = problem_from_rows(X, z, d, cov_weight=PAPER_MU * np.sqrt(X.size))
    paper = solve(penalised, "paper")
    held = problem_from_rows(X, z, d, cov_tol=paper.certificate.cov_gap)
    refined = solve(held, certify=False)
    assert refined.certificate.cov_gap <= paper.certificate.cov_gap * (1 + 1e-6)
    return variance_share(paper, penalised), variance_share(refined, held)


SAMPLE = ("biodeg", "energy", "pima_diabetes")


@pytest.mark.parametrize("d", [2, 5])
@pytest.mark.parametrize(
    "name", [name if name in SAMPLE else pytest.param(name, marks=pytest.mark.slow) for name in UCI]
)
def test_refined_keeps_at_least_the_variance_of_the_sdp(name, d):
    paper, refined = paper_and_refined(name, d)
    assert refined >= paper - 1e-9


def test_wine_quality():
    paper, refined = paper_and_refined("wine_quality", 2)
    assert paper == pytest.approx(0.105, abs=0.01)
    assert refined >= 0.31


@pytest.mark.parametrize("name", ["wine_quality", "german_credit", "adult"])
def test_certified_within_one_percent(name):
    X, z = standardized_uci(name)
    certificate = solve(problem_from_rows(X, z, 2)).certificate
    assert certificate.bound_solved
    assert 0.0 <= certificate.gap <= 0.01
