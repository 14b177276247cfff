"""Measurements of a benchmark as JSON next to its table, for pages and later runs."""

import csv
import json
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # where `reproduction` is
FOLDER = Path(__file__).parent / "results"
PACKAGES = ("fairpca", "numpy", "scipy", "scikit-learn")


def save(name, rows, *, as_csv=False, **facts):
    """Write the rows of a table, as dictionaries, with the versions and the load of the run.

    Many rows go to a CSV file with four significant digits, and only the facts to the JSON file.
    """
    FOLDER.mkdir(exist_ok=True)
    document = {
        "benchmark": name,
        "versions": {package: version(package) for package in PACKAGES},
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        **facts,
    }
    if as_csv:
        write_csv(FOLDER / f"{name}.csv", rows)
    else:
        document["rows"] = rows
    path = FOLDER / f"{name}.json"
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"written to benchmarks/results/{path.name}")


def read(name):
    """Return what a benchmark left, or None."""
    path = FOLDER / f"{name}.json"
    if not path.exists():
        return None
    document = json.loads(path.read_text(encoding="utf-8"))
    if "rows" not in document:
        document["rows"] = read_csv(path.with_suffix(".csv"))
    return document


def load(name):
    """Return the rows of an earlier run, for a benchmark whose parts are run one by one."""
    document = read(name)
    return document["rows"] if document else []


def write_csv(path, rows):
    """Write dictionaries; what a row does not have stays empty."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({name: four_digits(value) for name, value in row.items()})


def read_csv(path):
    """Return dictionaries of whole numbers, fractions and text, without what is empty."""
    with path.open(newline="", encoding="utf-8") as file:
        return [
            {name: value_of(text) for name, text in row.items() if text}
            for row in csv.DictReader(file)
        ]


def four_digits(value):
    return f"{value:.4g}" if isinstance(value, float) else value


def value_of(text):
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
