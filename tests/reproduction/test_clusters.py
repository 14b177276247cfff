"""Table 4 and the search for its definitions, without data files."""

import numpy as np
import pandas as pd
import pytest

from reproduction import clusters
from reproduction.clusters import SIMPLE, Candidate, Fits, Setup, cluster, equal_centres, unevenness
from reproduction.methods import PAPER_METHODS, QUICK


def test_unevenness_by_hand():
    counts = np.array([[6, 2, 0], [2, 2, 0]])  # an empty cluster counts nowhere
    values = unevenness(counts)
    share = np.array([2 / 8, 2 / 4])
    np.testing.assert_allclose(values["shares"], 100 * share)
    assert values["in cluster"] == pytest.approx(100 * share.std())
    around = share - 1 / 3
    assert values["by size"] == pytest.approx(100 * np.sqrt(around**2 @ [8 / 12, 4 / 12]))
    assert values["in class"] == pytest.approx(0.0)
    assert values["between classes"] == pytest.approx(100 * np.std([0.5 - 0.75, 0.5 - 0.25]))


def test_equal_clusters_are_unmeasurable_and_separate_ones_are_extreme():
    rng = np.random.default_rng(0)
    z = np.arange(400) % 2
    rows = rng.normal(size=(400, 2))
    apart = rows + 40.0 * z[:, None]
    values = cluster(Setup(k=2), apart, apart, z, 0)
    assert values["in cluster"] == pytest.approx(50.0)
    assert values["by size"] == pytest.approx(50.0)
    assert values["distance"] < 0.02
    assert cluster(Setup(k=2), rows, rows, z, 0)["in cluster"] < 10.0


def test_score_is_in_units_of_the_scaled_components():
    rows = np.random.default_rng(1).normal(size=(300, 2))
    z = np.arange(300) % 2
    once, stretched = (cluster(Setup(), X, X, z, 0) for X in (rows, rows * [3.0, 0.2]))
    assert once["distance"] == pytest.approx(stretched["distance"])
    assert once["variance"] == pytest.approx(2.0)
    raw = Setup(scaled=False)
    assert cluster(raw, 10 * rows, 10 * rows, z, 0)["distance"] > 10 * once["distance"]


def test_centres_come_from_the_rows_that_are_named():
    rng = np.random.default_rng(2)
    train, test, z = rng.normal(size=(500, 2)), rng.normal(size=(60, 2)), np.arange(60) % 2
    own = cluster(Setup(), train, test, z, 0)["distance"]
    held_out = cluster(Setup(centres="training rows"), train, test, z, 0)["distance"]
    assert own < held_out  # centres of the rows that are measured are nearer


def test_equal_sizes():
    rows = np.random.default_rng(3).normal(size=(100, 2)) ** 3
    centres = equal_centres(rows, 4, 0)
    assert centres.shape == (4, 2)
    # Every row is in one of four clusters of 25, so the centres average to the mean of the rows.
    np.testing.assert_allclose(centres.mean(axis=0), rows.mean(axis=0))


def test_few_distinct_rows_make_few_clusters():
    rows = np.repeat([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], 10, axis=0)
    assert cluster(Setup(), rows, rows, np.arange(30) % 2, 0)["k"] == 3


@pytest.fixture
def fits(toy, monkeypatch, tmp_path):
    """A search on toy data whose printed values were made by one of the definitions."""
    truth = Candidate(Setup(k=5), "relative", "in cluster", "as it is")
    names = clusters.READABLE[:6]
    rng = np.random.default_rng(0)
    part = clusters.make_split("any", 0)
    rows = []
    for name in names:
        z = np.where(rng.uniform(size=len(part.z_test)) < 0.5 * rng.uniform(), part.z_test, 0)
        z[:5] = [0, 1, 0, 1, 0]
        changed = clusters.Split(part.train, part.test, part.z_train, z, part.y_train, part.y_test)
        monkeypatch.setattr(clusters, "make_split", lambda *a, p=changed: p)
        rows += clusters.search(name, QUICK, lambda function: function)
    frame = pd.DataFrame(rows, columns=list(clusters.DEFINITION_COLUMNS))
    frame.to_csv(tmp_path / "definitions.csv", index=False)
    mine = frame
    for field, value in vars(truth.setup).items():
        mine = mine[mine[field] == value]
    wide = mine.pivot(index=["dataset", "method"], columns="measure", values="value")
    values = {}
    for (name, method), row in wide.iterrows():
        values[name, method, "score"] = row["distance"] / row["variance"]
        values[name, method, "std"] = row["in cluster"]
    monkeypatch.setattr(clusters, "printed", lambda table: values)
    return Fits.read(tmp_path / "definitions.csv"), truth


@pytest.mark.slow
def test_search_finds_the_definition_that_was_hidden(fits):
    fits, truth = fits
    place = fits.names.index(truth)
    assert fits.fit()[place] == pytest.approx(0.0, abs=1e-12)
    assert fits.fit().argmin() == place
    cells = 6 * len(PAPER_METHODS)
    assert fits.agreeing(place) == (cells, cells)
    assert len(fits.others()) == 5
    assert min(fits.others()) > 0.0  # rows of other sets fit worse
    chosen, held_out = fits.halves(20)
    assert set(chosen) == {place}
    assert max(held_out) < 1e-12


def test_table4_has_both_definitions(toy):
    where = {"dataset": "any", "definition": "released", "split": 0}
    rows = clusters.table4(**where, effort=QUICK, cache=lambda function: function)
    found = {(row["d"], row["method"], row["measure"]): row["value"] for row in rows}
    split = clusters.make_split("any", 0)
    V = clusters.fit_split(**where, d=2)["pca"]["basis"]
    simple = cluster(SIMPLE, split.train @ V, split.test @ V, split.z_test, 0)
    share = simple["distance"] / simple["variance"]
    assert found[2, "pca", "score_simple"] == pytest.approx(share)
    assert found[2, "pca", "std_simple"] == pytest.approx(simple["in cluster"])
    assert {measure for d, _, measure in found if d == 5} == {"score", "std", "std_stated"}
    assert found[2, "both", "std"] <= 25.0  # half of at most 50 points
