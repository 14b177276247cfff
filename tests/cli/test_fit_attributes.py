"""`fairpca fit` with several attributes, intersections, strata, numbers and small groups."""

import json

import numpy as np
import pandas as pd
import pytest


def fit_json(run, *arguments):
    result = run("fit", *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def sides(document):
    return [
        (c["attribute"], c["positive"], c["negative"], c["stratum"]) for c in document["contrasts"]
    ]


def test_two_attributes_and_their_intersections(run, write, people):
    arguments = [write(people), "--sensitive", "sex", "--sensitive", "race", "--drop", "income"]
    apart = fit_json(run, *arguments, "-d", 1)
    assert sides(apart) == [
        ("sex", "m", "f", None),
        ("race", "a", "rest", None),
        ("race", "b", "rest", None),
        ("race", "c", "rest", None),
    ]
    joint = fit_json(run, *arguments, "-d", 1, "--joint")
    cells = [entry for entry in joint["contrasts"] if entry["attribute"] == "sex × race"]
    assert len(cells) == 6
    sizes = people.groupby(["sex", "race"]).size().tolist()
    assert sorted(cell["n_positive"] for cell in cells) == sorted(sizes)
    assert all(cell["mean_gap"] < 1e-10 for cell in joint["contrasts"])


def test_strata_are_compared_one_by_one(run, write, people, tmp_path):
    out = tmp_path / "reduced.csv"
    arguments = [write(people), "--sensitive", "sex", "--control", "income", "--drop", "race"]
    document = fit_json(run, *arguments, "--out", out, "--keep", "sex", "--keep", "income")
    assert [side[3] for side in sides(document)] == ["income=high", "income=low"]
    means = pd.read_csv(out).groupby(["income", "sex"])[["fairpca0", "fairpca1"]].mean()
    for income in ("high", "low"):
        np.testing.assert_allclose(means.loc[income, "f"], means.loc[income, "m"], atol=1e-10)
    printed = run("fit", *arguments).stdout
    assert "within: income" in printed
    assert "income=high" in printed


def test_pairs_and_reference(run, write, people):
    arguments = [write(people), "--sensitive", "race", "--drop", "sex,income"]
    pairs = fit_json(run, *arguments, "--compare", "pairs")
    assert {side[1:3] for side in sides(pairs)} == {("b", "a"), ("c", "a"), ("c", "b")}
    for option in ("b", "race=b"):
        reference = fit_json(run, *arguments, "--reference", option)
        assert [side[1:3] for side in sides(reference)] == [("a", "b"), ("c", "b")]
        assert reference["options"]["compare"] == "reference"


def test_reference_of_each_attribute(run, write, people):
    arguments = [write(people), "--sensitive", "race", "--sensitive", "sex", "--drop", "income"]
    document = fit_json(run, *arguments, "--reference", "race=c", "--reference", "sex=m", "-d", 1)
    assert {side[:3] for side in sides(document)} == {
        ("race", "a", "c"),
        ("race", "b", "c"),
        ("sex", "f", "m"),
    }


def test_numbers_and_numeric(run, write, people):
    frame = people.assign(age=np.arange(120) % 60 + 20, score=np.linspace(0, 1, 120))
    arguments = ["--sensitive", "age", "--sensitive", "score", "--drop", "sex,race,income"]
    document = fit_json(run, write(frame), *arguments, "--numeric", "age")
    assert [(side[0], side[1]) for side in sides(document)] == [
        ("age", "numeric"),
        ("score", "numeric"),
    ]
    assert all(contrast["mean_gap"] < 1e-10 for contrast in document["contrasts"])


def test_a_small_group_is_a_note_in_every_output(run, write, people):
    frame = people.copy()
    frame.loc[0, "race"] = "lone"
    arguments = [write(frame), "--sensitive", "race", "--drop", "sex,income"]
    document = fit_json(run, *arguments, "--folds", 5)  # whose fits say nothing
    (note,) = document["notes"]
    assert "race=lone (1 row, no difference beyond chance)" in note
    assert note.endswith("Or use --min-group-size 2.")
    assert "min_group_size" not in note
    (entry,) = (entry for entry in document["contrasts"] if entry["positive"] == "lone")
    assert entry["status"].startswith("not compared")
    assert entry["cov_gap"] is None
    printed = run("fit", *arguments)
    assert printed.stderr == f"fairpca: note: {note}\n"
    assert "not compared" in printed.stdout
    assert "note:" not in printed.stdout
    assert run("fit", *arguments, "--quiet").stderr == printed.stderr


def test_an_unsolved_relaxation_is_a_note(run, write, people):
    arguments = [write(people), "--sensitive", "sex", "--drop", "race,income"]
    options = ["--solver", "paper", "--tol", 1e-12, "--max-iter", 2]
    result = run("fit", *arguments, *options)
    assert result.exit_code == 0
    assert "fairpca: note: " in result.stderr
    assert "Raise --max-iter or tol." in result.stderr
    assert "not solved to tol" in result.stdout
    document = fit_json(run, *arguments, *options)
    assert document["certificate"]["bound_solved"] is False
    assert document["notes"] == [result.stderr.strip().removeprefix("fairpca: note: ")]


@pytest.mark.parametrize(
    "labels", [(0, 1), (-1, 1), (0.0, 1.0), (False, True), ("no", "yes"), ("1", "2")]
)
@pytest.mark.parametrize("name", ["people.csv", "people.parquet"])
def test_labels_of_every_kind(run, write, people, labels, name):
    frame = people.assign(sex=np.where(people["sex"] == "m", labels[1], labels[0]))
    arguments = ["--sensitive", "sex", "--drop", "race,income", "--cov-weight", 0]
    document = fit_json(run, write(frame, name), *arguments)
    shown = [str(int(label) if isinstance(label, float) else label) for label in labels]
    assert sides(document)[0][1:3] == (shown[1], shown[0])
    reference = fit_json(run, write(people, "reference.csv"), *arguments)
    for figure in ("variance_kept", "cov_gap"):
        assert document["fair"][figure] == pytest.approx(reference["fair"][figure], rel=1e-6)


def test_categories_with_unused_levels(run, write, people):
    sex = pd.Categorical(people["sex"], categories=["unused", "m", "f"])
    frame = people.assign(sex=sex)
    arguments = ["--sensitive", "sex", "--drop", "race,income"]
    document = fit_json(run, write(frame, "people.parquet"), *arguments)
    assert sides(document) == [("sex", "m", "f", None)]
