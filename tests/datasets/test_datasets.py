"""Registry, search order, checksums, OpenML and synthetic data; no data files needed."""

import gzip
import hashlib
import sys
from dataclasses import FrozenInstanceError, replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from fairpca.datasets import _registry as registry_module
from fairpca.datasets import (
    data_folders,
    dataset_info,
    list_datasets,
    load_dataset,
    make_two_gaussians,
)
from fairpca.datasets._load import content_digest, fetch_frame
from fairpca.exceptions import InvalidInputError

COIN_FLIPS = {
    "ecoli": "gvh",
    "image_segmentation": "exred",
    "letter_recognition": "Height",
    "magic": "fDist",
    "skillcraft": "LeagueIndex",
    "statlog_landsat": "Column18",
    "steel_plates": "steelTypeA300?",
}


@pytest.fixture
def empty_folders(monkeypatch, tmp_path):
    """No data anywhere: both folders are empty."""
    monkeypatch.setenv("FAIRPCA_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("FAIRPCA_HOME", str(tmp_path / "home"))
    return tmp_path


def write_tiny(folder, info, frame):
    """Write a frame as the file of a registry entry and return the entry with its checksum."""
    path = folder / info.file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(frame.to_csv(index=False).encode(), mtime=0))
    return replace(info, rows=len(frame), sha256=hashlib.sha256(path.read_bytes()).hexdigest())


def tiny_frame(info, n=6):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(n, len(info.columns))), columns=list(info.columns))
    for column in (info.target, *info.sensitive):
        frame[column] = np.arange(n) % 2
    return frame


@pytest.fixture
def tiny_magic(empty_folders, monkeypatch):
    """A tiny stand-in for magic under FAIRPCA_DATA."""
    info = dataset_info("magic")
    frame = tiny_frame(info)
    entry = write_tiny(empty_folders / "data", info, frame)
    known = {**registry_module.registry(), "magic": entry}
    monkeypatch.setattr(registry_module, "registry", lambda: known)
    return entry, frame


def test_every_entry_is_complete():
    statuses = list_datasets()
    assert len(statuses) == 22
    for status in statuses:
        info = status.info
        assert len(info.sha256) == 64
        assert len(set(info.columns)) == len(info.columns)
        assert set(info.sensitive) | set(info.other) <= set(info.columns)
        assert info.target is None or info.target in info.columns
        assert set(info.meaning) == {*info.sensitive, *([info.target] if info.target else [])}
        assert info.features
        assert info.licence
        assert info.source
        assert info.notes
        for text in (info.title, info.licence, info.source, *info.notes):
            assert text in info.description


@pytest.mark.parametrize(("name", "column"), COIN_FLIPS.items())
def test_coin_flip_labels_have_a_documented_alternative(name, column):
    info = dataset_info(name)
    assert "coin flip" in info.meaning["DummyMain"]
    (option,) = info.targets
    assert option.column == column
    assert option.column in info.features


def test_openml_columns_cover_the_file():
    for status in list_datasets():
        source = status.info.openml
        if source is not None:
            assert set(source.columns) | set(source.absent) == set(status.info.columns)
            assert set(source.rules) <= set(source.columns)


def test_unknown_name_suggests_others():
    with pytest.raises(InvalidInputError, match="Did you mean wine_quality"):
        dataset_info("wine")
    with pytest.raises(InvalidInputError, match="list_datasets"):
        load_dataset("xyzzy")


def test_folders_in_order(monkeypatch, tmp_path):
    monkeypatch.setenv("FAIRPCA_DATA", str(tmp_path / "a"))
    monkeypatch.delenv("FAIRPCA_HOME", raising=False)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "b"))
    assert data_folders() == (tmp_path / "a", tmp_path / "b" / "fairpca")
    assert not (tmp_path / "b").exists()
    monkeypatch.setenv("FAIRPCA_HOME", str(tmp_path / "c"))
    assert data_folders() == (tmp_path / "a", tmp_path / "c")


def test_missing_file_says_where_to_put_it(empty_folders):
    info = dataset_info("wine_quality")
    with pytest.raises(FileNotFoundError) as caught:
        load_dataset("wine_quality")
    for part in (info.file, info.sha256, "FAIRPCA_DATA", str(empty_folders / "home")):
        assert part in str(caught.value)
    assert not any(status.present for status in list_datasets())


def test_loads_and_splits_columns(tiny_magic):
    _, frame = tiny_magic
    magic = load_dataset("magic")
    assert list(magic.data.columns) == list(frame.columns[:10])
    np.testing.assert_array_equal(magic.target, frame["DummyMain"])
    assert list(magic.sensitive_features.columns) == ["classIsGamma?"]
    assert magic.other.shape == (6, 0)
    assert "10 features" in repr(magic)
    with pytest.raises(FrozenInstanceError):
        magic.name = "other"


def test_alternative_label_leaves_the_features(tiny_magic):
    _, frame = tiny_magic
    magic = load_dataset("magic", target="fDist")
    assert magic.target.name == "fDist"
    assert set(magic.target) == {0, 1}
    np.testing.assert_array_equal(magic.target, frame["fDist"] > frame["fDist"].median())
    assert not {"fDist", "DummyMain"} & set(magic.data.columns)
    with pytest.raises(InvalidInputError, match="choose from"):
        load_dataset("magic", target="fSize")


def test_definition_as_printed(tiny_magic):
    magic = load_dataset("magic", definition="printed")
    assert magic.target.name == "classIsGamma?"
    assert list(magic.sensitive_features.columns) == ["fDist>173.5"]
    assert len(magic.data.columns) == 9
    assert not {"fDist", "DummyMain", "classIsGamma?"} & set(magic.data.columns)
    released = load_dataset("magic")
    expected = (released.data["fDist"] > 173.5).astype(int)
    np.testing.assert_array_equal(magic.sensitive_features["fDist>173.5"], expected)
    with pytest.raises(InvalidInputError, match="'released' or 'printed'"):
        load_dataset("magic", definition="other")
    with pytest.raises(InvalidInputError, match="leave target out"):
        load_dataset("magic", definition="printed", target="fDist")
    with pytest.raises(InvalidInputError, match="no definition 'printed'"):
        load_dataset("wine_quality", definition="printed")


def test_definitions_name_columns_of_the_file():
    readings = [(s.info, s.info.printed) for s in list_datasets() if s.info.printed is not None]
    assert len(readings) >= 6
    for info, reading in readings:
        assert {reading.sensitive, reading.target, *reading.left_out} <= set(info.columns)
        assert reading.sensitive != reading.target
        assert "DummyMain" not in {*info.columns} - {*reading.left_out}
        assert reading.evidence in info.description


def test_wrong_checksum_is_an_error(tiny_magic, empty_folders):
    entry, frame = tiny_magic
    frame.iloc[0, 0] += 1.0
    write_tiny(empty_folders / "data", entry, frame)
    with pytest.raises(InvalidInputError, match="SHA-256"):
        load_dataset("magic")


def test_home_is_searched_second(tiny_magic, empty_folders):
    entry, frame = tiny_magic
    (empty_folders / "data" / entry.file).unlink()
    write_tiny(empty_folders / "home", entry, frame)
    assert str(empty_folders / "home") in load_dataset("magic").origin


def test_pandas_is_asked_for_by_name(tiny_magic, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        load_dataset("magic")


def fake_pima(rows=768):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(rows, 9)), columns=[f"c{i}" for i in range(9)])
    frame["c0"] = rng.integers(0, 5, rows)
    frame["c8"] = pd.Categorical(rng.choice(["tested_positive", "tested_negative"], rows))
    return frame


def fetcher_of(frame):
    return lambda **kwargs: SimpleNamespace(frame=frame.copy())


def matching_pima(frame):
    """The entry of pima with the digest that this frame has after the rules."""
    info = dataset_info("pima_diabetes")
    ours = frame.set_axis(list(info.openml.columns), axis=1)
    ours["Pregnant>1"] = (ours["Pregnant>1"] > 1).astype(int)
    label = "Class.variable..0.or.1."
    ours[label] = (ours[label] == "tested_positive").astype(int)
    digest = content_digest(ours[list(info.columns)])
    return replace(info, openml=replace(info.openml, digest=digest))


def test_openml_is_rebuilt_in_our_form():
    frame = fake_pima()
    found = fetch_frame(matching_pima(frame), fetcher_of(frame.sample(frac=1.0, random_state=0)))
    assert list(found.columns) == list(dataset_info("pima_diabetes").columns)
    assert set(found["Pregnant>1"]) == set(found["Class.variable..0.or.1."]) == {0, 1}


def test_openml_mismatches_are_errors(empty_folders):
    with pytest.raises(InvalidInputError, match="shape"):
        load_dataset("pima_diabetes", fetcher=fetcher_of(fake_pima(700)))
    with pytest.raises(InvalidInputError, match="digest"):
        load_dataset("pima_diabetes", fetcher=fetcher_of(fake_pima()))


def test_openml_without_network_says_where_to_put_the_file(empty_folders):
    def offline(**kwargs):
        raise ConnectionError("offline")

    with pytest.raises(FileNotFoundError, match="could not be reached"):
        load_dataset("pima_diabetes", fetcher=offline)
    with pytest.raises(FileNotFoundError, match="switched off"):
        load_dataset("pima_diabetes", download=False, fetcher=offline)


def test_label_that_openml_does_not_have(empty_folders, monkeypatch):
    info = dataset_info("magic")
    frame = tiny_frame(info).drop(columns="DummyMain")
    frame["classIsGamma?"] = pd.Categorical(["g", "h", "g", "h", "g", "h"])
    ours = frame.assign(**{"classIsGamma?": [1, 0, 1, 0, 1, 0]})
    entry = replace(info, rows=6, openml=replace(info.openml, digest=content_digest(ours)))
    known = {**registry_module.registry(), "magic": entry}
    monkeypatch.setattr(registry_module, "registry", lambda: known)
    assert load_dataset("magic", target="fDist", fetcher=fetcher_of(frame)).origin == "openml:1120"
    with pytest.raises(InvalidInputError, match="pass target="):
        load_dataset("magic", fetcher=fetcher_of(frame))


def test_text_gaps_become_question_marks():
    info = dataset_info("adult_raw")
    frame = pd.DataFrame({"a": pd.Categorical(["x", None]), "b": [1.0, 2.0]})
    expected = pd.DataFrame({"a": ["x", "?"], "b": [1, 2]})
    source = replace(info.openml, columns=("a", "b"), rules={}, digest=content_digest(expected))
    entry = replace(info, columns=("a", "b"), rows=2, openml=source)
    assert fetch_frame(entry, fetcher_of(frame))["a"].tolist() == ["x", "?"]


def test_digest_ignores_order_and_number_types():
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    assert content_digest(frame) == content_digest(frame[::-1].astype({"a": float}))
    assert content_digest(frame) != content_digest(frame.assign(a=[2, 1]))


def test_two_gaussians_differ_in_mean_and_shape():
    X, z = make_two_gaussians(2000)
    again, _ = make_two_gaussians(2000, random_state=0)
    np.testing.assert_array_equal(X, again)
    first, second = X[z == 0], X[z == 1]
    assert np.linalg.norm(first.mean(0) - second.mean(0)) > 1.5
    assert np.linalg.norm(np.cov(first.T) - np.cov(second.T), 2) > 1.0
