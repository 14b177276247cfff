"""What was typed becomes a table and the roles of its columns."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pyarrow as pa

from fairpca.rows._columns import check_names
from fairpca.tables import Roles, Table, open_query, open_table

_PARTS = ("sensitive", "control", "weight", "numeric", "features", "categorical", "drop")
_COPIED = ("target", "keep", "original")
_JUDGED = ("decision", "score", "label")


@dataclass(frozen=True, eq=False)
class Asked:
    """A table, the roles of its columns, and what was one-hot `encoded` unasked, being text."""

    table: Table
    roles: Roles
    encoded: tuple[str, ...]
    target: tuple[str, ...]
    keep: tuple[str, ...]
    original: tuple[str, ...]  # what the features of an audit represent
    judged: dict[str, str]  # columns of decisions, scores and labels
    name: str
    description: str

    def heading(self, n_rows: int, n_features: int, standardized: bool | str) -> list[str]:
        """Say what the data are, in two lines."""
        roles = self.roles
        plural = "s" if n_features > 1 else ""
        units = "standardised" if standardized else "in their own units"
        units += ", indicators by their share" if standardized == "famd" else ""
        within = f", within: {', '.join(roles.control)}" if roles.control else ""
        return [
            f"Data: {self.description}",
            f"{n_rows} rows, {n_features} feature{plural} ({units}), "
            f"protected: {', '.join(roles.sensitive)}{within}",
        ]

    def as_dict(
        self, n_rows: int, features: Sequence[str], standardized: bool | str
    ) -> dict[str, Any]:
        """Say what the data are, for machines."""
        return {
            "name": self.name,
            "n_rows": n_rows,
            "features": list(features),
            "standardized": bool(standardized),
            "sensitive": self.roles.sensitive,
            "control": self.roles.control,
            "target": self.target,
            "weight": self.roles.weight,
            **self.judged,
        }

    def encoding_notes(self, features: Sequence[str]) -> list[str]:
        """Say which text became indicators, and refuse numbers that are text by mistake."""
        counts = []
        for name in self.encoded:
            levels = [f.removeprefix(f"{name}=") for f in features if f.startswith(f"{name}=")]
            words = [level for level in levels if not _is_number(level)]
            if self.table.kind == "csv" and words and 2 * len(words) <= len(levels):
                raise click.ClickException(
                    f"column {name!r} holds numbers, and text such as {words[0][:30]!r}: mend the "
                    f"cells, --drop {name}, or encode every value with --categorical {name}."
                )
            counts.append(f"{name!r} ({len(levels)})")
        if not counts:
            return []
        return [f"text columns became one indicator for each value: {', '.join(counts)}."]


def open_asked(data: tuple[str, ...], given: Mapping[str, Any]) -> Asked:
    """Open the files, or the embedded data, and settle which column plays which part."""
    sql = given.get("sql")
    check_query(given, bool(data))
    if (data or sql) and not given["sensitive"]:
        raise click.UsageError("name the protected column (or columns) with --sensitive COL.")
    for path in data:
        if not os.path.exists(path) and "://" not in path and not set("*?[") & set(path):
            raise click.ClickException(f"{path}: no such file.")
    if data:
        table = open_table(data if len(data) > 1 else data[0], separator=given["separator"])
        name = Path(data[0]).name if len(data) == 1 else f"{len(data)} paths"
        description = " ".join(data) if len(data) < 4 else f"{data[0]} and {len(data) - 1} more"
    elif sql:
        table = open_query(sql, given["database"])
        name, description = "query", table.name
    else:
        table, name, description = _embedded()
        given = {
            **given,
            "sensitive": given["sensitive"] or ("sex",),
            "target": given.get("target") or ("progression",),
        }
    parts = _parts(given, table.names)
    features = _features(parts, table.names)
    known = (name for name in features if name in table.names)
    text = tuple(name for name in known if _is_text(table.schema.field(name).type))
    roles = table.assign(
        parts["sensitive"],
        features=features,
        control=parts["control"],
        weight=given["weight"],
        numeric=parts["numeric"],
        categorical=tuple(dict.fromkeys(parts["categorical"] + text)),
        missing=given["missing"],
        missing_groups=given["missing_groups"],
        max_cells=given["max_cells"],
        max_levels=given["max_levels"],
    )
    encoded = tuple(name for name in text if name not in parts["categorical"])
    judged = {part: parts[part][0] for part in _JUDGED if parts[part]}
    copied = parts["target"], parts["keep"], parts["original"]
    return Asked(table, roles, encoded, *copied, judged, name, description)


def check_query(given: Mapping[str, Any], has_files: bool) -> None:
    """Refuse a query without a database, and one beside files."""
    if given.get("sql") is None:
        return
    if has_files:
        raise click.UsageError("--sql reads a database and takes no files: give one of them.")
    if not given["database"]:
        raise click.UsageError("--sql needs --database, or FAIRPCA_DATABASE in the environment.")


def _is_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _embedded() -> tuple[Table, str, str]:
    """Return scikit-learn's diabetes data with the column sex."""
    from fairpca.datasets import load_diabetes_sex

    source = load_diabetes_sex()
    columns = dict(zip(source.feature_names, source.data.T, strict=True))
    columns |= {"sex": source.sensitive_features, source.target_name: source.target}
    return open_table(pa.table(columns)), "diabetes (embedded)", source.DESCR


def split_names(values: str | Sequence[str] | None, known: Sequence[str]) -> tuple[str, ...]:
    """Read ``a,b,c`` into column names; one that contains a comma is taken whole if it exists.

    >>> from fairpca.cli._table import split_names
    >>> split_names(["a,b", "height, cm", "a"], ["a", "b", "height, cm"])
    ('a', 'b', 'height, cm', 'a')
    """
    names: list[str] = []
    for value in [values] if isinstance(values, str) else values or ():
        names += [value] if value in known else [part.strip() for part in value.split(",")]
    return tuple(name for name in names if name)


def _parts(given: Mapping[str, Any], known: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Read the options that name columns; those of tables are checked where roles are assigned."""
    parts = {part: split_names(given.get(part), known) for part in _PARTS + _COPIED + _JUDGED}
    for part in ("drop", *_COPIED, *_JUDGED):
        parts[part] = tuple(dict.fromkeys(parts[part]))
        check_names(parts[part], known, part)
    for part in _JUDGED:
        if len(parts[part]) > 1:
            raise click.ClickException(f"--{part} {given[part]}: name one column.")
    for part in ("features", "categorical"):
        parts[part] = tuple(dict.fromkeys(parts[part]))
    return parts


def _features(parts: Mapping[str, tuple[str, ...]], known: Sequence[str]) -> tuple[str, ...]:
    """Return the columns named as features, or all that play no other part."""
    chosen = parts["features"]
    if not chosen:
        others = ("sensitive", "control", "weight", "target", "drop", "original", *_JUDGED)
        apart = {name for part in others for name in parts[part]}
        chosen = tuple(name for name in known if name not in apart)
    both = [name for name in (*chosen, *parts["categorical"]) if name in parts["drop"]]
    if both:
        raise click.ClickException(f"{both[0]!r} is named by --features and by --drop.")
    if not chosen and not parts["categorical"]:
        raise click.ClickException("no feature columns are left: name some with --features.")
    return chosen


def read_reference(values: Sequence[str], sensitive: Sequence[str]) -> str | dict[str, str] | None:
    """Read ``LEVEL`` or ``COLUMN=LEVEL``; text before = that is no column belongs to the level.

    >>> from fairpca.cli._table import read_reference
    >>> read_reference(["white"], ["race"]), read_reference(["race=white"], ["race", "sex"])
    ('white', {'race': 'white'})
    """
    if not values:
        return None
    pairs: dict[str, str] = {}
    for value in values:
        column, _, level = value.partition("=")
        if column in sensitive and level:
            pairs[column] = level
        elif len(values) == 1 and len(sensitive) == 1:
            return value
        else:
            raise click.BadParameter(
                f"{value!r} does not say which attribute it belongs to: write COLUMN=LEVEL with "
                f"a column of --sensitive ({', '.join(sensitive)}).",
                param_hint="'--reference'",
            )
    return pairs
