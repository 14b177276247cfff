"""Newton's method without a Hessian, by conjugate gradients: for ascent and for the last digits.

V: basis (p, d) turned so that the multiplier Λ of VᵀV = I is diagonal, K: a tangent step with
VᵀK = 0, A_c = Q_cV, and f fᵀV of every bounded mean. Half the second derivative of the augmented
Lagrangian is

    K ↦ −SK + ΣQ_cKG_c + KΛ + ΣA_cT_c(DJK),    JK = 2ΣT_cᵀ(A_cᵀK)

where the columns of T_c (d², t) are symmetric matrices that span what sticks out above the limit,
in the eigenbasis W of M_k + σ(±B_c − sI), and D = σΩ with the divided differences Ω of the positive
part. The same system with D = σΩ/(1 − Ω) is a semismooth Newton step on the optimality conditions.
With `_Preconditioner` a handful of conjugate gradients solve for it (docs/design/refinement.md).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag, lapack

from fairpca.linalg import Array, eigenvalue_excess, symmetrize
from fairpca.solvers._lagrangian import Lagrangian, Multipliers

_ASCENT_STEPS = 20
# In evaluations of the function, without what solving for it takes; with more than a few unknowns
# it costs twice as many.
_COST_OF_STEP = 15
_FEW_UNKNOWNS = 200
# Products of two numbers that take as long as calling a small function.
_PRODUCTS_PER_EVALUATION = 1_000_000
# The whole matrix of more unknowns is not made.
_MOST_UNKNOWNS = 500
# That of fewer costs less than anything else.
_WHOLE_MATRIX = 60
_POLISH_STEPS = 10
_CONJUGATE_STEPS = 40
_SADDLE = _CONJUGATE_STEPS + 1
_HALVINGS = 12
_LONGEST_STEP = 0.5
# Beyond so many conjugate gradients, or so long a step, the factors at hand are out of date.
_MANY_STEPS = 8
_LONG_STEP = 0.1
# A gradient this small, in units of the covariance, either falls or is rounding.
_SMALL = 1e-5
_LEAST_GAIN = 1e-9
_SOLVED = 1e-11
# In units of the covariance: what is added to every factorised matrix at least, and along V.
_SMALLEST_SHIFT = 1e-3
_ALONG_BASIS = 100.0
# Directions of less curvature, as a share of the largest, are not stretched any further.
_SMALLEST_CURVATURE = 0.02
# Directions in which a basis is shorter than this are left out of a round.
_NEGLIGIBLE = 1e-5
# Penalties weaker than this share of the strongest are left out of an ascent.
_WEAKEST = 1e-4
# How far from infinite the weights are where complementarity is to hold.
_LOOSENESS = 1e-4


def ascend(lagrangian: Lagrangian, V: Array, accuracy: float, most: int) -> tuple[Array, int, int]:
    """Return a basis where the gradient is at most `accuracy` of the unit; steps, their cost."""
    unit, last, value = lagrangian.unit, np.inf, np.inf
    unknowns = (len(V) - V.shape[1]) * V.shape[1]
    spent, cost = 0, _COST_OF_STEP if unknowns <= _FEW_UNKNOWNS else 2 * _COST_OF_STEP
    cost += lagrangian.contrasts  # each is weighted by itself
    for number in range(_ASCENT_STEPS):
        # The point turns V, and with it the multipliers, which are bound to its columns.
        point = _BasisPoint(lagrangian, V)
        lagrangian.M, lagrangian.slope, V = point.centre, point.size / unit, point.V
        # Next to a saddle the gradient grows, and the value falls.
        is_idle = value - point.value <= _LEAST_GAIN * unit
        is_stuck = last < _SMALL * unit and point.size > 0.5 * last and is_idle
        if point.size <= accuracy * unit or is_stuck or spent > most:
            return V, number, spent
        last, value = point.size, point.value
        point.weigh()
        spent += cost + point.cost
        K, count = _solve(point, point.gradient, min(0.1, np.sqrt(point.size / unit)))
        length = float(np.linalg.norm(K))
        K *= min(1.0, _LONGEST_STEP / max(length, _LONGEST_STEP))
        if count > _MANY_STEPS or length > _LONG_STEP:
            lagrangian.factors = []
        # A step may be nothing at all where it underflows.
        moved = _line_search(lagrangian, point, K) if length > 0.0 else None
        if moved is None:
            lagrangian.factors = []
            return V, number + 1, spent
        V = moved
    return V, _ASCENT_STEPS, spent


def stretch(lagrangian: Lagrangian, V: Array) -> tuple[Array, Array]:
    """Turn V until Λ is diagonal; return it and 1/√ of the diagonal of the curvature (p, d)."""
    # In these units the curvature is about one in every direction, so that gradients alone lead
    # far, without a factorisation: h_ij = λ_j − S_ii + Σ G_c,jj Q_c,ii.
    point, problem = _BasisPoint(lagrangian, V), lagrangian.problem
    lagrangian.M, lagrangian.slope = point.centre, point.size / lagrangian.unit
    h = point.inner - np.diag(problem.S)[:, None]
    h += np.einsum("cii,cjj->ij", problem.Q, point.G) + (problem.F**2).T @ point.b[:, None]
    h = np.abs(h)
    return point.V, 1.0 / np.sqrt(np.maximum(h, _SMALLEST_CURVATURE * h.max()))


def leading_span(lagrangian: Lagrangian, V: Array) -> Array | None:
    """Return T (p, ·), the directions that a round of ascent needs, or None: nearly all."""
    # At an optimum (λ_j − S)v_j = −(ΣQ_cVG_c)_j. So beyond the leading directions of S a basis lies
    # where the right-hand side, divided by λ_j − S_ii, does: in about as many as G has ranks.
    problem, k = lagrangian.problem, 2 * V.shape[1]
    if problem.variances is None or 2 * k > problem.size:
        return None
    at, S = lagrangian.evaluate(V), problem.variances[:, None]
    values, turn = np.linalg.eigh(-symmetrize(V.T @ at.gradient))
    V, images = V[k:] @ turn, (at.gradient[k:] + S[k:] * V[k:]) @ turn
    h = values - S[k:]
    images = images / np.maximum(h, _SMALLEST_CURVATURE * h.max())
    left, sizes, _ = np.linalg.svd(np.column_stack([V, images]), full_matrices=False)
    rest = left[:, sizes > _NEGLIGIBLE]
    if k + rest.shape[1] > 0.7 * problem.size:
        return None
    rest = rest @ np.linalg.eigh(symmetrize(rest.T @ (S[k:] * rest)))[1][:, ::-1]
    return np.asarray(block_diag(np.eye(k), rest))


def polish(
    lagrangian: Lagrangian, V: Array, multipliers: Multipliers
) -> tuple[Array, Multipliers] | None:
    """Return the optimal point next to V to rounding precision, or None if there is none."""
    best, kept = np.inf, lagrangian.factors
    for _ in range(_POLISH_STEPS):
        point = _BasisPoint(lagrangian, V, multipliers)
        V, multipliers = point.V, Multipliers(point.M, point.b, point.s)
        mismatch = float(np.abs(point.mismatch).max(initial=0.0))
        size = max(point.size, mismatch) / lagrangian.unit
        if size <= _SOLVED or not size < 2.0 * best:
            break
        best = min(best, size)
        # The step also takes back what the multipliers miss of complementarity.
        missed = point.inside(point.images @ point.combine(point.missed))
        K, count = _solve(point, point.gradient - missed, 1e-4)
        if count == _SADDLE or not np.linalg.norm(K) <= _LONGEST_STEP:
            break
        V, multipliers = _retract(V, K), point.stepped(K)
    lagrangian.factors = kept
    return (V, multipliers) if size <= 100.0 * _SOLVED else None


def _line_search(lagrangian: Lagrangian, point: _BasisPoint, K: Array) -> Array | None:
    slope, rounding = 2.0 * float(np.vdot(point.gradient, K)), 1e-14 * abs(point.value)
    for _ in range(_HALVINGS):
        V = _retract(point.V, K)
        if lagrangian.evaluate(V).value <= point.value + 1e-4 * slope + rounding:
            return V
        K, slope = 0.5 * K, 0.5 * slope
    return None


def _retract(V: Array, K: Array) -> Array:
    # Polar, not QR: multipliers are bound to the columns, which must not turn. K is tangent only up
    # to rounding, which a large penalty makes large, so that VᵀK is not taken for zero.
    Y = V + K
    values, vectors = np.linalg.eigh(Y.T @ Y)
    return np.asarray(Y @ ((vectors / np.sqrt(values)) @ vectors.T))


def _solve(point: _BasisPoint, gradient: Array, accuracy: float) -> tuple[Array, int]:
    """Conjugate gradients for a step against a gradient, as far as the curvature is positive."""
    # HK = −gradient is solved to the accuracy that the outer iteration can use. Preconditioned
    # residuals are tangent, so that K stays tangent to rounding.
    if point.is_direct:
        return _solve_directly(point, gradient)
    preconditioner = _Preconditioner(point)
    K, residual = np.zeros_like(gradient), -gradient
    goal = accuracy * float(np.linalg.norm(residual))
    direction = preconditioner.solve(residual)
    product = float(np.vdot(residual, direction))
    for number in range(1, _CONJUGATE_STEPS + 1):
        if not product > 0.0:  # nothing is left but what underflows
            return K, number
        H = point.multiply(direction)
        curvature = float(np.vdot(direction, H))
        if not curvature > 0.0:
            # The way out of a saddle, as far as a step may go.
            return K + direction * (_LONG_STEP / float(np.linalg.norm(direction))), _SADDLE
        K += (product / curvature) * direction
        residual -= (product / curvature) * H
        if np.linalg.norm(residual) <= goal:
            return K, number
        Z = preconditioner.solve(residual)
        last, product = product, float(np.vdot(residual, Z))
        direction = Z + (product / last) * direction
    return K, _CONJUGATE_STEPS


def _solve_directly(point: _BasisPoint, gradient: Array) -> tuple[Array, int]:
    """Newton's step from the whole matrix, for steps NX with N orthonormal and VᵀN = 0."""
    N = np.linalg.qr(point.V, mode="complete")[0][:, gradient.shape[1] :]
    H, right = point.matrix(N), -(N.T @ gradient).ravel()
    factor, fault = lapack.dpotrf(H, lower=1)
    if not fault:
        step, count = lapack.dpotrs(factor, right, lower=1)[0], 1
    else:
        # Out of a saddle along the absolute curvature, and the most curved way as far as CG would.
        values, vectors = np.linalg.eigh(H)
        floor = _SMALLEST_SHIFT * point.lagrangian.unit
        parts = (vectors.T @ right) / np.maximum(np.abs(values), floor)
        parts[0] = np.copysign(max(abs(parts[0]), _LONG_STEP), parts[0])
        step, count = vectors @ parts, _SADDLE
    return np.asarray(N @ step.reshape(N.shape[1], -1)), count


class _ActiveDirections(NamedTuple):
    """Matrices T (t, d, d), the block each belongs to, σ, Ω, and what M misses along each."""

    T: Array
    block: Array
    step: Array
    omega: Array
    missed: Array


def _active_directions(point: _BasisPoint, *, is_exact: bool) -> _ActiveDirections:
    """Directions in which B_c exceeds its limit; bounded means follow as blocks of their own."""
    lagrangian, d, B = point.lagrangian, len(point.inner), point.B
    rows, columns = np.triu_indices(d)
    slack = point.s * np.eye(d) - np.concatenate([B, -B])
    values, W = np.linalg.eigh(point.centre - lagrangian.step * slack)
    mismatch = point.M - eigenvalue_excess(values, W, 0.0)
    parts = [_ActiveDirections(np.zeros((0, d, d)), *4 * (np.zeros(0),))]
    for k in np.flatnonzero(values[:, -1] > 0.0):
        x = values[k]
        # Divided differences of the positive part (Löwner): (x₊ − y₊)/(x − y), and the derivative
        # where two eigenvalues agree, or their quotient would be rounding alone.
        apart = np.abs(x[rows] - x[columns]) > 1e-14 * max(float(np.abs(x).max()), 1e-300)
        rise = np.maximum(x[rows], 0.0) - np.maximum(x[columns], 0.0)
        fall = np.where(apart, x[rows] - x[columns], 1.0)
        omega = np.where(apart, rise / fall, x[rows] > 0.0)
        kept = np.flatnonzero(omega > (0.0 if is_exact else _WEAKEST))
        i, j = rows[kept], columns[kept]
        T = symmetrize(W[k].T[i, :, None] * W[k].T[j, None, :])
        T *= np.where(i == j, 1.0, np.sqrt(2.0))[:, None, None]
        missed = np.einsum("tij,ij->t", T, mismatch[k])
        ones = np.ones(len(kept))
        parts.append(_ActiveDirections(T, k * ones, lagrangian.step * ones, omega[kept], missed))
    binding = np.flatnonzero(point.b > 0.0)
    ones = np.ones(len(binding))
    excess = lagrangian.mean_step * (point.used[binding] - lagrangian.problem.mean_limit)
    means = np.tile(np.eye(d), (len(binding), 1, 1))
    step = lagrangian.mean_step * ones
    parts.append(_ActiveDirections(means, (2 * len(B) + binding) * ones, step, ones, -excess))
    return _ActiveDirections(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


class _BasisPoint:
    """Value, gradient and second derivative of half the augmented Lagrangian at one basis."""

    # With `multipliers` the plain Lagrangian at them, and for its penalty what linearised
    # complementarity asks for: the same with weights that are nearly infinite where it holds.

    def __init__(
        self, lagrangian: Lagrangian, V: Array, multipliers: Multipliers | None = None
    ) -> None:
        self.lagrangian, problem = lagrangian, lagrangian.problem
        self.value, A, QV, B, at = lagrangian.evaluate(V, multipliers)
        centre = lagrangian.M if multipliers is None else multipliers.M
        self.b, self.s, FV = at.b, at.s, problem.F @ V
        G = at.M[: len(B)] - at.M[len(B) :]
        # Λ = −VᵀA made diagonal: its entries are then one number per column of a step, and what
        # couples the columns is left to G, which is small next to Λ (docs/design/refinement.md).
        self.inner, turn = np.linalg.eigh(-symmetrize(V.T @ A))
        self.centre, self.M, self.G, B = (turn.T @ X @ turn for X in (centre, at.M, G, B))
        self.V, A = V @ turn, A @ turn
        self.gradient = self.inside(A)
        self.size = float(np.abs(self.gradient).max())
        images = np.concatenate([QV, problem.F[:, :, None] * FV[:, None, :]]) @ turn
        # (p, C·d), so that one product serves all contrasts.
        self.images = images.transpose(1, 0, 2).reshape(len(V), -1)
        self.B, self.used = B, np.sum(FV**2, axis=1)
        if multipliers is not None:
            self.weigh(is_exact=True)

    def weigh(self, *, is_exact: bool = False) -> None:
        """Set T_c by blocks, the weights D, and the change of multipliers without a step (t,)."""
        self.active = at = _active_directions(self, is_exact=is_exact)
        problem, C = self.lagrangian.problem, len(self.G)
        block = at.block.astype(int)
        self.blocks = []
        for k in np.unique(block):
            sign, contrast = divmod(int(k), C) if k < 2 * C else (0, int(k) - C)
            part = slice(*np.searchsorted(block, [k, k + 1]))
            self.blocks.append((contrast, part, (1.0 - 2.0 * sign) * at.T[part]))
        # σΩ for ascent, σΩ/(1 − Ω) for the last digits: infinite where complementarity holds, but
        # for the looseness that keeps the system finite.
        slack = 1.0 - at.omega + _LOOSENESS if is_exact else np.ones(len(block))
        self.weights = at.step * at.omega / slack
        self.missed, self.mismatch = at.missed / slack, at.missed
        # Under a penalty s moves so that the multipliers keep their mass: D loses its part along
        # the traces. (What turns eigenvectors has no trace and does not move s.)
        traces = np.einsum("tii->t", at.T) * (block < 2 * C)
        self.moving = self.weights * traces
        self.mass = float(self.moving.sum())
        if problem.limit is None and self.s > 0.0 and self.mass > 0.0:
            lacking = problem.penalty - float(np.einsum("kii->", self.M))
            self.lacking = lacking + float(self.missed @ traces)
            self.missed = self.missed - self.moving * (self.lacking / self.mass)
        else:
            self.mass = 0.0
        # Of few unknowns, or of more directions than unknowns, the whole matrix costs less.
        self.unknowns = (len(self.V) - self.V.shape[1]) * self.V.shape[1]
        most = max(_WHOLE_MATRIX, min(_MOST_UNKNOWNS, len(block)))
        self.is_direct = 0 < self.unknowns <= most

    @property
    def cost(self) -> int:
        """What solving for a step takes, in evaluations of the function."""
        (p, d), t = self.V.shape, len(self.weights)
        size = self.unknowns if self.is_direct else t
        other = t if self.is_direct else d * d
        return int(size**2 * (size + other) // (_PRODUCTS_PER_EVALUATION + len(self.B) * p**2 * d))

    def inside(self, X: Array) -> Array:
        """Tangent part."""
        return np.asarray(X - self.V @ (self.V.T @ X))

    def multiply(self, K: Array) -> Array:
        """Half the second derivative along K."""
        F = self.lagrangian.problem.F
        SK, QK, _ = self.lagrangian.products(K)
        H = (QK @ self.G).sum(axis=0) - SK + K * self.inner
        H += F.T @ (self.b[:, None] * (F @ K))
        H += self.images @ self.combine(self.weighted(self.meet(K)))
        return self.inside(H)

    def matrix(self, N: Array) -> Array:
        """Half the second derivative of steps NX, as a matrix for X row by row."""
        r, d, F = N.shape[1], len(self.inner), self.lagrangian.problem.F @ N
        SN, QN, _ = self.lagrangian.products(N)
        H = np.kron((F.T * self.b) @ F - N.T @ SN, np.eye(d)) + np.diag(np.tile(self.inner, r))
        for Q, G in zip(N.T @ QN, self.G, strict=True):
            H += np.kron(Q, G)
        images = (N.T @ self.images).reshape(r, -1, d).transpose(1, 0, 2)
        rows = [(images[c] @ T).reshape(len(T), -1) for c, _, T in self.blocks]
        J = np.concatenate([np.zeros((0, r * d)), *rows])
        return symmetrize(H + 2.0 * J.T @ self.weighted(J))

    def weighted(self, z: Array) -> Array:
        """Dz, of a vector (t,) or of columns (t, ·)."""
        product = np.asarray((self.weights * z.T).T)
        if self.mass > 0.0:
            product -= np.multiply.outer(self.moving, self.moving @ z) / self.mass
        return product

    def meet(self, K: Array) -> Array:
        """JK (t,)."""
        met = (self.images.T @ K).reshape(-1, len(self.inner) ** 2)
        parts = [T.reshape(len(T), -1) @ met[c] for c, _, T in self.blocks]
        return 2.0 * np.concatenate([np.zeros(0), *parts])

    def combine(self, z: Array) -> Array:
        """Σ z_tT_t, stacked over contrasts (C·d, d)."""
        d = len(self.inner)
        total = np.zeros((self.images.shape[1] // d, d * d))
        for contrast, part, T in self.blocks:
            total[contrast] += z[part] @ T.reshape(len(T), -1)
        return total.reshape(-1, d)

    def stepped(self, K: Array) -> Multipliers:
        """Multipliers after a step along K."""
        at, met = self.active, self.meet(K)
        change = self.weighted(met) - self.missed
        M, b, s = np.zeros_like(self.M), self.b.copy(), self.s
        for k in range(len(M)):
            mine = at.block == k
            values = np.einsum("tij,ij->t", at.T[mine], self.M[k]) + change[mine]
            M[k] = np.einsum("t,tij->ij", values, at.T[mine])
        for j in range(len(b)):
            b[j] += change[at.block == len(M) + j].sum()
        if self.mass > 0.0:
            s = max(s + float(self.moving @ met - self.lacking) / self.mass, 0.0)
        return Multipliers(M, np.maximum(b, 0.0), s)


class _Preconditioner:
    """The inverse of what does not couple columns, and of the penalty."""

    # (H₀ + JᵀDJ)⁻¹ = H₀⁻¹ − H₀⁻¹Jᵀ(I + D·JH₀⁻¹Jᵀ)⁻¹D·JH₀⁻¹ (Woodbury), with H₀ one factorised p×p
    # matrix for each column. Without the second part conjugate gradients need as many steps as the
    # penalty has directions; with it, a handful.

    def __init__(self, point: _BasisPoint) -> None:
        self.point = point
        if not point.lagrangian.factors:
            point.lagrangian.factors = self._factorize()
        self.factors = point.lagrangian.factors
        if not len(point.weights):
            return
        d, images = len(point.inner), point.inside(point.images)
        solved = [lapack.dpotrs(factor, images, lower=1)[0] for factor in self.factors]
        # (d, p, C·d): column j of the solution for A_cT is solved[j] @ T[:, j].
        self.solved = point.inside(np.stack(solved))
        met = (images.T @ self.solved).reshape(d, -1, images.shape[1] // d, d)
        met = np.concatenate([met[:, :, c] @ T.transpose(1, 2, 0) for c, _, T in point.blocks], 2)
        met = met.reshape(d, -1, d, len(point.weights)).transpose(1, 0, 2, 3)
        rows = [np.tensordot(T, met[c], ((1, 2), (0, 1))) for c, _, T in point.blocks]
        table, eye = 2.0 * np.concatenate(rows), np.eye(len(point.weights))
        self.small = np.linalg.solve(eye + point.weighted(table), point.weighted(eye))

    def _factorize(self) -> list[Array]:
        point, lagrangian = self.point, self.point.lagrangian
        problem, unit, diagonal = lagrangian.problem, lagrangian.unit, np.arange(len(point.V))
        base = _ALONG_BASIS * unit * (point.V @ point.V.T) - problem.S
        base += (problem.F.T * point.b) @ problem.F
        factors = []
        for j, inner in enumerate(point.inner):
            H = base.copy()
            for G, Q in zip(point.G, problem.Q, strict=True):
                H += G[j, j] * Q
            H[diagonal, diagonal] += inner
            # Next to a saddle H is not positive; a part of the last shift is tried first.
            shift, fault = max(0.25 * lagrangian.shifts[j], _SMALLEST_SHIFT * unit), 1
            while fault:
                H[diagonal, diagonal] += shift
                factor, fault = lapack.dpotrf(H.T, lower=1, clean=0)
                lagrangian.shifts[j], shift = shift, 4.0 * shift
            factors.append(factor)
        return factors

    def solve(self, R: Array) -> Array:
        """Return a tangent step for a tangent right-hand side."""
        columns = [lapack.dpotrs(f, R[:, j], lower=1)[0] for j, f in enumerate(self.factors)]
        X = self.point.inside(np.stack(columns, axis=1))
        if len(self.point.weights):
            T = self.point.combine(self.small @ self.point.meet(X))
            X -= (self.solved @ T.T[:, :, None])[:, :, 0].T
        return X
