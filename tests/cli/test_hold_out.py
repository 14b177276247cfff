"""Rows held out by their values or units: the same everywhere, measured, marked, audited."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from fairpca import FairPCA, GroupMoments
from fairpca.rows import Rows
from fairpca.tables import open_table

QUICK = ("--cov-weight", 0, "--folds", 0)
LOOK = ("--family", "linear", "--adversaries", "none", "--json")


@pytest.fixture
def table():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal(size=(3000, 5)), columns=list("abcde"))
    frame["sex"] = rng.choice(["f", "m"], 3000)
    frame.loc[frame["sex"] == "m", ["a", "b"]] += 1.0
    frame["town"] = rng.choice(["x", "y", "z"], 3000)
    frame["person_id"] = rng.integers(100, 400, 3000)
    frame["y"] = rng.integers(0, 2, 3000)
    return frame


def _mark(frame, share=0.25, **options):
    return Rows.read(frame[list("abcde")], frame["sex"], **options).held_out(share)


@pytest.mark.parametrize("share", [0.05, 0.25, 0.6])
def test_the_share_is_met_in_any_order_and_apart_from_folds(table, share):
    held_out = _mark(table, share)
    assert abs(held_out.mean() - share) < 4 * np.sqrt(share * (1 - share) / 3000)
    order = np.random.default_rng(0).permutation(3000)
    np.testing.assert_array_equal(_mark(table.iloc[order], share), held_out[order])
    folds = Rows.read(table[list("abcde")], table["sex"]).folds(5)
    for fold in range(5):  # a split by the same number would empty the first folds
        inside = held_out[folds == fold]
        assert abs(inside.mean() - share) < 5 * np.sqrt(share * (1 - share) / len(inside))


def test_units_are_held_out_whole(table):
    held_out = pd.Series(_mark(table, units=table["person_id"]))
    assert held_out.groupby(table["person_id"]).nunique().max() == 1
    assert 0.15 < held_out.mean() < 0.35


@pytest.mark.parametrize("name", ["people.csv", "people.parquet"])
@pytest.mark.parametrize("missing", [(), ("--missing", "mean"), ("--missing", "drop-rows")])
def test_a_fit_leaves_out_the_rows_it_marks(run, write, table, tmp_path, name, missing):
    if missing:
        table["town"] = table["town"].where(np.arange(3000) % 11 > 0, None)
        table.loc[::13, "a"] = np.nan
    out = tmp_path / "out.csv"
    asked = ("-s", "sex", "--target", "y", "--drop", "person_id", *QUICK, *missing)
    result = run("fit", write(table, name), *asked, "--hold-out", 0.25, "-o", out, "--json")
    assert result.exit_code == 0, result.stderr
    found, marks = json.loads(result.stdout), pd.read_csv(out)["held_out"]
    kept = table.dropna() if "drop-rows" in missing else table
    assert len(marks) == len(kept)
    assert found["data"]["n_rows"] == (~marks).sum()
    assert found["held_out"]["n_rows"] == marks.sum()
    rest = kept[~marks.to_numpy()]
    write(rest, f"rest-{name}")
    alone = run("fit", tmp_path / f"rest-{name}", *asked, "--json")
    expected = json.loads(alone.stdout)
    np.testing.assert_allclose(found["components"], expected["components"], atol=1e-6)


def test_figures_of_both_parts(run, write, table):
    asked = ("-s", "sex", "--target", "y", "--drop", "person_id,town", *QUICK)
    result = run("fit", write(table), *asked, "--hold-out", 0.3, "--json")
    found = json.loads(result.stdout)
    held = _mark(table, 0.3)
    X, sex = table[list("abcde")], table["sex"]
    fair = FairPCA(2, cov_weight=0.0, standardize=True).fit(X[~held], sensitive_features=sex[~held])
    assert found["fair"]["variance_kept"] == pytest.approx(fair.explained_variance_ratio_.sum())
    moments = GroupMoments.from_arrays(fair.transform(X[held]), sex[held])
    gap = np.linalg.norm(moments.contrasts().contrasts[0].mean_gap)
    n = np.array([(sex[held] == level).sum() for level in "fm"])
    measured = found["held_out"]
    assert abs(measured["mean_gap"] - gap) < 3 * np.sqrt((2 / n).sum())  # which has the noise
    assert measured["plain_mean_gap"] > 0.5 > measured["mean_gap"]
    shown = run("fit", write(table), *asked, "--hold-out", 0.3).stdout
    for words in ("plain PCA", "fair PCA", "plain, held-out", "fair, held-out"):
        assert words in shown
    assert f"measured on {held.sum()} rows that were not fitted" in shown
    assert f"{(~held).sum()} fitted and {held.sum()} held-out rows" in shown
    assert "left in the fair components (fitted rows)" in shown


def test_units_and_a_limit_on_selection_rates(run, write, table, tmp_path):
    out = tmp_path / "out.parquet"
    asked = ("-s", "sex", "--target", "y", "--unit", "person_id", "--keep", "person_id")
    result = run("fit", write(table), *asked, *QUICK[2:], "--hold-out", 0.25, "-o", out)
    assert result.exit_code == 0, result.stderr
    assert "units: person_id" in result.stdout
    rows = pd.read_parquet(out)
    assert rows.groupby("person_id")["held_out"].nunique().max() == 1


def test_only_some_rows_are_audited(run, refused, write, table, tmp_path):
    out = tmp_path / "out.csv"
    asked = ("-s", "sex", "--target", "y", "--drop", "person_id", *QUICK)
    assert run("fit", write(table), *asked, "--hold-out", 0.25, "-o", out, "--keep", "sex,town")
    held = pd.read_csv(out)["held_out"]
    audit = ("audit", out, "-s", "sex", "--drop", "y,town")
    result = run(*audit, "--only", "held_out=true", *LOOK)
    assert result.exit_code == 0, result.stderr
    data = json.loads(result.stdout)["data"]
    assert data["n_rows"] == held.sum()
    assert data["features"] == ["fairpca0", "fairpca1"]
    assert data["only"] == {"held_out": "true"}
    both = run(*audit[:4], "--drop", "y", "--only", "held_out=false", "--only", "town=x", *LOOK)
    assert json.loads(both.stdout)["data"]["n_rows"] < (~held).sum() / 2
    assert "no row has 'maybe' in column 'held_out': it holds" in refused(
        *audit, "--only", "held_out=maybe"
    )
    assert "--only names ['heldout']" in refused(*audit, "--only", "heldout=true")
    assert "write COLUMN=VALUE" in refused(*audit, "--only", "held_out")


def test_what_holding_out_cannot_do(refused, write, table, tmp_path):
    path = write(table)
    assert "between 0 and 1" in refused("fit", path, "-s", "sex", "--hold-out", 1)
    assert "needs DATA" in refused("fit", "--hold-out", 0.5, "--out", tmp_path / "o.csv")
    table = table.rename(columns={"town": "held_out"})
    asked = ("-s", "sex", "--keep", "held_out", "--out", tmp_path / "o.csv", "--hold-out", 0.2)
    assert "'held_out' has the name of a new column" in refused("fit", write(table), *asked)


def test_units_of_a_table_are_those_of_arrays(table):
    opened = open_table(pa.Table.from_pandas(table))
    rows = opened.rows(opened.assign("sex", list("abcde"), unit="person_id"))
    expected = Rows.read(table[list("abcde")], table["sex"], units=table["person_id"])
    np.testing.assert_array_equal(rows.folds(5), expected.folds(5))
    assert rows.n_units == table["person_id"].nunique()
    folded = opened.moments(opened.assign("sex", list("abcde"), unit="person_id", folds=3))
    assert folded.by_units


def test_missing_units_are_named(refused, write, table):
    table["person_id"] = table["person_id"].where(table.index > 4)
    line = refused("fit", write(table), "-s", "sex", "--unit", "person_id")
    assert line.startswith("--unit: units column 'person_id' has 5 missing values")


def test_a_column_that_seems_to_name_persons_is_pointed_out(run, write, table):
    asked = ("-s", "sex", "--target", "y", *QUICK)
    result = run("fit", write(table), *asked, "--drop", "person_id")
    assert "'person_id' has 300 values in 3,000 rows" in result.stderr
    assert "--unit person_id" in result.stderr
    subjects = table.rename(columns={"person_id": "subject#"})
    result = run("fit", write(subjects), *asked, "--drop", "town")
    assert "'subject#' has 300 values in 3,000 rows and is a feature" in result.stderr
    codes = table.drop(columns="person_id")  # told by its values alone: each has one sex
    codes["code"] = np.arange(3000) % 150 * 2 + (table["sex"] == "m")
    result = run("fit", write(codes), *asked, "--drop", "code,town")
    assert "'code' has 300 values in 3,000 rows. If it names persons or sites" in result.stderr
    for frame, more in ((table, ("--unit", "person_id")), (table.drop(columns="person_id"), ())):
        assert "persons" not in run("fit", write(frame), *asked, "--drop", "town", *more).stderr
