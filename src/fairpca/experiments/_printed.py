"""The printed figures of the paper."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files

_RENAMED = {"var_pct": "variance"}


@cache
def printed(table: str) -> dict[tuple[str, str, str], float]:
    """Return the printed values of a table by data set, method and measure.

    Parameters
    ----------
    table : {"table1", "table3", "table4", "table5"}
        Which table.

    Returns
    -------
    dict
        For example ``("wine_quality", "pca", "variance")`` to 50.21.
    """
    values = {}
    for row in _rows(table):
        for column, text in row.items():
            if column == "dataset":
                continue
            method, _, measure = column.partition("_")
            measure = _RENAMED.get(measure, measure) or "ks"
            values[row["dataset"], method, measure] = float(text)
    return values


@cache
def printed_clusters() -> dict[str, list[float]]:
    """Return the printed shares over 40 of table 2 by method, falling."""
    rows = [row for row in _rows("table2") if row["cluster"] != "std"]
    return {
        method: sorted((float(row[f"{method}_over_40_pct"]) for row in rows), reverse=True)
        for method in ("pca", "mean", "both")
    }


def _rows(table: str) -> list[dict[str, str]]:
    source = files("fairpca.experiments").joinpath("printed", f"{table}.csv")
    return list(csv.DictReader(source.read_text(encoding="utf-8").splitlines()))
