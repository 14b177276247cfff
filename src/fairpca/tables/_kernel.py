"""The kernel of every pass: the columns of one batch become Rows, and Rows become sums.

Files, Arrow tables, Dask and Spark all end here, so that they cannot differ in what a group, a
missing value or an indicator is.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from fairpca.exceptions import GroupsError, InvalidInputError
from fairpca.moments import GroupMoments
from fairpca.moments._maps import fill_missing
from fairpca.moments.folds import with_folds
from fairpca.rows import Attribute, Groups, NumericAttribute, Rows, encode_groups, sort_levels
from fairpca.rows._checks import check_weights, infinite_error, unique_columns
from fairpca.rows._columns import MISSING_GROUP, PARTS, Mask, find_missing, weights_error
from fairpca.rows.groups import check_cells
from fairpca.tables._partial import (
    Levels,
    Partial,
    feature_columns,
    fold_columns,
    indicator_names,
    merge_partials,
    refused,
    too_many_levels,
)
from fairpca.tables._roles import Roles, is_number

# Numbers in one batch: 32 MB of float64. Smaller batches of many features would spend their time
# on merging p × p matrices; larger ones, held once for each thread, would be felt in memory.
BATCH_ELEMENTS = 1 << 22

# Up to this many distinct values in a batch their encoding is remembered.
CACHED_LEVELS = 64


def batch_rows(n_columns: int) -> int:
    """Rows that are read and summed at once, between 1,024 and 32,768."""
    # As many as there are columns at least: the sums of fewer rows are kept in another form.
    return int(np.clip(BATCH_ELEMENTS // max(n_columns, 1), max(1024, n_columns), 32768))


def rebatch(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Join small batches until they have some rows; a sum has a fixed cost for each batch."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        waiting.append(batch)
        count += batch.num_rows
        if count >= rows:
            yield pa.concat_batches(waiting)
            waiting, count = [], 0
    if waiting:
        yield pa.concat_batches(waiting)


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of a batch by the part they play; a sparse `matrix` stands for the features."""

    n_rows: int
    features: Mapping[str, pa.Array] = field(default_factory=dict)
    categorical: Mapping[str, pa.Array] = field(default_factory=dict)
    sensitive: Mapping[str, pa.Array] = field(default_factory=dict)
    control: Mapping[str, pa.Array] = field(default_factory=dict)
    weight: Mapping[str, pa.Array] = field(default_factory=dict)
    matrix: Any = None

    @classmethod
    def of(cls, batch: pa.RecordBatch, roles: Roles) -> Columns:
        """Sort the columns of a batch by their roles."""
        weight = () if roles.weight is None else (roles.weight,)
        parts = (roles.features, roles.categorical, roles.sensitive, roles.control, weight)
        taken = ({name: decoded(batch.column(name)) for name in names} for names in parts)
        return cls(batch.num_rows, *taken)

    def parts(self) -> tuple[Mapping[str, pa.Array], ...]:
        """Return the columns of each part; the features come first."""
        return (self.features, self.categorical, self.sensitive, self.control, self.weight)

    def filter(self, rows: Any) -> Columns:
        """Keep the rows that a mask marks."""
        mask = pa.array(rows)
        matrix = None if self.matrix is None else self.matrix[rows]
        return self._with(lambda column: column.filter(mask), int(np.count_nonzero(rows)), matrix)

    def slice(self, start: int, size: int) -> Columns:
        """Keep the rows from a place on."""
        matrix = None if self.matrix is None else self.matrix[start : start + size]
        n_rows = max(min(size, self.n_rows - start), 0)
        return self._with(lambda column: column.slice(start, size), n_rows, matrix)

    def _with(self, change: Callable[[Any], Any], n_rows: int, matrix: Any) -> Columns:
        parts = [{name: change(column) for name, column in p.items()} for p in self.parts()]
        return replace(Columns(n_rows, *parts), matrix=matrix)


def summarise_batches(
    batches: Iterable[pa.RecordBatch | Columns], roles: Roles, *, counting: bool = False
) -> Partial:
    """Sum batches one after the other; `counting` where the pass has failed already."""
    total = Partial(levels=dict.fromkeys(roles.categorical, ()))
    for batch in batches:
        # Once a value is missing there will be no result, only counts.
        counting = counting or refused(total.missing, roles)
        columns = batch if isinstance(batch, Columns) else Columns.of(batch, roles)
        part = summarise(columns, roles, counting=counting)
        total = merge_partials([total, part], roles)
    return total


def summarise(columns: Columns, roles: Roles, *, counting: bool = False) -> Partial:
    """Sum the complete rows of positive weight of one batch."""
    nothing: Levels = dict.fromkeys(roles.categorical, ())
    n_rows = columns.n_rows
    # Nulls cost nothing to see. NaN among the features shows in the sums, so that a complete batch
    # is never searched for it; groups and weights are few and are searched at once.
    # But rows of weight zero are in no sum, and rows wider than they are many go through a
    # decomposition, which must not see NaN.
    needs_search = len(columns.features) > n_rows or positive_rows(columns) is not None
    missing, complete = count_missing(columns, roles, search_features=counting or needs_search)
    if not missing and not counting:
        if needs_search:
            check_finite(columns, roles)
        try:
            return _sum(columns, roles)
        except GroupsError:
            raise
        except InvalidInputError as error:
            missing, complete = count_missing(columns, roles, search_features=True)
            if not missing:
                check_finite(columns, roles)
                raise error from None
    incomplete = n_rows - int(np.count_nonzero(complete))
    if counting or refused(missing, roles):
        return Partial(None, nothing, n_rows, incomplete, missing)
    if roles.missing == "mean":
        check_finite(columns, roles)
        return replace(_sum(columns, roles, missing), incomplete=incomplete, missing=missing)
    part = _sum(columns.filter(complete), roles)
    return replace(part, n_rows=n_rows, incomplete=incomplete, missing=missing)


def _sum(columns: Columns, roles: Roles, missing: Iterable[str] = ()) -> Partial:
    """Sum rows; those of `missing` columns that lack a value count as the mean."""
    n_rows, indicators = columns.n_rows, None
    used = positive_rows(columns)
    if used is not None:  # left out before anything is learned from the rows
        columns = columns.filter(used)
    rows, levels = to_rows(columns, roles)
    if roles.folds:
        rows = with_folds(rows, roles.folds, fold_columns(roles, levels))
    unique = unique_columns(rows.X[:, : len(roles.features)], roles.features)
    if missing:
        masks = None
        if columns.matrix is None:
            known = {**columns.features, **columns.categorical}
            masks = {name: absent(known[name]) for name in missing}
        X, indicators = fill_missing(rows.X, feature_columns(roles, levels), masks)
        rows = replace(rows, X=X)
    return Partial(
        GroupMoments.from_rows(rows, indicators=indicators), levels, n_rows, unique=unique
    )


def decoded(column: pa.Array) -> pa.Array:
    """Write out a dictionary of numbers, as files hold it, or one with nulls; others stay."""
    if not kinds.is_dictionary(column.type):
        return column
    # A null among the values of a dictionary is not counted with those of its rows.
    written = is_number(column.type) or column.dictionary.null_count
    return column.dictionary_decode() if written else column


def absent(column: pa.Array) -> Any:
    """Mark the rows that have no value."""
    return column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)


def to_rows(columns: Columns, roles: Roles) -> tuple[Rows, Levels]:
    """Make Rows of complete columns, and say which levels the categorical features have."""
    n_rows, weights = columns.n_rows, None
    for column in columns.weight.values():
        weights = check_weights(_weights(column), n_rows)
    groups = strata = None
    if columns.sensitive:
        groups = encode_columns(
            columns.sensitive, roles.numeric, "sensitive_features", n_rows, roles.own_group
        )
    if columns.control:
        strata = encode_columns(columns.control, (), "control_features", n_rows, roles.own_group)
    check_cells((groups, strata), roles.max_cells)
    matrix: Any = columns.matrix
    levels: Levels = {}
    if matrix is None:
        matrix, levels = _matrix(columns, roles)
    names = (*roles.features, *indicator_names(levels))
    return Rows(matrix, groups, strata, weights, names), levels


def positive_rows(columns: Columns) -> Any:
    """Mark the rows whose weight is not zero; None where all are used."""
    for column in columns.weight.values():
        weights = _weights(column)
        if not weights.all():
            return weights != 0.0
    return None


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
    for argument, part in zip(("", "", *PARTS), columns.parts(), strict=True):
        searched = search_features or part is not columns.features
        is_group = part is columns.sensitive or part is columns.control
        for name, column in part.items():
            if is_group and name in roles.own_group:
                continue
            if column.null_count or (searched and kinds.is_floating(column.type)):
                yield argument, name, absent(column)


def check_finite(columns: Columns, roles: Roles) -> None:
    """Refuse infinite features, naming the column."""
    bad = [name for name, column in columns.features.items() if not _finite(_numbers(column))]
    if columns.matrix is not None:
        places = np.flatnonzero(np.isinf(columns.matrix.data))
        bad = [roles.features[index] for index in columns.matrix.indices[places]]
    if bad:
        raise infinite_error(bad[0], "features")


def _finite(values: Any) -> bool:
    return values.dtype.kind != "f" or not np.isinf(values).any()


def _weights(column: pa.Array) -> Any:
    known = (kinds.is_floating, kinds.is_integer, kinds.is_boolean, kinds.is_decimal)
    if not any(test(column.type) for test in known):
        raise weights_error("text")
    return _numbers(column).astype(np.float64)


def encode_columns(
    columns: Mapping[str, pa.Array],
    numeric: Iterable[str],
    argument: str,
    n_rows: int,
    own_group: Container[str] = (),
) -> Groups:
    """Encode group columns as `encode_groups` does; only distinct values are looked at."""
    encoded = [
        _encode_numbers(column, name, argument)
        if name in numeric
        else _encode_own(column, name, argument)
        if name in own_group
        else _encode_column(column, name, argument)
        for name, column in columns.items()
    ]
    categorical = tuple(item for item in encoded if isinstance(item, Attribute))
    numbers = tuple(item for item in encoded if isinstance(item, NumericAttribute))
    return Groups(categorical, numbers, tuple(columns), n_rows)


def _encode_column(column: pa.Array, name: str, argument: str) -> Attribute | NumericAttribute:
    coded = column if kinds.is_dictionary(column.type) else column.dictionary_encode()
    codes = coded.indices.to_numpy(zero_copy_only=False).astype(np.intp)
    present = np.flatnonzero(np.bincount(codes, minlength=len(coded.dictionary)))
    distinct = coded.dictionary.take(pa.array(present))
    small = len(distinct) <= CACHED_LEVELS
    encode = _encode_few if small else _encode_distinct
    values = tuple(distinct.to_pylist()) if small else distinct
    attribute = encode(values, distinct.type, name, argument)
    if attribute is None:
        return _encode_numbers(column, name, argument)
    lookup = np.zeros(max(len(coded.dictionary), 1), dtype=np.intp)
    lookup[present] = attribute.codes
    return Attribute(name, attribute.levels, lookup[codes])


def _encode_own(column: pa.Array, name: str, argument: str) -> Attribute | NumericAttribute:
    """Encode a column in which no value is a group of its own."""
    mask = absent(column)
    if not mask.any():
        return _encode_column(column, name, argument)
    known = _encode_column(column.filter(pa.array(~mask)), name, argument)
    if isinstance(known, NumericAttribute):
        raise GroupsError(
            f"{argument} column {name!r} holds numbers, of which {int(mask.sum())} are missing: "
            "drop those rows.",
            parameter=argument,
        )
    levels = sort_levels({*known.levels, MISSING_GROUP})
    codes = np.full(len(column), levels.index(MISSING_GROUP), dtype=np.intp)
    place = np.array([levels.index(level) for level in known.levels], dtype=np.intp)
    codes[~mask] = place[known.codes]
    return Attribute(name, levels, codes)


@lru_cache(maxsize=256)
def _encode_few(
    values: tuple[Any, ...], kind: pa.DataType, name: str, argument: str
) -> Attribute | None:
    """Encode the distinct values of a batch, which the next batch will most likely have too."""
    return _encode_distinct(pa.array(values, kind), kind, name, argument)


def _encode_distinct(
    values: pa.Array, kind: pa.DataType, name: str, argument: str
) -> Attribute | None:
    """Encode distinct values; None where they are numbers."""
    groups = encode_groups(pa.table({name: values}), n_rows=len(values), argument=argument)
    return None if groups.numeric else groups.categorical[0]


def _encode_numbers(column: pa.Array, name: str, argument: str) -> NumericAttribute:
    table = pa.table({name: column})
    return encode_groups(table, n_rows=len(column), argument=argument, numeric=[name]).numeric[0]


def _matrix(columns: Columns, roles: Roles) -> tuple[Any, Levels]:
    """Features of a batch, column by column in memory as Arrow holds them."""
    coded = {name: _text_codes(column, name, roles) for name, column in columns.categorical.items()}
    levels = {name: values for name, (values, _) in coded.items()}
    width = len(columns.features) + sum(map(len, levels.values()))
    matrix = np.empty((width, columns.n_rows), dtype=np.float32 if roles.single else np.float64)
    for index, column in enumerate(columns.features.values()):
        matrix[index] = _numbers(column)
    start = len(columns.features)
    matrix[start:] = 0.0
    for values, codes in coded.values():
        known = np.flatnonzero(codes >= 0)
        matrix[start + codes[known], known] = 1.0
        matrix[start : start + len(values), codes < 0] = np.nan
        start += len(values)
    return matrix.T, levels


def _numbers(column: pa.Array) -> Any:
    has_nulls = kinds.is_boolean(column.type) and column.null_count
    if kinds.is_decimal(column.type) or kinds.is_null(column.type) or has_nulls:
        column = column.cast(pa.float64())
    return column.to_numpy(zero_copy_only=False)


def _text_codes(column: pa.Array, name: str, roles: Roles) -> tuple[tuple[str, ...], Any]:
    """Sorted values of a categorical feature as text, and the place of each row's; −1 for none."""
    coded = column if kinds.is_dictionary(column.type) else column.dictionary_encode()
    present = pc.unique(coded.indices.drop_null()).to_numpy(zero_copy_only=False).tolist()
    if len(present) > roles.max_levels:
        raise too_many_levels(name, roles.max_levels)
    levels = {code: coded.dictionary[code].as_py() for code in present}
    # NaN is no level: it is missing, as null is.
    texts = {code: level_text(level, name) for code, level in levels.items() if level == level}
    values = tuple(sorted(set(texts.values())))
    place = {text: index for index, text in enumerate(values)}
    lookup = np.full(max(len(coded.dictionary), 1), -1, dtype=np.intp)
    for code, text in texts.items():
        lookup[code] = place[text]
    if not coded.indices.null_count:
        return values, lookup[coded.indices.to_numpy(zero_copy_only=False).astype(np.intp)]
    codes = coded.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.intp)
    return values, np.where(absent(coded.indices), -1, lookup[codes])


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
