"""load_dataset: from a name to features, label and protected attributes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairpca.datasets._locate import check_file, data_folders, find_file
from fairpca.datasets._openml import Fetcher, fetch_frame
from fairpca.datasets._registry import DatasetInfo, TargetOption, dataset_info
from fairpca.exceptions import InvalidInputError


@dataclass(frozen=True, eq=False)
class Dataset:
    """A loaded data set.

    Parameters
    ----------
    name : str
        Its name in the registry.
    data : pandas.DataFrame
        Features.
    target : pandas.Series or None
        Label, if there is one.
    sensitive_features : pandas.DataFrame
        Protected attributes; the first column is the one the paper uses.
    other : pandas.DataFrame
        Columns that are neither features nor labels: identifiers, filters, outcomes.
    description : str
        Meaning of the labels, source, licence and oddities.
    origin : str
        Path of the file, or ``openml:<number>``.
    sha256 : str
        Checksum of the file in the registry.
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
    download: bool = True,
    fetcher: Fetcher | None = None,
) -> Dataset:
    """Load a data set of the registry as data frames.

    The file is looked for in the folder ``FAIRPCA_DATA``, then in ``FAIRPCA_HOME`` or else in
    ``fairpca`` in scikit-learn's data home, and its checksum is verified. Otherwise the set is
    fetched from OpenML where it is there, and its shape and content are verified.

    Parameters
    ----------
    name : str
        A name that `list_datasets` shows.
    target : str or None, default=None
        Another label than the main one: a name in ``dataset_info(name).targets``. The seven
        files whose label is a coin flip have a real feature to offer, binarised at its median
        and removed from the features.
    download : bool, default=True
        Whether OpenML may be asked.
    fetcher : callable, default=None
        Stands in for `sklearn.datasets.fetch_openml`.

    Returns
    -------
    Dataset
        Features, label, protected attributes and a description.

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
    frame, origin = _read(info, download, fetcher)
    label, used = _label(info, option, frame)
    # Another label replaces the main one, which is then no feature either.
    taken = {info.target, used, *info.sensitive, *info.other}
    return Dataset(
        name=name,
        data=frame[[column for column in frame.columns if column not in taken]],
        target=label,
        sensitive_features=frame[list(info.sensitive)],
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
            "data sets are data frames and need pandas: pip install 'fairpca[cli]'"
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
