"""Every bad input is one line on standard error and exit code 2; no surprise is silent."""

import json

import numpy as np
import pandas as pd
import pytest

SEX = ("--sensitive", "sex", "--drop", "race,income")


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (np.nan, "1 of 120 rows have missing values (by column: 'v' 1)"),
        (np.inf, "column 'v' holds infinite values"),
    ],
)
@pytest.mark.parametrize("name", ["people.csv", "people.parquet"])
def test_nan_and_infinity_are_named(refused, write, people, value, complaint, name):
    people.loc[3, "v"] = value
    assert complaint in refused("fit", write(people, name), *SEX)


@pytest.mark.parametrize("name", ["people.csv", "people.parquet"])
@pytest.mark.parametrize("role", ["--sensitive", "--control"])
def test_missing_groups_are_counted(refused, write, people, name, role):
    people.loc[[3, 5], "race"] = None
    other = "--control" if role == "--sensitive" else "--sensitive"
    arguments = [role, "race", other, "sex", "--drop", "income"]
    line = refused("fit", write(people, name), *arguments)
    assert line.startswith(f"{role} column 'race' has 2 missing values")


def test_words_that_stand_for_nothing_are_missing(refused, write, people):
    frame = people.assign(race=people["race"].replace("a", "None"))
    line = refused("fit", write(frame), "--sensitive", "race", "--drop", "sex,income")
    assert "column 'race' has 40 missing values" in line


def test_one_group_only(refused, write, people):
    line = refused("fit", write(people.assign(sex="f")), *SEX)
    assert "'sex'" in line
    assert "'f'" in line


def test_a_group_of_one_row_has_means_only(run, write, people):
    frame = people.assign(sex=["m"] + ["f"] * 119)
    result = run("fit", write(frame), *SEX, "--min-group-size", 2)
    assert result.exit_code == 0
    assert "sex" in result.stderr
    assert result.stderr.startswith("fairpca: note: ")
    assert "mean only" in result.stdout


def test_protected_column_must_be_named(refused, write, people):
    assert "--sensitive COL" in refused("fit", write(people))


def test_too_many_components(refused, write, people):
    line = refused("fit", write(people), *SEX, "-d", 6)
    assert line.startswith("--components 6 is")
    assert "leave 5 of 6 features. Lower --components" in line
    assert "--components 7 must" in refused("fit", write(people), *SEX, "-d", 7)


def test_unattainable_cov_tol_states_the_minimum(refused, run, write, people):
    path = write(people)
    line = refused("fit", path, *SEX, "--cov-tol", 0)
    minimum = float(line.split("covariance gap is ")[1].split(". ")[0])
    assert run("fit", path, *SEX, "--cov-tol", minimum * 1.0001).exit_code == 0
    assert "is " + f"{minimum:.6g}" in refused("fit", path, *SEX, "--cov-tol", minimum * 0.999)


def test_penalty_and_limit_exclude_each_other(refused, write, people):
    line = refused("fit", write(people), *SEX, "--cov-tol", 1, "--cov-weight", 1)
    assert "--cov-tol excludes --cov-weight" in line


@pytest.mark.parametrize("option", ["--mean-tol", "--cov-weight", "--cov-tol", "--tol"])
@pytest.mark.parametrize("value", ["-1", "nan", "inf", "much", ""])
def test_values_that_are_no_numbers(refused, option, value):
    assert f"'{option}'" in refused("fit", option, value)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("-d", "0"),
        ("-d", "2.5"),
        ("--max-iter", "0"),
        ("--tol", "0"),
        ("--min-group-size", "1"),
        ("--max-cells", "9" * 400),
        ("--solver", "magic"),
        ("--compare", "all"),
        ("--separator", ";;"),
    ],
)
def test_values_out_of_range(refused, option, value):
    line = refused("fit", option, value)
    assert option in line
    assert value in line


def test_constant_columns_change_nothing(run, write, people):
    with_constant = people.assign(constant=7.5)
    figures = []
    for name, frame in (("a.csv", people), ("b.csv", with_constant)):
        result = run("fit", write(frame, name), *SEX, "--json")
        assert result.exit_code == 0, result.stderr
        figures.append(json.loads(result.stdout)["fair"]["variance_kept"])
    assert figures[0] == pytest.approx(figures[1], rel=1e-6)


def test_more_features_than_rows(run, write):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal(size=(12, 30))).add_prefix("f")
    frame["sex"] = ["f", "m"] * 6
    result = run("fit", write(frame), "--sensitive", "sex", "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["fair"]["mean_gap"] < 1e-10


def test_duplicate_columns(run, write, people):
    result = run("fit", write(people.assign(again=people["u"])), *SEX, "--json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    components = np.array(document["components"])
    np.testing.assert_allclose(components[:, 0], components[:, -1], atol=1e-6)


@pytest.mark.parametrize("factor", [1e12, 1e-12])
def test_scaled_features(run, write, people, factor):
    path, scaled = write(people), people.copy()
    scaled[list("uvwxyz")] *= factor
    documents = [
        json.loads(run("fit", name, *SEX, "--json").stdout)
        for name in (path, write(scaled, "scaled.csv"))
    ]
    kept = [document["fair"]["variance_kept"] for document in documents]
    assert kept[0] == pytest.approx(kept[1], rel=1e-6)


def test_missing_file_directory_and_kind(refused, tmp_path, write, people):
    assert "no such file" in refused("fit", tmp_path / "none.csv", *SEX)
    (tmp_path / "empty").mkdir()
    assert "names no file" in refused("fit", tmp_path / "empty", *SEX)
    (tmp_path / "table.xlsx").write_text("u,sex\n")
    assert "use one of .csv, .csv.gz, .parquet" in refused("fit", tmp_path / "table.xlsx", *SEX)


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("empty.csv", b"", "cannot be read"),
        ("header.csv", b"u,v,sex\n", "no rows"),
        ("ragged.csv", b"u,v,sex\n1,2,f\n1,2,3,m,9\n", "cannot be read"),
        ("shifted.csv", b"u,v,sex\n1,2,f,9\n1,2,m,9\n", "cannot be read"),
        ("repeated.csv", b"u,u,sex\n1,2,f\n3,4,m\n", "more than once: 'u'"),
        ("latin.csv", "u,v,sex\n1,2,é\n1,2,f\n".encode("latin-1"), "not UTF-8"),
        ("broken.csv.gz", b"not packed", "cannot be read"),
        ("broken.parquet", b"not a table", "cannot be read"),
    ],
)
def test_unreadable_files(refused, tmp_path, name, content, complaint):
    path = tmp_path / name
    path.write_bytes(content)
    line = refused("fit", path, "--sensitive", "sex")
    assert complaint in line
    assert name in line


def test_numbers_with_a_word_among_them_are_named_with_an_example(refused, run, write, people):
    exact = people.assign(w=people["w"].astype(str).where(people.index != 5, "unknown"))
    people["w"] = people["w"].round().astype(str).where(people.index != 5, "unknown")
    for frame, remedies in ((people, "--drop w or --categorical w."), (exact, "--drop w.")):
        line = refused("fit", write(frame), "--sensitive", "sex")
        assert "column 'w' holds numbers, and text such as 'unknown'" in line
        assert line.endswith(remedies)
    assert run("fit", write(people), "--sensitive", "sex", "--drop", "w").exit_code == 0
    asked = ["--sensitive", "sex", "--categorical", "w", "--json"]
    features = json.loads(run("fit", write(people), *asked).stdout)["data"]["features"]
    assert "w=unknown" in features


@pytest.mark.parametrize(
    "option", ["--sensitive", "--control", "--target", "--weight", "--features", "--drop", "--keep"]
)
def test_unknown_columns_come_with_close_ones(refused, write, people, tmp_path, option):
    arguments = ["--sensitive", "sex", option, "Incme", "--out", tmp_path / "o.csv"]
    line = refused("fit", write(people), *arguments)
    assert line.startswith(f"{option} names ['Incme'], which is not among the columns: they are ")
    assert line.endswith(". Did you mean 'income'?")


def test_unknown_column_without_close_ones_lists_them(refused, write, people):
    line = refused("fit", write(people), "--sensitive", "qqqq")
    assert line.endswith("they are 'u', 'v', 'w', 'x', 'y', 'z', 'sex', 'race', 'income'.")


def test_other_separator_is_suspected(refused, tmp_path):
    path = tmp_path / "semicolon.csv"
    path.write_text("u;v;sex\n1;2;f\n3;4;m\n")
    assert "--separator ';'" in refused("fit", path, "--sensitive", "sex")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ["--control", "sex"],
            "--control: ['sex'] are sensitive and control columns",
        ),
        (["--sensitive", "sex"], "--sensitive names ['sex'] more than once"),
        (["--weight", "race"], "--weight cannot be read as numbers"),
        (
            ["--numeric", "race"],
            "--numeric: ['race'] is not among the columns of sensitive",
        ),
        (["--numeric", "sex"], "'sex' is declared numeric"),
        (["--reference", "q"], "--reference q is not a level of 'sex'"),
        (
            ["--compare", "reference"],
            "--compare reference needs the reference group of 'sex'",
        ),
        (
            ["--compare", "pairs", "--reference", "f"],
            "--reference f has no meaning with --compare pairs: use --compare reference",
        ),
        (["--keep", "race"], "give --out too"),
        (["--features", "u,v", "--drop", "u"], "'u' is named by --features and by --drop"),
    ],
)
def test_options_that_do_not_fit_together(refused, write, people, arguments, complaint):
    assert complaint in refused("fit", write(people), *SEX, *arguments)


def test_reference_must_name_its_attribute(refused, write, people):
    arguments = ["--sensitive", "sex", "--sensitive", "race", "--reference", "b"]
    assert "write COLUMN=LEVEL" in refused("fit", write(people), *arguments)


def test_no_features_left(refused, write, people):
    frame = people[["sex"]]
    assert "no feature columns" in refused("fit", write(frame), "--sensitive", "sex")


def test_negative_weights(refused, write, people):
    line = refused("fit", write(people.assign(n=-1.0)), *SEX, "--weight", "n")
    assert "negative" in line


def test_unknown_option_command_and_argument(refused):
    assert "--bogus" in refused("fit", "--bogus")
    assert "'bogus'" in refused("bogus")
    assert "one.csv" in refused("fit", "one.csv", "other.csv", *SEX)
