"""Paths, globs, directories and addresses become a list of files."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import fs

from fairpca.exceptions import InvalidInputError

Source: TypeAlias = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
"""A path, glob, directory or address, or several of them."""

_WHOLE = re.compile(r"-?(0|[1-9][0-9]*)")
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, eq=False)
class DataFile:
    """One file of a table: its path, which messages name, and its path below what was given."""

    path: str
    relative: str
    filesystem: Any
    size: int
    modified: int | None  # nanoseconds, where the file system knows it
    keys: Any = field(default_factory=lambda: pa.schema([]))  # of the hive directories
    values: dict[str, Any] = field(default_factory=dict)  # of the keys, for this file

    @property
    def fingerprint(self) -> list[Any]:
        """What tells a changed file from an unchanged one."""
        return [self.path, self.size, self.modified]


@dataclass(frozen=True)
class Listing:
    """The files of a table, whether they are one file given by name, and the directories given."""

    files: list[DataFile]
    items: tuple[str, ...]  # as they were given
    single: bool
    folders: tuple[str, ...]


def find_files(source: Source, suffixes: Sequence[str], filesystem: Any = None) -> Listing:
    """List the files of a table, sorted by path; a directory without such names is read whole."""
    # Globs know ``**``, ``key=value`` directories are columns, addresses are those of pyarrow, and
    # `filesystem` is where plain paths lie (None: the local disk).
    if isinstance(source, str | os.PathLike):
        items = [os.fspath(source)]
    elif isinstance(source, Iterable):
        items = [os.fspath(item) for item in source]
    else:
        raise InvalidInputError(f"source={source!r}: give a path, or several.", parameter="source")
    found = [_find(item, suffixes, filesystem) for item in items]
    files = [file for part, _ in found for file in part]
    if not files:
        raise InvalidInputError("no files were given.", parameter="source")
    if len({resolved(file.filesystem, file.path) for file in files}) < len(files):
        raise InvalidInputError(
            "a file is named more than once: its rows would count twice.", parameter="source"
        )
    kinds = [info.type for _, info in found]
    folders = tuple(
        resolved(part[0].filesystem, info.path)
        for part, info in found
        if info.type == fs.FileType.Directory
    )
    return Listing(files, tuple(items), kinds == [fs.FileType.File], folders)


def resolved(filesystem: Any, path: str) -> str:
    """Return a path by which a file can be told from others, however it was written."""
    if isinstance(filesystem, fs.LocalFileSystem):
        return Path(os.path.realpath(path)).as_posix()
    return path


def open_filesystem(source: str, filesystem: Any = None) -> tuple[Any, str]:
    """Return the file system of a path or address, and the path inside it."""
    if filesystem is not None:
        if not isinstance(filesystem, fs.FileSystem):
            filesystem = fs.PyFileSystem(fs.FSSpecHandler(filesystem))
        return filesystem, source.rstrip("/")
    if "://" not in source:
        return fs.LocalFileSystem(), str(PurePosixPath(Path(source).as_posix()))
    try:
        found, path = fs.FileSystem.from_uri(source)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InvalidInputError(f"{source!r} cannot be opened: {error}") from None
    return found, path


def _find(source: str, suffixes: Sequence[str], filesystem: Any) -> tuple[list[DataFile], Any]:
    """Files that one path, glob or address names, and what the file system says of it."""
    system, path = open_filesystem(source, filesystem)
    try:
        info = system.get_file_info(path)
        if info.type == fs.FileType.File:
            return [_data_file(info, info.base_name, system)], info
        if info.type == fs.FileType.Directory:
            base, infos = path, _list(system, path)
            named = [item for item in infos if item.path.lower().endswith(tuple(suffixes))]
            infos = named or infos
        elif re.search(r"[*?\[]", path):
            base, infos = _match(system, path)
        else:
            base, infos = path, []
    except OSError as error:
        raise InvalidInputError(f"{source!r} cannot be listed: {error}") from None
    if not infos:
        raise InvalidInputError(f"{source!r} names no file: check the path.", parameter="source")
    files = [_data_file(item, _below(item.path, base), system) for item in infos]
    return _with_hive_keys(sorted(files, key=lambda file: file.path)), info


def _list(system: Any, path: str) -> list[Any]:
    """Files below a directory, without those that writers mean to be hidden."""
    infos = system.get_file_info(fs.FileSelector(path, recursive=True))
    return [
        info
        for info in infos
        if info.type == fs.FileType.File
        and not any(part.startswith(("_", ".")) for part in _below(info.path, path).split("/"))
    ]


def _match(system: Any, pattern: str) -> tuple[str, list[Any]]:
    """Files that a glob names, below its last directory without a wildcard."""
    parts = pattern.split("/")
    first = next(index for index, part in enumerate(parts) if re.search(r"[*?\[]", part))
    base = "/".join(parts[:first]) or ("/" if pattern.startswith("/") else ".")
    regex = ""
    for part in parts[first:-1]:
        regex += "(?:.*/)?" if part == "**" else _segment(part) + "/"
    regex += ".*" if parts[-1] == "**" else _segment(parts[-1])
    if system.get_file_info(base).type != fs.FileType.Directory:
        return base, []
    found = re.compile(regex)
    return base, [info for info in _list(system, base) if found.fullmatch(_below(info.path, base))]


def _segment(part: str) -> str:
    """Regular expression of a glob between two slashes."""
    return fnmatch.translate(part).replace(".*", "[^/]*").removesuffix(r"\Z")


def _below(path: str, base: str) -> str:
    return path.removeprefix("./").removeprefix(base.removeprefix("./").rstrip("/")).lstrip("/")


def _data_file(info: Any, relative: str, system: Any) -> DataFile:
    # Some file systems do not know when a file was changed.
    return DataFile(info.path, relative, system, info.size or 0, info.mtime_ns)


def _with_hive_keys(files: list[DataFile]) -> list[DataFile]:
    """Read ``key=value`` directories; a key whose values are all whole numbers is one."""
    found = [_hive_values(file.relative) for file in files]
    names = list(dict.fromkeys(name for values in found for name in values))
    if not names:
        return files
    kinds: dict[str, Any] = {}
    for name in names:
        whole = [_WHOLE.fullmatch(text) for values in found if (text := values.get(name))]
        kinds[name] = pa.int64() if all(whole) else pa.string()
    keys = pa.schema(kinds)
    return [
        replace(
            file,
            keys=keys,
            values={
                name: int(text) if text is not None and kinds[name] == pa.int64() else text
                for name, text in values.items()
            },
        )
        for file, values in zip(files, found, strict=True)
    ]


def _hive_values(relative: str) -> dict[str, str | None]:
    pairs = [part.partition("=") for part in relative.split("/")[:-1] if "=" in part]
    return {
        unquote(name): None if value == _HIVE_NULL else unquote(value) for name, _, value in pairs
    }
