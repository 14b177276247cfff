"""What may be a matrix of features, their names, the weights of rows; features that identify."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse

from fairpca.exceptions import (
    IdentifierWarning,
    InvalidInputError,
    Setting,
    UnitsWarning,
    warn_user,
)
from fairpca.rows._columns import Mask, find_missing, weights_error
from fairpca.rows._containers import check_unique, column_names

Floats: TypeAlias = NDArray[np.float64]

# Numbers looked at together: a few megabytes, so that a check never doubles the memory.
ELEMENTS_AT_ONCE = 1 << 20
_LARGEST = 1e150  # whose square is a number


def rows_at_once(n_features: int) -> int:
    """Rows of `n_features` values that are handled at once; enough for efficient products."""
    return max(256, ELEMENTS_AT_ONCE // max(n_features, 1))


def check_container(X: Any) -> None:
    """Refuse what is nearly a matrix of features, saying what to pass instead."""
    kind = type(X).__name__
    if isinstance(X, str | os.PathLike):
        what = "the name of a file: read it first, or use fairpca.tables.open_table"
    elif isinstance(X, Mapping) and not hasattr(X, "shape"):  # some sparse matrices are
        what = f"a {kind}: pass a data frame, such as pandas.DataFrame(X)"
    elif kind == "LazyFrame":
        what = "a LazyFrame: call .collect() first"
    elif isinstance(X, Iterator):
        what = (
            f"a {kind}, which yields rows once: pass list(X), or numpy.vstack(list(X)) where it "
            "yields batches, or call partial_fit with each of them"
        )
    elif kind in ("GroupMoments", "FoldedMoments"):
        what = "moments: pass them to fit_moments"
    elif kind == "Table" and hasattr(X, "assign") and hasattr(X, "moments"):
        what = "an open table: pass table.moments(table.assign(…)) to fit_moments"
    else:
        if not isinstance(X, np.ndarray):
            check_unique(column_names(X), "X", "X")
        return
    raise InvalidInputError(f"X is {what}.", parameter="X")


def check_matrix(
    X: Any, of: str = "X", masks: Callable[[], Iterable[Mask]] = tuple
) -> tuple[Any, tuple[str, ...] | None]:
    """Return a finite matrix of floats, and its column names where the container has them."""
    # The precision of the floats is kept (others: float64); a sparse matrix stays sparse (CSR).
    names = getattr(X, "column_names", getattr(X, "columns", None))
    is_sparse = issparse(X)
    check_no_dates_or_masks(X, of)
    try:
        matrix: Any = csr_array(X) if is_sparse else np.asarray(X)
        if matrix.dtype.kind == "c":
            raise TypeError("complex numbers")
        if matrix.dtype not in (np.float32, np.float64):
            matrix = matrix.astype(np.float64)
    except (TypeError, ValueError) as error:
        check_no_text(X, of)
        raise InvalidInputError(
            f"{of} cannot be read as a matrix of real numbers ({error}): encode its columns first.",
            parameter=of,
        ) from None
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise InvalidInputError(
            f"{of} has shape {matrix.shape}: give a matrix with a row for each sample and at least "
            "one column.",
            parameter=of,
        )
    checked = None if names is None else tuple(str(name) for name in names)
    check_finite(matrix, checked, of, masks=masks)
    return matrix, checked


def dense_matrix(values: Any, of: str, masks: Callable[[], Iterable[Mask]] = tuple) -> Floats:
    """Return a finite, dense float64 matrix to measure; a vector is one column."""
    if getattr(values, "ndim", 1) == 1 and not hasattr(values, "columns") and not issparse(values):
        with suppress(ValueError):  # rows of different lengths, which the next check refuses
            array = np.asarray(values)
            values = array[:, None] if array.ndim == 1 else array
    return without_rounding(check_matrix(values, of, masks)[0], of)


def without_rounding(matrix: Any, of: str) -> Floats:
    """Refuse what cannot be measured, and make columns constant that vary by rounding alone."""
    if issparse(matrix):
        raise InvalidInputError(f"{of} is a sparse matrix: give {of}.toarray().", parameter=of)
    array: Floats = np.asarray(matrix, dtype=np.float64)
    if not len(array):
        raise InvalidInputError(f"{of} has no rows: give at least one.", parameter=of)
    low, high = array.min(axis=0), array.max(axis=0)
    spread, size = high - low, np.maximum(-low, high)
    if (size > _LARGEST).any() or ((spread > 0.0) & (spread < 1.0 / _LARGEST)).any():
        raise InvalidInputError(
            f"{of} holds values too large or differences too small to be squared: rescale it.",
            parameter=of,
        )
    # A projection of equal rows may differ in the last bits; that is not a difference.
    noise = spread <= 16 * np.finfo(float).eps * size
    return np.where(noise, array[0], array) if noise.any() else array


def check_finite(
    matrix: Any,
    names: Sequence[str] | None,
    of: str = "X",
    *,
    missing: str = "error",
    masks: Callable[[], Iterable[Mask]] = tuple,
) -> None:
    """Refuse infinite values and, unless `missing` says what it means, NaN.

    NaN is counted by column, together with missing groups, strata and weights, which `masks` finds.
    """
    is_sparse = issparse(matrix)
    values = matrix.data if is_sparse else matrix
    step = rows_at_once(matrix.shape[1])
    parts = (values[start : start + step] for start in range(0, len(values), step))
    if all(np.isfinite(part).all() for part in parts):
        return
    if missing == "error" and np.isnan(values).any():
        raise find_missing(matrix.shape[0], masks(), matrix, names)[0].error(of)
    places = np.isinf(values)
    infinite = matrix.tocoo().col[places] if is_sparse else np.nonzero(places)[1]
    if len(infinite):
        first = int(infinite.min())
        raise infinite_error(f"x{first}" if names is None else names[first], of)


def check_no_dates_or_masks(X: Any, of: str = "X") -> None:
    """Refuse what NumPy would turn into numbers without a word."""
    if np.ma.is_masked(X):
        count = int(np.count_nonzero(np.ma.getmaskarray(X)))
        raise InvalidInputError(
            f"{of} is a masked array with {count:,} masked values, which would be used as if they "
            "were not: fill them in or drop those rows.",
            parameter=of,
        )
    kinds: dict[str, str] = {}
    if isinstance(X, np.ndarray):
        kinds = {of: str(X.dtype)} if X.dtype.kind in "mM" else {}
    else:
        check_unique(column_names(X), of, of)
        frame = nw.from_native(X, eager_only=True, pass_through=True)
        types = frame.schema.items() if isinstance(frame, nw.DataFrame) else ()
        kinds = {str(name): str(kind) for name, kind in types if kind.is_temporal()}
    if kinds:
        raise not_numbers_error(kinds, of)


def check_no_text(X: Any, of: str = "X") -> None:
    """Refuse columns of text, by name; any container."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    columns: dict[str, Any] = {}
    if isinstance(frame, nw.DataFrame):
        columns = {str(name): frame[name].to_numpy() for name in frame.columns}
    elif not issparse(X):
        try:
            array = X if isinstance(X, np.ndarray) else np.array(X, dtype=object)
        except ValueError:  # rows of different lengths
            return
        columns = {f"x{i}": column for i, column in enumerate(array.T if array.ndim == 2 else ())}
    text = {}
    for name, values in columns.items():
        try:
            with suppress(TypeError):  # neither text nor numbers
                values.astype(np.complex128)
        except ValueError:
            text[name] = "text"
    if text:
        raise not_numbers_error(text, of)


def infinite_error(name: str, of: str) -> InvalidInputError:
    """Say that a feature holds infinite values."""
    return InvalidInputError(
        f"column {name!r} holds infinite values: drop those rows or clip them.", parameter=of
    )


def not_numbers_error(kinds: Mapping[str, str], of: str) -> InvalidInputError:
    """Say which features are no numbers, and what they are."""
    listed = ", ".join(f"{name!r} ({kind})" for name, kind in kinds.items())
    return InvalidInputError(
        f"features that are not numbers: {listed}. One-hot encode them (a table does, where "
        "categorical names them), or leave them out.",
        parameter=of,
        settings=[("drop", list(kinds))],
    )


def check_weights(sample_weight: ArrayLike | None, n_rows: int, of: str = "X") -> Floats | None:
    """Return finite weights, none negative and not all zero; None stands for ones."""
    if sample_weight is None:
        return None
    try:
        values = np.asarray(sample_weight)
        weights = values.astype(np.float64)
    except (TypeError, ValueError):
        raise weights_error("text") from None
    if values.dtype.kind in "USmM":
        raise weights_error("text")
    if np.ma.is_masked(sample_weight):
        raise weights_error("masked")
    if weights.shape != (n_rows,):
        raise InvalidInputError(
            f"sample_weight has shape {weights.shape} but {of} has {n_rows} rows: give one weight "
            "for each row.",
            parameter="sample_weight",
        )
    if not np.isfinite(weights).all():
        raise weights_error("not finite")
    if (weights < 0).any():
        raise weights_error("negative")
    if n_rows and not (weights > 0).any():
        raise weights_error("zero", n_rows)
    return weights


# Features that are identifiers: whole numbers that are different in every row by design.

_MIN_ROWS, _FIRST, _SAMPLE = 20, 64, 1024
# So many pairs of equal values are expected of numbers drawn from their range, and none is there.
_EXPECTED_PAIRS = 5.0
_NAME = re.compile(r"(^|[^a-zA-Z])(id|ID|Id|uuid|index|key|unnamed: 0|Unnamed: 0)$|[a-z](Id|ID)$")

_UNITS = re.compile(
    r"(subject|person|participant|respondent|patient|student|pupil|employee|worker|user|customer|"
    r"client|household|family|school|clinic|hospital|site)s?"
    r"([ _.#-]*(id|no|nr|num|number|code))?#?$",
    re.IGNORECASE,
)


def is_identifier(name: str) -> bool:
    """Tell the name of a column that numbers rows or persons."""
    return _NAME.search(name) is not None


def names_units(name: str) -> bool:
    """Tell the name of a column that says whose rows they are, such as subject# or patient_id."""
    return _UNITS.match(name) is not None


_FEWEST_UNITS, _LOOKED_AT = 10, 10_000  # values of a column, and rows
# So many values with rows of several groups are expected of a column without relation to them.
_EXPECTED_MIXED = 10.0


def suggests_units(labels: Any, groups: NDArray[np.intp], *, told: bool = False) -> bool:
    """Whether a column may name persons or sites: its name has `told` so, or its values do.

    A person has many rows, all of one group. So has a number that groups were cut from, such as
    age, but there groups are intervals; and another name of the groups, which has as many values.
    """
    some, groups = np.asarray(labels)[:_LOOKED_AT], groups[:_LOOKED_AT]
    some = some.astype(str) if some.dtype.kind == "O" else some
    if some.dtype.kind in "iu" and np.ptp(some) + 1 < _FEWEST_UNITS:  # indicators, at no cost
        return False
    values, first, codes, counts = np.unique(
        some, return_index=True, return_inverse=True, return_counts=True
    )
    if not _FEWEST_UNITS <= len(values) <= len(some) / 2:
        return False
    home = groups[first]
    if told or (groups != home[codes]).any():
        return told
    shares = np.bincount(groups) / len(groups)
    n_groups = np.count_nonzero(shares)
    mixed = float(np.sum(1.0 - np.sum(shares ** counts[:, None], axis=1)))
    scattered = np.count_nonzero(np.diff(home)) >= n_groups
    return bool(mixed >= _EXPECTED_MIXED and len(values) >= 2 * n_groups and scattered)


def warn_of_units(X: Any, rows: Any) -> None:
    """Warn of an index or a feature of a data frame, read as Rows, that may name persons or sites.

    Nothing is said of arrays, of rows with units, or where rows were dropped.
    """
    if rows.units is not None or not hasattr(X, "columns") or len(X) != len(rows):
        return
    found, groups = [], replace(rows, strata=None).cells()
    index = getattr(X, "index", None)
    for level in range(getattr(index, "nlevels", 0)):
        labels = index.get_level_values(level)  # type: ignore[union-attr]
        if not labels.is_unique and suggests_units(labels, groups):
            found.append(("the index of X", labels, f"units=X.index.get_level_values({level})"))
    for name in column_names(X):
        labels = np.asarray(X[name])
        is_whole = labels.dtype.kind in "iu"
        if is_whole and suggests_units(labels, groups, told=names_units(str(name))):
            found.append((f"feature {name!r}", labels, f"units={name!r}"))
    for what, labels, remedy in found:
        warn_user(
            f"{what} has {len(np.unique(labels)):,} values in {len(labels):,} rows. If it names "
            f"persons or sites, {remedy} keeps their rows together in held-out figures.",
            UnitsWarning,
        )


class Unique(NamedTuple):
    """Range of whole numbers that are all different, and how many pairs of them were compared."""

    low: float
    high: float
    pairs: float


def unique_columns(X: Any, names: Sequence[str], sample: int | None = _SAMPLE) -> dict[str, Unique]:
    """Find the columns whose values, in the first `sample` rows, are different whole numbers."""
    if issparse(X) or not len(X):
        return {}
    head = np.asarray(X[:_FIRST])
    unique = {}
    for place in map(int, np.flatnonzero((head == np.rint(head)).all(axis=0))):
        if len(np.unique(head[:, place])) < len(head):
            continue
        values = np.asarray(X[:sample, place])
        if (values == np.rint(values)).all() and len(np.unique(values)) == len(values):
            column = X[:, place]
            pairs = len(values) * (len(values) - 1) / 2
            unique[names[place]] = Unique(float(column.min()), float(column.max()), pairs)
    return unique


def merge_unique(parts: Iterable[Mapping[str, Unique]]) -> dict[str, Unique]:
    """Columns that are unique in every part."""
    rest = iter(parts)
    total = dict(next(rest, {}))  # no part at all: no rows
    for part in rest:
        total = {
            name: Unique(min(a.low, b.low), max(a.high, b.high), a.pairs + b.pairs)
            for name, a in total.items()
            if (b := part.get(name)) is not None
        }
    return total


def warn_of_identifiers(
    unique: Mapping[str, Unique], n_rows: int, *, of_table: bool = True
) -> None:
    """Warn of columns that are different in every row by design: by their range, or by name.

    Of a table, whose columns nobody has chosen, other whole numbers that all differ are named too.
    """
    # What is different in every batch may still come again: there must be room for all rows.
    rooms = {name: column.high - column.low + 1.0 for name, column in unique.items()}
    names = [name for name, room in rooms.items() if _MIN_ROWS <= n_rows <= room]
    certain = [
        name
        for name in names
        if unique[name].pairs / rooms[name] >= _EXPECTED_PAIRS or is_identifier(name)
    ]
    others = [name for name in names if name not in certain] if of_table else []
    for some, value, meaning in (
        (certain, "value", "that is an identifier, which says nothing about new data. Leave"),
        (others, "whole number", "if it names rows or persons, leave"),
    ):
        if some:
            shown, many = ", ".join(map(repr, some)), len(some) > 1
            warn_user(
                IdentifierWarning(
                    f"{'columns' if many else 'column'} {shown} {'have' if many else 'has'} "
                    f"another {value} in every row: {meaning} it out of the features.",
                    settings=[("drop", some)] if of_table else (),
                )
            )


def check_text_features(
    levels: Mapping[str, Sequence[str]], n_rows: int, missing: Mapping[str, int]
) -> None:
    """Refuse text that is different in most rows; `missing` counts the values that rows lack."""
    names, counts = [], []
    for name, values in levels.items():
        known, count = n_rows - missing.get(name, 0), len(values)
        if count == known >= 20 or count > max(50, known / 2):
            check_words(name, values)
            names.append(name)
            counts.append(f"{name!r} ({count:,} values in {known:,} rows)")
    if names:
        raise InvalidInputError(
            f"text that is different in most rows: {', '.join(counts)}. That is an identifier or "
            "free text, and each value would become a feature: put its values into classes, or "
            "leave it out.",
            settings=[("drop", names)],
        )


def check_words(name: str, levels: Sequence[str], *remedies: Setting) -> None:
    """Refuse numbers that are text by the mistake of a few words among them."""
    words = [level for level in levels if not _is_number(level)]
    if words and 2 * len(words) <= len(levels):
        raise InvalidInputError(
            f"column {name!r} holds numbers, and text such as {words[0][:30]!r}: correct the "
            "cells, or leave the column out.",
            settings=[("drop", [name]), *remedies],
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
