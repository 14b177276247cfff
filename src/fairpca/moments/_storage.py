"""Moments on disk: arrays in an npz file, names and levels in a JSON header, no pickle."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from fairpca._files import DAMAGED, read_npz, write_npz
from fairpca.exceptions import InvalidInputError
from fairpca.moments._cells import Cell, FloatArray
from fairpca.moments._holes import Holes
from fairpca.moments._span import Span
from fairpca.moments._table import Table
from fairpca.rows import Level

Stored: TypeAlias = tuple[int, tuple[str, ...] | None, Table, Span | None, Holes | None]
"""Number and names of the features, the cells, the span of the rows, and what is missing."""

FORMAT = "fairpca.GroupMoments"
VERSION = 3


def save_moments(path: str | os.PathLike[str], stored: Stored) -> Path:
    """Write a cell table; the file appears complete or not at all."""
    n_features, feature_names, table, span, holes = stored
    header: dict[str, Any] = {
        "format": FORMAT,
        "version": 1 if span is None else 2,  # what 0.1.0 reads stays as it was
        "n_features": n_features,
        "feature_names": feature_names,
        "attributes": table.attributes,
        "numeric": table.numeric,
        "controls": table.controls,
        "keys": list(table.cells),  # JSON keeps str, int, bool and float apart, floats exactly
    }
    size = n_features + (len(holes.marks) if holes else 0) if span is None else len(span)
    arrays = _stack(list(table.cells.values()), size, len(table.numeric))
    if span is not None:
        arrays |= {"span_origin": span.origin, "span_basis": span.basis}
    if holes is not None:
        header["version"] = 3
        header["holes"] = {"columns": holes.columns, "marks": holes.marks}
        arrays["holes_fill"] = holes.fill
    return write_npz(path, header, arrays)


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


def load_moments(path: str | os.PathLike[str]) -> Stored:
    """Read what `save_moments` wrote."""
    what = "a file of moments, as GroupMoments.save writes them"
    header, arrays = read_npz(path, FORMAT, VERSION, what)
    try:
        return _unpack(header, arrays)
    except DAMAGED as error:
        raise InvalidInputError(
            f"{os.fspath(path)!r} is damaged ({error}): write it again."
        ) from None


def _unpack(header: dict[str, Any], arrays: dict[str, FloatArray]) -> Stored:
    keys = [tuple(key) for key in header["keys"]]
    names = header["feature_names"]
    table = Table(
        tuple(header["attributes"]), tuple(header["numeric"]), tuple(header["controls"]), {}
    )
    _check_names(header["n_features"], names, table, keys)
    holes = _unpack_holes(header, arrays)
    width = header["n_features"] + (len(holes.marks) if holes else 0)
    span = _unpack_span(arrays, width) if "span_basis" in arrays else None
    size = width if span is None else len(span)
    _check_arrays(arrays, _stack([], size, len(table.numeric)), len(keys))
    moments = [name for name in arrays if name not in ("n_rows", "weight")]
    cells = {
        key: Cell(
            n_rows=int(arrays["n_rows"][index]),
            weight=float(arrays["weight"][index]),
            **{name: arrays[name][index].copy() for name in moments},
        )
        for index, key in enumerate(keys)
    }
    names = None if names is None else tuple(names)
    return header["n_features"], names, replace(table, cells=cells), span, holes


def _unpack_holes(header: dict[str, Any], arrays: dict[str, FloatArray]) -> Holes | None:
    """Take what is missing out of the arrays."""
    if "holes" not in header:
        return None
    found = header["holes"]
    holes = Holes(tuple(found["columns"]), tuple(found["marks"]), arrays.pop("holes_fill"))
    if len(holes.columns) != header["n_features"] or holes.fill.shape != (len(holes.columns),):
        raise ValueError("what is missing has other features")
    if not np.isfinite(holes.fill).all() or list(holes.marks) != sorted(set(holes.marks)):
        raise ValueError("what is missing is damaged")
    return holes


def _unpack_span(arrays: dict[str, FloatArray], n_features: int) -> Span:
    """Take the span out of the arrays."""
    span = Span(arrays.pop("span_origin"), arrays.pop("span_basis"))
    if span.origin.shape != (n_features,) or span.basis.shape != (len(span), n_features):
        raise ValueError("the span has other features")
    if not np.isfinite(span.origin).all():
        raise ValueError("the span has no origin")
    if np.abs(span.basis @ span.basis.T - np.eye(len(span))).max(initial=0.0) > 1e-6:
        raise ValueError("the span is not orthonormal")
    return span


def _check_names(
    n_features: int, names: list[str] | None, table: Table, keys: list[tuple[Level, ...]]
) -> None:
    """Refuse names and keys that cannot belong to a table."""
    if names is not None and len(names) != n_features:
        raise ValueError(f"{len(names)} names of {n_features} features")
    columns: Iterable[Any] = (*(names or ()), *table.attributes, *table.controls)
    if not all(isinstance(name, str) for name in columns):
        raise ValueError("a name is no text")
    if not set(table.numeric) <= set(table.attributes):
        raise ValueError("a numeric attribute is no attribute")
    if len(set(keys)) < len(keys):
        raise ValueError("a cell occurs twice")
    if any(len(key) != len(table.key_names) for key in keys):
        raise ValueError("a cell has too many levels, or too few")


def _check_arrays(arrays: dict[str, FloatArray], model: dict[str, Any], n_cells: int) -> None:
    """Refuse sums that no rows can have."""
    if set(arrays) != set(model):
        raise ValueError(f"its arrays are {sorted(arrays)}")
    for name, empty in model.items():
        if arrays[name].shape != (n_cells, *empty.shape[1:]):
            raise ValueError(f"{name} has shape {arrays[name].shape}")
        if arrays[name].dtype != empty.dtype or not np.isfinite(arrays[name]).all():
            raise ValueError(f"{name} holds what is no finite number")
    for name in ("scatter", "third"):
        if (arrays[name] != np.swapaxes(arrays[name], -1, -2)).any():
            raise ValueError(f"{name} is not symmetric")
    spread = np.diagonal(arrays["scatter"], axis1=-2, axis2=-1)
    if (arrays["n_rows"] < 1).any() or (arrays["weight"] <= 0).any():
        raise ValueError("a cell without rows or weight")
    if (spread < 0).any() or (arrays["z_scatter"] < 0).any():
        raise ValueError("a negative sum of squares")
