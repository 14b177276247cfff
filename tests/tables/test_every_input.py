"""A column of groups, and a mistake, mean the same by every input; test_spark.py has two more.

An input is a function of the features and the case that returns a fitted FairPCA or raises. What
has types (arrays, frames, Parquet) shares one meaning, text in CSV files shares the other.
"""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from column_cases import GROUPS, N_ROWS, Refused, check_groups, model, text_file
from support import run_command, sampled_product
from table_support import by_engine

from fairpca import FairKernelPCA, FairPCACV, GroupMoments
from fairpca.cli._console import as_options
from fairpca.estimators import load_model
from fairpca.exceptions import InvalidInputError
from fairpca.metrics import delta_fairness, mean_gap
from fairpca.tables import (
    moments_from_dask,
    moments_from_files,
    open_table,
)

# dask calls pandas in ways that pandas has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:.*inplace keyword:DeprecationWarning")

TYPED, TEXT = {}, {}


def source(inputs, column="g"):
    def add(function):
        function.column = column
        inputs[function.__name__.removeprefix("by_")] = function
        return function

    return add


def arrow(features, case):
    groups = pa.array(case.column(N_ROWS))
    groups = groups.dictionary_encode() if case.category else groups
    return pa.Table.from_pandas(features).append_column("g", groups)


def frame(features, case):
    table = features.assign(g=case.column(N_ROWS))
    return table.astype({"g": "category"}) if case.category else table


@source(TYPED, "sensitive_feature")
def by_lists(features, case, folder):
    return model().fit(features.to_numpy().tolist(), sensitive_features=case.column(N_ROWS))


@source(TYPED, "sensitive_feature")
def by_numpy(features, case, folder):
    return model().fit(features.to_numpy(), sensitive_features=np.array(case.column(N_ROWS)))


@source(TYPED)
def by_pandas(features, case, folder):
    return model().fit(features, sensitive_features=frame(features, case)["g"])


@source(TYPED)
def by_polars(features, case, folder):
    groups = pl.DataFrame({"g": case.column(N_ROWS)})
    return model().fit(pl.DataFrame(features.to_dict("list")), sensitive_features=groups)


@source(TYPED)
def by_pyarrow(features, case, folder):
    table = arrow(features, case)
    return model().fit(table.select(list(features)), sensitive_features=table.select(["g"]))


@source(TYPED)
def by_arrow_table(features, case, folder):
    table = open_table(arrow(features, case))
    return model().fit_moments(table.moments(table.assign("g")))


@source(TYPED)
def by_rows(features, case, folder):
    table = open_table(arrow(features, case))
    return model().fit_moments(GroupMoments.from_rows(table.rows(table.assign("g"))))


def parquet(features, case, folder):
    path = folder / "x.parquet"
    pa.parquet.write_table(arrow(features, case), path, row_group_size=17)
    return path


@source(TYPED)
def by_parquet(features, case, folder):
    return model().fit_moments(moments_from_files(parquet(features, case, folder), "g"))


@source(TYPED)
def by_parquet_and_dask(features, case, folder):
    path = parquet(features, case, folder)
    return model().fit_moments(by_engine("dask", path, "g"))


def dask_table(features, case):
    dask = pytest.importorskip("dask", reason="dask is not installed")
    dd = pytest.importorskip("dask.dataframe", reason="dask[dataframe] is not installed")
    is_text = not isinstance(case.values[0], bytes)  # else dask itself refuses what is no UTF-8
    with dask.config.set({"dataframe.convert-string": is_text}):
        return dd.from_pandas(frame(features, case), npartitions=4)


@source(TYPED)
def by_dask(features, case, folder):
    return model().fit_moments(moments_from_dask(dask_table(features, case), "g"))


@source(TYPED)
def by_dask_fit(features, case, folder):
    table = dask_table(features, case)
    return model().fit(table[list(features)], sensitive_features=table["g"])


def command(path, folder, *more):
    """The plain command line; what it refuses has an exit code and words, but no class."""
    saved = folder / "model.npz"
    asked = ["fit", path, "-s", "g", "--no-standardize", "--cov-weight", 0, "--save", saved, *more]
    result = run_command(*asked)
    if result.exit_code == 2:
        raise Refused(result.stderr.strip())
    assert result.exit_code == 0, result.output
    saved_model = load_model(saved)
    assert len(saved_model.components_) == 2
    sums = folder / "sums.npz"  # a model file holds no moments
    asked = ["moments", path, "-s", "g", "--out", sums, "--min-rows", 1, *more]
    assert run_command(*asked).exit_code == 0
    saved_model.moments_ = GroupMoments.load(sums)
    return saved_model


@source(TYPED)
def by_command_on_parquet(features, case, folder):
    return command(parquet(features, case, folder), folder)


@source(TEXT)
def by_csv(features, case, folder):
    return model().fit_moments(moments_from_files(text_file(features, case, folder), "g"))


@source(TEXT)
def by_csv_and_dask(features, case, folder):
    return model().fit_moments(by_engine("dask", text_file(features, case, folder), "g"))


@source(TEXT)
def by_csv_rows(features, case, folder):
    table = open_table(text_file(features, case, folder))
    return model().fit_moments(GroupMoments.from_rows(table.rows(table.assign("g"))))


@source(TEXT)
def by_command_on_csv(features, case, folder):
    return command(text_file(features, case, folder), folder)


@source(TEXT)
def by_command_on_csv_dask(features, case, folder):
    pytest.importorskip("dask.dataframe", reason="dask is not installed")
    return command(text_file(features, case, folder), folder, "--engine", "dask")


@pytest.mark.parametrize(("way", "case"), sampled_product(TYPED, GROUPS))
def test_typed_groups(way, case, tmp_path):
    check_groups(case, bound(way, tmp_path), "typed")


@pytest.mark.parametrize(("way", "case"), sampled_product(TEXT, GROUPS))
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
            by_engine(engine, tmp_path / "x.csv", "g")


# --- mistakes in features and weights -----------------------------------------------------------


def spoiled(column, value, rows):
    """People of two groups with a mistake in some rows."""
    table = pd.DataFrame({"a": np.arange(60.0) ** 2, "b": np.arange(60.0) % 7, "w": np.ones(60)})
    table["g"] = np.resize(["x", "y"], 60)
    if isinstance(value, str):
        table[column] = table[column].astype(object)
    table.loc[rows, column] = value
    return table


EVERY = slice(None)
NO_NUMBERS = "sample_weight cannot be read as numbers: give one for each row."
MISTAKES = {
    "NaN": (
        spoiled("a", np.nan, [3, 5, 59]),
        "3 of 60 rows have missing values (by column: 'a' 3), NaN or null: fill them in, or leave "
        "the columns out. Or use missing='drop-rows' or missing='mean'.",
    ),
    "infinity": (
        spoiled("b", np.inf, [7]),
        "column 'b' holds infinite values: drop those rows or clip them.",
    ),
    "text": (
        spoiled("b", "tall", EVERY),
        "features that are not numbers: 'b' (text). Leave it out, or one-hot encode text (a table "
        "does, where categorical names it).",
    ),
    "weights of zero": (
        spoiled("w", 0.0, EVERY),
        "sample_weight is zero for every row: no row can be used (60 read).",
    ),
    "NaN weights": (
        spoiled("w", np.nan, [8]),
        "sample_weight holds NaN or infinite values: give finite weights.",
    ),
    "infinite weights": (
        spoiled("w", np.inf, [8]),
        "sample_weight holds NaN or infinite values: give finite weights.",
    ),
    "negative weights": (
        spoiled("w", -1.0, [40]),
        "sample_weight holds negative values: weights must be >= 0.",
    ),
    "weights of text": (spoiled("w", "heavy", EVERY), NO_NUMBERS),
}
ROLES = {"sensitive": "g", "features": ["a", "b"], "weight": "w"}


def aligned(table):
    return {"sensitive_features": table["g"], "sample_weight": table["w"]}


def lazily(table, fit):
    dd = pytest.importorskip("dask.dataframe", reason="dask is not installed")
    return fit(dd.from_pandas(table, npartitions=3))


def in_file(table, folder, name):
    path = folder / name
    table.to_csv(path, index=False) if name.endswith("csv") else table.to_parquet(path)
    return path


def fit_command(path, folder, *more):
    return command(path, folder, "--features", "a,b", "--weight", "w", *more)


def without_names(table, kind):
    parts = {"sensitive_features": kind(table["g"]), "sample_weight": kind(table["w"])}
    return model().fit(kind(table[["a", "b"]]), **parts)


INPUTS = {
    "numpy": lambda t, _: without_names(t, np.asarray),
    "lists": lambda t, _: without_names(t, lambda part: part.to_numpy().tolist()),
    "names in pandas": lambda t, _: model().fit(t, sensitive_features="g", sample_weight="w"),
    "pandas": lambda t, _: model().fit(t[["a", "b"]], **aligned(t)),
    "polars": lambda t, _: model().fit(pl.DataFrame(t[["a", "b"]].to_dict("list")), **aligned(t)),
    "pyarrow": lambda t, _: model().fit(pa.table(t[["a", "b"]].to_dict("list")), **aligned(t)),
    "kernel": lambda t, _: FairKernelPCA(1).fit(t[["a", "b"]], **aligned(t)),
    "folds": lambda t, _: FairPCACV(1, cov_weights=[0]).fit(t[["a", "b"]], **aligned(t)),
    "folds of dask": lambda t, _: lazily(
        t, lambda d: FairPCACV(1, cov_weights=[0]).fit(d[["a", "b"]], **aligned(d))
    ),
    "moments": lambda t, _: GroupMoments.from_arrays(t[["a", "b"]], t["g"], sample_weight=t["w"]),
    "metric": lambda t, _: mean_gap(t[["a", "b"]], t["g"], sample_weight=t["w"]),
    "Δ": lambda t, _: delta_fairness(t[["a", "b"]], t["g"], sample_weight=t["w"]),
    "dask": lambda t, _: lazily(t, lambda d: model().fit(d[["a", "b"]], **aligned(d))),
    "moments of dask": lambda t, _: lazily(t, lambda d: moments_from_dask(d, **ROLES)),
    "csv": lambda t, folder: moments_from_files(in_file(t, folder, "x.csv"), **ROLES),
    "parquet": lambda t, folder: moments_from_files(in_file(t, folder, "x.parquet"), **ROLES),
    "parquet by dask": lambda t, folder: by_engine(
        "dask", in_file(t, folder, "x.parquet"), **ROLES
    ),
    "csv by dask": lambda t, folder: by_engine("dask", in_file(t, folder, "x.csv"), **ROLES),
    "command, dask": lambda t, folder: fit_command(
        in_file(t, folder, "x.parquet"), folder, "--engine", "dask"
    ),
    "command on csv": lambda t, folder: fit_command(in_file(t, folder, "x.csv"), folder),
    "command on parquet": lambda t, folder: fit_command(in_file(t, folder, "x.parquet"), folder),
}


@pytest.mark.parametrize(("table", "words"), MISTAKES.values(), ids=MISTAKES)
@pytest.mark.parametrize("way", INPUTS)
def test_a_mistake_is_refused_in_the_same_words(way, table, words, tmp_path):
    if "command" in way and words.startswith("features that"):
        pytest.skip("the command line one-hot encodes text by itself")
    if "command" in way:
        words = words.replace("missing='drop-rows'", "--missing drop-rows")
        words = as_options(words.replace("missing='mean'", "--missing mean"))
    if way in ("numpy", "lists"):
        words = words.replace("'a'", "'x0'").replace("'b'", "'x1'")
    with pytest.raises(Refused if "command" in way else InvalidInputError) as error:
        INPUTS[way](table, tmp_path)
    # A file is named before the words, an option before that; nothing else is added.
    before, found, after = str(error.value).partition(words)
    assert found, str(error.value)
    assert not after
    assert all(part.startswith(("fairpca", "error", "--", str(tmp_path)))
               for part in before.removesuffix(": ").split(": ") if part)  # fmt: skip
