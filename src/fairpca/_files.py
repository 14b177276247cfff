"""The one way to write a file: beside its place, then moved there in one step."""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from fairpca.exceptions import InvalidInputError


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


def write_npz(
    path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, Any]
) -> Path:
    """Write arrays with a JSON header and a checksum of both; ``.npz`` is added to other names."""
    target = Path(path)
    if not target.name.endswith(".npz"):
        target = target.with_name(target.name + ".npz")
    sealed = {**header, "checksum": _checksum(header, arrays)}
    with replacing(target) as beside, beside.open("wb") as file:
        np.savez(file, allow_pickle=False, header=np.array(json.dumps(sealed)), **arrays)
    return target


def read_npz(
    path: str | os.PathLike[str], format: str, version: int, what: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read what `write_npz` wrote, up to a format version; `what` names such a file."""
    name = os.fspath(path)
    try:
        # Opened here, since NumPy leaves a damaged file open.
        with Path(path).open("rb") as handle:
            _check_members(handle)
            with np.load(handle, allow_pickle=False) as file:
                header = json.loads(str(file["header"]))
                arrays = {key: file[key] for key in file.files if key != "header"}
        if header["format"] != format:
            raise ValueError("another format")
    except DAMAGED:
        raise InvalidInputError(f"{name!r} is not {what}, or it is damaged.") from None
    if header.get("version") not in range(1, version + 1):
        known = "1" if version == 1 else f"1 to {version}"
        raise InvalidInputError(
            f"{name!r} has format version {header.get('version')}, this fairpca reads version "
            f"{known}: write it again, or use the fairpca that wrote it."
        )
    checksum = header.pop("checksum", None)  # files of 0.1.0 have none
    if checksum is not None and checksum != _checksum(header, arrays):
        raise InvalidInputError(f"{name!r} is damaged (its checksum differs): write it again.")
    return header, arrays


DAMAGED = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    EOFError,
    NotImplementedError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What NumPy, JSON and zip raise where a file is not what it should be."""


def _check_members(handle: IO[bytes]) -> None:
    """Refuse packed members: ours never are, and a small file could unpack to fill the memory."""
    with zipfile.ZipFile(handle) as archive:
        if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
            raise ValueError("packed members")
    handle.seek(0)


def _checksum(header: Mapping[str, Any], arrays: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def to_json(document: Any) -> str:
    """Write a document as ASCII JSON; NaN and infinity, which JSON does not have, become null."""
    return json.dumps(_plain(document), indent=2, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
