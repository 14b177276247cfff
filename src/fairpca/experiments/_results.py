"""Results of a run, read back from its files and averaged over splits."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairpca.experiments._protocol import alternative_label
from fairpca.experiments._store import read_csv


@dataclass(frozen=True)
class Estimate:
    """Mean and standard deviation over splits."""

    mean: float
    deviation: float
    count: int

    def text(self, digits: int = 2) -> str:
        """Mean with its spread."""
        if self.count < 2:
            return f"{self.mean:.{digits}f}"
        return f"{self.mean:.{digits}f} ± {self.deviation:.{digits}f}"


class Results:
    """Values of a table by data set, label, components, method and measure.

    Parameters
    ----------
    path : pathlib.Path
        CSV file of a table.
    """

    def __init__(self, path: Path) -> None:
        values: dict[tuple[str, ...], list[float]] = defaultdict(list)
        for row in read_csv(path):
            label = row["label"] if row["label"] == alternative_label(row["dataset"]) else ""
            key = (row["dataset"], label, row["d"], row["method"], row["measure"])
            values[key].append(float(row["value"]))
        self._values = dict(values)

    def get(
        self, dataset: str, method: str, measure: str, d: int | None = None, label: str = ""
    ) -> Estimate | None:
        """Return an estimate; None where there is nothing. Without d any dimension counts."""
        for key, values in self._values.items():
            same = key[0] == dataset and key[1] == label and key[3:] == (method, measure)
            if same and (d is None or key[2] == str(d)):
                spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
                return Estimate(float(np.mean(values)), spread, len(values))
        return None

    @property
    def labels(self) -> list[tuple[str, str]]:
        """Data sets with their labels, in the order of the file."""
        return list(dict.fromkeys((key[0], key[1]) for key in self._values))
