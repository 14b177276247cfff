"""The one way to write a file: beside its place, then moved there in one step."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import json
import math
import os
import sys
import tempfile
import tokenize
import uuid
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from fairpca.exceptions import InvalidInputError


@contextmanager
def replacing(path: str | os.PathLike[str], filesystem: Any = None) -> Iterator[Any]:
    """Yield a place beside `path`; what is written there replaces it, or is gone after an error."""
    # Without a file system an empty local file; a link is followed, so that what it points at is
    # replaced and not the link. In an Arrow file system a name, for a file or a directory. It is
    # new each time, so that several writers of one path do not meet.
    if filesystem is not None:
        with _replacing_in(filesystem, os.fspath(path)) as name:
            yield name
        return
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


@contextmanager
def _replacing_in(filesystem: Any, path: str) -> Iterator[str]:
    """As `replacing`; where two directories cannot change places, the old one makes room first."""
    folder, _, name = path.rpartition("/")
    names = (f".{name}.{uuid.uuid4().hex[:8]}.part" for _ in range(2))
    beside, old = (f"{folder}/{hidden}" if folder else hidden for hidden in names)
    try:
        yield beside
        is_directory = filesystem.get_file_info(path).type.name == "Directory"
        if is_directory and _exchanged(filesystem, beside, path):
            return
        if is_directory:  # files are replaced in one step
            filesystem.move(path, old)
        try:
            filesystem.move(beside, path)
        except BaseException:
            if is_directory:
                filesystem.move(old, path)
            raise
        _remove(filesystem, old)
    finally:
        _remove(filesystem, beside)


def _exchanged(filesystem: Any, one: str, other: str) -> bool:
    """Let two local directories change places in one step, where the system can."""
    if filesystem.type_name != "local" or not sys.platform.startswith("linux"):
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):  # an old C library
        return False
    found = rename(here, os.fsencode(one), here, os.fsencode(other), exchange)
    return bool(found == 0)  # some file systems cannot


def _remove(filesystem: Any, path: str) -> None:
    kind = filesystem.get_file_info(path).type.name
    if kind != "NotFound":
        (filesystem.delete_dir if kind == "Directory" else filesystem.delete_file)(path)


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
        with Path(path).open("rb") as handle, _sound_places():
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
    OverflowError,
    RecursionError,  # JSON nested a thousand times
    MemoryError,  # an array that says it is larger than the file
    zipfile.BadZipFile,
    zlib.error,
    SyntaxError,  # NumPy reads the header of an array as Python
    tokenize.TokenError,
)
"""What NumPy, JSON and zip raise where a file is not what it should be."""


@contextmanager
def _sound_places() -> Iterator[None]:
    """Turn a place before the beginning of a file, which the system refuses, into a ValueError."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise ValueError("a member lies outside the file") from error


def _check_members(handle: IO[bytes]) -> None:
    """Refuse what could fill the memory from a small file: ours are not packed, nor overlap."""
    # Two members of one place in the file would be read twice, a thousand a thousand times.
    with zipfile.ZipFile(handle) as archive:
        members = archive.infolist()
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise ValueError("packed members")
    if sum(member.file_size for member in members) > handle.seek(0, os.SEEK_END):
        raise ValueError("members larger than the file")
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
