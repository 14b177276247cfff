"""Units: rows of one person stay together wherever rows are drawn, halved or folded."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from fairpca import FairPCA
from fairpca.exceptions import InvalidInputError, UnitsWarning
from fairpca.metrics import audit
from fairpca.rows import Rows
from fairpca.rows._containers import split_named
from fairpca.rows._identifiers import suggests_units

LABELS = {
    "text": lambda unit: np.array([f"p{u}" for u in unit], dtype=object),
    "int": lambda unit: unit,
    "float": lambda unit: unit.astype(float),
    "fraction": lambda unit: unit + 0.5,
    "category": lambda unit: pd.Series(unit.astype(str)).astype("category"),
    "polars": lambda unit: pl.Series(unit),
    "list": lambda unit: unit.tolist(),
}


@pytest.fixture
def people():
    """Rows of 60 people with 1 to 12 rows; the group and the stratum belong to the person."""
    rng = np.random.default_rng(5)
    unit = np.repeat(np.arange(60) * 7 + 3, rng.integers(1, 13, 60))
    rng.shuffle(unit)
    X = rng.normal(size=(len(unit), 3))
    return X, (unit // 7) % 3, (unit // 7) % 2, unit


def together(units, *parts):
    """Tell whether no unit is in two parts."""
    seen = [set(units[part]) for part in parts]
    return all(not a & b for i, a in enumerate(seen) for b in seen[:i])


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_every_kind_are_units(people, kind):
    X, z, s, unit = people
    rows = Rows.read(X, z, s, units=LABELS[kind](unit))
    assert rows.units.dtype == np.intp
    assert rows.n_units == 60
    assert len(set(zip(rows.units.tolist(), unit.tolist(), strict=True))) == 60
    assert rows.units.min() == 0
    assert rows.units.max() == 59
    folds = rows.folds(5)
    assert together(unit, *(np.flatnonzero(folds == k) for k in range(5)))


def test_units_go_along(people):
    X, z, s, unit = people
    weights = (np.arange(len(X)) % 4).astype(float)
    rows = Rows.read_dense(X, z, s, weights, units=unit)
    codes = rows.units
    some = np.array([8, 3, 3, 40])
    assert rows.take(some).units.tolist() == codes[some].tolist()
    assert rows.with_features(X[:, :1]).units is codes
    assert rows.counted().units.tolist() == codes[weights > 0].tolist()
    unknown = np.where(unit == unit[0], None, z.astype(str))
    known = Rows.read(X, unknown, units=unit, unknown="(unknown)").of_known_group()
    assert known.n_units == 59
    assert Rows.read_dense(rows).units is codes
    with pytest.raises(InvalidInputError, match=r"leave out \['units'\]"):
        Rows.read_dense(rows, units=unit)
    assert Rows.read(X, z).units is None
    assert Rows.read(X, z).n_units == len(X)


def test_folds_follow_from_labels_in_every_order_and_batch(people):
    X, z, s, unit = people
    rows = Rows.read(X, z, s, units=unit)
    folds = rows.folds(4)
    order = np.random.default_rng(0).permutation(len(X))
    assert (rows.take(order).folds(4) == folds[order]).all()
    assert (Rows.read(-X[order], z[order], units=unit[order]).folds(4) == folds[order]).all()
    batches = [slice(start, start + 9) for start in range(0, len(X), 9)]
    parts = [Rows.read(X[b], z[b], s[b], units=unit[b]).folds(4) for b in batches]
    assert (np.concatenate(parts) == folds).all()


@pytest.mark.parametrize("kind", ["text", "int", "fraction"])
def test_units_spread_evenly_over_folds(kind):
    unit = np.arange(20_000)
    rows = Rows.read(np.zeros((len(unit), 1)), unit % 2, units=LABELS[kind](unit))
    counts = np.bincount(rows.folds(5))
    assert np.abs(counts - 4000).max() < 5 * np.sqrt(4000)


def test_halves_hold_whole_units_of_every_cell(people):
    X, z, s, unit = people
    rows = Rows.read(X, z, s, units=unit)
    cells = rows.cells()
    for seed in range(5):
        first, second = rows.halves(seed)
        assert together(unit, first, second)
        assert np.array_equal(np.sort(np.r_[first, second]), np.arange(len(X)))
        for cell in range(cells.max() + 1):
            count = [len(set(unit[half[cells[half] == cell]])) for half in (first, second)]
            assert abs(count[0] - count[1]) <= 1
    assert not np.array_equal(rows.halves(0)[0], rows.halves(1)[0])


@pytest.mark.parametrize("balanced", [False, True])
def test_whole_units_are_drawn(people, balanced):
    X, z, s, unit = people
    rows = Rows.read(X, z, s, units=unit)
    drawn = rows.draw(150, 1, balanced=balanced)
    rest = np.setdiff1d(np.arange(len(X)), drawn)
    assert together(unit, drawn, rest)
    assert 100 < len(drawn) <= 150
    assert (np.diff(drawn) > 0).all()
    per_cell = np.bincount(rows.cells()[drawn])
    assert (per_cell > 0).all()
    if balanced:
        assert per_cell.max() <= 25  # a sixth of 150
    assert len(rows.draw(1, 1, balanced=balanced)) >= 6  # a unit of each of six cells
    assert len(rows.draw(len(X), 1, balanced=balanced)) == len(X)
    seen = {u for seed in range(40) for u in unit[rows.draw(150, seed, balanced=balanced)]}
    assert len(seen) == 60


def test_no_cell_of_a_unit_that_changes_cells_vanishes():
    unit = np.repeat(np.arange(30), 4)
    z = np.zeros(120, dtype=int)
    z[[3, 7]] = 1  # the last rows of two people
    rows = Rows.read(np.arange(120.0)[:, None], z, units=unit)
    for seed in range(10):
        drawn = rows.draw(20, seed)
        assert z[drawn].any()
        assert together(unit, drawn, np.setdiff1d(np.arange(120), drawn))
        sample = rows.sample(20, seed)
        assert sample.weight == pytest.approx(120)


def test_units_are_refused_by_name(people):
    X, z, _, unit = people
    missing = pd.Series(unit, name="person_id").astype(object)
    missing[[2, 5]] = None
    for values, message in (
        (missing, "units column 'person_id' has 2 missing values"),
        (np.where(unit == 3, np.nan, unit), "'unit' has .* missing"),
        (unit[:-1], f"units has {len(X) - 1} rows but X has {len(X)}"),
        (np.c_[unit, unit], "units has 2 columns"),
        ([[1], [2, 3]], "units column .* holds values of type"),
    ):
        with pytest.raises(InvalidInputError, match=message) as refusal:
            Rows.read(X, z, units=values)
        assert refusal.value.parameter == "units"


def test_units_are_named_like_groups(people):
    X, z, _, unit = people
    frame = pd.DataFrame(X, columns=list("abc")).assign(person_id=unit, g=z)
    for table in (frame, pl.from_pandas(frame)):
        parts = {"sensitive_features": "g", "units": "person_id"}
        features, columns, taken = split_named(table, parts)
        assert list(features.columns) == list("abc")
        assert list(columns["units"]) == unit.tolist()
        assert taken == ("g", "person_id")
    with pytest.raises(InvalidInputError, match="units names") as refusal:
        split_named(frame, {"units": ["a", "b"]})
    assert refusal.value.parameter == "units"
    with pytest.raises(InvalidInputError, match="Did you mean 'person_id'"):
        split_named(frame, {"units": "person"})
    with pytest.raises(InvalidInputError, match="sensitive and unit columns"):
        split_named(frame, {"sensitive_features": "g", "units": "g"})


def persons(n=41, rows=30, seed=0):
    """Labels of persons in any order of rows, the group of each, and an age."""
    rng = np.random.default_rng(seed)
    person = rng.permutation(np.repeat(np.arange(n), rows))
    group = rng.integers(0, 2, n)[person]
    return person, group, rng.integers(18, 80, n)[person]


class TestSuggestions:
    @pytest.mark.parametrize(
        "labels", [np.asarray, lambda p: np.array([f"p{k}" for k in p], object)]
    )
    def test_persons_are_told_by_their_values(self, labels):
        person, group, _ = persons()
        assert suggests_units(labels(person), group)

    def test_ordinary_columns_are_not(self):
        person, group, _ = persons()
        rng = np.random.default_rng(1)
        assert not suggests_units(rng.integers(0, 41, len(person)), group)  # a category
        assert not suggests_units(np.arange(len(person)), group)  # a number of the row
        assert not suggests_units(person % 9, group)  # few values
        # A rare group is missing from most values of any column.
        rare = np.zeros(len(person), dtype=int)
        rare[:3] = 1
        assert not suggests_units(np.arange(len(person)) // 3, rare)

    def test_a_number_that_groups_were_cut_from_names_nobody(self):
        age = np.random.default_rng(0).integers(18, 80, 2000)
        groups = np.digitize(age, [25, 45])
        assert not suggests_units(age, groups)
        assert suggests_units(np.random.default_rng(1).permutation(100)[age], groups)

    def test_another_name_of_the_groups_names_nobody(self):
        groups = np.random.default_rng(0).integers(0, 12, 1000)
        assert not suggests_units(np.random.default_rng(1).permutation(12)[groups], groups)

    def test_a_telling_name_needs_repeated_values_only(self):
        mixed = np.arange(600) % 20
        assert suggests_units(mixed, np.arange(600) % 3, by_name=True)
        assert not suggests_units(np.arange(600), np.arange(600) % 3, by_name=True)


class TestWarning:
    def test_an_index_of_persons(self):
        person, group, _ = persons()
        X = np.random.default_rng(0).normal(size=(len(person), 3))
        frame = pd.DataFrame(X, index=pd.Index(person, name="p"), columns=list("abc"))
        with pytest.warns(UnitsWarning, match=r"index of X has 41 values in 1,230 rows.*units=X"):
            FairPCA(1, cov_weight=0).fit(frame, sensitive_features=group)
        with pytest.warns(UnitsWarning, match="index of X"):
            audit(frame, group, families=(), adversaries=(), effort="quick")
        waves = frame.set_index([frame.index, np.arange(len(person)) % 4])
        with pytest.warns(UnitsWarning, match=r"get_level_values\(0\)"):
            FairPCA(1, cov_weight=0).fit(waves, sensitive_features=group)

    def test_a_feature_of_persons(self):
        person, group, _ = persons()
        X = np.random.default_rng(0).normal(size=(len(person), 2))
        frame = pd.DataFrame(X, columns=list("ab")).assign(code=person)
        with pytest.warns(UnitsWarning, match=r"feature 'code' has 41 values.*units='code' keeps"):
            FairPCA(1, standardize=True).fit(frame, sensitive_features=group)

    def test_none_with_units_or_for_frames_put_below_each_other(self):
        person, group, age = persons()
        X = np.random.default_rng(0).normal(size=(len(person), 2))
        frame = pd.DataFrame(X, columns=list("ab"), index=person)
        FairPCA(1, cov_weight=0).fit(frame, sensitive_features=group, units=person)
        stacked = pd.DataFrame(X, columns=list("ab"), index=np.arange(len(person)) % 410)
        model = FairPCA(1, cov_weight=0, standardize=True)
        model.fit(stacked.assign(age=age), sensitive_features=person % 2)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.25, 0.5, 1.0])
def test_about_the_share_of_the_rows_is_held_out(share):
    X = np.random.default_rng(3).normal(size=(4000, 2))
    marked = Rows(X).held_out(share)
    assert abs(marked.mean() - share) <= 4.0 * np.sqrt(share * (1.0 - share) / len(X))
