"""What is known about every data set, read from registry.toml."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from fairpca.exceptions import InvalidInputError


@dataclass(frozen=True)
class TargetOption:
    """A second choice of label.

    Parameters
    ----------
    name : str
        What to pass as ``target=`` to `load_dataset`.
    column : str
        Column it is made of; it is removed from the features.
    rule : {"above median", "positive", "as is"}
        How the column becomes a label.
    meaning : str
        What the label says.
    """

    name: str
    column: str
    rule: str
    meaning: str


@dataclass(frozen=True)
class Definition:
    """Another reading of a file: what is protected, what is the label, what is left out.

    Parameters
    ----------
    sensitive : str
        Column of the protected attribute; it is no feature.
    above : float or None
        Protected means above this value; None: the column as it is.
    target : str
        Column of the label; it is no feature either.
    target_above : float or None
        The label says whether the column is above this value; None: the column as it is.
    left_out : tuple of str
        Further columns that are no features.
    evidence : str
        Why this reading, and how firm it is.
    """

    sensitive: str
    target: str
    evidence: str
    above: float | None = None
    target_above: float | None = None
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class OpenMLSource:
    """How to build the file's columns from a data set on OpenML.

    Parameters
    ----------
    data_id : int
        Number of the data set on OpenML.
    columns : tuple of str
        Our name for each of its columns, in its order.
    digest : str
        SHA-256 of the rows in canonical form, whatever their order.
    rules : mapping of str to dict
        Columns that become 0/1: ``{"above": number}`` or ``{"equals": [values]}``.
    absent : tuple of str
        Columns of the file that OpenML does not have.
    """

    data_id: int
    columns: tuple[str, ...]
    digest: str
    rules: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    absent: tuple[str, ...] = ()


@dataclass(frozen=True)
class DatasetInfo:
    """One entry of the registry.

    Parameters
    ----------
    name, title : str
        Short name for `load_dataset` and a title for people.
    file : str
        Path below the data folder.
    sha256 : str
        Checksum of that (compressed) file.
    rows : int
        Number of rows.
    columns : tuple of str
        All columns in the order of the file.
    sensitive : tuple of str
        Protected attributes; the first is the one the paper uses.
    licence, source : str
        Terms of use and origin.
    notes : tuple of str
        Everything odd about the data.
    meaning : mapping of str to str
        What the labels and protected attributes say.
    target : str or None
        Column of the main label, if there is one.
    other : tuple of str
        Columns that are neither features nor labels: identifiers, filters, outcomes.
    targets : tuple of TargetOption
        Further labels to choose from.
    printed : Definition or None
        The reading that fits what the paper prints, where the file as released does not.
    separator : str
        Separator of the file; a blank means: without header.
    openml : OpenMLSource or None
        How to get it from OpenML.

    Examples
    --------
    >>> from fairpca.datasets import dataset_info
    >>> info = dataset_info("magic")
    >>> info.rows, len(info.features), info.sensitive
    (19020, 10, ('classIsGamma?',))
    """

    name: str
    title: str
    file: str
    sha256: str
    rows: int
    columns: tuple[str, ...]
    sensitive: tuple[str, ...]
    licence: str
    source: str
    notes: tuple[str, ...]
    meaning: Mapping[str, str]
    target: str | None = None
    other: tuple[str, ...] = ()
    targets: tuple[TargetOption, ...] = ()
    printed: Definition | None = None
    separator: str = ","
    openml: OpenMLSource | None = None

    @property
    def features(self) -> tuple[str, ...]:
        """Columns that are features for the main label."""
        taken = {self.target, *self.sensitive, *self.other}
        return tuple(column for column in self.columns if column not in taken)

    @property
    def description(self) -> str:
        """Title, labels, protected attributes, source, licence and oddities as text."""
        lines = [f"{self.title} ({self.name}): {self.rows} rows, {len(self.features)} features."]
        if self.target is not None:
            lines.append(f"Label {self.target}: {self.meaning[self.target]}.")
        lines += [f"Other label, target={t.name!r}: {t.meaning}." for t in self.targets]
        lines += [f"Protected attribute {c}: {self.meaning[c]}." for c in self.sensitive]
        if self.printed is not None:
            lines.append(f"As printed, definition='printed': {self.printed.evidence}")
        lines += [f"Source: {self.source}.", f"Licence: {self.licence}."]
        return "\n".join([*lines, *(f"Note: {note}" for note in self.notes)])


@cache
def registry() -> Mapping[str, DatasetInfo]:
    """All entries by name, in the order of the file."""
    text = files("fairpca.datasets").joinpath("registry.toml").read_text(encoding="utf-8")
    raw = tomllib.loads(text)
    prepared = raw.pop("prepared")
    return MappingProxyType({name: _entry(name, {**prepared, **raw[name]}) for name in raw})


def dataset_info(name: str) -> DatasetInfo:
    """Look up what is known about a data set, whether or not its file is here.

    Parameters
    ----------
    name : str
        A name that `list_datasets` shows.

    Returns
    -------
    DatasetInfo
        Its entry in the registry.

    Raises
    ------
    InvalidInputError
        If there is no such data set; the message suggests names.

    Examples
    --------
    >>> from fairpca.datasets import dataset_info
    >>> dataset_info("wine_quality").meaning["white"]
    '1 = white, 0 = red'
    """
    entries = registry()
    if name not in entries:
        close = difflib.get_close_matches(str(name), entries, n=3, cutoff=0.4)
        hint = f"Did you mean {' or '.join(close)}?" if close else "See list_datasets()."
        raise InvalidInputError(f"there is no data set called {name!r}. {hint}")
    return entries[name]


def _entry(name: str, raw: dict[str, Any]) -> DatasetInfo:
    values = _frozen(raw)
    values["source"] = raw["source"].format(title=raw["title"].removesuffix(", prepared"))
    values["targets"] = tuple(TargetOption(**option) for option in raw.get("targets", ()))
    if "printed" in raw:
        values["printed"] = Definition(**_frozen(raw["printed"]))
    if "openml" in raw:
        absent = raw["openml"].get("absent", ())
        same = tuple(column for column in raw["columns"] if column not in absent)
        values["openml"] = OpenMLSource(**{"columns": same, **_frozen(raw["openml"])})
    return DatasetInfo(name=name, **values)


def _frozen(table: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(v) if isinstance(v, list) else v for key, v in table.items()}
