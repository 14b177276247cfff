"""Repeated column names have one refusal by every input, and rows that change are noticed."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import run_command

from fairpca import DeltaFairPCA, FairKernelPCA, FairPCA, FairPCACV, GroupMoments
from fairpca.exceptions import InvalidInputError
from fairpca.metrics import audit, mean_gap
from fairpca.tables import moments_from_arrow, moments_from_dask, open_table, project_table

SEX = np.array(["f", "m"] * 20)
TWICE = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 2)), columns=["a", "a"])
NAMED = pd.DataFrame(np.c_[TWICE.to_numpy(), SEX == "f"], columns=["a", "a", "sex"])
ARROW = pa.table([*TWICE.to_numpy().T, SEX], names=["a", "a", "sex"])


def _dask(frame):
    return pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=2)


def _file(folder, name):
    path = folder / name
    if name.endswith(".parquet"):
        pq.write_table(ARROW, path)
    elif name.endswith(".arrow"):
        with pa.ipc.new_file(path, ARROW.schema) as writer:
            writer.write_table(ARROW)
    else:
        path.write_text("a,a,sex\n" + "".join(f"{i},1,{sex}\n" for i, sex in enumerate(SEX)))
    return path


INPUTS = {
    "fit of pandas": lambda _: FairPCA(1).fit(TWICE, sensitive_features=SEX),
    "fit of named pandas": lambda _: FairPCA(1).fit(NAMED, sensitive_features="sex"),
    "groups of pandas": lambda _: FairPCA(1).fit(np.ones((40, 2)), sensitive_features=TWICE),
    "fit of pyarrow": lambda _: FairPCA(1).fit(ARROW.select([0, 1]), sensitive_features=SEX),
    "fit of named pyarrow": lambda _: FairPCA(1).fit(ARROW, sensitive_features="sex"),
    "fit of a reader": lambda _: FairPCA(1).fit(ARROW.to_reader(), sensitive_features="sex"),
    "fit of dask": lambda _: FairPCA(1).fit(_dask(TWICE), sensitive_features=_dask(pd.Series(SEX))),
    "cv": lambda _: FairPCACV(1).fit(NAMED, sensitive_features="sex"),
    "delta": lambda _: DeltaFairPCA(1).fit(TWICE, sensitive_features=SEX),
    "kernel": lambda _: FairKernelPCA(1).fit(ARROW, sensitive_features="sex"),
    "transform": lambda _: (
        FairPCA(1).fit(TWICE.to_numpy(), sensitive_features=SEX).transform(TWICE)
    ),
    "moments": lambda _: GroupMoments.from_arrays(TWICE, SEX),
    "moments of dask": lambda _: moments_from_dask(_dask(NAMED), "sex"),
    "moments of arrow": lambda _: moments_from_arrow(ARROW, "sex"),
    "table of pandas": lambda _: open_table(NAMED),
    "mean_gap": lambda _: mean_gap(ARROW.select([0, 1]), SEX),
    "audit": lambda _: audit(TWICE, SEX),
    "Parquet": lambda folder: open_table(_file(folder, "t.parquet")),
    "Arrow": lambda folder: open_table(_file(folder, "t.arrow")),
    "CSV": lambda folder: open_table(_file(folder, "t.csv")),
}


@pytest.mark.filterwarnings("ignore:.*inplace keyword:DeprecationWarning")
@pytest.mark.parametrize("name", INPUTS)
def test_a_repeated_column_name_is_refused_in_the_same_words(name, tmp_path):
    with pytest.raises(InvalidInputError) as caught:
        INPUTS[name](tmp_path)
    words = "column names occur more than once: 'a'. Rename the columns."
    assert str(caught.value).endswith(words)


@pytest.mark.parametrize("command", ["fit", "audit", "report"])
def test_on_the_command_line(command, tmp_path):
    result = run_command(command, _file(tmp_path, "t.parquet"), "-s", "sex")
    assert result.exit_code == 2
    assert "column names occur more than once: 'a'. Rename the columns." in result.stderr


def test_blank_names_are_repeated_names(tmp_path):
    (tmp_path / "t.csv").write_text("a,,,sex\n1,2,3,f\n")
    with pytest.raises(InvalidInputError, match="occur more than once: ''"):
        open_table(tmp_path / "t.csv")


def test_a_file_that_grows_between_the_passes_is_refused(tmp_path, monkeypatch):
    path, out = tmp_path / "people.csv", tmp_path / "out.csv"
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(200, 3)), columns=list("abc"))
    frame.assign(sex=rng.choice(["f", "m"], 200)).to_csv(path, index=False)

    def fit_and_append(moments, *arguments):
        with path.open("a") as file:
            file.write("1,2,3,f\n")
        return compare(moments, *arguments)

    from fairpca.cli import _fit

    compare = _fit._compare
    monkeypatch.setattr(_fit, "_compare", fit_and_append)
    result = run_command("fit", path, "-s", "sex", "--out", out)
    assert result.exit_code == 2, result.output
    assert "people.csv changed after it was opened" in result.stderr
    assert not out.exists()


def test_a_stream_that_grows_between_the_passes_is_refused(tmp_path):
    rows = pa.table({"a": np.arange(9.0), "b": np.arange(9.0) % 4, "sex": ["f", "m", "f"] * 3})
    tables = [rows, rows, pa.concat_tables([rows, rows])]  # the first is asked for its schema
    table = open_table(lambda: tables.pop(0).to_reader())
    fair = FairPCA(1, standardize=True).fit_moments(table.moments(table.assign("sex")))
    with pytest.raises(InvalidInputError, match="had 9 rows when it was read first, and has 18"):
        project_table(table, fair, tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("into", [" ", ".x", "x.", "a. b", " a", " .x"])
def test_names_of_tables_that_nobody_can_mean(into):
    from fairpca.tables import project_into

    rows = pa.table({"a": [1.0, 2.0, 4.0, 3.0], "b": [0.0, 1.0, 1.0, 0.0]})
    fair = FairPCA(1).fit(rows.to_pandas(), sensitive_features=list("xyxy"))
    with pytest.raises(InvalidInputError, match="is no name of a table") as caught:
        project_into(open_table(rows), fair, "sqlite:people.db", into)
    assert caught.value.parameter == "into"
