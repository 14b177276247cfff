"""The kernel of every pass: the columns of one batch become Rows, Rows sums, and sums are merged.

Files, Arrow tables, Dask and Spark all end here, so that they cannot differ in what a group, a
missing value or an indicator is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from fairpca.exceptions import WITH, GroupsError, InvalidInputError
from fairpca.moments import GroupMoments
from fairpca.moments._maps import fill_missing
from fairpca.moments.folds import with_folds
from fairpca.rows import Groups, Rows, encode_groups
from fairpca.rows._checks import Mask, check_weights, find_missing, infinite_error, weights_error
from fairpca.rows._containers import PARTS
from fairpca.rows._identifiers import Unique, check_spelling, merge_unique, unique_columns
from fairpca.rows._sampling import hash_rows
from fairpca.rows.groups import (
    Attribute,
    NumericAttribute,
    check_cells,
    encode_units,
    join_targets,
    sort_levels,
    too_many_cells,
)
from fairpca.tables._roles import Columns, Roles, is_number

# Up to this many distinct values in a batch their encoding is remembered.
CACHED_LEVELS = 64

Levels = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, eq=False)
class Partial:
    """The moments of some rows, and what was met on the way."""

    moments: GroupMoments | None = None  # of the complete rows; None where nothing was summed
    levels: Levels = field(default_factory=dict)  # of the categorical features so far, sorted
    n_rows: int = 0
    incomplete: int = 0  # rows with a missing value
    missing: Mapping[str, int] = field(default_factory=dict)  # values by column
    unique: Mapping[str, Unique] = field(default_factory=dict)  # features that may be identifiers


def sum_batch(columns: Columns, roles: Roles, *, counting: bool = False) -> Partial:
    """Sum the complete rows of positive weight of one batch; or only count what is missing."""
    n_rows = columns.n_rows
    # Nulls cost nothing to see. NaN among the features shows in the sums, so that a complete batch
    # is never searched for it; groups and weights are few and are searched at once.
    # But rows of weight zero are in no sum, and rows wider than they are many go through a
    # decomposition, which must not see NaN.
    needs_search = len(columns.features) > n_rows or not positive_rows(columns).all()
    missing, complete = count_missing(columns, roles, search_features=counting or needs_search)
    if not missing and not counting:
        if needs_search:
            check_finite_columns(columns, roles)
        try:
            return _sum(columns, roles)
        except GroupsError:
            raise
        except InvalidInputError as error:
            missing, complete = count_missing(columns, roles, search_features=True)
            if not missing:
                check_finite_columns(columns, roles)
                raise error from None
    incomplete = n_rows - int(np.count_nonzero(complete))
    if counting or refused(missing, roles):
        return Partial(None, {}, n_rows, incomplete, missing)
    if roles.missing == "mean":
        check_finite_columns(columns, roles)
        return replace(_sum(columns, roles, missing), incomplete=incomplete, missing=missing)
    part = _sum(columns.filter(complete), roles)
    return replace(part, n_rows=n_rows, incomplete=incomplete, missing=missing)


def _sum(columns: Columns, roles: Roles, missing: Iterable[str] = ()) -> Partial:
    """Sum rows; those of `missing` columns that lack a value count as the mean."""
    n_rows, indicators = columns.n_rows, None
    columns = columns.filter(positive_rows(columns))  # before anything is learned from the rows
    rows, levels = to_rows(columns, roles)
    if roles.hold_out or roles.folds:
        rows = with_keys(rows, roles, levels)
    if roles.hold_out:
        used = used_part(rows, roles)
        columns, rows = columns.filter(used), rows.take(np.flatnonzero(used))
    if roles.folds:
        rows = with_folds(rows, roles.folds)
    unique = unique_columns(rows.X[:, : len(roles.features)], roles.features)
    if missing:
        masks = None
        if columns.matrix is None:
            known = {**columns.features, **columns.categorical}
            masks = {name: absent(known[name]) for name in missing}
        X, indicators = fill_missing(rows.X, _origins(roles, levels), masks)
        rows = replace(rows, X=X)
    moments = GroupMoments.from_rows(rows, indicators=indicators)
    moments = replace(moments, columns=tuple(_origins(roles, levels)))
    return Partial(moments, levels, n_rows, unique=unique)


def refused(missing: Iterable[str], roles: Roles) -> bool:
    """Whether missing values of these columns end a pass."""
    if roles.missing == "mean":
        return bool(set(missing) - {*roles.features, *roles.categorical})
    return roles.missing == "error" and bool(list(missing))


def with_keys(rows: Rows, roles: Roles, levels: Levels) -> Rows:
    """Add what decides the fold of a row: its features by place, its indicators by level."""
    # A batch knows only the levels that it holds, so that indicators have no place of their own.
    start = len(roles.features)
    indicators = [
        f"{start + place}={level}" for place, known in enumerate(levels.values()) for level in known
    ]
    return replace(rows, keys=hash_rows(rows.X, [*range(start), *indicators]))


def used_part(rows: Rows, roles: Roles) -> Any:
    """Mark the rows that are used: those that are held out, or all others."""
    return rows.held_out(roles.hold_out) == roles.only_held_out


def held_out_column(columns: Columns, roles: Roles) -> pa.Array:
    """Say of each row whether it is held out; null where the fit leaves it out altogether."""
    used = np.ones(columns.n_rows, dtype=bool)
    if roles.missing != "mean":
        _, used = count_missing(columns, roles, search_features=True)
    rows, levels = to_rows(columns.filter(used), roles)
    held_out = np.zeros(columns.n_rows, dtype=bool)
    held_out[used] = with_keys(rows, roles, levels).held_out(roles.hold_out)
    return pa.array(held_out, mask=~used)


def merge_partials(parts: Sequence[Partial], roles: Roles) -> Partial:
    """Put parts together from left to right; an indicator that a part does not know was zero."""
    levels = {
        name: tuple(sorted(set().union(*(part.levels.get(name, ()) for part in parts))))
        for name in roles.categorical
    }
    for name, values in levels.items():
        _check_level_count(name, values, roles.max_levels)
    names = _feature_names(roles, levels)
    if len(set(names)) < len(names):  # their sums would be mixed up
        twice = min(name for name in names if names.count(name) > 1)
        raise InvalidInputError(
            f"the indicators of the categorical columns give two features the name {twice!r}: "
            "rename a column."
        )
    origins = _origins(roles, levels)
    summed = [part.moments for part in parts if part.moments is not None]
    from fairpca.moments._release import place_features  # not needed by rows in memory

    aligned = [place_features(moments, names, origins) for moments in summed]
    missing: dict[str, int] = {}
    for part in parts:
        for name, count in part.missing.items():
            missing[name] = missing.get(name, 0) + count
    return Partial(
        moments=_add(aligned, roles.max_cells * max(2 * roles.folds, 1)) if aligned else None,
        levels=levels,
        n_rows=sum(part.n_rows for part in parts),
        incomplete=sum(part.incomplete for part in parts),
        missing=missing,
        unique=merge_unique(part.unique for part in parts if part.n_rows) if aligned else {},
    )


def _add(parts: Sequence[GroupMoments], limit: int) -> GroupMoments:
    """Merge moments from left to right, with a limit on the number of cells."""
    total = parts[0]
    for part in parts[1:]:
        total = total + part
        if len(total.table.cells) > limit:
            names = total.table.key_names
            raise too_many_cells({name: len(total.levels(name)) for name in names}, limit)
    return total


def _feature_names(roles: Roles, levels: Levels) -> tuple[str, ...]:
    indicators = (f"{name}={level}" for name, values in levels.items() for level in values)
    return (*roles.features, *indicators)


def _origins(roles: Roles, levels: Levels) -> list[str]:
    """Return the column that each feature comes from."""
    return [*roles.features, *(name for name, values in levels.items() for _ in values)]


def _check_level_count(name: str, values: Sequence[Any], limit: int) -> None:
    if len(values) > limit:
        check_spelling(name, [str(value) for value in values[:limit]])
        raise InvalidInputError(
            f"categorical column {name!r} has more than {limit} distinct values, each of which "
            f"would become a feature: leave it out{WITH}, put its values into classes, or raise "
            "the limit.",
            parameter="max_levels",
            settings=[("drop", [name])],
        )


def absent(column: pa.Array) -> Any:
    """Mark the rows that have no value."""
    return column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)


def distinct(column: pa.Array) -> tuple[pa.Array, Any]:
    """Return the values that occur, and the place of each row's among them; −1 for null."""
    coded = column if kinds.is_dictionary(column.type) else column.dictionary_encode()
    indices = coded.indices.fill_null(-1) if coded.indices.null_count else coded.indices
    codes = indices.to_numpy(zero_copy_only=False).astype(np.intp)
    present = np.flatnonzero(np.bincount(codes[codes >= 0], minlength=len(coded.dictionary)))
    lookup = np.full(len(coded.dictionary) + 1, -1, dtype=np.intp)  # the last is that of null
    lookup[present] = np.arange(len(present))
    return coded.dictionary.take(pa.array(present)), lookup[codes]


def to_rows(columns: Columns, roles: Roles) -> tuple[Rows, Levels]:
    """Make Rows of complete columns, and say which levels the categorical features have."""
    n_rows, weights = columns.n_rows, None
    for column in columns.weight.values():
        weights = check_weights(_weights(column), n_rows)
    groups = strata = None
    own = dict.fromkeys(roles.own_group, roles.missing_level)
    if columns.sensitive:
        groups = encode_columns(columns.sensitive, roles.numeric, PARTS[0], n_rows, own)
    if columns.control:
        strata = encode_columns(columns.control, (), PARTS[1], n_rows, own)
    check_cells((groups, strata), roles.max_cells)
    matrix: Any = columns.matrix
    levels: Levels = {}
    if matrix is None:
        matrix, levels = _matrix(columns, roles)
    units: tuple[Any, ...] = ()
    for name, column in columns.unit.items():
        units = encode_units(pa.table({name: column}), n_rows)
    rows = Rows(matrix, groups, strata, weights, _feature_names(roles, levels), *units)
    if columns.target:
        rows = replace(rows, targets=_encode_targets(columns.target, n_rows))
    return rows, levels


def positive_rows(columns: Columns) -> Any:
    """Mark the rows whose weight is not zero."""
    for column in columns.weight.values():
        return _weights(column) != 0.0
    return np.ones(columns.n_rows, dtype=bool)


def count_missing(
    columns: Columns, roles: Roles, *, search_features: bool
) -> tuple[dict[str, int], Any]:
    """Count the missing values of each column and mark the complete rows."""
    masks = _masks(columns, roles, search_features)
    X = columns.matrix if search_features else None
    report, incomplete = find_missing(columns.n_rows, masks, X, roles.features)
    if report.counts and not search_features:  # the counts of an error are those of all columns
        return count_missing(columns, roles, search_features=True)
    return dict(report.counts), ~incomplete


def _masks(columns: Columns, roles: Roles, search_features: bool) -> Iterator[Mask]:
    """Mark the rows that lack a value in each column that can have none."""
    for argument, part in zip(("", "", *PARTS, "units"), columns.parts()[:-1], strict=True):
        searched = search_features or part is not columns.features
        for name, column in part.items():
            if argument in PARTS[:2] and name in roles.own_group:
                continue
            if column.null_count or (searched and kinds.is_floating(column.type)):
                yield argument, name, absent(column)


def check_finite_columns(columns: Columns, roles: Roles) -> None:
    """Refuse infinite features, naming the column."""
    bad = [name for name, column in columns.features.items() if np.isinf(numbers(column)).any()]
    if columns.matrix is not None:
        places = np.flatnonzero(np.isinf(columns.matrix.data))
        bad = [roles.features[index] for index in columns.matrix.indices[places]]
    if bad:
        raise infinite_error(bad[0], "features")


def _weights(column: pa.Array) -> Any:
    if not is_number(column.type) or kinds.is_null(column.type):
        raise weights_error("text")
    return numbers(column).astype(np.float64)


def encode_columns(
    columns: Mapping[str, pa.Array],
    numeric: Iterable[str],
    argument: str,
    n_rows: int,
    own_group: Mapping[str, str] | None = None,
) -> Groups:
    """Encode group columns as `encode_groups` does; only distinct values are looked at.

    `own_group` has the group of rows without a value, for columns that may lack one.
    """
    encoded = [
        _encode(column, name, argument, [name])
        if name in numeric
        else _encode_column(column, name, argument, (own_group or {}).get(name))
        for name, column in columns.items()
    ]
    return Groups.of(encoded, n_rows)


def _encode_column(
    column: pa.Array, name: str, argument: str, own: str | None
) -> Attribute | NumericAttribute:
    """Encode a column; rows without a value have the group `own` where it is given."""
    if own is not None and (mask := absent(column)).any():
        return _encode_own(column, mask, name, argument, own)
    values, codes = distinct(column)
    if len(values) > CACHED_LEVELS:
        encoded = _encode(values, name, argument)
    else:
        encoded = _encode_few(tuple(values.to_pylist()), values.type, name, argument)
    if isinstance(encoded, NumericAttribute):
        return NumericAttribute(name, encoded.values[codes])
    return Attribute(name, encoded.levels, encoded.codes[codes])


def _encode_targets(columns: Mapping[str, pa.Array], n_rows: int) -> Groups:
    """Encode targets as `encode_targets` does; a missing value is left open."""
    encoded = []
    for name, column in columns.items():
        known = ~absent(column)
        values = column if known.all() else column.filter(pa.array(known))
        encoded.append((_encode_column(values, name, "y", None), known))
    return join_targets(encoded, n_rows)


def _encode_own(column: pa.Array, mask: Any, name: str, argument: str, own: str) -> Attribute:
    known = _encode_column(column.filter(pa.array(~mask)), name, argument, None)
    if isinstance(known, NumericAttribute):
        raise GroupsError(
            f"{argument} column {name!r} holds numbers, of which {int(mask.sum())} are missing: "
            "drop those rows.",
            parameter=argument,
        )
    levels = sort_levels({*known.levels, own})
    codes = np.full(len(column), levels.index(own), dtype=np.intp)
    codes[~mask] = np.array([levels.index(level) for level in known.levels] or [0])[known.codes]
    return Attribute(name, levels, codes)


@lru_cache(maxsize=256)
def _encode_few(values: tuple[Any, ...], kind: pa.DataType, name: str, argument: str) -> Any:
    """Encode the distinct values of a batch, which the next batch will most likely have too."""
    return _encode(pa.array(values, kind), name, argument)


def _encode(values: pa.Array, name: str, argument: str, numeric: Iterable[str] = ()) -> Any:
    table = pa.table({name: values})
    groups = encode_groups(table, n_rows=len(values), argument=argument, numeric=numeric)
    return (*groups.categorical, *groups.numeric)[0]


def _matrix(columns: Columns, roles: Roles) -> tuple[Any, Levels]:
    """Features of a batch, column by column in memory as Arrow holds them."""
    coded = {name: _text_codes(column, name, roles) for name, column in columns.categorical.items()}
    levels = {name: values for name, (values, _) in coded.items()}
    width = len(columns.features) + sum(map(len, levels.values()))
    matrix = np.empty((width, columns.n_rows), dtype=np.float32 if roles.single else np.float64)
    for index, column in enumerate(columns.features.values()):
        matrix[index] = numbers(column)
    start = len(columns.features)
    matrix[start:] = 0.0
    for values, codes in coded.values():
        known = np.flatnonzero(codes >= 0)
        matrix[start + codes[known], known] = 1.0
        matrix[start : start + len(values), codes < 0] = np.nan
        start += len(values)
    return matrix.T, levels


def numbers(column: pa.Array) -> Any:
    """Return the numbers of a column, NaN for null."""
    has_nulls = kinds.is_boolean(column.type) and column.null_count
    if kinds.is_decimal(column.type) or kinds.is_null(column.type) or has_nulls:
        column = column.cast(pa.float64())
    return column.to_numpy(zero_copy_only=False)


def _text_codes(column: pa.Array, name: str, roles: Roles) -> tuple[tuple[str, ...], Any]:
    """Sorted values of a categorical feature as text, and the place of each row's; −1 for none."""
    values, codes = distinct(column)
    _check_level_count(name, values, roles.max_levels)
    # NaN is no level: it is missing, as null is.
    texts = [level_text(value, name) if value == value else None for value in values.to_pylist()]
    levels = tuple(sorted({text for text in texts if text is not None}))
    place: dict[str | None, int] = {text: index for index, text in enumerate(levels)}
    return levels, np.array([*(place.get(text, -1) for text in texts), -1])[codes]


def level_text(value: Any, name: str) -> str:
    """Text of a categorical value in the name of its indicator, the same for every engine."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # pandas turns whole numbers into floats where one is missing
    try:
        return value.decode() if isinstance(value, bytes) else str(value)
    except UnicodeDecodeError:
        raise InvalidInputError(
            f"column {name!r} holds bytes that are no UTF-8 text ({value[:20]!r}): decode the "
            "column with its own encoding first.",
            parameter="categorical",
        ) from None
