"""The options of a command as a table with roles, and as settings of the library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa

from fairpca._choices import ADVERSARIES, COMPARE, DELTA_FAMILIES, FAMILIES, HELD_OUT
from fairpca.cli._console import Stages, as_typed
from fairpca.estimators import FairPCA
from fairpca.exceptions import InvalidInputError
from fairpca.rows import UNKNOWN_GROUP, Rows
from fairpca.rows._checks import MISSING_GROUP
from fairpca.rows._containers import check_names
from fairpca.rows._identifiers import check_spelling, check_words, is_large_category
from fairpca.tables import Roles, Table, open_table
from fairpca.tables._roles import is_text, possible_features, suggested_units

_GROUPS = ("sensitive", "control", "weight", "unit")
_ROLES = (*_GROUPS, "numeric", "features", "categorical", "drop")
_MAX_FOLDED = 200  # columns of which every fold holds a matrix
_COPIED = ("target", "keep", "original", "only")
_MEASURED = ("decision", "score", "label")
_OF_TABLE = ("missing", "missing_groups", "max_cells", "max_levels")
_OF_FIT = ("objective", "mean_tol", "cov_weight", "cov_tol", "solver", "joint", "min_group_size",
           "tol", "max_iter", "missing", "missing_groups", "rotation", "target_weight")  # fmt: skip
_OF_AUDIT = ("joint", "min_group", "effort", "confidence")


@dataclass(frozen=True, eq=False)
class TableRequest:
    """A table, the roles of its columns, and which text columns are one-hot `encoded` unasked."""

    table: Any  # a Table; None where only moments are known
    roles: Roles
    encoded: tuple[str, ...]
    target: tuple[str, ...]
    keep: tuple[str, ...]
    original: tuple[str, ...]  # what the features of an audit represent
    measured: dict[str, str]  # columns of decisions, scores and labels
    only: dict[str, str]  # values that the rows of an audit have
    name: str
    description: str
    # Other columns of the same rows, by the name of their table.
    against: Mapping[str, tuple[Table, tuple[str, ...]]] = field(default_factory=dict)

    def heading(
        self, n_rows: int, n_features: int, standardized: bool | str, n_held_out: int = 0
    ) -> list[str]:
        """Say what the data are, in two lines."""
        rows = f"{n_rows} fitted and {n_held_out} held-out rows" if n_held_out else f"{n_rows} rows"
        roles = self.roles
        plural = "s" if n_features > 1 else ""
        units = "standardised" if standardized else "in their own units"
        units += ", indicators by their share" if standardized == "famd" else ""
        within = f", within: {', '.join(roles.control)}" if roles.control else ""
        within += f", units: {roles.unit}" if roles.unit else ""
        within += "".join(f", only {name}={value}" for name, value in self.only.items())
        return [
            f"Data: {self.description}",
            f"{rows}, {n_features} feature{plural} ({units}), "
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
            "unit": self.roles.unit,
            "only": self.only,
            **self.measured,
        }

    def encoding_notes(self, features: Sequence[str], n_rows: int) -> list[str]:
        """Say which text became indicators, and refuse numbers that are text by mistake."""
        counts, large = [], []
        for name in self.encoded:
            levels = [f.removeprefix(f"{name}=") for f in features if f.startswith(f"{name}=")]
            check_spelling(name, levels, ("categorical", [name]))
            if self.table.kind == "csv":
                check_words(name, levels, ("categorical", [name]))
            counts.append(f"{name!r} ({len(levels)})")
            large += [name] if is_large_category(len(levels), n_rows) else []
        text = f"text columns became one indicator for each value: {', '.join(counts)}."
        if large:
            text += (
                f" In {', '.join(map(repr, large))} few rows have the same value: put the values "
                f"into classes, or leave the text out with {as_typed('drop', large)}."
            )
        return ([text] if counts else []) + self._unit_notes()

    def _unit_notes(self) -> list[str]:
        """Say which columns seem to name persons or sites: unused ones, or features by mistake."""
        roles, kinds = self.roles, pa.types
        others = {*roles.sensitive, *roles.control, roles.weight, *self.target, *self.only}
        names = [
            field.name
            for field in self.table.schema
            if kinds.is_integer(field.type) or is_text(field.type)
            if field.name not in others | {*self.measured.values(), *self.original}
        ]
        if roles.unit or not names or self.name == "query":  # which would run again
            return []
        notes = []
        for name, count, n_rows in suggested_units(self.table, roles, names):
            is_feature = " and is a feature" if name in roles.columns else ""
            notes.append(
                f"column {name!r} has {count:,} values in {n_rows:,} rows{is_feature}. If it names "
                f"persons or sites, {as_typed('units', name)} keeps their rows together in "
                "held-out figures."
            )
        return notes


def parse_request(data: tuple[str, ...], options: Mapping[str, Any]) -> TableRequest:
    """Open the files, the query or the embedded data, and settle the role of each column."""
    sql = options.get("sql")
    check_query(options, bool(data))
    if (data or sql) and not options["sensitive"]:
        raise click.UsageError("name the protected column (or columns) with --sensitive COL.")
    if (data or sql) and options.get("target_weight") and not options["target"]:
        raise click.UsageError("--target-weight needs the columns to predict: give --target COL.")
    if data:
        table = open_table(data if len(data) > 1 else data[0], **csv_marks(options))
        name = Path(data[0]).name if len(data) == 1 else f"{len(data)} paths"
        description = " ".join(data) if len(data) < 4 else f"{data[0]} and {len(data) - 1} more"
    elif sql:
        from fairpca.tables import open_query

        table = open_query(sql, options["database"])
        name, description = "query", table.name
    else:
        table, name, description = _embedded()
        defaults = {"sensitive": ("sex",), "target": ("progression",)}
        options = {**options, **{part: options.get(part) or defaults[part] for part in defaults}}
    only = read_only(options.get("only", ()), table.names)
    parts = _columns_of({**options, "only": list(only)}, table.names)
    features = _features(parts, _possible_features(table))
    known = (name for name in features if name in table.names)
    text = tuple(name for name in known if is_text(table.schema.field(name).type))
    roles = table.assign(
        parts["sensitive"],
        features=features,
        control=parts["control"],
        weight=options["weight"],
        unit=options["unit"],
        numeric=parts["numeric"],
        target=parts["target"] if options.get("target_weight") else None,
        categorical=tuple(dict.fromkeys(parts["categorical"] + text)),
        **{name: options[name] for name in _OF_TABLE},
    )
    encoded = tuple(name for name in text if name not in parts["categorical"])
    measured = {part: parts[part][0] for part in _MEASURED if parts[part]}
    copied = parts["target"], parts["keep"], parts["original"]
    against = _open_against(options, parts)
    return TableRequest(table, roles, encoded, *copied, measured, only, name, description, against)


def csv_marks(options: Mapping[str, Any]) -> dict[str, str]:
    """Return what separates fields and decimals in CSV files."""
    return {name: options[name] for name in ("separator", "decimal")}


def _open_against(
    options: Mapping[str, Any], parts: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[Table, tuple[str, ...]]]:
    """Open the tables of --against; their columns are those named as features, or all numbers."""
    tables = {}
    used = {name for part, names in parts.items() if part != "features" for name in names}
    for path in options.get("against", ()):
        if not path.exists():
            raise click.ClickException(f"--against {path}: no such file.")
        table = open_table(path, **csv_marks(options))
        names = tuple(name for name in parts["features"] if name in table.names) or tuple(
            name
            for name in _possible_features(table)
            if name not in used and not is_text(table.schema.field(name).type)
        )
        if not names:
            raise click.ClickException(f"--against {path}: there are no columns of numbers.")
        tables[path.name if path.name not in tables else str(path)] = (table, names)
    return tables


def sum_rows(
    request: TableRequest, options: Mapping[str, Any], stages: Stages, folds: int = 0
) -> Any:
    """Sum the rows by folds, unless there are too many columns."""
    wide = len(request.roles.columns) > _MAX_FOLDED
    if wide and request.roles.hold_out:
        raise InvalidInputError(
            f"figures of held-out rows need at most {_MAX_FOLDED} columns: name fewer in features.",
            parameter="hold_out",
        )
    table, roles = request.table, replace(request.roles, folds=0 if wide else folds)
    if options["engine"] == "dask":
        from fairpca.tables.dask import moments_by_dask

        return moments_by_dask(table, roles, options["scheduler"])
    if options["engine"] == "spark":
        from fairpca.tables.spark import moments_by_spark

        return moments_by_spark(table, roles, options["master"], options["quiet"])
    return table.moments(roles, progress=stages)


def check_query(options: Mapping[str, Any], has_files: bool) -> None:
    """Refuse a query without a database, and one together with files."""
    if options.get("sql") is None:
        return
    if has_files:
        raise click.UsageError("--sql reads a database and takes no files: give one of them.")
    if not options["database"]:
        raise click.UsageError("--sql needs --database, or FAIRPCA_DATABASE in the environment.")


def _embedded() -> tuple[Table, str, str]:
    """Return scikit-learn's diabetes data with the column sex."""
    from fairpca.datasets import load_diabetes_sex

    source = load_diabetes_sex()
    columns = dict(zip(source.feature_names, source.data.T, strict=True))
    columns |= {"sex": source.sensitive_features, source.target_name: source.target}
    return open_table(pa.table(columns)), "diabetes (embedded)", source.DESCR


def split_names(values: str | Sequence[str] | None, known: Sequence[str]) -> tuple[str, ...]:
    """Read ``a,b,c`` into column names; one that contains a comma is taken whole if it exists."""
    names: list[str] = []
    for value in [values] if isinstance(values, str) else values or ():
        names += [value] if value in known else [part.strip() for part in value.split(",")]
    return tuple(name for name in names if name)


def _columns_of(options: Mapping[str, Any], known: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Read the options that name columns; roles are checked where they are assigned."""
    parts = {part: split_names(options.get(part), known) for part in _ROLES + _COPIED + _MEASURED}
    for part in ("drop", *_COPIED, *_MEASURED):
        parts[part] = tuple(dict.fromkeys(parts[part]))
        check_names(parts[part], known, part)
    for part in _MEASURED:
        if len(parts[part]) > 1:
            raise click.ClickException(f"--{part} {options[part]}: name one column.")
    for part in ("features", "categorical"):
        parts[part] = tuple(dict.fromkeys(parts[part]))
    return parts


def _possible_features(table: Table) -> list[str]:
    """Leave out the column in which ``fairpca fit --hold-out`` marks rows."""
    names = possible_features(table.schema)
    marked = HELD_OUT in names and pa.types.is_boolean(table.schema.field(HELD_OUT).type)
    return [name for name in names if not (marked and name == HELD_OUT)]


def _features(parts: Mapping[str, tuple[str, ...]], known: Sequence[str]) -> tuple[str, ...]:
    """Return the columns named as features, or all that are not used elsewhere."""
    chosen = parts["features"]
    if not chosen:
        others = (*_GROUPS, "target", "drop", "original", "only", *_MEASURED)
        used = {name for part in others for name in parts[part]}
        chosen = tuple(name for name in known if name not in used)
    both = [name for name in (*chosen, *parts["categorical"]) if name in parts["drop"]]
    if both:
        raise click.ClickException(f"{both[0]!r} is named by --features and by --drop.")
    if not chosen and not parts["categorical"]:
        raise click.ClickException("no feature columns are left: name some with --features.")
    return chosen


def read_only(values: Sequence[str], known: Sequence[str]) -> dict[str, str]:
    """Read ``COLUMN=VALUE``; the column is checked where all columns are."""
    pairs = {}
    for text in values:
        column, equals, value = text.partition("=")
        for name in known:
            if text.startswith(f"{name}=") and len(name) > len(column):
                column, value = name, text[len(name) + 1 :]
        if not equals:
            raise click.BadParameter(
                f"{text!r}: write COLUMN=VALUE, such as held_out=true.", param_hint="'--only'"
            )
        pairs[column] = value
    return pairs


def read_reference(values: Sequence[str], sensitive: Sequence[str]) -> str | dict[str, str] | None:
    """Read ``LEVEL`` or ``COLUMN=LEVEL``; text before = that is no column belongs to the level."""
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


def read_measured(
    data: tuple[str, ...], options: Mapping[str, Any], stages: Stages, notes: list[str]
) -> tuple[TableRequest, Rows, dict[str, Any]]:
    """Open a table; read its rows, and decisions and original features as `audit` takes them."""
    stages.begin("reading")
    request = parse_request(data, options)
    stages.begin(f"reading {request.name}")
    leave_out = options["leave_out_unknown"]
    names = dict.fromkeys((*request.measured.values(), *request.original))
    roles = replace(request.roles, missing_groups="own") if leave_out else request.roles
    rows, others = request.table.rows_with(roles, names, request.only, request.against)
    columns = {name: others.column(name).to_numpy() for name in others.column_names}
    measured: dict[str, Any] = {}
    if request.measured:
        decisions = {part: columns[name] for part, name in request.measured.items()}
        measured["decisions"] = {**decisions, "positive": options["positive"]}
    if request.original:
        numbers = [_as_numbers(name, columns[name]) for name in request.original]
        measured["original"] = np.column_stack(numbers)
    if request.against:
        measured["against"] = {
            table: np.column_stack([columns[f"{table}: {name}"] for name in used])
            for table, (_, used) in request.against.items()
        }
    notes += request.encoding_notes(rows.feature_names or (), len(rows))
    return request, _mark_unknown(rows) if leave_out else rows, measured


def _mark_unknown(rows: Rows) -> Rows:
    groups = rows.groups
    if groups is None:
        return rows
    columns = []
    for column in groups.categorical:
        levels = [UNKNOWN_GROUP if level == MISSING_GROUP else level for level in column.levels]
        columns.append(replace(column, levels=tuple(levels)))
    return replace(rows, groups=replace(groups, categorical=tuple(columns)))


def _as_numbers(name: str, column: Any) -> Any:
    try:
        return column.astype(np.float64)
    except (TypeError, ValueError):
        raise click.ClickException(f"--original {name}: not a column of numbers.") from None


def _compared(options: Mapping[str, Any], request: TableRequest) -> dict[str, Any]:
    reference = read_reference(options["reference"], request.roles.sensitive)
    default = COMPARE[0] if reference is None else "reference"
    return {"compare": options["compare"] or default, "reference": reference}


def fit_settings(options: Mapping[str, Any], request: TableRequest) -> dict[str, Any]:
    """Return the parameters of `FairPCA`."""
    return {
        "n_components": options["components"],
        **{name: options[name] for name in _OF_FIT},
        **_compared(options, request),
        "numeric": list(request.roles.numeric) or None,
        "certify": not options["no_certify"],
        "standardize": "famd" if options["famd"] else not options["no_standardize"],
    }


def linear_model(settings: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    """Return `FairPCA`, or the estimator of --nonzero with what it shares with it."""
    if options["nonzero"] is None:
        return FairPCA(**settings)
    from fairpca.estimators import SparseFairPCA

    sparse = SparseFairPCA(feature_groups="columns" if options["by_column"] else None)
    own = {name: settings[name] for name in set(sparse.get_params()) & set(settings)}
    return sparse.set_params(n_nonzero=options["nonzero"], **own)


def delta_model(settings: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    """Return the estimator of --delta, with what it shares with `FairPCA`."""
    from fairpca.estimators import DeltaFairPCA

    known = DeltaFairPCA().get_params()
    shared = {name: value for name, value in settings.items() if name in known}
    family = options["adversary"] or DELTA_FAMILIES[0]
    return DeltaFairPCA(**shared, delta=options["delta"], family=family)


def audit_settings(options: Mapping[str, Any], request: TableRequest) -> dict[str, Any]:
    """Return the arguments of `audit`."""
    if options["label"] and not options["decision"]:
        raise click.UsageError("--label is the true outcome of a decision: give --decision too.")
    return {
        **{name: options[name] for name in _OF_AUDIT},
        "families": options["families"] or FAMILIES,
        "adversaries": [a for a in options["adversaries"] or ADVERSARIES if a != "none"],
        **_compared(options, request),
        "random_state": options["seed"],
    }
