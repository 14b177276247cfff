"""Moments on disk: exact, without pickle, complete or not at all."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
from support import cell_arrays, rewrite_npz

from fairpca._files import DAMAGED
from fairpca.exceptions import InvalidInputError
from fairpca.moments import GroupMoments
from fairpca.moments._release import release
from fairpca.moments._storage import pack_moments, unpack_moments
from fairpca.rows import Rows


@pytest.fixture
def moments():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "text": ["ä", "x y", "ä", "x y"] * 5,
            "number": [1, 2, 2, 1] * 5,
            "flag": [True, False, False, False] * 5,
            "ratio": [0.1, 1 / 3, 0.1, 0.1] * 5,
            "age": rng.normal(size=20),
        }
    )
    X = pd.DataFrame(rng.normal(size=(20, 3)) + 1e8, columns=["a", "b", "c"])
    return GroupMoments.from_arrays(X, frame, pd.Series(["u", "v"] * 10, name="y"))


def test_what_is_loaded_is_what_was_saved(moments, tmp_path):
    again = GroupMoments.load(moments.save(tmp_path / "moments.npz", min_rows=1))
    assert again.feature_names == ("a", "b", "c")
    assert again.n_features == 3
    assert again.attributes == moments.attributes
    assert again.numeric_attributes == ("age",)
    assert again.controls == ("y",)
    assert list(again.table.cells) == list(moments.table.cells)
    for key, cell in moments.table.cells.items():
        twin = again.table.cells[key]
        assert (twin.n_rows, twin.weight) == (cell.n_rows, cell.weight)
        for name, array in cell_arrays(cell).items():
            np.testing.assert_array_equal(cell_arrays(twin)[name], array)
    for name in moments.categorical_attributes:
        ours, theirs = moments.levels(name), again.levels(name)
        assert [(type(v), v) for v in ours] == [(type(v), v) for v in theirs]


def test_loaded_moments_merge_on(moments, tmp_path):
    again = GroupMoments.load(moments.save(tmp_path / "moments.npz", min_rows=1))
    assert (again + moments).n_samples == 40


def test_empty_moments_survive(tmp_path):
    empty = GroupMoments.from_arrays(np.empty((0, 2)), [])
    again = GroupMoments.load(empty.save(tmp_path / "empty"))
    assert (again.n_features, again.n_samples, again.feature_names) == (2, 0, None)


def test_the_name_gets_npz_where_numpy_would_add_it(moments, tmp_path):
    assert moments.save(str(tmp_path / "plain"), min_rows=1) == tmp_path / "plain.npz"
    assert moments.save(tmp_path / "v1.2", min_rows=1) == tmp_path / "v1.2.npz"
    assert moments.save(tmp_path / "full.npz", min_rows=1) == tmp_path / "full.npz"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["full.npz", "plain.npz", "v1.2.npz"]


def test_an_earlier_file_is_replaced_whole(moments, tmp_path):
    path = moments.save(tmp_path / "moments.npz", min_rows=1)
    (moments + moments).save(path, min_rows=1)
    assert GroupMoments.load(path).n_samples == 40
    assert [p.name for p in tmp_path.iterdir()] == ["moments.npz"]


def test_a_failed_save_leaves_the_earlier_file_and_nothing_else(moments, tmp_path, monkeypatch):
    path = moments.save(tmp_path / "moments.npz", min_rows=1)
    before = path.read_bytes()

    def fail(file, **arrays):
        file.write(b"half a file")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(OSError, match="disk full"):
        (moments + moments).save(path, min_rows=1)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["moments.npz"]


def test_a_missing_file_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        GroupMoments.load(tmp_path / "nowhere.npz")


def write_text(path):
    path.write_text("sex,age\nf,30\n")


def write_nothing(path):
    path.write_bytes(b"")


def write_pickle(path):
    path.write_bytes(pickle.dumps({"a": 1}))


def write_array(path):
    with path.open("wb") as file:
        np.save(file, np.eye(2))


def write_other_npz(path):
    np.savez(path, a=np.eye(2))


def write_other_header(path):
    np.savez(path, header=np.array(json.dumps({"format": "something else"})))


def write_bare_header(path):
    np.savez(path, header=np.array("[1, 2]"))


@pytest.mark.parametrize(
    "write",
    [
        write_text,
        write_nothing,
        write_pickle,
        write_array,
        write_other_npz,
        write_other_header,
        write_bare_header,
    ],
)
def test_another_kind_of_file_is_refused(write, tmp_path):
    path = tmp_path / "other.npz"
    write(path)
    with pytest.raises(InvalidInputError, match=r"other\.npz' is not a file of moments"):
        GroupMoments.load(path)


def test_another_version_is_named(moments, tmp_path):
    path = moments.save(tmp_path / "moments.npz", min_rows=1)
    rewrite_npz(path, lambda header, _: header.update(version=99))
    with pytest.raises(InvalidInputError, match="format version 99, this fairpca reads version 1"):
        GroupMoments.load(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda header, _: header.update(n_features=4),
        lambda header, _: header.update(keys=[]),
        lambda _, arrays: arrays.pop("scatter"),
    ],
)
def test_contents_that_do_not_fit_together_are_refused(moments, tmp_path, change):
    path = moments.save(tmp_path / "moments.npz", min_rows=1)
    rewrite_npz(path, change)
    with pytest.raises(InvalidInputError, match="is damaged"):
        GroupMoments.load(path)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("mean", lambda v: v * np.nan, "mean holds"),
        ("weight", lambda v: -v, "without rows or weight"),
        ("n_rows", lambda v: 0 * v, "without rows or weight"),
        ("scatter", lambda v: -v, "negative sum of squares"),
        ("scatter", lambda v: v + np.triu(np.ones(v.shape[1:])), "not symmetric"),
        ("mean", lambda v: v.astype(np.float32), "mean holds"),
    ],
)
def test_sums_that_no_rows_can_have_are_refused(moments, tmp_path, name, values, message):
    path = moments.save(tmp_path / "moments.npz", min_rows=1)
    rewrite_npz(path, lambda _, arrays: arrays.update({name: values(arrays[name])}))
    with pytest.raises(InvalidInputError, match=f"is damaged.*{message}"):
        GroupMoments.load(path)


def test_a_cell_that_occurs_twice_is_refused(moments, tmp_path):
    path = moments.save(tmp_path / "moments.npz", min_rows=1)
    keys = [list(key) for key in moments.table.cells]
    rewrite_npz(path, lambda header, _: header.update(keys=[keys[0], *keys[:-1]]))
    with pytest.raises(InvalidInputError, match="a cell occurs twice"):
        GroupMoments.load(path)


def test_a_truncated_file_is_refused(moments, tmp_path):
    path = moments.save(tmp_path / "moments.npz", min_rows=1)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(InvalidInputError, match="is not a file of moments"):
        GroupMoments.load(path)


def every_kind():
    """Moments with all that a file can hold: targets, numbers, a span, missing values, noise."""
    rng = np.random.default_rng(1)
    X, holed = rng.normal(size=(60, 3)), rng.normal(size=(20, 140))
    z = pd.DataFrame({"g": np.repeat([0, 1], 30), "age": rng.normal(size=60)})
    y = pd.DataFrame({"score": rng.normal(size=60), "label": np.arange(60) % 3})
    y.loc[:29, "score"] = np.nan
    w, strata = rng.uniform(0.5, 2.0, 60), np.arange(60) % 2
    holed[3, 5] = holed[9, 100] = np.nan
    known = {"groups": ["a", "b"], "center": np.zeros(3), "scale": np.ones(3)}
    names = np.array(["a", "b"])[z["g"]]
    return {
        "plain": GroupMoments.from_arrays(X, z, strata, w, y=y),
        "small": release(
            GroupMoments.from_arrays(X, np.r_[[2, 2, 2, 3, 3, 3], z["g"][6:]]), 5, merge_small=True
        ),
        "wide": GroupMoments.from_incomplete(Rows.attach(holed, names[::3])),
        "private": GroupMoments.privatized(X, names, epsilon=1.0, random_state=0, **known),
    }


@pytest.mark.parametrize("kind", ["plain", "small", "wide", "private"])
def test_each_number_of_a_file_is_read_or_refused(kind):
    def read(header, arrays):
        return unpack_moments(json.loads(json.dumps(header)), dict(arrays))

    header, arrays = pack_moments(every_kind()[kind])
    same_header, same = pack_moments(read(header, arrays))
    assert json.dumps(header) == json.dumps(same_header)
    assert arrays.keys() == same.keys()
    for name, values in arrays.items():
        np.testing.assert_array_equal(values, same[name])
        changes = [np.concatenate([values, values[:1]]), values[:-1], values.reshape(-1)[:-1]]
        if values.dtype == float and values.size:
            for bad in (np.nan, np.inf):
                changes.append(values.copy())
                changes[-1].flat[-1] = bad
        for changed in changes if values.size else []:
            with pytest.raises(DAMAGED):
                read(header, arrays | {name: changed})
        with pytest.raises(DAMAGED):
            read(header, {other: some for other, some in arrays.items() if other != name})
    for name, change in {
        "n_features": header["n_features"] + 1,
        "keys": header["keys"][:-1],
        "feature_names": ["one"],
        "controls": ["one", "more"],
        "numeric": ["unknown"],
        "origins": ["one"],
        "noise": [1.0, 1.0],
        "targets": [["score", None], ["score", None]],
    }.items():
        with pytest.raises(DAMAGED):
            read(header | {name: change}, arrays)
