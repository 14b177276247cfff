"""``python -m fairpca.datasets NAME FILE``: write a data set as a CSV file with a header."""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

import numpy as np

from fairpca._files import replacing
from fairpca.datasets import fetch_adult, fetch_compas, fetch_german, make_census

_FETCHED: dict[str, Any] = {"adult": fetch_adult, "compas": fetch_compas, "german": fetch_german}


def main() -> None:
    """Make or fetch a data set, and write features, protected columns and target."""
    parser = argparse.ArgumentParser(prog="python -m fairpca.datasets", description=__doc__)
    parser.add_argument("name", choices=["census", *_FETCHED], help="census is made up")
    parser.add_argument("file", type=Path, help="the CSV file to write")
    parser.add_argument("--rows", type=int, default=5000, help="of census; default 5000")
    parser.add_argument("--seed", type=int, default=0, help="of census; default 0")
    options = parser.parse_args()
    if options.file.exists():
        parser.error(f"{options.file} exists already: remove it, or choose another name.")
    try:
        fetch = _FETCHED.get(options.name)
        source = fetch() if fetch else make_census(options.rows, random_state=options.seed)
    except (OSError, ImportError, ValueError) as error:
        parser.error(str(error))
    parts = (source.data, source.sensitive_features, np.asarray(source.target)[:, None])
    columns = np.hstack([np.asarray(part, dtype=object) for part in parts])
    with replacing(options.file) as temporary, temporary.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*source.feature_names, *source.sensitive_names, source.target_name])
        writer.writerows(["" if value != value else value for value in row] for row in columns)
    print(f"{len(columns)} rows written to {options.file}: {source.DESCR}")


if __name__ == "__main__":
    main()
