"""The p×p problem: what is maximised, under which constraints, and its reduced form.

S: covariance (r, r), Q: covariance gaps (C, r, r), F: mean gaps that are bounded but not zero
(m, r), S_g and β_g: covariances and offsets of groups with their own objectives, V: basis (r, d).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral

import numpy as np

from fairpca._choices import OBJECTIVES
from fairpca.exceptions import InfeasibleError, InvalidInputError
from fairpca.linalg import Array, complement_basis, spectral_norms, symmetrize, top_eigenpairs
from fairpca.moments import ContrastSet

# Differences of means and of covariances this small against the features' own spread are rounding.
_MEAN_FLOOR, _COV_FLOOR = 1e-11, 1e-12
# The same for the variance of a direction. Covariances with it are of the root of that at most.
_RANK_FLOOR, _COUPLING_FLOOR = 1e-14, 1e-8
# A basis may stick out of its constraints by this much, relative to the size of the gaps.
FEASIBLE = 1e-7
# Up to so many entries of a basis calling a function costs more than what it computes.
_FEW_UNKNOWNS = 400
# Up to so many features gradients are cheaper than steps that couple more pairs of columns.
_FEW_FEATURES = 50
_MOST_COUPLED = 150
# How far below the attainable minimum a tolerance may lie before it is refused.
_MINIMUM_SLACK = 1e-9
# Less than this share of the total variance is rounding.
_NO_VARIANCE = 1e-12


@dataclass(frozen=True)
class FairProblem:
    """Maximise tr VᵀSV over orthonormal V under mean and covariance fairness.

    Parameters
    ----------
    covariance : ndarray of shape (p, p)
        S, the pooled covariance.
    mean_gaps : ndarray of shape (n_contrasts, p)
        f_c, one difference of group means per contrast.
    cov_gaps : ndarray of shape (n_cov_contrasts, p, p)
        Q_c, one difference of group covariances per contrast that has one.
    n_components : int
        d, the number of columns of V.
    mean_tol : float or None
        Bound on ‖Vᵀf_c‖ for every c; None: no mean constraint.
    cov_weight : float
        Penalty on max_c ‖VᵀQ_cV‖ in the objective; not used where `cov_tol` is given.
    cov_tol : float or None
        Bound on ‖VᵀQ_cV‖ for every c, instead of the penalty.
    group_covariances : ndarray of shape (n_groups, p, p) or None
        S_g. If given, the smallest tr VᵀS_gV − β_g is maximised instead of tr VᵀSV, and the
        covariance only orders the components.
    group_offsets : ndarray of shape (n_groups,) or None
        β_g, what is subtracted from the variance that a group keeps: its own best for the loss.
        None: zeros, for the variance.
    target : ndarray of shape (p, p) or None
        T: `target_weight` times J = tr VᵀTV is maximised as well, but left out of the objective of
        the certificate. Its bound is then that of all bases with at least as much of J.
    target_weight : float
        Weight of J, in covariance units.

    See Also
    --------
    solve : Solves it.
    fairpca.moments.ContrastSet : Where its gaps come from.

    Examples
    --------
    >>> from fairpca.solvers import FairProblem, solve
    >>> problem = FairProblem(
    ...     np.diag([3.0, 2.0, 1.0]), np.array([[1.0, 0.0, 0.0]]), np.zeros((0, 3, 3)), 1
    ... )
    >>> abs(solve(problem).basis[:, 0].round(12)).tolist()
    [0.0, 1.0, 0.0]
    """

    covariance: Array
    mean_gaps: Array
    cov_gaps: Array
    n_components: int
    mean_tol: float | None = 0.0
    cov_weight: float = 1.0
    cov_tol: float | None = None
    group_covariances: Array | None = None
    group_offsets: Array | None = None
    target: Array | None = None
    target_weight: float = 0.0

    def __post_init__(self) -> None:
        size, groups = len(self.covariance), self.group_objectives
        for name, value, shape in (
            ("covariance", self.covariance, (size, size)),
            ("mean_gaps", self.mean_gaps, (len(self.mean_gaps), size)),
            ("cov_gaps", self.cov_gaps, (len(self.cov_gaps), size, size)),
            ("group_covariances", groups.S, (len(groups.S), size, size)),
            ("group_offsets", groups.offsets, (len(groups.S),)),
        ):
            if value.shape != shape:
                raise InvalidInputError(f"{name} has shape {value.shape}; expected {shape}.")
            if not np.isfinite(value).all():
                raise InvalidInputError(f"{name} contains NaN or infinity; remove them first.")
        if not 1 <= self.n_components <= size:
            raise InvalidInputError(
                f"n_components={self.n_components} must be between 1 and n_features={size}.",
                parameter="n_components",
            )
        for name in ("mean_tol", "cov_weight", "cov_tol"):
            value = getattr(self, name)
            if value is not None and not 0.0 <= value < np.inf:
                raise InvalidInputError(
                    f"{name}={value!r} must be a finite number, 0 or larger.", parameter=name
                )

    @property
    def group_objectives(self) -> GroupObjectives:
        """Objectives of which the smallest is maximised: of each group, or the one of all rows."""
        if self.group_covariances is None:
            return GroupObjectives(self.covariance[None], np.zeros(1))
        S, offsets = self.group_covariances, self.group_offsets
        if offsets is None:
            return GroupObjectives(S, np.zeros(len(S)), OBJECTIVES[1])
        return GroupObjectives(S, offsets, OBJECTIVES[2])

    @classmethod
    def from_contrasts(
        cls,
        covariance: Array,
        contrasts: ContrastSet,
        n_components: int,
        *,
        mean_tol: float | None = 0.0,
        cov_weight: float | None = None,
        cov_tol: float | None = None,
        padding: int = 0,
    ) -> FairProblem:
        """Pose the problem of contrasts that are formed already.

        Parameters
        ----------
        covariance : ndarray of shape (p, p)
            Pooled covariance.
        contrasts : ContrastSet
            What is compared.
        n_components, mean_tol, cov_weight, cov_tol
            As for the class; a `cov_weight` of None is 1.
        padding : int, default 0
            Directions without variance to append: those outside the span of the rows.

        Examples
        --------
        >>> from fairpca import GroupMoments
        >>> moments = GroupMoments.from_arrays(np.eye(4), [0, 0, 1, 1])
        >>> covariance, contrasts = moments.pooled().covariance, moments.contrasts()
        >>> FairProblem.from_contrasts(covariance, contrasts, 2).cov_gaps.shape
        (1, 4, 4)
        """
        mean_gaps, cov_gaps, ends = contrasts.mean_gaps, contrasts.cov_gaps, (0, padding)
        if padding:  # np.pad copies p×p matrices also where it adds nothing
            covariance = np.pad(covariance, (ends, ends))
            mean_gaps = np.pad(mean_gaps, ((0, 0), ends))
            cov_gaps = np.pad(cov_gaps, ((0, 0), ends, ends))
        return cls(
            covariance,
            mean_gaps,
            cov_gaps,
            int(n_components),
            mean_tol=mean_tol,
            cov_weight=1.0 if cov_weight is None else float(cov_weight),
            cov_tol=cov_tol,
        )


@dataclass(frozen=True)
class GroupObjectives:
    """Group g has the objective tr VᵀS_gV − β_g; the smallest of them counts."""

    S: Array  # S_g (K, r, r)
    offsets: Array  # β_g (K,)
    criterion: str = OBJECTIVES[0]

    def values(self, V: Array) -> Array:
        """Objective of every group at an orthonormal basis."""
        return np.asarray(np.einsum("gij,ij->g", self.S @ V, V) - self.offsets)

    def matrix(self, w: Array) -> Array:
        """A(w) = Σw_gS_g."""
        return np.asarray(np.tensordot(w, self.S, 1))

    def inside(self, T: Array) -> GroupObjectives:
        """Return the same on the span of orthonormal columns T."""
        return GroupObjectives(symmetrize(T.T @ (self.S @ T)), self.offsets)


@dataclass
class ReducedProblem:
    """A problem without exact mean constraints, in units where the mean variance is one."""

    S: Array
    Q: Array
    F: Array
    d: int
    penalty: float
    limit: float | None
    mean_limit: float
    # These two lead back to the user's features (p, r) and units.
    basis: Array
    scale: float
    groups: GroupObjectives | None = None

    def __post_init__(self) -> None:
        self.size = len(self.S)
        # The diagonal of S where that is all there is of it.
        diagonal = np.diag(self.S)
        is_diagonal = np.count_nonzero(self.S) == np.count_nonzero(diagonal)
        self.variances = diagonal if is_diagonal else None
        # Largest squared mean gap: the unit of violations of the mean.
        self.mean_scale = float(np.sum(self.F**2, axis=1).max(initial=0.0))
        # Eigenvalues of every covariance gap, rising; the largest size is the unit of violations.
        self.cov_values = np.asarray(np.linalg.eigvalsh(self.Q), dtype=np.float64)
        self.cov_scale = float(np.abs(self.cov_values).max(initial=0.0))
        # Whether what couples the columns in a step of Newton's method is small.
        self.suits_newton = self.d * (self.d + 1) // 2 <= _MOST_COUPLED
        # Whether a step of ascent costs more than calling it, and Newton's not much more.
        is_wide = self.size > _FEW_FEATURES or self.suits_newton
        self.is_large = self.size * self.d > _FEW_UNKNOWNS and is_wide
        # Whether what couples the columns, in every contrast, costs Newton's method too much.
        is_coupled = len(self.Q) * self.d * (self.d + 1) // 2 > _MOST_COUPLED
        self.has_many_columns = self.is_large and is_coupled and self.groups is None

    def leading(self, count: int) -> tuple[Array, Array]:
        """Return the `count` largest eigenvalues of S, falling, and their eigenvectors."""
        if self.variances is None:
            return top_eigenpairs(self.S, count)
        order = np.argsort(-self.variances, kind="stable")[:count]
        return self.variances[order], np.eye(self.size)[:, order]

    def cov_gap(self, V: Array) -> float:
        """Return the largest ‖VᵀQ_cV‖."""
        return float(spectral_norms(symmetrize(V.T @ (self.Q @ V))).max(initial=0.0))

    def mean_excess(self, V: Array) -> float:
        """How far the largest ‖Vᵀf_c‖² lies above its limit (negative: below)."""
        if not len(self.F):
            return 0.0
        return float(np.sum((self.F @ V) ** 2, axis=1).max() - self.mean_limit)

    def violation(self, V: Array) -> float:
        """Relative violation of the constraints; at most rounding for a feasible basis."""
        worst = 0.0
        if self.limit is not None and self.cov_scale > 0.0:
            worst = (self.cov_gap(V) - self.limit) / self.cov_scale
        if len(self.F):
            # Of lengths, not of their squares: a small limit would vanish in those.
            most = np.sqrt(max(self.mean_excess(V) + self.mean_limit, 0.0))
            excess = most - np.sqrt(self.mean_limit)
            worst = max(worst, float(excess / np.sqrt(self.mean_scale)))
        return max(worst, 0.0)

    def objective(self, V: Array) -> float:
        """Value to maximise: tr VᵀSV (or the smallest group objective) − penalty·max_c‖VᵀQ_cV‖."""
        if self.groups is None:
            variance = float(np.sum(V * (self.S @ V)))
        else:
            variance = float(self.groups.values(V).min())
        return variance - self.penalty * self.cov_gap(V) if self.penalty else variance

    def mixture(self, w: Array | None) -> tuple[Array, float]:
        """S and offset of the objective: those of weights w where groups have their own."""
        if self.groups is None or w is None:
            return self.S, 0.0
        return self.groups.matrix(w), float(w @ self.groups.offsets)

    def inside(self, T: Array, d: int) -> ReducedProblem:
        """Return the problem with d components on the span of orthonormal columns T."""
        return replace(
            self,
            S=symmetrize(T.T @ self.S @ T),
            Q=symmetrize(T.T @ self.Q @ T),
            F=self.F @ T,
            d=d,
            basis=self.basis @ T,
            groups=None if self.groups is None else self.groups.inside(T),
        )


def reduce_problem(problem: FairProblem) -> ReducedProblem:
    """Solve the exact mean constraints by elimination and scale the rest."""
    # Dimensions in which the covariance says that nothing varies are left out but for d of them. A
    # group may vary where the pooled covariance does not, so groups keep all dimensions.
    p, whole = len(problem.covariance), problem.covariance
    if problem.target is not None:
        whole = whole + problem.target_weight * problem.target
    scale = float(np.trace(whole)) / p or 1.0
    root = np.sqrt(scale)
    mean_gaps = problem.mean_gaps / root
    N = _room_of_equal_means(problem, mean_gaps)
    S = symmetrize(N.T @ (whole / scale) @ N)
    has_cov_term = problem.cov_tol is not None or problem.cov_weight > 0.0
    # ‖Vᵀf‖ ≤ ‖f‖: a mean gap within the tolerance constrains nothing.
    F = mean_gaps[np.linalg.norm(mean_gaps, axis=1) > (problem.mean_tol or np.inf) / root]
    bounds_mean = len(F) > 0
    if has_cov_term or bounds_mean:
        # Ascent is quickest, and its start known, where S is diagonal.
        values, vectors = np.linalg.eigh(S)
        N, S = N @ vectors[:, ::-1], np.diag(values[::-1])
    cov_gaps = problem.cov_gaps if has_cov_term else problem.cov_gaps[:0]
    cov_gaps = symmetrize(N.T @ (cov_gaps / scale) @ N)
    cov_gaps = cov_gaps[np.linalg.norm(cov_gaps, axis=(1, 2)) > _COV_FLOOR * p]
    F = F @ N
    has_groups = problem.group_covariances is not None
    is_flat = S[-1, -1] <= _RANK_FLOOR * len(S) * S[0, 0]
    if is_flat and (has_cov_term or bounds_mean) and not has_groups:
        kept = _dimensions_needed(np.diag(S), cov_gaps, F, problem.n_components)
        N, S, F, cov_gaps = N[:, :kept], S[:kept, :kept], F[:, :kept], cov_gaps[:, :kept, :kept]
    reduced = ReducedProblem(
        S=S,
        Q=cov_gaps,
        F=F,
        d=problem.n_components,
        penalty=0.0 if problem.cov_tol is not None or not len(cov_gaps) else problem.cov_weight,
        limit=problem.cov_tol / scale if problem.cov_tol is not None and len(cov_gaps) else None,
        mean_limit=((problem.mean_tol or 0.0) / root) ** 2 if bounds_mean else 0.0,
        basis=N,
        scale=scale,
        groups=_reduced_groups(problem.group_objectives, N, scale) if has_groups else None,
    )
    if reduced.limit is not None:
        minimum = smallest_cov_gap(reduced.cov_values, reduced.d)
        if reduced.limit < minimum - _MINIMUM_SLACK * reduced.cov_scale:
            attained = "the smallest attainable covariance gap is"
            what = attained if len(reduced.Q) == 1 else "no basis gets below"
            raise unattainable_cov_tol(reduced, minimum, what)
    return reduced


def _reduced_groups(groups: GroupObjectives, N: Array, scale: float) -> GroupObjectives:
    scaled = GroupObjectives(groups.S / scale, groups.offsets / scale)
    # K products of p×p matrices cost more than the solve where there is nothing to rotate.
    is_all = np.array_equal(N, np.eye(len(N)))
    return scaled if is_all else scaled.inside(N)


def _room_of_equal_means(problem: FairProblem, mean_gaps: Array) -> Array:
    p, d = mean_gaps.shape[1], problem.n_components
    if problem.mean_tol != 0.0 or not len(mean_gaps):
        return np.eye(p)
    floor = _MEAN_FLOOR * max(np.sqrt(p), np.linalg.norm(mean_gaps))
    N = complement_basis(mean_gaps, float(floor))
    if N.shape[1] < d:
        raise InfeasibleError(
            f"n_components={d} is too many: equal means (mean_tol=0) over "
            f"{p - N.shape[1]} independent mean direction(s) leave {N.shape[1]} of n_features={p}. "
            "Lower n_components, raise mean_tol or compare fewer groups.",
            parameter="n_components",
        )
    return N


def _dimensions_needed(variances: Array, cov_gaps: Array, F: Array, d: int) -> int:
    """Dimensions that vary, and d of those in which nothing does: they are all alike."""
    rank = int(np.count_nonzero(variances > _RANK_FLOOR * len(variances) * variances[0]))
    size = max(np.abs(cov_gaps).max(initial=0.0), np.abs(F).max(initial=0.0))
    outside = max(np.abs(cov_gaps[:, rank:]).max(initial=0.0), np.abs(F[:, rank:]).max(initial=0.0))
    return min(rank + d, len(variances)) if outside <= _COUPLING_FLOOR * size else len(variances)


def smallest_cov_gap(values: Array, d: int) -> float:
    """Lower bound on max_c ‖VᵀQ_cV‖ over orthonormal V with d columns, from eigenvalues of Q_c."""
    # By interlacing (Fan and Pall) it is attained for a single contrast.
    return float(max(values[:, d - 1].max(initial=0.0), -values[:, -d].min(initial=0.0)))


def unattainable_cov_tol(
    reduced: ReducedProblem, minimum: float, what: str, *, is_proven: bool = True
) -> InfeasibleError:
    """Return the error for a tolerance below `minimum` (in reduced units)."""
    assert reduced.limit is not None
    attainable = minimum * reduced.scale
    verdict = "cannot be met" if is_proven else "was not met by any basis found"
    return InfeasibleError(
        f"cov_tol={reduced.limit * reduced.scale:.6g} {verdict} with "
        f"n_components={reduced.d}: {what} {attainable:.6g}. Raise cov_tol above that, lower "
        "n_components, or use cov_weight.",
        minimum=attainable,
        parameter="cov_tol",
    )


def count_components(problem: FairProblem, count: float | None) -> int:
    """Return how many components: as set, enough for a share of the variance, or all there are."""
    if isinstance(count, Integral):
        return int(count)
    mean_tol = None if problem.mean_tol is None else 0.0
    equal = replace(problem, n_components=1, mean_tol=mean_tol, cov_tol=None, cov_weight=0.0)
    reduced = reduce_problem(equal)
    left = np.linalg.eigvalsh(reduced.S) * reduced.scale
    values = np.maximum(np.linalg.eigvalsh(problem.covariance)[::-1], 0.0)
    most = max(int(np.count_nonzero(left > _NO_VARIANCE * values.sum())), 1)
    if count is None or not values.any():
        return most
    kept = np.cumsum(values) / values.sum()
    return min(int(np.searchsorted(kept, count)) + 1, most)
