"""`fairpca audit`: the figures of `fairpca.metrics.audit`, in print and in JSON."""

import json

import numpy as np
import pytest

from fairpca.metrics import audit

FEATURES = ["u", "v"]
QUICK = ("--permutations", 19, "--slow-permutations", 3, "--features", "u,v")
LINEAR = (*QUICK, "--family", "linear")


def audit_json(run, *arguments):
    result = run("audit", *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))


def test_all_families_with_null_and_bounds(run, write, people):
    document = audit_json(run, write(people), "--sensitive", "sex", *QUICK)
    expected = audit(
        people[FEATURES].to_numpy(),
        people["sex"],
        n_permutations=19,
        slow_permutations=3,
        random_state=0,
    ).to_dict()
    families = [(entry["family"], entry["method"]) for entry in document["delta"]]
    assert families == [("linear", "svm"), ("linear", "search"), ("rbf", "svm"), ("cdf", "search")]
    for entry, other in zip(document["delta"], expected["delta"], strict=True):
        for figure in ("value", "null_mean", "null_quantile", "p_value", "bound"):
            assert entry[figure] == pytest.approx(other[figure])
    for figure in ("mean_gap", "cov_gap", "mmd2", "gaussian_bound"):
        assert document[figure] == pytest.approx(expected[figure])
    assert document["data"]["features"] == FEATURES
    assert document["options"]["seed"] == 0
    assert document["command"] == "audit"


def test_the_table_shows_what_the_json_holds(run, write, people):
    path = write(people)
    document = audit_json(run, path, "--sensitive", "sex", *LINEAR)
    printed = run("audit", path, "--sensitive", "sex", *LINEAR).stdout
    (svm,) = (line for line in printed.splitlines() if "half-spaces" in line and "svm" in line)
    entry = document["delta"][0]
    for figure in ("value", "null_mean", "null_quantile", "p_value", "cross_fit_value"):
        assert f" {entry[figure]:.3f} " in svm
    assert "sex: m vs f" in svm
    assert f" {entry['bound']:.3f} " in svm
    assert f"{document['mean_gap']:.4f}" in printed
    assert "Gaussian bound" in printed


def test_several_attributes_and_strata_list_every_pair(run, write, people):
    arguments = ["--sensitive", "sex", "--sensitive", "race", "--control", "income", *LINEAR]
    document = audit_json(run, write(people), *arguments, "--no-cross-fit")
    pairs = document["delta"][0]["comparisons"]
    assert len(pairs) == 2 * (1 + 3)
    assert {pair["stratum"]["income"] for pair in pairs} == {"high", "low"}
    assert document["delta"][0]["cross_fit_value"] is None
    printed = run("audit", write(people), *arguments, "--no-cross-fit").stdout
    for pair in pairs:
        label = f"{pair['attribute']}: {pair['groups'][1]} vs {pair['groups'][0]}"
        assert f"{label} | income={pair['stratum']['income']}" in printed


def test_standardised_gaps_have_no_units(run, write, people):
    scaled = people.assign(u=1000 * people["u"])
    arguments = ["--sensitive", "sex", *LINEAR, "--permutations", 0, "--no-cross-fit"]
    raw = audit_json(run, write(scaled), *arguments)
    plain = audit_json(run, write(people, "b.csv"), *arguments, "--standardize")
    same = audit_json(run, write(scaled), *arguments, "--standardize")
    assert same["mean_gap"] == pytest.approx(plain["mean_gap"])
    assert raw["mean_gap"] > 100 * same["mean_gap"]
    assert raw["delta"][0]["p_value"] is None
    groups = people.groupby("sex")[FEATURES].mean() / people[FEATURES].std(ddof=0)
    gap = np.linalg.norm(groups.loc["m"] - groups.loc["f"])
    assert plain["mean_gap"] == pytest.approx(gap)


def test_a_fair_representation_has_notes_and_smaller_values(run, write, people, tmp_path):
    out, path = tmp_path / "reduced.csv", write(people)
    arguments = ["--sensitive", "sex", "--drop", "race,income", "--quiet"]
    assert run("fit", path, *arguments, "--out", out, "--keep", "sex").exit_code == 0
    before = audit_json(run, path, "--sensitive", "sex", *LINEAR)
    quick = ["--family", "linear", "--permutations", 19, "--slow-permutations", 3]
    result = run("audit", out, "--sensitive", "sex", *quick)
    after = audit_json(run, out, "--sensitive", "sex", *quick)
    assert after["data"]["features"] == ["fairpca0", "fairpca1"]
    assert after["delta"][1]["value"] < before["delta"][1]["value"]
    assert after["mean_gap"] < 1e-10
    # The means coincide, which leaves a linear SVM without a direction: said, not hidden.
    (note,) = (note for note in after["notes"] if note.startswith("linear, svm: "))
    assert f"fairpca: note: {note}\n" in result.stderr


def test_quiet_prints_nothing(run, write, people):
    result = run("audit", write(people), "--sensitive", "sex", *LINEAR, "--quiet")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--confidence", "1"], "'1' is not a number between 0 and 1"),
        (["--confidence", "nan"], "'nan' is not a number between 0 and 1"),
        (["--permutations", "-1"], "--permutations"),
        (["--family", "all"], "--family"),
        (["--features", "q"], "--features q: no such column"),
    ],
)
def test_bad_options(refused, write, people, arguments, complaint):
    assert complaint in refused("audit", write(people), "--sensitive", "sex", *arguments)


def test_bad_tables(refused, write, people):
    one = write(people.assign(sex="f"), "one.csv")
    assert "'sex'" in refused("audit", one, "--sensitive", "sex", *LINEAR)
    people.loc[2, "u"] = np.nan
    line = refused("audit", write(people), "--sensitive", "sex", *LINEAR)
    assert "1 of 120 rows have missing values (by column: 'u' 1)" in line
    assert "--sensitive COL" in refused("audit", write(people))


def test_progress_counts_the_statistics(people):
    calls = []
    audit(
        people[FEATURES],
        people["sex"],
        families=("linear", "cdf"),
        attackers=(),
        n_permutations=0,
        slow_permutations=0,
        progress=lambda *counts: calls.append(counts),
    )
    assert calls == [(1, 4), (2, 4), (3, 4), (4, 4)]  # two linear, orthants, MMD²
