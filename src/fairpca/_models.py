"""Fitted models on disk: arrays in an npz file, the rest in a JSON header, no pickle.

A file can be read without running code from it, by any later version that knows its format
version, and by other programs: it is a zip of plain arrays and one JSON text.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fairpca._files import read_npz, write_npz
from fairpca.exceptions import InvalidInputError
from fairpca.moments import GroupMoments
from fairpca.moments._storage import pack_moments, unpack_moments
from fairpca.solvers import Certificate

FORMAT = "fairpca.model"


class ModelFile(NamedTuple):
    """What a model file holds: the name of the class, its parameters and its fitted attributes."""

    kind: str
    parameters: dict[str, Any]
    state: dict[str, Any]


def write_model(path: str | os.PathLike[str], model: ModelFile) -> Path:
    """Write a model; ``.npz`` is added to a name that does not end in it."""
    arrays: dict[str, Any] = {}
    header: dict[str, Any] = {"written_by": version("fairpca"), "class": model.kind}
    for part, values in (("state", model.state), ("parameters", model.parameters)):
        header[part] = {name: _encode(value, name, arrays) for name, value in values.items()}
    return write_npz(path, FORMAT, header, arrays)


def read_model_file(path: str | os.PathLike[str]) -> ModelFile:
    """Read a model and check that it is one that a fit can give."""
    what = "a model file, as the save method of an estimator writes it"
    return read_npz(path, FORMAT, what, _unpack)


def _unpack(header: dict[str, Any], arrays: dict[str, Any]) -> ModelFile:
    parameters, state = (
        {name: _decode(value, arrays) for name, value in header[part].items()}
        for part in ("parameters", "state")
    )
    _check_state(state)
    return ModelFile(header["class"], parameters, state)


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
    lacking = components @ components.T - np.eye(d) if is_unit else np.inf
    if "reconstruction_" in state:  # sparse components are of unit length only
        lacking = np.diag(lacking) if is_unit else lacking
    if np.abs(lacking).max(initial=0.0) > 1e-6:
        raise ValueError("the components are not orthonormal")
    if (state["explained_variance_"] < 0).any():
        raise ValueError("a variance is negative")
    widths = [state["n_features_in_"], len(state.get("feature_names_in_", state["mean_"]))]
    scale = state["scale_"]
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
    if isinstance(value, np.ndarray):
        key = f"{name}.{len(arrays)}"
        arrays[key] = value
        return {"array": key}
    if isinstance(value, GroupMoments):
        header, stacks = pack_moments(value)
        arrays |= {f"{name}/{part}": stack for part, stack in stacks.items()}
        return {"moments": [name, header]}
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
        name, header = content
        prefix = f"{name}/"
        stacks = {k.removeprefix(prefix): a for k, a in arrays.items() if k.startswith(prefix)}
        return unpack_moments(header, stacks)
    if kind == "array":
        return arrays[content]
    raise ValueError(f"a value of kind {kind!r}")
