"""Δ of bases on the rows of the fit, and the search for the most variance at a requested Δ.

Own: classifiers cross-fitted on the rows of the basis. The basis was made to hide from these rows,
so own is too small. By how much is measured on halves: for bases fitted to a half, Δ on the other
half less own, as a function of own. Of this optimism a share is added, since a basis of all rows
has twice as many.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fairpca import adversary
from fairpca._choices import DELTA_FAMILIES
from fairpca._present import Counter
from fairpca.exceptions import GroupsError, InfeasibleError, SmallGroupWarning, warn_user
from fairpca.linalg import Array
from fairpca.metrics._cross_fit import (
    CLASSIFIERS,
    MIN_ROWS,
    HeldOutDelta,
    Labelled,
    Train,
    cross_fit_delta,
    largest_delta,
)
from fairpca.moments import ContrastSet, GroupMoments
from fairpca.rows import Rows

FormContrasts: TypeAlias = Callable[[GroupMoments], ContrastSet]
Target: TypeAlias = tuple[NDArray[np.int8], Array]
"""Signs of rows, and their weights."""

PENALTIES = (0.15, 1.0, 6.0, 40.0, 500.0)
"""Of the coarse path, on all rows and on halves."""
ASCENTS = 16
"""Spent around the request."""
# Classifier of the registry that measures Δ for each family.
_CLASSIFIER = dict(
    zip(DELTA_FAMILIES, ("gaussian-widths", "logistic", "large-trees", "panel"), strict=True)
)
_TRAINED_ROWS = 1500  # that points are compared by; a kernel classifier costs their square
_MANY_ROWS = 3500  # from which on classifiers of all rows find clearly more than those
_SPLITS = 20  # how often rows are split anew where a half varies in too few directions
_SHARE, _WIDTH = 0.7, 0.1  # of the optimism that is added; of its kernel mean in own
_EXCESS = 0.3  # of the chance level, in the error
_MARGIN = 0.5  # errors by which a point must stay below the request to be chosen
_REPORTED = 3  # splits of the figure that is reported; none of them was used to choose
_STARTS = 2  # of every target
_NOISE, _STEEP = 0.02, 0.6
_APART, _TIGHT = 1.04, 1.1  # times the variance, of a point that is above another; close to it
_CALIBRATE = 4  # targets between two comparisons with classifiers of all rows
_EXPLORE = 3  # one target in so many looks further up
_TRIED = 4  # points whose fresh figure may exceed the request before the search is given up
_HIGHER = 4.0  # times the penalty, where no point is good enough


def trainer(family: str, seed: int, max_rows: int = sys.maxsize) -> Train:
    """Return the training of a family, on at most so many rows."""
    return CLASSIFIERS[_CLASSIFIER[family]].trainer(seed, max_rows)


def own_delta(
    U: Array,
    rows: Rows,
    labels: Mapping[str, Target],
    train: Train,
    random: np.random.Generator,
    *,
    few: bool = False,
) -> HeldOutDelta | None:
    """Δ of the worst target, by classifiers that are cross-fitted on the rows.

    Few rows are quartered, not halved: some more to train on make a difference there. None where
    groups are too small for that.
    """
    parts = [_labelled(U / _spread(U), rows, target) for target in labels.values()]
    halves = rows.halves(random)
    quarters = [half[part] for half in halves for part in rows.take(half).halves(random)]
    own = _worst(cross_fit_delta(part, quarters, train) for part in parts) if few else None
    return own or _worst(cross_fit_delta(part, halves, train) for part in parts)


class DeltaSearch:
    """A coarse path on all rows, optimism measured on halves, and a search around a request."""

    def __init__(
        self,
        space: adversary.Space,
        rows: Rows,
        form_contrasts: FormContrasts,
        mean_tol: float | None,
        family: str,
        random: np.random.Generator,
        counter: Counter | None = None,
    ) -> None:
        _check_sizes(rows, form_contrasts)
        self._random, seed = random, int(random.integers(2**31))
        self._train, self._train_some = trainer(family, seed), trainer(family, seed, _TRAINED_ROWS)
        self._few = 3 * len(rows) <= 4 * _TRAINED_ROWS
        self._many, self._gain = len(rows) > _MANY_ROWS, 0.0
        self.path = adversary.Path(space, rows, form_contrasts, random, counter)
        self.coarse = self.path.fit(PENALTIES)
        size = (space.problem.n_components, mean_tol)
        halves, spaces = _split_rows(rows, form_contrasts, *size, random)
        paths = [
            adversary.Path(*part, form_contrasts, random, counter)
            for part in zip(spaces, halves, strict=True)
        ]
        pairs = [
            (self._own(path, basis), self._other(path, other, basis))
            for path, other in zip(paths, paths[::-1], strict=True)
            for basis in {id(p.basis): p.basis for p in path.fit(PENALTIES)}.values()
        ]
        if None in itertools.chain(*pairs):
            raise _too_small("a half of the rows")
        seen, new = (
            np.array([delta.value for delta in deltas]) for deltas in zip(*pairs, strict=True)
        )
        self._seen, self._optimism = seen, new - seen
        self._known: dict[int, HeldOutDelta] = {}

    def _own(self, path: adversary.Path, basis: Array, train: Train | None = None) -> Any:
        how = (path.rows, path.labels, train or self._train_some, self._random)
        return own_delta(path.X @ basis, *how, few=self._few)

    def _other(self, path: adversary.Path, other: adversary.Path, basis: Array) -> Any:
        """Δ on the rows of another path, of classifiers trained on those of this one."""
        U, new = path.X @ basis, path.space.coordinates(other.rows.X) @ basis
        deltas = []
        for name in (name for name in other.labels if name in path.labels):
            trained = _labelled(U / _spread(U), path.rows, path.labels[name])
            test = _labelled(new / _spread(U), other.rows, other.labels[name])
            if min(trained.smallest, test.smallest) >= MIN_ROWS // 2:
                deltas.append(largest_delta(self._train_some(trained).scores(test.rows.X), test))
        return _worst(deltas)

    def measure(
        self, point: adversary.Point, repeats: int = _REPORTED, train: Train | None = None
    ) -> HeldOutDelta:
        """Δ of a point by fresh splits, with its share of the optimism."""
        train = train or self._train
        owns = [self._own(self.path, point.basis, train) for _ in range(repeats)]
        values = np.array([own.value for own in owns])
        own, split_error = values.mean(), values.std() / np.sqrt(repeats)
        weights = np.exp(-0.5 * ((self._seen - own) / _WIDTH) ** 2) + 1e-6
        weights /= weights.sum()
        optimism = weights @ self._optimism
        # Of one basis, not of their mean: with m of them, both mean and spread are estimates.
        count = 1.0 / (weights @ weights)
        spread = np.sqrt(weights @ (self._optimism - optimism) ** 2)
        spread *= np.sqrt((count + 1.0) / max(count - 1.0, 1.0))
        excess = _EXCESS * owns[0].chance  # of the largest of all thresholds, even without leakage
        error = np.linalg.norm([owns[0].error, split_error, _SHARE * spread, excess])
        value = min(max(own + _SHARE * optimism, 0.0), 1.0)
        return HeldOutDelta(float(value), float(error), owns[0].chance)

    def _quick(self, point: adversary.Point) -> HeldOutDelta:
        """Δ by which points are compared, of one split."""
        key = id(point.basis)
        if key not in self._known:
            self._known[key] = self.measure(point, 1, self._train_some)
        known = self._known[key]
        return known._replace(value=min(known.value + self._gain, 1.0))

    def _limit(self, point: adversary.Point, margin: float = _MARGIN) -> float:
        quick = self._quick(point)
        return quick.value + margin * quick.error

    def _good(self, point: adversary.Point, delta: float, margin: float = _MARGIN) -> bool:
        # Labels ±1 with R² = L have Δ ≥ L, and Δ > 0.6 √L but for rare groups of rows: what leaks
        # much more than `delta` allows need not be measured.
        if point.leakage > _NOISE + (delta / _STEEP) ** 2:
            return False
        return self._limit(point, margin) <= delta

    def search(
        self, delta: float | None, ascents: int | None = None
    ) -> tuple[list[adversary.Point], list[HeldOutDelta], int]:
        """Return the points of the path with Δ of each, and the place of the one chosen."""
        request = self._quick(self.coarse[-1]).chance if delta is None else delta
        self.points = _frontier(self.path.points)
        for number in range((ascents or ASCENTS) // _STARTS):
            if self._many and number % _CALIBRATE == 0:
                self._calibrate(request)
            target, starts = self._around(request, explore=number % _EXPLORE == 0)
            if target is None:
                break
            some = starts[:_STARTS] if number % 2 == 0 else starts[_STARTS:]
            self.points += [self.path.ascend(target, start) for start in some]
        return self._choose(request)

    def _calibrate(self, delta: float) -> None:
        """Measure what classifiers find more with all rows than with those that compare points."""
        points = sorted(self.points, key=lambda point: -point.variance)
        quiet = min(points, key=lambda point: point.leakage)
        point = next((point for point in points if self._good(point, delta)), quiet)
        more = self.measure(point, 1).value - self._quick(point).value
        self._gain = max(self._gain + more, 0.0)

    def _around(
        self, delta: float, *, explore: bool
    ) -> tuple[adversary.PathTarget | None, tuple[Array | None, ...]]:
        """Return a target next to the best point so far and bases to start from; None: no room."""
        points = sorted(self.points, key=lambda point: -point.variance)
        best = next((point for point in points if self._good(point, delta)), None)
        variances = self.path.space.variances
        noise = self._random.standard_normal((len(variances), self.path.space.problem.n_components))
        restart = np.linalg.qr(np.sqrt(variances)[:, None] * noise)[0]
        if best is None:
            least = min(points, key=lambda point: point.leakage)
            target = adversary.PathTarget(_HIGHER * PENALTIES[-1])
            return target, (least.basis, restart, restart, None)
        above = [point for point in points if point.variance > _APART * best.variance]
        if not above:
            return None, ()
        near = above[-1]
        # A bisection ends next to the best point, but Δ need not rise with the variance, and the
        # next local optimum may be anywhere: then, and now and then before, look further up.
        if explore or near.variance < _TIGHT * best.variance:
            known = [point for point in above if id(point.basis) in self._known]
            near = min(known or above, key=lambda p: self._limit(p) if known else p.leakage)
        high, low = self._limit(near), self._limit(best)
        way = np.clip((high - delta) / max(high - low, 1e-9), 0.2, 0.8)
        variance = float(near.variance ** (1.0 - way) * best.variance**way)
        return near.between(best, variance), (best.basis, restart, near.basis, None)

    def _choose(self, delta: float) -> tuple[list[adversary.Point], list[HeldOutDelta], int]:
        """Measure the best points anew until one is within the request, else take the least Δ."""
        points = sorted(self.points, key=lambda point: -point.variance)
        reported: dict[int, HeldOutDelta] = {}
        for tried in range(_TRIED):  # after a disappointment, the next point needs a wider margin
            good = [p for p in points if self._good(p, delta, _MARGIN * (1 + tried / 2))]
            point = next((p for p in good if id(p.basis) not in reported), None)
            if point is None:
                continue
            reported[id(point.basis)] = self.measure(point)
            if reported[id(point.basis)].value <= delta:
                break
        else:
            quiet = sorted(points, key=lambda point: point.leakage)[:_TRIED]
            point = min(quiet, key=lambda point: self._quick(point).value)
            reported[id(point.basis)] = self.measure(point)
        line = self._line(point, reported)
        deltas = [reported.get(id(p.basis)) or self._quick(p) for p in line]
        return line, deltas, [p.basis is point.basis for p in line].index(True)

    def _line(
        self, chosen: adversary.Point, reported: Mapping[int, HeldOutDelta]
    ) -> list[adversary.Point]:
        """Coarse points, the one chosen, and those of less Δ than all of more variance."""
        kept, least = {id(point.basis): point for point in self.coarse}, 2.0
        for point in sorted(self.points, key=lambda point: -point.variance):
            key = id(point.basis)
            delta = reported.get(key) or self._known.get(key)
            if delta is not None and (delta.value < least or point.basis is chosen.basis):
                least = min(least, delta.value)
                kept.setdefault(key, point)
        return sorted(kept.values(), key=lambda point: (-point.variance, point.leakage))


def _frontier(points: Iterable[adversary.Point]) -> list[adversary.Point]:
    """Points that leak less than all of more variance."""
    kept: list[adversary.Point] = []
    for point in sorted(points, key=lambda point: (-point.variance, point.leakage)):
        if not kept or point.leakage < kept[-1].leakage:
            kept.append(point)
    return kept


def _worst(deltas: Iterable[HeldOutDelta | None]) -> HeldOutDelta | None:
    """Return the largest of several targets, with the highest level of chance; None: of none."""
    measured = [delta for delta in deltas if delta is not None]
    if not measured:
        return None
    worst = max(measured, key=lambda delta: delta.value)
    return worst._replace(chance=max(delta.chance for delta in measured))


def _spread(U: Array) -> Array:
    scale = U.std(axis=0)
    return np.where(scale > 0.0, scale, 1.0)


def _labelled(U: Array, rows: Rows, target: Target) -> Labelled:
    signs, weights = target
    return Labelled(Rows(U, weights=weights, units=rows.units), signs)


def _split_rows(
    rows: Rows,
    form_contrasts: FormContrasts,
    n_components: int,
    mean_tol: float | None,
    random: np.random.Generator,
) -> tuple[list[Rows], list[adversary.Space]]:
    """Return halves and their spaces; split anew while some feature is constant in a half."""
    for _ in range(_SPLITS):
        halves = [rows.take(half) for half in rows.halves(random)]
        try:
            spaces = []
            for half in halves:
                moments = GroupMoments.from_rows(half)
                contrasts = adversary.form_silently(form_contrasts, moments.coordinates())
                spaces.append(adversary.find_space(moments, contrasts, n_components, mean_tol))
            return halves, spaces
        except InfeasibleError as error:
            reason = error
    raise InfeasibleError(
        f"Δ is measured on halves of the rows, and for a half: {reason} Or set penalty instead of "
        "delta, which measures nothing.",
        parameter="n_components",
    ) from reason


def _too_small(name: str) -> GroupsError:
    return GroupsError(
        f"too few rows for {name}: Δ on held-out rows needs at least {2 * MIN_ROWS} rows in each "
        "of two groups, and more where they belong to few units. Merge small groups, or set "
        "penalty instead of delta, which measures nothing.",
        parameter="sensitive_features",
    )


def _check_sizes(rows: Rows, form_contrasts: FormContrasts) -> None:
    """Refuse groups that cannot be halved, and say which contrasts are not measured."""
    targets = adversary.form_targets(rows, form_contrasts)[0].binary()
    sizes = {name: Labelled(rows, signs).smallest for name, (signs, _) in targets.items()}
    small = [name for name, size in sizes.items() if size < 2 * MIN_ROWS]
    measured = {name.split(":")[0] for name in sizes if name not in small}
    if measured != {name.split(":")[0] for name in sizes}:
        raise _too_small(small[0])
    if small:
        message = f"Not measured on held-out rows, since too small: {'; '.join(small[:20])}."
        warn_user(message, SmallGroupWarning)
