"""One way for every table: what works for a file works for many, and the other way round."""

import json
import os

import numpy as np
import pandas as pd
import pytest

SEX = ("--sensitive", "sex", "--drop", "race,income")


@pytest.fixture
def folder(people, tmp_path):
    """The people as a directory of three Parquet files."""
    place = tmp_path / "table"
    place.mkdir()
    for number in range(3):
        people.iloc[40 * number :][:40].to_parquet(place / f"{number}.parquet", index=False)
    return place


def document(run, *arguments):
    result = run("fit", *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize(
    "name", ["people.csv", "people.csv.gz", "people.parquet", "people.feather", "people.arrow"]
)
def test_every_kind_of_file_fits_alike(run, write, people, name):
    options = ["--sensitive", "sex", "--control", "income", "--drop", "race", "-d", 1]
    found = document(run, write(people, name), *options)
    expected = document(run, write(people, "other.parquet"), *options)
    assert found["components"] == pytest.approx(np.array(expected["components"]), abs=1e-9)


def test_several_attributes_with_commas_or_by_repeating(run, write, people):
    path = write(people)
    rest = ["--drop", "income", "-d", 1]
    assert document(run, path, "-s", "race,sex", *rest) == document(
        run, path, "-s", "race", "-s", "sex", *rest
    )


@pytest.mark.parametrize("name", ["reduced.csv", "reduced.parquet"])
def test_a_directory_has_reduced_rows_too(run, write, people, folder, tmp_path, name):
    outs = []
    for source in (write(people, "whole.parquet"), folder):
        out = tmp_path / f"{len(outs)}-{name}"
        asked = [*SEX, "--target", "income", "--keep", "sex,race", "--out", out]
        assert run("fit", source, *asked).exit_code == 0
        outs.append(pd.read_csv(out) if name.endswith("csv") else pd.read_parquet(out))
    assert list(outs[0]) == ["sex", "race", "income", "fairpca0", "fairpca1"]
    pd.testing.assert_frame_equal(*outs)


def test_text_is_encoded_and_said(run, write, people, tmp_path):
    out = tmp_path / "reduced.csv"
    result = run("fit", write(people), "--sensitive", "sex", "--out", out)
    assert result.exit_code == 0, result.stderr
    note = "text columns became one indicator for each value: 'race' (3), 'income' (2)."
    assert result.stderr == f"fairpca: note: {note}\n"
    found = document(run, write(people), "--sensitive", "sex")
    assert found["notes"] == [note]
    assert found["data"]["features"][6:] == [
        "race=a", "race=b", "race=c", "income=high", "income=low",
    ]  # fmt: skip
    encoded = pd.get_dummies(people.drop(columns="sex"), prefix_sep="=").to_numpy(float)
    rows = (encoded - found["center"]) / found["scale"] @ np.transpose(found["components"])
    np.testing.assert_allclose(pd.read_csv(out), rows, atol=1e-10)
    asked = document(run, write(people), "--sensitive", "sex", "--categorical", "race,income")
    assert asked["notes"] == []
    assert asked["components"] == found["components"]


def test_an_audit_encodes_text_as_well(run, write, people):
    quick = ["--effort", "quick", "--family", "linear", "--adversaries", "none", "--json"]
    result = run("audit", write(people), "--sensitive", "sex", *quick)
    assert result.exit_code == 0, result.stderr
    assert "'race' (3), 'income' (2)" in result.stderr
    assert json.loads(result.stdout)["data"]["features"][-1] == "income=low"


def test_an_identifier_is_no_feature(refused, write, people):
    path = write(people.assign(name=[f"n{i}" for i in range(120)]))
    line = refused("fit", path, "--sensitive", "sex", "--max-levels", 100)
    assert "'name'" in line
    assert "100" in line


@pytest.mark.parametrize("name", ["people.csv", "people.parquet"])
def test_rows_left_out_of_the_fit_are_left_out_of_the_output(run, write, people, tmp_path, name):
    people.loc[[3, 70], "u"] = np.nan
    people.loc[5, "race"] = None
    out = tmp_path / "reduced.csv"
    asked = ["--sensitive", "sex", "--missing", "drop-rows", "--keep", "v", "--out", out]
    result = run("fit", write(people, name), *asked)
    assert result.exit_code == 0, result.stderr
    assert "117 rows" in result.stdout
    reduced, left = pd.read_csv(out), people.dropna()
    np.testing.assert_allclose(reduced["v"], left["v"])
    assert len(reduced) == 117


SOURCES = ["new.csv", "new.csv.gz", "new.parquet", "new.feather"]
TARGETS = ["out.arrow", "out.parquet", "out.csv.gz", "out.csv"]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        pytest.param(source, target, marks=() if i == j else pytest.mark.slow)
        for i, source in enumerate(SOURCES)
        for j, target in enumerate(TARGETS)
    ],
)
def test_transform_takes_and_gives_any_format(run, write, people, tmp_path, source, target):
    model, out = tmp_path / "m.npz", tmp_path / target
    direct = tmp_path / "direct.csv"
    asked = ["--sensitive", "sex", "--cov-weight", 0, "--save", model, "--out", direct]
    assert run("fit", write(people), *asked).exit_code == 0
    new = write(people.drop(columns="sex"), source)
    result = run("transform", model, new, out, "--keep", "race,u")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == f"120 rows written to {out}\n"
    read = {"out.parquet": pd.read_parquet, "out.arrow": pd.read_feather}
    found = read.get(target, pd.read_csv)(out)
    assert list(found) == ["race", "u", "fairpca0", "fairpca1"]
    np.testing.assert_allclose(found[["fairpca0", "fairpca1"]], pd.read_csv(direct), atol=1e-9)
    assert list(found["race"]) == list(people["race"])


def test_unseen_categories_are_refused_or_ignored(run, refused, write, people, tmp_path):
    model, out = tmp_path / "m.npz", tmp_path / "out.csv"
    assert run("fit", write(people), "--sensitive", "sex", "--save", model).exit_code == 0
    new = write(people.assign(race="new"), "new.csv")
    line = refused("transform", model, new, out)
    assert line.startswith("--unknown: ")
    assert "column 'race' holds 'new'" in line
    assert not out.exists()
    assert run("transform", model, new, out, "--unknown", "ignore").exit_code == 0
    from fairpca.estimators import load_model

    fair = load_model(model)  # which scales by itself
    frame = pd.get_dummies(people.drop(columns="sex"), prefix_sep="=").astype(float)
    frame[["race=a", "race=b", "race=c"]] = 0.0
    np.testing.assert_allclose(pd.read_csv(out), fair.transform(frame), atol=1e-9)


def test_lists_go_to_parquet_only(run, refused, write, people, tmp_path):
    path = write(people.assign(list=[[1, 2]] * 120), "people.parquet")
    asked = [*SEX, "--drop", "list", "--keep", "list", "--out"]
    line = refused("fit", path, *asked, tmp_path / "o.csv")
    assert "CSV cannot hold the values of ['list']" in line
    assert run("fit", path, *asked, tmp_path / "o.parquet").exit_code == 0


@pytest.mark.parametrize("change", ["fewer", "types", "cut"])
def test_arrow_files_that_do_not_fit_together(refused, people, tmp_path, change):
    one, other = people[:60], people[60:]
    if change == "fewer":
        other = other.drop(columns="v")
    if change == "types":
        other = other.assign(v="x")
    one.to_feather(tmp_path / "1.feather")
    other.reset_index(drop=True).to_feather(tmp_path / "2.feather")
    if change == "cut":
        whole = (tmp_path / "2.feather").read_bytes()
        (tmp_path / "2.feather").write_bytes(whole[: len(whole) // 2])
    line = refused("fit", tmp_path, *SEX)
    assert "2.feather" in line
    assert "cannot be read" in line or "'v'" in line


def test_formulas_are_text_to_spreadsheets_on_demand(run, write, people, tmp_path):
    odd = np.resize(["=1+1", "@x", "-a", "+4.5e-3", "-2", "plain", "\tq"], 120)
    path = write(people.assign(**{"=odd": odd, "kind": pd.Categorical(odd)}), "people.parquet")
    model, out = tmp_path / "m.npz", tmp_path / "o.csv"
    asked = [*SEX, "--drop", "=odd,kind", "--keep", "=odd,kind", "--save", model]
    assert run("fit", path, *asked, "--out", out).exit_code == 0
    assert list(pd.read_csv(out)["=odd"]) == list(odd)
    safe = [("'" + v if v in ("=1+1", "@x", "-a", "\tq") else v) for v in odd]
    assert run("fit", path, *asked, "--out", out, "--force", "--safe-csv").exit_code == 0
    found = pd.read_csv(out)
    assert list(found["'=odd"]) == list(found["kind"]) == safe
    done = run("transform", model, path, out, "--keep", "kind", "--force", "--safe-csv")
    assert done.exit_code == 0
    assert list(pd.read_csv(out)["kind"]) == safe


def test_a_pipe_is_not_replaced(refused, write, people, tmp_path):
    for option, name in (("--out", "pipe.csv"), ("--save", "pipe.npz")):
        os.mkfifo(tmp_path / name)
        line = refused("fit", write(people), *SEX, option, tmp_path / name, "--force")
        assert "a device or a pipe" in line


def test_kept_features_keep_their_type(run, write, people, tmp_path):
    path, out = write(people.assign(n=range(120)), "people.parquet"), tmp_path / "o.parquet"
    assert run("fit", path, *SEX, "--keep", "n", "--out", out).exit_code == 0
    assert pd.read_parquet(out)["n"].dtype == np.int64


def test_missing_values_are_refused_left_out_or_the_mean(run, refused, write, people, tmp_path):
    holed = people.astype({"race": object})
    holed.loc[:9, "u"] = np.nan
    holed.loc[5:19, "race"] = None
    for name in ("holed.csv", "holed.parquet"):
        source, model, out = write(holed, name), tmp_path / "m.npz", tmp_path / "out.csv"
        line = refused("fit", source, "-s", "sex")
        assert "'u' 10" in line
        assert "'race' 15" in line
        assert "--missing mean" in line
        save = ("--save", model, "--force", "--cov-weight", 0)
        for missing, rows in (("drop-rows", 100), ("mean", 120)):
            found = run("fit", source, "-s", "sex", "--missing", missing, "-o", out, *save)
            assert found.exit_code == 0, found.stderr
            assert "20 of 120 rows have missing values" in found.stderr
            scores = pd.read_csv(out)
            assert len(scores) == rows
            assert scores.notna().all(axis=None)
            same = run("transform", model, source, out, "--force", "--missing", missing)
            assert same.exit_code == 0, same.stderr
            pd.testing.assert_frame_equal(pd.read_csv(out), scores)
            every = run("transform", model, source, out, "--force")
            assert every.exit_code == 0, every.stderr
            assert len(pd.read_csv(out)) == 120
            assert ("20 rows" in every.stderr) == (missing == "drop-rows")
        assert "--missing" in refused(
            "transform", model, source, out, "--force", "--missing", "error"
        )
        quick = ("--family", "linear", "--adversaries", "none", "--effort", "quick")
        found = run("audit", source, "-s", "sex", "--missing", "mean", *quick)
        assert found.exit_code == 0, found.stderr


def test_rows_without_a_group_are_refused_or_a_group(run, refused, write, people):
    people = people.astype({"sex": object})
    people.loc[:19, "sex"] = None
    for name in ("people.csv", "people.parquet"):
        source = write(people.drop(columns="race"), name)
        assert "--missing-groups own" in refused("fit", source, "-s", "sex")
        found = run("fit", source, "-s", "sex", "--missing-groups", "own")
        assert found.exit_code == 0, found.stderr
        assert "missing vs rest" in found.stdout


def test_separators_of_audit_and_transform(run, refused, write, people, tmp_path):
    model, path = tmp_path / "m.npz", tmp_path / "semicolons.csv"
    assert run("fit", write(people), *SEX, "--save", model).exit_code == 0
    people.to_csv(path, sep=";", index=False)
    outs = [tmp_path / "1.csv", tmp_path / "2.csv"]
    assert run("transform", model, write(people), outs[0]).exit_code == 0
    assert run("transform", model, path, outs[1], "--separator", ";").exit_code == 0
    assert outs[0].read_bytes() == outs[1].read_bytes()
    assert "--separator" in refused("transform", model, path, tmp_path / "3.csv")
    quick = [*SEX, "--effort", "quick", "--family", "linear", "--adversaries", "none", "--json"]
    found = json.loads(run("audit", path, *quick, "--separator", ";").stdout)
    expected = json.loads(run("audit", write(people), *quick).stdout)
    assert found["representations"] == expected["representations"]
    assert "--separator" in refused("audit", path, *quick)
