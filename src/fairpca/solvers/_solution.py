"""What a solve takes and returns, and the one loop that every iteration runs in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from typing import Protocol, TypeAlias

import numpy as np

from fairpca._present import html_table, verdict
from fairpca._present import number as digits
from fairpca.linalg import Array

# Differences below this are rounding: the mean variance of a reduced problem is one.
_ROUNDING = 1e-11
# Gap up to which a basis counts as proven, unless `tol` is wider.
PROVEN = 0.01


class Status(Enum):
    """Why a solve ended; `message` says it in words.

    See Also
    --------
    Solution : Where it is found.

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

    The number of iterations is not known in advance; the gap between objective and bound says how
    far they have come.

    Parameters
    ----------
    stage : {"basis", "bound"}
        Whether a basis is improved or the bound is.
    iteration : int
        Number of the step inside that stage, from 1.
    bound : float
        Proven bound so far, in covariance units; infinite before there is one.
    objective : float
        Objective of the basis at hand; where there is none, the best relaxed value.

    See Also
    --------
    fairpca.report.SolveHistory : A callback that keeps them.

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

    def scaled(self, unit: float) -> Snapshot:
        """Return the same in other units."""
        return replace(self, bound=self.bound * unit, objective=self.objective * unit)


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
        No other basis of this many components that satisfies the constraints can exceed this value.
    gap : float
        ``(bound − objective)/|bound|``, never negative; 0 means proven optimal.
    mean_gap, cov_gap : float
        Largest ‖Vᵀf‖ and ‖VᵀQV‖ over the contrasts.
    relaxed_objective : float
        Best value of the relaxed problem.
    duality_gap : float
        ``(bound − relaxed_objective)/|bound|``: how far the relaxation itself is from solved.
    solver : str
        The method that found the basis.
    basis_settled : bool
        Whether the ascent to the basis ended at a stationary point inside the constraints, or
        within `tol` of the bound. The solvers "tight" and "paper" round, and do not ascend.
    bound_solved : bool
        Whether the relaxation behind the bound was solved to `tol`; the bound holds all the same.
    criterion : {"total", "worst-variance", "worst-loss"}
        What the objective is about: all rows, or the group with the smallest value.
    level : float
        Gap up to which the basis counts as proven: 1 %, or `tol` where that is larger.
    proven : bool
        Whether the gap is at most `level`.
    target_kept : float or None
        J = tr VᵀTV of a fit with a target; the bound is then that of all bases that keep as much.

    See Also
    --------
    fairpca.FairPCA : Holds it as `certificate_`.
    solve : What makes it.

    Examples
    --------
    >>> from fairpca import Certificate
    >>> Certificate(9.9, 10.0, 0.0, 0.1, 10.0, 0.0, "refined", True, True)
    Certificate(within 1.0 % of optimal (proven): objective=9.900, bound=10, mean_gap=0,
    cov_gap=0.100, solver='refined', basis_settled=True, bound_solved=True)
    """

    objective: float
    bound: float
    mean_gap: float
    cov_gap: float
    relaxed_objective: float
    duality_gap: float
    solver: str
    basis_settled: bool
    bound_solved: bool
    criterion: str = "total"
    level: float = PROVEN
    target_kept: float | None = None

    @property
    def gap(self) -> float:
        """Relative distance from the bound."""
        return relative_gap(self.bound, self.objective)

    @property
    def proven(self) -> bool:
        """Whether the gap is at most `level`."""
        return self.gap <= self.level * (1.0 + _ROUNDING)

    def as_dict(self) -> dict[str, float | str | bool]:
        """Return all values, for JSON and tables."""
        fields = asdict(self)
        if self.target_kept is None:
            del fields["target_kept"]
        first = {"objective": fields.pop("objective"), "bound": fields.pop("bound")}
        return {"proven": self.proven, **first, "gap": self.gap, **fields}

    def __repr__(self) -> str:
        about = "" if self.criterion == "total" else f"{self.criterion} "
        return (
            f"Certificate({verdict(self.as_dict())}: {about}"
            f"objective={digits(self.objective)}, bound={digits(self.bound)}, "
            f"mean_gap={digits(self.mean_gap)}, cov_gap={digits(self.cov_gap)}, "
            f"{'' if self.target_kept is None else f'target_kept={digits(self.target_kept)}, '}"
            f"solver={self.solver!r}, basis_settled={self.basis_settled}, "
            f"bound_solved={self.bound_solved})"
        )

    def _repr_html_(self) -> str:
        words = {name: name.replace("_", " ") for name in self.as_dict()}
        rows = [(words[name], value) for name, value in self.as_dict().items() if name != "gap"]
        return html_table(rows, title=verdict(self.as_dict()))


@dataclass(frozen=True)
class Bound:
    """A proven upper bound on the reduced problem, and its relaxed point rounded to a basis.

    Of group objectives also the weights that prove it, and a factor of the relaxed point AAᵀ.
    """

    value: float
    relaxed_value: float
    rounded: Array
    n_iter: int = 0
    status: Status = Status.CONVERGED
    weights: Array = field(default_factory=lambda: np.zeros(0))
    root: Array = field(default_factory=lambda: np.zeros((0, 0)))


@dataclass(frozen=True)
class Solution:
    """An orthonormal basis (p, d), ordered by variance, its certificate, and why it ended.

    `weights` are those of the groups in the bound, where the smallest group objective is maximised.

    See Also
    --------
    solve : What makes it.

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
    return difference / abs(upper) if upper else float("inf")


Watch: TypeAlias = Callable[[Snapshot], None]


@dataclass(frozen=True)
class Options:
    """How a basis is sought and certified: the arguments of `solve`."""

    certify: bool = True
    tol: float = 1e-4
    max_iter: int = 5000
    cov_shift: float | None = None
    trace: str = "at-most"
    watch: Watch | None = None


class Iteration(Protocol):
    """What `drive` needs of an iteration."""

    def step(self, number: int) -> Status | None:
        """Make one step, counted from 1; return why there is no next one, if there is none."""

    def snapshot(self, number: int) -> Snapshot:
        """Bound and objective so far."""


def drive(iteration: Iteration, max_iter: int, watch: Watch | None) -> tuple[Status, int]:
    """Step until the iteration ends or the limit is met; return why it ended and the steps."""
    for number in range(1, max_iter + 1):
        status = iteration.step(number)
        if watch is not None:
            watch(iteration.snapshot(number))
        if status is not None:
            return status, number
    return Status.ITERATION_LIMIT, max_iter


@dataclass
class Progress:
    """Best bound, relaxed value and point of a relaxation so far, and whether they are close."""

    # The bound can improve by at most the duality gap. Once that is a small `share` of what
    # separates it from the objective of the basis at hand, more work certifies nothing new.

    tol: float
    share: float = 0.001
    incumbent: float | None = None
    bound: float = np.inf
    relaxed: float = -np.inf
    point: Array = field(default_factory=lambda: np.zeros((0, 0)))

    def needed(self, bound: float) -> float:
        """Duality gap below which a bound of this size need not be improved."""
        if self.incumbent is None:
            return self.tol * abs(bound) + _ROUNDING
        room = max(0.02 * self.tol * abs(bound), self.share * (bound - self.incumbent))
        return room + _ROUNDING

    @property
    def solved(self) -> bool:
        """Whether another iteration would be wasted."""
        if not np.isfinite(self.bound):
            return False
        known = self.relaxed if self.incumbent is None else self.incumbent
        if self.bound - known <= self.tol * abs(self.bound) + _ROUNDING:
            return True
        return self.bound - self.relaxed <= self.needed(self.bound)
