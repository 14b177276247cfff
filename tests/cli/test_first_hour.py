"""What a newcomer meets first: columns that are no features, groups that are missing."""

import gzip
import json
import re
import sys
import tomllib
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from support import data_folder

from fairpca import DeltaFairPCA, FairKernelPCA, FairPCA, FairPCACV, load_model
from fairpca.exceptions import GroupsError, ImputedValuesWarning, InvalidInputError
from fairpca.rows._identifiers import is_large_category
from fairpca.tables import open_table, project_table

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
SEX = ("--sensitive", "sex", "--drop", "race,income")


@pytest.mark.parametrize("command", ["fit", "audit", "report"])
@pytest.mark.parametrize("n_values", [120, 61])
def test_text_identifiers_are_refused_with_the_option_that_drops_them(
    refused, write, people, command, n_values
):
    labels = [f"S{i % n_values:05d}" for i in range(120)]
    path = write(people.assign(student_id=labels, note=labels))
    line = refused(command, path, "--sensitive", "sex", "--drop", "race")
    assert f"'student_id' ({n_values} values in 120 rows)" in line
    assert "an identifier or free text" in line
    assert "leave it out with --drop student_id,note, or" in line


def test_text_identifiers_of_several_rows_are_refused(refused, write, people):
    twice = pd.concat([people] * 2)
    path = write(twice.assign(code=[f"C{i % 120}" for i in range(240)]))
    line = refused("fit", path, *SEX)
    assert "'code' (120 values in 240 rows)" in line
    assert "leave it out with --drop code or --unit code, or" in line
    # A name that says so is enough for fewer values with more rows.
    path = write(twice.assign(student=[f"C{i % 30}" for i in range(240)]))
    assert "'student' (30 values in 240 rows)" in refused("fit", path, *SEX)


def test_text_with_several_rows_each_is_a_category(run, write, people):
    frame = pd.concat([people] * 2).assign(town=[f"t{i % 55}" for i in range(240)])
    result = run("fit", write(frame), *SEX, "--cov-weight", 0, "--folds", 0)
    assert result.exit_code == 0, result.stderr


def test_identifiers_are_counted_among_the_values_that_are_there(refused, write, people):
    labels = [f"case {i}" if i % 2 else None for i in range(120)]
    line = refused("fit", write(people.assign(case=labels)), *SEX, "--missing", "mean")
    assert "'case' (60 values in 60 rows)" in line
    some = people[:48].assign(code=[f"C{max(i, 1)}" for i in range(48)])
    assert "'code' (47 values in 48 rows)" in refused("fit", write(some), *SEX)


def test_a_date_column_names_the_option_that_drops_it(refused, write, people):
    path = write(people.assign(start_date=pd.date_range("2020-01-01", periods=120).astype(str)))
    assert refused("fit", path, *SEX).endswith(
        "'start_date' (dates). Leave it out with --drop start_date, or turn dates into numbers, "
        "such as years."
    )


@pytest.mark.parametrize("n_dates", [12, 120])
@pytest.mark.parametrize(
    "spelling",
    ["%d.%m.%Y", "%m/%d/%y", "%d %b %Y", "%B %d, %Y", "%d-%b-%y", "%Y.%m.%d", "%d.%m.%Y %H:%M:%S"],
)
def test_dates_that_are_text_are_refused_as_dates(refused, write, people, spelling, n_dates):
    days = pd.date_range("2020-01-09 14:30:01", periods=n_dates, freq="29D").strftime(spelling)
    path = write(people.assign(start_date=np.resize(days, 120)))
    line = refused("fit", path, *SEX)
    assert "'start_date' (dates). Leave it out with --drop start_date" in line
    if n_dates == 12:
        assert "or --categorical start_date" in line


def test_codes_are_no_dates(run, write, people):
    codes = [f"{40 + i % 20}-10-20" for i in range(120)]
    result = run("fit", write(people.assign(branch=codes)), *SEX, "--folds", 0)
    assert result.exit_code == 0, result.stderr


@pytest.mark.parametrize("values", [["0,5", "1", "-1,5", "2"], ["1,250", "12,500.5", "999"]])
@pytest.mark.parametrize("many", [False, True])
def test_numbers_with_commas_are_refused_with_the_option_that_reads_them(
    run, refused, write, people, values, many
):
    numbers = [f"{i},{i:03d}" for i in range(120)] if many else np.resize(values, 120)
    path = write(people.assign(pay=numbers))
    line = refused("fit", path, *SEX)
    assert "column 'pay' holds numbers with commas, such as" in line
    assert "Or use --decimal , or --drop pay" in line
    if not many:  # one-hot encoded where that is wanted
        wanted = run("fit", path, *SEX, "--categorical", "pay", "--folds", 0)
        assert "or --categorical pay." in line
        assert wanted.exit_code == 0


def test_another_decimal_mark(run, tmp_path, people):
    path, model, out = (tmp_path / name for name in ("a.csv", "model.npz", "out.csv"))
    people.to_csv(path, sep=";", decimal=",", index=False)
    marks = ("--separator", ";", "--decimal", ",")
    result = run("fit", path, *SEX, *marks, "--save", model, "--json")
    with_points = tmp_path / "b.csv"
    people.to_csv(with_points, index=False)
    same = json.loads(run("fit", with_points, *SEX, "--json").stdout)
    assert json.loads(result.stdout)["components"] == same["components"]
    assert run("transform", model, path, out, *marks).exit_code == 0
    assert len(pd.read_csv(out)) == len(people)
    with pytest.raises(InvalidInputError, match="decimal='': give one character"):
        open_table(path, decimal="")


def test_text_that_is_nearly_an_identifier_is_named(run, write, people):
    frame = pd.concat([people] * 10)
    town, charge = [f"t{i % 40}" for i in range(1200)], [f"c{i % 60}" for i in range(1200)]
    path = write(frame.assign(town=town, charge=charge))
    said = run("fit", path, *SEX, "--folds", 0, "--no-certify").stderr
    assert "In 'charge' few rows have the same value" in said
    assert "leave the text out with --drop charge." in said


@pytest.mark.parametrize("model", [FairPCA(), FairPCACV(), DeltaFairPCA(), FairKernelPCA()])
def test_identifiers_and_dates_of_a_data_frame_are_called_that(people, model):
    X, sex = people[list("uvw")], people["sex"]
    ids, dates = [f"S{i}" for i in range(120)], [f"{i % 28 + 1}.3.2020" for i in range(120)]
    for more, said in (
        ({"code": ids}, r"'code' \(120 values in 120 rows: an identifier or free text\). Leave it"),
        ({"day": dates}, r"'day' \(dates\). Leave it out, or turn dates into numbers"),
        ({"pay": ["1,5", "2"] * 60}, r"'pay' \(numbers with commas\). Leave it out, or read"),
        ({"town": ["a", "b"] * 60}, r"'town' \(text\). Leave it out, or one-hot encode text"),
    ):
        with pytest.raises(ValueError, match=said):
            model.fit(X.assign(**more), sensitive_features=sex)


def test_many_groups_that_are_numbers_name_the_option(run, write, people):
    frame = pd.concat([people] * 5).assign(age=np.arange(600) % 53 + 19)  # no group is small
    result = run(
        "fit", write(frame), "-s", "sex,age", "--drop", "race,income", "--mean-tol", "none"
    )
    assert "column 'age' has 53 groups, whole numbers from 19 to 71" in result.stderr
    assert "Or use --numeric age." in result.stderr


@pytest.mark.parametrize("command", ["audit", "report"])
def test_the_help_of_effort_names_the_words_and_the_default(run, command):
    text = " ".join(run(command, "--help-all").stdout.split())
    assert "measured: quick, standard (default) or thorough." in text


RAW = {
    "adult.csv.gz": ("sex", ("split",)),
    "compas_two_years.csv.gz": ("race", ("c_jail", "r_jail", "date", "custody", "vr_")),
    "credit_card_clients.csv.gz": ("SEX", ()),
    "german.data.gz": ("c8", ()),
}


@pytest.mark.parametrize("name", RAW)
def test_real_tables_are_not_refused(name, tmp_path):
    sensitive, left_out = RAW[name]
    source = data_folder() / "raw" / name
    separator = ","
    if name == "german.data.gz":  # has no header
        lines = gzip.decompress(source.read_bytes()).decode()
        source, separator = tmp_path / "german.csv", " "
        source.write_text(" ".join(f"c{i}" for i in range(21)) + "\n" + lines)
    table = open_table(source, separator=separator)
    features = [
        field.name
        for field in table.schema
        if field.name != sensitive and not any(part in field.name for part in left_out)
    ]
    text = [name for name in features if pa.types.is_string(table.schema.field(name).type)]
    roles = table.assign(sensitive, features, categorical=text, missing="mean")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        moments = table.moments(roles)
    assert moments.n_features >= len(features)
    counts = Counter(moments.columns)  # only the descriptions of charges are hardly a category
    large = {one for one in counts if is_large_category(counts[one], moments.n_samples)}
    assert large == ({"c_charge_desc", "r_charge_desc"} & set(text))


@pytest.mark.parametrize("command", ["fit", "audit"])
def test_missing_groups_under_the_mean_name_their_own_option(refused, write, people, command):
    people = people.astype({"sex": object})
    people.loc[:9, "sex"] = None
    people.loc[5:19, "u"] = np.nan
    line = refused(command, write(people), *SEX, "--missing", "mean")
    assert "column 'sex' has 10 missing values" in line
    assert line.endswith("Or use --missing-groups own.")


def test_missing_groups_under_the_mean_in_memory(people):
    X = people[list("uvw")].mask(people["v"] > 1.5)
    sex = people["sex"].where(people.index > 9, None)
    for model in (FairPCA(missing="mean"), DeltaFairPCA(missing="mean")):
        with pytest.raises(GroupsError, match=r"'sex' has 10 missing values.*missing_groups='own'"):
            model.fit(X, sensitive_features=sex)


@pytest.mark.parametrize("model", [FairPCA(), FairPCACV(), DeltaFairPCA(), FairKernelPCA()])
def test_groups_that_were_passed_as_y(people, model):
    X, sex = people[list("uvw")], people["sex"]
    with pytest.raises(GroupsError, match="passed the protected attribute as y, write sensitive_"):
        model.fit(X, sex)
    with pytest.raises(GroupsError) as caught:  # a target of a regression is no group
        model.fit(X, people["z"])
    assert " y " not in str(caught.value)


def test_a_model_that_dropped_rows_scores_every_row_in_python_and_on_the_command_line(
    run, write, people, tmp_path
):
    X = people[list("uvwxyz")].copy()
    X.loc[[3, 70], "u"] = np.nan
    source, model, out = write(X.assign(sex=people["sex"])), tmp_path / "m.npz", tmp_path / "o.csv"
    quick = ("--cov-weight", 0, "--folds", 0, "--missing", "drop-rows")
    assert run("fit", source, "-s", "sex", *quick, "--save", model).exit_code == 0
    result = run("transform", model, source, out)
    assert result.exit_code == 0, result.stderr
    words = "2 rows have missing values, which count as the mean of the rows used in fit"
    assert words in result.stderr
    with pytest.warns(ImputedValuesWarning, match=words):
        scores = load_model(model).transform(X)
    np.testing.assert_allclose(pd.read_csv(out).to_numpy(), scores, atol=1e-10)
    with pytest.warns(ImputedValuesWarning, match=words):
        project_table(open_table(pa.Table.from_pandas(X)), model, tmp_path / "again.csv")
    short = run("transform", model, source, tmp_path / "short.csv", "--missing", "drop-rows")
    assert "2 rows lack a feature and were left out" in short.stderr
    assert len(pd.read_csv(tmp_path / "short.csv")) == 118


@pytest.mark.parametrize("missing", ["jinja2", "matplotlib"])
def test_a_report_without_its_packages_ends_before_the_table_is_read(
    refused, monkeypatch, tmp_path, missing
):
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.setattr("fairpca.cli._report.read_measured", None)
    line = refused("report", "--out", tmp_path / "report.html")
    assert line == f"fairpca report needs {missing}: pip install 'fairpca[cli]'"


def test_the_extra_of_the_command_line_has_what_every_command_needs():
    extras = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]

    def packages(extra):
        for requirement in extras[extra]:
            if found := re.match(r"fairpca\[(.*)\]", requirement):
                for other in found[1].split(","):
                    yield from packages(other)
            else:
                yield re.split(r"[\[>=]", requirement)[0]

    assert {"click", "rich", "pyarrow", "jinja2", "matplotlib"} <= set(packages("cli"))
