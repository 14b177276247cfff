"""What the user gives becomes rows, weights and comparisons of two groups."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from fairpca.exceptions import GroupsError, InvalidInputError, SmallGroupWarning
from fairpca.metrics._thresholds import Floats, Signs
from fairpca.rows import Attribute, Groups, Level, encode_groups

MAX_LEVELS = 50  # an attribute of more values gives thousands of pairs, and is rarely a group
MIN_GROUP = 2


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two groups of one attribute, inside one stratum.

    Parameters
    ----------
    attribute : str
        Name of the protected attribute.
    groups : tuple of two levels
        The groups compared; the second has sign +1.
    signs : ndarray of int8
        Sign of each row of the stratum.
    """

    attribute: str
    groups: tuple[Level, Level]
    signs: Signs


@dataclass(frozen=True, eq=False)
class Stratum:
    """Rows that are compared among themselves.

    Parameters
    ----------
    name : tuple of (str, level) pairs
        Control features and their values; empty without control features.
    rows : ndarray of int
        Positions of its rows.
    comparisons : tuple of Comparison
        Pairs of groups.
    """

    name: tuple[tuple[str, Level], ...]
    rows: NDArray[np.intp]
    comparisons: tuple[Comparison, ...]


@dataclass(frozen=True, eq=False)
class Inputs:
    """Checked arguments.

    Parameters
    ----------
    U : ndarray of shape (n, d)
        The representation.
    weight : ndarray of shape (n,) or None
        Row weights, None where all are equal.
    strata : tuple of Stratum
        What is compared; rows of weight zero are in none.
    """

    U: Floats
    weight: Floats | None
    strata: tuple[Stratum, ...]

    def rows_of(self, stratum: Stratum) -> tuple[Floats, Floats | None]:
        """Return the rows of a stratum and their weights."""
        weight = None if self.weight is None else self.weight[stratum.rows]
        return self.U[stratum.rows], weight


def check_inputs(
    U: Any, sensitive_features: Any, control_features: Any = None, sample_weight: Any = None
) -> Inputs:
    """Check a representation with its groups, strata and weights.

    Parameters
    ----------
    U : array-like of shape (n, d) or (n,)
        The representation.
    sensitive_features : array-like or data frame
        Protected attributes.
    control_features : array-like or data frame, optional
        Strata.
    sample_weight : array-like of shape (n,), optional
        Row weights.

    Returns
    -------
    Inputs
        Ready for the engines.
    """
    rows = check_rows(U, "U")
    weight = _check_weight(sample_weight, len(rows))
    groups = encode_groups(sensitive_features, n_rows=len(rows), of="U")
    _refuse_numbers(groups, "sensitive_features")
    controls = None
    if control_features is not None:
        controls = encode_groups(
            control_features, n_rows=len(rows), of="U", argument="control_features"
        )
        _refuse_numbers(controls, "control_features")
    kept = np.arange(len(rows)) if weight is None else np.flatnonzero(weight > 0)
    for attribute in groups.categorical:
        _check_attribute(attribute, kept)
    strata = tuple(_strata(groups, controls, kept))
    if not any(stratum.comparisons for stratum in strata):
        raise GroupsError(
            "No stratum of control_features holds two groups of at least two rows each: "
            "use fewer control features, or bin them more coarsely."
        )
    return Inputs(rows, weight, tuple(s for s in strata if s.comparisons))


def check_rows(values: Any, name: str) -> Floats:
    """Return a finite matrix of floats with at least one column.

    Parameters
    ----------
    values : array-like
        Rows; a vector is one column.
    name : str
        Name of the argument, for messages.

    Returns
    -------
    ndarray of shape (n, d)
        The rows; columns that vary by rounding alone are made constant.
    """
    if issparse(values):
        raise InvalidInputError(f"{name} is a sparse matrix: give {name}.toarray().")
    if np.iscomplexobj(values):
        raise InvalidInputError(f"{name} holds complex numbers: give real ones.")
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{name} cannot be read as numbers ({error}).") from None
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise InvalidInputError(f"{name} must be a matrix, but it has {array.ndim} dimensions.")
    if 0 in array.shape:
        raise InvalidInputError(
            f"{name} has shape {array.shape}: it needs at least one row and one component."
        )
    bad = int(np.count_nonzero(~np.isfinite(array)))
    if bad:
        raise InvalidInputError(
            f"{name} has {bad} missing or infinite value{'s' if bad > 1 else ''}: "
            "drop those rows or impute them."
        )
    # A projection of equal rows may differ in the last bits; that is not a difference.
    noise = np.ptp(array, axis=0) <= 16 * np.finfo(float).eps * np.abs(array).max(axis=0)
    array[:, noise] = array[0, noise]
    return array


def _check_weight(values: Any, n_rows: int) -> Floats | None:
    if values is None:
        return None
    try:
        weight = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"sample_weight cannot be read as numbers ({error}).") from None
    if weight.shape != (n_rows,):
        raise InvalidInputError(
            f"sample_weight has shape {weight.shape}, but U has {n_rows} rows: "
            "give one weight for each row."
        )
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise InvalidInputError("sample_weight must be finite and not negative.")
    if not weight.any():
        raise InvalidInputError("sample_weight is zero for every row: no row counts.")
    # Equal weights change nothing, and without weights all counts are exact.
    return None if weight[0] > 0 and (weight == weight[0]).all() else weight


def _refuse_numbers(groups: Groups, argument: str) -> None:
    if groups.numeric:
        name = groups.numeric[0].name
        raise GroupsError(
            f"{argument} column {name!r} holds numbers, but groups are needed to compare: "
            "bin it first, for example with pandas.qcut or numpy.digitize."
        )


def _check_attribute(attribute: Attribute, kept: NDArray[np.intp]) -> None:
    """Refuse attributes that cannot be compared on any rows."""
    counts = np.bincount(attribute.codes[kept], minlength=len(attribute.levels))
    present = int((counts > 0).sum())
    if present < 2:
        advice = "Check that the right column was given."
        if len(attribute.levels) > 1:
            advice = "sample_weight is zero for every row of the others."
        raise GroupsError(
            f"Attribute {attribute.name!r} has one group only: Δ compares at least two. {advice}"
        )
    if present > MAX_LEVELS:
        raise GroupsError(
            f"Attribute {attribute.name!r} has {present} groups, more than {MAX_LEVELS}: "
            "bin or merge its values first."
        )
    if (counts[counts > 0] < MIN_GROUP).any():
        level = attribute.levels[int(np.flatnonzero((counts > 0) & (counts < MIN_GROUP))[0])]
        raise GroupsError(
            f"Group {level!r} of attribute {attribute.name!r} has one row: "
            "a group needs at least two. Merge it with another group or drop it."
        )


def _strata(groups: Groups, controls: Groups | None, kept: NDArray[np.intp]) -> Iterator[Stratum]:
    if controls is None:
        yield Stratum((), kept, tuple(_comparisons(groups, kept, "")))
        return
    codes = np.stack([a.codes[kept] for a in controls.categorical], axis=1)
    cells, member = np.unique(codes, axis=0, return_inverse=True)
    for index, cell in enumerate(cells):
        rows = kept[member.ravel() == index]
        name = tuple(
            (a.name, a.levels[code]) for a, code in zip(controls.categorical, cell, strict=True)
        )
        where = " where " + ", ".join(f"{key}={value!r}" for key, value in name)
        yield Stratum(name, rows, tuple(_comparisons(groups, rows, where)))


def _comparisons(groups: Groups, rows: NDArray[np.intp], where: str) -> Iterator[Comparison]:
    """Compare every pair of groups that both have enough rows; say which have not."""
    for attribute in groups.categorical:
        codes = attribute.codes[rows]
        counts = np.bincount(codes, minlength=len(attribute.levels))
        for level in np.flatnonzero(counts < MIN_GROUP) if where else ():
            warnings.warn(
                f"Group {attribute.levels[level]!r} of attribute {attribute.name!r} has "
                f"{counts[level]} rows{where}: it is not compared there.",
                SmallGroupWarning,
                stacklevel=2,
            )
        usable = np.flatnonzero(counts >= MIN_GROUP)
        for low, high in itertools.combinations(usable, 2):
            signs = np.zeros(len(rows), dtype=np.int8)
            signs[codes == low] = -1
            signs[codes == high] = 1
            yield Comparison(attribute.name, (attribute.levels[low], attribute.levels[high]), signs)
