"""Moments as names and arrays, which files of moments and of models hold; no pickle."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairpca.moments._cells import Cell, FloatArray
from fairpca.moments._maps import MissingIndicators, Span
from fairpca.moments._table import CellTable, Key, TargetColumn
from fairpca.moments._targets import TargetMoments
from fairpca.moments.group_moments import GroupMoments


def pack_moments(moments: GroupMoments) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return all that released moments are, as a JSON header and arrays."""
    table, span, indicators = moments.table, moments.span, moments.indicators
    header: dict[str, Any] = {
        "n_features": moments.n_features,
        "feature_names": moments.feature_names,
        "attributes": table.attributes,
        "numeric": table.numeric,
        "controls": table.controls,
        "keys": list(table.cells),  # JSON keeps str, int, bool and float apart, floats exactly
    }
    if moments.columns is not None:
        header["origins"] = moments.columns
    if moments.merged:
        header["merged"] = moments.merged
    if moments.noise is not None:
        header["noise"] = moments.noise
    size = moments.n_features + (len(indicators.incomplete) if indicators else 0)
    arrays = _stack(list(table.cells.values()), len(span or range(size)), len(table.numeric))
    if span is not None:
        arrays |= {"span_origin": span.origin, "span_basis": span.basis}
    if table.targets:
        parts = enumerate(cell.targets for cell in table.cells.values())
        flat = {place: part.flat() for place, part in parts if part is not None}
        header |= {"targets": table.targets, "target_cells": list(flat)}
        arrays["targets"] = np.array(list(flat.values())).reshape(len(flat), -1)
    if indicators is not None:
        header |= {"columns": indicators.columns, "incomplete": indicators.incomplete}
        arrays["fill"] = indicators.fill
    return header, arrays


def unpack_moments(header: dict[str, Any], arrays: dict[str, FloatArray]) -> GroupMoments:
    """Return the moments that `pack_moments` was given; ValueError where no rows can have them."""
    keys = [tuple(key) for key in header["keys"]]
    names, width = header["feature_names"], header["n_features"]
    attributes, numeric, controls = (
        tuple(header[part]) for part in ("attributes", "numeric", "controls")
    )
    table = CellTable(attributes, numeric, controls, {})
    _check_names(width, names, table, keys)
    indicators = span = None
    if "columns" in header:
        indicators = _read_indicators(header, arrays.pop("fill"))
        width += len(indicators.incomplete)
    if "span_basis" in arrays:
        span = Span(arrays.pop("span_origin"), arrays.pop("span_basis"))
        _check_span(span, width)
    size = width if span is None else len(span)
    columns, targets = _read_targets(header, arrays.pop("targets", np.zeros((0, 0))), size)
    _check_arrays(arrays, _stack([], size, len(numeric)), len(keys))
    sizes = zip(
        *(arrays.pop(name).tolist() for name in ("n_rows", "weight", "heaviest")), strict=True
    )
    cells: dict[Key, Cell] = {}
    for index, (key, counts) in enumerate(zip(keys, sizes, strict=True)):
        sums: dict[str, Any] = {name: stack[index].copy() for name, stack in arrays.items()}
        sums["targets"] = targets.get(index)
        cells[key] = Cell(*counts, **sums)
    names = None if names is None else tuple(names)
    table = CellTable(attributes, numeric, controls, cells, columns)
    origins = header.get("origins")
    if origins is not None and len(origins) != header["n_features"]:
        raise ValueError("the columns of the features are not as many")
    return GroupMoments(
        header["n_features"],
        names,
        table,
        span,
        indicators,
        columns=None if origins is None else tuple(origins),
        merged=tuple(map(str, header.get("merged", ()))),
        noise=_read_noise(header.get("noise")),
    )


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
        name: np.array([getattr(cell, name) for cell in cells]).reshape(len(cells), *shape)
        for name, shape in shapes.items()
    }
    stacked["n_rows"] = np.array([cell.n_rows for cell in cells], dtype=np.int64)
    for name in ("weight", "heaviest"):
        stacked[name] = np.array([getattr(cell, name) for cell in cells], dtype=np.float64)
    return stacked


def _read_targets(
    header: dict[str, Any], flat: FloatArray, p: int
) -> tuple[tuple[TargetColumn, ...], dict[int, TargetMoments]]:
    """Return the columns of targets, and the moments of targets by the places of their cells."""
    columns = tuple((str(name), label) for name, label in header.get("targets", ()))
    if len(set(columns)) < len(columns):
        raise ValueError("a target occurs twice")
    parts = [TargetMoments.from_flat(row, p, len(columns)) for row in flat]
    return columns, dict(zip(header.get("target_cells", ()), parts, strict=True))


def _read_noise(values: Any) -> tuple[float, float] | None:
    if values is None:
        return None
    epsilon, delta = map(float, values)
    if not (epsilon > 0.0 and 0.0 < delta < 1.0):
        raise ValueError("the noise promises nothing")
    return epsilon, delta


def _read_indicators(header: dict[str, Any], fill: FloatArray) -> MissingIndicators:
    indicators = MissingIndicators(tuple(header["columns"]), tuple(header["incomplete"]), fill)
    if len(indicators.columns) != header["n_features"] or fill.shape != (len(indicators.columns),):
        raise ValueError("the columns with missing values have other features")
    incomplete = list(indicators.incomplete)
    if not np.isfinite(fill).all() or incomplete != sorted(set(incomplete)):
        raise ValueError("the columns with missing values are not sorted, or not filled")
    return indicators


def _check_span(span: Span, n_features: int) -> None:
    if span.origin.shape != (n_features,) or span.basis.shape != (len(span), n_features):
        raise ValueError("the span has other features")
    if not np.isfinite(span.origin).all():
        raise ValueError("the span has no origin")
    off = np.abs(span.basis @ span.basis.T - np.eye(len(span))).max(initial=0.0)
    if not off <= 1e-6:  # nor NaN
        raise ValueError("the span is not orthonormal")


def _check_names(
    n_features: int, names: list[str] | None, table: CellTable, keys: list[Key]
) -> None:
    """Refuse names and keys that cannot belong to a table."""
    if names is not None and len(names) != n_features:
        raise ValueError(f"{len(names)} names of {n_features} features")
    columns = (*(names or ()), *table.attributes, *table.controls)
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
    if any((arrays[name] <= 0).any() for name in ("n_rows", "weight", "heaviest")):
        raise ValueError("a cell without rows or weight")
    if (spread < 0).any() or (arrays["z_scatter"] < 0).any():
        raise ValueError("a negative sum of squares")
