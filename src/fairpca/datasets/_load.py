"""Where data files are, whether they are the right ones, and what is in them; OpenML else."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sklearn.datasets import fetch_openml

from fairpca.datasets._registry import (
    DatasetInfo,
    Definition,
    TargetOption,
    dataset_info,
    registry,
)
from fairpca.exceptions import InvalidInputError

Fetcher = Callable[..., Any]
"""Anything with the interface of `sklearn.datasets.fetch_openml`."""


def fetch_frame(info: DatasetInfo, fetcher: Fetcher | None = None) -> Any:
    """Fetch a data set with our columns in our order, checked against our file."""
    source = info.openml
    if source is None:
        raise InvalidInputError(f"OpenML does not have {info.name!r}. {_put_file(info)}")
    fetch = fetch_openml if fetcher is None else fetcher
    frame = fetch(data_id=source.data_id, as_frame=True, parser="auto").frame
    if frame.shape != (info.rows, len(source.columns)):
        raise InvalidInputError(
            f"OpenML data set {source.data_id} has shape {frame.shape}, expected "
            f"({info.rows}, {len(source.columns)}) for {info.name!r}. {_put_file(info)}"
        )
    frame = frame.set_axis(list(source.columns), axis=1)
    for column, rule in source.rules.items():
        frame[column] = _apply_rule(frame[column], rule)
    # Text columns come as categories with gaps; the files write unknown values as "?".
    for column in frame.select_dtypes(exclude="number").columns:
        values = frame[column].astype(object)
        frame[column] = values.where(values.notna(), "?").astype(str).str.strip()
    frame = frame[[column for column in info.columns if column in source.columns]]
    found = content_digest(frame)
    if found != source.digest:
        raise InvalidInputError(
            f"OpenML data set {source.data_id} does not have the values of {info.name!r}: "
            f"digest {found}, expected {source.digest}. {_put_file(info)}"
        )
    return frame


def content_digest(frame: Any) -> str:
    """SHA-256 of the rows in any order; numbers count to six significant digits, so 1 = 1.0."""
    numeric = frame.select_dtypes("number").columns
    texts = [
        [f"{value:.6g}" for value in frame[column].astype(float)]
        if column in numeric
        else [str(value) for value in frame[column]]
        for column in frame.columns
    ]
    rows = sorted("\t".join(row) for row in zip(*texts, strict=True))
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


def _apply_rule(values: Any, rule: Any) -> Any:
    if "above" in rule:
        return (values.astype(float) > rule["above"]).astype(int)
    return values.astype(str).isin(rule["equals"]).astype(int)


def _put_file(info: DatasetInfo) -> str:
    return f"Put the original file at <FAIRPCA_DATA>/{info.file} instead."


@dataclass(frozen=True)
class DatasetStatus:
    """A data set's entry in the registry, and where its file was found, if it is here.

    Examples
    --------
    >>> from fairpca.datasets import DatasetStatus, dataset_info
    >>> DatasetStatus(dataset_info("adult"), None).present
    False
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

    ``FAIRPCA_DATA`` if set, then ``FAIRPCA_HOME`` or else the folder ``fairpca`` in scikit-learn's
    data home.

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
    """List all data sets of the registry: which are present, and which can be fetched.

    Examples
    --------
    >>> from fairpca.datasets import list_datasets
    >>> [status.name for status in list_datasets()][:3]
    ['adult', 'biodeg', 'ecoli']
    """
    return tuple(DatasetStatus(info, find_file(info)) for info in registry().values())


@dataclass(frozen=True, eq=False)
class Dataset:
    """A loaded data set.

    Parameters
    ----------
    data, sensitive_features, other : pandas.DataFrame
        Features, protected attributes (the first is the one the paper uses), and columns that are
        neither features nor labels: identifiers, filters, outcomes.
    target : pandas.Series or None
        Label, if there is one.
    name, description, origin, sha256 : str
        Name in the registry; labels, source, licence and oddities; path of the file, or
        ``openml:<number>``; checksum of the file.

    Examples
    --------
    >>> import pandas as pd
    >>> from fairpca.datasets import Dataset
    >>> frame = pd.DataFrame({"height": [1.6, 1.8], "sex": ["f", "m"]})
    >>> parts = {"description": "", "origin": "", "sha256": ""}
    >>> Dataset("people", frame[["height"]], None, frame[["sex"]], frame[[]], **parts).data.shape
    (2, 1)
    """

    name: str
    data: Any
    target: Any
    sensitive_features: Any
    other: Any
    description: str
    origin: str
    sha256: str

    def __repr__(self) -> str:
        rows, columns = self.data.shape
        label = None if self.target is None else self.target.name
        groups = ", ".join(self.sensitive_features.columns)
        return f"Dataset({self.name}: {rows} rows, {columns} features, y={label}, z={groups})"


def load_dataset(
    name: str,
    *,
    target: str | None = None,
    definition: str = "released",
    download: bool = True,
    fetcher: Fetcher | None = None,
) -> Dataset:
    """Load a data set of the registry as data frames.

    The file is looked for in `data_folders`, and its checksum is verified. Otherwise the set is
    fetched from OpenML where it is there, and its shape and content are verified.

    Parameters
    ----------
    name : str
        A name that `list_datasets` shows.
    target : str or None, default=None
        Another label than the main one: a name in ``dataset_info(name).targets``. The seven
        files whose label is a coin flip have a real feature to offer, binarised at its median
        and removed from the features.
    definition : {"released", "printed"}, default="released"
        Which columns are protected and label: as the file has it, or as fits the figures that
        the paper prints, where ``dataset_info(name).printed`` has such a reading.
    download : bool, default=True
        Whether OpenML may be asked.
    fetcher : callable, default=None
        Stands in for `sklearn.datasets.fetch_openml`.

    Raises
    ------
    FileNotFoundError
        If the set is nowhere; the message says where to put which file.
    InvalidInputError
        If name or target are unknown, or the data are not those of the registry.

    Examples
    --------
    >>> from fairpca.datasets import load_dataset
    >>> wine = load_dataset("wine_quality")  # doctest: +SKIP
    >>> wine  # doctest: +SKIP
    Dataset(wine_quality: 6497 rows, 11 features, y=quality>=6, z=white)
    """
    info = dataset_info(name)
    option = _target_option(info, target)
    _check_definition(info, definition, target)
    frame, origin = _read(info, download, fetcher)
    if definition == "printed" and info.printed is not None:
        label, sensitive, taken = _as_printed(info.printed, frame)
        taken.update(info.other)
    else:
        label, used = _label(info, option, frame)
        sensitive = frame[list(info.sensitive)]
        # Another label replaces the main one, which is then no feature either.
        taken = {info.target, used, *info.sensitive, *info.other}
    return Dataset(
        name=name,
        data=frame[[column for column in frame.columns if column not in taken]],
        target=label,
        sensitive_features=sensitive,
        other=frame[[column for column in info.other if column in frame.columns]],
        description=info.description,
        origin=origin,
        sha256=info.sha256,
    )


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError(
            "data sets are data frames and need pandas: pip install pandas"
        ) from error
    return pandas


def _target_option(info: DatasetInfo, target: str | None) -> TargetOption | None:
    if target is None or target == info.target:
        return None
    for option in info.targets:
        if option.name == target:
            return option
    known = [info.target, *(option.name for option in info.targets)]
    raise InvalidInputError(
        f"{info.name!r} has no label {target!r}; choose from {[n for n in known if n]}."
    )


def _check_definition(info: DatasetInfo, definition: str, target: str | None) -> None:
    if definition not in ("released", "printed"):
        raise InvalidInputError(f"definition must be 'released' or 'printed', not {definition!r}.")
    if definition == "printed" and info.printed is None:
        raise InvalidInputError(
            f"{info.name!r} has no definition 'printed': the file as released agrees with the "
            "paper, or no other reading is known. Use definition='released'."
        )
    if definition == "printed" and target is not None:
        raise InvalidInputError("definition='printed' has its own label: leave target out.")


def _as_printed(reading: Definition, frame: Any) -> tuple[Any, Any, set[str | None]]:
    """Label, protected attribute and the columns that are no features."""
    label = _above(frame[reading.target], reading.target_above)
    sensitive = _above(frame[reading.sensitive], reading.above).to_frame()
    return label, sensitive, {reading.target, reading.sensitive, *reading.left_out}


def _above(values: Any, threshold: float | None) -> Any:
    if threshold is None:
        return values
    return (values > threshold).astype(int).rename(f"{values.name}>{threshold:g}")


def _read(info: DatasetInfo, download: bool, fetcher: Fetcher | None) -> tuple[Any, str]:
    pandas = _pandas()
    path = find_file(info)
    if path is not None:
        check_file(info, path)
        return _read_file(pandas, info, path), str(path)
    if download and info.openml is not None:
        try:
            return fetch_frame(info, fetcher), f"openml:{info.openml.data_id}"
        except OSError as error:  # no network, or OpenML does not answer
            raise _missing(info, f"OpenML could not be reached ({error})") from error
    reason = "downloading is switched off" if info.openml else "OpenML does not have it"
    raise _missing(info, reason)


def _read_file(pandas: Any, info: DatasetInfo, path: Path) -> Any:
    header = None if info.separator == " " else 0
    frame = pandas.read_csv(
        path,
        sep=info.separator,
        header=header,
        names=list(info.columns),
        compression="gzip",
        low_memory=False,
    )
    if len(frame) != info.rows:
        raise InvalidInputError(f"{path} has {len(frame)} rows, expected {info.rows}.")
    return frame


def _missing(info: DatasetInfo, reason: str) -> FileNotFoundError:
    places = " or ".join(str(folder / info.file) for folder in data_folders())
    return FileNotFoundError(
        f"data set {info.name!r} is not here and {reason}. Put its file at {places}, or set "
        f"FAIRPCA_DATA to the folder that holds {info.file}. Source: {info.source}. "
        f"SHA-256: {info.sha256}."
    )


def _label(info: DatasetInfo, option: TargetOption | None, frame: Any) -> tuple[Any, str | None]:
    if option is None:
        if info.target is None:
            return None, None
        if info.target not in frame.columns:
            choices = [choice.name for choice in info.targets]
            raise InvalidInputError(
                f"OpenML does not have the label {info.target!r} of {info.name!r}; pass "
                f"target= one of {choices}."
            )
        return frame[info.target], info.target
    values = frame[option.column]
    if option.rule == "above median":
        values = (values > values.median()).astype(int)
    elif option.rule == "positive":
        values = (values > 0).astype(int)
    return values.rename(option.name), option.column
