"""Data sets from OpenML, rebuilt in the form of our files and checked against them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from sklearn.datasets import fetch_openml

from fairpca.datasets._registry import DatasetInfo
from fairpca.exceptions import InvalidInputError

Fetcher = Callable[..., Any]
"""Anything with the interface of `sklearn.datasets.fetch_openml`."""


def fetch_frame(info: DatasetInfo, fetcher: Fetcher | None = None) -> Any:
    """Fetch a data set with our columns in our order, checked against our file."""
    source = info.openml
    if source is None:
        raise InvalidInputError(f"OpenML does not have {info.name!r}. {_put_file(info)}")
    fetch = fetch_openml if fetcher is None else fetcher
    frame = fetch(data_id=source.data_id, as_frame=True, parser="auto").frame
    if frame.shape != (info.rows, len(source.columns)):
        raise InvalidInputError(
            f"OpenML data set {source.data_id} has shape {frame.shape}, expected "
            f"({info.rows}, {len(source.columns)}) for {info.name!r}. {_put_file(info)}"
        )
    frame = frame.set_axis(list(source.columns), axis=1)
    for column, rule in source.rules.items():
        frame[column] = _apply_rule(frame[column], rule)
    # Text columns come as categories with gaps; the files write unknown values as "?".
    for column in frame.select_dtypes(exclude="number").columns:
        values = frame[column].astype(object)
        frame[column] = values.where(values.notna(), "?").astype(str).str.strip()
    frame = frame[[column for column in info.columns if column in source.columns]]
    found = content_digest(frame)
    if found != source.digest:
        raise InvalidInputError(
            f"OpenML data set {source.data_id} does not have the values of {info.name!r}: "
            f"digest {found}, expected {source.digest}. {_put_file(info)}"
        )
    return frame


def content_digest(frame: Any) -> str:
    """SHA-256 of the rows in any order; numbers count to six significant digits, so 1 = 1.0."""
    numeric = frame.select_dtypes("number").columns
    texts = [
        [f"{value:.6g}" for value in frame[column].astype(float)]
        if column in numeric
        else [str(value) for value in frame[column]]
        for column in frame.columns
    ]
    rows = sorted("\t".join(row) for row in zip(*texts, strict=True))
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


def _apply_rule(values: Any, rule: Any) -> Any:
    if "above" in rule:
        return (values.astype(float) > rule["above"]).astype(int)
    return values.astype(str).isin(rule["equals"]).astype(int)


def _put_file(info: DatasetInfo) -> str:
    return f"Put the original file at <FAIRPCA_DATA>/{info.file} instead."
