"""The real files, where they are: shapes, shares and labels as their READMEs say."""

import os

import pytest

from fairpca.datasets import list_datasets, load_dataset

pytestmark = pytest.mark.skipif(
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
    "nhanes_all": (6863, 72, 0.3480),
    "nhanes_cycle1400": (6863, 70, 0.3480),
}


@pytest.mark.parametrize("name", SHARES)
def test_prepared_files(name):
    data = load_dataset(name, download=False)
    rows, features, share = SHARES[name]
    assert data.data.shape == (rows, features)
    assert data.sensitive_features.iloc[:, 0].mean() == pytest.approx(share, abs=1e-4)
    assert not data.data.isna().to_numpy().any()
    assert data.data.dtypes.map(lambda kind: kind.kind in "if").all()


@pytest.mark.parametrize("name", [status.name for status in list_datasets() if status.info.targets])
def test_alternative_labels_are_binary(name):
    for status in list_datasets():
        if status.name == name:
            for option in status.info.targets:
                label = load_dataset(name, target=option.name).target
                assert set(label) == {0, 1}


def test_raw_files_have_their_groups():
    adult = load_dataset("adult_raw").sensitive_features
    assert adult["sex"].value_counts().to_dict() == {"Male": 32650, "Female": 16192}
    assert load_dataset("compas_raw").target.sum() == 3251
    assert (load_dataset("german_raw").sensitive_features["A9"] == "A92").sum() == 310
    assert load_dataset("credit_raw").target.sum() == 6636


def test_filters_of_nhanes():
    everybody = load_dataset("nhanes_all")
    kept = everybody.other["kept_both_sexes"] == 1
    assert kept.sum() == 6365
    assert everybody.sensitive_features["over_40"][kept].mean() == pytest.approx(0.361, abs=5e-4)
