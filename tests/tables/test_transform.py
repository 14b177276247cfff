"""Scores written as the rows are read: the same numbers, complete or not at all."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs
from table_support import FEATURES, people, transform_files, write_files

from fairpca import FairPCA
from fairpca._files import replacing
from fairpca.exceptions import DroppedRowsWarning, InvalidInputError
from fairpca.tables import moments_from_files, open_table
from fairpca.tables._model import read_model
from fairpca.tables.project import check_target

COMPONENTS = ["fairpca0", "fairpca1"]


def test_one_file(tmp_path, frame, fair):
    write_files(frame, tmp_path / "in", [500], 70)
    target = tmp_path / "out.parquet"
    assert transform_files(fair, tmp_path / "in" / "part-00.parquet", target) == 500
    scores = pd.read_parquet(target)
    assert list(scores) == COMPONENTS
    np.testing.assert_allclose(scores, fair.transform(frame[FEATURES]), atol=1e-12)
    assert sorted(item.name for item in tmp_path.iterdir()) == ["in", "out.parquet"]


def test_a_directory_keeps_its_files_and_columns(tmp_path, frame, fair):
    write_files(frame, tmp_path / "in", [200, 0, 300], 70)
    calls = []
    rows = transform_files(
        fair.save(tmp_path / "model"),
        tmp_path / "in",
        tmp_path / "out",
        keep=["sex", "race"],
        progress=lambda *x: calls.append(x),
    )
    assert rows == calls[-1][0] == 500
    assert [item.name for item in sorted((tmp_path / "out").iterdir())] == [
        f"part-0{number}.parquet" for number in range(3)
    ]
    scores = pd.read_parquet(tmp_path / "out")
    assert list(scores) == ["sex", "race", *COMPONENTS]
    np.testing.assert_array_equal(scores["race"], frame["race"])
    np.testing.assert_allclose(scores[COMPONENTS], fair.transform(frame[FEATURES]), atol=1e-12)
    transform_files(fair, tmp_path / "in", tmp_path / "all", keep="*")
    assert list(pd.read_parquet(tmp_path / "all")) == [*frame.columns, *COMPONENTS]


def test_hive_directories_stay(tmp_path, frame, fair):
    pq.write_to_dataset(pa.Table.from_pandas(frame, preserve_index=False), tmp_path / "in", ["sex"])
    transform_files(fair, tmp_path / "in", tmp_path / "out", keep=["age", "sex"])
    scores = pd.read_parquet(tmp_path / "out").sort_values("age")
    expected = frame.sort_values("age")
    np.testing.assert_array_equal(scores["sex"].astype(str), expected["sex"])
    np.testing.assert_allclose(scores[COMPONENTS], fair.transform(expected[FEATURES]), atol=1e-12)


def test_standardised_whitened_and_categorical(tmp_path):
    frame = people(500, mean=100.0)
    write_files(frame, tmp_path / "in", [200, 300], 70)
    moments = moments_from_files(tmp_path / "in", "sex", FEATURES, categorical=["race", "city"])
    fair = FairPCA(2, whiten=True, standardize=True).fit_moments(moments)
    path = fair.save(tmp_path / "model")
    wide = frame[FEATURES].copy()
    for column in ("race", "city"):
        for level in sorted(frame[column].unique()):
            wide[f"{column}={level}"] = (frame[column] == level).astype(float)
    expected = fair.transform(wide)
    for number, model in enumerate((path, fair)):
        target = tmp_path / f"out{number}"
        transform_files(model, tmp_path / "in", target)
        np.testing.assert_allclose(pd.read_parquet(target), expected, atol=1e-10)


def test_another_file_system(tmp_path, frame, fair):
    write_files(frame, tmp_path / "in", [200, 300], 70)
    below = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    transform_files(fair, "in", "deep/out", filesystem=below)
    scores = pd.read_parquet(tmp_path / "deep" / "out")
    np.testing.assert_allclose(scores, fair.transform(frame[FEATURES]), atol=1e-12)


def bad_frames():
    sound = people(500)
    yield (
        "missing value",
        sound.assign(b=sound["b"].where(sound.index != 480)),
        r"1 of 250 rows have missing values \(by column: 'b' 1\)",
    )
    yield (
        "infinite value",
        sound.assign(b=sound["b"].where(sound.index != 480, np.inf)),
        "column 'b' holds infinite values",
    )
    yield "no column", sound.drop(columns="b"), "no column 'b', which the model needs"
    yield "text", sound.assign(b="x"), "'b' is .*string, but the model knows it as a number"


@pytest.mark.parametrize(
    ("bad", "message"), [case[1:] for case in bad_frames()], ids=[case[0] for case in bad_frames()]
)
def test_nothing_is_left_of_a_failure(tmp_path, fair, bad, message):
    write_files(bad, tmp_path / "in", [250, 250], 50)
    with pytest.raises(InvalidInputError, match=message):
        transform_files(fair, tmp_path / "in", tmp_path / "out")
    assert [item.name for item in tmp_path.iterdir()] == ["in"]


def test_nothing_is_left_of_an_interruption(tmp_path, frame, fair):
    write_files(frame, tmp_path / "in", [250, 250], 50)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old.parquet").write_text("old")

    def stop(done, total):
        if done > 300:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        transform_files(fair, tmp_path / "in", tmp_path / "out", force=True, progress=stop)
    assert sorted(item.name for item in tmp_path.iterdir()) == ["in", "out"]
    assert (tmp_path / "out" / "old.parquet").read_text() == "old"


def test_targets_are_protected(tmp_path, frame, fair):
    write_files(frame, tmp_path / "in", [500])
    (tmp_path / "out").mkdir()
    with pytest.raises(InvalidInputError, match="exists already"):
        transform_files(fair, tmp_path / "in", tmp_path / "out")
    transform_files(fair, tmp_path / "in", tmp_path / "out", force=True)
    transform_files(fair, tmp_path / "in", tmp_path / "out", force=True)
    for target in ("in", "in/part-00.parquet", "."):
        with pytest.raises(InvalidInputError, match="is or holds the input"):
            transform_files(fair, tmp_path / "in", tmp_path / target, force=True)


def test_models_that_cannot_be_used(tmp_path, frame, fair):
    write_files(frame, tmp_path / "in", [500])
    nameless = FairPCA(2).fit(frame[FEATURES].to_numpy(), sensitive_features=frame["sex"])
    with pytest.raises(InvalidInputError, match="does not know the names"):
        transform_files(nameless, tmp_path / "in", tmp_path / "out")
    with pytest.raises(InvalidInputError, match="is not fitted"):
        transform_files(FairPCA(2), tmp_path / "in", tmp_path / "out")
    with pytest.raises(InvalidInputError, match=r"no columns \['z'\] to keep"):
        transform_files(fair, tmp_path / "in", tmp_path / "out", keep="z")


def test_a_value_that_the_model_has_not_seen(tmp_path, frame):
    write_files(frame, tmp_path / "in", [500])
    moments = moments_from_files(tmp_path / "in", "sex", FEATURES, categorical=["city"])
    fair = FairPCA(2).fit_moments(moments)
    frame.loc[499, "city"] = "moon"
    write_files(frame, tmp_path / "new", [500])
    with pytest.raises(InvalidInputError, match=r"part-00.*'city' holds 'moon', which the model"):
        transform_files(fair, tmp_path / "new", tmp_path / "out")


class _Counted:
    """A local file system that keeps what is moved."""

    type_name = "local"

    def __init__(self):
        self._system, self.moved = fs.LocalFileSystem(), []
        for name in ("get_file_info", "delete_dir", "delete_file", "create_dir"):
            setattr(self, name, getattr(self._system, name))

    def move(self, source, target):
        self.moved.append((source, target))
        self._system.move(source, target)


def test_a_directory_is_replaced_and_nothing_else_stays(tmp_path):
    system, target = _Counted(), tmp_path / "reduced"
    target.mkdir()
    (target / "old").write_text("old")
    with replacing(str(target), system) as temporary:
        system.create_dir(temporary)
        Path(temporary, "new").write_text("new")
    assert [path.name for path in target.iterdir()] == ["new"]
    assert list(tmp_path.iterdir()) == [target]
    assert len(system.moved) == 2  # the old directory makes room first


@pytest.mark.parametrize("missing", ["error", "mean"])
def test_new_rows_that_cannot_be_used_are_refused_in_the_words_of_a_fit(missing):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(40, 3)), columns=list("uvw"))
    frame["g"] = rng.choice(["a", "b"], 40)
    model = FairPCA(1, missing=missing).fit(frame[list("uvw")], sensitive_features=frame["g"])
    for value, column in ((np.nan, "v"), (np.inf, "w"), (np.inf, "coded")):
        spoilt = frame[list("uvw")].copy()
        spoilt.loc[3, column.replace("coded", "w")] = value
        if column == "coded":
            spoilt["w"] = spoilt["w"].astype("category")
        if value is np.nan and missing == "mean":
            continue
        with pytest.raises(InvalidInputError) as by_array:
            model.transform(spoilt)
        with pytest.raises(InvalidInputError) as by_batch:
            read_model(model).bind(pa.Schema.from_pandas(spoilt)).scores(
                pa.RecordBatch.from_pandas(spoilt)
            )
        assert str(by_batch.value) == str(by_array.value)


def test_rows_without_a_feature_are_dropped_and_the_others_are_not(tmp_path, frame, fair):
    lacking = np.random.default_rng(4).random(len(frame)) < 0.3
    frame.assign(**{FEATURES[1]: frame[FEATURES[1]].mask(lacking)}).to_parquet(tmp_path / "in.pq")
    target = tmp_path / "out.parquet"
    options = {"missing": "drop-rows", "keep": ["race"]}
    with pytest.warns(DroppedRowsWarning, match=f"{lacking.sum()} rows"):
        transform_files(fair, tmp_path / "in.pq", target, **options)
    scores = pd.read_parquet(target)
    np.testing.assert_array_equal(scores["race"], frame["race"][~lacking])
    np.testing.assert_allclose(
        scores[COMPONENTS], fair.transform(frame[FEATURES])[~lacking], atol=1e-12
    )


def test_a_file_that_is_there_is_refused_unless_forced(tmp_path, frame):
    target = tmp_path / "out.parquet"
    target.touch()
    with pytest.raises(InvalidInputError, match="exists"):
        check_target(open_table(frame), target)
    check_target(open_table(frame), target, force=True)
    assert target.stat().st_size == 0
