"""Finished cells on disk: one file each, written at once or not at all."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fairpca._files import replacing


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file so that it is either complete or not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as beside:
        beside.write_bytes(content.encode() if isinstance(content, str) else content)


class Store:
    """Results in a folder, by key; those made under another fingerprint do not count."""

    def __init__(self, folder: str | os.PathLike[str], fingerprint: str) -> None:
        self.folder = Path(folder)
        self.fingerprint = fingerprint

    def path(self, key: str) -> Path:
        """Name the file of a key."""
        return self.folder / (re.sub(r"[^\w.=-]+", "_", key) + ".json")

    def read(self, key: str) -> dict[str, Any] | None:
        """Return what was written under a key, or None."""
        try:
            found = json.loads(self.path(key).read_text(encoding="utf-8"))
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        fits = found.get("key") == key and found.get("fingerprint") == self.fingerprint
        return found if fits else None

    def write(self, key: str, **content: Any) -> None:
        """Write content under a key, at once."""
        document = {"key": key, "fingerprint": self.fingerprint, **content}
        write_atomically(self.path(key), json.dumps(document, indent=1))


def digest(value: Any) -> str:
    """Short hash of anything that JSON can hold."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def write_csv(path: Path, rows: Iterable[Mapping[str, Any]], columns: list[str]) -> None:
    """Write rows as CSV, at once; numbers to ten significant digits."""
    lines = [",".join(columns)]
    for row in rows:
        lines.append(",".join(_cell(row.get(column)) for column in columns))
    write_atomically(path, "\n".join(lines) + "\n")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = f"{value:.10g}" if isinstance(value, float) else str(value)
    return '"' + text.replace('"', '""') + '"' if any(c in text for c in ',"\n') else text


def read_csv(path: Path) -> list[dict[str, str]]:
    """Read rows of a CSV file as text."""
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))
