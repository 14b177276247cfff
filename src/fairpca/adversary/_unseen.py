"""Δ on rows that neither the basis nor the classifier has seen, and what chance alone gives."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fairpca._progress import Counter
from fairpca.adversary._ascent import PathTarget
from fairpca.adversary._space import FormContrasts, Space, find_space, fit_path
from fairpca.adversary._targets import Targets, form_targets, quiet
from fairpca.exceptions import GroupsError, InfeasibleError, SmallGroupWarning
from fairpca.linalg import Array
from fairpca.moments import GroupMoments
from fairpca.rows import Rows

# Mean and deviation of Kolmogorov's distribution: of √(mn/(m+n)) times the largest difference of
# two empirical distribution functions of the same numbers.
_KOLMOGOROV_MEAN, _KOLMOGOROV_DEVIATION = 0.8687, 0.2603
_NORMAL_95 = 1.645
# Rows that each side of a contrast needs in each half.
MIN_ROWS = 4
# Rows that a judge is trained on; a kernel classifier costs their square.
_JUDGE_ROWS = 1500
# How often rows are split anew where a half varies in too few directions.
_DRAWS = 20


class Unseen(NamedTuple):
    """Δ of one target on new rows, its standard error, and what chance alone exceeds in 5 %."""

    value: float
    error: float
    chance: float


class Side(NamedTuple):
    """A target as a question with two answers: signs (n,), 0: left out, and weights (n,)."""

    signs: NDArray[np.int8]
    weights: Array

    @property
    def smallest(self) -> int:
        """Rows of the smaller side."""
        return int(min(np.count_nonzero(self.signs > 0), np.count_nonzero(self.signs < 0)))


Judge: TypeAlias = Callable[[Array, Side, Array], Sequence[Array]]
"""Trains classifiers on scores and their sides; returns what each says of new scores."""


def two_sides(targets: Targets) -> dict[str, Side]:
    """Every target by name; a number is asked whether it lies above its median."""
    weights = targets.row_weights()
    sides = {}
    for name, is_number, label, weight in zip(
        targets.names, targets.is_number, targets.labels, weights, strict=True
    ):
        inside = weight > 0.0
        middle = np.median(label[inside]) if is_number else 0.0
        signs = np.where(inside, np.where(label > middle, 1, -1), 0).astype(np.int8)
        sides[name] = Side(signs, weight)
    return sides


def halves(rows: Rows, random: np.random.Generator) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Split rows at random into two halves, every cell by itself."""
    cells = rows.cells()
    order = random.permutation(len(cells))
    order = order[np.argsort(cells[order], kind="stable")]
    return np.sort(order[::2]), np.sort(order[1::2])


def largest_difference(scores: Array, side: Side) -> Unseen:
    """Δ of a score: the largest difference of its distribution functions on the two sides."""
    used = np.flatnonzero(side.signs)
    order = used[np.argsort(scores[used], kind="stable")]
    ranked, plus = scores[order], side.signs[order] > 0
    mass = side.weights[order]
    high = np.cumsum(np.where(plus, mass, 0.0)) / mass[plus].sum()
    low = np.cumsum(np.where(plus, 0.0, mass)) / mass[~plus].sum()
    last = np.append(ranked[1:] != ranked[:-1], True)  # equal scores fall on the same side
    best = np.argmax(np.where(last, np.abs(high - low), -1.0))
    # With weights a side counts as fewer rows.
    n_plus = mass[plus].sum() ** 2 / np.sum(mass[plus] ** 2)
    n_minus = mass[~plus].sum() ** 2 / np.sum(mass[~plus] ** 2)
    a, b = float(high[best]), float(low[best])
    error = np.sqrt(max(a * (1 - a), 0.0) / n_plus + max(b * (1 - b), 0.0) / n_minus)
    chance = np.sqrt(1.0 / n_plus + 1.0 / n_minus)
    return Unseen(abs(a - b), float(error), float(chance))


def averaged(parts: list[Unseen]) -> Unseen:
    """Mean over the halves, with its error and the level that chance exceeds in 5 %."""
    count = len(parts)
    unit = float(np.sqrt(np.mean([part.chance**2 for part in parts])))
    return Unseen(
        float(np.mean([part.value for part in parts])),
        float(np.sqrt(np.sum([part.error**2 for part in parts])) / count),
        unit * (_KOLMOGOROV_MEAN + _NORMAL_95 * _KOLMOGOROV_DEVIATION / float(np.sqrt(count))),
    )


def cross_fitted(
    rows: Rows,
    form_contrasts: FormContrasts,
    n_components: int,
    mean_tol: float | None,
    aims: Sequence[PathTarget],
    random: np.random.Generator,
    judge: Judge,
    counter: Counter | None = None,
) -> list[Unseen]:
    """Δ for every aim on rows that neither basis nor classifier has seen; the worst target counts.

    Bases and classifiers are fitted to one half of the rows and measured on the other, and the
    other way round.
    """
    _check_sizes(rows, form_contrasts)

    def space_of(part: Rows) -> Space:
        moments = GroupMoments.from_rows(part)
        contrasts = quiet(form_contrasts, moments.coordinates())
        return find_space(moments, contrasts, n_components, mean_tol)

    parts, spaces = _halves_with_room(rows, space_of, random)
    found: list[dict[str, list[Unseen]]] = [{} for _ in aims]
    for train, test, space in zip(parts, parts[::-1], spaces, strict=True):
        pair = _Pair(train, test, form_contrasts, random)
        path = fit_path(space, pair.train, form_contrasts, aims, random, counter)
        known: dict[int, dict[str, Unseen]] = {}
        for point, values in zip(path, found, strict=True):
            key = id(point.basis)  # aims that choose the same basis
            if key not in known:
                known[key] = pair.measure(space, point.basis, judge)
            for name, value in known[key].items():
                values.setdefault(name, []).append(value)
    return [
        max(map(averaged, values.values()), key=lambda unseen: unseen.value) for values in found
    ]


def _halves_with_room(
    rows: Rows, space_of: Callable[[Rows], Space], random: np.random.Generator
) -> tuple[list[Rows], list[Space]]:
    """Split rows anew while a half lacks the few rows in which some feature varies."""
    for _ in range(_DRAWS):
        parts = [rows.take(part) for part in halves(rows, random)]
        try:
            return parts, [space_of(part) for part in parts]
        except InfeasibleError as error:
            reason = error
    raise InfeasibleError(
        f"Δ on unseen rows is measured on halves of them, and for a half: {reason} Or give penalty "
        "instead of delta, which measures nothing.",
        parameter="n_components",
    ) from reason


def _check_sizes(rows: Rows, form_contrasts: FormContrasts) -> None:
    """Refuse groups that cannot be halved, and say which questions cannot be asked."""
    sides = two_sides(form_targets(rows, form_contrasts)[0])
    small = [name for name, side in sides.items() if side.smallest < 2 * MIN_ROWS]
    advice = (
        f"Δ on unseen rows needs at least {2 * MIN_ROWS} rows in each of two groups. Merge small "
        "groups, or give penalty instead of delta, which measures nothing."
    )
    attributes = {name.split(":")[0] for name in sides}
    if {name.split(":")[0] for name in sides if name not in small} != attributes:
        raise GroupsError(f"too few rows for {small[0]}: {advice}", parameter="sensitive_features")
    if small:
        message = f"Not measured on unseen rows, since too small: {'; '.join(small[:20])}."
        warnings.warn(message, SmallGroupWarning, stacklevel=9)


class _Pair:
    """Rows to fit to and rows to measure on, with the questions that can be asked of both."""

    def __init__(
        self, train: Rows, test: Rows, form_contrasts: FormContrasts, random: np.random.Generator
    ) -> None:
        self.train, self.test = train, test
        targets, order = form_targets(train, form_contrasts)
        self.drawn = targets.draw(_JUDGE_ROWS, random)
        self.train_order = order[self.drawn]
        train_sides = two_sides(targets.take(self.drawn))
        targets, self.test_order = form_targets(test, form_contrasts)
        self.sides = {
            name: (train_sides[name], side)
            for name, side in two_sides(targets).items()
            if name in train_sides and min(side.smallest, train_sides[name].smallest) >= MIN_ROWS
        }

    def measure(self, space: Space, V: Array, judge: Judge) -> dict[str, Unseen]:
        """Δ of every question for a basis: the largest over the judge's classifiers."""
        U = space.coordinates(self.train.X)[self.train_order] @ V
        new = space.coordinates(self.test.X)[self.test_order] @ V
        scale = U.std(axis=0)
        scale[scale == 0.0] = 1.0
        found = {}
        for name, (train, test) in self.sides.items():
            used = train.signs != 0
            scores = judge(U[used] / scale, Side(*(part[used] for part in train)), new / scale)
            values = [largest_difference(score, test) for score in scores]
            found[name] = max(values, key=lambda unseen: unseen.value)
        return found
