"""Local optimisation on the Grassmann manifold by an augmented Lagrangian.

V: basis (r, d), B_c = VᵀQ_cV, M: positive semidefinite multipliers (2C, d, d) for +B_c and −B_c,
b: multipliers (m,) of the mean limits, s: the bound shared by all ±B_c.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.optimize

from fairpca.linalg import (
    Array,
    eigenvalue_excess,
    orthonormalize,
    shared_level,
    symmetrize,
)
from fairpca.solvers._driver import Watch, drive
from fairpca.solvers._newton import Multipliers, polish
from fairpca.solvers._problem import ReducedProblem
from fairpca.solvers._solution import Snapshot, Status

_FEASIBLE = 1e-9
_SETTLED = 1e-7
# Multipliers changing by less than this are close enough for Newton's method.
_POLISH_FROM = 0.1
_LARGEST_TURN = 0.05
_FIRST_GRADIENT = 1e-3
_LAST_GRADIENT = 1e-8
_INNER_ITERATIONS = 400
_OUTER_ITERATIONS = 40
# Evaluations, not iterations, are what costs: on kinks a line search takes many.
_INNER_EVALUATIONS = 800
_MOST_EVALUATIONS = 6000
# A violation that outlives so many raises of the penalty is there to stay.
_MOST_RAISES = 10
_MEMORY = 20
_NUDGE = 1e-3
# Curvature below this share of the largest is not evened out. Bold steps along flat directions find
# worse optima now and then, so where ascent is cheap anyway it goes by small ones.
_FLATTEST = 0.03
_FEW_UNKNOWNS = 400


@dataclass(frozen=True)
class Refined:
    """A locally optimal basis with its multipliers (2C, d, d) of ±B_c and (m,) of the means."""

    basis: Array
    multipliers: Array
    mean_costs: Array
    n_iter: int
    status: Status

    @property
    def costs(self) -> Array:
        """What each contrast costs, both signs together."""
        traces = np.einsum("kii->k", self.multipliers)
        return np.asarray(traces.reshape(2, -1).sum(axis=0))


class _Lagrangian:
    """The augmented Lagrangian as a function of V; smooth, and invariant to V → V·rotation."""

    def __init__(self, reduced: ReducedProblem, multipliers: Array) -> None:
        self.problem = reduced
        self.contrasts = len(reduced.Q)
        self.stack = reduced.Q.reshape(-1, reduced.size)
        self.M = multipliers
        self.b = np.zeros(len(reduced.F))
        self.unit = float(reduced.leading(1)[0][0]) or 1.0
        self.step = 2.0 * self.unit / (reduced.cov_scale or 1.0) ** 2
        self.mean_step = 2.0 * self.unit / (reduced.mean_scale or 1.0) ** 2

    def products(self, V: Array) -> tuple[Array, Array, Array]:
        """SV, the stack of Q_cV, and the stack of B_c."""
        variances = self.problem.variances
        SV = self.problem.S @ V if variances is None else variances[:, None] * V
        QV = (self.stack @ V).reshape(self.contrasts, *V.shape)
        return SV, QV, symmetrize(V.T @ QV)

    def updated(self, B: Array, V: Array) -> tuple[Array, float, Array]:
        """Multipliers after one step, the shared bound s, and the mean multipliers."""
        if self.contrasts:
            targets = self.M + self.step * np.concatenate([B, -B])
            values, vectors = np.linalg.eigh(targets)
            limit = self.problem.limit
            level = (
                shared_level(values.ravel(), self.problem.price)
                if limit is None
                else self.step * limit
            )
            M = eigenvalue_excess(values, vectors, level)[0]
        else:
            M, level = self.M, 0.0
        if not len(self.b):
            return M, level / self.step, self.b
        used = np.sum((self.problem.F @ V) ** 2, axis=1)
        b = np.maximum(self.b + self.mean_step * (used - self.problem.mean_limit), 0.0)
        return M, level / self.step, b

    def __call__(self, flat: Array) -> tuple[float, Array]:
        """Value and gradient at any full-rank matrix, through its orthonormal factor."""
        Y = self.centre + self.stretch * flat.reshape(self.centre.shape)
        V, inverse = _orthonormal_factor(Y)
        SV, QV, B = self.products(V)
        M, _, b = self.updated(B, V)
        G = M[: self.contrasts] - M[self.contrasts :]
        value = -float(np.vdot(V, SV)) + float(np.vdot(G, B))
        value -= float(np.sum((M - self.M) ** 2)) / (2.0 * self.step)
        if self.problem.limit is not None:
            value -= self.problem.limit * float(np.einsum("kii->", M))
        gradient = 2.0 * (QV @ G).sum(axis=0) - 2.0 * SV
        if len(b):
            FV = self.problem.F @ V
            value += float(b @ (np.sum(FV**2, axis=1) - self.problem.mean_limit))
            value -= float(np.sum((b - self.b) ** 2)) / (2.0 * self.mean_step)
            gradient += 2.0 * self.problem.F.T @ (b[:, None] * FV)
        gradient -= V @ (V.T @ gradient)
        return value, (self.stretch * (gradient @ inverse)).ravel()

    def start_at(self, V: Array) -> None:
        """Measure from here on in coordinates in which the curvature is about the same everywhere.

        With V turned so that the multiplier Λ of VᵀV = I is diagonal, that of entry i of column j
        is Λ_j − S_ii + Σ(Q_c)_ii(G_c)_jj, up to the penalty and to what couples the entries.
        """
        if V.size <= _FEW_UNKNOWNS:
            self.centre, self.stretch = V, np.ones(V.shape)
            return
        SV, _, B = self.products(V)
        M, _, b = self.updated(B, V)
        G, F = M[: self.contrasts] - M[self.contrasts :], self.problem.F
        FV = F @ V
        inner = V.T @ SV - (B @ G).sum(axis=0) - FV.T @ (b[:, None] * FV)
        values, turn = np.linalg.eigh(symmetrize(inner))
        self.centre, self.M = V @ turn, turn.T @ self.M @ turn
        price = np.einsum("ji,cjk,ki->ci", turn, G, turn)
        rows = np.einsum("cii->ic", self.problem.Q) @ price + (F**2).T @ b[:, None]
        curvature = values - np.diag(self.problem.S)[:, None] + rows
        self.stretch = np.sqrt(self.unit / np.maximum(curvature, _FLATTEST * self.unit))


def refine(
    reduced: ReducedProblem,
    start: Array,
    multipliers: Array | None = None,
    *,
    known: Sequence[Array] = (),
    watch: Watch | None = None,
) -> Refined:
    """Improve an orthonormal basis to a local optimum of the problem, feasible to 1e-9 relative.

    `multipliers` (d, n_contrasts) are a guess from deflation, one signed number per component and
    contrast. Ascent that comes close to one of the `known` optima stops there.
    """
    ascent = _Ascent(reduced, start, multipliers, known)
    status, _ = drive(ascent, _OUTER_ITERATIONS, watch)
    if status is Status.ITERATION_LIMIT:
        status = ascent.status_at_limit
    M, b = ascent.lagrangian.M, ascent.lagrangian.b
    return Refined(ascent.V, M, b, ascent.n_iter, status)


class _Ascent:
    """Multiplier updates, each after ascent to an accuracy that grows with their precision."""

    def __init__(
        self,
        reduced: ReducedProblem,
        start: Array,
        multipliers: Array | None,
        known: Sequence[Array],
    ) -> None:
        self.problem, self.V, self.known = reduced, start, known
        self.lagrangian = _Lagrangian(reduced, initial_multipliers(reduced, multipliers))
        self.n_iter = self.spent = 0
        self.accuracy, self.next_polish = _FIRST_GRADIENT, _POLISH_FROM
        self.change = self.violation = np.inf
        self.raised = 0
        self.ended: Status | None = None

    def step(self, number: int) -> None:
        """Ascend, update the multipliers, and try Newton's method once they are close."""
        lagrangian, last = self.lagrangian, self.violation
        self.V, steps, evaluations = _minimize(lagrangian, self.V, self.accuracy)
        self.n_iter, self.spent = self.n_iter + steps, self.spent + evaluations
        M, bound, b = lagrangian.updated(lagrangian.products(self.V)[2], self.V)
        self.change = _relative_change(M, lagrangian.M) + _relative_change(b, lagrangian.b)
        lagrangian.M, lagrangian.b = M, b
        self.violation = _violation(self.problem, self.V, bound)
        self.ended = self._end(Multipliers(M, b, bound))
        if self.violation > max(0.25 * last, _FEASIBLE):
            # Stationary but outside: a saddle, which the gradient alone does not leave.
            self.V = nudge(self.V) if steps == 0 and self.ended is None else self.V
            self.raised += 1
            lagrangian.step *= 4.0
            lagrangian.mean_step *= 4.0
        # Ascent closer than the multipliers are is wasted, and on kinks it takes forever.
        wanted = max(min(0.1 * self.accuracy, 0.1 * self.change), _LAST_GRADIENT)
        self.accuracy = max(wanted, 0.01 * self.violation)

    def _end(self, multipliers: Multipliers) -> Status | None:
        if any(_turn(self.V, optimum) <= _LARGEST_TURN for optimum in self.known):
            return Status.UNSETTLED
        if max(self.change, self.violation) <= self.next_polish:
            polished = _polished(self.problem, self.V, multipliers, self.lagrangian.unit)
            if polished is not None:
                self.V, found = polished
                self.lagrangian.M, self.lagrangian.b = found.M, found.b
                return Status.CONVERGED
            self.next_polish *= 0.1
        is_lost = self.raised > _MOST_RAISES and self.violation > _FEASIBLE
        # What is next to something known already is not worth as much work.
        if is_lost or self.spent > _MOST_EVALUATIONS / (1 + len(self.known)):
            return self.status_at_limit
        is_settled = self.violation <= _FEASIBLE and self.change <= _SETTLED
        return Status.CONVERGED if is_settled and self.accuracy <= _LAST_GRADIENT else None

    @property
    def status_at_limit(self) -> Status:
        """Without Newton's last digits the basis can be as good as any certificate can tell."""
        is_settled = self.violation <= 100.0 * _FEASIBLE and self.change <= 1000.0 * _SETTLED
        return Status.CONVERGED if is_settled else Status.UNSETTLED

    def terminate(self) -> Status | None:
        """End at an optimum, known or new."""
        return self.ended

    def snapshot(self, number: int) -> Snapshot:
        """No bound yet, and the objective of the basis at hand."""
        return Snapshot("basis", number, np.inf, self.problem.objective(self.V))


def _orthonormal_factor(Y: Array) -> tuple[Array, Array]:
    """V = Y·inverseᵀ with orthonormal columns."""
    try:
        inverse = np.linalg.inv(np.linalg.cholesky(Y.T @ Y))
    except np.linalg.LinAlgError:  # a line search went too far out: no digit is left of Y
        V, R = np.linalg.qr(Y)
        return V, np.linalg.pinv(R).T
    return Y @ inverse.T, inverse


def _minimize(lagrangian: _Lagrangian, V: Array, accuracy: float) -> tuple[Array, int, int]:
    lagrangian.start_at(V)
    result = scipy.optimize.minimize(
        lagrangian,
        np.zeros(V.size),
        jac=True,
        method="L-BFGS-B",
        options={
            "maxiter": _INNER_ITERATIONS,
            "maxfun": _INNER_EVALUATIONS,
            "maxcor": _MEMORY,
            "ftol": 0.0,
            "gtol": accuracy * lagrangian.unit,
        },
    )
    Y = lagrangian.centre + lagrangian.stretch * result.x.reshape(V.shape)
    return _orthonormal_factor(Y)[0], int(result.nit), int(result.nfev)


def _polished(
    reduced: ReducedProblem, V: Array, multipliers: Multipliers, unit: float
) -> tuple[Array, Multipliers] | None:
    found = polish(reduced, V, multipliers, unit)
    if found is None:
        return None
    # Newton knows stationary points, not maxima: only one next to where ascent led will do.
    is_near = _turn(V, found[0]) <= _LARGEST_TURN and reduced.violation(found[0]) <= _FEASIBLE
    return found if is_near and np.linalg.eigvalsh(found[1].M).min(initial=0.0) >= -1e-6 else None


def nudge(V: Array) -> Array:
    """Return a basis close by, always the same one."""
    return orthonormalize(V + _NUDGE * np.random.default_rng(0).normal(size=V.shape))


def _turn(V: Array, other: Array) -> float:
    # Size of the principal angles between two subspaces.
    return float(np.linalg.norm(other - V @ (V.T @ other)))


def initial_multipliers(reduced: ReducedProblem, guess: Array | None) -> Array:
    """Multipliers (2C, d, d) from one signed number per component and contrast."""
    d, contrasts = reduced.d, len(reduced.Q)
    M = np.zeros((2 * contrasts, d, d))
    if guess is not None:
        diagonal = np.arange(d)
        M[:contrasts, diagonal, diagonal] = np.maximum(guess.T, 0.0)
        M[contrasts:, diagonal, diagonal] = np.maximum(-guess.T, 0.0)
    return M


def _relative_change(new: Array, old: Array) -> float:
    size = float(np.linalg.norm(new))
    return float(np.linalg.norm(new - old)) / size if size else float(np.linalg.norm(old))


def _violation(reduced: ReducedProblem, V: Array, bound: float) -> float:
    # Under a price the shared bound s plays the limit's part: B_c may not stick out above it.
    if reduced.limit is not None or not len(reduced.Q):
        return reduced.violation(V)
    excess = max(reduced.cov_gap(V) - bound, 0.0) / max(reduced.cov_scale, 1e-300)
    return max(excess, reduced.violation(V))
