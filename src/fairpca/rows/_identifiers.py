"""Features that identify: whole numbers, text and dates of rows, persons and sites."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from fairpca.exceptions import (
    WITH,
    IdentifierWarning,
    InvalidInputError,
    Setting,
    UnitsWarning,
    warn_user,
)
from fairpca.rows._containers import column_names

DATES, TEXT = "dates", "text"  # kinds of columns
COMMAS = "numbers with commas"

# Whole numbers that are different in every row by design.

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


def suggests_units(labels: Any, groups: NDArray[np.intp], *, by_name: bool = False) -> bool:
    """Whether a column may name persons or sites: its name says so, or its values do.

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
    if by_name or (groups != home[codes]).any():
        return by_name
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
    hints, groups = [], replace(rows, strata=None).cells()
    index = getattr(X, "index", None)
    for level in range(getattr(index, "nlevels", 0)):
        labels = index.get_level_values(level)  # type: ignore[union-attr]
        if not labels.is_unique and suggests_units(labels, groups):
            hints.append(("the index of X", labels, f"units=X.index.get_level_values({level})"))
    for name in column_names(X):
        labels = np.asarray(X[name])
        is_whole = labels.dtype.kind in "iu"
        if is_whole and suggests_units(labels, groups, by_name=names_units(str(name))):
            hints.append((f"feature {name!r}", labels, f"units={name!r}"))
    for what, labels, remedy in hints:
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
    widths = {name: column.high - column.low + 1.0 for name, column in unique.items()}
    names = [name for name, width in widths.items() if _MIN_ROWS <= n_rows <= width]
    certain = [
        name
        for name in names
        if unique[name].pairs / widths[name] >= _EXPECTED_PAIRS or is_identifier(name)
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


# Text: dates in usual spellings, and what has so few rows for each value that it names rows.

_DAY, _SEPARATOR = r"(0?[1-9]|[12]\d|3[01])", r"[./ -]"
_MONTH = r"(jan|feb|m[aär]r?|apr|ma[iy]|jun|jul|aug|sep|o[ck]t|nov|de[cz])[a-z]*\.?"
_DATE = re.compile(
    rf"({_DAY}{_SEPARATOR}{_DAY}{_SEPARATOR}(\d\d)?\d\d|\d{{4}}{_SEPARATOR}{_DAY}{_SEPARATOR}{_DAY}|"
    rf"{_DAY}\.?[ -]?{_MONTH},?[ -]?(\d\d)?\d\d|{_MONTH} {_DAY}(st|nd|rd|th)?,? \d{{4}})"
    r"([T ,]+\d{1,2}:\d\d(:\d\d([.,]\d+)?)?( ?[ap]m)?( ?(Z|UTC|[+-]\d\d:?\d\d))?)?",
    re.IGNORECASE,
)
_COMMA = re.compile(r"[+-]?(\d+(\.\d{3})*,\d+|\d{1,3}(,\d{3})+(\.\d+)?)")  # 3,14 and 12,500
_AMONG = 0.9  # of the values are dates or numbers; the others may say that one is not known
_ALMOST_ALL = 0.9  # of the rows have a value of their own
_FEW_ROWS, _MANY_VALUES = 4, 50
_FEW_ROWS_ON_AVERAGE = 30  # for each of many values: no identifier, and worth a word
_FEW_ROWS_BY_NAME, _MANY_VALUES_BY_NAME = 10, 20  # of a column whose name says whose rows they are


def not_numbers_error(kinds: Mapping[str, str], of: str, *remedies: Setting) -> InvalidInputError:
    """Say which features are no numbers, what they are, and what to do about each kind."""
    listed = ", ".join(f"{name!r} ({kind})" for name, kind in kinds.items())
    parts = [f"Leave {'it' if len(kinds) == 1 else 'them'} out{WITH}"]
    if TEXT in kinds.values():
        parts.append("one-hot encode text (a table does, where categorical names it)")
    if DATES in kinds.values():
        parts.append("turn dates into numbers, such as years")
    if COMMAS in kinds.values():
        parts.append("read numbers with their commas (pandas.read_csv takes decimal and thousands)")
    return InvalidInputError(
        f"features that are not numbers: {listed}. {', or '.join(parts)}.",
        parameter=of,
        settings=[("drop", list(kinds)), *remedies],
    )


def are_dates(values: Collection[str]) -> bool:
    """Tell text that is dates, such as 24.12.2026, 12/24/26 or 24 Dec 2026 18:00."""
    dates = sum(_DATE.fullmatch(value.strip()) is not None for value in values)
    return dates > 0 and dates >= _AMONG * len(values)


def have_commas(values: Collection[str]) -> bool:
    """Tell text that is numbers with commas, which mark decimals or part thousands."""
    commas = sum(_COMMA.fullmatch(value.strip()) is not None for value in values)
    plain = sum(map(_is_number, values))
    return commas > 0 and commas + plain >= _AMONG * len(values)


def names_rows(name: str, n_values: int, n_rows: int) -> bool:
    """Tell text with few rows for each value: an identifier or free text."""
    few, many = _FEW_ROWS, _MANY_VALUES
    if is_identifier(name) or names_units(name):
        few, many = _FEW_ROWS_BY_NAME, _MANY_VALUES_BY_NAME
    if n_rows >= _MIN_ROWS and n_values >= _ALMOST_ALL * n_rows:
        return True
    return n_values > many and few * n_values >= n_rows


def check_no_text(X: Any, of: str = "X") -> None:
    """Refuse columns of text, by name, and say which are dates or identifiers; any container."""
    frame = nw.from_native(X, pass_through=True)
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
            text[name] = _kind_of_text(name, [v for v in values.tolist() if isinstance(v, str)])
    if text:
        raise not_numbers_error(text, of)


def _kind_of_text(name: str, values: Sequence[str]) -> str:
    different = set(values)
    if are_dates(different) or have_commas(different):
        return DATES if are_dates(different) else COMMAS
    if names_rows(name, len(different), len(values)):
        return f"{len(different):,} values in {len(values):,} rows: an identifier or free text"
    return TEXT


def check_text_features(
    levels: Mapping[str, Sequence[str]], n_rows: int, missing: Mapping[str, int]
) -> None:
    """Refuse text with few rows for each value; `missing` counts the values that rows lack."""
    counts, settings = {}, []
    for name, values in levels.items():
        known = n_rows - missing.get(name, 0)
        if names_rows(name, len(values), known):
            check_spelling(name, values)
            check_words(name, values)
            counts[name] = f"{name!r} ({len(values):,} values in {known:,} rows)"
            settings += [("unit", name)] if len(values) <= known / 2 else []
    if counts:
        raise InvalidInputError(
            f"text with few rows for each value: {', '.join(counts.values())}. That is an "
            f"identifier or free text, and each value would become a feature: leave it out{WITH}, "
            "or put its values into classes.",
            settings=[("drop", list(counts)), *settings[:1]],
        )


def is_large_category(n_values: int, n_rows: int) -> bool:
    """Tell text that is no identifier, but has so many values that few rows have each."""
    return n_values > _MANY_VALUES and _FEW_ROWS_ON_AVERAGE * n_values > n_rows


def check_spelling(name: str, values: Collection[str], *remedies: Setting) -> None:
    """Refuse dates, and numbers with commas, that are text."""
    if are_dates(values):
        raise not_numbers_error({name: DATES}, "features", *remedies)
    if have_commas(values):
        example = next(value for value in values if _COMMA.fullmatch(value.strip()))
        raise InvalidInputError(
            f"column {name!r} holds numbers with commas, such as {example!r}, which are read as "
            "text: take the commas out, or leave the column out.",
            parameter="features",
            settings=[("decimal", ","), ("drop", [name]), *remedies],
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
