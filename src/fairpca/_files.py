"""The one way to write a file: beside its place, then moved there in one step."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield an empty file beside `path`; at the end it takes its place, after an error it is gone.

    The name is new each time, so that several writers of one path do not meet, and a link is
    followed, so that what it points at is replaced and not the link.
    """
    target = Path(os.path.realpath(path))
    # The name of the target may be as long as a name may be: only its beginning is used.
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.", suffix="~")
    os.close(handle)
    beside = Path(name)
    try:
        yield beside
        beside.chmod(_mode(target))
        os.replace(beside, target)
    finally:
        with suppress(FileNotFoundError):
            beside.unlink()


def _mode(target: Path) -> int:
    """Permissions that the file has, or that a new one would get."""
    try:
        return target.stat().st_mode & 0o7777
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
