"""Tables that are not held in memory, and models on disk, from the command line."""

import json

import numpy as np
import pandas as pd
import pytest

# dask calls pandas in ways that pandas has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:.*inplace keyword:DeprecationWarning")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'fairpca[arrow]'")


@pytest.fixture
def table(people, tmp_path):
    """The people as a directory of three files."""
    folder = tmp_path / "table"
    folder.mkdir()
    for number in range(3):
        part = people.iloc[40 * number : 40 * number + 40]
        part.to_parquet(folder / f"part-{number}.parquet", index=False, row_group_size=15)
    return folder


def document(result):
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def assert_same_fit(found, expected):
    assert found["data"]["features"] == expected["data"]["features"]
    assert found["data"]["n_rows"] == expected["data"]["n_rows"]
    np.testing.assert_allclose(found["center"], expected["center"], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found["scale"], expected["scale"], rtol=1e-9)
    one, other = (np.array(fit["components"]) for fit in (found, expected))
    np.testing.assert_allclose(one.T @ one, other.T @ other, atol=1e-6)


ASKED = ["--sensitive", "sex", "--drop", "race,income", "--json"]


@pytest.mark.parametrize("engine", [[], ["--engine", "dask"]])
def test_a_directory_fits_like_the_file(run, write, people, table, engine):
    if "dask" in engine:
        pytest.importorskip("dask.dataframe", reason="dask is not installed")
    expected = document(run("fit", write(people), *ASKED, "--folds", 3))
    found = document(run("fit", table, *ASKED, "--folds", 3, *engine))
    assert_same_fit(found, expected)
    assert found["held_out"] == pytest.approx(expected["held_out"])


def test_several_csv_files_and_globs(run, write, people, tmp_path):
    expected = document(run("fit", write(people), *ASKED))
    files = [write(people.iloc[:50], "a1.csv"), write(people.iloc[50:], "a2.csv")]
    assert_same_fit(document(run("fit", *files, *ASKED)), expected)
    assert_same_fit(document(run("fit", tmp_path / "a*.csv", *ASKED)), expected)
    assert_same_fit(document(run("fit", *files, *ASKED, "--engine", "dask")), expected)


def test_strata_weights_and_units(run, write, people):
    people["n"] = np.arange(len(people)) % 3
    path = write(people, "people.parquet")
    asked = [*ASKED[:2], "--control", "income", "--weight", "n", "--drop", "race", "--json"]
    asked += ["--no-standardize", "--mean-tol", "none"]
    found = document(run("fit", path, *asked, "--engine", "dask"))
    assert_same_fit(found, document(run("fit", path, *asked)))


def test_categorical_features_and_missing_rows(run, write, people):
    people.loc[[3, 70], "u"] = np.nan
    path = write(people, "people.parquet")
    asked = ["--sensitive", "sex", "--categorical", "race,income", "--json"]
    result = run("fit", path, *asked, "--missing", "drop-rows")
    found = document(result)
    assert found["data"]["n_rows"] == 118
    assert found["data"]["features"][-2:] == ["income=high", "income=low"]
    assert "2 of 120 rows have missing values (by column: 'u' 2)" in result.stderr


def test_refusals(refused, write, people, table, tmp_path):
    path = write(people, "people.parquet")
    sex = ["--sensitive", "sex"]
    assert "--scheduler needs --engine" in refused("fit", path, *sex, "--scheduler", "tcp://a:1")
    line = refused("fit", table, *sex, "--engine", "dask", "--master", "local")
    assert "--master needs --engine spark" in line
    assert "--engine needs DATA" in refused("fit", "--engine", "dask")
    people["day"] = pd.Timestamp("2020-02-02")
    line = refused("fit", write(people, "p0.parquet"), *sex)
    assert "--features: features that are not numbers: 'day'" in line
    del people["day"]
    line = refused("fit", table, "--sensitive", "gender")
    assert "--sensitive names ['gender'], which is not among the columns" in line
    people["id"] = range(len(people))
    line = refused(
        "fit", write(people, "p2.parquet"), "-s", "id", "--drop", "sex,race,income",
        "--max-cells", "50",
    )  # fmt: skip
    assert "column 'id' has more than 50 distinct values" in line
    assert "raise --max-cells" in line
    people.loc[3, "u"] = np.nan
    line = refused("fit", write(people, "p3.parquet"), *ASKED[:4])
    assert "'u' 1" in line
    assert line.startswith("--missing: 1 of 120 rows")


@pytest.mark.parametrize("units", [[], ["--no-standardize"]])
@pytest.mark.parametrize("streamed", [True, False])
def test_save_and_transform(run, write, people, table, tmp_path, units, streamed):
    model, reduced = tmp_path / "model.npz", tmp_path / "reduced"
    source = table if streamed else write(people)
    result = run("fit", source, *ASKED[:4], *units, "--save", tmp_path / "model")
    assert result.exit_code == 0, result.output
    assert f"Model written to {model}" in result.stdout
    result = run("transform", model, table, reduced, "--keep", "race")
    assert result.stdout == f"120 rows written to {reduced}\n"
    found = pd.read_parquet(reduced)
    out = tmp_path / "direct.parquet"
    assert run("fit", write(people), *ASKED[:4], *units, "--out", out).exit_code == 0
    direct = pd.read_parquet(out)
    np.testing.assert_allclose(found[["fairpca0", "fairpca1"]], direct, atol=1e-6)
    np.testing.assert_array_equal(found["race"], people["race"])


def test_transform_refusals(run, refused, write, people, table, tmp_path):
    model = tmp_path / "model.npz"
    run("fit", table, *ASKED[:4], "--save", model)
    assert "Or use --force." in refused("fit", table, *ASKED[:4], "--save", model)
    assert run("fit", table, *ASKED[:4], "--save", model, "--force").exit_code == 0
    out = tmp_path / "out"
    assert "no such file" in refused("transform", tmp_path / "absent.npz", table, out)
    assert "is not a model file" in refused("transform", write(people), table, out)
    assert "names no file" in refused("transform", model, tmp_path / "absent", out)
    assert "exclude each other" in refused(
        "transform", model, table, out, "--keep", "u", "--keep-all"
    )
    out.mkdir()
    assert "exists already" in refused("transform", model, table, out)
    assert run("transform", model, table, out, "--force", "--keep-all").exit_code == 0
    assert list(pd.read_parquet(out)) == [*people.columns, "fairpca0", "fairpca1"]
