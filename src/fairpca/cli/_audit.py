"""``fairpca audit``: how well classifiers predict protected attributes from columns."""

from __future__ import annotations

from typing import Any

import click

from fairpca.cli import INTERRUPTED
from fairpca.cli._console import add_note, running
from fairpca.cli._request import audit_settings, read_measured
from fairpca.cli._show import print_audit, to_json
from fairpca.exceptions import AuditInterrupted
from fairpca.metrics import audit
from fairpca.moments import GroupMoments
from fairpca.rows import Rows

_NAMES = {"random_state": "seed"}  # as on the command line


def run_audit(data: tuple[str, ...], options: dict[str, Any]) -> int:
    """Read the rows, measure, show the figures and return the exit code."""
    code, standardized = 0, options["standardize"]
    with running(options) as (stages, notes):
        request, rows, measured = read_measured(data, options, stages, notes)
        names = rows.feature_names or ()
        if standardized:
            rows = _standardize(rows, measured)
        stages.begin(f"measuring {len(rows)} rows, {len(names)} features")
        settings = audit_settings(options, request)
        try:
            report = audit(rows, progress=stages, **settings, **measured).to_dict()
        except AuditInterrupted as stopped:
            report, code = stopped.report.to_dict(), INTERRUPTED
            add_note(notes, "interrupted: these are the figures that were ready by then.")
        for entry in report["representations"][0]["in_sample"]:
            if entry["note"]:
                add_note(notes, f"{entry['statistic']}: {entry['note']}")
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


def _standardize(rows: Rows, measured: dict[str, Any]) -> Rows:
    """Scale features and originals, in place: a large table leaves no memory for a copy."""
    mean, scale = GroupMoments.from_rows(rows).standardization()
    rows.X[...] -= mean
    rows.X[...] /= scale
    rows = rows.with_features(rows.X)
    others = [measured["original"]] if "original" in measured else []
    for matrix in (*others, *measured.get("against", {}).values()):
        moments = GroupMoments.from_rows(rows.with_features(matrix))
        matrix /= moments.standardization().scale
    return rows
