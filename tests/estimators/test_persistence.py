"""A model read back is the model that was written, and its file runs no code."""

import copy
import io
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from support import rewrite_npz

from fairpca import FairPCA
from fairpca.estimators import load_model
from fairpca.exceptions import InvalidInputError


@pytest.fixture
def fair():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(80, 4)), columns=["a", "b", "c", "naïve"])
    groups = pd.DataFrame({"sex": rng.choice(["f", "m"], 80), "age": rng.normal(size=80)})
    model = FairPCA(2, cov_weight=np.float64(0.5), whiten=True, numeric=["age"])
    return model.fit(frame, sensitive_features=groups), frame, groups


def test_every_attribute_returns(fair, tmp_path):
    model, frame, _ = fair
    path = model.save(tmp_path / "model", with_moments=True)
    assert path.name == "model.npz"
    again = load_model(path)
    assert again.get_params() == model.get_params()
    fitted = {name for name in vars(model) if name.endswith("_")}
    assert {name for name in vars(again) if name.endswith("_")} == fitted
    for name in ("components_", "mean_", "explained_variance_", "explained_variance_ratio_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    for name in ("certificate_", "contrasts_", "mean_gap_", "cov_gap_", "n_iter_"):
        assert getattr(again, name) == getattr(model, name)
    assert list(again.feature_names_in_) == list(frame.columns)
    np.testing.assert_array_equal(again.transform(frame), model.transform(frame))
    np.testing.assert_array_equal(
        again.inverse_transform(again.transform(frame)),
        model.inverse_transform(model.transform(frame)),
    )


def test_a_read_model_can_go_on_learning(fair, tmp_path):
    model, frame, groups = fair
    again = load_model(model.save(tmp_path / "model.npz", with_moments=True))
    again.partial_fit(frame * 2, sensitive_features=groups)
    model.partial_fit(frame * 2, sensitive_features=groups)
    np.testing.assert_array_equal(again.components_, model.components_)


def test_moments_can_be_left_out(fair, tmp_path):
    model, frame, _ = fair
    large = model.save(tmp_path / "large", with_moments=True).stat().st_size
    path = model.save(tmp_path / "small")
    assert path.stat().st_size < large
    again = load_model(path)
    assert not hasattr(again, "moments_")
    np.testing.assert_array_equal(again.transform(frame), model.transform(frame))
    with pytest.raises(InvalidInputError, match=r"partial_fit needs.*with_moments=True"):
        again.partial_fit(frame, sensitive_features=fair[2])


def test_the_scale_travels_with_the_model(fair, tmp_path):
    _, frame, groups = fair
    rows = frame * [1, 10, 100, 1000]
    model = FairPCA(2, standardize=True).fit(rows, sensitive_features=groups)
    again = load_model(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.scale_, model.scale_)
    np.testing.assert_array_equal(again.transform(rows), model.transform(rows))


def test_the_file_holds_no_pickle(fair, tmp_path):
    path = fair[0].save(tmp_path / "model")
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            with archive.open(name) as member:
                major = np.lib.format.read_magic(member)
                read = getattr(np.lib.format, f"read_array_header_{major[0]}_0")
                assert not read(member)[2].hasobject


@pytest.mark.parametrize("size", [0, 10, 400])
def test_a_damaged_file_is_named(fair, tmp_path, size):
    path = fair[0].save(tmp_path / "model")
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(InvalidInputError, match=r"model\.npz' is not a model file"):
        load_model(path)


def test_moments_are_not_a_model(fair, tmp_path):
    path = fair[0].moments_.save(tmp_path / "moments")
    with pytest.raises(InvalidInputError, match="is not a model file"):
        load_model(path)


def test_a_later_version_is_refused(fair, tmp_path):
    path = fair[0].save(tmp_path / "model")
    rewrite_npz(path, lambda header, _: header.update(version=99))
    with pytest.raises(InvalidInputError, match="format version 99, this fairpca reads version 1"):
        load_model(path)


@pytest.mark.parametrize("name", ["Unknown", "os.system"])
def test_only_known_classes_are_made(fair, tmp_path, name):
    path = fair[0].save(tmp_path / "model")
    rewrite_npz(path, lambda header, _: header.update({"class": name}))
    with pytest.raises(InvalidInputError, match="does not know"):
        load_model(path)


def test_what_cannot_be_written_is_named(fair, tmp_path):
    model = fair[0]
    model.reference = object()
    with pytest.raises(InvalidInputError, match="reference is a object"):
        model.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_an_unfitted_model_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        FairPCA().save(tmp_path / "model")


def replace_state(name, values):
    """Change an array of the fitted state."""

    def change(header, content):
        content[header["state"][name]["array"]] = values(content[header["state"][name]["array"]])

    return change


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("components_", lambda v: v * np.nan, "components_ is not"),
        ("components_", lambda v: 2 * v, "not orthonormal"),
        ("components_", lambda v: v[:, 1:], "mean_ is not"),
        ("mean_", lambda v: v[:-1], "mean_ is not"),
        ("mean_", lambda v: v.astype(str), "mean_ is not"),
        ("explained_variance_", lambda v: -v, "variance is negative"),
        ("explained_variance_ratio_", lambda v: v + np.inf, "explained_variance_ratio_ is not"),
    ],
)
def test_a_state_that_no_fit_can_have_is_refused(fair, tmp_path, name, values, message):
    path = fair[0].save(tmp_path / "model")
    rewrite_npz(path, replace_state(name, values))
    with pytest.raises(InvalidInputError, match=f"model\\.npz' is damaged.*{message}"):
        load_model(path)


def test_an_edited_file_shows_in_its_checksum(fair, tmp_path):
    path = fair[0].save(tmp_path / "model")
    with np.load(path) as file:
        content = dict(file)
    key = next(name for name in content if name.startswith("mean_"))
    content[key] = content[key] + 1e-3
    np.savez(path, **content)
    with pytest.raises(InvalidInputError, match=r"is damaged \(its checksum differs\)"):
        load_model(path)


def test_a_packed_file_is_not_unpacked(fair, tmp_path):
    path = fair[0].save(tmp_path / "model")
    with np.load(path) as file:
        np.savez_compressed(path, **dict(file), bomb=np.zeros(10**6))
    with pytest.raises(InvalidInputError, match="is not a model file"):
        load_model(path)


def _npy(shape):
    """An array of one number that says it has a shape."""
    buffer = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, header)
    return buffer.getvalue() + bytes(8)


def test_what_would_fill_the_memory_is_not_read(fair, tmp_path):
    path = fair[0].save(tmp_path / "model")
    whole = path.read_bytes()
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("huge.npy", _npy((10**15,)))
    with pytest.raises(InvalidInputError, match="is not a model file"):
        load_model(path)
    path.write_bytes(whole)
    with zipfile.ZipFile(path, "a") as archive:
        first = archive.infolist()[0]
        for number in range(500):  # the same bytes under many names
            again = copy.copy(first)
            again.filename = f"again{number}.npy"
            archive.filelist.append(again)
            archive.NameToInfo[again.filename] = again
        archive.start_dir = archive.fp.seek(0, 2)
        archive._didModify = True
    with pytest.raises(InvalidInputError, match="is not a model file"):
        load_model(path)


def test_a_header_nested_without_end(tmp_path):
    deep = tmp_path / "deep.npz"
    np.savez(deep, header=np.array("[" * 100_000))
    with pytest.raises(InvalidInputError, match="is not a model file"):
        load_model(deep)


def test_threads_that_save_to_one_path_all_succeed(fair, tmp_path):
    with ThreadPoolExecutor(8) as pool:
        saves = [pool.submit(fair[0].save, tmp_path / "model") for _ in range(32)]
    assert {save.result() for save in saves} == {tmp_path / "model.npz"}
    assert load_model(tmp_path / "model.npz").n_iter_ == fair[0].n_iter_
    assert [path.name for path in tmp_path.iterdir()] == ["model.npz"]


def test_a_link_stays_a_link_and_permissions_stay(fair, tmp_path):
    real = fair[0].save(tmp_path / "real")
    real.chmod(0o640)
    (tmp_path / "link.npz").symlink_to(real)
    fair[0].save(tmp_path / "link.npz")
    assert (tmp_path / "link.npz").is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
