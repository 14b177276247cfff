"""What the benchmarks left in benchmarks/results, and tables of it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where `benchmarks` is
from benchmarks import results

RESULTS = results.FOLDER
read = results.read

Rows = list[dict]


def _command(document: dict) -> str:
    """Return how to measure it again."""
    return f"`python benchmarks/{document.get('command', document['benchmark'] + '.py')}`"


def facts(document: dict) -> str:
    """Return what ran where, and how busy the machine was."""
    versions = ", ".join(f"{name} {text}" for name, text in document["versions"].items())
    note = f" Note: {document['note']}." if document.get("note") else ""
    if document["load"] > document["cores"]:
        note += " The machine was busy with other work: ratios of elapsed times say little."
    return (
        f"*{_command(document)}, Python {document['python']}, {versions}; "
        f"{document['cores']} cores, load {document['load']}.{note}*\n"
    )


def markdown(head: list[str], rows: list[list[str]]) -> str:
    """Return a table."""
    # A figure and its error, or two figures that belong together, stay on one line.
    kept = [[re.sub(r"(?<=\d) ([/±→%]|s\b) ?", _unbroken, text) for text in row] for row in rows]
    lines = [head, ["---"] * len(head), *kept]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _unbroken(found: re.Match) -> str:
    return found[0].replace(" ", "\N{NO-BREAK SPACE}")


def plain(rows: Rows) -> str:
    """Return rows as they are, each as a table of its own where it holds more than figures."""
    if any(isinstance(value, dict) for row in rows for value in row.values()):
        return "\n".join(_tall(row) for row in rows)
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [[cell(row.get(name)) for name in names] for row in rows]
    return markdown([name.replace("_", " ") for name in names], lines)


def cell(value: object) -> str:
    """Return a figure with three digits, or text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return str(value).strip().replace("|", "\\|")


def _tall(row: dict) -> str:
    """Return a row as lines of names and values."""
    title, *others = row.items()
    lines = []
    for name, value in others:
        inner = value.items() if isinstance(value, dict) else [("", value)]
        lines += [
            [f"{spoken(name)}, {key}" if key else spoken(name), cell(one)] for key, one in inner
        ]
    return markdown([str(title[1]), ""], lines)


def spoken(name: str) -> str:
    """Return a name with spaces."""
    return name.replace("_", " ")


def only(rows: Rows, **wanted) -> Rows:
    """Return the rows that have these values."""
    return [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]


def values(rows: Rows, name: str) -> list:
    """Return the different values of a column, in their order."""
    return list(dict.fromkeys(row[name] for row in rows if name in row))


def mean(rows: Rows, name: str) -> float:
    """Return the mean of a column."""
    return float(np.mean([row[name] for row in rows]))
