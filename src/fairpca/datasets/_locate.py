"""Where data files are looked for, and whether they are the right ones."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from fairpca.datasets._registry import DatasetInfo, registry
from fairpca.exceptions import InvalidInputError


@dataclass(frozen=True)
class DatasetStatus:
    """A data set and whether its file is here.

    Parameters
    ----------
    info : DatasetInfo
        Entry of the registry.
    path : pathlib.Path or None
        Where its file was found.
    """

    info: DatasetInfo
    path: Path | None

    @property
    def name(self) -> str:
        """Name for `load_dataset`."""
        return self.info.name

    @property
    def present(self) -> bool:
        """Whether the file was found."""
        return self.path is not None

    @property
    def fetchable(self) -> bool:
        """Whether OpenML has it."""
        return self.info.openml is not None


def data_folders() -> tuple[Path, ...]:
    """Folders in which data files are looked for, in this order.

    Returns
    -------
    tuple of pathlib.Path
        ``FAIRPCA_DATA`` if set, then ``FAIRPCA_HOME`` or else the folder ``fairpca`` in
        scikit-learn's data home.

    Examples
    --------
    >>> from fairpca.datasets import data_folders
    >>> len(data_folders()) in (1, 2)
    True
    """
    folders = []
    if given := os.environ.get("FAIRPCA_DATA"):
        folders.append(Path(given).expanduser())
    if home := os.environ.get("FAIRPCA_HOME"):
        folders.append(Path(home).expanduser())
    else:
        # The rule of sklearn.datasets.get_data_home, which would also create the folder.
        base = os.environ.get("SCIKIT_LEARN_DATA", "~/scikit_learn_data")
        folders.append(Path(base).expanduser() / "fairpca")
    return tuple(folders)


def find_file(info: DatasetInfo) -> Path | None:
    """Return the first place where the file of a data set is, or None."""
    candidates = (folder / info.file for folder in data_folders())
    return next((path for path in candidates if path.is_file()), None)


def check_file(info: DatasetInfo, path: Path) -> None:
    """Raise InvalidInputError unless the file has the checksum of the registry."""
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != info.sha256:
        raise InvalidInputError(
            f"{path} is not the file of {info.name!r}: its SHA-256 is {found}, expected "
            f"{info.sha256}. Replace it with the original, or remove it."
        )


def list_datasets() -> tuple[DatasetStatus, ...]:
    """List all data sets and where their files are.

    Returns
    -------
    tuple of DatasetStatus
        One for each entry of the registry; `present` says whether the file is here and
        `fetchable` whether it can be fetched.

    Examples
    --------
    >>> from fairpca.datasets import list_datasets
    >>> [status.name for status in list_datasets()][:3]
    ['adult', 'biodeg', 'ecoli']
    """
    return tuple(DatasetStatus(info, find_file(info)) for info in registry().values())
