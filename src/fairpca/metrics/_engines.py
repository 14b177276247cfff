"""One engine for each family and method.

An engine is made from the rows alone, so that what does not depend on the groups is computed once;
it then answers for one comparison (`fit`, with the classifier that attains the value) and for
many (`null`, values only), by the same procedure, which is what makes a permutation p-value valid.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fairpca.metrics._cdf import Corner, Orthants
from fairpca.metrics._plane import PlaneSweep
from fairpca.metrics._rules import HalfSpaceRule, OrthantRule, Rule
from fairpca.metrics._search import search
from fairpca.metrics._svm import svm_machines, whiten
from fairpca.metrics._thresholds import (
    TIE_TOLERANCE,
    Floats,
    Signs,
    best_cut,
    masses,
)

# Below this norm (the whitened rows have unit variance) an SVM's weight vector is rounding.
ZERO_WEIGHT = 1e-6


@dataclass(frozen=True, eq=False)
class Fit:
    """Value of one comparison and the classifier that attains it; None for a constant one."""

    value: float
    rule: Rule | None


class Engine(Protocol):
    """What the families have in common."""

    def fit(self, signs: Signs) -> Fit:
        """Return the value of one comparison, with its classifier."""

    def null(self, signs: Signs) -> Floats:
        """Return the values of many comparisons."""


def half_space(U: Floats, direction: Floats, mass: Floats, tolerance: float) -> HalfSpaceRule:
    """Turn a direction into the rule that flags the positive group more often."""
    direction = direction / np.linalg.norm(direction)
    scores = U @ direction
    cut = best_cut(scores, mass, tolerance=tolerance)
    if cut.above or cut.below_row < 0:
        return HalfSpaceRule(direction, cut.threshold)
    # A rule flags by ">", so a threshold on the lower neighbour becomes one on the upper.
    on_lower = cut.threshold == scores[cut.below_row]
    flipped = -scores[cut.above_row] if on_lower else -cut.threshold
    return HalfSpaceRule(-direction, float(flipped))


class LineEngine:
    """Half-spaces of a single component: a sort is exact."""

    def __init__(self, U: Floats, sample_weight: Floats | None) -> None:
        self._U = U
        self._weight = sample_weight

    def fit(self, signs: Signs) -> Fit:
        """Return the value of one comparison, with its classifier."""
        mass = masses(signs[None], self._weight)
        cut = best_cut(self._U[:, 0], mass.values[0], tolerance=0.0)
        if cut.below_row < 0:
            return Fit(0.0, None)
        rule = half_space(self._U, np.ones(1), mass.values[0], 0.0)
        return Fit(cut.value / float(mass.scale[0]), rule)

    def null(self, signs: Signs) -> Floats:
        """Return the values of many comparisons."""
        order = np.argsort(self._U[:, 0])
        ordered = self._U[order, 0]
        mass = masses(signs, self._weight)
        sums = np.abs(np.cumsum(mass.values[:, order], axis=1)[:, :-1])
        sums[:, np.diff(ordered) == 0] = 0.0
        return sums.max(axis=1, initial=0.0) / mass.scale


class PlaneEngine:
    """Half-planes, exactly."""

    def __init__(self, U: Floats, sample_weight: Floats | None) -> None:
        self._U = U
        self._weight = sample_weight
        self._sweep = PlaneSweep(U)

    def fit(self, signs: Signs) -> Fit:
        """Return the value of one comparison, with its classifier."""
        mass = masses(signs[None], self._weight)
        found = self._sweep.best(mass.values[0])
        if found.value == 0:
            return Fit(0.0, None)
        rule = half_space(self._U, found.normal, mass.values[0], TIE_TOLERANCE)
        return Fit(found.value / float(mass.scale[0]), rule)

    def null(self, signs: Signs) -> Floats:
        """Return the values of many comparisons."""
        mass = masses(signs, self._weight)
        return self._sweep.suprema(mass.values) / mass.scale


class SVMEngine:
    """Half-spaces by linear support vector machines, a stiff and a loose one."""

    def __init__(self, U: Floats, sample_weight: Floats | None) -> None:
        self._U = U
        self._weight = sample_weight
        self._whitened, self._back = whiten(U, sample_weight)

    def mean_shift(self, signs: Signs) -> float:
        """Return the squared distance of the group means in units of its sampling noise."""
        weight = np.ones(len(signs)) if self._weight is None else self._weight
        groups = [(self._whitened[signs == s], weight[signs == s]) for s in (1, -1)]
        means = [w @ rows / w.sum() for rows, w in groups]
        sizes = [w.sum() ** 2 / (w @ w) for _, w in groups]
        return float(((means[0] - means[1]) ** 2).sum() / (1 / sizes[0] + 1 / sizes[1]))

    @property
    def rank(self) -> int:
        """Number of independent components."""
        return self._whitened.shape[1]

    def fit(self, signs: Signs) -> Fit:
        """Return the value of one comparison; no classifier where no machine has a direction."""
        [(directions, values)] = self._evaluate(signs[None])
        best = int(np.argmax(values[0]))
        if not directions[0, best].any():
            return Fit(0.0, None)
        mass = masses(signs[None], self._weight)
        direction = self._back @ directions[0, best]
        rule = half_space(self._U, direction, mass.values[0], TIE_TOLERANCE)
        return Fit(float(values[0, best]), rule)

    def null(self, signs: Signs) -> Floats:
        """Return the values of many comparisons."""
        found, start = np.empty(len(signs)), 0
        for directions, values in self._evaluate(signs):
            found[start : start + len(values)] = values.max(axis=1)
            # What `delta_fairness` does where the value itself has no direction.
            for i in np.flatnonzero(~directions.any(axis=(1, 2))) if self.rank else ():
                row = signs[start + i]
                cut = search(self._whitened, self._back, row, self._weight)[1]
                found[start + i] = cut.value / float(masses(row[None], self._weight).scale[0])
            start += len(values)
        return found

    def _evaluate(self, signs: Signs) -> Iterator[tuple[Floats, Floats]]:
        """Yield directions, zero where a machine has none, and values of the next comparisons."""
        for machines, directions in svm_machines(self._whitened, signs, self._weight):
            directions[np.linalg.norm(directions, axis=2) < ZERO_WEIGHT] = 0.0
            yield directions, machines.suprema(directions)


class SearchEngine:
    """Half-spaces by ascent from many directions."""

    def __init__(self, U: Floats, sample_weight: Floats | None) -> None:
        self._U = U
        self._weight = sample_weight
        self._whitened, self._back = whiten(U, sample_weight)

    def fit(self, signs: Signs) -> Fit:
        """Return the value of one comparison, with its classifier."""
        if self._whitened.shape[1] == 0:
            return Fit(0.0, None)
        direction, cut = search(self._whitened, self._back, signs, self._weight)
        mass = masses(signs[None], self._weight)
        rule = half_space(self._U, self._back @ direction, mass.values[0], TIE_TOLERANCE)
        return Fit(cut.value / float(mass.scale[0]), rule)

    def null(self, signs: Signs) -> Floats:
        """Return the values of many comparisons."""
        if self._whitened.shape[1] == 0:
            return np.zeros(len(signs))
        scale = masses(signs, self._weight).scale
        found = [search(self._whitened, self._back, row, self._weight)[1].value for row in signs]
        return np.array(found) / scale


class OrthantEngine:
    """Orthants: at the rows, by ascent from the best rows, or on the whole grid."""

    def __init__(self, U: Floats, sample_weight: Floats | None, method: str, orthants: str) -> None:
        self._weight = sample_weight
        self._method = method
        d = U.shape[1]
        flips = [(1.0,) * d] if orthants == "one" else itertools.product((1.0, -1.0), repeat=d)
        self._parts = [(np.array(flip), Orthants(U * flip)) for flip in flips]

    def _corner(self, part: Orthants, at_rows: Floats | None, mass: Floats) -> Corner:
        if at_rows is None:
            return part.on_grid(mass)
        if self._method == "search":
            return part.ascend(at_rows, mass)
        return part.best_row(at_rows)

    def fit(self, signs: Signs) -> Fit:
        """Return the value of one comparison, with its classifier."""
        mass = masses(signs[None], self._weight)
        best: tuple[Floats, Corner] | None = None
        for flip, part in self._parts:
            rows = None if self._method == "exact" else self._at_rows(part, signs[None])[0]
            corner = self._corner(part, rows, mass.values[0])
            if best is None or abs(corner.value) > abs(best[1].value):
                best = flip, corner
        assert best is not None  # there is at least one orthant
        flip, corner = best
        if corner.value == 0:
            return Fit(0.0, None)
        rule = OrthantRule(corner.point * flip, flip, inside=corner.value > 0)
        return Fit(abs(corner.value) / float(mass.scale[0]), rule)

    def _at_rows(self, part: Orthants, signs: Signs) -> Floats:
        return part.at_rows(signs, self._weight)

    def null(self, signs: Signs) -> Floats:
        """Return the values of many comparisons."""
        mass = masses(signs, self._weight)
        found = np.zeros(len(signs))
        for _, part in self._parts:
            at_rows = None if self._method == "exact" else self._at_rows(part, signs)
            for i, row_mass in enumerate(mass.values):
                rows = None if at_rows is None else at_rows[i]
                found[i] = max(found[i], abs(self._corner(part, rows, row_mass).value))
        return found / mass.scale
