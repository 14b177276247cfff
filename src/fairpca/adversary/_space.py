"""From moments to the coordinates in which a basis is sought, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from fairpca._progress import Counter
from fairpca.adversary._ascent import Ascent, PathTarget, Point
from fairpca.adversary._targets import form_targets
from fairpca.exceptions import InfeasibleError
from fairpca.linalg import (
    Array,
    fix_signs,
    orthonormalize,
    project,
    single_blas_thread,
    top_eigenpairs,
)
from fairpca.moments import ContrastSet, GroupMoments
from fairpca.rows import Rows
from fairpca.solvers import FairProblem, Solution, solve
from fairpca.solvers._problem import reduce_problem

FormContrasts: TypeAlias = Callable[[GroupMoments], ContrastSet]

# Directions with less than this share of the largest variance are rounding.
_ZERO = 1e-10
# Penalties of covariance gaps whose fair bases the ascent starts from; 0: equal means only.
_START_WEIGHTS = (0.0, 1.0, 10.0)
# Of the directions in which covariances differ the most, at most so many are left out of a start.
_MOST_DROPPED = 32
_BISECTIONS = 40
# Room for rounding in a covariance gap that is made a limit.
_SLACK = 1e-6


@dataclass(frozen=True, eq=False)
class Space:
    """Directions (r, p) without mean gap, where the means are equal, and with variance.

    The covariance of the coordinates is diagonal, with falling `variances`; `mean_gaps` are left
    where `mean_tol` allows some.
    """

    problem: FairProblem
    mean: Array
    directions: Array
    inner: Array
    variances: Array
    total: float
    mean_gaps: Array

    def coordinates(self, X: Any) -> Array:
        """Coordinates of rows."""
        return np.asarray(project(X, self.mean, self.directions), dtype=np.float64)

    def starts(self) -> list[Array]:
        """Bases to start from: fair in means and covariances, or of less variance or smaller gaps.

        An ascent leaves directions of much variance only where a little of another one helps.
        """
        bases = []
        for weight in _START_WEIGHTS:
            problem = replace(self.problem, cov_weight=weight)
            V = self.inner.T @ solve(problem, certify=False).basis[: len(self.inner)]
            bases.append(orthonormalize(V))
        r, d = self.inner.shape[1], self.problem.n_components
        first = d
        while first < r:
            bases.append(np.eye(r)[:, min(first, r - d) :][:, :d])
            first *= 2
        return [*bases, *self._without_leading_gaps()]

    def _without_leading_gaps(self) -> list[Array]:
        """Bases of the most variance without the first 1, 2, 4, … directions of covariance gaps."""
        r, d = self.inner.shape[1], self.problem.n_components
        gaps = [self.inner.T @ Q @ self.inner for Q in self.problem.cov_gaps]
        leading = np.linalg.eigh(sum((Q @ Q for Q in gaps), np.zeros((r, r))))[1][:, ::-1]
        bases, count = [], 1
        while count <= min(r - d, _MOST_DROPPED) and gaps:
            N = leading[:, count:]
            bases.append(N @ top_eigenpairs(N.T @ (self.variances[:, None] * N), d)[1])
            count *= 2
        return bases

    def plain(self) -> Point:
        """Return the point without a penalty."""
        V = np.eye(len(self.variances))[:, : self.problem.n_components]
        return Point(
            PathTarget(0.0), V, float(self.variances[: V.shape[1]].sum()) / self.total, 0.0
        )

    def bounded(self, V: Array, mean_gap: float, cov_gap: float, *, certify: bool) -> Solution:
        """Return a basis with the bound on the variance of all bases with gaps as small.

        Every basis with the means of `mean_tol` and covariances as close as here is a feasible
        one of the problem that is bounded.
        """
        problem = replace(self.problem, cov_weight=0.0)
        if certify and cov_gap > 0.0:
            problem = replace(problem, cov_tol=cov_gap * (1.0 + _SLACK))
        solution = solve(problem, certify=certify)
        variance = float(np.sum(V * (self.problem.covariance @ V)))
        bound = max(solution.certificate.bound, variance)
        certificate = replace(
            solution.certificate,
            objective=variance,
            bound=bound,
            mean_gap=mean_gap,
            cov_gap=cov_gap,
            solver="adversary",
        )
        return replace(solution, basis=V, certificate=certificate)

    def within_means(self, V: Array) -> Array:
        """Turn a basis towards equal means until `mean_tol` holds."""
        tol = self.problem.mean_tol
        if not len(self.mean_gaps) or tol is None:
            return V
        outer = np.linalg.svd(self.mean_gaps.T, full_matrices=False)[0]

        def turned(t: float) -> Array:
            return orthonormalize(V - t * outer @ (outer.T @ V))

        def is_within(t: float) -> bool:
            return bool(np.linalg.norm(self.mean_gaps @ turned(t), axis=1).max() <= tol)

        if is_within(0.0):
            return V
        low, high = 0.0, 1.0
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if is_within(middle) else (middle, high)
        return turned(high)

    def ordered(self, V: Array) -> Array:
        """Return a basis of the same subspace with uncorrelated scores of falling variance."""
        _, turn = np.linalg.eigh(V.T @ (self.variances[:, None] * V))
        return fix_signs(self.inner @ V @ turn[:, ::-1])


def find_space(
    moments: GroupMoments, contrasts: ContrastSet, n_components: int, mean_tol: float | None
) -> Space:
    """Find the coordinates; `contrasts` are those of ``moments.coordinates()``."""
    _, mean, covariance = moments.coordinates().pooled()
    span = moments.span
    problem = FairProblem.from_contrasts(covariance, contrasts, n_components, mean_tol=mean_tol)
    N = reduce_problem(replace(problem, cov_weight=0.0)).basis
    variances, turn = np.linalg.eigh(N.T @ covariance @ N)
    kept = variances > _ZERO * max(float(np.trace(covariance)), 0.0)
    inner = (N @ turn[:, kept])[:, ::-1]
    if inner.shape[1] < n_components:
        raise InfeasibleError(
            f"n_components={n_components}, but the number of directions in which the rows vary "
            f"without a difference of group means is {inner.shape[1]} (variances of less than "
            f"{_ZERO:g} of all count as none: standardize=True makes features comparable). Lower "
            "n_components, give more rows, or raise mean_tol.",
            parameter="n_components",
        )
    bounds_mean = mean_tol is not None and mean_tol > 0.0
    return Space(
        problem,
        mean if span is None else span.place(mean),
        np.ascontiguousarray(inner.T if span is None else inner.T @ span.basis),
        inner,
        variances[kept][::-1],
        float(np.trace(covariance)),
        problem.mean_gaps @ inner if bounds_mean else np.zeros((0, inner.shape[1])),
    )


def fit_path(
    space: Space,
    rows: Rows,
    form_contrasts: FormContrasts,
    path_targets: Sequence[PathTarget],
    random: np.random.Generator,
    counter: Counter | None = None,
    *,
    gap_points: int = 0,
) -> list[Point]:
    """Find the best basis for every target, with leaks measured on rows (a sample, as a rule).

    As many more points as `gap_points` are sought where the path has the largest gaps.
    """
    targets, order = form_targets(rows, form_contrasts)
    X = space.coordinates(rows.X)[order]
    ascent = Ascent(X, np.diag(space.variances), space.total, targets, random)
    with single_blas_thread():
        return ascent.path(
            space.starts(), path_targets, space.within_means, counter, gap_points=gap_points
        )
