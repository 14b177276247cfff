"""Embedded, generated and fetched data; without network, the fetchers read stand-ins."""

import gzip
import hashlib
import io
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes
from sklearn.utils import Bunch

from fairpca import FairPCA
from fairpca.datasets import _published as datasets
from fairpca.datasets import (
    fetch_adult,
    fetch_compas,
    fetch_german,
    load_diabetes_sex,
    make_census,
)
from fairpca.datasets.__main__ import main
from fairpca.exceptions import InvalidInputError

FETCHERS = {"adult": fetch_adult, "compas": fetch_compas, "german": fetch_german}
PARTS = {"data", "target", "sensitive_features", "feature_names", "sensitive_names", "DESCR"}

ADULT = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male,"
    " 2174, 0, 40, United-States, <=50K\n"
    "50, ?, 83311, HS-grad, 9, Divorced, ?, Wife, Black, Female, 0, 0, 13, ?, >50K\n\n"
)
ADULT_TEST = (
    "|1x3 Cross validator\n25, Private, 226802, 11th, 7, Never-married, Sales, Own-child, Black,"
    " Male, 0, 0, 40, United-States, <=50K.\n"
)
COMPAS = (
    "id,name,first,last,sex,dob,age,age_cat,race,juv_fel_count,decile_score,juv_misd_count,"
    "juv_other_count,priors_count,days_b_screening_arrest,c_case_number,c_charge_degree,"
    "r_case_number,vr_case_number,decile_score,two_year_recid\n"
    "1,some one,some,one,Male,1947-04-18,69,Greater than 45,Other,0,1,0,0,0,-1,n1,F,,,1,0\n"
    "3,any body,any,body,Female,1982-01-22,34,25 - 45,Caucasian,0,3,0,0,2,,n2,M,n3,n4,3,1\n"
)
GERMAN = (
    "A11 6 A34 A43 1169 A65 A75 4 A93 A101 4 A121 67 A143 A152 2 A173 1 A192 A201 1\n"
    "A12 48 A32 A43 5951 A61 A73 2 A92 A101 2 A121 22 A143 A152 1 A173 1 A191 A201 2\n"
)
FILES = {
    "adult.data": ADULT,
    "adult.test": ADULT_TEST,
    "compas_two_years.csv": COMPAS,
    "compas-scores-two-years.csv": COMPAS,
    "german.data": GERMAN,
}


@pytest.fixture
def published(monkeypatch, tmp_path):
    """Small files at the addresses of the real ones, whose checksums count."""
    requested = []

    def urlopen(url, timeout):
        requested.append(url)
        return io.BytesIO(FILES[url.rsplit("/", 1)[1]].encode())

    monkeypatch.delenv("FAIRPCA_DATA", raising=False)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "home"))
    for name in FETCHERS:
        source = getattr(datasets, f"_{name.upper()}")
        folder = tmp_path / name
        folder.mkdir()
        paths = [folder / file for file in source.files]
        for path in paths:
            path.write_text(FILES[path.name])
        text = datasets._read(source, paths).to_csv(index=False, float_format="%.6g")
        digest = hashlib.sha256(text.encode()).hexdigest()
        monkeypatch.setattr(datasets, f"_{name.upper()}", replace(source, digest=digest))
    monkeypatch.setattr(datasets, "urlopen", urlopen)
    return requested


def test_embedded_data_hold_the_whole_source():
    ours, source = load_diabetes_sex(), load_diabetes(scaled=False)
    assert "sex" not in ours.feature_names
    for position, name in enumerate(ours.feature_names):
        column = source.data[:, source.feature_names.index(name)]
        np.testing.assert_array_equal(ours.data[:, position], column)
    codes = source.data[:, source.feature_names.index("sex")]
    np.testing.assert_array_equal(ours.sensitive_features == "sex 2", codes == 2)
    np.testing.assert_array_equal(ours.target, source.target)


def test_embedded_data_as_frames():
    arrays, frames = load_diabetes_sex(), load_diabetes_sex(as_frame=True)
    assert list(frames.data.columns) == arrays.feature_names
    assert list(frames.sensitive_features.columns) == arrays.sensitive_names
    assert frames.target.name == arrays.target_name
    np.testing.assert_array_equal(frames.data, arrays.data)
    np.testing.assert_array_equal(frames.sensitive_features["sex"], arrays.sensitive_features)


def test_all_return_one_type(published):
    for load in (load_diabetes_sex, make_census, *FETCHERS.values()):
        frames = load(as_frame=True)
        assert list(frames.data.columns) == frames.feature_names
        assert list(frames.sensitive_features.columns) == frames.sensitive_names
        assert getattr(frames.target, "name", None) == frames.target_name
        data = load(as_frame=False)
        assert type(data) is Bunch
        assert set(data) >= PARTS
        assert data.data.shape == (len(data.sensitive_features), len(data.feature_names))
        assert not {*data.sensitive_names, data.target_name} & {*data.feature_names}


def test_adult_is_both_files(published):
    adult = fetch_adult()
    assert adult.target.tolist() == ["<=50K", ">50K", "<=50K"]
    assert adult.sensitive_features["sex"].tolist() == ["Male", "Female", "Male"]
    assert adult.data["workclass"].tolist() == ["State-gov", "?", "Private"]
    assert adult.data["fnlwgt"].tolist() == [77516, 83311, 226802]
    assert len(adult.frame.columns) == 15


def test_compas_names_nobody(published):
    compas = fetch_compas()
    assert not {"name", "first", "last", "dob", "c_case_number"} & {*compas.frame.columns}
    assert compas.feature_names[-2:] == ["days_b_screening_arrest", "c_charge_degree"]
    assert "decile_score.1" in compas.frame  # the file has that name twice
    assert compas.target.tolist() == [0, 1]
    assert compas.data["days_b_screening_arrest"].isna().tolist() == [False, True]


def test_german_without_pandas_objects(published):
    german = fetch_german(as_frame=False)
    assert isinstance(german.data, np.ndarray)
    assert german.frame is None
    assert german.sensitive_features.tolist() == [["A93", 67, "A201"], ["A92", 22, "A201"]]
    np.testing.assert_array_equal(german.target, [1, 2])


def test_a_file_is_downloaded_once_and_kept(published, tmp_path):
    first = fetch_adult()
    assert [url.rsplit("/", 1)[1] for url in published] == ["adult.data", "adult.test"]
    assert (tmp_path / "home" / "fairpca" / "adult.test").read_text() == ADULT_TEST
    pd.testing.assert_frame_equal(fetch_adult().frame, first.frame)
    assert len(published) == 2
    fetch_adult(data_home=tmp_path / "other")
    assert len(published) == 4
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.parametrize("content", ["<html>no such page</html>", GERMAN.replace("1169", "1170")])
def test_other_content_is_refused(published, tmp_path, content):
    path = tmp_path / "home" / "fairpca" / "german.data"
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(InvalidInputError, match=r"german\.data: this is not the table") as caught:
        fetch_german()
    assert "Delete the file" in str(caught.value)


def test_without_network_the_place_is_named(published, tmp_path, monkeypatch):
    def offline(url, timeout):
        raise ConnectionError("offline")

    monkeypatch.setattr(datasets, "urlopen", offline)
    with pytest.raises(OSError, match="could not be downloaded") as caught:
        fetch_german()
    assert str(tmp_path / "home" / "fairpca" / "german.data") in str(caught.value)


def test_files_of_the_data_folder_come_first(published, tmp_path, monkeypatch):
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "german.data.gz").write_bytes(gzip.compress(GERMAN.encode()))
    monkeypatch.setenv("FAIRPCA_DATA", str(tmp_path))
    assert len(fetch_german().data) == 2
    assert published == []
    fetch_german(data_home=tmp_path / "own")
    assert len(published) == 1


def test_pandas_is_named_where_it_is_missing(published, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        fetch_german()


RAW = Path(os.environ.get("FAIRPCA_DATA", "nowhere"), "raw")


@pytest.mark.skipif(not RAW.is_dir(), reason="needs the original files under FAIRPCA_DATA")
def test_the_original_files():
    adult = fetch_adult()
    table = pd.read_csv(RAW / "adult.csv.gz")  # the same, read and joined by others
    pd.testing.assert_frame_equal(adult.frame, table.drop(columns="split"))
    assert (table["split"] == "train").sum() == 32561
    assert adult.sensitive_features["sex"].value_counts().to_dict() == {
        "Male": 32650,
        "Female": 16192,
    }
    compas = fetch_compas()
    assert compas.data.shape == (7214, 6)
    assert compas.target.sum() == 3251
    german = fetch_german()
    assert (german.sensitive_features["personal_status_and_sex"] == "A92").sum() == 310
    numbers = german.data.select_dtypes("number")
    fair = FairPCA(2, standardize=True, min_group_size=2).fit(
        numbers, sensitive_features=german.sensitive_features["personal_status_and_sex"]
    )
    assert fair.mean_gap_ < 1e-10


def test_a_made_census():
    census = make_census(2000)
    assert set(census) >= PARTS
    frame = pd.DataFrame(census.data, columns=census.feature_names)
    sex, race = census.sensitive_features.T
    assert set(census.target) == {"high", "low"}
    assert (census.data == make_census(2000).data).all()
    assert (census.data != make_census(2000, random_state=1).data).any()
    assert not (sex[frame["household"] == "wife"] == "man").any()
    share = pd.Series(census.target == "high").groupby(sex).mean()
    assert share["man"] > share["woman"] + 0.1  # or there were nothing to be fair about
    south = pd.Series(frame["region"] == "south").groupby(race).mean()
    assert south["minority"] > south["majority"] + 0.1
    for n_samples in (0, 2.5, "10"):
        with pytest.raises(InvalidInputError, match="n_samples"):
            make_census(n_samples)


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize("name", ["census", *FETCHERS])
def test_a_data_set_as_a_file(name, monkeypatch, tmp_path, capsys):
    path = tmp_path / "table.csv"
    monkeypatch.setattr(sys, "argv", ["datasets", name, str(path), "--rows", "50"])
    main()
    source = FETCHERS[name]() if name in FETCHERS else make_census(50)
    found = pd.read_csv(path, keep_default_na=False, na_values=[""])
    columns = [*source.feature_names, *source.sensitive_names, source.target_name]
    assert list(found) == columns
    assert found.shape == (len(source.data), len(columns))
    np.testing.assert_array_equal(found[source.target_name], source.target)
    data = pd.DataFrame(source.data, columns=source.feature_names)
    assert (found.isna()[data.columns] == data.isna()).all(axis=None)
    assert f"{len(found)} rows written" in capsys.readouterr().out
    with pytest.raises(SystemExit):  # which is there already
        main()
    assert "exists already" in capsys.readouterr().err
