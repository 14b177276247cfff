"""The p×p problem, its solvers and the certificate each of them returns."""

from fairpca._choices import OBJECTIVES, SOLVERS
from fairpca.solvers._problem import FairProblem
from fairpca.solvers._solution import Certificate, Snapshot, Solution, Status
from fairpca.solvers._solve import solve

__all__ = [
    "OBJECTIVES",
    "SOLVERS",
    "Certificate",
    "FairProblem",
    "Snapshot",
    "Solution",
    "Status",
    "solve",
]
