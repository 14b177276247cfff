"""`fairpca fit --nonzero` and `--rotation` as a user runs them."""

import json

import numpy as np
import pytest
from support import run_command

from fairpca import load_model

pandas = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    rng = np.random.default_rng(0)
    sex = rng.integers(0, 2, 300)
    X = rng.normal(size=(300, 2)) @ rng.normal(size=(2, 7)) + rng.normal(size=(300, 7))
    table = pandas.DataFrame(X + np.outer(sex, rng.normal(size=7)), columns=list("abcdefg"))
    table["sex"] = np.where(sex, "woman", "man")
    path = tmp_path_factory.mktemp("sparse") / "people.csv"
    table.to_csv(path, index=False)
    return path


def test_loadings_and_their_balance_are_printed(people, tmp_path):
    model, scores = tmp_path / "model.npz", tmp_path / "scores.csv"
    options = ("--nonzero", 3, "--save", model, "--out", scores)
    result = run_command("fit", people, "-s", "sex", *options)
    assert result.exit_code == 0, result.output
    assert "What the components are made of" in result.output
    assert "balance woman − man" in result.output
    assert "no 2 scores with equal group means explain more than" in result.output
    fair = load_model(model)
    assert fair.n_nonzero_.tolist() == [3, 3]
    for component in fair.components_:
        assert f"{np.abs(component).max():+.2f}" in result.output
    written, table = pandas.read_csv(scores), pandas.read_csv(people)
    assert written.columns[0] == "sparsefairpca0"
    np.testing.assert_allclose(
        written.iloc[:, :2], fair.transform(table[list("abcdefg")]), atol=1e-9
    )
    assert written.iloc[:, :2].groupby(table["sex"]).mean().diff().abs().max().max() < 1e-9


def test_the_path_is_a_table_and_a_document(people):
    result = run_command("fit", people, "-s", "sex", "--nonzero", "path")
    assert result.exit_code == 0, result.output
    assert "What more non-zero loadings explain" in result.output
    assert "chosen" in result.output
    document = json.loads(
        run_command("fit", people, "-s", "sex", "--nonzero", "path", "--json").stdout
    )
    path = document["sparse"]["path"]
    assert path[0]["n_nonzero"] == 3
    shares = [point["explained_variance_ratio"] for point in path]
    assert shares == sorted(shares)
    assert np.abs(np.sum(document["sparse"]["balance"], axis=-1)).max() < 1e-9
    assert document["certificate"]["criterion"] == "explained"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--nonzero", "many"), "neither a number of loadings nor path"),
        (("--nonzero", "0"), "neither a number of loadings nor path"),
        (("--nonzero", "1"), "--nonzero"),
        (("--nonzero", "3", "--cov-weight", "1"), "--nonzero excludes --cov-weight"),
        (("--nonzero", "3", "--rotation", "varimax"), "--nonzero excludes --rotation"),
        (("--nonzero", "3", "--delta", "0.1"), "--nonzero excludes --delta"),
        (("--nonzero", "3", "--objective", "worst-loss"), "--nonzero excludes --objective"),
        (("--nonzero", "3", "--solver", "paper"), "--nonzero excludes --solver"),
        (("--nonzero", "3", "--tol", "1e-3"), "--nonzero excludes --tol"),
        (("--nonzero", "3", "--max-iter", "7"), "--nonzero excludes --max-iter"),
        (("--nonzero", "3", "--no-certify"), "--nonzero excludes --no-certify"),
        (("--rotation", "quartimax"), "--rotation"),
    ],
)
def test_what_does_not_go_together_is_refused(people, options, words):
    result = run_command("fit", people, "-s", "sex", *options)
    assert result.exit_code in (1, 2)
    assert words in result.output


def test_values_of_one_column_count_once(run, write):
    rng = np.random.default_rng(0)
    sex, town = rng.integers(0, 2, 300), rng.integers(0, 4, 300)
    frame = pandas.DataFrame(rng.normal(size=(300, 3)) + sex[:, None], columns=list("abc"))
    frame["town=city"], frame["town"] = rng.normal(size=300), np.array(list("wxyz"))[town]
    frame["sex"] = sex
    path, options = write(frame), ("-s", "sex", "--nonzero", 2, "-d", 1, "--json")
    counts = [
        json.loads(run("fit", path, *options, *more).stdout)["sparse"]["n_nonzero"][0]
        for more in ((), ("--by-column",))
    ]
    assert counts[0] <= 2 < counts[1] <= 5  # four towns and one number, whatever its name
    assert "give --nonzero" in run("fit", path, "-s", "sex", "--by-column").output


def test_rotation_keeps_the_figures(people):
    documents = [
        json.loads(run_command("fit", people, "-s", "sex", "--json", *options).stdout)
        for options in ((), ("--rotation", "varimax"))
    ]
    before, after = (document["fair"] for document in documents)
    for name in ("variance_kept", "mean_gap", "cov_gap"):
        assert after[name] == pytest.approx(before[name], abs=1e-9)
    assert documents[0]["components"] != documents[1]["components"]
    assert documents[0]["plain"] == documents[1]["plain"]


def test_variance_of_held_out_rows_is_that_of_the_fitted_regression(run, write):
    """A regression of its own on forty rows explains far more of them than of all others."""
    frame = pandas.DataFrame(np.random.default_rng(0).normal(size=(160, 12)))
    frame.columns = [f"f{place}" for place in range(12)]
    frame["sex"] = np.tile(["f", "m"], 80)
    result = run("fit", write(frame), "-s", "sex", "--nonzero", 3, "--hold-out", 0.25, "--json")
    document = json.loads(result.stdout)
    assert document["held_out"]["variance"] < document["fair"]["variance_kept"]
