"""Printed values of the paper, and measured ones read back from a run, averaged over splits."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np

from fairpca.experiments._experiment import read_csv

_RENAMED = {"var_pct": "variance", "": "ks"}


@cache
def printed(table: str) -> dict[tuple[str, str, str], float]:
    """Return printed values by data set, method and measure, such as "adult", "pca", "linear"."""
    values = {}
    for row in _printed_rows(table):
        dataset = row.pop("dataset")
        for column, text in row.items():
            method, _, measure = column.partition("_")
            values[dataset, method, _RENAMED.get(measure, measure)] = float(text)
    return values


@cache
def printed_clusters() -> dict[str, list[float]]:
    """Return the printed shares over 40 of table 2 by method, falling."""
    rows = [row for row in _printed_rows("table2") if row["cluster"] != "std"]
    return {
        method: sorted((float(row[f"{method}_over_40_pct"]) for row in rows), reverse=True)
        for method in ("pca", "mean", "both")
    }


def _printed_rows(table: str) -> list[dict[str, str]]:
    source = files("fairpca.experiments").joinpath("printed", f"{table}.csv")
    return list(csv.DictReader(source.read_text(encoding="utf-8").splitlines()))


@dataclass(frozen=True)
class Estimate:
    """Mean and standard deviation over splits."""

    mean: float
    deviation: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float], ddof: int = 1) -> Estimate:
        """Estimate from the values of all splits."""
        spread = float(np.std(values, ddof=ddof)) if len(values) > 1 else 0.0
        return cls(float(np.mean(values)), spread, len(values))

    def text(self, digits: int = 2) -> str:
        """Mean with its spread."""
        spread = f" ± {self.deviation:.{digits}f}" if self.count > 1 else ""
        return f"{self.mean:.{digits}f}{spread}"


class Results:
    """Values of a table by data set, definition, components, method and measure."""

    def __init__(self, path: Path) -> None:
        values: dict[tuple[str, ...], list[float]] = defaultdict(list)
        for row in read_csv(path):
            key = (row["dataset"], row["definition"], row["d"], row["method"], row["measure"])
            values[key].append(float(row["value"]))
        self._values = dict(values)

    def get(
        self, dataset: str, definition: str, method: str, measure: str, d: int | None = None
    ) -> Estimate | None:
        """Return an estimate; None where there is nothing. Without d any dimension counts."""
        for key, values in self._values.items():
            same = key[:2] == (dataset, definition) and key[3:] == (method, measure)
            if same and (d is None or key[2] == str(d)):
                return Estimate.of(values)
        return None

    @property
    def rows(self) -> list[tuple[str, str]]:
        """Data sets with their definitions, in the order of the file."""
        return list(dict.fromkeys((key[0], key[1]) for key in self._values))
