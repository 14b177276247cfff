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
    """A second choice of label, made of a column that is then no feature.

    Examples
    --------
    >>> from fairpca.datasets import dataset_info
    >>> dataset_info("biodeg").targets[0].rule
    'positive'
    """

    name: str  # what to pass as ``target=`` to `load_dataset`
    column: str
    rule: str  # "above median", "positive" or "as is": how the column becomes a label
    meaning: str


@dataclass(frozen=True)
class Definition:
    """Another reading of a file: which columns are protected, label, and left out.

    Examples
    --------
    >>> from fairpca.datasets import dataset_info
    >>> dataset_info("magic").printed.sensitive
    'fDist'
    """

    sensitive: str
    target: str
    evidence: str  # why this reading, and how firm it is
    above: float | None = None  # protected means above this value; None: the column as it is
    target_above: float | None = None  # the same for the label
    left_out: tuple[str, ...] = ()  # further columns that are no features


@dataclass(frozen=True)
class OpenMLSource:
    """How to build the file's columns from a data set on OpenML.

    Examples
    --------
    >>> from fairpca.datasets import dataset_info
    >>> dataset_info("magic").openml.data_id
    1120
    """

    data_id: int
    columns: tuple[str, ...]  # our name for each of its columns, in its order
    digest: str  # SHA-256 of the rows in canonical form, whatever their order
    # Columns that become 0/1: {"above": number} or {"equals": [values]}.
    rules: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    absent: tuple[str, ...] = ()  # columns of the file that OpenML does not have


@dataclass(frozen=True)
class DatasetInfo:
    """One entry of the registry.

    Parameters
    ----------
    name, title, licence, source : str
        Short name for `load_dataset`, title for people, terms of use and origin.
    file, sha256, rows, columns, separator
        Path below the data folder, checksum of that (compressed) file, its size and columns; a
        blank as the separator means: without header.
    sensitive, target, other
        Columns that are protected (the first is the one the paper uses), the main label, and
        neither features nor labels: identifiers, filters, outcomes.
    targets, printed : tuple of TargetOption, and Definition or None
        Further labels to choose from, and the reading that fits what the paper prints, where the
        file as released does not.
    meaning, notes : mapping of str to str, and tuple of str
        What the labels and protected attributes say, and everything odd about the data.
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
    """Look up what is known about a data set of `list_datasets`, whether or not its file is here.

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
