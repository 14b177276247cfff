"""What a solve returns: a basis and the certificate of its quality."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from fairpca._present import html_table
from fairpca.linalg import Array


class Status(Enum):
    """Why a solve ended; `message` says it in words.

    Examples
    --------
    >>> from fairpca.solvers import Status
    >>> Status.CONVERGED.converged, Status.CONVERGED.message
    (True, 'solved to the tolerance')
    """

    CONVERGED = "solved to the tolerance"
    ITERATION_LIMIT = (
        "stopped at the iteration limit before its relaxation was solved to the tolerance; the "
        "basis is usable and the bound valid. Raise max_iter or tol."
    )
    STALLED = (
        "stopped where its bound had not improved for hundreds of iterations; the basis is usable "
        "and the bound valid. Use another solver for a better one."
    )
    UNSETTLED = (
        "stopped its ascent to the basis before its last digits settled; the basis meets its "
        "constraints and the bound is valid."
    )

    INFEASIBLE = "no basis meets the constraints"

    @property
    def message(self) -> str:
        """What happened and what to do."""
        return self.value

    @property
    def converged(self) -> bool:
        """Whether nothing was cut short."""
        return self is Status.CONVERGED


@dataclass(frozen=True)
class Snapshot:
    """Where a solve stands; handed to the `callback` of `solve` after every iteration.

    Elsewhere in the library ``progress(done, total)`` tells how far work is; nobody knows how many
    iterations there will be, but the gap between objective and bound says how far they have come.

    Parameters
    ----------
    stage : {"basis", "bound"}
        What is worked on.
    iteration : int
        Number of the step inside that stage, from 1.
    bound : float
        Proven bound so far, in covariance units; infinite before there is one.
    objective : float
        Objective of the basis at hand; where there is none, the best relaxed value.

    Examples
    --------
    >>> from fairpca.solvers import Snapshot
    >>> round(Snapshot("bound", 7, 10.0, 9.9).gap, 3)
    0.01
    """

    stage: str
    iteration: int
    bound: float
    objective: float

    @property
    def gap(self) -> float:
        """Relative distance between the two; infinite before there is a bound."""
        return relative_gap(self.bound, self.objective) if self.bound < float("inf") else self.bound


@dataclass(frozen=True)
class Certificate:
    """How good a basis is and how far from optimal it can be, in covariance units.

    Attributes
    ----------
    objective : float
        tr VᵀSV − cov_weight·max‖VᵀQV‖ of the returned basis (tr VᵀSV under cov_tol). For another
        `criterion`, the smallest variance kept by a group, or the negative of the largest loss,
        takes the place of tr VᵀSV.
    bound : float
        No basis of as many components that meets the constraints can exceed this value.
    gap : float
        ``(bound − objective)/|bound|``, never negative; 0 means proven optimal.
    mean_gap, cov_gap : float
        Largest ‖Vᵀf‖ and ‖VᵀQV‖ over the contrasts.
    relaxed_objective : float
        Value of the relaxed problem at its best point found.
    duality_gap : float
        ``(bound − relaxed_objective)/|bound|``: how far the relaxation itself is from solved.
    solver : str
        The method that found the basis.
    converged : bool
        False where an iteration limit was met; the bound holds all the same.
    criterion : {"total", "worst-variance", "worst-loss"}
        What the objective is about: all rows, or the group with the smallest value.

    Examples
    --------
    >>> from fairpca import Certificate
    >>> Certificate(9.9, 10.0, 0.0, 0.1, 10.0, 0.0, "refined", True)
    Certificate(within 1.00% of optimal: objective=9.9, bound=10, mean_gap=0, cov_gap=0.1,
    solver='refined', converged)
    """

    objective: float
    bound: float
    mean_gap: float
    cov_gap: float
    relaxed_objective: float
    duality_gap: float
    solver: str
    converged: bool
    criterion: str = "total"

    @property
    def gap(self) -> float:
        """Relative distance from the bound."""
        return relative_gap(self.bound, self.objective)

    def as_dict(self) -> dict[str, float | str | bool]:
        """Return all figures, for JSON and tables."""
        return {
            "objective": self.objective,
            "bound": self.bound,
            "gap": self.gap,
            "mean_gap": self.mean_gap,
            "cov_gap": self.cov_gap,
            "relaxed_objective": self.relaxed_objective,
            "duality_gap": self.duality_gap,
            "solver": self.solver,
            "converged": self.converged,
            "criterion": self.criterion,
        }

    def __repr__(self) -> str:
        about = "" if self.criterion == "total" else f"{self.criterion} "
        return (
            f"Certificate(within {100 * self.gap:.2f}% of optimal: {about}"
            f"objective={self.objective:.6g}, bound={self.bound:.6g}, "
            f"mean_gap={self.mean_gap:.3g}, cov_gap={self.cov_gap:.3g}, "
            f"solver={self.solver!r}, {'converged' if self.converged else 'NOT converged'})"
        )

    def _repr_html_(self) -> str:
        title = f"within {100 * self.gap:.2f} % of optimal"
        words = {name: name.replace("_", " ") for name in self.as_dict()}
        rows = [(words[name], value) for name, value in self.as_dict().items() if name != "gap"]
        return html_table(rows, title=title)


@dataclass(frozen=True)
class Bound:
    """A proven upper bound on the reduced problem, and its relaxed point rounded to a basis."""

    value: float
    relaxed_value: float
    rounded: Array
    n_iter: int
    status: Status


@dataclass(frozen=True)
class Solution:
    """An orthonormal basis (p, d), ordered by variance, its certificate, and why it ended.

    `weights` are those of the groups in the bound, where the smallest group objective is maximised.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.solvers import FairProblem, solve
    >>> solution = solve(FairProblem(np.diag([3.0, 1.0]), np.empty((0, 2)), np.empty((0, 2, 2)), 1))
    >>> solution.basis.ravel(), solution.status.name
    (array([1., 0.]), 'CONVERGED')
    """

    basis: Array
    certificate: Certificate
    n_iter: int
    status: Status = Status.CONVERGED
    weights: Array | None = None


def relative_gap(upper: float, lower: float) -> float:
    """(upper − lower)/|upper|, 0 where they agree to rounding."""
    difference = upper - lower
    if difference <= 0.0:
        return 0.0
    return difference / abs(upper) if upper else float("inf") if difference > 0 else 0.0
