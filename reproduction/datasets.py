"""The paper's data sets: what registry.toml knows of them, and their files below FAIRPCA_DATA."""

from __future__ import annotations

import hashlib
import os
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pandas
from sklearn.utils import Bunch

_HERE = Path(__file__).parent

UCI = (
    "adult",
    "biodeg",
    "ecoli",
    "energy",
    "german_credit",
    "image_segmentation",
    "letter_recognition",
    "magic",
    "pima_diabetes",
    "recidivism",
    "skillcraft",
    "statlog_landsat",
    "steel_plates",
    "taiwanese_credit",
    "wine_quality",
)
"""The sets of tables 1, 3, 4 and 5; NHANES is that of table 2."""


@cache
def registry() -> dict[str, dict[str, Any]]:
    """All entries by name, in the order of the file."""
    entries = tomllib.loads((_HERE / "registry.toml").read_text(encoding="utf-8"))
    prepared = entries.pop("prepared")
    return {name: {"other": [], **prepared, **entry} for name, entry in entries.items()}


def definitions(name: str) -> tuple[str, ...]:
    """Name the readings of a file: as released, and as printed where there is such a one."""
    return ("released", "printed") if "printed" in registry()[name] else ("released",)


def find_file(name: str) -> Path | None:
    """Return the file of a data set, or None where it is not there."""
    path = Path(os.environ.get("FAIRPCA_DATA", ""), registry()[name]["file"]).expanduser()
    return path if path.is_file() else None


def check_files(names: Iterable[str]) -> None:
    """Raise FileNotFoundError if a file is missing, which is better known before hours of work."""
    missing = [name for name in names if find_file(name) is None]
    if missing:
        entry = registry()[missing[0]]
        raise FileNotFoundError(
            f"the file of {', '.join(missing)} is missing. Set FAIRPCA_DATA to the folder that "
            f"holds {entry['file']} (SHA-256 {entry['sha256']}); python -m reproduction --data "
            "lists all files."
        )


def load_dataset(name: str, definition: str = "released") -> Bunch:
    """Load a data set as data frames.

    `definition` chooses which columns are protected and label: "released", as the file has it, or
    "printed", as fits what the paper prints. `frame` holds all columns of the file.
    """
    check_files([name])
    entry, path = registry()[name], find_file(name)
    content = path.read_bytes() if path else b""
    if hashlib.sha256(content).hexdigest() != entry["sha256"]:
        raise ValueError(f"{path} is not the file of {name}: its SHA-256 is not {entry['sha256']}.")
    # Some names of wine_quality contain quotation marks.
    frame = pandas.read_csv(path, low_memory=False).rename(columns=lambda text: text.strip('"'))
    reading = entry if definition == "released" else entry["printed"]
    sensitive, target = reading["sensitive"], reading.get("target")
    columns = [sensitive] if isinstance(sensitive, str) else sensitive
    taken = {target, *columns, *entry["other"], *reading.get("left_out", ())}
    features = [column for column in frame.columns if column not in taken]
    label = None if target is None else _above(frame[target], reading.get("target_above"))
    groups = [_above(frame[column], reading.get("above")) for column in columns]
    return Bunch(
        data=frame[features],
        target=label,
        sensitive_features=pandas.concat(groups, axis=1),
        feature_names=features,
        target_name=target,
        frame=frame,
        DESCR=describe(name),
    )


def _above(values: Any, threshold: float | None) -> Any:
    if threshold is None:
        return values
    return (values > threshold).astype(int).rename(f"{values.name}>{threshold:g}")


def describe(name: str) -> str:
    """Title, labels, protected attributes, source, licence and oddities of a data set."""
    entry = registry()[name]
    title = entry["title"]
    lines = [f"{title} ({name}): {entry['rows']} rows."]
    for column, meaning in entry["meaning"].items():
        part = "Label" if column == entry.get("target") else "Protected attribute"
        lines.append(f"{part} {column}: {meaning}.")
    if "printed" in entry:
        lines.append(f"As printed: {entry['printed']['evidence']}")
    source = entry["source"].format(title=title.removesuffix(", prepared"))
    lines += [f"Source: {source}.", f"Licence: {entry['licence']}."]
    lines += [f"Note: {note}" for note in entry["notes"]]
    return "\n".join([*lines, f"File: {entry['file']}", f"SHA-256: {entry['sha256']}"])
