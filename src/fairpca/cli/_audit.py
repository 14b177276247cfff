"""``fairpca audit``: what the columns of a table give away about protected attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import click
import numpy as np

from fairpca._choices import ADVERSARIES, FAMILIES
from fairpca.cli import INTERRUPTED
from fairpca.cli._messages import add_note, collected_notes, print_notes
from fairpca.cli._progress import Stages
from fairpca.cli._render import to_json
from fairpca.cli._render_audit import print_audit
from fairpca.cli._table import Asked, open_asked, read_reference
from fairpca.exceptions import AuditInterrupted
from fairpca.metrics import AuditReport, audit
from fairpca.metrics._budget import cut_in_a_line
from fairpca.moments import GroupMoments
from fairpca.rows import UNKNOWN_GROUP, Rows
from fairpca.rows._missing import MISSING_GROUP

_SAME = ("joint", "min_group", "budget", "slow_permutations", "confidence", "max_samples")


def run_audit(data: tuple[str, ...], given: dict[str, Any]) -> int:
    """Read the rows, measure what is asked for, show the figures and return the exit code."""
    notes: list[str] = []
    with Stages(enabled=not given["quiet"]) as stages, collected_notes(notes):
        stages.begin("reading")
        asked = open_asked(data, given)
        stages.begin(f"reading {asked.name}")
        rows, judged = read_judged(asked, leave_out=given["leave_out_unknown"])
        names = rows.feature_names or ()
        notes += asked.encoding_notes(names)
        if given["standardize"]:
            mean, scale = GroupMoments.from_rows(rows).standardization()
            rows.X[...] -= mean  # in place: a table as large as memory allows has no room for two
            rows.X[...] /= scale
            rows = rows.with_features(rows.X)
            if "original" in judged:
                features = rows.with_features(judged["original"])
                judged["original"] /= GroupMoments.from_rows(features).standardization().scale
        stages.begin(f"measuring {len(rows)} rows, {len(names)} features")
        options = audit_options(given, asked)
        found, code = measured(rows, stages, {**options, **judged})
    report = found.to_dict()
    if code:
        add_note(notes, "interrupted: these are the figures that were ready by then.")
    for entry in report["delta"]:
        if entry["note"]:
            add_note(notes, f"{entry['family']}, {entry['method']}: {entry['note']}")
    if report["cut"]:
        add_note(notes, f"cut to keep to the budget: {cut_in_a_line(report['cut'])}.")
    if not given["no_notes"]:
        print_notes(notes)
    n_rows, standardized = report["n_rows"], given["standardize"]
    if given["as_json"]:
        document = {
            "data": asked.as_dict(n_rows, names, standardized),
            "options": _said(options),
            **report,
            "interrupted": bool(code),
            "notes": notes,
        }
        click.echo(to_json("audit", document))
    elif not given["quiet"]:
        print_audit(report, asked.heading(n_rows, len(names), standardized))
    return code


def read_judged(asked: Asked, *, leave_out: bool = False) -> tuple[Rows, dict[str, Any]]:
    """Read rows with decisions, scores and labels; `leave_out` makes missing groups unknown."""
    names = dict.fromkeys((*asked.judged.values(), *asked.original))
    roles = replace(asked.roles, missing_groups="own") if leave_out else asked.roles
    rows, beside = asked.table.rows_with(roles, names)
    if leave_out:
        rows = _unknown(rows)
    found = {part: beside.column(name).to_numpy() for part, name in asked.judged.items()}
    if asked.original:
        columns = [_numbers(name, beside.column(name).to_numpy()) for name in asked.original]
        found["original"] = np.column_stack(columns)
    return rows, found


def _unknown(rows: Rows) -> Rows:
    groups = rows.groups
    if groups is None:
        return rows
    columns = []
    for column in groups.categorical:
        levels = [UNKNOWN_GROUP if level == MISSING_GROUP else level for level in column.levels]
        columns.append(replace(column, levels=tuple(levels)))
    return replace(rows, groups=replace(groups, categorical=tuple(columns)))


def _numbers(name: str, column: Any) -> Any:
    try:
        return column.astype(np.float64)
    except (TypeError, ValueError):
        raise click.ClickException(f"--original {name}: not a column of numbers.") from None


def audit_options(given: Mapping[str, Any], asked: Asked) -> dict[str, Any]:
    """Return the arguments of `audit` for what was asked."""
    reference = read_reference(given["reference"], asked.roles.sensitive)
    if given["label"] and not given["decision"]:
        raise click.UsageError("--label says what was true of a decision: give --decision as well.")
    return {
        **{name: given[name] for name in _SAME},
        "families": given["families"] or FAMILIES,
        "adversaries": [a for a in given["adversaries"] or ADVERSARIES if a != "none"],
        "compare": given["compare"] or ("pairs" if reference is None else "reference"),
        "reference": reference,
        "n_permutations": given["permutations"],
        "cross_fit": not given["no_cross_fit"],
        "random_state": given["seed"],
        "positive": given["positive"],
    }


def measured(rows: Rows, stages: Stages, options: Mapping[str, Any]) -> tuple[AuditReport, int]:
    """Audit rows; after an interrupt return what was done by then, and its exit code."""
    try:
        return audit(rows, progress=stages, **options), 0
    except AuditInterrupted as stopped:
        return stopped.report, INTERRUPTED


def _said(options: Mapping[str, Any]) -> dict[str, Any]:
    """Name the options as the command line does."""
    renamed = {"n_permutations": "permutations", "random_state": "seed"}
    return {renamed.get(name, name): value for name, value in options.items()}
