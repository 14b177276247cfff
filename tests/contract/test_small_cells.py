"""No file that the library writes holds a single person, unless it was asked for in words."""

import io
import json
import zipfile
from functools import partial

import numpy as np
import pandas as pd
import pytest
from support import run_command

from fairpca import DeltaFairPCA, FairPCA, GroupMoments, SparseFairPCA, load_model
from fairpca.exceptions import InvalidInputError, SmallGroupWarning
from fairpca.report import GroupLossDisplay, audit_report
from fairpca.rows import Rows

FEATURES = ["height", "pay", "score"]
PERSON = np.array([171.25, 123456.75, -3.125])


def table(n=200):
    """Rows of two groups, and one person in a third."""
    rng = np.random.default_rng(0)
    X = rng.normal([170.0, 5e4, 0.0], [9.0, 9e3, 1.0], size=(n, 3))
    X[-1] = PERSON
    frame = pd.DataFrame(X, columns=FEATURES)
    frame["group"] = [*rng.choice(["a", "b"], n - 1), "c"]
    return frame


def numbers_in(content):
    """Every number of a file: members of archives, JSON, and digits of any text."""
    found = []
    if content[:2] == b"PK":
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for name in archive.namelist():
                array = np.load(io.BytesIO(archive.read(name)), allow_pickle=False)
                if array.dtype.kind in "fi":
                    found.append(array.astype(float).ravel())
                else:
                    found.append(_of_json(json.loads(str(array))))
        return np.concatenate(found)
    text = content.decode(errors="replace")
    digits = "".join(mark if mark in "0123456789.-+e" else " " for mark in text).split()
    return np.array([float(word) for word in digits if _is_number(word)])


def _is_number(word):
    try:
        return np.isfinite(float(word))
    except ValueError:
        return False


def _of_json(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return np.concatenate([np.zeros(0), *map(_of_json, value)])
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return np.array([float(value)]) if is_number else np.zeros(0)


def holds_the_person(path, frame):
    """Try: the row itself, and what sums, differences and means of the other rows make of it."""
    values = numbers_in(path.read_bytes())
    X = frame[FEATURES].to_numpy()
    rest, whole = X[:-1].mean(axis=0), X.mean(axis=0)
    scale = X.std(axis=0)
    tries = [PERSON, PERSON - rest, PERSON - whole, (PERSON - rest) / scale]
    tries.append((PERSON - whole) / scale)
    close = [np.isclose(values[:, None], row, rtol=1e-7).any(axis=0).all() for row in tries]
    return any(close) or _from_components(path, rest)


def _from_components(path, rest):
    """The direction that p − 1 components leave is that of the gap: is its length written?"""
    if path.suffix == ".json":
        document = json.loads(path.read_text())
        components, scale = np.array(document["components"]), np.array(document["scale"])
        lengths = [entry["mean_gap_before"] for entry in document["contrasts"]]
    elif path.suffix == ".npz" and "fairpca.model" in str(np.load(path)["header"]):
        model = load_model(path)
        components, lengths = model.components_, model.contrasts_["mean_gap_before"]
        scale = np.ones(3) if model.scale_ is None else model.scale_
    else:
        return False
    left = np.linalg.svd(components)[2][-1] * scale
    tries = [rest + sign * left * (length or 0.0) for length in lengths for sign in (1, -1)]
    return len(components) == 2 and any(np.allclose(row, PERSON, rtol=1e-5) for row in tries)


def fitted(kind, frame, d=1, **options):
    return kind(d, **options).fit(frame[FEATURES], sensitive_features=frame["group"])


WRITERS = {}


def writer(function):
    WRITERS[function.__name__] = function
    return function


@writer
def model(frame, folder):
    return fitted(FairPCA, frame, standardize=True, min_group_size=2).save(folder / "m")


@writer
def model_of_means(frame, folder):
    lone = frame.assign(group=np.where(frame["group"] == "c", "c", "a"))
    return fitted(FairPCA, lone, 2, cov_weight=0.0, min_group_size=2).save(folder / "m")


@writer
def sparse_model(frame, folder):
    return fitted(SparseFairPCA, frame, n_nonzero=3, min_group_size=2).save(folder / "m")


@writer
def delta_model(frame, folder):
    known = frame[frame["group"] != "c"]
    fair = DeltaFairPCA(1, penalty=1.0).fit(known[FEATURES], sensitive_features=known["group"])
    return fair.save(folder / "m")


@writer
def fit_command(frame, folder):
    frame.to_csv(folder / "x.csv", index=False)
    words = ("-s", "group", "-d", 1, "--folds", 5, "--save", folder / "m.npz")
    run_command("fit", folder / "x.csv", *words)
    return folder / "m.npz"


@writer
def json_of_a_fit(frame, folder):
    lone = frame.assign(group=np.where(frame["group"] == "c", "c", "a"))
    lone.to_csv(folder / "x.csv", index=False)
    words = ("-s", "group", "--cov-weight", 0, "--folds", 5, "--json")
    result = run_command("fit", folder / "x.csv", *words)
    assert result.exit_code == 0
    (folder / "fit.json").write_text(result.stdout)
    return folder / "fit.json"


@writer
def page(frame, folder):
    rows = Rows.read(frame[FEATURES], frame["group"])
    model = FairPCA(1, standardize=True)
    written = audit_report(
        rows, model=model, effort="quick", adversaries=["linear"], families=["linear"]
    )
    written.to_html(folder / "page.html")
    written.to_markdown(folder / "card.md")
    (folder / "all.txt").write_text(written.json() + (folder / "card.md").read_text())
    return folder / "all.txt"


SLOW = pytest.param("page", marks=pytest.mark.slow)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*(name for name in WRITERS if name != "page"), SLOW])
def test_no_writer_writes_the_person(name, tmp_path):
    frame = table()
    assert not holds_the_person(WRITERS[name](frame, tmp_path), frame)


@pytest.mark.filterwarnings("ignore")
def test_the_attack_finds_the_person_where_moments_are_written_with_open_eyes(tmp_path):
    frame = table()
    moments = GroupMoments.from_arrays(frame[FEATURES], frame["group"])
    assert holds_the_person(moments.save(tmp_path / "m", min_rows=1), frame)
    fair = fitted(FairPCA, frame)
    assert holds_the_person(fair.save(tmp_path / "w", with_moments=True, min_rows=1), frame)
    lone = frame.assign(group=np.where(frame["group"] == "c", "c", "a"))
    fair = fitted(FairPCA, lone, 2, cov_weight=0.0, min_group_size=2)
    assert holds_the_person(fair.save(tmp_path / "g", min_rows=1), frame)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("how", ["moments", "model", "command"])
def test_every_writer_of_moments_refuses_a_small_cell_in_words(how, tmp_path):
    frame, path = table(), tmp_path / "m.npz"
    if how == "command":
        frame.to_csv(tmp_path / "x.csv", index=False)
        result = run_command("moments", tmp_path / "x.csv", "-s", "group", "--out", path)
        assert result.exit_code == 2
        assert "group=c (1 row)" in result.stderr
        assert "--merge-small or --min-rows 1" in result.stderr
    else:
        fair = fitted(FairPCA, frame)
        write = partial(fair.save, with_moments=True) if how == "model" else fair.moments_.save
        with pytest.raises(InvalidInputError, match=r"group=c \(1 row\).*min_rows=1"):
            write(path)
    assert not path.exists()


@pytest.mark.filterwarnings("ignore")
def test_small_cells_can_be_added_to_another_which_the_fit_says(tmp_path):
    frame = table()
    frame.loc[:14, "group"] = ["d"] * 7 + ["e"] * 8
    moments = GroupMoments.from_arrays(frame[FEATURES], frame["group"])
    again = GroupMoments.load(moments.save(tmp_path / "m", merge_small=True))
    assert again.counts("group")["other"] == 16
    assert again.merged == ("group=c", "group=d", "group=e")
    np.testing.assert_allclose(again.pooled().covariance, moments.pooled().covariance)
    with pytest.warns(SmallGroupWarning, match=r"added to 'other'.*group=c; group=d"):
        FairPCA(1, cov_weight=0.0).fit_moments(again)


def test_a_lone_cell_merged_is_still_small(tmp_path):
    moments = GroupMoments.from_arrays(table()[FEATURES], table()["group"])
    with pytest.raises(InvalidInputError, match=r"group=other \(1 row\).*coarser"):
        moments.save(tmp_path / "m", merge_small=True)


def test_a_rare_value_is_a_person_too(tmp_path):
    frame = table().assign(group=np.arange(200) % 2, town=0.0)
    frame.loc[199, "town"] = 1.0
    moments = GroupMoments.from_arrays(frame[[*FEATURES, "town"]], frame["group"])
    cell = moments.table.cells[(1,)]
    person = cell.mean[:3] + cell.scatter[3, :3] / (cell.mean[3] * cell.n_rows)
    np.testing.assert_allclose(person, PERSON)  # the attack
    with pytest.raises(InvalidInputError, match=r"'town' \(1 of 100 rows of group=1\)"):
        moments.save(tmp_path / "m")


def weighted(frame, column, weight=2000.0):
    """Moments in which the last row has nearly all the weight."""
    weights = np.where(np.arange(200) < 199, 1.0, weight)
    return GroupMoments.from_arrays(frame[column], frame["group"], None, weights)


def test_a_row_that_outweighs_all_others_is_a_person_too(tmp_path):
    frame = table().assign(group=np.arange(200) % 2)
    heavy = weighted(frame, FEATURES, 1e12)
    np.testing.assert_allclose(heavy.table.cells[(1,)].mean, PERSON, rtol=1e-6)  # the attack
    with pytest.raises(InvalidInputError, match=r"group=1 \(100 rows, one with 100 % of the"):
        heavy.save(tmp_path / "m")
    again = GroupMoments.load(weighted(frame, FEATURES, 5.0).save(tmp_path / "m"))
    assert [cell.heaviest for cell in again.table.cells.values()] == [1.0, 5.0]
    both = again + heavy
    assert both.table.cells[(1,)].heaviest == 1e12
    with pytest.raises(InvalidInputError, match="of the weight"):
        both.save(tmp_path / "m")


def test_weights_do_not_hide_a_rare_value(tmp_path):
    frame = table().assign(group=np.arange(200) % 2, town=0.0)
    frame.loc[199, "town"] = 1.0
    moments = weighted(frame, [*FEATURES, "town"], 10.0)  # as if ten rows of 109
    with pytest.raises(InvalidInputError, match=r"'town' \(at least 1 of 100 rows of group=1"):
        moments.save(tmp_path / "m")


def test_a_rare_number_of_the_attribute_is_a_person_too(tmp_path):
    frame = table().assign(ill=np.arange(200) == 199)
    moments = GroupMoments.from_arrays(
        frame[FEATURES], frame[["ill"]].astype(float), numeric=["ill"]
    )
    with pytest.raises(InvalidInputError, match=r"'ill' \(1 of 200 rows of all rows\)"):
        moments.save(tmp_path / "m")


@pytest.mark.filterwarnings("ignore")
def test_what_a_small_group_keeps_is_not_written(tmp_path):
    frame = table()
    frame.loc[:1, "group"] = "d"
    fair = fitted(FairPCA, frame, objective="worst-loss")
    kept = load_model(fair.save(tmp_path / "m")).group_variance_
    assert kept["n_rows"] == fair.group_variance_["n_rows"]
    for name in ("total", "variance", "best", "loss"):
        assert [value is None for value in kept[name]] == [False, False, True, True]
    frame.to_csv(tmp_path / "x.csv", index=False)
    words = ("fit", tmp_path / "x.csv", "-s", "group", "-d", 1, "--objective", "worst-loss")
    groups = json.loads(run_command(*words, "--json").stdout)["groups"]
    assert [entry["loss"] is None for entry in groups] == [False, False, True, True]
    shown = " ".join(run_command(*words).stdout.split("Gaps in all")[0].split())
    assert shown.count("nearly single persons") == 2


def test_a_value_that_is_missing_once_is_a_person_too(tmp_path):
    frame = table().assign(group=np.arange(200) % 2)
    frame.loc[199, "pay"] = np.nan
    moments = GroupMoments.from_incomplete(Rows.attach(frame[FEATURES].to_numpy(), frame["group"]))
    with pytest.raises(InvalidInputError, match=r"'missing x1' \(1 of 100"):
        moments.save(tmp_path / "m")


@pytest.mark.filterwarnings("ignore")
def test_nothing_shows_a_small_group_without_saying_so(tmp_path):
    frame = table()
    moments = GroupMoments.from_arrays(frame[FEATURES], frame["group"])
    assert "1 cell with fewer than 10 rows" in repr(moments)
    shown = moments.contrasts(min_group_size=2).as_table(np.eye(3))._repr_html_()
    assert "1 with a group of fewer than 10 rows: nearly persons" in shown
    frame.to_csv(tmp_path / "x.csv", index=False)
    shown = run_command("fit", tmp_path / "x.csv", "-s", "group", "-d", 1).stdout
    assert "nearly single persons" in " ".join(shown.split())


@pytest.mark.parametrize("min_rows", [0, 2.5, True, None])
def test_min_rows_is_a_count(min_rows, tmp_path):
    moments = GroupMoments.from_arrays(table()[FEATURES], table()["group"])
    with pytest.raises(InvalidInputError, match="min_rows="):
        moments.save(tmp_path / "m", min_rows=min_rows)


@pytest.mark.filterwarnings("ignore")
def test_what_needs_moments_says_so_after_loading(tmp_path):
    again = load_model(fitted(FairPCA, table(), objective="worst-loss").save(tmp_path / "m"))
    for what in (again.expected_gaps, lambda: GroupLossDisplay.from_estimator(again)):
        with pytest.raises(InvalidInputError, match=r"without its moments.*with_moments=True"):
            what()
