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


@dataclass(frozen=True)
class DataFile:
    """One file of a table.

    Parameters
    ----------
    path : str
        Its path in its file system, which is also how messages name it.
    relative : str
        Its path below the directory given, or its name.
    filesystem : pyarrow.fs.FileSystem
        Where it lies.
    size : int
        Bytes.
    modified : int or None
        Time of the last change in nanoseconds, where the file system knows it.
    keys : pyarrow.Schema
        Names and types of the hive partition keys.
    values : dict
        Their values for this file.
    """

    path: str
    relative: str
    filesystem: Any
    size: int
    modified: int | None
    keys: Any = field(default_factory=lambda: pa.schema([]))
    values: dict[str, Any] = field(default_factory=dict)

    @property
    def fingerprint(self) -> list[Any]:
        """What tells a changed file from an unchanged one."""
        return [self.path, self.size, self.modified]


def find_files(source: Source, suffixes: Sequence[str], filesystem: Any = None) -> list[DataFile]:
    """List the files of a table, sorted by path.

    Parameters
    ----------
    source : str, path or iterable of them
        Files, globs (``**`` for any depth), directories (read with everything below, ``key=value``
        directories as columns), or addresses that pyarrow knows such as ``s3://bucket/table``.
    suffixes : sequence of str
        How the names of the files end; a directory without such files is read whole.
    filesystem : pyarrow or fsspec file system, optional
        Where plain paths lie; None: the local disk.

    Returns
    -------
    list of DataFile
        At least one.
    """
    if isinstance(source, str | os.PathLike):
        return _find(os.fspath(source), suffixes, filesystem)
    if not isinstance(source, Iterable):
        raise InvalidInputError(f"source={source!r}: give a path, or several.")
    files = [file for item in source for file in _find(os.fspath(item), suffixes, filesystem)]
    if not files:
        raise InvalidInputError("no files were given.")
    if len({resolved(file.filesystem, file.path) for file in files}) < len(files):
        raise InvalidInputError("a file is named more than once: its rows would count twice.")
    return files


def resolved(filesystem: Any, path: str) -> str:
    """Return a path by which a file can be told from others, however it was written.

    Parameters
    ----------
    filesystem : pyarrow.fs.FileSystem
        Where it lies.
    path : str
        Its path there.

    Returns
    -------
    str
        On the local disk absolute and without links.
    """
    if isinstance(filesystem, fs.LocalFileSystem):
        return Path(os.path.realpath(path)).as_posix()
    return path


def open_filesystem(source: str, filesystem: Any = None) -> tuple[Any, str]:
    """Return the file system of a path or address, and the path inside it.

    Parameters
    ----------
    source : str
        Path or address.
    filesystem : pyarrow or fsspec file system, optional
        Where plain paths lie.

    Returns
    -------
    filesystem : pyarrow.fs.FileSystem
        The file system.
    path : str
        The path inside it.
    """
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


def _find(source: str, suffixes: Sequence[str], filesystem: Any) -> list[DataFile]:
    system, path = open_filesystem(source, filesystem)
    try:
        info = system.get_file_info(path)
        if info.type == fs.FileType.File:
            return [_data_file(info, info.base_name, system)]
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
        raise InvalidInputError(f"{source!r} names no file: check the path.")
    files = [_data_file(item, _below(item.path, base), system) for item in infos]
    return _with_hive_keys(sorted(files, key=lambda file: file.path))


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
