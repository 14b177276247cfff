"""``fairpca moments`` and fits from its files: exactly the fit of all rows, or a clear error."""

import numpy as np
import pandas as pd
import pytest
from support import run_command

from fairpca import GroupMoments, load_model

ASKED = ["-s", "sex", "--control", "city", "--weight", "w", "--missing", "mean"]


def rows(n=2400):
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(
        {
            "age": rng.normal(40.0, 12.0, n),
            "pay": 1e4 + rng.gamma(2.0, size=n),
            "hours": rng.normal(size=n),
            "job": rng.choice(["clerk", "cook"], n),
            "sex": rng.choice(["f", "m"], n),
            "city": rng.choice(["Ulm", "Bonn"], n),
            "w": rng.integers(1, 4, n),
        }
    )
    frame["pay"] += (frame["sex"] == "m") * 0.7
    frame.loc[rng.random(n) < 0.4, "hours"] = np.nan
    frame.loc[frame.index < 60, "job"] = rng.choice(["clerk", "cook", "nurse"], 60)
    return frame


def write(frame, path):
    frame.to_parquet(path, index=False) if path.suffix == ".parquet" else frame.to_csv(
        path, index=False
    )
    return path


def run(*words):
    result = run_command(*words)
    assert result.exit_code == 0, result.output
    return result


def sum_parts(frame, folder, count, suffix, asked=ASKED):
    files = []
    for index, part in enumerate(np.array_split(np.arange(len(frame)), count)):
        table = write(frame.iloc[part], folder / f"part{index}{suffix}")
        files.append(folder / f"part{index}.npz")
        run("moments", table, *asked, "--out", files[-1], "--min-rows", 2, "-q")
    return files


@pytest.mark.parametrize(
    ("count", "suffix", "asked"),
    [
        (2, ".csv", ["--cov-weight", 0]),
        (2, ".parquet", []),
        (20, ".csv", ["--cov-weight", 0, "--no-standardize"]),
        (20, ".parquet", ["--cov-tol", 0.2, "--no-certify"]),
    ],
)
def test_a_fit_of_parts_is_the_fit_of_all_rows(count, suffix, asked, tmp_path):
    frame, scaled = rows(), [*asked, "--folds", 0]
    files = sum_parts(frame, tmp_path, count, suffix)
    whole, parts = tmp_path / "whole.npz", tmp_path / "parts.npz"
    run("fit", write(frame, tmp_path / f"all{suffix}"), *ASKED, *scaled, "--save", whole, "-q")
    run("fit", "--moments", *files[::-1], *scaled, "--save", parts, "-q")
    ours, theirs = load_model(parts), load_model(whole)
    assert list(ours.feature_names_in_) == list(theirs.feature_names_in_)
    assert ours.get_params() == theirs.get_params()
    for name in ("components_", "explained_variance_ratio_"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), atol=1e-12)
    np.testing.assert_allclose(ours.mean_, theirs.mean_, rtol=1e-12)
    if ours.scale_ is not None:
        np.testing.assert_allclose(ours.scale_, theirs.scale_, rtol=1e-12)


def test_a_target_is_summed_with_the_rows(tmp_path):
    frame = rows()
    noise = np.random.default_rng(0).normal(size=len(frame))
    frame["rich"] = np.where(frame["age"] / 12 + noise > 3.3, "yes", "no")
    asked, weight = ["-s", "sex", "--target", "rich", "--drop", "hours"], ["--target-weight", 1]
    files = sum_parts(frame, tmp_path, 2, ".csv", asked)
    shown = run("moments", "--show", files[0]).stdout
    assert "Targets, with their sums: rich=no, rich=yes (1,200 rows)" in shown
    whole, parts = tmp_path / "whole.npz", tmp_path / "parts.npz"
    table = write(frame, tmp_path / "all.csv")
    run("fit", table, *asked, *weight, "--folds", 0, "--save", whole, "-q")
    result = run("fit", "--moments", *files, *weight, "--save", parts)
    assert "rich that a linear model" in " ".join(result.stdout.split())
    ours, theirs = load_model(parts), load_model(whole)
    np.testing.assert_allclose(ours.components_, theirs.components_, atol=1e-12)
    assert ours.target_kept_ == pytest.approx(theirs.target_kept_, rel=1e-12)
    files[0].unlink()
    without = sum_parts(frame, tmp_path, 1, ".csv", ["-s", "sex", "--drop", "hours,rich"])
    result = run_command("fit", "--moments", *without, *weight)
    assert "Write them by fairpca moments --target COL" in result.stderr


def test_sums_say_that_they_do_not_know_units(tmp_path):
    table = write(rows().assign(person=np.arange(2400) // 4), tmp_path / "x.csv")
    result = run("moments", table, "-s", "sex", "--drop", "job", "--missing", "mean", "--unit",
                 "person", "--out", tmp_path / "m.npz")  # fmt: skip
    assert "a forecast from the file counts rows" in result.stderr


def test_a_value_of_one_holder_is_zero_elsewhere_and_said(tmp_path):
    files = sum_parts(rows(), tmp_path, 2, ".csv")
    result = run("fit", "--moments", *files, "--cov-weight", 0)
    assert "part1.npz: these values do not occur and count as 0 in all its rows: job=nurse." in (
        result.stderr
    )
    assert "missing values count as the mean of all rows: hours" in result.stderr
    assert "{}" not in result.stdout


def test_a_column_that_one_holder_lacks_is_named_with_its_file(tmp_path):
    frame = rows()
    asked = ["-s", "sex", "--features", "age,pay,job"]
    first = sum_parts(frame, tmp_path, 1, ".csv", asked)[0].rename(tmp_path / "a.npz")
    second = sum_parts(frame, tmp_path, 1, ".csv", ["-s", "sex", "--features", "age,job"])[0]
    result = run_command("fit", "--moments", first, second)
    assert result.exit_code == 2
    assert "part0.npz: moments of different features cannot be merged" in result.stderr
    assert "lacks column 'pay'" in result.stderr


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"job": 1.5}, "'job' holds numbers in one part and text in another"),
        ({"pay": "much"}, "'pay' holds numbers in one part and text in another"),
    ],
)
def test_another_encoding_is_refused(change, words, tmp_path):
    asked = ["-s", "sex", "--features", "age,pay,job"]
    first = sum_parts(rows(), tmp_path, 1, ".csv", asked)[0].rename(tmp_path / "a.npz")
    second = sum_parts(rows().assign(**change), tmp_path, 1, ".csv", asked)[0]
    result = run_command("fit", "--moments", first, second)
    assert result.exit_code == 2
    assert words in result.stderr


def test_other_units_and_absent_groups_are_noted(tmp_path):
    frame, asked = rows(), ["-s", "sex", "--features", "age,pay"]
    first = sum_parts(frame, tmp_path, 1, ".csv", asked)[0].rename(tmp_path / "a.npz")
    other = frame[frame["sex"] == "f"].assign(age=frame["age"] / 1000)
    second = sum_parts(other, tmp_path, 1, ".csv", asked)[0]
    result = run("fit", "--moments", first, second, "-d", 1)
    assert "part0.npz: no rows of sex m." in result.stderr
    assert "part0.npz: age: the spread is far from that of all" in result.stderr


def test_columns_in_another_order_are_the_same_columns(tmp_path):
    frame, asked = rows()[["age", "pay", "sex"]], ["-s", "sex"]
    first = sum_parts(frame, tmp_path, 1, ".csv", asked)[0].rename(tmp_path / "a.npz")
    second = sum_parts(frame[["sex", "pay", "age"]], tmp_path, 1, ".csv", asked)[0]
    both = GroupMoments.load(first) + GroupMoments.load(second)
    np.testing.assert_allclose(both.pooled().mean, GroupMoments.load(first).pooled().mean)


def test_show_says_what_is_inside(tmp_path):
    [file] = sum_parts(rows(), tmp_path, 1, ".csv")
    shown = run("moments", "--show", file).stdout
    for words in (
        "Sums of 2,400 rows in 4 cells; no row is in the file.",
        "Features (6): age, pay, hours, job=clerk, job=cook, job=nurse",
        "Groups of sex: f ",
        "Strata of city: Bonn ",
        "all rows: hours 40.5 %",
        "Smallest cell: ",
    ):
        assert words in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["moments"], "name the table"),
        (["moments", __file__, "-s", "sex"], "give --out FILE"),
        (["moments", __file__, "--show", "x.npz"], "neither DATA nor --out"),
        (["fit", "--moments"], "name the files that fairpca moments wrote"),
        (["fit", "--moments", __file__, "-s", "sex"], "--sensitive needs rows"),
        (["fit", "--moments", __file__, "--hold-out", "0.2"], "--hold-out needs rows"),
        (["fit", "--moments", "nowhere.npz"], "nowhere.npz: no such file"),
        (["moments", "--show", "nowhere.npz"], "nowhere.npz"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(words, message):
    result = run_command(*words)
    assert result.exit_code in (1, 2)
    assert message in result.output
    assert result.stderr.count("\n") == 1


def test_a_file_counts_once_and_needs_names(tmp_path):
    [file] = sum_parts(rows(), tmp_path, 1, ".csv")
    assert "is named twice" in run_command("fit", "--moments", file, file).stderr
    X = np.random.default_rng(0).normal(size=(60, 3))
    plain = GroupMoments.from_arrays(X, np.arange(60) % 2).save(tmp_path / "plain.npz")
    result = run_command("fit", "--moments", plain)
    assert result.exit_code == 2
    assert "features have no names" in result.stderr


def test_a_model_is_no_file_of_moments(tmp_path):
    path = write(rows(), tmp_path / "x.csv")
    run("fit", path, *ASKED, "--cov-weight", 0, "--folds", 0, "--save", tmp_path / "m.npz", "-q")
    result = run_command("fit", "--moments", tmp_path / "m.npz")
    assert "is not a file of moments" in result.stderr
