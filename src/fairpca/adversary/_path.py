"""The path: bases that keep the most variance at rising penalties on leakage.

`Space` has the coordinates in which a basis is sought, without mean gaps; `Ascent` moves in them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fairpca._present import Counter
from fairpca.adversary._leakage import Leakage, Targets, form_targets, random_frequencies
from fairpca.exceptions import InfeasibleError
from fairpca.linalg import (
    Array,
    fix_signs,
    project,
    shrink_means,
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
# Room for rounding in a covariance gap that is made a limit.
_SLACK = 1e-6
# Every step sees so many rows and features, drawn anew: a basis cannot learn to hide from what
# is never the same twice.
_ROWS, _FEATURES, _STEPS = 1000, 100, 150
# How far a step turns the basis at first, in root mean square of its entries.
_LENGTH = 0.04
# Few rows allow few features: an adversary that learns them by heart says nothing.
_ROWS_PER_FEATURE, _LEAST_FEATURES = 8, 16
_MEMORY, _SLOW_MEMORY = 0.9, 0.99
# The slope of the leakage in a direction shrinks with the deviation of its rows, however
# little leakage there is: steps are longer by that ratio, up to this.
_LONGEST = 1e4
# Between two points of the path the penalty rises by e to this power from end to end, or over this
# logarithm of variances if they are closer; where they leak alike, the penalty is this one.
_RISE, _LEAST_WIDTH, _HIGHEST = 6.0, 0.3, 500.0
# By what the bases found are compared with each other.
_TEST_ROWS, _TEST_FEATURES = 5000, 200


class PathTarget(NamedTuple):
    """What a unit of leakage costs, in logarithms of the variance kept.

    With the variance itself, bases that leak little and keep little are never the best ones: their
    part of the trade-off is hollow. Where even that of the logarithm is, no penalty has its best
    point inside. There the penalty rises with the variance, by the power `rise`, and is `penalty`
    at the share `variance`.
    """

    penalty: float
    variance: float = 1.0
    rise: float = 0.0

    def penalty_at(self, variance: float) -> float:
        """Return the penalty for a basis that keeps a share of the variance."""
        return self.penalty * self._raised(variance, self.rise)

    def value(self, variance: float, leakage: float) -> float:
        """Return what is maximised, a function of the variance whose slope has this penalty."""
        if not self.rise:
            return float(np.log(variance)) - self.penalty * leakage
        return (1.0 - self._raised(variance, -self.rise)) / self.rise - self.penalty * leakage

    def _raised(self, variance: float, power: float) -> float:
        return float(np.exp(np.clip(power * np.log(variance / self.variance), -100.0, 100.0)))


class Point(NamedTuple):
    """A point of the trade-off: its basis (r, d), the share of variance kept, and its leakage."""

    target: PathTarget
    basis: Array
    variance: float
    leakage: float

    def between(self, other: Point, variance: float) -> PathTarget:
        """Aim at a variance between this point and one of less; both are as good at its penalty."""
        width = float(np.log(self.variance / other.variance))
        penalty = min(width / max(self.leakage - other.leakage, 1e-9), _HIGHEST)
        return PathTarget(penalty, variance, _RISE / max(width, _LEAST_WIDTH))


class Ascent:
    """Stochastic ascent of log variance − penalty · leakage over orthonormal bases.

    X (n, r): rows, in the order of the targets; S (r, r): their covariance, diagonal; total: what
    variances are a share of.
    """

    def __init__(
        self, X: Array, S: Array, total: float, targets: Targets, random: np.random.Generator
    ) -> None:
        # Single precision: twice as fast, and far below the noise of random features.
        self.X = X.astype(np.float32)
        self.S, self.total = S, total
        spread = np.sqrt(np.diag(S))[:, None]
        self.stretch = np.minimum(spread.max() / spread, _LONGEST)
        self.targets, self.random = targets, random

    def ascend(self, V: Array, target: PathTarget) -> Array:
        """Ascend from a basis, with momentum and steps of one length that shrinks to zero."""
        momentum, size = np.zeros_like(V), 0.0
        for step in range(1, _STEPS + 1):
            slope = self.S @ V
            variance = float(np.sum(V * slope))
            penalty = target.penalty_at(variance / self.total)
            slope *= 2.0 / variance
            slope -= penalty * self.leakage(V.shape[1], _ROWS, _FEATURES)(V)[1]
            slope /= 1.0 + penalty  # one scale for the averages below, whatever the penalty
            slope = self.stretch * (slope - V @ (V.T @ slope))
            slope -= V @ (V.T @ slope)
            momentum = _MEMORY * momentum + (1.0 - _MEMORY) * slope
            momentum -= V @ (V.T @ momentum)
            size = _SLOW_MEMORY * size + (1.0 - _SLOW_MEMORY) * float(np.mean(slope**2))
            if size == 0.0:
                return V
            # Both averages start at zero, which is divided out.
            pace = momentum / (1.0 - _MEMORY**step) / np.sqrt(size / (1.0 - _SLOW_MEMORY**step))
            length = 0.5 * _LENGTH * (1.0 + np.cos(np.pi * step / _STEPS))
            # With the signs of V, which momentum goes on from, and not those that QR chooses.
            V, R = np.linalg.qr(V + length * pace)
            V *= np.copysign(1.0, np.diag(R))
        return V

    def point(self, V: Array, test: Leakage) -> Point:
        """Describe a basis; its leakage is that of the rows and features of `test`."""
        variance = float(np.sum(V * (self.S @ V))) / self.total
        return Point(PathTarget(0.0), V, variance, float(test.adjusted(V).max()))

    def leakage(self, n_components: int, n_rows: int, n_features: int) -> Leakage:
        """Draw rows and features for an adversary."""
        rows = self.targets.draw(n_rows, self.random)
        n_features = min(n_features, max(_LEAST_FEATURES, len(rows) // _ROWS_PER_FEATURE))
        frequencies = random_frequencies(n_components, n_features, self.random)
        return Leakage(self.X[rows], self.S, self.targets.take(rows), frequencies)


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
        """Fair bases to start from, and some of less variance or smaller gaps."""
        # An ascent leaves directions of much variance only where a little of another one helps.
        bases = []
        for weight in _START_WEIGHTS:
            problem = replace(self.problem, cov_weight=weight)
            V = self.inner.T @ solve(problem, certify=False).basis[: len(self.inner)]
            bases.append(np.linalg.qr(V)[0])
        r, d = self.inner.shape[1], self.problem.n_components
        first = d
        while first < r:
            bases.append(np.eye(r)[:, min(first, r - d) :][:, :d])
            first *= 2
        # Rounding chooses signs, and random features see them.
        return [fix_signs(V) for V in (*bases, *self._without_leading_gaps())]

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
        variance = float(self.variances[: V.shape[1]].sum()) / self.total
        return Point(PathTarget(0.0), V, variance, 0.0)

    def bounded(self, V: Array, mean_gap: float, cov_gap: float, *, certify: bool) -> Solution:
        """Return a basis with the bound on the variance of all bases with gaps as small."""
        # Every basis with the means of `mean_tol` and covariances as close as here is a feasible
        # one of the problem that is bounded.
        problem = replace(self.problem, cov_weight=0.0)
        if certify:
            problem = replace(problem, cov_tol=cov_gap * (1.0 + _SLACK))
        solution = solve(problem, certify=certify)
        variance = float(np.sum(V * (self.problem.covariance @ V)))
        certificate = replace(
            solution.certificate,
            objective=variance,
            bound=max(solution.certificate.bound, variance),
            mean_gap=mean_gap,
            cov_gap=cov_gap,
            solver="adversary",
        )
        return replace(solution, basis=V, certificate=certificate)

    def within_means(self, V: Array) -> Array:
        """Turn a basis towards equal means until `mean_tol` holds."""
        tol = self.problem.mean_tol
        return V if tol is None else shrink_means(self.mean_gaps, tol**2, V, least=1e-9)

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
    inner = fix_signs((N @ turn[:, kept])[:, ::-1])
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


class Path:
    """Bases found on some rows; every ascent adds one, and starts from the best of them."""

    def __init__(
        self,
        space: Space,
        rows: Rows,
        form_contrasts: FormContrasts,
        random: np.random.Generator,
        counter: Counter | None = None,
    ) -> None:
        targets, order = form_targets(rows, form_contrasts)
        self.space, self.rows, self.labels = space, rows.take(order), targets.binary()
        self.X = space.coordinates(self.rows.X)
        self._ascent = Ascent(self.X, np.diag(space.variances), space.total, targets, random)
        self._test = self._ascent.leakage(space.problem.n_components, _TEST_ROWS, _TEST_FEATURES)
        self._counter = counter
        self.points = [self._point(V) for V in space.starts()]

    def _point(self, V: Array) -> Point:
        return self._ascent.point(self.space.within_means(V), self._test)

    def best(self, target: PathTarget) -> Point:
        """Return the best point so far for a target."""
        point = max(self.points, key=lambda point: target.value(point.variance, point.leakage))
        return point._replace(target=target)

    def ascend(self, target: PathTarget, start: Array | None = None) -> Point:
        """Ascend from a basis, or the best one for the target; the point is kept."""
        start = self.best(target).basis if start is None else start
        with single_blas_thread():
            point = self._point(self._ascent.ascend(start, target))._replace(target=target)
        self.points.append(point)
        if self._counter is not None:
            self._counter.add()
        return point

    def fit(self, penalties: Sequence[float]) -> list[Point]:
        """Return the best point for each penalty, of which every one chooses among all bases.

        Every second penalty is ascended in rising order, the others in falling order.
        """
        targets = [PathTarget(float(penalty)) for penalty in penalties]
        for target in (*targets[::2], *targets[1::2][::-1]):
            self.ascend(target)
        return [self.best(target) for target in targets]
