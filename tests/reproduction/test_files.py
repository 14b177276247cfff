"""The registry of the paper's data sets, and the real files where they are."""

import gzip
import hashlib
import os

import numpy as np
import pandas as pd
import pytest

from reproduction import datasets
from reproduction.datasets import definitions, describe, load_dataset, registry

needs_data = pytest.mark.skipif(
    not os.environ.get("FAIRPCA_DATA"), reason="FAIRPCA_DATA is not set"
)

SHARES = {  # rows, features, share of z = 1
    "adult": (32561, 58, 0.6692),
    "biodeg": (1055, 40, 0.3374),
    "ecoli": (333, 7, 0.4204),
    "energy": (768, 8, 0.5000),
    "german_credit": (1000, 49, 0.7010),
    "image_segmentation": (660, 19, 0.5000),
    "letter_recognition": (20000, 16, 0.2332),
    "magic": (19020, 10, 0.6484),
    "pima_diabetes": (768, 7, 0.6797),
    "recidivism": (5278, 6, 0.6016),
    "skillcraft": (3338, 18, 0.5515),
    "statlog_landsat": (3071, 36, 0.3491),
    "steel_plates": (1941, 26, 0.3467),
    "taiwanese_credit": (29623, 22, 0.6036),
    "wine_quality": (6497, 11, 0.7539),
    "nhanes_women": (2824, 72, 0.4033),
    "nhanes_cycle1400": (6863, 70, 0.3480),
}


@needs_data
@pytest.mark.parametrize("name", SHARES)
def test_prepared_files(name):
    rows, features, share = SHARES[name]
    assert registry()[name]["rows"] == rows
    for definition in definitions(name):
        data = load_dataset(name, definition)
        assert data.data.shape[0] == rows
        assert not data.data.isna().to_numpy().any()
        assert data.data.dtypes.map(lambda kind: kind.kind in "if").all()
        if data.target is not None:
            assert set(data.target) == {0, 1}
        if definition == "released":
            assert data.data.shape[1] == features
            assert data.sensitive_features.iloc[:, 0].mean() == pytest.approx(share, abs=1e-4)
        else:
            assert data.sensitive_features.shape[1] == 1
            assert set(data.sensitive_features.iloc[:, 0]) == {0, 1}


def test_every_entry_is_complete():
    assert set(registry()) == set(SHARES)
    assert len([name for name in registry() if len(definitions(name)) == 2]) >= 6
    for name, entry in registry().items():
        assert len(entry["sha256"]) == 64
        target = [entry["target"]] if "target" in entry else []
        assert set(entry["meaning"]) == {*entry["sensitive"], *target}
        for text in (entry["title"], entry["licence"], *entry["notes"]):
            assert text in describe(name)
        if "printed" in entry:
            assert entry["printed"]["evidence"] in describe(name)


@pytest.fixture
def tiny_magic(tmp_path, monkeypatch):
    """A tiny file of magic below FAIRPCA_DATA, and its frame."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(6, 3)), columns=["fDist", '"fSize"', "fWidth"])
    frame["fDist"] *= 300.0
    frame["DummyMain"], frame["classIsGamma?"] = [0, 1] * 3, [1, 0] * 3
    content = gzip.compress(frame.to_csv(index=False).encode(), mtime=0)
    (tmp_path / "uci").mkdir()
    (tmp_path / "uci" / "magic.csv.gz").write_bytes(content)
    entry = {**registry()["magic"], "sha256": hashlib.sha256(content).hexdigest()}
    monkeypatch.setenv("FAIRPCA_DATA", str(tmp_path))
    monkeypatch.setattr(datasets, "registry", lambda: {"magic": entry})
    return frame.rename(columns={'"fSize"': "fSize"})


def test_a_file_as_released_and_as_printed(tiny_magic):
    released = load_dataset("magic")
    assert released.feature_names == ["fDist", "fSize", "fWidth"]
    np.testing.assert_array_equal(released.target, tiny_magic["DummyMain"])
    assert list(released.sensitive_features.columns) == ["classIsGamma?"]
    printed = load_dataset("magic", "printed")
    assert printed.feature_names == ["fSize", "fWidth"]
    np.testing.assert_array_equal(printed.target, tiny_magic["classIsGamma?"])
    expected = (tiny_magic["fDist"] > 173.5).astype(int)
    assert 0 < expected.sum() < 6
    np.testing.assert_array_equal(printed.sensitive_features["fDist>173.5"], expected)


def test_a_changed_file_is_refused_and_a_missing_one_named(tiny_magic, tmp_path):
    path = tmp_path / "uci" / "magic.csv.gz"
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(ValueError, match="SHA-256"):
        load_dataset("magic")
    path.unlink()
    with pytest.raises(FileNotFoundError, match="uci/magic"):
        load_dataset("magic")
