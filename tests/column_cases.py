"""Cases of columns that every engine must treat alike."""

import numpy as np
import pandas as pd
import pytest
from table_support import FEATURES, assert_same_moments, in_memory, people

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
        r"control_features \['age'\] hold more than 2 different floats",
    ),
    "unknown names": (
        people,
        {"sensitive": ["gender"], "features": FEATURES},
        InvalidInputError,
        r"sensitive names \['gender'\], but the columns are 'a', 'b'",
    ),
    "no rows": (
        lambda: people(50).assign(w=0.0),
        {"sensitive": ["sex"], "features": FEATURES, "weight": "w"},
        InvalidInputError,
        r"no row can be used \(50 read\)",
    ),
}


def check_refused(case, run):
    make, asked, error, message = case
    with pytest.raises(error, match=message):
        run(make(), **asked)
