"""Cases of columns that every engine, and every other door to a fit, must treat alike."""

import csv
import datetime
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from table_support import FEATURES, assert_same_moments, in_memory, people

from fairpca import FairPCA
from fairpca.exceptions import GroupsError, InvalidInputError


def with_holes(seed=5):
    frame = people(400)
    rng = np.random.default_rng(seed)
    for column, count in {"a": 7, "sex": 5, "w": 3}.items():
        frame.loc[rng.choice(400, count, replace=False), column] = None
    return frame


def indicators(frame, columns):
    """The oracle of one-hot encoding: pandas, on all rows at once."""
    parts = [frame[FEATURES]]
    for column in columns:
        values = frame[column].astype(str)
        parts += [
            (values == level).astype(float).rename(f"{column}={level}")
            for level in sorted(values.unique())
        ]
    wide = pd.concat(parts, axis=1)
    return wide.join(frame.drop(columns=[*FEATURES])), list(wide.columns)


def rare_level():
    """A categorical value that lives in a few rows of one partition."""
    frame = people(400)
    frame["colour"] = np.resize(["red", "blue"], 400)
    frame.loc[390:395, "colour"] = "ultramarine"
    frame.loc[:30, "colour"] = "red"
    return frame


# name: (frame, what is asked, what is expected in memory, number of rows dropped)
CASES = {
    "groups and strata": (
        people,
        {"sensitive": ["sex", "race"], "control": ["city"], "features": FEATURES},
        lambda frame: in_memory(frame, ["sex", "race"], ["city"]),
        0,
    ),
    "mean of a million, weighted": (
        lambda: people(mean=1e6),
        {"sensitive": ["sex", "age"], "features": FEATURES, "weight": "w"},
        lambda frame: in_memory(frame, ["sex", "age"], weight="w"),
        0,
    ),
    "one categorical feature": (
        rare_level,
        {"sensitive": ["sex"], "features": FEATURES, "categorical": ["colour"]},
        lambda frame: in_memory(*_wide(frame, ["colour"])),
        0,
    ),
    "two categorical features, one of numbers": (
        rare_level,
        {"sensitive": ["age"], "features": FEATURES, "categorical": ["race", "colour"]},
        lambda frame: in_memory(*_wide(frame, ["race", "colour"], ["age"])),
        0,
    ),
    "rows with holes dropped": (
        with_holes,
        {"sensitive": ["sex"], "features": FEATURES, "weight": "w", "missing": "drop-rows"},
        lambda frame: in_memory(frame.dropna(), ["sex"], weight="w"),
        None,
    ),
}


def _wide(frame, columns, sensitive=("sex",)):
    wide, names = indicators(frame, columns)
    return wide, list(sensitive), None, None, names


def check_case(case, run):
    make, asked, expect, dropped = case
    frame = make()
    if dropped == 0:
        found = run(frame, **asked)
    else:
        dropped = int(frame.isna().any(axis=1).sum())
        with pytest.warns(
            UserWarning, match=f"{dropped} of 400 rows have missing values.*left out"
        ):
            found = run(frame, **asked)
    assert_same_moments(found, expect(frame))


def infinite():
    frame = people(200)
    frame.loc[77, "c"] = np.inf
    return frame


def ids():
    return people(600).assign(id=np.arange(600))


# name: (frame, what is asked, error, message)
REFUSED = {
    "holes": (
        with_holes,
        {"sensitive": ["sex"], "features": FEATURES, "weight": "w"},
        InvalidInputError,
        r"1\d of 400 rows have missing values \(by column: 'a' 7, 'sex' 5, 'w' 3\).*drop-rows",
    ),
    "text features": (
        people,
        {"sensitive": ["race"]},
        InvalidInputError,
        r"features that are not numbers: 'sex' \(.*\), 'city' \(.*categorical",
    ),
    "an id column": (
        ids,
        {"sensitive": ["id"], "features": FEATURES, "max_cells": 50},
        GroupsError,
        "column 'id' has more than 50 distinct values: that is an identifier",
    ),
    "an id spread over the partitions": (
        lambda: ids().assign(id=np.arange(600) // 10),
        {"sensitive": ["id"], "features": FEATURES, "max_cells": 50},
        GroupsError,
        "column 'id' has more than 50 distinct values",
    ),
    "infinite values": (
        infinite,
        {"sensitive": ["sex"], "features": FEATURES},
        InvalidInputError,
        "column 'c' holds infinite values",
    ),
    "numeric strata": (
        people,
        {"sensitive": ["sex"], "control": ["age"], "features": FEATURES},
        GroupsError,
        r"(control_features|--control) \['age'\] hold more than 2 different floats",
    ),
    "unknown names": (
        people,
        {"sensitive": ["gender"], "features": FEATURES},
        InvalidInputError,
        r" names \['gender'\], which is not among the columns: they are 'a', 'b'",
    ),
    "a hole in a row of weight zero": (
        lambda: people(200).assign(
            a=lambda f: f["a"].where(f.index != 7), w=lambda f: f["w"].where(f.index != 7, 0.0)
        ),
        {"sensitive": ["sex"], "features": FEATURES, "weight": "w"},
        InvalidInputError,
        r"1 of 200 rows have missing values \(by column: 'a' 1\)",
    ),
    "no rows": (
        lambda: people(50).assign(w=0.0),
        {"sensitive": ["sex"], "features": FEATURES, "weight": "w"},
        InvalidInputError,
        r"no row can be used \(50 read\)",
    ),
}


class Refused(InvalidInputError):
    """What the command line refuses: an exit code and words, from which no class can be read."""


def check_refused(case, run):
    make, asked, error, message = case
    with pytest.raises((error, Refused), match=message):
        run(make(), **asked)


# --- one column of groups, as every door holds it ------------------------------------------------


@dataclass(frozen=True)
class Groups:
    """A column: values that take turns, and what they mean as they are and as text in a CSV file.

    A meaning is the list of the levels of the values, or the words of the error.
    """

    values: list[Any]
    typed: list[Any] | str
    text: list[Any] | str
    fields: list[str] | None = None  # in the CSV file; None: the text of the values
    category: bool = False  # whether what knows categories holds the column as such

    def column(self, n):
        return [self.values[index % len(self.values)] for index in range(n)]

    def lines(self, n):
        fields = self.fields or [str(value) for value in self.values]
        return [fields[index % len(fields)] for index in range(n)]


def _missing(count):
    return (
        rf"column '{{name}}' has {count} missing values: drop those rows, or give the missing group"
        " a name of its own"
    )


_ONE_GROUP = "column '{name}' has a single group: 'x' in all 60 rows. Two groups are needed"

N_ROWS = 60
ALIKE = ["x", "y"]
NUMBERS = [round(0.37 * index, 2) for index in range(N_ROWS)]
DATES = [datetime.date(2020, 1, 1), datetime.date(2021, 6, 30)]

GROUPS = {
    "text": Groups(ALIKE, ALIKE, ALIKE),
    "the text None": Groups(["None", "y"], ["None", "y"], _missing(30)),
    "the text NaN": Groups(["NaN", "y"], ["NaN", "y"], _missing(30)),
    "the text null": Groups(["null", "y"], ["null", "y"], _missing(30)),
    "the empty string": Groups(["", "y"], ["", "y"], _missing(30)),
    "the text NA, once in three": Groups(["NA", "x", "y"], ["NA", "x", "y"], _missing(20)),
    "text with spaces": Groups([" x", "y y "], [" x", "y y "], [" x", "y y "]),
    "text in quotes": Groups(["a,b", 'say "c"'], ["a,b", 'say "c"'], ["a,b", 'say "c"']),
    "True and true": Groups(["True", "true", "no"], ["True", "true", "no"], ["True", "true", "no"]),
    "nothing but truths": Groups(
        ["True", "true", "False"], ["True", "true", "False"], [True, True, False]
    ),
    "booleans": Groups([True, False], [True, False], [True, False]),
    "whole numbers": Groups([3, 1, 2], [3, 1, 2], [3, 1, 2]),
    "whole numbers as text": Groups(["3", "1"], ["3", "1"], [3, 1]),
    "whole numbers as floats": Groups([3.0, 1.0], [3, 1], [3, 1]),
    "two fractions": Groups([0.5, 1.5], [0.5, 1.5], [0.5, 1.5]),
    "numbers": Groups(NUMBERS, [], []),
    "whole numbers with a hole": Groups([1, 2, None], _missing(20), _missing(20), ["1", "2", ""]),
    "text with a hole": Groups(["x", "y", None], _missing(20), _missing(20), ["x", "y", "NA"]),
    "categories of text": Groups(ALIKE, ALIKE, ALIKE, category=True),
    "categories of whole numbers": Groups([3, 1], [3, 1], [3, 1], category=True),
    "categories of floats": Groups([3.0, 1.0], [3, 1], [3, 1], category=True),
    "categories of two fractions": Groups([0.5, 1.5], [0.5, 1.5], [0.5, 1.5], category=True),
    "categories of many fractions": Groups(NUMBERS, [], [], category=True),
    "dates": Groups(DATES, ["2020-01-01", "2021-06-30"], ["2020-01-01", "2021-06-30"]),
    "one group": Groups(["x"], _ONE_GROUP, _ONE_GROUP),
    "bytes in another encoding": Groups(
        [b"\xe9", b"y"],
        r"column '{name}' holds bytes that are no UTF-8 text .* decode the column",
        r"is not UTF-8 text .*convert it first",
        ["\xe9", "y"],
    ),
}


def check_groups(case, door, kind):
    """Fit by a door: the groups, the basis or the error are those of the case.

    `door` takes the features, the case and returns a fitted FairPCA; `kind` is "typed" or "text".
    """
    features = people(N_ROWS, seed=11)[FEATURES]
    expected = getattr(case, kind)
    name = getattr(door, "column", "g")
    if isinstance(expected, str):
        with pytest.raises(InvalidInputError, match=expected.format(name=name)) as error:
            door(features, case)
        assert "\n" not in str(error.value)
        words_only = isinstance(error.value, Refused)
        if not words_only and "UTF-8 text (" not in str(error.value):  # the file's, not its groups'
            assert isinstance(error.value, GroupsError)
        return
    fair = door(features, case)
    if not expected:
        assert fair.moments_.numeric_attributes == (name,)
        levels = case.column(N_ROWS)
    else:
        found = fair.moments_.levels(name)
        assert set(map(repr, found)) == set(map(repr, expected))  # 1 is not True, nor 1.0
        levels = [expected[index % len(expected)] for index in range(N_ROWS)]
    whole = model().fit(features, sensitive_features=pd.Series(levels, name=name))
    np.testing.assert_allclose(fair.components_, whole.components_, atol=1e-10)


def model():
    """Means only, whose basis is computed directly: nothing but rounding differs."""
    return FairPCA(2, cov_weight=0.0)


def text_file(features, case, folder):
    """Write features and groups to a CSV file; text beyond ASCII is not UTF-8."""
    path = folder / "x.csv"
    with path.open("w", newline="", encoding="latin-1") as file:
        writer = csv.writer(file)
        writer.writerow([*features, "g"])
        writer.writerows(
            [*row, field]
            for row, field in zip(features.to_numpy().tolist(), case.lines(N_ROWS), strict=True)
        )
    return path
