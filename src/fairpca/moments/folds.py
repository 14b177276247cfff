"""Moments by fold: all that held-out statistics of a fit need, in one pass over the rows."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fairpca.exceptions import GroupsError, InvalidInputError
from fairpca.linalg import gaussian_delta
from fairpca.moments._cells import Cell, FloatArray, Standardization, mean_difference
from fairpca.moments._form_contrasts import form_contrasts
from fairpca.moments._table import Key, merge_tables
from fairpca.moments.group_moments import GroupMoments
from fairpca.rows import Groups, Rows
from fairpca.rows.groups import Attribute

FOLD = "(fold)"
"""Name of the hidden stratum that keeps the folds apart during a pass."""


class GapStatistics(NamedTuple):
    """What moments say about a representation; a gap is None where no two groups are there."""

    mean_gap: float | None  # largest distance of means
    cov_gap: float | None  # largest spectral norm of a difference of covariances
    variance: float  # share of the variance of the features that is kept
    gaussian_bound: float | None  # of Δ for half-spaces, were the groups normal; may be infinite


@dataclass(frozen=True, eq=False)
class FoldedMoments:
    """Moments of the same rows, fold by fold; merged with ``+``.

    The fold of a row follows from its features, or from its unit where there are units: every order
    of rows, every way to cut them into batches and every engine gives the same folds. Copies of a
    row share a fold.

    Parameters
    ----------
    n_folds : int
        Number of folds.
    cells : GroupMoments
        Moments whose last control column is the half of a fold; made by `from_arrays` or
        `from_rows`.
    by_units : bool, default False
        Whether rows of one unit share a half, so that the noise of a fold is that of its units.

    See Also
    --------
    GroupMoments : Without folds.
    fairpca.FairPCACV : What it is made for.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.moments import FoldedMoments
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> folded = FoldedMoments.from_arrays(X, np.arange(200) % 2, folds=4)
    >>> sum(fold.n_samples for fold in folded.folds), folded.train(0).n_samples < 200
    (200, True)
    """

    n_folds: int
    cells: GroupMoments
    by_units: bool = False

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        sensitive_features: Any,
        control_features: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        folds: int = 5,
        **options: Any,
    ) -> FoldedMoments:
        """Sum the rows of a matrix, as `GroupMoments.from_arrays` does, in at least 2 folds.

        Options are those of `Rows.read`; rows with the same label in `units` (people, sites,
        households) share a fold.
        """
        parts = (sensitive_features, control_features, sample_weight)
        return cls.from_rows(Rows.read(X, *parts, **options), folds)

    @classmethod
    def from_rows(cls, rows: Rows, folds: int = 5) -> FoldedMoments:
        """Sum rows that have been validated."""
        check_folds(folds)
        moments = GroupMoments.from_rows(with_folds(rows, folds))
        return cls(int(folds), moments, rows.units is not None)

    def __add__(self, other: object) -> FoldedMoments:
        if not isinstance(other, FoldedMoments):
            return NotImplemented
        if self.n_folds != other.n_folds:
            raise InvalidInputError(
                f"moments of {self.n_folds} and of {other.n_folds} folds cannot be merged."
            )
        by_units = self.by_units or other.by_units
        return replace(self, cells=self.cells + other.cells, by_units=by_units)

    @property
    def n_samples(self) -> int:
        """Number of rows with a positive weight."""
        return self.cells.n_samples

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.cells.n_features

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Their names."""
        return self.cells.feature_names

    @cached_property
    def _by_half(self) -> dict[int, GroupMoments]:
        """Moments of every half that has rows; fold k consists of the halves 2k and 2k + 1."""
        whole = self.cells.complete()
        plain = replace(whole.table, controls=whole.table.controls[:-1], cells={})
        by_half: dict[Any, dict[Key, Cell]] = {}
        for key, cell in whole.table.cells.items():
            by_half.setdefault(key[-1], {})[key[:-1]] = cell
        tables = {half: replace(plain, cells=by_half[half]) for half in sorted(by_half)}
        return {half: replace(whole, table=table) for half, table in tables.items()}

    @cached_property
    def halves(self) -> tuple[tuple[GroupMoments, ...], ...]:
        """Moments of the two halves of each fold that has rows; one where the other is empty.

        The halves are independent, so that products of their gaps have no noise of their own. What
        is missing counts as the mean of all folds.
        """
        return tuple(split.halves for split in self.repeated_splits(1))

    @cached_property
    def folds(self) -> tuple[GroupMoments, ...]:
        """Moments of each fold that has rows."""
        return tuple(sum_moments(halves) for halves in self.halves)

    @cached_property
    def total(self) -> GroupMoments:
        """Moments of all rows."""
        return sum_moments(self.folds)

    def train(self, index: int) -> GroupMoments:
        """Moments of all rows but those of one fold."""
        return sum_moments(self.folds[:index] + self.folds[index + 1 :])

    @cached_property
    def splits(self) -> tuple[tuple[GroupMoments, tuple[GroupMoments, ...]], ...]:
        """Moments to fit to, and moments of the halves to measure on, once for each fold."""
        return tuple((split.train(), split.halves) for split in self.repeated_splits(1))

    def repeated_splits(self, rounds: int) -> Iterator[Split]:
        """Yield the splits of several divisions into folds: halves are paired anew in each round.

        No two halves make a fold twice, so that products of their gaps are not repeated either.
        """
        known = self._by_half
        for number, pairs in enumerate(pair_halves(2 * self.n_folds, rounds)):
            for pair in pairs:
                places = tuple(half for half in pair if half in known)
                if len(places) == 2 or (places and not number):
                    yield Split(known, places, number)

    def standardized(self, by: Standardization | None = None) -> FoldedMoments:
        """Moments of (x - mean) / scale, by the mean and scale of all rows unless `by` is given."""
        scaling = self.total.standardization() if by is None else by
        return replace(self, cells=self.cells.standardized(scaling))


class Split(NamedTuple):
    """A fold, which consists of two halves, in one of several divisions into folds."""

    known: Mapping[int, GroupMoments]
    places: tuple[int, ...]  # of the halves
    round: int

    @property
    def halves(self) -> tuple[GroupMoments, ...]:
        """Moments to measure on."""
        return tuple(self.known[place] for place in self.places)

    def train(self) -> GroupMoments:
        """Moments to fit to: those of all rows but the fold's."""
        return sum_moments([part for half, part in self.known.items() if half not in self.places])


def pair_halves(count: int, rounds: int) -> Iterator[list[tuple[int, int]]]:
    """Pair an even number of halves in at most count - 1 rounds, never two of them twice.

    >>> from fairpca.moments.folds import pair_halves
    >>> list(pair_halves(4, 3))
    [[(0, 1), (2, 3)], [(0, 2), (1, 3)], [(0, 3), (1, 2)]]
    """
    # A tournament: one place stays, the others move on by one, and opposite places meet.
    first, *ring = (*range(0, count, 2), *range(count - 1, 0, -2))
    for number in range(min(rounds, count - 1)):
        places = [first, *ring[number:], *ring[:number]]
        meeting = zip(places[: count // 2], reversed(places[count // 2 :]), strict=True)
        yield sorted((min(pair), max(pair)) for pair in meeting)


def sum_moments(parts: Sequence[GroupMoments]) -> GroupMoments:
    """Add moments in the same coordinates, without looking for a span again."""
    if not parts:
        raise InvalidInputError(
            "all rows are in one fold: there are too few different rows for held-out statistics."
        )
    total = parts[0].table
    for part in parts[1:]:
        total = merge_tables(total, part.table)
    return replace(parts[0], table=total)


def check_folds(folds: Any) -> None:
    """Refuse a number of folds that cannot be meant."""
    if isinstance(folds, bool) or not isinstance(folds, int | np.integer) or not 2 <= folds <= 100:
        raise InvalidInputError(
            f"folds={folds!r}: give a whole number from 2 to 100.", parameter="folds"
        )


def with_folds(rows: Rows, folds: int) -> Rows:
    """Add the half of the fold of each row as a last stratum."""
    # Twice as many folds are the halves of as many: fold k consists of 2k and 2k + 1.
    column = Attribute(FOLD, tuple(range(2 * folds)), rows.folds(2 * folds))
    strata = rows.strata or Groups.none(len(rows))
    if FOLD in strata.names:
        raise GroupsError(f"control_features has a column named {FOLD!r}: rename it.")
    with_fold, names = (*strata.categorical, column), (*strata.names, FOLD)
    return replace(rows, strata=Groups(with_fold, strata.numeric, names, len(rows)))


def gap_statistics(
    moments: GroupMoments,
    components: FloatArray,
    compare: str = "one-vs-rest",
    joint: bool = False,
    reference: Any = None,
    min_group_size: int = 2,
    compared: Container[str] | None = None,
) -> GapStatistics:
    """Measure components on moments of any rows; the contrasts are those of `contrasts`.

    Parameters
    ----------
    moments : GroupMoments
        Of the rows to measure on.
    components : ndarray of shape (d, p)
        Directions.
    compare, joint, reference, min_group_size
        As in `GroupMoments.contrasts`.
    compared : set of str, optional
        Labels of the contrasts to measure; None: all that have the rows.

    Returns
    -------
    named tuple
        mean_gap, cov_gap, variance (the share that is kept) and gaussian_bound (of Δ, were the
        groups normal); a gap is None where no two groups are there.

    See Also
    --------
    FoldedMoments : Moments of held-out rows.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.moments import GroupMoments, gap_statistics
    >>> X = np.array([[0.0, 1.0], [2.0, 1.0], [5.0, 2.0], [7.0, 2.0]])
    >>> gap_statistics(GroupMoments.from_arrays(X, [0, 0, 1, 1]), np.array([[0.0, 1.0]])).mean_gap
    1.0
    """
    whole = moments.coordinates().pooled().covariance
    scores = moments.projected(components)
    total = float(np.trace(whole))
    variance = float(np.trace(scores.pooled().covariance)) / total if total else 0.0
    if not moments.attributes:
        return GapStatistics(0.0, 0.0, variance, 0.0)
    try:
        options = (compare, joint, reference, min_group_size)
        contrasts = form_contrasts(scores.table, scores.n_features, *options)
    except GroupsError:  # one group only
        return GapStatistics(None, None, variance, None)
    if compared is not None:
        kept = tuple(contrast for contrast in contrasts if contrast.label in compared)
        contrasts = replace(contrasts, contrasts=kept)
    gaps = contrasts.projected_gaps(np.eye(scores.n_features))
    sides = (contrast.sides for contrast in contrasts if contrast.cov_gap is not None)
    bounds = [
        gaussian_delta(mean_difference(plus, minus), minus.covariance, plus.covariance)
        for plus, minus in sides
        if plus is not None and minus is not None
    ]
    return GapStatistics(_largest(gaps.mean), _largest(gaps.cov), variance, _largest(bounds))


def _largest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
