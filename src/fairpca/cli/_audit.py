"""``fairpca audit``: how well classifiers predict protected attributes from columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click
import numpy as np

from fairpca.cli import INTERRUPTED
from fairpca.cli._console import Stages, add_note, collected_notes, print_notes
from fairpca.cli._request import TableRequest, audit_settings, parse_request
from fairpca.cli._show import print_audit, to_json
from fairpca.exceptions import AuditInterrupted
from fairpca.metrics import audit
from fairpca.metrics._audit_report import cut_in_a_line
from fairpca.moments import GroupMoments
from fairpca.rows import UNKNOWN_GROUP, Rows
from fairpca.rows._missing import MISSING_GROUP

_NAMES = {"n_permutations": "permutations", "random_state": "seed"}  # as on the command line


def run_audit(data: tuple[str, ...], options: dict[str, Any]) -> int:
    """Read the rows, measure, show the figures and return the exit code."""
    notes: list[str] = []
    code, standardized = 0, options["standardize"]
    with Stages(enabled=not options["quiet"]) as stages, collected_notes(notes):
        stages.begin("reading")
        request = parse_request(data, options)
        stages.begin(f"reading {request.name}")
        rows, measured = read_measured(request, options)
        names = rows.feature_names or ()
        notes += request.encoding_notes(names)
        if standardized:
            rows = _standardize(rows, measured)
        stages.begin(f"measuring {len(rows)} rows, {len(names)} features")
        settings = audit_settings(options, request)
        try:
            report = audit(rows, progress=stages, **settings, **measured).to_dict()
        except AuditInterrupted as stopped:
            report, code = stopped.report.to_dict(), INTERRUPTED
    if code:
        add_note(notes, "interrupted: these are the figures that were ready by then.")
    for entry in report["delta"]:
        if entry["note"]:
            add_note(notes, f"{entry['family']}, {entry['method']}: {entry['note']}")
    if report["cut"]:
        add_note(notes, f"cut to keep to the budget: {cut_in_a_line(report['cut'])}.")
    print_notes(notes, options)
    n_rows = report["n_rows"]
    if options["as_json"]:
        document = {
            "data": request.as_dict(n_rows, names, standardized),
            "options": {
                **{_NAMES.get(name, name): value for name, value in settings.items()},
                "positive": options["positive"],
            },
            **report,
            "interrupted": bool(code),
            "notes": notes,
        }
        click.echo(to_json("audit", document))
    elif not options["quiet"]:
        print_audit(report, request.heading(n_rows, len(names), standardized))
    return code


def read_measured(request: TableRequest, options: dict[str, Any]) -> tuple[Rows, dict[str, Any]]:
    """Read rows, and decisions and original features as `audit` takes them."""
    leave_out = options["leave_out_unknown"]
    names = dict.fromkeys((*request.measured.values(), *request.original))
    roles = replace(request.roles, missing_groups="own") if leave_out else request.roles
    rows, others = request.table.rows_with(roles, names)
    columns = {name: others.column(name).to_numpy() for name in names}
    measured: dict[str, Any] = {}
    if request.measured:
        decisions = {part: columns[name] for part, name in request.measured.items()}
        measured["decisions"] = {**decisions, "positive": options["positive"]}
    if request.original:
        numbers = [_as_numbers(name, columns[name]) for name in request.original]
        measured["original"] = np.column_stack(numbers)
    return _mark_unknown(rows) if leave_out else rows, measured


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


def _standardize(rows: Rows, measured: dict[str, Any]) -> Rows:
    """Scale features and originals, in place: a large table leaves no memory for a copy."""
    mean, scale = GroupMoments.from_rows(rows).standardization()
    rows.X[...] -= mean
    rows.X[...] /= scale
    rows = rows.with_features(rows.X)
    if "original" in measured:
        originals = GroupMoments.from_rows(rows.with_features(measured["original"]))
        measured["original"] /= originals.standardization().scale
    return rows
