"""Groups found on the way, indicators, missing values: the same rules for every engine.

The engines are parametrised here: the local stream and Dask. test_spark.py runs the same cases.
"""

import warnings
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from column_cases import CASES, REFUSED, Refused, check_case, check_refused
from support import run_command
from table_support import FEATURES, assert_same_moments, by_engine, in_memory, people, write_files

from fairpca import FairPCA, GroupMoments
from fairpca.exceptions import GroupsError, InvalidInputError
from fairpca.tables import moments_from_files, open_table
from fairpca.tables._kernel import encode_columns
from fairpca.tables._roles import Columns, assign_roles
from fairpca.tables._stream import sum_batches


def by_parquet(frame, tmp_path, **asked):
    write_files(frame, tmp_path / "table", [len(frame) // 3, len(frame) - len(frame) // 3], 40)
    return moments_from_files(tmp_path / "table", **asked)


def by_dask(frame, tmp_path, **asked):
    dd = pytest.importorskip("dask.dataframe", reason="dask is not installed")
    from fairpca.tables import moments_from_dask

    return moments_from_dask(dd.from_pandas(frame, npartitions=4, sort=False), **asked)


def by_csv(frame, tmp_path, engine="local", **asked):
    frame.to_csv(tmp_path / "x.csv", index=False)
    return by_engine(engine, tmp_path / "x.csv", **asked)


def by_csv_and_dask(frame, tmp_path, **asked):
    pytest.importorskip("dask.dataframe", reason="dask is not installed")
    return by_csv(frame, tmp_path, "dask", **asked)


def by_command(frame, tmp_path, **asked):
    """What the command line refuses has an exit code and words, and no class."""
    if "features" not in asked:
        pytest.skip("the command line one-hot encodes text by itself")
    frame.to_parquet(tmp_path / "x.parquet")
    saved = tmp_path / "moments.npz"
    words = ["moments", tmp_path / "x.parquet", "--out", saved, "--min-rows", 1]
    for option, value in asked.items():
        value = ",".join(value) if isinstance(value, list) else value
        words += [f"--{option.replace('_', '-')}", value]
    result = run_command(*words)
    if result.exit_code == 2:
        raise Refused(result.stderr)
    assert result.exit_code == 0, result.output
    for line in result.stderr.splitlines():
        if "left out" in line:
            warnings.warn(line, stacklevel=2)
    return GroupMoments.load(saved)


def taken_apart(frame, asked):
    """A model, and the parts of a frame; what only a table can be asked for is none of it."""
    if {"categorical", "max_cells"} & set(asked):
        pytest.skip("tables only")
    given = {name: asked.get(part) for name, part in PARTS.items()}
    named = [
        n for part in given.values() for n in ([part] if isinstance(part, str) else part or [])
    ]
    features = asked.get("features") or [name for name in frame if name not in named]
    model = FairPCA(1, mean_tol=None, cov_weight=0.0, missing=asked.get("missing", "error"))
    return model, features, given, named


PARTS = {
    "sensitive_features": "sensitive",
    "control_features": "control",
    "sample_weight": "weight",
}


def by_name(frame, tmp_path, **asked):
    model, features, given, named = taken_apart(frame, asked)
    kept = [name for name in dict.fromkeys([*features, *named]) if name in frame]
    return model.fit(frame[kept], **given).moments_


def beside(frame, asked, convert=lambda part: part):
    model, features, given, named = taken_apart(frame, asked)
    if not set(named) <= set(frame.columns):
        pytest.skip("there is no such column to give")
    parts = {name: part if part is None else convert(frame[part]) for name, part in given.items()}
    return model.fit(convert(frame[features]), **parts).moments_


def by_pandas(frame, tmp_path, **asked):
    return beside(frame, asked)


def by_polars(frame, tmp_path, **asked):
    return beside(frame, asked, pl.from_pandas)


def by_dask_fit(frame, tmp_path, **asked):
    dd = pytest.importorskip("dask.dataframe", reason="dask is not installed")
    return beside(frame, asked, partial(dd.from_pandas, npartitions=3, sort=False))


ENGINES = {
    "parquet": by_parquet,
    "dask": by_dask,
    "csv": by_csv,
    "csv by dask": by_csv_and_dask,
    "command": by_command,
    "names in pandas": by_name,
    "pandas": by_pandas,
    "polars": by_polars,
    "fit of dask": by_dask_fit,
}


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_columns(engine, case, tmp_path):
    check_case(case, lambda frame, **asked: engine(frame, tmp_path, **asked))


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refused(engine, case, tmp_path):
    check_refused(case, lambda frame, **asked: engine(frame, tmp_path, **asked))


def test_an_id_column_stops_the_pass_early(tmp_path):
    frame = people(2000)
    frame["id"] = np.arange(2000)
    write_files(frame, tmp_path, [2000], 100)
    rows = []
    with pytest.raises(GroupsError, match=r"part-00\.parquet: column 'id' has more than 90"):
        moments_from_files(
            tmp_path, ["id"], FEATURES, max_cells=90, progress=lambda *x: rows.append(x), threads=1
        )
    assert rows == []


def test_the_limit_holds_for_the_union_of_the_batches(tmp_path):
    frame = people(2000)
    frame["id"] = np.arange(2000) // 10
    write_files(frame, tmp_path, [2000], 100)
    with pytest.raises(GroupsError, match="'id' has more than 90 distinct values"):
        moments_from_files(tmp_path, ["id"], FEATURES, max_cells=90)
    frame["race"] = np.arange(2000) // 25 % 8
    frame["part"] = np.arange(2000) // 200
    write_files(frame, tmp_path, [2000], 100)
    with pytest.raises(
        GroupsError, match=r"more than 50 distinct combinations \('race': 8, 'part'"
    ):
        moments_from_files(tmp_path, ["race", "part"], FEATURES, max_cells=50)
    assert moments_from_files(tmp_path, ["race", "part"], FEATURES).n_samples == 2000


def test_the_names_are_checked_against_the_table(tmp_path):
    schema = pa.schema({"a": pa.float64(), "b": pa.float64(), "g": pa.string(), "w": pa.float64()})
    wrong = {
        "sensitive names no column": {"sensitive": []},
        r"sensitive_features names \['x'\], which is not among the columns": {"sensitive": ["x"]},
        r"features names \['z'\], which is not": {"sensitive": "g", "features": ["z"]},
        r"features names \['a'\] more than once": {"sensitive": "g", "features": ["a", "a"]},
        r"\['g'\] cannot be features and groups": {"sensitive": "g", "features": ["a", "g"]},
        r"\['a'\] is not among the columns of sensitive": {"sensitive": "g", "numeric": ["a"]},
        r"\['g'\] are sensitive and control": {"sensitive": "g", "control": "g"},
        "no column is left": {"sensitive": ["g", "a", "b"], "weight": "w"},
        "missing='drop'": {"sensitive": "g", "missing": "drop"},
    }
    for message, asked in wrong.items():
        with pytest.raises(InvalidInputError, match=message):
            assign_roles(schema, **asked)
    twice = pa.schema([("a", pa.float64()), ("a", pa.float64()), ("g", pa.string())])
    with pytest.raises(InvalidInputError, match="occur more than once: 'a'"):
        assign_roles(twice, "g")


def test_categories_of_numbers_are_read_by_their_values():
    column = pa.array([1.5, 2.5, 3.5, 1.5]).dictionary_encode()
    groups = encode_columns({"g": column}, [], "sensitive_features", 4)
    assert groups.numeric[0].values.tolist() == [1.5, 2.5, 3.5, 1.5]
    expected = in_memory(
        pd.DataFrame({"x": [1.0, 2, 3, 4], "g": pd.Categorical([1.5, 2.5, 3.5, 1.5])}),
        ["g"],
        features=["x"],
    )
    assert expected.numeric_attributes == ("g",)


def test_categories_of_numbers_are_features_and_weights_like_numbers():
    frame = people(60)
    coded = frame.astype({"a": "category", "w": "category"})
    table = open_table(pa.Table.from_pandas(coded))
    found = table.moments(table.assign("sex", FEATURES, weight="w"))
    assert_same_moments(found, in_memory(frame, ["sex"], weight="w"))


def test_weights_must_be_numbers():
    batch = pa.RecordBatch.from_pydict({"a": [1.0], "g": ["x"], "w": ["heavy"]})
    roles = assign_roles(batch.schema, "g", features=["a"], weight="w")
    with pytest.raises(InvalidInputError, match="sample_weight cannot be read as numbers"):
        sum_batches([Columns.of(batch, roles)], roles)


def test_indicators_of_one_column_are_never_more_than_asked(tmp_path):
    frame = people(500)
    frame["name"] = [f"n{i}" for i in range(500)]
    write_files(frame, tmp_path, [500], 100)
    given = {"sensitive": "sex", "features": FEATURES, "categorical": ["name"]}
    with pytest.raises(InvalidInputError, match="'name' has more than 99 distinct values"):
        moments_from_files(tmp_path, **given, max_levels=99)
    with pytest.raises(InvalidInputError, match="'name' has more than 300 distinct values"):
        moments_from_files(tmp_path, **given, max_levels=300)
    with pytest.raises(InvalidInputError, match=r"'name' \(500 values in 500 rows\)") as caught:
        moments_from_files(tmp_path, **given)
    assert "drop" not in str(caught.value)  # which is no parameter of the library


@pytest.mark.filterwarnings("error::fairpca.exceptions.IdentifierWarning")
def test_numbers_that_come_again_in_another_batch_identify_nobody(tmp_path):
    frame = people(500)
    frame["day"] = np.tile(np.arange(100), 5)  # another one in every row of a row group
    write_files(frame, tmp_path, [500], 100)
    given = {"sensitive": "sex", "features": [*FEATURES, "day"]}
    assert moments_from_files(tmp_path, **given).n_features == len(FEATURES) + 1


def test_values_that_a_batch_lacks_keep_their_places(tmp_path):
    frame = people(300)
    frame["town"] = np.repeat(["b", "a", "c"], 100)  # one value in each row group
    write_files(frame, tmp_path, [300], 100)
    found = moments_from_files(tmp_path, "sex", FEATURES, categorical=["town"])
    wide = pd.get_dummies(frame[[*FEATURES, "town"]], prefix_sep="=", dtype=float)
    assert found.feature_names == tuple(wide)
    np.testing.assert_allclose(found.pooled().mean, wide.mean(), atol=1e-12)
    np.testing.assert_allclose(found.pooled().covariance, wide.cov(ddof=0), atol=1e-12)


def test_categories_without_rows_are_no_groups():
    towns = pd.Categorical(["b", "a"] * 3, categories=["z", "b", "a"])
    groups = encode_columns({"town": pa.array(towns)}, [], "sensitive_features", 6)
    assert groups.categorical[0].levels == ("a", "b")


def test_zero_weights_are_left_out_of_everything(tmp_path):
    frame = people(300)
    frame.loc[frame.index < 120, "w"] = 0.0  # whole row groups
    frame.loc[:50, "sex"] = "never seen"
    frame.loc[:50, "city"] = "nowhere"
    write_files(frame, tmp_path, [300], 40)
    found = moments_from_files(tmp_path, "sex", FEATURES, weight="w", categorical=["city"])
    assert found.levels("sex") == ("f", "m")
    assert found.feature_names == (*FEATURES, "city=north", "city=south")
    plain = moments_from_files(tmp_path, "sex", FEATURES, weight="w")
    assert_same_moments(plain, in_memory(frame, ["sex"], weight="w"))
