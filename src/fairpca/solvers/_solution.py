"""What a solve returns: a basis and the certificate of its quality."""

from __future__ import annotations

from dataclasses import dataclass

from fairpca.linalg._spectral import Array


@dataclass(frozen=True)
class Certificate:
    """How good a basis is and how far from optimal it can be, in covariance units.

    Attributes
    ----------
    objective : float
        tr VᵀSV − cov_weight·max‖VᵀQV‖ of the returned basis (tr VᵀSV under cov_tol).
    bound : float
        No basis of as many components that meets the constraints can exceed this value.
    gap : float
        (bound − objective)/|bound|, never negative; 0 means proven optimal.
    mean_gap, cov_gap : float
        Largest ‖Vᵀf‖ and ‖VᵀQV‖ over the contrasts.
    relaxed_objective : float
        Value of the relaxed problem at its best point found.
    duality_gap : float
        (bound − relaxed_objective)/|bound|: how far the relaxation itself is from solved.
    solver : str
        The method that found the basis.
    converged : bool
        False where an iteration limit was met; the bound holds all the same.

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
        }

    def __repr__(self) -> str:
        return (
            f"Certificate(within {100 * self.gap:.2f}% of optimal: "
            f"objective={self.objective:.6g}, bound={self.bound:.6g}, "
            f"mean_gap={self.mean_gap:.3g}, cov_gap={self.cov_gap:.3g}, "
            f"solver={self.solver!r}, {'converged' if self.converged else 'NOT converged'})"
        )


@dataclass(frozen=True)
class Bound:
    """A proven upper bound on the reduced problem, with the relaxed point behind it."""

    value: float
    relaxed_value: float
    projector: Array
    n_iter: int
    converged: bool


@dataclass(frozen=True)
class Solution:
    """An orthonormal basis (p, d), ordered by variance, and its certificate."""

    basis: Array
    certificate: Certificate
    n_iter: int


def relative_gap(upper: float, lower: float) -> float:
    """(upper − lower)/|upper|, 0 where they agree to rounding."""
    difference = upper - lower
    if difference <= 0.0:
        return 0.0
    return difference / abs(upper) if upper else float("inf") if difference > 0 else 0.0
