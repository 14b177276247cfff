"""`fairpca audit`: the figures of `fairpca.metrics.audit`, in print and in JSON."""

import json

import numpy as np
import pytest

from fairpca.metrics import audit, group_loss

FEATURES = ["u", "v"]
QUICK = ("--effort", "quick", "--features", "u,v")
ALONE = ("--effort", "quick", "--family", "linear", "--adversaries", "linear")
LINEAR = (*QUICK, "--family", "linear", "--adversaries", "linear")


def audit_json(run, *arguments):
    result = run("audit", *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))


def test_the_panel_and_all_families_are_those_of_the_library(run, write, people):
    document = audit_json(run, write(people), "--sensitive", "sex", *QUICK)
    expected = audit(people[FEATURES].to_numpy(), people["sex"], effort="quick").to_dict()
    [audited], [other] = document["representations"], expected["representations"]
    families = [(entry["family"], entry["method"]) for entry in audited["in_sample"]]
    assert families == [("linear", "svm"), ("linear", "search"), ("rbf", "svm"), ("cdf", "search")]
    for entry, same in zip(audited["in_sample"], other["in_sample"], strict=True):
        for figure in ("value", "null_mean", "null_quantile", "p_value"):
            assert entry[figure] == pytest.approx(same[figure])
    for entry, same in zip(audited["held_out"], other["held_out"], strict=True):
        for figure in ("estimate", "low", "high", "chance", "p_value"):
            assert entry[figure] == pytest.approx(same[figure])
    assert audited["gaps"] == pytest.approx(other["gaps"])
    assert document["verdict"]["level"] == expected["verdict"]["level"]
    assert document["data"]["features"] == FEATURES
    assert document["options"]["seed"] == 0
    assert document["command"] == "audit"


def test_the_table_shows_what_the_json_holds(run, write, people):
    path = write(people)
    document = audit_json(run, path, "--sensitive", "sex", *LINEAR)
    printed = run("audit", path, "--sensitive", "sex", *LINEAR).stdout
    (svm,) = (line for line in printed.splitlines() if "half-space statistic, by SVM" in line)
    [audited] = document["representations"]
    entry = audited["in_sample"][0]
    for figure in ("value", "null_mean", "null_quantile"):
        assert f" {100 * entry[figure]:.1f} " in svm
    assert f" {entry['p_value']:.3f} " in svm
    (adversary,) = (line for line in printed.splitlines() if line.strip().startswith("linear SVM"))
    [entry] = audited["by_adversary"]
    assert f" {100 * entry['estimate']:.1f} " in adversary
    assert f" {100 * entry['low']:.1f} to {100 * entry['high']:.1f} ".replace("-", "−") in adversary
    assert f" {100 * entry['chance']:.1f} " in adversary
    assert "sex: m vs f" in adversary
    assert f"{audited['gaps']['mean_gap']:.3f}" in printed
    assert "(one-vs-rest)" in printed
    assert "sex: m vs f (50 / 70 rows)" in printed  # whose gap is the largest
    assert "Gaussian bound" in printed


def test_several_attributes_and_strata_list_every_pair(run, write, people):
    arguments = ["--sensitive", "sex", "--sensitive", "race", "--control", "income", *LINEAR]
    document = audit_json(run, write(people), *arguments)
    pairs = document["representations"][0]["held_out"]
    assert len(pairs) == 2 * (1 + 3)
    assert {pair["stratum"]["income"] for pair in pairs} == {"high", "low"}
    printed = run("audit", write(people), *arguments).stdout
    for pair in pairs:
        label = f"{pair['attribute']}: {pair['groups'][1]} vs {pair['groups'][0]}"
        assert f"{label} where income={pair['stratum']['income']}" in printed


def test_standardised_gaps_have_no_units(run, write, people):
    scaled = people.assign(u=1000 * people["u"])
    arguments = ["--sensitive", "sex", *QUICK, "--family", "linear", "--adversaries", "none"]
    raw, plain, same = (
        audit_json(run, path, *arguments, *more)["representations"][0]["gaps"]
        for path, more in (
            (write(scaled), ()),
            (write(people, "b.csv"), ("--standardize",)),
            (write(scaled), ("--standardize",)),
        )
    )
    assert same["mean_gap"] == pytest.approx(plain["mean_gap"])
    assert raw["mean_gap"] > 100 * same["mean_gap"]
    groups = people.groupby("sex")[FEATURES].mean() / people[FEATURES].std(ddof=0)
    gap = np.linalg.norm(groups.loc["m"] - groups.loc["f"])
    assert plain["mean_gap"] == pytest.approx(gap)


def test_a_fair_representation_has_notes_and_smaller_values(run, write, people, tmp_path):
    out, path = tmp_path / "reduced.csv", write(people)
    arguments = ["--sensitive", "sex", "--drop", "race,income", "--quiet"]
    assert run("fit", path, *arguments, "--out", out, "--keep", "sex").exit_code == 0
    before = audit_json(run, path, "--sensitive", "sex", *LINEAR)
    quick = ["--family", "linear", "--adversaries", "linear", "--effort", "quick"]
    result = run("audit", out, "--sensitive", "sex", *quick)
    after = audit_json(run, out, "--sensitive", "sex", *quick)
    assert after["data"]["features"] == ["fairpca0", "fairpca1"]
    before, audited = before["representations"][0], after["representations"][0]
    assert audited["in_sample"][1]["value"] < before["in_sample"][1]["value"]
    assert audited["gaps"]["mean_gap"] < 1e-10
    # The means coincide, which leaves a linear SVM without a direction: said, not hidden.
    (note,) = (note for note in after["notes"] if note.startswith("half-space statistic, by SVM:"))
    assert f"fairpca: note: {note}\n" in result.stderr


def test_quiet_prints_nothing(run, write, people):
    result = run("audit", write(people), "--sensitive", "sex", *LINEAR, "--quiet")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--confidence", "1"], "'1' is not a number between 0 and 1"),
        (["--confidence", "nan"], "'nan' is not a number between 0 and 1"),
        (["--effort", "60"], "--effort"),
        (["--family", "all"], "--family"),
        (["--features", "q"], "--features names ['q'], which is not among the columns"),
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


def test_what_fit_can_do_is_checked(run, write, people):
    arguments = ("--sensitive", "sex,race", "--joint", "--compare", "one-vs-rest", *LINEAR)
    document = audit_json(run, write(people), *arguments)
    [audited] = document["representations"]
    attributes = {row["attribute"] for row in audited["contrasts"]}
    assert attributes == {"sex", "race", "sex × race"}
    assert document["options"]["joint"] is True
    people["age"] = np.random.default_rng(0).uniform(20, 60, len(people))
    none = (*QUICK, "--family", "linear", "--adversaries", "none")
    numeric = ("--sensitive", "age", "--numeric", "age", *none)
    [audited] = audit_json(run, write(people), *numeric)["representations"]
    (row,) = audited["contrasts"]
    assert row["positive"] == "numeric"
    assert audited["held_out"] == []
    reference = ("--sensitive", "race", "--reference", "b", *none)
    [audited] = audit_json(run, write(people), *reference)["representations"]
    pairs = audited["in_sample"][0]["pairs"]
    assert [pair["groups"] for pair in pairs] == [["b", "a"], ["b", "c"]]


def test_adversaries_small_groups_and_the_headline(run, write, people):
    people.loc[:9, "race"] = "few"
    arguments = ("--sensitive", "race", *LINEAR, "--adversaries", "trees")
    document = audit_json(run, write(people), *arguments)
    held_out = document["representations"][0]["held_out"]
    assert {entry["adversary"] for entry in held_out} == {"linear SVM", "boosted trees"}
    # Two of the panel did not run, so there is no verdict.
    assert document["verdict"]["level"] == "unknown"
    assert {entry["adversary"] for entry in document["missing"]} == {
        "Gaussian-kernel SVM",
        "small network",
    }
    assert document["small_groups"] == [{"attribute": "race", "group": "few", "n_rows": 10}]
    assert "few" not in document["headline"]["pair"]
    printed = run("audit", write(people), *arguments).stdout
    worst = document["headline"]
    assert f"Largest on held-out rows: {100 * worst['estimate']:.1f} points (" in printed
    assert "Verdict: not enough was measured" in printed
    assert "Fewer than 30 rows, never the largest: race: few (10)" in printed
    assert "trees" in printed
    less = audit_json(run, write(people), *arguments, "--min-group", "5")
    assert less["small_groups"] == []


def test_decisions_by_group(run, write, people):
    rng = np.random.default_rng(1)
    people["hired"] = np.where(rng.random(120) < 0.3 + 0.3 * (people["sex"] == "m"), "yes", "no")
    people["fit"] = rng.integers(0, 2, 120)
    people["points"] = rng.normal(size=120)
    columns = ("--decision", "hired", "--score", "points", "--adversaries", "none")
    quick = ("--sensitive", "sex", "--family", "linear", *QUICK[:2], "--drop", "race,income,fit")
    document = audit_json(run, write(people), *quick, *columns)
    assert document["data"]["decision"] == "hired"
    assert not {"hired", "points"} & set(document["data"]["features"])
    rates = {
        (entry["measure"], entry["group"]): entry["rate"]
        for entry in document["decisions"]["rates"]
    }
    assert rates["selection", "m"] == pytest.approx(
        (people["hired"] == "yes")[people["sex"] == "m"].mean()
    )
    assert ("above median", "f") in rates
    other = audit_json(run, write(people), *quick, *columns, "--positive", "no")
    (rate,) = (e for e in other["decisions"]["rates"][:2] if e["group"] == "m")
    assert rate["rate"] == pytest.approx(1 - rates["selection", "m"])
    people["hired"] = (people["hired"] == "yes").astype(int)
    label = ("--decision", "hired", "--label", "fit", "--positive", "1", "--adversaries", "none")
    result = run("audit", write(people), *quick[:-2], "--drop", "race,income", *label)
    assert result.exit_code == 0, result.stderr
    assert "true positives" in result.stdout
    assert "impact ratio" in result.stdout


def test_an_interrupt_prints_what_is_ready(run, write, people, monkeypatch):
    from fairpca.metrics import audits

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(audits, "measure", stop)
    result = run("audit", write(people), "--sensitive", "sex", *LINEAR)
    assert result.exit_code == 130
    assert "linear SVM" in result.stdout
    assert "fairpca: note: interrupted: these are the figures" in result.stderr
    result = run("audit", write(people), "--sensitive", "sex", *LINEAR, "--json")
    assert result.exit_code == 130
    document = json.loads(result.stdout)
    assert document["interrupted"] is True
    assert len(document["representations"][0]["held_out"]) == 1
    assert document["representations"][0]["in_sample"] == []


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--label", "income"], "--label is the true outcome of a decision"),
        (["--decision", "nix"], "--decision names ['nix'], which is not among the columns"),
        (["--decision", "u"], "--decision: decision has the values"),
        (["--effort", "much"], "--effort"),
        (["--adversaries", "me"], "--adversaries"),
        (["--reference", "q"], "--reference"),
    ],
)
def test_bad_questions(refused, write, people, arguments, complaint):
    quick = ("--family", "linear", "--adversaries", "none", *QUICK)
    if "--adversaries" in arguments:
        quick = QUICK
    assert complaint in refused("audit", write(people), "--sensitive", "sex", *quick, *arguments)


def test_original_columns_say_what_each_group_loses(run, write, people):
    quick = ("--adversaries", "none", "--family", "cdf", "--effort", "quick")
    asked = (write(people), "-s", "sex", "--features", "u,v", "--original", "u,v,w,x", *quick)
    losses = json.loads(run("audit", *asked, "--json").stdout)["losses"]
    expected = group_loss(people[list("uvwx")], people["sex"], U=people[["u", "v"]])
    np.testing.assert_allclose(losses["loss"], expected["loss"], atol=1e-9)
    assert losses["group"] == expected["group"]
    assert "keeps and loses" in run("audit", *asked).stdout
    scaled = json.loads(run("audit", *asked, "--standardize", "--json").stdout)["losses"]
    X = people[list("uvwx")] / people[list("uvwx")].std(ddof=0)
    expected = group_loss(X, people["sex"], U=people[["u", "v"]])
    np.testing.assert_allclose(scaled["loss"], expected["loss"], atol=1e-9)
    result = run("audit", write(people), "-s", "sex", "--features", "u,v", "--original", "race")
    assert result.exit_code != 0
    assert "--original race: not a column of numbers" in result.stderr


def test_unknown_groups_are_refused_or_counted_and_left_out(run, refused, write, people):
    people.loc[:7, "sex"] = None
    people["hired"] = np.arange(120) % 2
    arguments = ("--sensitive", "sex", *LINEAR, "--decision", "hired")
    assert "'sex'" in refused("audit", write(people), *arguments)
    document = audit_json(run, write(people), *arguments, "--leave-out-unknown")
    assert document["unknown"] == {"sex": 8}
    assert document["n_rows"] == 112
    assert document["decisions"]["unknown"] == {"sex": 8}
    printed = run("audit", write(people), *arguments, "--leave-out-unknown").stdout
    assert "Unknown group, left out: 8 rows (sex)" in printed


def test_where_all_groups_are_small_none_is_said_never_to_be_the_worst(run, write, people):
    printed = run("audit", write(people[:20]), "--sensitive", "sex", *LINEAR).stdout
    assert "Largest on held-out rows" in printed
    assert "Fewer than 30 rows, and no comparison without them: sex: " in printed


def test_other_columns_of_the_same_rows_are_compared_on_them(run, refused, write, people, tmp_path):
    """As audit(against=): the same rows, halves and adversaries, and the paired difference."""
    other = people.assign(**{name: people[name] * 0.0 + place for place, name in enumerate("uv")})
    other = other[["u", "w", "x", "sex"]]
    people["z"] = people["z"].where(np.arange(120) > 5, np.nan)  # six rows are left out of both
    path, against = write(people), write(other, "plain.csv")
    asked = ("--sensitive", "sex", "--drop", "race,income", "--missing", "drop-rows", *ALONE)
    document = audit_json(run, path, *asked, "--against", against)
    kept = people[6:]
    report = audit(
        kept[list("uvwxyz")].to_numpy(),
        kept["sex"].to_numpy(),
        against={"plain.csv": other[6:][["u", "w", "x"]].to_numpy()},
        adversaries=("linear",),
        families=(),
        effort="quick",
    )
    [difference] = report.differences
    assert document["differences"][0]["estimate"] == pytest.approx(difference.estimate)
    assert document["differences"][0]["low"] == pytest.approx(difference.low)
    printed = run("audit", path, *asked, "--against", against).stdout
    assert difference.text() in printed
    line = refused("audit", path, *asked, "--against", write(other[:-1], "short.csv"))
    assert "short.csv has 119 rows, but the audited table has 120" in line
    assert "no such file" in refused("audit", path, *asked, "--against", "nowhere.csv")


def test_the_mark_of_held_out_rows_is_no_feature_and_numbers_of_rows_are_noted(run, write, people):
    people["held_out"] = np.arange(120) % 4 == 0
    people["code"] = np.random.default_rng(0).choice(10**9, 120, replace=False)
    asked = ("--sensitive", "sex", "--drop", "race,income", *ALONE)
    document = audit_json(run, write(people), *asked)
    assert document["data"]["features"] == [*"uvwxyz", "code"]
    assert any("'code' has another whole number in every row" in n for n in document["notes"])
    assert any("--drop code" in note for note in document["notes"])
