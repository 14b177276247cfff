"""Random small problems through every solver: certificates, constraints, errors and time.

`run(tries, seed)` returns failures by class.
"""

import time
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import pytest
from fuzzing import TOO_LONG, ended_in_time

from fairpca.exceptions import InfeasibleError, InvalidInputError
from fairpca.solvers import SOLVERS, FairProblem, solve


@dataclass
class Case:
    """A problem and what the solvers made of it."""

    problem: FairProblem
    found: dict
    refused: dict


def make_problem(rng):
    """Rows of a few groups become a problem straight from the definitions."""
    n, p = int(rng.integers(8, 120)), int(rng.integers(1, 11))
    X = rng.normal(size=(n, p)) * 10.0 ** rng.uniform(-1, 1, p)
    attributes = [rng.integers(0, rng.integers(2, 5), n) for _ in range(rng.integers(1, 4))]
    for z in attributes:
        X = (
            X * (1.0 + rng.random((5, p)))[z]
            + rng.choice([0.0, 0.3, 2.0]) * rng.normal(size=(5, p))[z]
        )
    if rng.random() < 0.2:
        X[:, 0] = X[:, -1]  # dependent columns
    X = X * 10.0 ** rng.choice([0.0, 0.0, -5.0, 5.0])
    S = np.cov(X.T, bias=True).reshape(p, p)
    sides = [
        (X[z == g], X[z != g])
        for z in attributes
        for g in np.unique(z)
        if 2 <= np.sum(z == g) <= n - 2
    ]
    means = np.array([a.mean(axis=0) - b.mean(axis=0) for a, b in sides]).reshape(-1, p)
    covs = np.array([np.cov(a.T, bias=True) - np.cov(b.T, bias=True) for a, b in sides])
    unit = float(np.trace(S)) / p
    form = rng.integers(0, 3)
    return FairProblem(
        S,
        means,
        covs.reshape(-1, p, p),
        int(rng.integers(1, p + 1)),
        mean_tol=rng.choice([0.0, None, 10.0 ** rng.uniform(-4, 1) * np.sqrt(unit)]),
        cov_weight=10.0 ** rng.uniform(-6, 6) if form == 0 else 1.0,
        cov_tol=10.0 ** rng.uniform(-3, 1) * unit if form == 1 else None,
    )


def judge(problem, V):
    """Objective and relative violation of a basis, from the definition."""
    value = np.trace(V.T @ problem.covariance @ V)
    gap = max((np.linalg.norm(V.T @ Q @ V, 2) for Q in problem.cov_gaps), default=0.0)
    mean = max((np.linalg.norm(V.T @ f) for f in problem.mean_gaps), default=0.0)
    unit = np.trace(problem.covariance)
    violation = 0.0
    if problem.mean_tol is not None:
        violation = (mean - problem.mean_tol) / np.sqrt(unit)
    if problem.cov_tol is not None:
        return value, max(violation, (gap - problem.cov_tol) / unit)
    return value - problem.cov_weight * gap, violation


def solve_all(problem, failures, what):
    """Every solver's solution; refusals are kept, other errors and hangs are failures."""
    case = Case(problem, {}, {})
    for solver in SOLVERS:
        start = time.process_time()
        try:
            with ended_in_time():
                solution = solve(problem, solver)
        except (InfeasibleError, InvalidInputError) as error:
            case.refused[solver] = error
        except Exception as error:
            failures[f"{solver}: {type(error).__name__}"].append(what)
        else:
            case.found[solver] = (solution.basis, solution.certificate)
        if time.process_time() - start > TOO_LONG:
            failures[f"{solver}: too long"].append(what)
    return case


def candidates(case, rng, count):
    """Bases to hold against the bounds: what the solvers found, and random ones."""
    for V, _ in case.found.values():
        yield V
    p, d = len(case.problem.covariance), case.problem.n_components
    directions = case.problem.mean_gaps if case.problem.mean_tol == 0.0 else np.zeros((0, p))
    rank = np.linalg.matrix_rank(directions) if len(directions) else 0
    N = np.linalg.svd(directions)[2][rank:].T if rank else np.eye(p)
    for _ in range(count if N.shape[1] >= d else 0):
        yield N @ np.linalg.qr(rng.normal(size=(N.shape[1], d)))[0]


def check(case, rng, failures, what):
    """Compare certificates with the definition, with each other and with random bases."""
    problem, unit = case.problem, float(np.trace(case.problem.covariance))
    size = max([unit, *(abs(c.objective) for _, c in case.found.values())])
    for solver, (V, certificate) in case.found.items():
        value, violation = judge(problem, V)
        if not np.allclose(V.T @ V, np.eye(V.shape[1]), atol=1e-9):
            failures[f"{solver}: not orthonormal"].append(what)
        if violation > 1e-6:
            failures[f"{solver}: outside its constraints"].append(what)
        if abs(value - certificate.objective) > 1e-8 * max(unit, abs(value)):
            failures[f"{solver}: wrong objective"].append(what)
    for V in candidates(case, rng, 60):
        value, violation = judge(problem, V)
        for solver, (_, certificate) in case.found.items():
            # What sticks out by rounding is worth its multiplier, which can be large.
            if violation <= 0.0 and value > certificate.bound + 1e-8 * size:
                failures[f"{solver}: bound below a feasible basis"].append(what)
        for solver, error in case.refused.items():
            if violation <= 0.0 and "cannot be met" in str(error):
                failures[f"{solver}: refused what can be met"].append(what)


def run(tries, seed):
    """Return the failures by class, each with the (seed, number) that reproduces it."""
    failures = defaultdict(list)
    for number in range(tries):
        rng = np.random.default_rng([seed, number])
        case = solve_all(make_problem(rng), failures, (seed, number))
        check(case, rng, failures, (seed, number))
    return dict(failures)


@pytest.mark.parametrize(
    ("tries", "seed"), [(6, 20_261_116), pytest.param(100, 2, marks=pytest.mark.slow)]
)
def test_random_small_problems(tries, seed):
    assert run(tries, seed) == {}


def test_the_last_component_of_a_space_has_nowhere_to_turn():
    problem = make_problem(np.random.default_rng([2026111800000, 15]))
    certificate = solve(problem, "refined").certificate
    assert certificate.objective <= certificate.bound
