"""``fairpca audit``: what the columns of a table give away about protected attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from fairpca._choices import FAMILIES
from fairpca.cli._compare import to_json
from fairpca.cli._messages import add_note, collected_notes, print_notes
from fairpca.cli._progress import Stages
from fairpca.cli._render import print_audit
from fairpca.cli._table import open_asked
from fairpca.metrics import audit
from fairpca.moments import GroupMoments


def run_audit(data: tuple[str, ...], given: dict[str, Any]) -> None:
    """Read the rows, measure them by every family asked for, and show the figures."""
    notes: list[str] = []
    with Stages(enabled=not given["quiet"]) as stages, collected_notes(notes):
        stages.begin("reading")
        asked = open_asked(data, given)
        stages.begin(f"reading {asked.name}")
        rows = asked.table.rows(asked.roles)
        names = rows.feature_names or ()
        notes += asked.encoding_notes(names)
        if given["standardize"]:
            mean, scale = GroupMoments.from_rows(rows).standardization()
            rows = rows.with_features((rows.X - mean) / scale)
        stages.begin(f"measuring {len(rows)} rows, {len(names)} features")
        report = audit(
            rows,
            families=given["families"] or FAMILIES,
            n_permutations=given["permutations"],
            slow_permutations=given["slow_permutations"],
            cross_fit=not given["no_cross_fit"],
            confidence=given["confidence"],
            max_samples=given["max_samples"],
            random_state=given["seed"],
            progress=stages,
        ).to_dict()
    for entry in report["delta"]:
        if entry["note"]:
            add_note(notes, f"{entry['family']}, {entry['method']}: {entry['note']}")
    print_notes(notes)
    n_rows, standardized = report["n_rows"], given["standardize"]
    if given["as_json"]:
        document = {
            "data": asked.as_dict(n_rows, names, standardized),
            "options": _options(given),
            **report,
            "notes": notes,
        }
        click.echo(to_json("audit", document))
    elif not given["quiet"]:
        print_audit(report, asked.heading(n_rows, len(names), standardized))


def _options(given: Mapping[str, Any]) -> dict[str, Any]:
    names = ("permutations", "slow_permutations", "confidence", "max_samples", "seed")
    return {
        **{name: given[name] for name in names},
        "families": given["families"] or FAMILIES,
        "cross_fit": not given["no_cross_fit"],
    }
