"""``fairpca moments``: the sums of a table as a file, what a file holds, and files added up."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

from fairpca._choices import MIN_ROWS
from fairpca._files import check_place, npz_path
from fairpca._present import percent, shorten, visible
from fairpca.cli._console import Stages, add_note, running
from fairpca.cli._request import TableRequest, parse_request, sum_rows
from fairpca.exceptions import InvalidInputError
from fairpca.moments import GroupMoments
from fairpca.tables import Roles

# Options of a fit that need rows, and so have no meaning where there are only sums.
_OF_ROWS = ("sensitive", "control", "numeric", "features", "drop", "target", "weight", "unit",
            "categorical", "sql", "engine", "hold_out", "delta", "out", "keep")  # fmt: skip
_UNITS = 30.0  # ratio of the deviations of a column that other units would explain


def run_moments(data: tuple[str, ...], options: dict[str, Any]) -> None:
    """Sum the rows of a table into a file; or say what a file holds."""
    if options["show"] is not None:
        if data or options["out"] is not None:
            raise click.UsageError("--show reads a file of moments: give neither DATA nor --out.")
        click.echo("\n".join(map(visible, describe(GroupMoments.load(options["show"])))))
        return
    if not data and not options["sql"]:
        raise click.UsageError("name the table: files, globs or directories, or --sql.")
    if options["out"] is None:
        raise click.UsageError("give --out FILE, where the moments go, or --show FILE.")
    check_place(npz_path(options["out"]), "out", force=options["force"])
    with running(options) as (stages, notes):
        stages.begin("reading")
        request = parse_request(data, {**options, "target_weight": bool(options["target"])})
        stages.begin(f"summing {request.name}")
        moments = sum_rows(request, options, stages)
        notes += request.encoding_notes(moments.feature_names or (), moments.n_samples)
        if request.roles.unit:
            add_note(notes, f"sums do not know units: a forecast from the file counts rows, and is "
                     f"too good if those of one {request.roles.unit} are alike.")  # fmt: skip
        limits = {name: options[name] for name in ("min_rows", "merge_small")}
        path = moments.save(options["out"], **limits)
    if not options["quiet"]:
        lines = (*describe(GroupMoments.load(path)), f"Moments written to {path}")
        click.echo("\n".join(map(visible, lines)))


def describe(moments: GroupMoments) -> list[str]:
    """Say in words what moments hold, and what they show of the rows."""
    names = moments.feature_names or tuple(f"x{i}" for i in range(moments.n_features))
    cells = [cell.n_rows for cell in moments.table.cells.values()]
    lines = [
        f"Sums of {moments.n_samples:,} rows in {len(cells)} cells; no row is in the file.",
        f"Features ({len(names)}): {', '.join(map(shorten, names))}",
    ]
    for name in moments.table.key_names:
        word = "Strata" if name in moments.controls else "Groups"
        counts = [f"{level} {count:,}" for level, count in moments.counts(name).items()]
        lines.append(f"{word} of {name}: {', '.join(map(shorten, counts))}")
    lines += [f"Number of each row: {name}" for name in moments.numeric_attributes]
    if (target := moments.target_moments()) is not None:
        pairs = (n if label is None else f"{n}={label}" for n, label in moments.table.targets)
        columns = ", ".join(map(shorten, pairs))
        lines.append(f"Targets, with their sums: {columns} ({target.n_rows:,} rows)")
    if moments.weight != moments.n_samples:
        lines.append(f"Weights: {moments.weight:,.6g} in all.")
    if shares := _missing_shares(moments):
        lines.append(f"Missing values, which count as the mean of all rows: {shares}")
    if moments.merged:
        lines.append(f"Added to other, because they had few rows: {'; '.join(moments.merged)}")
    if moments.noise is not None:
        lines.append("Noise hides single rows: epsilon {:g}, delta {:g}.".format(*moments.noise))
    least = min(cells, default=0)
    warning = " Sums of so few rows are nearly the rows themselves." if least < MIN_ROWS else ""
    lines.append(
        f"Smallest cell: {least:,} row{'s' * (least != 1)}.{warning} Whoever has the file learns "
        "count, mean and covariance of every cell."
    )
    return lines


def _missing_shares(moments: GroupMoments) -> str:
    return ", ".join(f"{shorten(name)} {percent(part)}" for name, part in moments.missing().items())


def read_moments(
    data: tuple[str, ...], options: Mapping[str, Any], stages: Stages, notes: list[str]
) -> tuple[GroupMoments, TableRequest]:
    """Add files of moments, and describe their sum as a table would be."""
    stray = [name for name in _OF_ROWS if options.get(name)]
    if stray:
        option = stray[0].replace("_", "-")
        raise click.UsageError(f"--{option} needs rows, and --moments has sums only: leave it out.")
    if not data:
        raise click.UsageError("--moments: name the files that fairpca moments wrote.")
    stages.begin(f"adding {len(data)} files")
    parts: dict[str, GroupMoments] = {}
    total: Any = None
    for path in data:
        if not Path(path).is_file() or path in parts:
            problem = "is named twice" if path in parts else "no such file"
            raise click.ClickException(f"{path}: {problem}.")
        parts[path] = GroupMoments.load(path)
        if parts[path].feature_names is None:
            raise click.ClickException(
                f"{path}: its features have no names. Sum a table with names."
            )
        try:
            total = parts[path] if total is None else total + parts[path]
        except InvalidInputError as error:
            raise error.at(path) from None
    for path, part in parts.items():
        for text in _differences(part, total):
            add_note(notes, f"{path}: {text}")
    if total.indicators is not None:
        add_note(notes, f"missing values count as the mean of all rows: {_missing_shares(total)}.")
    if options["target_weight"] and not total.targets:
        raise click.UsageError(
            "--target-weight: the files hold no target. Write them by fairpca moments --target COL."
        )
    columns = tuple(dict.fromkeys(total.columns or total.feature_names or ()))
    groups = {"sensitive": total.attributes, "control": total.controls}
    roles = Roles(columns, numeric=total.numeric_attributes, **groups)
    name = Path(data[0]).name if len(data) == 1 else f"{len(data)} files of moments"
    description = f"moments of {' '.join(data) if len(data) < 4 else name}"
    return total, TableRequest(None, roles, (), total.targets, (), (), {}, {}, name, description)


def _differences(part: GroupMoments, total: GroupMoments) -> list[str]:
    """Say what one holder lacks, and where its units seem to be others."""
    texts, ours, names = [], part.feature_names or (), total.feature_names or ()
    if lacking := ", ".join(shorten(name) for name in names if name not in ours):
        texts.append(f"these values do not occur and count as 0 in all its rows: {lacking}.")
    for name in total.table.key_names:
        absent = [str(level) for level in total.levels(name) if level not in part.levels(name)]
        if absent:
            texts.append(f"no rows of {name} {', '.join(map(shorten, absent))}.")
    plain = total.columns or names  # an indicator may be rare in one place
    spread = dict(zip(names, np.diag(total.pooled().covariance), strict=True))
    own = zip(ours, np.diag(part.pooled().covariance), strict=True)
    ratios = {name: spread[name] / value for name, value in own if value > 0.0 and name in plain}
    if far := ", ".join(shorten(n) for n, r in ratios.items() if not _UNITS**-2 < r < _UNITS**2):
        texts.append(f"{far}: the spread is far from that of all. Are the units alike?")
    return texts
