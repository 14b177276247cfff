"""Fitted models on disk: arrays in an npz file, the rest in a JSON header, no pickle.

A file can be read without running code from it, by any later version that knows its format
version, and by other programs: it is a zip of plain arrays and one JSON text.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fairpca._files import DAMAGED, read_npz, write_npz
from fairpca.exceptions import InvalidInputError
from fairpca.moments import GroupMoments
from fairpca.solvers import Certificate

FORMAT = "fairpca.model"
VERSION = 1


class ModelFile(NamedTuple):
    """What a model file holds: the name of the class, its parameters and its fitted attributes."""

    kind: str
    parameters: dict[str, Any]
    state: dict[str, Any]


def write_model(path: str | os.PathLike[str], model: ModelFile) -> Path:
    """Write a model; ``.npz`` is added to a name that does not end in it."""
    arrays: dict[str, Any] = {}
    header = {
        "format": FORMAT,
        "version": VERSION,
        "written_by": version("fairpca"),
        "class": model.kind,
        "state": {name: _encode(value, name, arrays) for name, value in model.state.items()},
        "parameters": {
            name: _encode(value, name, arrays) for name, value in model.parameters.items()
        },
    }
    return write_npz(path, header, arrays)


def read_model_file(path: str | os.PathLike[str]) -> ModelFile:
    """Read a model and check that it is one that a fit can give."""
    what = "a model file, as the save method of an estimator writes it"
    header, arrays = read_npz(path, FORMAT, VERSION, what)
    try:
        found = ModelFile(
            header["class"],
            {name: _decode(value, arrays) for name, value in header["parameters"].items()},
            {name: _decode(value, arrays) for name, value in header["state"].items()},
        )
        _check_state(found.state)
    except DAMAGED as error:
        raise damaged_model(path, error) from None
    return found


def damaged_model(path: str | os.PathLike[str], error: BaseException) -> InvalidInputError:
    """Say that a file does not hold a model that can be used."""
    return InvalidInputError(
        f"{os.fspath(path)!r} is damaged, or of a model that this fairpca does not know "
        f"({error}): write it again."
    )


def _check_state(state: Mapping[str, Any]) -> None:
    """Refuse a fitted state that no fit can have."""
    components = state["components_"]
    d, p = components.shape
    shapes = {
        "components_": (d, p),
        "mean_": (p,),
        "explained_variance_": (d,),
        "explained_variance_ratio_": (d,),
    }
    for name, shape in shapes.items():
        array = state[name]
        if array.shape != shape or array.dtype != np.float64 or not np.isfinite(array).all():
            raise ValueError(f"{name} is not {shape} finite numbers")
    is_unit = np.abs(components).max(initial=0.0) <= 2.0  # before products that may overflow
    if not is_unit or np.abs(components @ components.T - np.eye(d)).max(initial=0.0) > 1e-6:
        raise ValueError("the components are not orthonormal")
    if (state["explained_variance_"] < 0).any():
        raise ValueError("a variance is negative")
    widths = [state["n_features_in_"], len(state.get("feature_names_in_", state["mean_"]))]
    scale = state.get("scale_")
    if scale is not None:
        widths.append(len(scale))
        if not (np.isfinite(scale).all() and (scale > 0).all()):
            raise ValueError("the scale is not finite and positive")
    if "moments_" in state:
        widths.append(state["moments_"].n_features)
    if set(widths) != {p}:
        raise ValueError(f"{p} features in one place and {sorted(set(widths))} in others")


def _encode(value: Any, name: str, arrays: dict[str, Any]) -> Any:
    """Turn a value into JSON, with its arrays set aside under numbered names."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [_encode(item, name, arrays) for item in value]}
    if isinstance(value, dict):
        pairs = value.items()
        return {"dict": [[_encode(k, name, arrays), _encode(v, name, arrays)] for k, v in pairs]}
    if isinstance(value, Certificate):
        return {"certificate": asdict(value)}
    if isinstance(value, np.ndarray) and value.dtype.kind == "O":
        return {"objects": [_encode(item, name, arrays) for item in value.tolist()]}
    key = f"{name}.{len(arrays)}"
    if isinstance(value, np.ndarray):
        arrays[key] = value
        return {"array": key}
    if isinstance(value, GroupMoments):
        arrays[key] = _moments_to_bytes(value)
        return {"moments": key}
    raise InvalidInputError(
        f"{name} is a {type(value).__name__}, which cannot be written to a model file: only "
        "numbers, text, arrays and lists of them can."
    )


def _decode(value: Any, arrays: dict[str, Any]) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind in ("list", "tuple", "objects"):
        items = [_decode(item, arrays) for item in content]
        if kind == "objects":
            return np.array(items, dtype=object)
        return tuple(items) if kind == "tuple" else items
    if kind == "dict":
        return {_decode(k, arrays): _decode(v, arrays) for k, v in content}
    if kind == "certificate":
        return Certificate(**content)
    if kind == "moments":
        return _moments_from_bytes(arrays[content])
    if kind == "array":
        return arrays[content]
    raise ValueError(f"a value of kind {kind!r}")


def _moments_to_bytes(moments: GroupMoments) -> Any:
    """Moments in their own format, so that there is one description of it only."""
    with tempfile.TemporaryDirectory() as folder:
        return np.fromfile(moments.save(Path(folder, "moments.npz")), dtype=np.uint8)


def _moments_from_bytes(content: Any) -> GroupMoments:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "moments.npz")
        path.write_bytes(content.tobytes())
        return GroupMoments.load(path)
