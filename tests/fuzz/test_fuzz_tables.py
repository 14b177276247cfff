"""Random tables through every local input: the same moments, or the same refusal.

`run(tries, seed)` returns failures by class.
"""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fuzzing import campaign, same

from fairpca import GroupMoments
from fairpca.exceptions import InvalidInputError

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

WORDS = ["a", "b ", " b", "None", "x,y", 'say "hi"', "ä", "1", "2.0", "True", "=1+1", "line\nbreak"]


def make_frame(rng):
    """Features of mixed types, a group of any kind, sometimes weights and holes."""
    n = int(rng.integers(4, 60))
    frame = pd.DataFrame({f"x{i}": rng.normal(size=n) for i in range(rng.integers(1, 4))})
    if rng.random() < 0.5:
        frame["count"] = rng.integers(-5, 5, n)
    kind = int(rng.integers(5))
    if kind == 0:
        frame["g"] = rng.choice(rng.choice(WORDS, 3, replace=False), n)
    elif kind == 1:
        frame["g"] = rng.integers(0, 3, n)
    elif kind == 2:
        frame["g"] = rng.random(n) < 0.5
    elif kind == 3:
        frame["g"] = rng.integers(1, 4, n).astype(float)
    else:
        frame["g"] = pd.to_datetime(
            rng.choice(["2020-01-01", "2021-06-30 10:30"], n), format="ISO8601"
        )
    if rng.random() < 0.3:
        frame["w"] = rng.integers(0, 3, n).astype(float)
    if rng.random() < 0.2:
        if kind == 2:
            frame["g"] = frame["g"].astype(object)
        frame.loc[int(rng.integers(n)), str(rng.choice(["g", "x0"]))] = None
    if rng.random() < 0.1:
        frame.loc[int(rng.integers(n)), "x0"] = np.inf
    return frame


def in_memory(frame, features, weight):
    return GroupMoments.from_arrays(
        frame[features], frame[["g"]], None, None if weight is None else frame[weight]
    )


def answer(function):
    try:
        return function()
    except InvalidInputError as error:
        return error


def attempt(rng):
    from fairpca.tables import moments_from_dask, moments_from_files

    frame = make_frame(rng)
    features = [name for name in frame.columns if name not in ("g", "w")]
    weight = "w" if "w" in frame else None
    asked = {"sensitive": ["g"], "features": features, "weight": weight}
    expected = answer(lambda: in_memory(frame, features, weight))
    inputs = {}
    with tempfile.TemporaryDirectory() as folder:
        parquet, text = Path(folder, "t.parquet"), Path(folder, "t.csv")
        frame.to_parquet(parquet, row_group_size=int(rng.integers(1, 30)))
        inputs["parquet"] = answer(lambda: moments_from_files(parquet, **asked))
        if frame["g"].dtype == object or frame["g"].dtype.kind in "ib":
            frame.to_csv(text, index=False)
            inputs["csv"] = answer(lambda: moments_from_files(text, **asked))
        if rng.random() < 0.1:
            import dask.dataframe as dd

            parts = dd.from_pandas(frame, npartitions=2, sort=False)
            inputs["dask"] = answer(lambda: moments_from_dask(parts, **asked))
    for input, found in inputs.items():
        if input == "csv" and set(frame["g"].astype(str)) & {"None", "1", "2.0", "True", "False"}:
            continue  # text has no types: other groups, by all inputs that read text
        refused = isinstance(expected, InvalidInputError)
        assert refused == isinstance(found, InvalidInputError), (
            f"{input}: refused by one input only"
        )
        if refused:
            continue
        assert found.levels("g") == expected.levels("g"), f"{input}: other groups"
        unit = np.abs(expected.pooled().covariance).max()
        same(found.pooled().covariance, expected.pooled().covariance, input, 1e-9, unit)


def run(tries, seed):
    return campaign(attempt, tries, seed)


def test_tables_by_every_input():
    assert run(60, seed=1) == {}
