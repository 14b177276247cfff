"""A column of groups means the same by every door to a fit; test_spark.py has two doors more.

A door is a function of the features and the case that returns a fitted FairPCA or raises. What
has types (arrays, frames, Parquet) shares one meaning, text in CSV files shares the other.
"""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from click.testing import CliRunner
from column_cases import GROUPS, N_ROWS, check_groups, model, text_file

from fairpca import GroupMoments
from fairpca.cli._app import app
from fairpca.estimators import load_model
from fairpca.exceptions import GroupsError, InvalidInputError
from fairpca.tables import (
    moments_from_csv,
    moments_from_dask,
    moments_from_files,
    moments_from_parquet,
    open_table,
)

# dask calls pandas in ways that pandas has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:.*inplace keyword:DeprecationWarning")

TYPED, TEXT = {}, {}


def door(doors, column="g"):
    def add(function):
        function.column = column
        doors[function.__name__.removeprefix("by_")] = function
        return function

    return add


def arrow(features, case):
    return pa.Table.from_pandas(features).append_column("g", pa.array(case.column(N_ROWS)))


def frame(features, case):
    return features.assign(g=case.column(N_ROWS))


@door(TYPED, "sensitive_feature")
def by_lists(features, case, folder):
    return model().fit(features.to_numpy().tolist(), sensitive_features=case.column(N_ROWS))


@door(TYPED, "sensitive_feature")
def by_numpy(features, case, folder):
    return model().fit(features.to_numpy(), sensitive_features=np.array(case.column(N_ROWS)))


@door(TYPED)
def by_pandas(features, case, folder):
    return model().fit(features, sensitive_features=frame(features, case)["g"])


@door(TYPED)
def by_polars(features, case, folder):
    groups = pl.DataFrame({"g": case.column(N_ROWS)})
    return model().fit(pl.DataFrame(features.to_dict("list")), sensitive_features=groups)


@door(TYPED)
def by_pyarrow(features, case, folder):
    table = arrow(features, case)
    return model().fit(table.select(list(features)), sensitive_features=table.select(["g"]))


@door(TYPED)
def by_arrow_table(features, case, folder):
    table = open_table(arrow(features, case))
    return model().fit_moments(table.moments(table.assign("g")))


@door(TYPED)
def by_rows(features, case, folder):
    table = open_table(arrow(features, case))
    return model().fit_moments(GroupMoments.from_rows(table.rows(table.assign("g"))))


def parquet(features, case, folder):
    path = folder / "x.parquet"
    pa.parquet.write_table(arrow(features, case), path, row_group_size=17)
    return path


@door(TYPED)
def by_parquet(features, case, folder):
    return model().fit_moments(moments_from_parquet(parquet(features, case, folder), "g"))


@door(TYPED)
def by_parquet_and_dask(features, case, folder):
    path = parquet(features, case, folder)
    return model().fit_moments(moments_from_files(path, "g", engine="dask"))


def dask_table(features, case):
    dask = pytest.importorskip("dask", reason="dask is not installed")
    dd = pytest.importorskip("dask.dataframe", reason="dask[dataframe] is not installed")
    is_text = not isinstance(case.values[0], bytes)  # else dask itself refuses what is no UTF-8
    with dask.config.set({"dataframe.convert-string": is_text}):
        return dd.from_pandas(frame(features, case), npartitions=4)


@door(TYPED)
def by_dask(features, case, folder):
    return model().fit_moments(moments_from_dask(dask_table(features, case), "g"))


@door(TYPED)
def by_dask_fit(features, case, folder):
    table = dask_table(features, case)
    return model().fit(table[list(features)], sensitive_features=table["g"])


def command(path, folder, *more):
    """The plain command line; what it refuses is an error like any other, but for its options."""
    saved = folder / "model.npz"
    asked = ["fit", path, "-s", "g", "--no-standardize", "--cov-weight", 0, "--save", saved, *more]
    result = CliRunner().invoke(app, [str(word) for word in asked])
    if result.exit_code == 2:
        raise GroupsError(result.stderr.strip())
    assert result.exit_code == 0, result.output
    saved_model = load_model(saved).model
    assert len(saved_model.components_) == 2
    return saved_model


@door(TYPED)
def by_command_on_parquet(features, case, folder):
    return command(parquet(features, case, folder), folder)


@door(TYPED)
def by_command_on_parquet_local(features, case, folder):
    return command(parquet(features, case, folder), folder, "--engine", "local")


@door(TEXT)
def by_csv(features, case, folder):
    return model().fit_moments(moments_from_csv(text_file(features, case, folder), "g"))


@door(TEXT)
def by_csv_in_ranges(features, case, folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fairpca.tables._csv.RANGE_BYTES", 900)
        path = text_file(features, case, folder)
        return model().fit_moments(moments_from_files(path, "g", engine="dask"))


@door(TEXT)
def by_csv_rows(features, case, folder):
    table = open_table(text_file(features, case, folder))
    return model().fit_moments(GroupMoments.from_rows(table.rows(table.assign("g"))))


@door(TEXT)
def by_command_on_csv(features, case, folder):
    return command(text_file(features, case, folder), folder)


@door(TEXT)
def by_command_on_csv_local(features, case, folder):
    return command(text_file(features, case, folder), folder, "--engine", "local")


@door(TEXT)
def by_command_on_csv_dask(features, case, folder):
    pytest.importorskip("dask.dataframe", reason="dask is not installed")
    return command(text_file(features, case, folder), folder, "--engine", "dask")


@pytest.mark.parametrize("case", GROUPS.values(), ids=GROUPS)
@pytest.mark.parametrize("way", TYPED.values(), ids=TYPED)
def test_typed_groups(way, case, tmp_path):
    check_groups(case, bound(way, tmp_path), "typed")


@pytest.mark.parametrize("case", GROUPS.values(), ids=GROUPS)
@pytest.mark.parametrize("way", TEXT.values(), ids=TEXT)
def test_text_groups(way, case, tmp_path):
    check_groups(case, bound(way, tmp_path), "text")


def bound(way, folder):
    def fit(features, case):
        return way(features, case, folder)

    fit.column = way.column
    return fit


def test_missing_groups_and_features_are_counted_together(tmp_path):
    people = pd.DataFrame({"a": [1.0, None, 3.0], "b": [1.0, 2.0, 4.0], "g": ["x", "None", "y"]})
    people.to_csv(tmp_path / "x.csv", index=False)
    words = r"1 of 3 rows have missing values \(by column: 'a' 1, 'g' 1\)"
    for engine in ("local", "dask"):
        with pytest.raises(InvalidInputError, match=words):
            moments_from_files(tmp_path / "x.csv", "g", engine=engine)
