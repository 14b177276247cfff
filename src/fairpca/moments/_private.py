"""Moments with noise that hides every single row: (ε, δ)-differential privacy.

Letters: u a row in deviations known beforehand, clipped to the length L; M the sum of (L, u)(L, u)ᵀ
over the rows of a group, which holds their count, sum and scatter. A row is in one group, and moves
its M by ‖(L, u)‖² ≤ 2L² in the Frobenius norm: that is the sensitivity of all groups together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from fairpca._choices import MIN_ROWS
from fairpca.exceptions import GroupsError, InvalidInputError
from fairpca.linalg import symmetrize
from fairpca.moments._cells import Cell, FloatArray
from fairpca.moments._table import CellTable, Key
from fairpca.rows import Level, Rows, sort_levels

_FAR = 1e100  # deviations beyond which a square is no number; such rows are clipped anyhow


def noise_deviation(epsilon: float, delta: float) -> float:
    """Deviation of Gaussian noise for sensitivity 1: the analytic mechanism (Balle, Wang 2018)."""

    def excess(sigma: float) -> float:  # of the δ that noise of this deviation has, decreasing
        a, b = 0.5 / sigma, epsilon * sigma
        return float(ndtr(a - b) - np.exp(epsilon + log_ndtr(-a - b)) - delta)

    classical = np.sqrt(2.0 * np.log(1.25 / delta)) / min(epsilon, 1.0)
    return float(brentq(excess, 1e-6, 2.0 * classical, xtol=1e-12, rtol=1e-12)) * (1.0 + 1e-9)


def clip_rows(X: FloatArray, center: FloatArray, scale: FloatArray, length: float) -> FloatArray:
    """Return rows in deviations, none longer than `length`."""
    with np.errstate(over="ignore"):
        u = np.clip((X - center) / scale, -_FAR, _FAR)
    norms = np.linalg.norm(u, axis=1, keepdims=True)
    return np.asarray(u * np.minimum(1.0, length / np.maximum(norms, length)))


def sum_squares(u: FloatArray, length: float) -> FloatArray:
    """Return M, the sum of (L, u)(L, u)ᵀ."""
    rows = np.column_stack([np.full(len(u), length), u])
    return np.asarray(rows.T @ rows)


def add_noise(M: FloatArray, sigma: float, random: np.random.Generator) -> FloatArray:
    """Add noise of one deviation along every direction of the Frobenius norm."""
    noise = random.normal(size=M.shape) * sigma
    # Off the diagonal an entry counts twice in that norm, so that it has half the variance.
    noisy = M + (noise + noise.T) / 2.0
    np.fill_diagonal(noisy, np.diag(M) + np.diag(noise))
    return noisy


def read_cell(M: FloatArray, length: float, center: FloatArray, scale: FloatArray) -> Cell:
    """Return the nearest moments that rows can have, in the units of the features."""
    weight = max(float(M[0, 0]) / length**2, float(MIN_ROWS))
    mean = M[0, 1:] / length / weight
    mean = mean * min(1.0, length / max(float(np.linalg.norm(mean)), length))
    values, vectors = np.linalg.eigh(M[1:, 1:] - weight * np.outer(mean, mean))
    scatter = (vectors * np.maximum(values, 0.0)) @ vectors.T
    p = len(mean)
    attributes = (*np.zeros((3, 0)), np.zeros((0, p)), np.zeros((0, p, p)))
    features = (center + scale * mean, np.zeros(p), symmetrize(scatter * np.outer(scale, scale)))
    return Cell(round(weight), weight, 1.0, *features, *attributes)


def private_table(
    rows: Rows,
    groups: Sequence[Level],
    units: tuple[ArrayLike, ArrayLike],
    budget: tuple[float, float],
    bound: float,
    random_state: Any,
) -> CellTable:
    """Sum rows by group with noise; `units` are centre and scale, the budget is ε and δ."""
    epsilon, delta = budget
    for name, value, top in (
        ("epsilon", epsilon, np.inf),
        ("delta", delta, 1.0),
        ("bound", bound, np.inf),
    ):
        if isinstance(value, bool) or not 0.0 < value < top:
            most = "" if np.isinf(top) else " and below 1"
            raise InvalidInputError(
                f"{name}={value!r}: give a number above 0{most}.", parameter=name
            )
    codes, levels = _read_groups(rows, groups)
    center, scale = (
        _read_units(n, v, rows.X.shape[1]) for n, v in zip(("center", "scale"), units, strict=True)
    )
    length, random = bound * np.sqrt(rows.X.shape[1]), np.random.default_rng(random_state)
    sigma = noise_deviation(epsilon, delta) * 2.0 * length**2
    u = clip_rows(np.asarray(rows.X, dtype=np.float64), center, scale, length)
    cells: dict[Key, Cell] = {}
    for code, level in enumerate(levels):
        noisy = add_noise(sum_squares(u[codes == code], length), sigma, random)
        cells[(level,)] = read_cell(noisy, length, center, scale)
    assert rows.groups is not None
    return CellTable(rows.groups.names, (), (), cells)


def _read_groups(rows: Rows, groups: Sequence[Level]) -> tuple[Any, tuple[Level, ...]]:
    """Return the place of each row's group among those that were named beforehand."""
    known = () if rows.groups is None else rows.groups.categorical
    if rows.groups is None or len(known) != 1 or rows.groups.numeric:
        raise GroupsError(
            "moments with noise know one attribute that names groups: give one column, and put "
            "numbers into classes.",
            parameter="sensitive_features",
        )
    levels = sort_levels(set(groups))
    if len(levels) < 2 or (lacking := [n for n in known[0].levels if n not in levels]):
        problem = "are fewer than two" if len(levels) < 2 else f"lack {lacking[0]!r}"
        raise GroupsError(
            f"groups={list(groups)!r} {problem}: name all groups that may occur, because which of "
            "them do is a fact about the rows.",
            parameter="groups",
        )
    places = np.array([levels.index(level) for level in known[0].levels], dtype=np.intp)
    return places[known[0].codes], levels


def _read_units(name: str, value: ArrayLike, n_features: int) -> FloatArray:
    """Return a centre or scale for each feature."""
    numbers = np.asarray(value, dtype=np.float64)
    if numbers.ndim and numbers.shape != (n_features,):
        raise InvalidInputError(
            f"{name} has shape {numbers.shape}: give one number for each of {n_features} features.",
            parameter=name,
        )
    numbers = np.broadcast_to(numbers, (n_features,))
    if not np.isfinite(numbers).all() or (name == "scale" and (numbers <= 0.0).any()):
        what = "positive numbers" if name == "scale" else "numbers"
        raise InvalidInputError(f"{name} holds {value!r}: give finite {what}.", parameter=name)
    return numbers
