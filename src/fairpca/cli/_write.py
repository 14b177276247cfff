"""Output files: refused before any work is done, and complete or not there at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import click

from fairpca.cli._read import kind_of


def check_output(path: Path, *, force: bool, source: Path | None) -> None:
    """Refuse an output that could not or must not be written, before computing anything.

    Parameters
    ----------
    path : Path
        Where the output is to go.
    force : bool
        Whether an existing file may be replaced.
    source : Path or None
        The input, which is never replaced.
    """
    kind_of(path)
    if path.is_dir():
        raise click.ClickException(f"--out {path} is a directory, not a file.")
    if source is not None and path.exists() and path.samefile(source):
        raise click.ClickException(f"--out {path} is the input itself: choose another name.")
    if path.exists() and not force:
        raise click.ClickException(f"--out {path} exists already: use --force to replace it.")
    folder = path.resolve().parent
    if not folder.is_dir():
        raise click.ClickException(f"--out {path}: the directory {folder.name!r} does not exist.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise click.ClickException(f"--out {path}: the directory is not writable.")


def write_table(frame: Any, path: Path, *, force: bool) -> None:
    """Write a table beside its place and move it there.

    Parameters
    ----------
    frame : pandas.DataFrame
        The table.
    path : Path
        ``.csv``, ``.csv.gz`` or ``.parquet``.
    force : bool
        Whether an existing file may be replaced.
    """
    target = path.resolve()  # a link stays a link
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    os.close(handle)
    part = Path(name)
    try:
        if kind_of(path) == "parquet":
            frame.to_parquet(part, index=False)
        else:
            packed = "gzip" if path.name.lower().endswith(".gz") else None
            frame.to_csv(part, index=False, compression=packed)
        part.chmod(_mode(target))
        if target.exists() and not force:  # it may have appeared during the fit
            raise click.ClickException(f"--out {path} exists already: use --force to replace it.")
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _mode(target: Path) -> int:
    """Permissions of the file to replace, or those of any new file."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
