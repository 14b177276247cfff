"""Moments on disk: arrays in an npz file, names and levels in a JSON header, no pickle."""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from fairpca.exceptions import InvalidInputError
from fairpca.moments._cells import Cell, FloatArray
from fairpca.moments._table import Table

FORMAT = "fairpca.GroupMoments"
VERSION = 1


def save_moments(
    path: str | os.PathLike[str],
    n_features: int,
    feature_names: tuple[str, ...] | None,
    table: Table,
) -> Path:
    """Write a cell table; the file appears complete or not at all.

    Parameters
    ----------
    path : str or path
        Where to.
    n_features : int
        Number of features.
    feature_names : tuple of str, or None
        Their names.
    table : Table
        The cells.

    Returns
    -------
    Path
        The file written.
    """
    target = Path(path)
    if not target.name.endswith(".npz"):
        target = target.with_name(target.name + ".npz")
    header = {
        "format": FORMAT,
        "version": VERSION,
        "n_features": n_features,
        "feature_names": feature_names,
        "attributes": table.attributes,
        "numeric": table.numeric,
        "controls": table.controls,
        "keys": list(table.cells),  # JSON keeps str, int, bool and float apart, floats exactly
    }
    arrays = _stack(list(table.cells.values()), n_features, len(table.numeric))
    beside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with beside.open("xb") as file:
            np.savez(file, allow_pickle=False, header=np.array(json.dumps(header)), **arrays)
        os.replace(beside, target)
    finally:
        beside.unlink(missing_ok=True)
    return target


def _stack(cells: list[Cell], p: int, m: int) -> dict[str, Any]:
    """Stack the cells along a first axis; the shapes hold for no cells too."""
    shapes = {
        "mean": (p,),
        "mean_rest": (p,),
        "scatter": (p, p),
        "z_mean": (m,),
        "z_mean_rest": (m,),
        "z_scatter": (m,),
        "cross": (m, p),
        "third": (m, p, p),
    }
    stacked: dict[str, Any] = {
        name: np.array([cell.arrays()[name] for cell in cells]).reshape(len(cells), *shape)
        for name, shape in shapes.items()
    }
    stacked["n_rows"] = np.array([cell.n_rows for cell in cells], dtype=np.int64)
    stacked["weight"] = np.array([cell.weight for cell in cells], dtype=np.float64)
    return stacked


def load_moments(
    path: str | os.PathLike[str],
) -> tuple[int, tuple[str, ...] | None, Table]:
    """Read what `save_moments` wrote.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    n_features : int
        Number of features.
    feature_names : tuple of str, or None
        Their names.
    table : Table
        The cells.
    """
    damaged = (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error)
    try:
        # Opened here, since NumPy leaves a damaged file open.
        with Path(path).open("rb") as handle, np.load(handle, allow_pickle=False) as file:
            header = json.loads(str(file["header"]))
            arrays = {name: file[name] for name in file.files if name != "header"}
        if header["format"] != FORMAT:
            raise ValueError("another format")
    except damaged:
        raise InvalidInputError(
            f"{os.fspath(path)!r} is not a file of moments: give one written by GroupMoments.save."
        ) from None
    if header.get("version") != VERSION:
        raise InvalidInputError(
            f"{os.fspath(path)!r} has format version {header.get('version')}, this fairpca reads "
            f"version {VERSION}: write it again, or use the fairpca that wrote it."
        )
    try:
        return _unpack(header, arrays)
    except damaged as error:
        raise InvalidInputError(
            f"{os.fspath(path)!r} is damaged ({error}): write it again."
        ) from None


def _unpack(
    header: dict[str, Any], arrays: dict[str, FloatArray]
) -> tuple[int, tuple[str, ...] | None, Table]:
    keys = [tuple(key) for key in header["keys"]]
    expected = _stack([], header["n_features"], len(header["numeric"]))
    for name, model in expected.items():
        if arrays[name].shape != (len(keys), *model.shape[1:]):
            raise ValueError(f"{name} has shape {arrays[name].shape}")
    moments = [name for name in expected if name not in ("n_rows", "weight")]
    cells = {
        key: Cell(
            n_rows=int(arrays["n_rows"][index]),
            weight=float(arrays["weight"][index]),
            **{name: arrays[name][index].copy() for name in moments},
        )
        for index, key in enumerate(keys)
    }
    names = header["feature_names"]
    table = Table(
        tuple(header["attributes"]), tuple(header["numeric"]), tuple(header["controls"]), cells
    )
    return header["n_features"], None if names is None else tuple(names), table
