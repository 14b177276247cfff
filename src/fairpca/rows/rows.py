"""Rows: features with their groups, strata and weights, validated once and handed on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpca.exceptions import GroupsError, InvalidInputError
from fairpca.rows._checks import (
    Floats,
    check_matrix,
    check_weights,
    dense_matrix,
    find_missing,
    missing_in_parts,
    without_rounding,
)
from fairpca.rows._containers import PARTS, no_groups_error
from fairpca.rows._pairs import Stratum, form_pairs, known_rows
from fairpca.rows._sampling import Seed, draw, draw_units, fold_of, halves
from fairpca.rows.groups import (
    MAX_FLOAT_LEVELS,
    Attribute,
    Groups,
    check_cells,
    combine,
    encode_groups,
    encode_targets,
    encode_units,
)

_PARTS = 1 << 20  # by which the share of held-out rows is counted


@dataclass(frozen=True, eq=False)
class Rows:
    """Validated rows; what has no groups, strata or weights holds None.

    Made by `read`, which checks everything, or by `attach` where the matrix is known to be good.

    Parameters
    ----------
    X : ndarray or csr_array of float, shape (n, p)
        Features, a representation, or kernel values.
    groups, strata : Groups or None
        Encoded attributes, and the columns whose combinations are the strata.
    weights : ndarray, shape (n,), or None
        Finite weights ≥ 0, not all zero; None stands for ones.
    feature_names : tuple of str, or None
        Names of the columns of X.
    units : ndarray of int, shape (n,), or None
        Codes, from 0 on, of the persons, sites or households that rows belong to. Rows of one unit
        stay together in folds, halves and draws. None: every row is its own unit.
    unit_keys : ndarray of uint64, or None
        For each code a number that follows from the unit's label, the same in every batch.
    targets : Groups or None
        What the features are to predict, sorted by name; a missing value is the code −1, or NaN.

    See Also
    --------
    encode_groups : Groups alone.
    fairpca.GroupMoments.from_rows : What sums them.

    Examples
    --------
    >>> from fairpca.rows import Rows
    >>> rows = Rows.read([[1.0], [2.0], [4.0]], ["a", "b", "a"], sample_weight=[1, 1, 2])
    >>> len(rows), rows.weight, rows.groups.categorical[0].levels
    (3, 4.0, ('a', 'b'))
    """

    X: Any
    groups: Groups | None = None
    strata: Groups | None = None
    weights: Floats | None = None
    feature_names: tuple[str, ...] | None = None
    units: NDArray[np.intp] | None = None
    unit_keys: NDArray[np.uint64] | None = None
    targets: Groups | None = None
    keys: NDArray[np.uint64] | None = None

    @classmethod
    def read(
        cls,
        X: Any,
        sensitive_features: Any,
        control_features: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        of: str = "X",
        unknown: str | None = None,
        **options: Any,
    ) -> Rows:
        """Check that features, groups, strata and weights are of one length, finite and complete.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix, shape (n, p)
            The features.
        sensitive_features, control_features : array-like, Series or data frame
            Protected attributes, and strata or None; see `encode_groups` for their types.
        sample_weight : array-like, shape (n,), optional
            Weights ≥ 0.
        of : str, default "X"
            Name of the argument that holds the features, for messages.
        unknown : str, optional
            Group of rows whose group is missing, which are refused without.
        **options
            numeric: names of the sensitive columns that are numbers whatever their type;
            feature_names: names of the features, where X does not have any; units: labels, of any
            kind, of the units that rows belong to; y: what the features are to predict.
        """
        parts = (sensitive_features, control_features, sample_weight)
        known = sensitive_features if unknown is None else None
        matrix, names = check_matrix(X, of, partial(missing_in_parts, known, *parts[1:]))
        if sensitive_features is None:
            raise no_groups_error(of)
        if options.get("feature_names") is None:
            options["feature_names"] = names
        return cls.attach(matrix, *parts, of=of, unknown=unknown, **options)

    @classmethod
    def read_dense(
        cls,
        U: Any,
        sensitive_features: Any = None,
        control_features: Any = None,
        sample_weight: Any = None,
        *,
        numeric: Iterable[str] = (),
        unknown: str | None = None,
        units: Any = None,
    ) -> Rows:
        """Check a representation to measure, as `read` does; Rows bring groups of their own."""
        parts = (sensitive_features, control_features, sample_weight)
        if not isinstance(U, Rows):
            known = sensitive_features if unknown is None else None
            matrix = dense_matrix(U, "U", partial(missing_in_parts, known, *parts[1:]))
            if sensitive_features is None:
                raise no_groups_error("U")
            return cls.attach(matrix, *parts, numeric=numeric, unknown=unknown, units=units, of="U")
        arguments = (
            *zip(PARTS, parts, strict=True),
            ("numeric", numeric or None),
            ("units", units),
        )
        extra = [name for name, value in arguments if value is not None]
        if extra:
            raise InvalidInputError(
                f"U is Rows, with groups, strata, weights and units of its own: leave out {extra}.",
                parameter=extra[0],
            )
        if U.groups is None:
            raise no_groups_error("U")
        return U.with_features(without_rounding(U.X, "U"))

    @classmethod
    def attach(
        cls,
        X: Any,
        sensitive_features: Any,
        control_features: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        numeric: Iterable[str] = (),
        feature_names: Iterable[str] | None = None,
        of: str = "X",
        unknown: str | None = None,
        unknown_strata: str | None = None,
        units: Any = None,
        y: Any = None,
    ) -> Rows:
        """Add groups, strata and weights to a matrix that has been checked; as `read` otherwise.

        `unknown` and `unknown_strata` name a group, or a stratum, for missing values, which are
        refused without.
        """
        n_rows, n_features = X.shape
        names = None if feature_names is None else tuple(str(name) for name in feature_names)
        if names is not None and len(names) != n_features:
            raise InvalidInputError(
                f"feature_names has {len(names)} names but X has {n_features} columns.",
                parameter="feature_names",
            )
        about: dict[str, Any] = {"n_rows": n_rows, "of": of}
        groups = strata = weights = None
        try:
            if sample_weight is not None:
                weights = check_weights(sample_weight, n_rows, of)
            if sensitive_features is not None:
                groups = encode_groups(
                    sensitive_features, numeric=numeric, unknown=unknown, **about
                )
            if control_features is not None:
                about |= {"argument": "control_features", "unknown": unknown_strata}
                strata = encode_groups(control_features, **about)
        except InvalidInputError:  # what is missing is counted in all parts together
            parts = (
                sensitive_features if unknown is None else None,
                control_features if unknown_strata is None else None,
                sample_weight,
            )
            # NaN in X is not counted: where it is refused, it has been by now.
            report, _ = find_missing(n_rows, missing_in_parts(*parts))
            if report.arguments:
                raise report.error(of) from None
            raise
        check_cells((groups, strata))
        codes, keys = (None, None) if units is None else encode_units(units, n_rows, of)
        targets = None if y is None else encode_targets(y, n_rows, of)
        return cls(X, groups, strata, weights, names, codes, keys, targets)

    def __post_init__(self) -> None:
        for part in (self.groups, self.strata):
            if part is not None and part.n_rows != len(self):
                raise GroupsError(f"groups of {part.n_rows} rows for {len(self)} rows of X.")
        if self.units is not None and self.units.shape != (len(self),):
            raise GroupsError(f"units of {len(self.units)} rows for {len(self)} rows of X.")
        if self.strata is not None and self.strata.numeric:
            raise numeric_strata_error([column.name for column in self.strata.numeric])

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def weight(self) -> float:
        """Sum of the weights."""
        return float(len(self) if self.weights is None else self.weights.sum())

    @property
    def n_units(self) -> int:
        """Number of units that have a row; of rows where there are no units."""
        return len(self) if self.units is None else len(np.unique(self.units))

    def of_known_group(self) -> Rows:
        """Leave out rows of unknown group."""
        known = np.ones(len(self), dtype=bool)
        for column in self.groups.categorical if self.groups is not None else ():
            known &= known_rows(column)
        return self if known.all() else self.take(np.flatnonzero(known))

    def counted(self) -> Rows:
        """Leave out rows of unknown group or weight zero, and equal weights: counts are exact."""
        rows = self.of_known_group()
        if rows.weights is None:
            return rows
        kept = np.flatnonzero(rows.weights)
        is_equal = np.ptp(rows.weights[kept]) == 0
        rows = rows if len(kept) == len(rows) else rows.take(kept)
        return replace(rows, weights=None) if is_equal else rows

    def take(self, rows: slice | NDArray[np.intp]) -> Rows:
        """Return some of the rows."""
        return replace(
            self,
            X=self.X[rows],
            groups=None if self.groups is None else self.groups.take(rows),
            strata=None if self.strata is None else self.strata.take(rows),
            weights=None if self.weights is None else self.weights[rows],
            units=None if self.units is None else self.units[rows],
            targets=None if self.targets is None else self.targets.take(rows),
            keys=None if self.keys is None else self.keys[rows],
        )

    def with_features(self, X: Any) -> Rows:
        """Return the same rows described by other features."""
        return replace(self, X=X, feature_names=None)

    def cells(self) -> NDArray[np.intp]:
        """Return the number of the combination of groups and strata that each row belongs to."""
        parts = [part for part in (self.groups, self.strata) if part is not None]
        columns = [column for part in parts for column in part.categorical]
        return combine(columns) if columns else np.zeros(len(self), dtype=np.intp)

    def pairs(
        self,
        compare: str = "pairs",
        *,
        joint: bool = False,
        reference: Any = None,
        strict: bool = True,
    ) -> tuple[Stratum, ...]:
        """Pair the groups of every attribute, inside every stratum.

        Parameters
        ----------
        compare, joint, reference
            As in `GroupMoments.contrasts`, by the same rule.
        strict : bool, default True
            Whether a group of a single row is an error, and a warning where it is too small in a
            stratum only. Otherwise it is left out without a word.

        Returns
        -------
        tuple of Stratum
            Name, rows and pairs of each; strata without a pair are left out.

        Examples
        --------
        >>> from fairpca.rows import Rows
        >>> [stratum] = Rows.read([[1.0], [2.0], [3.0], [4.0]], list("abab")).pairs()
        >>> stratum.pairs[0].groups, stratum.pairs[0].signs
        (('a', 'b'), array([-1,  1, -1,  1], dtype=int8))
        """
        return form_pairs(self, compare=compare, joint=joint, reference=reference, strict=strict)

    def draw(self, size: int, seed: Seed = 0, *, balanced: bool = False) -> NDArray[np.intp]:
        """Draw positions of rows at random without replacement; no cell vanishes.

        Where there are units, whole units are drawn.

        Parameters
        ----------
        size : int
            Rows to draw at most; all of them where there are no more. A unit that is the only one
            drawn of its cell may exceed it.
        seed : int, tuple of int or Generator, default 0
            Of the draw.
        balanced : bool, default False
            Whether cells get equal numbers of rows, as far as they have them, instead of their
            shares (and at least 100 rows, or as many as half of the draw allows).

        Returns
        -------
        ndarray of int
            Positions, rising.
        """
        if self.units is not None:
            return draw_units(self.cells(), self.units, size, seed, balanced=balanced)
        return draw(self.cells(), size, seed, balanced=balanced)

    def sample(self, size: int, seed: Seed = 0) -> Rows:
        """Return a balanced draw whose rows weigh as much as all rows of their cell."""
        if len(self) <= size:
            return self
        cells = self.cells()
        kept = self.draw(size, seed, balanced=True)
        weights = np.ones(len(self)) if self.weights is None else self.weights
        ratio = np.bincount(cells, weights) / np.bincount(cells[kept], weights[kept])
        return replace(self.take(kept), weights=weights[kept] * ratio[cells[kept]])

    def halves(self, seed: Seed = 0) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Split positions at random into two halves, every cell by itself; units stay whole."""
        return halves(self.cells(), seed, self.units)

    def folds(self, n_folds: int) -> NDArray[np.intp]:
        """Return the fold of each row, 0 to `n_folds` - 1, decided by its unit or features."""
        return fold_of(self, n_folds)

    def held_out(self, share: float) -> NDArray[np.bool_]:
        """Mark the rows to hold out, about a `share` of them; a unit is held out as a whole.

        It is decided by the features of the row, or by its unit, and so is the same in every order
        and batch, and independent of `folds`.

        Examples
        --------
        >>> import numpy as np
        >>> from fairpca.rows import Rows
        >>> X = np.random.default_rng(0).normal(size=(1000, 2))
        >>> bool(abs(Rows(X).held_out(0.25).mean() - 0.25) < 0.05)
        True
        """
        return fold_of(self, _PARTS, apart=True) < round(share * _PARTS)

    def binarized_at_median(self) -> Rows:
        """Return rows whose numeric attributes are groups: up to the median, and above."""
        groups = self.groups
        if groups is None or not groups.numeric:
            return self
        binary = {column.name: column for column in groups.categorical}
        for column in groups.numeric:
            values = column.values
            middle = float(np.median(values))
            if middle == values.max() > values.min():  # more than half are the largest number
                middle = float(values[values < middle].max())
            levels = (f"up to {middle:g}", f"above {middle:g}")
            binary[column.name] = Attribute(column.name, levels, (values > middle).astype(np.intp))
        columns = tuple(binary[name] for name in groups.names)
        return replace(self, groups=Groups(columns, (), groups.names, groups.n_rows))


def numeric_strata_error(names: Iterable[str]) -> GroupsError:
    """Say why numbers cannot be strata."""
    return GroupsError(
        f"control_features {list(names)} hold more than {MAX_FLOAT_LEVELS} different floats: "
        "strata need groups, so bin the values, or convert whole numbers to integers or strings.",
        parameter="control_features",
    )
