"""Saving figures: PNG and SVG, the same bytes for the same data."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any


def new_figure(columns: int, rows: int = 1, *, size: tuple[float, float] = (3.4, 3.2)) -> Any:
    """Return a figure without a display; axes are added by the caller."""
    from matplotlib.figure import Figure

    return Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")


def save_figure(figure: Any, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and SVG, each at once; return the files."""
    from matplotlib import rc_context

    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for kind in ("png", "svg"):
        buffer = io.BytesIO()
        # Without a date and with fixed identifiers the same data give the same file.
        with rc_context({"svg.hashsalt": "fairpca"}):
            metadata = {"Date": None} if kind == "svg" else {"Software": None}
            figure.savefig(buffer, format=kind, dpi=150, metadata=metadata)
        path = folder / f"{name}.{kind}"
        partial = path.with_name(f".part-{path.name}")
        partial.write_bytes(buffer.getvalue())
        os.replace(partial, path)
        paths.append(path)
    return paths
