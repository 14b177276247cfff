"""The one way to write a file: at a temporary path, then moved to its place in one step."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import tempfile
import tokenize
import uuid
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from fairpca.exceptions import InvalidInputError

VERSION = 1
"""Of the format of all files that hold a header and arrays."""

Content = TypeVar("Content")


@contextmanager
def replacing(path: str | os.PathLike[str], filesystem: Any = None) -> Iterator[Any]:
    """Yield a temporary path; what is written there replaces `path`, or is gone after an error."""
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
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(_mode(target))
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _replacing_in(filesystem: Any, path: str) -> Iterator[str]:
    """As `replacing`; a directory cannot be replaced in one step, so the old one is moved first."""
    folder, _, name = path.rpartition("/")
    names = (f".{name}.{uuid.uuid4().hex[:8]}.part" for _ in range(2))
    temporary, old = (f"{folder}/{hidden}" if folder else hidden for hidden in names)
    try:
        yield temporary
        is_directory = filesystem.get_file_info(path).type.name == "Directory"
        if is_directory:  # files are replaced in one step
            filesystem.move(path, old)
        try:
            filesystem.move(temporary, path)
        except BaseException:
            if is_directory:
                filesystem.move(old, path)
            raise
        _remove(filesystem, old)
    finally:
        _remove(filesystem, temporary)


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


def check_place(path: str | os.PathLike[str], parameter: str, *, force: bool = False) -> None:
    """Refuse a local file that exists, unless `force`, and places that cannot be written."""
    target, problem = Path(path), ""
    try:
        folder = target.resolve().parent
        if target.exists() and not target.is_file() and not target.is_dir():
            problem = "is a device or a pipe, not a file."
        elif not folder.is_dir():
            problem = f"cannot be written: the directory {folder.name!r} does not exist."
        else:  # what the system says of permissions is not all: a disk may be read-only
            tempfile.TemporaryFile(dir=folder).close()
    except (OSError, RuntimeError, ValueError) as error:  # links in a circle, too long a name
        problem = f"cannot be written: {getattr(error, 'strerror', None) or error}."
    if problem:
        raise InvalidInputError(f"{path} {problem}", parameter=parameter)
    if target.is_file() and not force:
        raise exists_error(path, parameter)


def exists_error(path: str | os.PathLike[str], parameter: str) -> InvalidInputError:
    """Say that there is something already where a file is to be written."""
    return InvalidInputError(
        f"{os.fspath(path)} exists already: remove it, or choose another name.",
        parameter=parameter,
        settings=[("force", True)],
    )


def npz_path(path: str | os.PathLike[str]) -> Path:
    """Return the path with ``.npz`` at its end, as it is written."""
    path = Path(path)
    return path if path.name.endswith(".npz") else path.with_name(path.name + ".npz")


def write_npz(
    path: str | os.PathLike[str],
    format: str,
    header: Mapping[str, Any],
    arrays: Mapping[str, Any],
) -> Path:
    """Write arrays with a JSON header and a checksum of both; ``.npz`` is added to other names."""
    target = npz_path(path)
    header = {"format": format, "version": VERSION, **header}
    sealed = {**header, "checksum": checksum(header, arrays)}
    with replacing(target) as temporary, temporary.open("wb") as file:
        np.savez(file, allow_pickle=False, header=np.array(json.dumps(sealed)), **arrays)
    return target


def read_npz(
    path: str | os.PathLike[str],
    format: str,
    what: str,
    unpack: Callable[[dict[str, Any], dict[str, Any]], Content],
) -> Content:
    """Read what `write_npz` wrote, as `unpack` makes it of header and arrays; `what` names it."""
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
    except (*DAMAGED, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:  # a place before the start
            raise
        raise InvalidInputError(f"{name!r} is not {what}, or it is damaged.") from None
    if header.get("version") != VERSION:
        raise InvalidInputError(
            f"{name!r} has format version {header.get('version')}, this fairpca reads version "
            f"{VERSION}: write it again, or use the fairpca that wrote it."
        )
    if header.pop("checksum", None) != checksum(header, arrays):
        raise InvalidInputError(f"{name!r} is damaged (its checksum differs): write it again.")
    try:
        return unpack(header, arrays)
    except DAMAGED as error:
        raise damaged_file(path, error) from None


def damaged_file(path: str | os.PathLike[str], error: BaseException) -> InvalidInputError:
    """Say that the content of a file cannot be used."""
    return InvalidInputError(
        f"{os.fspath(path)!r} is damaged, or of a kind that this fairpca does not know "
        f"({error}): write it again."
    )


# JSON nested a thousand times is a RecursionError, an array that says it is larger than the file a
# MemoryError, and NumPy reads the header of an array as Python.
DAMAGED = (
    *(ValueError, KeyError, TypeError, AttributeError, EOFError, OverflowError, MemoryError),
    *(NotImplementedError, RecursionError, SyntaxError, tokenize.TokenError),
    *(zipfile.BadZipFile, zlib.error),
)
"""What NumPy, JSON and zip raise where a file is not what it should be."""


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


def checksum(header: Mapping[str, Any], arrays: Mapping[str, Any]) -> str:
    """Return a digest of header and arrays."""
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
