"""Damaged, edited and foreign files: one InvalidInputError, or exactly what was written.

`run(tries, seed)` returns failures by class.
"""

import io
import json
import tempfile
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fuzzing import campaign
from support import checksum

from fairpca import FairPCA, GroupMoments
from fairpca.estimators import load_model
from fairpca.exceptions import InvalidInputError


@cache
def originals():
    """Bytes of a model and of moments, and what they hold."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 4)), columns=list("abcd"))
    groups = pd.DataFrame({"sex": rng.choice(["f", "m"], 60), "age": rng.normal(size=60)})
    fair = FairPCA(2, mean_tol=None).fit(X, sensitive_features=groups)
    with tempfile.TemporaryDirectory() as folder:
        model, moments = fair.save(Path(folder, "m")), fair.moments_.save(Path(folder, "n"))
        return (model.read_bytes(), moments.read_bytes()), fair


def flip_bytes(rng, content):
    changed = bytearray(content)
    for place in rng.integers(0, len(changed), int(rng.integers(1, 6))):
        changed[place] = int(rng.integers(0, 256))
    return bytes(changed)


def cut(rng, content):
    return content[: int(rng.integers(0, len(content)))]


def append(rng, content):
    return content + rng.bytes(int(rng.integers(1, 100)))


def noise(rng, content):
    return rng.bytes(len(content))


def edit(rng, content):
    """Change one array or one entry of the header, and write a file that opens."""
    with np.load(io.BytesIO(content)) as file:
        arrays = dict(file)
    header = json.loads(str(arrays["header"]))
    stale = header.pop("checksum")
    name = str(rng.choice([key for key in arrays if key != "header"]))
    array = arrays[name]
    choice = int(rng.integers(6))
    if choice == 0 and array.size and array.dtype.kind == "f":
        array = array.copy()
        array.flat[int(rng.integers(array.size))] = rng.choice([np.nan, np.inf, 1e300])
    elif choice == 1:
        array = array[:-1] if array.ndim else array
    elif choice == 2:
        array = array.astype(str)
    elif choice == 3:
        del arrays[name]
    elif choice == 4:
        header[str(rng.choice(list(header)))] = None
    else:
        header["n_features"] = 10**6
    if name in arrays:
        arrays[name] = array
    del arrays["header"]
    fits = rng.random() < 0.7
    header["checksum"] = checksum(header, arrays) if fits else stale
    arrays["header"] = np.array(json.dumps(header))
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def other_zip(rng, content):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.npy", b"\x93NUMPY" + rng.bytes(40))
    return buffer.getvalue()


def attempt(rng):
    (model, moments), fair = originals()
    is_model = rng.random() < 0.5
    content = model if is_model else moments
    damage = rng.choice([flip_bytes, cut, append, noise, edit, edit, other_zip])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file.npz")
        path.write_bytes(damage(rng, content))
        read = load_model(path) if is_model else GroupMoments.load(path)
    # Whatever is read without an error has to be usable and finite.
    pooled = (getattr(read, "moments_", None) or fair.moments_) if is_model else read
    if pooled.table.cells:
        assert np.isfinite(pooled.pooled().covariance).all(), "moments are not finite"
    if is_model:
        row = pd.DataFrame(np.zeros((1, 4)), columns=list("abcd"))
        assert np.isfinite(read.transform(row)).all(), "scores are not finite"


def run(tries, seed):
    return campaign(attempt, tries, seed)


@pytest.mark.parametrize(
    ("seed", "number"),
    [
        (2026111900006, 23),  # a mean of 1e300 in one cell
        (2026111900014, 1),  # an array's header that Python cannot read
        (2026112000015, 16),  # a member before the beginning of the file
    ],
)
def test_what_a_campaign_found_is_refused(seed, number):
    with pytest.raises(InvalidInputError):
        attempt(np.random.default_rng([seed, number]))


def test_damaged_files():
    assert run(300, seed=1) == {}
