"""`fairpca fit` on good input: the figures are the library's, the rows are the right rows."""

import gzip
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from fairpca import FairPCA, __version__
from fairpca.datasets import load_diabetes_sex

FEATURES = list("uvwxyz")
OTHERS = "race,income"


def fit_json(run, *arguments):
    result = run("fit", *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))


def directly_fitted(frame, **settings):
    X = StandardScaler().fit_transform(frame[FEATURES])
    return FairPCA(**settings).fit(X, sensitive_features=frame["sex"]), X


def projector(components):
    V = np.asarray(components)
    return V.T @ V


def test_demo_names_its_data_and_agrees_with_the_estimator(run):
    result = run("fit")
    assert result.exit_code == 0, result.stderr
    assert "scikit-learn's diabetes data" in result.stdout
    assert "442 rows, 9 features" in result.stdout
    assert "protected: sex" in result.stdout
    diabetes = load_diabetes_sex()
    X = StandardScaler().fit_transform(diabetes.data)
    plain = 100 * PCA(2).fit(X).explained_variance_ratio_.sum()
    fair = FairPCA().fit(X, sensitive_features=diabetes.sensitive_features)
    kept = 100 * fair.explained_variance_ratio_.sum()
    (line,) = (line for line in result.stdout.splitlines() if "variance kept" in line)
    assert f"{plain:.1f} %" in line
    assert f"{kept:.1f} %" in line
    assert "Certificate:" in result.stdout
    assert "207 / 235" in result.stdout


def test_json_holds_the_figures_of_the_library(run, write, people):
    document = fit_json(run, write(people), "--sensitive", "sex", "--drop", OTHERS)
    fair, _ = directly_fitted(people)
    assert document["fairpca"] == __version__
    assert document["data"]["features"] == FEATURES
    assert document["data"]["n_rows"] == 120
    assert document["options"]["n_components"] == 2
    np.testing.assert_allclose(
        projector(document["components"]), projector(fair.components_), atol=1e-5
    )
    np.testing.assert_allclose(
        document["fair"]["variance_kept"], fair.explained_variance_ratio_.sum(), rtol=1e-6
    )
    assert document["fair"]["mean_gap"] < 1e-12
    np.testing.assert_allclose(document["fair"]["cov_gap"], fair.cov_gap_, rtol=1e-4)
    assert document["certificate"]["bound"] >= document["certificate"]["objective"]
    (contrast,) = document["contrasts"]
    assert (contrast["attribute"], contrast["positive"], contrast["negative"]) == ("sex", "m", "f")
    assert (contrast["n_positive"], contrast["n_negative"]) == (50, 70)
    assert document["notes"] == []
    assert document["output"] is None


def test_plain_column_is_scikit_learns_pca(run, write, people):
    document = fit_json(run, write(people), "--sensitive", "sex", "--drop", OTHERS, "-d", 3)
    X = StandardScaler().fit_transform(people[FEATURES])
    pca = PCA(3).fit(X)
    np.testing.assert_allclose(
        document["plain"]["explained_variance_ratio"], pca.explained_variance_ratio_, rtol=1e-9
    )
    is_m = (people["sex"] == "m").to_numpy()
    U = pca.transform(X)
    gap = U[is_m].mean(axis=0) - U[~is_m].mean(axis=0)
    difference = np.cov(U[is_m].T, bias=True) - np.cov(U[~is_m].T, bias=True)
    assert document["plain"]["mean_gap"] == pytest.approx(np.linalg.norm(gap))
    assert document["plain"]["cov_gap"] == pytest.approx(np.linalg.norm(difference, 2))
    assert document["contrasts"][0]["mean_gap_plain"] == pytest.approx(np.linalg.norm(gap))


def test_center_scale_and_components_of_the_json_reproduce_the_rows(run, write, people, tmp_path):
    out = tmp_path / "reduced.csv"
    arguments = [write(people), "--sensitive", "sex", "--drop", OTHERS, "--out", out]
    document = fit_json(run, *arguments)
    rows = (people[FEATURES] - document["center"]) / document["scale"]
    expected = rows.to_numpy() @ np.transpose(document["components"])
    np.testing.assert_allclose(pd.read_csv(out), expected, atol=1e-10)
    assert document["output"] == str(out)


@pytest.mark.parametrize("name", ["reduced.csv", "reduced.csv.gz", "reduced.parquet"])
def test_reduced_rows_are_fair_and_in_order(run, write, people, tmp_path, name):
    out = tmp_path / name
    arguments = ["--sensitive", "sex", "--drop", "race", "--target", "income", "--keep", "sex"]
    result = run("fit", write(people), *arguments, "--out", out)
    assert result.exit_code == 0, result.stderr
    assert f"Reduced rows written to {out}" in result.stdout
    reduced = pd.read_parquet(out) if name.endswith("parquet") else pd.read_csv(out)
    assert list(reduced.columns) == ["sex", "income", "fairpca0", "fairpca1"]
    fair, X = directly_fitted(people)
    np.testing.assert_allclose(reduced[["fairpca0", "fairpca1"]], fair.transform(X), atol=1e-4)
    assert list(reduced["sex"]) == list(people["sex"])
    assert list(reduced["income"]) == list(people["income"])
    means = reduced.groupby("sex")[["fairpca0", "fairpca1"]].mean()
    np.testing.assert_allclose(means.loc["f"], means.loc["m"], atol=1e-10)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["people.csv", name])
    if name.endswith(".gz"):
        assert gzip.decompress(out.read_bytes()).startswith(b'"sex"')


def test_parquet_and_csv_input_give_the_same_fit(run, write, people):
    arguments = ["--sensitive", "sex", "--drop", OTHERS]
    frame = people.assign(u=people["u"].astype("float32").astype("float64"))
    names = ["people.csv", "people.csv.gz", "people.parquet"]
    documents = [fit_json(run, write(frame, name), *arguments) for name in names]
    for other in documents[1:]:
        for figure in ("variance_kept", "cov_gap"):
            assert other["fair"][figure] == pytest.approx(documents[0]["fair"][figure], rel=1e-6)


@pytest.mark.filterwarnings("ignore::fairpca.exceptions.DominantFeatureWarning")
def test_without_standardisation_the_units_stay(run, write, people):
    frame = people.assign(u=1000 * people["u"])
    arguments = ["--sensitive", "sex", "--drop", OTHERS, "--no-standardize"]
    document = fit_json(run, write(frame), *arguments)
    fair = FairPCA().fit(frame[FEATURES], sensitive_features=frame["sex"])
    np.testing.assert_allclose(document["scale"], np.ones(6))
    np.testing.assert_allclose(document["center"], frame[FEATURES].mean())
    np.testing.assert_allclose(
        document["fair"]["variance_kept"], fair.explained_variance_ratio_.sum(), rtol=1e-6
    )


def test_weights_equal_repetition(run, write, people):
    times = np.arange(len(people)) % 3
    repeated = people.loc[np.repeat(people.index, times)]
    arguments = ["--sensitive", "sex", "--drop", OTHERS]
    weighted = fit_json(run, write(people.assign(n=times)), *arguments, "--weight", "n")
    longer = fit_json(run, write(repeated, "longer.csv"), *arguments)
    assert weighted["fair"]["variance_kept"] == pytest.approx(longer["fair"]["variance_kept"])
    assert weighted["data"]["n_rows"] == np.count_nonzero(times)


def test_features_and_separator(run, tmp_path, people):
    path = tmp_path / "semicolon.csv"
    people.rename(columns={"u": "u, cm"}).to_csv(path, index=False, sep=";")
    arguments = ["--separator", ";", "--sensitive", "sex", "--features", "u, cm"]
    document = fit_json(run, path, *arguments, "--features", "w,v")
    assert document["data"]["features"] == ["u, cm", "w", "v"]


def test_constraint_options_reach_the_solver(run, write, people):
    arguments = [write(people), "--sensitive", "sex", "--drop", OTHERS]
    bounded = fit_json(run, *arguments, "--cov-tol", 0.55)
    assert bounded["fair"]["cov_gap"] == pytest.approx(0.55, abs=1e-6)
    assert bounded["options"]["cov_weight"] is None
    loose = fit_json(run, *arguments, "--mean-tol", "none", "--cov-weight", 0)
    assert loose["fair"] == {**loose["plain"], "n_iter": loose["fair"]["n_iter"]}
    near = fit_json(run, *arguments, "--mean-tol", 0.2)
    assert near["fair"]["mean_gap"] == pytest.approx(0.2, rel=1e-4)


@pytest.mark.parametrize("solver", ["refined", "deflation", "tight", "paper"])
def test_every_solver(run, write, people, solver):
    arguments = [write(people), "--sensitive", "sex", "--drop", OTHERS, "--solver", solver]
    document = fit_json(run, *arguments)
    assert document["certificate"]["solver"] == solver
    assert document["fair"]["mean_gap"] < 1e-10


def test_without_certificate_the_table_says_so(run, write, people):
    result = run("fit", write(people), "--sensitive", "sex", "--drop", OTHERS, "--no-certify")
    assert result.exit_code == 0
    assert "Certificate: not computed" in result.stdout
    assert "of optimal" not in result.stdout


def test_quiet_prints_nothing_but_writes(run, write, people, tmp_path):
    out = tmp_path / "reduced.csv"
    arguments = [write(people), "--sensitive", "sex", "--drop", OTHERS, "--out", out, "--quiet"]
    result = run("fit", *arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    assert len(pd.read_csv(out)) == 120


def test_column_names_with_markup_are_printed_as_they_are(run, write, people):
    frame = people.rename(columns={"sex": "[bold]sex[/bold]"})
    result = run("fit", write(frame), "--sensitive", "[bold]sex[/bold]", "--drop", OTHERS)
    assert "protected: [bold]sex[/bold]" in result.stdout


def test_help_shows_examples_and_version_is_the_package(run):
    shown = run("fit", "--help")
    assert shown.exit_code == 0
    assert "fairpca fit people.csv --sensitive sex -d 3\n" in shown.stdout
    assert run("--version").stdout == f"fairpca {__version__}\n"
    assert "fit" in run("--help").stdout
    options = run("fit", "--help-all", default_map=None).stdout
    assert "up to 200 columns. 0: none. [default: 5]" in " ".join(options.split())
    assert sum(line.lstrip().startswith("-") for line in shown.stdout.splitlines()) <= 31
    for command in ("fit", "audit", "report", "transform"):
        assert len(run(command, "--help").stdout.splitlines()) < 60, command


@pytest.mark.parametrize("objective", ["worst-variance", "worst-loss"])
def test_objective_shows_every_group_before_and_after(run, write, people, objective):
    asked = (write(people), "-s", "sex", "--drop", OTHERS, "--objective", objective)
    document = fit_json(run, *asked, "--cov-weight", "0")
    fair, X = directly_fitted(people, objective=objective, cov_weight=0)
    assert document["certificate"]["criterion"] == objective
    assert document["options"]["objective"] == objective
    table = fair.group_variance_
    plain = PCA(2).fit(X).components_
    for place, row in enumerate(document["groups"]):
        assert row["group"] == table["group"][place]
        assert row["variance"] == pytest.approx(table["variance"][place], rel=1e-6)
        S = np.cov(X[people["sex"] == row["group"]].T, bias=True)
        assert row["variance_plain"] == pytest.approx(np.trace(plain @ S @ plain.T), rel=1e-6)
        assert row["loss_plain"] == pytest.approx(row["best"] - row["variance_plain"], rel=1e-6)
    text = run("fit", *asked, "--cov-weight", "0").stdout
    assert "Variance that each group keeps, and loses" in text
    assert "less the penalty)" in text
    assert "groups" not in fit_json(run, write(people), "-s", "sex", "--drop", OTHERS)


def test_objective_and_delta_exclude_each_other(run, write, people):
    result = run("fit", write(people), "-s", "sex", "--objective", "worst-loss", "--delta", "0.2")
    assert result.exit_code == 2
    assert "--delta excludes --objective" in result.stderr
    result = run(
        "fit", write(people), "-s", "sex", "--objective", "worst-loss", "--solver", "paper"
    )
    assert result.exit_code == 2
    assert "--solver" in result.stderr


def test_a_long_solve_is_announced(run, write, people, monkeypatch):
    from fairpca.cli import _fit
    from fairpca.estimators import _data_warnings

    told = []
    monkeypatch.setattr(_data_warnings, "LONG_FIT", 0.04)  # one component takes 0.024 s
    monkeypatch.setattr(_data_warnings, "_QUICK", 0.03)
    monkeypatch.setattr(_fit.Stages, "begin", lambda self, stage: told.append(stage))
    asked = (write(people), "--sensitive", "sex,race", "--drop", "income", "--folds", 0)
    assert run("fit", *asked, "--cov-weight", 0).exit_code == 0
    assert not any("may take about" in stage for stage in told)
    done = run("fit", *asked)
    assert done.exit_code == 0
    assert "may take" not in done.stderr  # when it is over
    announced = [stage for stage in told if "2 components, 4 contrasts" in stage]
    assert announced[0].endswith("Or use --components 1 or --cov-weight 0.")


def test_no_bound_that_counts_rows_is_printed_for_units(run, write, people, monkeypatch):
    frame = people.assign(person_id=np.arange(len(people)) // 4)
    asked = ("fit", write(frame), "--sensitive", "sex", "--drop", OTHERS)
    assert "by the number of rows alone" in run(*asked, "--features", ",".join(FEATURES)).stdout
    assert "by the number of units alone" in run(*asked, "--unit", "person_id").stdout
    monkeypatch.setattr("fairpca.cli._fit._IN_MEMORY", 10)  # a table too large to be read again
    result = run(*asked, "--unit", "person_id")
    assert "alone" not in result.stdout
    assert "No forecast for new data: rows of a unit are alike" in result.stdout


def test_few_persons_and_extreme_rows_are_said_in_words(run, write, people):
    people["person_id"] = (people["sex"] == "m") * 2 + np.arange(120) % 2  # four persons
    result = run("fit", write(people), "-s", "sex", "--drop", "race,income", "--unit", "person_id",
                 "--folds", 5)  # fmt: skip
    assert result.exit_code == 0, result.stderr
    assert "± 0" not in result.stdout
    assert "not measured" in " ".join(result.stdout.split())
    assert "no bound with so few units" in " ".join(result.stdout.split())
    people = people.drop(columns="person_id")
    people.loc[3, ["y", "z"]] = 400.0, 300.0
    extreme = run("fit", write(people), "-s", "sex", "--drop", "race,income")
    assert "extreme rows" in extreme.stderr


@pytest.mark.parametrize(
    "command",
    [["fit", "nowhere.csv"], ["fit", "nowhere*.csv"], ["moments", "nowhere.csv"]],
)
def test_a_wrong_path_is_refused_before_anything_slow_is_loaded(command):
    program = (
        "import sys\nfrom fairpca.cli import main\n"
        f"sys.argv = ['fairpca', *{command}, '--sensitive', 'sex']\n"
        "try:\n    main()\n"
        "except SystemExit as end:\n    assert end.code\n"
        "assert not {'sklearn', 'numpy', 'pyarrow'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"{command[1]}: no such file." in done.stderr
